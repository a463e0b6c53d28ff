"""The benchmarks run; what they measure is no test."""

import json

import pytest
from absl import flags
from absl.testing import flagsaver

from benchmarks import (
    beam_prepare,
    epoch,
    graph_size,
    read_csv,
    reddit_size,
    serving,
    soak,
)


def record_of(benchmark, path, *words):
    """What a benchmark writes to `path`, which one of the words names."""
    with flagsaver.flagsaver():
        flags.FLAGS(["benchmark", *words])
        benchmark.run([])
    return json.loads(path.read_text())


def test_record_holds_every_case_with_parts_and_floors(tmp_path, monkeypatch):
    monkeypatch.setitem(epoch.AUTHORS_SECONDS, "test", 1.0)
    path = tmp_path / "records" / "epoch.json"
    words = ["--cases=test", "--measured_epochs=3", f"--output={path}"]
    record = record_of(epoch, path, *words)
    case = record["epochs"]["test"]
    assert case["steps"] == 2  # 268 training nodes by 256.
    assert set(case["of_which"]) == {"sampling_ms", "dataset_ms", "step_ms"}
    assert all(value > 0 for value in record["floors"].values())


@pytest.mark.slow
def test_reddit_size_measures_every_figure(tmp_path, monkeypatch):
    monkeypatch.setattr(reddit_size, "STEPS", 2)
    monkeypatch.setattr(reddit_size, "LAYERS", {"one": ()})
    path = tmp_path / "reddit_size.json"
    record = record_of(
        reddit_size,
        path,
        "--scale=0.01",
        f"--stores={tmp_path}",
        "--executions=2",
        f"--output={path}",
    )
    assert set(record["sampler"]) == {"prefix", "union"}
    assert set(record["steps"]) == set(reddit_size.CASES)
    for case in record["steps"].values():
        assert case["over_floor"] == pytest.approx(
            case["step_ms"] / case["floor_ms"]
        )
    assert set(record["overlap"]) == {"prefetch 0", "prefetch 4"}
    assert len(record["peak_gib"]) == 2
    assert str(tmp_path) not in path.read_text()


def test_graph_size_measures_and_plots(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    path, image = tmp_path / "record.json", tmp_path / "plot.png"
    monkeypatch.setattr(graph_size, "STEPS", 3)
    words = ["--sizes=600,1200", "--executions=2"]
    words += [f"--output={path}", f"--plot={image}"]
    record = record_of(graph_size, path, *words)
    assert [each["nodes"] for each in record["sizes"]] == [600, 1200]
    assert image.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_serving_measures_every_signature(tmp_path):
    path = tmp_path / "serving.json"
    record = record_of(
        serving,
        path,
        "--serving_cases=reddit",
        "--served_scale=0.002",
        f"--served_stores={tmp_path}",
        f"--output={path}",
    )
    (case,) = record["serving"].values()
    assert case["nodes"] == 466
    assert set(case["seconds"]) == {"tables", "save", "load"}
    for signature in ("serving_default", "embed", "inductive", "subgraph"):
        assert set(case["milliseconds"][signature]) == {"1", "16", "256"}
    assert str(tmp_path) not in path.read_text()


def test_soak_reads_memory_until_its_time_is_up(tmp_path):
    path = tmp_path / "soak.json"
    words = ["--minutes=0.05", "--points=5", f"--output={path}"]
    record = record_of(soak, path, *words)
    assert record["epochs"] >= 1
    assert record["checkpoint_mib"] > 0
    assert all(memory > 0 for _, _, memory in record["epoch_seconds_mib"])


@pytest.mark.slow
def test_read_csv_measures_every_kind_of_file(tmp_path):
    path = tmp_path / "read_csv.json"
    words = ["--n_edges=1000", "--n_nodes=100", f"--record={path}"]
    record = record_of(read_csv, path, *words)
    assert set(record["files"]) == set(read_csv.KINDS)
    for measured in record["files"].values():
        assert measured["edges_read"] == 1000
        assert measured["processor_seconds_graph"] > 0
        assert 0 < measured["peak_gib"] < 4


@pytest.mark.slow
def test_beam_prepare_makes_the_same_store(tmp_path):
    pytest.importorskip("apache_beam")
    path = tmp_path / "beam_prepare.json"
    words = [f"--record={path}", "--n_edges=500", "--n_nodes=50"]
    record = record_of(beam_prepare, path, *words)
    ratio = record["processor_ratio"]
    memory, pipeline = (
        record[each]["processor_seconds"] for each in ("memory", "pipeline")
    )
    assert ratio == pytest.approx(pipeline / memory)
