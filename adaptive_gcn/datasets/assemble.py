"""From what was read of a user's files to a `Graph`, or to all its faults."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from adaptive_gcn.adjacency import MOST_NODES
from adaptive_gcn.datasets import splits
from adaptive_gcn.datasets.faults import Faults
from adaptive_gcn.datasets.graph_parts import PARTS, GraphParts
from adaptive_gcn.datasets.labels import Labels, read_labels
from adaptive_gcn.features import row_blocks
from adaptive_gcn.graph import Graph, GraphError
from adaptive_gcn.split_rule import SplitRule

_LOG = logging.getLogger(__name__)

MISSING_FEATURES = ("refuse", "constant", "degree")


def assemble(
    parts: GraphParts,
    rule: SplitRule,
    split_seed: int,
    missing_features: str,
    faults: Faults,
) -> Graph:
    """Check all parts, then make the graph of them.

    Args:
        parts: What was read.
        rule: A given or random split.
        split_seed: Seed of a random one.
        missing_features: One of `MISSING_FEATURES`.
        faults: What was found so far.

    Raises:
        FaultyDataError: With every fault, if there is one.
    """
    _check_size(parts, faults)
    _check_ends(parts, faults)
    _check_weights(parts, faults)
    _check_features(parts, missing_features, faults)
    labels = read_labels(parts, faults)
    codes = _chosen_split(parts, rule, labels, faults)
    faults.check()
    _leave_out_zeros(parts)
    try:
        graph = _graph_of(parts, labels, codes)
    except GraphError as error:
        _check_one_weight(parts, faults)
        faults.check()
        faults.add(f"{parts.name}: {error}", "mend it")
        faults.check()
    if parts.features is None and missing_features == "degree":
        graph = graph.with_features(degree_features(graph))
    return splits.with_rule(graph, rule, split_seed)


def _graph_of(
    parts: GraphParts, labels: Labels, codes: npt.NDArray[np.int8]
) -> Graph:
    features = parts.features
    if features is None:
        features = np.ones((parts.n_nodes, 1), np.float32)
    train, val, test = (np.flatnonzero(codes == code) for code in (1, 2, 3))
    return Graph.from_edges(
        (parts.sources, parts.targets),
        features,
        labels.codes,
        train,
        val,
        test,
        class_names=labels.names,
        name=parts.name,
        node_ids=parts.node_ids,
        weights=parts.weights,
    )


def degree_features(graph: Graph) -> npt.NDArray[np.float32]:
    """[n_nodes, 2] 1 and log(1 + number of neighbours)."""
    degrees = np.diff(graph.adjacency.indptr)
    columns = [np.ones(graph.n_nodes), np.log1p(degrees)]
    return np.stack(columns, axis=1).astype(np.float32)


def _check_size(parts: GraphParts, faults: Faults) -> None:
    if not 0 < parts.n_nodes <= MOST_NODES:
        faults.add(
            f"{parts.name}: {parts.n_nodes} nodes; expected 1 to {MOST_NODES}, "
            "as node numbers are kept in 32 bits",
            "take a part of the graph" if parts.n_nodes else "add nodes",
        )
        faults.check()


def _check_ends(parts: GraphParts, faults: Faults) -> None:
    bad = np.zeros(len(parts.sources), bool)
    for ends in (parts.sources, parts.targets):
        bad |= (ends < 0) | (ends >= parts.n_nodes)
    if not bad.any():
        return

    def describe(k: int) -> str:
        ends = f"{parts.sources[k]}, {parts.targets[k]}"
        return f"{parts.entry_place(k)}: {ends}"

    faults.add(
        f"{parts.name}: {np.count_nonzero(bad)} edges have an end outside the "
        f"nodes 0..{parts.n_nodes - 1}",
        "correct or drop these edges",
        np.flatnonzero(bad),
        describe,
    )


def _check_weights(parts: GraphParts, faults: Faults) -> None:
    weights = parts.weights
    if weights is None:
        return
    if weights.dtype.kind not in "fiub" or weights.shape != parts.sources.shape:
        faults.add(
            f"{parts.name}: weights: expected {len(parts.sources)} numbers, "
            f"received shape {weights.shape}, {weights.dtype}",
            "give one number an edge",
        )
        return
    with np.errstate(over="ignore", under="ignore"):
        parts.weights = kept = weights.astype(np.float32)
    is_good = np.isfinite(weights) & (weights >= 0)
    lost = is_good & (~np.isfinite(kept) | ((kept == 0) & (weights != 0)))
    _add_weights(
        parts, weights, ~is_good, "that is negative or not finite", faults
    )
    _add_weights(
        parts, weights, lost, "that 32 bits cannot hold; scale them", faults
    )


def _add_weights(
    parts: GraphParts,
    weights: npt.NDArray[Any],
    bad: npt.NDArray[np.bool_],
    problem: str,
    faults: Faults,
) -> None:
    if bad.any():
        faults.add(
            f"{parts.name}: {np.count_nonzero(bad)} edges have a weight "
            f"{problem}",
            "expected weights above 0 (0: no edge); mend or drop these edges",
            np.flatnonzero(bad),
            lambda k: f"{parts.entry_place(k)}: {weights[k]:g}",
        )


def _check_one_weight(parts: GraphParts, faults: Faults) -> None:
    weights = parts.weights
    if weights is None:
        return
    ends = np.sort([parts.sources, parts.targets], axis=0).astype(np.int64)
    keys = ends[0] * parts.n_nodes + ends[1]
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    before = first[group]
    bad = np.flatnonzero((weights != weights[before]) & (ends[0] != ends[1]))
    if bad.size:
        faults.add(
            f"{parts.name}: {bad.size} entries have another weight than an "
            "earlier entry of the same edge, in this or the other direction",
            "give each edge one weight, as their sum",
            bad,
            lambda k: (
                f"{parts.entry_place(k)}: {weights[k]:g}, before it "
                f"{weights[before[k]]:g}"
            ),
        )


def _leave_out_zeros(parts: GraphParts) -> None:
    if parts.weights is None:
        return
    kept = parts.weights > 0
    n_zero = len(kept) - np.count_nonzero(kept)
    if n_zero:
        _LOG.warning(
            "%s: %d edges have weight 0 and are left out, the first is %s",
            parts.name,
            n_zero,
            parts.entry_place(int(np.argmin(kept))),
        )
        place, places = parts.entry_place, np.flatnonzero(kept)
        parts.entry_place = lambda k: place(int(places[k]))
        parts.sources, parts.targets, parts.weights = (
            each[kept] for each in (parts.sources, parts.targets, parts.weights)
        )


def _check_features(
    parts: GraphParts, missing_features: str, faults: Faults
) -> None:
    features = parts.features
    if features is None:
        if missing_features == "refuse":
            faults.add(
                f"{parts.name}: there are no features",
                "give them, or --missing_features=constant|degree",
            )
        return
    if features.ndim != 2 or features.dtype.kind not in "fiub":
        faults.add(
            f"{parts.name}: features: expected a matrix of numbers, received "
            f"shape {features.shape}, {features.dtype}",
            "give one row of numbers a node",
        )
    elif features.shape[0] != parts.n_nodes:
        faults.add(
            f"{parts.name}: features: {features.shape[0]} rows, graph: "
            f"{parts.n_nodes} nodes",
            "give one row a node, in the order of the nodes",
        )
    elif not features.shape[1]:
        faults.add(
            f"{parts.name}: features: there are 0 a node",
            "give them, or drop what is empty",
        )
    elif features.dtype.kind == "f":
        _check_finite(parts, features, faults)


def _check_finite(parts: GraphParts, features: Any, faults: Faults) -> None:
    if sparse.issparse(features):
        parts.features = features = sparse.csr_array(features)
    rows: list[npt.NDArray[Any]] = []
    columns: list[npt.NDArray[Any]] = []
    for start, block in row_blocks(features):
        row, column = _not_finite(block)
        rows.append(start + row)
        columns.append(column)
    row, column = np.concatenate(rows), np.concatenate(columns)
    if row.size:
        faults.add(
            f"{parts.name}: {row.size} feature values are missing or not "
            "finite in 32 bits",
            "fill, scale or drop these",
            range(row.size),
            lambda i: (
                f"{parts.node_place(int(row[i]))}, feature {column[i]} (from "
                f"0): {features[row[i], column[i]]:g}"
            ),
        )


def _not_finite(block: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Row and column of each value that is not finite."""
    values = block.data if sparse.issparse(block) else block
    with np.errstate(over="ignore"):
        bad = np.flatnonzero(~np.isfinite(values.astype(np.float32)))
    if sparse.issparse(block):
        rows = np.searchsorted(block.indptr, bad, "right") - 1
        return rows, block.indices[bad]
    return bad // block.shape[1], bad % block.shape[1]


def _chosen_split(
    parts: GraphParts, rule: SplitRule, labels: Labels, faults: Faults
) -> npt.NDArray[np.int8]:
    """[n_nodes] 0 for no part, else 1 + a place in `PARTS`."""
    none = np.zeros(parts.n_nodes, np.int8)
    if rule.kind == "random":
        return none
    n_splits = 0 if parts.splits is None else len(parts.splits)
    if rule.index >= n_splits or parts.splits is None:
        faults.add(
            f"{parts.name}: --split=given:{rule.index}: the files have "
            f"{n_splits} splits",
            "give one, or --split=random:0.6/0.2/0.2"
            if not n_splits
            else f"use --split=given:0 to given:{n_splits - 1}",
        )
        return none
    if parts.splits.shape[1] != parts.n_nodes:
        faults.add(
            f"{parts.name}: split: {parts.splits.shape[1]} rows, graph: "
            f"{parts.n_nodes} nodes",
            "give one row a node, in the order of the nodes",
        )
        return none
    if n_splits > 1:
        _LOG.info(
            "%s: split %d of %d, see --split=given:K",
            parts.name,
            rule.index,
            n_splits,
        )
    codes: npt.NDArray[np.int8] = parts.splits[rule.index]
    unknown = np.flatnonzero((codes > 0) & ~labels.known)
    if unknown.size and labels.known.any():
        faults.add(
            f"{parts.name}: {unknown.size} nodes of the split have no label",
            "take them out of the split, or label them",
            unknown,
            lambda v: f"{parts.node_place(v)} ({PARTS[codes[v] - 1]})",
        )
    return codes
