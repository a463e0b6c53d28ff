"""Products with sparse matrices and with features, dense or sparse.

Bag-of-words features are mostly zeros; they reach the network as a
SparseTensor [n_nodes, n_features], all others and all hidden layers as a
dense tensor. Every operation has a GPU kernel.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

Rows = tf.Tensor | tf.SparseTensor  # [n_nodes, n_features]
CHUNK = 2**11  # Pairs of rows held at a time: few enough for the cache.


def sparse_matmul(
    values: tf.Tensor, indices: tf.Tensor, n_rows: tf.Tensor, dense: tf.Tensor
) -> tf.Tensor:
    """Product of a sparse matrix, given by its entries, and a dense one.

    Goes through TensorFlow's CSR kernel, which takes a third of the time of
    SparseTensorDenseMatMul for a sampled block and a tenth for a whole graph.

    Args:
        values: [nnz], the entries; may be differentiated.
        indices: [nnz, 2] int64, (row, column), row-major.
        n_rows: Scalar int64, 1 or more: on some processors the kernel ends
            the process for a matrix without rows.
        dense: [n_columns, units]; may be differentiated.

    Returns:
        [n_rows, units] tensor.
    """
    shape = tf.stack([n_rows, tf.shape(dense, tf.int64)[0]])

    @tf.custom_gradient
    def product(values: tf.Tensor, dense: tf.Tensor) -> Any:
        matrix = tf.raw_ops.SparseTensorToCSRSparseMatrix(
            indices=indices, values=values, dense_shape=shape
        )

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            transposed = tf.raw_ops.SparseMatrixTranspose(
                input=matrix, type=tf.float32
            )
            return (
                row_products(upstream, dense, indices),
                tf.raw_ops.SparseMatrixMatMul(a=transposed, b=upstream),
            )

        return tf.raw_ops.SparseMatrixMatMul(a=matrix, b=dense), gradient

    return product(values, dense)


def row_products(
    left: tf.Tensor, right: tf.Tensor, indices: tf.Tensor
) -> tf.Tensor:
    """Inner product of row i of `left` and row j of `right` for each (i, j).

    Args:
        left: [n_left, units].
        right: [n_right, units].
        indices: [nnz, 2], the pairs (i, j).

    Returns:
        [nnz] tensor.
    """
    n_chunks = tf.maximum(1, -(-tf.shape(indices)[0] // CHUNK))

    def append(chunk: tf.Tensor, parts: tf.TensorArray) -> Any:
        pairs = indices[chunk * CHUNK : (chunk + 1) * CHUNK]
        products = tf.gather(left, pairs[:, 0]) * tf.gather(right, pairs[:, 1])
        return chunk + 1, parts.write(chunk, tf.reduce_sum(products, axis=1))

    empty = tf.TensorArray(
        left.dtype, n_chunks, infer_shape=False, element_shape=[None]
    )
    _, parts = tf.while_loop(
        lambda chunk, _: chunk < n_chunks,
        append,
        (0, empty),
        parallel_iterations=1,
    )
    return parts.concat()


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
    return _dense_squared_norms(rows)


@tf.custom_gradient
def _dense_squared_norms(rows: tf.Tensor) -> Any:
    """In one pass over `rows` each way; a square and a sum take three."""
    norms = tf.raw_ops.EuclideanNorm(input=rows, axis=1)
    return tf.square(norms), lambda upstream: (2.0 * upstream)[:, None] * rows


def to_dense(rows: Rows) -> tf.Tensor:
    """`rows` as a dense tensor."""
    if isinstance(rows, tf.SparseTensor):
        return tf.sparse.to_dense(rows, validate_indices=False)
    return rows
