"""Arrays in memory that TensorFlow can use as it is."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

ALIGNMENT = 64  # Bytes: the most that TensorFlow asks of a tensor.


def aligned_empty(n_rows: int, n_columns: int) -> npt.NDArray[np.float32]:
    """[n_rows, n_columns] float32, to be filled, that need not be copied."""
    size = n_rows * n_columns
    memory = np.empty(size + ALIGNMENT // 4, np.float32)
    start = -memory.ctypes.data % ALIGNMENT // 4
    return memory[start : start + size].reshape(n_rows, n_columns)
