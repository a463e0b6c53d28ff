"""Tables as other programs write them: read right, or refused by place."""

import datetime
import decimal

import pyarrow as pa
import pytest

from adaptive_gcn.errors import DataError
from tests.test_own_graph import (
    ADJACENCY,
    EDGES,
    RANDOM,
    dense,
    faults_of,
    read,
    write,
)

ROWS = {"id": list("abcd"), "label": list("rgrg"), "x": [1.0, 2, 3, 4]}


def nodes_of(folder, **columns):
    return write(folder, edges_csv=EDGES, nodes_parquet={**ROWS, **columns})


# Columns that would tell the answer.


@pytest.mark.parametrize(
    "name",
    ["Label", "class", " category ", "node", "train_mask", "test_mask", ""]
    + ["Unnamed: 0"],
)
def test_answers_and_row_numbers_are_no_features(tmp_path, name, caplog):
    nodes = f"id,label,{name},x\na,r,0,1\nb,g,1,2\nc,r,0,3\nd,g,1,4\n"
    graph = read(write(tmp_path, edges_csv=EDGES, nodes_csv=nodes), RANDOM)
    assert graph.features.tolist() == [[1], [2], [3], [4]]
    assert graph.class_names == ("g", "r")
    assert f"columns ['{name.strip()}'] are left out of the f" in caplog.text


def test_the_index_that_pandas_writes_is_no_feature(tmp_path):
    graph = read(nodes_of(tmp_path, __index_level_0__=[7, 8, 9, 5]), RANDOM)
    assert graph.n_features == 1


def test_a_label_that_another_one_replaces_is_no_feature(tmp_path):
    nodes = "id,label,kind,x\na,0,r,1\nb,1,g,2\nc,0,r,3\nd,1,g,4\n"
    write(tmp_path, edges_csv=EDGES, nodes_csv=nodes)
    graph = read(tmp_path, RANDOM, columns="label=kind")
    assert graph.class_names == ("g", "r") and graph.n_features == 1


# Types of Parquet.


def test_decimals_and_encoded_numbers_are_numbers(tmp_path):
    prices = pa.array([decimal.Decimal(each) / 4 for each in range(4)])
    codes = pa.array([5, 6, 5, 6]).dictionary_encode()
    labels = pa.array([decimal.Decimal(1), None, decimal.Decimal(0)] * 2)[:4]
    folder = nodes_of(tmp_path, price=prices, code=codes, label=labels)
    graph = read(folder, RANDOM)
    assert graph.features.tolist() == [
        [1, 0, 5],
        [2, 0.25, 6],
        [3, 0.5, 5],
        [4, 0.75, 6],
    ]
    assert graph.labels.tolist() == [1, -1, 0, 1]


def test_columns_of_other_types_are_left_out_by_name(tmp_path, caplog):
    days = [datetime.date(2020, 1, 1)] * 4
    graph = read(nodes_of(tmp_path, day=days, pair=[{"a": 1}] * 4), RANDOM)
    assert graph.n_features == 1
    assert (
        "left out of the features: day (date32[day]), pair (st" in caplog.text
    )


@pytest.mark.parametrize(
    "labels, kind",
    [([datetime.datetime(2020, 1, 1)] * 4, "timestamp"), ([["r"]] * 4, "list")],
)
def test_labels_of_other_types_are_refused_by_name(tmp_path, labels, kind):
    folder = nodes_of(tmp_path, label=labels)
    with pytest.raises(DataError, match=f"nodes.parquet: .*'label'.*{kind}"):
        read(folder, RANDOM)


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int8()), pa.large_list(pa.float64())]
)
def test_a_list_that_is_shorter_is_named(tmp_path, kind):
    lists = pa.array([[1, 2], None, [3, 4], [5]], kind)
    (fault,) = faults_of(nodes_of(tmp_path, v=lists), RANDOM)
    assert "column 'v': 2 lists are shorter than 2 numbers" in fault
    assert "nodes.parquet row 1: 0; nodes.parquet row 3: 1" in fault


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int8()), pa.list_(pa.decimal128(5, 1), 2)]
)
def test_lists_of_any_numbers_are_features(tmp_path, kind):
    lists = pa.array([[1, 2], [3, 4], [5, 6], [7, 8]], kind)
    graph = read(nodes_of(tmp_path, v=lists), RANDOM)
    assert graph.features[:, 1:].tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]


def test_lists_of_lists_are_refused_by_name(tmp_path):
    folder = nodes_of(tmp_path, v=[[[1]]] * 4)
    with pytest.raises(DataError, match="'v': .* lists of numbers. .*list<"):
        read(folder, RANDOM)


# Several labels a node.


def test_several_labels_as_truths(tmp_path):
    rows = "a,1,True,False\nb,1,False,False\nc,1,True,True\nd,1,,\n"
    nodes = "id,x,label:p,label:q\n" + rows
    graph = read(write(tmp_path, edges_csv=EDGES, nodes_csv=nodes), RANDOM)
    assert graph.labels.tolist() == [[1, 0], [0, 0], [1, 1], [-1, -1]]


def test_several_labels_as_words_are_named(tmp_path):
    nodes = "id,x,label:p,label:q\na,1,1,no\nb,1,0,1\nc,1,1,yes\nd,1,0,0\n"
    write(tmp_path, edges_csv=EDGES, nodes_csv=nodes)
    (fault,) = faults_of(tmp_path, RANDOM)
    assert "not 0 or 1: nodes.csv line 2: no; nodes.csv line 4: yes" in fault


def test_a_number_that_is_written_as_text_is_shown(tmp_path, caplog):
    nodes = 'id,label,x,y\na,r,1,1\nb,g,2,2\nc,r,"1,000",3\nd,g,4,4\n'
    graph = read(write(tmp_path, edges_csv=EDGES, nodes_csv=nodes), RANDOM)
    assert dense(graph.features).tolist() == [[1], [2], [3], [4]]
    assert graph.adjacency.toarray().tolist() == ADJACENCY
    assert "left out of the features: x (nodes.csv line 4: '1,000')" in (
        caplog.text
    )
