"""Seconds of a training epoch, beside the floor of the same machine.

    taskset -c 0 python -m benchmarks.epoch --output=FILE.json

Trains through Keras fit exactly as a run does, without validation, and
reports the median over epochs. In the same process it measures the parts of
a step (sampling alone, the data pipeline, the step alone) and two floors:
the rates of a matrix product and of a memory copy. Compare ratios, not
seconds, across machines.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from absl import app, flags
from absl.testing import flagsaver

from adaptive_gcn import fitting, main, memory, training
from adaptive_gcn.sampling import samplers
from benchmarks.measure import (
    fit_seconds,
    floors,
    median_seconds,
    milliseconds_of_loop,
    write_record,
)

_EPOCHS = flags.DEFINE_integer("measured_epochs", 60, "epochs to measure")
_CASES = flags.DEFINE_list(
    "cases",
    ["cora", "pubmed"],
    "what to measure: flag files without .cfg, joined by +",
)

# Measured with the authors' code (TensorFlow 1 under tf.compat.v1) on one
# core of a machine of this kind: 4 and 71 batches, the last one dropped.
AUTHORS_SECONDS = {"cora": 0.023, "citeseer": 0.059, "pubmed": 0.68}


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
    steps = batches.n_steps
    execution = fitting.steps_per_execution(config, steps)
    return fit_seconds(network, batches, steps, _EPOCHS.value, execution)


def _parts(network: Any, batches: Any) -> dict[str, float]:
    """Milliseconds of: sampling; a batch of the dataset; the step alone.

    The dataset's includes the sampling. The last two are means over a loop
    inside one call of TensorFlow, as in training.
    """
    rng = np.random.default_rng(0)
    nodes = batches.graph.train_nodes[: batches.batch_size]
    iterator = iter(batches.dataset())
    batch = next(iterator)
    sampling = median_seconds(
        lambda: samplers.sample_layers(
            batches.sampler, nodes, batches.samples_per_layer, rng
        )
    )
    return {
        "sampling_ms": 1e3 * sampling,
        "dataset_ms": milliseconds_of_loop(lambda: next(iterator)),
        "step_ms": milliseconds_of_loop(lambda: network.train_step(batch)),
    }


def run(argv: list[str]) -> None:
    """Measure every case and print or write the record."""
    del argv
    memory.keep_freed_memory()
    epochs = {case: measure(case) for case in _CASES.value}
    write_record({"floors": floors(), "epochs": epochs})


if __name__ == "__main__":
    app.run(run)
