"""What goes wrong while a run is going on, and what is left of it then."""

import contextlib
import errno
import json
import os
import resource
import shutil
import subprocess
import sys

import numpy as np
import pytest

from adaptive_gcn import callbacks, checkpoint_file, run_folder, training
from adaptive_gcn.config import Config
from adaptive_gcn.run_folder import RunFolderError
from tests.helpers import SMALL_RUN

SETTINGS = {**SMALL_RUN, "epochs": 5, "checkpoint_seconds": 0.0}


def config_of(folder, **changes):
    return Config(**{**SETTINGS, "output_dir": str(folder), **changes})


def epoch_of_checkpoint(folder):
    return checkpoint_file.read(folder / "checkpoint")[0]["epoch"]


def test_full_disk_ends_the_run_and_keeps_the_last_checkpoint(
    tmp_path, monkeypatch
):
    whole, folder = tmp_path / "whole", tmp_path / "full"
    expected = training.train(config_of(whole))
    fill_after(2, monkeypatch)
    with pytest.raises(RunFolderError) as error:
        training.train(config_of(folder))
    assert str(error.value).startswith(f"{folder}/checkpoint: the checkpoint")
    assert os.strerror(errno.ENOSPC) in str(error.value)
    assert "--resume" in str(error.value)
    assert not [name for name in os.listdir(folder) if "tmp" in name]
    assert epoch_of_checkpoint(folder) == 2
    monkeypatch.undo()
    record = training.train(config_of(folder, resume=True))
    for name in ("val_loss", "test_accuracy", "best_epoch"):
        assert record[name] == expected[name]


def fill_after(n_checkpoints, monkeypatch):
    """Let the disk be full when one more checkpoint is written."""
    write, sync = checkpoint_file.write, os.fsync
    written = []

    def count(path, values, arrays):
        written.append(path)
        write(path, values, arrays)

    def refuse(descriptor):
        if len(written) > n_checkpoints:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    monkeypatch.setattr(checkpoint_file, "write", count)
    monkeypatch.setattr(os, "fsync", refuse)


@contextlib.contextmanager
def small_files():
    """The system refuses files of more than a kilobyte, pytest's own too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_checkpoint_that_the_system_refuses_leaves_nothing(tmp_path):
    with (
        pytest.raises(RunFolderError, match="cannot be written"),
        small_files(),
    ):
        checkpoint_file.write(tmp_path / "checkpoint", {}, {"a": np.ones(999)})
    assert not os.listdir(tmp_path)


def test_weights_that_the_system_refuses_leave_nothing(tmp_path, monkeypatch):
    save = training.fitting._save_weights

    def limited(*args):
        with small_files():
            save(*args)

    monkeypatch.setattr(training.fitting, "_save_weights", limited)
    with pytest.raises(RunFolderError, match="weights cannot be written"):
        training.train(config_of(tmp_path))
    assert sorted(os.listdir(tmp_path)) == [
        "checkpoint",
        "config.json",
        "history.csv",
    ]


def test_vanished_folder_ends_the_run_by_name(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    write = checkpoint_file.write

    def vanish(path, values, arrays):
        shutil.rmtree(folder)
        write(path, values, arrays)

    monkeypatch.setattr(checkpoint_file, "write", vanish)
    with pytest.raises(RunFolderError, match=f"{folder}/") as error:
        training.train(config_of(folder))
    assert isinstance(error.value, training.USER_ERRORS)


def test_second_run_in_a_folder_is_refused(tmp_path):
    with (
        run_folder.locked(tmp_path),
        pytest.raises(RunFolderError, match="another run is writing there"),
    ):
        training.train(config_of(tmp_path))
    assert not os.listdir(tmp_path)
    with run_folder.locked(tmp_path):
        pass


def test_file_system_without_locks_is_used_with_a_warning(
    tmp_path, monkeypatch, caplog
):
    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(run_folder.fcntl, "flock", refuse)
    with run_folder.locked(tmp_path):
        assert "cannot be locked" in caplog.text


class Blow(callbacks.EpochTimer):
    """Makes the weights huge as epoch 3 begins."""

    def on_epoch_begin(self, epoch, logs=None):
        super().on_epoch_begin(epoch, logs)
        if epoch == 2:
            kernel = self.model.convolutions[0].kernel
            kernel.assign(1e30 * np.ones(kernel.shape))


def test_divergence_names_suspects_and_keeps_the_checkpoint(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(callbacks, "EpochTimer", Blow)
    with pytest.raises(callbacks.TrainingDivergedError) as error:
        training.train(config_of(tmp_path, features="raw"))
    message = str(error.value)
    assert message.startswith("training diverged: epoch 3, step 1: the ")
    assert "suspects: --learning_rate=0.01, --sampler_learning_rate" in message
    assert "|W_g| = " in message
    assert "largest feature 1" in message
    assert epoch_of_checkpoint(tmp_path) == 2


# Pipes that nobody reads.


def words_of(folder):
    flags = {**SETTINGS, "samples_per_layer": 8, "epochs": 2}
    return [
        *(f"--{name}={value}" for name, value in flags.items()),
        f"--output_dir={folder}",
    ]


def run_into_closed(stream, *words):
    """Run the program with one of its streams closed at the other end."""
    reader, writer = os.pipe()
    os.close(reader)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.run(
        [sys.executable, "-m", "adaptive_gcn.main", *words],
        **{**pipes, stream: writer},
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        check=False,
    )
    os.close(writer)
    return process


def test_help_into_a_closed_pipe_ends_without_a_traceback():
    process = run_into_closed("stdout", "--help")
    assert process.returncode == 141
    assert not process.stderr


def test_result_into_a_closed_pipe_is_still_recorded(tmp_path):
    process = run_into_closed("stdout", *words_of(tmp_path))
    assert process.returncode == 141
    assert "Traceback" not in process.stderr
    assert "BrokenPipe" not in process.stderr
    assert json.loads((tmp_path / "result.json").read_text())["epochs"] == 2


def test_log_into_a_closed_pipe_does_not_end_the_run(tmp_path):
    process = run_into_closed("stderr", *words_of(tmp_path))
    assert process.stdout.startswith("test accuracy")
    assert (tmp_path / "result.json").exists()
