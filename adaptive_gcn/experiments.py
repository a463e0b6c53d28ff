"""Records -> the results table.

    python -m adaptive_gcn.experiments --results_dir=results

Every number of the table comes from the JSON records under results/, one a
run, one folder a cell; `run_experiments.sh` writes them.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from absl import app, flags

from adaptive_gcn.run_folder import RESULT, RunFolderError, write_text

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
        record = json.loads(path.read_text(encoding="utf-8"))
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
    rows = [
        _row(folder.name, records)
        for folder in folders
        if (records := read_records(folder))
    ]
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


def _row(cell: str, records: list[dict[str, Any]]) -> str:
    seconds = statistics.median(r["seconds_per_epoch"] for r in records)
    epochs = statistics.mean(r["epochs"] for r in records)
    columns = (
        " ".join(f"`{name}`" for name in cell.split("+")),
        PAPER.get(cell, ""),
        _mean_and_deviation(r["test_accuracy"] for r in records),
        _mean_and_deviation(r["val_accuracy"] for r in records),
        str(len(records)),
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
    text = table(Path(_RESULTS_DIR.value))
    print(text)
    if _WRITE_INTO.value:
        write_section(Path(_WRITE_INTO.value), text)


if __name__ == "__main__":
    app.run(main)
