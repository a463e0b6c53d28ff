"""The graph container and the matrices that the method derives from it.

No TensorFlow here. Everything downstream trusts the invariants that `Graph`
checks once, at construction.
"""

from __future__ import annotations

import copy
import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from adaptive_gcn.adjacency import (
    MOST_NODES,
    EdgeStatistics,
    induced_adjacency,
    is_symmetric,
    normalize_adjacency,
    symmetric_adjacency,
    weigh_adjacency,
)
from adaptive_gcn.errors import DataError, GraphError
from adaptive_gcn.features import (
    FeatureRows,
    Features,
    row_blocks,
    scale_features,
)
from adaptive_gcn.memory_map import StoreFolder, release_pages

__all__ = [
    "UNLABELLED",
    "DataError",
    "EdgeStatistics",
    "Features",
    "Graph",
    "GraphError",
    "normalize_adjacency",
    "scale_features",
    "training_graph",
]

_LOG = logging.getLogger(__name__)

UNLABELLED = -1


@dataclasses.dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph with features, labels and a split. Immutable.

    Attributes:
        adjacency: [n_nodes, n_nodes] CSR float32, symmetric, without
            self-loops and duplicates, columns sorted; values finite and > 0.
        features: [n_nodes, n_features] float32, finite: an array, which may
            be a memory map, a CSR matrix or `FeatureRows`.
        labels: [n_nodes] int64 in [0, n_classes), or -1 where unknown; or, if
            a node may have several, [n_nodes, n_classes] int64 of 0 and 1, a
            row of -1 where unknown.
        train_nodes: [n_train] int64, distinct node ids, all labelled.
        val_nodes: [n_val] int64, likewise, disjoint from the others.
        test_nodes: [n_test] int64, likewise.
        class_names: One name per class; its length is n_classes.
        name: Name of the data set, for messages.
        edge_statistics: What was read, for the statistics line.
        node_ids: [n_nodes] int64 or str, the user's names of the nodes; None
            if these are 0, 1, ...
        store: Folder that arrays are memory-mapped from, see
            `datasets.store`; None if they are in memory. The values of
            features mapped from there were checked when they were written.
            Where a graph is made of another one it may stay: arrays that are
            not from there are told from those that are.

    Raises:
        GraphError: If one of these conditions does not hold.
    """

    adjacency: sparse.csr_array
    features: Features
    labels: npt.NDArray[np.int64]
    train_nodes: npt.NDArray[np.int64]
    val_nodes: npt.NDArray[np.int64]
    test_nodes: npt.NDArray[np.int64]
    class_names: tuple[str, ...]
    name: str
    edge_statistics: EdgeStatistics
    node_ids: npt.NDArray[Any] | None = None
    store: StoreFolder | None = None

    def __post_init__(self) -> None:
        _check_adjacency(self.adjacency)
        _check_features(self.features, self.n_nodes, self.store)
        _check_labels(self.labels, self.n_nodes, self.n_classes)
        _check_split(self)
        _check_node_ids(self.node_ids, self.n_nodes)
        _freeze(self)

    @property
    def n_nodes(self) -> int:
        return int(self.adjacency.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.features.shape[1])

    @property
    def n_classes(self) -> int:
        return len(self.class_names)

    @property
    def n_edges(self) -> int:
        """Number of undirected edges, without self-loops."""
        return int(self.adjacency.nnz) // 2

    @classmethod
    def from_edges(
        cls,
        edges: npt.ArrayLike | tuple[npt.ArrayLike, npt.ArrayLike],
        features: Any,
        labels: npt.ArrayLike,
        train_nodes: npt.ArrayLike,
        val_nodes: npt.ArrayLike = (),
        test_nodes: npt.ArrayLike = (),
        n_classes: int | None = None,
        class_names: Sequence[str] | None = None,
        name: str = "graph",
        node_ids: npt.ArrayLike | None = None,
        directed: bool = True,
        weights: npt.ArrayLike | None = None,
    ) -> Graph:
        """Build a graph from an edge list, cleaning and checking it.

        Duplicates count once, self-loops are dropped (A + I adds its own), a
        missing reverse entry is added with a notice.

        Args:
            edges: [n_entries, 2] integers, row indices of `features`; or a
                tuple of two vectors [n_entries], which are not copied.
            features: [n_nodes, n_features], dense or SciPy sparse, of any
                numeric or boolean dtype; stored as float32. A memory map of
                float32 stays one.
            labels: [n_nodes] integers, whose number is the number of nodes;
                any negative value means unknown; or [n_nodes, n_classes] of
                0 and 1 for several labels a node, see `labels` above.
                Without `n_classes` and `class_names` the values found become
                the classes, in ascending order.
            train_nodes: Integer ids of the training nodes.
            val_nodes: Integer ids of the validation nodes.
            test_nodes: Integer ids of the test nodes.
            n_classes: If given, labels must lie in [0, n_classes).
            class_names: Names of the classes; implies `n_classes`.
            name: Name for messages.
            node_ids: The user's names of the nodes, integers or strings.
            directed: Whether (u, v) and (v, u) are different entries. If not,
                one of them stands for both and there is no notice.
            weights: [n_entries] numbers that are finite and above 0 in
                float32, or 0 for no edge, which is left out with a notice.
                All entries of an edge, in either direction, must have one
                weight. None: all are 1.

        Raises:
            GraphError: If the input is inconsistent; the message names the
                first offending entry and the number of them.
        """
        features = _as_features(features)
        labels = _as_labels(labels)
        _check_n_rows(features, len(labels))
        adjacency, statistics = _adjacency_from_edges(
            edges, features.shape[0], name, directed, weights
        )
        if class_names is not None and n_classes is not None:
            raise GraphError("give n_classes or class_names, not both")
        if class_names is None:
            labels, class_names = _as_classes(labels, n_classes, name)
        return cls(
            adjacency=adjacency,
            features=features,
            labels=np.maximum(labels, UNLABELLED),
            train_nodes=_as_ids(train_nodes, "train_nodes"),
            val_nodes=_as_ids(val_nodes, "val_nodes"),
            test_nodes=_as_ids(test_nodes, "test_nodes"),
            class_names=tuple(class_names),
            name=name,
            edge_statistics=statistics,
            node_ids=None if node_ids is None else _as_names(node_ids),
        )

    def with_features(self, features: Features) -> Graph:
        """This graph with other features, which alone are checked.

        Raises:
            GraphError: If they do not fit the graph, or are not finite.
        """
        _check_features(features, self.n_nodes, self.store)
        return _changed(self, features=features)

    def with_adjacency(
        self, adjacency: sparse.csr_array, edge_statistics: EdgeStatistics
    ) -> Graph:
        """This graph with other edges, which alone are checked.

        Raises:
            GraphError: If they do not fit the nodes, or the class's conditions.
        """
        _check_adjacency(adjacency)
        if adjacency.shape[0] != self.n_nodes:
            raise GraphError(
                f"adjacency: {adjacency.shape[0]} rows, graph: {self.n_nodes} "
                "nodes"
            )
        return _changed(
            self, adjacency=adjacency, edge_statistics=edge_statistics
        )

    def with_split(
        self,
        train_nodes: npt.ArrayLike,
        val_nodes: npt.ArrayLike = (),
        test_nodes: npt.ArrayLike = (),
    ) -> Graph:
        """This graph with another split, which alone is checked.

        Raises:
            GraphError: If a node is outside the graph, has no label, or is
                in two parts.
        """
        graph = _changed(
            self,
            train_nodes=_as_ids(train_nodes, "train_nodes"),
            val_nodes=_as_ids(val_nodes, "val_nodes"),
            test_nodes=_as_ids(test_nodes, "test_nodes"),
        )
        _check_split(graph)
        return graph

    @property
    def multi_label(self) -> bool:
        """Whether a node may have several labels at once."""
        return self.labels.ndim == 2

    def labelled(self) -> npt.NDArray[np.bool_]:
        """[n_nodes] Whether the label of a node is known."""
        known = self.labels != UNLABELLED
        return np.asarray(known.all(axis=1)) if self.multi_label else known

    def split_codes(self) -> npt.NDArray[np.int64]:
        """[n_nodes] 1 in training, 2 in validation, 3 in test, else 0."""
        codes = np.zeros(self.n_nodes, np.int64)
        parts = (self.train_nodes, self.val_nodes, self.test_nodes)
        for code, nodes in enumerate(parts, start=1):
            codes[nodes] = code
        return codes

    def release_pages(self) -> None:
        """Give back the memory of what was read from a store so far."""
        matrix = self.adjacency
        for array in (matrix.indices, matrix.data, self.features):
            release_pages(array)

    def statistics(self) -> dict[str, int]:
        """Counts for the statistics line and for result.json."""
        edges = self.edge_statistics
        degrees = np.diff(self.adjacency.indptr)
        return {
            "nodes": self.n_nodes,
            "entries_read": edges.entries,
            "undirected_edges": self.n_edges,
            "duplicates": edges.duplicates,
            "self_loops": edges.self_loops,
            "reversed_added": edges.reversed_added,
            "isolated": int(np.count_nonzero(degrees == 0)),
            "unlabelled": int(np.count_nonzero(~self.labelled())),
            "features": self.n_features,
            "classes": self.n_classes,
            "train": len(self.train_nodes),
            "validation": len(self.val_nodes),
            "test": len(self.test_nodes),
        }


def training_graph(graph: Graph) -> Graph:
    """The subgraph induced by the training nodes, with its own degrees.

    Node i of the result is node `graph.train_nodes[i]` of `graph`. Nothing of
    the other nodes is in it: training on it is inductive. Dense features are
    not copied.
    """
    nodes = graph.train_nodes
    adjacency = induced_adjacency(graph.adjacency, nodes)
    dense = not sparse.issparse(graph.features)
    none = np.empty(0, np.int64)
    return dataclasses.replace(
        graph,
        adjacency=adjacency,
        features=(
            FeatureRows(graph.features, nodes)
            if dense
            else graph.features[nodes]
        ),
        labels=graph.labels[nodes],
        train_nodes=np.arange(len(nodes), dtype=np.int64),
        val_nodes=none,
        test_nodes=none.copy(),
        name=f"{graph.name} (training nodes)",
        edge_statistics=EdgeStatistics(int(adjacency.nnz), 0, 0, 0),
        node_ids=None if graph.node_ids is None else graph.node_ids[nodes],
    )


def _as_features(features: Any) -> Features:
    matrix = features if sparse.issparse(features) else np.asarray(features)
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
        raise GraphError(
            "features: expected a numeric matrix [n_nodes, n_features]. "
            f"Received: shape {matrix.shape}, dtype {matrix.dtype}"
        )
    if isinstance(features, np.memmap) and features.dtype == np.float32:
        return features
    if not sparse.issparse(matrix):
        return np.array(matrix, np.float32)
    result = sparse.csr_array(matrix, dtype=np.float32, copy=True)
    _check_structure(result, "features")
    result.sum_duplicates()
    return result


def _as_ids(ids: npt.ArrayLike, name: str) -> npt.NDArray[np.int64]:
    array = np.asarray(ids)
    if array.size and (array.dtype.kind not in "iu" or array.ndim != 1):
        raise GraphError(
            f"{name}: expected a vector of integer node ids. Received: shape "
            f"{array.shape}, dtype {array.dtype}"
        )
    return np.array(array, np.int64).reshape(-1)


def _as_labels(labels: npt.ArrayLike) -> npt.NDArray[np.int64]:
    array = np.asarray(labels)
    if array.ndim == 2 and array.dtype.kind in "iub":
        return np.array(array, np.int64)
    if array.size and (array.dtype.kind not in "iu" or array.ndim != 1):
        raise GraphError(
            "labels: expected [n_nodes] integers, negative where unknown, or "
            "[n_nodes, n_classes] of 0 and 1. Received: shape "
            f"{array.shape}, dtype {array.dtype}. Number the classes from 0; "
            "class_names tells what they are called"
        )
    return np.array(array, np.int64).reshape(-1)


def _as_classes(
    labels: npt.NDArray[np.int64], n_classes: int | None, name: str
) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    if n_classes is None and labels.ndim == 2:
        n_classes = labels.shape[1]
    if n_classes is not None:
        return labels, tuple(str(value) for value in range(n_classes))
    values = np.unique(labels[labels >= 0])
    if not np.array_equal(values, np.arange(len(values))):
        _LOG.warning(
            "%s: label values %s become classes 0..%d in that order",
            name,
            values[:10].tolist(),
            len(values) - 1,
        )
    known = labels >= 0
    classes = np.full_like(labels, UNLABELLED)
    classes[known] = np.searchsorted(values, labels[known])
    return classes, tuple(str(value) for value in values)


def _as_names(node_ids: npt.ArrayLike) -> npt.NDArray[Any]:
    names = np.array(node_ids)
    if names.ndim != 1 or names.dtype.kind not in "iuU":
        raise GraphError(
            "node_ids: expected a vector of integers or strings. Received: "
            f"shape {names.shape}, dtype {names.dtype}"
        )
    return names if names.dtype.kind == "U" else names.astype(np.int64)


def _adjacency_from_edges(
    edges: Any, n_nodes: int, name: str, directed: bool, weights: Any
) -> tuple[sparse.csr_array, EdgeStatistics]:
    if n_nodes > MOST_NODES:
        raise GraphError(
            f"{name}: {n_nodes} nodes; expected at most {MOST_NODES}, as node "
            "numbers are kept in 32 bits"
        )
    sources, targets = _ends_of(edges)
    outside = _first_outside(sources, targets, n_nodes)
    if outside is not None:
        count, first = outside
        raise GraphError(
            f"edges: {count} entries lie outside the nodes 0..{n_nodes - 1}; "
            f"the first is entry {first}: "
            f"[{sources[first]}, {targets[first]}]"
        )
    if weights is not None:
        weights = _as_weights(weights, sources, targets)
        kept = weights > 0
        if not kept.all():
            _LOG.warning(
                "%s: %d entries have weight 0 and are left out",
                name,
                np.count_nonzero(~kept),
            )
            sources, targets = sources[kept], targets[kept]
            weights = weights[kept]
    adjacency, statistics = symmetric_adjacency(
        sources, targets, n_nodes, directed
    )
    if weights is not None:
        _weigh(adjacency, sources, targets, weights)
        _check_sums(adjacency)
    if statistics.reversed_added:
        _LOG.warning(
            "%s: directed input, made symmetric: %d entries had no reverse "
            "entry and got one",
            name,
            statistics.reversed_added,
        )
    return adjacency, statistics


def _as_weights(
    weights: Any, sources: npt.NDArray[Any], targets: npt.NDArray[Any]
) -> npt.NDArray[np.float32]:
    array = np.asarray(weights)
    if array.shape != sources.shape or array.dtype.kind not in "fiub":
        raise GraphError(
            f"weights: expected {len(sources)} numbers, one an entry. "
            f"Received: shape {array.shape}, dtype {array.dtype}"
        )
    with np.errstate(over="ignore", under="ignore"):
        kept = array.astype(np.float32)
    is_lost = (kept == 0) & (array != 0)
    bad = np.flatnonzero(~(np.isfinite(kept) & (kept >= 0)) | is_lost)
    if bad.size:
        first = bad[0]
        raise GraphError(
            f"weights: {bad.size} are negative or not finite, or what 32 bits "
            f"cannot hold; the first is {array[first]:g}, of entry {first}: "
            f"[{sources[first]}, {targets[first]}]. Mend, drop or scale them"
        )
    return kept


def _weigh(
    adjacency: sparse.csr_array,
    sources: npt.NDArray[Any],
    targets: npt.NDArray[Any],
    weights: npt.NDArray[np.float32],
) -> None:
    n_conflicts, k = weigh_adjacency(adjacency, sources, targets, weights)
    if n_conflicts:
        ends = sources[k], targets[k]
        raise GraphError(
            f"weights: {n_conflicts} entries have another weight than an "
            f"earlier entry of the same edge, in this or the other direction; "
            f"the first is [{ends[0]}, {ends[1]}]: {weights[k]:g}, before it "
            f"{adjacency[ends]:g}. Give each edge one weight, as their sum"
        )


def _check_sums(adjacency: sparse.csr_array) -> None:
    sums = adjacency @ np.ones(adjacency.shape[1])
    bad = np.flatnonzero(sums > np.finfo(np.float32).max)
    if bad.size:
        raise GraphError(
            f"weights: at {bad.size} nodes their sum is not finite in 32 bits; "
            f"the first is node {bad[0]}: {sums[bad[0]]:g}. Scale all weights"
        )


def _ends_of(edges: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The two ends of each entry as integer vectors of equal length."""
    if isinstance(edges, tuple) and len(edges) == 2:
        ends = [np.asarray(each) for each in edges]
        if ends[0].ndim == ends[1].ndim == 1 and len(ends[0]) == len(ends[1]):
            if all(each.dtype.kind in "iu" for each in ends):
                return ends[0], ends[1]
    try:
        pairs = np.asarray(edges)
    except ValueError as error:
        raise GraphError(f"edges: expected pairs of ids: {error}") from error
    if pairs.size == 0:
        pairs = np.empty((0, 2), np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise GraphError(
            "edges: expected integers of shape [n_entries, 2]. Received: "
            f"shape {pairs.shape}, dtype {pairs.dtype}"
        )
    return pairs[:, 0], pairs[:, 1]


def _first_outside(
    sources: npt.NDArray[Any], targets: npt.NDArray[Any], n_nodes: int
) -> tuple[int, int] | None:
    """How many entries have an end outside 0..n_nodes - 1, and the first."""
    if not len(sources):
        return None
    low = min(int(sources.min()), int(targets.min()))
    high = max(int(sources.max()), int(targets.max()))
    if 0 <= low and high < n_nodes:
        return None
    outside = (sources < 0) | (sources >= n_nodes)
    outside |= (targets < 0) | (targets >= n_nodes)
    return int(np.count_nonzero(outside)), int(np.argmax(outside))


def _check_structure(matrix: sparse.csr_array, name: str) -> None:
    """Refuse a CSR matrix whose indices point outside of it."""
    try:
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise GraphError(f"{name}: not a valid CSR matrix: {error}") from error


def _check_adjacency(adjacency: sparse.csr_array) -> None:
    _check_structure(adjacency, "adjacency")
    if adjacency.shape[0] != adjacency.shape[1]:
        raise GraphError(
            f"adjacency: expected a square matrix. Received: {adjacency.shape}"
        )
    if not adjacency.has_canonical_format or adjacency.dtype != np.float32:
        raise GraphError(
            "adjacency: expected float32 CSR with sorted columns and without "
            "duplicates; Graph.from_edges makes it so"
        )
    if not np.all(np.isfinite(adjacency.data) & (adjacency.data > 0)):
        raise GraphError("adjacency: every weight must be finite and > 0")
    if np.any(adjacency.diagonal()):
        raise GraphError("adjacency: self-loops must be removed first")
    if not is_symmetric(adjacency):
        raise GraphError("adjacency: expected a symmetric matrix")


def _check_n_rows(features: Features, n_nodes: int) -> None:
    if features.shape[0] != n_nodes:
        raise GraphError(
            f"features: {features.shape[0]} rows, graph: {n_nodes} nodes"
        )


def _check_features(
    features: Features, n_nodes: int, store: StoreFolder | None
) -> None:
    _check_n_rows(features, n_nodes)
    if features.dtype != np.float32:
        raise GraphError(
            f"features: expected float32. Received: {features.dtype}"
        )
    if isinstance(features, FeatureRows):
        return  # Of features that another graph has checked.
    if sparse.issparse(features):
        _check_structure(features, "features")
    values = features.data if sparse.issparse(features) else features
    if store is None or store.place_of(values) is None:
        _check_finite(features)


def _check_finite(features: Features) -> None:
    n_bad, first_row = 0, -1
    for start, block in row_blocks(features):
        values = block.data if sparse.issparse(block) else block
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size and first_row < 0:
            first_row = start + _row_of(block, int(bad[0]))
        n_bad += bad.size
    if n_bad:
        raise GraphError(
            f"features: {n_bad} values are not finite; the first is in row "
            f"{first_row}. Repair or drop these before training"
        )


def _row_of(block: Any, place: int) -> int:
    """The row of the value at `place` in a block of features."""
    if sparse.issparse(block):
        return int(np.searchsorted(block.indptr, place, "right")) - 1
    return place // int(block.shape[1])


def _check_labels(
    labels: npt.NDArray[np.int64], n_nodes: int, n_classes: int
) -> None:
    if labels.ndim == 2:
        _check_label_rows(labels, n_nodes, n_classes)
        return
    if labels.ndim != 1 or len(labels) != n_nodes:
        raise GraphError(
            f"labels: expected {n_nodes}, one per node. Received: shape "
            f"{labels.shape}"
        )
    outside = np.flatnonzero((labels < UNLABELLED) | (labels >= n_classes))
    if outside.size:
        raise GraphError(
            f"labels: node {outside[0]} has label {labels[outside[0]]}, the "
            f"allowed range is 0..{n_classes - 1} (negative: unknown); "
            f"{outside.size} labels are outside it"
        )


def _check_label_rows(
    labels: npt.NDArray[np.int64], n_nodes: int, n_classes: int
) -> None:
    if labels.shape != (n_nodes, n_classes):
        raise GraphError(
            f"labels: expected shape {(n_nodes, n_classes)}, a row for each "
            f"node. Received: {labels.shape}"
        )
    known = np.isin(labels, (0, 1)).all(axis=1)
    bad = np.flatnonzero(~known & (labels != UNLABELLED).any(axis=1))
    if bad.size:
        raise GraphError(
            f"labels: {bad.size} rows are not of 0 and 1, nor all -1 for "
            f"unknown; the first is that of node {bad[0]}"
        )


def _check_split(graph: Graph) -> None:
    parts = {
        "train": graph.train_nodes,
        "validation": graph.val_nodes,
        "test": graph.test_nodes,
    }
    labelled = graph.labelled()
    for name, nodes in parts.items():
        outside = nodes[(nodes < 0) | (nodes >= graph.n_nodes)]
        if outside.size:
            raise GraphError(
                f"{name} split: node {outside[0]} is outside the nodes 0.."
                f"{graph.n_nodes - 1}"
            )
        unknown = nodes[~labelled[nodes]]
        if unknown.size:
            raise GraphError(
                f"{name} split: {unknown.size} nodes have no label, the first "
                f"is node {unknown[0]}; take them out of the split"
            )
    ids, uses = np.unique(
        np.concatenate(list(parts.values())), return_counts=True
    )
    if np.any(uses > 1):
        raise GraphError(
            f"split: node {ids[uses > 1][0]} is in more than one place; "
            f"{np.count_nonzero(uses > 1)} nodes are"
        )


def _check_node_ids(node_ids: npt.NDArray[Any] | None, n_nodes: int) -> None:
    if node_ids is None:
        return
    if len(node_ids) != n_nodes:
        raise GraphError(f"node_ids: {len(node_ids)}, graph: {n_nodes} nodes")
    ordered = np.sort(node_ids)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if repeated.size:
        raise GraphError(
            f"node_ids: {repeated.size} repeat an earlier one, the first is "
            f"{repeated[0]!r}"
        )


def _changed(graph: Graph, **values: Any) -> Graph:
    """The graph with other values, which are not checked here."""
    graph = copy.copy(graph)
    for name, value in values.items():
        object.__setattr__(graph, name, value)
    _freeze(graph)
    return graph


def _freeze(graph: Graph) -> None:
    for array in _arrays(graph):
        array.flags.writeable = False


def _arrays(graph: Graph) -> list[npt.NDArray[Any]]:
    arrays = [
        graph.labels,
        graph.train_nodes,
        graph.val_nodes,
        graph.test_nodes,
    ]
    for matrix in (graph.adjacency, graph.features):
        if sparse.issparse(matrix):
            arrays += [matrix.data, matrix.indices, matrix.indptr]
        elif isinstance(matrix, np.ndarray):
            arrays.append(matrix)
    if graph.node_ids is not None:
        arrays.append(graph.node_ids)
    return arrays
