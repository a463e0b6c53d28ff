"""Data sets by name, as `Graph`.

checksums          what the published files are
download           finding or fetching them
restricted_pickle  reading pickles without executing them
planetoid          Cora, Citeseer, Pubmed
graphsage          the JSON files of GraphSAGE
reddit             Reddit, in each of its three published forms
folder             a user's own graph; its parts:
  node_npz           one .npz file
  musae              the files of MUSAE
  table_graph        tables and arrays: tables, columns, edge_files, node_files
  graph_parts        what these make of the files
  assemble           parts -> `Graph`, or all their faults: faults, labels
splits             splits that are made
data_warnings      what readers warned of, for the store
synthetic          a generated graph, needs no files
reddit_like        a generated graph of the size of Reddit
store              any graph as memory-mapped files
writers            any graph in the formats of Reddit
builders           the same as TensorFlow Datasets (imports TensorFlow)
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from adaptive_gcn.datasets import download, reddit, splits, store
from adaptive_gcn.datasets.folder_options import FolderOptions
from adaptive_gcn.datasets.planetoid import load_planetoid
from adaptive_gcn.datasets.reddit_like import (
    RedditLikeConfig,
    reddit_like_graph,
)
from adaptive_gcn.datasets.synthetic import SyntheticConfig, synthetic_graph
from adaptive_gcn.graph import Graph
from adaptive_gcn.split_rule import SplitRule

_LOG = logging.getLogger(__name__)

NAMES = (
    "synthetic",
    "cora",
    "citeseer",
    "pubmed",
    "reddit",
    "reddit_like",
    "folder",
)


def load(
    name: str,
    data_dir: str | os.PathLike[str] = "",
    split: str = "fastgcn",
    synthetic: SyntheticConfig | None = None,
    reddit_format: str = "auto",
    reddit_like: RedditLikeConfig | None = None,
    store_dir: str | os.PathLike[str] = "",
    link_ends: str = "auto",
    dataset_dir: str | os.PathLike[str] = "",
    split_seed: int = 0,
    folder: FolderOptions | None = None,
) -> Graph:
    """Load a data set and log its statistics in one line.

    "reddit" and "reddit_like" are converted once into a store, and come
    memory-mapped; the others come in memory.

    Args:
        name: One of `NAMES`, in any case.
        data_dir: Where the files are, see `download.data_root`; not used for
            generated graphs.
        split: What `SplitRule.parse` takes. "fastgcn" and "planetoid" are for
            Planetoid data sets, see `planetoid.read_planetoid`; others have
            the split that comes with them, unless it is "random:A/B/C".
        synthetic: What to generate for "synthetic". Defaults to
            `SyntheticConfig()`.
        reddit_format: One of `reddit.FORMATS`.
        reddit_like: What to generate for "reddit_like". Defaults to
            `RedditLikeConfig()`.
        store_dir: Where the stores are, see `download.store_root`.
        link_ends: One of `link_ends.ENDS`, for "reddit" in GraphSAGE's form.
        dataset_dir: The folder or file of "folder", see `folder.read_folder`.
        split_seed: Seed of a random split.
        folder: How to read "folder"; its split is `split`.

    Raises:
        ValueError: If `name` or `split` is unknown, or a file is not usable.
        DataNotFoundError: If files are missing and cannot be fetched.
        OSError: If a store cannot be written.
    """
    key = name.lower()
    if key not in NAMES:
        raise ValueError(
            f"`name` of the data set must be one of {NAMES}. Received: {name!r}"
        )
    rule = SplitRule.parse(split)
    if key == "folder":
        options = dataclasses.replace(
            folder or FolderOptions(), split=rule, split_seed=split_seed
        )
        # Needs pyarrow, whose memory other data sets do without.
        from adaptive_gcn.datasets.folder import read_folder

        graph = read_folder(dataset_dir, options)
    elif key == "synthetic":
        graph = synthetic_graph(synthetic or SyntheticConfig())
    elif key == "reddit":
        graph = _stored_reddit(data_dir, reddit_format, store_dir, link_ends)
    elif key == "reddit_like":
        graph = _stored_reddit_like(
            reddit_like or RedditLikeConfig(), store_dir
        )
    else:
        kind = "planetoid" if rule.kind == "planetoid" else "fastgcn"
        graph = load_planetoid(key, data_dir, kind)
    if key != "folder":
        graph = splits.with_rule(graph, rule, split_seed)
    _log_statistics(graph)
    return graph


def _stored_reddit(
    data_dir: Any, file_format: str, store_dir: Any, link_ends: str
) -> Graph:
    folder = download.data_root(data_dir)
    # Files that changed have another size or time, and get another store.
    files = [
        [os.path.abspath(path), path.stat().st_size, path.stat().st_mtime_ns]
        for path in reddit.files_of(folder, file_format)
    ]
    return _stored(
        "reddit",
        {"files": files, "link_ends": link_ends},
        store_dir,
        lambda: reddit.read_reddit(folder, file_format, link_ends),
    )


def _stored_reddit_like(config: RedditLikeConfig, store_dir: Any) -> Graph:
    def make() -> Graph:
        graph = reddit_like_graph(config)
        return graph.with_features(reddit.log_counts(graph.features))

    source = {"reddit_like": dataclasses.asdict(config)}
    return _stored("reddit_like", source, store_dir, make)


def _stored(
    name: str, source: Any, store_dir: Any, make: Callable[[], Graph]
) -> Graph:
    """The graph made from `source`, from its store."""
    path = download.store_root(store_dir) / (
        f"{name}-{store.fingerprint(source)}"
    )
    _LOG.info("%s: store %s", name, path)
    return store.cached_store(path, make, source)


def _log_statistics(graph: Graph) -> None:
    counts = graph.statistics().items()
    line = ", ".join(f"{key.replace('_', ' ')} {n}" for key, n in counts)
    _LOG.info("%s: %s", graph.name, line)
    shown = graph.labels[graph.train_nodes]
    present = np.flatnonzero(shown.any(axis=0)) if graph.multi_label else shown
    absent = np.setdiff1d(np.arange(graph.n_classes), present)
    if absent.size:
        _LOG.warning(
            "%s: no training example of class %s; it cannot be learnt",
            graph.name,
            ", ".join(graph.class_names[each] for each in absent),
        )
