"""Every signature against the full architecture; wrong requests."""

import pathlib
import types

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from scipy import sparse

from adaptive_gcn import export, prepared, propagation, training
from adaptive_gcn.config import Config, ConfigError
from adaptive_gcn.features import aggregate_features
from adaptive_gcn.graph import Graph, normalize_adjacency
from tests.helpers import ring_graph, with_several_labels, with_weights

NODES = np.arange(30)
TWO = np.array([[1.0, 2, 0, -1, 3, 0.5], [0, 0, 0, 0, 0, 0]], np.float32)
SETTINGS = {
    "plain": {},
    "row": {"normalization": "row", "features": "row"},
    "standard": {"features": "standard", "hidden_units": (5,)},
    "raw, identity": {"features": "raw", "identity_weight": 0.5},
    "skip": {"skip": True},
    "attention": {"attention": "plus_one", "identity_weight": 0.5},
    "attention of the paper": {"attention": "paper", "skip": True},
    "precomputed": {"precompute": True, "hidden_units": (5,)},
    "precomputed, attention": {
        "precompute": True,
        "attention": "plus_one",
        "features": "standard",
    },
    "precomputed, attention of the paper, one hidden layer": {
        "precompute": True,
        "attention": "paper",
        "hidden_units": (5,),
        "normalization": "row",
    },
    "two hops": {"two_hop": True, "identity_weight": 0.5, "skip": True},
    "two hops, attention": {"two_hop": True, "attention": "plus_one"},
}
NEW = [name for name in SETTINGS if "two hops" not in name]
WHOLE = [name for name in SETTINGS if name != "two hops, attention"]


class Case:
    """A network with weights of its own, served and as it is."""

    def __init__(self, folder, graph=None, **settings):
        self.config = Config(**{"hidden_units": (5, 4), **settings})
        self.graph = graph or ring_graph()
        self.network = training.build_model(self.config, self.graph)
        rng = np.random.default_rng(1)
        weights = [rng.normal(size=w.shape) for w in self.network.get_weights()]
        self.network.set_weights(weights)
        self.served = export.build(
            self.config, self.graph, self.network, folder
        )
        scaled = prepared.scaled(self.graph, self.config.features)
        self.scaled = self.graph.with_features(scaled)
        self.full = training.full_propagation(self.config, self.scaled)

    def probabilities(self, nodes=NODES):
        return tf.nn.softmax(self.full.logits(self.network, nodes)).numpy()

    def with_new_nodes(self, raw, links):
        """Probabilities of new nodes by full propagation, hand-built.

        The adjacency gets a row for each, and no column but its own: the new
        nodes read their neighbours and are not read.
        """
        n, n_new = self.graph.n_nodes, len(raw)
        matrix = np.zeros((n + n_new, n + n_new))
        matrix[:n, :n] = self.graph.adjacency.toarray()
        for i, neighbors in enumerate(links):
            for node, weight in neighbors:
                matrix[n + i, node] = weight
        normalized = by_hand(matrix, self.config)
        features = self.scale(raw)
        everything = np.concatenate([self.scaled.features, features])
        if self.config.precompute:
            everything = aggregate_features(normalized, everything)
        full = propagation.FullPropagation(normalized, everything)
        logits = full.logits(self.network, np.arange(n, n + n_new))
        return tf.nn.softmax(logits).numpy()

    def scale(self, raw):
        kind, x = self.config.features, raw.astype(np.float64)
        if kind == "standard":
            train = self.graph.features[self.graph.train_nodes]
            x = (x - train.mean(0, np.float64)) / train.std(0, np.float64)
        elif kind != "raw":
            norms = np.linalg.norm(x, 1 if kind == "row" else 2, axis=1)
            x = x / np.maximum(norms, 1e-300)[:, None]
        return x.astype(np.float32)


def by_hand(matrix, config):
    """D^-1/2 (A + I) D^-1/2 + c I, or D^-1 (A + I) + c I."""
    looped = matrix + np.eye(len(matrix))
    degree = looped.sum(axis=1)
    left = degree**-0.5
    normalized = left[:, None] * looped * left
    if config.normalization == "row":
        normalized = looped / degree[:, None]
    normalized = normalized + config.identity_weight * np.eye(len(matrix))
    return sparse.csr_array(normalized.astype(np.float32))


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A function that makes each case once."""
    made = {}

    def make(name):
        if name not in made:
            folder = tmp_path_factory.mktemp("ids")
            made[name] = Case(folder, **SETTINGS[name])
        return made[name]

    return make


def edges_of(graph):
    matrix = sparse.triu(graph.adjacency).tocoo()
    return np.stack([matrix.row, matrix.col], axis=1).astype(np.int64)


def coo(features):
    matrix = sparse.coo_array(features)
    places = np.stack([matrix.row, matrix.col], axis=1).astype(np.int64)
    return places, matrix.data


def close(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("name", SETTINGS)
def test_nodes_of_the_graph_equal_the_full_architecture(case, name):
    this = case(name)
    ids = np.array([7, 29, 0, 7])
    answer = this.served.serving_default(tf.constant(ids))
    expected = this.probabilities(ids)
    close(answer["probabilities"], expected)
    np.testing.assert_array_equal(answer["class"], expected.argmax(1))
    names = [str(each).encode() for each in expected.argmax(1)]
    assert answer["class_name"].numpy().tolist() == names
    hidden = this.served.embed(tf.constant(ids))["embedding"]
    close(hidden, this.full.hidden(this.network, ids))


@pytest.mark.parametrize("name", NEW)
def test_new_nodes_equal_the_full_architecture_with_them_in_the_graph(
    case, name
):
    this = case(name)
    ids = np.array([[4, 9, 0], [2, 0, 0]])
    mask = np.array([[True, True, False], [True, False, False]])
    answer = this.served.inductive(TWO, ids, mask)
    links = [[(4, 1), (9, 1)], [(2, 1)]]
    close(answer["probabilities"], this.with_new_nodes(TWO, links))
    weights = np.array([[0.5, 3, 0], [2, 0, 0]], np.float32)
    answer = this.served.inductive_weighted(TWO, ids, mask, weights)
    links = [[(4, 0.5), (9, 3)], [(2, 2)]]
    close(answer["probabilities"], this.with_new_nodes(TWO, links))


@pytest.mark.parametrize("name", NEW)
def test_new_node_without_neighbours_is_as_in_a_graph_built_anew(case, name):
    this = case(name)
    none = np.zeros((1, 0), np.int64)
    answer = this.served.inductive(TWO[:1], none, none.astype(bool))
    raw = np.concatenate([this.graph.features, TWO[:1]])
    graph = Graph.from_edges(
        edges_of(this.graph),
        raw,
        np.append(this.graph.labels, 0),
        this.graph.train_nodes,
        n_classes=3,
        directed=False,
    )
    scaled = graph.with_features(prepared.scaled(graph, this.config.features))
    full = training.full_propagation(this.config, scaled)
    logits = full.logits(this.network, np.array([30]))
    close(answer["probabilities"], tf.nn.softmax(logits))


@pytest.mark.parametrize("normalization", ["row", "sym"])
def test_what_differs_from_a_graph_built_anew(normalization):
    """Row of the new node: nothing by row; by sym the neighbours' degrees."""
    graph = ring_graph()
    matrix = np.zeros((31, 31))
    matrix[:30, :30] = graph.adjacency.toarray()
    matrix[30, [4, 9]] = 1
    ours = by_hand(matrix, Config(normalization=normalization)).toarray()
    matrix[[4, 9], 30] = 1
    both = sparse.csr_array(matrix.astype(np.float32))
    anew = normalize_adjacency(both, normalization).toarray()
    expected = anew[30].copy()
    if normalization == "sym":
        degrees = graph.adjacency.sum(axis=1) + 1
        expected[[4, 9]] *= np.sqrt((degrees + 1) / degrees)[[4, 9]]
    np.testing.assert_allclose(ours[30], expected, rtol=1e-6)
    changed = np.flatnonzero(np.any(ours != anew, axis=1))
    assert {4, 9} <= set(changed.tolist())


@pytest.mark.parametrize("name", WHOLE)
def test_whole_graph_in_a_request_equals_the_full_architecture(case, name):
    this = case(name)
    edges = edges_of(this.graph)
    loops_and_repeats = [[3, 3], edges[0], edges[0][::-1]]
    edges = np.concatenate([edges, loops_and_repeats])
    answer = this.served.subgraph(this.graph.features, edges)
    close(answer["probabilities"], this.probabilities())
    places, values = coo(this.graph.features)
    values = np.concatenate([values, values[:1]])
    values[[0, -1]] /= 2  # A place given twice counts with the sum.
    places = np.concatenate([places, places[:1]])
    answer = this.served.subgraph_sparse(places, values, np.int64(30), edges)
    close(answer["probabilities"], this.probabilities())


@pytest.mark.parametrize(
    "name", ["plain", "row", "attention", "precomputed", "two hops"]
)
def test_weights_of_edges_count(tmp_path, name):
    graph = with_weights(ring_graph())
    this = Case(tmp_path, graph, **SETTINGS[name])
    expected = this.probabilities()
    answer = this.served.serving_default(tf.constant(NODES))
    close(answer["probabilities"], expected)
    hidden = this.served.embed(tf.constant(NODES))["embedding"]
    close(hidden, this.full.hidden(this.network, NODES))
    edges = edges_of(graph)
    weights = graph.adjacency[edges[:, 0], edges[:, 1]]
    edges = np.concatenate([edges, edges[:1, ::-1], [[3, 3]]])
    weights = np.concatenate([weights, weights[:1], [9]]).astype(np.float32)
    answer = this.served.subgraph_weighted(graph.features, edges, weights)
    close(answer["probabilities"], expected)
    unweighted = this.served.subgraph(graph.features, edges)
    assert np.abs(unweighted["probabilities"] - expected).max() > 1e-3
    if name not in NEW:
        return
    ids, mask = (
        np.array([[4, 9], [2, 0]]),
        np.array([[True] * 2, [True, False]]),
    )
    weights = np.array([[0.5, 3], [2, 0]], np.float32)
    answer = this.served.inductive_weighted(TWO, ids, mask, weights)
    links = [[(4, 0.5), (9, 3)], [(2, 2)]]
    close(answer["probabilities"], this.with_new_nodes(TWO, links))


ANY = st.fixed_dictionaries(
    {
        "normalization": st.sampled_from(["sym", "row"]),
        "features": st.sampled_from(["l2", "row", "raw", "standard"]),
        "identity_weight": st.sampled_from([0.0, 0.7]),
        "skip": st.booleans(),
        "attention": st.sampled_from(["none", "plus_one", "paper"]),
        "precompute": st.booleans(),
        "two_hop": st.booleans(),
        "hidden_units": st.sampled_from([(5,), (5, 4), (6, 5, 4)]),
    }
)


@given(ANY, st.booleans())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_any_settings_that_are_allowed(words, weighted):
    try:
        Config(**words)
    except ConfigError:
        reject()
    graph = with_weights(ring_graph()) if weighted else ring_graph()
    this = Case(pathlib.Path(), graph, **words)
    allowed = export.signatures_of(this.served, this.config)
    expected = this.probabilities()
    answer = this.served.serving_default(tf.constant(NODES))
    close(answer["probabilities"], expected)
    if "subgraph" in allowed:
        edges = edges_of(graph)
        weights = graph.adjacency[edges[:, 0], edges[:, 1]].astype(np.float32)
        answer = this.served.subgraph_weighted(graph.features, edges, weights)
        close(answer["probabilities"], expected)
    if "inductive" in allowed:
        ids, weights = np.array([[4, 9], [2, 0]]), [[0.5, 3.0], [2.0, 0.0]]
        mask = np.array([[True, True], [True, False]])
        answer = this.served.inductive_weighted(
            TWO, ids, mask, np.array(weights, np.float32)
        )
        links = [[(4, 0.5), (9, 3)], [(2, 2)]]
        close(answer["probabilities"], this.with_new_nodes(TWO, links))


def test_degrees_are_weighted_row_sums(tmp_path):
    graph = Graph.from_edges(
        [[0, 1], [1, 2]],
        np.eye(3),
        [0, 1, 0],
        [0, 1],
        [2],
        weights=[0.5, 2],
    )
    this = Case(tmp_path, graph)
    np.testing.assert_allclose(this.served._degrees, [1.5, 3.5, 3])


def test_several_labels_have_a_sigmoid_each_in_every_signature(tmp_path):
    graph = with_several_labels(ring_graph())
    this = Case(tmp_path, graph)
    logits = this.full.logits(this.network, NODES)
    served = types.SimpleNamespace(
        **export.signatures_of(this.served, this.config)
    )
    edges, n_edges = edges_of(graph), graph.n_edges
    answers = [
        served.serving_default(NODES),
        served.subgraph(graph.features, edges),
        served.subgraph_weighted(graph.features, edges, tf.ones(n_edges)),
        served.subgraph_sparse(*coo(graph.features), np.int64(30), edges),
    ]
    for answer in answers:
        assert set(answer) == {"probabilities", "labels"}
        close(answer["probabilities"], 1 / (1 + np.exp(-logits)))
        np.testing.assert_array_equal(answer["labels"], logits > 0)
    one, none = np.ones((2, 1), np.float32), np.zeros((2, 1), bool)
    for answer in (
        served.inductive(TWO, IDS, none),
        served.inductive_weighted(TWO, IDS, none, one),
    ):
        probabilities = answer["probabilities"]
        alone = served.subgraph(TWO, np.array([[0, 0]]))["probabilities"]
        close(probabilities, alone)
        np.testing.assert_array_equal(answer["labels"], probabilities > 0.5)
    found = served.class_names(np.array([3, 0]))["class_name"]
    assert found.numpy().tolist() == [b"d", b"a"]


def test_sparse_features_are_never_made_dense(tmp_path, monkeypatch):
    graph = ring_graph(sparse=sparse.csr_array)
    monkeypatch.setattr(sparse.csr_array, "toarray", refuse)
    monkeypatch.setattr(sparse.csr_array, "todense", refuse)
    monkeypatch.setattr(tf.sparse, "to_dense", refuse)
    this = Case(tmp_path, graph)
    answer = this.served.serving_default(tf.constant(NODES))
    close(answer["probabilities"], this.probabilities())
    places, values = coo(graph.features)
    request = places, values, np.int64(30), edges_of(graph)
    function = tf.function(this.served.subgraph_sparse)
    operations = operations_of(function.get_concrete_function(*request))
    assert "SparseMatrixMatMul" in operations
    assert not operations & {"SparseToDense", "ScatterNd"}
    close(function(*request)["probabilities"], this.probabilities())


def operations_of(function):
    definition = function.graph.as_graph_def()
    bodies = [each.node_def for each in definition.library.function]
    return {node.op for body in [definition.node, *bodies] for node in body}


def refuse(*_, **__):
    raise AssertionError("made dense")


@pytest.fixture(scope="module")
def plain(case):
    """The signatures, as they are exported."""
    this = case("plain")
    functions = export.signatures_of(this.served, this.config)
    return types.SimpleNamespace(**functions)


@pytest.fixture(scope="module")
def raw(case):
    """Those of a network on features as they come."""
    this = case("raw, identity")
    functions = export.signatures_of(this.served, this.config)
    return types.SimpleNamespace(**functions)


def refused(function, *request):
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        function(*request)
    return error.value.message


@pytest.mark.parametrize("bad", [30, -1, 2**40])
def test_unknown_id_is_named(plain, bad):
    for function in (plain.serving_default, plain.embed):
        message = refused(function, np.array([0, bad, 1]))
        assert "node_ids: not in the graph" in message
        assert str(bad) in message
    message = refused(plain.inductive, TWO[:1], [[bad]], [[True]])
    assert "neighbor_ids: not in the graph" in message
    assert str(bad) in message


def test_padding_may_hold_any_id(plain):
    mask = [[True, False]]
    first, second = (
        plain.inductive(TWO[:1], np.array([[4, each]]), mask)["probabilities"]
        for each in (0, -99)
    )
    np.testing.assert_array_equal(first, second)


IDS, MASK = np.array([[4], [9]]), np.array([[True], [True]])
EDGES, LOOP = np.array([[0, 1]]), np.array([[0, 0]])
PLACES = np.array([[0, 0], [1, 5]])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_number_that_is_none_is_refused_by_row(plain, value):
    bad = TWO.copy()
    bad[1, 3] = value
    for name, request in (
        ("inductive", (bad, IDS, MASK)),
        ("subgraph", (bad, EDGES)),
    ):
        message = refused(getattr(plain, name), *request)
        assert "features: expected finite numbers; in rows" in message
        assert "[1]" in message
    values = np.array([1, value], np.float32)
    message = refused(plain.subgraph_sparse, PLACES, values, 2, EDGES)
    assert "feature_values: expected finite" in message


def test_answer_that_is_no_number_is_refused_by_row(plain, raw):
    """Finite features: their products, sums and norms need not be."""
    bad = TWO.copy()
    bad[1] = 3e38
    large = bad[1, :2]
    for message in (
        refused(raw.inductive, bad, IDS, MASK),
        refused(raw.subgraph, bad, LOOP),
        refused(raw.subgraph_sparse, PLACES[[1, 1]], large, 2, LOOP),
    ):
        assert "too large for float32; no answer in rows" in message
        assert "[1]" in message
    answer = plain.inductive(bad, IDS, MASK)  # Of length 1 by --features=l2.
    assert np.isfinite(answer["probabilities"]).all()


@pytest.mark.parametrize(
    "ids, mask, weights, expected",
    [
        ([[4], [9], [1]], [[True]] * 3, [[1.0]] * 3, "neighbor_ids: expected"),
        (IDS, [[True]], [[1.0]] * 2, "neighbor_mask: expected a row for each"),
        (IDS, MASK, [[1.0, 1.0]] * 2, "neighbor_weights: expected a row"),
        (IDS, MASK, [[1.0], [0.0]], "expected finite numbers > 0; in rows"),
        (IDS, MASK, [[1.0], [np.nan]], "expected finite numbers > 0; in rows"),
        ([[4, 9], [9, 9]], [[True] * 2] * 2, [[1.0] * 2] * 2, "given twice"),
    ],
)
def test_links_that_do_not_fit_are_refused(plain, ids, mask, weights, expected):
    weights = np.array(weights, np.float32)
    function = plain.inductive_weighted
    assert expected in refused(function, TWO, np.array(ids), mask, weights)


@pytest.mark.parametrize("edge", [[0, 2], [-1, 0]])
def test_edge_outside_the_features_is_refused(plain, edge):
    message = refused(plain.subgraph, TWO, np.array([[0, 1], edge]))
    assert "edges: expected rows of the features; outside" in message
    assert f"[{edge[0]} {edge[1]}]" in message


@pytest.mark.parametrize(
    "edges, weights, expected",
    [
        ([[0, 1]], [1.0, 1.0], "one for each of edges"),
        ([[0, 1]], [0.0], "finite numbers > 0; at"),
        ([[0, 1]], [np.inf], "finite numbers > 0; at"),
        ([[0, 1], [1, 0]], [1.0, 2.0], "an edge is given with two weights"),
    ],
)
def test_weights_that_do_not_fit_are_refused(plain, edges, weights, expected):
    request = TWO, np.array(edges), np.array(weights, np.float32)
    assert expected in refused(plain.subgraph_weighted, *request)


@pytest.mark.parametrize("bad", [3, -1])
def test_class_without_a_column_is_refused(plain, bad):
    message = refused(plain.class_names, np.array([0, bad]))
    assert "classes: no such column of probabilities" in message
    assert str(bad) in message


@pytest.mark.parametrize("place", [[2, 0], [0, 6], [-1, 0]])
def test_feature_outside_is_refused(plain, place):
    places, values = np.array([[0, 0], place]), np.ones(2, np.float32)
    message = refused(plain.subgraph_sparse, places, values, 2, EDGES)
    assert "feature_indices: outside the features" in message


def test_sparse_features_that_do_not_fit_are_refused(plain):
    one, two = np.ones(1, np.float32), np.ones(2, np.float32)
    function = plain.subgraph_sparse
    assert "one for each" in refused(function, PLACES, one, 2, EDGES)
    for n in (-1, 10**9, 2**62, 2**63 - 1):
        message = refused(function, PLACES, two, n, EDGES)
        # By a width of 5: as many as one sparse product has terms.
        assert "n_nodes: expected 0 to 429496729. Received:" in message
        assert str(n) in message


def test_graph_too_large_for_one_request_is_refused(case, monkeypatch):
    monkeypatch.setattr("adaptive_gcn.served_model.MOST_TERMS", 19)
    served = case("plain").served
    function = tf.function(served.subgraph)
    message = refused(function, TWO, EDGES)  # 4 entries by 5 columns.
    assert "too large for one request" in message


def test_empty_requests_have_empty_answers(plain):
    no_ids = tf.zeros([0], tf.int64)
    no_rows, no_links = tf.zeros([0, 6]), tf.zeros([0, 3], tf.int64)
    no_pairs = tf.zeros([0, 2], tf.int64)
    answers = [
        plain.serving_default(no_ids),
        plain.inductive(no_rows, no_links, tf.cast(no_links, tf.bool)),
        plain.subgraph(no_rows, no_pairs),
        plain.subgraph_sparse(
            no_pairs, tf.zeros([0]), tf.constant(0, tf.int64), no_pairs
        ),
    ]
    for answer in answers:
        assert answer["probabilities"].shape == (0, 3)
        assert answer["class"].shape == answer["class_name"].shape == (0,)
    assert plain.embed(no_ids)["embedding"].shape == (0, 4)


def test_graph_without_edges_is_answered(plain):
    no_pairs = tf.zeros([0, 2], tf.int64)
    loop = tf.constant([[1, 1]], tf.int64)
    first, second = (
        plain.subgraph(TWO, edges)["probabilities"]
        for edges in (no_pairs, loop)
    )
    np.testing.assert_array_equal(first, second)
    none = tf.zeros([2, 0], tf.int64)
    alone = plain.inductive(TWO, none, tf.cast(none, tf.bool))
    close(first, alone["probabilities"])
