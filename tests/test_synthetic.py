"""The synthetic graph has the statistics that its configuration names."""

import dataclasses

import numpy as np
import pytest

from adaptive_gcn.datasets import load
from adaptive_gcn.datasets.synthetic import SyntheticConfig, synthetic_graph
from adaptive_gcn.graph import normalize_adjacency, scale_features


def measured_homophily(graph):
    source, target = graph.adjacency.nonzero()
    return np.mean(graph.labels[source] == graph.labels[target])


def linear_accuracy(graph, features):
    """Test accuracy of a ridge classifier on the training nodes."""
    features = features.toarray().astype(np.float64)
    train, test = graph.train_nodes, graph.test_nodes
    centre = features[train].mean(axis=0)
    inputs = features[train] - centre
    targets = np.eye(graph.n_classes)[graph.labels[train]]
    offset = targets.mean(axis=0)
    kernel = inputs @ inputs.T  # Fewer nodes than words: the dual is smaller.
    ridge = np.trace(kernel) / len(train)
    dual = np.linalg.solve(
        kernel + ridge * np.eye(len(train)), targets - offset
    )
    scores = (features[test] - centre) @ (inputs.T @ dual) + offset
    return np.mean(scores.argmax(axis=1) == graph.labels[test])


def test_default_has_the_size_of_cora():
    counts = synthetic_graph(SyntheticConfig()).statistics()
    expected = {
        "nodes": 2708,
        "features": 1433,
        "classes": 7,
        "train": 1208,
        "validation": 500,
        "test": 1000,
        "undirected_edges": round(2708 * 3.9 / 2),
        "entries_read": 2 * round(2708 * 3.9 / 2),
        "duplicates": 0,
        "self_loops": 0,
        "unlabelled": 0,
    }
    assert expected.items() <= counts.items()


def test_default_is_about_as_difficult_as_cora():
    """By the same measure Cora has 0.745 alone and 0.869 propagated."""
    graph = synthetic_graph(SyntheticConfig())
    words = scale_features(graph.features, "l2", graph.train_nodes)
    matrix = normalize_adjacency(graph.adjacency)
    alone = linear_accuracy(graph, words)
    propagated = linear_accuracy(graph, matrix @ (matrix @ words))
    assert 0.70 < alone < 0.80
    assert 0.84 < propagated < 0.90


def test_same_seed_same_graph_other_seed_other_graph():
    config = SyntheticConfig(n_nodes=200, seed=3)
    first, second = synthetic_graph(config), synthetic_graph(config)
    for part in ("adjacency", "features"):
        assert (getattr(first, part) != getattr(second, part)).nnz == 0
    np.testing.assert_array_equal(first.labels, second.labels)
    other = synthetic_graph(dataclasses.replace(config, seed=4))
    assert (first.adjacency != other.adjacency).nnz > 0
    assert (first.features != other.features).nnz > 0


@pytest.mark.parametrize("homophily", [0.0, 0.3, 1.0])
def test_homophily(homophily):
    config = SyntheticConfig(homophily=homophily, label_noise=0)
    graph = synthetic_graph(config)
    assert measured_homophily(graph) == pytest.approx(homophily, abs=0.02)


def test_label_noise_lowers_homophily():
    config = SyntheticConfig(homophily=1, label_noise=0.2)
    graph = synthetic_graph(config)
    # Both ends keep their label, or both get the same other one of six.
    expected = 0.8**2 + 0.2**2 / 6
    assert measured_homophily(graph) == pytest.approx(expected, abs=0.03)


def test_degrees_are_heavy_tailed():
    graph = synthetic_graph(SyntheticConfig())
    degrees = np.diff(graph.adjacency.indptr)
    assert np.median(degrees) < degrees.mean() < degrees.max() / 8


def test_features_are_zeros_and_ones():
    graph = synthetic_graph(SyntheticConfig(words_per_node=5))
    assert set(graph.features.data) == {1.0}
    per_node = graph.features.sum() / graph.n_nodes
    assert 4 < per_node <= 5.1


@pytest.mark.parametrize("n_nodes", [16, 100, 20_000])
def test_every_class_has_a_training_node(n_nodes):
    for seed in range(3):
        config = SyntheticConfig(n_nodes=n_nodes, mean_degree=2, seed=seed)
        graph = synthetic_graph(config)
        assert len(np.unique(graph.labels[graph.train_nodes])) == 7
        assert len(graph.val_nodes) == pytest.approx(n_nodes / 5.416, abs=1)
        assert len(graph.test_nodes) == pytest.approx(n_nodes / 2.708, abs=1)


@pytest.mark.parametrize(
    "field, value",
    [
        ("n_nodes", 6),
        ("n_nodes", 10),  # 4 training nodes for 7 classes.
        ("n_features", 0),
        ("n_classes", 1),
        ("mean_degree", -1),
        ("mean_degree", 2000),
        ("mean_degree", float("nan")),
        ("homophily", 1.1),
        ("label_noise", -0.1),
        ("word_signal", 2),
        ("words_per_node", -1),
        ("seed", -1),
    ],
)
def test_values_outside_their_range(field, value):
    with pytest.raises(ValueError, match="expected .* <= .* Received: "):
        SyntheticConfig(**{field: value})


def test_too_many_edges_for_the_classes():
    config = SyntheticConfig(
        n_nodes=64, n_classes=20, mean_degree=16, homophily=1
    )
    with pytest.raises(ValueError, match="expected 512 edges"):
        synthetic_graph(config)


def test_load_passes_the_configuration(no_network):
    graph = load("Synthetic", synthetic=SyntheticConfig(n_nodes=50))
    assert graph.n_nodes == 50
    assert load("synthetic").n_nodes == 2708
