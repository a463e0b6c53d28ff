"""The full architecture against plain NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import sparse

from adaptive_gcn import features, model, propagation
from adaptive_gcn.features import aggregate_features
from adaptive_gcn.graph import normalize_adjacency
from adaptive_gcn.sampling import samplers
from tests.helpers import ring_graph


def networks(**options):
    network = model.AdaptiveGCN(n_classes=3, hidden_units=(5, 4), **options)
    network.build_for(6)
    return network


def plain_gcn(network, matrix, x, skip=False, attention=None):
    """relu(A X W0), ..., A H WL in float64."""
    weights = [
        c.kernel.numpy().astype(np.float64) for c in network.convolutions
    ]
    if attention is not None:
        matrix = matrix * attention
    hidden = x.astype(np.float64)
    for level, kernel in enumerate(weights):
        z = matrix @ hidden @ kernel
        last = level == len(weights) - 1
        hidden = z if last else np.maximum(z, 0)
        if skip and level == len(weights) - 2:
            hidden = hidden + z
    return hidden


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("block_entries", [1, 7, 10**6])
@pytest.mark.parametrize("skip", [False, True])
def test_equals_plain_numpy_in_blocks_of_any_size(
    as_sparse, block_entries, skip
):
    graph = ring_graph()
    matrix = normalize_adjacency(graph.adjacency)
    network = networks(skip=skip)
    features = sparse.csr_array(graph.features) if as_sparse else graph.features
    full = propagation.FullPropagation(matrix, features, block_entries)
    nodes = np.array([4, 0, 29, 4])
    expected = plain_gcn(network, matrix.toarray(), graph.features, skip)[nodes]
    np.testing.assert_allclose(full.logits(network, nodes), expected, atol=1e-5)


def test_attention_multiplies_every_entry():
    keras.utils.set_random_seed(0)
    graph = ring_graph()
    matrix = normalize_adjacency(graph.adjacency)
    network = networks(attention="plus_one")
    w_1 = network.attention.parent_scale.numpy()
    w_2 = network.attention.sample_scale.numpy()
    score = graph.features @ w_1 + (graph.features @ w_2).T
    full = propagation.FullPropagation(matrix, graph.features, 9)
    expected = plain_gcn(
        network,
        matrix.toarray(),
        graph.features,
        attention=np.maximum(score, 0) + 1,
    )
    logits = full.logits(network, np.arange(30))
    np.testing.assert_allclose(logits, expected, atol=1e-5)


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("block_entries", [1, 7, 10**6])
def test_a_precomputed_bottom_changes_nothing_but_rounding(
    as_sparse, block_entries
):
    graph = ring_graph()
    matrix = normalize_adjacency(graph.adjacency)
    features = sparse.csr_array(graph.features) if as_sparse else graph.features
    network = networks(precomputed=True)
    full = propagation.FullPropagation(
        matrix, aggregate_features(matrix, features), block_entries
    )
    expected = plain_gcn(network, matrix.toarray(), graph.features)
    logits = full.logits(network, np.arange(30))
    np.testing.assert_allclose(logits, expected, atol=1e-5)


@pytest.mark.parametrize("attention", ["none", "plus_one"])
def test_results_do_not_depend_on_the_blocks(monkeypatch, attention):
    """Of rows, of columns where one row is too long, and of features."""
    graph = ring_graph()
    matrix = normalize_adjacency(graph.adjacency)
    network = networks(attention=attention)

    def logits(block_entries):
        full = propagation.FullPropagation(
            matrix, graph.features, block_entries
        )
        return full.logits(network, np.arange(30))

    expected = logits(10**6)
    for block_entries in (1, 5, 50):
        np.testing.assert_allclose(
            logits(block_entries), expected, rtol=1e-6, atol=1e-6
        )
    monkeypatch.setattr(propagation, "MOST_TERMS", 7)
    monkeypatch.setattr(features, "BLOCK_BYTES", 100)
    np.testing.assert_allclose(logits(10**6), expected, rtol=1e-6, atol=1e-6)


def test_no_product_exceeds_the_limit_of_terms(monkeypatch):
    graph = ring_graph()
    matrix = normalize_adjacency(graph.adjacency)
    terms = []
    product = tf.raw_ops.SparseMatrixMatMul

    def counted(a, b):
        n_entries = tf.raw_ops.SparseMatrixNNZ(sparse_matrix=a)
        terms.append(int(n_entries) * int(b.shape[1]))
        return product(a=a, b=b)

    monkeypatch.setattr(tf.raw_ops, "SparseMatrixMatMul", counted)
    monkeypatch.setattr(propagation, "MOST_TERMS", 40)
    full = propagation.FullPropagation(matrix, graph.features)
    full.logits(networks(), np.arange(30))
    assert 20 < max(terms) <= 40


def test_no_nodes_give_no_rows(monkeypatch):
    """On some processors the kernel ends the process for no rows."""
    product = tf.raw_ops.SparseMatrixMatMul

    def of_some_rows(a, b):
        assert tf.raw_ops.CSRSparseMatrixToDense(
            sparse_input=a, type=tf.float32
        ).shape[0]
        return product(a=a, b=b)

    monkeypatch.setattr(tf.raw_ops, "SparseMatrixMatMul", of_some_rows)
    graph = ring_graph()
    full = propagation.FullPropagation(
        normalize_adjacency(graph.adjacency), graph.features
    )
    assert full.logits(networks(), np.empty(0, np.int64)).shape == (0, 3)


def test_dropout_does_not_reach_the_full_architecture():
    graph = ring_graph()
    matrix = normalize_adjacency(graph.adjacency)
    network = networks(dropout=0.5)
    full = propagation.FullPropagation(matrix, graph.features)
    first, second = (full.logits(network, np.arange(30)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    expected = plain_gcn(network, matrix.toarray(), graph.features)
    np.testing.assert_allclose(first, expected, atol=1e-5)


@pytest.mark.parametrize("attention", model.ATTENTION_FORMS)
@pytest.mark.parametrize("skip", [False, True])
def test_network_over_the_full_sampler_equals_the_full_architecture(
    attention, skip
):
    graph = ring_graph()
    matrix = normalize_adjacency(graph.adjacency)
    network = networks(attention=attention, skip=skip)
    nodes = np.array([3, 17, 4])
    layers = samplers.sample_layers(
        samplers.FullSampler(matrix), nodes, (1, 1, 1), np.random.default_rng(0)
    )
    levels = [*(layer.nodes for layer in layers), nodes]
    inputs = {
        "features": tuple(tf.constant(graph.features[n]) for n in levels),
        "adjacency": tuple(
            tf.SparseTensor(
                layer.indices, layer.values, (len(above), len(layer.nodes))
            )
            for layer, above in zip(layers, levels[1:], strict=True)
        ),
        "sample_prob": tuple(layer.sample_prob for layer in layers),
        "counts": tuple(layer.counts for layer in layers),
    }
    full = propagation.FullPropagation(matrix, graph.features)
    np.testing.assert_allclose(
        network(inputs), full.logits(network, nodes), atol=1e-5
    )
