"""A graph of a table of edges, a table of nodes and a matrix of features."""

from __future__ import annotations

import logging
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from adaptive_gcn.datasets import node_files, tables
from adaptive_gcn.datasets.columns import Columns
from adaptive_gcn.datasets.edge_files import Edges, read_edges
from adaptive_gcn.datasets.faults import Faults
from adaptive_gcn.datasets.graph_parts import GraphParts
from adaptive_gcn.datasets.node_files import Nodes
from adaptive_gcn.errors import DataError

_LOG = logging.getLogger(__name__)

FORMS = {
    "edges": (".csv", ".tsv", ".txt", ".parquet", ".npy", ".npz"),
    "nodes": (".csv", ".tsv", ".parquet"),
    "features": (".npy", ".npz", ".parquet"),
    "labels": (".npy",),
}


def read_tables(
    folder: pathlib.Path,
    files: Mapping[str, pathlib.Path],
    columns: Columns,
    faults: Faults,
) -> GraphParts:
    """Read the files of a folder, by the names of `FORMS`.

    Without ids of nodes, node i is row i of features and labels, and the ids
    of edges are such numbers; without these too, the nodes are the ids that
    the edges name, in ascending order.

    Raises:
        OSError: If a file cannot be read.
        DataError: If one is not in its form.
    """
    edges = read_edges(files["edges"], columns, faults)
    nodes = features = labels = None
    if "nodes" in files:
        nodes = node_files.read_nodes(files["nodes"], columns, faults)
    if "features" in files:
        features = node_files.read_features(files["features"], columns, faults)
    if "labels" in files:
        labels = node_files.read_label_array(files["labels"])
    columns.check()
    if isinstance(features, Nodes):
        nodes, features = _joined(nodes, features, faults)
    parts = GraphParts(folder.resolve().name, 0, *_no_ends())
    if nodes is not None:
        _take_nodes(parts, nodes)
        if nodes.ids is not None:
            check_distinct(nodes, nodes.ids, faults)
    if features is not None:
        parts.features = _beside(parts.features, features)
    if labels is not None:
        parts.labels = labels
    _number(parts, edges, nodes, faults)
    if nodes is not None:
        parts.node_place = nodes.place
    return parts


def _no_ends() -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    return np.empty(0, np.int64), np.empty(0, np.int64)


def _take_nodes(parts: GraphParts, nodes: Nodes) -> None:
    parts.labels, parts.class_names = nodes.labels, nodes.label_names
    parts.features = nodes.features
    parts.splits = None if nodes.split is None else nodes.split[None]


def _beside(first: Any, second: Any) -> Any:
    """Two feature matrices as one; a single one as it is."""
    if first is None:
        return second
    if first.shape[0] != second.shape[0]:
        raise DataError(
            f"features: {second.shape[0]} rows, nodes: {first.shape[0]} rows; "
            "give one row a node, in the order of the nodes"
        )
    _LOG.info("features are those of both files, side by side")
    if sparse.issparse(second):
        return sparse.csr_array(sparse.hstack([first, second], format="csr"))
    return np.hstack([first, second])


def _joined(
    nodes: Nodes | None, table: Nodes, faults: Faults
) -> tuple[Nodes, Any]:
    """The nodes, and the features of a table in their order."""
    if nodes is None:
        return table, None
    if nodes.ids is None or table.ids is None:
        return nodes, table.features
    ids, own = tables.of_one_type([nodes.ids, table.ids])
    check_distinct(table, own, faults)
    rows = pc.index_in(ids, value_set=own.combine_chunks())
    n_other = len(own) - pc.count_distinct(rows).as_py()
    if n_other > 0:
        _LOG.warning(
            "%s: %d rows are of no node and are left out",
            table.path.name,
            n_other,
        )
    lacking = np.flatnonzero(rows.is_null().to_numpy())
    if lacking.size:
        faults.add(
            f"{table.path.name}: {lacking.size} nodes have no row",
            "add these rows",
            lacking,
            lambda row: f"{nodes.place(row)}: id {ids[row].as_py()!r}",
        )
    if table.features is None:
        raise DataError(f"{table.path}: has no columns of numbers")
    return nodes, table.features[rows.fill_null(0).to_numpy()]


def check_distinct(nodes: Nodes, ids: pa.ChunkedArray, faults: Faults) -> None:
    """Note ids that are missing or are there more than once."""
    first = pc.index_in(ids, value_set=ids.combine_chunks()).to_numpy()
    repeated = np.flatnonzero(first != np.arange(len(first)))
    if repeated.size:
        faults.add(
            f"{nodes.path.name}: {repeated.size} ids repeat an earlier one",
            "give each node one row",
            repeated,
            lambda row: f"{nodes.place(row)}: {ids[row].as_py()!r}",
        )
    if pa.types.is_string(ids.type):
        empty = np.flatnonzero(pc.equal(ids, "").fill_null(True).to_numpy())
    else:
        empty = np.flatnonzero(ids.is_null().to_numpy())
    if empty.size:
        faults.add(
            f"{nodes.path.name}: {empty.size} nodes have no id",
            "give them one, or drop these rows",
            empty,
            nodes.place,
        )


def _number(
    parts: GraphParts, edges: Edges, nodes: Nodes | None, faults: Faults
) -> None:
    """Give the ends of the edges the numbers of their nodes."""
    parts.weights, parts.entry_place = edges.weights, edges.place
    ids = None if nodes is None else nodes.ids
    remedy = _remedy(nodes)
    if ids is None:
        n_rows = _n_rows(parts, edges)
        if n_rows is not None:
            _check_shape(edges, n_rows, faults)
            _take_numbers(parts, edges, n_rows, remedy)
            return
    columns = [edges.sources, edges.targets]
    if ids is None:
        columns = tables.of_one_type(columns)
        both = pa.chunked_array([c for each in columns for c in each.chunks])
        ids = pa.chunked_array([pc.unique(both)])
        ids = ids.take(pc.sort_indices(ids))
        sources, targets = columns
    else:
        sources, targets, ids = tables.of_one_type([*columns, ids])
    parts.n_nodes = len(ids)
    _check_shape(edges, parts.n_nodes, faults)
    parts.node_ids = tables.as_array(ids)
    known = ids.combine_chunks()
    unknown = []
    ends = []
    for column in (sources, targets):
        found = pc.index_in(column, value_set=known)
        unknown.append(found.is_null().to_numpy())
        ends.append(found.fill_null(0).to_numpy())
    parts.sources, parts.targets = ends
    _check_known(edges, (sources, targets), unknown, faults)


def _remedy(nodes: Nodes | None) -> str:
    """How to tell the ids of the nodes."""
    if nodes is None:
        return (
            "add a table nodes.csv with a column id, its rows in the order of "
            "the features"
        )
    return (
        f"name the column of ids in {nodes.path.name} (--columns=id=...); its "
        "first line must be names"
    )


def _n_rows(parts: GraphParts, edges: Edges) -> int | None:
    """Number of nodes, where these are rows of something."""
    for each in (parts.features, parts.labels):
        if each is not None:
            return int(each.shape[0])
    return edges.n_nodes


def _check_shape(edges: Edges, n_nodes: int, faults: Faults) -> None:
    if edges.n_nodes not in (None, n_nodes):
        faults.add(
            f"{edges.path.name}: {edges.n_nodes} rows, graph: {n_nodes} nodes",
            "give a matrix with one row and one column a node",
        )


def _first_text(edges: Edges, column: pa.ChunkedArray) -> str:
    """Where the first id is that is no number, and it."""
    values = (value for chunk in column.chunks for value in chunk.to_pylist())
    for row, value in enumerate(values):
        if value is not None and not tables.is_integer(value):
            return f"{edges.place(row)}: {value!r}"
    return "beyond 64 bits, or with leading zeros or blanks"


def _take_numbers(
    parts: GraphParts, edges: Edges, n_rows: int, remedy: str
) -> None:
    parts.n_nodes = n_rows
    for column in (edges.sources, edges.targets):
        if pa.types.is_string(column.type):
            raise DataError(
                f"{edges.path}: has ids that are no numbers of rows 0.."
                f"{n_rows - 1}: {_first_text(edges, column)}; correct it, or "
                f"{remedy}"
            )
    parts.sources = edges.sources.fill_null(-1).to_numpy()
    parts.targets = edges.targets.fill_null(-1).to_numpy()


def _check_known(
    edges: Edges,
    columns: tuple[pa.ChunkedArray, pa.ChunkedArray],
    unknown: list[npt.NDArray[np.bool_]],
    faults: Faults,
) -> None:
    bad = np.flatnonzero(unknown[0] | unknown[1])
    if not bad.size:
        return

    def describe(k: int) -> str:
        side = 0 if unknown[0][k] else 1
        return f"{edges.place(k)}: {columns[side][k].as_py()!r}"

    faults.add(
        f"{edges.path.name}: {bad.size} edges name a node that is not among "
        "the nodes",
        "correct or drop these edges, or add the nodes"
        + ("" if edges.has_header or bad[0] else tables.NAMES_ADVICE),
        bad,
        describe,
    )
