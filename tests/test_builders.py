"""The TensorFlow Datasets builder gives the graph that the reader gives."""

import numpy as np
import pytest

from adaptive_gcn.datasets import checksums
from adaptive_gcn.datasets.planetoid import read_planetoid

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
