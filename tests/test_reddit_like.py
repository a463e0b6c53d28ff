"""The graph like Reddit has the counts and difficulty that it promises."""

import dataclasses
import logging

import numpy as np
import pytest

from adaptive_gcn.datasets.reddit_like import (
    RedditLikeConfig,
    reddit_like_graph,
)
from adaptive_gcn.graph import normalize_adjacency, scale_features

SMALL = RedditLikeConfig(
    n_nodes=3000,
    n_edges=60_000,
    n_features=102,
    n_classes=8,
    group_signal=0.3,
    class_signal=0.12,
)


@pytest.fixture(scope="module")
def small():
    return reddit_like_graph(SMALL)


def ends_of(graph):
    return graph.adjacency.nonzero()


def measured_homophily(graph):
    source, target = ends_of(graph)
    return np.mean(graph.labels[source] == graph.labels[target])


def linear_accuracy(graph, features):
    """Test accuracy of a least-squares classifier on the training nodes."""
    features = np.hstack([features, np.ones((graph.n_nodes, 1))])
    train, test = graph.train_nodes, graph.test_nodes
    targets = np.eye(graph.n_classes)[graph.labels[train]]
    weights, *_ = np.linalg.lstsq(features[train], targets, rcond=None)
    guesses = (features[test] @ weights).argmax(axis=1)
    return np.mean(guesses == graph.labels[test])


def test_default_has_the_size_of_reddit():
    config = RedditLikeConfig()
    assert config.n_nodes == 232_965
    assert config.n_edges == 11_606_919
    assert (config.n_features, config.n_classes) == (602, 41)
    parts = config.n_train, config.n_val, config.n_test
    assert parts == (153_932, 23_699, 55_334)


def test_counts_are_exact(small, caplog):
    expected = {
        "nodes": 3000,
        "features": 102,
        "classes": 8,
        "train": SMALL.n_train,
        "validation": round(3000 * 23_699 / 232_965),
        "test": round(3000 * 55_334 / 232_965),
        "undirected_edges": 60_000,
        "entries_read": 60_000,
        "duplicates": 0,
        "self_loops": 0,
        "unlabelled": 0,
    }
    assert expected.items() <= small.statistics().items()
    with caplog.at_level(logging.INFO):
        reddit_like_graph(SMALL)
    assert not caplog.records


def test_every_node_is_in_one_part_that_its_id_does_not_tell(small):
    parts = small.train_nodes, small.val_nodes, small.test_nodes
    np.testing.assert_array_equal(
        np.sort(np.concatenate(parts)), np.arange(3000)
    )
    for nodes in parts:
        assert np.mean(nodes) == pytest.approx(1500, abs=250)


@pytest.mark.parametrize("n_nodes", [13, 50, 500])
def test_every_class_has_a_training_node(n_nodes):
    for seed in range(3):
        config = dataclasses.replace(
            SMALL, n_nodes=n_nodes, n_edges=n_nodes, seed=seed, label_noise=1
        )
        graph = reddit_like_graph(config)
        assert len(np.unique(graph.labels[graph.train_nodes])) == 8


def test_same_seed_same_graph_other_seed_other_graph(small):
    again = reddit_like_graph(SMALL)
    assert (small.adjacency != again.adjacency).nnz == 0
    for part in ("features", "labels", "train_nodes", "test_nodes"):
        np.testing.assert_array_equal(
            getattr(small, part), getattr(again, part)
        )
    other = reddit_like_graph(dataclasses.replace(SMALL, seed=1))
    assert (small.adjacency != other.adjacency).nnz > 0
    for part in ("features", "labels", "train_nodes", "test_nodes"):
        assert np.any(getattr(small, part) != getattr(other, part))


def test_degrees_are_heavy_tailed(small):
    degrees = np.diff(small.adjacency.indptr)
    assert np.median(degrees) < degrees.mean() * 0.8
    # Hubs are held to about a twelfth of the nodes.
    assert 6 * degrees.mean() < degrees.max() < 400


def test_classes_are_unequal(small):
    sizes = np.bincount(small.labels)
    assert sizes.max() > 1.8 * sizes.min() > 0


@pytest.mark.parametrize("homophily", [0.0, 0.3, 1.0])
def test_homophily(homophily):
    config = dataclasses.replace(
        SMALL, n_edges=6000, homophily=homophily, label_noise=0
    )
    graph = reddit_like_graph(config)
    assert measured_homophily(graph) == pytest.approx(homophily, abs=0.03)


def test_label_noise_lowers_homophily():
    config = dataclasses.replace(
        SMALL, n_edges=6000, homophily=1, label_noise=0.2
    )
    # Both ends keep their label, or both get the same other one of seven.
    expected = 0.8**2 + 0.2**2 / 7
    graph = reddit_like_graph(config)
    assert measured_homophily(graph) == pytest.approx(expected, abs=0.04)


def test_two_columns_are_counts_and_the_others_are_not(small):
    comments, scores = small.features[:, 0], small.features[:, 1]
    text = small.features[:, 2:]
    assert small.features.dtype == np.float32
    for counts in (comments, scores):
        np.testing.assert_array_equal(counts, np.round(counts))
        assert counts.max() > 20 * np.median(counts)
    assert comments.min() == 0
    assert 0 < np.mean(scores < 0) < 0.5
    assert np.all(text != np.round(text))
    assert text.std() == pytest.approx(1, abs=0.1)


def test_neighbours_tell_more_than_a_linear_model_of_the_features(small):
    features = scale_features(small.features, "standard", small.train_nodes)
    matrix = normalize_adjacency(small.adjacency)
    alone = linear_accuracy(small, features)
    propagated = linear_accuracy(small, matrix @ (matrix @ features))
    assert 0.5 < alone < 0.8
    assert alone + 0.12 < propagated < 0.99


def test_no_edges_and_no_text():
    config = RedditLikeConfig(n_nodes=20, n_edges=0, n_features=2, n_classes=2)
    graph = reddit_like_graph(config)
    assert graph.n_edges == 0
    assert graph.features.shape == (20, 2)


@pytest.mark.parametrize(
    "field, value",
    [
        ("n_nodes", 7),
        ("n_nodes", 10),  # 7 training nodes for 8 classes.
        ("n_features", 1),
        ("n_classes", 1),
        ("n_edges", -1),
        ("n_edges", 2_000_000),
        ("n_edges", float("nan")),
        ("homophily", 1.1),
        ("label_noise", -0.1),
        ("group_signal", -1),
        ("class_signal", float("inf")),
        ("seed", -1),
    ],
)
def test_values_outside_their_range(field, value):
    with pytest.raises(ValueError, match="expected .* <= .* Received: "):
        dataclasses.replace(SMALL, **{field: value})


def test_too_many_edges_for_the_classes():
    config = dataclasses.replace(SMALL, n_nodes=64, n_edges=500, homophily=1)
    with pytest.raises(ValueError, match="expected 500 edges"):
        reddit_like_graph(config)
