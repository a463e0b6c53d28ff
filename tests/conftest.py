"""Fixtures that several test files use."""

from __future__ import annotations

import collections
import os
import pathlib
import pickle
import socket
import urllib.request

import numpy as np
import pytest
from absl import flags
from scipy import sparse


@pytest.fixture
def data_dir() -> pathlib.Path:
    """The folder of the published files; without it the test is skipped."""
    folder = os.environ.get("ADAPTIVE_GCN_DATA_DIR")
    if folder:
        return pathlib.Path(folder)
    message = "ADAPTIVE_GCN_DATA_DIR is not set"
    if os.environ.get("ADAPTIVE_GCN_REQUIRE_DATA") == "1":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture
def parsed_flags():
    """Let flags be read, whatever other tests have left of them."""
    was_parsed = flags.FLAGS.is_parsed()
    flags.FLAGS.mark_as_parsed()
    yield
    if not was_parsed:
        flags.FLAGS.unparse_flags()


@pytest.fixture
def no_network(monkeypatch):
    """Make every attempt to leave the process an error."""

    def refuse(*arguments, **keywords):
        raise AssertionError(f"network attempt: {arguments} {keywords}")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(urllib.request, "urlopen", refuse)


@pytest.fixture
def write_planetoid():
    """A function that writes a small data set in the Planetoid format.

    By default: nodes 0-5 in allx, 9, 6, 7 in test.index, 8 only in the graph,
    which is the ring 0-1-...-9-0 with the entry (4, 5) twice and a loop at 3.
    Every file can be replaced by keyword, with "test_index" as bytes.
    """
    return _write_planetoid


def _write_planetoid(
    folder,
    name="tiny",
    n_head=6,
    test=(9, 6, 7),
    n_features=4,
    n_classes=2,
    **replaced,
):
    n_nodes = max(test) + 1
    rng = np.random.default_rng(0)
    features = rng.integers(1, 9, (n_nodes, n_features)).astype(np.float32)
    one_hot = np.eye(n_classes, dtype=np.int32)
    one_hot = one_hot[np.arange(n_nodes) % n_classes]
    graph = collections.defaultdict(list)
    for node in range(n_nodes):
        graph[node] = [(node + 1) % n_nodes, (node - 1) % n_nodes]
    graph[4].append(5)
    graph[3].append(3)
    test = list(test)
    parts = {
        "x": sparse.csr_matrix(features[:2]),
        "y": one_hot[:2],
        "tx": sparse.csr_matrix(features[test]),
        "ty": one_hot[test],
        "allx": sparse.csr_matrix(features[:n_head]),
        "ally": one_hot[:n_head],
        "graph": graph,
        **replaced,
    }
    index = "".join(f"{node}\n" for node in test).encode()
    index = parts.pop("test_index", index)
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for part, value in parts.items():
        content = pickle.dumps(value, protocol=2)
        (folder / f"ind.{name}.{part}").write_bytes(content)
    (folder / f"ind.{name}.test.index").write_bytes(index)
    return features
