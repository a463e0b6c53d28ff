"""Runs the variance study of each graph that has no record of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from adaptive_gcn import run_folder
from adaptive_gcn.datasets import download
from adaptive_gcn.experiments import fingerprint, records
from adaptive_gcn.experiments.grid import Cell

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
_DENSE = "tolokers"  # A graph of mean degree 88, in a file that people share.


def cells() -> dict[str, Cell]:
    """The cell to study of each graph whose files are at hand."""
    root = download.data_root("")
    for path in (root / f"{_DENSE}.npz", root / "other" / f"{_DENSE}.npz"):
        if path.exists():
            words = (f"--dataset_dir={path}",)
            return _CELLS | {_DENSE: Cell(_DENSE, "tuned", "adapt", "", words)}
    print(f"{_DENSE} is not studied: {_DENSE}.npz needed in {root}")
    return _CELLS


def run(results: Path, is_wanted: Callable[[Cell], bool]) -> int:
    """Study the graph of each cell that is wanted and has no current record.

    Returns:
        The number of studies that failed; each says why.
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"
    n_failed = 0
    for name, cell in cells().items():
        if not is_wanted(cell):
            continue
        path = results / "variance" / f"{name}.json"
        config = cell.config()
        if records.is_of(path, config):
            continue
        wanted = fingerprint.of_run(config)
        print(f"variance study: {name}", flush=True)
        from adaptive_gcn.experiments import variance_study  # TensorFlow.

        try:
            record = variance_study.study(config)
        except Exception as error:  # The other graphs can still be studied.
            print(f"failed: {type(error).__name__}: {error}", flush=True)
            n_failed += 1
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        run_folder.write_json(path, {**record, "fingerprint": wanted})
    return n_failed
