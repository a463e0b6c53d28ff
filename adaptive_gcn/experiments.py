"""Records -> the results table.

    python -m adaptive_gcn.experiments --results_dir=results

Every number of the table comes from the JSON records under results/, one a
run, one folder a cell; `run_experiments.sh` writes them.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from absl import app, flags

from adaptive_gcn.run_folder import (
    RESULT,
    RunFolderError,
    read_json,
    write_text,
)

_RESULTS_DIR = flags.DEFINE_string(
    "results_dir", "results", "folder with one folder of records a cell"
)
_WRITE_INTO = flags.DEFINE_string(
    "write_into", "", "file whose results section to replace by the table"
)

_START, _END = "<!-- results -->\n", "<!-- /results -->"

# What the paper reports for the cell (Tables 1 and 2); none where it is ours.
PAPER = {
    "cora": ".8744 +- .0034",
    "cora+paper_sizes": ".8744 +- .0034",
    "citeseer": ".7966 +- .0018",
    "pubmed": ".9060 +- .0016",
    "cora+row1+full": ".8664 +- .0011",
    "cora+row1+iid": ".8506 +- .0048",
    "cora+row1+no_vr": ".8588 +- .0062",
    "cora+row1+adapt": ".8744 +- .0034",
}

_HEADER = (
    "| flag files | paper | test accuracy | validation accuracy | runs | "
    "epochs | seconds per epoch |",
    "| --- | --- | --- | --- | --- | --- | --- |",
)


def read_records(folder: Path) -> list[dict[str, Any]]:
    """The records of one cell, by seed.

    Raises:
        RunFolderError: If a file there is not the record of a run.
    """
    records = []
    for path in folder.glob("*.json"):
        record = read_json(path)
        if "test_accuracy" not in record:
            raise RunFolderError(f"{path}: expected a copy of a run's {RESULT}")
        records.append(record)
    return sorted(records, key=lambda record: record["seed"])


def table(results_dir: Path) -> str:
    """The results as a Markdown table, one row a cell.

    Raises:
        RunFolderError: If there are no records.
    """
    folders = sorted(path for path in results_dir.glob("*") if path.is_dir())
    rows = [_row(folder) for folder in folders if any(folder.iterdir())]
    if not rows:
        raise RunFolderError(
            f"{results_dir}: no records; run ./run_experiments.sh first"
        )
    return "\n".join([*_HEADER, *rows])


def write_section(path: Path, text: str) -> None:
    """Replace what stands between the two results marks of a file.

    Raises:
        RunFolderError: If the file has not both marks.
    """
    content = path.read_text(encoding="utf-8")
    head, start, rest = content.partition(_START)
    _, end, tail = rest.partition(_END)
    if not start or not end:
        raise RunFolderError(f"{path}: no lines {_START.strip()} and {_END}")
    write_text(path, f"{head}{start}\n{text}\n\n{end}{tail}")


def _row(folder: Path) -> str:
    cell, records = folder.name, read_records(folder)
    n_failed = len(list(folder.glob("*.failed")))
    names = " ".join(f"`{name}`" for name in cell.split("+"))
    paper = PAPER.get(cell, "")
    runs = f"{len(records)}" + (f" ({n_failed} failed)" if n_failed else "")
    if not records:
        return f"| {names} | {paper} | failed | | {runs} | | |"
    seconds = statistics.median(r["seconds_per_epoch"] for r in records)
    epochs = statistics.mean(r["epochs"] for r in records)
    columns = (
        names,
        paper,
        _mean_and_deviation(r["test_accuracy"] for r in records),
        _mean_and_deviation(r["val_accuracy"] for r in records),
        runs,
        f"{epochs:.0f}",
        f"{seconds:.3f}",
    )
    return f"| {' | '.join(columns)} |"


def _mean_and_deviation(values: Iterable[float]) -> str:
    values = list(values)
    mean = f"{statistics.mean(values):.4f}".lstrip("0")
    if len(values) == 1:
        return mean
    return f"{mean} +- {statistics.stdev(values):.4f}".replace(" 0.", " .")


def main(argv: list[str]) -> None:
    """Print the table."""
    if len(argv) > 1:
        raise app.UsageError(f"unexpected words: {' '.join(argv[1:])}")
    try:
        text = table(Path(_RESULTS_DIR.value))
        print(text)
        if _WRITE_INTO.value:
            write_section(Path(_WRITE_INTO.value), text)
    except RunFolderError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    app.run(main)
