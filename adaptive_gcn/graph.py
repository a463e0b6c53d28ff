"""The graph container and the matrices that the method derives from it.

No TensorFlow here. Everything downstream trusts the invariants that `Graph`
checks once, at construction.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

_LOG = logging.getLogger(__name__)

Features = Any  # [n_nodes, n_features] float32: np.ndarray or sparse.csr_array
UNLABELLED = -1

NORMALIZATIONS = ("sym", "row")
DENSE_LIMIT_BYTES = 2**30  # Sparse features above this are never made dense.
FEATURE_SCALINGS = ("raw", "row", "l2", "standard")


class DataError(ValueError):
    """Files or settings that no graph can be made of."""


class GraphError(DataError):
    """The input does not describe a graph that can be trained on."""


@dataclasses.dataclass(frozen=True)
class EdgeStatistics:
    """What was read from an edge list, before and after cleaning.

    Attributes:
        entries: Number of (source, target) entries read.
        duplicates: Entries that repeat an earlier (source, target) pair.
        self_loops: Distinct nodes with an entry to themselves.
        reversed_added: Entries added because the reverse one was missing.
    """

    entries: int
    duplicates: int
    self_loops: int
    reversed_added: int


@dataclasses.dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph with features, labels and a split. Immutable.

    Attributes:
        adjacency: [n_nodes, n_nodes] CSR float32, symmetric, without
            self-loops and duplicates, columns sorted; values finite and > 0.
        features: [n_nodes, n_features] float32, dense or CSR, finite.
        labels: [n_nodes] int64 in [0, n_classes), or -1 where unknown.
        train_nodes: [n_train] int64, distinct node ids, all labelled.
        val_nodes: [n_val] int64, likewise, disjoint from the others.
        test_nodes: [n_test] int64, likewise.
        class_names: One name per class; its length is n_classes.
        name: Name of the data set, for messages.
        edge_statistics: What was read, for the statistics line.

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

    def __post_init__(self) -> None:
        _check_adjacency(self.adjacency)
        _check_features(self.features, self.n_nodes)
        _check_labels(self.labels, self.n_nodes, self.n_classes)
        _check_split(self)
        for array in _arrays(self):
            array.flags.writeable = False

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
        edges: npt.ArrayLike,
        features: Any,
        labels: npt.ArrayLike,
        train_nodes: npt.ArrayLike,
        val_nodes: npt.ArrayLike = (),
        test_nodes: npt.ArrayLike = (),
        n_classes: int | None = None,
        class_names: Sequence[str] | None = None,
        name: str = "graph",
    ) -> Graph:
        """Build a graph from an edge list, cleaning and checking it.

        Duplicates keep weight 1, self-loops are dropped (A + I adds its own),
        a missing reverse entry is added with a notice.

        Args:
            edges: [n_entries, 2] integers, row indices of `features`.
            features: [n_nodes, n_features], dense or SciPy sparse, of any
                numeric or boolean dtype; stored as float32.
            labels: [n_nodes] integers, whose number is the number of nodes;
                any negative value means unknown.
                Without `n_classes` and `class_names` the values found become
                the classes, in ascending order.
            train_nodes: Integer ids of the training nodes.
            val_nodes: Integer ids of the validation nodes.
            test_nodes: Integer ids of the test nodes.
            n_classes: If given, labels must lie in [0, n_classes).
            class_names: Names of the classes; implies `n_classes`.
            name: Name for messages.

        Raises:
            GraphError: If the input is inconsistent; the message names the
                first offending entry and the number of them.
        """
        features = _as_features(features)
        labels = _as_ids(labels, "labels")
        _check_n_rows(features, len(labels))
        adjacency, statistics = _adjacency_from_edges(
            edges, features.shape[0], name
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
        )

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
            "unlabelled": int(np.count_nonzero(self.labels == UNLABELLED)),
            "features": self.n_features,
            "classes": self.n_classes,
            "train": len(self.train_nodes),
            "validation": len(self.val_nodes),
            "test": len(self.test_nodes),
        }


def training_graph(graph: Graph) -> Graph:
    """The subgraph induced by the training nodes, with its own degrees.

    Node i of the result is node `graph.train_nodes[i]` of `graph`. Nothing of
    the other nodes is in it: training on it is inductive.
    """
    nodes = graph.train_nodes
    adjacency = graph.adjacency[nodes][:, nodes].tocsr()
    adjacency.sort_indices()
    none = np.empty(0, np.int64)
    return dataclasses.replace(
        graph,
        adjacency=adjacency,
        features=graph.features[nodes],
        labels=graph.labels[nodes],
        train_nodes=np.arange(len(nodes), dtype=np.int64),
        val_nodes=none,
        test_nodes=none.copy(),
        name=f"{graph.name} (training nodes)",
        edge_statistics=EdgeStatistics(int(adjacency.nnz), 0, 0, 0),
    )


def normalize_adjacency(
    adjacency: sparse.csr_array,
    normalization: str = "sym",
    two_hop: bool = False,
    identity_weight: float = 0.0,
) -> sparse.csr_array:
    """The re-normalised adjacency of Eq. (1), and its variants.

    Args:
        adjacency: [n_nodes, n_nodes] CSR without self-loops.
        normalization: "sym" for D^-1/2 (A + I) D^-1/2, "row" for D^-1 (A + I);
            D holds the row sums of A + I.
        two_hop: Use M + M^2 in place of M (the paper's Sec. 6.2).
        identity_weight: Multiple of the identity added after that.

    Returns:
        [n_nodes, n_nodes] CSR float32 with sorted columns.

    Raises:
        ValueError: If `normalization` is unknown.
    """
    n_nodes = adjacency.shape[0]
    with_loops = (adjacency + sparse.eye_array(n_nodes)).astype(np.float64)
    degree = with_loops.sum(axis=1)
    if normalization == "sym":
        scale = sparse.diags_array(degree**-0.5)
        normalized = scale @ with_loops @ scale
    elif normalization == "row":
        normalized = sparse.diags_array(1.0 / degree) @ with_loops
    else:
        raise ValueError(
            f"`normalization` must be one of {NORMALIZATIONS}. "
            f"Received: normalization={normalization!r}"
        )
    if two_hop:
        normalized = normalized + normalized @ normalized
    if identity_weight:
        normalized = normalized + identity_weight * sparse.eye_array(n_nodes)
    normalized = sparse.csr_array(normalized).astype(np.float32)
    normalized.sort_indices()
    return normalized


def scale_features(
    features: Features,
    scaling: str,
    train_nodes: npt.NDArray[np.int64],
) -> Features:
    """Scale the feature matrix; a row of zeros stays a row of zeros.

    Args:
        features: [n_nodes, n_features] float32, dense or CSR.
        scaling: "raw" (as they are), "row" (rows sum to 1 in absolute value),
            "l2" (rows of Euclidean length 1) or "standard" (columns of mean 0
            and deviation 1 over `train_nodes`; constant columns are only
            centred; sparse features become dense, up to 1 GiB).
        train_nodes: Ids of the nodes that "standard" takes its statistics
            from.

    Returns:
        Scaled features, dense or CSR as before except for "standard".

    Raises:
        DataError: If "standard" is asked of sparse features, which centring
            would turn dense.
        ValueError: If `scaling` is unknown.
    """
    if scaling == "raw":
        return features
    if scaling == "standard":
        return _standardize(features, train_nodes)
    if scaling == "row":
        norms = abs(features).sum(axis=1, dtype=np.float64)
    elif scaling == "l2":
        wide = features.astype(np.float64)
        norms = np.sqrt((wide * wide).sum(axis=1))
    else:
        raise ValueError(
            f"`scaling` must be one of {FEATURE_SCALINGS}. "
            f"Received: scaling={scaling!r}"
        )
    inverse = np.divide(1.0, norms, where=norms > 0, out=np.zeros_like(norms))
    if sparse.issparse(features):
        scaled = sparse.csr_array(sparse.diags_array(inverse) @ features)
        return scaled.astype(np.float32)
    return (features * inverse[:, None]).astype(np.float32)


def _standardize(
    features: Features, train_nodes: npt.NDArray[np.int64]
) -> npt.NDArray[np.float32]:
    if not len(train_nodes):
        raise DataError("scaling='standard' needs training nodes")
    if sparse.issparse(features):
        n_bytes = 4 * features.shape[0] * features.shape[1]
        if n_bytes > DENSE_LIMIT_BYTES:
            raise DataError(
                "scaling='standard' centres the columns, which makes sparse "
                f"features dense: {n_bytes / 2**30:.1f} GiB for shape "
                f"{features.shape}, more than the 1 GiB allowed; use 'row' or "
                "'l2'"
            )
        features = features.toarray()
    train = features[train_nodes].astype(np.float64)
    deviation = train.std(axis=0)
    deviation[deviation == 0] = 1.0
    scaled = (features - train.mean(axis=0)) / deviation
    return np.asarray(scaled, np.float32)


def _as_features(features: Any) -> Features:
    matrix = features if sparse.issparse(features) else np.asarray(features)
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
        raise GraphError(
            "features: expected a numeric matrix [n_nodes, n_features]. "
            f"Received: shape {matrix.shape}, dtype {matrix.dtype}"
        )
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


def _as_classes(
    labels: npt.NDArray[np.int64], n_classes: int | None, name: str
) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
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


def _adjacency_from_edges(
    edges: npt.ArrayLike, n_nodes: int, name: str
) -> tuple[sparse.csr_array, EdgeStatistics]:
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
    outside = np.flatnonzero(((pairs < 0) | (pairs >= n_nodes)).any(axis=1))
    if outside.size:
        raise GraphError(
            f"edges: {outside.size} entries lie outside the nodes 0.."
            f"{n_nodes - 1}; the first is entry {outside[0]}: "
            f"{pairs[outside[0]].tolist()}"
        )
    return _symmetric_adjacency(pairs.astype(np.int64), n_nodes, name)


def _symmetric_adjacency(
    pairs: npt.NDArray[np.int64], n_nodes: int, name: str
) -> tuple[sparse.csr_array, EdgeStatistics]:
    ones = np.ones(len(pairs), np.float32)
    shape = (n_nodes, n_nodes)
    directed = sparse.csr_array((ones, (pairs[:, 0], pairs[:, 1])), shape)
    directed.data[:] = 1  # Construction summed the duplicates.
    n_unique = int(directed.nnz)
    n_loops = int(np.count_nonzero(directed.diagonal()))
    directed = directed - sparse.diags_array(directed.diagonal())
    directed.eliminate_zeros()
    adjacency = sparse.csr_array(directed.maximum(directed.T))
    adjacency.sort_indices()
    added = int(adjacency.nnz) - (n_unique - n_loops)
    if added:
        _LOG.warning(
            "%s: directed input, made symmetric: %d entries had no reverse "
            "entry and got one",
            name,
            added,
        )
    statistics = EdgeStatistics(
        len(pairs), len(pairs) - n_unique, n_loops, added
    )
    return adjacency.astype(np.float32), statistics


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
    if (adjacency != adjacency.T).nnz:
        raise GraphError("adjacency: expected a symmetric matrix")


def _check_n_rows(features: Features, n_nodes: int) -> None:
    if features.shape[0] != n_nodes:
        raise GraphError(
            f"features: {features.shape[0]} rows, graph: {n_nodes} nodes"
        )


def _check_features(features: Features, n_nodes: int) -> None:
    _check_n_rows(features, n_nodes)
    if features.dtype != np.float32:
        raise GraphError(
            f"features: expected float32. Received: {features.dtype}"
        )
    if sparse.issparse(features):
        _check_structure(features, "features")
    values = features.data if sparse.issparse(features) else features
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        row = bad[0] // features.shape[1]
        if sparse.issparse(features):
            row = np.searchsorted(features.indptr, bad[0], "right") - 1
        raise GraphError(
            f"features: {bad.size} values are not finite; the first is in row "
            f"{row}. Repair or drop these before training"
        )


def _check_labels(
    labels: npt.NDArray[np.int64], n_nodes: int, n_classes: int
) -> None:
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


def _check_split(graph: Graph) -> None:
    parts = {
        "train": graph.train_nodes,
        "validation": graph.val_nodes,
        "test": graph.test_nodes,
    }
    for name, nodes in parts.items():
        outside = nodes[(nodes < 0) | (nodes >= graph.n_nodes)]
        if outside.size:
            raise GraphError(
                f"{name} split: node {outside[0]} is outside the nodes 0.."
                f"{graph.n_nodes - 1}"
            )
        unknown = nodes[graph.labels[nodes] == UNLABELLED]
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
        else:
            arrays.append(matrix)
    return arrays
