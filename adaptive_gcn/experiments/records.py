"""The records of runs: one JSON file a run, one folder a cell."""

from __future__ import annotations

import collections
import dataclasses
from pathlib import Path
from typing import Any

from adaptive_gcn import run_folder
from adaptive_gcn.config import Config
from adaptive_gcn.experiments import fingerprint
from adaptive_gcn.experiments.grid import Cell


def path_of(results: Path, cell: Cell, seed: int) -> Path:
    """Where the record of a run is."""
    return results / cell.name / f"seed{seed}.json"


def failure_of(results: Path, cell: Cell, seed: int) -> Path:
    """Where the reason is kept why a run has no record."""
    return path_of(results, cell, seed).with_suffix(".failed")


def is_current(results: Path, cell: Cell, config: Config) -> bool:
    """Whether a run has a record of the present code and its settings."""
    path = path_of(results, cell, config.seed)
    return has(path, fingerprint.of_run(config))


def has(path: Path, wanted: dict[str, str]) -> bool:
    """Whether a file holds a record with these hashes of code and settings."""
    if not path.exists():
        return False
    try:
        return bool(run_folder.read_json(path).get("fingerprint") == wanted)
    except run_folder.RunFolderError:  # Cut short: it is made anew.
        return False


def write(results: Path, cell: Cell, seed: int, record: dict[str, Any]) -> None:
    """Write the record of a run, all or nothing."""
    path = path_of(results, cell, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    run_folder.write_json(path, record)
    failure_of(results, cell, seed).unlink(missing_ok=True)


def write_failure(
    results: Path, cell: Cell, config: Config, reason: str
) -> None:
    """Note why a run failed, beside any record of earlier code or settings."""
    path = failure_of(results, cell, config.seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    note = {"seed": config.seed, "reason": reason}
    wanted = fingerprint.of_run(config)
    run_folder.write_json(path, {**note, "fingerprint": wanted})


def read(results: Path, cell: Cell) -> list[dict[str, Any]]:
    """The records of a cell, by seed.

    All have the present settings of the cell and come from the same code: the
    present one if any does, or else that of most of them.

    Raises:
        RunFolderError: If a file there is not the record of a run.
    """
    found = of_any_code(results, cell)
    if not found:
        return []
    codes = collections.Counter(map(code_of, found))
    present, ((most, _), *_) = present_code(cell), codes.most_common()
    chosen = present if present in codes else most
    return [record for record in found if code_of(record) == chosen]


def of_any_code(results: Path, cell: Cell) -> list[dict[str, Any]]:
    """The records of a cell's present settings, by seed; see `read`."""
    paths = (results / cell.name).glob("seed*.json")
    found = _of_the_cell([_read(path) for path in sorted(paths)], cell)
    return sorted(found, key=lambda record: record["seed"])


def code_of(record: dict[str, Any]) -> str:
    """The hash of the code that a record is of."""
    return str(record["fingerprint"]["code"])


def present_code(cell: Cell) -> str:
    """The hash of the present code, for the runs of a cell."""
    return fingerprint.of_run(cell.config())["code"]


def _read(path: Path) -> dict[str, Any]:
    try:
        record = run_folder.read_json(path)
        if not {"seed", "test_accuracy", "fingerprint"} <= record.keys():
            raise ValueError("a part is missing")
        accuracy = record["test_accuracy"]
        if accuracy is not None and not 0 <= accuracy <= 1:
            raise ValueError(f"test_accuracy is {accuracy}")
        if not {"code", "settings"} <= record["fingerprint"].keys():
            raise ValueError("a hash is missing")
    except (run_folder.RunFolderError, TypeError, ValueError) as error:
        raise run_folder.RunFolderError(
            f"{path}: not the record of a run ({error}); remove it and run "
            "its group again"
        ) from error
    return record


def _of_the_cell(
    records: list[dict[str, Any]], cell: Cell
) -> list[dict[str, Any]]:
    if not records:
        return []
    config = cell.config()
    return [
        record
        for record in records
        if record["fingerprint"]["settings"]
        == fingerprint.of_run(dataclasses.replace(config, seed=record["seed"]))[
            "settings"
        ]
    ]


def failures(results: Path, cell: Cell) -> list[str]:
    """Why runs failed, of those of a cell's present settings.

    Failures of earlier code than that of the records are left out.
    """
    paths = sorted((results / cell.name).glob("seed*.failed"))
    notes = _of_the_cell([_read_note(path) for path in paths], cell)
    if not notes:
        return []
    codes = set(map(code_of, read(results, cell)))
    if codes:
        codes.add(present_code(cell))
        notes = [note for note in notes if code_of(note) in codes]
    return [" ".join(note["reason"].split()) for note in notes]


def keep_failures(results: Path, cell: Cell, code: str) -> None:
    """Let the notes on runs of an earlier code be of the present one."""
    for path in (results / cell.name).glob("seed*.failed"):
        note = _read_note(path)
        if code_of(note) == code:
            note["fingerprint"]["code"] = present_code(cell)
            run_folder.write_json(path, note)


def _read_note(path: Path) -> dict[str, Any]:
    note = run_folder.read_json(path)
    if not {"seed", "reason", "fingerprint"} <= note.keys():
        raise run_folder.RunFolderError(
            f"{path}: not the note of a failed run; remove it"
        )
    return note
