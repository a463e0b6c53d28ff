"""Records of earlier code: kept where the present code gives their numbers.

Most changes to the code change no number. Where a run made again comes out as
its record has it, to the last digit, the records of its cell count as those
of the present code; each keeps the hash of the code that made it. Processors
round differently: for records of another one, the earlier code is run on this
one too, and what it gives here is what the present code has to give.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from adaptive_gcn import run_folder
from adaptive_gcn.experiments import fingerprint, records, runner
from adaptive_gcn.experiments.grid import Cell

_NUMBERS = (
    "best_epoch",
    "epochs",
    "val_loss",
    "val_accuracy",
    "test_accuracy",
    "micro_f1",
    "macro_f1",
    "val_roc_auc",
    "roc_auc",
)
_CURVES = ("val_accuracy", "test_accuracy")


def confirm(
    cells: Sequence[Cell],
    results: Path,
    n_workers: int,
    reference: Path | None = None,
) -> int:
    """Make one run of every cell that has records of earlier code.

    Cells that measure time, or lack files that nothing fetches, are left alone.
    Records of several earlier codes do not answer for each other: those of the
    code that made most of a cell's are confirmed, by one that this processor
    made if there is one.

    Args:
        cells: Of which cells.
        results: Folder of the records, which get the present code's hash.
        n_workers: Runs at a time, each on a core of its own.
        reference: Folder of records that the same earlier code made on this
            processor, asked where the cell's are of another one. Processors
            are told apart by the name that they give themselves.

    Returns:
        The number of cells that were not confirmed; these are named.

    Raises:
        RunFolderError: If a file is not the record of a run.
    """
    outdated = {cell: _outdated(results, cell) for cell in cells}
    expected = {
        cell: _expected(found[0], reference, cell)
        for cell, found in outdated.items()
        if found
    }
    n_here = sum(map(_is_of_this_processor, expected.values()))
    print(
        f"{len(expected)} cells have records of earlier code; for {n_here} it "
        "is known what that gave on this processor",
        flush=True,
    )
    jobs = runner.with_files(
        [
            runner.Job(cell, cell.config(record["seed"]))
            for cell, record in expected.items()
        ]
    )
    n_changed = 0
    with tempfile.TemporaryDirectory(prefix="adaptive-gcn-") as folder:
        runner.run_jobs(jobs, Path(folder), n_workers)
        for cell in (job.cell for job in jobs):
            again = records.of_any_code(Path(folder), cell)
            if again and _numbers(again[0]) == _numbers(expected[cell]):
                _stamp(results, cell, outdated[cell])
                continue
            n_changed += 1
            print(f"{cell.name}: {_why_not(expected[cell], again)}")
    return n_changed


def _why_not(expected: dict[str, Any], again: list[dict[str, Any]]) -> str:
    if not again:
        return "the run failed; its records stay as they are"
    if _is_of_this_processor(expected):
        return "other numbers now; to be run again"
    return (
        "other numbers than on another processor, by rounding or by the code; "
        f"a run of code {records.code_of(expected)} with seed "
        f"{expected['seed']} in --reference would tell"
    )


def _outdated(results: Path, cell: Cell) -> list[dict[str, Any]]:
    """Records of a cell by one earlier code, those of this processor first."""
    if cell.purpose == "times":
        return []
    found = records.of_any_code(results, cell)
    codes = collections.Counter(map(records.code_of, found))
    if found:
        del codes[records.present_code(cell)]
    if not codes:
        return []
    ((most, _), *_) = codes.most_common()
    found = [record for record in found if records.code_of(record) == most]
    return sorted(found, key=_is_of_this_processor, reverse=True)


def _is_of_this_processor(record: dict[str, Any]) -> bool:
    there = (record.get("machine") or {}).get("processor")
    return bool(there == _processor_here())


@functools.cache
def _processor_here() -> str:
    return str(run_folder.machine()["processor"])


def _expected(
    record: dict[str, Any], reference: Path | None, cell: Cell
) -> dict[str, Any]:
    """What the present code has to give, if it changes no number."""
    if reference is None or _is_of_this_processor(record):
        return record
    made_here = [
        other
        for other in records.of_any_code(reference, cell)
        if other["fingerprint"] == record["fingerprint"]
        and _is_of_this_processor(other)
    ]
    return made_here[0] if made_here else record


def _numbers(record: dict[str, Any]) -> list[Any]:
    curves = record.get("curves", {})
    return [
        *(record.get(name) for name in _NUMBERS),
        *(curves.get(name) for name in _CURVES),
    ]


def _stamp(results: Path, cell: Cell, found: list[dict[str, Any]]) -> None:
    records.keep_failures(results, cell, records.code_of(found[0]))
    settings = cell.config()
    for record in found:
        first = record.get("made_by", records.code_of(record))
        config = dataclasses.replace(settings, seed=record["seed"])
        run_folder.write_json(
            records.path_of(results, cell, record["seed"]),
            record
            | {"fingerprint": fingerprint.of_run(config), "made_by": first},
        )
