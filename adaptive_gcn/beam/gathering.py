"""Few large pieces of work instead of many small ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_T = TypeVar("_T")


def gathered(
    pieces: Iterable[_T], size_of: Callable[[_T], int], least: int
) -> Iterator[list[_T]]:
    """Pieces in lists of at least so much in all, but for the last list."""
    gathering: list[_T] = []
    n = 0
    for piece in pieces:
        gathering.append(piece)
        n += size_of(piece)
        if n >= least:
            yield gathering
            gathering, n = [], 0
    if gathering:
        yield gathering
