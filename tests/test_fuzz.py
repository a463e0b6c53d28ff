"""Damaged and hostile files: documented errors, bounded memory, no code run.

Each reader gets mutations of good files, `FUZZ_INPUTS` of them (by default
150), and the files under `corpus/`, which are kept for good.
"""

import io
import json
import os
import pathlib
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from adaptive_gcn import checkpoint_file, resume, run_folder
from adaptive_gcn.checkpoint_file import CheckpointError
from adaptive_gcn.config import Config
from adaptive_gcn.datasets import (
    graphsage,
    npy_stream,
    planetoid,
    reddit,
    restricted_pickle,
    sparse_npz,
    store,
)
from adaptive_gcn.errors import DataError
from adaptive_gcn.run_folder import RunFolderError
from tests.helpers import ring_graph
from tests.test_graphsage import write as write_graphsage
from tests.test_own_graph import EDGES, NODES, archive, musae, read, table
from tests.test_own_graph import write as write_own
from tests.test_reddit import write_converter, write_dgl

CORPUS = pathlib.Path(__file__).parent / "corpus"
N_INPUTS = int(os.environ.get("FUZZ_INPUTS", "150"))
MEMORY = 24 * 2**20  # For inputs of a few kilobytes.
PIECES = (
    b"\x00",
    b"\xff\xff\xff\xff",
    b"\x80\x02",
    b"cos\nsystem\n",
    b"-1",
    b"1e999",
    b"99999999999999999999",
    b"NaN",
    b"null",
    b"[[[[",
    b"{}",
    b'"',
    b"../",
    b"(1000000000000,)",
    b"|O",
    b"\n",
)
fuzzed = settings(
    max_examples=N_INPUTS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@st.composite
def mutations(draw):
    """Up to four edits: (kind, place as a fraction, length, piece)."""
    edit = st.tuples(
        st.sampled_from(["flip", "cut", "copy", "insert", "end"]),
        st.floats(0, 1, exclude_max=True),
        st.integers(1, 300),
        st.sampled_from(PIECES),
    )
    return draw(st.lists(edit, min_size=1, max_size=4))


def mutated(content, edits):
    for kind, place, length, piece in edits:
        at = int(place * len(content))
        head, tail = content[:at], content[at:]
        if kind == "flip" and tail:
            content = head + bytes([tail[0] ^ (length % 255 + 1)]) + tail[1:]
        elif kind == "cut":
            content = head + tail[length:]
        elif kind == "copy":
            content = head + tail[:length] + tail
        elif kind == "insert":
            content = head + piece + tail
        else:
            content = head
    return content


@pytest.fixture(autouse=True, scope="module")
def traced():
    """Trace memory all along.

    Were it done anew for each input, CPython would crash now and then: threads
    of pyarrow allocate while `tracemalloc` stops.
    """
    tracemalloc.start()
    yield
    tracemalloc.stop()


def read_safely(read, documented):
    """Read; whether it was refused. Other errors go through."""
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    try:
        read()
        return False
    except documented as error:
        assert str(error)
        return True
    finally:
        _, peak = tracemalloc.get_traced_memory()
        assert peak - before < MEMORY


def fuzz(folder, names, read, documented):
    """Mutate one of these files at a time."""
    originals = {name: (folder / name).read_bytes() for name in names}
    read()  # Imports what it needs.
    assert not read_safely(read, documented)
    refused = []

    @fuzzed
    @given(st.sampled_from(sorted(names)), mutations())
    def try_one(name, edits):
        (folder / name).write_bytes(mutated(originals[name], edits))
        try:
            refused.append(read_safely(read, documented))
        finally:
            (folder / name).write_bytes(originals[name])

    try_one()
    assert sum(refused) > len(refused) / 5  # Else the edits are no damage.


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to work in, where nothing that is run may write."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    yield tmp_path
    assert not os.listdir(tmp_path / "here")


def test_pickles(folder):
    values = [
        np.arange(6, dtype=np.int32).reshape(2, 3),
        sparse.csr_matrix(np.array([[0, 2.5, 0], [1, 0, 3]], np.float32)),
        {0: [1, 300], 1: [0], 70000: []},
    ]
    for place, value in enumerate(values):
        (folder / f"{place}").write_bytes(pickle.dumps(value, 2))
    fuzz(folder, [*"012"], lambda: read_pickles(folder), DataError)


def read_pickles(folder):
    for name in "012":
        restricted_pickle.loads((folder / name).read_bytes(), name)


def test_planetoid(folder, write_planetoid):
    write_planetoid(folder)
    names = [path.name for path in folder.glob("ind.*")]
    fuzz(
        folder,
        names,
        lambda: planetoid.read_planetoid(folder, "tiny", n_val=1, verify=False),
        DataError,
    )


def test_graphsage(folder):
    write_graphsage(folder)
    names = [path.name for path in folder.glob("tiny-*")]
    fuzz(
        folder,
        names,
        lambda: graphsage.read_graphsage(folder, "tiny"),
        DataError,
    )


@pytest.mark.parametrize("kind", ["converter", "dgl"])
def test_npz(folder, kind):
    {"converter": write_converter, "dgl": write_dgl}[kind](folder)
    names = [path.name for path in folder.glob("*.npz")]
    fuzz(folder, names, lambda: reddit.read_reddit(folder, kind), DataError)


RANDOM = "random:0.5/0.5/0"
# Graphs of a user's own: the content of each form.
OWN = {
    "csv": {"edges_csv": EDGES, "nodes_csv": NODES},
    "loose": {
        "edges_txt": "# c\na b\nb\t c\nc d\n",
        "nodes_tsv": NODES.replace(",", "\t"),
    },
    "quoted": {"edges_csv": EDGES, "nodes_csv": NODES.replace("red", '"r\nd"')},
    "several": {
        "edges_csv": "source,target,weight\n0,1,.5\n1,2,2\n",
        "nodes_csv": "id,split,label:p,label:q,x\n0,train,1,0,1\n1,val,1,1,2\n"
        "2,test,0,0,3\n",
    },
    "parquet": {
        "edges_parquet": table(EDGES),
        "nodes_parquet": table(NODES) | {"x": [[1.0, 2.0]] * 4},
    },
    "arrays": {
        "edges_npy": np.array([[0, 1], [1, 2], [2, 3]]),
        "features_npy": np.eye(4, dtype=np.float32),
        "labels_npy": np.array([0, 1, 1, 0]),
    },
    "matrices": {
        "edges_npz": sparse.coo_array(np.eye(4, k=1)),
        "features_npz": sparse.csr_array(np.eye(4, dtype=np.float32)),
        "labels_npy": np.array([0, 1, 1, 0]),
    },
}


@pytest.mark.parametrize("form", OWN)
def test_own_graph(folder, form):
    target = folder / "own"
    target.mkdir()
    write_own(target, **OWN[form])
    split = RANDOM if form in ("arrays", "matrices") else "given"
    names = [path.name for path in target.iterdir()]
    fuzz(target, names, lambda: read(target, split), DataError)


def test_own_graph_of_one_npz(folder):
    archive(folder / "mine.npz")
    path = folder / "mine.npz"
    fuzz(folder, ["mine.npz"], lambda: read(path, RANDOM), DataError)


def test_musae(folder):
    target = folder / "own"
    target.mkdir()
    musae(target)
    names = [path.name for path in target.iterdir()]
    fuzz(target, names, lambda: read(target, RANDOM), DataError)


@pytest.mark.parametrize("name", ["manifest.json", "*.npy"])
def test_store(folder, name):
    target = folder / "store"
    store.write_store(ring_graph(), target)
    names = [path.name for path in target.glob(name)]
    fuzz(target, names, lambda: store.read_store(target), DataError)


def test_store_whose_manifest_was_made_to_fit(folder):
    """The checksum of the manifest is no defence: anybody can compute it."""
    target = folder / "store"
    store.write_store(ring_graph(), target)
    path = target / "manifest.json"
    good = path.read_bytes()

    @fuzzed
    @given(mutations())
    def try_one(edits):
        try:
            manifest = json.loads(mutated(good, edits))
            manifest["crc32"] = store._checksum(manifest)
        except (
            ValueError,
            TypeError,
            RecursionError,
            AttributeError,
            KeyError,
        ):
            return
        path.write_text(json.dumps(manifest))
        read_safely(lambda: store.read_store(target), DataError)

    try_one()


def test_checkpoint(folder):
    write_checkpoint(folder / "checkpoint")
    fuzz(
        folder,
        ["checkpoint"],
        lambda: checkpoint_file.read(folder / "checkpoint"),
        CheckpointError,
    )


def write_checkpoint(path):
    values = {"epoch": 3, "rows": [{"loss": 0.5}], "text": "x"}
    arrays = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.array(7, np.int64),
        "none": np.empty((0, 4)),
    }
    checkpoint_file.write(path, values, arrays)
    return values, arrays


def test_checkpoint_comes_back_as_it_was(tmp_path):
    values, arrays = write_checkpoint(tmp_path / "checkpoint")
    found, read = checkpoint_file.read(tmp_path / "checkpoint")
    assert found == values
    assert list(read) == list(arrays)
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)
    assert os.listdir(tmp_path) == ["checkpoint"]


def test_checkpoint_whose_checksum_was_made_to_fit(folder):
    write_checkpoint(folder / "checkpoint")
    good = (folder / "checkpoint").read_bytes().split(b"\n", 2)[2]
    make = corpus_maker().checkpoint

    @fuzzed
    @given(mutations())
    def try_one(edits):
        head, _, content = mutated(good, edits).partition(b"\n")
        (folder / "checkpoint").write_bytes(make(head, content))
        read_safely(
            lambda: checkpoint_file.read(folder / "checkpoint"),
            CheckpointError,
        )

    try_one()


def test_records_of_a_run(folder):
    config = Config(output_dir=str(folder), resume=True)
    run_folder.write_json(folder / "config.json", config.as_dict())
    run_folder.write_json(folder / "result.json", {"epochs": 3})
    fuzz(
        folder,
        ["config.json", "result.json"],
        lambda: resume.finished_record(config, folder),
        RunFolderError,
    )


# The corpus.


def corpus_maker():
    """The module that wrote the corpus."""
    import runpy
    import types

    names = runpy.run_path(str(CORPUS / "make.py"))
    return types.SimpleNamespace(**names)


def read_as_manifest(content, folder):
    (folder / "manifest.json").write_bytes(content)
    store.read_store(folder)


def read_as_graph(content, folder):
    write_graphsage(folder)
    (folder / "tiny-G.json").write_bytes(content)
    graphsage.read_graphsage(folder, "tiny")


def read_as_matrix(content, folder):
    path = folder / "matrix.npz"
    path.write_bytes(content)
    sparse_npz.read_entries(path)


def read_as_features(content, folder):
    path = folder / "features.npy"
    path.write_bytes(content)
    npy_stream.read_float32(npy_stream.read_header(path))


def read_as_checkpoint(content, folder):
    path = folder / "checkpoint"
    path.write_bytes(content)
    checkpoint_file.read(path)


def read_as_edges(content, folder):
    write_own(folder, nodes_csv=NODES, edges_parquet=content)
    read(folder)


def read_as_target(content, folder):
    (musae(folder) / "target.csv").write_bytes(content)
    read(folder, RANDOM)


READERS = {
    "pickle": lambda content, _: restricted_pickle.loads(content, "file"),
    "npz": read_as_matrix,
    "npy": read_as_features,
    "node_link": read_as_graph,
    "parquet": read_as_edges,
    "musae": read_as_target,
    "manifest": read_as_manifest,
    "checkpoint": read_as_checkpoint,
}
FILES = sorted(p.relative_to(CORPUS) for p in CORPUS.glob("*/*") if p.is_file())


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.parent.name in READERS], ids=str
)
def test_file_of_the_corpus_is_refused(path, folder):
    content = (CORPUS / path).read_bytes()
    read = READERS[path.parent.name]
    documented = (DataError, CheckpointError)
    assert read_safely(lambda: read(content, folder), documented)


def test_corpus_holds_what_its_program_makes():
    made = corpus_maker().FILES
    assert {str(p) for p in FILES if p.parent.name in READERS} == {
        f"{kind}/{name}" for kind, files in made.items() for name in files
    }


def test_hostile_pickles_would_run_code(tmp_path, monkeypatch):
    """Else that they are refused would prove nothing."""
    monkeypatch.chdir(tmp_path)
    pickle.load(io.BytesIO((CORPUS / "pickle/mkdir.pickle").read_bytes()))
    assert os.listdir(tmp_path) == ["owned"]
