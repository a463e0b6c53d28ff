"""Scaled and aggregated features: in memory, from a store, through a view."""

import dataclasses

import numpy as np
import pytest
from scipy import sparse

from adaptive_gcn import features, prepared
from adaptive_gcn.adjacency import normalize_adjacency
from adaptive_gcn.datasets import store
from adaptive_gcn.features import FeatureRows
from adaptive_gcn.graph import training_graph
from tests.helpers import ring_graph


def dense(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)


def both(tmp_path, as_sparse):
    """The same graph in memory and in a store."""
    graph = ring_graph()
    if as_sparse:
        graph = dataclasses.replace(
            graph, features=sparse.csr_array(graph.features)
        )
    return graph, store.write_store(graph, tmp_path / "s")


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("scaling", features.SCALINGS)
def test_a_store_keeps_what_memory_gives(tmp_path, scaling, as_sparse):
    in_memory, stored = both(tmp_path, as_sparse)
    expected = prepared.scaled(in_memory, scaling)
    for _ in range(2):
        received = prepared.scaled(stored, scaling)
        assert sparse.issparse(received) == sparse.issparse(expected)
        np.testing.assert_array_equal(dense(received), dense(expected))
    kept = (tmp_path / "s" / "derived" / f"features-{scaling}").is_dir()
    assert kept == (scaling != "raw")


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("part", ["all", "train"])
def test_aggregated_features_are_the_matrix_product(tmp_path, part, as_sparse):
    for graph in both(tmp_path, as_sparse):
        x = dense(graph.features)
        if part == "train":
            x = x[graph.train_nodes]
            graph = training_graph(graph)
        matrix = normalize_adjacency(graph.adjacency, "row")
        received = prepared.aggregated(graph, matrix, f"{part}-row")
        np.testing.assert_allclose(
            dense(received), matrix.toarray() @ x, atol=1e-6
        )


def test_blocks_make_no_difference(monkeypatch):
    graph = ring_graph()
    matrix = normalize_adjacency(graph.adjacency)

    def results():
        yield features.scale_features(graph.features, "l2", graph.train_nodes)
        yield features.scale_features(
            graph.features, "standard", graph.train_nodes
        )
        yield features.aggregate_features(matrix, graph.features)

    whole = list(results())
    monkeypatch.setattr(features, "BLOCK_BYTES", 100)
    for received, expected in zip(results(), whole, strict=True):
        np.testing.assert_allclose(received, expected, atol=1e-6)


def test_rows_of_features_are_a_view():
    matrix = np.arange(12, dtype=np.float32).reshape(4, 3)
    view = FeatureRows(matrix, np.array([3, 1]))
    assert view.shape == (2, 3)
    np.testing.assert_array_equal(view[np.array([1, 0])], matrix[[1, 3]])
    np.testing.assert_array_equal(view[:1], matrix[[3]])
    np.testing.assert_array_equal(view @ np.ones(3, np.float32), [30, 12])
    assert view.matrix is matrix
