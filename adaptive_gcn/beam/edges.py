"""From shards of edges to blocks of rows of the adjacency.

Ids become numbers of nodes by two joins, one for each end, over buckets of
ids. Then each entry goes to the blocks of rows of both its ends, where what is
there several times is kept once, as `adjacency.symmetric_adjacency` does.
"""

from __future__ import annotations

import pathlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from adaptive_gcn.beam.findings import SHOWN, Finding, finding, reading
from adaptive_gcn.beam.gathering import gathered
from adaptive_gcn.datasets import tables
from adaptive_gcn.datasets.columns import Columns
from adaptive_gcn.datasets.edge_files import Edges, read_edges
from adaptive_gcn.datasets.faults import Faults
from adaptive_gcn.datasets.new_file import new_file
from adaptive_gcn.errors import DataError

_PIECE = 2**18  # Entries that travel together.
_NAMED = 3  # Shards of joined pieces that are named; else none is.
FINDINGS = "findings"  # The tag of the outputs that are no edges.


class Piece(NamedTuple):
    """Some entries of a shard.

    Attributes:
        shard: Name of the file.
        first: [n] ids (pyarrow) or numbers (NumPy) of one end.
        second: [n] likewise of the other.
        weights: [n] float32, or None where all are 1.
    """

    shard: str
    first: Any
    second: Any
    weights: npt.NDArray[np.float32] | None

    def taken(self, places: npt.NDArray[np.int64]) -> Piece:
        """The entries at `places`."""
        weights = None if self.weights is None else self.weights[places]
        return Piece(
            self.shard,
            self.first.take(places),
            self.second.take(places),
            weights,
        )


class Read(beam.DoFn):
    """A shard -> its entries, in pieces; and what is wrong with it."""

    def __init__(self, columns: str, n_nodes: int) -> None:
        self._columns = columns
        self._n_nodes = n_nodes

    def process(self, path: pathlib.Path) -> Iterator[Any]:
        columns = Columns.parse(self._columns)
        edges, found = reading(path, lambda f: self._edges(path, columns, f))
        yield from map(_tagged, found)
        if edges is None:
            return
        names = ", ".join(sorted(columns.seen))
        yield _tagged(finding(f"edges columns:{names}", places=[path.name]))
        yield from map(_tagged, seen(columns))
        yield _tagged(finding("entries", n=len(edges.sources)))
        weights, bad = _checked(edges.weights)
        if bad.size:
            places = [f"{edges.place(k)}: {weights[k]:g}" for k in bad[:SHOWN]]
            yield _tagged(
                finding(
                    "edges: {n} have a weight that is negative or not finite "
                    "in 32 bits",
                    "expected weights above 0 (0: no edge); mend or drop these",
                    n=bad.size,
                    places=places,
                )
            )
            return
        whole = Piece(path.name, edges.sources, edges.targets, weights)
        if weights is not None:
            zero = np.flatnonzero(weights == 0)
            places = [edges.place(k) for k in zero[:SHOWN]]
            yield _tagged(finding("zeros", n=zero.size, places=places))
            whole = whole.taken(np.flatnonzero(weights))
        for start in range(0, len(whole.first), _PIECE):
            stop = min(start + _PIECE, len(whole.first))
            yield whole.taken(np.arange(start, stop))

    def _edges(
        self, path: pathlib.Path, columns: Columns, faults: Faults
    ) -> Edges:
        edges = read_edges(path, columns, faults)
        if edges.n_nodes not in (None, self._n_nodes):
            raise DataError(
                f"{path.name}: a matrix with {edges.n_nodes} rows, graph: "
                f"{self._n_nodes} nodes"
            )
        weights = edges.weights
        if weights is not None and weights.dtype.kind not in "fiub":
            raise DataError(
                f"{path.name}: weights: expected numbers. Received: "
                f"{weights.dtype}"
            )
        return edges


def _tagged(each: Finding) -> Any:
    return beam.pvalue.TaggedOutput(FINDINGS, each)


def seen(columns: Columns) -> Iterator[Finding]:
    """Which columns a file has, and which of the user's names it knows."""
    for name in columns.seen:
        yield finding(f"column:{name}")
    for part in columns.found:
        yield finding(f"part:{part}")


def _checked(
    weights: npt.NDArray[Any] | None,
) -> tuple[Any, npt.NDArray[np.int64]]:
    """Weights as float32, and the places of those that are none."""
    if weights is None:
        return None, np.empty(0, np.int64)
    with np.errstate(over="ignore", under="ignore"):
        kept = weights.astype(np.float32)
    lost = (kept == 0) & (weights != 0)
    bad = ~np.isfinite(kept) | (kept < 0) | lost
    return (weights if bad.any() else kept), np.flatnonzero(bad)


def texts_of(ids: Any) -> Any:
    """Ids as texts, of which equal ids have equal ones."""
    return pc.cast(ids, pa.string()).fill_null("")


def buckets(ids: Any, n_buckets: int) -> npt.NDArray[np.int64]:
    """The bucket of each id, the same whatever type ids have."""
    codes = [zlib.crc32(each.encode()) for each in texts_of(ids).to_pylist()]
    return np.array(codes, np.int64) % n_buckets


def by_bucket(piece: Piece, n_buckets: int) -> Iterator[tuple[int, Piece]]:
    """Send each entry to the bucket of its first end."""
    for bucket, places in parted(buckets(piece.first, n_buckets)):
        yield bucket, piece.taken(places)


def parted(
    keys: npt.NDArray[np.int64],
) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Each key, with its places in ascending order."""
    order = np.argsort(keys, kind="stable")
    bounds = np.flatnonzero(np.diff(keys[order])) + 1
    for places in np.split(order, bounds):
        if places.size:
            yield int(keys[places[0]]), places


class Number(beam.DoFn):
    """Replace ids of the first ends of a bucket, and put these second.

    So two such steps number both ends and leave them in their order. Small
    pieces become large ones, lest their number grow with each step.
    """

    def process(self, element: Any) -> Iterator[Any]:
        _, groups = element
        nodes = [*groups["nodes"]]
        ids = [each for each, _ in nodes]
        numbers = np.concatenate(
            [np.empty(0, np.int64), *(n for _, n in nodes)]
        )
        for pieces in gathered(
            groups["edges"],
            lambda piece: len(piece.first),
            max(_PIECE, len(numbers)),
        ):
            whole = _joined(pieces)
            first, *own = tables.of_one_type([whole.first, *ids])
            known = pa.chunked_array(own, first.type).combine_chunks()
            found = pc.index_in(first, value_set=known)
            unknown = np.flatnonzero(np.asarray(found.is_null()))
            if unknown.size:
                yield _unknown(pieces, unknown)
            rows = np.flatnonzero(np.asarray(found.is_valid()))
            kept = whole.taken(rows)
            number = numbers[np.asarray(found.take(rows))]
            yield Piece(kept.shard, kept.second, number, kept.weights)


def _joined(pieces: Sequence[Piece]) -> Piece:
    """The entries of several pieces."""
    shards = {each.shard for each in pieces}
    weights = None
    if any(each.weights is not None for each in pieces):
        weights = np.concatenate([_weights(each) for each in pieces])
    return Piece(
        " or ".join(sorted(shards)) if len(shards) <= _NAMED else "edges",
        _concatenated([each.first for each in pieces]),
        _concatenated([each.second for each in pieces]),
        weights,
    )


def _concatenated(ends: Sequence[Any]) -> Any:
    if isinstance(ends[0], np.ndarray):
        return np.concatenate(ends)
    return concatenated(ends)


def _weights(piece: Piece) -> npt.NDArray[np.float32]:
    if piece.weights is None:
        return np.ones(len(piece.first), np.float32)
    return piece.weights


def _unknown(pieces: Sequence[Piece], rows: npt.NDArray[np.int64]) -> Any:
    starts = np.cumsum([0, *(len(each.first) for each in pieces)])
    places = []
    for row in rows[:SHOWN]:
        i = int(np.searchsorted(starts, row, "right")) - 1
        unknown = pieces[i].first[int(row - starts[i])].as_py()
        places.append(f"{pieces[i].shard}: {unknown!r}")
    return _tagged(
        finding(
            "edges: {n} ends name a node that is not among the nodes",
            "correct or drop these edges, or add the nodes",
            n=rows.size,
            places=places,
        )
    )


class AsNumbers(beam.DoFn):
    """Take ids that are numbers of nodes as they are."""

    def __init__(self, n_nodes: int) -> None:
        self._n_nodes = n_nodes

    def process(self, piece: Piece) -> Iterator[Any]:
        if pa.types.is_string(piece.first.type) or pa.types.is_string(
            piece.second.type
        ):
            yield _tagged(
                finding(
                    f"{piece.shard}: has ids that are no numbers of rows 0.."
                    f"{self._n_nodes - 1}",
                    "add shards of nodes with a column id, their rows in the "
                    "order of the features",
                )
            )
            return
        first, second = (np.asarray(each.fill_null(-1)) for each in piece[1:3])
        ends = np.stack([first, second])
        outside = ((ends < 0) | (ends >= self._n_nodes)).any(axis=0)
        places = np.flatnonzero(outside)
        if places.size:
            yield _tagged(
                finding(
                    "edges: {n} have an end outside the nodes 0.."
                    f"{self._n_nodes - 1}",
                    "correct or drop these edges",
                    n=places.size,
                    places=[
                        f"{piece.shard}: {first[k]}, {second[k]}"
                        for k in places[:SHOWN]
                    ],
                )
            )
        kept = np.flatnonzero(~outside)
        yield Piece(piece.shard, first, second, piece.weights).taken(kept)


def by_block(piece: Piece, block_nodes: int) -> Iterator[tuple[int, Any]]:
    """Send each entry to the blocks of rows of both its ends.

    Yields:
        A block, and row, column, whether the entry reads (column, row), and
        weight of each entry [n]. A self-loop goes to its row once.
    """
    first, second, weights = piece.first, piece.second, _weights(piece)
    twice = np.flatnonzero(first != second)
    for rows, columns, values, backward in (
        (first, second, weights, False),
        (second[twice], first[twice], weights[twice], True),
    ):
        for block, places in parted(rows // block_nodes):
            yield (
                block,
                (
                    rows[places],
                    columns[places],
                    np.full(len(places), backward),
                    values[places],
                ),
            )


class WriteBlock(beam.DoFn):
    """All entries of a block of rows -> its rows of the adjacency, a file."""

    def __init__(self, folder: pathlib.Path, block_nodes: int) -> None:
        self._folder = folder
        self._block_nodes = block_nodes

    def process(self, element: Any) -> Iterator[Finding]:
        block, pieces = element
        parts = zip(*pieces, strict=True)
        rows, columns, backward, weights = map(np.concatenate, parts)
        looped = rows == columns
        n_loops = np.count_nonzero(looped)
        n_looped = len(np.unique(rows[looped]))
        yield finding("self_loops", n=n_looped)
        edge = ~looped
        entries = rows[edge], columns[edge], backward[edge], weights[edge]
        kept, repeats, added, conflicts = distinct(*entries)
        yield finding("duplicates", n=repeats + n_loops - n_looped)
        yield finding("reversed_added", n=added)
        if len(conflicts):
            yield _conflicting(conflicts)
        rows, columns, weights = kept
        places = rows - block * self._block_nodes
        counts = np.bincount(places, minlength=self._block_nodes)
        sums = np.bincount(places, weights.astype(np.float64))
        heavy = np.flatnonzero(sums > np.finfo(np.float32).max)
        if heavy.size:
            yield _too_heavy(block * self._block_nodes + heavy)
        with new_file(block_path(self._folder, block)) as file:
            np.savez(
                file,
                counts=counts,
                indices=columns.astype(np.int32),
                weights=weights,
            )


def block_path(folder: pathlib.Path, block: int) -> pathlib.Path:
    """Where a block of rows is, if it has any entries."""
    return folder / f"rows-{block:09d}.npz"


def distinct(
    rows: npt.NDArray[np.int64],
    columns: npt.NDArray[np.int64],
    backward: npt.NDArray[np.bool_],
    weights: npt.NDArray[np.float32],
) -> tuple[tuple[Any, Any, Any], int, int, list[str]]:
    """Sort the entries of some rows, and keep each once.

    Returns:
        Rows, columns and weights of what is kept; the number of entries that
        repeat one of the same direction, and of those that are there in the
        other direction only; and edges with several weights.
    """
    order = np.lexsort((columns, rows))
    rows, columns, backward, weights = (
        each[order] for each in (rows, columns, backward, weights)
    )
    is_first = np.ones(len(rows), bool)
    is_first[1:] = (np.diff(rows) != 0) | (np.diff(columns) != 0)
    starts = np.flatnonzero(is_first)
    group = np.cumsum(is_first) - 1
    forward = np.bincount(group[~backward], minlength=len(starts))
    differs = weights != weights[starts][group]
    bad = np.unique(starts[group[differs & (rows < columns)]])
    conflicts = [f"rows {rows[k]} and {columns[k]}" for k in bad]
    repeats = int(np.maximum(forward - 1, 0).sum())
    kept = rows[starts], columns[starts], weights[starts]
    return kept, repeats, int(np.count_nonzero(forward == 0)), conflicts


def _conflicting(edges: list[str]) -> Finding:
    return finding(
        "edges: {n} have entries of different weights, in one or both "
        "directions",
        "give each edge one weight, as their sum",
        n=len(edges),
        places=edges,
    )


def _too_heavy(rows: npt.NDArray[np.int64]) -> Finding:
    return finding(
        "edges: at {n} nodes the sum of the weights is not finite in 32 bits",
        "scale all weights",
        n=len(rows),
        places=[f"row {row}" for row in rows[:SHOWN]],
    )


def numbered(pieces: Any, nodes: Any, n_buckets: int) -> tuple[Any, list[Any]]:
    """Pieces of ids -> pieces of numbers of nodes.

    Args:
        pieces: Collection of `Piece`.
        nodes: Collection of (bucket, (ids, their numbers)).
        n_buckets: Number of buckets.

    Returns:
        Collection of `Piece`, and collections of findings.
    """
    findings = []
    for end in ("source", "target"):
        spread = pieces | f"Bucket of the {end}" >> beam.FlatMap(
            by_bucket, n_buckets
        )
        joined = {"edges": spread, "nodes": nodes} | (
            f"Join the {end}" >> beam.CoGroupByKey()
        )
        outputs = joined | f"Number the {end}" >> beam.ParDo(
            Number()
        ).with_outputs(FINDINGS, main="pieces")
        pieces = outputs.pieces
        findings.append(outputs[FINDINGS])
    return pieces, findings


def spread_nodes(
    element: tuple[pathlib.Path, int], n_buckets: int
) -> Iterator[tuple[int, tuple[Any, npt.NDArray[np.int64]]]]:
    """A file of ids, and the number of the first -> ids by their buckets."""
    path, start = element
    ids = read_ids(path)
    for bucket, places in parted(buckets(ids, n_buckets)):
        yield bucket, (ids.take(places), start + places)


def read_ids(path: pathlib.Path) -> Any:
    """The ids in a file that `node_shards` wrote."""
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).read_all()["id"]


def concatenated(parts: Iterable[Any]) -> Any:
    """Ids of several files, of one type."""
    columns = tables.of_one_type([*parts])
    chunks = [chunk for each in columns for chunk in each.chunks]
    return pa.chunked_array(
        [pa.chunked_array(chunks, columns[0].type).combine_chunks()]
    )
