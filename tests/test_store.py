"""The memory-mapped store: round trip, cut files, several processes."""

import dataclasses
import json
import logging
import multiprocessing
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest
from scipy import sparse

from adaptive_gcn.datasets import data_warnings, store
from adaptive_gcn.graph import Graph
from tests.helpers import ring_graph

ROOT = pathlib.Path(__file__).parents[1]


def graphs():
    plain = ring_graph()
    return {
        "dense": plain,
        "sparse": dataclasses.replace(
            plain, features=sparse.csr_array(plain.features)
        ),
        "named": dataclasses.replace(
            plain, node_ids=np.array([f"é,{i}" for i in range(plain.n_nodes)])
        ),
        "big ids": dataclasses.replace(
            plain, node_ids=np.arange(plain.n_nodes) * 4_000_000_000
        ),
    }


def dense(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)


def assert_same(first, second):
    for name in ("adjacency", "features", "labels"):
        np.testing.assert_array_equal(
            dense(getattr(first, name)), dense(getattr(second, name))
        )
    for name in ("train_nodes", "val_nodes", "test_nodes", "node_ids"):
        np.testing.assert_array_equal(
            getattr(first, name), getattr(second, name)
        )
    assert first.class_names == second.class_names
    assert first.statistics() == second.statistics()
    assert first.name == second.name


def mapped(array):
    """Whether an array's memory is a file."""
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = array.base
    return False


@pytest.mark.parametrize("kind", ["dense", "sparse", "named", "big ids"])
def test_round_trip_is_mapped_and_equal(tmp_path, kind):
    graph = graphs()[kind]
    stored = store.write_store(graph, tmp_path / "s", source={"from": "test"})
    assert_same(graph, stored)
    assert_same(graph, store.read_store(tmp_path / "s"))
    assert stored.store.path == tmp_path / "s"
    large = [stored.adjacency.indices, stored.adjacency.data]
    if kind == "sparse":
        large += [stored.features.data, stored.features.indices]
    else:
        large.append(stored.features)
    assert all(mapped(array) for array in large)
    manifest = json.loads((tmp_path / "s" / "manifest.json").read_text())
    assert manifest["source"] == {"from": "test"}
    assert manifest["n_nodes"] == graph.n_nodes
    assert manifest["files"]["labels.npy"]["dtype"] == "<i8"
    assert manifest["files"][
        "features.npy" if kind != "sparse" else "features_values.npy"
    ]["crc32"]


def test_isolated_nodes_and_an_empty_split_survive(tmp_path):
    graph = Graph.from_edges(
        [[0, 1]], np.eye(3, dtype=np.float32), [0, 1, 0], train_nodes=[0, 2]
    )
    assert_same(graph, store.write_store(graph, tmp_path / "s"))


def test_a_store_is_never_written_over_something(tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "thesis.tex").write_text("precious")
    with pytest.raises(store.StoreError, match="name another, or remove it"):
        store.write_store(ring_graph(), tmp_path / "s")
    (tmp_path / "s" / "manifest.json").write_text('{"name": "web page"}')
    with pytest.raises(store.StoreError, match="name another, or remove it"):
        store.write_store(ring_graph(), tmp_path / "s", overwrite=True)
    assert (tmp_path / "s" / "thesis.tex").read_text() == "precious"


def damage(folder, kind):
    path = folder / "features.npy"
    if kind == "cut":
        os.truncate(path, path.stat().st_size // 2)
    elif kind == "zeros":  # As a file system may leave it after a power cut.
        size = path.stat().st_size
        os.truncate(path, size - 40)
        os.truncate(path, size)
    elif kind == "missing":
        path.unlink()
    elif kind == "no manifest":
        (folder / "manifest.json").unlink()
    elif kind == "half a manifest":
        os.truncate(folder / "manifest.json", 100)
    elif kind == "other JSON":
        (folder / "manifest.json").write_text("[1, 2]")
    else:
        change(folder, EDITS[kind.removesuffix(", signed")], ", signed" in kind)


def change(folder, edit, sign):
    """Change a manifest, by hand or as another program would write it."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    edit(manifest)
    if sign:
        manifest["crc32"] = store._checksum(manifest)
    path.write_text(json.dumps(manifest))


EDITS = {
    "other version": lambda m: m.update(version=store.VERSION + 1),
    "no labels": lambda m: m["files"].pop("labels.npy"),
    "no features": lambda m: m["files"].pop("features.npy"),
    "one class more": lambda m: m["class_names"].append("3"),
    "one class less": lambda m: m["class_names"].pop(),
    "other names of classes": lambda m: m.update(class_names=5),
    "no name": lambda m: m.pop("name"),
    "other number of nodes": lambda m: m.update(n_nodes=31),
    "other shape": lambda m: m["files"]["features.npy"].update(shape=[6, 30]),
    "other type": lambda m: m["files"]["labels.npy"].update(dtype="<f8"),
    "no size": lambda m: m["files"]["labels.npy"].pop("bytes"),
    "other statistics": lambda m: m.update(edge_statistics={"entries": 1}),
}
KINDS = [
    "cut",
    "zeros",
    "missing",
    "no manifest",
    "half a manifest",
    "other JSON",
    *EDITS,
    *(f"{edit}, signed" for edit in EDITS),
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_store_is_refused_by_name_and_made_anew(
    tmp_path, kind, caplog
):
    folder = tmp_path / "s"
    made = []

    def make():
        made.append(1)
        return ring_graph()

    store.cached_store(folder, make)
    store.cached_store(folder, make)
    assert len(made) == 1
    damage(folder, kind)
    named = "features.npy" if kind in KINDS[:3] else "manifest.json"
    if kind.startswith("no size, signed"):
        named = "labels.npy"
    with pytest.raises(store.StoreError, match=rf"{named}.*write it anew"):
        store.read_store(folder)
    assert_same(ring_graph(), store.cached_store(folder, make))
    assert len(made) == 2
    assert "built anew" in caplog.text
    assert folders_in(tmp_path) == ["s"]


@pytest.mark.parametrize(
    "edit, message",
    [
        ("no labels", "expected a file labels.npy in it"),
        ("one class more", "n_classes: expected 3, received 4"),
        ("one class less", "allowed range is 0..1"),
        ("other number of nodes", "n_nodes: expected 31, received 30"),
        ("other shape", r"shape of features.npy: expected \[6, 30\]"),
        ("other type", "type of labels.npy: expected <f8, received <i8"),
    ],
)
def test_a_manifest_that_contradicts_the_arrays_is_told_why(
    tmp_path, edit, message
):
    store.write_store(ring_graph(), tmp_path / "s")
    change(tmp_path / "s", EDITS[edit], sign=False)
    with pytest.raises(store.StoreError, match="altered after it was written"):
        store.read_store(tmp_path / "s")
    change(tmp_path / "s", lambda manifest: None, sign=True)
    with pytest.raises(store.StoreError, match=message):
        store.read_store(tmp_path / "s")


def test_any_json_value_may_be_a_source(tmp_path):
    source = {"é": [0.1, None, True], 10: "b", 9: ("a",)}
    store.write_store(ring_graph(), tmp_path / "s", source)
    assert_same(ring_graph(), store.read_store(tmp_path / "s"))


def warn(text):
    logging.getLogger("adaptive_gcn.datasets.some").warning("of %s", text)


def texts_of(caplog):
    texts = [each.getMessage() for each in caplog.records]
    caplog.clear()
    return texts


def test_warnings_are_kept_where_logging_leaves_them_alone(tmp_path, caplog):
    def make():
        warn("data")
        logging.getLogger("elsewhere").warning("of more")
        thread = threading.Thread(target=warn, args=("another thread",))
        thread.start()
        thread.join()
        return ring_graph()

    store.cached_store(tmp_path / "s", make)
    assert texts_of(caplog) == ["of data", "of more", "of another thread"]
    store.cached_store(tmp_path / "s", make)
    assert texts_of(caplog) == ["of data"]
    with data_warnings.kept() as warnings:
        graph = store.read_store(tmp_path / "s")
    assert texts_of(caplog) == warnings == ["of data"]
    store.write_store(graph, tmp_path / "copy", warnings=warnings)
    assert not texts_of(caplog)
    store.read_store(tmp_path / "copy")
    assert texts_of(caplog) == ["of data"]


def test_that_a_store_was_broken_is_no_warning_about_its_data(tmp_path, caplog):
    store.cached_store(tmp_path / "s", ring_graph)
    damage(tmp_path / "s", "cut")
    with data_warnings.kept() as warnings:
        store.cached_store(tmp_path / "s", ring_graph)
    assert "built anew" in caplog.text
    assert not warnings


def test_kept_warnings_are_seen_where_logging_is_not_set_up():
    code = (
        "import logging\n"
        "from adaptive_gcn.datasets import data_warnings\n"
        "with data_warnings.kept() as warnings:\n"
        "    logging.getLogger('adaptive_gcn.x').warning('look')\n"
        "print(warnings)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("['look']\n", "look\n")


def test_a_failure_leaves_nothing_behind(tmp_path):
    def make():
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        store.cached_store(tmp_path / "s", make)
    assert not any(each.is_dir() for each in tmp_path.iterdir())


def test_what_a_killed_process_left_is_swept(tmp_path):
    stale = tmp_path / ".s.part-killed"
    stale.mkdir()
    (stale / "features.npy").write_bytes(b"half")
    store.cached_store(tmp_path / "s", ring_graph)
    assert not stale.exists()


def _convert(folder, log, barrier):
    def make():
        with open(log, "a") as file:
            file.write("made\n")
        return ring_graph()

    barrier.wait()
    assert_same(ring_graph(), store.cached_store(folder, make))


def test_processes_that_convert_at_once_make_it_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(3)
    log = tmp_path / "log"
    processes = [
        context.Process(target=_convert, args=(tmp_path / "s", log, barrier))
        for _ in range(3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert log.read_text() == "made\n"


def test_derived_arrays_are_made_once_and_again_if_cut(tmp_path):
    stored = store.write_store(ring_graph(), tmp_path / "s")
    calls = []

    def blocks():
        calls.append(1)
        yield np.ones((20, 2), np.float32)
        yield np.zeros((10, 2), np.float32)

    def get():
        return store.derived_array(stored.store.path, "ones", (30, 2), blocks)

    assert mapped(get())
    assert get().sum() == 40
    assert len(calls) == 1
    damage_path = tmp_path / "s" / "derived" / "ones" / "array.npy"
    os.truncate(damage_path, 100)
    assert get().sum() == 40
    assert len(calls) == 2


@pytest.mark.parametrize(
    "edit",
    [
        lambda m: m.update(name="twos"),
        lambda m: m.pop("name"),
        lambda m: m["files"].clear(),
        lambda m: m["files"]["array.npy"].update(shape=[2, 30]),
    ],
)
@pytest.mark.parametrize("sign", [True, False])
def test_a_derived_array_of_another_kind_is_made_anew(
    tmp_path, edit, sign, caplog
):
    stored = store.write_store(ring_graph(), tmp_path / "s")

    def get(rows):
        blocks = [np.full((rows, 2), rows, np.float32)]
        return store.derived_array(
            stored.store.path, "ones", (rows, 2), lambda: iter(blocks)
        )

    get(30)
    change(tmp_path / "s" / "derived" / "ones", edit, sign)
    assert not caplog.text
    assert get(30).shape == (30, 2)
    assert "built anew" in caplog.text
    assert get(29).sum() == 29 * 2 * 29


def test_blocks_that_do_not_fill_the_array_are_an_error(tmp_path):
    stored = store.write_store(ring_graph(), tmp_path / "s")
    with pytest.raises(ValueError, match=r"3 rows, expected shape \(30, 2\)"):
        store.derived_array(
            stored.store.path,
            "short",
            (30, 2),
            lambda: iter([np.ones((3, 2), np.float32)]),
        )
    assert not (tmp_path / "s" / "derived" / "short").exists()


def test_an_unusable_folder_is_an_os_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file: cannot write .*--store_dir"):
        store.cached_store(tmp_path / "file" / "s", not_reached)


def test_a_folder_that_cannot_be_written_is_named_before_the_work():
    with pytest.raises(OSError, match="/proc: cannot write .*--store_dir"):
        store.cached_store("/proc/s", not_reached)


def not_reached():
    raise AssertionError("the graph is made")


def test_fingerprints_differ_with_the_source():
    names = {store.fingerprint(source) for source in (None, [1], [2], {"a": 1})}
    assert len(names) == 4


def test_a_store_may_be_written_over_itself(tmp_path):
    stored = store.write_store(ring_graph(), tmp_path / "s")
    again = store.write_store(stored, tmp_path / "s", overwrite=True)
    assert_same(ring_graph(), again)


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("n_steps", [0, 1])
def test_a_failed_renaming_leaves_the_old_store(
    tmp_path, n_steps, error, monkeypatch
):
    store.write_store(ring_graph(), tmp_path / "s")
    with monkeypatch.context() as patch:
        fail_after(n_steps, error, patch)
        with pytest.raises(error):
            store.write_store(ring_graph(40), tmp_path / "s", overwrite=True)
    assert store.read_store(tmp_path / "s").n_nodes == 30
    assert folders_in(tmp_path) == ["s"]


def fail_after(n_steps, error, patch):
    """Let a renaming fail, after so many that do not."""
    done = []

    def rename(path, target, do=pathlib.Path.rename):
        done.append(path)
        if len(done) == n_steps + 1:
            raise error("stopped")
        return do(path, target)

    patch.setattr(pathlib.Path, "rename", rename)


def folders_in(path):
    return [each.name for each in path.iterdir() if each.is_dir()]


KILLED = """
import os, pathlib
from adaptive_gcn.datasets import store
from tests.helpers import ring_graph
do, done = pathlib.Path.rename, []
def rename(path, target):
    if len(done) == {n_steps}:
        os._exit(9)
    done.append(path)
    return do(path, target)
pathlib.Path.rename = rename
store.shutil.rmtree = lambda *_, **__: os._exit(9)
store.write_store(ring_graph(40), {folder!r}, overwrite=True)
"""


@pytest.mark.parametrize("n_steps", [0, 1, 2])
@pytest.mark.parametrize(
    "open_store",
    [store.read_store, lambda folder: store.cached_store(folder, ring_graph)],
    ids=["read", "cached"],
)
def test_a_process_killed_at_a_renaming_loses_no_store(
    tmp_path, n_steps, open_store
):
    store.write_store(ring_graph(), tmp_path / "s")
    code = KILLED.format(n_steps=n_steps, folder=str(tmp_path / "s"))
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT)
    assert done.returncode == 9
    assert open_store(tmp_path / "s").n_nodes == (40 if n_steps == 2 else 30)
    store.write_store(ring_graph(), tmp_path / "s", overwrite=True)
    assert folders_in(tmp_path) == ["s"]
