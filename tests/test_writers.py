"""The written files have what the formats of Reddit are documented to have."""

import dataclasses
import functools
import json
import os
import pathlib

import numpy as np
import pytest
from scipy import sparse

from adaptive_gcn.datasets import writers
from adaptive_gcn.datasets.download import DataNotFoundError
from adaptive_gcn.datasets.reddit import log_counts, read_reddit
from adaptive_gcn.datasets.reddit_like import (
    RedditLikeConfig,
    reddit_like_graph,
)
from adaptive_gcn.graph import DataError, Graph, scale_features

EDGES = {(0, 1), (0, 2), (1, 2), (3, 4), (4, 5)}
FILES = {
    "graphsage": [
        "reddit-G.json",
        "reddit-class_map.json",
        "reddit-feats.npy",
        "reddit-id_map.json",
    ],
    "converter": ["reddit.npz", "reddit_adj.npz"],
    "dgl": ["reddit_data.npz", "reddit_graph.npz"],
}


def tiny_graph(**replaced):
    """Node 4 is in no part of the split, node 5 has no label either."""
    arguments = {
        "edges": np.array([*EDGES]),
        "features": [[n, 3 * n, n / 4] for n in range(6)],
        "labels": [2, 0, 1, 0, 1, -1],
        "train_nodes": [3, 1],
        "val_nodes": [0],
        "test_nodes": [2],
        "n_classes": 3,
        "directed": False,
    }
    return Graph.from_edges(**(arguments | replaced))


def expected_logarithms():
    ids = np.arange(6)
    columns = [np.log(ids + 1), np.log(3 * ids + 1), ids / 4]
    return np.stack(columns, axis=1)


def read_json(folder, name):
    return json.loads((folder / name).read_text("utf-8"))


def edges_of(matrix):
    rows, columns = matrix.nonzero()
    return [*zip(rows.tolist(), columns.tolist(), strict=True)]


@pytest.mark.parametrize("form", writers.FORMATS)
def test_the_files_of_the_format_and_no_others(form, tmp_path):
    folder = tmp_path / "new" / "folder"
    writers.FORMATS[form](tiny_graph(), folder)
    assert sorted(os.listdir(folder)) == FILES[form]
    assert all(os.access(each, os.R_OK) for each in folder.iterdir())


def test_graphsage_nodes(tmp_path):
    names = ["a", "b", "\u00e9", 'quo"te', "e", "f"]
    writers.write_graphsage(tiny_graph(node_ids=names), tmp_path)
    content = read_json(tmp_path, "reddit-G.json")
    nodes = content.pop("nodes")
    assert [node["id"] for node in nodes] != names
    assert sorted(nodes, key=lambda node: names.index(node["id"])) == [
        {"id": "a", "label": 2, "val": True, "test": False},
        {"id": "b", "label": 0, "val": False, "test": False},
        {"id": "\u00e9", "label": 1, "val": False, "test": True},
        {"id": 'quo"te', "label": 0, "val": False, "test": False},
        {"id": "e", "label": 1},
        {"id": "f"},
    ]
    del content["links"]
    assert content == {"directed": False, "graph": {}, "multigraph": False}


@pytest.mark.parametrize(
    "node_ids", [None, ["a", "b", "c", "d", "e", "f"], range(5, -1, -1)]
)
def test_graphsage_links_are_places_in_the_node_list(node_ids, tmp_path):
    writers.write_graphsage(tiny_graph(node_ids=node_ids), tmp_path)
    content = read_json(tmp_path, "reddit-G.json")
    row_of = read_json(tmp_path, "reddit-id_map.json")
    ids = [node["id"] for node in content["nodes"]]
    if node_ids is None:  # Places and ids are the same.
        assert ids == [*range(6)]
    else:
        assert all(isinstance(each, str) for each in ids)
    rows = [row_of[str(each)] for each in ids]
    assert rows != sorted(rows)
    links = content["links"]
    ends = [(rows[each["source"]], rows[each["target"]]) for each in links]
    assert len(ends) == len(EDGES)
    assert {tuple(sorted(each)) for each in ends} == EDGES
    marks = [(each["test_removed"], each["train_removed"]) for each in links]
    assert set(marks) == {(False, False)}


def test_graphsage_maps_and_features(tmp_path):
    graph = tiny_graph(node_ids=[10, 11, 12, 13, 14, 15])
    writers.write_graphsage(graph, tmp_path, name="tiny")
    rows = {str(each + 10): each for each in range(6)}
    assert read_json(tmp_path, "tiny-id_map.json") == rows
    classes = {"10": 2, "11": 0, "12": 1, "13": 0, "14": 1}
    assert read_json(tmp_path, "tiny-class_map.json") == classes
    features = np.load(tmp_path / "tiny-feats.npy")
    assert features.dtype == np.float64
    np.testing.assert_array_equal(features, graph.features)


def test_graphsage_names_nodes_like_posts(tmp_path):
    writers.write_graphsage(tiny_graph(), tmp_path, string_ids=True)
    expected = {f"t3_{row}": row for row in range(6)}
    assert read_json(tmp_path, "reddit-id_map.json") == expected


def test_converter(tmp_path):
    writers.write_converter(tiny_graph(), tmp_path)
    with np.load(tmp_path / "reddit.npz") as arrays:
        content = dict(arrays)
    features = content.pop("feats")
    assert features.dtype == np.float64
    np.testing.assert_allclose(features, expected_logarithms(), rtol=1e-6)
    assert {key: each.tolist() for key, each in content.items()} == {
        "y_train": [0, 0],
        "y_val": [2],
        "y_test": [1],
        "train_index": [3, 1],
        "val_index": [0],
        "test_index": [2],
    }
    matrix = sparse.load_npz(tmp_path / "reddit_adj.npz")
    assert sorted(edges_of(matrix)) == sorted(EDGES)
    assert matrix.shape == (6, 6)


def test_dgl(tmp_path):
    writers.write_dgl(tiny_graph(), tmp_path)
    with np.load(tmp_path / "reddit_data.npz") as arrays:
        content = dict(arrays)
    features = content.pop("feature")
    logarithms = expected_logarithms()
    train = logarithms[[3, 1]]
    expected = (logarithms - train.mean(axis=0)) / train.std(axis=0)
    np.testing.assert_allclose(features, expected, atol=1e-5)
    assert {key: each.tolist() for key, each in content.items()} == {
        "label": [2, 0, 1, 0, 1, -1],
        "node_types": [2, 1, 3, 1, 0, 0],
        "node_ids": [0, 1, 2, 3, 4, 5],
    }
    matrix = sparse.load_npz(tmp_path / "reddit_graph.npz")
    assert isinstance(matrix, sparse.coo_matrix)
    both = EDGES | {(target, source) for source, target in EDGES}
    assert sorted(edges_of(matrix)) == sorted(both)


@pytest.mark.parametrize("form", writers.FORMATS)
def test_sparse_features_and_no_edges(form, tmp_path):
    features = sparse.csr_array(np.diag([1.5] * 6))
    graph = tiny_graph(edges=(), features=features)
    writers.FORMATS[form](graph, tmp_path)
    if form == "graphsage":
        assert read_json(tmp_path, "reddit-G.json")["links"] == []
        written = np.load(tmp_path / "reddit-feats.npy")
        np.testing.assert_array_equal(written, features.toarray())


@pytest.mark.parametrize("form", writers.FORMATS)
def test_what_would_be_refused_is_known_before(form, tmp_path):
    writers.check_free(tmp_path / "new", form, overwrite=False)
    for name in FILES[form]:
        (tmp_path / name).touch()
        with pytest.raises(DataError, match=f"{name} exists"):
            writers.check_free(tmp_path, form, overwrite=False)
        writers.check_free(tmp_path, form, overwrite=True)
        (tmp_path / name).unlink()


@pytest.mark.parametrize("form", writers.FORMATS)
def test_files_are_replaced_on_demand_only(form, tmp_path):
    path = tmp_path / FILES[form][-1]
    path.write_text("mine")
    with pytest.raises(DataError, match=f"{path.name} exists .*overwrite"):
        writers.FORMATS[form](tiny_graph(), tmp_path)
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_text() == "mine"
    writers.FORMATS[form](tiny_graph(), tmp_path, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == FILES[form]
    assert path.read_bytes() != b"mine"


@pytest.mark.parametrize("name", ["reddit-feats.npy.xz", "reddit-G.json"])
def test_compressed_and_linked_files_are_replaced_too(name, tmp_path):
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=f"{name} exists .*overwrite"):
        writers.write_graphsage(tiny_graph(), tmp_path)
    writers.write_graphsage(tiny_graph(), tmp_path, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == FILES["graphsage"]


def test_a_folder_in_place_of_a_file_is_named_and_kept(tmp_path):
    writers.write_dgl(tiny_graph(), tmp_path)
    (tmp_path / "reddit_graph.npz").unlink()
    (tmp_path / "reddit_graph.npz").mkdir()
    with pytest.raises(DataError, match="reddit_graph.npz: expected a file"):
        writers.write_dgl(tiny_graph(), tmp_path, overwrite=True)
    assert sorted(os.listdir(tmp_path)) == FILES["dgl"]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("form", writers.FORMATS)
@pytest.mark.parametrize("there", [True, False])
def test_a_failure_while_writing_changes_nothing(
    form, there, error, tmp_path, monkeypatch
):
    if there:
        writers.FORMATS[form](tiny_graph(), tmp_path)
    before = contents(tmp_path)
    begun = []

    def fail(*arguments):
        begun.extend(tmp_path.glob(".part-*/*"))
        raise error("stopped")

    monkeypatch.setattr(writers, "_write_matrix", fail)
    monkeypatch.setattr(sparse, "save_npz", fail)
    other = tiny_graph(labels=[1, 0, 1, 0, 1, -1])
    with pytest.raises(error, match="stopped"):
        writers.FORMATS[form](other, tmp_path, overwrite=True)
    assert begun
    assert contents(tmp_path) == before


@pytest.mark.parametrize("form", writers.FORMATS)
def test_a_set_that_is_half_replaced_is_refused(form, tmp_path, monkeypatch):
    """Whichever the step at which the process is killed."""
    for n_steps in range(2 * len(FILES[form])):
        folder = tmp_path / str(n_steps)
        writers.FORMATS[form](tiny_graph(), folder)
        with monkeypatch.context() as patch:
            stop_after(n_steps, patch)
            with pytest.raises(KeyboardInterrupt):
                writers.FORMATS[form](tiny_graph(), folder, overwrite=True)
        if n_steps:
            with pytest.raises(DataNotFoundError, match="missing"):
                read_reddit(folder, form)
        else:
            assert read_reddit(folder, form).n_nodes == 6
        assert not [*folder.glob(".part-*")]


def stop_after(n_steps, patch):
    """Let only so many files be removed or renamed."""
    done = []

    def counted(path, step, *arguments):
        if len(done) == n_steps:
            raise KeyboardInterrupt
        done.append(path)
        return step(path, *arguments)

    for name in ("unlink", "rename"):
        step = getattr(pathlib.Path, name)
        limited = functools.partialmethod(counted, step)
        patch.setattr(pathlib.Path, name, limited)


def test_weights_cannot_be_written(tmp_path):
    graph = tiny_graph()
    adjacency = graph.adjacency.copy()
    adjacency.data[:] = 2
    weighted = dataclasses.replace(graph, adjacency=adjacency)
    with pytest.raises(DataError, match="weight 1.* from 2 to 2"):
        writers.write_dgl(weighted, tmp_path / "new")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "form, options",
    [
        ("graphsage", {}),
        ("graphsage", {"string_ids": True}),
        ("converter", {}),
        ("dgl", {}),
    ],
)
def test_read_back(form, options, tmp_path):
    config = RedditLikeConfig(
        n_nodes=3000, n_edges=9000, n_features=12, n_classes=5
    )
    graph = reddit_like_graph(config)
    writers.FORMATS[form](graph, tmp_path, **options)
    read = read_reddit(tmp_path, form)
    assert (read.adjacency != graph.adjacency).nnz == 0
    np.testing.assert_array_equal(read.labels, graph.labels)
    for part in ("train_nodes", "val_nodes", "test_nodes"):
        np.testing.assert_array_equal(getattr(read, part), getattr(graph, part))
    expected, received = (
        scale_features(features, "standard", graph.train_nodes)
        for features in (log_counts(graph.features), read.features)
    )
    np.testing.assert_allclose(received, expected, atol=1e-5)


def test_names_are_read_back(tmp_path):
    names = [f"t3_{each}" for each in "uvwxyz"]
    graph = tiny_graph(node_ids=names)
    writers.write_graphsage(graph, tmp_path)
    assert read_reddit(tmp_path, "graphsage").node_ids.tolist() == names
