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


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"x": None}, "expected an attribute 'x'"),
        ({"train_mask": Tensor(np.ones((4, 2)))}, "expected one split"),
        ({"edge_index": Tensor([[0, -1], [1, 2]])}, "1 entries lie outside"),
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
        ([1e39, 1, 1], r"first is inf, of entry 0: \[0, 1\]"),
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
