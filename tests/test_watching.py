"""TensorBoard, the profile of a step, and one line an epoch."""

import logging
import sys

import pytest

from adaptive_gcn import training, watching
from adaptive_gcn.config import Config, ConfigError
from tests.helpers import SMALL_RUN


def config_of(folder, **changes):
    return Config(**{**SMALL_RUN, "output_dir": str(folder), **changes})


def test_missing_tensorboard_is_told_before_anything_is_done(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(watching.importlib.util, "find_spec", lambda _: None)
    config = config_of(tmp_path / "run", tensorboard=True)
    with pytest.raises(ConfigError, match=r"adaptive-gcn\[tensorboard\]"):
        training.train(config)
    assert not (tmp_path / "run").exists()


def test_scalars_of_epochs_and_histogram_of_w_g(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing import event_accumulator

    training.train(config_of(tmp_path, tensorboard=True))
    tags, steps = {}, {}
    for part in ("train", "validation"):
        events = event_accumulator.EventAccumulator(
            str(tmp_path / "tensorboard" / part)
        )
        events.Reload()
        tags[part] = events.Tags()["tensors"]
        steps[part] = [e.step for e in events.Tensors(tags[part][0])]
    assert {"epoch_loss", "epoch_variance"} <= {*tags["train"]}
    assert any("w_g" in name for name in tags["train"])
    assert {"epoch_loss", "epoch_accuracy"} <= {*tags["validation"]}
    assert steps["validation"] == [0, 1]


@pytest.mark.parametrize("method", ["adapt", "iid"])  # 1 and 3 an execution.
def test_one_step_is_profiled(tmp_path, method):
    training.train(config_of(tmp_path, method=method, profile_step=5))
    (trace,) = tmp_path.glob("tensorboard/plugins/profile/*/*.xplane.pb")
    assert trace.stat().st_size > 1000


def test_overwriting_removes_what_was_watched(tmp_path):
    (tmp_path / "tensorboard").mkdir()
    (tmp_path / "tensorboard" / "old").write_text("x")
    training.train(config_of(tmp_path, overwrite=True))
    assert not (tmp_path / "tensorboard").exists()


def test_without_a_terminal_there_is_a_line_an_epoch(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    training.train(config_of(tmp_path))
    lines = [r.getMessage() for r in caplog.records if "epoch" in r.message]
    assert [line[:10] for line in lines] == ["epoch 1/2:", "epoch 2/2:"]


def test_on_a_terminal_there_is_a_progress_bar(tmp_path, monkeypatch, capsys):
    class Terminal:
        def __init__(self, stream):
            self.stream = stream

        def __getattr__(self, name):
            return getattr(self.stream, name)

        def isatty(self):
            return True

    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        monkeypatch.setattr(sys, name, Terminal(stream))
    training.train(config_of(tmp_path))
    assert "Epoch 2/2" in capsys.readouterr().out
