"""Layers: values on tiny graphs, round trips, errors."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from adaptive_gcn import layers, self_dependent
from adaptive_gcn.self_dependent import FORMS


def sparse_of(dense):
    return tf.sparse.from_dense(tf.constant(dense))


def build_g(form, w_g):
    layer = layers.SelfDependentFunction(form)
    layer.build((None, len(w_g)))
    layer.w_g.assign(np.array(w_g, np.float32)[:, None])
    return layer


@pytest.mark.parametrize(
    "form, expected",
    [
        ("linear", [2 + layers.LINEAR_FLOOR, layers.LINEAR_FLOOR]),
        ("relu1", [3.0, 1.0]),
        ("exp", [np.exp(2.0), 1.0]),
        ("softplus", [np.log1p(np.exp(3.0)), np.log1p(np.exp(1.0))]),
    ],
)
def test_self_dependent_function_values(form, expected):
    g = build_g(form, [2.0, 0.0])
    np.testing.assert_allclose(
        g(tf.constant([[1.0, 5.0], [0.0, 5.0]])), expected, rtol=1e-6
    )


@pytest.mark.parametrize("form", FORMS)
def test_host_and_layer_forms_of_g_agree(form):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(50, 4)).astype(np.float32)
    features[:2] *= 50  # reaches the clipped ends of exp
    w_g = rng.normal(size=4).astype(np.float32)
    on_host = self_dependent.self_importance(features, w_g, form)
    layer = build_g(form, w_g)
    np.testing.assert_allclose(layer(features), on_host, rtol=1e-5)


def test_host_form_of_g_names_an_unknown_form():
    with pytest.raises(ValueError, match="Received: form='cube'"):
        self_dependent.self_importance(np.eye(2), np.ones(2), "cube")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sparse", [False, True])
def test_chain_equals_autodiff_of_log_g(form, sparse):
    rng = np.random.default_rng(1)
    features = rng.normal(size=(5, 3)).astype(np.float32)
    upstream = rng.normal(size=5).astype(np.float32)
    layer = build_g(form, rng.normal(size=3))
    with tf.GradientTape() as tape:
        log_g = tf.math.log(layer(features))
    expected = tape.gradient(log_g, layer.w_g, output_gradients=upstream)
    rows = sparse_of(features) if sparse else tf.constant(features)
    response = layer.response(rows)
    chained = layer.chain(rows, response, tf.constant(upstream))
    np.testing.assert_allclose(chained, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("form", ["exp", "softplus"])
def test_g_is_positive_and_flat_outside_its_limits(form):
    far = tf.constant([-200.0, 0.0, 200.0])
    slope = build_g(form, [1.0]).log_slope(far).numpy()
    assert slope[0] == slope[2] == 0.0 < slope[1]
    values = self_dependent.self_importance(far.numpy()[:, None], [1.0], form)
    assert np.all(values.astype(np.float32) > 0)


def test_self_dependent_function_starts_at_one_for_every_node():
    layer = layers.SelfDependentFunction("exp")
    assert layer(tf.random.normal((3, 4))).numpy().tolist() == [1, 1, 1]


def attention_value(offset, w_1, w_2, parents, samples, indices):
    layer = layers.SelfDependentAttention(offset)
    layer.build((None, len(w_1)))
    layer.parent_scale.assign(np.array(w_1, np.float32)[:, None])
    layer.sample_scale.assign(np.array(w_2, np.float32)[:, None])
    return layer(tf.constant(parents), tf.constant(samples), np.array(indices))


def test_attention_of_eq_14_by_hand():
    # relu(2 * 3 + (-1) * 1) = 5; relu(2 * 3 - 1 * 7) = 0
    value = attention_value(
        0.0, [2.0], [-1.0], [[3.0]], [[1.0], [7.0]], [[0, 0], [0, 1]]
    )
    assert value.numpy().tolist() == [5.0, 0.0]


def test_attention_of_the_authors_code_by_hand():
    # relu((1*1 + 0*2) + (0*4 + 1*5)) + 1 = 7; relu(1 - 9) + 1 = 1
    value = attention_value(
        1.0,
        [1.0, 0.0],
        [0.0, 1.0],
        [[1.0, 2.0]],
        [[4.0, 5.0], [4.0, -9.0]],
        [[0, 0], [0, 1]],
    )
    assert value.numpy().tolist() == [7.0, 1.0]


def conv_with(kernel, **options):
    layer = layers.SampledGraphConv(np.shape(kernel)[1], **options)
    layer.build((None, np.shape(kernel)[0]))
    layer.kernel.assign(kernel)
    return layer


def test_conv_is_the_importance_weighted_mean_by_hand():
    # n = 3 draws: node 0 twice with q = .5, node 1 once with q = .25.
    # row 0: (1/3)(2 * .2/.5 * [1,2] + 1 * .3/.25 * [10,20])
    conv = conv_with(np.eye(2))
    output = conv(
        tf.constant([[1.0, 2.0], [10.0, 20.0]]),
        sparse_of(np.array([[0.2, 0.3], [0.0, 0.6]], np.float32)),
        tf.constant([0.5, 0.25]),
        tf.constant([2.0, 1.0]),
    )
    first = (0.8 + 12.0) / 3
    np.testing.assert_allclose(output, [[first, 2 * first], [8, 16]], rtol=1e-6)


def test_conv_over_every_node_once_is_the_exact_convolution():
    rng = np.random.default_rng(2)
    adjacency = rng.uniform(size=(3, 4)).astype(np.float32)
    hidden = rng.normal(size=(4, 5)).astype(np.float32)
    kernel = rng.normal(size=(5, 2)).astype(np.float32)
    conv = conv_with(kernel, activation="relu")
    output = conv(hidden, sparse_of(adjacency), tf.fill([4], 0.25), tf.ones(4))
    expected = np.maximum(adjacency @ hidden @ kernel, 0)
    np.testing.assert_allclose(output, expected, rtol=1e-5)


def test_conv_takes_sparse_features_and_gives_the_same():
    rng = np.random.default_rng(3)
    hidden = rng.normal(size=(4, 5)).astype(np.float32)
    conv = conv_with(rng.normal(size=(5, 2)).astype(np.float32))
    rest = (
        sparse_of(rng.uniform(size=(3, 4)).astype(np.float32)),
        tf.constant([0.1, 0.2, 0.3, 0.4]),
        tf.constant([1.0, 2.0, 1.0, 1.0]),
    )
    np.testing.assert_allclose(
        conv(sparse_of(hidden), *rest), conv(hidden, *rest), rtol=1e-5
    )


def test_skip_equals_the_literal_product_of_adjacencies_and_kernels():
    """Eqs. (11)-(13): S1 relu(S0 X W0) W1 + (S1 S0) X (W0 W1)."""
    rng = np.random.default_rng(4)
    s_0, s_1 = rng.uniform(size=(5, 6)), rng.uniform(size=(3, 5))
    x, w_0, w_1 = (rng.normal(size=size) for size in ((6, 4), (4, 3), (3, 2)))
    s_0, s_1, x, w_0, w_1 = (
        m.astype(np.float32) for m in (s_0, s_1, x, w_0, w_1)
    )
    lower = conv_with(w_0, activation="relu", skip=True)
    upper = conv_with(w_1)
    hidden = lower(x, sparse_of(s_0), tf.fill([6], 1 / 6), tf.ones(6))
    output = upper(hidden, sparse_of(s_1), tf.fill([5], 1 / 5), tf.ones(5))
    literal = s_1 @ np.maximum(s_0 @ x @ w_0, 0) @ w_1 + (s_1 @ s_0) @ x @ (
        w_0 @ w_1
    )
    difference = np.abs(output - literal).max() / np.abs(literal).max()
    assert difference < 1e-6


@pytest.mark.parametrize(
    "layer",
    [
        layers.SelfDependentFunction("softplus", "ones", name="g"),
        layers.SelfDependentAttention(1.0, "ones", name="a"),
        layers.SampledGraphConv(
            3,
            activation="relu",
            skip=True,
            kernel_regularizer=keras.regularizers.L2(0.1),
            name="c",
        ),
    ],
)
def test_config_round_trip_gives_the_same_layer(layer):
    config = keras.saving.serialize_keras_object(layer)
    again = keras.saving.deserialize_keras_object(config)
    assert type(again) is type(layer)
    assert again.get_config() == layer.get_config()


def test_errors_say_what_was_expected_and_what_came():
    with pytest.raises(ValueError, match="Received: form='cube'"):
        layers.SelfDependentFunction("cube")
    for units in (0, -1, 2.5):
        with pytest.raises(ValueError, match=f"Received: units={units}"):
            layers.SampledGraphConv(units)
