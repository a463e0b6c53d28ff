"""Stores of sharded tables, made by Apache Beam."""

import csv
import itertools
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from absl.testing import flagsaver
from pyarrow import parquet
from scipy import sparse

pytest.importorskip("apache_beam")

from adaptive_gcn import graph_digest  # noqa: E402
from adaptive_gcn.beam import edges, prepare, shards  # noqa: E402
from adaptive_gcn.config import Config  # noqa: E402
from adaptive_gcn.datasets import store  # noqa: E402
from adaptive_gcn.datasets.faults import FaultyDataError  # noqa: E402
from adaptive_gcn.datasets.folder import read_folder  # noqa: E402
from adaptive_gcn.datasets.folder_options import FolderOptions  # noqa: E402
from adaptive_gcn.errors import DataError  # noqa: E402
from adaptive_gcn.split_rule import SplitRule  # noqa: E402

pytestmark = pytest.mark.usefixtures("parsed_flags")

NODES = [
    ("id", "label", "split", "x0", "x1"),
    ("a", "red", "train", 1, 0.5),
    ("b", "blue", "train", 0, 1),
    ("007", "red", "val", 2, 0),
    ("7", "", "", 0, 0),
    ("ä,c", "blue", "test", -1, 3),
    ("lone", "red", "train", 4, 4),
]
EDGES = [
    ("source", "target"),
    ("a", "b"),
    ("b", "a"),
    ("a", "b"),
    ("7", "007"),
    ("ä,c", "a"),
    ("b", "b"),
    ("b", "b"),
    ("7", "7"),
    ("b", "ä,c"),
]


def write_csv(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


def write_shards(folder, part, rows, n_shards, write=write_csv, suffix=".csv"):
    """The rows below the head, cut into shards of about one size."""
    folder.mkdir(exist_ok=True)
    head, *body = rows
    bounds = np.linspace(0, len(body), n_shards + 1).astype(int)
    for i, (start, stop) in enumerate(itertools.pairwise(bounds)):
        path = folder / f"{part}-{i:05d}{suffix}"
        write(path, [head, *body[start:stop]])


def write_parquet(path, rows):
    head, *body = rows
    columns = zip(*body, strict=True)
    parquet.write_table(pa.table(dict(zip(head, columns, strict=True))), path)


def made(folder, target, block_nodes=4, **options):
    """The store of a folder of shards."""
    config = Config(
        mode="convert",
        to="store",
        dataset="folder",
        dataset_dir=str(folder),
        output_dir=str(target),
        **options,
    )
    with (
        flagsaver.flagsaver(block_nodes=block_nodes),
        mock.patch.object(prepare, "_BUCKET_IDS", 2),
        mock.patch.object(edges, "_PIECE", 4),
    ):
        prepare.prepare(config)
    return store.read_store(target)


def check_same(received, expected):
    assert graph_digest.digest(received) == graph_digest.digest(expected)
    assert received.edge_statistics == expected.edge_statistics
    assert received.class_names == expected.class_names
    for name in ("indptr", "indices", "data"):
        own, other = (
            getattr(each.adjacency, name) for each in (received, expected)
        )
        np.testing.assert_array_equal(own, other)
    np.testing.assert_array_equal(received.labels, expected.labels)
    np.testing.assert_array_equal(
        received.split_codes(), expected.split_codes()
    )
    own, other = received.features, expected.features
    if sparse.issparse(other):
        own, other = own.toarray(), other.toarray()
    np.testing.assert_array_equal(own, other)
    if expected.node_ids is None:
        assert received.node_ids is None
    else:
        assert received.node_ids.tolist() == expected.node_ids.tolist()


@pytest.mark.parametrize(
    ("n_shards", "block_nodes"), [(1, 100), (3, 1), (4, 4)]
)
def test_named_nodes_equal_reading_in_memory(tmp_path, n_shards, block_nodes):
    parts = tmp_path / "parts"
    write_shards(parts, "nodes", NODES, n_shards)
    write_shards(parts, "edges", EDGES, n_shards)
    whole = tmp_path / "whole"
    whole.mkdir()
    write_csv(whole / "nodes.csv", NODES)
    write_csv(whole / "edges.csv", EDGES)
    received = made(parts, tmp_path / "store", block_nodes)
    check_same(received, read_folder(whole))


def test_value_of_a_small_graph(tmp_path):
    write_shards(tmp_path / "g", "nodes", NODES, 2)
    write_shards(tmp_path / "g", "edges", EDGES, 2)
    graph = made(tmp_path / "g", tmp_path / "store")
    pairs = {(0, 1), (2, 3), (0, 4), (1, 4)}
    dense = np.zeros((6, 6))
    for u, v in pairs:
        dense[u, v] = dense[v, u] = 1
    np.testing.assert_array_equal(graph.adjacency.toarray(), dense)
    statistics = graph.edge_statistics
    assert statistics.entries == 9
    assert statistics.duplicates == 2  # (a, b) and the loop at b.
    assert statistics.self_loops == 2
    assert statistics.reversed_added == 3
    assert graph.node_ids.tolist() == [row[0] for row in NODES[1:]]
    assert not list(tmp_path.glob(".store.beam-*"))


def random_edges(n_nodes, n_edges, weighted, seed=0):
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, n_nodes, (n_edges, 2))
    if not weighted:
        return [("u", "v"), *ends.tolist()]
    # One weight for an edge, in both directions; some are 0.
    weights = (ends.sum(axis=1) % 5) / 4
    rows = zip(*ends.T.tolist(), weights.tolist(), strict=True)
    return [("u", "v", "w"), *rows]


@pytest.mark.parametrize("weighted", [False, True])
def test_numbered_rows_in_parquet(tmp_path, weighted):
    rows = random_edges(97, 600, weighted)
    features = np.random.default_rng(1).normal(size=(97, 3)).astype(np.float32)
    labels = np.arange(97) % 4
    for name, n_shards in (("parts", 5), ("whole", 1)):
        folder = tmp_path / name
        folder.mkdir()
        np.save(folder / "features.npy", features)
        np.save(folder / "labels.npy", labels)
        if name == "parts":
            write_shards(
                folder, "edges", rows, n_shards, write_parquet, ".parquet"
            )
        else:
            write_parquet(folder / "edges.parquet", rows)
    received = made(
        tmp_path / "parts",
        tmp_path / "store",
        block_nodes=10,
        split="random:0.5/0.2/0.3",
        split_seed=3,
    )
    options = FolderOptions(
        split=SplitRule.parse("random:0.5/0.2/0.3"), split_seed=3
    )
    check_same(received, read_folder(tmp_path / "whole", options))


def test_several_labels_and_degrees_as_features(tmp_path):
    head, *body = NODES
    rows = [("id", "label:p", "label:a", "split")]
    rows += [(r[0], i % 2, 1, r[2] or "train") for i, r in enumerate(body)]
    write_shards(tmp_path / "parts", "nodes", rows, 2)
    write_shards(tmp_path / "parts", "edges", EDGES, 2)
    whole = tmp_path / "whole"
    whole.mkdir()
    write_csv(whole / "nodes.csv", rows)
    write_csv(whole / "edges.csv", EDGES)
    received = made(
        tmp_path / "parts", tmp_path / "store", missing_features="degree"
    )
    expected = read_folder(whole, FolderOptions(missing_features="degree"))
    assert received.class_names == ("p", "a")
    check_same(received, expected)


@pytest.mark.slow
def test_several_processes(tmp_path):
    write_shards(tmp_path / "g", "nodes", NODES, 3)
    write_shards(tmp_path / "g", "edges", EDGES, 3)
    alone = made(tmp_path / "g", tmp_path / "alone")
    with flagsaver.flagsaver(
        beam_pipeline_options=[
            "direct_running_mode=multi_processing",
            "direct_num_workers=2",
        ]
    ):
        both = made(tmp_path / "g", tmp_path / "both")
    check_same(both, alone)


def texts_of(error):
    return [str(each) for each in error.value.faults]


def test_every_fault_is_counted_over_the_shards(tmp_path):
    write_shards(tmp_path / "g", "nodes", NODES, 2)
    rows = [*EDGES, ("x", "a"), ("a", "y"), ("x", "z")]
    write_shards(tmp_path / "g", "edges", rows, 3)
    with pytest.raises(FaultyDataError) as error:
        made(tmp_path / "g", tmp_path / "store")
    (text,) = texts_of(error)
    # The second end of the third is not looked at, as its first is unknown.
    assert "3 ends name a node that is not among the nodes" in text
    assert "edges-00002.csv: 'x'" in text
    assert ": 'y'" in text
    assert not (tmp_path / "store").exists()
    assert not list(tmp_path.glob(".store.beam-*"))


def test_weights(tmp_path):
    write_shards(tmp_path / "g", "nodes", NODES, 2)
    rows = [("source", "target", "weight"), ("a", "b", 2), ("b", "7", -1)]
    write_shards(tmp_path / "g", "edges", rows, 2)
    with pytest.raises(FaultyDataError, match="1 have a weight that is neg"):
        made(tmp_path / "g", tmp_path / "store")
    rows = [("source", "target", "weight"), ("a", "b", 2), ("b", "a", 1)]
    write_shards(tmp_path / "h", "nodes", NODES, 2)
    write_shards(tmp_path / "h", "edges", rows, 2)
    with pytest.raises(FaultyDataError, match="1 have entries of different"):
        made(tmp_path / "h", tmp_path / "store")
    rows = [
        ("source", "target", "weight"),
        ("a", "b", 3e38),
        ("a", "7", 3e38),
    ]
    write_shards(tmp_path / "i", "nodes", NODES, 2)
    write_shards(tmp_path / "i", "edges", rows, 2)
    with pytest.raises(FaultyDataError, match="at 1 nodes the sum of the"):
        made(tmp_path / "i", tmp_path / "store")


def test_ids_that_repeat_in_another_shard(tmp_path):
    write_shards(tmp_path / "g", "nodes", [*NODES, NODES[1]], 2)
    write_shards(tmp_path / "g", "edges", EDGES, 1)
    with pytest.raises(FaultyDataError, match=r"nodes-00001.csv row \d: 'a'"):
        made(tmp_path / "g", tmp_path / "store")


def test_shards_that_differ(tmp_path):
    folder = tmp_path / "g"
    write_shards(folder, "edges", EDGES, 1)
    write_csv(folder / "nodes-0.csv", NODES[:3])
    write_csv(folder / "nodes-1.csv", [r[:4] for r in [NODES[0], *NODES[3:]]])
    with pytest.raises(DataError, match=r"nodes-1.csv has x0; nodes-0.csv has"):
        made(folder, tmp_path / "store")
    rows = [(*r[:3], r[4], r[3]) for r in [NODES[0], *NODES[3:]]]
    write_csv(folder / "nodes-1.csv", rows)
    with pytest.raises(DataError, match=r"nodes-1.csv has x1, x0"):
        made(folder, tmp_path / "store")
    rows = [(r[0], *r[2:]) for r in [NODES[0], *NODES[3:]]]
    write_csv(folder / "nodes-1.csv", rows)
    with pytest.raises(DataError, match=r"nodes-1.csv: has no labels"):
        made(folder, tmp_path / "store")


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        (("source", "target", "cost"), "edges: expected the same columns"),
        (("payer", "payee", "weight"), r"edges-1.csv line 1: 'weight'"),
    ],
)
def test_edges_of_other_columns(tmp_path, head, problem):
    write_shards(tmp_path / "g", "nodes", NODES, 2)
    rows = [("source", "target", "weight"), ("a", "b", 2)]
    write_csv(tmp_path / "g" / "edges-0.csv", rows)
    write_csv(tmp_path / "g" / "edges-1.csv", [head, ("a", "7", 2)])
    with pytest.raises(DataError, match=problem):
        made(tmp_path / "g", tmp_path / "store")


def test_labels_missing_in_all_of_a_shard(tmp_path):
    columns = {"id": ["a", "b"], "split": ["train", "train"]}
    (tmp_path / "g").mkdir()
    tables = (
        {**columns, "label": ["red", "blue"]},
        {"id": ["c"], "split": [""], "label": pa.nulls(1)},
    )
    for i, table in enumerate(tables):
        path = tmp_path / "g" / f"nodes-{i}.parquet"
        parquet.write_table(pa.table(table), path)
    rows = [("source", "target"), ("a", "c")]
    write_csv(tmp_path / "g" / "edges.csv", rows)
    graph = made(
        tmp_path / "g", tmp_path / "store", missing_features="constant"
    )
    assert graph.class_names == ("blue", "red")
    assert graph.labels.tolist() == [1, 0, -1]


@pytest.mark.parametrize("name", ["edges-5.csv.gz", "edges-5.CSV", "nodes-x"])
def test_files_that_would_be_left_out(tmp_path, name):
    write_shards(tmp_path, "edges", EDGES, 1)
    (tmp_path / name).write_text("a,b")
    with pytest.raises(DataError, match=f"{name}: is not read"):
        shards.find_shards(tmp_path)


def test_pairs_of_pairs(tmp_path):
    paths = [tmp_path / f"edges-{i}.npy" for i in range(2)]
    np.save(paths[0], np.zeros((2, 3), np.int64))
    np.save(paths[1], np.zeros((2, 2), np.int64))
    shards.check_pairs(paths[:1])
    with pytest.raises(DataError, match=r"edges-1.npy: of shape \[2, 2\]"):
        shards.check_pairs(paths)


def test_warnings_are_kept_in_the_store(tmp_path, caplog):
    write_shards(tmp_path / "g", "nodes", NODES, 2)
    rows = [("source", "target", "weight"), ("a", "b", 2), ("7", "a", 0)]
    write_shards(tmp_path / "g", "edges", rows, 2)
    made(tmp_path / "g", tmp_path / "store")
    for _ in range(2):
        assert "1 entries had no reverse entry" in caplog.text
        assert "1 edges have weight 0 and are left out, one is" in caplog.text
        caplog.clear()
        store.read_store(tmp_path / "store")


def test_command_ends_in_one_line(tmp_path, capsys):
    write_shards(tmp_path / "g", "nodes", NODES, 2)
    write_shards(tmp_path / "g", "edges", [*EDGES, ("x", "a")], 2)
    words = [f"--dataset_dir={tmp_path}/g", f"--output_dir={tmp_path}/store"]

    def ended(*more):
        with flagsaver.flagsaver(), pytest.raises(SystemExit) as error:
            prepare.run(prepare.parse(["prepare", *words, *more]))
        return str(error.value)

    assert "--mode=train --to=store: this makes" in ended("--mode=train")
    assert "1 ends name a node that is not" in ended()
    text = ended("--beam_pipeline_options=direct_num_workers=abc")
    assert text.startswith("ConfigError: --beam_pipeline_options: ")
    assert "invalid int value: 'abc'" in text
    text = ended("--beam_pipeline_options=runner=Nope")
    assert text.startswith("ConfigError: --beam_pipeline_options: ")
    words[0] = f"--dataset_dir={tmp_path}/nowhere"
    assert "there is no such folder" in ended()
    with mock.patch.object(edges, "distinct", side_effect=OSError):
        words[0] = f"--dataset_dir={tmp_path}/h"
        write_shards(tmp_path / "h", "nodes", NODES, 2)
        write_shards(tmp_path / "h", "edges", EDGES, 2)
        assert ended().startswith(("PipelineError: ", "OSError: "))
    assert not list(tmp_path.glob(".store*beam*"))


def test_folders_that_cannot_be_read(tmp_path):
    with pytest.raises(DataError, match="expected edges.csv, or edges-00000"):
        shards.find_shards(tmp_path)
    write_csv(tmp_path / "edges.csv", EDGES)
    with pytest.raises(DataError, match="expected nodes.csv, or nodes-00000"):
        made(tmp_path, tmp_path / "store")
    write_csv(tmp_path / "edges-00000.csv", EDGES)
    with pytest.raises(DataError, match="expected edges in one form"):
        shards.find_shards(tmp_path)


def test_columns_that_no_shard_has(tmp_path):
    write_shards(tmp_path / "g", "nodes", NODES, 2)
    write_shards(tmp_path / "g", "edges", EDGES, 2)
    with pytest.raises(DataError, match="there is no such column"):
        made(tmp_path / "g", tmp_path / "store", columns="weight=cost")


def test_damaged_shard_is_named(tmp_path):
    write_shards(tmp_path / "g", "nodes", NODES, 2)
    write_shards(tmp_path / "g", "edges", EDGES, 2)
    for each in (tmp_path / "g").glob("edges-*"):
        each.unlink()
    (tmp_path / "g" / "edges-0.parquet").write_bytes(b"PAR1 not really PAR1")
    with pytest.raises(FaultyDataError, match=r"edges-0\.parquet"):
        made(tmp_path / "g", tmp_path / "store")


def test_target_is_kept(tmp_path):
    write_shards(tmp_path / "g", "nodes", NODES, 2)
    write_shards(tmp_path / "g", "edges", EDGES, 2)
    made(tmp_path / "g", tmp_path / "store")
    with pytest.raises(DataError, match="--overwrite"):
        made(tmp_path / "g", tmp_path / "store")
    made(tmp_path / "g", tmp_path / "store", overwrite=True)


def test_distinct_against_a_slow_count():
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, 5, (2, 60))
    backward = rng.random(60) < 0.5
    kept, repeats, added, conflicts = edges.distinct(
        rows, columns, backward, np.ones(60, np.float32)
    )
    entries = [*zip(rows.tolist(), columns.tolist(), backward, strict=True)]
    pairs = sorted({(u, v) for u, v, _ in entries})
    assert [*zip(kept[0].tolist(), kept[1].tolist(), strict=True)] == pairs
    forward = [(u, v) for u, v, is_backward in entries if not is_backward]
    assert repeats == len(forward) - len(set(forward))
    assert added == len(set(pairs) - set(forward))
    assert conflicts == []
