"""A user's edges, from whichever file holds them."""

from __future__ import annotations

import dataclasses
import logging
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from adaptive_gcn.datasets import tables
from adaptive_gcn.datasets.columns import EDGE_PARTS, Columns
from adaptive_gcn.datasets.faults import Faults
from adaptive_gcn.datasets.raw_files import load_npy
from adaptive_gcn.datasets.sparse_npz import open_npz, read_matrix
from adaptive_gcn.errors import DataError

_LOG = logging.getLogger(__name__)

SUFFIXES = (*tables.SUFFIXES, ".npy", ".npz")


@dataclasses.dataclass
class Edges:
    """Edges between ids.

    Attributes:
        path: Their file.
        sources: [n_entries] ids, int64 or texts.
        targets: [n_entries] ids likewise.
        weights: [n_entries] numbers, or None.
        n_nodes: Number of nodes, where the file tells and ids are numbers of
            nodes.
        place: Says where the user finds an entry.
        has_header: Whether the columns came with names.
    """

    path: pathlib.Path
    sources: pa.ChunkedArray
    targets: pa.ChunkedArray
    weights: npt.NDArray[Any] | None
    n_nodes: int | None
    place: Callable[[int], str]
    has_header: bool = True


def read_edges(path: pathlib.Path, columns: Columns, faults: Faults) -> Edges:
    """Read edges from a table, a matrix [n, 2] or a SciPy matrix.

    Raises:
        OSError: If the file cannot be read.
        DataError: If it holds no edges.
    """
    if path.suffix == ".npy":
        return _of_npy(path)
    if path.suffix == ".npz":
        return _of_scipy(path)
    return _of_table(path, columns, faults)


def _of_npy(path: pathlib.Path) -> Edges:
    pairs = load_npy(path, mmap_mode="r")
    if pairs.ndim == 2 and len(pairs) == 2 != pairs.shape[1]:
        pairs = pairs.T  # As PyG has it.
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise DataError(
            f"{path}: expected integers of shape [n_edges, 2]. Received: "
            f"shape {pairs.shape}, {pairs.dtype}"
        )
    sources, targets = (_chunked(pairs[:, i]) for i in (0, 1))
    place = f"{path.name} row {{}}".format
    return Edges(path, sources, targets, None, None, place)


def _of_scipy(path: pathlib.Path) -> Edges:
    with open_npz(path) as archive:
        matrix = read_matrix(archive).tocoo()
    if matrix.shape[0] != matrix.shape[1]:
        raise DataError(
            f"{path}: expected a square adjacency. Received: {matrix.shape}"
        )
    weights = None if np.all(matrix.data == 1) else matrix.data
    sources, targets = (_chunked(each) for each in matrix.coords)
    place = f"{path.name} entry {{}}".format
    return Edges(path, sources, targets, weights, matrix.shape[0], place)


def _chunked(ids: npt.NDArray[Any]) -> pa.ChunkedArray:
    column = pa.chunked_array([np.ascontiguousarray(ids)])
    return tables.integer_ids(column)


def _of_table(path: pathlib.Path, columns: Columns, faults: Faults) -> Edges:
    def has_header(first: list[str], second: list[str]) -> bool:
        ends = [columns.find(part, first) for part in ("source", "target")]
        if all(ends):  # "0" and "1" are places.
            return not any(tables.is_integer(str(each)) for each in ends)
        names = not any(map(tables.is_integer, first[:2]))
        ids = len(second) > 1 and all(map(tables.is_integer, second[:2]))
        return names and ids

    def kinds_of(names: Sequence[str]) -> dict[str, tables.Kind]:
        numbered = [str(place) for place in range(len(names))]
        weight = _weight_column(names, columns, list(names) != numbered)
        return {name: "number" if name == weight else "text" for name in names}

    table = tables.read_table(path, kinds_of, faults, has_header)
    columns.note(table.columns, EDGE_PARTS)
    weight = _weight_column(list(table.columns), columns, table.has_header)
    for name in columns.dropped:
        if table.columns.pop(name, None) is not None:
            _LOG.info("%s: left out: column %r", path.name, name)
    ends = _ends(table, columns, weight)
    sources, targets = (_ids(table, name) for name in ends)
    if table.has_header:
        _check_header(table, ends, (sources, targets), columns)
    return Edges(
        path,
        sources,
        targets,
        _weights(table, weight, columns),
        None,
        table.place,
        table.has_header,
    )


def _ends(
    table: tables.Table, columns: Columns, weight: str | None
) -> tuple[str, str]:
    names = [name for name in table.columns if name != weight]
    if len(names) < 2:
        raise DataError(
            f"{table.path}: expected two columns of ids, parted by commas, "
            f"semicolons or tabs (in .txt, by blanks). Received: "
            f"{_first(table)}"
        )
    found = [columns.find(part, names) for part in ("source", "target")]
    if all(found):
        return str(found[0]), str(found[1])
    if table.has_header:
        _LOG.warning(
            "%s: columns %r and %r, the first two, are taken as the ends of "
            "the edges; --columns=source=...,target=... names others",
            table.path.name,
            *names[:2],
        )
    return names[0], names[1]


def _first(table: tables.Table) -> str:
    """The columns' names, or what the first row holds instead."""
    names = list(table.columns)
    if table.has_header or not table.n_rows:
        return repr(",".join(names))
    return repr(",".join(str(table.columns[name][0]) for name in names))[:80]


def _check_header(
    table: tables.Table,
    ends: tuple[str, str],
    ids: tuple[pa.ChunkedArray, pa.ChunkedArray],
    columns: Columns,
) -> None:
    """Refuse a first line that may be names or an edge."""
    if all(columns.find(part, ends) for part in ("source", "target")):
        return
    for name in ends:
        if any(name in each.unique().to_pylist() for each in ids):
            raise DataError(
                f"{table.path}: the first line is taken as the names of the "
                f"columns, but {name!r} is an id too; put a line "
                "source,target before it, or rename the columns"
            )


def _ids(table: tables.Table, name: str) -> pa.ChunkedArray:
    column = table.columns.pop(name)
    ids = tables.as_ids(column)
    if ids is None:
        raise DataError(
            f"{table.path}: column {name!r}: expected integers or texts as "
            f"ids. Received: {column.type}"
        )
    return ids


def _weight_column(
    names: Sequence[str], columns: Columns, has_names: bool
) -> str | None:
    """By name; or the third of columns without names, if none are given."""
    kept = [name for name in names if name not in columns.dropped]
    found = columns.find("weight", kept)
    ends_given = {"source", "target"} & columns.named.keys()
    if found or has_names or ends_given or len(kept) < 3:
        return found
    return kept[2]


def _weights(
    table: tables.Table, name: str | None, columns: Columns
) -> npt.NDArray[Any] | None:
    if name is not None and columns.find("weight", [name]) is None:
        _LOG.warning(
            "%s: the third column is taken as weights; give the columns names "
            "if it is not",
            table.path.name,
        )
    unused = [each for each in table.columns if each != name]
    if unused:
        _LOG.info("%s: not used: columns %s", table.path.name, unused)
    if name is None:
        return None
    column = tables.decoded(table.columns[name])
    if not tables.is_number_type(column.type):
        raise DataError(
            f"{table.path}: column {name!r}: expected numbers as weights. "
            f"Received: {column.type}; --columns=drop=... leaves it out"
        )
    weights = tables.as_array(column)
    return None if np.all(weights == 1) else weights
