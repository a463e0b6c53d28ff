"""A graph as files, in the three formats in which Reddit is published.

Readers can be tested with them, at any size, and other programs can be given
a graph. Large parts are written block by block. The files of a graph take
their names together, and the place of others only on demand: what fails while
they are written leaves nothing of them, and the old ones as they were.

The old files are removed just before the new ones take their names. A process
that is killed between these, within a few system calls, leaves a set that
lacks a file and that readers refuse, never a mix of two graphs.
"""

from __future__ import annotations

import json
import logging
import os
import pathlib
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from adaptive_gcn.datasets import raw_files
from adaptive_gcn.datasets.npy_stream import write_blocks
from adaptive_gcn.datasets.reddit import log_counts
from adaptive_gcn.errors import DataError
from adaptive_gcn.features import Ids, row_blocks, scaled_blocks
from adaptive_gcn.graph import UNLABELLED, Graph

_LOG = logging.getLogger(__name__)

_BLOCK_NODES = 2**10  # About 10^5 links of Reddit.
_LIST_SEED = 0
_LINK = (
    '{{"test_removed": false, "train_removed": false, "target": {}, '
    '"source": {}}}'
)
_MARKS: dict[int, dict[str, bool]] = {  # By node type, as DGL numbers them.
    0: {},
    1: {"val": False, "test": False},
    2: {"val": True, "test": False},
    3: {"val": False, "test": True},
}

_Folder = str | os.PathLike[str]
_Files = Mapping[str, Callable[[IO[bytes]], None]]  # How to write each.


def write_graphsage(
    graph: Graph,
    folder: _Folder,
    name: str = "reddit",
    string_ids: bool = False,
    overwrite: bool = False,
) -> None:
    """Write the four files of GraphSAGE.

    `<name>-G.json` has the nodes, the links and the split, in the node-link
    form of networkx. The nodes are in an order of their own, and the ends of
    a link are places in it; so are the ids, unless they are strings.
    `<name>-id_map.json` has the row of each node in `<name>-feats.npy`,
    float64, and `<name>-class_map.json` its label. A node in no part of the
    split has no marks, one without label no class.

    Args:
        graph: What to write. Its edges must have weight 1.
        folder: Where to write, made if it is missing.
        name: How the names of the files begin.
        string_ids: Name nodes without `node_ids` like posts of Reddit,
            "t3_2grye0".
        overwrite: Whether to replace files.

    Raises:
        DataError: If a file is there already, or the edges have weights.
        OSError: If a file cannot be written.
    """
    order = np.random.default_rng(_LIST_SEED).permutation(graph.n_nodes)
    ids = _ids(graph, order, string_ids)
    labels = zip(ids, graph.labels.tolist(), strict=True)
    classes = {id_: label for id_, label in labels if label != UNLABELLED}
    rows = {id_: row for row, id_ in enumerate(ids)}
    files: _Files = {  # First named, last removed: what readers may lack.
        f"{name}-id_map.json": lambda file: _write_json(file, rows),
        f"{name}-G.json": lambda file: _write_node_link(
            file, graph, ids, order
        ),
        f"{name}-feats.npy": lambda file: _write_matrix(
            file, _dense_blocks(graph.features), graph, np.float64
        ),
        f"{name}-class_map.json": lambda file: _write_json(file, classes),
    }
    _write_files(graph, folder, files, overwrite)


def write_converter(
    graph: Graph, folder: _Folder, overwrite: bool = False
) -> None:
    """Write the two files that FastGCN and AS-GCN convert GraphSAGE's to.

    `reddit.npz` has feats, float64, whose first two columns are on a
    logarithmic scale, and index and labels of each part of the split.
    `reddit_adj.npz` is a SciPy matrix with each edge once.

    Args:
        graph: What to write. Its edges must have weight 1.
        folder: Where to write, made if it is missing.
        overwrite: Whether to replace files.

    Raises:
        DataError: If a file is there already, or the edges have weights.
        OSError: If a file cannot be written.
    """

    def write_data(file: IO[bytes]) -> None:
        arrays = {}
        for part, nodes in _parts(graph).items():
            arrays[f"y_{part}"] = graph.labels[nodes]
            arrays[f"{part}_index"] = nodes
        blocks = _dense_blocks(_with_logarithms(graph.features))
        _write_npz(file, "feats", blocks, graph, np.float64, arrays)

    def write_edges(file: IO[bytes]) -> None:
        once = sparse.triu(graph.adjacency)
        sparse.save_npz(file, sparse.csr_matrix(once))

    files = {"reddit.npz": write_data, "reddit_adj.npz": write_edges}
    _write_files(graph, folder, files, overwrite)


def write_dgl(graph: Graph, folder: _Folder, overwrite: bool = False) -> None:
    """Write the two files of the Deep Graph Library.

    `reddit_data.npz` has feature, float32, whose first two columns are on a
    logarithmic scale and all of which are standardised; label; node_types: 1
    for training, 2 for validation, 3 for test nodes and 0 for others; and
    node_ids. `reddit_graph.npz` is a SciPy matrix with each edge twice.

    Args:
        graph: What to write. Its edges must have weight 1.
        folder: Where to write, made if it is missing.
        overwrite: Whether to replace files.

    Raises:
        DataError: If a file is there already, if the edges have weights or if
            there are no training nodes.
        OSError: If a file cannot be written.
    """

    def write_data(file: IO[bytes]) -> None:
        arrays = {
            "label": graph.labels,
            "node_types": graph.split_codes(),
            "node_ids": _node_ids(graph),
        }
        features = _with_logarithms(graph.features)
        blocks = scaled_blocks(features, "standard", graph.train_nodes)
        _write_npz(file, "feature", blocks, graph, np.float32, arrays)

    def write_edges(file: IO[bytes]) -> None:
        sparse.save_npz(file, sparse.coo_matrix(graph.adjacency))

    files = {"reddit_data.npz": write_data, "reddit_graph.npz": write_edges}
    _write_files(graph, folder, files, overwrite)


FORMATS: dict[str, Callable[..., None]] = {
    "graphsage": write_graphsage,
    "converter": write_converter,
    "dgl": write_dgl,
}


_FILES = {  # As `write_graphsage` and the others order them.
    "graphsage": (
        "reddit-id_map.json",
        "reddit-G.json",
        "reddit-feats.npy",
        "reddit-class_map.json",
    ),
    "converter": ("reddit.npz", "reddit_adj.npz"),
    "dgl": ("reddit_data.npz", "reddit_graph.npz"),
}


def check_free(folder: _Folder, form: str, overwrite: bool) -> None:
    """Refuse a folder to which the writer of `FORMATS` would not write.

    Raises:
        DataError: If one of the files is there, unless `overwrite` is true.
    """
    _old_files(pathlib.Path(folder), _FILES[form], overwrite)


def _write_files(
    graph: Graph, folder: _Folder, files: _Files, overwrite: bool
) -> None:
    """Write the files of the graph, and name them when all are written."""
    _check_expressible(graph)
    _warn_of_names(graph)
    folder = pathlib.Path(folder)
    old = _old_files(folder, files, overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as new:
        for name, write in files.items():
            with open(pathlib.Path(new, name), "wb", buffering=2**20) as file:
                write(file)
        for path in reversed(old):
            path.unlink()
        for name in files:
            pathlib.Path(new, name).rename(folder / name)


def _old_files(
    folder: pathlib.Path, names: Iterable[str], overwrite: bool
) -> list[pathlib.Path]:
    """The files that new ones would replace, compressed ones too."""
    found = []
    for name in names:
        for path in raw_files.forms_of(folder / name):
            if path.is_dir():
                raise DataError(f"{path}: expected a file, or none")
            if path.exists() or path.is_symlink():
                found.append(path)
    if found and not overwrite:
        raise DataError(
            f"{found[0]} exists already; name another folder, or ask to "
            "overwrite it (--overwrite)"
        )
    return found


def _warn_of_names(graph: Graph) -> None:
    """Say which names of classes the files do not keep."""
    numbers = tuple(map(str, range(graph.n_classes)))
    if graph.class_names != numbers:
        pairs = zip(numbers, graph.class_names, strict=True)
        _LOG.warning(
            "%s: the formats of Reddit have no names of classes: %s",
            graph.name,
            ", ".join(f"{number} is {name}" for number, name in pairs),
        )


def _check_expressible(graph: Graph) -> None:
    if graph.multi_label:
        raise DataError(
            f"{graph.name}: expected one class a node, as in the formats of "
            "Reddit. Received: several labels; write a store (--to=store)"
        )
    weights = graph.adjacency.data
    if np.any(weights != 1):
        raise DataError(
            f"{graph.name}: expected edges of weight 1, as the formats of "
            "Reddit have no weights. Received: weights from "
            f"{weights.min():g} to {weights.max():g}"
        )


def _parts(graph: Graph) -> dict[str, Ids]:
    return {
        "train": graph.train_nodes,
        "val": graph.val_nodes,
        "test": graph.test_nodes,
    }


def _node_ids(graph: Graph) -> npt.NDArray[Any]:
    return (
        np.arange(graph.n_nodes) if graph.node_ids is None else graph.node_ids
    )


def _ids(graph: Graph, order: Ids, string_ids: bool) -> list[Any]:
    """The id of each row in the node list, which has the rows in this order.

    An integer that is not the place of the node could be taken for the place
    of another one where a link names it. So these become strings.
    """
    if graph.node_ids is not None:
        return [str(each) for each in graph.node_ids.tolist()]
    if string_ids:
        numbers = range(graph.n_nodes)
        return [f"t3_{np.base_repr(each, 36).lower()}" for each in numbers]
    return list(np.argsort(order).tolist())


def _write_json(file: IO[bytes], value: dict[Any, int]) -> None:
    file.write(json.dumps(value).encode())


def _write_node_link(
    file: IO[bytes], graph: Graph, ids: list[Any], order: Ids
) -> None:
    place = np.argsort(order)
    file.write(b'{"directed": false, "graph": {}, "nodes": [')
    _write_joined(file, _node_texts(graph, ids, order))
    file.write(b'], "links": [')
    _write_joined(file, _link_texts(graph.adjacency, place))
    file.write(b'], "multigraph": false}')


def _write_joined(file: IO[bytes], blocks: Iterable[list[str]]) -> None:
    separator = b""
    for texts in blocks:
        if texts:
            file.write(separator)
            file.write(", ".join(texts).encode())
            separator = b", "


def _node_texts(
    graph: Graph, ids: list[Any], order: Ids
) -> Iterator[list[str]]:
    types = graph.split_codes()
    for start in range(0, len(order), _BLOCK_NODES):
        texts = []
        for row in order[start : start + _BLOCK_NODES]:
            node = {"id": ids[row]}
            if graph.labels[row] != UNLABELLED:
                node["label"] = int(graph.labels[row])
            texts.append(json.dumps(node | _MARKS[types[row]]))
        yield texts


def _link_texts(adjacency: sparse.csr_array, place: Ids) -> Iterator[list[str]]:
    """The edges, each once, from the end that the node list has first."""
    indptr = adjacency.indptr
    for start in range(0, adjacency.shape[0], _BLOCK_NODES):
        bounds = indptr[start : start + _BLOCK_NODES + 1]
        row = np.arange(start, start + len(bounds) - 1)
        source = place[np.repeat(row, np.diff(bounds))]
        target = place[adjacency.indices[bounds[0] : bounds[-1]]]
        once = source < target
        yield [
            _LINK.format(t, s)
            for t, s in zip(
                target[once].tolist(), source[once].tolist(), strict=True
            )
        ]


def _with_logarithms(features: Any) -> Any:
    """Features with logarithms of the counts; sparse ones are all words."""
    return features if sparse.issparse(features) else log_counts(features)


def _dense_blocks(features: Any) -> Iterator[npt.NDArray[np.float32]]:
    for _, block in row_blocks(features):
        yield block.toarray() if sparse.issparse(block) else block


def _write_matrix(
    file: IO[bytes],
    blocks: Iterable[npt.NDArray[Any]],
    graph: Graph,
    dtype: npt.DTypeLike,
) -> None:
    """Write a .npy file from blocks of rows, one row for each node."""
    shape = (graph.n_nodes, graph.n_features)
    write_blocks(file, shape, dtype, blocks)


def _write_npz(
    file: IO[bytes],
    key: str,
    blocks: Iterable[npt.NDArray[Any]],
    graph: Graph,
    dtype: npt.DTypeLike,
    arrays: dict[str, npt.NDArray[Any]],
) -> None:
    """Write what `np.savez` writes, one of the arrays from blocks."""
    with zipfile.ZipFile(file, "w") as archive:
        with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
            _write_matrix(member, blocks, graph, dtype)
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
