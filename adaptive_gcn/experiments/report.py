"""Tables and plots -> one static page that holds everything it shows."""

from __future__ import annotations

import base64
import dataclasses
import html
import json
import string
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from adaptive_gcn import run_folder
from adaptive_gcn.experiments import records

# What the columns of a table mean, told below each table that has them.
_COLUMNS = {
    "paper": "mean ± deviation as the paper prints them",
    "ours": "mean over seeds ± sample standard deviation over seeds",
    "runs": "n, the number of seeds",
    "Adapt - this": "difference of means: that of Adapt with the recipe and "
    "data set of the row, in this table, minus that of the row; † where the "
    "runs of the two are of different code",
    "Welch p": "of that difference, two-sided, unequal variances; it tells "
    "seeds apart, not data sets or splits",
    "epochs": "mean over seeds",
    "s/epoch": "seconds of an epoch's training steps, median over a run, then "
    "the least over seeds; measured beside other runs, one core each, which "
    "slow each other",
}


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes:
        title: Its heading.
        text: A paragraph, or "".
        header: Heads of the columns of its table; none if it has no table.
        rows: Rows of the table.
        images: PNG files to show, and what each shows.
        settings: Records whose flags and code to show, by their cell's name.
        name: Of the files of its table; else made of its title.
    """

    title: str
    text: str = ""
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    images: Sequence[tuple[Path, str]] = ()
    settings: dict[str, dict[str, Any]] = dataclasses.field(
        default_factory=dict
    )
    name: str = ""


def write(path: Path, sections: Iterable[Section]) -> None:
    """Write the page."""
    parts = {
        "style": _part("page.css"),
        "script": _part("page.js"),
        "sections": "\n".join(map(_section, sections)),
    }
    page = string.Template(_part("page.html")).substitute(parts)
    run_folder.write_text(path, page)


def _part(name: str) -> str:
    folder = resources.files("adaptive_gcn.experiments") / "page"
    return (folder / name).read_text(encoding="utf-8").rstrip()


def _section(section: Section) -> str:
    parts = [f"<h2>{html.escape(section.title)}</h2>"]
    if section.text:
        parts.append(f"<p>{html.escape(section.text)}</p>")
    if section.header:
        parts.append(_table(section))
    if section.images:
        images = "\n".join(_image(*each) for each in section.images)
        parts.append(f"<figure>\n{images}\n</figure>")
    if section.settings:
        parts.append(_settings(section.settings))
    return "\n".join(["<section>", *parts, "</section>"])


def _table(section: Section) -> str:
    label = f"filter rows of {section.title}"
    heads = "".join(
        f'<th scope="col"><button>{html.escape(each)}</button></th>'
        for each in section.header
    )
    rows = "\n".join(map(_row, section.rows))
    return (
        f'<input type="search" placeholder="filter rows" '
        f'aria-label="{html.escape(label)}">\n'
        '<div class="scroll"><table>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n"
        "</table></div>\n" + _columns(section.header)
    )


def _row(row: Sequence[str]) -> str:
    head, *rest = map(html.escape, row)
    cells = "".join(f"<td>{each}</td>" for each in rest)
    return f'<tr><th scope="row">{head}</th>{cells}</tr>'


def _columns(header: Sequence[str]) -> str:
    told = [
        f"<dt>{html.escape(each)}</dt><dd>{html.escape(_COLUMNS[each])}</dd>"
        for each in header
        if each in _COLUMNS
    ]
    return f"<dl>{''.join(told)}</dl>" if told else ""


def _image(path: Path, shows: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    shown = html.escape(shows)
    return f'<img alt="{shown}" src="data:image/png;base64,{data}">'


def _settings(settings: dict[str, dict[str, Any]]) -> str:
    cells = "\n".join(_cell(*item) for item in settings.items())
    return (
        f"<details><summary>Settings of its cells ({len(settings)})</summary>\n"
        f"{cells}\n</details>"
    )


def _cell(name: str, run: dict[str, Any]) -> str:
    flags = [
        f"--{key}={_flag(value)}"
        for key, value in run["flags"].items()
        if key != "seed"  # That of each run is in its record.
    ]
    text = "\n".join([*flags, "", *_made_by(run)])
    return (
        f"<details><summary>{html.escape(name)}</summary>"
        f"<pre>{html.escape(text)}</pre></details>"
    )


def _made_by(run: dict[str, Any]) -> list[str]:
    """Lines that tell the code of a record, its versions and machine."""
    code = records.code_of(run)
    first = run.get("made_by", code)
    parts = {
        "code": code if first == code else f"{code}, first run by {first}",
        **run.get("versions", {}),
        **run.get("machine", {}),
    }
    return [f"{key}: {value}" for key, value in parts.items()]


def _flag(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)
