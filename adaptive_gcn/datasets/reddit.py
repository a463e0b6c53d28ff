"""Reddit posts, 232,965 nodes, in each format that people have it in.

graphsage  reddit-G.json and so on, as published with GraphSAGE; see
           `datasets.graphsage`. 11.6 M undirected edges, the paper's graph.
converter  reddit.npz and reddit_adj.npz, which the authors of FastGCN and
           AS-GCN convert that to: features with logarithms taken, classes
           and indices of the three parts, a SciPy matrix.
dgl        reddit_data.npz and reddit_graph.npz, from DGL and also PyTorch
           Geometric. Another graph of the same posts, ten times as dense:
           114.6 M entries, both directions.

The files are too large to be fetched unasked; nothing here uses the network.
"""

from __future__ import annotations

import logging
import os
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from adaptive_gcn.datasets import graphsage
from adaptive_gcn.datasets.download import DataNotFoundError
from adaptive_gcn.datasets.sparse_npz import Parts, open_npz, read_entries
from adaptive_gcn.errors import DataError, GraphError
from adaptive_gcn.graph import UNLABELLED, Graph

_LOG = logging.getLogger(__name__)

FORMATS = ("auto", "graphsage", "converter", "dgl")
NAME = "reddit"

_ARCHIVES = {
    "converter": ("reddit.npz", "reddit_adj.npz"),
    "dgl": ("reddit_data.npz", "reddit_graph.npz"),
}
_ORIGINS = {
    "graphsage": "http://snap.stanford.edu/graphsage/reddit.zip",
    "converter": "the converter of FastGCN or AS-GCN, from those of graphsage",
    "dgl": "https://data.dgl.ai/dataset/reddit.zip",
}
_PAPER_VERSION = "the GraphSAGE version, 11.6 M undirected edges"
_VERSIONS = {
    "graphsage": _PAPER_VERSION,
    "converter": _PAPER_VERSION,
    "dgl": "the DGL and PyG version, 114.6 M entries in both directions",
}
_PAPER_COUNTS = {
    "nodes": 232_965,
    "features": 602,
    "classes": 41,
    "undirected_edges": 11_606_919,
    "train": 153_932,
    "validation": 23_699,
    "test": 55_334,
}
_COUNTS = {
    "graphsage": _PAPER_COUNTS,
    "converter": _PAPER_COUNTS,
    "dgl": {
        **_PAPER_COUNTS,
        "entries_read": 114_615_892,
        "undirected_edges": 57_307_946,
        "train": 153_431,
        "validation": 23_831,
        "test": 55_703,
    },
}
_PARTS = {"train": 1, "validation": 2, "test": 3}  # Codes in "node_types".
_BLOCK_ROWS = 8192

_Path = str | os.PathLike[str]
_Ids = npt.NDArray[np.int64]
_Split = dict[str, _Ids]


def read_reddit(
    folder: _Path, file_format: str = "auto", ends: str = "auto"
) -> Graph:
    """Read the files of one format.

    Counts of comments and scores get their logarithm taken unless that was
    done, see `log_counts`. Counts that differ from the published ones are
    only warned of, as a part of Reddit may be meant.

    Args:
        folder: Where the files are, or in its subfolder "reddit".
        file_format: One of `FORMATS`; "auto" takes the first format whose
            files are all there.
        ends: What the ends of the links of "graphsage" are, see
            `read_graphsage`; the other formats leave no doubt of them.

    Raises:
        DataNotFoundError: If files are missing; nothing is downloaded.
        OSError: If a file cannot be read.
        DataError: If a file is damaged, or not what its name says.
        GraphError: If the files contradict each other.
        ValueError: If `file_format`, or `ends` where they count, is unknown.
    """
    chosen, files = _find(folder, file_format)
    _LOG.info(
        "%s: reading the format %r, %s",
        NAME,
        chosen,
        ", ".join(map(str, files)),
    )
    graph = _READERS[chosen](files, ends)
    _log_version(graph, chosen)
    return graph


def files_of(folder: _Path, file_format: str = "auto") -> list[pathlib.Path]:
    """The files that `read_reddit` would read; it has the errors."""
    return _find(folder, file_format)[1]


def log_counts(features: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Take the logarithm of the columns 0 (comments) and 1 (score).

    They become log(x0 + 1) and log(x1 - min(min(x1), -1)), as GraphSAGE does.
    Where the latter is log(0), for a lowest score below 0, it is 1 more.
    Raw counts are whole numbers, more of them than 0 and 1, before a text of
    other numbers. All else, transformed before or no counts at all as the words
    of a bag are, is returned as it is.

    Args:
        features: [n_nodes, n_features], not changed.

    Returns:
        [n_nodes, n_features] float32 in memory, if it was applied.
    """
    if not _begin_with_counts(features):
        _LOG.info(
            "%s: columns 0 and 1 of the features are no raw counts, or already "
            "transformed; no logarithm taken",
            NAME,
        )
        return features
    result = np.empty(features.shape, np.float32)
    for start in range(0, len(features), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        result[block] = features[block]
    counts = features[:, :2].astype(np.float64)
    lowest = counts[:, 1].min()
    shift = [1.0, 1.0 if lowest >= 0 else 1.0 - lowest]
    result[:, :2] = np.log(counts + shift)
    _LOG.info(
        "%s: columns 0 and 1 of the features are counts; logarithm taken of "
        "x + %g and x + %g",
        NAME,
        *shift,
    )
    return result


def _begin_with_counts(features: npt.NDArray[Any]) -> bool:
    """Whether columns 0 and 1, and only they, are whole as counts are."""
    if features.shape[1] < 2 or not len(features):
        return False
    counts = np.asarray(features[:, :2], np.float64)
    if not _are_whole(counts) or counts[:, 0].min() < 0:
        return False
    if np.isin(counts, (0, 1)).all():
        return False
    return features.shape[1] == 2 or not all(
        _are_whole(features[start : start + _BLOCK_ROWS, 2:])
        for start in range(0, len(features), _BLOCK_ROWS)
    )


def _are_whole(values: npt.NDArray[Any]) -> bool:
    return bool(np.all(np.isfinite(values) & (values == np.rint(values))))


def _find(folder: _Path, file_format: str) -> tuple[str, list[pathlib.Path]]:
    """The format to read, and its files."""
    if file_format not in FORMATS:
        raise ValueError(
            f"`file_format` must be one of {FORMATS}. Received: "
            f"file_format={file_format!r}"
        )
    root = pathlib.Path(folder).expanduser()
    formats = FORMATS[1:] if file_format == "auto" else (file_format,)
    complete = {
        (each, place): _files(place, each)
        for each in formats
        for place in (root, root / NAME)
        if not _missing(place, each)
    }
    if not complete:
        raise DataNotFoundError(_advice(root, formats))
    (chosen, place), *others = complete
    for other in others:
        _LOG.info("%s: files of the format %r are in %s too", NAME, *other)
    return chosen, complete[chosen, place]


def _files(folder: pathlib.Path, file_format: str) -> list[pathlib.Path]:
    if file_format == "graphsage":
        return graphsage.files_of(folder, NAME)
    return [folder / name for name in _ARCHIVES[file_format]]


def _missing(folder: pathlib.Path, file_format: str) -> list[str]:
    if file_format == "graphsage":
        return graphsage.missing_files(folder, NAME)
    names = _ARCHIVES[file_format]
    return [name for name in names if not (folder / name).is_file()]


def _advice(root: pathlib.Path, formats: tuple[str, ...]) -> str:
    lines = [f"{NAME}: no complete set of files in {root} or {root / NAME}"]
    for each in formats:
        # The place that is nearer to being complete.
        missing = min(
            (_missing(place, each) for place in (root, root / NAME)), key=len
        )
        lines.append(f"  {each}: missing {', '.join(missing)}")
        lines.append(f"    from {_ORIGINS[each]}")
    lines.append(
        "They are over a gigabyte and not fetched by themselves: get one of "
        "these sets, unpack it and name its folder."
    )
    return "\n".join(lines)


def _read_graphsage(files: list[pathlib.Path], ends: str) -> Graph:
    return graphsage.read_graphsage(
        files[0].parent, NAME, ends=ends, transform=log_counts
    )


def _read_converter(files: list[pathlib.Path], _: str) -> Graph:
    with open_npz(files[0]) as parts:
        features = _features(parts, "feats")
        classes = np.full(len(features), UNLABELLED, np.int64)
        split = {
            part: _read_part(parts, key, classes)
            for part, key in zip(_PARTS, ("train", "val", "test"), strict=True)
        }
    return _graph(files[1], features, classes, split, directed=False)


def _read_part(parts: Parts, key: str, classes: _Ids) -> _Ids:
    """The nodes of a part of the split; their classes are filled in."""
    nodes, labels = parts.get(f"{key}_index"), parts.get(f"y_{key}")
    if len(nodes) != len(labels):
        raise GraphError(
            f"{parts.path}: y_{key}: {len(labels)} labels, {key}_index: "
            f"{len(nodes)} nodes"
        )
    outside = nodes[(nodes < 0) | (nodes >= len(classes))]
    if outside.size:
        raise GraphError(
            f"{parts.path}: {key}_index: {outside.size} nodes lie outside the "
            f"rows 0..{len(classes) - 1} of feats; the first is {outside[0]}"
        )
    classes[nodes] = labels
    return nodes.astype(np.int64)


def _read_dgl(files: list[pathlib.Path], _: str) -> Graph:
    with open_npz(files[0]) as parts:
        features = _features(parts, "feature")
        classes = parts.get("label").astype(np.int64)
        types = parts.get("node_types")
        node_ids = _node_ids(parts, len(features))
    for key, values in (("label", classes), ("node_types", types)):
        if len(values) != len(features):
            raise GraphError(
                f"{files[0]}: {key}: {len(values)} values, feature: "
                f"{len(features)} rows"
            )
    n_other = np.count_nonzero(~np.isin(types, list(_PARTS.values())))
    if n_other:
        _LOG.warning(
            "%s: %d nodes are in no part of the split: expected the node types "
            "1, 2 and 3",
            NAME,
            n_other,
        )
    split = {
        part: np.flatnonzero(types == code) for part, code in _PARTS.items()
    }
    return _graph(files[1], features, classes, split, True, node_ids)


def _features(parts: Parts, key: str) -> npt.NDArray[Any]:
    """[n_nodes, n_features] float32, the counts as logarithms."""
    features = parts.get(key, "fiub", n_dims=2)
    with np.errstate(over="ignore"):  # `Graph` refuses infinite values.
        return log_counts(np.ascontiguousarray(features, np.float32))


def _node_ids(parts: Parts, n_nodes: int) -> npt.NDArray[Any] | None:
    """The users' ids, if they are there and can be read safely."""
    if "node_ids" not in parts:
        return None
    try:
        node_ids = parts.get("node_ids", "iuU")
    except DataError as error:
        _LOG.warning("%s; nodes are numbered instead", error)
        return None
    plain = node_ids.dtype.kind in "iu" and np.array_equal(
        node_ids, np.arange(n_nodes)
    )
    return None if plain else node_ids


def _graph(
    path: pathlib.Path,
    features: npt.NDArray[Any],
    classes: _Ids,
    split: _Split,
    directed: bool,
    node_ids: npt.NDArray[Any] | None = None,
) -> Graph:
    n_nodes, edges = read_entries(path)
    if n_nodes != len(features):
        raise GraphError(
            f"{path}: features: {len(features)} rows, graph: {n_nodes} nodes"
        )
    kept, faults = graphsage.labelled(split, classes)
    if faults:
        _LOG.warning("%s: %s", NAME, "; ".join(faults))
    return Graph.from_edges(
        edges,
        features,
        classes,
        train_nodes=kept["train"],
        val_nodes=kept["validation"],
        test_nodes=kept["test"],
        name=NAME,
        node_ids=node_ids,
        directed=directed,
    )


_READERS: dict[str, Callable[[list[pathlib.Path], str], Graph]] = {
    "graphsage": _read_graphsage,
    "converter": _read_converter,
    "dgl": _read_dgl,
}


def _log_version(graph: Graph, file_format: str) -> None:
    _LOG.info("%s: this is %s", NAME, _VERSIONS[file_format])
    counts = graph.statistics()
    different = [
        f"{key.replace('_', ' ')} expected {expected}, received {counts[key]}"
        for key, expected in _COUNTS[file_format].items()
        if counts[key] != expected
    ]
    if different:
        _LOG.warning(
            "%s: not the published graph: %s", NAME, "; ".join(different)
        )
