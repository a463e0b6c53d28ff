"""What `--mode=check_data` says, and what training asks of a graph."""

from __future__ import annotations

import numpy as np

from adaptive_gcn import loading, memory_needed
from adaptive_gcn.config import Config, ConfigError
from adaptive_gcn.datasets import data_warnings
from adaptive_gcn.datasets.faults import FaultyDataError
from adaptive_gcn.features import check_scaling
from adaptive_gcn.graph import Graph


def check_trainable(config: Config, graph: Graph) -> None:
    """Refuse what cannot be trained on with these settings.

    Raises:
        ConfigError: If a part of the split that is needed is empty.
        DataError: If the features cannot be scaled as `features` says.
    """
    if not len(graph.val_nodes) or not len(graph.train_nodes):
        raise ConfigError(
            f"{graph.name}: expected nodes to train on and nodes to "
            f"choose an epoch by, with --select={config.select}. Received: "
            f"{len(graph.train_nodes)} training and "
            f"{len(graph.val_nodes)} validation nodes"
        )
    if config.test_curve and not len(graph.test_nodes):
        raise ConfigError(f"--test_curve: {graph.name} has no test nodes")
    check_scaling(graph.features, config.features, graph.train_nodes)


def report(config: Config) -> tuple[str, bool]:
    """Load the data set and say all that is to be known before training.

    Returns:
        Lines for people, and whether training would take the data set.
    """
    faults: list[str] = []
    lines: list[str] = []
    with data_warnings.kept() as notices:
        try:
            graph = loading.load(config)
            lines += _described(config, graph)
            check_trainable(config, graph)
        except FaultyDataError as error:
            faults = [str(each) for each in error.faults]
        except (ConfigError, *loading.USER_ERRORS) as error:
            faults = [str(error)]
    lines += [f"notice: {each}" for each in notices]
    lines += [f"fault: {each}" for each in faults]
    verdict = "training would take it"
    if faults:
        verdict = f"training would refuse it: {len(faults)} kind(s) of fault"
    return "\n".join([*lines, verdict]), not faults


def _described(config: Config, graph: Graph) -> list[str]:
    weights = graph.adjacency.data
    kind = "sparse" if hasattr(graph.features, "indptr") else "dense"
    counts = graph.statistics().items()
    return [
        f"{graph.name}:",
        *(f"  {key.replace('_', ' ')}: {n}" for key, n in counts),
        f"  labels: {'several a node' if graph.multi_label else 'one a node'}",
        f"  examples by class: {_examples(graph)}",
        f"  features: {kind}",
        f"  weights: {weights.min(initial=1):g} to {weights.max(initial=1):g}",
        f"  memory: about {_memory(config, graph)} beside the graph itself",
    ]


def _memory(config: Config, graph: Graph) -> str:
    needed = memory_needed.estimate(config, graph)
    free = memory_needed.available()
    shown = f"{needed / 2**30:.1f} GiB"
    return shown if free is None else f"{shown} of {free / 2**30:.1f} GiB free"


def _examples(graph: Graph) -> str:
    """Number of training nodes of the first classes."""
    labels = graph.labels[graph.train_nodes]
    if graph.multi_label:
        counts = labels.sum(axis=0)
    else:
        counts = np.bincount(labels, minlength=graph.n_classes)
    pairs = list(zip(graph.class_names, counts, strict=True))[:20]
    shown = [f"{name} {n}" for name, n in pairs]
    return ", ".join([*shown, "..."] if graph.n_classes > 20 else shown)
