"""Classes of nodes by the full architecture, written as CSV or Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf
from pyarrow import csv, parquet

from adaptive_gcn import node_choice, run_folder, same_run, targets, training
from adaptive_gcn.config import Config
from adaptive_gcn.datasets.new_file import new_file
from adaptive_gcn.graph import Graph


def predict(config: Config) -> str:
    """Predict nodes with the weights of the run in `output_dir`.

    Args:
        config: The settings of the run; `nodes`, `predictions` and
            `embeddings` say what to write and where.

    Returns:
        A line for people: what was written, and where.

    Raises:
        RunFolderError: If the run cannot be read or is another one, see
            `same_run`, or the file is there and `overwrite` is false.
        DataError: If a listed id is none of the graph's, or it has no
            validation nodes.
    """
    path = _free_path(config)
    with training.on_device(config.device):
        graph = training.load_graph(config)
        nodes = node_choice.chosen_nodes(graph, config.nodes or "all")
        table = pa.table(_columns(config, graph, nodes))
    with new_file(path) as file:
        if path.suffix == ".csv":
            csv.write_csv(table, file)
        else:
            parquet.write_table(table, file)
    return f"{len(nodes)} nodes of {graph.name}: {path}"


def _free_path(config: Config) -> Path:
    path = Path(config.output_dir) / run_folder.PREDICTIONS
    named = f"--output_dir={config.output_dir}"
    if config.predictions:
        path = Path(config.predictions)
        named = f"--predictions={path}"
    run_folder.make_writable(path.parent, named)
    if path.is_dir():
        raise run_folder.RunFolderError(
            f"{path}: is a folder; give a file, with --predictions"
        )
    if path.exists() and not config.overwrite:
        raise run_folder.RunFolderError(
            f"{path}: is there already; give --overwrite to replace it, or "
            "another --predictions"
        )
    return path


def _columns(
    config: Config, graph: Graph, nodes: npt.NDArray[np.int64]
) -> dict[str, Any]:
    """What to write of `nodes`: id, its classes, embedding_0, ..."""
    network = training.build_model(config, graph)
    training.load_weights(network, config)
    full = training.full_propagation(config, graph)
    compared = same_run.nodes_to_compare(graph, Path(config.output_dir))
    logits = full.logits(network, np.concatenate([nodes, compared]))
    same_run.check_accuracy(
        Path(config.output_dir),
        targets.accuracy(graph.labels[compared], logits[len(nodes) :]),
    )
    columns = {
        "id": node_choice.ids_of(graph, nodes),
        **classes_of(graph, logits[: len(nodes)]),
    }
    if config.embeddings:
        hidden = full.hidden(network, nodes).T
        columns |= {f"embedding_{i}": unit for i, unit in enumerate(hidden)}
    return columns


def classes_of(graph: Graph, logits: npt.NDArray[np.float32]) -> dict[str, Any]:
    """The columns class and probability; of several labels, one for each.

    Args:
        graph: The graph.
        logits: [n, n_classes] float32, of n of its nodes.
    """
    if graph.multi_label:
        probabilities = tf.sigmoid(logits).numpy().T
        names = [f"probability:{name}" for name in graph.class_names]
        return dict(zip(names, probabilities, strict=True))
    probabilities = tf.nn.softmax(logits).numpy()
    return {
        "class": np.array(graph.class_names)[np.argmax(logits, axis=1)],
        "probability": probabilities.max(axis=1, initial=0),
    }
