"""Whole runs on a small generated graph, and what they promise."""

import csv
import dataclasses
import gc
import json
import logging
import os
import pathlib
import socket
import sys
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import sparse

from adaptive_gcn import callbacks, fitting, pipeline, run_folder, training
from adaptive_gcn.config import Config, ConfigError
from adaptive_gcn.graph import Graph, GraphError, normalize_adjacency
from tests.helpers import SMALL_RUN, ring_graph

SETTINGS = {**SMALL_RUN, "epochs": 3}
RECORD_KEYS = {
    "best_epoch",
    "epochs",
    "flags",
    "graph",
    "machine",
    "selection_checksum",
    "macro_f1",
    "micro_f1",
    "multi_label",
    "roc_auc",
    "seconds_per_epoch",
    "seconds_total",
    "seed",
    "selected_by",
    "test_accuracy",
    "val_accuracy",
    "val_loss",
    "val_roc_auc",
    "versions",
}


def config_of(folder="", **changes):
    return Config(**{**SETTINGS, "output_dir": str(folder), **changes})


def history_of(folder):
    with open(folder / "history.csv", newline="") as file:
        return list(csv.DictReader(file))


def losses_of(folder, name="loss"):
    return [float(line[name]) for line in history_of(folder)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One whole run: its folder, settings and record."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    config = config_of(folder, epochs=4, dropout=0.5)
    return folder, config, training.train(config)


# The records.


def test_record_holds_what_the_issue_asks_and_is_stored(run):
    folder, config, record = run
    assert set(record) == RECORD_KEYS
    assert run_folder.read_json(folder / "result.json") == record
    assert record["seed"] == record["flags"]["seed"] == 0
    assert record["epochs"] == 4
    assert 1 <= record["best_epoch"] <= 4
    assert record["selected_by"] == "val_loss"
    assert record["flags"]["samples_per_layer"] == [8]
    assert record["flags"]["variance_weight"] == 0.5
    assert record["graph"]["name"] == "synthetic"
    assert record["graph"]["nodes"] == 90
    assert record["graph"]["train"] == 40
    assert record["versions"] == run_folder.versions()
    assert record["machine"] == {**run_folder.machine(), "device": "cpu"}
    assert 0 < record["seconds_per_epoch"] < record["seconds_total"]
    for name in ("test_accuracy", "val_accuracy", "micro_f1", "macro_f1"):
        assert 0 <= record[name] <= 1


def test_recorded_flags_make_the_same_run_again(run):
    _, config, record = run
    flags = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in record["flags"].items()
    }
    assert Config(**flags, output_dir=config.output_dir) == config


def test_record_names_neither_the_machine_nor_a_path(run):
    folder, _, _ = run
    text = (folder / "result.json").read_text()
    for path in (folder, pathlib.Path.cwd(), pathlib.Path.home(), sys.prefix):
        assert str(path) not in text
    assert socket.gethostname() not in text
    assert "output_dir" not in text
    assert "data_dir" not in text


def test_history_has_one_line_per_epoch(run):
    folder, _, record = run
    lines = history_of(folder)
    assert [line["epoch"] for line in lines] == ["1", "2", "3", "4"]
    assert set(lines[0]) == {
        "epoch",
        "loss",
        "class_loss",
        "variance",
        "w_g_gradient_norm",
        "seconds",
        "val_loss",
        "val_accuracy",
    }
    best = lines[record["best_epoch"] - 1]
    assert float(best["val_loss"]) == min(losses_of(folder, "val_loss"))
    assert float(best["val_loss"]) == pytest.approx(record["val_loss"])
    assert float(best["val_accuracy"]) == record["val_accuracy"]


def test_settings_are_stored(run):
    folder, config, _ = run
    assert run_folder.read_json(folder / "config.json") == config.as_dict()


def test_folder_holds_the_records_and_nothing_else(run):
    folder, _, _ = run
    assert sorted(os.listdir(folder)) == [
        "best.weights.h5",
        "config.json",
        "history.csv",
        "result.json",
    ]


def test_stored_weights_give_the_numbers_of_the_record(run, tmp_path):
    folder, config, record = run
    copy = tmp_path / "copy"
    copy.mkdir()
    name = "best.weights.h5"
    (copy / name).write_bytes((folder / name).read_bytes())
    found = training.evaluate(dataclasses.replace(config, output_dir=str(copy)))
    assert found == run_folder.read_json(copy / "evaluation.json")
    assert found["test"]["accuracy"] == record["test_accuracy"]
    assert found["test"]["micro_f1"] == record["micro_f1"]
    assert found["test"]["macro_f1"] == record["macro_f1"]
    assert found["validation"]["loss"] == record["val_loss"]
    assert found["validation"]["accuracy"] == record["val_accuracy"]


def test_earlier_run_is_kept_before_any_data_is_read(run, monkeypatch):
    folder, config, _ = run
    before = {path: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.setattr(training, "load_graph", _must_not_be_called)
    with pytest.raises(run_folder.RunFolderError, match="--overwrite"):
        training.train(config)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_line_for_people_says_the_result(run):
    _, _, record = run
    assert training.describe(record) == (
        f"test accuracy {record['test_accuracy']:.4f}, validation accuracy "
        f"{record['val_accuracy']:.4f}, epoch {record['best_epoch']} of 4, "
        "chosen by val_loss"
    )


def _must_not_be_called(*_, **__):
    raise AssertionError("the data was read")


# Learning.


def test_fewer_training_nodes_than_a_batch_make_one_batch(
    tmp_path, monkeypatch
):
    sizes = []
    pack = pipeline._pack

    def count(layers, nodes, vectors, labels, rows):
        sizes.append(len(labels))
        return pack(layers, nodes, vectors, labels, rows)

    monkeypatch.setattr(pipeline, "_pack", count)
    config = config_of(
        tmp_path,
        batch_size=256,
        epochs=40,
        learning_rate=0.05,
        samples_per_layer=(64,),
    )
    training.train(config)
    assert set(sizes) == {40}
    assert 40 <= len(sizes) <= 41  # tf.data may draw one that is not used.
    losses = losses_of(tmp_path, "class_loss")
    assert np.mean(losses[-5:]) < 0.9 * np.mean(losses[:5])


def test_run_learns_the_generated_graph(tmp_path):
    record = training.train(
        config_of(
            tmp_path,
            synthetic_nodes=400,
            synthetic_features=100,
            samples_per_layer=(64,),
            batch_size=64,
            epochs=30,
        )
    )
    assert record["test_accuracy"] > 0.6  # Guessing: about 0.45.


@pytest.mark.parametrize("method", ["full", "iid", "node_wise"])
def test_every_other_method_makes_a_whole_run(tmp_path, method):
    config = config_of(tmp_path, method=method, epochs=2, device="cpu")
    record = training.train(config)
    assert set(record) == RECORD_KEYS
    assert record["flags"]["variance_weight"] == 0.0
    assert len(history_of(tmp_path)) == 2


def test_same_seed_gives_the_same_history_and_another_does_not(tmp_path):
    def lines(name, seed):
        folder = tmp_path / name
        config = config_of(
            folder,
            seed=seed,
            dropout=0.2,
            sampler_learning_rate=0.1,
            batch_size=4,
        )
        training.train(config)
        return [
            {key: value for key, value in line.items() if key != "seconds"}
            for line in history_of(folder)
        ]

    first, again, other = lines("a", 7), lines("b", 7), lines("c", 8)
    assert first == again
    assert all(
        line != another for line, another in zip(first, other, strict=True)
    )


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, 1),
        ({"refresh_interval": 4}, 2),
        ({"refresh_interval": 12}, 6),
        ({"prefetch": 2}, 6),
        ({"variance_weight": 0.0}, 6),
        ({"method": "iid"}, 6),
    ],
)
def test_trained_g_is_refreshed_only_as_an_execution_begins(changes, expected):
    assert fitting.steps_per_execution(config_of(**changes), 6) == expected


@pytest.mark.parametrize(
    "n_steps, expected", [(1, 1), (100, 100), (101, 1), (202, 2), (300, 100)]
)
def test_steps_of_an_execution_divide_those_of_an_epoch(n_steps, expected):
    config = config_of(method="iid")
    assert fitting.steps_per_execution(config, n_steps) == expected


@pytest.mark.parametrize("variance_weight, expected", [(0.0, 0), (0.5, 3)])
def test_g_is_refreshed_only_where_w_g_is_trained(variance_weight, expected):
    config = config_of(variance_weight=variance_weight, refresh_interval=3)
    network, _ = prepare(config)
    batches = training.build_batches(
        config, training.load_graph(config), network
    )
    assert batches.refresh_interval == expected


@pytest.mark.parametrize("variance_weight", [0.0, 0.5])
def test_lambda_decides_whether_w_g_is_trained(variance_weight):
    config = config_of(variance_weight=variance_weight, weight_decay=0.1)
    network, fit = prepare(config)
    w_g = network.self_dependent.w_g.numpy()
    kernel = network.convolutions[0].kernel.numpy()
    fit(1)
    changed = not np.array_equal(network.self_dependent.w_g.numpy(), w_g)
    assert changed == bool(variance_weight)
    assert not np.array_equal(network.convolutions[0].kernel.numpy(), kernel)


def prepare(config, graph=None):
    """A network with its own start, and a function that trains it."""
    keras.utils.set_random_seed(config.seed)
    graph = training.load_graph(config) if graph is None else graph
    network = training.build_model(config, graph)
    batches = training.build_batches(config, graph, network)

    def fit(epochs, extra=()):
        network.fit(
            batches.dataset(),
            steps_per_epoch=batches.n_steps,
            epochs=epochs,
            shuffle=False,
            verbose=0,
            callbacks=list(extra),
        )

    return network, fit


class StepLosses(keras.callbacks.Callback):
    """Means of the loss after every step."""

    def __init__(self):
        super().__init__()
        self.values = []

    def on_train_batch_end(self, batch, logs=None):
        self.values.append(float(logs["loss"]))


def rewired(graph):
    """The same training nodes and edges among them; all else is different."""
    rng = np.random.default_rng(5)
    pairs = np.stack(graph.adjacency.nonzero(), axis=1)
    inside = np.isin(pairs, graph.train_nodes).all(axis=1)
    others = np.setdiff1d(np.arange(graph.n_nodes), graph.train_nodes)
    new = np.stack(
        [rng.choice(others, 40), rng.integers(0, graph.n_nodes, 40)], axis=1
    )
    features, labels = graph.features.copy(), graph.labels.copy()
    features[others] = rng.normal(size=features[others].shape)
    labels[others] = rng.permutation(labels[others])
    return Graph.from_edges(
        np.concatenate([pairs[inside], new, new[:, ::-1]]),
        features,
        labels,
        graph.train_nodes,
        val_nodes=others[:2],
        test_nodes=others[2:],
        n_classes=graph.n_classes,
    )


def with_nan(graph):
    """A copy whose validation and test nodes have no usable features."""
    features = graph.features.copy()
    features[graph.val_nodes] = np.nan
    features[graph.test_nodes] = np.nan
    copy = dataclasses.replace(graph)
    object.__setattr__(copy, "features", features)
    return copy


@pytest.mark.parametrize(
    "method, change",
    [
        ("adapt", rewired),
        ("adapt", with_nan),
        ("full", with_nan),
    ],
)
def test_nothing_of_validation_and_test_nodes_touches_training(method, change):
    config = config_of(method=method, batch_size=7, samples_per_layer=(5,))
    graph = ring_graph()
    changed = change(graph)
    assert not np.array_equal(changed.features, graph.features)
    runs = []
    for each in (graph, changed):
        losses = StepLosses()
        _, fit = prepare(config, each)
        fit(2, [losses])
        runs.append(losses.values)
    assert len(runs[0]) == 6
    assert np.all(np.isfinite(runs[0]))
    assert runs[0] == runs[1]


# The chosen epoch.


class Spoiler(callbacks.EpochTimer):
    """Overwrites all weights when the given epoch (from 0) begins."""

    epoch, value = 3, 5.0

    def __init__(self):
        super().__init__()
        type(self).seen = []  # Weights as each epoch begins.

    def on_epoch_begin(self, epoch, logs=None):
        super().on_epoch_begin(epoch, logs)
        weights = self.model.get_weights()
        self.seen.append([each.copy() for each in weights])
        if epoch == self.epoch:
            rng = np.random.default_rng(0)
            self.model.set_weights(
                [self.value * rng.normal(size=each.shape) for each in weights]
            )


@pytest.mark.parametrize(
    "select, patience", [("val_loss", 0), ("val_accuracy", 30)]
)
def test_best_weights_are_tested_however_training_ends(
    tmp_path, monkeypatch, select, patience
):
    monkeypatch.setattr(callbacks, "EpochTimer", Spoiler)
    config = config_of(
        tmp_path,
        epochs=6,
        select=select,
        patience=patience,
        method="full",
        learning_rate=0.1,
    )
    record = training.train(config)
    values = losses_of(tmp_path, select)
    best = int(np.argmin(values) if select == "val_loss" else np.argmax(values))
    assert record["best_epoch"] == best + 1 <= 3
    assert record["epochs"] == len(values) == 6
    assert record[select] == pytest.approx(values[best], rel=1e-6)
    network = training.build_model(config, training.load_graph(config))
    network.load_weights(tmp_path / "best.weights.h5")
    expected = Spoiler.seen[best + 1]
    for weights, each in zip(network.get_weights(), expected, strict=True):
        np.testing.assert_array_equal(weights, each)
    found = training.evaluate(config)
    assert found["test"]["accuracy"] == record["test_accuracy"]


def test_training_stops_after_patience(tmp_path, monkeypatch):
    monkeypatch.setattr(callbacks, "EpochTimer", Spoiler)
    config = config_of(tmp_path, epochs=30, patience=2, method="full")
    record = training.train(config)
    assert record["epochs"] == record["best_epoch"] + 2 < 30


def test_wrong_name_to_select_by_is_refused_with_the_names():
    with pytest.raises(ConfigError) as error:
        config_of(select="val_acc")
    assert str(error.value) == (
        "--select=val_acc: expected one of val_loss, val_accuracy"
    )


def test_graph_without_validation_nodes_is_refused(tmp_path, monkeypatch):
    graph = dataclasses.replace(ring_graph(), val_nodes=np.empty(0, np.int64))
    monkeypatch.setattr(training, "load_graph", lambda config: graph)
    with pytest.raises(ConfigError, match="--select.* and 0 validation nodes"):
        training.train(config_of(tmp_path))


def test_graph_without_test_nodes_gets_no_test_scores(tmp_path, monkeypatch):
    graph = dataclasses.replace(ring_graph(), test_nodes=np.empty(0, np.int64))
    monkeypatch.setattr(training, "load_graph", lambda config: graph)
    record = training.train(config_of(tmp_path, epochs=1))
    for name in ("test_accuracy", "micro_f1", "macro_f1"):
        assert record[name] is None
    assert "none (no test nodes" in training.describe(record)
    assert set(training.evaluate(config_of(tmp_path))) == {"validation"}


@pytest.mark.parametrize("method", ["adapt", "iid", "node_wise", "full"])
def test_weights_whose_product_is_0_in_float32_train(
    tmp_path, monkeypatch, method
):
    graph = ring_graph()
    matrix = graph.adjacency.copy()
    matrix.data = np.full_like(matrix.data, 1e-25)
    tiny = dataclasses.replace(graph, adjacency=matrix)
    monkeypatch.setattr(training, "load_graph", lambda config: tiny)
    words = {"epochs": 1, "method": method, "variance_weight": 0.0}
    record = training.train(config_of(tmp_path, two_hop=True, **words))
    assert np.isfinite(record["val_loss"])


# Divergence.


@pytest.mark.parametrize(
    "method, rate, value",
    [
        ("adapt", 1e30, "(nan|inf)"),
        ("full", 1e30, "(nan|inf)"),
        ("adapt", 1e6, r"\d{7}.*"),  # Huge, but a number.
    ],
)
def test_diverged_loss_stops_with_epoch_step_and_value(
    tmp_path, method, rate, value
):
    config = config_of(tmp_path, method=method, learning_rate=rate)
    message = (
        r"diverged: epoch 1, step \d+: the (class )?loss is "
        rf"{value}; .*--learning_rate"
    )
    with pytest.raises(callbacks.TrainingDivergedError, match=message):
        training.train(config)
    assert not (tmp_path / "result.json").exists()
    assert not (tmp_path / "best.weights.h5").exists()


def test_weights_of_the_best_epoch_survive_divergence(tmp_path, monkeypatch):
    monkeypatch.setattr(callbacks, "EpochTimer", Spoiler)
    monkeypatch.setattr(Spoiler, "value", 1e30)
    monkeypatch.setattr(Spoiler, "epoch", 2)
    config = config_of(tmp_path, epochs=4)
    with pytest.raises(
        callbacks.TrainingDivergedError, match="epoch 3, step 1:"
    ):
        training.train(config)
    assert len(history_of(tmp_path)) == 2
    assert not (tmp_path / "result.json").exists()
    found = training.evaluate(config)
    assert found["validation"]["loss"] == pytest.approx(
        min(losses_of(tmp_path, "val_loss"))
    )


def test_validation_loss_that_is_no_number_stops(tmp_path, monkeypatch):
    monkeypatch.setattr(
        training, "_loss_and_accuracy", lambda *_: (float("nan"), 0.0)
    )
    with pytest.raises(
        callbacks.TrainingDivergedError,
        match="epoch 1: the validation loss is nan",
    ):
        training.train(config_of(tmp_path))


# Evaluation.


def plain_gcn(network, graph, nodes):
    """Loss and accuracy of relu(A X W0), A H W1 in float64."""
    matrix = normalize_adjacency(graph.adjacency).toarray().astype(np.float64)
    x = graph.features
    hidden = (x.toarray() if sparse.issparse(x) else x).astype(np.float64)
    first, second = (c.kernel.numpy() for c in network.convolutions)
    logits = matrix @ np.maximum(matrix @ hidden @ first, 0) @ second
    logits, labels = logits[nodes], graph.labels[nodes]
    highest = logits.max(axis=1)
    total = np.log(np.exp(logits - highest[:, None]).sum(axis=1)) + highest
    losses = total - logits[np.arange(len(nodes)), labels]
    return losses.mean(), np.mean(logits.argmax(axis=1) == labels)


def test_evaluation_is_the_full_network_without_dropout_and_of_now():
    config = config_of(dropout=0.5, learning_rate=0.1)
    graph = training.load_graph(config)
    network, fit = prepare(config, graph)
    full = training.full_propagation(config, graph)
    found = []
    for _ in range(2):
        fit(1)
        first, second = (
            training.score(network, full, graph, graph.test_nodes)
            for _ in range(2)
        )
        assert first == second
        loss, accuracy = plain_gcn(network, graph, graph.test_nodes)
        assert first.loss == pytest.approx(loss, abs=1e-5)
        assert first.accuracy == accuracy
        found.append(first.loss)
    assert abs(found[0] - found[1]) > 1e-4


def test_scores_of_known_predictions_by_hand():
    class Known:
        def logits(self, network, nodes):
            return 5 * np.eye(3, dtype=np.float32)[[0, 0, 1, 1]]

    class Labelled:
        labels, n_classes = np.array([0, 1, 1, 2]), 3

    scores = training.score(None, Known(), Labelled(), np.arange(4))
    assert scores.accuracy == 0.5
    assert scores.micro_f1 == pytest.approx(0.5)
    # F1: class 0 2/3, class 1 1/2, class 2 0.
    assert scores.macro_f1 == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)
    right, wrong = np.log(1 + 2 * np.exp(-5)), np.log(2 + np.exp(5))
    assert scores.loss == pytest.approx((right + wrong) / 2, rel=1e-5)


def test_weights_of_another_network_are_refused(run):
    folder, config, _ = run
    other = dataclasses.replace(config, hidden_units=(7,))
    with pytest.raises(run_folder.RunFolderError, match="not the weights"):
        training.evaluate(other)


def test_folder_without_weights_is_refused(tmp_path):
    with pytest.raises(run_folder.RunFolderError, match="there are no weights"):
        training.evaluate(config_of(tmp_path))


# What is said at the start, and refused.


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, "sampler adapt, nodes per layer 8,8 below batches of 16"),
        ({"method": "iid"}, "sampler iid, nodes per layer 8,8 below"),
        ({"method": "full"}, "sampler full, nodes per layer all below"),
        (
            {"method": "node_wise"},
            "sampler node_wise, nodes per layer 5 a node",
        ),
    ],
)
def test_start_line_names_sampler_and_nodes_per_layer(
    caplog, changes, expected
):
    caplog.set_level(logging.INFO)
    config = config_of(**changes)
    graph = training.load_graph(config)
    network = training.build_model(config, graph)
    training._announce(
        config, training.build_batches(config, graph, network), "cpu"
    )
    assert expected in caplog.text
    assert "training graph: 40 nodes" in caplog.text
    assert "device cpu" in caplog.text
    lag = "refreshed every 1 steps and lags by up to 0" in caplog.text
    assert lag == (not changes)


def test_sampling_saves_work_in_each_step():
    def entries_per_step(method):
        config = config_of(
            method=method,
            synthetic_nodes=600,
            synthetic_degree=12.0,
            batch_size=32,
            samples_per_layer=(16,),
        )
        graph = training.load_graph(config)
        network = training.build_model(config, graph)
        batches = training.build_batches(config, graph, network)
        return [
            sum(len(block.values) for block in inputs["adjacency"])
            for inputs, _ in batches.dataset().take(batches.n_steps)
        ]

    full, adapt = entries_per_step("full"), entries_per_step("adapt")
    assert len(full) == len(adapt) == 9
    assert all(a < f for a, f in zip(adapt[:-1], full[:-1], strict=True))
    assert sum(adapt) < 0.5 * sum(full)


@pytest.mark.parametrize("device", ["gpu:0", "gpu:7", "gpu", "tpu", "GPU:0"])
def test_device_that_is_not_there_is_refused_first(
    tmp_path, monkeypatch, device
):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    monkeypatch.setattr(training, "load_graph", _must_not_be_called)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    folder = tmp_path / "run"
    with pytest.raises(ConfigError) as error:
        training.train(config_of(folder, device=device))
    assert f"--device={device.lower()}: this machine shows no GPU" in str(
        error.value
    )
    assert "--device=auto" in str(error.value)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3"
    assert not folder.exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"synthetic_classes": 60},
        {"synthetic_degree": 60.0},
    ],
)
def test_data_that_cannot_be_had_is_an_error_for_users(tmp_path, changes):
    with pytest.raises(training.USER_ERRORS):
        training.train(config_of(tmp_path, **changes))
    assert not (tmp_path / "config.json").exists()


def test_errors_for_users_are_all_that_they_can_cause():
    for error in (
        ConfigError,
        GraphError,
        run_folder.RunFolderError,
        callbacks.TrainingDivergedError,
        PermissionError,
    ):
        assert issubclass(error, training.USER_ERRORS)
    assert not issubclass(TypeError, training.USER_ERRORS)


# Many runs in one process.


def test_network_is_freed_after_a_run(tmp_path, monkeypatch):
    networks = []
    build = training.build_model

    def remember(config, graph):
        network = build(config, graph)
        networks.append(weakref.ref(network))
        return network

    monkeypatch.setattr(training, "build_model", remember)
    training.train(config_of(tmp_path, epochs=1))
    gc.collect()
    assert [network() for network in networks] == [None]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_runs(tmp_path):
    def resident_mb():
        gc.collect()
        pages = pathlib.Path("/proc/self/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6

    sizes = []
    for number in range(20):
        training.train(config_of(tmp_path / str(number), synthetic_nodes=2000))
        sizes.append(resident_mb())
    assert sizes[19] - sizes[2] < 100, sizes
    assert json.loads((tmp_path / "19" / "result.json").read_text())


def test_earlier_evaluation_is_kept_unless_overwritten(tmp_path):
    config = config_of(tmp_path, epochs=1)
    training.train(config)
    first = training.evaluate(config)
    with pytest.raises(run_folder.RunFolderError, match="--overwrite"):
        training.evaluate(config)
    again = dataclasses.replace(config, overwrite=True)
    assert training.evaluate(again) == first


def test_evaluation_of_other_settings_than_the_runs_is_refused(tmp_path):
    config = config_of(tmp_path, epochs=1)
    record = training.train(config)
    record["val_accuracy"] += 0.1
    run_folder.write_json(tmp_path / "result.json", record)
    with pytest.raises(run_folder.RunFolderError, match="have changed"):
        training.evaluate(config)
    assert not (tmp_path / "evaluation.json").exists()


def test_sampler_weights_that_are_no_numbers_are_told_as_such(tmp_path):
    config = config_of(
        tmp_path, sampler_learning_rate=1e300, refresh_interval=1, epochs=3
    )
    with pytest.raises(callbacks.TrainingDivergedError, match="diverged"):
        training.train(config)


def small_config(tmp_path, **changes):
    settings = {
        "synthetic_nodes": 200,
        "synthetic_features": 50,
        "synthetic_classes": 3,
        "epochs": 4,
        "patience": 0,
        "output_dir": str(tmp_path / "run"),
        **changes,
    }
    return config_of(settings.pop("output_dir"), **settings)


def small_run(tmp_path, **changes):
    return training.train(small_config(tmp_path, **changes))


@pytest.mark.parametrize("changes", [{}, {"patience": 1, "epochs": 30}])
def test_averaged_weights_are_what_is_validated_and_kept(tmp_path, changes):
    plain = small_run(tmp_path / "plain")
    record = small_run(tmp_path, weight_average=0.9, **changes)
    lines = (tmp_path / "run" / "history.csv").read_text().splitlines()
    place = lines[0].split(",").index("val_loss")
    best = min(float(line.split(",")[place]) for line in lines[1:])
    assert record["val_loss"] == pytest.approx(best, rel=1e-4)
    assert record["val_loss"] != plain["val_loss"]
    config = small_config(tmp_path, weight_average=0.9, **changes)
    again = training.evaluate(config)
    assert again["validation"]["loss"] == pytest.approx(best, rel=1e-4)


def test_test_curve_is_recorded_and_changes_nothing_else(tmp_path):
    plain = small_run(tmp_path / "plain")
    record = small_run(tmp_path, test_curve=True)
    curves = record["curves"]
    assert {len(values) for values in curves.values()} == {4}
    assert curves["test_accuracy"][record["best_epoch"] - 1] == pytest.approx(
        record["test_accuracy"]
    )
    for key in ("test_accuracy", "val_loss", "best_epoch"):
        assert record[key] == plain[key]


def test_test_nodes_are_left_alone_if_they_are_not_to_be_scored(tmp_path):
    record = small_run(tmp_path, evaluate_test=False)
    assert record["test_accuracy"] is None
    assert "none" in training.describe(record)
    config = small_config(tmp_path, evaluate_test=False)
    assert set(training.evaluate(config)) == {"validation"}
    with pytest.raises(ConfigError, match="Use one of the two"):
        small_config(tmp_path, evaluate_test=False, test_curve=True)
