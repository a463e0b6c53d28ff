"""Rows of a CSR matrix as coordinates, compiled by numba."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from adaptive_gcn.jit import kernel


@kernel
def csr_rows(
    indptr: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    data: npt.NDArray[np.float32],
    nodes: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Entries of the rows `nodes` of a CSR matrix, in that order.

    Args:
        indptr: [n_rows + 1] of the matrix.
        indices: [nnz] of the matrix.
        data: [nnz] of the matrix.
        nodes: [n] row numbers.

    Returns:
        [n_entries, 2] places (position in `nodes`, column) and [n_entries]
        values, row-major.
    """
    n_entries = 0
    for node in nodes:
        n_entries += indptr[node + 1] - indptr[node]
    places = np.empty((n_entries, 2), np.int64)
    values = np.empty(n_entries, np.float32)
    k = 0
    for row, node in enumerate(nodes):
        for entry in range(indptr[node], indptr[node + 1]):
            places[k, 0] = row
            places[k, 1] = indices[entry]
            values[k] = data[entry]
            k += 1
    return places, values
