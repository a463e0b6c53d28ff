"""The Planetoid reader: published facts, and files with every known defect."""

import logging
import pickle
import shutil

import numpy as np
import pytest
from scipy import sparse

from adaptive_gcn import datasets
from adaptive_gcn.datasets import checksums
from adaptive_gcn.datasets.checksums import ChecksumError
from adaptive_gcn.datasets.planetoid import load_planetoid, read_planetoid
from adaptive_gcn.datasets.restricted_pickle import (
    MalformedPickleError,
    UnsafePickleError,
)
from adaptive_gcn.graph import GraphError

FACTS = {
    "cora": {
        "nodes": 2708,
        "entries_read": 10858,
        "undirected_edges": 5278,
        "duplicates": 302,
        "self_loops": 0,
        "reversed_added": 0,
        "isolated": 0,
        "unlabelled": 0,
        "features": 1433,
        "classes": 7,
        "train": 1208,
        "validation": 500,
        "test": 1000,
    },
    "citeseer": {
        "nodes": 3327,
        "entries_read": 9464,
        "undirected_edges": 4552,
        "duplicates": 236,
        "self_loops": 124,
        "reversed_added": 0,
        "isolated": 48,
        "unlabelled": 15,
        "features": 3703,
        "classes": 6,
        "train": 1812,
        "validation": 500,
        "test": 1000,
    },
    "pubmed": {
        "nodes": 19717,
        "entries_read": 88676,
        "undirected_edges": 44324,
        "duplicates": 25,
        "self_loops": 3,
        "reversed_added": 0,
        "isolated": 0,
        "unlabelled": 0,
        "features": 500,
        "classes": 3,
        "train": 18217,
        "validation": 500,
        "test": 1000,
    },
}


def read_tiny(folder, split="fastgcn", n_val=2):
    return read_planetoid(folder, "tiny", split, n_val=n_val, verify=False)


def files_folder(data_dir, name):
    """The folder below `data_dir` that has the published files."""
    return next(data_dir.rglob(f"ind.{name}.x")).parent


def unpickled(data_dir, name, part):
    path = files_folder(data_dir, name) / f"ind.{name}.{part}"
    return pickle.loads(path.read_bytes(), encoding="latin1")


@pytest.mark.data
@pytest.mark.parametrize("name", FACTS)
def test_published_facts(data_dir, name, no_network):
    assert load_planetoid(name, data_dir).statistics() == FACTS[name]


@pytest.mark.data
@pytest.mark.parametrize(
    "name, train", [("cora", 140), ("citeseer", 120), ("pubmed", 60)]
)
def test_planetoid_split(data_dir, name, train):
    graph = load_planetoid(name, data_dir, "planetoid")
    np.testing.assert_array_equal(graph.train_nodes, np.arange(train))
    np.testing.assert_array_equal(
        graph.val_nodes, np.arange(train, train + 500)
    )
    fastgcn = load_planetoid(name, data_dir)
    np.testing.assert_array_equal(graph.test_nodes, fastgcn.test_nodes)
    counts = np.bincount(graph.labels[graph.train_nodes])
    assert set(counts) == {20}  # As published: 20 examples per class.


@pytest.mark.data
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_citeseer_rows_on_both_sides_of_a_gap(data_dir):
    """Against a reading by hand, for each test id next to a gap."""
    graph = load_planetoid("citeseer", data_dir)
    tx, ty = (unpickled(data_dir, "citeseer", part) for part in ("tx", "ty"))
    folder = files_folder(data_dir, "citeseer")
    index = np.loadtxt(folder / "ind.citeseer.test.index", dtype=int)
    row_of = {node: row for row, node in enumerate(index)}
    gaps = sorted(set(range(2312, 3327)) - set(index))
    assert len(gaps) == 15

    beside = {gap + step for gap in gaps for step in (-1, 1)} & set(index)
    assert len(beside) >= 20
    for node in beside:
        np.testing.assert_array_equal(
            graph.features[[node]].toarray(), tx[row_of[node]].toarray()
        )
        assert graph.labels[node] == ty[row_of[node]].argmax()

    split = [graph.train_nodes, graph.val_nodes, graph.test_nodes]
    assert not np.isin(gaps, np.concatenate(split)).any()
    assert (graph.labels[gaps] == -1).all()
    assert graph.features[gaps].nnz == 0
    assert graph.adjacency[gaps].nnz > 0


@pytest.mark.data
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_cora_rows_and_duplicate(data_dir):
    graph = load_planetoid("cora", data_dir)
    allx = unpickled(data_dir, "cora", "allx")
    np.testing.assert_array_equal(
        graph.features[:1708].toarray(), allx.toarray()
    )
    listed = unpickled(data_dir, "cora", "graph")[4]
    assert listed.count(2176) == 2
    assert graph.adjacency[4, 2176] == 1
    assert sorted(graph.adjacency[[4]].indices) == sorted(set(listed))


@pytest.mark.data
@pytest.mark.parametrize(
    "damage, hint",
    [
        (lambda _: b"<!DOCTYPE html>\n" + b"<p>404</p>\n" * 200, "web page"),
        (
            lambda _: (
                b"version https://git-lfs.github.com/spec/v1\n"
                b"oid sha256:9419ba2f\nsize 257305\n"
            ),
            "git-lfs pointer",
        ),
        (lambda content: content[: len(content) // 2], "cut off"),
        (lambda _: b"", "empty"),
    ],
    ids=["html", "lfs", "half", "empty"],
)
def test_wrong_file(data_dir, tmp_path, damage, hint, no_network):
    for name in checksums.file_names("cora"):
        shutil.copy(files_folder(data_dir, "cora") / name, tmp_path)
    path = tmp_path / "ind.cora.allx"
    path.chmod(0o644)
    content = damage(path.read_bytes())
    path.write_bytes(content)
    with pytest.raises(ChecksumError, match=hint) as error:
        load_planetoid("cora", tmp_path)
    expected = checksums.FINGERPRINTS["ind.cora.allx"]
    for part in (str(path), "257305 bytes", expected.sha256, "Delete it"):
        assert part in str(error.value)
    assert f"{len(content)} bytes" in str(error.value)
    assert path.read_bytes() == content


@pytest.mark.data
def test_windows_line_ends_in_the_published_index(data_dir, tmp_path):
    for name in checksums.file_names("cora"):
        shutil.copy(files_folder(data_dir, "cora") / name, tmp_path)
    path = tmp_path / "ind.cora.test.index"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert load_planetoid("cora", tmp_path).statistics() == FACTS["cora"]


def test_tiny_graph_with_a_gap(tmp_path, write_planetoid):
    features = write_planetoid(tmp_path)
    graph = read_tiny(tmp_path)
    features[8] = 0  # Node 8 is in the graph only.
    np.testing.assert_array_equal(graph.features.toarray(), features)
    np.testing.assert_array_equal(graph.labels, [0, 1, 0, 1, 0, 1, 0, 1, -1, 1])
    np.testing.assert_array_equal(graph.train_nodes, [0, 1, 2, 3])
    np.testing.assert_array_equal(graph.val_nodes, [4, 5])
    np.testing.assert_array_equal(graph.test_nodes, [6, 7, 9])
    counts = graph.statistics()
    assert counts["entries_read"] == 22
    assert counts["undirected_edges"] == 10
    assert counts["duplicates"] == 1
    assert counts["self_loops"] == 1
    assert graph.adjacency[8].sum() == 2


def test_tiny_planetoid_split(tmp_path, write_planetoid):
    write_planetoid(tmp_path)
    graph = read_tiny(tmp_path, "planetoid", n_val=3)
    np.testing.assert_array_equal(graph.train_nodes, [0, 1])
    np.testing.assert_array_equal(graph.val_nodes, [2, 3, 4])
    np.testing.assert_array_equal(graph.test_nodes, [6, 7, 9])


@pytest.mark.parametrize(
    "split, n_val", [("fastgcn", 6), ("fastgcn", 500), ("planetoid", 5)]
)
def test_validation_must_leave_training_nodes(
    tmp_path, write_planetoid, split, n_val
):
    write_planetoid(tmp_path)
    with pytest.raises(ValueError, match="lower n_val"):
        read_tiny(tmp_path, split, n_val)


def test_unknown_split(tmp_path):
    with pytest.raises(ValueError, match="fastgcn.*Received.*'random'"):
        read_tiny(tmp_path, "random")


@pytest.mark.parametrize(
    "content",
    [
        b"9\r\n6\r\n7\r\n",
        b"\xef\xbb\xbf9\n6\n7",
        b"# test ids\n9 # the last\n\n \t6\t7\n\n",
        b"9\t6  7",
    ],
)
def test_index_formats(tmp_path, write_planetoid, content):
    write_planetoid(tmp_path / "clean")
    write_planetoid(tmp_path, test_index=content)
    expected, graph = read_tiny(tmp_path / "clean"), read_tiny(tmp_path)
    np.testing.assert_array_equal(graph.test_nodes, expected.test_nodes)
    assert (graph.features != expected.features).nnz == 0


@pytest.mark.parametrize(
    "content, line, word",
    [
        (b"9\n6\nseven\n", 3, "seven"),
        (b"9\r\n\r\n# 1\r\n6 7.0\r\n", 4, "7.0"),
        (b"9\n-6\n7\n", 2, "-6"),
        (b"9\n6\n" + b"7" * 99, 3, "7" * 20),
        (b"\xff\xfe9\n", 1, "9"),
    ],
)
def test_index_errors_name_the_line(
    tmp_path, write_planetoid, content, line, word
):
    write_planetoid(tmp_path, test_index=content)
    with pytest.raises(GraphError) as error:
        read_tiny(tmp_path)
    path = tmp_path / "ind.tiny.test.index"
    assert f"{path}, line {line}: expected a node id" in str(error.value)
    assert word in str(error.value)


@pytest.mark.parametrize("n_rows", [9, 11])
def test_feature_rows_must_match_the_graph(tmp_path, write_planetoid, n_rows):
    write_planetoid(tmp_path, test=(6, 7, n_rows - 1))
    write_planetoid(tmp_path / "ten")
    shutil.copy(tmp_path / "ten" / "ind.tiny.graph", tmp_path)
    with pytest.raises(
        GraphError, match=f"features: {n_rows} rows, graph: 10 nodes"
    ):
        read_tiny(tmp_path)


@pytest.mark.parametrize(
    "replaced, message",
    [
        ({"test_index": b""}, "Received: 0 ids"),
        ({"test_index": b"9 9 7"}, "3 ids, 2 distinct"),
        ({"test_index": b"9 5 7"}, "node 5 is one of the 6 rows of allx"),
        ({"test_index": b"9 6 7 8"}, "tx: 3 rows, test_index: 4 rows"),
        ({"ally": np.eye(5)}, "allx: 6 rows, ally: 5 rows"),
        ({"ty": np.eye(3)}, "ty: 3 columns, ally: 2 columns"),
        ({"ty": np.eye(2)}, "tx: 3 rows, ty: 2 rows"),
        ({"y": np.eye(3)[:, :2]}, "x: 2 rows, y: 3 rows"),
        ({"tx": sparse.csr_matrix(np.eye(3))}, "tx: 3 columns, allx: 4"),
        ({"allx": np.eye(6)}, "expected a pickled csr_array"),
        ({"ally": np.ones(6)}, "expected a matrix"),
        ({"ally": np.empty((6, 0))}, "expected a matrix"),
        ({"graph": np.eye(3)}, "expected a pickled dict"),
        ({"ty": np.ones((3, 2))}, "ty: expected one-hot rows.*row 0"),
        ({"ty": np.array([[0, 1], [0, -1], [0.5, 0.5]])}, "row 1 = .*2 rows"),
        ({"graph": {n: [n, 99] for n in range(10)}}, "10 entries lie outside"),
    ],
)
def test_contradicting_files(tmp_path, write_planetoid, replaced, message):
    write_planetoid(tmp_path, **replaced)
    with pytest.raises(GraphError, match=message):
        read_tiny(tmp_path)


def test_unlabelled_node_is_left_out_of_the_split(
    tmp_path, write_planetoid, caplog
):
    ally = np.eye(2)[[0, 1, 0, 1, 0, 1]]
    ally[2] = 0
    write_planetoid(tmp_path, ally=ally)
    graph = read_tiny(tmp_path)
    assert graph.labels[2] == -1
    np.testing.assert_array_equal(graph.train_nodes, [0, 1, 3])
    assert "tiny: train split: 1 nodes have no label" in caplog.text


def test_pickles_are_not_executed(tmp_path, write_planetoid):
    class Call:
        def __reduce__(self):
            return print, ("executed",)

    write_planetoid(tmp_path, graph={0: [Call()]})
    with pytest.raises(UnsafePickleError, match=r"ind\.tiny\.graph.*print"):
        read_tiny(tmp_path)


def test_damaged_pickle_without_verification(tmp_path, write_planetoid):
    write_planetoid(tmp_path)
    (tmp_path / "ind.tiny.allx").write_bytes(b"<html>")
    with pytest.raises(MalformedPickleError, match=r"ind\.tiny\.allx"):
        read_tiny(tmp_path)


def test_verification_comes_before_parsing(tmp_path, write_planetoid):
    write_planetoid(tmp_path, name="cora")
    with pytest.raises(ChecksumError, match=r"ind\.cora\.x"):
        read_planetoid(tmp_path, "cora")
    graph = read_planetoid(tmp_path, "cora", n_val=2, verify=False)
    assert graph.n_nodes == 10


def test_own_files_cannot_be_verified(tmp_path, write_planetoid):
    write_planetoid(tmp_path)
    with pytest.raises(ValueError, match="verify=False"):
        read_planetoid(tmp_path, "tiny")


@pytest.mark.parametrize("name", ["core", "", "redit"])
def test_unknown_name_lists_the_choices(name, no_network):
    with pytest.raises(ValueError, match="synthetic.*cora.*citeseer.*pubmed"):
        datasets.load(name)


@pytest.mark.data
@pytest.mark.parametrize("name", ["Cora", "CORA"])
def test_load_logs_one_statistics_line(data_dir, name, caplog, no_network):
    caplog.set_level(logging.INFO)
    graph = datasets.load(name, data_dir)
    assert graph.name == "cora"
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert "duplicates 302" in record.getMessage()
    assert "undirected edges 5278" in record.getMessage()


def test_load_warns_of_a_class_without_training_example(
    tmp_path, write_planetoid, caplog, monkeypatch
):
    write_planetoid(tmp_path, n_classes=3)
    graph = read_planetoid(tmp_path, "tiny", "planetoid", n_val=2, verify=False)
    monkeypatch.setattr(datasets, "load_planetoid", lambda *_: graph)
    datasets.load("cora")
    warnings = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert [r.getMessage() for r in warnings] == [
        "tiny: no training example of class 2; it cannot be learnt"
    ]


def test_head_files_that_are_not_the_head_are_refused(
    tmp_path, write_planetoid
):
    write_planetoid(tmp_path)
    path = tmp_path / "ind.tiny.y"
    with path.open("rb") as file:
        labels = pickle.load(file)
    with path.open("wb") as file:
        pickle.dump(labels[:, ::-1].copy(), file, protocol=2)
    with pytest.raises(GraphError, match="first rows of allx, ally"):
        read_planetoid(tmp_path, "tiny", n_val=2, verify=False)
