"""Predictions in files, and evaluation of any nodes."""

import csv
import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from pyarrow import parquet

from adaptive_gcn import export, loading, predict, run_folder, training
from adaptive_gcn.config import Config, ConfigError
from adaptive_gcn.errors import DataError
from tests.helpers import ring_graph, trained

NAMES = np.array([f'node "{i}", the' for i in range(30)])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on a graph with names, and the graph."""
    graph = dataclasses.replace(
        ring_graph(), node_ids=NAMES, class_names=("a", "b", "c")
    )
    with trained(graph, tmp_path_factory.mktemp("run")) as config:
        yield config, graph


def expected_of(config, graph, nodes):
    network = training.build_model(config, graph)
    training.load_weights(network, config)
    full = training.full_propagation(config, graph)
    probabilities = tf.nn.softmax(full.logits(network, nodes)).numpy()
    return probabilities, full.hidden(network, nodes)


def test_csv_holds_the_full_architectures_answer_by_the_users_ids(
    run, tmp_path
):
    config, graph = run
    path = tmp_path / "new" / "all.csv"
    said = predict.predict(
        dataclasses.replace(config, predictions=str(path), embeddings=True)
    )
    assert said == f"30 nodes of graph: {path}"
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == NAMES.tolist()
    probabilities, hidden = expected_of(config, graph, np.arange(30))
    classes = probabilities.argmax(1)
    assert [row["class"] for row in rows] == ["abc"[c] for c in classes]
    found = [float(row["probability"]) for row in rows]
    np.testing.assert_allclose(found, probabilities.max(1), atol=1e-6)
    found = [[float(row[f"embedding_{i}"]) for i in range(4)] for row in rows]
    np.testing.assert_allclose(found, hidden, atol=1e-6)


def test_parquet_of_listed_nodes_in_their_order(run, tmp_path):
    config, graph = run
    listed, path = tmp_path / "ids", tmp_path / "some.parquet"
    listed.write_text("\n".join(NAMES[[9, 3]]))
    predict.predict(
        dataclasses.replace(config, predictions=str(path), nodes=str(listed))
    )
    table = parquet.read_table(path).to_pydict()
    assert list(table) == ["id", "class", "probability"]
    assert table["id"] == NAMES[[9, 3]].tolist()
    probabilities, _ = expected_of(config, graph, np.array([9, 3]))
    np.testing.assert_allclose(
        table["probability"], probabilities.max(1), atol=1e-6
    )


def test_default_file_is_kept_unless_overwritten(run):
    config, _ = run
    path = run_folder.Path(config.output_dir) / "predictions.csv"
    predict.predict(dataclasses.replace(config, nodes="test"))
    first = path.read_text()
    assert len(first.splitlines()) == 7
    with pytest.raises(run_folder.RunFolderError, match="give --overwrite"):
        predict.predict(config)
    assert path.read_text() == first
    predict.predict(dataclasses.replace(config, overwrite=True))
    assert len(path.read_text().splitlines()) == 31


def test_no_nodes_give_a_file_with_a_head(run, tmp_path):
    config, _ = run
    path, listed = tmp_path / "none.csv", tmp_path / "ids"
    listed.write_text("\n")
    predict.predict(
        dataclasses.replace(config, predictions=str(path), nodes=str(listed))
    )
    assert path.read_text() == '"id","class","probability"\n'


def test_failed_prediction_leaves_no_file(run, tmp_path):
    config, _ = run
    target = tmp_path / "sub"
    words = {"predictions": str(target / "x.csv"), "nodes": "tset"}
    with pytest.raises(DataError, match="tset: expected all, train, val, test"):
        predict.predict(dataclasses.replace(config, **words))
    assert not [*target.iterdir()]


def test_folder_of_the_run_is_tried_before_any_work(monkeypatch):
    monkeypatch.setattr(training, "load_graph", None)
    with pytest.raises(run_folder.RunFolderError, match="--output_dir=/proc: "):
        predict.predict(Config(output_dir="/proc"))


def test_graph_without_validation_nodes_is_refused(run, tmp_path, monkeypatch):
    """Their accuracy would be no number, and so compare with none."""
    config, graph = run
    none = graph.with_split(graph.train_nodes, [], graph.test_nodes)
    monkeypatch.setattr(training, "load_graph", lambda config: none)
    path = tmp_path / "x.csv"
    with pytest.raises(DataError, match="validation nodes .* Received none"):
        predict.predict(dataclasses.replace(config, predictions=str(path)))
    assert not [*tmp_path.iterdir()]


def test_ending_of_the_file_is_checked_with_the_flags():
    with pytest.raises(ConfigError, match=r"ends in \.csv or \.parquet"):
        Config(predictions="out.txt")


def test_changed_weights_are_refused(run, tmp_path):
    config, _ = run
    record = run_folder.read_json(tmp_path_of(config) / "result.json")
    folder = tmp_path / "copy"
    folder.mkdir()
    for name in ("config.json", "best.weights.h5"):
        content = (tmp_path_of(config) / name).read_bytes()
        (folder / name).write_bytes(content)
    record["val_accuracy"] += 0.1
    run_folder.write_json(folder / "result.json", record)
    with pytest.raises(run_folder.RunFolderError, match="have changed"):
        predict.predict(dataclasses.replace(config, output_dir=str(folder)))


def tmp_path_of(config):
    return run_folder.Path(config.output_dir)


# Evaluation.


@pytest.mark.parametrize(
    "choice, key", [("train", "train"), ("val", "validation"), ("all", "all")]
)
def test_evaluation_of_any_split_with_classes_and_confusion(run, choice, key):
    config, graph = run
    words = {"nodes": choice, "overwrite": True}
    (found,) = training.evaluate(dataclasses.replace(config, **words)).items()
    assert found[0] == key
    scores = found[1]
    nodes = {
        "train": graph.train_nodes,
        "val": graph.val_nodes,
        "all": np.arange(30),
    }[choice]
    predicted = expected_of(config, graph, nodes)[0].argmax(1)
    labels = graph.labels[nodes]
    matrix = np.array(scores["confusion"])
    for true in range(3):
        for taken in range(3):
            pairs = (labels == true) & (predicted == taken)
            assert matrix[true, taken] == pairs.sum()
    assert scores["accuracy"] == pytest.approx(np.mean(predicted == labels))
    assert scores["micro_f1"] == pytest.approx(scores["accuracy"])
    assert [row["class"] for row in scores["classes"]] == ["a", "b", "c"]
    mean = np.mean([row["f1"] for row in scores["classes"]])
    assert scores["macro_f1"] == pytest.approx(mean)


def test_evaluation_leaves_out_nodes_without_label(
    run, tmp_path, monkeypatch, caplog
):
    config, graph = run
    labels = graph.labels.copy()
    in_split = np.concatenate(
        [graph.train_nodes, graph.val_nodes, graph.test_nodes]
    )
    kept = np.setdiff1d(in_split, graph.test_nodes[:2])
    labels[graph.test_nodes[:2]] = -1
    fewer = dataclasses.replace(
        graph, labels=labels, test_nodes=graph.test_nodes[2:]
    )
    monkeypatch.setattr(training, "load_graph", lambda config: fewer)
    words = {"nodes": "all", "overwrite": True}
    scores = training.evaluate(dataclasses.replace(config, **words))["all"]
    assert np.sum(scores["confusion"]) == len(kept)
    assert "2 of 30 nodes have no label" in caplog.text
    listed = tmp_path / "ids"
    listed.write_text(NAMES[graph.test_nodes[0]])
    words["nodes"] = str(listed)
    with pytest.raises(DataError, match="no labelled node to score"):
        training.evaluate(dataclasses.replace(config, **words))


def test_a_node_listed_again_is_scored_once_and_predicted_again(
    run, tmp_path, caplog
):
    config, _ = run
    records = []
    for ids in ([9, 3, 5], [9, 3, 9, 5, 9]):
        listed = tmp_path / "ids"
        listed.write_text("\n".join(NAMES[ids]))
        words = {"nodes": str(listed), "overwrite": True}
        again = dataclasses.replace(config, **words)
        records.append(training.evaluate(again))
    assert np.sum(records[0]["listed"]["confusion"]) == 3
    assert records[0] == records[1]
    assert caplog.text.count("2 of 5 listed nodes are there again") == 1
    path = tmp_path / "x.csv"
    predict.predict(dataclasses.replace(again, predictions=str(path)))
    with open(path, newline="") as file:
        found = [row["id"] for row in csv.DictReader(file)]
    assert found == NAMES[[9, 3, 9, 5, 9]].tolist()


def test_a_folder_in_place_of_the_file_is_refused_first(run, tmp_path):
    config, _ = run
    (tmp_path / "x.csv").mkdir()
    words = {"predictions": str(tmp_path / "x.csv"), "overwrite": True}
    with pytest.raises(run_folder.RunFolderError, match="is a folder"):
        predict.predict(dataclasses.replace(config, **words))


# The same run.


@pytest.mark.parametrize(
    "work", [training.evaluate, predict.predict, export.export]
)
def test_another_split_is_refused_by_all_alike(
    run, tmp_path, monkeypatch, work
):
    config, graph = run
    swapped = graph.with_split(
        graph.test_nodes, graph.val_nodes, graph.train_nodes
    )
    monkeypatch.setattr(training, "load_graph", lambda config: swapped)
    monkeypatch.setattr(loading, "load", lambda config: swapped)
    words = {"overwrite": True, "predictions": str(tmp_path / "x.csv")}
    with pytest.raises(
        run_folder.RunFolderError, match="result.json: the run had other train"
    ):
        work(dataclasses.replace(config, **words, export_dir=str(tmp_path)))
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]
