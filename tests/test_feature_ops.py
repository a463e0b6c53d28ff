"""Products with sparse matrices, against dense ones."""

import numpy as np
import pytest
import tensorflow as tf

from adaptive_gcn import feature_ops


def block(nnz=7, n_rows=4, n_columns=5, seed=0):
    """Entries of a random matrix, row-major, and the matrix itself."""
    rng = np.random.default_rng(seed)
    places = np.sort(rng.choice(n_rows * n_columns, nnz, replace=False))
    indices = np.stack(np.divmod(places, n_columns), 1).astype(np.int64)
    values = rng.normal(size=nnz).astype(np.float32)
    matrix = np.zeros((n_rows, n_columns), np.float32)
    matrix[tuple(indices.T)] = values
    return tf.constant(values), tf.constant(indices), matrix


def dense_of(*shape):
    rng = np.random.default_rng(1)
    return tf.constant(rng.normal(size=shape), tf.float32)


@pytest.mark.parametrize("nnz", [0, 1, 7])
@pytest.mark.parametrize("chunk", [2, 2**18])
@pytest.mark.parametrize("wrap", [tf.function, lambda function: function])
def test_sparse_matmul_and_its_gradients_are_the_dense_ones(
    monkeypatch, nnz, chunk, wrap
):
    monkeypatch.setattr(feature_ops, "CHUNK", chunk)
    values, indices, matrix = block(nnz)
    dense, upstream = dense_of(5, 3), dense_of(4, 3)

    @wrap
    def gradients(values, dense):
        with tf.GradientTape() as tape:
            tape.watch((values, dense))
            product = feature_ops.sparse_matmul(
                values, indices, tf.constant(4, tf.int64), dense
            )
        return product, *tape.gradient(product, (values, dense), upstream)

    product, by_values, by_dense = gradients(values, dense)
    np.testing.assert_allclose(product, matrix @ dense, rtol=1e-5, atol=1e-6)
    expected = (upstream.numpy() @ dense.numpy().T)[tuple(indices.numpy().T)]
    np.testing.assert_allclose(by_values, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        by_dense, matrix.T @ upstream, rtol=1e-5, atol=1e-6
    )


def test_sparse_matmul_gives_the_same_bits_each_time():
    values, indices, _ = block(300, 40, 50)
    dense = dense_of(50, 30)
    first, again = (
        feature_ops.sparse_matmul(
            values, indices, tf.constant(40, tf.int64), dense
        )
        for _ in range(2)
    )
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("sparse", [False, True])
def test_squared_norms(sparse):
    rows = tf.constant([[3.0, 4.0], [0.0, 0.0], [1.0, -1.0]])
    given = tf.sparse.from_dense(rows) if sparse else rows
    np.testing.assert_allclose(feature_ops.squared_norms(given), [25, 0, 2])


def test_gradient_of_squared_norms_is_finite_at_a_row_of_zeros():
    rows = tf.constant([[3.0, 4.0], [0.0, 0.0]])
    with tf.GradientTape() as tape:
        tape.watch(rows)
        norms = feature_ops.squared_norms(rows)
    gradient = tape.gradient(norms, rows, tf.constant([2.0, 5.0]))
    np.testing.assert_allclose(gradient, [[12, 16], [0, 0]])
