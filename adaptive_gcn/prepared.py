"""Features as the network takes them, kept on disk where the graph is.

What is computed from a graph in memory stays in memory. Of a graph that is
memory-mapped from a store, the result is written beside the store, once, and
memory-mapped in turn.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from scipy import sparse

from adaptive_gcn import features
from adaptive_gcn.datasets import store
from adaptive_gcn.features import Features
from adaptive_gcn.graph import Graph

_LOG = logging.getLogger(__name__)


def scaled(graph: Graph, scaling: str) -> Features:
    """The features of `graph`, scaled; see `features.scale_features`.

    Args:
        graph: The whole graph, with its split.
        scaling: One of `features.SCALINGS`.

    Raises:
        DataError: If these features cannot be scaled so.
        OSError: If the result cannot be written beside the store.
    """
    kept, nodes = graph.features, graph.train_nodes
    if graph.store is None or scaling == "raw":
        return features.scale_features(kept, scaling, nodes)
    stays_sparse = sparse.issparse(kept) and scaling != "standard"
    array = store.derived_array(
        graph.store,
        f"features-{scaling}",
        (kept.nnz,) if stays_sparse else kept.shape,
        lambda: features.scaled_blocks(kept, scaling, nodes),
    )
    if stays_sparse:
        parts = (array, kept.indices, kept.indptr)
        return sparse.csr_array(parts, kept.shape)
    return array


def aggregated(graph: Graph, norm_adjacency: Any, settings: str) -> Features:
    """A^X of `graph`, for a network whose bottom layer is precomputed.

    Args:
        graph: A graph with scaled features X, or the training graph of one.
        norm_adjacency: [n_nodes, n_nodes] CSR float32, A^.
        settings: How both were made: the name of the result on disk.

    Raises:
        OSError: If the result cannot be written beside the store.
    """
    kept = graph.features
    if graph.store is None or sparse.issparse(kept):
        return features.aggregate_features(norm_adjacency, kept)

    def blocks() -> Iterator[features.Block]:
        _LOG.info("%s: computing A^X, once for these settings", graph.name)
        return features.aggregated_blocks(norm_adjacency, kept)

    return store.derived_array(
        graph.store, f"aggregated-{settings}", kept.shape, blocks
    )
