"""Memory-mapped arrays: passing over one without keeping its pages.

A page of a file that was read through a mapping counts as memory of the
process for as long as the mapping lasts, though the system could take it
back. A pass over a large file therefore uses mappings of its own.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np


def mapped_anew(array: Any, start: int = 0, stop: int | None = None) -> Any:
    """Rows start..stop of an array, through a new mapping if it is mapped.

    Args:
        array: Anything with rows; only an array that maps the whole of a
            file's, as `np.load` returns it, is mapped anew.
        start: First row.
        stop: Row behind the last; None for all.
    """
    rows = array[start:stop]
    whole = isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap)
    if not whole or not rows.size or not array.flags.c_contiguous:
        return rows
    offset = array.offset + start * array.strides[0]
    return np.memmap(array.filename, array.dtype, "r", offset, rows.shape)


def release_pages(array: Any) -> None:
    """Give back what was read through an array's mapping, if it has one."""
    while array is not None and not isinstance(array, mmap.mmap):
        array = getattr(array, "base", None)
    if array is not None and hasattr(mmap, "MADV_DONTNEED"):
        array.madvise(mmap.MADV_DONTNEED)
