"""Claiming the folder of a run, and its records."""

import json
import os
import platform
import socket
import types

import pytest

from adaptive_gcn import __version__, run_folder
from adaptive_gcn.run_folder import (
    RunFolderError,
    claim,
    remove_results,
)

RECORDS = (
    "result.json",
    "history.csv",
    "config.json",
    "best.weights.h5",
    "evaluation.json",
)


def files_of(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_new_folder_is_made_with_its_parents(tmp_path):
    folder = claim(str(tmp_path / "a" / "b"), overwrite=False)
    assert folder == tmp_path / "a" / "b"
    assert folder.is_dir()
    assert not files_of(folder)


def test_existing_folder_keeps_the_files_of_others(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for overwrite in (False, True):
        assert claim(str(tmp_path), overwrite) == tmp_path
        assert files_of(tmp_path) == {"notes.txt": "mine"}


@pytest.mark.parametrize("name", RECORDS)
def test_earlier_run_is_refused_and_nothing_of_it_deleted(tmp_path, name):
    (tmp_path / name).write_text("precious")
    (tmp_path / "notes.txt").write_text("mine")
    before = files_of(tmp_path)
    with pytest.raises(RunFolderError) as error:
        claim(str(tmp_path), overwrite=False)
    assert f"--output_dir={tmp_path}" in str(error.value)
    assert name in str(error.value)
    assert "--overwrite" in str(error.value)
    assert files_of(tmp_path) == before


def test_overwrite_removes_all_records_and_nothing_else(tmp_path):
    for name in (*RECORDS, "notes.txt"):
        (tmp_path / name).write_text("old")
    claim(str(tmp_path), overwrite=True)
    assert len(files_of(tmp_path)) == len(RECORDS) + 1  # Not before the run.
    remove_results(tmp_path)
    assert files_of(tmp_path) == {"notes.txt": "old"}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("path", ["/proc/x", "/proc/self", "/dev/null/run"])
def test_folder_that_cannot_be_written_is_named(path, overwrite):
    with pytest.raises(RunFolderError, match=f"--output_dir={path}: cannot"):
        claim(path, overwrite)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_write_right_is_named_and_kept(tmp_path):
    (tmp_path / "result.json").write_text("precious")
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(RunFolderError, match=f"{tmp_path}: cannot write"):
            claim(str(tmp_path), overwrite=True)
        assert files_of(tmp_path) == {"result.json": "precious"}
    finally:
        tmp_path.chmod(0o755)


@pytest.mark.parametrize("below", ["", "run"])
def test_file_in_place_of_the_folder_is_named_and_kept(tmp_path, below):
    file = tmp_path / "file"
    file.write_text("precious")
    with pytest.raises(RunFolderError, match=f"--output_dir={file}.*cannot"):
        claim(str(file / below), overwrite=True)
    assert file.read_text() == "precious"


def test_without_a_path_each_run_gets_a_folder_of_its_own(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    names = [str(claim("", False, "cora")) for _ in range(3)]
    assert names == ["runs/cora", "runs/cora-2", "runs/cora-3"]
    assert all((tmp_path / name).is_dir() for name in names)


# Records.


def test_json_is_read_as_it_was_written(tmp_path):
    record = {"a": [1, 2.5, None], "b": {"c": "\u00e4"}}
    run_folder.write_json(tmp_path / "r.json", record)
    assert run_folder.read_json(tmp_path / "r.json") == record
    assert (tmp_path / "r.json").read_text().endswith("}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
def test_record_that_cannot_be_written_leaves_the_old_one(tmp_path, value):
    path = tmp_path / "r.json"
    run_folder.write_json(path, {"a": 1})
    with pytest.raises((ValueError, TypeError)):
        run_folder.write_json(path, {"a": 2, "b": value})
    assert files_of(tmp_path) == {"r.json": '{\n "a": 1\n}\n'}


def test_readers_see_all_of_a_record_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    run_folder.write_json(path, {"a": 1})
    seen = []

    def crash(*_):
        seen.append(json.loads(path.read_text()))
        raise OSError("no space")

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, crash)
            with pytest.raises(OSError, match="no space"):
                run_folder.write_json(path, {"a": 2})
    assert seen == [{"a": 1}] * 2
    assert run_folder.read_json(path) == {"a": 1}


@pytest.mark.parametrize("content", [None, "", "{", "[1]", "\x00"])
def test_unreadable_record_is_named(tmp_path, content):
    path = tmp_path / "r.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(RunFolderError, match=str(path)):
        run_folder.read_json(path)


# What is said about software and machine.


def test_versions_name_what_a_result_depends_on():
    versions = run_folder.versions()
    assert versions["adaptive-gcn"] == __version__
    for package in ("python", "tensorflow", "keras", "numpy", "scipy", "numba"):
        assert versions[package][0].isdigit()


def test_missing_package_is_said(monkeypatch):
    monkeypatch.setattr(run_folder, "_PACKAGES", ("no-such-package",))
    assert run_folder.versions()["no-such-package"] == "not installed"


def test_machine_is_described_without_its_name_or_any_path(monkeypatch):
    names = types.SimpleNamespace(system="Linux", node="my-host", machine="arm")
    monkeypatch.setattr(platform, "uname", lambda: names)
    monkeypatch.setattr(socket, "gethostname", lambda: "my-host")
    machine = run_folder.machine()
    assert set(machine) == {"system", "processor", "cores", "memory_gib"}
    assert machine["system"] == "Linux arm"
    assert machine["cores"] >= 1
    assert machine["memory_gib"] > 0
    assert "my-host" not in json.dumps(machine)
    assert "/" not in json.dumps(machine)


def test_processor_is_said_without_proc(monkeypatch):
    monkeypatch.setattr(run_folder.Path, "read_text", _refuse)
    monkeypatch.setattr(run_folder.platform, "processor", lambda: "abacus")
    assert run_folder.machine()["processor"] == "abacus"


def _refuse(*_, **__):
    raise OSError("no such file")
