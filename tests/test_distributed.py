"""Runs of several workers, on one machine."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

from adaptive_gcn import distributed, pipeline, training
from adaptive_gcn.config import Config, ConfigError
from adaptive_gcn.sampling import samplers
from tests.helpers import ring_graph

ROOT = pathlib.Path(__file__).parents[1]
SETTINGS = {
    "synthetic_nodes": 200,
    "synthetic_features": 30,
    "synthetic_classes": 3,
    "samples_per_layer": 32,
    "batch_size": 32,
    "epochs": 6,
    "learning_rate": 0.02,
    "sampler_learning_rate": 0.01,
    "checkpoint_seconds": 0,
}


def start(folder, target, index=0, ports=(), n_devices=1, **changes):
    """A process with one of the workers."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "CUDA_VISIBLE_DEVICES": "",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    if ports:
        environment["TF_CONFIG"] = json.dumps(
            {
                "cluster": {"worker": [f"127.0.0.1:{p}" for p in ports]},
                "task": {"type": "worker", "index": index},
            }
        )
    flags = {**SETTINGS, "output_dir": folder, **changes}
    return subprocess.Popen(
        [
            sys.executable,
            str(ROOT / "tests" / "worker.py"),
            str(target),
            str(n_devices),
            *(f"--{name}={value}" for name, value in flags.items()),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def seen_by(process, target):
    _, said = process.communicate()
    assert process.returncode == 0, said
    return json.loads(target.read_text())


def run_two(tmp_path, name, **changes):
    ports = free_ports(2)
    folder = tmp_path / name
    targets = [tmp_path / f"{name}-{index}.json" for index in range(2)]
    processes = [
        start(
            folder,
            target,
            index,
            ports,
            distribute="multi_worker",
            **changes,
        )
        for index, target in enumerate(targets)
    ]
    for process in processes:
        process.wait()
    return [
        seen_by(process, target)
        for process, target in zip(processes, targets, strict=True)
    ]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """What two processes saw, and the folder of their run."""
    folder = tmp_path_factory.mktemp("two")
    return folder / "run", run_two(folder, "run")


def test_two_processes_end_with_equal_weights(two):
    _, (first, second) = two
    assert first["weights"] == second["weights"]
    assert [row["loss"] for row in first["rows"]] == [
        row["loss"] for row in second["rows"]
    ]


def test_every_training_node_comes_once_per_epoch(two):
    _, (first, second) = two
    for epoch in map(str, range(SETTINGS["epochs"])):
        parts = first["batches"][epoch], second["batches"][epoch]
        nodes = [node for part in parts for batch in part for node in batch]
        assert sorted(nodes) == list(range(len(nodes)))
        assert abs(len(sum(parts[0], [])) - len(sum(parts[1], []))) <= len(
            parts[0]
        )


def test_no_batch_is_drawn_before_its_step(two):
    """Else its g is that of an earlier W_g, and a resumed run differs."""
    _, seen = two
    for each in seen:
        assert set(each["batches"]) == set(map(str, range(SETTINGS["epochs"])))


def test_chief_alone_writes_the_records(two):
    folder, _ = two
    assert sorted(os.listdir(folder)) == [
        "best.weights.h5",
        "config.json",
        "history.csv",
        "result.json",
    ]
    record = json.loads((folder / "result.json").read_text())
    assert record["flags"]["distribute"] == "multi_worker"


def test_loss_follows_that_of_one_worker(two, tmp_path):
    """The same global batch and rate: the same curve, up to sampling."""
    _, (first, _) = two
    settings = {**SETTINGS, "samples_per_layer": (32,)}
    curves = []
    for seed in range(4):
        config = Config(
            **settings, seed=seed, output_dir=str(tmp_path / str(seed))
        )
        training.train(config)
        lines = (tmp_path / str(seed) / "history.csv").read_text().split()
        place = lines[0].split(",").index("class_loss")
        curves.append([float(line.split(",")[place]) for line in lines[1:]])
    several = [row["class_loss"] for row in first["rows"]]
    # Weights begin otherwise for each seed, so that this is wider than noise.
    spread = np.std(curves, axis=0, ddof=1)
    error = np.abs(np.mean(curves, axis=0) - several)
    assert np.all(error < 4 * spread + 0.05)
    assert several[-1] < several[0]


@pytest.mark.slow
def test_death_of_a_worker_ends_the_other_which_says_so(tmp_path):
    ports = free_ports(2)
    folder = tmp_path / "run"
    processes = [
        start(
            folder,
            tmp_path / f"{index}.json",
            index,
            ports,
            distribute="multi_worker",
            epochs=100_000,
            patience=0,
        )
        for index in range(2)
    ]
    for line in processes[0].stderr:
        if "epoch 3/" in line:
            break
    processes[1].send_signal(signal.SIGKILL)
    _, said = processes[0].communicate()
    assert processes[0].returncode != 0
    assert "another worker" in said, said
    assert (folder / "checkpoint").exists()


@pytest.mark.slow
def test_resumed_workers_equal_uninterrupted_ones(two, tmp_path, monkeypatch):
    _, whole = two
    with monkeypatch.context() as patch:
        patch.setenv("DIE_AFTER", "3")
        with pytest.raises(AssertionError):
            run_two(tmp_path, "run")
    assert (tmp_path / "run" / "checkpoint").exists()
    again = run_two(tmp_path, "run", resume=True)
    for resumed, uninterrupted in zip(again, whole, strict=True):
        assert resumed["weights"] == uninterrupted["weights"]
        assert resumed["rows"][-1]["loss"] == uninterrupted["rows"][-1]["loss"]


@pytest.mark.slow
def test_two_devices_of_one_process(tmp_path):
    target = tmp_path / "seen.json"
    process = start(
        tmp_path / "run", target, n_devices=2, distribute="mirrored"
    )
    seen = seen_by(process, target)
    for epoch in map(str, range(SETTINGS["epochs"])):
        nodes = sum(seen["batches"][epoch], [])
        assert sorted(nodes) == list(range(len(nodes)))
    losses = [row["class_loss"] for row in seen["rows"]]
    assert losses[-1] < losses[0]


def write_weighted_graph_of_several_labels(folder):
    rng = np.random.default_rng(0)
    parts = ["train"] * 16 + ["val"] * 4 + ["test"] * 4
    nodes = [
        f"{v},{part},{v % 2},{v % 3 // 2},{rng.normal()},{rng.normal()}"
        for v, part in enumerate(parts)
    ]
    edges = [
        f"{v},{(v + step) % 24},{step / 2}"
        for v in range(24)
        for step in (1, 5)
    ]
    tables = {
        "nodes": ["id,split,label:p,label:q,x,y", *nodes],
        "edges": ["source,target,weight", *edges],
    }
    folder.mkdir()
    for name, lines in tables.items():
        (folder / f"{name}.csv").write_text("\n".join(lines))
    return folder


@pytest.mark.slow
def test_two_devices_train_as_one_on_weights_and_several_labels(tmp_path):
    """Nothing is drawn by chance, and parts are equal: so are the results."""
    settings = {
        "dataset_dir": str(
            write_weighted_graph_of_several_labels(tmp_path / "data")
        ),
        "split": "given",
        "method": "full",
        "batch_size": 8,
        "dropout": 0.0,
        "epochs": 4,
        "learning_rate": 0.02,
    }
    target = tmp_path / "seen.json"
    process = start(
        tmp_path / "two",
        target,
        n_devices=2,
        distribute="mirrored",
        **settings,
    )
    config = Config(**settings, output_dir=str(tmp_path / "one"))
    training.train(config)
    network = training.build_model(config, training.load_graph(config))
    network.load_weights(tmp_path / "one" / "best.weights.h5")
    seen = seen_by(process, target)
    for one, two in zip(network.get_weights(), seen["weights"], strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-5)


# Without processes.


def batches_of(worker, n_workers=2, replicas=1):
    graph = ring_graph()
    train = training.training_graph(graph)
    matrix = training.normalize_adjacency(train.adjacency)
    return pipeline.Batches(
        graph=train,
        sampler=samplers.IIDSampler(matrix),
        samples_per_layer=(4, 4),
        batch_size=8,
        worker=worker,
        n_workers=n_workers,
        replicas=replicas,
    )


def test_parts_of_a_batch_are_disjoint_and_complete():
    batches = [batches_of(worker, 2, 3) for worker in range(2)]
    whole = np.arange(100, 111)
    parts = [part for each in batches for part in each._parts(whole)]
    assert len(parts) == 6
    assert sorted(np.concatenate(parts)) == whole.tolist()
    assert {len(part) for part in parts} == {1, 2}


def test_workers_draw_with_streams_of_their_own_and_go_on_with_them():
    def drawn(worker, start=None, epochs=2):
        batches = batches_of(worker)
        elements = iter(batches.dataset(start))
        return [
            next(elements)[0]["nodes"][0].numpy().tolist()
            for _ in range(epochs * batches.n_steps)
        ], batches

    first, batches = drawn(0)
    second, _ = drawn(1)
    assert first != second
    start = batches.position(batches.n_steps)
    for worker, whole in enumerate((first, second)):
        again, _ = drawn(worker, start, 1)
        assert again == whole[batches.n_steps :]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "ps", "index": 0}}',
        '{"cluster": {"worker": ["a:1"]}, '
        '"task": {"type": "worker", "index": 1}}',
    ],
)
def test_wrong_tf_config_is_refused(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    config = Config(distribute="multi_worker", output_dir="x")
    with pytest.raises(ConfigError, match="expected TF_CONFIG as in"):
        distributed.workers(config)


def test_batch_with_fewer_nodes_than_workers_is_refused():
    config = Config(batch_size=3)
    distributed.check_batches(config, 10, 2)
    with pytest.raises(ConfigError, match="--batch_size=3: 10 training nodes"):
        distributed.check_batches(config, 10, 3)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"distribute": "multi_worker"}, "expected --output_dir"),
        ({"distribute": "mirrored", "profile_step": 1}, "--profile_step"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        Config(**changes)
