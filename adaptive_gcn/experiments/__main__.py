"""The paper's tables and figures: `./run_experiments.sh GROUP ...`.

Groups: table1, table2, all_layers, supplement, free, best_validation,
figure2, figure3a, figure3b, variance; all of these: all. A check of two
minutes on a generated graph: quick. The searches for settings: search_cora,
search_citeseer, search_pubmed, search_pubmed_lambda, search_pubmed_term,
search_free_cora, search_free_citeseer. Only what is written from the records:
report.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import sys
from pathlib import Path

from absl import app, flags, logging

from adaptive_gcn import run_folder
from adaptive_gcn.config import PLACES, Config
from adaptive_gcn.experiments import (
    confirm,
    grid,
    outputs,
    plots,
    runner,
    studies,
)

_SEEDS = flags.DEFINE_integer(
    "seeds", 20, "runs of each cell; quick makes 2 unless told", 1
)
_FIRST_SEED = flags.DEFINE_integer(
    "first_seed",
    None,
    f"the first seed; 0 unless told, {grid.FIRST_SEARCH_SEED} in searches",
    0,
)
_DATASETS = flags.DEFINE_list("datasets", [], "only these data sets")
_METHODS = flags.DEFINE_list("methods", [], "only these methods")
_RECIPES = flags.DEFINE_list("recipes", [], "only these recipes")
_WORKERS = flags.DEFINE_integer(
    "workers", len(os.sched_getaffinity(0)), "runs at a time, one a core", 1
)
_RESULTS_DIR = flags.DEFINE_string(
    "results_dir", "results", "folder of the records"
)
_WRITE_INTO = flags.DEFINE_string(
    "write_into", "", "file whose results section to replace by the table"
)
_CONFIRM = flags.DEFINE_bool(
    "confirm",
    False,
    "instead of running cells again whose records are of earlier code, make "
    "one run of each and keep the records where its numbers are the same; "
    "not of figure3a and of the variance studies",
)
_REFERENCE = flags.DEFINE_string(
    "reference",
    "",
    "with --confirm: folder of records that the earlier code made on this "
    "processor (its --results_dir, with --seeds=1), for records of another "
    "processor, whose last digits differ",
)

_EVERYTHING = [
    name for name in grid.GROUPS if name != "quick" and "search" not in name
]
_TIMED_SEEDS = 3
_QUICK_SEEDS = 2
_QUICK_DIR = "runs/quick"  # Where the quick check leaves its records.


def _cells(*groups: str) -> list[grid.Cell]:
    """The cells of the groups that are wanted, each once."""
    cells = itertools.chain(*(grid.GROUPS[group]() for group in groups))
    return list(dict.fromkeys(filter(_is_wanted, cells)))


def _is_wanted(cell: grid.Cell) -> bool:
    filters = _filters().items()
    return all(not v or getattr(cell, key) in v for key, v in filters)


def _groups(words: list[str]) -> list[str]:
    known = [*grid.GROUPS, "all", "report"]
    if not words or not set(words) <= set(known):
        raise app.UsageError(
            f"expected one or more of: {', '.join(known)}. "
            f"Received: {' '.join(words) or 'none'}"
        )
    groups = _EVERYTHING if "all" in words else words
    return [group for group in groups if group != "report"]


def _check_flags(groups: list[str]) -> None:
    """Refuse what would change cells in silence, or select none of them."""
    if not _CONFIRM.value:
        for group in groups:
            _check_seeds(group)
    if _REFERENCE.value:
        _check_reference(Path(_REFERENCE.value))
    for field in dataclasses.fields(Config):
        if field.name not in PLACES and flags.FLAGS[field.name].present:
            raise app.UsageError(
                f"--{field.name} is a setting of the cells, which the flag "
                "files give. Use python -m adaptive_gcn.main for other runs"
            )
    if not groups and any(_filters().values()):
        raise app.UsageError(
            "report writes what all records show: expected no --datasets, "
            "--methods or --recipes"
        )
    cells = [cell for group in groups for cell in grid.GROUPS[group]()]
    if "variance" in groups:
        cells += studies.cells().values()
    for key, wanted in _filters().items():
        known = dict.fromkeys(getattr(cell, key) for cell in cells)
        unknown = [each for each in wanted if each not in known]
        if unknown:
            raise app.UsageError(
                f"--{key}s={','.join(wanted)}: expected some of "
                f"{', '.join(known)}. Received: {', '.join(unknown)}"
            )


def _check_reference(folder: Path) -> None:
    if not _CONFIRM.value:
        raise app.UsageError("--reference: expected --confirm with it")
    if not folder.is_dir():
        raise app.UsageError(
            f"--reference: expected a folder of records. Received: {folder}"
        )


def _filters() -> dict[str, list[str]]:
    return {
        "dataset": _DATASETS.value,
        "method": _METHODS.value,
        "recipe": _RECIPES.value,
    }


def _check_seeds(group: str) -> None:
    """Settings are chosen on other seeds than those that they are shown of."""
    seeds, limit = _seeds(group), grid.FIRST_SEARCH_SEED
    if group.startswith("search"):
        if seeds[0] < limit:
            raise app.UsageError(
                f"{group}: expected seeds from {limit} on, for those below "
                f"are of the tables. Received: --first_seed={seeds[0]}"
            )
    elif seeds[-1] >= limit:
        raise app.UsageError(
            f"{group}: expected seeds below {limit}, for those from there on "
            f"are of the searches. Received: {seeds[0]} to {seeds[-1]}"
        )


def _seeds(group: str) -> range:
    first, n_seeds = _FIRST_SEED.value, _SEEDS.value
    if first is None:
        first = grid.FIRST_SEARCH_SEED if group.startswith("search") else 0
    if group == "quick" and not flags.FLAGS["seeds"].present:
        n_seeds = _QUICK_SEEDS
    if group == "figure3a":  # What is timed varies little.
        n_seeds = min(n_seeds, _TIMED_SEEDS)
    return range(first, first + n_seeds)


def _run(groups: list[str], results: Path) -> int:
    """Run the groups, those of like ways together, to tell what is left."""
    if _CONFIRM.value:
        reference = Path(_REFERENCE.value) if _REFERENCE.value else None
        return confirm.confirm(
            _cells(*groups), results, _WORKERS.value, reference
        )
    ways: dict[tuple[range, int], list[str]] = {}
    for group in groups:  # What is timed runs by itself.
        n_workers = 1 if group == "figure3a" else _WORKERS.value
        ways.setdefault((_seeds(group), n_workers), []).append(group)
    n_failed = 0
    for (seeds, n_workers), alike in ways.items():
        print(f"{', '.join(alike)}: {len(seeds)} seeds", flush=True)
        n_failed += runner.run(_cells(*alike), seeds, results, n_workers)
    if "variance" in groups:
        n_failed += studies.run(results, _is_wanted)
    return n_failed


def _prepare(groups: list[str], results: Path) -> None:
    """Find what would stop the work before any of it is done."""
    plots.require()
    if _WRITE_INTO.value:
        outputs.around_section(Path(_WRITE_INTO.value))
    if not groups and not results.is_dir():
        raise run_folder.RunFolderError(
            f"--results_dir={results}: expected the folder of the records"
        )
    run_folder.make_writable(results, f"--results_dir={results}")


def _run_and_write(groups: list[str], results: Path) -> int:
    """The runs of the groups, and what they show; how many of them failed."""
    _prepare(groups, results)
    with run_folder.locked(results, f"--results_dir={results}"):
        n_failed = _run(groups, results)
        outputs.write_all(results)
        if _WRITE_INTO.value:
            text = outputs.readme_table(results)
            outputs.write_section(Path(_WRITE_INTO.value), text)
    return n_failed


def main(argv: list[str]) -> None:
    """Run the groups named on the command line, then write what they show."""
    groups = _groups(argv[1:])
    _check_flags(groups)
    results = Path(_RESULTS_DIR.value)
    if groups == ["quick"] and not flags.FLAGS["results_dir"].present:
        results = Path(_QUICK_DIR)
    logging.set_verbosity(logging.WARNING)
    try:
        n_failed = _run_and_write(groups, results)
    except (OSError, plots.MissingPlotsError, flags.Error) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        print("stopped; call again to go on", file=sys.stderr)
        sys.exit(130)
    print(f"tables, figures and {outputs.PAGE} are in {results}")
    sys.exit(1 if n_failed else 0)


if __name__ == "__main__":
    app.run(main)
