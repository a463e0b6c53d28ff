"""Blocks of consecutive nodes, and what they ask of each other.

The rows of A^ of one block are made from those of A, its own degrees and the
degrees of the columns in use, which arrive with the rows that are asked for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

Vector = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Blocks:
    """All nodes in blocks of consecutive ids.

    Attributes:
        n_nodes: Number of nodes.
        size: Nodes in a block; the last one may have fewer.
    """

    n_nodes: int
    size: int

    @property
    def count(self) -> int:
        return -(-self.n_nodes // self.size)

    def bounds(self, block: int) -> tuple[int, int]:
        """The first node of a block, and the one behind its last."""
        start = block * self.size
        return start, min(start + self.size, self.n_nodes)


@dataclasses.dataclass(frozen=True)
class OwnRows:
    """What of a block's rows nobody else asks for.

    Attributes:
        parent_score: [n] float32, W_1 z of Eq. (14), or None.
        hidden: [n, units] float32, the last hidden layer, or None.
        one_hop: M H W + c H W between the two hops of M + M^2 + c I, or None.
    """

    parent_score: Vector | None = None
    hidden: Vector | None = None
    one_hop: Any = None


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows of a table of hidden units: a whole block, or those asked for.

    Attributes:
        block: The block that the rows are of.
        table: [n, units] float32, dense or CSR.
        degree: [n] float64, row sums of A + I.
        sample_score: [n] float32, W_2 z of Eq. (14), or None.
        own: With a whole block, what stays with it; else None.
    """

    block: int
    table: Any
    degree: npt.NDArray[np.float64]
    sample_score: Vector | None
    own: OwnRows | None

    def of(self, places: npt.NDArray[np.integer[Any]]) -> Rows:
        """The rows at `places` of a whole block, for another block."""
        score = self.sample_score
        return Rows(
            self.block,
            self.table[places],
            self.degree[places],
            None if score is None else score[places],
            None,
        )


class AdjacencyRows:
    """The rows of A + I of one block, by the distinct columns in use.

    Args:
        adjacency: [n_nodes, n_nodes] CSR float32, A of the whole graph, maybe
            mapped; only the rows of the block are read.
        blocks: The blocks of the graph.
        block: Which of them.
    """

    def __init__(
        self, adjacency: sparse.csr_array, blocks: Blocks, block: int
    ) -> None:
        self._blocks = blocks
        self._start, stop = blocks.bounds(block)
        rows = adjacency[self._start : stop]
        loops = np.arange(self._start, stop)
        ids = np.concatenate([rows.indices, loops])
        self._columns, places = np.unique(ids, return_inverse=True)
        n_rows = len(loops)
        row_of = np.repeat(np.arange(n_rows), np.diff(rows.indptr))
        row_of = np.concatenate([row_of, np.arange(n_rows)])
        weights = np.concatenate([rows.data, np.ones(n_rows, np.float32)])
        self._weights = sparse.csc_array(
            (weights, (row_of, places)), (n_rows, len(self._columns))
        )

    def requests(self) -> Iterator[tuple[int, npt.NDArray[np.int32]]]:
        """Blocks that have columns of these rows, and which rows of theirs."""
        for block in np.unique(self._columns // self._blocks.size).tolist():
            ids = self._columns[self._places(block)]
            yield block, (ids - block * self._blocks.size).astype(np.int32)

    def normalized(
        self,
        degree: npt.NDArray[np.float64],
        answers: list[Rows],
        normalization: str,
        identity_weight: float,
    ) -> sparse.csc_array:
        """The columns of A^ that `answers` has the rows for, Eq. (1).

        Args:
            degree: [n_rows] float64, of the rows.
            answers: What this block asked of some blocks, or all of itself.
            normalization: `sym` or `row`, see `normalize_adjacency`.
            identity_weight: Multiple of the identity added.

        Returns:
            [n_rows, n] CSC float32, n the number of rows in `answers`. An
            entry has the bits that `normalize_adjacency` gives it.
        """
        places = np.concatenate([self._places(each.block) for each in answers])
        part = self._weights[:, places]
        per_column = np.diff(part.indptr)
        if normalization == "sym":
            left = degree**-0.5
            right = np.concatenate([each.degree for each in answers]) ** -0.5
        else:
            left, right = 1.0 / degree, np.ones(len(places))
        values = left[part.indices] * part.data * np.repeat(right, per_column)
        column_ids = np.repeat(self._columns[places], per_column)
        values[column_ids == self._start + part.indices] += identity_weight
        part.data = values.astype(np.float32)
        return part

    def _places(self, block: int) -> npt.NDArray[np.int64]:
        """Where in the columns the nodes of a block are."""
        ends = np.searchsorted(self._columns, self._blocks.bounds(block))
        return np.arange(*ends)
