"""The MUSAE collection: `*edges.csv`, `*target.csv` and `*features.json`.

The JSON has for each node, by its number, the list of its features; they are
words that the page has, so that the matrix holds 0 and 1.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

import numpy as np
from scipy import sparse

from adaptive_gcn.adjacency import MOST_NODES
from adaptive_gcn.datasets import table_graph
from adaptive_gcn.datasets.columns import Columns
from adaptive_gcn.datasets.faults import Faults
from adaptive_gcn.datasets.graph_parts import GraphParts
from adaptive_gcn.datasets.raw_files import ADVICE
from adaptive_gcn.errors import DataError

_NEW_ID = "new_id"  # What edges and features mean, where `id` is another.
_LABELS = ("page_type", "ml_target", "mature", "target")


def find(folder: pathlib.Path) -> dict[str, pathlib.Path] | None:
    """The three files of a folder, or None."""
    ends = {
        "edges": "edges.csv",
        "nodes": "target.csv",
        "features": "features.json",
    }
    found = {part: sorted(folder.glob(f"*{end}")) for part, end in ends.items()}
    if any(len(paths) != 1 for paths in found.values()):
        return None
    return {part: paths[0] for part, paths in found.items()}


def read_musae(
    folder: pathlib.Path,
    files: dict[str, pathlib.Path],
    columns: Columns,
    faults: Faults,
) -> GraphParts:
    """Read the files that `find` found.

    Raises:
        OSError: If one cannot be read.
        DataError: If one is not in its form.
    """
    # What is no UTF-8 is refused with the table.
    with files["nodes"].open(encoding="utf-8-sig", errors="replace") as file:
        names = file.readline().strip().split(",")
    label = next((each for each in _LABELS if each in names), None)
    usual = {"label": label, "id": _NEW_ID if _NEW_ID in names else None}
    known = {
        part: name
        for part, name in usual.items()
        if name and name not in columns.dropped
    }
    dropped = columns.dropped
    if known.get("id") == _NEW_ID and "id" in names:
        dropped = (*dropped, "id")  # Another number of the same node.
    columns = dataclasses.replace(
        columns, named={**known, **columns.named}, dropped=dropped
    )
    tables = {part: files[part] for part in ("edges", "nodes")}
    parts = table_graph.read_tables(folder, tables, columns, faults)
    parts.features = _features(files["features"], parts, faults)
    return parts


def _features(
    path: pathlib.Path, parts: GraphParts, faults: Faults
) -> sparse.csr_array:
    """[n_nodes, n_features] of 0 and 1; a node that is not there has none."""
    words = _read_json(path)
    ids = parts.node_ids if parts.node_ids is not None else range(parts.n_nodes)
    rows = [words.pop(str(each), []) for each in ids]
    if words:
        keys = list(words)
        faults.add(
            f"{path.name}: {len(keys)} keys are no nodes",
            "correct or drop them",
            range(len(keys)),
            lambda i: repr(keys[i]),
        )
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    values = [each for row in rows for each in row]
    for each in values:
        if type(each) is not int or not 0 <= each < MOST_NODES:
            raise DataError(
                f"{path}: expected lists of integers from 0 to "
                f"{MOST_NODES - 1}, numbers of features. Received: "
                f"{repr(each)[:60]}"
            )
    indices = np.array(values, np.int64)
    width = int(indices.max(initial=0)) + 1
    data = np.ones(len(indices), np.float32)
    features = sparse.csr_array((data, indices, indptr), (len(rows), width))
    features.sum_duplicates()
    features.data[:] = 1
    return features


def _read_json(path: pathlib.Path) -> dict[str, list[Any]]:
    try:
        content = json.loads(path.read_bytes())
        if all(isinstance(each, list) for each in content.values()):
            return dict(content)
        reason = "a value that is no list"
    except (ValueError, AttributeError, RecursionError) as error:
        reason = str(error)
    raise DataError(
        f"{path}: expected a JSON object of lists. Received: {reason}; {ADVICE}"
    )
