"""The state of a training run between two epochs: saved, and put back."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from adaptive_gcn import callbacks, pipeline
from adaptive_gcn.checkpoint_file import Arrays, CheckpointError
from adaptive_gcn.model import AdaptiveGCN
from adaptive_gcn.resume import Snapshot
from adaptive_gcn.stopping import Stopped, StopSignals

_MALFORMED = (AttributeError, KeyError, OverflowError, TypeError, ValueError)


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a run had come.

    Attributes:
        epoch: Epochs done.
        stopped: Whether nothing is left to train.
        rows: The history, a dictionary of numbers an epoch.
        seconds: Since the run began, while it ran.
        best: State of the choice of the epoch: best, best_epoch, wait.
        best_weights: Weights of the best epoch.
        position: Of shuffling and sampling.
    """

    epoch: int
    stopped: bool
    rows: list[dict[str, float]]
    seconds: float
    best: dict[str, float]
    best_weights: list[Any]
    position: pipeline.Position


class Checkpoints(keras.callbacks.Callback):
    """Saves the state as an epoch ends, and stops there if that is asked.

    Must come last among the callbacks, which have then all seen the epoch.

    Args:
        save: Saves what belongs to the given number of epochs.
        interval: Least seconds between two savings.
        signals: Looked at after each epoch.
    """

    def __init__(
        self, save: Callable[[int], None], interval: float, signals: StopSignals
    ) -> None:
        super().__init__()
        self._save = save
        self._interval = interval
        self._signals = signals
        self._last = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        asked = self._signals.asked
        if asked or time.monotonic() - self._last >= self._interval:
            self._save(epoch + 1)
            self._last = time.monotonic()
        if asked:
            raise Stopped(asked, f"stopped after epoch {epoch + 1}")


def state_of(network: AdaptiveGCN) -> Arrays:
    """Weights, states of dropout and both optimisers' variables, by place."""
    return {
        name: variable.numpy() for name, variable in _variables(network).items()
    }


def progress_of(
    epoch: int,
    best: keras.callbacks.EarlyStopping,
    history: callbacks.History,
    position: pipeline.Position,
    seconds: float,
) -> tuple[dict[str, Any], Arrays]:
    """The values and arrays that `restore` makes a `Progress` of."""
    place = dataclasses.asdict(position)
    importance = place.pop("importance")
    values = {
        "epoch": epoch,
        "stopped": bool(best.model.stop_training),
        "rows": history.rows,
        "seconds": seconds,
        "best": {
            "best": float(best.best),
            "best_epoch": best.best_epoch,
            "wait": best.wait,
        },
        "position": place,
    }
    arrays = {
        f"best/{place}": weights
        for place, weights in enumerate(best.best_weights)
    }
    if importance is not None:
        arrays["importance"] = importance
    return values, arrays


def restore(network: AdaptiveGCN, snapshot: Snapshot) -> Progress:
    """Put the state of a checkpoint into a network that has been built.

    Raises:
        CheckpointError: If it is the state of another network.
    """
    try:
        progress = _progress(snapshot)
        _check_best(network, progress.best_weights)
        _assign(network, snapshot.arrays)
    except _MALFORMED as error:
        raise CheckpointError(
            f"{snapshot.path}: not the state of this run "
            f"({type(error).__name__}: {error}); start anew with --overwrite"
        ) from error
    return progress


def _progress(snapshot: Snapshot) -> Progress:
    values, arrays = snapshot.values, snapshot.arrays
    best = values["best"]
    position = pipeline.Position(
        **values["position"], importance=arrays.get("importance")
    )
    position.check()
    return Progress(
        int(values["epoch"]),
        bool(values["stopped"]),
        [
            {str(name): float(value) for name, value in row.items()}
            for row in values["rows"]
        ],
        float(values["seconds"]),
        {
            "best": float(best["best"]),
            "best_epoch": int(best["best_epoch"]),
            "wait": int(best["wait"]),
        },
        [np.array(arrays[name]) for name in _numbered(arrays, "best")],
        position,
    )


def _numbered(arrays: Arrays, prefix: str) -> list[str]:
    """Names prefix/0, prefix/1 and so on, as many as there are."""
    count = sum(name.startswith(f"{prefix}/") for name in arrays)
    return [f"{prefix}/{place}" for place in range(count)]


def _variables(network: AdaptiveGCN) -> dict[str, Any]:
    groups = {
        "network": network.variables,
        "optimizer": network.optimizer.variables,
        "sampler_optimizer": network.sampler_optimizer.variables,
    }
    return {
        f"{group}/{place}": variable
        for group, variables in groups.items()
        for place, variable in enumerate(variables)
    }


def _assign(network: AdaptiveGCN, arrays: Arrays) -> None:
    variables = _variables(network)
    for name, variable in variables.items():
        _check_like(name, arrays[name], variable)
    for name, variable in variables.items():
        variable.assign(arrays[name])


def _check_best(network: AdaptiveGCN, weights: list[Any]) -> None:
    for place, (array, weight) in enumerate(
        zip(weights, network.weights, strict=True)
    ):
        _check_like(f"best/{place}", array, weight)


def _check_like(name: str, array: Any, variable: Any) -> None:
    found = (array.dtype.name, tuple(array.shape))
    expected = (str(variable.dtype), tuple(variable.shape))
    if found != expected:
        raise ValueError(f"{name}: expected {expected}. Received: {found}")
