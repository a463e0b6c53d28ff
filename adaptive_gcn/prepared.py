"""Features as the network takes them, kept on disk where the graph is.

What is computed from a graph in memory stays in memory. Of a graph that is
memory-mapped from a store, the result is written beside the store, once, and
memory-mapped in turn. Its name there tells what it was computed from: a graph
with another split, other features or other edges gets another result. What
nobody asks for any more stays until the store's folder `derived` is removed.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from adaptive_gcn import features
from adaptive_gcn.datasets import store
from adaptive_gcn.features import FeatureRows, Features, row_blocks
from adaptive_gcn.graph import Graph
from adaptive_gcn.memory_map import StoreFolder

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
    sources = (kept, nodes) if scaling == "standard" else (kept,)
    stays_sparse = sparse.issparse(kept) and scaling != "standard"
    array = store.derived_array(
        graph.store.path,
        _name(f"features-{scaling}", graph.store, sources),
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
        settings: How both were made, for people: begins the name of the
            result on disk.

    Raises:
        OSError: If the result cannot be written beside the store.
    """
    kept = graph.features
    if graph.store is None or sparse.issparse(kept):
        return features.aggregate_features(norm_adjacency, kept)

    def blocks() -> Iterator[features.Block]:
        _LOG.info("%s: computing A^X, once for these settings", graph.name)
        return features.aggregated_blocks(norm_adjacency, kept)

    name = _name(f"aggregated-{settings}", graph.store, (norm_adjacency, kept))
    return store.derived_array(graph.store.path, name, kept.shape, blocks)


def _name(start: str, folder: StoreFolder, sources: tuple[Any, ...]) -> str:
    """A name for what is computed from these matrices and vectors only."""
    identities = [_identity(each, folder) for each in sources]
    return f"{start}-{store.fingerprint([folder.crc32, identities])}"


def _identity(array: Any, folder: StoreFolder) -> list[Any]:
    """What tells an array from others, without reading it from the store."""
    if isinstance(array, FeatureRows):
        parts = [array.matrix, array.rows]
    elif sparse.issparse(array):
        parts = [array.data, array.indices, array.indptr]
    else:
        return folder.place_of(array) or _content(array)
    return [array.shape, *(_identity(part, folder) for part in parts)]


def _content(array: Any) -> list[Any]:
    """Shape, type and CRC-32 of an array that is not from the store."""
    value = 0
    for block in _blocks(array):
        value = zlib.crc32(np.ascontiguousarray(block).data, value)
    return [array.shape, array.dtype.str, value]


def _blocks(array: Any) -> Iterator[Any]:
    if array.ndim == 1:
        yield array
    else:
        yield from (block for _, block in row_blocks(array))
