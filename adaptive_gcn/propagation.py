"""The full architecture, Eq. (1): every node, every neighbour, no sampling.

Used for validation, test, prediction and export. Works layer by layer and in
blocks of rows, so that beside the matrices there is one table of hidden units
at a time. Sparse matrices stay sparse; their products go through TensorFlow's
CSR kernel.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from scipy import sparse

from adaptive_gcn.ahead import ahead
from adaptive_gcn.aligned import aligned_empty
from adaptive_gcn.features import Features, row_blocks
from adaptive_gcn.sampling.rows import csr_rows

BLOCK_ENTRIES = 500_000
MOST_TERMS = 2**31 - 1  # Entries times output columns in one sparse product.

# (W_1 z, W_2 z, the attention layer) of all nodes, or None.
AttentionScores = Any


class FullPropagation:
    """Evaluates a model on all of a graph's edges.

    Args:
        norm_adjacency: [n_nodes, n_nodes] CSR float32, the normalised
            adjacency of the whole graph.
        features: [n_nodes, n_features] float32, dense (maybe a memory map) or
            CSR, scaled as in training; A^ X for a model whose bottom layer is
            precomputed.
        block_entries: Most adjacency entries in one product, or one row if
            that has more.
    """

    def __init__(
        self,
        norm_adjacency: sparse.csr_array,
        features: Features,
        block_entries: int = BLOCK_ENTRIES,
    ):
        self.norm_adjacency = norm_adjacency
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
        return self._outputs(model, len(model.convolutions) - 1, nodes)

    def hidden(
        self, model: Any, nodes: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """The last hidden layer h of `nodes`, what the top layer aggregates.

        Returns:
            [n, units] float32.
        """
        level = len(model.convolutions) - 2
        if level < model.precomputed:
            bottom = model.convolutions[0]
            products = feature_products(self._features[nodes], bottom.kernel)
            return bottom.activate(products).numpy()
        return self._outputs(model, level, nodes)

    def tables(self, model: Any) -> Iterator[tf.Tensor]:
        """H W of all nodes for each layer that aggregates, bottom-up.

        Yields:
            [n_nodes, units] tensors; the last one is the top layer's.
        """
        return self._tables(model, self.attention_scores(model))

    def attended(self, model: Any) -> npt.NDArray[np.float32]:
        """The entries of A^ times their attention, Eq. (14), [nnz]."""
        scores = self.attention_scores(model)
        if scores is None:
            return self.norm_adjacency.data
        everyone = np.arange(self.norm_adjacency.shape[0])
        blocks = ahead(self._blocks(everyone, self._block_entries))
        return np.concatenate(
            [
                values * _attention(indices, everyone[start:stop], scores)
                for start, stop, indices, values in blocks
            ]
        )

    def _outputs(
        self, model: Any, level: int, nodes: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """The output of one of the layers that aggregate."""
        scores = self.attention_scores(model)
        tables = self._tables(model, scores)
        table = next(itertools.islice(tables, level - model.precomputed, None))
        blocks = [
            model.convolutions[level].activate(product).numpy()
            for _, product in self._products(nodes, table, scores)
        ]
        return np.concatenate(blocks)

    def _tables(
        self, model: Any, scores: AttentionScores
    ) -> Iterator[tf.Tensor]:
        table = self._bottom_table(model)
        yield table
        for level in range(int(model.precomputed), len(model.convolutions) - 1):
            above = model.convolutions[level + 1].kernel
            table = self._next_table(
                model.convolutions[level], table, above, scores
            )
            yield table

    def _bottom_table(self, model: Any) -> tf.Tensor:
        """X W_0 of all nodes; ReLU(A^X W_0) W_1 if A^X is precomputed."""
        bottom, second = model.convolutions[:2]
        if not model.precomputed:
            return feature_products(self._features, bottom.kernel)
        table = aligned_empty(self._features.shape[0], second.units)
        for start, block in ahead(_feature_blocks(self._features)):
            hidden = bottom.activate(_matmul(block, bottom.kernel))
            rows = tf.matmul(hidden, second.kernel)
            table[start : start + block.shape[0]] = rows
        return _as_tensor(table)

    def _next_table(
        self, convolution: Any, table: Any, kernel: Any, scores: AttentionScores
    ) -> tf.Tensor:
        """sigma(A^ h W) W', from h W of all nodes, for the layer above."""
        n_nodes = self.norm_adjacency.shape[0]
        new_table = aligned_empty(n_nodes, kernel.shape[1])
        everyone = np.arange(n_nodes)
        for start, product in self._products(everyone, table, scores):
            hidden = convolution.activate(product)
            new_table[start : start + len(product)] = tf.matmul(hidden, kernel)
        return _as_tensor(new_table)

    def attention_scores(self, model: Any) -> AttentionScores:
        """W_1 z and W_2 z of all nodes and how to join them, or None."""
        if model.attention is None:
            return None
        parts = [
            model.attention.scores(*[model.attention_inputs(block)] * 2)
            for _, block in ahead(_feature_blocks(self._features))
        ]
        parent, sample = (
            tf.concat(part, 0) for part in zip(*parts, strict=True)
        )
        return parent, sample, model.attention

    def _products(
        self, nodes: npt.NDArray[np.int64], table: Any, scores: AttentionScores
    ) -> Iterator[tuple[int, tf.Tensor]]:
        """Rows `nodes` of A^ times the table, in blocks, with their starts."""
        entries = min(self._block_entries, MOST_TERMS // int(table.shape[1]))
        for start, stop, indices, values in ahead(self._blocks(nodes, entries)):
            if scores is not None:
                values *= _attention(indices, nodes[start:stop], scores)
            shape = (stop - start, self.norm_adjacency.shape[1])
            yield start, _sparse_product(indices, values, shape, table)

    def _blocks(
        self, nodes: npt.NDArray[np.int64], most_entries: int
    ) -> Iterator[tuple[int, int, Any, Any]]:
        """Start, stop, coordinates and values of consecutive blocks of rows."""
        matrix = self.norm_adjacency
        lengths = np.diff(matrix.indptr)[nodes]
        for start, stop in _block_bounds(lengths, most_entries):
            coordinates, values = csr_rows(
                matrix.indptr, matrix.indices, matrix.data, nodes[start:stop]
            )
            # A thread does not know the device in use; this moves on by itself.
            with tf.device("CPU"):
                block = tf.constant(coordinates), tf.constant(values)
            yield start, stop, *block


def feature_products(features: Features, matrix: Any) -> tf.Tensor:
    """Features times a matrix [n_features, width], in blocks of rows.

    Sparse features stay sparse.
    """
    table = aligned_empty(features.shape[0], matrix.shape[1])
    for start, block in ahead(_feature_blocks(features)):
        table[start : start + block.shape[0]] = _matmul(block, matrix)
    return _as_tensor(table)


def _block_bounds(
    lengths: npt.NDArray[np.integer[Any]], most_entries: int
) -> Iterator[tuple[int, int]]:
    """Bounds of blocks of rows of at most `most_entries`, at least one row.

    There is always a block, if an empty one.
    """
    ends = np.cumsum(lengths, dtype=np.int64)
    start = 0
    while start < len(ends) or start == 0:
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + most_entries, "right"))
        stop = min(max(stop, start + 1), len(ends))
        yield start, stop
        start = max(stop, 1)


def _as_tensor(table: npt.NDArray[np.float32]) -> tf.Tensor:
    """The table as a tensor in the same memory; or on the GPU in use."""
    if not table.size:
        return tf.constant(table)
    return tf.identity(tf.experimental.dlpack.from_dlpack(table.__dlpack__()))


def _feature_blocks(
    features: Features,
) -> Iterator[tuple[int, tf.Tensor | tf.SparseTensor]]:
    """Blocks of rows as TensorFlow takes them, with their starts."""
    for start, block in row_blocks(features):
        if sparse.issparse(block):
            every_row = np.arange(block.shape[0])
            coordinates, values = csr_rows(
                block.indptr, block.indices, block.data, every_row
            )
            with tf.device("CPU"):
                rows = tf.SparseTensor(coordinates, values, block.shape)
        else:
            with tf.device("CPU"):
                rows = tf.constant(block)
        yield start, rows


def _attention(
    indices: tf.Tensor, parents: npt.NDArray[np.int64], scores: AttentionScores
) -> tf.Tensor:
    """Attention of each entry of the rows `parents`, Eq. (14)."""
    parent, sample, attention = scores
    return attention.combine(tf.gather(parent, parents), sample, indices)


def _sparse_product(
    indices: Any, values: Any, shape: tuple[int, int], dense: Any
) -> tf.Tensor:
    """Sparse times dense, within `MOST_TERMS` by blocks of columns."""
    if not shape[0]:  # The kernel divides by it: the process may end.
        return tf.zeros((0, dense.shape[1]))
    matrix = tf.raw_ops.SparseTensorToCSRSparseMatrix(
        indices=indices, values=values, dense_shape=shape
    )
    width = max(1, MOST_TERMS // max(1, len(values)))
    if width >= dense.shape[1]:
        return tf.raw_ops.SparseMatrixMatMul(a=matrix, b=dense)
    parts = [
        tf.raw_ops.SparseMatrixMatMul(
            a=matrix, b=dense[:, first : first + width]
        )
        for first in range(0, dense.shape[1], width)
    ]
    return tf.concat(parts, axis=1)


def _matmul(rows: tf.Tensor | tf.SparseTensor, kernel: Any) -> tf.Tensor:
    if isinstance(rows, tf.SparseTensor):
        return _sparse_product(rows.indices, rows.values, rows.shape, kernel)
    return tf.matmul(rows, kernel)
