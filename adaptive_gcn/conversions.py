"""Graphs of other Python libraries, as `Graph`, without importing these.

Everything is told by the methods and attributes that an object has: SciPy
matrices, NetworkX graphs, pandas tables, PyG's `Data` and DGL's graphs.
"""

from __future__ import annotations

import logging
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from adaptive_gcn.datasets.columns import MASKS, no_features
from adaptive_gcn.datasets.graph_parts import PARTS, SPLIT_CODES
from adaptive_gcn.datasets.labels import UNKNOWN
from adaptive_gcn.errors import GraphError
from adaptive_gcn.graph import UNLABELLED, Graph

_LOG = logging.getLogger(__name__)

_Array = npt.NDArray[Any]


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
            or a vector of 0 and 1, if it may have several. Nodes without it
            are unlabelled.
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
    label: str | Sequence[str] = "label",
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
        label: Likewise; or the names of several columns of 0 and 1.
        split: Likewise; None for no split.
        features: Names of the columns of features. Defaults to all others
            that hold numbers, and whose name is not that of an id, a label or
            a split.
        **options: Further arguments of `Graph.from_edges`.

    Raises:
        GraphError: If a column is missing, an edge names an unknown node, or
            the parts are not a graph.
    """
    several = tuple(label) if np.ndim(label) else ()
    labels = several or (label,)
    given_features = () if features is None else tuple(features)
    _check_columns("nodes", nodes, [id, *labels, *given_features])
    _check_columns(
        "edges", edges, [source, target, *([weight] if weight else [])]
    )
    ids = nodes[id].to_numpy()
    place = {node: i for i, node in enumerate(ids.tolist())}
    ends = [_numbers(edges[each].tolist(), place) for each in (source, target)]
    if several:
        rows = nodes[list(several)].to_numpy(np.float64, na_value=np.nan)
        codes, names = _rows(rows), several
    else:
        codes, names = _classes(nodes[label].tolist())
    chosen = given_features
    if features is None:
        chosen = tuple(_numeric(nodes, {id, *labels, split}))
    parts = [None] * len(ids)
    if split is not None and split in nodes:
        parts = nodes[split].tolist()
    given = {
        "class_names": names,
        "node_ids": _ids(ids.tolist()),
        "weights": edges[weight].to_numpy() if weight else None,
        **options,
    }
    return _made(
        (ends[0], ends[1]),
        _matrix(nodes, list(chosen)),
        codes,
        _parts_of(parts),
        given,
    )


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
    masks = [getattr(data, name, None) for name in MASKS]
    ends = _array(data.edge_index)
    if ends.ndim != 2 or len(ends) != 2:
        raise GraphError(
            "edge_index: expected the shape [2, n_entries]. Received: "
            f"{ends.shape}"
        )
    return _of_arrays(
        (ends[0], ends[1]), data.x, data.y, masks, weights, options
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
        graph.ndata[each] if each in graph.ndata else None for each in MASKS
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
    given: dict[str, Any] = {}
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim == 2:
        if not {"n_classes", "class_names"} & options.keys():
            given["n_classes"] = labels.shape[1]
        labels = _rows(labels)
    elif labels.dtype.kind == "f":
        labels = _whole(labels)
    split = [
        np.empty(0, np.int64)
        if each is None
        else _chosen(_array(each), name, len(labels))
        for each, name in zip(masks, MASKS, strict=True)
    ]
    weights = None if weights is None else _array(weights).reshape(-1)
    given |= {"weights": weights, **options}
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


def _chosen(mask: _Array, name: str, n_nodes: int) -> _Array:
    if mask.ndim != 1:
        raise GraphError(
            f"{name}: expected one split, a vector. Received: shape "
            f"{mask.shape}; take one column of it"
        )
    if len(mask) != n_nodes or not np.isin(mask, (0, 1)).all():
        raise GraphError(
            f"{name}: expected true or false for each of {n_nodes} nodes. "
            f"Received: {len(mask)} values, {mask.dtype}"
        )
    return np.flatnonzero(mask)


def _whole(labels: _Array) -> _Array:
    """Labels that are floats, as integers."""
    labels = np.where(np.isnan(labels), UNLABELLED, labels)
    bad = np.flatnonzero(labels % 1 != 0)
    if bad.size:
        raise GraphError(
            f"labels: {bad.size} are no whole numbers; the first is "
            f"{labels[bad[0]]:g}, of node {bad[0]}"
        )
    return labels.astype(np.int64)


def _rows(labels: npt.ArrayLike) -> _Array:
    """[n_nodes, n_classes] 0 and 1; -1 where a value is missing, -1 or -100.

    Where each row holds one 1, [n_nodes] classes.
    """
    rows = np.asarray(labels, np.float64)
    known = ~np.any(np.isnan(rows) | np.isin(rows, UNKNOWN), axis=1)
    bad = np.flatnonzero(known & ((rows != 0) & (rows != 1)).any(axis=1))
    if bad.size:
        raise GraphError(
            f"labels: {bad.size} rows hold other values than 0 and 1; the "
            f"first is of node {bad[0]}: {rows[bad[0]].tolist()}"
        )
    if known.any() and np.all(rows[known].sum(axis=1) == 1):
        _LOG.warning("one 1 in each row of labels: they are read as classes")
        return np.where(known, rows.argmax(axis=1), UNLABELLED)
    return np.where(known[:, None], rows, UNLABELLED).astype(np.int64)


def _check_columns(name: str, table: Any, columns: Sequence[Any]) -> None:
    missing = [each for each in columns if each not in table]
    if missing:
        raise GraphError(
            f"{name}: expected a column {missing[0]!r}. Received: "
            f"{', '.join(map(str, table.columns))}"
        )


def _numeric(nodes: Any, taken: set[Any]) -> list[Any]:
    """The columns that are features by their type and name."""
    numeric = nodes.select_dtypes(["number", "bool"]).columns
    free = [each for each in numeric if each not in taken]
    left_out = no_features([each for each in free if isinstance(each, str)])
    if left_out:
        _LOG.warning(
            "columns %s are left out of the features, as their names are those "
            "of ids, labels or splits; features=[...] takes them",
            left_out,
        )
    return [each for each in free if each not in left_out]


def _matrix(nodes: Any, columns: list[Any]) -> _Array:
    """[n_nodes, n_columns] float32."""
    if not columns:
        raise GraphError("nodes: there are no columns of numbers as features")
    try:
        return np.asarray(nodes[columns].to_numpy(np.float32, na_value=np.nan))
    except (TypeError, ValueError) as error:
        raise GraphError(
            f"features: expected columns of numbers: {error}"
        ) from error


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
        rows.append(_vector(node, row))
    if not rows:
        raise GraphError("the graph has no nodes")
    if len({row.shape for row in rows}) > 1:
        raise GraphError(f"features {names!r}: expected vectors of one length")
    return np.stack(rows)


def _vector(node: Any, row: Any) -> _Array:
    try:
        return np.atleast_1d(np.asarray(_array(row), np.float32))
    except (TypeError, ValueError) as error:
        raise GraphError(
            f"node {node!r}: expected numbers as features: {error}"
        ) from error


def _numbers(ids: list[Any], place: dict[Any, int]) -> _Array:
    unknown = [each for each in ids if each not in place]
    if unknown:
        raise GraphError(
            f"edges: {len(unknown)} ends are not among the nodes; the first is "
            f"{unknown[0]!r}"
        )
    return np.array([place[each] for each in ids], np.int64)


def _classes(labels: list[Any]) -> tuple[_Array, tuple[str, ...]]:
    """Codes, -1 for None, not-a-number, "" and negative ones; and the names.

    Vectors of 0 and 1 are several labels a node.
    """
    if any(np.ndim(each) for each in labels):
        return _vectors(labels)
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


def _vectors(labels: list[Any]) -> tuple[_Array, tuple[str, ...]]:
    sizes = {np.shape(each) for each in labels if not _is_missing(each)}
    (size, *others) = sizes
    if others or len(size) != 1:
        raise GraphError(
            "labels: expected one label a node, or vectors of 0 and 1 of one "
            f"length. Received: shapes {sorted(sizes)}"
        )
    gap = np.full(size, np.nan)
    rows = [gap if _is_missing(each) else each for each in labels]
    return _rows(np.array(rows, np.float64)), tuple(map(str, range(*size)))


def _is_missing(label: Any) -> bool:
    if isinstance(label, str):
        return label == ""
    if np.ndim(label):
        return False
    return _is_gap(label) or label < 0


def _parts_of(words: list[Any]) -> list[_Array]:
    """Ids of the nodes in each part of the split."""
    codes = np.zeros(len(words), np.int8)
    for node, word in enumerate(words):
        if isinstance(word, str):
            codes[node] = SPLIT_CODES.get(word.strip().lower(), -1)
        elif np.ndim(word) or not _is_gap(word):
            codes[node] = -1
        if codes[node] < 0:
            raise GraphError(
                f"split: node {node}: expected train, val or test. "
                f"Received: {word!r}"
            )
    return [np.flatnonzero(codes == 1 + i) for i in range(len(PARTS))]


def _is_gap(word: Any) -> bool:
    """Whether it is None, not-a-number or pandas.NA."""
    try:
        return word is None or bool(word != word)
    except TypeError:  # pandas.NA is neither true nor false.
        return True


def _ids(nodes: list[Any]) -> _Array:
    """The nodes' names as integers, or else as texts."""
    if all(isinstance(each, numbers.Integral) for each in nodes):
        if all(-(2**63) <= each < 2**63 for each in nodes):
            return np.array(nodes, np.int64)
    return np.array([str(each) for each in nodes])


def _check_n_nodes(n_nodes: int, n_labels: int) -> None:
    if n_nodes != n_labels:
        raise GraphError(f"labels: {n_labels}, adjacency: {n_nodes} nodes")
