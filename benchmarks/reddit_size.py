"""Training and evaluation at Reddit's size, beside the floor of the machine.

    taskset -c 0   python -m benchmarks.reddit_size --output=ONE.json
    taskset -c 0,1 python -m benchmarks.reddit_size --output=TWO.json

Runs on the generated graph (--dataset=reddit_like: 232,965 nodes, 11.6 M
undirected edges, 602 features), which is made and stored at the first call.
The floor of a step is what no implementation can leave out, measured in the
same process before and after each figure: the matrix products of its forward
and backward pass, the gathering of the sampled rows, and one reading of the
neighbour lists that are sampled from. Compare ratios across machines.
"""

from __future__ import annotations

import functools
import math
import os
import sys
import time
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags
from absl.testing import flagsaver

from adaptive_gcn import fitting, main, memory, training
from adaptive_gcn.config import Config
from adaptive_gcn.graph import Graph
from adaptive_gcn.sampling import samplers
from benchmarks.measure import (
    EXECUTIONS,
    fit_seconds,
    floors,
    median_seconds,
    milliseconds_of_loop,
    read_rows,
    write_record,
)

_STORES = flags.DEFINE_string("stores", "", "folder of the stored graph")
_FIGURES = flags.DEFINE_list(
    "figures",
    ["memory", "sampler", "steps", "overlap", "epochs", "evaluation"],
    "what to measure, in this order",
)
_SCALE = flags.DEFINE_float("scale", 1.0, "size as a fraction of Reddit's")

STEPS = 602  # Of an epoch, so that each measurement refreshes g once.
SETTING = ("--flagfile=flags/reddit.cfg", "--dataset=reddit_like")
BOTH_SAMPLED = "--flagfile=flags/sampled_bottom.cfg"
WHOLE = ("--attention=plus_one",)
PLAIN = ("--attention=none", "--variance_weight=0")
LAYERS = {"two": (BOTH_SAMPLED,), "one": ()}
CASES = {
    "two sampled layers, attention, variance": (BOTH_SAMPLED, *WHOLE),
    "two sampled layers, plain": (BOTH_SAMPLED, *PLAIN),
    "one sampled layer, attention, variance": WHOLE,
    "one sampled layer, plain": PLAIN,
}

# One thread of a machine of this kind; not measured again here.
AUTHORS_EPOCH_SECONDS = {"two": 20.4, "one": 8.7}
DGL_FULL_EPOCH_SECONDS = (
    5.7  # Over all nodes; ours trains on the training ones.
)


def parse(*words: str) -> Config:
    """The setting of the paper for Reddit, with changes."""
    places = [f"--store_dir={_STORES.value}"]
    places.append(f"--reddit_like_scale={_SCALE.value}")
    with flagsaver.flagsaver():
        return main.parse_flags(["benchmark", *SETTING, *places, *words])


class Bench:
    """A network and its batches in one setting, with the floor of a step."""

    def __init__(self, graph: Graph, *words: str) -> None:
        self.config = parse(*words)
        keras.backend.clear_session()
        keras.utils.set_random_seed(0)
        self.network = training.build_model(self.config, graph)
        self.batches = training.build_batches(self.config, graph, self.network)
        self._rng = np.random.default_rng(1)
        self._drawn = [self.sample() for _ in range(40)]
        self._call = 0

    def sample(self) -> list[Any]:
        """The levels of one batch, bottom-up: node ids of each."""
        nodes = self.batches.graph.train_nodes
        batch = self._rng.choice(nodes, min(256, len(nodes)), replace=False)
        layers = samplers.sample_layers(
            self.batches.sampler,
            batch,
            self.batches.samples_per_layer,
            self._rng,
        )
        return [*(layer.nodes for layer in layers), batch]

    def floor(self) -> dict[str, float]:
        """Milliseconds of what a step cannot leave out."""
        parts = {
            "products_ms": self._products(),
            "gather_ms": 1e3 * median_seconds(self._gather, 40),
            "scan_ms": 1e3 * median_seconds(self._scan, 40),
        }
        return {**parts, "sum_ms": sum(parts.values())}

    def _products(self) -> float:
        """H W of every layer, and in the backward pass dW and, above, dH."""
        kernels = [each.kernel for each in self.network.convolutions]
        sizes = [len(nodes) for nodes in self._drawn[0]]
        shift = len(kernels) - self.network.n_sampled_layers
        operands = []
        for level, weights in enumerate(kernels):
            rows = sizes[max(level - shift, 0)]
            hidden = tf.random.normal((rows, weights.shape[0]))
            gradient = tf.random.normal((rows, weights.shape[1]))
            operands.append((hidden, tf.constant(weights.numpy()), gradient))

        @tf.function
        def products(*flat: tf.Tensor) -> list[tf.Tensor]:
            results = []
            for level in range(len(flat) // 3):
                hidden, weights, gradient = flat[3 * level : 3 * level + 3]
                results.append(tf.matmul(hidden, weights))
                results.append(tf.matmul(hidden, gradient, transpose_a=True))
                if level:
                    results.append(
                        tf.matmul(gradient, weights, transpose_b=True)
                    )
            return results

        flat = [each for operand in operands for each in operand]
        nothing = tf.function(lambda *flat: list(flat))
        call = median_seconds(lambda: nothing(*flat), 40)
        return 1e3 * (median_seconds(lambda: products(*flat), 40) - call)

    def _gather(self) -> None:
        self._call += 1
        nodes = self._drawn[self._call % len(self._drawn)][0]
        self.batches.graph.features[nodes]

    def _scan(self) -> None:
        self._call += 1
        adjacency = self.batches.graph.adjacency
        for nodes in self._drawn[self._call % len(self._drawn)][1:]:
            read_rows(adjacency.indptr, adjacency.indices, nodes)

    def steps(self) -> dict[str, Any]:
        """Milliseconds of a step in `fit`, and of its parts."""
        before = self.floor()
        execution = fitting.steps_per_execution(self.config, STEPS)
        epochs = 1 + math.ceil(EXECUTIONS.value * execution / STEPS)
        seconds = fit_seconds(
            self.network, self.batches, STEPS, epochs, execution
        )
        after = self.floor()
        step = 1e3 * seconds / STEPS
        floor = (before["sum_ms"] + after["sum_ms"]) / 2
        figures = {
            "step_ms": step,
            "floor_ms": floor,
            "over_floor": step / floor,
            "floor_before": before,
            "floor_after": after,
        }
        if not self.config.prefetch:  # Else its sampler is still at work.
            figures["of_which"] = self.parts()
        self.batches.close()
        return figures

    def parts(self) -> dict[str, float]:
        """Milliseconds of sampling, of the dataset, of the step alone."""
        iterator = iter(self.batches.dataset())
        batch = next(iterator)
        parts = {
            "sampling_ms": 1e3 * median_seconds(self.sample, 100),
            "dataset_ms": milliseconds_of_loop(lambda: next(iterator)),
            "train_step_ms": milliseconds_of_loop(
                lambda: self.network.train_step(batch)
            ),
        }
        if self.config.trains_sampler:
            parts["refresh_ms"] = 1e3 * median_seconds(self._refresh, 5)
        return parts

    def _refresh(self) -> None:
        self.batches.sampler.refresh(self.batches.importance_fn())


def measure_sampler(graph: Graph) -> dict[str, Any]:
    """Milliseconds a batch of each kernel, two layers of 512 draws."""
    figures: dict[str, Any] = {}
    for proposal, name in (("sum", "prefix"), ("l2", "union")):
        bench = Bench(graph, BOTH_SAMPLED, f"--proposal={proposal}")
        sampler = bench.batches.sampler
        refresh = functools.partial(sampler.refresh, np.ones(sampler.n_nodes))
        figures[name] = {
            "batch_ms": 1e3 * median_seconds(bench.sample, 300),
            "scan_ms": bench.floor()["scan_ms"],
            "refresh_ms": 1e3 * median_seconds(refresh, 5),
        }
    return figures


def measure_overlap(graph: Graph) -> dict[str, Any]:
    """Step time with batches sampled ahead, beside that of its parts."""
    figures = {}
    for prefetch in (0, 4):
        bench = Bench(graph, BOTH_SAMPLED, *WHOLE, f"--prefetch={prefetch}")
        figures[f"prefetch {prefetch}"] = bench.steps()
    return figures


def measure_epochs(graph: Graph) -> dict[str, Any]:
    """Seconds of an epoch as a run has it, beside the authors' code."""
    figures = {}
    for layers, words in LAYERS.items():
        seconds = _epoch_seconds(graph, 4, *words, *WHOLE)
        authors = AUTHORS_EPOCH_SECONDS[layers]
        figures[f"{layers} sampled layers"] = {
            "epoch_seconds": seconds,
            "authors_epoch_seconds": authors,
            "authors_over_ours": authors / seconds,
        }
    seconds = _epoch_seconds(
        graph,
        3,
        BOTH_SAMPLED,
        "--method=full",
        "--variance_weight=0",
        f"--batch_size={len(graph.train_nodes)}",
    )
    figures["full neighbourhood, one batch"] = {
        "epoch_seconds": seconds,
        "dgl_epoch_seconds": DGL_FULL_EPOCH_SECONDS,
    }
    return figures


def _epoch_seconds(graph: Graph, epochs: int, *words: str) -> float:
    bench = Bench(graph, *words)
    steps = bench.batches.n_steps
    execution = fitting.steps_per_execution(bench.config, steps)
    seconds = fit_seconds(
        bench.network, bench.batches, steps, epochs, execution
    )
    bench.batches.close()
    return seconds


def measure_evaluation(graph: Graph) -> dict[str, float]:
    """Seconds of the full architecture for all nodes, and of its products."""
    config = parse(BOTH_SAMPLED)
    network = training.build_model(config, graph)
    full = training.full_propagation(config, graph)
    nodes = np.arange(graph.n_nodes)
    rates = floors()
    units = config.hidden_units[0]
    flops = 2.0 * graph.n_nodes * graph.n_features * units
    seconds = median_seconds(lambda: full.logits(network, nodes), 3, 1)
    return {
        "all_nodes_seconds": seconds,
        "matrix_product_seconds": flops / rates["matmul_gflops"] / 1e9,
        "sparse_product_seconds": _sparse_product_seconds(graph, units),
    }


def _sparse_product_seconds(graph: Graph, units: int) -> float:
    """Seconds of one product of the whole adjacency and [n_nodes, units].

    It reads a row of `units` floats for each entry, from all over a table
    that fits into no cache: the bandwidth of the memory.
    """
    degrees = np.diff(graph.adjacency.indptr)
    parents = np.repeat(np.arange(graph.n_nodes), degrees)
    matrix = tf.raw_ops.SparseTensorToCSRSparseMatrix(
        indices=np.stack([parents, graph.adjacency.indices], axis=1),
        values=graph.adjacency.data,
        dense_shape=graph.adjacency.shape,
    )
    dense = tf.random.normal((graph.n_nodes, units))
    return median_seconds(
        lambda: tf.raw_ops.SparseMatrixMatMul(a=matrix, b=dense), 3, 1
    )


def measure_memory() -> dict[str, float]:
    """Peak memory of whole runs, each in a process of its own, in GiB."""
    peaks = {}
    for layers, words in LAYERS.items():
        folder = f"runs/memory-{layers}-{os.getpid()}"
        places = [f"--store_dir={_STORES.value}", f"--output_dir={folder}"]
        places.append(f"--reddit_like_scale={_SCALE.value}")
        train = [*SETTING, *words, *places, "--epochs=2"]
        peaks[f"training, {layers} sampled layers"] = _peak_gib(*train)
        peaks[f"evaluation, {layers} sampled layers"] = _peak_gib(
            "--mode=evaluate", f"--output_dir={folder}"
        )
    return peaks


def _peak_gib(*words: str) -> float:
    command = [sys.executable, "-m", "adaptive_gcn.main", *words]
    process = os.spawnv(os.P_NOWAIT, sys.executable, command)
    _, status, usage = os.wait4(process, 0)
    if status:
        raise RuntimeError(f"{' '.join(command)} ended with {status}")
    return usage.ru_maxrss / 2**20


def measure_steps(graph: Graph) -> dict[str, Any]:
    """Milliseconds of a step in each case, beside its floor."""
    return {name: Bench(graph, *words).steps() for name, words in CASES.items()}


MEASURES = {
    "sampler": measure_sampler,
    "steps": measure_steps,
    "overlap": measure_overlap,
    "epochs": measure_epochs,
    "evaluation": measure_evaluation,
}


def run(argv: list[str]) -> None:
    """Measure what is asked for and print or write the record."""
    del argv
    memory.keep_freed_memory()
    started = time.perf_counter()
    figures: dict[str, Any] = {}
    if "memory" in _FIGURES.value:  # First: it makes the stores.
        figures["peak_gib"] = measure_memory()
    graph = training.load_graph(parse(BOTH_SAMPLED))
    figures |= {
        "graph": graph.statistics(),
        "setting": training.recorded_flags(parse()),
        "floors": floors(),
    }
    for name in _FIGURES.value:
        if name != "memory":
            figures[name] = MEASURES[name](graph)
    figures["seconds"] = time.perf_counter() - started
    write_record(figures)


if __name__ == "__main__":
    app.run(run)
