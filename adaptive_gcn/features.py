"""Node features: views of rows, scaling, aggregation, in blocks of rows.

Features may be a memory map far larger than the memory. Whatever passes over
all of them does so in blocks, and what comes out of a block can go to a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from adaptive_gcn.errors import DataError
from adaptive_gcn.jit import kernel
from adaptive_gcn.memory_map import mapped_anew

SCALINGS = ("raw", "row", "l2", "standard")
DENSE_LIMIT_BYTES = 2**30  # Sparse features above this are never made dense.
BLOCK_BYTES = 2**24

# [n_nodes, n_features] float32: np.ndarray, sparse.csr_array or FeatureRows.
Features = Any
Block = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]


class FeatureRows:
    """Some rows of a dense feature matrix, without a copy of them.

    Attributes:
        matrix: [n_all, n_features] float32, maybe a memory map.
        rows: [n_nodes] int64, the rows of `matrix` that these are.
    """

    ndim = 2

    def __init__(self, matrix: npt.NDArray[np.float32], rows: Ids) -> None:
        self.matrix = matrix
        self.rows = rows
        self.shape = (len(rows), matrix.shape[1])
        self.dtype = matrix.dtype

    def __getitem__(self, nodes: Any) -> Block:
        """Rows `nodes` of the view, ids or a slice: [n, n_features]."""
        return np.asarray(self.matrix[self.rows[nodes]])

    def __matmul__(self, other: Any) -> Any:
        """The product with a vector or matrix; passes over all of `matrix`."""
        return (self.matrix @ other)[self.rows]


def row_blocks(features: Features) -> Iterator[tuple[int, Any]]:
    """Consecutive blocks of about `BLOCK_BYTES`, each with its first row.

    Sparse features come as CSR blocks, dense ones as arrays.
    """
    step = _block_rows(features)
    for start in range(0, features.shape[0], step):
        yield start, mapped_anew(features, start, start + step)


def _block_rows(features: Features) -> int:
    row_bytes = 4 * max(1, int(features.shape[1]))
    return max(1, BLOCK_BYTES // row_bytes)


def _joined(
    blocks: Iterator[Block], shape: tuple[int, ...]
) -> npt.NDArray[np.float32]:
    """The array [shape] of its consecutive blocks."""
    whole = np.empty(shape, np.float32)
    start = 0
    for block in blocks:
        whole[start : start + len(block)] = block
        start += len(block)
    return whole


def scale_features(
    features: Features, scaling: str, train_nodes: Ids
) -> Features:
    """Scale the feature matrix; a row of zeros stays a row of zeros.

    Args:
        features: [n_nodes, n_features] float32, dense or CSR.
        scaling: "raw" (as they are), "row" (rows sum to 1 in absolute value),
            "l2" (rows of Euclidean length 1) or "standard" (columns of mean 0
            and deviation 1 over `train_nodes`; constant columns are only
            centred; sparse features become dense, up to 1 GiB).
        train_nodes: Ids of the nodes that "standard" takes its statistics
            from.

    Returns:
        Scaled features in memory, dense or CSR as before except for
        "standard".

    Raises:
        DataError: If "standard" is asked of sparse features, which centring
            would turn dense, or if a result is not finite.
        ValueError: If `scaling` is unknown.
    """
    if scaling == "raw":
        return features
    blocks = scaled_blocks(features, scaling, train_nodes)
    if sparse.issparse(features) and scaling != "standard":
        data = _joined(blocks, (features.nnz,))
        parts = (data, features.indices, features.indptr)
        return sparse.csr_array(parts, features.shape)
    return _joined(blocks, features.shape)


def scaled_blocks(
    features: Features, scaling: str, train_nodes: Ids
) -> Iterator[Block]:
    """What `scale_features` returns, block by block.

    Yields:
        Blocks of rows [n, n_features]; of sparse features that stay sparse,
        their non-zero values [nnz of the block].
    """
    if scaling == "standard":
        return _standard_blocks(features, train_nodes)
    if scaling in ("row", "l2"):
        return _unit_blocks(features, scaling)
    raise ValueError(
        f"`scaling` must be one of {SCALINGS}. Received: scaling={scaling!r}"
    )


def _unit_blocks(features: Features, scaling: str) -> Iterator[Block]:
    for _, block in row_blocks(features):
        if scaling == "row":
            norms = abs(block).sum(axis=1, dtype=np.float64)
        else:
            wide = block.astype(np.float64)
            norms = np.sqrt((wide * wide).sum(axis=1))
        inverse = np.divide(
            1.0, norms, where=norms > 0, out=np.zeros_like(norms)
        )
        if sparse.issparse(block):
            inverse = np.repeat(inverse, np.diff(block.indptr))
            yield (inverse * block.data).astype(np.float32)
        else:
            yield (block * inverse[:, None]).astype(np.float32)


def check_scaling(features: Features, scaling: str, train_nodes: Ids) -> None:
    """Refuse what `scale_features` would, but for results not finite.

    Raises:
        DataError: As there.
    """
    if scaling == "standard":
        if not len(train_nodes):
            raise DataError("scaling='standard' needs training nodes")
        if sparse.issparse(features):
            _check_dense_size(features)


def _standard_blocks(features: Features, train_nodes: Ids) -> Iterator[Block]:
    check_scaling(features, "standard", train_nodes)
    mean, deviation = column_statistics(features, train_nodes)
    for _, block in row_blocks(features):
        dense = block.toarray() if sparse.issparse(block) else block
        yield ((dense - mean) / deviation).astype(np.float32)


def _check_dense_size(features: Features) -> None:
    n_bytes = 4 * features.shape[0] * features.shape[1]
    if n_bytes > DENSE_LIMIT_BYTES:
        raise DataError(
            "scaling='standard' centres the columns, which makes sparse "
            f"features dense: {n_bytes / 2**30:.1f} GiB for shape "
            f"{features.shape}, more than the 1 GiB allowed; use 'row' or 'l2'"
        )


def column_statistics(
    features: Features, nodes: Ids
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """What "standard" subtracts from each column and divides it by.

    Args:
        features: [n_nodes, n_features] float32.
        nodes: Ids of the training nodes.

    Returns:
        Mean and standard deviation over `nodes`, [n_features] each; a
        deviation of 0 is given as 1.

    Raises:
        DataError: If there are no training nodes.
    """
    if not len(nodes):
        raise DataError("scaling='standard' needs training nodes")
    chosen = np.zeros(features.shape[0], bool)
    chosen[nodes] = True

    def chosen_rows() -> Iterator[npt.NDArray[np.float64]]:
        for start, block in row_blocks(features):
            rows = block[chosen[start : start + block.shape[0]]]
            dense = rows.toarray() if sparse.issparse(rows) else rows
            yield dense.astype(np.float64)

    mean = sum(rows.sum(axis=0) for rows in chosen_rows()) / len(nodes)
    squares = sum(((rows - mean) ** 2).sum(axis=0) for rows in chosen_rows())
    deviation = np.sqrt(squares / len(nodes))
    deviation[deviation == 0] = 1.0
    return mean, deviation


def aggregate_features(
    norm_adjacency: sparse.csr_array, features: Features
) -> Features:
    """A^X in memory, dense; or CSR where the features are."""
    if sparse.issparse(features):
        product = sparse.csr_array(norm_adjacency @ features)
        product.sort_indices()
        return product.astype(np.float32)
    blocks = aggregated_blocks(norm_adjacency, features)
    return _joined(blocks, features.shape)


def aggregated_blocks(
    norm_adjacency: sparse.csr_array, features: Features
) -> Iterator[Block]:
    """A^X of dense features, block by block.

    Args:
        norm_adjacency: [n_nodes, n_nodes] CSR float32.
        features: [n_nodes, n_features] float32, an array or `FeatureRows`.

    Yields:
        Blocks of rows [n, n_features].
    """
    view = isinstance(features, FeatureRows)
    matrix = mapped_anew(features.matrix if view else features)
    columns = norm_adjacency.indices
    if view:
        columns = features.rows[columns].astype(np.int32)
    indptr, data = norm_adjacency.indptr, norm_adjacency.data
    step = _block_rows(features)
    for start in range(0, len(indptr) - 1, step):
        yield _row_sums(indptr[start : start + step + 1], columns, data, matrix)


@kernel
def _row_sums(indptr: Any, columns: Any, data: Any, matrix: Any) -> Any:
    """Weighted sums of rows of `matrix`, one for each row of a CSR block."""
    n_columns = matrix.shape[1]
    sums = np.zeros((len(indptr) - 1, n_columns), np.float32)
    for i in range(len(indptr) - 1):
        total = sums[i]
        for k in range(indptr[i], indptr[i + 1]):
            weight, row = data[k], matrix[np.uint32(columns[k])]
            for f in range(n_columns):
                total[f] += weight * row[f]
    return sums
