"""Everything that is written from the records: tables, plots, the page."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from adaptive_gcn import run_folder
from adaptive_gcn.experiments import plots, records, report, tables
from adaptive_gcn.experiments.grid import DATASETS, GROUPS
from adaptive_gcn.experiments.summaries import summarize

PAGE = "report.html"
_START, _END = "<!-- results -->\n", "<!-- /results -->"

_T_TEXT = (
    "Not a result: the epoch of highest test accuracy, which nobody can know "
    "without the test labels. It is here because the authors' released script "
    "looks at the test nodes only, so that published figures may be of this "
    "kind. Everywhere else the epoch is chosen on validation nodes."
)
_VARIANCE_TEXT = (
    "Closed form for draws with replacement, mean over batches, for as many "
    "draws as the setting makes; relative to the squared norm of what is "
    "estimated. Optimum: q in proportion to the root of the second moment, "
    "which needs the hidden features of all neighbours."
)
_SEARCH_TEXT = (
    "Seeds of their own; the test nodes were not scored. The term that lambda "
    "adds shrinks the outputs of Adapt, so losses compare within a method only."
)
_TIMES_TEXT = (
    "Seconds of an epoch, one core, nothing else running. reddit_like is a "
    "generated graph of Reddit's size; there is no accuracy to be had from it."
)


def write_all(results: Path) -> None:
    """Write tables/, figures/ and the page from the records in a folder.

    Raises:
        RunFolderError: If a record cannot be read.
        plots.MissingPlotsError: If Matplotlib is not installed.
    """
    sections = [_table_section(results, group) for group in tables.TITLES]
    sections += [
        *_curve_sections(results),
        _times_section(results),
        _best_test_section(results),
        *_variance_sections(results),
        _search_section(results),
    ]
    found = [each for each in sections if each is not None]
    for section in found:
        _write_table(results, section)
    report.write(results / PAGE, found)


def readme_table(results: Path) -> str:
    """What the README shows: our settings where they were run, and Reddit."""
    rows = [
        row[:7]
        for group in ("table1", "free")
        for row in tables.table(results, group).rows
        if row[2] in ("tuned", "free")
        and (row[5] != "0" or row[:2] == ("Reddit", "Adapt"))
    ]
    return tables.markdown(rows, tables.HEADER[:7])


def write_section(path: Path, text: str) -> None:
    """Replace what stands between the two results marks of a file.

    Raises:
        RunFolderError: If the file has not both marks.
    """
    content = path.read_text(encoding="utf-8")
    head, start, rest = content.partition(_START)
    _, end, tail = rest.partition(_END)
    if not start or not end:
        raise run_folder.RunFolderError(
            f"{path}: no lines {_START.strip()} and {_END}"
        )
    run_folder.write_text(path, f"{head}{start}\n{text}\n\n{end}{tail}")


def _write_table(results: Path, section: report.Section) -> None:
    if not section.header:
        return
    folder = results / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    name = section.name or _file_name(section.title)
    for ending, render in ((".md", tables.markdown), (".tex", tables.latex)):
        text = render(section.rows, section.header)
        run_folder.write_text(folder / f"{name}{ending}", text + "\n")


def _file_name(title: str) -> str:
    return title.split(":")[0].lower().replace(" ", "_")


def _table_section(results: Path, group: str) -> report.Section | None:
    table = tables.table(results, group)
    if not any(each.n for each in table.summaries):
        return None
    return report.Section(
        table.title,
        name=group,
        header=tables.HEADER,
        rows=table.rows,
        settings={
            each.cell.name: each.settings for each in table.summaries if each.n
        },
    )


def _curve_sections(results: Path) -> list[report.Section]:
    sections = []
    for group, title in (
        ("figure2", "Figure 2: test accuracy while training"),
        ("figure3b", "Figure 3(b): the skip connection"),
        ("quick", "Quick check: test accuracy while training"),
    ):
        images = _curve_images(results, group)
        if images:
            sections.append(report.Section(title, images=images))
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


def _times_section(results: Path) -> report.Section | None:
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
    return report.Section(
        "Figure 3(a): time of an epoch",
        _TIMES_TEXT,
        ("graph", "method", "seconds"),
        rows,
        [path.with_suffix(".png")],
    )


def _best_test_section(results: Path) -> report.Section | None:
    rows = []
    for cell in GROUPS["figure2"]():
        summary = summarize(
            results, cell, lambda run: max(run["curves"]["test_accuracy"])
        )
        if summary.n:
            rows.append(tables.row_of(summary, summary)[:7])
    if not rows:
        return None
    return report.Section(
        "Appendix T: best test epoch", _T_TEXT, tables.HEADER[:7], rows
    )


def _search_section(results: Path) -> report.Section | None:
    rows = []
    for group in ("search_cora", "search_citeseer"):
        for cell in GROUPS[group]():
            runs = records.read(results, cell)
            if runs:
                means = (
                    statistics.mean(run[key] for run in runs)
                    for key in ("val_accuracy", "val_loss")
                )
                rows.append(
                    (
                        tables.name_of(cell.dataset),
                        tables.name_of(cell.method),
                        " ".join(cell.words),
                        str(len(runs)),
                        *(f"{mean:.4f}" for mean in means),
                    )
                )
    if not rows:
        return None
    header = ("data set", "method", "settings", "runs", "validation accuracy")
    return report.Section(
        "Search: settings tried on validation nodes",
        _SEARCH_TEXT,
        (*header, "validation loss"),
        rows,
    )


def _variance_sections(results: Path) -> list[report.Section]:
    sections = []
    found = sorted((results / "variance").glob("*.json"))
    studies = [run_folder.read_json(path) for path in found]
    if studies:
        rows = [row for study in studies for row in _variance_rows(study)]
        header = ("graph", "layer", "draws", "proposal", "before", "after")
        sections.append(
            report.Section(
                "Variance: relative variance of the aggregate",
                _VARIANCE_TEXT,
                header,
                rows,
            )
        )
    path = results / "figures" / "draws"
    if _plot_draws(results, path):
        sections.append(
            report.Section(
                "Draws: accuracy against the number of draws",
                images=[path.with_suffix(".png")],
            )
        )
    return sections


def _variance_rows(study: dict[str, Any]) -> list[tuple[str, ...]]:
    draws = study["flags"]["samples_per_layer"][-1]
    rows = []
    for layer, moments in study["layers"].items():
        for proposal in moments["after"]:
            values = (
                moments[moment][proposal] / draws
                for moment in ("before", "after")
            )
            graph = study["graph"]["name"]
            shown = (f"{value:.3g}" for value in values)
            rows.append((graph, layer, str(draws), proposal, *shown))
    return rows


def _plot_draws(results: Path, path: Path) -> bool:
    summaries = [
        summary
        for cell in GROUPS["variance"]()
        if (summary := summarize(results, cell)).n
    ]
    datasets = [
        d for d in DATASETS if any(s.cell.dataset == d for s in summaries)
    ]
    if not datasets:
        return False

    def draw(axes: Any) -> None:
        for each, dataset in zip(axes, datasets, strict=True):
            mine = [s for s in summaries if s.cell.dataset == dataset]
            for method in dict.fromkeys(s.cell.method for s in mine):
                points = [s for s in mine if s.cell.method == method]
                each.errorbar(
                    [s.settings["samples_per_layer"][0] for s in points],
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
    return True
