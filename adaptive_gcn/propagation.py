"""The full architecture, Eq. (1): every node, every neighbour, no sampling.

Used for validation, test and prediction. Works layer by layer; each product
with the adjacency goes in blocks of rows through TensorFlow's CSR kernel,
which has no limit of its own below 2^31 entries a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from scipy import sparse

from adaptive_gcn.graph import Features

BLOCK_ENTRIES = 4_000_000
BLOCK_BYTES = 2**28


class FullPropagation:
    """Evaluates a model on all of a graph's edges.

    Args:
        norm_adjacency: [n_nodes, n_nodes] CSR float32, the normalised
            adjacency of the whole graph.
        features: [n_nodes, n_features] float32, dense or CSR, scaled as in
            training.
        block_entries: Most adjacency entries in one product.
    """

    def __init__(
        self,
        norm_adjacency: sparse.csr_array,
        features: Features,
        block_entries: int = BLOCK_ENTRIES,
    ):
        self._adjacency = norm_adjacency
        self._features = features
        self._block_entries = block_entries

    def logits(
        self, model: Any, nodes: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """Logits of `nodes` under the current weights, without dropout.

        Args:
            model: An `AdaptiveGCN`, built.
            nodes: [n] ids of the nodes to classify.

        Returns:
            [n, n_classes] float32.
        """
        scores = self._attention_scores(model)
        *lower, top = model.convolutions
        hidden = self._features
        for convolution in lower:
            hidden = self._convolve(
                convolution, hidden, self._adjacency, scores
            )
        rows = self._adjacency[nodes]
        if scores is not None:
            scores = (tf.gather(scores[0], nodes), scores[1], scores[2])
        return self._convolve(top, hidden, rows, scores).numpy()

    def _attention_scores(self, model: Any) -> Any:
        """W_1 z and W_2 z of all nodes and how to join them, or None."""
        if model.attention is None:
            return None
        parts = [
            model.attention.scores(*[model.attention_inputs(rows)] * 2)
            for rows in _row_blocks(self._features)
        ]
        parent, sample = (
            tf.concat(part, 0) for part in zip(*parts, strict=True)
        )
        return parent, sample, model.attention

    def _convolve(
        self, convolution: Any, hidden: Any, rows: sparse.csr_array, scores: Any
    ) -> tf.Tensor:
        """sigma(A^ h W) for the given rows of A^, Eq. (1)."""
        transformed = tf.concat(
            [
                _matmul(block, convolution.kernel)
                for block in _blocks_of(hidden)
            ],
            axis=0,
        )
        outputs = [
            _sparse_product(block, _attend(block, start, scores), transformed)
            for start, block in self._adjacency_blocks(rows)
        ]
        return convolution.activate(tf.concat(outputs, axis=0))

    def _adjacency_blocks(
        self, rows: sparse.csr_array
    ) -> Iterator[tuple[int, sparse.csr_array]]:
        """Consecutive rows of at most `block_entries` entries, at least one."""
        start, n_rows = 0, rows.shape[0]
        while start < n_rows or start == 0:
            limit = rows.indptr[start] + self._block_entries
            stop = int(np.searchsorted(rows.indptr, limit, "right")) - 1
            stop = min(max(stop, start + 1), n_rows)
            yield start, rows[start:stop]
            start = max(stop, 1)


def _attend(block: sparse.csr_array, start: int, scores: Any) -> tf.Tensor:
    """The block's entries, times attention where there is one, Eq. (14)."""
    values = tf.constant(block.data)
    if scores is None:
        return values
    parent, sample, attention = scores
    indices = tf.constant(_coordinates(block))
    here = parent[start : start + block.shape[0]]
    return values * attention.combine(here, sample, indices)


def _coordinates(block: sparse.csr_array) -> npt.NDArray[np.int64]:
    rows = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
    return np.stack([rows, block.indices], axis=1).astype(np.int64)


def _sparse_product(
    block: sparse.csr_array, values: tf.Tensor, dense: tf.Tensor
) -> tf.Tensor:
    matrix = tf.raw_ops.SparseTensorToCSRSparseMatrix(
        indices=_coordinates(block), values=values, dense_shape=block.shape
    )
    return tf.raw_ops.SparseMatrixMatMul(a=matrix, b=dense)


def _matmul(left: Any, kernel: Any) -> tf.Tensor:
    if sparse.issparse(left):
        return _sparse_product(left, tf.constant(left.data), kernel)
    return tf.matmul(left, kernel)


def _blocks_of(hidden: Any) -> Iterator[Any]:
    """Row blocks of a dense NumPy array (maybe a memory map); else all."""
    if not isinstance(hidden, np.ndarray):
        yield hidden
        return
    step = max(1, BLOCK_BYTES // (4 * max(1, hidden.shape[1])))
    for start in range(0, max(1, len(hidden)), step):
        yield hidden[start : start + step]


def _row_blocks(features: Features) -> Iterator[tf.Tensor]:
    """Dense row blocks of the features."""
    step = max(1, BLOCK_BYTES // (4 * max(1, features.shape[1])))
    for start in range(0, features.shape[0], step):
        rows = features[start : start + step]
        yield tf.constant(rows.toarray() if sparse.issparse(rows) else rows)
