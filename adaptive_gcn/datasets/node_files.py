"""A user's nodes: ids, labels, split and features, from tables and arrays."""

from __future__ import annotations

import dataclasses
import logging
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from adaptive_gcn.datasets import npy_stream, tables
from adaptive_gcn.datasets.columns import (
    LABEL_PREFIX,
    NODE_PARTS,
    Columns,
    no_features,
)
from adaptive_gcn.datasets.faults import Faults
from adaptive_gcn.datasets.graph_parts import SPLIT_CODES
from adaptive_gcn.datasets.raw_files import load_npy
from adaptive_gcn.datasets.sparse_npz import open_npz, read_matrix
from adaptive_gcn.errors import DataError

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass
class Nodes:
    """What a table says of nodes, row by row.

    Attributes:
        path: Its file.
        ids: [n_rows] int64 or texts; None if it has no such column.
        labels: [n_rows] or [n_rows, n_labels]; None without such columns.
        label_names: Of the columns of the second form.
        split: [n_rows] int8, 0 or 1 + a place in `PARTS`; None without.
        features: [n_rows, n_features] float32; None without.
        place: Says where the user finds a row.
        feature_names: Of the columns of the features.
    """

    path: pathlib.Path
    ids: pa.ChunkedArray | None
    labels: npt.NDArray[Any] | None
    label_names: tuple[str, ...] | None
    split: npt.NDArray[np.int8] | None
    features: npt.NDArray[np.float32] | None
    place: Callable[[int], str]
    feature_names: tuple[str, ...] = ()


def read_nodes(path: pathlib.Path, columns: Columns, faults: Faults) -> Nodes:
    """Read a table of nodes.

    Columns that play no part are features where they are numbers, and are
    left out, with a notice, where they are not, or where their name is that
    of another id, label or split.

    Raises:
        OSError: If the file cannot be read.
        DataError: If it is no table, or its ids are neither integers nor
            texts.
    """

    def kinds_of(names: Sequence[str]) -> dict[str, tables.Kind]:
        parts = _parts(columns, names).values()
        return {name: "text" if name in parts else "guess" for name in names}

    table = tables.read_table(path, kinds_of, faults, multiline=True)
    columns.note(table.columns, NODE_PARTS)
    found = _parts(columns, list(table.columns))
    for name in columns.dropped:
        table.columns.pop(name, None)
    id_, label, split = (
        table.columns.pop(name) if name else None for name in found.values()
    )
    labels, label_names = _labels(table, found["label"], label)
    _leave_out_answers(table)
    features, feature_names = _features(table, faults)
    return Nodes(
        path,
        None if id_ is None else _ids(path, found["id"], id_),
        labels,
        label_names,
        None if split is None else _split(table, split, faults),
        features,
        table.place,
        feature_names,
    )


def _parts(columns: Columns, names: Sequence[str]) -> dict[str, str | None]:
    """The columns of ids, labels and split."""
    return {part: columns.find(part, names) for part in NODE_PARTS}


def _ids(
    path: pathlib.Path, name: str | None, column: pa.ChunkedArray
) -> pa.ChunkedArray:
    ids = tables.as_ids(column)
    if ids is None:
        raise DataError(
            f"{path}: column {name!r}: expected integers or texts as ids. "
            f"Received: {column.type}"
        )
    return ids


def _labels(
    table: tables.Table, name: str | None, label: pa.ChunkedArray | None
) -> tuple[npt.NDArray[Any] | None, tuple[str, ...] | None]:
    several = [each for each in table.columns if each.startswith(LABEL_PREFIX)]
    columns = [table.columns.pop(each) for each in several]
    if label is not None and several:
        raise DataError(
            f"{table.path}: has a column of labels and columns {several[0]!r} "
            "and so on; --columns=drop=... leaves one out"
        )
    if label is not None:
        return _label_array(table, name, label), None
    if not several:
        return None, None
    rows = [
        _label_array(table, *each)
        for each in zip(several, columns, strict=True)
    ]
    names = tuple(each.removeprefix(LABEL_PREFIX) for each in several)
    return np.stack(rows, axis=1), names


def _label_array(
    table: tables.Table, name: str | None, column: pa.ChunkedArray
) -> npt.NDArray[Any]:
    column = tables.decoded(column)
    kind = column.type
    is_label = tables.is_number_type(kind) or tables.holds_texts(column)
    if not (is_label or pa.types.is_null(kind)):
        raise DataError(
            f"{table.path}: column {name!r}: expected integers or texts as "
            f"labels. Received: {kind}"
        )
    return tables.as_array(column)


def _leave_out_answers(table: tables.Table) -> None:
    names = no_features(table.columns)
    for name in names:
        del table.columns[name]
    if names:
        _LOG.warning(
            "%s: columns %s are left out of the features, as their names are "
            "those of ids, labels, splits or row numbers; rename them if they "
            "are features",
            table.path.name,
            names,
        )


def _split(
    table: tables.Table, column: pa.ChunkedArray, faults: Faults
) -> npt.NDArray[np.int8]:
    words = [
        str(word).strip().lower() for word in tables.as_array(column).tolist()
    ]
    codes = np.array([SPLIT_CODES.get(each, -1) for each in words], np.int8)
    unknown = np.flatnonzero(codes < 0)
    if unknown.size:
        faults.add(
            f"{table.path.name}: {unknown.size} nodes are in an unknown part "
            "of the split",
            "use train, val, test, or nothing, or leave the column out "
            "(--columns=drop=...)",
            unknown,
            lambda row: f"{table.place(row)}: {words[row]!r}",
        )
    return np.maximum(codes, 0)


def _features(
    table: tables.Table, faults: Faults
) -> tuple[npt.NDArray[np.float32] | None, tuple[str, ...]]:
    """All columns of numbers side by side, and their names."""
    blocks: list[npt.NDArray[Any]] = []
    left_out = []
    for name, column in table.columns.items():
        block = _feature_block(table, name, column, faults)
        if block is None:
            left_out.append(name)
        else:
            blocks.append(block)
    if left_out:
        _LOG.warning(
            "%s: columns that hold no numbers are left out of the features: %s",
            table.path.name,
            ", ".join(_described(table, name) for name in left_out),
        )
    names = tuple(each for each in table.columns if each not in left_out)
    if not blocks:
        return None, names
    features = np.empty(
        (table.n_rows, sum(each.shape[1] for each in blocks)), np.float32
    )
    start = 0
    with np.errstate(over="ignore"):
        for block in blocks:
            features[:, start : start + block.shape[1]] = block
            start += block.shape[1]
    return features, names


def _described(table: tables.Table, name: str) -> str:
    """A column's name, and what in it is no number."""
    column = tables.decoded(table.columns[name])
    if not tables.holds_texts(column):
        return f"{name} ({column.type})"
    values = (value for chunk in column.chunks for value in chunk.to_pylist())
    for row, value in enumerate(values):
        if value is not None and not tables.is_number(value):
            return f"{name} ({table.place(row)}: {value[:30]!r})"
    return name


def _feature_block(
    table: tables.Table, name: str, column: pa.ChunkedArray, faults: Faults
) -> npt.NDArray[Any] | None:
    """[n_rows, n] numbers of a column or of its lists; None if it has none."""
    column = tables.decoded(column)
    kind = column.type
    is_list = (
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
    )
    if not is_list:
        return (
            tables.as_array(column)[:, None]
            if tables.is_number_type(kind)
            else None
        )
    if not tables.is_number_type(kind.value_type):
        raise DataError(
            f"{table.path}: column {name!r}: expected lists of numbers. "
            f"Received: {kind}"
        )
    lengths = pc.list_value_length(column).fill_null(0).to_numpy()
    odd = np.flatnonzero(lengths != lengths.max(initial=0))
    width = int(lengths.max(initial=0))
    if odd.size:
        faults.add(
            f"{table.path.name}: column {name!r}: {odd.size} lists are shorter "
            f"than {width} numbers",
            "give each node as many",
            odd,
            lambda row: f"{table.place(row)}: {lengths[row]}",
        )
        return np.zeros((len(column), 1))
    return tables.as_array(pc.list_flatten(column)).reshape(len(column), width)


def read_features(path: pathlib.Path, columns: Columns, faults: Faults) -> Any:
    """Features of a .npy or .npz file [n_rows, n_features]; or `Nodes`.

    Raises:
        OSError: If the file cannot be read.
        DataError: If it holds no matrix of numbers.
    """
    if path.suffix == ".npy":
        return npy_stream.read_float32(npy_stream.read_header(path))
    if path.suffix == ".parquet":
        return read_nodes(path, columns, faults)
    with open_npz(path) as archive:
        for prefix in ("", "attr_", "features_"):
            if f"{prefix}shape" in archive:
                return sparse.csr_array(read_matrix(archive, prefix))
        keys = list(archive)
        return archive.get(_only(path, keys), "fiub", n_dims=2)


def _only(path: pathlib.Path, keys: Sequence[str]) -> str:
    if len(keys) == 1:
        return keys[0]
    if "features" in keys:
        return "features"
    raise DataError(
        f"{path}: expected one matrix, or one named 'features', or a matrix "
        f"of scipy.sparse.save_npz. Received: {', '.join(keys)}"
    )


def read_label_array(path: pathlib.Path) -> npt.NDArray[Any]:
    """The labels in a .npy file."""
    return np.asarray(load_npy(path))
