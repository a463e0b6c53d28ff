"""Data sets in the format of GraphSAGE.

A data set `name` is four files: `name-G.json`, the node-link JSON of networkx
with the marks "test" and "val" of every node; `name-feats.npy`, the features;
`name-class_map.json`, the class of each id, and `name-id_map.json`, the
feature row of each id. Without the last one, row i belongs to the node at
position i of the node list. Node i of the graph is always feature row i.

Every file may be compressed, with ".xz" after its name.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from adaptive_gcn.datasets import link_ends, node_link, npy_stream, raw_files
from adaptive_gcn.datasets.download import DataNotFoundError
from adaptive_gcn.datasets.node_link import FormatError, Nodes
from adaptive_gcn.errors import GraphError
from adaptive_gcn.graph import UNLABELLED, Graph

_LOG = logging.getLogger(__name__)

_MISSING = -1

_PARTS = {
    "graph": "G.json",
    "features": "feats.npy",
    "class_map": "class_map.json",
    "id_map": "id_map.json",
}
_OPTIONAL = ("id_map",)

_Ids = npt.NDArray[np.int64]
_Transform = Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]


def read_graphsage(
    folder: str | os.PathLike[str],
    name: str,
    *,
    ends: str = "auto",
    transform: _Transform | None = None,
) -> Graph:
    """Read the files `name-*` of a folder.

    A node without a class has label -1; such a node, and one that lacks a
    mark, is in no part of the split. One warning counts these.

    Args:
        folder: Where the files are.
        name: The part of the file names before "-".
        ends: What the ends of the links are: "ids", "positions" in the node
            list, or "auto" to find out, see `link_ends.resolve`.
        transform: Applied to the features [n_nodes, n_features] float32, if
            given; it may not write to them.

    Raises:
        DataNotFoundError: If a file is missing.
        OSError: If a file cannot be read.
        DataError: If a file is damaged, or not what its name says.
        GraphError: If the files contradict each other.
        ValueError: If `ends` is unknown.
    """
    if ends not in link_ends.ENDS:
        raise ValueError(
            f"`ends` must be one of {link_ends.ENDS}. Received: ends={ends!r}"
        )
    files = _find(pathlib.Path(folder), name)
    header = npy_stream.read_header(files["features"])
    nodes, links, directed = node_link.read_node_link(
        files["graph"], lambda nodes: _check_rows(header, nodes)
    )
    row_of = _rows(nodes, files.get("id_map"))
    edges = tuple(
        row_of[each]
        for each in link_ends.resolve(nodes, links, ends, str(files["graph"]))
    )
    if links.weighted:
        _LOG.warning("%s: weights of links are not used", files["graph"].name)
    del links  # 200 MB for Reddit.
    nodes = _ordered(nodes, np.argsort(row_of))
    classes, n_classes, faults = _classes(nodes, files["class_map"])
    split, more_faults = _split(nodes, classes, files["graph"])
    _log_faults(name, faults + more_faults)
    features = npy_stream.read_float32(header)
    if transform:
        features = transform(features)
    return Graph.from_edges(
        edges,
        features,
        classes,
        train_nodes=split["train"],
        val_nodes=split["validation"],
        test_nodes=split["test"],
        n_classes=n_classes,
        name=name,
        node_ids=_node_ids(nodes.keys),
        directed=directed,
    )


def files_of(folder: str | os.PathLike[str], name: str) -> list[pathlib.Path]:
    """The files that `read_graphsage` would read.

    Raises:
        DataNotFoundError: If one is missing that must be there.
    """
    return list(_find(pathlib.Path(folder), name).values())


def missing_files(folder: str | os.PathLike[str], name: str) -> list[str]:
    """Names of the files that must be there and are not."""
    return [
        f"{name}-{end} (or {name}-{end}.xz)"
        for part, end in _PARTS.items()
        if part not in _OPTIONAL
        and not raw_files.find(pathlib.Path(folder, f"{name}-{end}"))
    ]


def labelled(
    split: dict[str, _Ids], classes: _Ids
) -> tuple[dict[str, _Ids], list[str]]:
    """Take the nodes without a class out of a split.

    Args:
        split: Node ids of each part.
        classes: [n_nodes] or [n_nodes, n_labels], negative where unknown.

    Returns:
        The rest of each part, and a line for each part that lost nodes.
    """
    kept, faults = {}, []
    for part, ids in split.items():
        known = ~_is_unknown(classes)[ids]
        kept[part] = ids[known]
        if not known.all():
            n_unknown = np.count_nonzero(~known)
            faults.append(f"{part} split: {n_unknown} without a class left out")
    return kept, faults


def _find(folder: pathlib.Path, name: str) -> dict[str, pathlib.Path]:
    missing = missing_files(folder, name)
    if missing:
        raise DataNotFoundError(
            f"{name}: missing in {folder}: {', '.join(missing)}"
        )
    found = {
        part: raw_files.find(folder / f"{name}-{end}")
        for part, end in _PARTS.items()
    }
    return {part: path for part, path in found.items() if path}


def _check_rows(header: npy_stream.NpyHeader, nodes: Nodes) -> None:
    if header.shape[0] != len(nodes.keys):
        raise GraphError(
            f"{header.path}: features: {header.shape[0]} rows, graph: "
            f"{len(nodes.keys)} nodes"
        )


def _rows(nodes: Nodes, path: pathlib.Path | None) -> npt.NDArray[np.int32]:
    """[n_nodes] The feature row of each position in the node list."""
    n_nodes = len(nodes.keys)
    if path is None:
        _LOG.info(
            "no id_map.json; feature row i is taken as that of node i of the "
            "node list"
        )
        return np.arange(n_nodes, dtype=np.int32)
    row_of = node_link.read_map(path, _row)
    rows = np.array([row_of.get(key, _MISSING) for key in nodes.keys], np.int64)
    faults = _row_faults(row_of, rows, nodes.keys)
    if faults:
        raise GraphError(
            f"{path}: expected each of {n_nodes} nodes with a feature row of "
            f"its own. Received: {'; '.join(faults)}"
        )
    return rows.astype(np.int32)


def _row(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise FormatError(f"expected a feature row. Received: {value!r}")
    return value


def _row_faults(
    row_of: dict[str, int], rows: _Ids, keys: list[str]
) -> list[str]:
    """One line for each way in which nodes and rows do not match."""
    n_nodes = len(keys)
    missing = [keys[each] for each in np.flatnonzero(rows == _MISSING)]
    unknown = row_of.keys() - set(keys)
    outside = [keys[each] for each in np.flatnonzero(rows >= n_nodes)]
    values, uses = np.unique(rows[rows >= 0], return_counts=True)
    repeated = values[uses > 1].tolist()
    return [
        *_counted(missing, "nodes are not in it"),
        *_counted(_in_file_order(row_of, unknown), "ids are no nodes"),
        *_counted(outside, f"nodes have a row outside 0..{n_nodes - 1}"),
        *_counted(repeated, "rows are used more than once"),
    ]


def _in_file_order(found: dict[str, Any], keys: set[str]) -> list[str]:
    return [key for key in found if key in keys]


def _counted(examples: list[Any], text: str) -> list[str]:
    """At most one line: the count, what it counts, and the first ones."""
    if not examples:
        return []
    shown = ", ".join(map(json.dumps, examples[:3]))
    return [f"{len(examples)} {text} ({shown}{', ...' * (len(examples) > 3)})"]


def _ordered(nodes: Nodes, order: npt.NDArray[Any]) -> Nodes:
    return dataclasses.replace(
        nodes,
        keys=[nodes.keys[each] for each in order],
        test=nodes.test[order],
        val=nodes.val[order],
    )


def _node_ids(keys: list[str]) -> npt.NDArray[Any] | None:
    ids = link_ends.integer_ids(keys)
    if ids is None:
        return np.array(keys)
    return None if np.array_equal(ids, np.arange(len(ids))) else ids


class _ClassReader:
    """Checks the values of a class map; None, for unknown, stays.

    Attributes:
        width: Length of the lists of 0 and 1; 0 if classes are integers; None
            before the first value.
    """

    def __init__(self) -> None:
        self.width: int | None = None

    def __call__(self, value: Any) -> int | list[int] | None:
        if value is None:
            return None
        width = len(value) if isinstance(value, list) else 0
        if self.width is None:
            self.width = width
        if width != self.width:
            raise FormatError(
                f"expected {_kind(self.width)} as before. Received: "
                f"{_kind(width)}"
            )
        return _zeros_and_ones(value) if width else _integer_class(value)


def _kind(width: int) -> str:
    return f"a list of {width}" if width else "an integer"


def _integer_class(value: Any) -> int:
    if type(value) is not int or value >= 2**63:
        raise FormatError(
            "expected an integer class or a one-hot list. Received: "
            f"{str(value)[:40]}"
        )
    return max(value, UNLABELLED)


def _zeros_and_ones(values: list[Any]) -> list[int]:
    if values.count(1) + values.count(0) != len(values):
        raise FormatError("expected a list of zeros and ones")
    return values


def _of_lists(lists: list[Any], width: int) -> _Ids:
    """Classes, if no list has more than one 1; else rows of labels."""
    unknown = [UNLABELLED] * width
    rows = np.array([unknown if each is None else each for each in lists])
    n_ones = np.count_nonzero(rows == 1, axis=1)
    if n_ones.max(initial=0) > 1:
        return rows.astype(np.int64)
    return np.where(n_ones, rows.argmax(axis=1), UNLABELLED)


def _classes(
    nodes: Nodes, path: pathlib.Path
) -> tuple[_Ids, int | None, list[str]]:
    """[n_nodes] classes or [n_nodes, n_labels] rows of labels, and faults.

    In between: the number of classes, if the file says it.
    """
    reader = _ClassReader()
    class_of = node_link.read_map(path, reader)
    missing = [key for key in nodes.keys if key not in class_of]
    unknown = class_of.keys() - set(nodes.keys)
    found = [class_of.get(key) for key in nodes.keys]
    if reader.width:
        classes = _of_lists(found, reader.width)
    else:
        numbers = [UNLABELLED if each is None else each for each in found]
        classes = np.array(numbers, np.int64)
    n_unlabelled = np.count_nonzero(_is_unknown(classes)) - len(missing)
    faults = [
        *_counted(missing, f"nodes are not in {path.name}: no class"),
        *_counted(
            _in_file_order(class_of, unknown),
            f"ids in {path.name} are no nodes: ignored",
        ),
    ]
    if n_unlabelled:
        faults.append(f"{n_unlabelled} nodes have a negative class or none")
    return classes, reader.width or None, faults


def _is_unknown(classes: _Ids) -> npt.NDArray[np.bool_]:
    """[n_nodes] Whether a node has no class, or no labels."""
    return np.asarray(classes.reshape(len(classes), -1).min(axis=1) < 0)


def _split(
    nodes: Nodes, classes: _Ids, path: pathlib.Path
) -> tuple[dict[str, _Ids], list[str]]:
    """The node ids of train, validation and test, and faults."""
    both = np.flatnonzero((nodes.test == 1) & (nodes.val == 1))
    if both.size:
        raise GraphError(
            f"{path}: {both.size} nodes are marked both test and val; the "
            f"first has the id {json.dumps(nodes.keys[both[0]])}"
        )
    unmarked = (nodes.test < 0) | (nodes.val < 0)
    split = {
        "train": (nodes.test == 0) & (nodes.val == 0),
        "validation": (nodes.val == 1) & ~unmarked,
        "test": (nodes.test == 1) & ~unmarked,
    }
    kept, faults = labelled(
        {part: np.flatnonzero(mask) for part, mask in split.items()}, classes
    )
    return kept, [
        *_counted(
            [nodes.keys[each] for each in np.flatnonzero(unmarked)],
            'nodes lack a mark "test" or "val": in no part of the split',
        ),
        *faults,
    ]


def _log_faults(name: str, faults: list[str]) -> None:
    if faults:
        _LOG.warning("%s: %s", name, "; ".join(faults))
