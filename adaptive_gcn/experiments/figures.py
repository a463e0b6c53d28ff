"""Records -> the paper's figures and that of the number of draws."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from adaptive_gcn.experiments import plots, records, tables
from adaptive_gcn.experiments.grid import DATASETS, GROUPS
from adaptive_gcn.experiments.report import Section
from adaptive_gcn.experiments.summaries import Summary, summarize

_TIMES_TEXT = (
    "Seconds of an epoch, one core, nothing else running. reddit_like is a "
    "generated graph of Reddit's size; there is no accuracy to be had from it."
)
_DRAWS_TEXT = (
    "Beside the accuracy, the relative variance of the top layer in closed "
    "form, for draws with replacement under the trained network; draws here "
    "are without, which leaves less."
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
        images = _curve_images(results, group)
        if images:
            sections.append(Section(title, images=images))
    return sections


def _curve_images(results: Path, group: str) -> list[Path]:
    images = []
    cells = [each for each in GROUPS[group]() if each.purpose == "curves"]
    for dataset in dict.fromkeys(cell.dataset for cell in cells):
        path = results / "figures" / f"{group}_{dataset}"
        mine = [cell for cell in cells if cell.dataset == dataset]
        if plots.curves(results, mine, tables.name_of(dataset), path):
            images.append(path.with_suffix(".png"))
    return images


def times(results: Path) -> Section | None:
    """Figure 3(a), if it has records."""
    seconds: dict[str, dict[str, float]] = {}
    for cell in GROUPS["figure3a"]():
        summary = summarize(results, cell)
        if summary.n:
            graph = records.read(results, cell)[0]["graph"]["name"]
            name = tables.name_of(cell.method)
            seconds.setdefault(graph, {})[name] = summary.seconds_per_epoch
    path = results / "figures" / "figure3a"
    if not plots.bars(seconds, "seconds per epoch", path):
        return None
    rows = [
        (graph, method, f"{value:.3g}")
        for graph, methods in seconds.items()
        for method, value in methods.items()
    ]
    return Section(
        "Figure 3(a): time of an epoch",
        _TIMES_TEXT,
        ("graph", "method", "seconds"),
        rows,
        [path.with_suffix(".png")],
    )


def draws(results: Path, studies: Sequence[dict[str, Any]]) -> Section | None:
    """Accuracy, seconds and variance against the number of draws.

    Args:
        results: Folder of the records.
        studies: Records of the variance study.
    """
    summaries = [
        summary
        for cell in GROUPS["variance"]()
        if (summary := summarize(results, cell)).n
    ]
    if not summaries:
        return None
    path = results / "figures" / "draws"
    _plot_draws(summaries, path)
    of_graph = {study["graph"]["name"]: study for study in studies}
    return Section(
        "Draws: accuracy against the number of draws",
        _DRAWS_TEXT,
        (
            *("data set", "method", "draws", "relative variance"),
            *("ours", "runs", "s/epoch"),
        ),
        [_draws_row(each, of_graph) for each in summaries],
        [path.with_suffix(".png")],
    )


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
    return int(summary.settings["samples_per_layer"][0])


def _plot_draws(summaries: Sequence[Summary], path: Path) -> None:
    datasets = [
        d for d in DATASETS if any(s.cell.dataset == d for s in summaries)
    ]

    def draw(axes: Any) -> None:
        for each, dataset in zip(axes, datasets, strict=True):
            mine = [s for s in summaries if s.cell.dataset == dataset]
            for method in dict.fromkeys(s.cell.method for s in mine):
                points = [s for s in mine if s.cell.method == method]
                each.errorbar(
                    [_n_draws(s) for s in points],
                    [s.mean for s in points],
                    [s.deviation or 0.0 for s in points],
                    label=tables.name_of(method),
                )
            each.set(
                xscale="log", title=tables.name_of(dataset), xlabel="draws"
            )
        axes[0].set_ylabel("test accuracy")
        axes[0].legend()

    plots.lines(draw, len(datasets), path)
