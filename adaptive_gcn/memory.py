"""Keeping freed memory for the next batch.

Each batch brings arrays of a megabyte or so that live for one step. glibc
gives such memory back to the system when it is freed and then pays for fresh
pages at every batch: 250 page faults a step on Pubmed, a quarter of the
step's time (BUILD_NOTES.md section 5).
"""

from __future__ import annotations

import ctypes

from tensorflow.python.framework import ops

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


def forget_custom_gradients() -> None:
    """Forget the gradients that functions of earlier runs have registered.

    TensorFlow registers each use of `tf.custom_gradient` in a traced function
    for good, and with it the graph of that function: 7 MB a run. A function
    that has been traced needs the entry no more.
    """
    registry = ops.gradient_registry._registry
    for name in [each for each in registry if each.startswith("CustomGrad")]:
        del registry[name]
