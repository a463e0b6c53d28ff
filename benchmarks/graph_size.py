"""Time of a training step against the size of the graph.

    taskset -c 0 python -m benchmarks.graph_size --output=A.json --plot=A.png

Random graphs of mean degree 20 with up to ten million nodes (needs 12 GiB);
two sampled layers of 512 draws, batches of 256, through Keras `fit`. The step
itself does not depend on the size; what grows is the price of a cache miss.
The refresh of g, one pass over all nodes, is left out: how often it is worth
while does not depend on the step (--refresh_interval).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
from absl import app, flags

from adaptive_gcn import memory, training
from adaptive_gcn.config import Config
from adaptive_gcn.graph import Graph, normalize_adjacency
from adaptive_gcn.pipeline import Batches
from adaptive_gcn.sampling import samplers
from benchmarks.measure import (
    EXECUTIONS,
    fit_seconds,
    floors,
    median_seconds,
    write_record,
)

_PLOT = flags.DEFINE_string("plot", "", "log-log plot to write, PNG")
_SIZES = flags.DEFINE_list(
    "sizes", ["100000", "316228", "1000000", "3162278", "10000000"], "nodes"
)

STEPS = 86
N_FEATURES, N_CLASSES, DEGREE = 64, 16, 20
SETTING = Config(
    features="raw",
    attention="plus_one",
    hidden_units=(64,),
    samples_per_layer=(512,),
    batch_size=256,
    learning_rate=1e-3,
    normalization="row",
)


def random_graph(n_nodes: int) -> Graph:
    """Uniformly random edges; every node trains."""
    rng = np.random.default_rng(0)
    shape = (2, n_nodes * DEGREE // 2)
    sources, targets = rng.integers(0, n_nodes, shape, np.int32)
    return Graph.from_edges(
        (sources, targets),
        rng.standard_normal((n_nodes, N_FEATURES), np.float32),
        rng.integers(0, N_CLASSES, n_nodes),
        train_nodes=np.arange(n_nodes),
        n_classes=N_CLASSES,
        directed=False,
    )


def measure(n_nodes: int) -> dict[str, Any]:
    """Milliseconds of a step, and of its sampling, for one size."""
    graph = random_graph(n_nodes)
    keras.backend.clear_session()
    keras.utils.set_random_seed(0)
    network = training.build_model(SETTING, graph)
    sampler = samplers.AdaptiveSampler(
        normalize_adjacency(graph.adjacency, SETTING.normalization),
        SETTING.proposal,
    )
    batches = Batches(
        graph,
        sampler,
        SETTING.samples,
        SETTING.batch_size,
        feature_levels=network.feature_levels,
    )
    rng = np.random.default_rng(1)

    def sample() -> None:
        batch = rng.choice(n_nodes, SETTING.batch_size, replace=False)
        samplers.sample_layers(sampler, batch, SETTING.samples, rng)

    seconds = fit_seconds(network, batches, STEPS, EXECUTIONS.value, STEPS)
    batches.close()
    return {
        "nodes": n_nodes,
        "edges": graph.n_edges,
        "step_ms": 1e3 * seconds / STEPS,
        "sampling_ms": 1e3 * median_seconds(sample, 100),
    }


def plot(figures: list[dict[str, Any]], path: str) -> None:
    """Step and sampling time against the number of nodes, log-log."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
    nodes = [each["nodes"] for each in figures]
    for key, label in (("step_ms", "step"), ("sampling_ms", "sampling")):
        values = [each[key] for each in figures]
        axes.loglog(nodes, values, "o-", label=label)
    axes.loglog(
        nodes,
        [figures[0]["step_ms"] * n / nodes[0] for n in nodes],
        "k:",
        label="in proportion to the graph",
    )
    axes.set_xlabel("nodes (mean degree 20)")
    axes.set_ylabel("milliseconds")
    axes.set_ylim(0.1, 1000)
    axes.legend()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def run(argv: list[str]) -> None:
    """Measure every size and write the record and the plot."""
    del argv
    memory.keep_freed_memory()
    figures = [measure(int(size)) for size in _SIZES.value]
    growth = figures[-1]["step_ms"] / figures[0]["step_ms"]
    write_record(
        {
            "floors": floors(),
            "setting": training.recorded_flags(SETTING),
            "sizes": figures,
            "last_over_first": growth,
        },
    )
    if _PLOT.value:
        Path(_PLOT.value).parent.mkdir(parents=True, exist_ok=True)
        plot(figures, _PLOT.value)


if __name__ == "__main__":
    app.run(run)
