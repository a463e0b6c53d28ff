"""Timing, and what the machine itself can do at that moment."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from absl import flags

from adaptive_gcn import callbacks, run_folder
from adaptive_gcn.jit import kernel

OUTPUT = flags.DEFINE_string("output", "", "JSON record to write")
EXECUTIONS = flags.DEFINE_integer(
    "executions", 15, "executions of many steps to measure"
)
LOOP = 20  # Steps in one call of TensorFlow.


def median_seconds(
    function: Callable[[], Any], repeats: int = 50, warm_up: int = 3
) -> float:
    """Median wall time of a call, after calls that do not count."""
    times = []
    for call in range(repeats + warm_up):
        start = time.perf_counter()
        function()
        if call >= warm_up:
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def floors() -> dict[str, float]:
    """Rates of this machine now: matrix product and memory copy."""
    matrix = tf.random.normal((1024, 1024))
    source = np.ones(32 * 2**20, np.float32)
    target = np.empty_like(source)
    product = median_seconds(lambda: tf.matmul(matrix, matrix).numpy(), 10)
    copy = median_seconds(lambda: np.copyto(target, source), 10)
    return {
        "matmul_gflops": 2 * 1024**3 / product / 1e9,
        "copy_gib_per_second": 2 * source.nbytes / copy / 2**30,
    }


def milliseconds_of_loop(step: Callable[[], Any], repeats: int = 10) -> float:
    """Mean time of `step` in a loop inside one call of TensorFlow."""

    @tf.function
    def loop() -> None:
        for _ in tf.range(LOOP):
            step()

    return 1e3 * median_seconds(loop, repeats) / LOOP


@kernel
def read_rows(indptr: Any, indices: Any, nodes: Any) -> int:
    """Read every entry of some rows of a CSR matrix."""
    total = 0
    for v in nodes:
        for k in range(indptr[v], indptr[v + 1]):
            total += indices[k]
    return total


def fit_seconds(
    network: Any, batches: Any, n_steps: int, epochs: int, execution: int
) -> float:
    """Median time of an epoch of `n_steps` in `fit`; the first is left out.

    Args:
        network: The network, compiled.
        batches: Its `pipeline.Batches`.
        n_steps: Steps of an epoch.
        epochs: Epochs to train.
        execution: Steps of one call of TensorFlow.
    """
    timer = callbacks.EpochTimer()
    network.steps_per_execution = execution
    network.fit(
        batches.dataset(),
        steps_per_epoch=n_steps,
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=[timer, callbacks.StopOnDivergence()],
    )
    return statistics.median(timer.seconds[1:])


def write_record(figures: dict[str, Any]) -> None:
    """Print the figures, versions and machine; write them to --output."""
    record = {
        **figures,
        "versions": run_folder.versions(),
        "machine": run_folder.machine(),
    }
    print(record)
    if OUTPUT.value:
        path = Path(OUTPUT.value)
        path.parent.mkdir(parents=True, exist_ok=True)
        run_folder.write_json(path, record)
