"""Graphs that people share, read from their files and trained on."""

import dataclasses

import numpy as np
import pytest

from adaptive_gcn import check_data, training
from adaptive_gcn.datasets.folder import read_folder
from adaptive_gcn.datasets.folder_options import FolderOptions
from adaptive_gcn.split_rule import SplitRule
from benchmarks import own_graph

pytestmark = pytest.mark.data
RANDOM = FolderOptions(split=SplitRule.parse("random:0.6/0.2/0.2"))


def test_facebook_has_names_and_commas_and_loops(data_dir, caplog):
    graph = read_folder(data_dir / "other" / "facebook_large", RANDOM)
    counts = graph.statistics()
    assert (counts["nodes"], counts["entries_read"]) == (22470, 171002)
    assert (counts["undirected_edges"], counts["self_loops"]) == (170823, 179)
    assert graph.class_names == (
        "company",
        "government",
        "politician",
        "tvshow",
    )
    assert graph.labels[:2].tolist() == [3, 1]  # As target.csv has them.
    assert graph.features[[554]].sum() == 22
    assert "directed input, made symmetric: 170823 entries" in caplog.text


def test_tolokers_has_ten_splits(data_dir):
    place = data_dir / "other" / "tolokers.npz"
    first, last = (
        read_folder(place, FolderOptions(split=SplitRule("given", index)))
        for index in (0, 9)
    )
    assert (first.n_nodes, first.n_edges) == (11758, 519000)
    assert np.bincount(first.labels).tolist() == [9192, 2566]
    for graph in (first, last):
        sizes = [len(graph.train_nodes), len(graph.val_nodes)]
        assert sizes == [5879, 2939]
    assert first.train_nodes.tolist() != last.train_nodes.tolist()


def test_coauthor_cs_is_sparse_and_symmetric(data_dir, caplog):
    graph = read_folder(data_dir / "other" / "coauthor_cs.npz", RANDOM)
    assert (graph.n_nodes, graph.n_edges) == (18333, 81894)
    assert graph.features.nnz == 1092079
    assert "directed" not in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, accuracy, roc_auc",
    [("facebook_large", 0.85, None), ("tolokers", 0.75, 0.65)],
)
def test_a_few_epochs_learn(data_dir, tmp_path, name, accuracy, roc_auc):
    config = own_graph.config_of(name, str(data_dir / "other"), seed=0)
    config = dataclasses.replace(config, epochs=8, output_dir=str(tmp_path))
    assert check_data.report(config)[1]
    record = training.train(config)
    assert record["test_accuracy"] > accuracy
    if roc_auc is None:
        assert record["roc_auc"] is None
    else:
        assert record["roc_auc"] > roc_auc
