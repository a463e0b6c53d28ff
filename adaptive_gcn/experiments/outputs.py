"""Everything that is written from the records: tables, plots, the page."""

from __future__ import annotations

import re
from pathlib import Path

from adaptive_gcn import run_folder
from adaptive_gcn.experiments import (
    appendices,
    figures,
    paper,
    report,
    studies,
    tables,
)
from adaptive_gcn.experiments.grid import DATASETS, FREE, METHODS, Cell
from adaptive_gcn.experiments.summaries import first_runs, summarize

PAGE = "report.html"
_START, _END = "<!-- results -->\n", "<!-- /results -->"


def write_all(results: Path) -> None:
    """Write tables/, figures/ and the page from the records in a folder.

    Raises:
        RunFolderError: If a record cannot be read.
        plots.MissingPlotsError: If Matplotlib is not installed.
    """
    found_studies = studies.read(results)
    sections = [
        *(_table_section(results, group) for group in tables.TITLES),
        *figures.curves(results),
        figures.times(results),
        appendices.best_test(results),
        *appendices.variance(found_studies),
        figures.draws(results, found_studies),
        appendices.search(results),
    ]
    found = [each for each in sections if each is not None]
    for section in found:
        _write_table(results, section)
    report.write(results / PAGE, found)


def readme_table(results: Path) -> str:
    """The paper's Table 1 with our settings, a column a method."""
    header = ("data set", "", *map(tables.name_of, METHODS), "runs")
    rows = []
    for dataset in DATASETS:
        rows.append(_paper_row(dataset))
        rows.append(_our_row(results, dataset, "tuned"))
        if dataset in FREE:
            rows.append(_our_row(results, dataset, "free"))
    return tables.markdown(rows, header)


def _paper_row(dataset: str) -> list[str]:
    reported = [paper.ACCURACY[dataset, method] for method in METHODS]
    shown = (tables.spread(*each) for each in reported)
    return [tables.name_of(dataset), "paper", *shown, ""]


def _our_row(results: Path, dataset: str, recipe: str) -> list[str]:
    found = [
        summarize(results, Cell(dataset, recipe, method)) for method in METHODS
    ]
    counts = sorted({each.n for each in found if each.n})
    shown = [tables.ours(each) for each in found]
    if not counts and len(set(shown)) == 1:
        shown[1:] = [""] * len(shown[1:])
    return [
        tables.name_of(dataset),
        recipe,
        *shown,
        " to ".join(map(str, counts[:1] + counts[1:][-1:])),
    ]


def write_section(path: Path, text: str) -> None:
    """Replace what stands between the two results marks of a file.

    Raises:
        RunFolderError: If the file has not both marks.
    """
    head, tail = around_section(path)
    run_folder.write_text(path, f"{head}\n{text}\n\n{tail}")


def around_section(path: Path) -> tuple[str, str]:
    """A file up to its first results mark, and from its second one.

    Raises:
        RunFolderError: If the file has not both marks.
    """
    content = path.read_text(encoding="utf-8")
    head, start, rest = content.partition(_START)
    _, end, tail = rest.partition(_END)
    if not start or not end:
        raise run_folder.RunFolderError(
            f"--write_into={path}: no lines {_START.strip()} and {_END}"
        )
    return head + start, end + tail


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
    words = re.findall("[a-z]+|[0-9]+", title.split(":")[0].lower())
    return "_".join(words)


def _table_section(results: Path, group: str) -> report.Section | None:
    table = tables.table(results, group)
    if not any(each.n or each.n_failed for each in table.summaries):
        return None
    return report.Section(
        table.title,
        name=group,
        header=tables.HEADER,
        rows=table.rows,
        settings=first_runs(table.summaries),
    )
