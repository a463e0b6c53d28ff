"""Records of a cell -> mean, deviation, and differences between methods."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from scipy import stats

from adaptive_gcn.experiments import paper, records
from adaptive_gcn.experiments.grid import NO_FILES, UNFETCHED, Cell
from adaptive_gcn.experiments.records import code_of


@dataclasses.dataclass(frozen=True)
class Summary:
    """What the runs of a cell came to.

    Attributes:
        cell: The cell.
        accuracies: Of the test nodes, one a run.
        n_failed: How many runs failed; they are in no mean.
        why_none: Why there is no accuracy, or "".
        epochs: Mean number of epochs, 0 without runs.
        seconds_per_epoch: Of the fastest run: what ran beside it slows a run.
        first_run: Its record, {} without runs.
    """

    cell: Cell
    accuracies: tuple[float, ...]
    n_failed: int
    why_none: str
    epochs: float
    seconds_per_epoch: float
    first_run: dict[str, Any]

    @property
    def n(self) -> int:
        """The number of runs that ended well."""
        return len(self.accuracies)

    @property
    def mean(self) -> float:
        """Mean accuracy."""
        return statistics.mean(self.accuracies)

    @property
    def deviation(self) -> float | None:
        """Standard deviation of a run; None of a single one."""
        return statistics.stdev(self.accuracies) if self.n > 1 else None

    @property
    def reported(self) -> tuple[float, float] | None:
        """Mean and deviation in the paper, if it has the cell."""
        return paper.ACCURACY.get((self.cell.dataset, self.cell.method))

    @property
    def difference(self) -> float | None:
        """Our mean minus the paper's."""
        if self.reported is None or not self.n:
            return None
        return self.mean - self.reported[0]


def summarize(
    results: Path,
    cell: Cell,
    accuracy: Callable[[dict[str, Any]], float] = lambda r: r["test_accuracy"],
) -> Summary:
    """Read the records of a cell.

    Args:
        results: Folder of the records.
        cell: The cell.
        accuracy: What to take of a record.
    """
    runs = records.read(results, cell)
    failed = records.failures(results, cell)
    return Summary(
        cell,
        tuple(accuracy(run) for run in runs),
        len(failed),
        "" if runs else _why_none(cell, failed),
        statistics.mean([run["epochs"] for run in runs] or [0]),
        min((run["seconds_per_epoch"] for run in runs), default=0),
        runs[0] if runs else {},
    )


def first_runs(summaries: Iterable[Summary]) -> dict[str, dict[str, Any]]:
    """The first record of each cell that has runs, by the cell's name."""
    return {each.cell.name: each.first_run for each in summaries if each.n}


def _why_none(cell: Cell, failed: Sequence[str]) -> str:
    if failed:
        return f"failed: {failed[0]}"
    return NO_FILES if cell.dataset in UNFETCHED else "not run"


@dataclasses.dataclass(frozen=True)
class Contrast:
    """One method against another one of the same recipe.

    Attributes:
        difference: Mean of the first minus mean of the second.
        p_value: Of Welch's test, two-sided; None for fewer than two runs, or
            runs that are all alike.
        same_code: Whether the runs of both are of the same code.
    """

    difference: float
    p_value: float | None
    same_code: bool


def contrast(first: Summary, second: Summary) -> Contrast | None:
    """Compare two cells; None unless both have runs."""
    if not first.n or not second.n:
        return None
    same_code = code_of(first.first_run) == code_of(second.first_run)
    difference = first.mean - second.mean
    spreads = (first.deviation, second.deviation)
    if None in spreads or not any(spreads):
        return Contrast(difference, None, same_code)
    test = stats.ttest_ind(first.accuracies, second.accuracies, equal_var=False)
    return Contrast(difference, float(test.pvalue), same_code)
