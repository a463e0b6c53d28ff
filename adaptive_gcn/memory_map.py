"""Memory-mapped arrays: passing over one without keeping its pages.

A page of a file that was read through a mapping counts as memory of the
process for as long as the mapping lasts, though the system could take it
back. A pass over a large file therefore uses mappings of its own.
"""

from __future__ import annotations

import dataclasses
import mmap
from pathlib import Path
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class StoreFolder:
    """A folder that arrays are mapped from, see `datasets.store`.

    Attributes:
        path: The folder, absolute.
        crc32: Checksum of what it held when it was opened.
    """

    path: Path
    crc32: str

    def place_of(self, array: Any) -> list[Any] | None:
        """What tells an array from all others that are mapped from here.

        None if it is not mapped from here, or can be written to.
        """
        source = _without_views(array)
        if not _is_mapping(source) or source.mode != "r":
            return None
        file = Path(source.filename)
        if not file.is_relative_to(self.path):
            return None
        place = file.relative_to(self.path).as_posix()
        layout = (source.shape, source.strides, source.dtype.str)
        return [place, source.offset, *layout]


def _without_views(array: Any) -> Any:
    """The array that this one is a view of, as long as it is all of it."""
    while (
        isinstance(array.base, np.ndarray)
        and array.base.__array_interface__ == array.__array_interface__
    ):
        array = array.base
    return array


def _is_mapping(array: Any) -> bool:
    return isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap)


def mapped_anew(array: Any, start: int = 0, stop: int | None = None) -> Any:
    """Rows start..stop of an array, through a new mapping if it is mapped.

    Args:
        array: Anything with rows; only an array that maps the whole of a
            file's, as `np.load` returns it, is mapped anew.
        start: First row.
        stop: Row behind the last; None for all.
    """
    rows = array[start:stop]
    if not _is_mapping(array) or not rows.size or not array.flags.c_contiguous:
        return rows
    offset = array.offset + start * array.strides[0]
    return np.memmap(array.filename, array.dtype, "r", offset, rows.shape)


def release_pages(array: Any) -> None:
    """Give back what was read through an array's mapping, if it has one."""
    while array is not None and not isinstance(array, mmap.mmap):
        array = getattr(array, "base", None)
    if array is not None and hasattr(mmap, "MADV_DONTNEED"):
        array.madvise(mmap.MADV_DONTNEED)
