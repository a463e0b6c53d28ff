"""Memory over a long run.

    nice taskset -c 0 python -m benchmarks.soak --output=soak.json

Trains on the built-in graph with a checkpoint after every epoch until the time
is up, then asks for a stop as SIGTERM would; memory is read once in a while.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

from absl import app, flags

from adaptive_gcn import callbacks, checkpoint, training
from adaptive_gcn.config import Config
from adaptive_gcn.stopping import Stopped, StopSignals
from benchmarks import measure

_MINUTES = flags.DEFINE_float("minutes", 30.0, "how long to train")
_POINTS = flags.DEFINE_integer("points", 60, "points of the memory curve")


def _resident_mib() -> float:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return round(int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


class Soak:
    """Reads memory after epochs, and asks for a stop when time is up."""

    def __init__(self, signals: StopSignals, seconds: float, points: int):
        self.curve: list[tuple[int, float, float]] = []
        self.epochs = 0
        self._signals = signals
        self._seconds = seconds
        self._points = points
        self._start = time.monotonic()

    def see(self) -> None:
        """Called after every epoch."""
        self.epochs += 1
        passed = time.monotonic() - self._start
        if passed >= len(self.curve) * self._seconds / self._points:
            self.curve.append((self.epochs, round(passed), _resident_mib()))
        if passed >= self._seconds:
            self._signals.asked = signal.SIGTERM


def run(_: list[str]) -> None:
    """Train, and write the curve."""
    signals = StopSignals()
    soak = Soak(signals, 60 * _MINUTES.value, _POINTS.value)
    save = checkpoint.Checkpoints.on_epoch_end

    def see_and_save(self: Any, epoch: int, logs: Any = None) -> None:
        soak.see()
        save(self, epoch, logs)

    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(checkpoint.Checkpoints, "on_epoch_end", see_and_save),
        mock.patch.object(callbacks.EpochLine, "on_epoch_end", lambda *_: None),
    ):
        config = Config(
            output_dir=folder,
            epochs=10**9,
            patience=0,
            checkpoint_seconds=0.0,
            refresh_interval=8,
        )
        with contextlib.suppress(Stopped):
            training.train(config, signals)
        size = (Path(folder) / "checkpoint").stat().st_size
    measure.write_record(
        {
            "minutes": _MINUTES.value,
            "epochs": soak.epochs,
            "checkpoint_mib": round(size / 2**20, 2),
            "epoch_seconds_mib": soak.curve,
            "growth_mib": round(soak.curve[-1][2] - soak.curve[0][2], 1),
        }
    )


if __name__ == "__main__":
    app.run(run)
