"""Looking at a run with TensorBoard: scalars, histograms, a profile."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from adaptive_gcn import run_folder
from adaptive_gcn.config import Config, ConfigError


def check(config: Config) -> None:
    """See that what is asked for is installed, before anything is done.

    Raises:
        ConfigError: If not; it names the extra.
    """
    if config.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise ConfigError(
            "--tensorboard: TensorBoard is not installed; "
            "pip install 'adaptive-gcn[tensorboard]'"
        )


def callbacks(config: Config, folder: Path) -> list[keras.callbacks.Callback]:
    """What `tensorboard` and `profile_step` ask for."""
    target = str(folder / run_folder.TENSORBOARD)
    found: list[keras.callbacks.Callback] = []
    if config.tensorboard:
        found.append(
            keras.callbacks.TensorBoard(
                target, histogram_freq=1, write_graph=False
            )
        )
    if config.profile_step:
        found.append(Profile(target, config.profile_step))
    return found


class Profile(keras.callbacks.Callback):
    """Profiles one step, or the execution of several that it is part of.

    Args:
        folder: Where TensorBoard looks.
        step: Which, counted from 1 when training begins.
    """

    def __init__(self, folder: str, step: int) -> None:
        super().__init__()
        self._folder = folder
        self._step = step
        self._done = 0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        behind = self._done + self.model.steps_per_execution
        if self._done < self._step <= behind:
            tf.profiler.experimental.start(self._folder)
        self._done = behind

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        before = self._done - self.model.steps_per_execution
        if before < self._step <= self._done:
            tf.profiler.experimental.stop()
