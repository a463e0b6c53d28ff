"""A user's own graph: one file or folder in whichever form it is.

docs/own_graph.md has the forms.
"""

from __future__ import annotations

import logging
import os
import pathlib
from collections.abc import Iterable

from adaptive_gcn.datasets import (
    musae,
    node_npz,
    splits,
    store,
    table_graph,
)
from adaptive_gcn.datasets.assemble import assemble
from adaptive_gcn.datasets.columns import Columns
from adaptive_gcn.datasets.download import DataNotFoundError
from adaptive_gcn.datasets.faults import Faults
from adaptive_gcn.datasets.folder_options import FolderOptions
from adaptive_gcn.datasets.graph_parts import GraphParts
from adaptive_gcn.datasets.graphsage import read_graphsage
from adaptive_gcn.errors import DataError
from adaptive_gcn.graph import Graph

_LOG = logging.getLogger(__name__)


def read_folder(
    place: str | os.PathLike[str], options: FolderOptions | None = None
) -> Graph:
    """Read the graph at `place`, a folder or a file.

    Raises:
        FaultyDataError: If there are faults; it has all that could be found.
        DataError: If a file is damaged, or its form is unknown.
        OSError: If something cannot be read.
    """
    options = options or FolderOptions()
    path = pathlib.Path(place)
    if not path.exists():
        raise DataNotFoundError(
            f"--dataset_dir={path}: there is no such folder or file"
        )
    if (path / store.MANIFEST).is_file():
        graph = store.read_store(path)
        _check_unused(path, "a store", options)
        return splits.with_rule(graph, options.split, options.split_seed)
    named = _graphsage_name(path)
    if named:
        graph = read_graphsage(path, named)
        _check_unused(path, "a folder of GraphSAGE", options)
        return splits.with_rule(graph, options.split, options.split_seed)
    faults = Faults()
    graph = assemble(
        _read(path, options, faults),
        options.split,
        options.split_seed,
        options.missing_features,
        faults,
    )
    _warn_of_little(graph)
    return graph


def _warn_of_little(graph: Graph) -> None:
    """Say what is a graph, but hardly the one that was meant."""
    if not graph.n_edges:
        _LOG.warning(
            "%s: there are no edges; each node is told by its own features",
            graph.name,
        )
    if graph.n_classes == 1 and not graph.multi_label:
        _LOG.warning(
            "%s: all labels are of one class: %s",
            graph.name,
            graph.class_names[0],
        )


def _check_unused(
    path: pathlib.Path, what: str, options: FolderOptions
) -> None:
    """Refuse or report options that bear on other forms only."""
    if options.split.kind == "given" and options.split.index:
        raise DataError(
            f"--split=given:{options.split.index}: {path} is {what}, which "
            "has one split; use --split=given"
        )
    for flag, value, usual in (
        ("columns", options.columns, ""),
        ("missing_features", options.missing_features, "refuse"),
    ):
        if value != usual:
            _LOG.warning("--%s=%s: not used: %s is %s", flag, value, path, what)


def _graphsage_name(path: pathlib.Path) -> str:
    """The name of the only data set in GraphSAGE's form there, or ""."""
    graphs = [*path.glob("*-G.json"), *path.glob("*-G.json.xz")]
    return graphs[0].name.partition("-G.json")[0] if len(graphs) == 1 else ""


def _read(
    path: pathlib.Path, options: FolderOptions, faults: Faults
) -> GraphParts:
    columns = Columns.parse(options.columns)
    if path.is_file():
        if path.suffix != ".npz":
            raise DataError(
                f"--dataset_dir={path}: expected a folder, or one .npz file "
                "with edges, features and labels"
            )
        columns.check()
        return node_npz.read_node_npz(path, faults)
    files = _files(path)
    published = None if {"edges", "nodes"} <= files.keys() else musae.find(path)
    used = published or files
    if used:
        _warn_unread(path, used.values())
    if published:
        return musae.read_musae(path, published, columns, faults)
    if "edges" in files:
        return table_graph.read_tables(path, files, columns, faults)
    archives = sorted(path.glob("*.npz"))
    if len(archives) == 1:
        columns.check()
        _warn_unread(path, archives)
        return node_npz.read_node_npz(archives[0], faults)
    raise DataError(
        f"--dataset_dir={path}: expected a file edges.csv (or .tsv, .txt, "
        ".parquet, .npy, .npz) beside nodes.csv, one .npz file, or the files "
        f"of MUSAE or GraphSAGE. Received: {_listing(path)}; see "
        "docs/own_graph.md"
    )


def _files(path: pathlib.Path) -> dict[str, pathlib.Path]:
    """The files of a folder by what they hold."""
    found = {}
    for part, suffixes in table_graph.FORMS.items():
        paths = [path / f"{part}{suffix}" for suffix in suffixes]
        there = [each for each in paths if each.is_file()]
        if len(there) > 1:
            names = ", ".join(each.name for each in there)
            raise DataError(
                f"--dataset_dir={path}: expected one of {names}; move the "
                "others away"
            )
        if there:
            found[part] = there[0]
    return found


def _warn_unread(path: pathlib.Path, used: Iterable[pathlib.Path]) -> None:
    """Say which files that look like a part of the graph are not one."""
    read = {each.name for each in used}
    unread = [
        name
        for name in sorted(os.listdir(path))
        if name.partition(".")[0].lower() in table_graph.FORMS
        and name not in read
    ]
    if unread:
        forms = "; ".join(
            f"{part}{', '.join(suffixes)}"
            for part, suffixes in table_graph.FORMS.items()
        )
        _LOG.warning(
            "--dataset_dir=%s: not read: %s; names that are read: %s",
            path,
            ", ".join(unread),
            forms,
        )


def _listing(path: pathlib.Path) -> str:
    names = sorted(os.listdir(path))
    shown = ", ".join(names[:10]) or "an empty folder"
    return f"{shown}, ..." if len(names) > 10 else shown
