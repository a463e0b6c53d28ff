"""Prediction, evaluation and export of a run with several labels a node."""

import csv
import dataclasses
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from adaptive_gcn import export, loading, predict, run_folder, training
from tests.helpers import ring_graph, trained, with_several_labels

NAMES = np.array([f'node "{i}", ä' for i in range(30)])
LABELS = ("a,b", 'c "d"', "ä", "id")


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """A run on a graph with several labels a node, some of them unknown."""
    graph = with_several_labels(ring_graph(), LABELS)
    labels = graph.labels.copy()
    labels[graph.test_nodes[:2]] = -1
    graph = dataclasses.replace(
        graph,
        labels=labels,
        test_nodes=graph.test_nodes[2:],
        node_ids=NAMES,
    )
    with trained(graph, tmp_path_factory.mktemp("several")) as config:
        yield config, graph


def logits_of(config, graph, nodes):
    network = training.build_model(config, graph)
    training.load_weights(network, config)
    return training.full_propagation(config, graph).logits(network, nodes)


def test_each_of_several_labels_has_a_column(several):
    config, graph = several
    predict.predict(config)
    path = Path(config.output_dir) / "predictions.csv"
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = [f"probability:{name}" for name in LABELS]
    assert list(rows[0]) == ["id", *names]
    assert [row["id"] for row in rows] == NAMES.tolist()
    found = [[float(row[name]) for name in names] for row in rows]
    logits = logits_of(config, graph, np.arange(30))
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-logits)), atol=1e-6)


def test_evaluation_of_several_labels(several, caplog):
    config, graph = several
    words = {"nodes": "all", "overwrite": True}
    scores = training.evaluate(dataclasses.replace(config, **words))["all"]
    assert "2 of 30 nodes have no label" in caplog.text
    nodes = np.flatnonzero(graph.labels[:, 0] >= 0)
    assert len(nodes) == 28
    labels, taken = graph.labels[nodes], logits_of(config, graph, nodes) > 0
    for column, matrix in enumerate(scores["confusion"]):
        for true in range(2):
            for predicted in range(2):
                pairs = (labels[:, column] == true) & (
                    taken[:, column] == predicted
                )
                assert matrix[true][predicted] == pairs.sum()
    both = np.sum((labels == 1) & taken)
    micro = 2 * both / (labels.sum() + taken.sum())
    assert scores["accuracy"] == scores["micro_f1"] == pytest.approx(micro)
    assert [row["class"] for row in scores["classes"]] == list(LABELS)
    mean = np.mean([row["f1"] for row in scores["classes"]])
    assert scores["macro_f1"] == pytest.approx(mean)


def test_several_labels_are_exported_if_they_are_those_of_the_run(
    several, tmp_path, monkeypatch
):
    config, graph = several
    monkeypatch.setattr(loading, "load", lambda config: graph)
    config = dataclasses.replace(
        config, features="raw", export_dir=str(tmp_path), export_name="x"
    )
    flipped = dataclasses.replace(
        graph, labels=np.where(graph.labels < 0, -1, 1 - graph.labels)
    )
    with monkeypatch.context() as patch:
        patch.setattr(loading, "load", lambda config: flipped)
        with pytest.raises(run_folder.RunFolderError, match="have changed"):
            export.export(config)
    export.export(config)
    model = tf.saved_model.load(str(tmp_path / "x" / "1"))
    answer = model.signatures["serving_default"](node_ids=tf.constant(NAMES))
    logits = logits_of(config, graph, np.arange(30))
    np.testing.assert_array_equal(answer["labels"], logits > 0)
    names = model.signatures["class_names"](classes=tf.range(4, dtype=tf.int64))
    assert [n.decode() for n in names["class_name"].numpy()] == list(LABELS)
