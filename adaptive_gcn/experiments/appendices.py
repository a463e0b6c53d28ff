"""Records -> tables that the paper has not: what was tried, what varies."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from adaptive_gcn.experiments import captions, tables
from adaptive_gcn.experiments.grid import DRAWS, GROUPS, Cell
from adaptive_gcn.experiments.report import Section
from adaptive_gcn.experiments.summaries import first_runs, summarize

_T_TEXT = (
    "Not a result: the epoch of highest test accuracy, which nobody can know "
    "without the test labels. It is here because the authors' released script "
    "looks at the test nodes only, so that published figures may be of this "
    "kind. Everywhere else the epoch is chosen on validation nodes. The runs "
    "are those of Figure 2."
)
_VARIANCE_TEXT = (
    "One network a graph, of the recipe tuned and one seed, before and after "
    "its training (five epochs on reddit_like, else those of the recipe). "
    "Closed form for draws with replacement, mean over batches, for as many "
    "draws as the setting makes; relative to the squared norm of what is "
    "estimated. The g of both trained rows is the one trained with l2 draws, "
    "as the recipe has them. Optimum: q in proportion to the root of the "
    "second moment, which needs the hidden features of all neighbours."
)
_SIMULATION_TEXT = (
    "Settings as above. The samplers' own draws below one batch of the trained "
    "network's top layer, mean of 400 repeats and its standard error, beside "
    "the closed form. There is no closed form for draws without replacement; "
    "the one beside them is that with."
)
_SEARCH_TEXT = (
    "The recipe with other settings, means over seeds from 100 on, which are "
    "not those of the tables; the test nodes were not scored. Settings that "
    "all rows of a data set and recipe have are left out of the column: they "
    "are below the table. The term that lambda adds shrinks the outputs of "
    "Adapt, so losses compare within a method and term only. A setting that "
    "two searches tried has two rows; where they differ, so do their seeds, "
    "code or processor."
)


def best_test(results: Path) -> Section | None:
    """What choosing the epoch on the test nodes would have shown."""
    read = functools.partial(
        summarize,
        results,
        accuracy=lambda run: max(run["curves"]["test_accuracy"]),
    )
    summaries = [each for each in map(read, GROUPS["figure2"]()) if each.n]
    if not summaries:
        return None
    return Section(
        "Appendix T: best test epoch",
        _T_TEXT,
        tables.HEADER[:7],
        [tables.row_of(each, each)[:7] for each in summaries],
        settings=first_runs(summaries),
    )


def search(results: Path) -> Section | None:
    """All settings that were tried, with their validation scores."""
    cells = [
        cell
        for group in GROUPS
        if group.startswith("search_")
        for cell in GROUPS[group]()
    ]
    runs = captions.runs_of(results, cells)
    if not runs:
        return None
    header = ("data set", "recipe", "method", "settings", "runs")
    return Section(
        "Search: settings tried on validation nodes",
        _SEARCH_TEXT,
        (*header, "validation accuracy", "validation loss"),
        [_search_row(*each, _common(runs, each[0])) for each in runs.items()],
        settings=captions.first_runs(runs),
    )


def _common(cells: Iterable[Cell], cell: Cell) -> set[str]:
    """The words of all cells of a cell's data set and recipe."""
    alike = [
        set(each.words)
        for each in cells
        if (each.dataset, each.recipe) == (cell.dataset, cell.recipe)
    ]
    return set.intersection(*alike) if len(alike) > 1 else set()


def _search_row(
    cell: Cell, runs: list[dict[str, Any]], common: set[str]
) -> tuple[str, ...]:
    means = (
        statistics.mean(run[key] for run in runs)
        for key in ("val_accuracy", "val_loss")
    )
    return (
        tables.name_of(cell.dataset),
        cell.recipe,
        tables.name_of(cell.method),
        " ".join(word for word in cell.words if word not in common),
        str(len(runs)),
        *(f"{mean:.4f}" for mean in means),
    )


def variance(studies: Sequence[dict[str, Any]]) -> list[Section]:
    """The variance study: closed forms, and simulations beside them."""
    if not studies:
        return []
    numbers = (f"after, {n} draws" for n in DRAWS)
    header = (
        *("graph", "layer", "draws", "proposal", "before", "after"),
        *numbers,
    )
    return [
        Section(
            "Variance: relative variance of the aggregate",
            _VARIANCE_TEXT,
            header,
            [row for study in studies for row in _closed_rows(study)],
            settings={
                f"variance/{study['graph']['name']}": study for study in studies
            },
        ),
        Section(
            "Simulation: the samplers against the closed form",
            _SIMULATION_TEXT,
            ("graph", "draws", "sampler", "closed form", "simulated", "error"),
            [row for study in studies for row in _simulated_rows(study)],
        ),
    ]


def _closed_rows(study: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    draws = study["flags"]["samples_per_layer"][-1]
    graph = study["graph"]["name"]
    for layer, moments in study["layers"].items():
        for proposal in moments["after"]:
            before, after = (
                moments[moment][proposal] for moment in ("before", "after")
            )
            values = (before / draws, *(after / n for n in (draws, *DRAWS)))
            shown = (f"{value:.3g}" for value in values)
            yield (graph, layer, str(draws), proposal, *shown)


def _simulated_rows(study: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    found = dict(study["monte_carlo"])
    draws = str(found.pop("draws"))
    for sampler, values in found.items():
        closed = next(v for k, v in values.items() if k.startswith("closed"))
        shown = (closed, values["relative_variance"], values["standard_error"])
        graph = study["graph"]["name"]
        yield (graph, draws, sampler, *(f"{value:.3g}" for value in shown))
