"""The TensorFlow Datasets builders give the graphs that the readers give."""

import numpy as np
import pytest
from scipy import sparse

from adaptive_gcn.datasets import checksums
from adaptive_gcn.datasets.planetoid import read_planetoid
from adaptive_gcn.datasets.reddit import read_reddit
from adaptive_gcn.errors import GraphError

tfds = pytest.importorskip("tensorflow_datasets")
builders = pytest.importorskip("adaptive_gcn.datasets.builders")


@pytest.fixture
def files(tmp_path, write_planetoid, monkeypatch):
    """A folder with a small Cora that passes for the published one."""
    folder = tmp_path / "files" / "planetoid"
    write_planetoid(
        folder,
        "cora",
        n_head=520,
        test=(523, 520, 521),
        n_features=1433,
        n_classes=7,
    )
    fingerprints = {
        path.name: checksums.Fingerprint.of(path.read_bytes())
        for path in folder.iterdir()
    }
    monkeypatch.setattr(checksums, "FINGERPRINTS", fingerprints)
    return folder.parent


def load(tmp_path, **keywords):
    dataset = tfds.load(
        "planetoid/cora", split="train", data_dir=tmp_path / "out", **keywords
    )
    (example,) = tfds.as_numpy(dataset)
    return example


def assert_same(example, graph):
    assert example["num_nodes"] == graph.n_nodes
    np.testing.assert_array_equal(
        example["node_feat"], graph.features.toarray()
    )
    assert example["node_feat"].dtype == np.float32
    source, target = example["edge_index"].T
    assert len(source) == 2 * graph.n_edges
    dense = np.zeros(graph.adjacency.shape)
    dense[source, target] = 1
    np.testing.assert_array_equal(dense, graph.adjacency.toarray())
    for key in ("labels", "train_nodes", "val_nodes", "test_nodes"):
        np.testing.assert_array_equal(example[key], getattr(graph, key))
        assert example[key].dtype == np.int64


def test_configurations():
    assert list(builders.Planetoid.builder_configs) == [
        "cora",
        "citeseer",
        "pubmed",
    ]


def test_files_named_by_the_variable(tmp_path, files, monkeypatch, no_network):
    monkeypatch.setenv("ADAPTIVE_GCN_DATA_DIR", str(files))
    graph = read_planetoid(files / "planetoid", "cora")
    assert graph.statistics()["unlabelled"] == 1
    assert_same(load(tmp_path), graph)


@pytest.mark.parametrize("own_files", [True, False])
def test_manual_dir(tmp_path, files, monkeypatch, no_network, own_files):
    """A manual folder counts if it has our files, and only then."""
    manual, elsewhere = tmp_path / "manual", tmp_path / "elsewhere"
    manual.mkdir()
    (manual / "of_another_data_set.txt").touch()
    target = manual if own_files else elsewhere
    (files / "planetoid").rename(files / "cora")
    files.rename(target / "files" if own_files else target)
    if own_files:
        (target / "files" / "cora").rename(target / "cora")
    monkeypatch.setenv("ADAPTIVE_GCN_DATA_DIR", str(elsewhere))
    config = tfds.download.DownloadConfig(manual_dir=manual)
    example = load(
        tmp_path, download_and_prepare_kwargs={"download_config": config}
    )
    assert_same(example, read_planetoid(target / "cora", "cora"))


@pytest.mark.data
def test_citeseer(data_dir, tmp_path, monkeypatch, no_network):
    monkeypatch.setenv("ADAPTIVE_GCN_DATA_DIR", str(data_dir))
    dataset = tfds.load("planetoid/citeseer", split="train", data_dir=tmp_path)
    (example,) = tfds.as_numpy(dataset)
    assert example["num_nodes"] == 3327
    assert example["node_feat"].shape == (3327, 3703)
    assert example["edge_index"].shape == (2 * 4552, 2)
    assert np.count_nonzero(example["labels"] == -1) == 15
    assert len(example["train_nodes"]) == 1812


def write_reddit(folder, n_nodes=10):
    """Files of the format "dgl": a ring, node 4 alone and in no part."""
    rng = np.random.default_rng(0)
    types = np.resize([1, 1, 2, 3], n_nodes)
    types[4] = 0
    ring = np.delete(np.arange(n_nodes), 4)
    rows = np.concatenate([ring, np.roll(ring, 1)])
    columns = np.concatenate([np.roll(ring, 1), ring])
    folder.mkdir(parents=True)
    np.savez(
        folder / "reddit_data.npz",
        feature=rng.normal(size=(n_nodes, 3)).astype(np.float32),
        label=np.arange(n_nodes) % 3,
        node_types=types,
    )
    matrix = sparse.coo_array(
        (np.ones(len(rows)), (rows, columns)), (n_nodes, n_nodes)
    )
    sparse.save_npz(folder / "reddit_graph.npz", matrix)


def load_reddit(tmp_path, manual=None):
    config = tfds.download.DownloadConfig(manual_dir=manual)
    dataset = tfds.load(
        "reddit/dgl",
        split="train",
        data_dir=tmp_path / "out",
        download_and_prepare_kwargs={"download_config": config},
    )
    return list(tfds.as_numpy(dataset))


def assert_same_graph(graph, expected):
    assert (graph.adjacency != expected.adjacency).nnz == 0
    for key in ("features", "labels", "train_nodes", "val_nodes", "test_nodes"):
        np.testing.assert_array_equal(
            getattr(graph, key), getattr(expected, key)
        )
    assert graph.class_names == expected.class_names


def test_reddit_configurations():
    configs = list(builders.Reddit.builder_configs)
    assert configs == ["graphsage", "converter", "dgl"]


@pytest.mark.parametrize("own_files", [True, False])
def test_reddit_round_trip(tmp_path, monkeypatch, no_network, own_files):
    """In blocks, the last of which is smaller, in any order."""
    monkeypatch.setattr(builders, "BLOCK_NODES", 4)
    folder, manual = tmp_path / "files", tmp_path / "manual"
    manual.mkdir()
    (manual / "of_another_data_set.txt").touch()
    write_reddit(manual / "reddit" if own_files else folder / "reddit")
    monkeypatch.setenv("ADAPTIVE_GCN_DATA_DIR", str(folder))
    expected = read_reddit(manual if own_files else folder)
    blocks = load_reddit(tmp_path, manual)
    assert [block["first_node"] for block in blocks] == [0, 4, 8]
    assert [len(block["labels"]) for block in blocks] == [4, 4, 2]
    assert blocks[1]["split"].tolist() == [0, 1, 2, 3]
    assert blocks[1]["row_lengths"].tolist() == [0, 2, 2, 2]
    for key in ("neighbors", "row_lengths", "labels", "split"):
        assert blocks[0][key].dtype == np.int64
    assert_same_graph(builders.graph_from_blocks(blocks[::-1]), expected)


@pytest.mark.parametrize("kept", [[0, 2], [1, 2], [0, 1, 1, 2], []])
def test_missing_or_repeated_block(tmp_path, monkeypatch, kept):
    monkeypatch.setattr(builders, "BLOCK_NODES", 4)
    write_reddit(tmp_path / "reddit")
    graph = read_reddit(tmp_path)
    codes = graph.split_codes()
    blocks = [builders._block(graph, codes, first) for first in (0, 4, 8)]
    with pytest.raises(GraphError, match="expected (a block|blocks of nodes)"):
        builders.graph_from_blocks([blocks[each] for each in kept])


def test_missing_reddit_files_are_named(tmp_path, monkeypatch, no_network):
    monkeypatch.setenv("ADAPTIVE_GCN_DATA_DIR", str(tmp_path))
    with pytest.raises(OSError, match="dgl: missing reddit_data.npz"):
        load_reddit(tmp_path)
