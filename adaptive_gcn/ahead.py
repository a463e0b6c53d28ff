"""Making the next item while one is in use."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

_Item = TypeVar("_Item")

# One for all: a thread keeps what it frees, as much as its largest item.
_THREAD = ThreadPoolExecutor(1, "ahead")


def ahead(items: Iterator[_Item]) -> Iterator[_Item]:
    """The items of an iterator, each made by a thread while one is in use.

    Two items are in memory at a time. An error of the iterator is raised
    where its item would have come. Items must not be made of others that are
    made ahead: there is one thread.
    """
    end: Any = object()
    following = _THREAD.submit(next, items, end)
    while (item := following.result()) is not end:
        following = _THREAD.submit(next, items, end)
        yield item
