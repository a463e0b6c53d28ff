"""The GraphSAGE reader: small files with each known defect, and real ones."""

import dataclasses
import hashlib
import json
import logging
import lzma

import numpy as np
import pytest

from adaptive_gcn.datasets.download import DataNotFoundError
from adaptive_gcn.datasets.graphsage import files_of, read_graphsage
from adaptive_gcn.datasets.planetoid import load_planetoid
from adaptive_gcn.errors import DataError, GraphError

PAIRS = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0))
MARKS = ("train", "val", "test", "train", "test")


def node(id_, mark="train", **more):
    return {"id": id_, "test": mark == "test", "val": mark == "val", **more}


def link(source, target):
    return {"test_removed": False, "target": target, "source": source}


def nodes_of(ids, marks=MARKS):
    return [node(id_, mark) for id_, mark in zip(ids, marks, strict=False)]


def matrix(n_rows=5, n_columns=3, dtype=np.float64):
    values = np.arange(n_rows * n_columns) * 3 % 7
    return values.reshape(n_rows, n_columns).astype(dtype)


def write(
    folder,
    ids=tuple("edcba"),
    pairs=PAIRS,
    key="links",
    name="tiny",
    **replaced,
):
    """Write a ring of five nodes; every file can be replaced, or be None."""
    nodes = replaced.pop("nodes", None) or nodes_of(ids)
    links = [link(*pair) for pair in pairs]
    files = {
        "G.json": {"directed": False, "graph": {}, "nodes": nodes, key: links},
        "class_map.json": {str(id_): i % 2 for i, id_ in enumerate(ids)},
        "id_map.json": {str(id_): i for i, id_ in enumerate(ids)},
        "feats.npy": matrix(len(ids)),
    }
    files |= {
        key.replace("_json", ".json").replace("_npy", ".npy"): value
        for key, value in replaced.items()
    }
    folder.mkdir(exist_ok=True)
    for end, value in files.items():
        path = folder / f"{name}-{end}"
        if isinstance(value, bytes):
            path.write_bytes(value)
        elif isinstance(value, np.ndarray):
            np.save(path, value)
        elif value is not None:
            path.write_text(json.dumps(value), "utf-8")
    return folder


def read(folder, **keywords):
    return read_graphsage(folder, "tiny", **keywords)


def edges_of(graph):
    upper = np.argwhere(np.triu(graph.adjacency.toarray()))
    return [tuple(pair) for pair in upper.tolist()]


def assert_same(graph, expected):
    assert (graph.adjacency != expected.adjacency).nnz == 0
    for key in ("features", "labels", "train_nodes", "val_nodes", "test_nodes"):
        np.testing.assert_array_equal(
            getattr(graph, key), getattr(expected, key)
        )


def warnings_of(caplog):
    return [r.getMessage() for r in caplog.records if r.levelno > logging.INFO]


def test_tiny_graph(tmp_path, caplog):
    graph = read(write(tmp_path))
    assert edges_of(graph) == [(0, 1), (0, 4), (1, 2), (2, 3), (3, 4)]
    np.testing.assert_array_equal(graph.features, matrix())
    np.testing.assert_array_equal(graph.labels, [0, 1, 0, 1, 0])
    np.testing.assert_array_equal(graph.train_nodes, [0, 3])
    np.testing.assert_array_equal(graph.val_nodes, [1])
    np.testing.assert_array_equal(graph.test_nodes, [2, 4])
    np.testing.assert_array_equal(graph.node_ids, list("edcba"))
    assert graph.name == "tiny"
    assert not warnings_of(caplog)


def test_nodes_are_reordered_by_the_id_map(tmp_path):
    """Feature rows stay, all else follows them."""
    rows = [3, 0, 4, 1, 2]
    graph = read(
        write(tmp_path, id_map_json=dict(zip("edcba", rows, strict=True)))
    )
    plain = read(write(tmp_path / "plain"))
    np.testing.assert_array_equal(graph.features, matrix())
    np.testing.assert_array_equal(graph.labels[rows], plain.labels)
    np.testing.assert_array_equal(graph.node_ids[rows], plain.node_ids)
    np.testing.assert_array_equal(
        graph.adjacency.toarray()[np.ix_(rows, rows)], plain.adjacency.toarray()
    )
    assert set(graph.val_nodes) == {0}
    assert set(graph.test_nodes) == {4, 2}


def test_without_id_map_rows_follow_the_node_list(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    graph = read(write(tmp_path, id_map_json=None))
    assert_same(graph, read(write(tmp_path / "with")))
    assert "no id_map.json; feature row i" in caplog.text


@pytest.mark.parametrize("end", ["G.json", "feats.npy", "id_map.json"])
def test_compressed_files(tmp_path, end):
    expected = read(write(tmp_path))
    path = tmp_path / f"tiny-{end}"
    path.with_name(f"{path.name}.xz").write_bytes(
        lzma.compress(path.read_bytes())
    )
    path.unlink()
    assert_same(read(tmp_path), expected)
    (tmp_path / f"tiny-{end}.xz").rename(tmp_path / f"tiny-{end}")
    assert_same(read(write(tmp_path)), expected)  # The plain one is preferred.


@pytest.mark.parametrize("end", ["G.json", "feats.npy", "class_map.json"])
def test_missing_file(tmp_path, end):
    write(tmp_path)
    (tmp_path / f"tiny-{end}").unlink()
    with pytest.raises(DataNotFoundError) as error:
        read(tmp_path)
    assert f"tiny-{end} (or tiny-{end}.xz)" in str(error.value)
    assert str(tmp_path) in str(error.value)


def test_files_of(tmp_path):
    write(tmp_path)
    names = [path.name for path in files_of(tmp_path, "tiny")]
    assert names == [
        "tiny-G.json",
        "tiny-feats.npy",
        "tiny-class_map.json",
        "tiny-id_map.json",
    ]


# The graph JSON.


def test_links_or_edges(tmp_path):
    expected = read(write(tmp_path))
    assert_same(read(write(tmp_path, key="edges")), expected)
    with pytest.raises(DataError, match='"links" or "edges".*"vertices"'):
        read(write(tmp_path, key="vertices"))


def test_both_links_and_edges(tmp_path):
    both = {"nodes": nodes_of("edcba"), "links": [], "edges": []}
    with pytest.raises(DataError, match='either "links" or "edges"'):
        read(write(tmp_path, G_json=both))


def test_links_before_nodes_and_unknown_keys(tmp_path):
    expected = read(write(tmp_path))
    nodes = [
        {"features": [1, {"id": 7}], **each, "x": {"test": [None]}}
        for each in nodes_of("edcba")
    ]
    links = [
        {"extra": {"source": 9, "a": [[]]}, **link(*pair), "key": 1.5}
        for pair in PAIRS
    ]
    file = {"zzz": [{"links": 1}], "links": links, "nodes": nodes, "e": None}
    assert_same(read(write(tmp_path, G_json=file)), expected)


@pytest.mark.parametrize(
    "content, message",
    [
        (b'{"nodes": [], "links": [], "links": []}', '"links" occurs twice'),
        (b'{"links": []}', '"nodes" and either'),
        (b"{}", "Received: no key"),
        (b'{"nodes": {}, "links": []}', 'a list as the value of "nodes"'),
        (b'{"nodes": [], "links": 3}', 'a list as the value of "links"'),
        (b'{"nodes": [5], "links": []}', r"nodes\[0\]: expected an object"),
        (b'{"nodes": [{"id": 0}, {}], "links": []}', r'nodes\[1\] has no "id"'),
        (b'{"nodes": [{"id": 1.5}]}', r"an integer or a string.*1\.5"),
        (b'{"nodes": [{"id": true}]}', "an integer or a string.*true"),
        (b'{"nodes": [{"id": [1]}]}', "an integer or a string.*a list"),
        (b'{"nodes": [{"id": 1, "id": 2}]}', "'id' occurs twice"),
        (b'{"nodes": [{"id": 1, "test": "no"}]}', 'as "test".*"no"'),
        (b'{"nodes": [{"id": 1}, {"id": "1"}]}', r"nodes\[1\] has the same id"),
        (b'{"links": [[0, 1]], "nodes": []}', r"links\[0\]: expected an obj"),
        (b'{"links": [7], "nodes": []}', r"links\[0\].*Received: 7"),
        (b'{"nodes": [{"id": 1}', "not valid JSON"),
        (b'{"nodes": [], "links": []} x', "not valid JSON"),
        (b'{"nodes": [{"id": 1e99999999999999999999}]}', "not valid JSON"),
        (b'{"nodes": [{"id": ' + b"7" * 9999 + b"}]}", "over 1024 digits"),
        (b'{"nodes": [{"id": "\xff"}]}', "not valid JSON"),
        (b"", "an empty file"),
        (b"\xef\xbb\xbf", "an empty file"),
        (b"<!DOCTYPE html><p>404", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1", "git-lfs pointer"),
        (b"[1, 2]", r"expected a JSON object.*begins with b'\[1, 2\]'"),
    ],
)
def test_wrong_graph_file(tmp_path, content, message):
    write(tmp_path, G_json=content, feats_npy=matrix(0))
    with pytest.raises(DataError, match=message) as error:
        read(tmp_path)
    assert str(tmp_path / "tiny-G.json") in str(error.value)


def test_directed_that_is_no_boolean(tmp_path):
    file = {"directed": "no", "nodes": [], "links": []}
    write(tmp_path, G_json=file, feats_npy=matrix(0))
    with pytest.raises(DataError, match='true or false.*"directed"'):
        read(tmp_path)


def test_directed_file_is_made_symmetric_with_notice(tmp_path, caplog):
    file = {"directed": True, "nodes": nodes_of("edcba")}
    file["links"] = [link(*pair) for pair in PAIRS]
    graph = read(write(tmp_path, G_json=file))
    assert_same(graph, read(write(tmp_path / "undirected")))
    assert graph.edge_statistics.reversed_added == 5
    assert len(warnings_of(caplog)) == 1
    assert "directed input, made symmetric" in caplog.text


def test_repeated_links_count_once(tmp_path):
    graph = read(write(tmp_path, pairs=[*PAIRS, (1, 0), (0, 1), (2, 2)]))
    assert graph.n_edges == 5
    assert graph.edge_statistics.duplicates == 2
    assert graph.edge_statistics.self_loops == 1


def test_byte_order_mark(tmp_path):
    expected = read(write(tmp_path))
    for end in ("G.json", "class_map.json", "id_map.json"):
        path = tmp_path / f"tiny-{end}"
        path.write_bytes(b"\xef\xbb\xbf\r\n" + path.read_bytes())
    assert_same(read(tmp_path), expected)


def test_cut_off_json_names_the_place(tmp_path):
    write(tmp_path)
    path = tmp_path / "tiny-G.json"
    path.write_bytes(path.read_bytes()[:-40])
    size = path.stat().st_size
    with pytest.raises(DataError, match=f"before byte {size}.*cut off"):
        read(tmp_path)


def test_damaged_xz(tmp_path):
    write(tmp_path)
    path = tmp_path / "tiny-G.json"
    content = lzma.compress(path.read_bytes())
    path.unlink()
    compressed = tmp_path / "tiny-G.json.xz"
    for damaged in (content[:-30], b"no xz file at all"):
        compressed.write_bytes(damaged)
        with pytest.raises(DataError, match=r"a whole \.xz file"):
            read(tmp_path)


# The ends of the links.


@pytest.mark.parametrize(
    "ids, pairs",
    [
        (tuple("edcba"), [("e", "d"), ("d", "c"), ("a", "e")]),  # networkx 2
        (tuple("edcba"), [(0, 1), (1, 2), (4, 0)]),  # networkx 1
        ((10, 20, 30, 40, 50), [(10, 20), (20, 30), (50, 10)]),
        ((10, 20, 30, 40, 50), [(0, 1), (1, 2), (4, 0)]),
        (("10", "20", "30", "40", "50"), [(10, 20), (20, 30), (50, 10)]),
        ((10, 20, 30, 40, 50), [("10", "20"), ("20", 30), (50, "10")]),
        ((0, 1, 2, 3, 4), [(0, 1), (1, 2), (4, 0)]),
        ((-1, -2, 3, 2**70, "x"), [(-1, -2), ("-2", 3), ("x", -1)]),
        ((1, 2, 3, 4, 5), [(1, 2), (2, 3), (5, 1)]),
        (("4", "3", "2", "1", "0"), [("4", "3"), ("3", "2"), ("0", "4")]),
    ],
)
def test_both_kinds_of_ends(tmp_path, caplog, ids, pairs):
    graph = read(write(tmp_path, ids=ids, pairs=pairs))
    assert edges_of(graph) == [(0, 1), (0, 4), (1, 2)]
    assert not warnings_of(caplog)


def test_permutation_of_positions_means_ids_with_a_warning(tmp_path, caplog):
    ids, pairs = (4, 3, 2, 1, 0), [(4, 3), (3, 2), (0, 4)]
    graph = read(write(tmp_path, ids=ids, pairs=pairs))
    assert edges_of(graph) == [(0, 1), (0, 4), (1, 2)]
    assert "taken as ids" in caplog.text
    assert "give --link_ends=positions (in Python ends='positions')" in (
        caplog.text
    )
    caplog.clear()
    graph = read(tmp_path, ends="positions")
    assert edges_of(graph) == [(0, 4), (2, 3), (3, 4)]
    np.testing.assert_array_equal(graph.node_ids, ids)
    assert not warnings_of(caplog)


def test_integer_ends_of_string_ids_are_positions(tmp_path, caplog):
    """networkx never turns a string id into an integer."""
    ids, pairs = tuple("43210"), [(0, 1), (1, 2), (4, 0)]
    graph = read(write(tmp_path, ids=ids, pairs=pairs))
    assert edges_of(graph) == [(0, 1), (0, 4), (1, 2)]
    assert "taken as positions" in caplog.text
    graph = read(tmp_path, ends="ids")
    assert edges_of(graph) == [(0, 4), (2, 3), (3, 4)]


def test_positions_that_are_mostly_ids_are_warned_of(tmp_path, caplog):
    read(write(tmp_path, ids=(1, 2, 3, 4, 5), pairs=[(1, 2), (3, 4), (0, 1)]))
    assert "most ends are ids, but not all; taken as positions" in caplog.text


def test_large_ids(tmp_path):
    ids = (10, 20, 4_000_000_000)
    pairs = [(10, 20), (20, 4_000_000_000)]
    graph = read(write(tmp_path, ids=ids, pairs=pairs))
    assert edges_of(graph) == [(0, 1), (1, 2)]
    np.testing.assert_array_equal(graph.node_ids, ids)
    assert graph.node_ids.dtype == np.int64


@pytest.mark.parametrize(
    "pair, text",
    [
        ((0, -1), "source 0, target -1"),
        ((5, 0), "source 5, target 0"),
        ((0, 2**80), f"target {2**80}"),
        ((0, 2**63), f"target {2**63}"),
        ((1.0, 0), "source 1.0, target 0"),
        ((None, 0), "source null"),
        ((0, True), "target true"),
        (("zz", 0), 'source "zz"'),
        (([0], 0), "source a list"),
        (({}, 0), "source an object"),
    ],
)
@pytest.mark.parametrize("ids", [tuple("edcba"), (0, 1, 2, 3, 4)])
def test_bad_ends(tmp_path, pair, text, ids):
    write(tmp_path, ids=ids, pairs=[*PAIRS, pair, (0, -7)])
    with pytest.raises(DataError) as error:
        read(tmp_path)
    message = str(error.value)
    assert f"{tmp_path / 'tiny-G.json'}: 2 of 7 links" in message
    assert "the first is links[5]: " in message
    assert text in message


@pytest.mark.parametrize(
    "link_, text",
    [
        (b'{"source": 1}', "source 1, target missing"),
        (b'{"source": 1, "source": 1, "target": 0}', "source given twice"),
    ],
)
def test_incomplete_link(tmp_path, link_, text):
    nodes = json.dumps(nodes_of((0, 1, 2))).encode()
    good = b', {"source": 0, "target": 1}'
    content = b'{"nodes": %s, "links": [%s%s]}' % (nodes, link_, good)
    write(tmp_path, ids=(0, 1, 2), G_json=content)
    with pytest.raises(DataError, match=r"1 of 2 links.*links\[0\]: ") as error:
        read(tmp_path)
    assert text in str(error.value)


def test_forced_reading_that_does_not_fit(tmp_path):
    write(tmp_path)
    with pytest.raises(DataError, match="5 of 5 links.*no id of a node.*") as (
        error
    ):
        read(tmp_path, ends="ids")
    assert str(error.value).endswith("give --link_ends=positions")
    write(tmp_path, pairs=[("e", "d")])
    with pytest.raises(DataError, match="no position in the node list"):
        read(tmp_path, ends="positions")


def test_unknown_ends(tmp_path):
    with pytest.raises(ValueError, match="auto.*ids.*positions.*'index'"):
        read(tmp_path, ends="index")


def test_no_links(tmp_path):
    assert read(write(tmp_path, pairs=())).n_edges == 0


# The maps.


def test_every_fault_of_the_id_map(tmp_path):
    id_map = {"e": 0, "d": 0, "c": 7, "zz": 1, "b": 2}
    with pytest.raises(GraphError) as error:
        read(write(tmp_path, id_map_json=id_map))
    message = str(error.value)
    for part in (
        str(tmp_path / "tiny-id_map.json"),
        '1 nodes are not in it ("a")',
        '1 ids are no nodes ("zz")',
        '1 nodes have a row outside 0..4 ("c")',
        "1 rows are used more than once (0)",
    ):
        assert part in message


@pytest.mark.parametrize("row", [-1, 1.0, "1", None, True, 2**64])
def test_id_map_of_other_things(tmp_path, row):
    write(tmp_path, id_map_json={"e": row})
    with pytest.raises(DataError, match='id_map.json: "e": expected a feature'):
        read(tmp_path)


@pytest.mark.parametrize("end", ["id_map", "class_map"])
@pytest.mark.parametrize(
    "content, message",
    [
        (b'{"e": 0, "e": 1}', '"e" occurs twice'),
        (b'{"e": 0, ', "not valid JSON"),
        (b"[]", "expected a JSON object"),
    ],
)
def test_damaged_maps(tmp_path, end, content, message):
    write(tmp_path, **{f"{end}_json": content})
    with pytest.raises(DataError, match=rf"tiny-{end}\.json: .*{message}"):
        read(tmp_path)


def test_one_hot_classes(tmp_path):
    rows = dict(zip("edcba", np.eye(3)[[0, 2, 0, 2, 0]].tolist(), strict=True))
    graph = read(write(tmp_path, class_map_json=rows))
    np.testing.assert_array_equal(graph.labels, [0, 2, 0, 2, 0])
    assert graph.n_classes == 3


def test_multi_label_targets(tmp_path):
    rows = {"e": [1, 0, 0, 0], "d": [1, 0, 1, 0], "b": [0, 0, 0, 0]}
    write(tmp_path, class_map_json={**rows, "c": None})
    graph = read(tmp_path)
    assert graph.multi_label
    found = dict(
        zip(graph.node_ids.tolist(), graph.labels.tolist(), strict=True)
    )
    assert found == {**rows, "c": [-1] * 4, "a": [-1] * 4}


@pytest.mark.parametrize(
    "classes, message",
    [
        ({"e": 1.5}, '"e": expected an integer class'),
        ({"e": "politics"}, "integer class.*politics"),
        ({"e": True}, "integer class"),
        ({"e": []}, "integer class"),
        ({"e": 2**64}, "integer class"),
        ({"e": [2, 0]}, "zeros and ones"),
        ({"e": [None, 1]}, "zeros and ones"),
        ({"e": 1, "d": [0, 1]}, '"d": expected an integer as before.*a list'),
        ({"e": [0, 1], "d": [1]}, "a list of 2 as before.*a list of 1"),
    ],
)
def test_wrong_classes(tmp_path, classes, message):
    write(tmp_path, class_map_json=classes)
    with pytest.raises(DataError, match=message):
        read(tmp_path)


def test_class_values_with_gaps(tmp_path, caplog):
    classes = dict(zip("edcba", [3, 7, 3, 7, 90], strict=True))
    graph = read(write(tmp_path, class_map_json=classes))
    np.testing.assert_array_equal(graph.labels, [0, 1, 0, 1, 2])
    assert graph.class_names == ("3", "7", "90")
    assert "label values [3, 7, 90] become classes" in caplog.text


# Incomplete nodes.


def test_faults_of_nodes_are_counted_in_one_line(tmp_path, caplog):
    nodes = nodes_of("edcba")
    del nodes[0]["val"]
    nodes[4]["test"] = None
    classes = {"e": 0, "d": 1, "c": -100, "a": 1, "zz": 0}
    write(tmp_path, nodes=nodes, class_map_json=classes)
    graph = read(tmp_path)
    np.testing.assert_array_equal(graph.labels, [0, 1, -1, -1, 1])
    assert len(graph.train_nodes) == 0
    np.testing.assert_array_equal(graph.val_nodes, [1])
    assert len(graph.test_nodes) == 0
    assert graph.n_nodes == graph.n_edges == 5
    (message,) = warnings_of(caplog)
    for part in (
        '1 nodes are not in tiny-class_map.json: no class ("b")',
        '1 ids in tiny-class_map.json are no nodes: ignored ("zz")',
        "1 nodes have a negative class or none",
        '2 nodes lack a mark "test" or "val": in no part of the split',
        "train split: 1 without a class left out",
        "test split: 1 without a class left out",
    ):
        assert part in message


def test_minus_one_is_like_minus_hundred(tmp_path):
    graphs = [
        read(write(tmp_path, class_map_json={"e": 0, "d": 1, "a": value}))
        for value in (-1, -100, None)
    ]
    assert_same(graphs[1], graphs[0])
    assert_same(graphs[2], graphs[0])


def test_node_marked_both_test_and_val(tmp_path):
    nodes = nodes_of("edcba")
    nodes[1]["test"] = True
    with pytest.raises(GraphError, match='1 nodes are marked both.*id "d"'):
        read(write(tmp_path, nodes=nodes))


# Features.


@pytest.mark.parametrize("n_rows", [9, 11])
@pytest.mark.parametrize("id_map_json", [{str(i): i for i in range(10)}, None])
def test_feature_rows_must_match_the_nodes(tmp_path, n_rows, id_map_json):
    """Seen before the links, which are damaged here."""
    nodes = json.dumps([node(i) for i in range(10)]).encode()
    content = b'{"nodes": %s, "links": [{' % nodes
    write(
        tmp_path,
        G_json=content,
        feats_npy=matrix(n_rows),
        id_map_json=id_map_json,
    )
    text = f"feats.npy: features: {n_rows} rows, graph: 10 nodes"
    with pytest.raises(GraphError, match=text):
        read(tmp_path)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "dtype", ["<f4", ">f4", "f8", "f2", "i1", ">i8", "u2", "?"]
)
def test_features_of_every_type(
    tmp_path, monkeypatch, compressed, order, dtype
):
    monkeypatch.setattr("adaptive_gcn.datasets.npy_stream._BLOCK_BYTES", 48)
    features = np.asarray(matrix(dtype=dtype), order=order)
    write(tmp_path, feats_npy=features)
    path = tmp_path / "tiny-feats.npy"
    if compressed:
        content = lzma.compress(path.read_bytes())
        path.with_name("tiny-feats.npy.xz").write_bytes(content)
        path.unlink()
    graph = read(tmp_path)
    assert graph.features.dtype == np.float32
    np.testing.assert_array_equal(graph.features, features.astype(np.float32))
    mapped = not compressed and order == "C" and dtype == "<f4"
    assert isinstance(graph.features, np.memmap) == mapped


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("n_off", [-1, -50, 8])
def test_features_of_another_size(tmp_path, compressed, n_off):
    write(tmp_path)
    path = tmp_path / "tiny-feats.npy"
    content = path.read_bytes()
    content = content[:n_off] if n_off < 0 else content + b"\0" * n_off
    path.write_bytes(content)
    received = 120 + n_off
    if compressed:
        path.unlink()
        compressed = lzma.compress(content)
        path.with_name("tiny-feats.npy.xz").write_bytes(compressed)
        received = min(received, 121)
    with pytest.raises(DataError, match="expected 120 bytes") as error:
        read(tmp_path)
    assert f"{received} bytes; get" in str(error.value)


def test_cut_off_compressed_features(tmp_path):
    rng = np.random.default_rng(0)
    write(tmp_path, feats_npy=rng.standard_normal((5, 20_000)))
    path = tmp_path / "tiny-feats.npy"
    content = lzma.compress(path.read_bytes())
    path.unlink()
    path.with_name("tiny-feats.npy.xz").write_bytes(content[:-9000])
    with pytest.raises(DataError, match="expected 800000 bytes.*Received: 7"):
        read(tmp_path)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "an empty file"),
        (b"<html>", "a web page"),
        (b"\x93NUMPY\x01\x00\x06\x00{'a': (", r"expected a .npy file"),
        (b"\x93NUMPY\x07\x00", r"expected a .npy file"),
        (np.ones((5, 0)), r"expected a matrix.*shape \(5, 0\)"),
        (b"\x93NUMPY\x01\x00\xff\x00{'descr'", "expected a .npy file"),
        (np.ones(5), r"expected a matrix.*shape \(5,\)"),
        (np.array([["a"]] * 5), "a matrix of numbers.*<U1"),
        (np.ones((5, 2), np.complex64), "a matrix of numbers.*complex64"),
        (np.array([[{}]] * 5), "a matrix of numbers.*object"),
    ],
)
def test_wrong_features(tmp_path, content, message):
    write(tmp_path, feats_npy=content)
    with pytest.raises(DataError, match=message) as error:
        read(tmp_path)
    assert str(tmp_path / "tiny-feats.npy") in str(error.value)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_features_that_are_not_finite(tmp_path, value):
    features = matrix()
    features[3, 1] = value
    with pytest.raises(GraphError, match="not finite; the first is in row 3"):
        read(write(tmp_path, feats_npy=features))


# Real files.


def real_folder(data_dir, name):
    """The folder of the real files, which may not be there."""
    folder = data_dir / "graphsage" / name
    if not folder.is_dir():
        pytest.skip(f"no {folder}")
    return folder


def known_by_features(graph):
    """The nodes with a feature row of their own, in an order given by it."""
    rows = np.asarray(graph.features > 0, np.uint8)
    _, nodes, counts = np.unique(
        rows, axis=0, return_index=True, return_counts=True
    )
    return nodes[counts == 1]


@pytest.mark.data
def test_cora(data_dir, no_network):
    """GraphZoom's nodes are Planetoid's in another order."""
    graph = read_graphsage(real_folder(data_dir, "cora"), "cora")
    assert graph.n_nodes == 2708
    assert graph.n_edges == 5278
    assert len(graph.train_nodes) == 140
    assert len(graph.test_nodes) == 2708 - 140
    planetoid = load_planetoid("cora", data_dir)
    nodes = known_by_features(graph)
    others = known_by_features(
        dataclasses.replace(planetoid, features=planetoid.features.toarray())
    )
    assert len(nodes) == len(others) > 2650
    np.testing.assert_array_equal(
        graph.features[nodes], planetoid.features[others].toarray()
    )
    difference = (
        graph.adjacency[nodes][:, nodes]
        != planetoid.adjacency[others][:, others]
    )
    assert difference.nnz == 0
    # The classes have other numbers.
    pairs = zip(graph.labels[nodes], planetoid.labels[others], strict=True)
    assert len({*pairs}) == 7


@pytest.mark.data
def test_pubmed(data_dir, tmp_path, no_network):
    """GraphZoom's nodes are Planetoid's in the same order."""
    for path in real_folder(data_dir, "pubmed").iterdir():
        (tmp_path / path.name).symlink_to(path)
    planetoid = load_planetoid("pubmed", data_dir)
    features = tmp_path / "pubmed-feats.npy"
    np.save(features, planetoid.features.toarray())
    digest = hashlib.sha256(features.read_bytes()).hexdigest()
    assert digest.startswith("34d16496")
    graph = read_graphsage(tmp_path, "pubmed")
    assert graph.n_edges == 44324
    assert graph.edge_statistics.self_loops == 3
    assert isinstance(graph.features, np.memmap)
    np.testing.assert_array_equal(graph.features, planetoid.features.toarray())
    assert (graph.adjacency != planetoid.adjacency).nnz == 0
    np.testing.assert_array_equal(graph.labels, planetoid.labels)
    assert len(graph.train_nodes) == 60
    assert len(graph.test_nodes) == 19717 - 60


def test_weights_of_links_are_reported(tmp_path, caplog):
    path = write(tmp_path) / "tiny-G.json"
    read(tmp_path)
    assert "weights of links" not in caplog.text
    content = json.loads(path.read_text())
    content["links"][0]["weight"] = 2.5
    path.write_text(json.dumps(content))
    read(tmp_path)
    assert "tiny-G.json: weights of links are not used" in caplog.text
