"""Grid -> records -> tables, plots and the page."""

import base64
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from adaptive_gcn import config, run_folder
from adaptive_gcn.datasets import download
from adaptive_gcn.experiments import (
    appendices,
    confirm,
    figures,
    fingerprint,
    grid,
    outputs,
    plots,
    records,
    report,
    runner,
    studies,
    summaries,
    tables,
    variance_study,
)
from adaptive_gcn.graph import normalize_adjacency
from adaptive_gcn.run_folder import RunFolderError
from adaptive_gcn.sampling import samplers
from tests.helpers import ring_graph

ROOT = Path(__file__).parents[1]
CELL = grid.Cell("cora", "official", "full")


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)


def put(results, cell, seed, accuracy=0.8, **more):
    record = {
        "seed": seed,
        "test_accuracy": accuracy,
        "val_accuracy": accuracy + 0.01,
        "epochs": 10 * (seed + 1),
        "seconds_per_epoch": 0.5 + seed,
        "flags": {"seed": seed, "epochs": 300},
        "graph": {"name": cell.dataset},
        "fingerprint": fingerprint.of_run(cell.config(seed)),
        **more,
    }
    records.write(results, cell, seed, record)


# The grid.


@pytest.mark.parametrize("group", grid.GROUPS)
def test_cells_have_flag_files_and_names_of_their_own(group):
    cells = grid.GROUPS[group]()
    assert len({cell.name for cell in cells}) == len(cells) > 0
    for cell in cells:
        assert cell.config(seed=3).seed == 3


def test_table_1_has_every_method_of_every_recipe():
    found = {(c.dataset, c.recipe, c.method) for c in grid.GROUPS["table1"]()}
    assert len(found) == 4 * 3 * 5


def test_methods_of_a_recipe_share_all_other_settings():
    of_a_method = {"method", "variance_weight"}
    for cell in grid.GROUPS["table1"]():
        same = dataclasses.replace(cell, method="adapt")
        ours, theirs = cell.config().as_dict(), same.config().as_dict()
        changed = {key for key in ours if ours[key] != theirs[key]}
        assert changed <= of_a_method


@pytest.mark.parametrize("recipe", ["tuned", "official", "paper"])
def test_batch_and_draws_are_the_papers(recipe):
    draws = {"cora": 128, "citeseer": 128, "pubmed": 256, "reddit": 512}
    for dataset, n in draws.items():
        settings = grid.Cell(dataset, recipe, "adapt").config()
        assert settings.batch_size == 256
        assert settings.samples_per_layer == (n,)
        hidden = 256 if dataset == "reddit" else 16
        assert settings.hidden_units == (hidden,)


def test_curves_have_no_early_stop_and_searches_see_no_test_nodes():
    for cell in grid.GROUPS["figure2"]():
        assert cell.config().test_curve
        assert cell.config().patience == 0
    for group in grid.GROUPS:
        for cell in grid.GROUPS[group]() if "search" in group else ():
            assert not cell.config().evaluate_test


@pytest.mark.parametrize("group", ["table2", "supplement", "all_layers"])
def test_variants_stand_beside_adapt_of_their_recipe(group):
    cells = grid.GROUPS[group]()
    for cell in cells:
        assert dataclasses.replace(cell, method="adapt") in cells


def test_draws_of_the_papers_number_are_the_cells_of_table_1():
    plain = [cell for cell in grid.GROUPS["variance"]() if not cell.purpose]
    assert set(plain) < set(grid.GROUPS["table1"]())
    assert len(plain) == 9
    seen = [
        (cell.dataset, cell.method, cell.config().samples_per_layer)
        for cell in grid.GROUPS["variance"]()
    ]
    assert len(set(seen)) == len(seen) == 4 * 3 * len(grid.DRAWS)


def test_where_the_dense_graph_lies_names_no_cell(monkeypatch):
    def names():
        cells = grid.GROUPS["variance"]()
        return [cell.name for cell in cells if cell.dataset == grid.DENSE]

    here = names()
    monkeypatch.setenv("ADAPTIVE_GCN_DATA_DIR", "elsewhere")
    assert names() == here
    assert here[0] == "draws/tolokers/tuned/iid/samples_per_layer=32"


# Which records are current.


def test_comments_docstrings_and_layout_do_not_count_as_code():
    first = 'def f(x):\n    """Say."""\n    return x + 1  # one\n'
    second = "def f(x):\n\n    return (x + 1)\n"
    other = "def f(x):\n    return x + 2\n"
    assert fingerprint._meaning(first) == fingerprint._meaning(second)
    assert fingerprint._meaning(first) != fingerprint._meaning(other)


def test_a_record_is_current_for_its_settings_and_code(tmp_path, monkeypatch):
    settings = CELL.config(0)
    assert not records.is_current(tmp_path, CELL, settings)
    put(tmp_path, CELL, 0)
    assert records.is_current(tmp_path, CELL, settings)
    changed = dataclasses.replace(settings, learning_rate=0.5)
    assert not records.is_current(tmp_path, CELL, changed)
    monkeypatch.setattr(fingerprint, "code", lambda: "other")
    assert not records.is_current(tmp_path, CELL, settings)


def test_records_of_other_settings_or_of_several_codes_are_not_mixed(
    tmp_path,
):
    for seed in range(5):
        put(tmp_path, CELL, seed)
    other = fingerprint.of_run(CELL.config(5)) | {"settings": "other"}
    put(tmp_path, CELL, 5, fingerprint=other)
    for seed, code in ((1, "old"), (2, "old"), (3, "old"), (4, "older")):
        wanted = fingerprint.of_run(CELL.config(seed)) | {"code": code}
        put(tmp_path, CELL, seed, fingerprint=wanted)
    assert [run["seed"] for run in records.read(tmp_path, CELL)] == [0]
    records.path_of(tmp_path, CELL, 0).unlink()
    assert [run["seed"] for run in records.read(tmp_path, CELL)] == [1, 2, 3]


def test_a_later_flag_counts_once_it_differs_from_its_default():
    first = fingerprint.of_run(config.Config())
    assert fingerprint.of_run(config.Config(weight_average=0.0)) == first
    assert fingerprint.of_run(config.Config(weight_average=0.9)) != first
    assert fingerprint.of_run(config.Config(learning_rate=0.9)) != first


def test_modules_that_do_not_count_exist():
    package = ROOT / "adaptive_gcn"
    for name in fingerprint._OTHER_MODULES:
        assert (package / name).exists()


def test_where_things_lie_does_not_count_as_a_setting():
    here = config.Config(output_dir="a")
    assert fingerprint.of_run(here) == fingerprint.of_run(config.Config())


# The runner.


def fake_train(_, settings):
    if settings.seed == 1:
        raise ValueError("training diverged: epoch 3")
    return {
        "seed": settings.seed,
        "test_accuracy": 0.5 + settings.seed / 100,
        "epochs": 1,
        "seconds_per_epoch": 1.0,
        "machine": run_folder.machine(),
        "fingerprint": fingerprint.of_run(settings),
    }


def test_what_has_no_record_is_run_and_failures_keep_their_reason(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(runner._Worker, "train", fake_train)
    assert runner.run([CELL], range(3), tmp_path, 2) == 1
    assert records.failures(tmp_path, CELL) == [
        "ValueError: training diverged: epoch 3"
    ]
    assert [run["seed"] for run in records.read(tmp_path, CELL)] == [0, 2]
    printed = capsys.readouterr().out
    assert "[3/3]" in printed
    assert "min left" in printed
    # Again: the failed one only, and a success takes the reason away.
    monkeypatch.setattr(
        runner._Worker, "train", lambda _, s: fake_train(_, CELL.config(7))
    )
    assert runner.run([CELL], range(3), tmp_path, 2) == 0
    assert "3 runs, 2 have their record" in capsys.readouterr().out
    assert not records.failures(tmp_path, CELL)


def test_records_of_earlier_code_stay_where_a_run_gives_the_same_numbers(
    tmp_path, monkeypatch, capsys
):
    other = grid.Cell("cora", "official", "iid")
    ranked = grid.Cell("cora", "official", "adapt")
    timed = grid.Cell("pubmed", "tuned", "full", "times")
    monkeypatch.setattr(runner._Worker, "train", fake_train)
    for cell in (CELL, other, ranked, timed):
        for seed in (0, 2):
            record = fake_train(None, cell.config(seed))
            record["test_accuracy"] += 0.1 * (cell is other)
            record["roc_auc"] = 0.5 if cell is ranked else None
            records.write(tmp_path, cell, seed, record)
    records.write_failure(tmp_path, CELL, CELL.config(1), "diverged")
    before = records.path_of(tmp_path, timed, 0).read_text()
    old = fingerprint.code()
    monkeypatch.setattr(fingerprint, "code", lambda: "new")
    assert confirm.confirm([CELL, other, ranked, timed], tmp_path, 2) == 2
    printed = capsys.readouterr().out
    assert "cora/official/iid: other numbers now" in printed
    assert "cora/official/adapt: other numbers now" in printed
    assert records.failures(tmp_path, CELL) == ["diverged"]
    for seed in (0, 2):
        assert records.is_current(tmp_path, CELL, CELL.config(seed))
        assert not records.is_current(tmp_path, other, other.config(seed))
    assert [r["made_by"] for r in records.read(tmp_path, CELL)] == [old, old]
    assert records.path_of(tmp_path, timed, 0).read_text() == before
    monkeypatch.setattr(runner._Worker, "train", lambda *_: 1 / 0)
    assert confirm.confirm([other], tmp_path, 1) == 1
    assert "cora/official/iid: the run failed" in capsys.readouterr().out
    monkeypatch.setattr(runner._Worker, "train", fake_train)
    # What yet another code made is not answered for.
    monkeypatch.setattr(fingerprint, "code", lambda: "another")
    stray = CELL.config(7)
    records.write(tmp_path, CELL, 7, fake_train(None, stray))
    # A second time the first hash stays, also beside a run made again.
    monkeypatch.setattr(fingerprint, "code", lambda: "newer")
    records.write(tmp_path, CELL, 3, fake_train(None, CELL.config(3)))
    assert confirm.confirm([CELL], tmp_path, 1) == 0
    found = records.read(tmp_path, CELL)
    assert [run["seed"] for run in found] == [0, 2, 3]
    assert [run.get("made_by") for run in found] == [old, old, None]
    assert not records.is_current(tmp_path, CELL, stray)


def test_records_of_another_processor_stay_by_what_the_code_gave_here(
    tmp_path, monkeypatch, capsys
):
    """The other processor rounds, and the reference has what this one gives."""
    results, reference = tmp_path / "results", tmp_path / "reference"
    monkeypatch.setattr(runner._Worker, "train", fake_train)
    cells = [
        grid.Cell("cora", "official", method)
        for method in ("full", "iid", "no_vr", "node_wise", "adapt")
    ]
    same, changed, unknown, far, of_other_code = cells
    for cell in cells:
        record = fake_train(None, cell.config(0))
        there = record | {"test_accuracy": 0.49, "machine": {"processor": "x"}}
        records.write(results, cell, 0, there)
        here = record | {"machine": run_folder.machine()}
        if cell is changed:
            here["test_accuracy"] = 0.48
        if cell is far:  # Made there too, and says so.
            here["machine"] = there["machine"]
        if cell is of_other_code:
            here["fingerprint"] = here["fingerprint"] | {"code": "other"}
        if cell is not unknown:
            records.write(reference, cell, 0, here)
    old = fingerprint.code()
    monkeypatch.setattr(fingerprint, "code", lambda: "new")
    assert confirm.confirm(cells, results, 2, reference) == 4
    printed = capsys.readouterr().out
    assert "5 cells have records of earlier code; for 2 it is" in printed
    assert f"{changed.name}: other numbers now" in printed
    for cell in (unknown, far, of_other_code):
        said = f"{cell.name}: other numbers than on another processor"
        assert f"{said}, by rounding or by the code; a run of code" in printed
    for cell in (changed, unknown, far, of_other_code):
        assert not records.is_current(results, cell, cell.config(0))
    (kept,) = records.read(results, same)
    assert records.is_current(results, same, same.config(0))
    assert (kept["made_by"], kept["test_accuracy"]) == (old, 0.49)


@pytest.mark.parametrize(
    "processor, recorded, referred", [("x", 0.5, 0.49), (None, 0.49, 0.5)]
)
def test_one_record_says_what_the_present_code_has_to_give(
    tmp_path, monkeypatch, processor, recorded, referred
):
    """That of this processor, if it is the cell's; or else the reference."""
    monkeypatch.setattr(runner._Worker, "train", fake_train)
    results, reference = tmp_path / "results", tmp_path / "reference"
    here = run_folder.machine()
    there = {"processor": processor or here["processor"]}
    for folder, accuracy, machine in (
        (results, recorded, there),
        (reference, referred, here),
    ):
        record = fake_train(None, CELL.config(0))
        record |= {"test_accuracy": accuracy, "machine": machine}
        records.write(folder, CELL, 0, record)
    monkeypatch.setattr(fingerprint, "code", lambda: "new")
    assert confirm.confirm([CELL], results, 1, reference) == 1


def test_a_record_of_this_processor_answers_for_those_of_others(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(runner._Worker, "train", fake_train)
    first = fake_train(None, CELL.config(0))
    there = {"test_accuracy": 0.49, "machine": None}
    records.write(tmp_path, CELL, 0, first | there)
    second = fake_train(None, CELL.config(2))
    here = {"machine": run_folder.machine()}
    records.write(tmp_path, CELL, 2, second | here)
    monkeypatch.setattr(fingerprint, "code", lambda: "new")
    assert confirm.confirm([CELL], tmp_path, 1) == 0
    for seed in (0, 2):
        assert records.is_current(tmp_path, CELL, CELL.config(seed))


def test_what_is_left_is_told_by_the_runs_that_did_not_fail(tmp_path, capsys):
    jobs = [runner.Job(CELL, CELL.config(seed)) for seed in range(6)]
    progress = runner._Progress(jobs, tmp_path, 1)
    progress.tell(jobs[0], "failed: it", 1.0, failed=True)
    progress.tell(jobs[1], "test 0.8", 600.0, failed=False)
    progress.tell(jobs[2], "failed: it", 1.0, failed=True)
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == "[1/6] cora/official/full seed 0: failed: it, 1 s"
    assert last.endswith("; about 30 min left")


def test_a_run_whose_process_dies_fails_and_the_next_one_runs(tmp_path):
    worker = runner._Worker(sorted(os.sched_getaffinity(0))[0], tmp_path)
    try:
        with pytest.raises(RuntimeError, match="was killed"):
            worker.train(Fatal())
        assert worker._pool is None
    finally:
        worker.stop()


class Fatal:
    """Ends the process that unpickles it."""

    def __reduce__(self):
        return os._exit, (1,)


@pytest.mark.slow
def test_a_grid_killed_twice_ends_with_the_same_records(tmp_path):
    def start(folder):
        return subprocess.Popen(
            [
                ROOT / "run_experiments.sh",
                "quick",
                "--workers=1",
                f"--results_dir={folder}",
            ],
            env={**os.environ, "PYTHON": sys.executable},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    whole = start(tmp_path / "whole")
    whole.communicate(timeout=500)
    assert whole.returncode == 0
    finished = {}
    for _ in range(2):
        cut = start(tmp_path / "cut")
        for line in cut.stdout:
            if line.startswith("["):
                break
        workers = children_of(cut.pid)
        assert workers
        os.kill(cut.pid, signal.SIGKILL)
        cut.communicate()
        # The workers do not outlive it.
        for _ in range(100):
            if not any(Path(f"/proc/{each}").exists() for each in workers):
                break
            time.sleep(0.1)
        else:
            raise AssertionError(f"workers {workers} are still there")
        now = {
            path: path.stat().st_mtime_ns
            for path in (tmp_path / "cut").rglob("seed*.json")
        }
        assert now.items() > finished.items()
        finished = now
    last = start(tmp_path / "cut")
    last.communicate(timeout=500)
    assert last.returncode == 0
    for path, made in finished.items():  # No finished run is made again.
        assert path.stat().st_mtime_ns == made

    def numbers(folder):
        found = {}
        for path in sorted((tmp_path / folder).rglob("seed*.json")):
            record = json.loads(path.read_text())
            for timed in ("seconds_per_epoch", "seconds_total"):
                del record[timed]
            record.get("curves", {}).pop("seconds", None)
            found[str(path.relative_to(tmp_path / folder))] = record
        return found

    assert len(numbers("whole")) == 10  # 3 methods and 2 curves, twice.
    assert numbers("whole") == numbers("cut")
    page = (tmp_path / "whole" / "report.html").read_text()
    assert page.count("<img") >= 1


def children_of(pid):
    path = Path(f"/proc/{pid}/task")
    return [
        int(child)
        for task in path.iterdir()
        for child in (task / "children").read_text().split()
    ]


@pytest.mark.parametrize(
    "words, message",
    [
        (["table1", "--weight_decay=0"], "--weight_decay is a setting"),
        (["table1", "--datasets=Cora"], "Received: Cora"),
        (["table1", "--methods=adapt,adpt"], "Received: adpt"),
        (["tabel1"], "Received: tabel1"),
        (["report", "--results_dir=/dev/null/x"], "--results_dir=/dev/null/x"),
        (["quick", "--write_into=setup.cfg"], "--write_into=setup.cfg: no"),
        (["variance", "--datasets=toloker"], "pubmed, tolokers, reddit"),
        (["report", "--datasets=cora"], "report writes what all records show"),
        (["table1", "--first_seed=90"], "Received: 90 to 109"),
        (["table1", "--reference=results"], "expected --confirm with it"),
        (["table1", "--confirm", "--reference=none"], "folder of records"),
        (["search_cora", "--first_seed=0"], "Received: --first_seed=0"),
        ([], "Received: none"),
    ],
)
def test_words_that_select_nothing_or_change_cells_are_refused(
    tmp_path, words, message
):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "adaptive_gcn.experiments"),
            *(f"--results_dir={tmp_path}", *words),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1
    assert message in done.stdout + done.stderr


def test_groups_that_run_alike_are_run_together(tmp_path):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "adaptive_gcn.experiments"),
            *("table1", "search_cora", "figure2", "--datasets=reddit"),
            *("--seeds=3", f"--results_dir={tmp_path}"),
        ],
        env={**os.environ, "ADAPTIVE_GCN_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[:-1] == [
        "table1, figure2: 3 seeds",
        "reddit is not run: raw files needed",
        "0 runs, 0 have their record",
        "search_cora: 3 seeds",
        "0 runs, 0 have their record",
    ]


# Summaries and tables.


def test_welch_test_by_hand():
    # t = -sqrt(1.5) with 4 degrees of freedom.
    first = summary_of([0.1, 0.2, 0.3])
    second = summary_of([0.2, 0.3, 0.4])
    found = summaries.contrast(first, second)
    assert found.difference == pytest.approx(-0.1)
    assert found.p_value == pytest.approx(0.2879, abs=1e-4)


def summary_of(accuracies, cell=CELL, code="new"):
    first = {"fingerprint": {"code": code}}
    return summaries.Summary(cell, tuple(accuracies), 0, "", 300.0, 0.1, first)


def test_one_run_has_no_deviation_and_no_test():
    single = summary_of([0.8])
    assert single.deviation is None
    assert summaries.contrast(single, single).p_value is None
    alike = summary_of([0.8, 0.8])
    assert summaries.contrast(alike, alike).p_value is None


def test_row_holds_the_papers_figure_ours_and_the_difference():
    adapt = summary_of([0.9, 0.8], dataclasses.replace(CELL, method="adapt"))
    row = tables.row_of(summary_of([0.8, 0.9]), adapt)
    assert row == (
        "Cora",
        "Full",
        "official",
        ".8664 ± .0011",
        ".8500 ± .0707",
        "2",
        "-.0164",
        "+.0000",
        "1.0000",
        "300",
        "0.100",
    )
    assert tables.row_of(adapt, adapt)[7:9] == ("", "")
    older = summary_of([0.8, 0.9], code="old")
    assert tables.row_of(older, adapt)[7:9] == ("+.0000 †", "1.0000")


def test_draws_stand_beside_the_variance_of_their_number(tmp_path):
    for n, accuracy in ((32, 0.8), (64, 0.9)):
        cell = grid.Cell(
            "cora", "tuned", "adapt", "draws", (f"--samples_per_layer={n}",)
        )
        put(tmp_path, cell, 0, accuracy, flags={"samples_per_layer": [n]})
    dense = next(
        cell for cell in grid.GROUPS["variance"]() if cell.dataset == grid.DENSE
    )
    flags = {"samples_per_layer": [32]}
    put(tmp_path, dense, 0, 0.78, flags=flags, roc_auc=0.7)
    after = {"iid": 500.0, "l2, trained g": 192.0}
    study = {
        "graph": {"name": "cora"},
        "layers": {"top": {"after": after}},
    }
    section = figures.draws(tmp_path, [study])
    assert section.rows == [
        ("Cora", "Adapt", "32", "6", ".8000", "1", "0.500"),
        ("Cora", "Adapt", "64", "3", ".9000", "1", "0.500"),
        ("tolokers", "IID", "32", "", ".7000", "1", "0.500"),
    ]
    for path, shows in section.images:
        assert path.exists()
        assert ("ROC-AUC" in shows) == ("tolokers" in shows)


def test_search_leaves_out_what_all_settings_of_a_recipe_share(tmp_path):
    first, *_, last = grid.GROUPS["search_cora"]()
    free = grid.GROUPS["search_free_cora"]()[0]
    for cell, accuracies in ((first, (0.8, 0.9)), (last, (0.7,)), (free, [1])):
        for seed, accuracy in enumerate(accuracies, grid.FIRST_SEARCH_SEED):
            scores = {"val_accuracy": accuracy, "val_loss": 1 - accuracy}
            put(tmp_path, cell, seed, **scores)
    rates = [f"--learning_rate={rate}" for rate in ("1e-3", "3e-3")]
    assert appendices.search(tmp_path).rows == [
        (
            *("Cora", "tuned", "Adapt"),
            f"--normalization=sym {rates[0]} --dropout=0",
            *("2", "0.8500", "0.1500"),
        ),
        (
            *("Cora", "tuned", "Full"),
            f"--normalization=row {rates[1]} --dropout=0.5",
            *("1", "0.7000", "0.3000"),
        ),
        (
            *("Cora", "free", "Adapt"),
            " ".join(free.words),
            "1",
            *("1.0000", "0.0000"),
        ),
    ]


def test_simulations_stand_beside_their_closed_form():
    study = {
        "graph": {"name": "cora"},
        "flags": {"samples_per_layer": [64, 128]},
        "layers": {"top": {"before": {"iid": 256}, "after": {"iid": 128}}},
        "monte_carlo": {
            "draws": 128,
            "iid": {
                "closed_form": 4.0,
                "relative_variance": 4.125,
                "standard_error": 0.25,
            },
        },
    }
    closed, simulated = appendices.variance([study])
    of_each_number = ("4", "2", "1", "0.5", "0.25", "0.125")
    assert closed.rows == [
        ("cora", "top", "128", "iid", "2", "1", *of_each_number)
    ]
    assert closed.header[6] == "after, 32 draws"
    assert simulated.rows == [("cora", "128", "iid", "4", "4.12", "0.25")]
    assert study["monte_carlo"]["draws"] == 128


def test_readme_has_a_row_of_the_paper_and_one_of_each_of_our_settings(
    tmp_path,
):
    for seed in range(2):
        put(tmp_path, grid.Cell("cora", "tuned", "full"), seed, 0.875)
    put(tmp_path, grid.Cell("cora", "tuned", "iid"), 0, 0.85)
    lines = outputs.readme_table(tmp_path).splitlines()
    assert lines[2].startswith("| Cora | paper | .8664 ± .0011 |")
    assert lines[3] == (
        "| Cora | tuned | .8750 ± .0000 | .8500 | not run | not run | not run "
        "| 1 to 2 |"
    )
    assert lines[-1] == "| Reddit | tuned | not run: raw files needed " + (
        "|  |  |  |  |  |"
    )


def test_failed_runs_are_counted_and_never_a_number(tmp_path):
    put(tmp_path, CELL, 0)
    records.write_failure(tmp_path, CELL, CELL.config(1), "diverged")
    row = tables.row_of(*[summaries.summarize(tmp_path, CELL)] * 2)
    assert row[4:6] == (".8000", "1 (1 failed)")
    records.path_of(tmp_path, CELL, 0).unlink()
    reason = "diverged, " * 20
    records.write_failure(tmp_path, CELL, CELL.config(0), reason)
    row = tables.row_of(*[summaries.summarize(tmp_path, CELL)] * 2)
    assert row[4].startswith("failed: diverged, diverged")
    assert row[4].endswith(" ...")
    assert row[5:7] == ("0 (2 failed)", "")
    outputs.write_all(tmp_path)
    text = (tmp_path / "tables" / "table1.md").read_text()
    assert "failed: diverged" in text


@pytest.mark.parametrize("dataset", grid.UNFETCHED)
def test_without_files_that_nothing_fetches_cells_are_left_out_and_say_so(
    tmp_path, monkeypatch, capsys, dataset
):
    monkeypatch.setenv("ADAPTIVE_GCN_DATA_DIR", str(tmp_path))
    cells = [*grid.GROUPS["table1"](), *grid.GROUPS["variance"]()]
    cell = next(each for each in cells if each.dataset == dataset)
    assert runner.run([cell], range(20), tmp_path, 2) == 0
    said = f"{dataset} is not run: raw files needed"
    assert said in capsys.readouterr().out
    old = fingerprint.of_run(cell.config(0)) | {"code": "old"}
    put(tmp_path, cell, 0, fingerprint=old)
    assert confirm.confirm([cell], tmp_path, 1) == 0
    assert said in capsys.readouterr().out
    records.path_of(tmp_path, cell, 0).unlink()
    found = summaries.summarize(tmp_path, cell)
    assert found.why_none == "not run: raw files needed"
    assert found.n_failed == 0


@pytest.mark.parametrize(
    "text, reason",
    [
        ("{}", "a part is missing"),
        ('{"seed": 0, "test_acc', "cannot be read"),
        (
            '{"seed": 0, "fingerprint": {}, "test_accuracy": NaN}',
            "test_accuracy is nan",
        ),
        ('{"seed": 0, "fingerprint": {}, "test_accuracy": "x"}', "not supp"),
    ],
)
def test_foreign_and_cut_files_are_errors_and_are_made_anew(
    tmp_path, monkeypatch, text, reason
):
    path = records.path_of(tmp_path, CELL, 0)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(RunFolderError, match="seed0.json: not the") as raised:
        records.read(tmp_path, CELL)
    assert reason in str(raised.value)
    assert not records.is_current(tmp_path, CELL, CELL.config(0))
    monkeypatch.setattr(runner._Worker, "train", fake_train)
    assert runner.run([CELL], [0], tmp_path, 1) == 0
    assert records.read(tmp_path, CELL)[0]["test_accuracy"] == 0.5


def test_a_failure_keeps_the_record_of_earlier_code(tmp_path, monkeypatch):
    put(tmp_path, CELL, 0)
    monkeypatch.setattr(fingerprint, "code", lambda: "new")
    monkeypatch.setattr(runner._Worker, "train", lambda *_: 1 / 0)
    assert runner.run([CELL], [0], tmp_path, 1) == 1
    found = summaries.summarize(tmp_path, CELL)
    assert (found.n, found.n_failed) == (1, 1)
    path = records.failure_of(tmp_path, CELL, 1)
    path.write_text("{}")
    with pytest.raises(RunFolderError, match="seed1.failed: not the note"):
        records.failures(tmp_path, CELL)
    path.unlink()
    # That of code between the record's and the present one is of the past.
    monkeypatch.setattr(fingerprint, "code", lambda: "newer")
    assert not records.failures(tmp_path, CELL)
    monkeypatch.setattr(fingerprint, "code", lambda: "new")
    # That of other settings says nothing of the present ones.
    other = dataclasses.replace(CELL.config(0), learning_rate=0.5)
    records.write_failure(tmp_path, CELL, other, "diverged")
    assert not records.failures(tmp_path, CELL)


def test_missing_files_are_said_once_before_any_run(tmp_path, monkeypatch):
    def locate(dataset, _):
        raise download.DataNotFoundError(f"{dataset}: no ind.{dataset}.x")

    monkeypatch.setattr(download, "locate", locate)
    monkeypatch.setattr(runner._Worker, "train", None)
    with pytest.raises(download.DataNotFoundError, match="ind.cora.x"):
        runner.run([CELL], range(3), tmp_path, 1)
    assert not list(tmp_path.iterdir())
    for seed in range(3):  # What is there needs no files.
        put(tmp_path, CELL, seed)
    assert runner.run([CELL], range(3), tmp_path, 1) == 0


def test_markdown_and_latex_hold_the_same_cells():
    rows = [("a_b", "1 ± 2"), ("50 %", "< .0001")]
    text = tables.markdown(rows, ("x", "y"))
    assert text.splitlines() == [
        "| x | y |",
        "| --- | --- |",
        "| a_b | 1 ± 2 |",
        "| 50 % | < .0001 |",
    ]
    lines = tables.latex(rows, ("x", "y")).splitlines()
    assert lines[2] == r"\begin{longtable}{ll}"
    assert lines[6] == r"a\_b & 1 $\pm$ 2 \\"
    assert lines[7] == r"50 \% & $<$ .0001 \\"
    assert tables.latex([(r"--a={~}\$",)], ("x",)).splitlines()[6] == (
        r"-{}-a=\{\textasciitilde{}\}\textbackslash{}\$ \\"
    )
    assert tables.latex([("-.1 †", "a-1")], ("x", "y")).splitlines()[6] == (
        r"$-$.1 $\dagger$ & a-1 \\"
    )


def test_mark_of_other_code_is_told_below_the_tables_that_have_it():
    told = "The runs of the two are of different code."
    marked, plain = [("+.0000 †",)], [("+.0000",)]
    assert tables.markdown(marked, ("x",)).endswith(f"|\n\n† {told}")
    assert tables.latex(marked, ("x",)).endswith(f"\n$\\dagger$ {told}")
    for render in (tables.markdown, tables.latex):
        assert told not in render(plain, ("x",))


# The page and the committed results.


def curve(low):
    return {
        "seconds": [0.1, 0.1, 0.1],
        "val_accuracy": [0.1, 0.2, 0.3],
        "test_accuracy": [low, low + 0.1, low + 0.2],
    }


def test_page_holds_tables_plots_and_settings_and_asks_for_nothing(tmp_path):
    pytest.importorskip("matplotlib")
    for seed in range(2):
        put(tmp_path, CELL, seed)
        cell = dataclasses.replace(CELL, purpose="curves")
        put(tmp_path, cell, seed, curves=curve(0.5))
    outputs.write_all(tmp_path)
    page = (tmp_path / outputs.PAGE).read_text()
    assert "Table 1" in page
    assert "Best test epoch".lower() in page.lower()
    assert "--epochs=300" in page
    assert "--seed=" not in page
    assert f"code: {fingerprint.code()}" in page
    assert "Reddit: not run" in page
    assert 'src="data:image/png;base64,' in page
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    assert "not run" in page
    for name in ("table1.md", "table1.tex"):
        assert "Full" in (tmp_path / "tables" / name).read_text()
    for ending in ("png", "pdf"):
        assert (tmp_path / "figures" / f"figure2_cora.{ending}").exists()


def test_text_from_records_cannot_become_markup(tmp_path):
    path = tmp_path / "page.html"
    picture = tmp_path / "x.png"
    picture.touch()
    report.write(
        path,
        [
            report.Section(
                "a <b>",
                header=("<i>",),
                rows=[("<script>",)],
                images=[(picture, "<q>")],
                settings={
                    "<u>": {
                        "flags": {"x": "<p>"},
                        "fingerprint": {"code": "<s>"},
                    }
                },
            )
        ],
    )
    page = path.read_text()
    for tag in ("<b>", "<i>", "<u>", "<q>", "<s>"):
        assert tag not in page
    assert page.count("<script>") == 1


def test_missing_matplotlib_is_said(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(plots.MissingPlotsError, match="pip install"):
        plots.bars({"a": {"b": 1.0}}, "seconds", tmp_path / "x")


def test_only_the_marked_section_of_a_file_is_replaced(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("a\n<!-- results -->\nold\n<!-- /results -->\nb\n")
    outputs.write_section(path, "new")
    assert path.read_text() == (
        "a\n<!-- results -->\n\nnew\n\n<!-- /results -->\nb\n"
    )
    path.write_text("no marks")
    with pytest.raises(RunFolderError, match="no lines"):
        outputs.write_section(path, "new")


def test_readme_shows_exactly_the_table_of_the_committed_records():
    readme = (ROOT / "README.md").read_text()
    shown = re.search(
        "<!-- results -->\n(.*)<!-- /results -->", readme, re.DOTALL
    )
    expected = outputs.readme_table(ROOT / "results")
    assert shown.group(1).strip() == expected


def test_committed_tables_and_page_are_those_of_the_committed_records(
    tmp_path,
):
    pytest.importorskip("matplotlib")
    committed = ROOT / "results"
    for path in committed.iterdir():
        if path.name not in ("tables", "figures", outputs.PAGE):
            (tmp_path / path.name).symlink_to(path)
    outputs.write_all(tmp_path)
    expected = {path.name for path in (committed / "tables").iterdir()}
    assert {p.name for p in (tmp_path / "tables").iterdir()} == expected
    page = (committed / outputs.PAGE).read_text()
    shown = re.findall('src="data:image/png;base64,([^"]*)"', page)
    plotted = [p.read_bytes() for p in committed.glob("figures/*.png")]
    assert sorted(map(base64.b64decode, shown)) == sorted(plotted)
    for name in expected:
        ours = (committed / "tables" / name).read_text()
        assert (tmp_path / "tables" / name).read_text() == ours
    for ending in ("png", "pdf"):  # Bytes differ with Matplotlib's version.
        assert {p.name for p in tmp_path.glob(f"figures/*.{ending}")} == {
            p.name for p in committed.glob(f"figures/*.{ending}")
        }
    pages = [
        (each / outputs.PAGE).read_text() for each in (tmp_path, committed)
    ]
    new, old = (re.sub('base64,[^"]*', "base64,", page) for page in pages)
    assert new == old


def test_records_name_no_folder_and_no_host():
    paths = list((ROOT / "results").rglob("*.json"))
    assert paths
    for path in paths:
        flags = json.loads(path.read_text())["flags"]
        assert not {"data_dir", "output_dir"} & set(flags)
        assert "/home" not in path.read_text()


NOT_RECORDED = {*config.PLACES, "seed"}
LATER = {
    "precompute": False,
    "reddit_format": "auto",
    "link_ends": "auto",
    "reddit_like_scale": 1.0,
    "block_entries": 500_000,
    "evaluate_test": True,
    "test_curve": False,
    "weight_average": 0.0,
    "nodes": "",
    "predictions": "",
    "embeddings": False,
    "export_dir": "",
    "export_name": "",
    "resume": False,
    "checkpoint_seconds": 30.0,
    "tensorboard": False,
    "profile_step": 0,
    "distribute": "none",
    "dataset_dir": "",
    "columns": "",
    "missing_features": "refuse",
    "split_seed": 0,
}


def test_later_flags_have_the_defaults_that_change_nothing():
    assert set(config.LATER) == LATER.keys()
    for name, value in LATER.items():
        assert getattr(config.Config(), name) == value


def test_records_have_the_flags_of_their_cells():
    n_found = 0
    for cells in grid.GROUPS.values():
        for cell in cells():
            expected = cell.config().as_dict()
            for record in records.read(ROOT / "results", cell):
                n_found += 1
                found = record["flags"]
                assert {**found, "seed": 0} == {
                    key: expected[key] for key in found
                }
                assert set(expected) - set(found) <= NOT_RECORDED | set(LATER)
    assert n_found


# The variance study.


def layer_of(hidden):
    matrix = normalize_adjacency(ring_graph(6).adjacency, "row")
    return variance_study.Layer(matrix, hidden, np.linspace(0.5, 2, 6))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_closed_form_is_the_enumerated_variance_of_one_draw(form):
    hidden = np.random.default_rng(0).normal(size=(6, 3))
    layer = layer_of(form(hidden))
    block = variance_study.block_of(layer, np.array([0, 3]))
    entries = block.entries.toarray()
    mean = entries @ hidden[block.candidates]
    for name, q in variance_study.proposals(layer, block).items():
        if name == "iid":
            continue  # Sums to less than 1 here.
        second = sum(
            q[u]
            * np.sum((np.outer(entries[:, u], hidden[node]) / q[u] - mean) ** 2)
            for u, node in enumerate(block.candidates)
        )
        expected = second / np.sum(mean**2)
        found = variance_study.relative_variance(block, q)
        assert found == pytest.approx(expected)


def test_nothing_beats_the_optimum():
    layer = layer_of(np.random.default_rng(1).normal(size=(6, 3)))
    block = variance_study.block_of(layer, np.array([1, 4]))
    found = {
        name: variance_study.relative_variance(block, q)
        for name, q in variance_study.proposals(layer, block).items()
    }
    least = found.pop(variance_study.OPTIMUM)
    assert least < min(found.values())


@pytest.mark.parametrize("kind", ["iid", "l2, trained g"])
def test_samplers_have_the_variance_of_the_closed_form(kind):
    layer = layer_of(np.random.default_rng(2).normal(size=(6, 3)))
    parents = np.array([0, 2, 5])
    block = variance_study.block_of(layer, parents)
    q = variance_study.proposals(layer, block)[kind]
    sampler = (
        samplers.IIDSampler(layer.matrix)
        if kind == "iid"
        else samplers.AdaptiveSampler(layer.matrix, "l2")
    )
    sampler.refresh(layer.g)
    found = variance_study.simulated(sampler, layer, parents, 4, 3000)
    expected = variance_study.relative_variance(block, q) / 4
    error = abs(found["relative_variance"] - expected)
    assert error < 4 * found["standard_error"]


def test_the_dense_graph_is_studied_where_its_file_is(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("ADAPTIVE_GCN_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(variance_study, "study", None)
    assert studies.run(tmp_path, lambda cell: cell.dataset == "tolokers") == 0
    assert f"{tmp_path}/tolokers.npz needed" in capsys.readouterr().out
    before = fingerprint.of_study(studies.cells()["tolokers"].config())
    (tmp_path / "other").mkdir()
    path = tmp_path / "other" / "tolokers.npz"
    path.touch()
    settings = studies.cells()["tolokers"].config()
    assert settings.dataset_dir == str(path)
    assert settings.dataset == "folder"
    # Its record counts wherever the file lies.
    assert fingerprint.of_study(settings) == before


def test_studies_that_have_their_record_or_are_not_wanted_are_not_made(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(studies, "cells", lambda: {"mine": CELL})
    monkeypatch.setattr(
        variance_study, "study", lambda config: {"seed": config.seed}
    )
    path = studies.path_of(tmp_path, "mine")
    assert studies.run(tmp_path, lambda cell: cell.recipe == "tuned") == 0
    assert not path.exists()
    assert studies.run(tmp_path, lambda cell: True) == 0
    wanted = fingerprint.of_study(CELL.config())
    assert records.has(path, wanted)
    monkeypatch.setattr(variance_study, "study", None)  # Not called again.
    assert studies.run(tmp_path, lambda cell: True) == 0


def test_formulas_of_the_study_count_as_its_code(monkeypatch):
    before = fingerprint.of_study(CELL.config())
    meaning = fingerprint._meaning_of
    monkeypatch.setattr(
        fingerprint,
        "_meaning_of",
        lambda name: meaning(name) + "#" * name.endswith("variance_study.py"),
    )
    after = fingerprint.of_study(CELL.config())
    assert after["settings"] == before["settings"]
    assert after["code"] != before["code"]


def test_studies_of_other_settings_are_not_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(studies, "cells", lambda: {"mine": CELL})
    study = {
        "layers": {},
        "monte_carlo": {},
        "flags": {},
        "graph": {},
        "fingerprint": fingerprint.of_study(CELL.config()),
    }
    path = studies.path_of(tmp_path, "mine")
    path.parent.mkdir()
    path.write_text(json.dumps(study))
    assert studies.read(tmp_path) == [study]
    other = dataclasses.replace(CELL.config(), epochs=7)
    study["fingerprint"] = fingerprint.of_study(other)
    path.write_text(json.dumps(study))
    assert studies.read(tmp_path) == []
    del study["layers"]
    path.write_text(json.dumps(study))
    with pytest.raises(RunFolderError, match="mine.json: expected"):
        studies.read(tmp_path)
