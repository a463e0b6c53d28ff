"""Keras callbacks of a training run."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import keras

_LOG = logging.getLogger(__name__)
REMEDY = (
    "lower --learning_rate, --variance_weight or --sampler_learning_rate, or "
    "scale the features"
)


class TrainingDivergedError(RuntimeError):
    """The loss became huge, infinite or not a number."""


class EpochTimer(keras.callbacks.Callback):
    """Seconds of each epoch's training steps; put first among callbacks."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._start = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any]) -> None:
        self.seconds.append(time.perf_counter() - self._start)
        logs["seconds"] = self.seconds[-1]


class StopOnDivergence(keras.callbacks.Callback):
    """Stops with an error once the loss diverged or a log is not finite.

    It looks after every step (or execution of several), before the next
    batch is drawn with weights that are not numbers.
    """

    def __init__(self) -> None:
        super().__init__()
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch + 1

    def on_train_batch_end(self, batch: int, logs: dict[str, Any]) -> None:
        for name in ("loss", *logs):
            if not math.isfinite(logs[name]):
                self._stop(name, logs[name], batch + 1)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any]) -> None:
        if int(self.model.first_diverged.result()):
            self._stop("class loss", logs["class_loss"], 0)

    def _stop(self, name: str, value: float, last_step: int) -> None:
        step = int(self.model.first_diverged.result()) or last_step
        raise TrainingDivergedError(
            f"training diverged: epoch {self._epoch}, step {step}: the {name} "
            f"is {float(value)}"
        )


class History(keras.callbacks.CSVLogger):
    """Keras' CSV history, a line an epoch, with epochs counted from 1.

    Attributes:
        rows: The logs of each epoch so far.
    """

    def __init__(self, filename: str) -> None:
        super().__init__(filename)
        self.rows: list[dict[str, float]] = []
        self._earlier: Sequence[dict[str, float]] = ()

    def start_from(self, rows: Sequence[dict[str, float]]) -> None:
        """Write the logs of these epochs before those to come."""
        self._earlier = rows

    def on_train_begin(self, logs: Any = None) -> None:
        super().on_train_begin(logs)
        for epoch, row in enumerate(self._earlier):
            self.on_epoch_end(epoch, row)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.rows.append(dict(logs))
        super().on_epoch_end(epoch + 1, logs)


class BestEpoch(keras.callbacks.EarlyStopping):
    """Keras' choice of the epoch, which can begin where another one ended.

    Args:
        select: Name of the log to choose by.
        patience: Epochs without a better one before training stops.
    """

    def __init__(self, select: str, patience: int) -> None:
        super().__init__(
            monitor=select,
            mode="min" if select == "val_loss" else "max",
            patience=patience,
            restore_best_weights=True,
        )
        self._start: tuple[dict[str, float], list[Any]] | None = None

    def start_from(self, state: dict[str, float], weights: list[Any]) -> None:
        """Begin with best, best_epoch, wait, and the best weights so far."""
        self._start = state, weights

    def on_train_begin(self, logs: Any = None) -> None:
        super().on_train_begin(logs)
        if self._start is not None:
            state, self.best_weights = self._start
            vars(self).update(state)


class FullValidation(keras.callbacks.Callback):
    """Adds val_loss and val_accuracy of the full architecture to the logs.

    Args:
        evaluate: Returns these, and maybe others, for the model's current
            weights.
    """

    def __init__(self, evaluate: Callable[[], dict[str, float]]):
        super().__init__()
        self._evaluate = evaluate

    def on_epoch_end(self, epoch: int, logs: dict[str, Any]) -> None:
        logs.update(self._evaluate())
        if not math.isfinite(logs["val_loss"]):
            raise TrainingDivergedError(
                f"training diverged: epoch {epoch + 1}: the validation loss "
                f"is {logs['val_loss']}"
            )


class EpochLine(keras.callbacks.Callback):
    """Logs one line per epoch, for output that is not a terminal."""

    def on_epoch_end(self, epoch: int, logs: dict[str, Any]) -> None:
        values = " ".join(f"{key} {value:.4g}" for key, value in logs.items())
        _LOG.info("epoch %d/%d: %s", epoch + 1, self.params["epochs"], values)
