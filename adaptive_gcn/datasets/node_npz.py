"""Node classification in one .npz file, in the forms that people share.

    adj_data, adj_indices, adj_indptr, adj_shape, the same with attr_ for the
    features (or a dense attr_matrix), labels, class_names
    edges [n_edges, 2], node_features, node_labels, train_masks, val_masks,
    test_masks [n_splits, n_nodes]

and mixtures of these, under the names of `_NAMES`. Nothing is unpickled:
arrays of objects, as lists of node names often are, are left out.
"""

from __future__ import annotations

import logging
import pathlib
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from adaptive_gcn.datasets.faults import Faults
from adaptive_gcn.datasets.graph_parts import PARTS, GraphParts
from adaptive_gcn.datasets.labels import exceeds_int64
from adaptive_gcn.datasets.sparse_npz import Parts, open_npz, read_matrix
from adaptive_gcn.errors import DataError

_LOG = logging.getLogger(__name__)

_NAMES = {
    "edges": ("edges", "edge_index", "edge_list"),
    "weights": ("edge_weight", "edge_weights"),
    "adjacency": ("adj_", "adj_matrix.", "adjacency_"),
    "features": ("node_features", "features", "feats", "x", "attr_matrix"),
    "sparse features": ("attr_", "attr_matrix.", "features_"),
    "labels": ("node_labels", "labels", "label", "y"),
    "class names": ("class_names",),
    "ids": ("node_ids", "node_names"),
}
_MASKS = (
    ("train_masks", "train_mask"),
    ("val_masks", "val_mask", "valid_mask"),
    ("test_masks", "test_mask"),
)


def read_node_npz(path: pathlib.Path, faults: Faults) -> GraphParts:
    """Read one file.

    Raises:
        OSError: If it cannot be read.
        DataError: If it is damaged, or none of the forms above.
    """
    with open_npz(path) as archive:
        sources, targets, weights, n_nodes = _edges(archive)
        features = _features(archive)
        labels = _optional(archive, "labels", "iufbU")
        for each in (features, labels):
            if n_nodes is None and each is not None and each.ndim:
                n_nodes = each.shape[0]
        if n_nodes is None:
            raise DataError(
                f"{path}: neither features nor labels nor adj_shape tell the "
                "number of nodes; add one of these"
            )
        return GraphParts(
            path.stem,
            n_nodes,
            sources,
            targets,
            weights,
            features,
            labels,
            class_names=_class_names(archive),
            splits=_splits(archive, n_nodes, faults),
            node_ids=_ids(archive, n_nodes, faults),
        )


def _class_names(archive: Parts) -> tuple[str, ...] | None:
    names = _optional(archive, "class names", "U")
    if names is None:
        return None
    if names.ndim != 1 or len(np.unique(names)) != len(names):
        raise DataError(
            f"{archive.path}: class_names: expected a vector of distinct "
            f"names. Received: {str(names.tolist())[:60]}"
        )
    return tuple(names.tolist())


def _ids(
    archive: Parts, n_nodes: int, faults: Faults
) -> npt.NDArray[Any] | None:
    """Integers of 64 bits with sign, or texts."""
    ids = _optional(archive, "ids", "iuU")
    if ids is None:
        return None
    if ids.shape != (n_nodes,):
        raise DataError(
            f"{archive.path}: ids: expected one for each of {n_nodes} nodes. "
            f"Received: shape {ids.shape}"
        )
    if ids.dtype.kind == "U" and not np.all(ids != ""):
        raise DataError(
            f"{archive.path}: ids: node {int(np.argmax(ids == ''))} has an "
            "empty one; give it one"
        )
    _, first = np.unique(ids, return_index=True)
    repeated = np.setdiff1d(np.arange(n_nodes), first)
    if repeated.size:
        faults.add(
            f"{archive.path.name}: {repeated.size} ids repeat an earlier one",
            "give each node its own",
            repeated,
            lambda v: f"node {v}: {ids[v].item()!r}",
        )
    return ids.astype("U") if exceeds_int64(ids) else ids


def _found(archive: Parts, part: str) -> str | None:
    return next((key for key in _NAMES[part] if key in archive), None)


def _optional(archive: Parts, part: str, kinds: str) -> npt.NDArray[Any] | None:
    """An array under one of its names, if it is there and of these kinds."""
    key = _found(archive, part)
    if key is None:
        return None
    if archive.holds_objects(key):
        _LOG.warning(
            "%s: %s is an array of pickled objects and is left out; save it "
            "as an array of texts or numbers",
            archive.path,
            key,
        )
        return None
    array = archive.raw(key)
    if array.dtype.kind not in kinds:
        raise DataError(
            f"{archive.path}: array {key!r}: expected a type of kind "
            f"{kinds!r}. Received: {array.dtype}"
        )
    return array


def _edges(archive: Parts) -> tuple[Any, Any, Any, int | None]:
    """Sources, targets, weights or None, number of nodes if it is known."""
    for prefix in _NAMES["adjacency"]:
        if f"{prefix}indptr" in archive:
            matrix = read_matrix(archive, prefix)
            if matrix.shape[0] != matrix.shape[1]:
                raise DataError(
                    f"{archive.path}: expected a square adjacency. Received: "
                    f"shape {matrix.shape}"
                )
            weights = None if np.all(matrix.data == 1) else matrix.data
            return matrix.row, matrix.col, weights, int(matrix.shape[0])
    edges = _optional(archive, "edges", "iu")
    if edges is None:
        raise DataError(
            f"{archive.path}: expected edges, or adj_indptr and adj_indices. "
            f"Received: {', '.join(archive)}"
        )
    if edges.ndim != 2 or 2 not in edges.shape:
        raise DataError(
            f"{archive.path}: edges: expected the shape [n_edges, 2]. "
            f"Received: {edges.shape}"
        )
    # PyG's edge_index has a row of sources and one of targets.
    is_rows = len(edges) == 2 and "edge_index" in archive
    is_rows = is_rows and "edges" not in archive
    pairs = edges if is_rows or edges.shape[1] != 2 else edges.T
    return pairs[0], pairs[1], _optional(archive, "weights", "fiub"), None


def _features(archive: Parts) -> Any:
    for prefix in _NAMES["sparse features"]:
        if f"{prefix}indptr" in archive:
            return sparse.csr_array(read_matrix(archive, prefix))
    return _optional(archive, "features", "fiub")


def _splits(
    archive: Parts, n_nodes: int, faults: Faults
) -> npt.NDArray[np.int8] | None:
    masks = []
    for names in _MASKS:
        key = next((name for name in names if name in archive), None)
        if key is not None:
            masks.append(_mask(archive, key, n_nodes))
    if not masks:
        return None
    if len(masks) != len(PARTS) or len({each.shape for each in masks}) != 1:
        raise DataError(
            f"{archive.path}: expected train_masks, val_masks and test_masks "
            "of one shape. Received: "
            f"{[each.shape for each in masks]}"
        )
    return codes_of_masks(masks, archive.path.name, faults)


def _mask(archive: Parts, key: str, n_nodes: int) -> npt.NDArray[np.bool_]:
    """[n_splits, n_nodes]."""
    mask = np.atleast_2d(archive.raw(key))
    if mask.shape[1] != n_nodes and mask.shape[0] == n_nodes:
        mask = mask.T
    if mask.dtype.kind not in "biu" or mask.shape[1:] != (n_nodes,):
        raise DataError(
            f"{archive.path}: {key}: expected true or false for each of "
            f"{n_nodes} nodes. Received: shape {mask.shape}, {mask.dtype}"
        )
    odd = np.argwhere((mask != 0) & (mask != 1))
    if odd.size:
        raise DataError(
            f"{archive.path}: {key}: expected 0 or 1 for each of {n_nodes} "
            f"nodes, no numbers of nodes. Received: {mask[tuple(odd[0])]} for "
            f"node {odd[0][1]}"
        )
    return mask.astype(bool)


def codes_of_masks(
    masks: list[npt.NDArray[np.bool_]], name: str, faults: Faults
) -> npt.NDArray[np.int8]:
    """[n_splits, n_nodes] 0 or 1 + the part, of one mask for each part."""
    stacked = np.stack(masks)
    several = np.argwhere(stacked.sum(axis=0) > 1)
    if several.size:
        faults.add(
            f"{name}: {len(several)} nodes are in two parts of a split",
            "leave each in one",
            np.arange(len(several)),
            lambda i: f"node {several[i][1]} of split {several[i][0]}",
        )
    numbers = np.arange(1, len(masks) + 1, dtype=np.int8)[:, None, None]
    return np.asarray((stacked * numbers).max(axis=0))
