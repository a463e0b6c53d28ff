"""Making the next item while one is in use."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

_Item = TypeVar("_Item")


def ahead(items: Iterator[_Item]) -> Iterator[_Item]:
    """The items of an iterator, each made by a thread while one is in use.

    Two items are in memory at a time. An error of the iterator is raised
    where its item would have come.
    """
    end: Any = object()
    with ThreadPoolExecutor(1) as thread:
        following = thread.submit(next, items, end)
        while (item := following.result()) is not end:
            following = thread.submit(next, items, end)
            yield item
