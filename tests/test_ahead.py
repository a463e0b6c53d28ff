"""Items made ahead come in order, and with their errors."""

import threading

import pytest

from adaptive_gcn.ahead import ahead


def test_items_come_in_order_and_none_is_lost():
    assert list(ahead(iter([]))) == []
    assert list(ahead(iter([None, 0, ()]))) == [None, 0, ()]


def test_the_next_item_is_made_while_one_is_in_use():
    made = threading.Event()

    def items():
        yield "first"
        made.set()
        yield "second"

    taken = ahead(items())
    assert next(taken) == "first"
    assert made.wait(10)
    assert list(taken) == ["second"]


def test_an_error_comes_in_the_place_of_its_item():
    def items():
        yield 1
        raise ValueError("broken")

    taken = ahead(items())
    assert next(taken) == 1
    with pytest.raises(ValueError, match="broken"):
        next(taken)
