"""Converting: what cannot be written is said before the work, by its flag."""

import os

import pytest

from adaptive_gcn import loading
from adaptive_gcn.config import Config
from adaptive_gcn.datasets import store, writers
from adaptive_gcn.errors import DataError
from adaptive_gcn.run_folder import RunFolderError
from tests.helpers import ring_graph

FORMS = ("store", *writers.FORMATS)


@pytest.fixture
def loaded(monkeypatch):
    """What was loaded, or generated, so far."""
    done = []

    def load(config):
        done.append(config.dataset)
        return ring_graph()

    monkeypatch.setattr(loading, "load", load)
    monkeypatch.setattr(loading, "reddit_like_graph", load)
    return done


def convert(folder, form, **settings):
    config = Config(mode="convert", output_dir=str(folder), to=form, **settings)
    return loading.convert(config)


@pytest.mark.parametrize("form", FORMS)
def test_a_new_folder_is_filled_and_kept_until_told_otherwise(
    tmp_path, form, loaded
):
    folder = tmp_path / "new" / "folder"
    assert f"as {form}: " in convert(folder, form)
    before = sorted(os.listdir(folder))
    with pytest.raises(
        DataError, match=f"--output_dir={folder}: .*--overwrite"
    ):
        convert(folder, form)
    assert len(loaded) == 1
    convert(folder, form, overwrite=True)
    assert sorted(os.listdir(folder)) == before
    assert os.listdir(tmp_path) == ["new"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["/proc/x", "/proc/x/y", "file", "file/below"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    tmp_path, form, name, overwrite, loaded
):
    (tmp_path / "file").write_text("mine")
    folder = tmp_path / name
    with pytest.raises(
        (RunFolderError, DataError), match=f"--output_dir={folder}: "
    ):
        convert(folder, form, overwrite=overwrite)
    assert not loaded
    assert (tmp_path / "file").read_text() == "mine"


def test_what_is_no_store_is_not_overwritten(tmp_path, loaded):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "thesis.tex").touch()
    with pytest.raises(store.StoreError, match=r"--output_dir=.*or remove it"):
        convert(tmp_path / "s", "store", overwrite=True)
    assert not loaded


@pytest.mark.parametrize("name", ["/proc/x", "file"])
def test_a_store_dir_that_cannot_be_written_is_named_before_the_work(
    tmp_path, name, monkeypatch
):
    monkeypatch.setattr("adaptive_gcn.datasets.reddit_like_graph", not_reached)
    (tmp_path / "file").touch()
    config = Config(dataset="reddit_like", store_dir=str(tmp_path / name))
    with pytest.raises(OSError, match="cannot write a store .*--store_dir"):
        loading.load(config)


def not_reached(config):
    raise AssertionError("the graph is made")


@pytest.mark.parametrize("scale", [1e-6, 1e-3])
@pytest.mark.parametrize("form", ["store", "dgl"])
def test_a_scale_that_gives_no_graph_is_named(tmp_path, scale, form):
    settings = {"dataset": "reddit_like", "reddit_like_scale": scale}
    with pytest.raises(DataError, match=f"^--reddit_like_scale={scale}: .*exp"):
        convert(
            tmp_path / "new", form, store_dir=str(tmp_path / "s"), **settings
        )


def test_a_generated_graph_without_room_for_its_edges_is_named():
    config = Config(
        synthetic_nodes=40,
        synthetic_degree=10.0,
        synthetic_classes=10,
        synthetic_homophily=1.0,
    )
    with pytest.raises(DataError, match=r"^--synthetic_degree=10.0: .*fewer"):
        loading.load(config)


def test_errors_of_files_name_no_size(tmp_path):
    config = Config(dataset="reddit", data_dir=str(tmp_path))
    with pytest.raises(OSError, match="^reddit: no complete set"):
        loading.load(config)
