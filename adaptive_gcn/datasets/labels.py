"""A user's labels: integers, names, or a row of 0 and 1 for each node."""

from __future__ import annotations

import dataclasses
import logging
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from adaptive_gcn.datasets.faults import Faults
from adaptive_gcn.datasets.graph_parts import GraphParts
from adaptive_gcn.graph import UNLABELLED

_LOG = logging.getLogger(__name__)

_GAPS = ("", "NA", "NaN", "nan")
MISSING = (*_GAPS, "-1", "-100")
_LIKE_GAPS = ("na", "nan", "n/a", "<na>", "none", "null", "nat", "?", "-")
UNKNOWN = (-1, -100)
_MARKS = (*MISSING, "-1.0", "-100.0", "0", "1", "0.0", "1.0")
_WHOLE = re.compile(r"(-?[0-9]+)(\.0*)?")


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

    Missing are: an empty text, NA, not-a-number, -1, -100, and a row of which
    one value is missing. Texts that are all whole numbers are integers. Rows
    of 0 and 1 that hold one 1 each are classes.
    """
    values = parts.labels
    unknown = Labels(np.full(parts.n_nodes, UNLABELLED))
    if values is None:
        faults.add(f"{parts.name}: there are no labels", "add a label column")
        return unknown
    one_name = parts.class_names is not None and len(parts.class_names) == 1
    if values.ndim == 2 and values.shape[1] == 1 and not one_name:
        values = values[:, 0]
    if (
        values.ndim not in (1, 2)
        or len(values) != parts.n_nodes
        or not values.size
    ):
        faults.add(
            f"{parts.name}: labels: shape {values.shape}, graph: "
            f"{parts.n_nodes} nodes",
            "give one label, or one row of labels, a node",
        )
        return unknown
    if values.dtype.kind == "U":
        values = _plain(parts, values)
    numbers = _as_integers(values)
    if numbers is not None:
        _check_negative(parts, numbers, faults)
        numbers = np.maximum(numbers, UNLABELLED)
    if values.ndim == 2:
        return _rows(parts, values, numbers, faults) or unknown
    if numbers is None:
        return _named(parts, values, faults) or unknown
    if parts.class_names is not None:
        return _within(parts, numbers, faults)
    if np.all(numbers < 0):
        faults.add(f"{parts.name}: no node has a label", "label some nodes")
    return Labels(numbers)


def _plain(parts: GraphParts, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Texts without blanks around them.

    They are without a point, too, if all that are known are like "2" or "2.0".
    """
    bare = np.char.strip(values, " \t\r\n")
    n_blank = np.count_nonzero(bare != values)
    if n_blank:
        _LOG.warning(
            "%s: %d labels have blanks around them, which do not count",
            parts.name,
            n_blank,
        )
        values = bare
    gaps = np.isin(values, _GAPS)
    named = np.count_nonzero(gaps & (values != ""))
    if named:
        _LOG.warning(
            "%s: %d labels NA or NaN are read as unknown", parts.name, named
        )
    known = values[~gaps]
    found = [_WHOLE.fullmatch(each) for each in known.tolist()]
    if len(known) and all(found):
        plain = np.full(values.shape, "", dtype=values.dtype)
        plain[~gaps] = [match[1] for match in found if match]
        return plain
    return values


def exceeds_int64(values: npt.NDArray[Any]) -> bool:
    """Whether unsigned integers are too large to be `np.int64`."""
    return values.dtype.kind == "u" and bool(
        values.max(initial=0) > np.iinfo(np.int64).max
    )


def _check_negative(
    parts: GraphParts, numbers: npt.NDArray[np.int64], faults: Faults
) -> None:
    rows = numbers.reshape(len(numbers), -1)
    bad = ((rows < 0) & ~np.isin(rows, UNKNOWN)).any(axis=1)
    if bad.any():
        faults.add(
            f"{parts.name}: {np.count_nonzero(bad)} labels are negative, but "
            "neither -1 nor -100",
            "use -1 where unknown, or number the classes from 0",
            np.flatnonzero(bad),
            lambda v: f"{parts.node_place(v)}: {rows[v].min()}",
        )


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
    if values.dtype.kind in "iub" and not exceeds_int64(values):
        return values.astype(np.int64)
    return None


def _named(
    parts: GraphParts, values: npt.NDArray[Any], faults: Faults
) -> Labels | None:
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            odd = np.isfinite(values) & (values % 1 == 0)
        odd = ~(np.isnan(values) | (odd & (np.abs(values) < 2**53)))
        faults.add(
            f"{parts.name}: {np.count_nonzero(odd)} labels are no whole "
            "numbers",
            "number or name the classes",
            np.flatnonzero(odd),
            lambda v: f"{parts.node_place(v)}: {values[v]:g}",
        )
        return None
    if values.dtype.kind != "U":
        faults.add(
            f"{parts.name}: labels: expected integers of 64 bits or texts, "
            f"received {values.dtype}",
            "number or name the classes",
        )
        return None
    known = ~np.isin(values, MISSING)
    names, classes = np.unique(values[known], return_inverse=True)
    codes = np.full(len(values), UNLABELLED, np.int64)
    codes[known] = classes
    _warn_of_names(parts, names.tolist())
    return Labels(codes, tuple(names.tolist()))


def _warn_of_names(parts: GraphParts, names: list[str]) -> None:
    """Say which classes are likely to be gaps, or one class."""
    plain: dict[str, str] = {}
    for name in names:
        word = name.casefold()
        if word in _LIKE_GAPS:
            _LOG.warning(
                "%s: %r is a class of its own; leave the label empty where it "
                "is unknown",
                parts.name,
                name,
            )
        if word in plain:
            _LOG.warning(
                "%s: %r and %r are two classes, though they differ only in "
                "capitals",
                parts.name,
                plain[word],
                name,
            )
        plain.setdefault(word, name)


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
    parts: GraphParts,
    values: npt.NDArray[Any],
    numbers: npt.NDArray[np.int64] | None,
    faults: Faults,
) -> Labels | None:
    problem = f"{parts.name}: multi-label targets"
    if numbers is None:
        odd = ~np.isin(values.astype("U"), _MARKS)
        faults.add(
            f"{problem} that are not 0 or 1",
            "use 0 and 1",
            np.flatnonzero(odd.any(axis=1)),
            lambda v: f"{parts.node_place(v)}: {values[v][odd[v]][0]}",
        )
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
