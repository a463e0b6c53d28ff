"""The variance study of each graph: made if it has no record, and read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from adaptive_gcn import run_folder
from adaptive_gcn.config import Config
from adaptive_gcn.experiments import fingerprint, grid, records
from adaptive_gcn.experiments.grid import Cell

_PARTS = {"layers", "monte_carlo", "flags", "graph", "fingerprint"}
# The network is the tuned one, on Reddit's size with both layers sampled.
_CELLS = {
    "cora": Cell("cora", "tuned", "adapt"),
    "citeseer": Cell("citeseer", "tuned", "adapt"),
    "pubmed": Cell("pubmed", "tuned", "adapt"),
    "reddit_like": Cell(
        "reddit",
        "tuned",
        "adapt+sampled_bottom",
        words=("--dataset=reddit_like", "--epochs=5"),
    ),
}


def cells() -> dict[str, Cell]:
    """The cell to study of each graph, by its name."""
    dense = Cell(grid.DENSE, "tuned", "adapt", words=grid.dense_words())
    return _CELLS | {grid.DENSE: dense}


def read(results: Path) -> list[dict[str, Any]]:
    """The studies that have a record of their cell's present settings.

    Raises:
        RunFolderError: If a record is not that of a study.
    """
    wanted = {
        name: fingerprint.of_study(cell.config())["settings"]
        for name, cell in cells().items()
    }
    studies = []
    for name in sorted(wanted):
        path = path_of(results, name)
        if path.exists():
            study = run_folder.read_json(path)
            if not _PARTS <= study.keys():
                raise run_folder.RunFolderError(
                    f"{path}: expected the record of a variance study, with "
                    f"{', '.join(sorted(_PARTS))}; remove it and run the "
                    "group variance again"
                )
            if study["fingerprint"]["settings"] == wanted[name]:
                studies.append(study)
    return studies


def path_of(results: Path, name: str) -> Path:
    """Where the record of a study is."""
    return results / "variance" / f"{name}.json"


def run(results: Path, is_wanted: Callable[[Cell], bool]) -> int:
    """Study the graph of each cell that is wanted and has no current record.

    Returns:
        The number of studies that failed; each says why.
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"
    wanted = {name: cell for name, cell in cells().items() if is_wanted(cell)}
    if grid.DENSE in wanted and not grid.dense_file().exists():
        file = grid.dense_file()
        print(f"{grid.DENSE} is not studied: {file} needed", flush=True)
        del wanted[grid.DENSE]
    return sum(
        not _study(path_of(results, name), name, cell.config())
        for name, cell in wanted.items()
    )


def _study(path: Path, name: str, config: Config) -> bool:
    """Make the record of a study unless it is there; whether it is now."""
    wanted = fingerprint.of_study(config)
    if records.has(path, wanted):
        return True
    print(f"variance study: {name}", flush=True)
    from adaptive_gcn.experiments import variance_study  # TensorFlow.

    try:
        record = variance_study.study(config)
    except Exception as error:  # The other graphs can still be studied.
        print(f"failed: {type(error).__name__}: {error}", flush=True)
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    run_folder.write_json(path, {**record, "fingerprint": wanted})
    return True
