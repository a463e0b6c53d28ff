"""Which classes are taken for which: confusion matrices and their table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]


def confusion_matrix(
    labels: Counts, predicted: Counts, n_classes: int
) -> Counts:
    """Nodes by true class (rows) and predicted class (columns).

    Args:
        labels: [n] in [0, n_classes).
        predicted: [n], likewise.
        n_classes: Number of classes.

    Returns:
        [n_classes, n_classes] int64.
    """
    codes = np.bincount(labels * n_classes + predicted, minlength=n_classes**2)
    return codes.reshape(n_classes, n_classes)


def label_matrices(labels: Counts, predicted: npt.NDArray[np.bool_]) -> Counts:
    """For each of several labels a node, its own confusion matrix.

    Args:
        labels: [n, n_labels] of 0 and 1.
        predicted: [n, n_labels].

    Returns:
        [n_labels, 2, 2] int64: first those without the label, then those with.
    """
    columns = zip(labels.T, predicted.T, strict=True)
    return np.array([confusion_matrix(*pair, 2) for pair in columns])


def class_table(matrix: Counts, names: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each class: nodes, precision, recall and F1.

    What has nothing to divide by is 0, as in the macro F1.

    Args:
        matrix: From `confusion_matrix` or `label_matrices`.
        names: Of the classes or labels.
    """
    if matrix.ndim == 3:
        right = matrix[:, 1, 1]
        nodes, predicted = matrix[:, 1].sum(axis=1), matrix[..., 1].sum(axis=1)
    else:
        right = np.diag(matrix)
        nodes, predicted = matrix.sum(axis=1), matrix.sum(axis=0)
    columns = {
        "nodes": nodes,
        "precision": _ratio(right, predicted),
        "recall": _ratio(right, nodes),
        "f1": _ratio(2 * right, nodes + predicted),
    }
    return [
        {"class": name, **{key: columns[key][row].item() for key in columns}}
        for row, name in enumerate(names)
    ]


def _ratio(part: Counts, whole: Counts) -> npt.NDArray[np.float64]:
    return np.divide(part, whole, where=whole > 0, out=np.zeros(len(part)))


def as_text(table: list[dict[str, Any]]) -> str:
    """The table for people, one line a class."""
    width = max(len("class"), *(len(row["class"]) for row in table))
    head = f"{'class':{width}}   nodes  precision  recall     f1"
    lines = [
        f"{row['class']:{width}} {row['nodes']:7d}  {row['precision']:9.4f}  "
        f"{row['recall']:6.4f} {row['f1']:6.4f}"
        for row in table
    ]
    return "\n".join([head, *lines])
