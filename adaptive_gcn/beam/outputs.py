"""Predictions of blocks of nodes as Parquet files, on any file system of Beam.

All of them are written to a folder under a temporary name, where a bundle that
is tried again finds nothing in its way, and get their places together.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from pyarrow import parquet

from adaptive_gcn import node_choice, run_folder
from adaptive_gcn.beam.propagate import Output, Task
from adaptive_gcn.graph import Graph
from adaptive_gcn.predict import classes_of

_COUNTS = "counts.json"
_PATTERN = "predictions-*-of-*.parquet"

Ids = npt.NDArray[np.int64]


class WriteOutputs(beam.PTransform):
    """(block, `Output`) -> one Parquet file a block, and the counts.

    Args:
        task: The task.
        nodes: Whose rows to write: `all`, `train`, `val`, `test`, or ids.
        folder: Where, a folder that `new_folder` made.
    """

    def __init__(self, task: Task, nodes: str | Ids, folder: str) -> None:
        super().__init__()
        self._task = task
        self._nodes = nodes
        self._folder = folder

    def expand(self, pcoll: Any) -> Any:
        return (
            pcoll
            | "write"
            >> beam.ParDo(_Write(self._task, self._nodes, self._folder))
            | "count" >> beam.CombineGlobally(_sum).without_defaults()
            | "note" >> beam.Map(_write_counts, self._folder)
        )


class _Write(beam.DoFn):
    """(block, `Output`) -> [hits, of, rows], see `accuracy_counts`."""

    def __init__(self, task: Task, nodes: str | Ids, folder: str) -> None:
        super().__init__()
        self._task = task
        self._nodes = nodes
        self._folder = folder

    def setup(self) -> None:
        self._graph = self._task.run.graph
        self._chosen = self._nodes
        if isinstance(self._nodes, str) and self._nodes != "all":
            self._chosen = node_choice.chosen_nodes(self._graph, self._nodes)

    def process(self, element: tuple[int, Output]) -> Iterator[list[int]]:
        block, output = element
        start, stop = self._task.blocks.bounds(block)
        nodes = np.arange(start, stop)
        if not isinstance(self._chosen, str):
            nodes = _inside(self._chosen, start, stop)
        table = _table(self._graph, nodes, output, start)
        name = _file_name(block, self._task.blocks.count)
        write_file(FileSystems.join(self._folder, name), _as_parquet(table))
        val_nodes = _inside(self._graph.val_nodes, start, stop)
        hits, of = accuracy_counts(
            self._graph.labels[val_nodes], output.logits[val_nodes - start]
        )
        yield [hits, of, len(nodes)]


def _inside(nodes: Ids, start: int, stop: int) -> Ids:
    return nodes[(nodes >= start) & (nodes < stop)]


def _file_name(block: int, n_blocks: int) -> str:
    return f"predictions-{block:05d}-of-{n_blocks:05d}.parquet"


def _table(graph: Graph, nodes: Ids, output: Output, start: int) -> pa.Table:
    """What to write of `nodes`, whose block begins at `start`."""
    places = nodes - start
    with tf.device("CPU"):
        classes = classes_of(graph, output.logits[places])
    columns = {
        "id": node_choice.ids_of(graph, nodes),
        **classes,
    }
    if output.hidden is not None:
        hidden = output.hidden[places].T
        columns |= {f"embedding_{i}": unit for i, unit in enumerate(hidden)}
    return pa.table(columns)


def accuracy_counts(
    labels: npt.NDArray[np.int64], logits: npt.NDArray[np.float32]
) -> tuple[int, int]:
    """What `targets.accuracy` is the quotient of, to be summed over blocks.

    Args:
        labels: [n] integers, or [n, n_classes] of 0 and 1.
        logits: [n, n_classes] float32.
    """
    if labels.ndim == 1:
        right = np.argmax(logits, axis=1) == labels
        return int(np.count_nonzero(right)), len(labels)
    # Micro-F1 = 2 TP / (2 TP + FP + FN).
    found, true = logits > 0, labels == 1
    both = int(np.count_nonzero(found & true))
    return 2 * both, int(np.count_nonzero(found) + np.count_nonzero(true))


def _sum(counts: Iterable[list[int]]) -> list[int]:
    return [sum(column) for column in zip([0, 0, 0], *counts, strict=True)]


def _write_counts(counts: list[int], folder: str) -> None:
    write_file(FileSystems.join(folder, _COUNTS), json.dumps(counts).encode())


def read_counts(folder: str) -> tuple[float, int]:
    """Validation accuracy, and the number of rows written to `folder`."""
    with FileSystems.open(FileSystems.join(folder, _COUNTS)) as file:
        hits, of, n_rows = json.loads(file.read())
    return (hits / of if of else 0.0), n_rows


def _as_parquet(table: pa.Table) -> bytes:
    buffer = pa.BufferOutputStream()
    parquet.write_table(table, buffer)
    return buffer.getvalue().to_pybytes()


def write_file(path: str, content: bytes) -> None:
    """Write a file, all or nothing; whoever writes it again does no harm."""
    temporary = f"{path}.part-{uuid.uuid4().hex}"
    with FileSystems.create(temporary) as file:
        file.write(content)
    try:
        FileSystems.rename([temporary], [path])
    except BeamIOError:  # Some file systems replace none that is there.
        if not FileSystems.exists(path):
            raise
        FileSystems.delete([temporary])


def check_free(folder: str, overwrite: bool) -> None:
    """Refuse a target that is not for this command.

    Raises:
        RunFolderError: If it is a file, if there is something in it and
            `overwrite` is false, or if it cannot be looked into.
    """
    named = f"--predictions={folder}"
    if any(character in folder for character in "*?["):
        raise run_folder.RunFolderError(
            f"{named}: expected the name of a folder without *, ? and ["
        )
    if os.path.isfile(folder):
        raise run_folder.RunFolderError(
            f"{named}: is a file; give a folder, which gets many files"
        )
    with _named(named):
        is_used = bool(_files(folder, "**"))
    if is_used and not overwrite:
        raise run_folder.RunFolderError(
            f"{named}: is not empty; give --overwrite to replace the "
            "predictions in it, or another --predictions"
        )


def new_folder(target: str) -> str:
    """Make the folder to write to, beside the one it is for.

    Raises:
        RunFolderError: If that cannot be made or written.
    """
    head, tail = FileSystems.split(target)
    folder = FileSystems.join(head, f".{tail}-{uuid.uuid4().hex}")
    with _named(f"--predictions={target}"):
        FileSystems.mkdirs(folder)
        write_file(FileSystems.join(folder, _COUNTS), b"")
    return folder


@contextlib.contextmanager
def _named(named: str) -> Iterator[None]:
    """Say which flag to change where a file system cannot be used."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise run_folder.RunFolderError(
            f"{named}: cannot write there ({error}); give a folder that can "
            "be created and written"
        ) from error


def publish(folder: str, target: str) -> None:
    """Give what is in `folder` its place, for what was there before."""
    if not FileSystems.exists(target):
        FileSystems.mkdirs(target)
    old = _files(target, _PATTERN)
    if old:
        FileSystems.delete(old)
    new = _files(folder, _PATTERN)
    names = [FileSystems.split(path)[1] for path in new]
    FileSystems.rename(new, [FileSystems.join(target, name) for name in names])


def remove(folder: str) -> None:
    """Remove a folder of `new_folder` with what is left in it."""
    if not FileSystems.get_filesystem(folder).has_dirs():
        folder = FileSystems.join(folder, "")  # All whose names begin so.
    FileSystems.delete([folder])


def _files(folder: str, pattern: str) -> list[str]:
    (found,) = FileSystems.match([FileSystems.join(folder, pattern)])
    return [metadata.path for metadata in found.metadata_list]
