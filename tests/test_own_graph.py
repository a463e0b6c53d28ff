"""Graphs of a user's own: every form, and every fault by file and line."""

import json
import logging

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from adaptive_gcn.datasets import store
from adaptive_gcn.datasets.faults import FaultyDataError
from adaptive_gcn.datasets.folder import read_folder
from adaptive_gcn.datasets.folder_options import FolderOptions
from adaptive_gcn.errors import DataError
from adaptive_gcn.graph import training_graph
from adaptive_gcn.split_rule import SplitRule

# The path a-b-c-d, in which b-c and c-d are given once.
EDGES = "source,target\na,b\nb,a\nb,c\nd,c\n"
NODES = """id,label,split,x0,x1
a,red,train,1,0
b,blue,val,0,1
c,red,test,1,1
d,,,0,0
"""
ADJACENCY = [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]]


def write(folder, **files):
    """Write files whose names have "_" for the last "."."""
    for name, content in files.items():
        path = folder / ".".join(name.rsplit("_", 1))
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif isinstance(content, str):
            path.write_text(content, encoding="utf-8", newline="")
        elif isinstance(content, dict):
            pq.write_table(pa.table(content), path)
        elif sparse.issparse(content):
            sparse.save_npz(path, content)
        else:
            np.save(path, content)
    return folder


def read(folder, split="given", **options):
    return read_folder(
        folder, FolderOptions(split=SplitRule.parse(split), **options)
    )


def faults_of(folder, *arguments, **options):
    with pytest.raises(FaultyDataError) as error:
        read(folder, *arguments, **options)
    return [str(each) for each in error.value.faults]


def dense(features):
    return features.toarray() if sparse.issparse(features) else features


def same(first, second):
    for name in ("labels", "train_nodes", "val_nodes", "test_nodes"):
        np.testing.assert_array_equal(
            getattr(first, name), getattr(second, name)
        )
    np.testing.assert_array_equal(
        first.adjacency.toarray(), second.adjacency.toarray()
    )
    np.testing.assert_array_equal(dense(first.features), dense(second.features))
    assert first.class_names == second.class_names


def test_a_pair_of_csv_files(tmp_path, caplog):
    graph = read(write(tmp_path, edges_csv=EDGES, nodes_csv=NODES))
    assert graph.adjacency.toarray().tolist() == ADJACENCY
    assert graph.features.tolist() == [[1, 0], [0, 1], [1, 1], [0, 0]]
    assert graph.features.dtype == np.float32
    assert graph.labels.tolist() == [1, 0, 1, -1]
    assert graph.class_names == ("blue", "red")
    assert graph.node_ids.tolist() == ["a", "b", "c", "d"]
    assert graph.train_nodes.tolist() == [0]
    assert graph.val_nodes.tolist() == [1]
    assert graph.test_nodes.tolist() == [2]
    assert "directed input, made symmetric: 2 entries" in caplog.text


def table(text):
    rows = [line.split(",") for line in text.strip().split("\n")]
    return {name: list(values) for name, *values in zip(*rows, strict=True)}


def with_numbers(columns):
    return {
        name: [float(each) for each in values] if name[0] == "x" else values
        for name, values in columns.items()
    }


@pytest.mark.parametrize(
    "files",
    [
        {"edges_tsv": EDGES.replace(",", "\t")},
        {"edges_csv": EDGES.replace(",", ";")},
        {"edges_csv": EDGES.replace("source,target", "SRC, Dst")},
        {"edges_csv": EDGES.partition("\n")[2]},  # No header.
        {"edges_txt": EDGES.partition("\n")[2].replace(",", " \t ")},
        {"edges_parquet": table(EDGES)},
        {"nodes_parquet": with_numbers(table(NODES))},
        {"nodes_csv": NODES.replace("label", "class")},
        {"nodes_csv": NODES.replace(",val,", ",Validation,")},
        {"nodes_csv": NODES.replace(",,,", ",-1,none,")},
        {"nodes_csv": NODES.replace(",,,", ",-100,none,")},
        {"nodes_csv": NODES.replace(",red,", ',"red",')},
    ],
)
def test_other_forms_of_the_same_tables_are_the_same_graph(tmp_path, files):
    usual = {"edges_csv": EDGES, "nodes_csv": NODES}
    (tmp_path / "usual").mkdir()
    expected = read(write(tmp_path / "usual", **usual))
    for name in files:
        usual.pop(f"{name.partition('_')[0]}_csv")
    folder = tmp_path / "mine"
    folder.mkdir()
    same(read(write(folder, **usual, **files)), expected)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text + "\n\n",
        lambda text: "# made by hand\n\n" + text,
        lambda text: text.replace("\n", "\n\n", 2),
        lambda text: text.removesuffix("\n"),
    ],
)
@pytest.mark.parametrize("name", ["edges_csv", "nodes_csv", "edges_txt"])
def test_line_ends_comments_and_marks_change_nothing(tmp_path, name, change):
    loose = EDGES.partition("\n")[2].replace(",", " ")
    texts = {"edges_csv": EDGES, "nodes_csv": NODES, "edges_txt": loose}
    (tmp_path / "clean").mkdir()
    (tmp_path / "odd").mkdir()
    if name == "edges_txt":
        del texts["edges_csv"]
    else:
        del texts["edges_txt"]
    expected = read(write(tmp_path / "clean", **texts))
    texts[name] = change(texts[name])
    same(read(write(tmp_path / "odd", **texts)), expected)


def test_loose_text_with_everything_that_people_write(tmp_path):
    text = "\ufeff# from to\r\n\r\n0\t 1\r\n  1  2 \r\n# half\r\n3 \t2\r\n\r\n"
    write(tmp_path, edges_txt=text, features_npy=np.eye(4))
    write(tmp_path, labels_npy=np.array([0, 1, 0, 1]))
    graph = read(tmp_path, "random:0.5/0.5/0")
    assert graph.adjacency.toarray().tolist() == ADJACENCY


def test_a_non_number_in_loose_text_is_named_with_its_line(tmp_path):
    write(tmp_path, edges_txt="# c\n\n0 1 1.5\n\n1 2 x\n# d\n2 0 y\n")
    write(tmp_path, labels_npy=np.arange(3), features_npy=np.eye(3))
    (fault,) = faults_of(tmp_path, "random:0.5/0.5/0")
    assert "edges.txt: column '2': 2 values are no numbers" in fault
    assert "edges.txt line 5: 'x'; edges.txt line 7: 'y'" in fault


def test_very_large_and_sparse_ids_stay_and_cost_nothing(tmp_path):
    ids = ["10", "20", "4000000000", str(2**62)]
    edges = f"u,v\n{ids[0]},{ids[1]}\n{ids[1]},{ids[2]}\n{ids[3]},{ids[2]}\n"
    nodes = "id,label,x\n" + "".join(f"{each},1,2\n" for each in ids)
    graph = read(
        write(tmp_path, edges_csv=edges, nodes_csv=nodes), "random:0.5/0.5/0"
    )
    assert graph.node_ids.tolist() == [int(each) for each in ids]
    assert graph.adjacency.toarray().tolist() == ADJACENCY


@pytest.mark.parametrize(
    "ids",
    [
        ("7", "07", "007", " 7"),
        ("+7", "7", "-0", "0"),
        ("1e3", "1000", "0x10", "16"),
        (str(2**64), str(2**64 + 1), "1", "2"),
        ("Zoë", "名", "a b", "-7"),
    ],
)
def test_ids_that_only_look_alike_are_kept_apart(tmp_path, ids):
    a, b, c, d = ids
    write(tmp_path, edges_csv=f"src,dst\n{a},{b}\n{b},{c}\n{c},{d}\n")
    write(
        tmp_path, nodes_csv="id,class,x\n" + "".join(f"{i},1,0\n" for i in ids)
    )
    graph = read(tmp_path, "random:0.5/0.5/0")
    assert graph.node_ids.tolist() == list(ids)
    assert graph.adjacency.toarray().tolist() == ADJACENCY


def test_texts_in_one_file_meet_numbers_in_the_other(tmp_path):
    write(tmp_path, edges_csv="from,to\n1,2\n2,3\n")
    write(tmp_path, nodes_csv="id,label,x\n1,0,1\n2,0,1\n3,1,1\nextra,1,1\n")
    graph = read(tmp_path, "random:0.5/0.5/0")
    assert graph.node_ids.tolist() == ["1", "2", "3", "extra"]
    assert graph.n_edges == 2


def test_without_a_table_of_nodes_rows_are_nodes(tmp_path):
    write(tmp_path, edges_npy=np.array([[0, 1], [1, 2], [3, 2]]))
    write(tmp_path, features_npy=np.eye(4, dtype=np.int8))
    write(tmp_path, labels_npy=np.array([3, 5, 3, -100]))
    graph = read(tmp_path, "random:0.5/0.5/0")
    assert graph.adjacency.toarray().tolist() == ADJACENCY
    assert graph.labels.tolist() == [0, 1, 0, -1]
    assert graph.class_names == ("3", "5")
    np.testing.assert_array_equal(graph.features, np.eye(4))


def test_a_negative_end_is_named_with_file_and_line(tmp_path):
    write(tmp_path, edges_csv="source,target\n0,1\n0,-1\n1,4\n")
    write(tmp_path, features_npy=np.eye(4), labels_npy=np.arange(4))
    (fault,) = faults_of(tmp_path, "random:0.5/0.5/0")
    assert "2 edges have an end outside the nodes 0..3" in fault
    assert "edges.csv line 3: 0, -1; edges.csv line 4: 1, 4" in fault


def test_unknown_ends_are_counted_and_the_first_named(tmp_path):
    more = "".join(f"a,z{i}\n" for i in range(5))
    (fault,) = faults_of(
        write(tmp_path, edges_csv=EDGES + more, nodes_csv=NODES)
    )
    assert "edges.csv: 5 edges name a node that is not among" in fault
    assert "edges.csv line 6: 'z0'; edges.csv line 7: 'z1'" in fault
    assert "z3" not in fault


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_weights_are_kept_and_zeros_left_out(tmp_path, kind, caplog):
    ends = np.array([[0, 1], [1, 0], [1, 2], [3, 2], [0, 3]]).T
    weights = [2.0, 2.0, 0.5, 3.0, 0.0]
    if kind == "npz":
        write(tmp_path, edges_npz=sparse.coo_array((weights, tuple(ends))))
    else:
        rows = zip(*ends, weights, strict=True)
        text = "".join(f"{u},{v},{w}\n" for u, v, w in rows)
        write(tmp_path, edges_csv="source,target,weight\n" + text)
    write(tmp_path, features_npy=np.eye(4), labels_npy=np.arange(4) % 2)
    graph = read(tmp_path, "random:0.5/0.5/0")
    assert graph.adjacency.toarray().tolist() == [
        [0, 2, 0, 0],
        [2, 0, 0.5, 0],
        [0, 0.5, 0, 3],
        [0, 0, 3, 0],
    ]
    assert "1 edges have weight 0 and are left out" in caplog.text


def test_negative_and_missing_weights_are_named(tmp_path):
    text = "a,b,1\nb,c,-1\nc,d,nan\na,c,1e39\na,d,\n"
    write(tmp_path, edges_csv="source,target,weight\n" + text, nodes_csv=NODES)
    fault, lost = faults_of(tmp_path)
    assert "3 edges have a weight that is negative or not finite" in fault
    assert "line 3: -1; edges.csv line 4: nan; edges.csv line 6: nan" in fault
    assert "1 edges have a weight that 32 bits cannot hold" in lost
    assert "edges.csv line 5: 1e+39" in lost


def test_weights_too_small_or_too_large_together(tmp_path):
    head = "source,target,weight\n"
    write(tmp_path, nodes_csv=NODES, edges_csv=head + "a,b,1e-50\nb,c,0\n")
    (fault,) = faults_of(tmp_path)
    assert "1 edges have a weight that 32 bits cannot hold" in fault
    assert "edges.csv line 2: 1e-50" in fault
    write(tmp_path, edges_csv=head + "a,b,3e38\nb,c,3e38\n")
    (fault,) = faults_of(tmp_path)
    assert "at 1 nodes their sum is not finite in 32 bits" in fault


def test_an_edge_of_two_weights_is_refused(tmp_path):
    text = "source,target,weight\na,b,1\nb,a,2\n"
    (fault,) = faults_of(write(tmp_path, edges_csv=text, nodes_csv=NODES))
    assert "1 entries have another weight" in fault
    assert "edges.csv line 3: 2, before it 1" in fault
    write(tmp_path, edges_csv=text.replace("b,a", "c,d,0\nb,a"))
    (fault,) = faults_of(tmp_path)
    assert "edges.csv line 4: 2, before it 1" in fault


def test_weight_that_is_no_number(tmp_path):
    text = "source,target,weight\na,b,1\n\nb,c,heavy\n"
    (fault,) = faults_of(write(tmp_path, edges_csv=text, nodes_csv=NODES))
    assert "column 'weight': 1 values are no numbers" in fault
    assert "edges.csv line 4: 'heavy'" in fault


def test_all_kinds_of_fault_are_found_at_once(tmp_path):
    nodes = NODES.replace(",1,1", ",x,1").replace("x,1", "nan,1")
    nodes = nodes.replace(",,,0", ",,train,0").replace("b,blue,val", "a,blue,v")
    write(tmp_path, edges_csv=EDGES + "a,nobody\n", nodes_csv=nodes)
    faults = "\n".join(faults_of(tmp_path))
    for part in (
        "1 nodes are in an unknown part of the split: nodes.csv line 3: 'v'",
        "edges name a node that is not among the nodes",
        "1 feature values are missing or not finite in 32 bits: nodes.csv "
        "line 4",
        "1 nodes of the split have no label: nodes.csv line 5 (training)",
    ):
        assert part in faults


def test_repeated_and_empty_ids(tmp_path):
    nodes = NODES + "a,red,,1,1\n,red,,1,1\n"
    faults = faults_of(write(tmp_path, edges_csv=EDGES, nodes_csv=nodes))
    assert "1 ids repeat an earlier one: nodes.csv line 6: 'a'" in faults[0]
    assert "1 nodes have no id: nodes.csv line 7" in faults[1]


def test_lines_with_another_number_of_columns(tmp_path):
    text = EDGES + "a\nb,c,d\n"
    (fault,) = faults_of(write(tmp_path, edges_csv=text, nodes_csv=NODES))
    assert "2 lines do not have the 2 columns of the first one" in fault
    assert "line 6: 'a'; line 7: 'b,c,d'" in fault


def test_a_line_is_found_behind_quoted_line_ends(tmp_path):
    nodes = 'id,label,note,x\na,1,"two\nlines",1\nb,1,,\nc,2,,1\nd,2,,1\n'
    write(tmp_path, edges_csv=EDGES, nodes_csv=nodes)
    (fault,) = faults_of(tmp_path, "random:0.5/0.5/0")
    assert "1 feature values are missing" in fault
    assert "nodes.csv line 4" in fault


@pytest.mark.parametrize("n_rows", [3, 5])
def test_number_of_feature_rows(tmp_path, n_rows):
    write(tmp_path, edges_csv=EDGES, nodes_csv="id,label\na,1\nb,1\nc,2\nd,2\n")
    write(tmp_path, features_npy=np.ones((n_rows, 2)))
    (fault,) = faults_of(tmp_path, "random:0.5/0.5/0")
    assert f"features: {n_rows} rows, graph: 4 nodes" in fault


@pytest.mark.parametrize(
    "dtype", [np.float64, np.int32, np.bool_, np.float16, np.uint8]
)
@pytest.mark.parametrize("form", ["npy", "npz", "parquet"])
def test_features_of_any_type(tmp_path, dtype, form):
    matrix = np.array([[1, 0], [0, 1], [1, 1], [0, 0]], dtype)
    if form == "npz":
        matrix = sparse.csr_array(
            matrix.astype(np.float32 if dtype == np.float16 else dtype)
        )
    elif form == "parquet":
        order = [3, 1, 0, 2]
        matrix = {
            "id": [each for each in "dbac"],
            "a": matrix[order, 0],
            "b": matrix[order, 1],
        }
    nodes = "id,label\na,1\nb,1\nc,2\nd,2\n"
    write(tmp_path, edges_csv=EDGES, nodes_csv=nodes)
    write(tmp_path, **{f"features_{form}": matrix})
    graph = read(tmp_path, "random:0.5/0.5/0")
    assert dense(graph.features).tolist() == [[1, 0], [0, 1], [1, 1], [0, 0]]
    assert sparse.issparse(graph.features) == (form == "npz")


def test_features_as_lists_and_beside_columns(tmp_path):
    write(tmp_path, edges_csv=EDGES, nodes_csv=NODES)
    lists = pa.array([[1, 2], [3, 4], [5, 6], [7, 8]])
    write(tmp_path, features_parquet={"vector": lists})
    graph = read(tmp_path)
    assert graph.features[1].tolist() == [0, 1, 3, 4]


@pytest.mark.parametrize(
    "kind, expected",
    [
        ("constant", [[1], [1], [1], [1]]),
        (
            "degree",
            [[1, np.log(2)], [1, np.log(3)], [1, np.log(3)], [1, np.log(2)]],
        ),
    ],
)
def test_missing_features_are_refused_or_stood_in_for(tmp_path, kind, expected):
    nodes = "id,label,split\na,1,train\nb,1,val\nc,2,test\nd,2,\n"
    write(tmp_path, edges_csv=EDGES, nodes_csv=nodes)
    (fault,) = faults_of(tmp_path)
    assert "there are no features" in fault
    assert "--missing_features=constant|degree" in fault
    graph = read(tmp_path, missing_features=kind)
    np.testing.assert_allclose(graph.features, expected, rtol=1e-6)


def test_labels_from_1_are_remapped_and_that_is_said(tmp_path, caplog):
    nodes = "id,label,x\na,1,1\nb,2,1\nc,3,1\nd,-1,1\n"
    write(tmp_path, edges_csv=EDGES, nodes_csv=nodes)
    graph = read(tmp_path, "random:0.6/0.4/0")
    assert graph.labels.tolist() == [0, 1, 2, -1]
    assert "label values [1, 2, 3] become classes 0..2" in caplog.text


MULTI = "id,split,x,label:cat,label:dog,label:owl\n" + "".join(
    f"{id_},{split},1,{rows}\n"
    for id_, split, rows in (
        ("a", "train", "1,0,1"),
        ("b", "val", "0,0,0"),
        ("c", "test", "1,1,0"),
        ("d", "", ",,"),
    )
)


def test_several_labels_a_node(tmp_path):
    graph = read(write(tmp_path, edges_csv=EDGES, nodes_csv=MULTI))
    assert graph.multi_label
    assert graph.class_names == ("cat", "dog", "owl")
    assert graph.labels.tolist() == [
        [1, 0, 1],
        [0, 0, 0],
        [1, 1, 0],
        [-1, -1, -1],
    ]
    assert graph.statistics()["unlabelled"] == 1
    inner = training_graph(graph)
    assert inner.labels.tolist() == [[1, 0, 1]]


def test_several_labels_other_than_0_and_1_are_named(tmp_path):
    nodes = MULTI.replace("c,test,1,1,1,0", "c,test,1,1,2,0")
    (fault,) = faults_of(write(tmp_path, edges_csv=EDGES, nodes_csv=nodes))
    assert "1 rows hold other values than 0 and 1: nodes.csv line 4: 2" in fault


def test_one_1_a_row_is_a_class_and_that_is_said(tmp_path, caplog):
    nodes = MULTI.replace("1,0,1", "1,0,0").replace("0,0,0", "0,1,0")
    nodes = nodes.replace("1,1,0", "0,0,1")
    graph = read(write(tmp_path, edges_csv=EDGES, nodes_csv=nodes))
    assert not graph.multi_label
    assert "they are read as classes" in caplog.text


def test_a_store_keeps_weights_labels_and_ids(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    edges = EDGES.replace("target\n", "target,weight\n")
    lines = edges.split("\n")
    edges = "\n".join(
        [lines[0]] + [f"{each},0.25" for each in lines[1:] if each]
    )
    graph = read(write(folder, edges_csv=edges, nodes_csv=MULTI))
    store.write_store(graph, tmp_path / "store")
    kept = read(tmp_path / "store")
    same(kept, graph)
    assert kept.multi_label and kept.adjacency.data.max() == 0.25
    assert kept.node_ids.tolist() == ["a", "b", "c", "d"]


def test_columns_can_be_named(tmp_path):
    edges = EDGES.replace("source,target", "one,two")
    nodes = NODES.replace("id,label,split", "page,kind,fold")
    nodes = nodes.replace("x0", "secret")
    columns = "source=one,target=two,id=page,label=kind,split=fold,drop=secret"
    folder = write(tmp_path, edges_csv=edges, nodes_csv=nodes)
    graph = read(folder, columns=columns)
    assert graph.adjacency.toarray().tolist() == ADJACENCY
    assert graph.features.tolist() == [[0], [1], [1], [0]]


@pytest.mark.parametrize(
    "columns, message",
    [
        (
            "id=nothing",
            "=id=nothing: there is no such column. Received: source, ",
        ),
        ("colour=x", "each part one of source, target, weight, id, label"),
        ("drop=nothing", "drop=nothing: there is no such column"),
        ("label=x,label=split", "label is there twice"),
        ("id=x0,label=x0", "x0 is there twice"),
        ("source=source,target=source", "source is there twice"),
        ("label=label,drop=label", "label is there twice"),
    ],
)
def test_columns_that_are_not_there(tmp_path, columns, message):
    write(tmp_path, edges_csv=EDGES, nodes_csv=NODES)
    with pytest.raises(DataError, match=message):
        read(tmp_path, columns=columns)


def test_texts_are_left_out_of_the_features_with_a_notice(tmp_path, caplog):
    nodes = NODES.replace("x0", "note").replace(",1,0", ",new,0")
    nodes = nodes.replace(",0,1", ",old,1").replace(",1,1", ",old,1")
    graph = read(write(tmp_path, edges_csv=EDGES, nodes_csv=nodes))
    assert graph.n_features == 1
    assert "left out of the features: note (nodes.csv line 2:" in caplog.text


@pytest.mark.parametrize(
    "content, message",
    [
        (b"<!DOCTYPE html><html>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "git-lfs pointer"),
        (b"", "an empty file"),
        (b"source,target\n\xff\xfe,b\n", "UTF-?8"),
    ],
)
@pytest.mark.parametrize("name", ["edges_csv", "nodes_csv", "edges_parquet"])
def test_files_that_are_something_else(tmp_path, name, content, message):
    usual = {"edges_csv": EDGES, "nodes_csv": NODES}
    if name == "edges_parquet":
        del usual["edges_csv"]
        message = "a file that begins" if "UTF" in message else message
    folder = write(tmp_path, **{**usual, name: content})
    with pytest.raises(DataError, match=f"{name.replace('_', '.')}.*{message}"):
        read(folder)


def test_two_files_for_one_thing_are_refused(tmp_path):
    write(tmp_path, edges_csv=EDGES, edges_tsv=EDGES, nodes_csv=NODES)
    with pytest.raises(DataError, match=r"one of edges.csv, edges.tsv"):
        read(tmp_path)


def test_a_folder_of_other_things_is_listed(tmp_path):
    write(tmp_path, readme_md="hello")
    with pytest.raises(
        DataError, match=r"expected a file edges.csv.*readme.md"
    ):
        read(tmp_path)


@pytest.mark.parametrize("name", ["nowhere", "file.csv"])
def test_a_place_that_is_no_folder(tmp_path, name):
    (tmp_path / "file.csv").write_text(EDGES)
    with pytest.raises((DataError, OSError), match=f"--dataset_dir=.*{name}: "):
        read(tmp_path / name)


# What looks right and is not.

FOUR = {"features_npy": np.eye(4), "labels_npy": np.array([0, 1, 0, 1])}
RANDOM = "random:0.5/0.5/0"


@pytest.mark.parametrize("first", ["hub,1", "1,hub", "hub,spoke"])
def test_a_first_line_without_two_names_is_an_edge(tmp_path, first):
    nodes = "id,label,x\nhub,0,1\nspoke,1,1\n1,0,1\n2,1,1\n"
    edges = first + "\n1,2\n2,hub\n"
    write(tmp_path, edges_csv=edges, nodes_csv=nodes)
    if first == "hub,spoke":
        with pytest.raises(DataError, match="but 'hub' is an id too"):
            read(tmp_path, RANDOM)
    else:
        assert read(tmp_path, RANDOM).n_edges == 3


@pytest.mark.parametrize("n", [3, 5])
def test_an_adjacency_of_another_size_is_refused(tmp_path, n):
    matrix = sparse.coo_array(([1], ([0], [1])), shape=(n, n))
    (fault,) = faults_of(write(tmp_path, edges_npz=matrix, **FOUR), RANDOM)
    assert f"edges.npz: {n} rows, graph: 4 nodes" in fault


def test_an_adjacency_of_another_size_than_the_table_is_refused(tmp_path):
    matrix = sparse.coo_array(([1], ([0], [1])), shape=(9, 9))
    nodes = "id,label,x\n0,0,1\n1,1,1\n2,0,1\n3,1,1\n"
    write(tmp_path, edges_npz=matrix, nodes_csv=nodes)
    (fault,) = faults_of(tmp_path, RANDOM)
    assert "edges.npz: 9 rows, graph: 4 nodes" in fault


def test_integers_beyond_64_bits_with_sign_stay_what_they_are(tmp_path):
    ids = np.array([2**64 - 1, 5, 6, 7], np.uint64)
    path = archive(tmp_path / "x.npz", node_ids=ids)
    assert read(path, RANDOM).node_ids.tolist() == list(map(str, ids))
    ends = np.array([[0, 2**64 - 1]], np.uint64)
    with pytest.raises(DataError, match="edges.npy: has ids that are no num"):
        read(write(tmp_path, edges_npy=ends, **FOUR), RANDOM)
    labels = np.array([0, 2**63, 0, 1], np.uint64)
    (fault,) = faults_of(archive(path, labels=labels), RANDOM)
    assert "expected integers of 64 bits or texts, received uint64" in fault


@pytest.mark.parametrize(
    "labels, expected, names",
    [
        ("0.0,1.0,1.0,-1.0", [0, 1, 1, -1], ("0", "1")),
        ("0.,NaN,1.00,-100.0", [0, -1, 1, -1], ("0", "1")),
        ("a,b,NA,nan", [0, 1, -1, -1], ("a", "b")),
        ("0.5,1.0,,0.5", [0, 1, -1, 0], ("0.5", "1.0")),
    ],
)
def test_numbers_with_a_point_and_gaps(tmp_path, labels, expected, names):
    rows = zip("abcd", labels.split(","), strict=True)
    nodes = "id,label,x\n" + "".join(f"{i},{c},1\n" for i, c in rows)
    write(tmp_path, edges_csv=EDGES, nodes_csv=nodes)
    graph = read(tmp_path, RANDOM)
    assert graph.labels.tolist() == expected
    assert graph.class_names == names


@pytest.mark.parametrize("label", ["-5", "-5.0"])
def test_other_negative_labels_are_named(tmp_path, label):
    nodes = f"id,label,x\na,0,1\nb,{label},1\nc,1,1\nd,-100,1\n"
    write(tmp_path, edges_csv=EDGES, nodes_csv=nodes)
    (fault,) = faults_of(tmp_path, RANDOM)
    assert "1 labels are negative, but neither -1 nor -100: nodes.csv" in fault
    assert "line 3: -5" in fault


def test_unknown_in_an_array_is_unknown_to_the_split(tmp_path):
    nodes = "id,split,x\na,train,1\nb,val,1\nc,test,1\nd,,1\n"
    labels = np.array([0, -100, 1, 1])
    write(tmp_path, edges_csv=EDGES, nodes_csv=nodes, labels_npy=labels)
    (fault,) = faults_of(tmp_path)
    assert "split have no label: nodes.csv line 3 (validation)" in fault


@pytest.mark.parametrize("end", ["\f", "\x85", "\u2028"])
def test_only_line_ends_end_a_comment(tmp_path, end):
    (tmp_path / "clean").mkdir()
    expected = read(write(tmp_path / "clean", edges_csv=EDGES, nodes_csv=NODES))
    edges = f"# made by hand{end}\n" + EDGES.partition("\n")[2]
    write(tmp_path, edges_csv=edges, nodes_csv=f"# so{end}\n" + NODES)
    same(read(tmp_path), expected)


@pytest.mark.parametrize("ahead", ["# c\n", "\n", "# c\n\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_loose_text_with_a_header_under_comments(tmp_path, ahead, end):
    text = ahead + "source target\n0 1\n1 2\n3 2\n"
    write(tmp_path, edges_txt=text.replace("\n", end), **FOUR)
    assert read(tmp_path, RANDOM).adjacency.toarray().tolist() == ADJACENCY


def test_loose_ids_with_brackets_and_other_blanks(tmp_path):
    edges = "<a> b\xa0c\nb\xa0c d\n"
    nodes = "id,label,x\n<a>,0,1\nb\xa0c,1,1\nd,0,1\n"
    write(tmp_path, edges_txt=edges, nodes_csv=nodes)
    assert read(tmp_path, RANDOM).n_edges == 2
    write(tmp_path, edges_txt=edges + "b\xa0c e\n")
    (fault,) = faults_of(tmp_path, RANDOM)
    assert "edges.txt line 3: 'e'" in fault


def test_a_very_long_name_of_a_column(tmp_path):
    nodes = NODES.replace("x0", "x" * 200_000)
    graph = read(write(tmp_path, edges_csv=EDGES, nodes_csv=nodes))
    assert graph.features.tolist() == [[1, 0], [0, 1], [1, 1], [0, 0]]


@pytest.mark.parametrize("labels", [5, 7])
def test_rows_of_another_number_than_the_features(tmp_path, labels):
    nodes = "label,split\n0,train\n1,val\n0,test\n"
    write(tmp_path, edges_csv="source,target\n0,1\n", nodes_csv=nodes)
    write(tmp_path, features_npy=np.eye(4), labels_npy=np.zeros(labels, int))
    first, second = faults_of(tmp_path)
    assert f"labels: shape ({labels},), graph: 4 nodes" in first
    assert "split: 3 rows, graph: 4 nodes" in second


def test_a_column_with_the_usual_name_can_be_left_out(tmp_path):
    write(tmp_path, edges_npy=np.array([[0, 1], [1, 2], [2, 3]]))
    write(tmp_path, nodes_csv=NODES)
    graph = read(tmp_path, columns="drop=id")
    assert graph.node_ids is None and graph.n_edges == 3
    (fault,) = faults_of(tmp_path, RANDOM, columns="drop=id,drop=label")
    assert "there are no labels" in fault
    faults = faults_of(tmp_path, RANDOM, columns="drop=id,split=label")
    assert "3 nodes are in an unknown part of the split" in faults[0]
    assert "there are no labels" in faults[1]


def test_a_column_of_one_of_two_tables_can_be_named(tmp_path):
    nodes = "id,kind\na,0\nb,1\nc,0\nd,1\n"
    table = {"id": list("dcba"), "x": [4, 3, 2, 1], "f": [0, 0, 0, 0]}
    write(tmp_path, edges_csv=EDGES, nodes_csv=nodes, features_parquet=table)
    graph = read(tmp_path, RANDOM, columns="label=kind,drop=f")
    assert graph.labels.tolist() == [0, 1, 0, 1]
    assert graph.features.tolist() == [[1], [2], [3], [4]]


def test_weights_that_are_texts_can_be_left_out(tmp_path):
    edges = "source,target,weight\na,b,heavy\nb,c,light\nc,d,light\n"
    write(tmp_path, edges_csv=edges, nodes_csv=NODES)
    graph = read(tmp_path, columns="drop=weight")
    assert graph.adjacency.toarray().tolist() == ADJACENCY


def test_options_of_other_forms_are_refused_or_reported(tmp_path, caplog):
    (tmp_path / "mine").mkdir()
    graph = read(write(tmp_path / "mine", edges_csv=EDGES, nodes_csv=NODES))
    place = tmp_path / "store"
    store.write_store(graph, place)
    with pytest.raises(DataError, match="given:3: .* a store, which has one"):
        read(place, "given:3")
    read(place, columns="drop=x", missing_features="degree")
    assert "--columns=drop=x: not used" in caplog.text
    assert "--missing_features=degree: not used" in caplog.text
    with pytest.raises(DataError, match="drop=x: .* no table"):
        read(archive(tmp_path / "x.npz"), RANDOM, columns="drop=x")


# One .npz file.


def archive(path, **changes):
    adjacency = sparse.csr_array(np.array(ADJACENCY, np.float32))
    arrays = {
        "adj_data": adjacency.data,
        "adj_indices": adjacency.indices.astype(np.uint16),
        "adj_indptr": adjacency.indptr,
        "adj_shape": np.array([4, 4]),
        "attr_matrix": np.eye(4, dtype=np.float64),
        "labels": np.array([0, 1, 0, 1]),
        **changes,
    }
    np.savez(path, **{k: v for k, v in arrays.items() if v is not None})
    return path


MASKS = np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], bool)
MASKS = {
    f"{part}_masks": np.stack([mask, mask[::-1]])
    for part, mask in zip(("train", "val", "test"), MASKS, strict=True)
}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"adj_data": None},
        {"adj_data": None, "attr_matrix": None, "node_features": np.eye(4)},
        {
            "adj_indptr": None,
            "adj_shape": None,
            "edges": np.array([[0, 1], [1, 2], [2, 3]]),
        },
        {
            "adj_indptr": None,
            "edge_index": np.array([[0, 1, 2], [1, 2, 3]]),
            "labels": None,
            "y": np.array([0, 1, 0, 1])[:, None],
        },
        {
            "attr_matrix": None,
            "attr_indices": np.arange(4, dtype=np.uint8),
            "attr_indptr": np.arange(5),
            "attr_shape": np.array([4, 4]),
        },
    ],
)
def test_forms_of_one_file(tmp_path, changes):
    graph = read(archive(tmp_path / "mine.npz", **MASKS, **changes), "given:1")
    assert graph.name == "mine"
    assert graph.adjacency.toarray().tolist() == ADJACENCY
    np.testing.assert_array_equal(dense(graph.features), np.eye(4))
    assert graph.labels.tolist() == [0, 1, 0, 1]
    assert graph.train_nodes.tolist() == [2, 3]
    assert graph.val_nodes.tolist() == [1]
    assert graph.test_nodes.tolist() == [0]


def test_objects_are_never_unpickled(tmp_path, caplog):
    names = np.array(["a", "b", "c", "d"], object)
    path = archive(tmp_path / "x.npz", node_names=names)
    graph = read(path, "random:0.5/0.5/0")
    assert graph.node_ids is None
    assert "node_names is an array of pickled objects" in caplog.text
    with pytest.raises(DataError, match="no features|cannot be read"):
        read(archive(path, attr_matrix=np.array([{}] * 4, object)), "given")


def test_a_split_that_is_not_there(tmp_path):
    (fault,) = faults_of(archive(tmp_path / "x.npz", **MASKS), "given:2")
    assert "--split=given:2: the files have 2 splits" in fault
    assert "given:0 to given:1" in fault
    (fault,) = faults_of(archive(tmp_path / "x.npz"))
    assert "--split=random:0.6/0.2/0.2" in fault


def test_masks_that_overlap_are_named(tmp_path):
    masks = {**MASKS, "val_masks": MASKS["train_masks"]}
    faults = faults_of(archive(tmp_path / "x.npz", **masks))
    assert "4 nodes are in two parts of a split: node 0 of split 0" in faults[0]


def test_named_classes_and_labels_outside_them(tmp_path):
    path = archive(tmp_path / "x.npz", class_names=np.array(["p", "q"]))
    assert read(path, "random:0.5/0.5/0").class_names == ("p", "q")
    archive(path, class_names=np.array(["p"]))
    (fault,) = faults_of(path, "random:0.5/0.5/0")
    assert "2 labels are outside 0..0, the named classes: node 1: 1" in fault


@pytest.mark.parametrize("cut", [0, 10, 300])
def test_a_cut_archive_is_refused(tmp_path, cut):
    path = archive(tmp_path / "x.npz")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DataError, match="x.npz"):
        read(path)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"adj_indptr": np.array([0, 9, 9, 9, 9])}, "not a sparse matrix"),
        ({"adj_indptr": None}, "expected edges, or adj_indptr"),
        ({"adj_shape": np.array([4, 5])}, "expected a square adjacency"),
        ({"train_mask": np.ones(4, bool)}, "expected train_masks, val_masks"),
        ({"attr_matrix": np.array(list("abcd"))}, "'attr_matrix': expected"),
        ({"attr_matrix": np.array(1.0)}, "features: expected a matrix"),
        ({"class_names": np.array(["p", "p"])}, "vector of distinct names"),
        ({"node_ids": np.array(["a", "", "c", "d"])}, "node 1 has an empty"),
        ({"node_ids": np.arange(3)}, "ids: expected one for each of 4 nodes"),
        (
            {
                "adj_indptr": None,
                "adj_shape": None,
                "attr_matrix": np.array(1.0),
                "labels": np.array(1),
                "edges": np.array([[0, 1]]),
            },
            "neither features nor labels",
        ),
    ],
)
def test_archives_that_are_no_graph(tmp_path, changes, message):
    with pytest.raises(DataError, match=message):
        read(archive(tmp_path / "x.npz", **changes))


# MUSAE.


def musae(folder, features=None):
    features = features or {"0": [0, 2], "2": [1], "1": [], "3": [2]}
    write(
        folder,
        edges_csv="id_1,id_2\n0,1\n1,2\n3,2\n",
        features_json=json.dumps(features),
        target_csv='id,facebook_id,page_name,page_type\n0,5,"A, 中",tv\n'
        '1,6,"say ""x""",tv\n2,7,B,shop\n3,8,C,shop\n',
    )
    return folder


def test_musae_files(tmp_path):
    graph = read(musae(tmp_path), "random:0.5/0.5/0")
    assert graph.adjacency.toarray().tolist() == ADJACENCY
    assert graph.class_names == ("shop", "tv")
    assert graph.labels.tolist() == [1, 1, 0, 0]
    assert graph.features.toarray().tolist() == [
        [1, 0, 1],
        [0, 0, 0],
        [0, 1, 0],
        [0, 0, 1],
    ]


def test_musae_features_of_unknown_nodes_are_named(tmp_path):
    (fault,) = faults_of(
        musae(tmp_path, {"0": [1], "9": [1]}), "random:.5/.5/0"
    )
    assert "features.json: 1 keys are no nodes: '9'" in fault


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        '{"0": 1}',
        "{",
        '{"0": [-1]}',
        '{"0": [[1, 2]]}',
        '{"0": ["1"]}',
        '{"0": [1.5]}',
        '{"0": ' + "[" * 200_000,
    ],
)
def test_musae_features_of_another_form(tmp_path, content):
    musae(tmp_path)
    write(tmp_path, features_json=content)
    with pytest.raises(DataError, match=r"features.json"):
        read(tmp_path, "random:0.5/0.5/0")


def test_a_musae_table_in_another_encoding(tmp_path):
    write(musae(tmp_path), target_csv="id,größe\n0,1\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"target.csv: .* UTF-?8"):
        read(tmp_path, "random:0.5/0.5/0")


@pytest.mark.parametrize("value", ["0.5", "x"])
def test_several_labels_of_other_values_in_parquet(tmp_path, value):
    number = float(value) if value == "0.5" else value
    others = [1.0, 0.0, 1.0] if value == "0.5" else ["1", "0", "1"]
    table = {"id": list("abcd"), "x": [1, 2, 3, 4]}
    table |= {"label:p": [1, 1, 0, 0], "label:q": [*others, number]}
    write(tmp_path, edges_csv=EDGES, nodes_parquet=table)
    (fault,) = faults_of(tmp_path, RANDOM)
    assert f"that are not 0 or 1: nodes.parquet row 3: {value}" in fault


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_feature_that_is_not_finite_is_named(tmp_path, kind):
    matrix = np.eye(4)
    matrix[2, 3] = np.inf
    if kind == "sparse":
        write(tmp_path, features_npz=sparse.csr_array(matrix))
    else:
        write(tmp_path, features_npy=matrix)
    write(tmp_path, edges_npy=np.array([[0, 1]] * 3), labels_npy=np.arange(4))
    (fault,) = faults_of(tmp_path, RANDOM)
    assert "32 bits: node 2, feature 3 (from 0): inf" in fault


def test_a_number_that_only_python_reads_is_named(tmp_path):
    text = "source,target,weight\na,b,1\nb,c,1_0\nc,d,NA\n"
    write(tmp_path, edges_csv=text, nodes_csv=NODES)
    (fault,) = faults_of(tmp_path)
    assert "1 values are no numbers: edges.csv line 3: '1_0'" in fault


def test_a_text_late_in_a_column_of_truths_is_named(tmp_path):
    nodes = "id,label,good\n" + "".join(
        f"{i:08d},{i % 2},true\n" for i in range(100_000)
    )
    write(tmp_path, edges_csv="source,target\n00000000,00000001\n")
    write(tmp_path, nodes_csv=nodes + "last,0,maybe\n")
    (fault,) = faults_of(tmp_path, RANDOM)
    assert "column 'good': 1 values are no truth values" in fault
    assert "nodes.csv line 100002: 'maybe'" in fault


def test_repeated_columns_and_no_rows_are_named(tmp_path):
    write(tmp_path, edges_csv=EDGES, nodes_csv="id,label,x")
    with pytest.raises(DataError, match="nodes.csv: has a header and no rows"):
        read(tmp_path)
    (tmp_path / "nodes.csv").unlink()
    columns = [pa.array(list("abcd"))] * 2
    pq.write_table(
        pa.Table.from_arrays(columns, ["id", "id"]), tmp_path / "nodes.parquet"
    )
    with pytest.raises(DataError, match="nodes.parquet: columns of one name"):
        read(tmp_path)


def test_labels_without_columns_are_refused(tmp_path):
    write(tmp_path, edges_npy=np.array([[0, 1]] * 3), features_npy=np.eye(4))
    (fault,) = faults_of(write(tmp_path, labels_npy=np.ones((4, 0))), RANDOM)
    assert "labels: shape (4, 0)" in fault


# Whole kinds.


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    ids=st.lists(
        st.text(
            st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]),
            min_size=1,
            max_size=5,
        ).filter(lambda each: not each.isspace() and each[0] != "#"),
        min_size=3,
        max_size=8,
        unique=True,
    )
)
def test_any_ids_come_back_as_they_were(tmp_path_factory, ids):
    folder = tmp_path_factory.mktemp("ids")
    quoted = ['"' + each.replace('"', '""') + '"' for each in ids]
    rows = zip(quoted, quoted[1:], strict=False)
    edges = "source,target\n" + "".join(f"{u},{v}\n" for u, v in rows)
    nodes = "id,label,x\n" + "".join(f"{each},1,1\n" for each in quoted)
    write(folder, edges_csv=edges, nodes_csv=nodes)
    logging.disable(logging.WARNING)
    try:
        graph = read(folder, "random:0.5/0.5/0")
    finally:
        logging.disable(logging.NOTSET)
    assert [str(each) for each in graph.node_ids] == ids
    chain = np.eye(len(ids), k=1) + np.eye(len(ids), k=-1)
    np.testing.assert_array_equal(graph.adjacency.toarray(), chain)
