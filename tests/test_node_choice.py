"""Which nodes --nodes names."""

import dataclasses

import numpy as np
import pytest

from adaptive_gcn import node_choice
from adaptive_gcn.errors import DataError
from tests.helpers import ring_graph

GRAPH = ring_graph()
LARGE = np.arange(30) * 10**9
NAMES = np.array([f"n {i}" for i in range(30)])


def named(ids):
    return dataclasses.replace(GRAPH, node_ids=ids)


def chosen(graph, tmp_path, content):
    path = tmp_path / "ids.txt"
    path.write_bytes(content)
    return node_choice.chosen_nodes(graph, str(path)).tolist()


def test_parts_of_the_split():
    for choice, expected in (
        ("all", np.arange(30)),
        ("train", GRAPH.train_nodes),
        ("val", GRAPH.val_nodes),
        ("test", GRAPH.test_nodes),
    ):
        found = node_choice.chosen_nodes(GRAPH, choice)
        np.testing.assert_array_equal(found, expected)


def test_listed_ids_in_their_order(tmp_path):
    assert chosen(GRAPH, tmp_path, b"7\n0\n7\n") == [7, 0, 7]
    content = b"\xef\xbb\xbf 4000000000\r\n\r\n1000000000\t\r\n"
    assert chosen(named(LARGE), tmp_path, content) == [4, 1]
    assert chosen(named(NAMES), tmp_path, b"n 29\nn 3") == [29, 3]
    assert chosen(GRAPH, tmp_path, b"") == []


def test_blanks_count_where_they_are_part_of_an_id(tmp_path):
    names = np.array([" 7", "7", "\xa0", *map(str, range(10, 37))])
    content = " 7\n7\n7 \n \n\xa0\n 7\r\n".encode()
    assert chosen(named(names), tmp_path, content) == [0, 1, 1, 2, 0]


@pytest.mark.parametrize(
    "ids, content, expected",
    [
        (
            None,
            b"3\n\n30\n-1\n",
            "first is '0'. Received 2 that are none, the first is line 3: '30'",
        ),
        (LARGE, b"1\n", "line 1: '1'"),
        (NAMES, b"n 1\nn\n", "first is 'n 0'. Received .* line 2: 'n'"),
        (NAMES, b"n 1" * 9999, f"line 1: '{'n 1' * 20}'$"),
        (None, b"\xff\n", "ids.txt: not UTF-8"),
    ],
)
def test_unknown_id_is_named_with_its_line(tmp_path, ids, content, expected):
    graph = GRAPH if ids is None else named(ids)
    with pytest.raises(DataError, match=expected):
        chosen(graph, tmp_path, content)


@pytest.mark.parametrize("name", [".", "a" * 300, "a\0b"])
def test_what_is_no_file_to_read_is_told_with_the_flag(tmp_path, name):
    with pytest.raises(DataError, match="--nodes=.*expected all, train"):
        node_choice.chosen_nodes(GRAPH, str(tmp_path / name))


def test_missing_file_is_told_with_the_choices(tmp_path):
    with pytest.raises(DataError, match="tset: expected all, train, val, test"):
        node_choice.chosen_nodes(GRAPH, str(tmp_path / "tset"))
