"""Seconds of a training epoch, beside the floor of the same machine.

    taskset -c 0 python -m benchmarks.epoch --output=FILE.json

Trains through Keras fit exactly as a run does, without validation, and
reports the median over epochs. In the same process it measures the parts of
a step (sampling alone, the data pipeline, the step alone) and two floors:
the rates of a matrix product and of a memory copy. Compare ratios, not
seconds, across machines.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags
from absl.testing import flagsaver

from adaptive_gcn import callbacks, main, memory, run_folder, training
from adaptive_gcn.sampling import samplers

_OUTPUT = flags.DEFINE_string("output", "", "JSON record to write")
_EPOCHS = flags.DEFINE_integer("measured_epochs", 60, "epochs to measure")
_CASES = flags.DEFINE_list(
    "cases",
    ["cora+paper_sizes", "pubmed"],
    "what to measure: flag files without .cfg, joined by +",
)

LOOP = 20  # Steps in one call of TensorFlow.

# Measured with the authors' code (TensorFlow 1 under tf.compat.v1) on one
# core of a machine of this kind: 4 and 71 batches, the last one dropped.
AUTHORS_SECONDS = {"cora": 0.023, "citeseer": 0.059, "pubmed": 0.68}


def median_seconds(function: Callable[[], Any], repeats: int = 50) -> float:
    """Median wall time of a call, after three calls that do not count."""
    times = []
    for call in range(repeats + 3):
        start = time.perf_counter()
        function()
        if call >= 3:
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


def measure(case: str) -> dict[str, Any]:
    """Seconds of an epoch and of its parts for one case."""
    files = case.split("+")
    words = ["benchmark", *(f"--flagfile=flags/{f}.cfg" for f in files)]
    with flagsaver.flagsaver():
        config = main.parse_flags(words)
    keras.backend.clear_session()
    keras.utils.set_random_seed(config.seed)
    graph = training.load_graph(config)
    network = training.build_model(config, graph)
    batches = training.build_batches(config, graph, network)
    epoch = _epoch_seconds(config, network, batches)
    steps = batches.n_steps
    authors = AUTHORS_SECONDS[files[0]]
    return {
        "steps": steps,
        "nodes_per_layer": config.samples,
        "refresh_interval": config.refresh_interval,
        "epoch_seconds": epoch,
        "authors_epoch_seconds": authors,
        "authors_over_ours": authors / epoch,
        "milliseconds_per_step": 1e3 * epoch / steps,
        "of_which": _parts(network, batches),
    }


def _epoch_seconds(config: Any, network: Any, batches: Any) -> float:
    timer = callbacks.EpochTimer()
    network.steps_per_execution = training.steps_per_execution(
        config, batches.n_steps
    )
    network.fit(
        batches.dataset(),
        steps_per_epoch=batches.n_steps,
        epochs=_EPOCHS.value,
        shuffle=False,
        verbose=0,
        callbacks=[timer, callbacks.StopOnDivergence()],
    )
    return statistics.median(timer.seconds[1:])


def _parts(network: Any, batches: Any) -> dict[str, float]:
    """Milliseconds of: sampling; a batch of the dataset; the step alone.

    The dataset's includes the sampling. The last two are means over a loop
    inside one call of TensorFlow, as in training.
    """
    rng = np.random.default_rng(0)
    nodes = batches.graph.train_nodes[: batches.batch_size]
    iterator = iter(batches.dataset())
    batch = next(iterator)

    @tf.function
    def fetch() -> None:
        for _ in tf.range(LOOP):
            next(iterator)

    @tf.function
    def train() -> None:
        for _ in tf.range(LOOP):
            network.train_step(batch)

    sampling = median_seconds(
        lambda: samplers.sample_layers(
            batches.sampler, nodes, batches.samples_per_layer, rng
        )
    )
    return {
        "sampling_ms": 1e3 * sampling,
        "dataset_ms": 1e3 * median_seconds(fetch, 10) / LOOP,
        "step_ms": 1e3 * median_seconds(train, 10) / LOOP,
    }


def run(argv: list[str]) -> None:
    """Measure every case and print or write the record."""
    del argv
    memory.keep_freed_memory()
    output = _OUTPUT.value
    record = {
        "floors": floors(),
        "epochs": {case: measure(case) for case in _CASES.value},
        "versions": run_folder.versions(),
        "machine": run_folder.machine(),
    }
    print(record)
    if output:
        Path(output).parent.mkdir(parents=True, exist_ok=True)
        run_folder.write_json(Path(output), record)


if __name__ == "__main__":
    app.run(run)
