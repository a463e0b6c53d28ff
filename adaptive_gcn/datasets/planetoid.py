"""Cora, Citeseer and Pubmed in the format of Planetoid.

A data set `name` is eight files `ind.name.*`: `allx` and `ally` have the
features and one-hot labels of the nodes 0, 1, ...; `tx` and `ty` those of the
nodes that `test.index` lists; `x` and `y` repeat the first rows of `allx` and
`ally`, the training nodes of Planetoid; `graph` lists the neighbours.

In Citeseer, 15 ids appear in the graph only. They keep their edges, a feature
row of zeros and no label, and belong to no part of the split.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
import os
import pathlib
import re
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from adaptive_gcn.datasets import checksums, download, restricted_pickle
from adaptive_gcn.graph import UNLABELLED, Graph, GraphError

_LOG = logging.getLogger(__name__)

SPLITS = ("fastgcn", "planetoid")
N_VAL = 500

_Ids = npt.NDArray[np.int64]


def load_planetoid(
    name: str,
    data_dir: str | os.PathLike[str] = "",
    split: str = "fastgcn",
) -> Graph:
    """Load a published data set; fetch it if it is not there.

    Args:
        name: "cora", "citeseer" or "pubmed".
        data_dir: See `download.locate`.
        split: See `read_planetoid`.

    Raises:
        DataNotFoundError: If files are missing and cannot be fetched.
        ChecksumError: If a file is not the published one.
        ValueError: If `split` is unknown.
    """
    return read_planetoid(download.locate(name, data_dir), name, split)


def read_planetoid(
    folder: str | os.PathLike[str],
    name: str,
    split: str = "fastgcn",
    *,
    n_val: int = N_VAL,
    verify: bool = True,
) -> Graph:
    """Read the eight files `ind.name.*` of a folder.

    Args:
        folder: Where the files are.
        name: The part of the file names after "ind.".
        split: "fastgcn" trains on all rows of `ally` but the last `n_val`,
            which validate; "planetoid" trains on the rows of `y` and validates
            on the `n_val` that follow. Both test on the ids of `test.index`.
        n_val: Number of validation nodes.
        verify: Whether to insist on the published files. Pass False to read
            files of your own; pickles are read safely in any case.

    Raises:
        ChecksumError: If `verify` and a file is not the published one.
        UnsafePickleError: If a pickle holds anything but data.
        MalformedPickleError: If a pickle is corrupt.
        GraphError: If the files contradict each other.
        ValueError: If `split` is unknown, or `verify` and `name` is.
    """
    if split not in SPLITS:
        raise ValueError(
            f"`split` must be one of {SPLITS}. Received: split={split!r}"
        )
    raw = _read_raw(pathlib.Path(folder), name, verify)
    _check_shapes(raw)
    n_head = len(raw.ally)
    ids = np.concatenate([np.arange(n_head), raw.test_index])
    labels = np.full(len(raw.graph), UNLABELLED)
    labels[ids] = np.concatenate(
        [_classes(raw.ally, "ally"), _classes(raw.ty, "ty")]
    )
    n_train = n_head - n_val if split == "fastgcn" else len(raw.y)
    train, val = _head_split(n_train, n_val, n_head)
    return Graph.from_edges(
        _edges(raw.graph),
        _features(raw, ids),
        labels,
        train_nodes=_labelled(train, labels, f"{name}: train split"),
        val_nodes=_labelled(val, labels, f"{name}: validation split"),
        test_nodes=_labelled(raw.test_index, labels, f"{name}: test split"),
        n_classes=raw.ally.shape[1],
        name=name,
    )


@dataclasses.dataclass(frozen=True)
class _Raw:
    """The contents of the eight files, each of the right kind."""

    x: sparse.csr_array
    y: npt.NDArray[Any]
    tx: sparse.csr_array
    ty: npt.NDArray[Any]
    allx: sparse.csr_array
    ally: npt.NDArray[Any]
    graph: dict[int, list[int]]
    test_index: _Ids


_KINDS = {
    "x": sparse.csr_array,
    "y": np.ndarray,
    "tx": sparse.csr_array,
    "ty": np.ndarray,
    "allx": sparse.csr_array,
    "ally": np.ndarray,
    "graph": dict,
}


def _read_raw(folder: pathlib.Path, name: str, verify: bool) -> _Raw:
    if verify and f"ind.{name}.x" not in checksums.FINGERPRINTS:
        raise ValueError(
            f"no checksums are known for {name!r}; pass verify=False to read "
            "files of your own"
        )
    paths = [folder / each for each in checksums.file_names(name)]
    contents = [path.read_bytes() for path in paths]
    if verify:
        for path, content in zip(paths, contents, strict=True):
            checksums.verify(content, str(path))
    values: dict[str, Any] = {}
    for part, path, content in zip(
        checksums.PARTS, paths, contents, strict=True
    ):
        if part == "test.index":
            values["test_index"] = _parse_ids(content, path)
        else:
            values[part] = _load(content, path, _KINDS[part])
    return _Raw(**values)


def _load(content: bytes, path: pathlib.Path, kind: type) -> Any:
    value = restricted_pickle.loads(content, str(path))
    if not isinstance(value, kind):
        raise GraphError(
            f"{path}: expected a pickled {kind.__name__}. Received: "
            f"{type(value).__name__}"
        )
    shape = getattr(value, "shape", (1, 1))
    if len(shape) != 2 or 0 in shape:
        raise GraphError(
            f"{path}: expected a matrix with rows and columns. Received: "
            f"shape {shape}"
        )
    return value


def _parse_ids(content: bytes, path: pathlib.Path) -> _Ids:
    ids = []
    for number, words in enumerate(checksums.index_tokens(content), start=1):
        for word in words:
            if not re.fullmatch(rb"[0-9]{1,9}", word):
                raise GraphError(
                    f"{path}, line {number}: expected a node id. Received: "
                    f"{word[:20].decode('utf-8', 'replace')!r}"
                )
            ids.append(int(word))
    return np.array(ids, np.int64)


def _check_head(raw: _Raw) -> None:
    """Rows x, y must be the first rows of allx, ally."""
    n = raw.x.shape[0]
    if (raw.allx[:n] != raw.x).nnz or not np.array_equal(raw.ally[:n], raw.y):
        raise GraphError(
            "x, y: expected the first rows of allx, ally; the files do not "
            "belong together"
        )


def _check_shapes(raw: _Raw) -> None:
    test = raw.test_index
    if not len(test) or len(np.unique(test)) < len(test):
        raise GraphError(
            "test.index: expected distinct node ids. Received: "
            f"{len(test)} ids, {len(np.unique(test))} distinct"
        )
    n_rows = int(test.max()) + 1
    if n_rows != len(raw.graph):
        raise GraphError(
            f"features: {n_rows} rows, graph: {len(raw.graph)} nodes (the last "
            "id in test.index must be the last node of graph)"
        )
    if test.min() < raw.allx.shape[0]:
        raise GraphError(
            f"test.index: node {test.min()} is one of the "
            f"{raw.allx.shape[0]} rows of allx"
        )
    for rows, others in (("x", "y"), ("allx", "ally"), ("tx", "ty")):
        _check_equal(raw, rows, others, axis=0)
    _check_equal(raw, "tx", "test_index", axis=0)
    for part, other in (("x", "allx"), ("tx", "allx")):
        _check_equal(raw, part, other, axis=1)
    _check_head(raw)
    for part, other in (("y", "ally"), ("ty", "ally")):
        _check_equal(raw, part, other, axis=1)


def _check_equal(raw: _Raw, first: str, second: str, axis: int) -> None:
    sizes = [getattr(raw, part).shape[axis] for part in (first, second)]
    if sizes[0] != sizes[1]:
        unit = ("rows", "columns")[axis]
        raise GraphError(
            f"{first}: {sizes[0]} {unit}, {second}: {sizes[1]} {unit}; the "
            "files do not belong together"
        )


def _head_split(n_train: int, n_val: int, n_head: int) -> tuple[_Ids, _Ids]:
    if not 0 < n_train <= n_head - n_val:
        raise GraphError(
            f"expected training nodes and {n_val} validation nodes among the "
            f"{n_head} rows of ally. Received: {n_train} training nodes; "
            "lower n_val"
        )
    return np.arange(n_train), np.arange(n_train, n_train + n_val)


def _classes(one_hot: npt.NDArray[Any], part: str) -> _Ids:
    """The class of each row, -1 for a row of zeros."""
    sums = one_hot.sum(axis=1)
    bad = np.flatnonzero((sums > 1) | ~np.isin(one_hot, (0, 1)).all(axis=1))
    if bad.size:
        raise GraphError(
            f"{part}: expected one-hot rows. Received: row {bad[0]} = "
            f"{one_hot[bad[0]].tolist()}; {bad.size} rows are not"
        )
    return np.where(sums == 1, one_hot.argmax(axis=1), UNLABELLED)


def _labelled(nodes: _Ids, labels: _Ids, part: str) -> _Ids:
    unknown = nodes[labels[nodes] == UNLABELLED]
    if unknown.size:
        _LOG.warning(
            "%s: %d nodes have no label and are left out, the first is %d",
            part,
            unknown.size,
            unknown[0],
        )
    return np.setdiff1d(nodes, unknown)


def _features(raw: _Raw, ids: _Ids) -> sparse.csr_array:
    """Row i of `allx` over `tx` becomes row ids[i]; the others are zero."""
    stacked = sparse.vstack([raw.allx, raw.tx]).tocoo()
    rows, columns = stacked.coords
    shape = (len(raw.graph), stacked.shape[1])
    return sparse.csr_array((stacked.data, (ids[rows], columns)), shape)


def _edges(neighbours: dict[int, list[int]]) -> _Ids:
    sources = np.fromiter(neighbours, np.int64, len(neighbours))
    lists = neighbours.values()
    targets = np.fromiter(itertools.chain.from_iterable(lists), np.int64)
    sources = np.repeat(sources, [len(each) for each in lists])
    return np.stack([sources, targets], axis=1)
