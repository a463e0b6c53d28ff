"""flags/reddit.cfg on generated files in each format of Reddit."""

import json

import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver

from adaptive_gcn import loading, main, training
from adaptive_gcn.config import Config
from adaptive_gcn.datasets import store, writers

SCALE = 0.01  # 2,330 nodes, 116,000 edges


@pytest.fixture(autouse=True)
def fresh_flags():
    with flagsaver.flagsaver():
        flags.FLAGS.unparse_flags()
        yield


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    return tmp_path_factory.mktemp("stores")


def settings(stores, output_dir, *words):
    return main.parse_flags(
        [
            "main",
            "--flagfile=flags/reddit.cfg",
            f"--store_dir={stores}",
            f"--output_dir={output_dir}",
            *words,
        ]
    )


@pytest.fixture(scope="module")
def records():
    return {}


@pytest.mark.slow
@pytest.mark.parametrize("file_format", writers.FORMATS)
def test_the_papers_setting_on_files_of_each_format(
    file_format, stores, tmp_path, records, caplog
):
    files = tmp_path / "files"
    loading.convert(
        settings(
            stores,
            files,
            "--mode=convert",
            f"--to={file_format}",
            "--dataset=reddit_like",
            f"--reddit_like_scale={SCALE}",
        )
    )
    config = settings(
        stores, tmp_path / "run", f"--data_dir={files}", "--epochs=4"
    )
    assert config.precompute and config.samples == (512,)
    record = training.train(config)
    assert "not the published graph: nodes" in caplog.text
    assert record["graph"]["nodes"] == 2330
    assert record["graph"]["undirected_edges"] == 116_069
    assert record["val_accuracy"] > 0.85
    evaluation = training.evaluate(config)
    assert evaluation["test"]["accuracy"] == record["test_accuracy"]
    # The formats hold one graph: same numbers but for rounding.
    records[file_format] = record
    first = next(iter(records.values()))
    assert record["val_loss"] == pytest.approx(first["val_loss"], abs=0.02)


@pytest.mark.slow
def test_both_layers_sampled_from_a_store(stores, tmp_path):
    words = (
        "--flagfile=flags/sampled_bottom.cfg",
        "--dataset=reddit_like",
        f"--reddit_like_scale={SCALE}",
        "--epochs=3",
    )
    config = settings(stores, tmp_path / "run", *words)
    assert config.n_sampled_layers == 2
    first = training.train(config)
    again = training.train(settings(stores, tmp_path / "again", *words))
    assert first["val_loss"] == again["val_loss"]
    assert np.isfinite(first["val_loss"])


def test_convert_to_a_store_and_read_it(stores, tmp_path):
    words = (
        "--mode=convert",
        "--dataset=synthetic",
        "--synthetic_nodes=90",
        "--synthetic_features=30",
        "--synthetic_classes=3",
    )
    config = settings(stores, tmp_path / "s", *words)
    assert "as store" in loading.convert(config)
    assert store.read_store(tmp_path / "s").n_nodes == 90
    with pytest.raises(
        store.StoreError, match="name another, or .*--overwrite"
    ):
        loading.convert(config)
    loading.convert(settings(stores, tmp_path / "s", *words, "--overwrite"))
    manifest = json.loads((tmp_path / "s" / "manifest.json").read_text())
    assert manifest["n_nodes"] == 90


def test_warnings_go_with_a_store_that_is_converted(stores, tmp_path, caplog):
    scale = "--reddit_like_scale=0.003"
    words = ("--mode=convert", "--dataset=reddit_like", scale)
    loading.convert(settings(stores, tmp_path / "f", *words, "--to=dgl"))
    words = ("--mode=convert", f"--data_dir={tmp_path / 'f'}", "--to=store")
    for name in ("once", "again"):  # Read from the files, then from a store.
        loading.convert(settings(stores, tmp_path / name, *words))
        caplog.clear()
        store.read_store(tmp_path / name)
        assert "not the published graph: nodes" in caplog.text


def test_precomputed_features_serve_small_graphs_in_memory(tmp_path):
    record = training.train(
        Config(
            precompute=True,
            synthetic_nodes=300,
            synthetic_features=60,
            synthetic_classes=3,
            epochs=3,
            output_dir=str(tmp_path / "run"),
        )
    )
    assert np.isfinite(record["val_loss"])
