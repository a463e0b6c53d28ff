"""From shards of nodes to their ids, labels, split and features."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa

from adaptive_gcn.beam import edges
from adaptive_gcn.beam.findings import Finding, finding, reading
from adaptive_gcn.datasets import node_files
from adaptive_gcn.datasets.columns import Columns
from adaptive_gcn.datasets.faults import Faults
from adaptive_gcn.datasets.graph_parts import GraphParts
from adaptive_gcn.datasets.new_file import new_file
from adaptive_gcn.errors import DataError

_ARRAYS = ("labels", "split", "features", "label_names")


class Read(beam.DoFn):
    """A shard, (number, path) -> its columns as files; and what is wrong."""

    def __init__(self, folder: pathlib.Path, columns: str) -> None:
        self._folder = folder
        self._columns = columns

    def process(self, shard: tuple[int, pathlib.Path]) -> Iterator[Finding]:
        number, path = shard
        columns = Columns.parse(self._columns)
        nodes, found = reading(path, lambda f: _nodes(path, columns, f))
        yield from found
        if nodes is None:
            return
        names = ", ".join(nodes.feature_names)
        n_rows = _n_rows(nodes)
        yield finding(f"rows of shard {number}", n=n_rows)
        if n_rows:
            yield finding(f"nodes columns:{names}", places=[path.name])
        yield from edges.seen(columns)
        for name in _ARRAYS:
            array = getattr(nodes, name)
            if array is not None:
                with new_file(_path(self._folder, number, name)) as file:
                    np.save(file, array, allow_pickle=False)
        if nodes.ids is not None:
            table = pa.table({"id": nodes.ids})
            with (
                new_file(ids_path(self._folder, number)) as file,
                pa.ipc.new_file(file, table.schema) as writer,
            ):
                writer.write_table(table)


def _nodes(
    path: pathlib.Path, columns: Columns, faults: Faults
) -> node_files.Nodes:
    nodes = node_files.read_nodes(path, columns, faults)
    if nodes.ids is None and nodes.labels is None and nodes.split is None:
        if nodes.features is None:
            raise DataError(
                f"{path.name}: expected columns of ids, labels, split or "
                "numbers"
            )
    return nodes


def _n_rows(nodes: node_files.Nodes) -> int:
    parts = (nodes.ids, nodes.labels, nodes.split, nodes.features)
    return next((len(each) for each in parts if each is not None), 0)


def _path(folder: pathlib.Path, number: int, name: str) -> pathlib.Path:
    return folder / f"{name}-{number:09d}.npy"


def ids_path(folder: pathlib.Path, number: int) -> pathlib.Path:
    """Where the ids of a shard are, if it has any."""
    return folder / f"ids-{number:09d}.arrow"


class NodeShards:
    """What `Read` has written of the shards of a folder.

    Args:
        folder: Where it has.
        shards: The files, in the order of their nodes.
        sizes: Their numbers of rows.

    Raises:
        DataError: If some shards have a part and others have not.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        shards: Sequence[pathlib.Path],
        sizes: Sequence[int],
    ) -> None:
        self.starts = np.cumsum([0, *sizes])
        self._folder = folder
        self._shards = shards
        self._ids = [ids_path(folder, i) for i in range(len(shards))]
        self.has_ids = self._has("ids", self._ids)

    @property
    def n_nodes(self) -> int:
        return int(self.starts[-1])

    def ids(self) -> Any:
        """[n_nodes] ids, or None if they are numbers of rows."""
        if not self.has_ids:
            return None
        return edges.concatenated(map(edges.read_ids, self._ids))

    def arrays(self, name: str) -> list[Any] | None:
        """Labels, split, features or names of each shard, memory-mapped."""
        numbers = range(len(self._shards))
        paths = [_path(self._folder, i, name) for i in numbers]
        if not self._has(name, paths):
            return None
        arrays = [np.load(path, mmap_mode="r") for path in paths]
        arrays = [each for each in arrays if len(each)] or arrays[:1]
        if len({each.shape[1:] for each in arrays}) > 1:
            raise DataError(
                f"{self._shards[0].parent}: {name} of the shards of nodes "
                "differ in their number of columns; give all the same"
            )
        return arrays

    def place(self, node: int) -> str:
        """Where the user finds a node."""
        shard = int(np.searchsorted(self.starts, node, "right")) - 1
        return f"{self._shards[shard].name} row {node - self.starts[shard]}"

    def _has(self, name: str, paths: Sequence[pathlib.Path]) -> bool:
        there = [path.is_file() for path in paths]
        if any(there) and not all(there):
            lacking = self._shards[there.index(False)]
            raise DataError(f"{lacking}: has no {name}, other shards have")
        return any(there)

    def _of_one_kind(self, labels: list[Any]) -> list[Any]:
        """Labels as texts, if some are, or all as numbers."""
        is_text = [each.dtype.kind == "U" for each in labels]
        if not any(is_text) or all(is_text):
            return labels
        numbers = [each for each in labels if each.dtype.kind != "U"]
        if not all(np.isnan(each).all() for each in numbers):
            raise DataError(
                f"{self._shards[0].parent}: labels are texts in some shards of "
                "nodes and numbers in others; give all the same"
            )
        return [
            each if each.dtype.kind == "U" else np.full(each.shape, "")
            for each in labels
        ]

    def _check_same(self, names: list[Any]) -> None:
        for own in names:
            if not np.array_equal(own, names[0]):
                raise DataError(
                    f"{self._shards[0].parent}: expected the same columns of "
                    f"labels in all shards of nodes. Received: "
                    f"{names[0].tolist()} and {own.tolist()}"
                )

    def add_to(self, parts: GraphParts) -> None:
        """Give labels and split to the parts of a graph."""
        parts.n_nodes = self.n_nodes
        parts.node_place = self.place
        labels, split = self.arrays("labels"), self.arrays("split")
        names = self.arrays("label_names")
        if labels is not None:
            parts.labels = np.concatenate(self._of_one_kind(labels))
        if names is not None:
            self._check_same(names)
            parts.class_names = tuple(names[0].tolist())
        if split is not None:
            parts.splits = np.concatenate(split)[None]
