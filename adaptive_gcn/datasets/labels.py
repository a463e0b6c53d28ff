"""A user's labels: integers, names, or a row of 0 and 1 for each node."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import numpy as np
import numpy.typing as npt

from adaptive_gcn.datasets.faults import Faults
from adaptive_gcn.datasets.graph_parts import GraphParts
from adaptive_gcn.graph import UNLABELLED

_LOG = logging.getLogger(__name__)

MISSING = ("", "-1", "-100")


@dataclasses.dataclass(frozen=True)
class Labels:
    """Labels as `Graph` wants them.

    Attributes:
        codes: [n_nodes] int64 classes, or [n_nodes, n_labels] 0 and 1; -1
            where unknown.
        names: Of the classes or labels; None to name them by number.
    """

    codes: npt.NDArray[np.int64]
    names: tuple[str, ...] | None = None

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """[n_nodes] Whether the label is known."""
        rows = self.codes.reshape(len(self.codes), -1)
        return np.asarray(rows.min(axis=1) != UNLABELLED)


def read_labels(parts: GraphParts, faults: Faults) -> Labels:
    """Understand `parts.labels`.

    Missing are: an empty text, any negative integer, not-a-number, and a row
    of which one value is missing. Texts that are all integers are integers.
    Rows of 0 and 1 that hold one 1 each are classes.
    """
    values = parts.labels
    unknown = Labels(np.full(parts.n_nodes, UNLABELLED))
    if values is None:
        faults.add(f"{parts.name}: there are no labels", "add a label column")
        return unknown
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim not in (1, 2) or len(values) != parts.n_nodes:
        faults.add(
            f"{parts.name}: labels: shape {values.shape}, graph: "
            f"{parts.n_nodes} nodes",
            "give one label, or one row of labels, a node",
        )
        return unknown
    numbers = _as_integers(values)
    if values.ndim == 2:
        return _rows(parts, numbers, faults) or unknown
    if numbers is None:
        return _named(parts, values, faults) or unknown
    if parts.class_names is not None:
        return _within(parts, numbers, faults)
    if np.all(numbers < 0):
        faults.add(f"{parts.name}: no node has a label", "label some nodes")
    return Labels(numbers)


def _as_integers(values: npt.NDArray[Any]) -> npt.NDArray[np.int64] | None:
    """The values as integers, -1 where missing; None if not all are one."""
    if values.dtype.kind == "U":
        filled = np.where(np.isin(values, MISSING), "-1", values)
        try:
            numbers = filled.astype(np.int64)
        except (ValueError, OverflowError):
            return None
        # As text, "07" is not "7".
        return numbers if np.array_equal(numbers.astype("U"), filled) else None
    if values.dtype.kind == "f":
        filled = np.where(np.isnan(values), -1.0, values)
        whole = np.all(np.abs(filled) < 2**53) and np.all(filled % 1 == 0)
        return filled.astype(np.int64) if whole else None
    if values.dtype.kind in "iub":
        return values.astype(np.int64)
    return None


def _named(
    parts: GraphParts, values: npt.NDArray[Any], faults: Faults
) -> Labels | None:
    if values.dtype.kind != "U":
        faults.add(
            f"{parts.name}: labels: expected integers or texts, received "
            f"{values.dtype}",
            "number or name the classes",
        )
        return None
    known = ~np.isin(values, MISSING)
    names, classes = np.unique(values[known], return_inverse=True)
    codes = np.full(len(values), UNLABELLED, np.int64)
    codes[known] = classes
    return Labels(codes, tuple(names.tolist()))


def _within(
    parts: GraphParts, numbers: npt.NDArray[np.int64], faults: Faults
) -> Labels:
    names = parts.class_names or ()
    bad = np.flatnonzero(numbers >= len(names))
    if bad.size:
        faults.add(
            f"{parts.name}: {bad.size} labels are outside 0..{len(names) - 1}, "
            "the named classes",
            "correct these, or leave the names out",
            bad,
            lambda v: f"{parts.node_place(v)}: {numbers[v]}",
        )
    return Labels(np.maximum(numbers, UNLABELLED), names)


def _rows(
    parts: GraphParts, numbers: npt.NDArray[np.int64] | None, faults: Faults
) -> Labels | None:
    problem = f"{parts.name}: multi-label targets"
    if numbers is None:
        faults.add(f"{problem} that are not 0 or 1", "use 0 and 1")
        return None
    bad = np.flatnonzero((numbers > 1).any(axis=1))
    if bad.size:
        faults.add(
            f"{problem}: {bad.size} rows hold other values than 0 and 1",
            "use 0 and 1; leave the row empty, or -1, where unknown",
            bad,
            lambda v: f"{parts.node_place(v)}: {numbers[v].max()}",
        )
        return None
    known = np.asarray((numbers >= 0).all(axis=1))
    if np.any(known) and np.all(numbers[known].sum(axis=1) == 1):
        _LOG.warning(
            "%s: one 1 in each row of labels: they are read as classes",
            parts.name,
        )
        codes = np.where(known, numbers.argmax(axis=1), UNLABELLED)
        return Labels(codes, _names(parts, numbers.shape[1]))
    codes = np.where(known[:, None], numbers, UNLABELLED)
    return Labels(codes, _names(parts, numbers.shape[1]))


def _names(parts: GraphParts, n: int) -> tuple[str, ...]:
    names = parts.class_names
    return names if names is not None else tuple(map(str, range(n)))
