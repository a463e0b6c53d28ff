"""The results table comes from the records and stands in the README."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from absl import flags
from absl.testing import flagsaver

from adaptive_gcn import config, experiments, main
from adaptive_gcn.run_folder import RunFolderError

ROOT = Path(__file__).parents[1]


def record(folder, seed, accuracy):
    folder.mkdir(parents=True, exist_ok=True)
    values = {
        "seed": seed,
        "test_accuracy": accuracy,
        "val_accuracy": accuracy + 0.01,
        "epochs": 10 * (seed + 1),
        "seconds_per_epoch": 0.5 + seed,
    }
    (folder / f"seed{seed}.json").write_text(json.dumps(values))


def test_row_holds_mean_deviation_and_number_of_runs(tmp_path):
    record(tmp_path / "cora+row1+full", 0, 0.80)
    record(tmp_path / "cora+row1+full", 1, 0.90)
    row = experiments.table(tmp_path).splitlines()[-1]
    assert row == (
        "| `cora` `row1` `full` | .8664 +- .0011 | .8500 +- .0707 | "
        ".8600 +- .0707 | 2 | 15 | 1.000 |"
    )


def test_no_records_and_foreign_files_are_errors(tmp_path):
    with pytest.raises(RunFolderError, match="no records"):
        experiments.table(tmp_path)
    (tmp_path / "cora").mkdir()
    (tmp_path / "cora" / "x.json").write_text("{}")
    with pytest.raises(RunFolderError, match="x.json: expected"):
        experiments.table(tmp_path)


def test_only_the_marked_section_of_a_file_is_replaced(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("a\n<!-- results -->\nold\n<!-- /results -->\nb\n")
    experiments.write_section(path, "new")
    assert path.read_text() == (
        "a\n<!-- results -->\n\nnew\n\n<!-- /results -->\nb\n"
    )
    path.write_text("no marks")
    with pytest.raises(RunFolderError, match="no lines"):
        experiments.write_section(path, "new")


def test_readme_shows_exactly_the_table_of_the_committed_records():
    readme = (ROOT / "README.md").read_text()
    shown = re.search(
        "<!-- results -->\n(.*)<!-- /results -->", readme, re.DOTALL
    )
    assert shown.group(1).strip() == experiments.table(ROOT / "results")


def test_records_name_no_folder_and_no_host():
    paths = list((ROOT / "results").glob("*/*.json"))
    assert paths
    for path in paths:
        flags = json.loads(path.read_text())["flags"]
        assert not {"data_dir", "output_dir"} & set(flags)
        assert "/home" not in path.read_text()


FAKE_PYTHON = """#!/usr/bin/env bash
if [[ $1 == -c ]]; then echo 0; exit; fi
if [[ $2 == adaptive_gcn.experiments ]]; then echo table; exit; fi
for word in "$@"; do
  case $word in
    --seed=*) seed=${word#*=} ;;
    --output_dir=*) dir=${word#*=} ;;
  esac
done
if [[ $seed == 1 ]]; then echo "diverged"; exit 1; fi
echo "$*" >>"$LOG"
echo "{}" >"$dir/result.json"
"""


def test_script_runs_what_is_missing_and_marks_failures(tmp_path):
    python = tmp_path / "python"
    python.write_text(FAKE_PYTHON)
    python.chmod(0o755)
    log, results = tmp_path / "log", tmp_path / "results"
    environment = {
        **os.environ,
        "PYTHON": str(python),
        "RESULTS_DIR": str(results),
        "SEEDS": "3",
        "JOBS": "1",
        "LOG": str(log),
    }
    command = [str(ROOT / "run_experiments.sh"), "cora+row1+full"]
    for _ in range(2):
        done = subprocess.run(command, env=environment, capture_output=True)
        assert done.returncode == 1
        assert b"seed 1 failed" in done.stderr
    cell = results / "cora+row1+full"
    assert sorted(path.name for path in cell.iterdir()) == [
        "seed0.json",
        "seed1.failed",
        "seed2.json",
    ]
    assert (cell / "seed1.failed").read_text() == "diverged\n"
    runs = log.read_text().splitlines()
    assert len(runs) == 2  # The second call did not run them again.
    flags = "--flagfile=flags/cora.cfg --flagfile=flags/row1.cfg"
    assert flags in runs[0]


def test_failed_runs_are_counted_and_never_a_number(tmp_path):
    record(tmp_path / "cora", 0, 0.80)
    (tmp_path / "cora" / "seed1.failed").write_text("diverged\n")
    (tmp_path / "pubmed").mkdir()
    (tmp_path / "pubmed" / "seed0.failed").write_text("diverged\n")
    rows = experiments.table(tmp_path).splitlines()[2:]
    assert "| 1 (1 failed) |" in rows[0]
    assert "| failed |" in rows[1]
    assert "0 (1 failed)" in rows[1]


NOT_RECORDED = {*config.PLACES, "seed"}
LATER = {
    "precompute": False,
    "reddit_format": "auto",
    "link_ends": "auto",
    "reddit_like_scale": 1.0,
    "block_entries": 500_000,
}


def test_later_flags_have_the_defaults_that_change_nothing():
    assert set(config.LATER) == LATER.keys()
    for name, value in LATER.items():
        assert getattr(config.Config(), name) == value


def test_records_have_the_flags_of_their_flag_files(monkeypatch):
    monkeypatch.chdir(ROOT)
    for folder in (ROOT / "results").iterdir():
        words = [f"--flagfile=flags/{n}.cfg" for n in folder.name.split("+")]
        with flagsaver.flagsaver():
            flags.FLAGS.unparse_flags()
            expected = main.parse_flags(["main", *words]).as_dict()
        for path in folder.glob("*.json"):
            found = json.loads(path.read_text())["flags"]
            assert path.name == f"seed{found.pop('seed')}.json"
            assert found == {key: expected[key] for key in found}
            missing = set(expected) - set(found) - NOT_RECORDED
            # Flags that came later, at values that change nothing.
            assert missing <= LATER.keys()
            assert {key: expected[key] for key in missing} == {
                key: LATER[key] for key in missing
            }
