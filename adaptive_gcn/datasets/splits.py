"""Splits that are made, for graphs that come without one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from adaptive_gcn.graph import Graph
from adaptive_gcn.split_rule import SplitRule

_Ids = npt.NDArray[np.int64]


def with_rule(graph: Graph, rule: SplitRule, seed: int) -> Graph:
    """The graph with the split that a rule makes; given ones stay."""
    if rule.kind != "random":
        return graph
    known = np.flatnonzero(graph.labelled())
    labels = graph.labels[known] if not graph.multi_label else None
    parts = random_split(known, labels, rule.fractions, seed)
    return graph.with_split(*parts)


def random_split(
    nodes: _Ids,
    labels: _Ids | None,
    fractions: tuple[float, ...],
    seed: int,
) -> tuple[_Ids, ...]:
    """Draw disjoint parts of `nodes`, from each class the same fractions.

    A class is cut where the running sums of the fractions, times its size,
    round to; so a class of one node goes to the first part of half or more.

    Args:
        nodes: [n] ids.
        labels: [n] their classes; None for one cut through all.
        fractions: Of each part.
        seed: Seed of the draw.

    Returns:
        The ids of each part, ascending.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(nodes))
    if labels is None:
        groups = [order]
    else:
        order = order[np.argsort(labels[order], kind="stable")]
        groups = np.split(order, np.cumsum(np.bincount(labels))[:-1])
    ends = np.cumsum(fractions)
    parts: list[list[_Ids]] = [[] for _ in fractions]
    for group in groups:
        bounds = np.floor(ends * len(group) + 0.5).astype(np.int64)
        for part, piece in zip(
            parts, np.split(group, bounds)[:-1], strict=True
        ):
            part.append(nodes[piece])
    return tuple(np.sort(np.concatenate(part)) for part in parts)
