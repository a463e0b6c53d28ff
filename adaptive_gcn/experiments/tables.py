"""Summaries -> tables in Markdown and LaTeX."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from adaptive_gcn.experiments.grid import GROUPS
from adaptive_gcn.experiments.summaries import Summary, contrast, summarize

_NAMES = {
    "cora": "Cora",
    "citeseer": "Citeseer",
    "pubmed": "Pubmed",
    "reddit": "Reddit",
    "test": "generated graph",
    "full": "Full",
    "iid": "IID",
    "node_wise": "Node-Wise",
    "no_vr": "Adapt (no vr)",
    "adapt": "Adapt",
    "skip": "skip",
    "two_hop": "2-hop",
    "all_layers": "all layers",
}

HEADER = (
    "data set",
    "method",
    "recipe",
    "paper",
    "ours",
    "runs",
    "ours - paper",
    "Adapt - this",
    "Welch p",
    "epochs",
    "s/epoch",
)


# Marks a difference between runs of different code.
OTHER_CODE = "†"
_NOTE = f"{OTHER_CODE} The runs of the two are of different code."
_REASON = 60  # Characters of a reason; all of it is in the .failed file.


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of text under a header.

    Attributes:
        title: Above it.
        summaries: Of its cells, one a row.
        rows: Each as long as `HEADER`.
    """

    title: str
    summaries: list[Summary]
    rows: list[tuple[str, ...]]


TITLES = {
    "table1": "Table 1: test accuracy",
    "table2": "Table 2: skip connection and 2-hop sampling, Cora",
    "all_layers": "Appendix: variance reduced in all layers, Cora",
    "supplement": "Appendix: skip connection, Citeseer and Pubmed",
    "free": "Sizes free: our batch or number of draws",
    "best_validation": "Best validation: the settings that won the searches",
    "quick": "Quick check on a generated graph",
}


def table(results: Path, group: str) -> Table:
    """The table of a group of cells."""
    summaries = [
        summarize(results, cell) for cell in GROUPS[group]() if not cell.purpose
    ]
    adapt = {
        (each.cell.dataset, each.cell.recipe): each
        for each in summaries
        if each.cell.method == "adapt"
    }
    rows = [
        row_of(each, adapt[each.cell.dataset, each.cell.recipe])
        for each in summaries
    ]
    return Table(TITLES[group], summaries, rows)


def row_of(summary: Summary, adapt: Summary) -> tuple[str, ...]:
    """A row: the cell, the paper's figure, ours, and Adapt's against it."""
    cell = summary.cell
    against = contrast(adapt, summary) if adapt.cell != cell else None
    mark = "" if against is None or against.same_code else f" {OTHER_CODE}"
    runs = str(summary.n)
    if summary.n_failed:
        runs += f" ({summary.n_failed} failed)"
    return (
        name_of(cell.dataset),
        name_of(cell.method),
        " ".join([cell.recipe, *cell.words]),
        spread(*summary.reported) if summary.reported else "",
        ours(summary),
        runs,
        _signed(summary.difference),
        _signed(against.difference if against else None) + mark,
        _probability(against.p_value if against else None),
        f"{summary.epochs:.0f}" if summary.n else "",
        f"{summary.seconds_per_epoch:.3f}" if summary.n else "",
    )


def name_of(word: str) -> str:
    """The name of a data set or method for people."""
    return " + ".join(_NAMES.get(part, part) for part in word.split("+"))


def ours(summary: Summary) -> str:
    """Our mean and deviation, or the beginning of why there is none."""
    if not summary.n:
        return textwrap.shorten(summary.why_none, _REASON, placeholder=" ...")
    return spread(summary.mean, summary.deviation)


def spread(mean: float, deviation: float | None) -> str:
    """A mean and a deviation, to four digits."""
    text = _digits(mean)
    return text if deviation is None else f"{text} ± {_digits(deviation)}"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.4f}".replace("0.", ".", 1)


def _digits(value: float) -> str:
    return f"{value:.4f}".removeprefix("0")


def _probability(value: float | None) -> str:
    if value is None:
        return ""
    return "< .0001" if value < 1e-4 else _digits(value)


def markdown(
    rows: Sequence[Sequence[str]], header: Sequence[str] = HEADER
) -> str:
    """A Markdown table."""
    cells = [[each.replace("|", r"\|") for each in row] for row in rows]
    lines = [header, ["---"] * len(header), *cells]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return table + f"\n\n{_NOTE}" * _has_mark(rows)


def latex(rows: Sequence[Sequence[str]], header: Sequence[str] = HEADER) -> str:
    """A LaTeX table that breaks over pages."""
    head, *body = (
        " & ".join(map(_escape, row)) + r" \\" for row in (header, *rows)
    )
    return "\n".join(
        [
            r"% Needs \usepackage{longtable}; wide ones a landscape page.",
            r"{\scriptsize\setlength{\tabcolsep}{3pt}",
            rf"\begin{{longtable}}{{{'l' * len(header)}}}",
            r"\hline",
            head,
            r"\hline\endhead",
            *body,
            r"\hline",
            r"\end{longtable}}",
            *[_escape(_NOTE)] * _has_mark(rows),
        ]
    )


def _has_mark(rows: Sequence[Sequence[str]]) -> bool:
    return any(cell.endswith(OTHER_CODE) for row in rows for cell in row)


_ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "<": r"$<$",
        ">": r"$>$",
        "†": r"$\dagger$",
        **{char: f"\\{char}" for char in "_&%#${}"},
    }
)


def _escape(text: str) -> str:
    # Two hyphens would become a dash; one before digits is a minus.
    escaped = text.translate(_ESCAPES).replace("--", "-{}-")
    return re.sub(r"^-(?=[.\d])", "$-$", escaped)
