"""Graphs of other Python libraries, as `Graph`, without importing these.

Everything is told by the methods and attributes that an object has: SciPy
matrices, NetworkX graphs, pandas tables, PyG's `Data` and DGL's graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from adaptive_gcn.errors import GraphError
from adaptive_gcn.graph import UNLABELLED, Graph

_Array = npt.NDArray[Any]
_MASKS = ("train_mask", "val_mask", "test_mask")


def from_scipy(
    adjacency: Any,
    features: Any,
    labels: npt.ArrayLike,
    train_nodes: npt.ArrayLike,
    val_nodes: npt.ArrayLike = (),
    test_nodes: npt.ArrayLike = (),
    **options: Any,
) -> Graph:
    """A graph of a sparse matrix, whose values are the weights.

    Args:
        adjacency: [n_nodes, n_nodes] of any SciPy format.
        features: See `Graph.from_edges`, as all that follow.
        labels: [n_nodes].
        train_nodes: Ids.
        val_nodes: Likewise.
        test_nodes: Likewise.
        **options: Further arguments of `Graph.from_edges`.

    Raises:
        GraphError: If the parts are not a graph.
    """
    if not sparse.issparse(adjacency) or adjacency.ndim != 2:
        raise GraphError(
            "adjacency: expected a SciPy sparse matrix. Received: "
            f"{type(adjacency).__name__}"
        )
    if adjacency.shape[0] != adjacency.shape[1]:
        raise GraphError(
            f"adjacency: expected a square matrix. Received: {adjacency.shape}"
        )
    _check_n_nodes(adjacency.shape[0], len(np.asarray(labels)))
    matrix = sparse.coo_array(adjacency)
    split = (train_nodes, val_nodes, test_nodes)
    given = {"weights": matrix.data, **options}
    return _made(matrix.coords, features, labels, split, given)


def from_networkx(
    graph: Any,
    features: str | Sequence[str] | None = "x",
    label: str = "y",
    split: str | None = "split",
    weight: str | None = "weight",
    **options: Any,
) -> Graph:
    """A graph of a NetworkX graph, directed or not.

    Args:
        graph: A NetworkX graph.
        features: Attribute of the nodes that holds a vector, or attributes
            that hold a number each.
        label: Attribute that holds the class of a node: an integer or a text;
            nodes without it are unlabelled.
        split: Attribute that says "train", "val" or "test".
        weight: Attribute of the edges; those without it have weight 1.
        **options: Further arguments of `Graph.from_edges`.

    Raises:
        GraphError: If the parts are not a graph; the message names the node.
    """
    nodes = list(graph.nodes)
    place = {node: i for i, node in enumerate(nodes)}
    edges = np.array(
        [(place[u], place[v]) for u, v in graph.edges()], np.int64
    ).reshape(-1, 2)
    values = [data.get(weight, 1) for *_, data in graph.edges(data=True)]
    codes, names = _classes([graph.nodes[each].get(label) for each in nodes])
    parts = [graph.nodes[each].get(split) for each in nodes]
    given = {
        "class_names": names,
        "node_ids": _ids(nodes),
        "directed": graph.is_directed(),
        "weights": np.array(values) if weight else None,
        **options,
    }
    rows = _attributes(graph, nodes, features)
    return _made(edges, rows, codes, _parts_of(parts), given)


def from_pandas(
    edges: Any,
    nodes: Any,
    source: str = "source",
    target: str = "target",
    weight: str | None = None,
    id: str = "id",
    label: str = "label",
    split: str | None = "split",
    features: Sequence[str] | None = None,
    **options: Any,
) -> Graph:
    """A graph of a table of edges and one of nodes.

    Args:
        edges: DataFrame with the columns `source` and `target`, ids of nodes,
            and `weight` if that is given.
        nodes: DataFrame with the columns `id`, `label` (missing or -1 where
            unknown), and `split` ("train", "val" or "test").
        source: Name of a column.
        target: Likewise.
        weight: Likewise; None for weights of 1.
        id: Likewise.
        label: Likewise.
        split: Likewise; None for no split.
        features: Names of the columns of features. Defaults to all others
            that hold numbers.
        **options: Further arguments of `Graph.from_edges`.

    Raises:
        GraphError: If an edge names an unknown node, or the parts are not a
            graph.
    """
    ids = nodes[id].to_numpy()
    place = {node: i for i, node in enumerate(ids.tolist())}
    ends = [_numbers(edges[each].tolist(), place) for each in (source, target)]
    chosen = features
    if chosen is None:
        numeric = nodes.select_dtypes(["number", "bool"]).columns
        chosen = [each for each in numeric if each not in (id, label, split)]
    codes, names = _classes(nodes[label].tolist())
    parts = [None] * len(ids)
    if split is not None and split in nodes:
        parts = nodes[split].tolist()
    given = {
        "class_names": names,
        "node_ids": _ids(ids.tolist()),
        "weights": edges[weight].to_numpy() if weight else None,
        **options,
    }
    rows = nodes[list(chosen)].to_numpy(np.float32)
    return _made((ends[0], ends[1]), rows, codes, _parts_of(parts), given)


def from_pyg(data: Any, **options: Any) -> Graph:
    """A graph of PyG's `Data`: edge_index, x, y, and masks if it has them.

    Args:
        data: An object with these attributes, tensors or arrays; edge_weight
            counts if it is there.
        **options: Further arguments of `Graph.from_edges`.

    Raises:
        GraphError: If an attribute is missing, or they are not a graph.
    """
    for name in ("edge_index", "x", "y"):
        if getattr(data, name, None) is None:
            raise GraphError(f"data: expected an attribute {name!r}")
    weights = getattr(data, "edge_weight", None)
    masks = [getattr(data, name, None) for name in _MASKS]
    sources, targets = _array(data.edge_index)
    return _of_arrays(
        (sources, targets), data.x, data.y, masks, weights, options
    )


def from_dgl(
    graph: Any, features: str = "feat", label: str = "label", **options: Any
) -> Graph:
    """A graph of a homogeneous DGL graph: its edges and `ndata`.

    Args:
        graph: An object with `edges()` and `ndata`; "train_mask" and so on
            are taken from that, and the weights from `edata["weight"]`.
        features: Key of the features.
        label: Key of the labels.
        **options: Further arguments of `Graph.from_edges`.

    Raises:
        GraphError: If a key is missing, or the parts are not a graph.
    """
    for name in (features, label):
        if name not in graph.ndata:
            raise GraphError(
                f"ndata: expected {name!r}. Received: {', '.join(graph.ndata)}"
            )
    masks = [
        graph.ndata[each] if each in graph.ndata else None for each in _MASKS
    ]
    edata = getattr(graph, "edata", {})
    weights = edata["weight"] if "weight" in edata else None
    sources, targets = (_array(each) for each in graph.edges())
    return _of_arrays(
        (sources, targets),
        graph.ndata[features],
        graph.ndata[label],
        masks,
        weights,
        options,
    )


def _of_arrays(
    ends: tuple[_Array, _Array],
    features: Any,
    labels: Any,
    masks: list[Any],
    weights: Any,
    options: dict[str, Any],
) -> Graph:
    labels = _array(labels)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim == 2 and labels.dtype.kind == "f":
        labels = np.where(np.isnan(labels), UNLABELLED, labels).astype(np.int64)
    split = [
        np.empty(0, np.int64) if each is None else _chosen(_array(each), name)
        for each, name in zip(masks, _MASKS, strict=True)
    ]
    weights = None if weights is None else _array(weights).reshape(-1)
    given = {"weights": weights, **options}
    return _made(ends, _array(features), labels, split, given)


def _made(
    edges: Any,
    features: Any,
    labels: Any,
    split: Sequence[npt.ArrayLike],
    options: dict[str, Any],
) -> Graph:
    train, val, test = split
    return Graph.from_edges(
        edges, features, labels, train, val, test, **options
    )


def _chosen(mask: _Array, name: str) -> _Array:
    if mask.ndim != 1:
        raise GraphError(
            f"{name}: expected one split, a vector. Received: shape "
            f"{mask.shape}; take one column of it"
        )
    return np.flatnonzero(mask)


def _array(value: Any) -> Any:
    """A tensor's values; arrays and SciPy matrices as they are."""
    for method in ("detach", "cpu"):
        value = getattr(value, method, lambda value=value: value)()
    if sparse.issparse(value) or not hasattr(value, "numpy"):
        return value if sparse.issparse(value) else np.asarray(value)
    return np.asarray(value.numpy())


def _attributes(graph: Any, nodes: list[Any], names: Any) -> _Array:
    """[n_nodes, n_features] of the nodes' attributes."""
    if names is None:
        return np.ones((len(nodes), 1), np.float32)
    several = not isinstance(names, str)
    rows = []
    for node in nodes:
        held = graph.nodes[node]
        missing = [n for n in (names if several else [names]) if n not in held]
        if missing:
            raise GraphError(
                f"node {node!r}: expected an attribute {missing[0]!r}, its "
                "features; features=None gives all nodes the same"
            )
        row = [held[n] for n in names] if several else held[names]
        rows.append(np.atleast_1d(np.asarray(row, np.float32)))
    if len({row.shape for row in rows}) > 1:
        raise GraphError(f"features {names!r}: expected vectors of one length")
    return np.stack(rows)


def _numbers(ids: list[Any], place: dict[Any, int]) -> _Array:
    unknown = [each for each in ids if each not in place]
    if unknown:
        raise GraphError(
            f"edges: {len(unknown)} ends are not among the nodes; the first is "
            f"{unknown[0]!r}"
        )
    return np.array([place[each] for each in ids], np.int64)


def _classes(labels: list[Any]) -> tuple[_Array, tuple[str, ...]]:
    """Codes, -1 for None, not-a-number, "" and negative ones; and the names."""
    known = [None if _is_missing(each) else each for each in labels]
    found: set[Any] = {each for each in known if each is not None}
    numeric = all(not isinstance(each, str) for each in found)
    key: Callable[[Any], Any] = (lambda each: each) if numeric else str
    values = sorted(found, key=key)
    place = {value: i for i, value in enumerate(values)}
    codes = [UNLABELLED if each is None else place[each] for each in known]
    names = [
        f"{each:g}" if isinstance(each, float) else str(each) for each in values
    ]
    return np.array(codes, np.int64), tuple(names)


def _is_missing(label: Any) -> bool:
    if isinstance(label, str):
        return label == ""
    return label is None or label != label or label < 0


def _parts_of(words: list[Any]) -> list[_Array]:
    """Ids of the nodes in each part of the split."""
    parts: dict[str, list[int]] = {"train": [], "val": [], "test": []}
    for node, word in enumerate(words):
        if isinstance(word, str) and word:
            if word not in parts:
                raise GraphError(
                    f"split: node {node}: expected train, val or test. "
                    f"Received: {word!r}"
                )
            parts[word].append(node)
    return [np.array(each, np.int64) for each in parts.values()]


def _ids(nodes: list[Any]) -> _Array:
    """The nodes' names as integers, or else as texts."""
    if all(isinstance(each, int) for each in nodes):
        return np.array(nodes, np.int64)
    return np.array([str(each) for each in nodes])


def _check_n_nodes(n_nodes: int, n_labels: int) -> None:
    if n_nodes != n_labels:
        raise GraphError(f"labels: {n_labels}, adjacency: {n_nodes} nodes")
