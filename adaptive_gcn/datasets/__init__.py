"""Data sets by name, as `Graph`.

checksums          what the published files are
download           finding or fetching them
restricted_pickle  reading pickles without executing them
planetoid          Cora, Citeseer, Pubmed
synthetic          a generated graph, needs no files
builders           the same as TensorFlow Datasets (imports TensorFlow)
"""

from __future__ import annotations

import logging
import os

import numpy as np

from adaptive_gcn.datasets.planetoid import load_planetoid
from adaptive_gcn.datasets.synthetic import SyntheticConfig, synthetic_graph
from adaptive_gcn.graph import Graph

_LOG = logging.getLogger(__name__)

NAMES = ("synthetic", "cora", "citeseer", "pubmed")


def load(
    name: str,
    data_dir: str | os.PathLike[str] = "",
    split: str = "fastgcn",
    synthetic: SyntheticConfig | None = None,
) -> Graph:
    """Load a data set and log its statistics in one line.

    Args:
        name: One of `NAMES`, in any case.
        data_dir: Where the files are, see `download.locate`; not used for
            "synthetic".
        split: "fastgcn" or "planetoid", see `planetoid.read_planetoid`; not
            used for "synthetic".
        synthetic: What to generate for "synthetic". Defaults to
            `SyntheticConfig()`.

    Raises:
        ValueError: If `name` or `split` is unknown, or a file is not usable.
        DataNotFoundError: If files are missing and cannot be fetched.
    """
    key = name.lower()
    if key not in NAMES:
        raise ValueError(
            f"`name` of the data set must be one of {NAMES}. Received: {name!r}"
        )
    if key == "synthetic":
        graph = synthetic_graph(synthetic or SyntheticConfig())
    else:
        graph = load_planetoid(key, data_dir, split)
    _log_statistics(graph)
    return graph


def _log_statistics(graph: Graph) -> None:
    counts = graph.statistics().items()
    line = ", ".join(f"{key.replace('_', ' ')} {n}" for key, n in counts)
    _LOG.info("%s: %s", graph.name, line)
    present = np.unique(graph.labels[graph.train_nodes])
    absent = np.setdiff1d(np.arange(graph.n_classes), present)
    if absent.size:
        _LOG.warning(
            "%s: no training example of class %s; it cannot be learnt",
            graph.name,
            ", ".join(graph.class_names[each] for each in absent),
        )
