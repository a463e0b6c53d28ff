"""Export of a run: versions, contents, ids, warm-up, refusals."""

import dataclasses
import os
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from adaptive_gcn import export, loading, run_folder, training, warm_up
from adaptive_gcn.config import Config, ConfigError
from adaptive_gcn.errors import DataError
from tests.helpers import ring_graph

SIGNATURES = {
    "serving_default",
    "embed",
    "class_names",
    "inductive",
    "inductive_weighted",
    "subgraph",
    "subgraph_weighted",
    "subgraph_sparse",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of two epochs on 400 nodes, exported twice."""
    folder = tmp_path_factory.mktemp("run")
    config = Config(
        synthetic_nodes=400,
        synthetic_features=50,
        synthetic_classes=3,
        epochs=2,
        output_dir=str(folder),
    )
    training.train(config)
    said = [export.export(config) for _ in range(2)]
    return config, folder / "export" / "synthetic", said


@pytest.fixture(scope="module")
def model(run):
    return tf.saved_model.load(str(run[1] / "2"))


def probabilities(config, graph, network):
    full = training.full_propagation(config, graph)
    logits = full.logits(network, np.arange(graph.n_nodes))
    return tf.nn.softmax(logits).numpy()


def expected_of(config):
    graph = training.load_graph(config)
    network = training.build_model(config, graph)
    training.load_weights(network, config)
    return probabilities(config, graph, network)


def test_each_export_is_a_version_with_the_model_directly_inside(run):
    _, base, said = run
    assert sorted(os.listdir(base)) == ["1", "2"]
    for version in ("1", "2"):
        assert sorted(os.listdir(base / version)) == [
            "assets",
            "assets.extra",
            "fingerprint.pb",
            "saved_model.pb",
            "variables",
        ]
    assert f"is in {base} as version 2: serving_default, embed" in said[1]


@pytest.mark.parametrize("n", [0, 1, 7, 300, 400])
def test_any_number_of_nodes_gets_the_answer_of_this_process(run, model, n):
    config, _, _ = run
    ids = np.random.default_rng(n).permutation(400)[:n]
    answer = model.signatures["serving_default"](node_ids=tf.constant(ids))
    expected = expected_of(config)[ids]
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)
    np.testing.assert_array_equal(answer["class"], expected.argmax(1))


def test_signatures_have_named_inputs_and_free_first_dimensions(model):
    assert set(model.signatures) == SIGNATURES
    for function in model.signatures.values():
        _, inputs = function.structured_input_signature
        for name, spec in inputs.items():
            assert spec.name == name
            assert spec.shape.rank == 0 or spec.shape[0] is None
        for spec in function.structured_outputs.values():
            assert spec.shape[0] is None


def test_tables_are_variables_not_constants(run, model):
    definition = (run[1] / "2" / "saved_model.pb").read_bytes()
    assert len(definition) < 10**6
    for function in model.signatures.values():
        bodies = function.graph.as_graph_def().library.function
        sizes = [
            np.prod(
                [dim.size for dim in node.attr["value"].tensor.tensor_shape.dim]
            )
            for body in bodies
            for node in body.node_def
            if node.op == "Const"
        ]
        assert max(sizes) < 50  # Fewer than nodes or features.


def test_warm_up_file_has_a_request_that_works_for_each_signature(run, model):
    path = run[1] / "2" / warm_up.FILE
    asked = set()
    for record in tf.data.TFRecordDataset(str(path)):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        request = log.predict_log.request
        assert request.model_spec.name == "synthetic"
        inputs = {
            name: tf.constant(tf.make_ndarray(value))
            for name, value in request.inputs.items()
        }
        asked.add(request.model_spec.signature_name)
        model.signatures[request.model_spec.signature_name](**inputs)
    assert asked == SIGNATURES


def test_keras_cannot_load_it_and_says_so(run):
    with pytest.raises(ValueError, match="File format not supported"):
        keras.models.load_model(run[1] / "2")


# Ids.


@pytest.mark.parametrize(
    "names, unknown",
    [
        (np.array([10, 20, 4_000_000_000, *range(100, 127)]), 0),
        (np.array([" ", " a", "b ", "ä,\t;", *map(str, range(26))]), "a"),
    ],
)
def test_ids_of_the_user_are_looked_up(tmp_path, names, unknown):
    graph = dataclasses.replace(ring_graph(), node_ids=names)
    config = Config(features="raw")
    network = training.build_model(config, graph)
    served = export.build(config, graph, network, tmp_path)
    signatures = export.signatures_of(served, config)
    (tmp_path / "1").mkdir()
    export.save(served, signatures, tmp_path / "1", graph)
    (tmp_path / "node_ids.txt").unlink()
    loaded = tf.saved_model.load(str(tmp_path / "1"))
    function = loaded.signatures["serving_default"]
    order = np.random.default_rng(0).permutation(30)
    answer = function(node_ids=tf.constant(names[order]))
    expected = probabilities(config, graph, network)[order]
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="node_ids: not in the graph"
    ):
        function(node_ids=tf.constant(np.array([names[0], unknown])))


@pytest.mark.parametrize("name", ["a\nb", "a\r", ""])
def test_id_that_is_no_line_of_a_file_is_refused(tmp_path, name):
    names = np.array([name, *map(str, range(29))])
    graph = dataclasses.replace(ring_graph(), node_ids=names)
    network = training.build_model(Config(), graph)
    with pytest.raises(
        DataError, match=f"1 are empty .*{re.escape(repr(name))}"
    ):
        export.build(Config(), graph, network, tmp_path)


# What is left out, and what is refused.


@pytest.mark.parametrize(
    "settings, left_out",
    [
        ({"two_hop": True}, {"inductive", "inductive_weighted"}),
        (
            {"two_hop": True, "attention": "plus_one"},
            SIGNATURES - {"serving_default", "embed", "class_names"},
        ),
    ],
)
def test_signature_without_a_right_answer_is_left_out(
    tmp_path, caplog, settings, left_out
):
    config = Config(**settings)
    network = training.build_model(config, ring_graph())
    served = export.build(config, ring_graph(), network, tmp_path)
    assert set(export.signatures_of(served, config)) == SIGNATURES - left_out
    assert "signature inductive is left out: with --two_hop" in caplog.text


def copy_of(run, tmp_path):
    config, base, _ = run
    folder = tmp_path / "copy"
    folder.mkdir()
    for path in base.parents[1].iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    return dataclasses.replace(config, output_dir=str(folder)), folder


def test_run_that_was_changed_is_not_exported(run, tmp_path):
    config, folder = copy_of(run, tmp_path)
    record = run_folder.read_json(folder / "result.json")
    record["val_accuracy"] += 0.1
    run_folder.write_json(folder / "result.json", record)
    with pytest.raises(run_folder.RunFolderError, match="have changed"):
        export.export(config)
    assert not os.listdir(folder / "export" / "synthetic")


def test_failure_while_saving_leaves_no_version(run, tmp_path, monkeypatch):
    config, folder = copy_of(run, tmp_path)

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(warm_up, "write", fail)
    with pytest.raises(OSError, match="disk full"):
        export.export(config)
    assert not os.listdir(folder / "export" / "synthetic")


def test_full_disk_is_told_in_words_and_leaves_no_version(
    run, tmp_path, monkeypatch
):
    config, folder = copy_of(run, tmp_path)

    def fail(*_, **__):
        raise tf.errors.OutOfRangeError(None, None, "x; File too large")

    monkeypatch.setattr(tf.saved_model, "save", fail)
    with pytest.raises(
        run_folder.RunFolderError, match="cannot be written .*File too large"
    ):
        export.export(config)
    assert not os.listdir(folder / "export" / "synthetic")


@pytest.mark.parametrize("name", ["lr[1]", "a\\b"])
def test_folder_that_tensorflow_takes_for_a_pattern_is_refused(
    tmp_path, monkeypatch, name
):
    """It would write a model there, and not find it to load."""
    monkeypatch.setattr(loading, "load", None)  # Refused before any work.
    for words in (
        {"export_dir": str(tmp_path / name)},
        {"export_dir": str(tmp_path), "export_name": name},
    ):
        with pytest.raises(run_folder.RunFolderError, match="for a pattern"):
            export.export(Config(**words))
    assert not [*tmp_path.iterdir()]


def test_folder_with_blanks_and_other_letters_is_found(run, tmp_path):
    config, _, _ = run
    words = {"export_dir": f"{tmp_path}/a b/] *?{{", "export_name": "мо дель"}
    export.export(dataclasses.replace(config, **words))
    folder = tmp_path / "a b" / "] *?{" / "мо дель" / "1"
    assert tf.saved_model.load(str(folder)).signatures


def test_run_without_validation_nodes_is_not_exported(
    run, tmp_path, monkeypatch
):
    config, folder = copy_of(run, tmp_path)
    graph = loading.load(config)
    none = graph.with_split(graph.train_nodes, [], graph.test_nodes)
    monkeypatch.setattr(loading, "load", lambda config: none)
    with pytest.raises(DataError, match="validation nodes .* Received none"):
        export.export(config)
    assert not os.listdir(folder / "export" / "synthetic")


def test_place_and_name_can_be_chosen(run, tmp_path, monkeypatch):
    config, _, _ = run
    words = {"export_dir": str(tmp_path / "models"), "export_name": "mine"}
    base = export._base(dataclasses.replace(config, **words))
    assert base == tmp_path / "models" / "mine"
    for name in ("a/b", ".."):
        with pytest.raises(ConfigError, match="expected the name of a folder"):
            Config(export_name=name)
    blocked = dataclasses.replace(config, export_dir="/proc/models")
    monkeypatch.setattr(loading, "load", None)  # Refused before any work.
    with pytest.raises(run_folder.RunFolderError, match="--export_dir=/proc"):
        export.export(blocked)


# Real graphs.


@pytest.mark.data
@pytest.mark.parametrize("name", ["cora", "citeseer", "cora by strings"])
def test_real_graphs_get_the_answers_of_this_process(name, data_dir, tmp_path):
    config = Config(dataset=name.split()[0], data_dir=str(data_dir))
    graph = loading.load(config)
    ids = np.arange(graph.n_nodes)
    if "strings" in name:
        ids = np.array([f"paper {i}" for i in ids])
        graph = dataclasses.replace(graph, node_ids=ids)
    network = training.build_model(config, graph)
    served = export.build(config, graph, network, tmp_path)
    (tmp_path / "1").mkdir()
    export.save(
        served, export.signatures_of(served, config), tmp_path / "1", graph
    )
    loaded = tf.saved_model.load(str(tmp_path / "1"))
    answer = loaded.signatures["serving_default"](node_ids=tf.constant(ids))
    scaled = training.load_graph(config)
    expected = probabilities(config, scaled, network)
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)
    isolated = np.flatnonzero(np.diff(graph.adjacency.indptr) == 0)
    assert len(isolated) == (48 if name == "citeseer" else 0)
    for n in (1, 7, 300):
        part = loaded.signatures["serving_default"](
            node_ids=tf.constant(ids[-n:])
        )
        np.testing.assert_allclose(
            part["probabilities"], expected[-n:], atol=1e-5
        )
