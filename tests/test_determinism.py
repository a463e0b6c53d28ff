"""Same seed, same bits on a CPU, however a run is made; and no growth."""

import csv
import os
import subprocess
import sys

import keras
import pytest

from adaptive_gcn import fitting, training
from adaptive_gcn.config import Config

SETTINGS = {
    "synthetic_nodes": 300,
    "synthetic_features": 60,
    "synthetic_classes": 3,
    "samples_per_layer": (32,),
    "batch_size": 32,
    "epochs": 3,
    "seed": 5,
    "dropout": 0.3,
    "learning_rate": 0.01,
    "sampler_learning_rate": 0.1,
}


def history_of(folder, **changes):
    """The numbers of a run in this process."""
    training.train(Config(**{**SETTINGS, **changes, "output_dir": str(folder)}))
    return read_history(folder)


def read_history(folder):
    with open(folder / "history.csv", newline="") as file:
        return [
            {name: value for name, value in row.items() if name != "seconds"}
            for row in csv.DictReader(file)
        ]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The numbers of a run by itself in a process, with one thread."""
    return run_alone(tmp_path_factory.mktemp("alone"), 1)


def run_alone(folder, n_threads):
    flags = {**SETTINGS, "samples_per_layer": 32, "output_dir": folder}
    subprocess.run(
        [
            sys.executable,
            "-m",
            "adaptive_gcn.main",
            *(f"--{name}={value}" for name, value in flags.items()),
        ],
        check=True,
        capture_output=True,
        env={
            **os.environ,
            "OMP_NUM_THREADS": str(n_threads),
            "OPENBLAS_NUM_THREADS": str(n_threads),
            "TF_NUM_INTRAOP_THREADS": str(n_threads),
            "TF_NUM_INTEROP_THREADS": str(n_threads),
        },
    )
    return read_history(folder)


def test_two_threads_give_the_numbers_of_one(alone, tmp_path):
    assert run_alone(tmp_path, 2) == alone


def test_run_in_a_series_gives_the_numbers_of_one_alone(alone, tmp_path):
    history_of(tmp_path / "other", seed=9, hidden_units=(8, 8))
    assert history_of(tmp_path / "again") == alone


@pytest.mark.parametrize(
    "changes",
    [
        {"variance_weight": 0.0},  # g is synchronous: it never changes.
        {"method": "iid"},
        {"method": "node_wise"},
        {"method": "full"},
    ],
    ids=["fixed_g", "iid", "node_wise", "full"],
)
def test_batches_made_ahead_are_those_made_in_time(tmp_path, changes):
    in_time = history_of(tmp_path / "0", **changes)
    assert history_of(tmp_path / "4", prefetch=4, **changes) == in_time


def test_checkpoints_change_no_number(alone, tmp_path):
    assert history_of(tmp_path, checkpoint_seconds=0.0) == alone


def test_trained_g_with_batches_made_ahead_stays_near(tmp_path):
    """Its lag is up to chance: only about the same, as README says."""
    in_time = history_of(tmp_path / "0")
    ahead = history_of(tmp_path / "4", prefetch=4)
    for one, other in zip(in_time, ahead, strict=True):
        loss = float(one["val_loss"])
        assert float(other["val_loss"]) == pytest.approx(loss, rel=0.1)


# Over time.


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Watch(keras.callbacks.Callback):
    """Notes traces and memory after each epoch."""

    def __init__(self):
        super().__init__()
        self.traces, self.resident = [], []

    def on_epoch_end(self, epoch, logs=None):
        function = self.model.train_function
        self.traces.append(function.experimental_get_tracing_count())
        self.resident.append(resident_bytes())


def watched(folder, monkeypatch, **changes):
    watch = Watch()
    callbacks = fitting.Fit._callbacks
    monkeypatch.setattr(
        fitting.Fit,
        "_callbacks",
        lambda self, terminal: [*callbacks(self, terminal), watch],
    )
    history_of(folder, **changes)
    return watch


@pytest.mark.parametrize("method", ["adapt", "full", "node_wise"])
def test_nothing_is_traced_after_the_first_epoch(tmp_path, monkeypatch, method):
    watch = watched(tmp_path, monkeypatch, method=method, epochs=6)
    assert 1 <= watch.traces[0] <= 2
    assert set(watch.traces) == {watch.traces[0]}


def test_200_epochs_grow_by_less_than_100_mb(tmp_path, monkeypatch):
    watch = watched(
        tmp_path, monkeypatch, epochs=200, patience=0, checkpoint_seconds=0.0
    )
    assert len(watch.resident) == 200
    assert watch.resident[-1] - watch.resident[2] < 100e6
