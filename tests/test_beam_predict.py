"""The full architecture as a Beam pipeline, beside the same in memory."""

import dataclasses
import os
import pathlib
import subprocess
import sys

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from absl import flags
from absl.testing import flagsaver
from apache_beam.options.pipeline_options import PipelineOptions
from pyarrow import parquet
from scipy import sparse

from adaptive_gcn import loading, run_folder, targets, training
from adaptive_gcn import predict as in_memory
from adaptive_gcn.adjacency import normalize_adjacency
from adaptive_gcn.beam import gathering, outputs, predict
from adaptive_gcn.beam.blocks import (
    AdjacencyRows,
    Blocks,
    Rows,
)
from adaptive_gcn.config import Config, ConfigError
from adaptive_gcn.datasets import store
from adaptive_gcn.errors import DataError
from adaptive_gcn.graph import Graph
from tests.helpers import (
    ring_graph,
    with_several_labels,
    with_weights,
)

ROOT = pathlib.Path(__file__).parents[1]
# The default runner would first try to fetch another one.
RUNNER = (
    "--runner=apache_beam.runners.portability.fn_api_runner.fn_runner."
    "FnApiRunner"
)


def six_nodes():
    """A path 0-1-2-3 with weights, an edge 0-2, 4 alone and 5 alone."""
    rng = np.random.default_rng(3)
    return Graph.from_edges(
        [[0, 1], [1, 2], [2, 3], [0, 2]],
        rng.normal(size=(6, 3)).astype(np.float32),
        [0, 1, 0, 1, 1, 0],
        [0, 1],
        [2, 4],
        [3],
        directed=False,
        weights=[1.0, 2.0, 0.5, 4.0],
    )


def run_of(graph, folder, **settings):
    """A run on `graph` in a store, with weights drawn at random."""
    place = folder / "graph"
    store.write_store(graph, place)
    config = Config(
        output_dir=str(folder),
        **{
            "dataset_dir": str(place),
            "hidden_units": (5, 4),
            "samples_per_layer": (8,),
            "embeddings": True,
            **settings,
        },
    )
    save_weights(config)
    return config


def save_weights(config):
    network = training.build_model(config, loading.load(config))
    rng = np.random.default_rng(1)
    network.set_weights(
        [rng.normal(size=each.shape) for each in network.get_weights()]
    )
    network.save_weights(pathlib.Path(config.output_dir) / run_folder.WEIGHTS)
    run_folder.write_json(
        pathlib.Path(config.output_dir) / run_folder.CONFIG, config.as_dict()
    )


def predicted(config, folder, block_nodes=7, words=(RUNNER,)):
    """What the pipeline wrote, all blocks in one table."""
    predict.predict(config, str(folder), block_nodes, PipelineOptions([*words]))
    files = sorted(folder.iterdir())
    assert [path.name for path in files] == [
        f"predictions-{i:05d}-of-{len(files):05d}.parquet"
        for i in range(len(files))
    ]
    return pa.concat_tables([parquet.read_table(path) for path in files])


def expected(config, folder):
    path = folder / "in_memory.parquet"
    in_memory.predict(dataclasses.replace(config, predictions=str(path)))
    return parquet.read_table(path)


def assert_same(found, wanted):
    assert found.schema == wanted.schema
    for name in wanted.column_names:
        ours, theirs = found[name].to_numpy(), wanted[name].to_numpy()
        if theirs.dtype.kind == "f":
            scale = max(1.0, np.abs(theirs).max())
            np.testing.assert_allclose(ours, theirs, atol=2e-6 * scale)
        else:
            np.testing.assert_array_equal(ours, theirs)


# By hand.


def test_outputs_are_those_of_dense_matrices(tmp_path):
    graph = six_nodes()
    config = run_of(
        graph, tmp_path, hidden_units=(4,), features="raw", identity_weight=0.5
    )
    network = training.build_model(config, graph)
    training.load_weights(network, config)
    first, second = (each.kernel.numpy() for each in network.convolutions)
    looped = graph.adjacency.toarray() + np.eye(6)
    inverse = np.diag(looped.sum(1) ** -0.5)
    matrix = inverse @ looped @ inverse + 0.5 * np.eye(6)
    hidden = np.maximum(matrix @ graph.features @ first, 0)
    logits = matrix @ hidden @ second
    found = predicted(config, tmp_path / "out", block_nodes=2)
    for i, unit in enumerate(hidden.T):
        np.testing.assert_allclose(found[f"embedding_{i}"], unit, atol=1e-5)
    odds = np.exp(logits)
    probabilities = odds / odds.sum(1, keepdims=True)
    np.testing.assert_allclose(
        found["probability"], probabilities.max(1), atol=1e-5
    )
    assert found["id"].to_pylist() == [*range(6)]
    names = [graph.class_names[i] for i in probabilities.argmax(1)]
    assert found["class"].to_pylist() == names


def test_blocks_cover_all_nodes_and_one_may_be_larger_than_the_graph():
    assert [Blocks(7, 3).bounds(i) for i in range(Blocks(7, 3).count)] == [
        (0, 3),
        (3, 6),
        (6, 7),
    ]
    assert Blocks(7, 100).count == 1
    assert Blocks(7, 100).bounds(0) == (0, 7)


def test_a_block_asks_for_the_ends_of_its_edges_and_for_itself():
    blocks = Blocks(6, 2)
    asked = [
        {to: places.tolist() for to, places in rows.requests()}
        for rows in (
            AdjacencyRows(six_nodes().adjacency, blocks, i) for i in range(3)
        )
    ]
    assert asked == [{0: [0, 1], 1: [0]}, {0: [0, 1], 1: [0, 1]}, {2: [0, 1]}]


@pytest.mark.parametrize("normalization", ["sym", "row"])
@pytest.mark.parametrize("size", [1, 4, 40])
def test_rows_of_a_block_have_the_bits_of_the_whole_matrix(normalization, size):
    graph = with_weights(ring_graph())
    whole = normalize_adjacency(graph.adjacency, normalization, False, 0.3)
    degree = graph.adjacency.sum(axis=1, dtype=np.float64) + 1.0
    blocks = Blocks(30, size)
    for block in range(blocks.count):
        start, stop = blocks.bounds(block)
        rows = AdjacencyRows(graph.adjacency, blocks, block)
        answers, columns = [], []
        for other, places in rows.requests():
            ids = blocks.bounds(other)[0] + places
            answers.append(Rows(other, None, degree[ids], None, None))
            columns.append(ids)
        part = rows.normalized(
            degree[start:stop], answers[::-1], normalization, 0.3
        )
        columns = np.concatenate(columns[::-1])
        np.testing.assert_array_equal(
            part.toarray(), whole[start:stop].toarray()[:, columns]
        )
        assert part.nnz == whole[start:stop].nnz


def test_pieces_are_gathered_until_they_are_large():
    sizes = [*gathering.gathered([1, 2, 5, 1], int, 3)]
    assert sizes == [[1, 2], [5], [1]]
    assert not [*gathering.gathered([], int, 3)]


# Beside the in-memory path.


def isolated(graph):
    """The graph without any edge of its first ten nodes."""
    keep = sparse.diags_array((np.arange(graph.n_nodes) > 9).astype(np.float32))
    adjacency = sparse.csr_array(keep @ graph.adjacency @ keep)
    adjacency.eliminate_zeros()
    return dataclasses.replace(graph, adjacency=adjacency)


SETTINGS = {
    "row": {"normalization": "row", "identity_weight": 0.7},
    "two hops": {"two_hop": True, "identity_weight": 0.7},
    "paper": {"attention": "paper"},
    "plus_one": {"attention": "plus_one", "features": "row"},
    "standard": {"features": "standard"},
    "precompute": {"precompute": True, "attention": "paper"},
    "precompute, one hidden": {"precompute": True, "hidden_units": (4,)},
    "precompute two hops": {"precompute": True, "two_hop": True},
    "skip": {"skip": True},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_outputs_equal_those_in_memory(name, tmp_path):
    config = run_of(with_weights(ring_graph()), tmp_path, **SETTINGS[name])
    found = predicted(config, tmp_path / "out")
    # Scaled features are made here block by block and kept nowhere.
    assert not (tmp_path / "graph" / "derived").exists()
    assert_same(found, expected(config, tmp_path))


SPARSE = {
    "plain": {"hidden_units": (4,)},
    "plus_one": {"attention": "plus_one"},
    "paper": {"attention": "paper"},
    "standard": {"features": "standard"},
    "precompute": {"precompute": True, "two_hop": True, "identity_weight": 0.7},
    "precompute attention": {"precompute": True, "attention": "plus_one"},
}


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_features_and_isolated_nodes(name, tmp_path):
    graph = isolated(ring_graph(sparse=sparse.csr_array))
    config = run_of(graph, tmp_path, **SPARSE[name])
    found = predicted(config, tmp_path / "out")
    assert_same(found, expected(config, tmp_path))


@pytest.mark.parametrize("size", [1, 10**9])
def test_size_of_the_blocks_does_not_show(size, tmp_path):
    config = run_of(ring_graph(), tmp_path, attention="paper")
    found = predicted(config, tmp_path / "out", size)
    assert_same(found, expected(config, tmp_path))


def test_several_labels_and_names(tmp_path):
    graph = dataclasses.replace(
        with_several_labels(ring_graph()),
        node_ids=np.array([f"n{i}" for i in range(30)]),
    )
    config = run_of(graph, tmp_path)
    found = predicted(config, tmp_path / "out")
    assert found.column_names[:2] == ["id", "probability:a"]
    assert_same(found, expected(config, tmp_path))


def test_a_graph_of_one_node(tmp_path):
    graph = Graph.from_edges(
        np.empty((0, 2), np.int64), np.ones((1, 2)), [0], [0], n_classes=2
    )
    config = run_of(graph, tmp_path)
    found = predicted(config, tmp_path / "out")
    assert_same(found, expected(config, tmp_path))


def test_workers_in_other_processes(tmp_path):
    config = run_of(ring_graph(), tmp_path, attention="paper")
    words = (
        "--direct_running_mode=multi_processing",
        "--direct_num_workers=2",
        RUNNER,
    )
    found = predicted(config, tmp_path / "out", words=words)
    assert_same(found, expected(config, tmp_path))


@pytest.mark.data
@pytest.mark.parametrize("name", ["cora", "citeseer"])
def test_published_graphs(name, data_dir, tmp_path):
    config = Config(
        output_dir=str(tmp_path),
        dataset=name,
        data_dir=str(data_dir / "planetoid"),
        embeddings=True,
    )
    save_weights(config)
    found = predicted(config, tmp_path / "out", 1000)
    assert_same(found, expected(config, tmp_path))


# What is written, and where.


def test_listed_nodes_come_block_by_block_in_their_order(tmp_path):
    config = run_of(ring_graph(), tmp_path)
    listed = tmp_path / "ids"
    listed.write_text("9\n3\n1\n8\n25\n")
    config = dataclasses.replace(config, nodes=str(listed), embeddings=False)
    found = predicted(config, tmp_path / "out")
    assert found["id"].to_pylist() == [3, 1, 9, 8, 25]
    assert found.column_names == ["id", "class", "probability"]
    assert len([*(tmp_path / "out").iterdir()]) == 5


def test_a_part_of_the_split(tmp_path):
    graph = ring_graph()
    config = run_of(graph, tmp_path)
    config = dataclasses.replace(config, nodes="test")
    found = predicted(config, tmp_path / "out")
    by_block = sorted(graph.test_nodes, key=lambda node: node // 7)
    assert found["id"].to_pylist() == by_block


def test_a_folder_in_use_is_refused_unless_overwritten(tmp_path):
    config = run_of(ring_graph(), tmp_path)
    folder = tmp_path / "out"
    assert len(predicted(config, folder, 10)) == 30
    before = sorted(folder.iterdir())
    with pytest.raises(run_folder.RunFolderError, match="give --overwrite"):
        predicted(config, folder, 15)
    assert sorted(folder.iterdir()) == before
    config = dataclasses.replace(config, overwrite=True)
    assert len(predicted(config, folder, 15)) == 30
    assert len([*folder.iterdir()]) == 2


@pytest.mark.parametrize("settings", [{}, {"several": True}])
def test_other_accuracy_than_the_runs_leaves_nothing(settings, tmp_path):
    graph = ring_graph()
    if settings:
        graph = with_several_labels(graph)
    config = run_of(graph, tmp_path)
    loaded = training.load_graph(config)
    network = training.build_model(config, loaded)
    training.load_weights(network, config)
    full = training.full_propagation(config, loaded)
    logits = full.logits(network, graph.val_nodes)
    accuracy = targets.accuracy(graph.labels[graph.val_nodes], logits)
    result = tmp_path / run_folder.RESULT
    run_folder.write_json(result, {"val_accuracy": accuracy})
    assert len(predicted(config, tmp_path / "good")) == 30
    run_folder.write_json(result, {"val_accuracy": accuracy + 0.01})
    before = sorted(tmp_path.iterdir())
    with pytest.raises(run_folder.RunFolderError, match="have changed"):
        predicted(config, tmp_path / "bad")
    other = {"val_accuracy": accuracy, "selection_checksum": 1}
    run_folder.write_json(result, other)
    with pytest.raises(run_folder.RunFolderError, match="other training or"):
        predicted(config, tmp_path / "bad")
    assert sorted(tmp_path.iterdir()) == before


def test_a_worker_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def fail(table):
        raise OSError("the disk is full")

    config = run_of(ring_graph(), tmp_path)
    monkeypatch.setattr(outputs, "_as_parquet", fail)
    refused(config, tmp_path / "out", Exception, "the disk is full")


def test_weights_that_changed_are_read_anew(tmp_path):
    config = run_of(ring_graph(), tmp_path)
    first = predicted(config, tmp_path / "first")
    network = training.build_model(config, ring_graph())
    network.save_weights(tmp_path / run_folder.WEIGHTS)
    second = predicted(config, tmp_path / "second")
    assert first["probability"] != second["probability"]
    assert_same(second, expected(config, tmp_path))


def test_a_file_that_is_written_again_is_whole(tmp_path):
    path = tmp_path / "file"
    outputs.write_file(str(path), b"one")
    outputs.write_file(str(path), b"two")
    assert path.read_bytes() == b"two"
    assert [*tmp_path.iterdir()] == [path]


def test_a_file_system_that_replaces_nothing(tmp_path, monkeypatch):
    def refuse(sources, targets):
        raise outputs.BeamIOError("it is there already")

    path = tmp_path / "file"
    path.write_bytes(b"of the first attempt")
    monkeypatch.setattr(outputs.FileSystems, "rename", refuse)
    outputs.write_file(str(path), b"of the second")
    assert path.read_bytes() == b"of the first attempt"
    assert [*tmp_path.iterdir()] == [path]
    path.unlink()
    with pytest.raises(OSError, match="it is there already"):
        outputs.write_file(str(path), b"lost")


# What is refused, before any work.


@pytest.fixture
def no_pipeline(monkeypatch):
    def refuse(self):
        raise AssertionError("the pipeline was started")

    monkeypatch.setattr(beam.Pipeline, "__enter__", refuse)


def refused(config, folder, kind, match, words=(RUNNER,)):
    """Ends with the error, and leaves the folder of the run as it was."""
    place = pathlib.Path(config.output_dir)
    before = sorted(place.rglob("*"))
    with pytest.raises(kind, match=match):
        predicted(config, folder, words=words)
    assert sorted(place.rglob("*")) == before


def test_what_a_user_can_mend_is_refused_first(no_pipeline, tmp_path):
    config = run_of(ring_graph(), tmp_path)
    folder, error = tmp_path / "out", run_folder.RunFolderError
    change = dataclasses.replace
    refused(
        change(config, two_hop=True, attention="paper"),
        folder,
        ConfigError,
        "--two_hop with --attention=paper",
    )
    refused(change(config, nodes="tset"), folder, DataError, "tset: expected")
    other = change(config, hidden_units=(3, 4))
    refused(other, folder, error, "not the weights of this network")
    refused(config, tmp_path / "o[u]t", error, r"without \*, \? and")
    refused(config, tmp_path / "graph.csv", AssertionError, "was started")
    taken = tmp_path / run_folder.CONFIG
    refused(config, taken, error, "is a file; give a folder")
    refused(config, taken / "out", error, "cannot write there")
    words = ("--runner=Typo",)
    refused(
        config, folder, ConfigError, "--beam_pipeline_options: .*Typo", words
    )
    (tmp_path / run_folder.WEIGHTS).unlink()
    refused(config, folder, error, "there are no weights")
    gone = change(config, dataset_dir=str(tmp_path / "gone"))
    refused(gone, folder, OSError, "there is no such folder")


def test_a_scheme_without_a_file_system_is_refused(no_pipeline, tmp_path):
    config = run_of(ring_graph(), tmp_path)
    options = PipelineOptions([RUNNER])
    with pytest.raises(
        run_folder.RunFolderError, match="nowhere://a/b: cannot"
    ):
        predict.predict(config, "nowhere://a/b", 7, options)


# The command line.


@pytest.fixture
def fresh_flags():
    with flagsaver.flagsaver():
        flags.FLAGS.unparse_flags()
        yield


def test_flags_are_those_of_the_run_and_a_folder(fresh_flags, tmp_path):
    config = run_of(ring_graph(), tmp_path, embeddings=False)
    place = f"--output_dir={tmp_path}"
    given = ["predict", place, "--predictions=some/folder/", "--embeddings"]
    found, folder = predict.parse_flags(given)
    assert folder == "some/folder"
    assert found == dataclasses.replace(
        config, mode="predict", embeddings=True, predictions=""
    )
    flags.FLAGS.unparse_flags()
    assert predict.parse_flags(["predict", place])[1] == (
        f"{tmp_path}/predictions"
    )
    flags.FLAGS.unparse_flags()
    with pytest.raises(flags.Error, match="expected --mode=predict"):
        predict.parse_flags(["predict", place, "--mode=train"])


def test_the_command_says_what_it_wrote(tmp_path):
    run_of(ring_graph(), tmp_path)
    done = command(
        f"--output_dir={tmp_path}",
        "--nodes=val",
        "--block_nodes=8",
        f"--beam_pipeline_options={RUNNER[2:]},direct_num_workers=1",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"6 nodes of graph: {tmp_path}/predictions\n"
    assert len([*(tmp_path / "predictions").iterdir()]) == 4


def test_the_command_ends_in_one_line(fresh_flags, tmp_path):
    run_of(ring_graph(), tmp_path)
    parsed = predict.parse_flags(
        ["predict", f"--output_dir={tmp_path}", "--nodes=tset"]
    )
    with pytest.raises(SystemExit) as end:
        predict._main(parsed)
    assert str(end.value).startswith("DataError: --nodes=tset: expected all")


def command(*words):
    return subprocess.run(
        [sys.executable, "-m", "adaptive_gcn.beam.predict", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
