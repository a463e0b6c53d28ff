"""Tables as other programs write them: read right, or refused by place."""

import bz2
import datetime
import decimal
import gzip
import lzma
import re
import sys

import numpy as np
import pyarrow as pa
import pytest

from adaptive_gcn.errors import DataError
from tests.test_own_graph import (
    ADJACENCY,
    EDGES,
    RANDOM,
    archive,
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


def test_columns_of_nothing_are_gaps(tmp_path):
    labels = pa.nulls(4)
    (fault,) = faults_of(nodes_of(tmp_path, label=labels), RANDOM)
    assert "no node has a label" in fault
    folder = nodes_of(tmp_path, split=pa.nulls(4))
    assert read(folder, RANDOM).n_classes == 2
    folder = nodes_of(tmp_path, split=["train", "NA", "val", None])
    assert read(folder).val_nodes.tolist() == [2]


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


@pytest.mark.parametrize("lists", [[[]] * 4, [None] * 4])
def test_lists_of_nothing_are_no_features(tmp_path, lists):
    nodes = {"id": list("abcd"), "label": list("rgrg")}
    column = pa.array(lists, pa.list_(pa.int8()))
    write(tmp_path, edges_csv=EDGES, nodes_parquet={**nodes, "v": column})
    (fault,) = faults_of(tmp_path, RANDOM)
    assert "features: there are 0 a node" in fault


def test_a_table_without_rows(tmp_path):
    types = {"id": pa.string(), "label": pa.string(), "v": pa.list_(pa.int8())}
    table = {name: pa.array([], kind) for name, kind in types.items()}
    write(tmp_path, edges_csv=EDGES, nodes_parquet=table)
    faults = faults_of(tmp_path, RANDOM)
    assert any("0 nodes; expected 1 to" in each for each in faults)


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


def test_a_single_label_that_a_node_has_or_not(tmp_path):
    nodes = "id,x,label:p\na,1,1\nb,1,0\nc,1,1\nd,1,\n"
    graph = read(write(tmp_path, edges_csv=EDGES, nodes_csv=nodes), RANDOM)
    assert graph.multi_label and graph.class_names == ("p",)
    assert graph.labels.tolist() == [[1], [0], [1], [-1]]


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


# Edges.


@pytest.mark.parametrize(
    "columns, weights",
    [
        ("source=1,target=2", [1, 1, 1]),
        ("source=1,target=2,weight=0", [9, 2, 3]),
        ("drop=0", [1, 1, 1]),
        ("source=2,target=1", [1, 1, 1]),
    ],
)
def test_columns_by_position(tmp_path, columns, weights):
    """The first line holds the same numbers as the positions."""
    nodes = "id,label,x\n1,r,1\n2,g,2\n3,r,3\n4,g,4\n"
    edges = "9,1,2\n2,2,3\n3,4,3\n"
    write(tmp_path, edges_csv=edges, nodes_csv=nodes)
    graph = read(tmp_path, RANDOM, columns=columns)
    upper = [graph.adjacency[i, i + 1] for i in range(3)]
    assert upper == weights and graph.n_edges == 3


def test_a_third_column_of_texts_can_be_dropped_by_its_position(tmp_path):
    folder = nodes_of(tmp_path)
    write(folder, edges_csv="a,b,friend\nb,c,foe\nd,c,friend\n")
    (fault,) = faults_of(folder, RANDOM)
    assert "column '2': 3 values are no numbers: edges.csv line 1" in fault
    graph = read(folder, RANDOM, columns="drop=2")
    assert graph.adjacency.toarray().tolist() == ADJACENCY


@pytest.mark.parametrize("names", ["payer,payee,amount", "payer,payee"])
def test_names_that_could_be_an_edge_are_explained(tmp_path, names):
    row = ",5" if "amount" in names else ""
    edges = f"{names}\na,b{row}\nb,c{row}\nd,c{row}\n"
    folder = write(nodes_of(tmp_path), edges_csv=edges)
    (fault,) = faults_of(folder, RANDOM)
    assert "edges.csv line 1: " in fault
    assert "if the first line has the names of the columns, say" in fault
    columns = "source=payer,target=payee" + (",weight=amount" if row else "")
    graph = read(folder, RANDOM, columns=columns)
    assert graph.adjacency.max() == (5 if row else 1)


@pytest.mark.parametrize("kind", [pa.float64(), pa.string()])
def test_ids_and_weights_of_other_types_are_named(tmp_path, kind):
    folder = nodes_of(tmp_path)
    (folder / "edges.csv").unlink()
    name = "source" if kind == pa.float64() else "weight"
    numbers = pa.array(["1", "2"]).cast(kind)
    ends = {"source": ["a", "b"], "target": ["b", "c"], name: numbers}
    write(folder, edges_parquet=ends)
    with pytest.raises(DataError, match=f"'{name}': .*Received: {kind}"):
        read(folder, RANDOM)


def test_decimal_weights(tmp_path):
    folder = nodes_of(tmp_path)
    (folder / "edges.csv").unlink()
    weights = pa.array([decimal.Decimal("1.5"), decimal.Decimal(2)])
    ends = {"source": ["a", "b"], "target": ["b", "c"], "weight": weights}
    graph = read(write(folder, edges_parquet=ends), RANDOM)
    assert graph.adjacency.data.tolist() == [1.5, 1.5, 2, 2]


@pytest.mark.parametrize("edges", ["source|target\na|b\n", "a b\nb c\n"])
def test_other_signs_between_columns_are_shown(tmp_path, edges):
    write(nodes_of(tmp_path), edges_csv=edges)
    with pytest.raises(DataError, match="parted by commas.*'(source.t|a b)"):
        read(tmp_path, RANDOM)


@pytest.mark.parametrize(
    "edges", ["source,target\n", "source,target,weight\na,b,0\n", "u,v\na,a\n"]
)
def test_a_graph_without_edges_is_announced(tmp_path, edges, caplog):
    write(nodes_of(tmp_path), edges_csv=edges)
    assert read(tmp_path, RANDOM).n_edges == 0
    assert "there are no edges; each node is told by its own" in caplog.text


def test_an_end_that_is_no_row_is_named(tmp_path):
    write(tmp_path, edges_csv="source,target\n0,1\n\n1,\n")
    write(tmp_path, features_npy=np.eye(4), labels_npy=np.arange(4))
    with pytest.raises(DataError, match="rows 0..3: edges.csv line 4: ''"):
        read(tmp_path, RANDOM)


def test_nodes_without_names_of_columns(tmp_path):
    write(tmp_path, edges_csv=EDGES, nodes_csv="a,r,1\nb,g,2\nc,r,3\nd,g,4\n")
    with pytest.raises(DataError, match="name the column of ids in nodes.csv"):
        read(tmp_path, RANDOM)


# Labels.


def labelled(folder, *labels):
    rows = zip("abcd", labels, range(4), strict=True)
    nodes = "id,label,x\n" + "".join(f"{i},{c},{x}\n" for i, c, x in rows)
    return write(folder, edges_csv=EDGES, nodes_csv=nodes)


@pytest.mark.parametrize("word", ["None", "null", "N/A", "na", "?"])
def test_classes_that_look_like_gaps_are_announced(tmp_path, word, caplog):
    graph = read(labelled(tmp_path, "red", word, "green", "red"), RANDOM)
    assert graph.n_classes == 3
    assert f"{word!r} is a class of its own" in caplog.text
    assert "two classes" not in caplog.text


def test_blanks_around_labels_do_not_count(tmp_path, caplog):
    graph = read(labelled(tmp_path, "red", " red", "\tgreen ", " "), RANDOM)
    assert graph.class_names == ("green", "red")
    assert graph.labels.tolist() == [1, 1, 0, -1]
    assert "3 labels have blanks around them" in caplog.text
    graph = read(labelled(tmp_path, " 1", " 0", " 1", " "), RANDOM)
    assert graph.labels.tolist() == [1, 0, 1, -1]


@pytest.mark.parametrize("word", ["Red", "rED"])
def test_classes_that_look_alike_are_announced(tmp_path, word, caplog):
    graph = read(labelled(tmp_path, "red", word, "green", "red"), RANDOM)
    assert graph.n_classes == 3
    assert "are two classes, though they differ only in cap" in caplog.text


def test_a_single_class_is_announced(tmp_path, caplog):
    read(labelled(tmp_path, "red", "red", "", "red"), RANDOM)
    assert "all labels are of one class: red" in caplog.text


def test_labels_that_are_no_whole_numbers_are_named(tmp_path):
    labels = np.array([0, 0.25, np.nan, np.inf])
    write(tmp_path, edges_npy=np.array([[0, 1], [1, 2], [2, 3]]))
    write(tmp_path, features_npy=np.eye(4), labels_npy=labels)
    (fault,) = faults_of(tmp_path, RANDOM)
    assert "2 labels are no whole numbers: node 1: 0.25; node 3: inf" in fault


# Files.


PACKED = {
    "gzip": gzip.compress(EDGES.encode()),
    "xz": lzma.compress(EDGES.encode()),
    "bzip2": bz2.compress(EDGES.encode()),
    "zip archive, as of a spreadsheet": b"PK\x03\x04\x14\0\0\0",
    "UTF-16 (save it as UTF-8)": EDGES.encode("utf-16"),
    "HDF5": b"\x89HDF\r\n\x1a\n",
}


@pytest.mark.parametrize("what", PACKED)
@pytest.mark.parametrize("name", ["edges_csv", "features_npy", "labels_npy"])
def test_what_a_file_is_instead_is_said(tmp_path, what, name):
    write(nodes_of(tmp_path), **{name: PACKED[what]})
    file = name.replace("_", ".")
    with pytest.raises(DataError, match=f"{file}.* {re.escape(what)}"):
        read(tmp_path, RANDOM)


def test_an_odd_row_in_another_encoding_prints_nothing(tmp_path, monkeypatch):
    printed = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    rows = "".join(f"{i:09d},r,1\n" for i in range(100_000))
    nodes = f"id,label,x\n{rows}z,größe,1,5\n".encode("latin-1")
    write(tmp_path, edges_csv=EDGES, nodes_csv=nodes)
    with pytest.raises(DataError, match="line 100002, which is no UTF-8"):
        read(tmp_path, RANDOM)
    assert not printed


def of_python_2(array):
    """A .npy file as Python 2 wrote it: the shape holds long integers."""
    shape = "".join(f"{each}L, " for each in array.shape)
    header = (
        f"{{'descr': '{array.dtype.str}', 'fortran_order': False, "
        f"'shape': ({shape}), }}\n"
    ).encode()
    size = len(header).to_bytes(2, "little")
    return b"\x93NUMPY\x01\x00" + size + header + array.tobytes()


def test_arrays_that_python_2_wrote(tmp_path, recwarn):
    ends = np.array([[0, 1], [1, 2], [3, 2]])
    write(
        tmp_path,
        edges_npy=of_python_2(ends),
        features_npy=of_python_2(np.eye(4)),
        labels_npy=of_python_2(np.array([0, 1, 0, 1])),
    )
    graph = read(tmp_path, RANDOM)
    assert graph.adjacency.toarray().tolist() == ADJACENCY
    np.testing.assert_array_equal(graph.features, np.eye(4))
    assert graph.labels.tolist() == [0, 1, 0, 1]
    assert not recwarn.list


@pytest.mark.parametrize("name", ["edges.npy", "features.npy", "labels.npy"])
def test_an_archive_in_place_of_an_array_is_said(tmp_path, name):
    nodes_of(tmp_path)
    (tmp_path / "edges.csv").unlink()
    write(tmp_path, edges_npy=np.array([[0, 1]] * 3))
    with (tmp_path / name).open("wb") as file:
        np.savez(file, a=np.zeros((4, 2), int))
    with pytest.raises(DataError, match=f"{name}: .* a zip archive"):
        read(tmp_path, RANDOM)


@pytest.mark.parametrize("n_before", [1, 100_000])
def test_a_line_in_another_encoding_is_named(tmp_path, n_before):
    rows = "".join(f"{i:09d},r,1\n" for i in range(n_before))
    nodes = f"id,label,x\n{rows}z,größe,1\n".encode("latin-1")
    write(tmp_path, edges_csv=EDGES, nodes_csv=nodes)
    with pytest.raises(DataError, match=f"line {n_before + 2}, which is no U"):
        read(tmp_path, RANDOM)


@pytest.mark.parametrize("name", ["labels.npy", "edges.npy"])
def test_arrays_of_objects_are_explained(tmp_path, name):
    nodes_of(tmp_path)
    (tmp_path / "edges.csv").unlink()
    write(tmp_path, edges_npy=np.array([[0, 1]] * 3))
    array = np.array([["a", None]], object)
    np.save(tmp_path / name, array, allow_pickle=True)
    with pytest.raises(DataError, match=f"{name}: .*array.astype"):
        read(tmp_path, RANDOM)


@pytest.mark.parametrize(
    "name", ["nodes.csv.gz", "Nodes.CSV", "features.csv", "labels.txt"]
)
@pytest.mark.parametrize("kind", ["file", "folder", "broken link"])
def test_files_that_look_like_a_part_are_announced(
    tmp_path, name, kind, caplog
):
    path = nodes_of(tmp_path) / name
    if kind == "file":
        path.write_text("id,x\n")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "nowhere")
    read(tmp_path, RANDOM)
    assert f"not read: {name}; names that are read: edges.csv" in caplog.text


def test_other_files_are_not_announced(tmp_path, caplog):
    for name in ("README.md", "edge.csv", "my_nodes.csv", "notes.txt"):
        (nodes_of(tmp_path) / name).write_text("")
    read(tmp_path, RANDOM)
    assert "not read" not in caplog.text


def test_features_of_other_nodes_are_announced(tmp_path, caplog):
    nodes = "id,label\na,r\nb,g\nc,r\nd,g\n"
    table = {"id": list("zdcba"), "x": [0, 4, 3, 2, 1]}
    write(tmp_path, edges_csv=EDGES, nodes_csv=nodes, features_parquet=table)
    assert read(tmp_path, RANDOM).features[:, 0].tolist() == [1, 2, 3, 4]
    assert "features.parquet: 1 rows are of no node" in caplog.text


# MUSAE.


def twitch(folder):
    """Edges and features mean `new_id`; `id` is another number."""
    return write(
        folder,
        musae_edges_csv="from,to\n0,1\n1,2\n3,2\n",
        musae_features_json='{"0": [0], "1": [1], "2": [2], "3": []}',
        musae_target_csv="id,days,mature,new_id\n0,5,True,2\n1,6,False,0\n"
        "2,7,False,1\n3,8,True,3\n",
    )


def test_musae_files_with_new_ids(tmp_path, caplog):
    graph = read(twitch(tmp_path), RANDOM)
    assert graph.node_ids.tolist() == [2, 0, 1, 3]
    assert graph.features.toarray().tolist() == [
        [0, 0, 1],
        [1, 0, 0],
        [0, 1, 0],
        [0, 0, 0],
    ]
    found = graph.adjacency.toarray()
    assert found[np.ix_([1, 2, 0, 3], [1, 2, 0, 3])].tolist() == ADJACENCY
    assert graph.labels.tolist() == [1, 0, 0, 1]
    assert "rename" not in caplog.text
    graph = read(tmp_path, RANDOM, columns="drop=new_id")
    assert graph.node_ids.tolist() == [0, 1, 2, 3]
    assert graph.adjacency.toarray().tolist() == ADJACENCY


def test_a_table_of_nodes_goes_before_files_like_those_of_musae(tmp_path):
    folder = nodes_of(tmp_path)
    write(folder, target_csv="id,a\n1,2\n", features_json="{}")
    assert read(folder, RANDOM).node_ids.tolist() == list("abcd")


# Columns of Parquet by place.


def test_numbers_as_names_of_columns_are_names(tmp_path):
    edges = {"0": list("abd"), "1": list("bcc"), "2": [5.0, 6.0, 7.0]}
    write(tmp_path, edges_parquet=edges, nodes_parquet=ROWS)
    assert read(tmp_path, RANDOM).adjacency.toarray().tolist() == ADJACENCY


def test_a_first_column_of_weights_is_no_end(tmp_path):
    edges = {"weight": [2.0, 2.0, 2.0], "p": list("abd"), "q": list("bcc")}
    write(tmp_path, edges_parquet=edges, nodes_parquet=ROWS)
    expected = (2 * np.array(ADJACENCY)).tolist()
    assert read(tmp_path, RANDOM).adjacency.toarray().tolist() == expected
    (tmp_path / "edges.parquet").unlink()
    text = "weight,source,target\n2,a,b\n2,b,c\n2,d,c\n"
    write(tmp_path, edges_csv=text)
    assert read(tmp_path, RANDOM).adjacency.toarray().tolist() == expected


# One .npz file.


NO_MATRIX = {"adj_indptr": None, "adj_shape": None}


@pytest.mark.parametrize(
    "name, edges",
    [("edge_index", [[0, 2], [1, 3]]), ("edges", [[0, 1], [2, 3]])],
)
def test_two_edges_are_rows_or_columns_by_their_name(tmp_path, name, edges):
    ends = {name: np.array([[0, 1], [2, 3]])}
    graph = read(archive(tmp_path / "x.npz", **ends, **NO_MATRIX), RANDOM)
    found = np.argwhere(np.triu(graph.adjacency.toarray()))
    assert found.tolist() == edges


def test_masks_that_are_numbers_of_nodes_are_refused(tmp_path):
    masks = {
        "train_mask": np.array([0, 3, 1, 2]),
        "val_mask": np.zeros(4, int),
        "test_mask": np.zeros(4, int),
    }
    path = archive(tmp_path / "x.npz", **masks)
    with pytest.raises(DataError, match="train_mask: .*Received: 3 for node 1"):
        read(path)


def test_repeated_ids_of_an_archive_are_named(tmp_path):
    path = archive(tmp_path / "x.npz", node_ids=np.array(["p", "q", "p", "r"]))
    (fault,) = faults_of(path, RANDOM)
    assert "x.npz: 1 ids repeat an earlier one: node 2: 'p'" in fault


# Sizes.


def test_a_header_of_more_than_a_megabyte(tmp_path):
    names = ",".join(f"{'x' * 1000}{i}" for i in range(1500))
    rows = "".join(f"{i},r{',1' * 1500}\n" for i in "abcd")
    nodes = f"id,label,{names}\n{rows}"
    graph = read(write(tmp_path, edges_csv=EDGES, nodes_csv=nodes), RANDOM)
    assert graph.features.tolist() == [[1] * 1500] * 4


def test_a_long_value_is_cut_in_messages(tmp_path):
    folder = write(nodes_of(tmp_path), edges_csv=EDGES + "a" * 10_000 + ",b\n")
    (fault,) = faults_of(folder, RANDOM)
    assert "edges.csv line 6: 'aaa" in fault and len(fault) < 500


def test_views_of_texts_are_texts(tmp_path):
    if not hasattr(pa, "string_view"):
        pytest.skip("pyarrow has no views")
    ids, labels = (pa.array(ROWS[n], pa.string_view()) for n in ("id", "label"))
    graph = read(nodes_of(tmp_path, id=ids, label=labels), RANDOM)
    assert graph.node_ids.tolist() == list("abcd")
    assert graph.labels.tolist() == [1, 0, 1, 0]
