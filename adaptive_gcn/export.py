"""The weights of a run and its graph as a SavedModel for TensorFlow Serving.

What a request asks and what it gets is in `served_model`; here is what that
is made of, and where it goes: <export_dir>/<export_name>/<version>.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from adaptive_gcn import (
    features,
    loading,
    node_choice,
    prepared,
    propagation,
    run_folder,
    same_run,
    targets,
    training,
    versions,
    warm_up,
)
from adaptive_gcn.config import Config
from adaptive_gcn.errors import DataError
from adaptive_gcn.graph import Graph
from adaptive_gcn.served_model import Form, ServedModel, Tables, Weights

_LOG = logging.getLogger(__name__)

CHECK_BATCH = 1024  # Nodes of one request of the check before saving.


def export(config: Config) -> str:
    """Export the run in `output_dir` as a new version.

    Args:
        config: The settings of the run; `export_dir` and `export_name` say
            where to.

    Returns:
        A line for people: what was written, and where.

    Raises:
        RunFolderError: If the run cannot be read or is another one, see
            `same_run`, or the folder cannot be written.
        DataError: If the graph's ids cannot be looked up in a model, or it
            has no validation nodes.
    """
    base = _base(config)
    _check_found_by_tensorflow(base)
    run_folder.make_writable(base, f"--export_dir={base.parent}")
    with tf.device("CPU"), tempfile.TemporaryDirectory() as scratch:
        graph = loading.load(config)
        nodes = same_run.nodes_to_compare(graph, Path(config.output_dir))
        network = training.build_model(config, graph)
        training.load_weights(network, config)
        served = build(config, graph, network, Path(scratch))
        accuracy = _accuracy(served, graph, nodes)
        same_run.check_accuracy(Path(config.output_dir), accuracy)
        signatures = signatures_of(served, config)
        with versions.unfinished(base) as folder:
            with _told_as_of_files(base):
                save(served, signatures, folder, graph)
            version = versions.publish(folder)
    names = ", ".join(signatures)
    return f"{graph.name} is in {base} as version {version}: {names}"


def build(
    config: Config, graph: Graph, network: Any, scratch: Path
) -> ServedModel:
    """The model to serve.

    Args:
        config: The settings of the run.
        graph: Its graph, features as they were read.
        network: Its network, with its weights.
        scratch: A folder for the list of ids, needed until the model is
            saved.

    Raises:
        DataError: If the graph's ids cannot be looked up in a model.
    """
    ids_file = _write_ids(graph.node_ids, scratch)
    scaled = graph.with_features(prepared.scaled(graph, config.features))
    weights = _weights(config, graph, network)
    full = training.full_propagation(config, scaled)
    return ServedModel(
        _form(config, graph, network),
        weights,
        _tables(scaled, network, full, weights),
        graph.class_names,
        ids_file,
        _ids_dtype(graph),
    )


def signatures_of(served: ServedModel, config: Config) -> dict[str, Any]:
    """The functions to serve, by signature.

    Those that the settings do not allow are left out, with a warning.
    """
    ids = tf.TensorSpec([None], served.ids_dtype, "node_ids")
    rows = tf.TensorSpec([None, served.n_features], tf.float32, "features")
    edges = tf.TensorSpec([None, 2], tf.int64, "edges")
    weights = tf.TensorSpec([None], tf.float32, "edge_weights")
    classes = tf.TensorSpec([None], tf.int64, "classes")
    found = {
        "serving_default": _function(served.serving_default, ids),
        "embed": _function(served.embed, ids),
        "class_names": _function(served.class_names, classes),
    }
    if config.two_hop:
        _LOG.warning(
            "signature inductive is left out: with --two_hop the row of a new "
            "node holds its neighbours' neighbours, which no request names"
        )
    else:
        links = [rows, *_link_specs(served.ids_dtype)]
        found["inductive"] = _function(served.inductive, *links[:-1])
        found["inductive_weighted"] = _function(
            served.inductive_weighted, *links
        )
    if config.two_hop and config.attention != "none":
        _LOG.warning(
            "signature subgraph is left out: with --two_hop attention is on "
            "pairs of nodes two hops apart, which edges do not list"
        )
    else:
        found["subgraph"] = _function(served.subgraph, rows, edges)
        found["subgraph_weighted"] = _function(
            served.subgraph_weighted, rows, edges, weights
        )
        found["subgraph_sparse"] = _function(
            served.subgraph_sparse, *_SPARSE_ROWS, edges
        )
    return found


_SPARSE_ROWS = (
    tf.TensorSpec([None, 2], tf.int64, "feature_indices"),
    tf.TensorSpec([None], tf.float32, "feature_values"),
    tf.TensorSpec([], tf.int64, "n_nodes"),
)


def _link_specs(ids_dtype: tf.DType) -> list[tf.TensorSpec]:
    return [
        tf.TensorSpec([None, None], dtype, f"neighbor_{name}")
        for name, dtype in (
            ("ids", ids_dtype),
            ("mask", tf.bool),
            ("weights", tf.float32),
        )
    ]


def _function(method: Any, *specs: tf.TensorSpec) -> Any:
    # AutoGraph would read the source of every method, for seconds.
    return tf.function(method, input_signature=specs, autograph=False)


def save(
    served: ServedModel,
    signatures: dict[str, Any],
    folder: Path,
    graph: Graph,
) -> None:
    """Write a SavedModel with its warm-up requests into an empty folder."""
    with _quiet_tensorflow():
        tf.saved_model.save(served, str(folder), signatures=signatures)
    first = [0] if graph.node_ids is None else graph.node_ids[:1].tolist()
    blank = np.zeros((1, served.n_features), np.float32)
    examples = {
        "node_ids": np.array(first),
        "classes": np.zeros(1, np.int64),
        "features": blank,
        "neighbor_ids": np.array([first]),
        "neighbor_mask": np.ones((1, 1), bool),
        "neighbor_weights": np.ones((1, 1), np.float32),
        "edges": np.zeros((1, 2), np.int64),
        "edge_weights": np.ones(1, np.float32),
        "feature_indices": np.zeros((1, 2), np.int64),
        "feature_values": np.ones(1, np.float32),
        "n_nodes": np.int64(1),
    }
    requests = {
        name: {
            spec.name: examples[spec.name] for spec in function.input_signature
        }
        for name, function in signatures.items()
    }
    warm_up.write(folder, folder.parent.name, requests)


@contextlib.contextmanager
def _quiet_tensorflow() -> Iterator[None]:
    """Leave out what TensorFlow tells of the names and parts of a model."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(before)


def _base(config: Config) -> Path:
    """The folder of the versions."""
    name = config.export_name or config.dataset
    folder = config.export_dir or Path(config.output_dir) / "export"
    return Path(folder) / name


def _check_found_by_tensorflow(base: Path) -> None:
    if {"[", "\\"} & {*str(base)}:
        raise run_folder.RunFolderError(
            f"--export_dir={base.parent}: TensorFlow takes {base} for a "
            "pattern and would not find the model there; give a folder, and "
            "--export_name, without [ and \\"
        )


@contextlib.contextmanager
def _told_as_of_files(base: Path) -> Iterator[None]:
    """TensorFlow has other errors than Python for a disk that is full."""
    try:
        yield
    except tf.errors.OpError as error:
        raise run_folder.RunFolderError(
            f"{base}: the model cannot be written ({error.message}); see "
            "that there is room and it may be written, or give another "
            "--export_dir"
        ) from error


def _form(config: Config, graph: Graph, network: Any) -> Form:
    attention = network.attention
    return Form(
        scaling=config.features,
        normalization=config.normalization,
        two_hop=config.two_hop,
        identity_weight=config.identity_weight,
        skip=config.skip,
        attention_offset=None if attention is None else attention.offset,
        precomputed=config.precompute,
        multi_label=graph.multi_label,
    )


def _weights(config: Config, graph: Graph, network: Any) -> Weights:
    bottom, *above = (each.kernel.numpy() for each in network.convolutions)
    center, spread = np.zeros(graph.n_features), np.ones(graph.n_features)
    if config.features == "standard":
        center, spread = features.column_statistics(
            graph.features, graph.train_nodes
        )
    columns = [bottom, *_score_columns(network)]
    return Weights(np.concatenate(columns, 1), above, center, spread)


def _score_columns(network: Any) -> Iterator[npt.NDArray[np.float32]]:
    """Columns w with W_1 z(v) = x(v) w, and W_2 z(u) likewise, Eq. (14)."""
    if network.attention is None:
        return
    attention = network.attention
    for scale in (attention.parent_scale, attention.sample_scale):
        if network.attention_form == "plus_one":
            yield scale.numpy()
        else:  # z = W_g x, and W_1, W_2 are scalars.
            yield network.self_dependent.w_g.numpy() * scale.numpy()


def _tables(
    graph: Graph,
    network: Any,
    full: propagation.FullPropagation,
    weights: Weights,
) -> Tables:
    matrix = full.norm_adjacency
    values = full.attended(network)
    scores = full.attention_scores(network)
    above = full.tables(network)
    if not network.precomputed:  # t_0 is made with the columns of attention.
        above = itertools.islice(above, 1, None)
    return Tables(
        indptr=matrix.indptr.astype(np.int64),
        indices=matrix.indices,
        values=values,
        bottom_values=None if values is matrix.data else matrix.data,
        degrees=graph.adjacency.sum(axis=1, dtype=np.float64) + 1.0,
        tables=[
            propagation.feature_products(graph.features, weights.projection),
            *above,
        ],
        sample_scores=None if scores is None else scores[1],
    )


def _write_ids(ids: npt.NDArray[Any] | None, folder: Path) -> str:
    """Write one id a line; the file, or nothing if nodes are 0, 1, ..."""
    if ids is None:
        return ""
    lines = [str(each) for each in ids.tolist()]
    broken = [each for each in lines if not each or {"\n", "\r"} & {*each}]
    if broken:
        raise DataError(
            f"node ids: {len(broken)} are empty or hold a line break, the "
            f"first is {broken[0]!r}; a model looks ids up in a file of lines. "
            "Rename these nodes"
        )
    path = folder / "node_ids.txt"
    path.write_text("".join(f"{each}\n" for each in lines), "utf-8")
    return str(path)


def _ids_dtype(graph: Graph) -> tf.DType:
    names = graph.node_ids is not None and graph.node_ids.dtype.kind == "U"
    return tf.string if names else tf.int64


def _accuracy(
    served: ServedModel, graph: Graph, nodes: npt.NDArray[np.int64]
) -> float:
    """`targets.accuracy` of the answers of the model to save."""
    ids = node_choice.ids_of(graph, nodes)
    answers = [
        served.serving_default(tf.constant(ids[start : start + CHECK_BATCH]))
        for start in range(0, max(len(ids), 1), CHECK_BATCH)
    ]
    key = "labels" if graph.multi_label else "probabilities"
    scores = np.concatenate([each[key] for each in answers])
    return targets.accuracy(graph.labels[nodes], scores.astype(np.float32))
