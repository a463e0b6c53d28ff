"""Accuracy on graphs in users' forms, beside logistic regression.

    python -m benchmarks.own_graph --places=DIR --records=results/own_graph

DIR holds coauthor_cs.npz, facebook_large/ and tolokers.npz. With
--page=docs/own_graph.md the table goes there. The settings are
those of flags/own_graph.cfg, whatever the graph, but for the flags of
`GRAPHS`. One JSON record a graph; the table is made of the records.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from absl import app, flags
from absl.testing import flagsaver
from scipy import optimize, sparse, special

from adaptive_gcn import main, run_folder, targets, training
from adaptive_gcn.config import Config
from adaptive_gcn.graph import Graph

PLACES = flags.DEFINE_string("places", "", "folder of the graphs")
RECORDS = flags.DEFINE_string("records", "", "folder of the records")
PAGE = flags.DEFINE_string("page", "", "page with the table")
SEEDS = flags.DEFINE_integer("n_seeds", 3, "runs of each graph")
ONLY = flags.DEFINE_list("graphs", [], "some of the graphs; empty: all")

GRAPHS = {
    "coauthor_cs": ("coauthor_cs.npz",),
    "facebook_large": ("facebook_large",),
    "tolokers": ("tolokers.npz", "--split=given:{}", "--features=standard"),
}
PENALTIES = (1e-6, 1e-5, 1e-4, 1e-3)
MARKS = ("<!-- own graph -->", "<!-- /own graph -->")


def config_of(name: str, places: str, seed: int) -> Config:
    """Run `seed` of a graph: another split, other weights."""
    place, *words = GRAPHS[name]
    words = [word.format(seed) for word in words]
    with flagsaver.flagsaver():
        return main.parse_flags(
            [
                "own_graph",
                "--flagfile=flags/own_graph.cfg",
                f"--dataset_dir={Path(places, place)}",
                f"--seed={seed}",
                f"--split_seed={seed}",
                *words,
            ]
        )


def logistic_regression(graph: Graph) -> dict[str, Any]:
    """Test scores on the same scaled features alone.

    The penalty is the one of `PENALTIES` with the least validation loss.
    """
    features = sparse.csr_array(graph.features)
    ones = np.ones((graph.n_nodes, 1), np.float32)
    features = sparse.csr_array(sparse.hstack([features, ones], format="csr"))

    def logits(weights: Any, nodes: Any) -> Any:
        return features[nodes] @ weights.astype(np.float32)

    def loss(weights: Any) -> float:
        nodes = graph.val_nodes
        return float(
            targets.class_loss(graph.labels[nodes], logits(weights, nodes))
        )

    train = features[graph.train_nodes], graph.labels[graph.train_nodes]
    fits = [_fitted(*train, graph.n_classes, each) for each in PENALTIES]
    best = min(fits, key=loss)
    labels = graph.labels[graph.test_nodes]
    scores = logits(best, graph.test_nodes)
    return {
        "accuracy": targets.accuracy(labels, scores),
        "roc_auc": targets.roc_auc(labels, scores),
    }


def _fitted(features: Any, labels: Any, n_classes: int, penalty: float) -> Any:
    """Weights [n_features, n_classes] of least mean loss + L2."""
    shape = (features.shape[1], n_classes)
    truth = np.eye(n_classes)[labels]

    def loss(flat: Any) -> tuple[float, Any]:
        weights = flat.reshape(shape)
        scores = features @ weights
        log_p = scores - special.logsumexp(scores, axis=1, keepdims=True)
        slope = features.T @ (np.exp(log_p) - truth) / len(labels)
        value = -np.sum(truth * log_p) / len(labels)
        penalised = value + 0.5 * penalty * np.sum(weights**2)
        return float(penalised), (slope + penalty * weights).ravel()

    start = np.zeros(shape).ravel()
    found = optimize.minimize(
        loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 200}
    )
    return found.x.reshape(shape)


def measure(name: str, places: str, n_seeds: int) -> dict[str, Any]:
    """The record of one graph."""
    runs = []
    for seed in range(n_seeds):
        config = config_of(name, places, seed)
        with tempfile.TemporaryDirectory() as folder:
            settled = dataclasses.replace(config, output_dir=folder)
            record = training.train(settled)
        runs.append(
            {
                "accuracy": record["test_accuracy"],
                "roc_auc": record["roc_auc"],
                "epochs": record["epochs"],
                "seconds_total": record["seconds_total"],
                "regression": logistic_regression(training.load_graph(config)),
            }
        )
    return {
        "runs": runs,
        "graph": record["graph"],
        "flags": record["flags"],
        "versions": record["versions"],
        "machine": record["machine"],
    }


def table(folder: Path) -> str:
    """The records as a Markdown table."""
    lines = [
        "| graph | nodes, edges | measure | logistic regression | "
        "adaptive_gcn | runs |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name in GRAPHS:
        path = folder / f"{name}.json"
        if path.exists():
            lines += _rows(name, json.loads(path.read_text("utf-8")))
        else:
            lines.append(f"| {name} | | | not run | not run | 0 |")
    return "\n".join(lines)


def _rows(name: str, record: dict[str, Any]) -> list[str]:
    counts, runs = record["graph"], record["runs"]
    size = f"{counts['nodes']:,}, {counts['undirected_edges']:,}"
    return [
        f"| {name} | {size} | {words} | "
        f"{_mean([run['regression'][key] for run in runs])} | "
        f"{_mean([run[key] for run in runs])} | {len(runs)} |"
        for key, words in (("accuracy", "accuracy"), ("roc_auc", "ROC-AUC"))
        if runs[0][key] is not None
    ]


def _mean(values: list[float]) -> str:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.4f} ± {spread:.4f}".replace("0.", ".")


def with_table(page: str, folder: Path) -> str:
    """The page, with the table of the records between its marks."""
    before, _, rest = page.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n\n{table(folder)}\n\n{MARKS[1]}{after}"


def run(_: list[str]) -> None:
    """Measure, and write what was asked for."""
    folder = Path(RECORDS.value)
    if PLACES.value:
        folder.mkdir(parents=True, exist_ok=True)
        for name in ONLY.value or GRAPHS:
            record = measure(name, PLACES.value, SEEDS.value)
            run_folder.write_json(folder / f"{name}.json", record)
            print("\n".join(_rows(name, record)), flush=True)
    if PAGE.value:
        page = Path(PAGE.value)
        text = with_table(page.read_text("utf-8"), folder)
        run_folder.write_text(page, text)


if __name__ == "__main__":
    app.run(run)
