"""Products of node features that may be dense or sparse.

Bag-of-words features are mostly zeros; they reach the network as a
SparseTensor [n_nodes, n_features], all others and all hidden layers as a
dense tensor. Every operation has a GPU kernel.
"""

from __future__ import annotations

import tensorflow as tf

Rows = tf.Tensor | tf.SparseTensor  # [n_nodes, n_features]


def matmul(rows: Rows, matrix: tf.Tensor) -> tf.Tensor:
    """`rows` times `matrix` [n_features, units]: [n_nodes, units]."""
    if isinstance(rows, tf.SparseTensor):
        return tf.sparse.sparse_dense_matmul(rows, matrix)
    return tf.matmul(rows, matrix)


def transposed_matmul(rows: Rows, matrix: tf.Tensor) -> tf.Tensor:
    """The transpose of `rows` times `matrix` [n_nodes, units]."""
    if isinstance(rows, tf.SparseTensor):
        return tf.sparse.sparse_dense_matmul(rows, matrix, adjoint_a=True)
    return tf.matmul(rows, matrix, transpose_a=True)


def squared_norms(rows: Rows) -> tf.Tensor:
    """Squared Euclidean norm of each row, [n_nodes]."""
    if isinstance(rows, tf.SparseTensor):
        return tf.math.unsorted_segment_sum(
            tf.square(rows.values), rows.indices[:, 0], rows.dense_shape[0]
        )
    return tf.reduce_sum(tf.square(rows), axis=1)


def to_dense(rows: Rows) -> tf.Tensor:
    """`rows` as a dense tensor."""
    if isinstance(rows, tf.SparseTensor):
        return tf.sparse.to_dense(rows, validate_indices=False)
    return rows
