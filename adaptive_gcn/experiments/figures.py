"""Records -> the paper's figures and that of the number of draws."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from adaptive_gcn.experiments import captions, plots, tables
from adaptive_gcn.experiments.captions import Runs
from adaptive_gcn.experiments.grid import DENSE, GROUPS, NO_FILES, Cell
from adaptive_gcn.experiments.report import Section
from adaptive_gcn.experiments.summaries import Summary, summarize

Image = tuple[Path, str]

_CURVES_TEXT = (
    "Lines are means over seeds, bands go from the least to the greatest; the "
    "first epochs lie below the plot. The test nodes are scored at every epoch "
    "for this figure only, and nothing is chosen by that. Seconds are the "
    "number of the epoch times the median of a run's epochs, of the fastest "
    "run: runs slow each other. They are those of training steps, without "
    "what compiling adds to the first epoch."
)
_TIMES_TEXT = (
    "Seconds of the training steps of an epoch, median of the three epochs of "
    "a run, then the least over seeds. reddit_like is a generated graph of "
    "Reddit's size; there is no accuracy to be had from it."
)
_DRAWS_TEXT = (
    "Points are means over seeds, bars a sample standard deviation up and "
    "down; the test nodes are scored once a run. With the paper's number of "
    "draws the runs are those of Table 1. tolokers, of which 78 % are one "
    "class, is scored by the area under the ROC curve; labels of the graph of "
    "Reddit's size are made up, so it has no score. Beside the accuracy, the "
    "relative variance of the top layer in closed form, for draws with "
    "replacement under the trained network; draws here are without, which "
    "leaves less. Seconds of one or two runs may hold the load of others."
)
# The proposal of each method in the variance study.
_PROPOSAL = {"iid": "iid", "no_vr": "l2, g = 1", "adapt": "l2, trained g"}


def curves(results: Path) -> list[Section]:
    """Figure 2 and Figure 3(b), where they have records."""
    sections = []
    for group, title in (
        ("figure2", "Figure 2: test accuracy while training"),
        ("figure3b", "Figure 3(b): the skip connection"),
        ("quick", "Quick check: test accuracy while training"),
    ):
        cells = [each for each in GROUPS[group]() if each.purpose == "curves"]
        runs = captions.runs_of(results, cells)
        if runs:
            asked = {each.dataset for each in cells}
            missing = asked - {each.dataset for each in runs}
            text = _CURVES_TEXT
            if "reddit" in missing:
                text += f" Reddit: {NO_FILES}."
            images = _curve_images(results / "figures", group, runs)
            sections.append(_section(title, text, runs, images))
    return sections


def _section(
    title: str, text: str, runs: Runs, images: Sequence[Image], **more: Any
) -> Section:
    said = captions.recipe_and_seeds(runs)
    measured = captions.measured(runs)
    return Section(
        title,
        f"{said} {text} {measured}",
        images=images,
        settings=captions.first_runs(runs),
        **more,
    )


def _curve_images(folder: Path, group: str, runs: Runs) -> list[Image]:
    images = []
    for dataset in dict.fromkeys(cell.dataset for cell in runs):
        path = folder / f"{group}_{dataset}"
        mine = {
            tables.name_of(cell.method): found
            for cell, found in runs.items()
            if cell.dataset == dataset
        }
        name = tables.name_of(dataset)
        plots.curves(mine, name, path)
        shows = (
            f"Test accuracy on {name} against epochs and against seconds, "
            f"lines of {', '.join(mine)}"
        )
        images.append((path.with_suffix(".png"), shows))
    return images


def times(results: Path) -> Section | None:
    """Figure 3(a), if it has records."""
    runs = captions.runs_of(results, GROUPS["figure3a"]())
    seconds: dict[str, dict[str, float]] = {}
    for cell, found in runs.items():
        graph = tables.name_of(found[0]["graph"]["name"])
        value = summarize(results, cell).seconds_per_epoch
        seconds.setdefault(graph, {})[tables.name_of(cell.method)] = value
    path = results / "figures" / "figure3a"
    if not plots.bars(seconds, "seconds per epoch", path):
        return None
    return _section(
        "Figure 3(a): time of an epoch",
        _TIMES_TEXT,
        runs,
        [(path.with_suffix(".png"), "Bars of the seconds in the table")],
        header=("graph", "method", "seconds"),
        rows=[
            (graph, method, f"{value:.3g}")
            for graph, methods in seconds.items()
            for method, value in methods.items()
        ],
        name="figure3a",
    )


def draws(results: Path, studies: Sequence[dict[str, Any]]) -> Section | None:
    """Accuracy, seconds and variance against the number of draws.

    Args:
        results: Folder of the records.
        studies: Records of the variance study.
    """
    runs = captions.runs_of(results, GROUPS["variance"]())
    if not runs:
        return None
    summaries = [summarize(results, each, _score_of(each)) for each in runs]
    of_graph = {study["graph"]["name"]: study for study in studies}
    return _section(
        "Draws: accuracy against the number of draws",
        _DRAWS_TEXT,
        runs,
        _draws_images(results / "figures", summaries),
        header=(
            *("data set", "method", "draws", "relative variance"),
            *("ours", "runs", "s/epoch"),
        ),
        rows=[_draws_row(each, of_graph) for each in summaries],
    )


def _score_of(cell: Cell) -> Callable[[dict[str, Any]], float]:
    key = "roc_auc" if cell.dataset == DENSE else "test_accuracy"
    return operator.itemgetter(key)


def _draws_row(
    summary: Summary, studies: dict[str, dict[str, Any]]
) -> tuple[str, ...]:
    cell, n = summary.cell, _n_draws(summary)
    variance = ""
    if cell.dataset in studies:
        after = studies[cell.dataset]["layers"]["top"]["after"]
        variance = f"{after[_PROPOSAL[cell.method]] / n:.3g}"
    return (
        tables.name_of(cell.dataset),
        tables.name_of(cell.method),
        str(n),
        variance,
        tables.spread(summary.mean, summary.deviation),
        str(summary.n),
        f"{summary.seconds_per_epoch:.3f}",
    )


def _n_draws(summary: Summary) -> int:
    return int(summary.first_run["flags"]["samples_per_layer"][0])


def _draws_images(folder: Path, summaries: Sequence[Summary]) -> list[Image]:
    images = []
    for dataset in dict.fromkeys(each.cell.dataset for each in summaries):
        points: dict[str, list[plots.Point]] = {}
        for each in summaries:
            if each.cell.dataset == dataset:
                points.setdefault(tables.name_of(each.cell.method), []).append(
                    (_n_draws(each), each.mean, each.deviation)
                )
        path = folder / f"draws_{dataset}"
        name = tables.name_of(dataset)
        score = "ROC-AUC" if dataset == DENSE else "test accuracy"
        plots.draws(points, name, score, path)
        shows = f"{score} on {name} against the draws a layer, as in the table"
        images.append((path.with_suffix(".png"), shows))
    return images
