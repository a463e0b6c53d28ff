"""Keeping freed memory for the next batch.

Each batch brings arrays of a megabyte or so that live for one step. glibc
gives such memory back to the system when it is freed and then pays for fresh
pages at every batch: 250 page faults a step on Pubmed, a quarter of the
step's time (BUILD_NOTES.md section 5).
"""

from __future__ import annotations

import ctypes

# Names and values of malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_MIB = 2**20


def keep_freed_memory() -> bool:
    """Tell glibc's allocator to reuse freed blocks of up to 32 MiB.

    Returns:
        Whether it could be told; other C libraries have no such setting.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = {
        _M_MMAP_THRESHOLD: 32 * _MIB,  # The most that glibc allows.
        _M_TRIM_THRESHOLD: 512 * _MIB,
        _M_TOP_PAD: 16 * _MIB,
    }
    return all([mallopt(name, value) for name, value in settings.items()])
