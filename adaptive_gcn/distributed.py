"""Several workers, by TensorFlow's own strategies.

Every worker holds the whole network and the whole graph, draws its part of
each global batch with its own stream of the seed, and takes the same step:
gradients are averaged over all workers before they are applied. `batch_size`
stays that of a step over all workers, and so does the learning rate.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
from collections.abc import Iterator, Sequence

import keras
import tensorflow as tf
from tensorflow.python.eager import context

from adaptive_gcn import model, pipeline
from adaptive_gcn.config import Config, ConfigError

_LOG = logging.getLogger(__name__)


# A worker that is busy, as while it compiles, answers late.
_HEARTBEAT_MILLISECONDS = 60_000
_LOST = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.UnavailableError,
)


class WorkerLostError(RuntimeError):
    """Another worker has ended or cannot be reached."""


@dataclasses.dataclass(frozen=True)
class Workers:
    """The workers of a run, as one of them sees them.

    Attributes:
        strategy: TensorFlow's.
        index: Place of this one, from 0.
        count: Processes.
        replicas: Devices of each process.
    """

    strategy: tf.distribute.Strategy
    index: int
    count: int
    replicas: int

    @property
    def is_chief(self) -> bool:
        """Whether this one writes the records and checkpoints."""
        return self.index == 0

    @property
    def n_parts(self) -> int:
        """Parts of a global batch."""
        return self.count * self.replicas


def workers(config: Config) -> Workers | None:
    """Join the workers that `config` asks for; None for a run by itself.

    Must come before TensorFlow does anything else.

    Raises:
        ConfigError: If TF_CONFIG does not describe them.
    """
    if config.distribute == "none":
        return None
    if config.distribute == "mirrored":
        gpus = tf.config.list_logical_devices("GPU")
        devices = gpus or tf.config.list_logical_devices("CPU")
        strategy = tf.distribute.MirroredStrategy([d.name for d in devices])
        joined = Workers(strategy, 0, 1, strategy.num_replicas_in_sync)
    else:
        index, count = _place_of_worker(os.environ.get("TF_CONFIG", ""))
        _allow_late_answers(count)
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        replicas = strategy.num_replicas_in_sync // count
        joined = Workers(strategy, index, count, replicas)
    _LOG.info(
        "worker %d of %d, with %d devices; a batch of %d is cut into %d parts",
        joined.index,
        joined.count,
        joined.replicas,
        config.batch_size,
        joined.n_parts,
    )
    return joined


def _allow_late_answers(count: int) -> None:
    """As the strategy would set up the service, but for its patience."""
    messages = context.coordination_config_pb2
    job = messages.CoordinatedJob(name="worker", num_tasks=count)
    context.context().configure_coordination_service(
        "standalone",
        service_leader="/job:worker/replica:0/task:0",
        coordinated_jobs=[job],
        heartbeat_timeout_in_ms=_HEARTBEAT_MILLISECONDS,
    )


def _place_of_worker(text: str) -> tuple[int, int]:
    """Index and number of workers in TF_CONFIG."""
    try:
        place = json.loads(text)
        workers = place["cluster"]["worker"]
        index = int(place["task"]["index"])
        if place["task"]["type"] != "worker" or not 0 <= index < len(workers):
            raise ValueError(f"task {place['task']}")
        return index, len(workers)
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            "--distribute=multi_worker: expected TF_CONFIG as in "
            '{"cluster": {"worker": ["host:port", ...]}, "task": {"type": '
            f'"worker", "index": 0}}}}. Received: {text!r} ({error})'
        ) from error


@contextlib.contextmanager
def losses_named(joined: Workers | None) -> Iterator[None]:
    """Say in words that another worker has ended.

    Args:
        joined: The workers, if there are several.

    Raises:
        WorkerLostError: If TensorFlow says so in its own.
    """
    try:
        yield
    except _LOST as error:
        if joined is None:
            raise
        raise WorkerLostError(
            "another worker has ended or cannot be reached "
            f"({' '.join(error.message.split())[-300:]}); start all of them "
            "again, with --resume"
        ) from error


def check_batches(config: Config, n_nodes: int, n_parts: int) -> None:
    """See that every worker has a node in every step.

    Raises:
        ConfigError: If a batch has fewer nodes than parts.
    """
    n_steps = -(-n_nodes // config.batch_size)
    if n_nodes // n_steps < n_parts:
        raise ConfigError(
            f"--batch_size={config.batch_size}: {n_nodes} training nodes in "
            f"{n_steps} steps leave batches of fewer nodes than the {n_parts} "
            "workers; use a larger batch or fewer workers"
        )


def average_gradients(network: model.AdaptiveGCN, n_parts: int) -> None:
    """Let the optimisers apply the mean over parts: Keras adds them up."""
    for optimizer in (network.optimizer, network.sampler_optimizer):
        optimizer.loss_scale_factor = float(n_parts)


def fit(
    network: model.AdaptiveGCN,
    batches: pipeline.Batches,
    start: pipeline.Position | None,
    epochs: range,
    callbacks: Sequence[keras.callbacks.Callback],
    strategy: tf.distribute.Strategy,
) -> None:
    """As `network.fit`, over all workers; callbacks see whole epochs only."""
    # A distributed dataset would draw two steps ahead, with a g that lags.
    iterator = iter(batches.dataset(start))

    @tf.function
    def step() -> None:
        # Replicas draw one after another, in order: all from one iterator.
        strategy.run(lambda: network.train_step(next(iterator)))

    calls = keras.callbacks.CallbackList(
        callbacks, model=network, epochs=epochs.stop, steps=batches.n_steps
    )
    network.stop_training = False
    calls.on_train_begin()
    for epoch in epochs:
        network.reset_metrics()
        calls.on_epoch_begin(epoch)
        for _ in range(batches.n_steps):
            step()
        logs = network.epoch_means.result()
        calls.on_epoch_end(epoch, {k: float(v) for k, v in logs.items()})
        if network.stop_training:
            break
    calls.on_train_end()
