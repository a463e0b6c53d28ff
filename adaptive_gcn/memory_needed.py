"""How much memory a run will take, said before it is taken."""

from __future__ import annotations

import logging
from pathlib import Path

from scipy import sparse

from adaptive_gcn.config import Config
from adaptive_gcn.graph import Graph

_LOG = logging.getLogger(__name__)

_GIB = 2**30
_FLOAT = 4
_ENTRY = 8  # Column and value of a matrix.
_BLOCK_ENTRY = 20  # Two int64 coordinates and a value.
_FRAMEWORK = 0.6 * _GIB  # TensorFlow and the compiled loops.
_WEIGHTS = 7  # Weights, gradients, two moments, average, best, checkpoint.
_BATCH = 4  # A batch, the next one, and what is computed of it.

# Limit and use of the group of processes, by version of control groups.
_GROUPS = (
    ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current"),
    (
        "sys/fs/cgroup/memory/memory.limit_in_bytes",
        "sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)


def announce(config: Config, graph: Graph) -> None:
    """Log the estimate beside what is free; a warning where it is more."""
    needed, free = estimate(config, graph), available()
    if free is None:
        _LOG.info("memory: about %.1f GiB needed", needed / _GIB)
    elif needed <= free:
        _LOG.info(
            "memory: about %.1f GiB needed, %.1f GiB free",
            needed / _GIB,
            free / _GIB,
        )
    else:
        _LOG.warning(
            "memory: about %.1f GiB needed, but only %.1f GiB free: the run "
            "may be killed. Lower --hidden_units, --batch_size, "
            "--samples_per_layer or --block_entries, or convert the data set "
            "with --mode=convert --to=store, which leaves features on disk",
            needed / _GIB,
            free / _GIB,
        )


def estimate(config: Config, graph: Graph) -> int:
    """Bytes that a run on `graph` takes beside the graph itself.

    A sum of the large parts, without the entries that `two_hop` adds.
    """
    n_nodes, widths = graph.n_nodes, [*config.hidden_units, graph.n_classes]
    entries = 2 * (graph.adjacency.nnz + n_nodes)  # Whole and training graph.
    tables = 2 * n_nodes * max(widths) * _FLOAT
    blocks = 2 * min(config.block_entries, entries) * _BLOCK_ENTRY
    inputs = [graph.n_features, *widths[:-1]]
    weights = sum(a * b for a, b in zip(inputs, widths, strict=True)) * _FLOAT
    return int(
        _FRAMEWORK
        + entries * _ENTRY
        + _derived_features(config, graph)
        + max(tables + blocks, _BATCH * _batch(config, graph))
        + _WEIGHTS * weights
    )


def _derived_features(config: Config, graph: Graph) -> int:
    """Of A^X; what is derived from a store is left on disk."""
    if not config.precompute or graph.store is not None:
        return 0
    return 2 * graph.n_nodes * graph.n_features * _FLOAT


def _batch(config: Config, graph: Graph) -> int:
    """Features of its levels, and hidden units at the widest."""
    levels = [config.batch_size, *reversed(config.samples)]
    if config.method == "full":
        levels = [len(graph.train_nodes)] * len(levels)
    if config.method == "node_wise":
        levels = [
            config.batch_size * config.n_neighbors**depth
            for depth in range(len(levels))
        ]
    nodes = sum(min(each, len(graph.train_nodes)) for each in levels)
    width = graph.n_features
    if sparse.issparse(graph.features):
        width = 2 * graph.features.nnz // graph.n_nodes
    return nodes * (width + max(config.hidden_units)) * _FLOAT


def available(root: Path = Path("/")) -> int | None:
    """Bytes that can still be had here, or None if the system says nothing.

    Args:
        root: Where `proc` and `sys` are.
    """
    found = [
        _free_of_machine(root),
        *(_free_of_group(root, g) for g in _GROUPS),
    ]
    known = [each for each in found if each is not None]
    return min(known) if known else None


def _free_of_machine(root: Path) -> int | None:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return None


def _free_of_group(root: Path, names: tuple[str, str]) -> int | None:
    try:
        limit, used = ((root / name).read_text().strip() for name in names)
        return max(0, int(limit) - int(used))
    except (OSError, ValueError):  # No such group, or the limit is "max".
        return None
