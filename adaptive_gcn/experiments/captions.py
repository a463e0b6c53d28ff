"""Records -> what a caption says of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from adaptive_gcn.experiments import records, tables
from adaptive_gcn.experiments.grid import Cell

Runs = dict[Cell, list[dict[str, Any]]]


def runs_of(results: Path, cells: Iterable[Cell]) -> Runs:
    """The records of those cells that have any."""
    found = {cell: records.read(results, cell) for cell in cells}
    return {cell: runs for cell, runs in found.items() if runs}


def first_runs(runs: Runs) -> dict[str, dict[str, Any]]:
    """The first record of each cell, by the cell's name."""
    return {cell.name: found[0] for cell, found in runs.items()}


def recipe_and_seeds(runs: Runs) -> str:
    """Recipes, and how many seeds the cells of each graph have."""
    recipes = dict.fromkeys(cell.recipe for cell in runs)
    counts: dict[str, set[int]] = {}
    for found in runs.values():
        counts.setdefault(found[0]["graph"]["name"], set()).add(len(found))
    seeds = (f"{tables.name_of(k)} {_span(n)}" for k, n in counts.items())
    return f"Recipe: {', '.join(recipes)}. Seeds: {', '.join(seeds)}."


def _span(counts: set[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def measured(runs: Runs) -> str:
    """How seconds were measured, and on what, by the records."""
    alone = all(cell.purpose == "times" for cell in runs)
    how = "one run at a time" if alone else "with runs side by side"
    machines = dict.fromkeys(
        f"{machine['cores']} core of {machine['processor']}"
        for found in runs.values()
        for run in found
        if (machine := run.get("machine"))
    )
    where = " or ".join(machines) or "a machine that has no record"
    return f"Seconds were measured {how}, one thread each, on {where}."
