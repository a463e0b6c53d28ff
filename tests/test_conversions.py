"""Graphs of other libraries; those that are not there are stood in for."""

import numpy as np
import pytest
from scipy import sparse

from adaptive_gcn import conversions
from adaptive_gcn.graph import Graph, GraphError, normalize_adjacency
from adaptive_gcn.sampling import samplers

WEIGHTS = np.array(
    [[0, 2, 0, 0], [2, 0, 0.5, 0], [0, 0.5, 0, 3], [0, 0, 3, 0]], np.float32
)
FEATURES = np.arange(8, dtype=np.float32).reshape(4, 2)
LABELS = [0, 1, 1, -1]
SPLIT = ([0], [1], [2])


class Tensor:
    """What a PyTorch tensor has that we use; it must be detached first."""

    def __init__(self, values, detached=False):
        self._values, self._detached = np.asarray(values), detached

    def detach(self):
        return Tensor(self._values, True)

    def cpu(self):
        return self

    def numpy(self):
        assert self._detached
        return self._values


def masks():
    return [np.isin(np.arange(4), part) for part in SPLIT]


def check(graph, weights=WEIGHTS, features=FEATURES):
    assert isinstance(graph, Graph)
    np.testing.assert_array_equal(graph.adjacency.toarray(), weights)
    np.testing.assert_array_equal(graph.features, features)
    assert graph.labels.tolist() == LABELS
    split = (graph.train_nodes, graph.val_nodes, graph.test_nodes)
    assert tuple(each.tolist() for each in split) == SPLIT


@pytest.mark.parametrize("form", ["csr", "coo", "csc", "lil", "dok"])
@pytest.mark.parametrize("half", [False, True])
def test_scipy(form, half):
    matrix = sparse.triu(WEIGHTS) if half else sparse.coo_array(WEIGHTS)
    matrix = matrix.asformat(form)
    check(conversions.from_scipy(matrix, FEATURES, LABELS, *SPLIT))


@pytest.mark.parametrize(
    "matrix, message",
    [
        (WEIGHTS, "expected a SciPy sparse matrix. Received: ndarray"),
        (sparse.eye_array(5), "labels: 4, adjacency: 5 nodes"),
        (sparse.coo_array((4, 5)), "expected a square matrix"),
        (sparse.coo_array(np.array(WEIGHTS) - 1), "negative or not finite"),
    ],
)
def test_scipy_matrices_that_are_no_graph(matrix, message):
    with pytest.raises(GraphError, match=message):
        conversions.from_scipy(matrix, FEATURES, LABELS, *SPLIT)


@pytest.mark.parametrize("directed", [False, True])
def test_networkx(directed, caplog):
    nx = pytest.importorskip("networkx")
    graph = nx.DiGraph() if directed else nx.Graph()
    names = ["ann", "bob", "eve", "joe"]
    for i, name in enumerate(names):
        graph.add_node(name, x=FEATURES[i], y=LABELS[i])
    for part, nodes in zip(("train", "val", "test"), SPLIT, strict=True):
        graph.nodes[names[nodes[0]]]["split"] = part
    for i in range(3):
        graph.add_edge(names[i], names[i + 1], weight=WEIGHTS[i, i + 1])
    found = conversions.from_networkx(graph)
    check(found)
    assert found.node_ids.tolist() == names
    assert ("directed input" in caplog.text) == directed
    unweighted = conversions.from_networkx(graph, weight=None, features=None)
    check(unweighted, WEIGHTS > 0, np.ones((4, 1)))
    del graph.nodes["eve"]["x"]
    with pytest.raises(GraphError, match="node 'eve': expected an attribute"):
        conversions.from_networkx(graph)


def test_pandas():
    pd = pytest.importorskip("pandas")
    edges = pd.DataFrame(
        {"source": [7, 8, 9], "target": [8, 9, 10], "km": [2, 0.5, 3]}
    )
    nodes = pd.DataFrame(
        {
            "id": [7, 8, 9, 10],
            "label": ["no", "yes", "yes", None],
            "split": ["train", "val", "test", None],
            "a": FEATURES[:, 0],
            "b": FEATURES[:, 1],
            "note": list("abcd"),
        }
    )
    graph = conversions.from_pandas(edges, nodes, weight="km")
    check(graph)
    assert graph.class_names == ("no", "yes")
    assert graph.node_ids.tolist() == [7, 8, 9, 10]
    edges.loc[1, "target"] = 77
    with pytest.raises(GraphError, match="1 ends are not among.*77"):
        conversions.from_pandas(edges, nodes)


def frames(**columns):
    """A chain of four nodes as two pandas tables, and pandas."""
    pd = pytest.importorskip("pandas")
    nodes = {
        "id": list("abcd"),
        "label": ["no", "yes", "yes", None],
        "split": ["train", "val", "test", None],
        "x": [1.0, 2, 3, 4],
        **columns,
    }
    edges = {"source": list("abc"), "target": list("bcd")}
    return pd.DataFrame(edges), pd.DataFrame(nodes), pd


def test_pandas_gaps_of_any_kind():
    edges, nodes, pd = frames()
    for label in (
        pd.array([0, 1, 1, None], "Int64"),
        pd.array(["no", "yes", "yes", None], "string"),
        pd.Categorical(["no", "yes", "yes", None]),
        [0.0, 1.0, 1.0, float("nan")],
        ["no", "yes", "yes", ""],
    ):
        graph = conversions.from_pandas(edges, nodes.assign(label=label))
        assert graph.labels.tolist() == LABELS
        assert graph.test_nodes.tolist() == [2]


def test_pandas_several_labels():
    pairs = {"p": [1, 1, 0, None], "q": [0, 1, 0, 1]}
    edges, nodes, _ = frames(**pairs)
    graph = conversions.from_pandas(edges, nodes, label=["p", "q"])
    assert graph.class_names == ("p", "q")
    assert graph.labels.tolist() == [[1, 0], [1, 1], [0, 0], [-1, -1]]
    assert graph.features.tolist() == [[1], [2], [3], [4]]


def test_pandas_columns_given_as_an_index_and_by_number():
    edges, nodes, _ = frames(**{"y": [1, 0, 1, 0]})
    nodes = nodes.rename(columns={"label": 7})
    graph = conversions.from_pandas(
        edges, nodes, label=7, features=nodes.columns[3:]
    )
    assert graph.n_features == 2
    assert graph.class_names == ("no", "yes")


def test_pandas_answers_are_no_features(caplog):
    edges, nodes, _ = frames(train_mask=[True, False, False, False])
    assert conversions.from_pandas(edges, nodes).n_features == 1
    assert "columns ['train_mask'] are left out of the features" in caplog.text
    chosen = ["x", "train_mask"]
    graph = conversions.from_pandas(edges, nodes, features=chosen)
    assert graph.n_features == 2


@pytest.mark.parametrize(
    "columns, options, message",
    [
        ({}, {"source": "src"}, "edges: .* column 'src'. Received: source, t"),
        ({}, {"label": "kind"}, "nodes: .* column 'kind'. Received: id, label"),
        ({}, {"features": ["y"]}, "nodes: .* column 'y'"),
        ({}, {"weight": "w"}, "edges: .* column 'w'"),
        ({}, {"features": ["id"]}, "features: expected columns of numbers: "),
        ({"x": list("pqrs")}, {}, "no columns of numbers as features"),
        ({"split": [1, 2, 3, 0]}, {}, "split: node 0: .* Received: 1"),
        ({"split": ["train", "val", "?", ""]}, {}, "split: node 2: .*'?'"),
        ({"x": [1, 2, 3, 2]}, {"label": ["x", "x"]}, "rows hold other values"),
    ],
)
def test_pandas_tables_that_are_no_graph(columns, options, message):
    edges, nodes, _ = frames(**columns)
    with pytest.raises(GraphError, match=message):
        conversions.from_pandas(edges, nodes, **options)


def test_words_of_a_split_are_those_of_files():
    words = [" Training", "DEV", "testing", float("nan")]
    edges, nodes, _ = frames(split=words)
    graph = conversions.from_pandas(edges, nodes)
    parts = (graph.train_nodes, graph.val_nodes, graph.test_nodes)
    assert tuple(each.tolist() for each in parts) == SPLIT


def networkx_chain(names, **attributes):
    nx = pytest.importorskip("networkx")
    graph = nx.path_graph(4)
    for name, values in attributes.items():
        nx.set_node_attributes(graph, dict(enumerate(values)), name)
    return nx.relabel_nodes(graph, dict(enumerate(names)))


@pytest.mark.parametrize(
    "names, ids",
    [
        (np.arange(4), [0, 1, 2, 3]),
        ([2**64, 1, 2, 3], [str(2**64), "1", "2", "3"]),
        ([(0, 1), (0, 2), (1, 1), (1, 2)], None),
    ],
)
def test_networkx_nodes_of_any_kind(names, ids):
    graph = networkx_chain(names, x=FEATURES, y=[0, 1, 1, 0])
    found = conversions.from_networkx(graph).node_ids.tolist()
    assert found == (ids or [str(each) for each in names])


def test_networkx_several_labels():
    vectors = [[1, 0], (1, 1), np.array([0, 0]), None]
    graph = networkx_chain("abcd", x=FEATURES, y=vectors)
    found = conversions.from_networkx(graph)
    assert found.labels.tolist() == [[1, 0], [1, 1], [0, 0], [-1, -1]]


@pytest.mark.parametrize(
    "attributes, message",
    [
        ({"x": ["p", "q", "r", "s"]}, "node 'a': expected numbers as features"),
        ({"y": [[1, 0], [1], [0], [1]]}, "labels: .* of one length"),
        ({"y": [[1, 0], [1, 2], [0, 0], [1, 1]]}, r"node 1: \[1.0, 2.0\]"),
        ({"split": [True, False, False, False]}, "node 0: .*Received: True"),
    ],
)
def test_networkx_graphs_that_cannot_be_used(attributes, message):
    usual = {"x": FEATURES, "y": [0, 1, 1, 0]}
    graph = networkx_chain("abcd", **{**usual, **attributes})
    with pytest.raises(GraphError, match=message):
        conversions.from_networkx(graph)


def test_networkx_without_nodes():
    nx = pytest.importorskip("networkx")
    with pytest.raises(GraphError, match="no nodes"):
        conversions.from_networkx(nx.Graph())


def pyg_data(**changes):
    class Data:
        edge_index = Tensor([[0, 1, 2], [1, 2, 3]])
        edge_weight = Tensor([2, 0.5, 3])
        x = Tensor(FEATURES)
        y = Tensor(LABELS)
        train_mask, val_mask, test_mask = map(Tensor, masks())

    for name, value in changes.items():
        setattr(Data, name, value)
    return Data()


def test_pyg():
    check(conversions.from_pyg(pyg_data()))
    check(conversions.from_pyg(pyg_data(edge_weight=None)), WEIGHTS > 0)
    column = Tensor(np.array(LABELS)[:, None])
    check(conversions.from_pyg(pyg_data(y=column)))


def test_pyg_with_several_labels():
    rows = [[1, 0], [1, 1], [0, 0], [np.nan, np.nan]]
    graph = conversions.from_pyg(pyg_data(y=Tensor(rows)))
    assert graph.multi_label
    assert graph.labels.tolist() == [[1, 0], [1, 1], [0, 0], [-1, -1]]


def test_pyg_with_one_label_in_other_forms(caplog):
    check(conversions.from_pyg(pyg_data(y=Tensor([0, 1, 1, np.nan]))))
    rows = Tensor([[1, 0, 0], [0, 1, 0], [0, 1, 0], [-1, -1, -1]])
    graph = conversions.from_pyg(pyg_data(y=rows))
    check(graph)
    assert graph.n_classes == 3
    assert "they are read as classes" in caplog.text


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"x": None}, "expected an attribute 'x'"),
        ({"train_mask": Tensor(np.ones((4, 2)))}, "expected one split"),
        ({"edge_index": Tensor([[0, -1], [1, 2]])}, "1 entries lie outside"),
        ({"edge_index": Tensor([[0, 1]] * 3)}, r"shape \[2, n_.*\(3, 2\)"),
        ({"train_mask": Tensor([1, 2])}, "each of 4 nodes. Received: 2 values"),
        ({"train_mask": Tensor([3, 0, 0, 2])}, "true or false for each of 4"),
        ({"y": Tensor([[0.5, 1]] * 4)}, r"4 rows hold .* node 0: \[0.5, 1.0\]"),
        ({"y": Tensor([[0, -7]] * 4)}, r"4 rows hold .* node 0: \[0.0, -7.0\]"),
        ({"y": Tensor([0, 0.5, 1, 1])}, "1 are no whole .* 0.5, of node 1"),
    ],
)
def test_pyg_data_that_are_no_graph(changes, message):
    with pytest.raises(GraphError, match=message):
        conversions.from_pyg(pyg_data(**changes))


class DGLGraph:
    ndata = {"feat": Tensor(FEATURES), "label": Tensor(LABELS)} | {
        f"{part}_mask": Tensor(mask)
        for part, mask in zip(("train", "val", "test"), masks(), strict=True)
    }
    edata = {"weight": Tensor([2, 0.5, 3])}

    def edges(self):
        return Tensor([0, 1, 2]), Tensor([1, 2, 3])


def test_dgl():
    check(conversions.from_dgl(DGLGraph()))
    with pytest.raises(GraphError, match="ndata: expected 'x'. Received: feat"):
        conversions.from_dgl(DGLGraph(), features="x")


# Weights.


def weighted(edges, weights, n=4):
    return Graph.from_edges(edges, np.eye(n), [0] * n, [0], weights=weights)


def test_weights_go_through_normalisation_by_hand():
    graph = weighted([[0, 1], [1, 2], [2, 3]], [2, 0.5, 3])
    degree = WEIGHTS.sum(axis=1) + 1
    loops = WEIGHTS + np.eye(4)
    np.testing.assert_allclose(
        normalize_adjacency(graph.adjacency).toarray(),
        loops / np.sqrt(np.outer(degree, degree)),
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        normalize_adjacency(graph.adjacency, "row").toarray(),
        loops / degree[:, None],
        rtol=1e-6,
    )


@pytest.mark.parametrize(
    "weights, message",
    [
        ([1, -1, 1], r"1 are negative.*first is -1, of entry 1: \[1, 2\]"),
        ([1, 1, np.nan], r"first is nan, of entry 2: \[2, 3\]"),
        ([1e39, 1, 1], r"first is 1e\+39, of entry 0: \[0, 1\]"),
        ([0, 1e-50, 1], "1 are .* 32 bits cannot hold; the first is 1e-50"),
        ([1, 1], "expected 3 numbers"),
        (["a", "b", "c"], "expected 3 numbers"),
    ],
)
def test_weights_that_cannot_be_are_refused(weights, message):
    with pytest.raises(GraphError, match=message):
        weighted([[0, 1], [1, 2], [2, 3]], weights)


def test_zero_is_no_edge(caplog):
    graph = weighted([[0, 1], [1, 2], [2, 3], [3, 3]], [1, 0, 2, 5])
    assert graph.n_edges == 2
    assert graph.edge_statistics.self_loops == 1
    assert "1 entries have weight 0" in caplog.text


def test_entries_of_one_edge_must_agree():
    edges = [[0, 1], [1, 0], [0, 1]]
    assert weighted(edges, [2, 2, 2]).adjacency.data.tolist() == [2, 2]
    with pytest.raises(GraphError, match=r"2 entries.*first is \[1, 0\]: 3"):
        weighted(edges, [2, 3, 3])


@pytest.mark.parametrize("kind", ["adaptive", "iid", "node_wise"])
def test_samplers_stay_unbiased_with_weights(kind):
    graph = weighted([[0, 1], [1, 2], [2, 3], [1, 3]], [9, 0.5, 3, 0.1])
    matrix = normalize_adjacency(graph.adjacency)
    sampler = {
        "adaptive": lambda: samplers.AdaptiveSampler(matrix, "sum"),
        "iid": lambda: samplers.IIDSampler(matrix),
        "node_wise": lambda: samplers.NodeWiseSampler(matrix, 2),
    }[kind]()
    if sampler.uses_importance:
        sampler.refresh(np.array([1, 3, 2, 1.0]))
    hidden = np.array([[1.0, -2], [0, 1], [3, 1], [-1, 2]])
    rng = np.random.default_rng(0)
    parents = np.array([1, 3])
    estimates = []
    for _ in range(4000):
        drawn = sampler.sample(parents, 3, rng)
        weights = drawn.counts / (drawn.counts.sum() * drawn.sample_prob)
        block = np.zeros((2, len(drawn.nodes)))
        np.add.at(block, tuple(drawn.indices.T), drawn.values)
        estimates.append((block * weights) @ hidden[drawn.nodes])
    error = np.mean(estimates, axis=0) - matrix[parents] @ hidden
    bound = 4 * np.std(estimates, axis=0) / 4000**0.5 + 1e-6
    assert np.all(np.abs(error) < bound)
