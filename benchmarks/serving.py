"""Size, seconds and latency of exported models.

    python -m benchmarks.serving --output=benchmarks/records/serving.json

Exports an untrained network on Pubmed and on the generated graph of Reddit's
size, saves and loads it, and asks each signature for batches of 1, 16 and 256
nodes in the same process: no network, no decoding. New nodes have as many
neighbours as the mean node of the graph; a graph in a request has as many
nodes as the batch and ten times as many edges. On a machine that is shared
the lowest time of a request and the processor time tell more than the others.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from absl import app, flags
from absl.testing import flagsaver

from adaptive_gcn import export, loading, main, training
from adaptive_gcn.config import Config
from adaptive_gcn.graph import Graph
from benchmarks.measure import floors, write_record

_CASES = flags.DEFINE_list(
    "serving_cases", ["pubmed", "reddit"], "flag files without .cfg"
)
_STORES = flags.DEFINE_string("served_stores", "", "folder of stored graphs")
_SCALE = flags.DEFINE_float("served_scale", 1.0, "part of Reddit's size")

BATCHES = (1, 16, 256)


def parse(case: str) -> Config:
    """The setting of a flag file; for Reddit on the generated graph."""
    words = ["benchmark", f"--flagfile=flags/{case}.cfg"]
    if case == "reddit":
        words += ["--dataset=reddit_like"]
        words += [f"--reddit_like_scale={_SCALE.value}"]
        words += [f"--store_dir={_STORES.value}"]
    with flagsaver.flagsaver():
        return main.parse_flags(words)


def measure(case: str) -> dict[str, Any]:
    """Seconds of export and loading, MB, and milliseconds of requests."""
    config = parse(case)
    graph = loading.load(config)
    network = training.build_model(config, graph)
    with tempfile.TemporaryDirectory() as scratch, tf.device("CPU"):
        folder = Path(scratch) / "model" / "1"
        folder.mkdir(parents=True)
        seconds = _save(config, graph, network, folder)
        start = _now()
        model = tf.saved_model.load(str(folder))
        seconds["load"] = _since(start)
        files = [path for path in folder.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
    return {
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        "seconds": seconds,
        "megabytes": size / 1e6,
        "milliseconds": {
            name: {n: _latency(model, name, graph, n) for n in BATCHES}
            for name in model.signatures
        },
    }


def _save(
    config: Config, graph: Graph, network: Any, folder: Path
) -> dict[str, dict[str, float]]:
    """Seconds to compute the tables, and to write the model."""
    start = _now()
    served = export.build(config, graph, network, folder.parent)
    tables, start = _since(start), _now()
    signatures = export.signatures_of(served, config)
    export.save(served, signatures, folder, graph)
    return {"tables": tables, "save": _since(start)}


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _since(start: tuple[float, float]) -> dict[str, float]:
    """Wall time, and that of all threads: less, if the machine is shared."""
    wall, processor = (b - a for a, b in zip(start, _now(), strict=True))
    return {"wall": wall, "processor": processor}


def _latency(model: Any, name: str, graph: Graph, n: int) -> dict[str, float]:
    """Milliseconds of 50 requests, each for other nodes, after ten."""
    rng = np.random.default_rng(0)
    function = model.signatures[name]
    _, specs = function.structured_input_signature
    times = []
    for _ in range(60):
        request = _request(graph, specs, n, rng)
        start = time.perf_counter()
        function(**request)
        times.append(1e3 * (time.perf_counter() - start))
    kept = times[10:]
    return {"median": statistics.median(kept), "lowest": min(kept)}


def _request(
    graph: Graph, specs: dict[str, Any], n: int, rng: np.random.Generator
) -> dict[str, tf.Tensor]:
    degree = max(1, graph.adjacency.nnz // graph.n_nodes)
    neighbors = [
        rng.choice(graph.n_nodes, degree, replace=False) for _ in range(n)
    ]
    values = {
        "node_ids": rng.integers(0, graph.n_nodes, n),
        "features": rng.random((n, graph.n_features), np.float32),
        "neighbor_ids": np.array(neighbors),
        "neighbor_mask": np.ones((n, degree), bool),
        "neighbor_weights": np.ones((n, degree), np.float32),
        "edges": rng.integers(0, n, (10 * n, 2)),
        "edge_weights": np.ones(10 * n, np.float32),
        "classes": rng.integers(0, graph.n_classes, n),
        "feature_indices": np.stack(
            [
                np.repeat(np.arange(n), 20),
                rng.integers(0, graph.n_features, 20 * n),
            ],
            axis=1,
        ),
        "feature_values": rng.random(20 * n, np.float32),
        "n_nodes": np.int64(n),
    }
    return {name: tf.constant(values[name]) for name in specs}


def run(argv: list[str]) -> None:
    """Measure every case and print or write the record."""
    del argv
    figures = {case: measure(case) for case in _CASES.value}
    write_record({"floors": floors(), "serving": figures})


if __name__ == "__main__":
    app.run(run)
