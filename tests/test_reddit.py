"""The three formats of Reddit give the same graph; each defect is named."""

import dataclasses
import json
import logging

import numpy as np
import pytest
from scipy import sparse

from adaptive_gcn import datasets
from adaptive_gcn.datasets import reddit, sparse_npz
from adaptive_gcn.datasets.download import DataNotFoundError
from adaptive_gcn.datasets.reddit import (
    FORMATS,
    files_of,
    log_counts,
    read_reddit,
)
from adaptive_gcn.errors import DataError, GraphError

N_NODES = 6
PAIRS = np.array([[0, 1], [0, 2], [1, 2], [2, 3], [4, 3]])
LABELS = np.array([0, 1, 0, 1, 0, 1])
TYPES = np.array([1, 1, 2, 2, 3, 3])
COUNTS = np.array([[0, 1], [1, 0], [5, 2], [30, 7], [2, 2], [0, 0]], np.float64)
RAW = np.column_stack([COUNTS, np.linspace(-1, 1, N_NODES)])
LOGARITHMS = np.column_stack([np.log(COUNTS + 1), RAW[:, 2]])


def write_graphsage(folder, ids=None):
    folder.mkdir(parents=True, exist_ok=True)
    ids = ids or [f"t3_{i}" for i in range(N_NODES)]
    nodes = [
        {"id": id_, "test": bool(type_ == 3), "val": bool(type_ == 2)}
        for id_, type_ in zip(ids, TYPES, strict=True)
    ]
    links = [{"source": s, "target": t} for s, t in PAIRS.tolist()]
    files = {
        "G": {"nodes": nodes, "links": links},
        "class_map": dict(zip(ids, LABELS.tolist(), strict=True)),
        "id_map": {id_: row for row, id_ in enumerate(ids)},
    }
    for part, value in files.items():
        (folder / f"reddit-{part}.json").write_text(json.dumps(value))
    np.save(folder / "reddit-feats.npy", RAW)


def matrix_of(pairs, both=False, weights=None, kind=sparse.coo_matrix):
    pairs = np.concatenate([pairs, pairs[:, ::-1]]) if both else pairs
    weights = np.ones(len(pairs)) if weights is None else weights
    return kind((weights, (pairs[:, 0], pairs[:, 1])), (N_NODES, N_NODES))


def write_converter(folder, matrix=None, **replaced):
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {"feats": LOGARITHMS}
    for code, part in enumerate(("train", "val", "test"), start=1):
        arrays[f"{part}_index"] = np.flatnonzero(code == TYPES)
        arrays[f"y_{part}"] = LABELS[code == TYPES]
    arrays |= replaced
    np.savez(folder / "reddit.npz", **arrays)
    sparse.save_npz(
        folder / "reddit_adj.npz",
        matrix_of(PAIRS) if matrix is None else matrix,
    )


def write_dgl(folder, matrix=None, **replaced):
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {
        "feature": LOGARITHMS.astype(np.float32),
        "label": LABELS,
        "node_types": TYPES,
        "node_ids": np.arange(N_NODES),
        **replaced,
    }
    np.savez(folder / "reddit_data.npz", **arrays)
    sparse.save_npz(
        folder / "reddit_graph.npz",
        matrix_of(PAIRS, both=True) if matrix is None else matrix,
    )


WRITERS = {
    "graphsage": write_graphsage,
    "converter": write_converter,
    "dgl": write_dgl,
}


def assert_expected(graph):
    upper = np.argwhere(np.triu(graph.adjacency.toarray()))
    expected = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4)]
    assert [tuple(pair) for pair in upper.tolist()] == expected
    np.testing.assert_allclose(graph.features, LOGARITHMS, rtol=1e-6)
    np.testing.assert_array_equal(graph.labels, LABELS)
    np.testing.assert_array_equal(graph.train_nodes, [0, 1])
    np.testing.assert_array_equal(graph.val_nodes, [2, 3])
    np.testing.assert_array_equal(graph.test_nodes, [4, 5])
    assert graph.name == "reddit"


def warnings_of(caplog):
    """All warnings but that of the counts, which differ in small files."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno > logging.INFO
        and "not the published graph" not in record.getMessage()
    ]


@pytest.mark.parametrize("subfolder", ["", "reddit"])
@pytest.mark.parametrize("chosen", FORMATS[1:])
@pytest.mark.parametrize("auto", [True, False])
def test_every_format(tmp_path, caplog, no_network, chosen, subfolder, auto):
    caplog.set_level(logging.INFO)
    WRITERS[chosen](tmp_path / subfolder)
    graph = read_reddit(tmp_path, "auto" if auto else chosen)
    assert_expected(graph)
    assert not warnings_of(caplog)
    assert f"reading the format {chosen!r}" in caplog.text
    assert ("114.6 M" if chosen == "dgl" else "11.6 M") in caplog.text
    files = files_of(tmp_path, chosen)
    assert all(path.parent == tmp_path / subfolder for path in files)
    assert len(files) == (4 if chosen == "graphsage" else 2)


def test_node_ids(tmp_path):
    write_graphsage(tmp_path)
    assert read_reddit(tmp_path).node_ids[3] == "t3_3"
    write_dgl(tmp_path / "dgl", node_ids=np.arange(N_NODES) + 10**12)
    assert read_reddit(tmp_path / "dgl").node_ids[3] == 10**12 + 3


def test_order_of_the_formats(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    for folder, write in zip(("reddit", "", ""), WRITERS.values(), strict=True):
        write(tmp_path / folder)
    read_reddit(tmp_path)
    assert "reading the format 'graphsage'" in caplog.text
    for other in ("converter", "dgl"):
        assert f"files of the format {other!r} are in {tmp_path} too" in (
            caplog.text
        )
    (tmp_path / "reddit" / "reddit-G.json").unlink()
    assert files_of(tmp_path)[0].name == "reddit.npz"


def test_missing_files(tmp_path, no_network):
    write_converter(tmp_path)
    (tmp_path / "reddit_adj.npz").unlink()
    for call in (read_reddit, files_of):
        with pytest.raises(DataNotFoundError) as error:
            call(tmp_path)
        message = str(error.value)
        for part in (
            str(tmp_path / "reddit"),
            "graphsage: missing reddit-G.json (or reddit-G.json.xz)",
            "http://snap.stanford.edu/graphsage/reddit.zip",
            "converter: missing reddit_adj.npz\n",
            "dgl: missing reddit_data.npz, reddit_graph.npz",
            "https://data.dgl.ai/dataset/reddit.zip",
        ):
            assert part in message


def test_missing_files_of_one_format(tmp_path):
    write_converter(tmp_path)
    with pytest.raises(DataNotFoundError) as error:
        read_reddit(tmp_path, "dgl")
    assert "graphsage" not in str(error.value)


def test_unknown_format(tmp_path):
    with pytest.raises(ValueError, match="auto.*dgl.*Received.*'pyg'"):
        read_reddit(tmp_path, "pyg")


@pytest.mark.parametrize("chosen", FORMATS[1:])
def test_other_counts_are_warned_of(tmp_path, caplog, chosen):
    WRITERS[chosen](tmp_path)
    read_reddit(tmp_path)
    for part in (
        "nodes expected 232965, received 6",
        "features expected 602, received 3",
        "classes expected 41, received 2",
        "validation expected 23831, received 2"
        if chosen == "dgl"
        else "undirected edges expected 11606919, received 5",
    ):
        assert part in caplog.text


def test_published_counts_are_not_warned_of(tmp_path, caplog, monkeypatch):
    write_dgl(tmp_path)
    counts = read_reddit(tmp_path).statistics()
    caplog.clear()
    monkeypatch.setitem(reddit._COUNTS, "dgl", counts)
    read_reddit(tmp_path)
    assert not caplog.records


# From the store.


def load_stored(tmp_path, **options):
    return datasets.load(
        "reddit", tmp_path, store_dir=tmp_path / "stores", **options
    )


def test_warnings_are_repeated_whenever_the_store_is_opened(tmp_path, caplog):
    labels = LABELS.copy()
    labels[0] = -100
    write_dgl(tmp_path, matrix_of(PAIRS), label=labels)
    load_stored(tmp_path)
    first = [each.getMessage() for each in caplog.records]
    for part in (
        "not the published graph: nodes expected 232965, received 6",
        "5 entries had no reverse entry",
        "train split: 1 without a class left out",
    ):
        assert sum(part in each for each in first) == 1
    for _ in range(2):
        caplog.clear()
        load_stored(tmp_path)
        again = [each.getMessage() for each in caplog.records]
        assert sorted(again) == sorted(first)


def test_ends_of_links_are_asked_for_and_have_a_store_each(tmp_path, caplog):
    write_graphsage(tmp_path, ids=[*range(N_NODES)][::-1])
    ids = load_stored(tmp_path)
    assert "give --link_ends=positions" in caplog.text
    caplog.clear()
    load_stored(tmp_path)
    assert "give --link_ends=positions" in caplog.text
    caplog.clear()
    positions = load_stored(tmp_path, link_ends="positions")
    assert "link_ends" not in caplog.text
    assert (positions.adjacency != ids.adjacency).nnz
    given = load_stored(tmp_path, link_ends="ids")
    assert not (given.adjacency != ids.adjacency).nnz
    assert len([*(tmp_path / "stores").glob("reddit-*")]) == 3
    with pytest.raises(ValueError, match="index"):
        load_stored(tmp_path, link_ends="index")


# Logarithms.


def test_logarithms(caplog):
    caplog.set_level(logging.INFO)
    raw = RAW.copy()
    raw.flags.writeable = False
    result = log_counts(raw)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, LOGARITHMS, rtol=1e-6)
    assert "logarithm taken of x + 1 and x + 1" in caplog.text
    caplog.clear()
    assert log_counts(result) is result
    assert "already transformed" in caplog.text


def test_logarithm_of_negative_scores_is_finite():
    raw = np.array([[1, -5], [2, 0], [3, -1]])
    result = log_counts(raw)
    np.testing.assert_allclose(result[:, 1], np.log([1, 6, 5]), rtol=1e-6)
    assert log_counts(result) is result


def test_memory_map_is_not_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(reddit, "_BLOCK_ROWS", 4)
    path = tmp_path / "raw.npy"
    np.save(path, RAW.astype(np.float32))
    before = path.read_bytes()
    for mode in ("r", "r+"):
        result = log_counts(np.load(path, mmap_mode=mode))
        np.testing.assert_allclose(result, LOGARITHMS, rtol=1e-6)
        assert not isinstance(result, np.memmap)
        assert path.read_bytes() == before


@pytest.mark.parametrize(
    "features",
    [
        [[1.5, 2, 0]],
        [[1, 2.5, 0]],
        [[-1, 2, 0]],
        [[0, 0, 5]],
        [[np.nan, 1, 0]],
        [[np.inf, 1, 0]],
        [[3]],
        np.empty((0, 3)),
        [[0, 1], [1, 0]],
        [[0, 1, 0.5], [1, 0, -0.5]],
        [[0, 1, 1], [1, 0, 0]],
        [[3, 1, 0], [0, 2, 5]],  # A bag of words.
        np.eye(9000, 3) * 7,
    ],
)
def test_features_without_counts_stay(features):
    features = np.asarray(features, np.float32)
    assert log_counts(features) is features


def test_one_number_of_a_text_makes_whole_columns_counts():
    features = np.eye(9000, 3) * 7
    features[8999, 2] = 0.5
    assert log_counts(features)[0, 0] == np.float32(np.log(8))


@pytest.mark.parametrize("write", WRITERS.values())
def test_binary_features_are_read_as_they_are(tmp_path, write):
    write(tmp_path)
    binary = np.random.default_rng(0).integers(0, 2, (N_NODES, 4))
    if write is write_graphsage:
        np.save(tmp_path / "reddit-feats.npy", binary)
    else:
        key = "feats" if write is write_converter else "feature"
        write(tmp_path, **{key: binary})
    np.testing.assert_array_equal(read_reddit(tmp_path).features, binary)


@pytest.mark.parametrize(
    "write, key", [(write_converter, "feats"), (write_dgl, "feature")]
)
def test_raw_counts_in_archives(tmp_path, write, key):
    write(tmp_path, **{key: np.asfortranarray(RAW)})
    graph = read_reddit(tmp_path)
    assert_expected(graph)
    assert graph.features.flags.c_contiguous


# Matrices.


@pytest.mark.parametrize(
    "kind", [sparse.coo_array, sparse.csr_matrix, sparse.csc_array]
)
def test_formats_of_the_matrix(tmp_path, kind):
    write_converter(tmp_path, matrix_of(PAIRS, kind=kind))
    assert_expected(read_reddit(tmp_path))
    write_dgl(tmp_path / "2", matrix_of(PAIRS, both=True, kind=kind))
    assert_expected(read_reddit(tmp_path / "2"))


def test_one_direction_in_the_dgl_format_is_warned_of(tmp_path, caplog):
    write_dgl(tmp_path, matrix_of(PAIRS))
    assert_expected(read_reddit(tmp_path))
    assert "5 entries had no reverse entry" in caplog.text


def test_weights(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(sparse_npz, "_BLOCK", 2)
    pairs = np.concatenate([PAIRS, [[0, 5], [5, 1]]])
    weights = np.array([1, 2, 0.5, 1, 1, 0, 0])
    write_converter(tmp_path, matrix_of(pairs, weights=weights))
    assert_expected(read_reddit(tmp_path))
    assert "2 entries are 0 and left out" in caplog.text
    assert "2 weights are not 1" in caplog.text


@pytest.mark.parametrize("dtype", [np.int64, np.bool_, np.float32, np.uint8])
def test_types_of_weights(tmp_path, caplog, dtype):
    write_converter(tmp_path, matrix_of(PAIRS, weights=np.ones(5, dtype)))
    assert_expected(read_reddit(tmp_path))
    assert not warnings_of(caplog)


@pytest.mark.parametrize("value", [-1, np.nan, np.inf])
def test_bad_weights(tmp_path, value):
    weights = np.array([1, 1, 1, value, 1])
    write_converter(tmp_path, matrix_of(PAIRS, weights=weights))
    with pytest.raises(GraphError, match=r"reddit_adj.*data\[3\] = "):
        read_reddit(tmp_path)


def save_matrix(folder, **replaced):
    arrays = {
        "format": np.array(b"coo"),
        "shape": np.array([N_NODES, N_NODES]),
        "data": np.ones(5),
        "row": PAIRS[:, 0],
        "col": PAIRS[:, 1],
        **replaced,
    }
    arrays = {key: each for key, each in arrays.items() if each is not None}
    np.savez(folder / "reddit_adj.npz", **arrays)


CSR = {"format": np.array("csr"), "indices": PAIRS[:, 1]}


@pytest.mark.parametrize(
    "replaced, message",
    [
        ({"row": PAIRS[:, 0] - 1}, r"2 values of 'row'.*row\[0\] = -1"),
        ({"col": PAIRS[:, 1] + 3}, r"2 values of 'col'.*col\[3\] = 6"),
        ({"col": PAIRS[:4, 1]}, "5 values, 5 rows and 4 columns"),
        ({"data": np.ones(4)}, "4 values, 5 rows"),
        ({"col": None}, "expected an array 'col'. Received: format, shape"),
        ({"row": PAIRS[:, 0] + 0.5}, "array 'row': .*float64"),
        ({"row": PAIRS}, r"array 'row': .*\(5, 2\)"),
        ({"row": np.array([{}] * 5)}, "'row' cannot be read"),
        ({"format": np.array(b"bsr")}, "one of the formats.*bsr"),
        ({"format": np.array([{}])}, "'format' cannot be read"),
        ({"format": np.array([1, 2])}, "array 'format': expected 0 dim"),
        ({"shape": np.array([6, 7])}, r"square.*\[6, 7\]"),
        ({"shape": np.array([2**40] * 2)}, "square"),
        ({"shape": np.array([7, 7])}, "features: 6 rows, graph: 7 nodes"),
        ({**CSR, "indptr": np.array([0, 5])}, "'indptr' does not divide 5"),
        (
            {**CSR, "indptr": np.array([0, 1, 2, 3, 4, 5, 10**12])},
            "'indptr' does not divide 5",
        ),
        (
            {**CSR, "indptr": np.array([0, 6, 2, 3, 4, 5, 5])},
            "'indptr' does not divide 5",
        ),
    ],
)
def test_wrong_matrix(tmp_path, replaced, message):
    write_converter(tmp_path)
    save_matrix(tmp_path, **replaced)
    with pytest.raises(DataError, match=message) as error:
        read_reddit(tmp_path)
    assert str(tmp_path / "reddit_adj.npz") in str(error.value)


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda _: b"", "an empty file"),
        (lambda _: b"<html>404</html>", "a web page"),
        (lambda _: b"version https://git-lfs.github.com", "git-lfs pointer"),
        (lambda content: content[: len(content) // 2], "a whole .npz archive"),
        (
            lambda content: content.replace(b"\x00\x00\xf0?", b"\x00\x00\xf0@"),
            "again",
        ),
        (lambda content: content[:40] + b"?" * 60 + content[100:], "again"),
        # A list of contents that would begin elsewhere.
        (lambda content: content[:-6] + b"\xff\xff\xff\0\0\0", "again"),
    ],
    ids=["empty", "html", "lfs", "half", "values", "header", "offset"],
)
@pytest.mark.parametrize("name", ["reddit.npz", "reddit_adj.npz"])
def test_damaged_archive(tmp_path, name, damage, message):
    write_converter(tmp_path, feats=np.ones((N_NODES, 2)))
    save_matrix(tmp_path)
    path = tmp_path / name
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=message) as error:
        read_reddit(tmp_path)
    assert str(path) in str(error.value)


# The other arrays.


@pytest.mark.parametrize(
    "replaced, message",
    [
        ({"y_val": np.array([0])}, "y_val: 1 labels, val_index: 2 nodes"),
        ({"val_index": np.array([2, 6])}, "val_index: 1 nodes lie outside"),
        ({"val_index": np.array([-1, 2])}, "the first is -1"),
        ({"val_index": np.array([0, 2])}, "node 0 is in more than one place"),
        ({"y_val": np.eye(2)}, "array 'y_val': expected 1 dim"),
        ({"feats": np.ones(6)}, "array 'feats': expected 2 dim"),
        ({"feats": np.array([["a"]])}, "array 'feats'.*<U1"),
        ({"feats": LOGARITHMS[:5]}, "lie outside the rows 0..4"),
        ({"feats": np.ones((7, 2))}, "features: 7 rows, graph: 6 nodes"),
        ({"feats": LOGARITHMS + np.inf}, "not finite"),
        ({"feats": LOGARITHMS * 1e300}, "not finite"),
    ],
)
def test_wrong_converter_data(tmp_path, replaced, message):
    write_converter(tmp_path, **replaced)
    with pytest.raises(DataError, match=message):
        read_reddit(tmp_path)


@pytest.mark.parametrize(
    "replaced, message",
    [
        ({"label": LABELS[:5]}, "label: 5 values, feature: 6 rows"),
        ({"node_types": TYPES[:5]}, "node_types: 5 values, feature: 6 rows"),
        ({"label": LABELS * 0.5}, "array 'label'.*float64"),
        ({"feature": np.ones((7, 2))}, "label: 6 values, feature: 7 rows"),
        ({"node_ids": np.zeros(6, int)}, "node_ids: 5 repeat"),
    ],
)
def test_wrong_dgl_data(tmp_path, replaced, message):
    write_dgl(tmp_path, **replaced)
    with pytest.raises(DataError, match=message):
        read_reddit(tmp_path)


def test_pickled_node_ids_are_not_read(tmp_path, caplog):
    write_dgl(tmp_path, node_ids=np.array([{}] * N_NODES))
    graph = read_reddit(tmp_path)
    assert graph.node_ids is None
    assert "'node_ids' cannot be read" in caplog.text


def test_unlabelled_nodes_and_other_types(tmp_path, caplog):
    labels, types = LABELS.copy(), TYPES.copy()
    labels[[0, 5]], types[3] = -100, 0
    write_dgl(tmp_path, label=labels, node_types=types)
    graph = read_reddit(tmp_path)
    np.testing.assert_array_equal(graph.labels, [-1, 1, 0, 1, 0, -1])
    np.testing.assert_array_equal(graph.train_nodes, [1])
    np.testing.assert_array_equal(graph.val_nodes, [2])
    np.testing.assert_array_equal(graph.test_nodes, [4])
    assert "1 nodes are in no part of the split" in caplog.text
    assert "train split: 1 without a class left out" in caplog.text
    assert "test split: 1 without a class left out" in caplog.text


def test_nodes_outside_the_split_have_no_class(tmp_path):
    write_converter(tmp_path, test_index=np.array([5]), y_test=np.array([1]))
    graph = read_reddit(tmp_path)
    np.testing.assert_array_equal(graph.labels, [0, 1, 0, 1, -1, 1])


def test_graph_is_a_plain_one(tmp_path):
    """It can be remade, as the callers of `read_reddit` do."""
    write_graphsage(tmp_path)
    graph = read_reddit(tmp_path)
    assert dataclasses.replace(graph).n_edges == 5
