"""The benchmark runs; what it measures is no test."""

import json

from absl import flags
from absl.testing import flagsaver

from benchmarks import epoch


def test_record_holds_every_case_with_parts_and_floors(tmp_path, monkeypatch):
    monkeypatch.setitem(epoch.AUTHORS_SECONDS, "test", 1.0)
    path = tmp_path / "records" / "epoch.json"
    with flagsaver.flagsaver():
        words = ["--cases=test", "--measured_epochs=3", f"--output={path}"]
        flags.FLAGS(["benchmark", *words])
        epoch.run([])
    record = json.loads(path.read_text())
    case = record["epochs"]["test"]
    assert case["steps"] == 2  # 268 training nodes by 256.
    assert set(case["of_which"]) == {"sampling_ms", "dataset_ms", "step_ms"}
    assert all(value > 0 for value in record["floors"].values())
