"""What tells a run from another one when its weights are used again."""

import pytest

from adaptive_gcn import graph_digest, run_folder, same_run
from adaptive_gcn.errors import DataError
from tests.helpers import ring_graph

GRAPH = ring_graph()


def record(folder, **values):
    run_folder.write_json(folder / run_folder.RESULT, values)


def test_nodes_to_compare_are_those_of_validation(tmp_path):
    nodes = GRAPH.val_nodes.tolist()
    assert same_run.nodes_to_compare(GRAPH, tmp_path).tolist() == nodes
    record(tmp_path)  # Of before the checksum was recorded.
    assert same_run.nodes_to_compare(GRAPH, tmp_path).tolist() == nodes
    record(tmp_path, selection_checksum=graph_digest.of_selection(GRAPH))
    assert same_run.nodes_to_compare(GRAPH, tmp_path).tolist() == nodes


def test_other_test_nodes_are_no_other_run(tmp_path):
    record(tmp_path, selection_checksum=graph_digest.of_selection(GRAPH))
    fewer = GRAPH.with_split(GRAPH.train_nodes, GRAPH.val_nodes)
    same_run.nodes_to_compare(fewer, tmp_path)


def test_the_order_of_the_nodes_makes_no_other_run(tmp_path):
    record(tmp_path, selection_checksum=graph_digest.of_selection(GRAPH))
    turned = GRAPH.with_split(GRAPH.train_nodes[::-1], GRAPH.val_nodes)
    same_run.nodes_to_compare(turned, tmp_path)


def test_other_training_nodes_are_another_run(tmp_path):
    record(tmp_path, selection_checksum=graph_digest.of_selection(GRAPH))
    other = GRAPH.with_split(GRAPH.train_nodes[1:], GRAPH.val_nodes)
    with pytest.raises(run_folder.RunFolderError, match="than graph has now"):
        same_run.nodes_to_compare(other, tmp_path)


def test_no_validation_nodes_cannot_be_compared(tmp_path):
    none = GRAPH.with_split(GRAPH.train_nodes)
    assert not len(same_run.nodes_to_compare(none, tmp_path))
    record(tmp_path)
    with pytest.raises(DataError, match="Received none"):
        same_run.nodes_to_compare(none, tmp_path)


def test_accuracy_may_differ_by_a_tie(tmp_path):
    same_run.check_accuracy(tmp_path, 0.1)
    record(tmp_path, val_accuracy=0.5)
    same_run.check_accuracy(tmp_path, 0.504)
    with pytest.raises(run_folder.RunFolderError, match="now it is 0.5060"):
        same_run.check_accuracy(tmp_path, 0.506)
