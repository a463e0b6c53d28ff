"""Scaled and aggregated features: in memory, from a store, through a view."""

import copy
import dataclasses

import numpy as np
import pytest
from scipy import sparse

from adaptive_gcn import features, prepared
from adaptive_gcn.adjacency import normalize_adjacency
from adaptive_gcn.datasets import store
from adaptive_gcn.features import FeatureRows
from adaptive_gcn.graph import GraphError, training_graph
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


def derived(tmp_path):
    """What is kept beside the store."""
    return sorted(tmp_path.glob("s/derived/*/array.npy"))


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("scaling", features.SCALINGS)
def test_a_store_keeps_what_memory_gives(tmp_path, scaling, as_sparse):
    in_memory, stored = both(tmp_path, as_sparse)
    expected = prepared.scaled(in_memory, scaling)
    for _ in range(2):
        received = prepared.scaled(stored, scaling)
        assert sparse.issparse(received) == sparse.issparse(expected)
        np.testing.assert_array_equal(dense(received), dense(expected))
    assert len(derived(tmp_path)) == (scaling != "raw")


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


def other_split(graph):
    return {"train_nodes": graph.val_nodes, "val_nodes": graph.train_nodes}


def double_features(graph):
    return {"features": 2 * graph.features}


def turned_features(graph):
    """A view of the stored features, which has their file too."""
    return {"features": graph.features[::-1]}


def heavier_edges(graph):
    adjacency = graph.adjacency.copy()
    adjacency.data[:] = 2
    return {"adjacency": adjacency}


CHANGES = {
    "split": other_split,
    "features": double_features,
    "view of features": turned_features,
    "edges": heavier_edges,
}


def changed(graph, change):
    """The graph with other arrays, by each of the ways of making one."""
    arrays = CHANGES[change](graph)
    yield dataclasses.replace(graph, **arrays)
    if "features" in arrays:
        yield graph.with_features(arrays["features"])
    copied = copy.copy(graph)
    for name, array in arrays.items():
        object.__setattr__(copied, name, array)
    yield copied


def results(graph):
    """All that can be prepared of a graph."""
    for scaling in features.SCALINGS:
        yield prepared.scaled(graph, scaling)
    yield prepared.aggregated(
        graph, normalize_adjacency(graph.adjacency), "all"
    )
    part = training_graph(graph)
    yield prepared.aggregated(
        part, normalize_adjacency(part.adjacency), "train"
    )


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_graph_gets_what_belongs_to_it(tmp_path, change, as_sparse):
    _, stored = both(tmp_path, as_sparse)
    [*results(stored)]
    for graph in changed(stored, change):
        in_memory = dataclasses.replace(graph, store=None)
        for received, expected in zip(
            results(graph), results(in_memory), strict=True
        ):
            np.testing.assert_array_equal(dense(received), dense(expected))


@pytest.mark.parametrize("as_sparse", [False, True])
def test_the_same_graph_finds_what_was_kept(tmp_path, as_sparse):
    _, stored = both(tmp_path, as_sparse)
    [*results(stored)]
    kept = derived(tmp_path)
    assert len(kept) == (3 if as_sparse else 5)
    for graph in (
        store.read_store(tmp_path / "s"),
        dataclasses.replace(stored, name="other"),
        stored.with_features(stored.features),
    ):
        [*results(graph)]
    assert derived(tmp_path) == kept
    scaled = stored.with_features(prepared.scaled(stored, "l2"))
    [*results(scaled)]
    assert set(derived(tmp_path)) > set(kept)


def test_only_standard_scaling_depends_on_the_split(tmp_path):
    _, stored = both(tmp_path, as_sparse=False)
    other = dataclasses.replace(stored, **other_split(stored))
    for scaling, n_kept in (("l2", 1), ("row", 1), ("standard", 2)):
        before = len(derived(tmp_path))
        for graph in (stored, other):
            prepared.scaled(graph, scaling)
        assert len(derived(tmp_path)) == before + n_kept


@pytest.mark.parametrize("as_sparse", [False, True])
def test_stored_features_are_not_read_to_name_a_result(
    tmp_path, as_sparse, monkeypatch
):
    _, stored = both(tmp_path, as_sparse)
    prepared.scaled(stored, "standard")

    def read(*arguments):
        raise AssertionError("a pass over the features")

    monkeypatch.setattr(prepared, "row_blocks", read)
    monkeypatch.setattr(features, "row_blocks", read)
    monkeypatch.setattr(prepared, "_content", read)
    prepared.scaled(stored, "standard")


@pytest.mark.parametrize("as_sparse", [False, True])
def test_features_from_elsewhere_are_checked(tmp_path, as_sparse):
    _, stored = both(tmp_path, as_sparse)
    bad = stored.features * np.float32(np.inf)
    with pytest.raises(GraphError, match="not finite"):
        dataclasses.replace(stored, features=bad)
    with pytest.raises(GraphError, match="not finite"):
        stored.with_features(bad)


def test_a_store_written_anew_under_an_open_graph_is_told_apart(tmp_path):
    _, stored = both(tmp_path, as_sparse=False)
    other = ring_graph(seed=1)
    store.write_store(other, tmp_path / "s", overwrite=True)
    for graph in (stored, store.read_store(tmp_path / "s")):
        expected = prepared.scaled(dataclasses.replace(graph, store=None), "l2")
        np.testing.assert_array_equal(prepared.scaled(graph, "l2"), expected)


def test_blocks_make_no_difference(monkeypatch):
    graph = ring_graph()
    matrix = normalize_adjacency(graph.adjacency)

    def all_results():
        yield features.scale_features(graph.features, "l2", graph.train_nodes)
        yield features.scale_features(
            graph.features, "standard", graph.train_nodes
        )
        yield features.aggregate_features(matrix, graph.features)

    whole = list(all_results())
    monkeypatch.setattr(features, "BLOCK_BYTES", 100)
    for received, expected in zip(all_results(), whole, strict=True):
        np.testing.assert_allclose(received, expected, atol=1e-6)


def test_rows_of_features_are_a_view():
    matrix = np.arange(12, dtype=np.float32).reshape(4, 3)
    view = FeatureRows(matrix, np.array([3, 1]))
    assert view.shape == (2, 3)
    np.testing.assert_array_equal(view[np.array([1, 0])], matrix[[1, 3]])
    np.testing.assert_array_equal(view[:1], matrix[[3]])
    np.testing.assert_array_equal(view @ np.ones(3, np.float32), [30, 12])
    assert view.matrix is matrix
