"""The estimate of the memory that a run takes."""

import pytest

from adaptive_gcn import memory_needed
from adaptive_gcn.config import Config
from tests.helpers import ring_graph

GIB = 2**30


def write(root, **files):
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


MEMINFO = "MemTotal:  900 kB\nMemFree: 100 kB\nMemAvailable:     800 kB\n"


def test_least_of_machine_and_group_counts(tmp_path):
    assert memory_needed.available(tmp_path) is None
    write(tmp_path, proc__meminfo=MEMINFO)
    assert memory_needed.available(tmp_path) == 800 * 1024
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("500\n")
    assert memory_needed.available(tmp_path) == 800 * 1024
    (group / "memory.max").write_text("1500\n")
    assert memory_needed.available(tmp_path) == 1000
    (group / "memory.current").write_text("1600\n")
    assert memory_needed.available(tmp_path) == 0


def test_this_machine_says_what_is_free():
    assert memory_needed.available() > 0


@pytest.mark.parametrize(
    "larger",
    [
        {"hidden_units": (50_000,)},
        {"precompute": True},
        {"samples_per_layer": (20,)},
        {"batch_size": 18, "method": "full"},
        {"method": "node_wise", "samples_per_layer": (1,), "n_neighbors": 9},
    ],
)
def test_estimate_grows_with_what_takes_memory(larger):
    graph = ring_graph(n_features=300)
    small = Config(hidden_units=(2,), batch_size=2, samples_per_layer=(1,))
    fields = {**vars(small), **larger}
    grown = memory_needed.estimate(Config(**fields), graph)
    assert grown > memory_needed.estimate(small, graph) > 0.5 * GIB


def test_wide_table_by_hand():
    """30 nodes by 10^6 units: two tables; 6 x 10^6 + 10^6 x 3 weights."""
    graph = ring_graph()
    wide = memory_needed.estimate(Config(hidden_units=(10**6,)), graph)
    tables, weights = 2 * 30 * 10**6 * 4, 7 * 9 * 10**6 * 4
    batch = 4 * 3 * 18 * (6 + 10**6) * 4
    rest = memory_needed._FRAMEWORK
    assert wide == pytest.approx(rest + max(tables, batch) + weights, rel=1e-4)


@pytest.mark.parametrize(
    "free, level, expected",
    [
        (None, "INFO", "GiB needed"),
        (2**40, "INFO", "GiB needed, 1024.0 GiB free"),
        (2**20, "WARNING", "needed, but only 0.0 GiB free: the run may be"),
    ],
)
def test_estimate_is_announced(monkeypatch, caplog, free, level, expected):
    caplog.set_level("INFO")
    monkeypatch.setattr(memory_needed, "available", lambda: free)
    memory_needed.announce(Config(), ring_graph())
    (record,) = caplog.records
    assert record.levelname == level
    assert expected in record.getMessage()
