"""What readers make of a user's files before anything is checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

PARTS = ("training", "validation", "test")
_SPLIT_WORDS = {
    0: ("", "none", "unused", "na", "nan"),
    1: ("train", "training"),
    2: ("val", "valid", "validation", "dev"),
    3: ("test", "testing"),
}
# 0 for none, or 1 + a place in `PARTS`.
SPLIT_CODES = {
    word: code for code, words in _SPLIT_WORDS.items() for word in words
}
_Describe = Callable[[int], str]


@dataclasses.dataclass
class GraphParts:
    """A graph as it was read: its nodes numbered, nothing else checked.

    Attributes:
        name: For messages.
        n_nodes: Number of nodes.
        sources: [n_entries] integers, numbers of nodes.
        targets: [n_entries] likewise.
        weights: [n_entries] numbers, or None for an unweighted graph.
        features: [n_nodes, n_features] numbers, dense or SciPy; or None.
        labels: [n_nodes] integers or strings, or [n_nodes, n_labels] of 0 and
            1; see `labels.read_labels`; or None.
        class_names: What the integers in `labels` are called; or None.
        splits: [n_splits, n_nodes] 0 for none, or 1 + a place in `PARTS`; or
            None.
        node_ids: [n_nodes] the user's ids; None for 0, 1, ...
        entry_place: Says where the user finds an entry.
        node_place: Says where the user finds a node.
    """

    name: str
    n_nodes: int
    sources: npt.NDArray[Any]
    targets: npt.NDArray[Any]
    weights: npt.NDArray[Any] | None = None
    features: Any = None
    labels: npt.NDArray[Any] | None = None
    class_names: tuple[str, ...] | None = None
    splits: npt.NDArray[np.int8] | None = None
    node_ids: npt.NDArray[Any] | None = None
    entry_place: _Describe = "entry {}".format
    node_place: _Describe = "node {}".format
