"""The training step: who learns from what, and what GPU kernels it needs."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import sparse
from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import kernels

from adaptive_gcn import model, pipeline, variance
from adaptive_gcn.graph import normalize_adjacency, training_graph
from adaptive_gcn.sampling import samplers
from tests.helpers import ring_graph

N_FEATURES = 25


def network_of(**options):
    keras.utils.set_random_seed(0)
    settings = {"self_dependent": "exp", "hidden_units": (5,), **options}
    network = model.AdaptiveGCN(n_classes=3, **settings)
    network.compile(keras.optimizers.Adam(0.01), keras.optimizers.Adam(0.01))
    network.build_for(N_FEATURES)
    return network


def batches_for(network, as_sparse=None, **options):
    graph = training_graph(ring_graph(n_features=N_FEATURES, sparse=as_sparse))
    matrix = normalize_adjacency(graph.adjacency)
    settings = {
        "graph": graph,
        "sampler": samplers.AdaptiveSampler(matrix, "l2"),
        "samples_per_layer": (6, 5),
        "batch_size": 8,
        "feature_levels": network.feature_levels,
    }
    return pipeline.Batches(**{**settings, **options})


def first_batch(network, **options):
    return next(iter(batches_for(network, **options).dataset()))


def values_of(variables):
    return [variable.numpy().copy() for variable in variables]


# Every value of every option, and the pairs that share code.
OPTIONS = [
    dict(
        zip(
            (
                "attention",
                "network_term",
                "variance_layers",
                "variance_gradient",
            ),
            values,
            strict=True,
        )
    )
    for values in (
        ("none", "mean_logit", "all", "exact"),
        ("none", "variance", "top", "paper"),
        ("paper", "variance", "all", "exact"),
        ("plus_one", "none", "top", "exact"),
        ("plus_one", "mean_logit", "top", "paper"),
        ("plus_one", "variance", "all", "paper"),
    )
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("as_sparse", [None, sparse.csr_array])
def test_step_moves_network_and_sampler(options, as_sparse):
    network = network_of(**options)
    # Attention has no gradient where its ReLU is 0; keep it above.
    if options["attention"] == "paper":
        network.self_dependent.w_g.assign(np.full((N_FEATURES, 1), 0.5))
    if options["attention"] == "plus_one":
        network.attention.parent_scale.assign(np.full((N_FEATURES, 1), 0.5))
    before = values_of(network.trainable_variables)
    logs = network.train_step(first_batch(network, as_sparse=as_sparse))
    after = values_of(network.trainable_variables)
    for old, new, variable in zip(
        before, after, network.trainable_variables, strict=True
    ):
        assert not np.array_equal(old, new), variable.path
    assert all(np.isfinite(float(value)) for value in logs.values())


@pytest.mark.parametrize("attention", model.ATTENTION_FORMS)
def test_class_loss_gives_w_g_no_gradient(attention):
    """Eq. (15), and D10 of the cases: neither through q nor attention."""
    network = network_of(attention=attention)
    inputs, labels = first_batch(network)
    w_g = network.self_dependent.w_g
    with tf.GradientTape(persistent=True) as tape:
        logits = network(inputs)
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        )
    assert tape.gradient(loss, w_g) is None
    gradient = tape.gradient(loss, network.convolutions[1].kernel)
    assert np.abs(gradient).max() > 0


def test_lambda_zero_leaves_w_g_bit_for_bit_and_the_step_runs():
    network = network_of(variance_weight=0.0)
    network.self_dependent.w_g.assign(
        np.random.default_rng(0).normal(size=(N_FEATURES, 1))
    )
    before = network.self_dependent.w_g.numpy().copy()
    kernel = network.convolutions[0].kernel.numpy().copy()
    logs = network.train_step(first_batch(network))
    np.testing.assert_array_equal(network.self_dependent.w_g.numpy(), before)
    assert not np.array_equal(network.convolutions[0].kernel.numpy(), kernel)
    assert "w_g_gradient_norm" not in logs


def test_w_g_step_is_lambda_times_the_analytic_gradient():
    """SGD with rate 1 makes the step the gradient; checked in NumPy."""
    network = network_of(
        variance_weight=0.25, variance_layers="all", network_term="none"
    )
    network.compile(keras.optimizers.SGD(0.0), keras.optimizers.SGD(1.0))
    inputs, labels = first_batch(network)
    _, sampled = network.forward(inputs)
    expected = np.zeros((N_FEATURES, 1))
    for level, layer in enumerate(sampled):
        q, counts = layer.sample_prob.numpy(), layer.counts.numpy()
        n = counts.sum()
        dense = np.zeros((int(layer.n_parents), len(q)))
        dense[tuple(layer.indices.numpy().T)] = layer.values
        c = (dense**2).mean(0) * (np.asarray(layer.hidden) ** 2).sum(1)
        ratio = c / q**2
        x = inputs["features"][level].numpy()
        slope = x - (counts[:, None] * x).sum(0) / n  # exp: dlog g = x
        covariance = (counts * ratio) @ slope / (n - 1)
        expected -= covariance[:, None] / n
    network.train_step((inputs, labels))
    np.testing.assert_allclose(
        network.self_dependent.w_g.numpy(), -0.25 * expected, rtol=1e-4
    )


def test_w_g_steps_on_draws_of_an_earlier_g_go_to_the_least_variance():
    """Steps between two evaluations of g, on 20,000 draws with g = 1."""
    network = network_of(variance_layers="top", network_term="none")
    network.compile(keras.optimizers.SGD(0.0), keras.optimizers.Adam(0.01))
    inputs, labels = first_batch(network, samples_per_layer=(8, 20_000))
    inputs["importance"] = tuple(map(tf.ones_like, inputs["sample_prob"]))
    _, sampled = network.forward(inputs)
    layer = sampled[-1]
    moment = variance.second_moment(
        layer.values, layer.indices, layer.hidden, layer.n_parents
    )

    def moment_over_q():
        """Of Var = (sum_u c(u) / q(u) - |mu|^2) / n, what W_g bears on."""
        q = layer.sample_prob * network.self_dependent(inputs["features"][1])
        return float(tf.reduce_sum(moment / q) * tf.reduce_sum(q))

    least = float(tf.reduce_sum(tf.sqrt(moment)) ** 2)
    assert moment_over_q() > 1.1 * least
    for _ in range(300):
        network.train_step((inputs, labels))
    assert moment_over_q() < 1.01 * least


@pytest.mark.parametrize("term", ["none", "variance", "mean_logit"])
@pytest.mark.parametrize("levels", ["top", "all"])
def test_network_step_follows_class_loss_term_and_l2(term, levels):
    """SGD with rate 1 makes the step the gradient of what is written here."""
    network = network_of(
        network_term=term,
        variance_layers=levels,
        variance_weight=2.0,
        weight_decay=0.1,
    )
    network.compile(keras.optimizers.SGD(1.0), keras.optimizers.SGD(0.0))
    inputs, labels = first_batch(network)
    kernels_ = [c.kernel for c in network.convolutions]
    with tf.GradientTape() as tape:
        logits, sampled = network.forward(inputs)
        loss = tf.reduce_mean(
            keras.losses.sparse_categorical_crossentropy(
                labels, logits, from_logits=True
            )
        )
        for level in (1,) if levels == "top" else (0, 1):
            layer = sampled[level]
            weights = variance.importance_weights(
                layer.sample_prob, layer.counts
            )
            block = tf.sparse.to_dense(inputs["adjacency"][level])
            if term == "variance":
                loss += 2.0 * variance.variance_estimate(
                    variance.second_moment(
                        layer.values,
                        layer.indices,
                        layer.hidden,
                        layer.n_parents,
                    ),
                    layer.sample_prob,
                    layer.counts,
                    block @ (weights[:, None] * layer.hidden),
                )
            if term == "mean_logit":
                loss += 2.0 * variance.mean_logit_term(
                    layer.values,
                    layer.indices,
                    layer.hidden @ kernels_[level],
                    block @ (weights[:, None] * layer.hidden @ kernels_[level]),
                    weights,
                    layer.counts,
                )
        loss += 0.05 * tf.reduce_sum(tf.square(kernels_[0]))
    gradients = [g.numpy() for g in tape.gradient(loss, kernels_)]
    before = values_of(kernels_)
    logs = network.train_step((inputs, labels))
    assert float(logs["loss"]) == pytest.approx(float(loss), rel=1e-5)
    for old, new, gradient in zip(
        before, values_of(kernels_), gradients, strict=True
    ):
        np.testing.assert_allclose(old - new, gradient, rtol=1e-3, atol=1e-6)


def test_evaluate_gives_the_class_loss_of_sampled_batches():
    network = network_of(dropout=0.5)
    inputs, labels = first_batch(network)
    expected = keras.losses.sparse_categorical_crossentropy(
        labels, network(inputs), from_logits=True
    )
    logs = network.test_step((inputs, labels))
    assert set(logs) == {"class_loss"}
    assert float(logs["class_loss"]) == pytest.approx(float(np.mean(expected)))


def test_loss_and_metrics_of_ones_own_are_refused():
    with pytest.raises(ValueError, match="Received: loss, metrics"):
        network_of().compile(loss="mse", metrics=["accuracy"])


def test_loss_holds_the_chosen_term_and_l2():
    """Loss of the step = class loss + lambda T + weight_decay/2 |W0|^2."""
    for term in ("none", "variance", "mean_logit"):
        network = network_of(
            network_term=term,
            variance_layers="top",
            variance_weight=2.0,
            weight_decay=0.1,
        )
        kernel = network.convolutions[0].kernel.numpy()
        logs = network.train_step(first_batch(network))
        l2 = 0.05 * (kernel**2).sum()
        extra = float(logs["loss"]) - float(logs["class_loss"]) - l2
        if term == "none":
            assert extra == pytest.approx(0, abs=1e-6)
        elif term == "variance":
            assert extra == pytest.approx(2 * float(logs["variance"]), rel=1e-4)
        else:
            assert extra > 1e-6


def test_logs_hold_only_what_the_method_has():
    plain = network_of(
        draws_from_q=False, train_sampler=False, variance_weight=0.0
    )
    logs = plain.train_step(first_batch(plain))
    assert set(logs) == {"loss", "class_loss"}
    full_logs = network_of().train_step(first_batch(network_of()))
    assert set(full_logs) == {
        "loss",
        "class_loss",
        "variance",
        "w_g_gradient_norm",
    }


@pytest.mark.parametrize("attention", model.ATTENTION_FORMS)
def test_keras_file_restores_weights_optimisers_and_outputs(
    tmp_path, attention
):
    network = network_of(attention=attention, skip=True, weight_decay=0.1)
    source = batches_for(network)
    network.fit(source.dataset(), steps_per_epoch=3, verbose=0, shuffle=False)
    path = tmp_path / "network.keras"
    network.save(path)
    again = keras.models.load_model(path)
    batch = first_batch(network)
    np.testing.assert_array_equal(network(batch[0]), again(batch[0]))
    for one, other in (
        (network.optimizer, again.optimizer),
        (network.sampler_optimizer, again.sampler_optimizer),
    ):
        for left, right in zip(one.variables, other.variables, strict=True):
            np.testing.assert_array_equal(left.numpy(), right.numpy())
    for net in (network, again):
        net.train_step(batch)
    for left, right in zip(network.weights, again.weights, strict=True):
        np.testing.assert_array_equal(left.numpy(), right.numpy())


def test_fit_traces_the_step_once_however_the_sizes_vary():
    network = network_of()
    traces = []
    inner = network.train_step

    def counted(data):
        traces.append(1)
        return inner(data)

    network.train_step = counted
    network.fit(
        batches_for(network).dataset(),
        steps_per_epoch=3,
        epochs=3,
        verbose=0,
        shuffle=False,
    )
    assert len(traces) <= 2


# Structure of a function, no computation.
_NO_KERNEL = {"Placeholder", "Const", "NoOp", "Identity"}


def float_nodes(graph):
    """Nodes with floats of a function and of all functions that it calls."""
    definition = graph.as_graph_def()
    bodies = [function.node_def for function in definition.library.function]
    return [
        node
        for nodes in (definition.node, *bodies)
        for node in nodes
        if node.op not in _NO_KERNEL
        and any(
            types_pb2.DT_FLOAT in (value.type, *value.list.type)
            for value in node.attr.values()
        )
    ]


def has_gpu_kernel(node):
    """Whether a GPU kernel is registered for the node with its very types."""
    registered = kernels.get_registered_kernels_for_op(node.op)
    return any(
        kernel.device_type in ("GPU", "DEFAULT")
        and all(
            node.attr[constraint.name].type
            in constraint.allowed_values.list.type
            for constraint in kernel.constraint
        )
        for kernel in registered.kernel
    )


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("as_sparse", [None, sparse.csr_array])
def test_every_float_op_of_the_step_has_a_gpu_kernel(options, as_sparse):
    network = network_of(dropout=0.5, skip=True, **options)
    batch = first_batch(network, as_sparse=as_sparse)
    step = tf.function(network.train_step, autograph=False)
    graph = step.get_concrete_function(batch).graph
    nodes = float_nodes(graph)
    types = {node.op for node in nodes}
    assert "SparseMatrixMatMul" in types
    assert len(nodes) > 100
    assert [node.op for node in nodes if not has_gpu_kernel(node)] == []
    assert not types & {"PyFunc", "EagerPyFunc", "PyFuncStateless"}


def test_unknown_options_are_refused_by_name():
    for name in (
        "attention",
        "variance_gradient",
        "variance_layers",
        "network_term",
    ):
        with pytest.raises(ValueError, match=f"Received: {name}='x'"):
            network_of(**{name: "x"})
    with pytest.raises(ValueError, match="needs draws from q"):
        network_of(draws_from_q=False, network_term="variance")


@pytest.mark.parametrize("bad", [np.nan, np.inf, 2e6])
def test_diverged_loss_is_noted_with_its_step(bad):
    metric = model.FirstDiverged()
    for value in (1.0, bad, np.nan, 2.0):
        metric.update_state(tf.constant(value))
    assert float(metric.result()) == 2
    metric.reset_state()
    assert float(metric.result()) == 0


# The bottom layer precomputed: the features are A^ X already.

# Row-normalised, all rows different, node 4 without a link to node 0.
SMALL = np.array(
    [
        [0.5, 0.3, 0.2, 0.0, 0.0],
        [0.2, 0.4, 0.0, 0.4, 0.0],
        [0.1, 0.0, 0.6, 0.1, 0.2],
        [0.0, 0.3, 0.1, 0.6, 0.0],
        [0.0, 0.0, 0.5, 0.0, 0.5],
    ],
    np.float32,
)


def small_inputs(features, draws, n_levels=2):
    """A batch of nodes 3, 1 over the draws (node, count, q), in that order."""
    nodes, counts, q = map(np.array, zip(*draws, strict=True))
    batch = np.array([3, 1])
    block = SMALL[np.ix_(batch, nodes)]
    inputs = {
        "features": tuple(
            tf.constant(features[ids]) for ids in (nodes, batch)[:n_levels]
        ),
        "adjacency": (tf.sparse.from_dense(block),),
        "sample_prob": (tf.constant(q, tf.float32),),
        "counts": (tf.constant(counts, tf.float32),),
        "nodes": (tf.constant(nodes), tf.constant(batch)),
    }
    return inputs, tf.constant([2, 0], tf.int64)


def small_network(n_features=4, **options):
    keras.utils.set_random_seed(1)
    settings = {
        "self_dependent": "exp",
        "hidden_units": (6,),
        "precomputed": True,
        **options,
    }
    network = model.AdaptiveGCN(n_classes=3, **settings)
    network.compile(keras.optimizers.SGD(1.0), keras.optimizers.SGD(1.0))
    network.build_for(n_features)
    return network


def small_features():
    x = np.random.default_rng(5).normal(size=(5, 4)).astype(np.float32)
    return x, SMALL @ x


def test_precomputed_layer_is_dense_and_the_top_one_sampled_by_hand():
    _, aggregated = small_features()
    network = small_network(attention="plus_one", network_term="none")
    w_0, w_1 = (c.kernel.numpy() for c in network.convolutions)
    nodes, batch = [0, 1, 3], [3, 1]
    counts, q = np.array([1, 2, 1]), np.array([0.5, 0.2, 0.25])
    hidden = np.maximum(aggregated[nodes] @ w_0, 0)
    scores = (
        aggregated[batch] @ network.attention.parent_scale.numpy()
        + (aggregated[nodes] @ network.attention.sample_scale.numpy()).T
    )
    block = SMALL[np.ix_(batch, nodes)] * (np.maximum(scores, 0) + 1)
    expected = block @ ((counts / (4 * q))[:, None] * (hidden @ w_1))
    inputs, labels = small_inputs(
        aggregated, zip(nodes, counts, q, strict=True)
    )
    np.testing.assert_allclose(network(inputs), expected, rtol=1e-5)

    # W_g sees the inputs A^ X; the variance is of the one sampled layer.
    ratio = (block**2).mean(0) * (hidden**2).sum(1) / q**2
    x = aggregated[nodes]
    slope = x - counts @ x / 4
    w_g_step = (0.5 * (counts * ratio) @ slope / (3 * 4))[:, None]
    logs = network.train_step((inputs, labels))
    np.testing.assert_allclose(
        network.self_dependent.w_g.numpy(), w_g_step, rtol=1e-4
    )
    spread = (
        counts @ ratio
        - 4 * (((block * counts / (4 * q)) @ hidden) ** 2).sum(1).mean()
    )
    assert float(logs["variance"]) == pytest.approx(spread / 12, rel=1e-4)


@pytest.mark.parametrize("levels", ["top", "all"])
@pytest.mark.parametrize("term", ["variance", "mean_logit"])
def test_precomputed_term_reaches_both_kernels(term, levels):
    """The term's gradient, by central differences of the logged loss."""
    _, aggregated = small_features()
    settings = {"network_term": term, "variance_layers": levels}
    draws = [(0, 1, 0.5), (1, 2, 0.2), (3, 1, 0.25)]
    inputs, labels = small_inputs(aggregated, draws)

    def kernels_of(network):
        return [convolution.kernel for convolution in network.convolutions]

    def loss_at(level, place, change):
        network = small_network(**settings)
        kernel = kernels_of(network)[level].numpy()
        kernel[place] += change
        kernels_of(network)[level].assign(kernel)
        return float(network.train_step((inputs, labels))["loss"])

    stepped, start = small_network(**settings), small_network(**settings)
    stepped.train_step((inputs, labels))
    for level in (0, 1):
        gradient = (
            kernels_of(start)[level].numpy()
            - kernels_of(stepped)[level].numpy()
        )
        place = np.unravel_index(np.abs(gradient).argmax(), gradient.shape)
        slope = (loss_at(level, place, 0.01) - loss_at(level, place, -0.01)) / (
            0.02
        )
        assert gradient[place] == pytest.approx(slope, rel=2e-2)


def test_precomputed_over_every_node_is_the_exact_two_layer_network():
    x, aggregated = small_features()
    settings = {"network_term": "none", "train_sampler": False}
    network = small_network(**settings, draws_from_q=False)
    w_0, w_1 = (c.kernel.numpy() for c in network.convolutions)
    exact = SMALL @ np.maximum(SMALL @ x @ w_0, 0) @ w_1  # Eq. (1)
    sampler = samplers.FullSampler(sparse.csr_array(SMALL))
    sample = sampler.sample(np.array([3, 1]), 1, np.random.default_rng(0))
    draws = zip(sample.nodes, sample.counts, sample.sample_prob, strict=True)
    inputs, _ = small_inputs(aggregated, draws, n_levels=1)
    np.testing.assert_allclose(network(inputs), exact[[3, 1]], rtol=1e-5)
    # The same weights in the network that samples both layers, all taken.
    both = small_network(**settings, draws_from_q=False, precomputed=False)
    both.set_weights(network.get_weights())
    layers = samplers.sample_layers(
        sampler, np.array([3, 1]), (1, 1), np.random.default_rng(0)
    )
    full = {
        "features": (tf.constant(x[layers[0].nodes]),),
        "adjacency": tuple(
            tf.SparseTensor(layer.indices, layer.values, (n, len(layer.nodes)))
            for layer, n in zip(layers, (len(layers[1].nodes), 2), strict=True)
        ),
        "sample_prob": tuple(layer.sample_prob for layer in layers),
        "counts": tuple(layer.counts for layer in layers),
    }
    np.testing.assert_allclose(network(inputs), both(full), rtol=1e-5)


@pytest.mark.parametrize("attention", model.ATTENTION_FORMS)
@pytest.mark.parametrize("as_sparse", [None, sparse.csr_array])
def test_precomputed_network_fits_saves_and_loads(
    tmp_path, attention, as_sparse
):
    network = network_of(
        attention=attention, precomputed=True, weight_decay=0.1, dropout=0.1
    )
    assert network.n_sampled_layers == 1
    assert network.feature_levels == (1 if attention == "none" else 2)
    source = batches_for(network, as_sparse=as_sparse, samples_per_layer=(5,))
    before = values_of(network.trainable_variables)
    network.fit(source.dataset(), steps_per_epoch=3, verbose=0, shuffle=False)
    moved = [
        not np.array_equal(old, new)
        for old, new in zip(
            before, values_of(network.trainable_variables), strict=True
        )
    ]
    assert attention == "paper" or all(moved)
    path = tmp_path / "network.keras"
    network.save(path)
    again = keras.models.load_model(path)
    assert again.get_config() == network.get_config()
    batch = next(iter(source.dataset()))
    np.testing.assert_array_equal(network(batch[0]), again(batch[0]))
    again.train_step(batch)


def test_precomputed_refuses_skip_and_a_network_without_sampled_layer():
    with pytest.raises(ValueError, match="the lower one is not sampled"):
        network_of(precomputed=True, skip=True)
    with pytest.raises(ValueError, match="needs a sampled layer above it"):
        network_of(precomputed=True, hidden_units=())
