"""What tells a graph from another one, part by part."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from scipy import sparse

from adaptive_gcn.features import row_blocks
from adaptive_gcn.graph import Graph


def digest(graph: Graph) -> dict[str, int]:
    """CRC-32 of each part of a graph; passes over all of it.

    Weights are part of the edges. Names of nodes and classes bear on no
    number and are left out.

    Returns:
        Checksums of `edges`, `features`, `labels` and `split`.
    """
    return {
        "edges": _of_matrix(graph.adjacency),
        "features": _of_features(graph.features),
        "labels": _of_arrays(graph.labels),
        "split": _of_arrays(
            graph.train_nodes, graph.val_nodes, graph.test_nodes
        ),
    }


def of_selection(graph: Graph) -> int:
    """CRC-32 of the nodes that a run learns from and is selected by.

    Their order is none of it: the same split may be written in another one.
    """
    return _of_arrays(np.sort(graph.train_nodes), np.sort(graph.val_nodes))


def _of_features(features: Any) -> int:
    if sparse.issparse(features):
        return _of_matrix(features)
    crc = 0
    for _, block in row_blocks(features):
        crc = _of_arrays(block, crc=crc)
    return crc


def _of_matrix(matrix: Any) -> int:
    return _of_arrays(matrix.indptr, matrix.indices, matrix.data)


def _of_arrays(*arrays: Any, crc: int = 0) -> int:
    for array in arrays:
        crc = zlib.crc32(repr((array.shape, array.dtype.str)).encode(), crc)
        crc = zlib.crc32(np.ascontiguousarray(array).data, crc)
    return crc
