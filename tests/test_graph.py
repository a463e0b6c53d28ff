"""The graph container, and the matrices derived from it, by value."""

import dataclasses
import logging

import numpy as np
import pytest
from scipy import sparse

from adaptive_gcn import features as features_module
from adaptive_gcn import graph as graph_module
from adaptive_gcn.adjacency import induced_adjacency
from adaptive_gcn.features import FeatureRows
from adaptive_gcn.graph import (
    DataError,
    EdgeStatistics,
    Graph,
    GraphError,
    normalize_adjacency,
    scale_features,
    training_graph,
)

# Path 0-1-2-3 with the chord 0-2; 4 and 5 have no neighbour.
EDGES = np.array(
    [[0, 1], [1, 0], [1, 2], [2, 1], [2, 3], [3, 2], [0, 2], [2, 0]]
)
ADJACENCY = np.array(
    [
        [0, 1, 1, 0, 0, 0],
        [1, 0, 1, 0, 0, 0],
        [1, 1, 0, 1, 0, 0],
        [0, 0, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
    ],
    np.float32,
)
FEATURES = np.array(
    [[1, 0, 3], [0, 2, 2], [4, 0, 0], [0, 0, 0], [1, 1, 2], [5, 0, 0]],
    np.float32,
)
LABELS = [0, 1, 0, 1, 0, 1]


def make(
    edges=EDGES, features=FEATURES, labels=LABELS, train=(0, 1, 2), **more
):
    return Graph.from_edges(edges, features, labels, train, **more)


def dense(matrix):
    if isinstance(matrix, FeatureRows):
        return matrix[np.arange(len(matrix.rows))]
    return matrix.toarray() if sparse.issparse(matrix) else matrix


def direct(**changes):
    """A graph by its constructor, which cleans nothing."""
    fields = {
        "adjacency": sparse.csr_array(ADJACENCY),
        "features": FEATURES.copy(),
        "labels": np.array(LABELS, np.int64),
        "train_nodes": np.array([0, 1], np.int64),
        "val_nodes": np.array([2], np.int64),
        "test_nodes": np.array([3], np.int64),
        "class_names": ("a", "b"),
        "name": "direct",
        "edge_statistics": EdgeStatistics(8, 0, 0, 0),
    }
    return Graph(**{**fields, **changes})


# From an edge list.


def test_edge_list_becomes_the_symmetric_adjacency():
    graph = make()
    np.testing.assert_array_equal(graph.adjacency.toarray(), ADJACENCY)
    assert graph.adjacency.dtype == np.float32
    assert graph.adjacency.has_sorted_indices
    assert (graph.n_nodes, graph.n_edges) == (6, 4)
    assert (graph.n_features, graph.n_classes) == (3, 2)


def test_duplicate_edges_have_weight_1_and_are_counted():
    graph = make([[0, 1], [0, 1], [1, 0], [1, 2], [2, 1], [1, 0], [1, 0]])
    assert graph.adjacency.toarray()[1].tolist() == [1, 0, 1, 0, 0, 0]
    degrees = (graph.adjacency + sparse.eye_array(6)).sum(axis=1)
    assert degrees[1] == 3
    assert graph.n_edges == 2
    assert graph.edge_statistics == EdgeStatistics(7, 3, 0, 0)


def test_edges_in_one_direction_equal_edges_in_both_with_a_notice(caplog):
    both = make([[0, 1], [1, 2], [3, 2], [1, 0], [2, 1], [2, 3]])
    assert not caplog.records
    one = make([[0, 1], [1, 2], [3, 2]], name="mine")
    assert caplog.messages == [
        "mine: directed input, made symmetric: 3 entries had no reverse entry "
        "and got one"
    ]
    assert one.edge_statistics == EdgeStatistics(3, 0, 0, 3)
    for matrix in (one.adjacency, normalize_adjacency(one.adjacency)):
        np.testing.assert_array_equal(matrix.toarray(), matrix.toarray().T)
    np.testing.assert_array_equal(
        one.adjacency.toarray(), both.adjacency.toarray()
    )


def test_notice_counts_only_the_entries_without_a_reverse(caplog):
    graph = make([[0, 1], [1, 0], [2, 1], [2, 1], [5, 5]])
    assert graph.edge_statistics == EdgeStatistics(5, 1, 1, 1)
    assert "1 entries" in caplog.text


def test_self_loops_are_dropped_and_counted_once_per_node(caplog):
    graph = make([[0, 0], [0, 0], [4, 4], [0, 1], [1, 0]])
    assert graph.adjacency.diagonal().tolist() == [0] * 6
    assert graph.n_edges == 1
    assert graph.edge_statistics == EdgeStatistics(5, 1, 2, 0)
    assert not caplog.records


def test_isolated_nodes_stay_and_keep_their_own_features():
    graph = make()
    assert graph.statistics()["isolated"] == 2
    for kind in ("sym", "row"):
        matrix = normalize_adjacency(graph.adjacency, kind).toarray()
        assert matrix[4].tolist() == [0, 0, 0, 0, 1, 0]


@pytest.mark.parametrize("edges", [[], np.empty((0, 2), np.int32)])
def test_graph_without_edges_is_a_graph(edges):
    graph = make(edges)
    np.testing.assert_array_equal(
        normalize_adjacency(graph.adjacency).toarray(), np.eye(6)
    )


def test_statistics_count_everything():
    graph = make(
        [[0, 1], [1, 0], [0, 1], [2, 2], [2, 3]],
        labels=[0, 1, 0, -1, 0, -1],
        val_nodes=[4],
    )
    assert graph.statistics() == {
        "nodes": 6,
        "entries_read": 5,
        "undirected_edges": 2,
        "duplicates": 1,
        "self_loops": 1,
        "reversed_added": 1,
        "isolated": 2,
        "unlabelled": 2,
        "features": 3,
        "classes": 2,
        "train": 3,
        "validation": 1,
        "test": 0,
    }


@pytest.mark.parametrize("entry", [[0, -1], [6, 0], [2**40, 1]])
def test_edge_outside_the_nodes_is_named(entry):
    with pytest.raises(GraphError) as error:
        make([[0, 1], [1, 0], entry, entry])
    assert str(error.value) == (
        "edges: 2 entries lie outside the nodes 0..5; the first is entry 2: "
        f"{entry}"
    )


@pytest.mark.parametrize(
    "edges, received",
    [
        ([[0, 1, 1]], r"shape \(1, 3\), dtype int64"),
        ([0, 1], r"shape \(2,\), dtype int64"),
        ([[0.0, 1.0]], r"shape \(1, 2\), dtype float64"),
        ([["0", "1"]], r"shape \(1, 2\), dtype <U1"),
    ],
)
def test_edges_of_another_form_are_refused(edges, received):
    with pytest.raises(GraphError, match=f"edges: expected.*{received}"):
        make(edges)


# Labels.


@pytest.mark.parametrize("unknown", [-1, -100])
def test_any_negative_label_means_unknown(unknown):
    graph = make(labels=[0, 1, 0, unknown, 1, unknown])
    assert graph.labels.tolist() == [0, 1, 0, -1, 1, -1]
    assert graph.n_classes == 2
    # They still pass messages.
    np.testing.assert_array_equal(graph.adjacency.toarray(), ADJACENCY)


@pytest.mark.parametrize("unknown", [-1, -100])
@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_unlabelled_node_in_a_split_is_refused_with_the_count(unknown, part):
    split = {"train": [0], "validation": [], "test": []}
    split[part] = [1, 3, 5]
    with pytest.raises(GraphError) as error:
        make(
            labels=[0, 1, 0, unknown, 1, unknown],
            train=split["train"],
            val_nodes=split["validation"],
            test_nodes=split["test"],
        )
    assert str(error.value) == (
        f"{part} split: 2 nodes have no label, the first is node 3; take them "
        "out of the split"
    )


def test_label_outside_n_classes_is_named_with_the_range():
    with pytest.raises(GraphError) as error:
        make(labels=[1, 2, 3, 1, 3, 2], n_classes=3)
    assert str(error.value) == (
        "labels: node 2 has label 3, the allowed range is 0..2 (negative: "
        "unknown); 2 labels are outside it"
    )


def test_label_outside_the_class_names_is_refused():
    with pytest.raises(GraphError, match="label 2, the allowed range is 0..1"):
        make(labels=[0, 1, 2, 0, 0, 0], class_names=("a", "b"))


def test_labels_from_1_are_remapped_and_the_remapping_is_said(caplog):
    graph = make(labels=[1, 2, 3, 1, 3, -1], name="mine")
    assert graph.labels.tolist() == [0, 1, 2, 0, 2, -1]
    assert graph.class_names == ("1", "2", "3")
    assert caplog.messages == [
        "mine: label values [1, 2, 3] become classes 0..2 in that order"
    ]


def test_labels_from_0_are_taken_without_a_word(caplog):
    caplog.set_level(logging.DEBUG)
    assert make(labels=[1, 2, 0, 1, 2, -1]).labels.tolist() == [
        1,
        2,
        0,
        1,
        2,
        -1,
    ]
    assert not caplog.records


@pytest.mark.parametrize(
    "labels, received",
    [
        ([0.0] * 6, r"shape \(6,\), dtype float64"),
        (np.eye(6), r"shape \(6, 6\), dtype float64"),
        ([True] * 6, r"shape \(6,\), dtype bool"),
        ([*"abcabc"], r"shape \(6,\), dtype <U1"),
    ],
)
def test_labels_of_another_form_are_refused(labels, received):
    message = f"labels: expected .* integers, .*{received}. Number the classes"
    with pytest.raises(GraphError, match=message):
        make(labels=labels)


# Features.


@pytest.mark.parametrize(
    "convert",
    [
        lambda x: x.astype(np.float64),
        lambda x: x.astype(np.int32),
        lambda x: x.astype(np.float16),
        lambda x: x.tolist(),
        lambda x: sparse.csr_array(x.astype(np.int8)),
        lambda x: sparse.csr_matrix(x.astype(np.float64)),
        lambda x: sparse.coo_array(x.astype(np.int8)),
        lambda x: np.asfortranarray(x),
    ],
)
def test_features_of_any_dtype_have_the_same_values(convert):
    features = make(features=convert(FEATURES)).features
    assert features.dtype == np.float32
    np.testing.assert_array_equal(dense(features), FEATURES)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_boolean_features_become_0_and_1(convert):
    features = make(features=convert(FEATURES > 0)).features
    assert features.dtype == np.float32
    np.testing.assert_array_equal(dense(features), (FEATURES > 0) * 1.0)


@pytest.mark.parametrize(
    "features, received",
    [
        (FEATURES[0], r"shape \(3,\), dtype float32"),
        (FEATURES.astype(complex), r"shape \(6, 3\), dtype complex128"),
        (FEATURES.astype(str), r"shape \(6, 3\), dtype <U"),
        (
            sparse.csr_array(FEATURES.astype(complex)),
            r"shape \(6, 3\), dtype complex128",
        ),
    ],
)
def test_features_that_are_no_numeric_matrix_are_refused(features, received):
    with pytest.raises(GraphError, match=f"features: expected.*{received}"):
        make(features=features)


@pytest.mark.parametrize("n_rows", [5, 7])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_number_of_feature_rows_is_checked_before_anything_else(
    n_rows, convert
):
    features = convert(np.ones((n_rows, 3), np.float32))
    message = f"^features: {n_rows} rows, graph: 6 nodes$"
    for edges in (EDGES, [[0, 5]], [[0, 6]]):
        with pytest.raises(GraphError, match=message):
            make(edges, features)
    with pytest.raises(GraphError, match=message):
        direct(features=features)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("bad", [[np.nan], [np.inf], [np.inf, -np.inf]])
def test_features_that_are_not_finite_are_counted_and_the_row_named(
    convert, bad
):
    features = FEATURES.copy()
    features[2, : len(bad)] = bad
    features[4, 0] = np.nan
    message = f"features: {len(bad) + 1} values are not finite; .* row 2"
    with pytest.raises(GraphError, match=message):
        make(features=convert(features))


def test_finite_number_too_large_for_float32_is_refused():
    features = FEATURES.astype(np.float64)
    features[1, 1] = 1e300
    with (
        pytest.warns(RuntimeWarning, match="overflow"),
        pytest.raises(GraphError, match="1 values are not finite; .* row 1"),
    ):
        make(features=features)


# The split.


def test_node_outside_the_graph_is_named():
    for node in (-1, 6):
        with pytest.raises(GraphError) as error:
            make(val_nodes=[3, node])
        assert str(error.value) == (
            f"validation split: node {node} is outside the nodes 0..5"
        )


@pytest.mark.parametrize(
    "split",
    [
        {"train": [0, 3, 3, 0], "val_nodes": [1]},
        {"train": [0, 3, 4], "val_nodes": [3], "test_nodes": [4]},
        {"train": [0], "val_nodes": [3, 4], "test_nodes": [4, 3]},
    ],
)
def test_node_in_two_places_is_refused(split):
    with pytest.raises(
        GraphError, match=r"node \d .* more than one .* 2 nodes"
    ):
        make(**split)


def test_split_given_as_a_mask_is_refused():
    with pytest.raises(GraphError, match="train_nodes: expected.*dtype bool"):
        make(train=[True, False, True, False, False, False])


# Invariants of the constructor.


def test_constructor_takes_what_satisfies_the_invariants():
    assert direct().statistics()["undirected_edges"] == 4


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"adjacency": ADJACENCY[:5]}, r"square matrix. Received: \(5, 6\)"),
        (
            {"adjacency": (ADJACENCY + np.eye(6)).astype(np.float32)},
            "self-loops",
        ),
        ({"adjacency": ADJACENCY.astype(float)}, "expected float32 CSR"),
        ({"features": np.eye(6)}, "expected float32. Received: float64"),
        ({"adjacency": np.triu(ADJACENCY)}, "symmetric"),
        ({"adjacency": -ADJACENCY}, "finite and > 0"),
        ({"adjacency": ADJACENCY * np.nan}, "finite and > 0"),
        (
            {"labels": [0, 1]},
            r"expected 6, one per node. Received: shape \(2,\)",
        ),
        ({"labels": [0, 1, 0, 1, 0, -2]}, "node 5 has label -2, .* 0..1"),
        ({"labels": [0, 1, 0, 1, 0, 2]}, "node 5 has label 2, .* 0..1"),
        ({"val_nodes": [9]}, "validation split: node 9"),
        ({"test_nodes": [0]}, "node 0 is in more than one place"),
    ],
)
def test_constructor_refuses_what_breaks_an_invariant(changes, message):
    ((key, value),) = changes.items()
    value = np.asarray(value)
    value = sparse.csr_array(value) if key == "adjacency" else value
    with pytest.raises(GraphError, match=message):
        direct(**{key: value})


def test_other_edges_are_checked_and_leave_the_rest(monkeypatch):
    graph = make()
    monkeypatch.setattr(graph_module, "_check_features", None)
    ring = sparse.csr_array(np.roll(np.eye(6, dtype=np.float32), 1, axis=1))
    matrix, counts = sparse.csr_array(ring + ring.T), EdgeStatistics(6, 0, 0, 6)
    other = graph.with_adjacency(matrix, counts)
    assert other.adjacency is matrix and not matrix.data.flags.writeable
    assert other.statistics()["reversed_added"] == 6
    assert other.features is graph.features and other.labels is graph.labels
    np.testing.assert_array_equal(graph.adjacency.toarray(), ADJACENCY)
    with pytest.raises(GraphError, match="expected a symmetric matrix"):
        graph.with_adjacency(ring, counts)
    five = induced_adjacency(matrix, np.arange(5))
    with pytest.raises(GraphError, match="adjacency: 5 rows, graph: 6 nodes"):
        graph.with_adjacency(five, counts)


@pytest.mark.parametrize("convert", [np.array, sparse.csr_array])
def test_graph_cannot_be_changed(convert):
    graph = make(features=convert(FEATURES))
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph.name = "other"
    values = graph.features.data if sparse.issparse(graph.features) else None
    for array in (
        graph.adjacency.data,
        graph.adjacency.indices,
        graph.adjacency.indptr,
        graph.features if values is None else values,
        graph.labels,
        graph.train_nodes,
        graph.val_nodes,
        graph.test_nodes,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


@pytest.mark.parametrize("convert", [np.array, sparse.csr_array])
def test_graph_shares_nothing_with_the_arrays_it_was_made_of(convert):
    features, labels = convert(FEATURES), np.array(LABELS)
    edges, train = EDGES.copy(), np.array([0, 1])
    graph = make(edges, features, labels, train)
    (features.data if sparse.issparse(features) else features)[...] = 7
    labels[...] = edges[...] = train[...] = 1
    np.testing.assert_array_equal(dense(graph.features), FEATURES)
    assert graph.labels.tolist() == LABELS
    assert graph.train_nodes.tolist() == [0, 1]
    np.testing.assert_array_equal(graph.adjacency.toarray(), ADJACENCY)


def test_caller_keeps_an_unsorted_sparse_matrix_as_it_was():
    parts = (np.ones(3, np.float32), [1, 0, 1], [0, 3, 3, 3, 3, 3, 3])
    features = sparse.csr_array(parts, (6, 3))
    graph = make(features=features)
    assert features.indices.tolist() == [1, 0, 1]
    assert graph.features.toarray()[0].tolist() == [1, 2, 0]


# The training graph.


def test_training_graph_has_its_own_order_and_degrees():
    graph = make(train=[3, 2, 0], val_nodes=[1], test_nodes=[4])
    part = training_graph(graph)
    # 3-2 and 2-0 remain; 0-1 and 1-2 go with node 1.
    assert part.adjacency.toarray().tolist() == [
        [0, 1, 0],
        [1, 0, 1],
        [0, 1, 0],
    ]
    np.testing.assert_array_equal(
        part.features[np.arange(3)], FEATURES[[3, 2, 0]]
    )
    assert part.labels.tolist() == [1, 0, 0]
    assert part.train_nodes.tolist() == [0, 1, 2]
    assert len(part.val_nodes) == len(part.test_nodes) == 0
    assert part.n_classes == 2
    np.testing.assert_allclose(
        normalize_adjacency(part.adjacency, "row").toarray(),
        [[1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3], [0, 1 / 2, 1 / 2]],
        rtol=1e-6,
    )


@pytest.mark.parametrize("convert", [np.array, sparse.csr_array])
def test_training_graph_bears_no_trace_of_the_other_nodes(convert):
    train = [2, 0, 1]
    graph = make(features=convert(FEATURES), train=train, val_nodes=[3])
    others = FEATURES.copy()
    others[3:] = 99
    changed = make(
        edges=np.concatenate(
            [EDGES[:4], EDGES[6:], [[3, 5], [5, 3], [0, 4], [4, 0]]]
        ),
        features=convert(others),
        labels=[0, 1, 0, 0, 1, -1],
        train=train,
        val_nodes=[4],
    )
    first, second = training_graph(graph), training_graph(changed)
    assert first.statistics() == second.statistics()
    for name in ("adjacency", "features", "labels", "train_nodes"):
        np.testing.assert_array_equal(
            dense(getattr(first, name)), dense(getattr(second, name))
        )


def test_training_graph_of_all_nodes_is_the_graph():
    graph = make(train=range(6))
    np.testing.assert_array_equal(
        training_graph(graph).adjacency.toarray(), ADJACENCY
    )


# Normalisation, Eq. (1).


@pytest.mark.parametrize("kind", ["sym", "row"])
@pytest.mark.parametrize("two_hop", [False, True])
@pytest.mark.parametrize("identity_weight", [0.0, 0.7])
def test_normalisation_equals_the_dense_formula(kind, two_hop, identity_weight):
    loops = ADJACENCY.astype(np.float64) + np.eye(6)
    inverse = np.diag(1 / loops.sum(axis=1))
    expected = inverse @ loops
    if kind == "sym":
        expected = np.sqrt(inverse) @ loops @ np.sqrt(inverse)
    if two_hop:
        expected = expected + expected @ expected
    expected = expected + identity_weight * np.eye(6)
    matrix = normalize_adjacency(
        sparse.csr_array(ADJACENCY), kind, two_hop, identity_weight
    )
    assert matrix.dtype == np.float32
    assert matrix.has_sorted_indices
    np.testing.assert_allclose(matrix.toarray(), expected, rtol=1e-6)


def test_normalisation_of_a_pair_by_hand():
    pair = sparse.csr_array(np.array([[0, 1], [1, 0]], np.float32))
    half = [[0.5, 0.5], [0.5, 0.5]]
    assert normalize_adjacency(pair, "sym").toarray().tolist() == half
    assert normalize_adjacency(pair, "sym", True).toarray().tolist() == [
        [1, 1],
        [1, 1],
    ]
    assert normalize_adjacency(pair, "row", False, 2.0).toarray().tolist() == [
        [2.5, 0.5],
        [0.5, 2.5],
    ]


def test_row_normalised_rows_sum_to_1():
    matrix = normalize_adjacency(sparse.csr_array(ADJACENCY), "row")
    np.testing.assert_allclose(matrix.sum(axis=1), np.ones(6), rtol=1e-6)


def test_unknown_normalisation_is_refused():
    with pytest.raises(ValueError, match="'sym', 'row'.*Received:.*'col'"):
        normalize_adjacency(sparse.csr_array(ADJACENCY), "col")


# Scaling of features.

TRAIN = np.array([0, 1, 2])
SIGNED = np.array([[3, -4], [0, 0], [0, -2]], np.float32)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("convert", [np.array, sparse.csr_array])
@pytest.mark.parametrize(
    "scaling, expected",
    [
        ("raw", SIGNED),
        ("row", [[3 / 7, -4 / 7], [0, 0], [0, -1]]),
        ("l2", [[0.6, -0.8], [0, 0], [0, -1]]),
    ],
)
def test_rows_are_scaled_and_rows_of_zeros_stay(convert, scaling, expected):
    scaled = scale_features(convert(SIGNED), scaling, TRAIN)
    assert sparse.issparse(scaled) == (convert is sparse.csr_array)
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(dense(scaled), expected, rtol=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scaling", ["raw", "row", "l2"])
def test_stored_zero_changes_nothing(scaling):
    # Row 1 holds nothing but an explicitly stored 0.
    values = np.array([3, -4, 0, -2], np.float32)
    stored = sparse.csr_array((values, [0, 1, 0, 1], [0, 2, 3, 4]), (3, 2))
    graph = Graph.from_edges([[0, 1], [1, 0]], stored, [0, 1, 0], [0])
    assert graph.features.nnz == 4
    np.testing.assert_array_equal(
        scale_features(graph.features, scaling, TRAIN).toarray(),
        scale_features(sparse.csr_array(SIGNED), scaling, TRAIN).toarray(),
    )


def test_standard_uses_the_training_nodes_only():
    train, others = FEATURES[:3], np.array([[1e6, 1, -1e6]], np.float32)
    scaled = scale_features(np.concatenate([train, others]), "standard", TRAIN)
    assert scaled.dtype == np.float32
    wide = train.astype(np.float64)
    expected = (wide - wide.mean(0)) / wide.std(0)
    np.testing.assert_allclose(scaled[:3], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(scaled[:3].mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(scaled[:3].std(0), 1, rtol=1e-5)
    np.testing.assert_allclose(
        scaled[3], (others[0] - wide.mean(0)) / wide.std(0), rtol=1e-5
    )


@pytest.mark.filterwarnings("error")
def test_standard_only_centres_a_constant_column():
    features = np.array([[5, 1], [5, 3], [8, 0]], np.float32)
    scaled = scale_features(features, "standard", np.array([0, 1]))
    np.testing.assert_allclose(scaled, [[0, -1], [0, 1], [3, -2]])


def test_standard_makes_sparse_features_dense_up_to_a_limit(monkeypatch):
    features = sparse.csr_array(np.eye(3, 2, dtype=np.float32))
    nodes = np.array([0, 1])
    scaled = scale_features(features, "standard", nodes)
    expected = scale_features(features.toarray(), "standard", nodes)
    np.testing.assert_array_equal(scaled, expected)
    monkeypatch.setattr(features_module, "DENSE_LIMIT_BYTES", 20)
    with pytest.raises(DataError, match=r"GiB for shape \(3, 2\).*use 'row'"):
        scale_features(features, "standard", nodes)
    with pytest.raises(DataError, match="needs training nodes"):
        scale_features(features, "standard", nodes[:0])


@pytest.mark.parametrize("scaling", ["row", "l2"])
@pytest.mark.parametrize("size", [1e-30, 1e25, 1e38])
def test_rows_of_extreme_size_are_scaled_and_not_lost(scaling, size):
    features = np.full((2, 4), size, np.float32)
    scaled = scale_features(features, scaling, np.array([0]))
    expected = 0.25 if scaling == "row" else 0.5
    np.testing.assert_allclose(scaled, expected, rtol=1e-5)


def test_csr_indices_outside_the_matrix_are_refused():
    features = sparse.csr_array(np.eye(3, dtype=np.float32))
    features.indices[0] = 2_000_000_000
    with pytest.raises(GraphError, match="features: not a valid CSR matrix"):
        Graph.from_edges([[0, 1], [1, 0]], features, [0, 1, 0], [0, 1, 2])


def test_unknown_scaling_is_refused():
    with pytest.raises(ValueError, match="'raw', 'row'.*Received:.*'minmax'"):
        scale_features(SIGNED, "minmax", TRAIN)


def test_scaling_leaves_its_input_alone():
    for scaling in ("row", "l2", "standard"):
        features = SIGNED.copy()
        scale_features(features, scaling, TRAIN)
        np.testing.assert_array_equal(features, SIGNED)
