"""The training loop of a run: Keras' fit with our callbacks, resumable."""

from __future__ import annotations

import dataclasses
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from adaptive_gcn import (
    callbacks,
    checkpoint,
    checkpoint_file,
    distributed,
    model,
    pipeline,
    resume,
    run_folder,
    watching,
)
from adaptive_gcn.config import Config
from adaptive_gcn.features import row_blocks
from adaptive_gcn.stopping import StopSignals

MOST_STEPS_PER_EXECUTION = 100
_HEADERS = 2**18  # Bytes of a file of weights beside these.


@dataclasses.dataclass
class Fit:
    """A network being trained.

    Attributes:
        config: The settings.
        network: Built and compiled.
        batches: What it is trained on.
        evaluate: Returns the validation scores of the current weights.
        digest: Returns the checksums of the graph.
        folder: Folder of the run.
        signals: What asks for a stop.
        started: When the run began, by `time.perf_counter`.
        workers: The others, if it is trained by several.
        timer: Seconds of each epoch.
        best: The choice of the epoch; its weights are in the network when
            `run` is done.
        history: The logs of each epoch.
    """

    config: Config
    network: model.AdaptiveGCN
    batches: pipeline.Batches
    evaluate: Callable[[], dict[str, float]]
    digest: Callable[[], dict[str, int]]
    folder: Path
    signals: StopSignals
    started: float
    workers: distributed.Workers | None = None

    def __post_init__(self) -> None:
        config = self.config
        self.timer = callbacks.EpochTimer()
        self.best = callbacks.BestEpoch(
            config.select, config.patience or config.epochs
        )
        self.history = callbacks.History(str(self.folder / run_folder.HISTORY))
        self._first_epoch = 0
        self._position: pipeline.Position | None = None

    def resume_from(self, snapshot: resume.Snapshot) -> None:
        """Take up the state of a checkpoint.

        Raises:
            CheckpointError: If it is the state of another network.
        """
        progress = checkpoint.restore(self.network, snapshot)
        self.started -= progress.seconds
        self.timer.seconds = [row["seconds"] for row in progress.rows]
        self.best.start_from(progress.best, progress.best_weights)
        self.history.start_from(progress.rows)
        self._position = progress.position
        self._first_epoch = progress.epoch
        if progress.stopped:
            self._first_epoch = self.config.epochs

    def run(self) -> None:
        """Train; put the best weights into the network and the folder.

        Raises:
            callbacks.TrainingDivergedError: If the loss is not finite; the
                best weights so far are saved first.
            stopping.Stopped: If a signal asked for it.
        """
        try:
            with self.signals.deferred():
                self._fit()
        except callbacks.TrainingDivergedError as error:
            raise self._diverged(str(error)) from error
        except tf.errors.OpError as error:
            if np.all(np.isfinite(self._w_g())):
                raise
            epoch = len(self.timer.seconds) + 1
            raise self._diverged(
                f"training diverged: epoch {epoch}: W_g is not finite"
            ) from error
        finally:
            self.batches.close()
            if self.best.best_weights is not None:
                self.network.set_weights(self.best.best_weights)
                _save_weights(self.network, self.folder / run_folder.WEIGHTS)

    def _fit(self) -> None:
        network, n_steps = self.network, self.batches.n_steps
        epochs = range(self._first_epoch, self.config.epochs)
        if self.workers is not None:
            distributed.fit(
                network,
                self.batches,
                self._position,
                epochs,
                self._callbacks(False),
                self.workers.strategy,
            )
            return
        network.steps_per_execution = steps_per_execution(self.config, n_steps)
        terminal = sys.stdout.isatty() and sys.stderr.isatty()
        network.fit(
            self.batches.dataset(self._position),
            steps_per_epoch=n_steps,
            initial_epoch=epochs.start,
            epochs=epochs.stop,
            shuffle=False,
            verbose=1 if terminal else 0,
            callbacks=self._callbacks(terminal),
        )

    def _callbacks(self, terminal: bool) -> list[keras.callbacks.Callback]:
        """In the order of use: each sees what those before it have logged."""
        return [
            self.timer,
            callbacks.StopOnDivergence(),
            *self._averaging(),
            callbacks.FullValidation(self.evaluate),
            self.best,
            self.history,
            *([] if terminal else [callbacks.EpochLine()]),
            *watching.callbacks(self.config, self.folder),
            checkpoint.Checkpoints(
                self._save, self.config.checkpoint_seconds, self.signals
            ),
        ]

    def _averaging(self) -> list[keras.callbacks.Callback]:
        """Puts the averaged weights into the network between epochs."""
        if not self.config.weight_average:
            return []
        swap = keras.callbacks.SwapEMAWeights(swap_on_epoch=True)
        # Between two epochs, where a checkpoint was made, they are in it.
        swap._ema_weights_in_model = self._first_epoch > 0
        return [swap]

    def _save(self, epoch: int) -> None:
        values, arrays = checkpoint.progress_of(
            epoch,
            self.best,
            self.history,
            self.batches.position(epoch * self.batches.n_steps),
            time.perf_counter() - self.started,
        )
        values |= {
            "settings": resume.settings_of(self.config),
            "graph": self.digest(),
            "versions": run_folder.versions(),
        }
        arrays |= checkpoint.state_of(self.network)
        path = self.folder / run_folder.CHECKPOINT
        checkpoint_file.write(path, values, arrays)

    def _w_g(self) -> npt.NDArray[np.float32]:
        return np.asarray(self.network.self_dependent.w_g.numpy())

    def _diverged(self, what: str) -> callbacks.TrainingDivergedError:
        """The error with the values that most often cause it."""
        config = self.config
        largest = max(
            float(abs(block).max())
            for _, block in row_blocks(self.batches.graph.features)
        )
        return callbacks.TrainingDivergedError(
            f"{what}; suspects: --learning_rate={config.learning_rate}, "
            f"--sampler_learning_rate={config.sampler_learning_rate}, "
            f"|W_g| = {np.linalg.norm(self._w_g()):.3g}, largest feature "
            f"{largest:.3g}; {callbacks.REMEDY}"
        )


def steps_per_execution(config: Config, n_steps: int) -> int:
    """The largest divisor of an epoch's steps that is not too large.

    It must divide: the dataset has no end at which a longer run would stop.
    Within an execution TensorFlow may ask for the next batch while a step
    still runs. So where batches follow a trained W_g without lag, g may be
    refreshed only at the start of an execution.
    """
    if config.trains_sampler and not config.prefetch:
        n_steps = math.gcd(n_steps, config.refresh_interval)
    limit = min(n_steps, MOST_STEPS_PER_EXECUTION)
    return next(k for k in range(limit, 0, -1) if n_steps % k == 0)


def _save_weights(network: Any, path: Path) -> None:
    temporary = path.with_name(f"tmp-{path.name}")
    try:
        _reserve(temporary, 2 * _n_bytes(network) + _HEADERS)
        network.save_weights(temporary)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise run_folder.RunFolderError(
            f"{path}: the weights cannot be written ({error}); make room, or "
            "the folder writable, and go on with --resume"
        ) from error


def _n_bytes(network: Any) -> int:
    state = checkpoint.state_of(network).values()
    return sum(array.nbytes for array in state)


def _reserve(path: Path, size: int) -> None:
    """Try for room before HDF5 needs it, which crashes without."""
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
