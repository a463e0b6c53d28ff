"""Runs that are killed, stopped and gone on with."""

import csv
import dataclasses
import json
import logging
import multiprocessing
import os
import random
import signal
import subprocess
import sys

import numpy as np
import pytest

from adaptive_gcn import checkpoint_file, graph_digest, resume, training
from adaptive_gcn.checkpoint_file import CheckpointError
from adaptive_gcn.config import Config, ConfigError
from adaptive_gcn.run_folder import RunFolderError
from tests.helpers import (
    SMALL_RUN,
    ring_graph,
    with_several_labels,
    with_weights,
)

SETTINGS = {
    **SMALL_RUN,
    "epochs": 6,
    "sampler_learning_rate": 0.1,
    "dropout": 0.5,
    "checkpoint_seconds": 0.0,
}
# Each holds a state that another lacks: a stale g, averages, two layers, ...
KINDS = {
    "adapt": {},
    "stale": {"refresh_interval": 7},
    "fixed_g": {"variance_weight": 0.0, "prefetch": 3},
    "average": {"weight_average": 0.9, "hidden_units": (8, 8)},
    "patience": {"learning_rate": 0.3, "patience": 2, "test_curve": True},
    "precompute": {"precompute": True, "attention": "paper", "method": "iid"},
    "node_wise": {"method": "node_wise", "skip": True},
}


class KilledError(Exception):
    """Stands for the death of the process."""


def config_of(folder, **changes):
    return Config(**{**SETTINGS, "output_dir": str(folder), **changes})


def without_seconds(record):
    if isinstance(record, dict):
        return {
            key: without_seconds(value)
            for key, value in record.items()
            if "seconds" not in key
        }
    return record


def outcome_of(folder):
    """All that a run left, without what tells of time."""
    with open(folder / "history.csv", newline="") as file:
        history = [without_seconds(row) for row in csv.DictReader(file)]
    record = without_seconds(json.loads((folder / "result.json").read_text()))
    return history, record, (sorted(os.listdir(folder)))


def weights_of(folder, config):
    network = training.build_model(config, training.load_graph(config))
    network.load_weights(folder / "best.weights.h5")
    return [each.tobytes() for each in network.get_weights()]


def epoch_of_checkpoint(folder):
    return checkpoint_file.read(folder / "checkpoint")[0]["epoch"]


def die_after(epoch, monkeypatch):
    """Let saving the checkpoint of an epoch be the last that happens."""
    write = checkpoint_file.write

    def write_and_die(path, values, arrays):
        write(path, values, arrays)
        if values["epoch"] == epoch:
            raise KilledError

    monkeypatch.setattr(checkpoint_file, "write", write_and_die)


def killed(folder, monkeypatch, epoch=2, **changes):
    """A run that ended after `epoch` epochs, without its best weights."""
    with monkeypatch.context() as patch:
        die_after(epoch, patch)
        with pytest.raises(KilledError):
            training.train(config_of(folder, **changes))
    (folder / "best.weights.h5").unlink()
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_resumed_run_equals_the_uninterrupted_one(kind, tmp_path, monkeypatch):
    changes = KINDS[kind]
    whole = tmp_path / "whole"
    training.train(config_of(whole, **changes))
    folder = killed(tmp_path / "killed", monkeypatch, 3, **changes)
    config = config_of(folder, resume=True, **changes)
    training.train(config)
    assert outcome_of(folder) == outcome_of(whole)
    assert weights_of(folder, config) == weights_of(whole, config)


def test_run_that_had_stopped_early_trains_no_more(tmp_path, monkeypatch):
    changes = {"patience": 1, "learning_rate": 0.3, "epochs": 60}
    whole = training.train(config_of(tmp_path / "whole", **changes))
    folder = tmp_path / "killed"
    killed(folder, monkeypatch, whole["epochs"], **changes)
    training.train(config_of(folder, resume=True, **changes))
    assert outcome_of(folder) == outcome_of(tmp_path / "whole")


def test_history_behind_the_checkpoint_is_written_anew(tmp_path, monkeypatch):
    folder = killed(tmp_path / "run", monkeypatch, 3)
    with open(folder / "history.csv", "a") as file:
        file.write("4,0.1,0.2,\n5,half a li")
    training.train(config_of(folder, resume=True))
    history, _, _ = outcome_of(folder)
    assert [row["epoch"] for row in history] == [*"123456"]
    assert all(float(row["val_loss"]) > 0 for row in history)


def test_finished_run_is_left_as_it_is(tmp_path, caplog):
    record = training.train(config_of(tmp_path))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    caplog.set_level("INFO")
    assert training.train(config_of(tmp_path, resume=True)) == record
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert "the run is finished; nothing to resume" in caplog.text
    with pytest.raises(CheckpointError, match="--epochs=9 .there: 6."):
        training.train(config_of(tmp_path, resume=True, epochs=9))


def test_empty_folder_starts_anew_and_says_so(tmp_path, caplog):
    caplog.set_level("INFO")
    training.train(config_of(tmp_path / "a", resume=True))
    assert "no checkpoint there; starting anew" in caplog.text
    training.train(config_of(tmp_path / "b"))
    assert outcome_of(tmp_path / "a") == outcome_of(tmp_path / "b")


def test_run_is_not_overwritten_and_resume_is_offered(tmp_path, monkeypatch):
    folder = killed(tmp_path / "run", monkeypatch)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(RunFolderError, match="--resume to go on with it"):
        training.train(config_of(folder))
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


# What is refused.


def test_other_settings_are_refused_and_all_are_named(tmp_path, monkeypatch):
    folder = killed(tmp_path / "run", monkeypatch)
    for name in ("config.json", "checkpoint"):
        with pytest.raises(CheckpointError) as error:
            training.train(
                config_of(folder, resume=True, seed=5, hidden_units=(4,))
            )
        message = str(error.value)
        assert f"/{name}: of a run with other settings" in message
        assert "--seed=5 (there: 0)" in message
        assert "--hidden_units=[4] (there: [16])" in message
        (folder / "config.json").unlink(missing_ok=True)


@pytest.mark.parametrize("part", ["edges", "features", "labels", "split"])
@pytest.mark.parametrize("several", [False, True])
def test_another_graph_is_refused_and_the_part_named(
    tmp_path, monkeypatch, part, several
):
    graph = with_weights(ring_graph())
    if several:
        graph = with_several_labels(graph)
    monkeypatch.setattr(training, "load_graph", lambda config: graph)
    folder = killed(tmp_path / "run", monkeypatch)
    changed = changed_in(graph, part)
    monkeypatch.setattr(training, "load_graph", lambda config: changed)
    with pytest.raises(CheckpointError, match=f"has other {part} now"):
        training.train(config_of(folder, resume=True))
    assert (folder / "checkpoint").exists()


def changed_in(graph, part):
    if part == "edges":
        matrix = graph.adjacency.copy()
        matrix[0, 1] = matrix[1, 0] = 7
        return dataclasses.replace(graph, adjacency=matrix)
    if part == "features":
        features = np.array(graph.features)
        features[-1, -1] += 1e-3
        return graph.with_features(features)
    if part == "labels":
        labels = np.array(graph.labels)
        n_values = 2 if graph.multi_label else graph.n_classes
        labels.flat[3] = (labels.flat[3] + 1) % n_values
        return dataclasses.replace(graph, labels=labels)
    return dataclasses.replace(graph, val_nodes=graph.val_nodes[:-1])


def test_sparse_features_have_a_digest():
    from scipy import sparse

    graph = ring_graph(sparse=sparse.csr_array)
    before = graph_digest.digest(graph)
    assert before == graph_digest.digest(ring_graph(sparse=sparse.csr_array))
    doubled = graph_digest.digest(graph.with_features(graph.features * 2))
    assert {k for k in before if before[k] != doubled[k]} == {"features"}


def test_other_versions_are_told(tmp_path, monkeypatch, caplog):
    folder = killed(tmp_path / "run", monkeypatch)
    values, arrays = checkpoint_file.read(folder / "checkpoint")
    values["versions"]["numpy"] = "0.1"
    checkpoint_file.write(folder / "checkpoint", values, arrays)
    training.train(config_of(folder, resume=True))
    assert "made with other versions (numpy 0.1 -> " in caplog.text


@pytest.mark.parametrize(
    "change",
    [
        lambda values, arrays: values.pop("best"),
        lambda values, arrays: values["position"].pop("step"),
        lambda values, arrays: values["position"]["shuffle"].clear(),
        lambda values, arrays: values.update(rows=[["x"]]),
        lambda values, arrays: arrays.pop("optimizer/0"),
        lambda values, arrays: arrays.pop("best/0"),
        lambda values, arrays: arrays.update({"network/0": np.ones(3)}),
    ],
)
def test_malformed_state_is_refused_in_words(tmp_path, monkeypatch, change):
    folder = killed(tmp_path / "run", monkeypatch)
    values, arrays = checkpoint_file.read(folder / "checkpoint")
    change(values, arrays)
    checkpoint_file.write(folder / "checkpoint", values, arrays)
    with pytest.raises(CheckpointError, match="start anew with --overwrite"):
        training.train(config_of(folder, resume=True))


@pytest.mark.parametrize("missing", ["settings", "graph", "versions"])
def test_checkpoint_that_tells_not_whose_it_is_is_refused(tmp_path, missing):
    values = {"settings": {}, "graph": {}, "versions": {}}
    values.pop(missing)
    checkpoint_file.write(tmp_path / "checkpoint", values, {})
    with pytest.raises(CheckpointError, match=f"has no {missing}"):
        resume.snapshot(config_of(tmp_path), ring_graph(), tmp_path)


@pytest.mark.parametrize(
    "changes",
    [{"output_dir": ""}, {"overwrite": True}, {"mode": "evaluate"}],
)
def test_resume_needs_the_folder_of_a_run(changes):
    with pytest.raises(ConfigError, match="--resume goes on with training"):
        Config(**{"resume": True, "output_dir": "x", **changes})


# Processes that die.


def command(folder, *words, epochs=40):
    small = {**SETTINGS, "epochs": epochs}
    flags = [
        f"--{name}={','.join(map(str, value))}"
        if isinstance(value, tuple)
        else f"--{name}={value}"
        for name, value in small.items()
    ]
    return [
        sys.executable,
        "-m",
        "adaptive_gcn.main",
        *flags,
        f"--output_dir={folder}",
        *words,
    ]


ENVIRONMENT = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}


def start(folder, *words, **settings):
    return subprocess.Popen(
        command(folder, *words, **settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def wait_for_line(process, words):
    """Read what it says until a line has these words."""
    for line in process.stderr:
        if words in line:
            return
    raise AssertionError(f"it ended before {words!r}")


def go_on(config, writer):
    """Train in a process that tells of it through a pipe."""
    os.dup2(writer.fileno(), 2)
    logging.basicConfig(level=logging.INFO)
    training.train(config)


@pytest.fixture
def forks():
    """Makes processes from one that has imported TensorFlow: 20 imports less.

    None of them shares a state of TensorFlow, which that one never uses.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["adaptive_gcn.training"])
    return context


def kill_at_a_random_moment(forks, config, rng):
    """The process lives on for a random time after it said something."""
    reader, writer = forks.Pipe(duplex=False)
    process = forks.Process(target=go_on, args=(config, writer))
    process.start()
    writer.close()
    with open(reader.fileno(), closefd=False) as said:
        for _ in range(rng.randrange(1, 20)):
            assert said.readline(), "it ended by itself"
    process.join(rng.uniform(0, 0.1))
    process.kill()
    process.join()
    reader.close()
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.slow
def test_run_killed_at_20_random_moments_ends_as_if_it_had_not_been(
    tmp_path, forks
):
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    training.train(config_of(whole, epochs=400))
    config = config_of(folder, epochs=400, resume=True)
    rng = random.Random(0)
    for _ in range(20):
        kill_at_a_random_moment(forks, config, rng)
    assert epoch_of_checkpoint(folder) > 20
    assert not (folder / "result.json").exists()
    training.train(config)
    assert outcome_of(folder) == outcome_of(whole)
    assert weights_of(folder, config) == weights_of(whole, config)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_after_a_checkpoint_and_the_run_goes_on(tmp_path, number):
    words = ("--checkpoint_seconds=1000",)
    whole, folder = tmp_path / "whole", tmp_path / "stopped"
    process = start(folder, *words, epochs=300)
    wait_for_line(process, "epoch 3/300")
    process.send_signal(number)
    _, said = process.communicate()
    assert process.returncode == 128 + number, said
    assert "stopping at the end of the epoch; again: at once" in said
    assert "stopped after epoch" in said.splitlines()[-1]
    assert "Traceback" not in said
    assert sorted(os.listdir(folder)) == [
        "best.weights.h5",
        "checkpoint",
        "config.json",
        "history.csv",
    ]
    training.train(config_of(whole, epochs=300))
    training.train(config_of(folder, resume=True, epochs=300))
    assert outcome_of(folder) == outcome_of(whole)
