"""A whole run: load, fit, choose the epoch, test once, write the records."""

from __future__ import annotations

import dataclasses
import functools
import logging
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from adaptive_gcn import (
    callbacks,
    confusion,
    distributed,
    fitting,
    graph_digest,
    loading,
    memory,
    memory_needed,
    model,
    node_choice,
    optimizers,
    pipeline,
    prepared,
    propagation,
    resume,
    run_folder,
    same_run,
    self_dependent,
    targets,
    watching,
)
from adaptive_gcn.adjacency import normalize_adjacency
from adaptive_gcn.check_data import check_trainable
from adaptive_gcn.config import PLACES, Config, ConfigError
from adaptive_gcn.errors import DataError
from adaptive_gcn.graph import Graph, training_graph
from adaptive_gcn.sampling import samplers
from adaptive_gcn.stopping import StopSignals

_LOG = logging.getLogger(__name__)

# What a user can cause and mend: one line and no traceback.
USER_ERRORS = (
    ConfigError,
    *loading.USER_ERRORS,
    tf.errors.ResourceExhaustedError,
    callbacks.TrainingDivergedError,
    distributed.WorkerLostError,
)


@dataclasses.dataclass(frozen=True)
class Scores:
    """Quality on a set of nodes under the full architecture.

    Attributes:
        loss: Mean cross-entropy.
        accuracy: Fraction of nodes classified right; of nodes with several
            labels, micro_f1.
        micro_f1: F1 over all decisions; equals accuracy for single labels.
        macro_f1: Mean of the classes' F1.
        roc_auc: See `targets.roc_auc`; None where it is not defined.
    """

    loss: float
    accuracy: float
    micro_f1: float
    macro_f1: float
    roc_auc: float | None = None


def train(config: Config, signals: StopSignals | None = None) -> dict[str, Any]:
    """Train as `config` says; evaluate; write the run's records.

    Args:
        config: The settings; `mode` is not looked at.
        signals: Asks for a stop after a checkpoint, see `stopping`.

    Returns:
        The record that is also written to result.json.

    Raises:
        ConfigError: If a setting does not fit this machine or this graph.
        run_folder.RunFolderError: If the output folder cannot be used.
        callbacks.TrainingDivergedError: If the loss is not finite; the best
            weights so far are saved first.
        stopping.Stopped: If `signals` asked for it.
    """
    watching.check(config)
    workers = distributed.workers(config)  # Before TensorFlow does anything.
    with distributed.losses_named(workers), on_device(config.device) as device:
        memory.keep_freed_memory()
        with _run_folder(config, workers) as folder:
            if config.resume:
                finished = resume.finished_record(
                    config, Path(config.output_dir)
                )
                if finished is not None:
                    return finished
            signals = signals or StopSignals()
            return _train_in(config, folder, device, signals, workers)


@contextmanager
def _run_folder(
    config: Config, workers: distributed.Workers | None
) -> Iterator[Path]:
    """The folder to write to: of all workers the chief's counts alone."""
    if workers is not None and not workers.is_chief:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
        return
    claimed = run_folder.claim(
        config.output_dir,
        config.overwrite,
        f"{config.dataset}-{config.method}-seed{config.seed}",
        config.resume,
    )
    with run_folder.locked(claimed):
        yield claimed


def _train_in(
    config: Config,
    folder: Path,
    device: str,
    signals: StopSignals,
    workers: distributed.Workers | None,
) -> dict[str, Any]:
    keras.backend.clear_session()
    memory.forget_custom_gradients()
    keras.config.set_floatx("float32")
    keras.utils.set_random_seed(config.seed)
    graph = load_graph(config)
    check_trainable(config, graph)
    return _train(config, graph, folder, device, signals, workers)


def evaluate(config: Config) -> dict[str, Any]:
    """Evaluate the saved weights of a run.

    Args:
        config: The settings of the run; `output_dir` is its folder, `nodes`
            says what to score.

    Returns:
        The record that is also written to evaluation.json: `validation` and
        `test`, or what `nodes` names, each with the fields of `Scores`, the
        `classes` one by one (`confusion.class_table`) and the `confusion`
        matrix, or that of each label if a node may have several.

    Raises:
        run_folder.RunFolderError: If the folder holds no weights, those of
            another network, or an evaluation and `overwrite` is false; or if
            the run is another one, see `same_run`.
        DataError: If there is no labelled node to score, or no validation
            node.
    """
    with on_device(config.device):
        folder = Path(config.output_dir)
        _check_no_evaluation(folder, config.overwrite)
        graph = load_graph(config)
        compared = same_run.nodes_to_compare(graph, folder)
        network = build_model(config, graph)
        load_weights(network, config)
        full = full_propagation(config, graph)
        record = {
            name: _scores_by_class(network, full, graph, nodes)
            for name, nodes in _parts(config, graph).items()
        }
        validation = record.get("validation") or dataclasses.asdict(
            score(network, full, graph, compared)
        )
        same_run.check_accuracy(folder, validation["accuracy"])
        for name, scores in record.items():
            table = confusion.as_text(scores["classes"])
            _LOG.info("classes of %s nodes:\n%s", name, table)
        run_folder.write_json(folder / run_folder.EVALUATION, record)
        return record


def _parts(config: Config, graph: Graph) -> dict[str, npt.NDArray[np.int64]]:
    """The nodes to score, by the name that the record has for them."""
    if not config.nodes:
        parts = {"validation": graph.val_nodes, "test": graph.test_nodes}
        if not config.evaluate_test or not len(graph.test_nodes):
            del parts["test"]
        return parts
    nodes = _each_once(node_choice.chosen_nodes(graph, config.nodes))
    labelled = nodes[graph.labelled()[nodes]]
    if not len(labelled):
        raise DataError(f"--nodes={config.nodes}: no labelled node to score")
    if len(labelled) < len(nodes):
        _LOG.warning(
            "%d of %d nodes have no label and are not scored",
            len(nodes) - len(labelled),
            len(nodes),
        )
    names = {"val": "validation", **{n: n for n in ("all", "train", "test")}}
    return {names.get(config.nodes, "listed"): labelled}


def _each_once(nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The nodes in their order, without repeats: a repeat has no new answer."""
    _, first = np.unique(nodes, return_index=True)
    if len(first) < len(nodes):
        _LOG.warning(
            "%d of %d listed nodes are there again; each is scored once",
            len(nodes) - len(first),
            len(nodes),
        )
    return nodes[np.sort(first)]


def _scores_by_class(
    network: model.AdaptiveGCN,
    full: propagation.FullPropagation,
    graph: Graph,
    nodes: npt.NDArray[np.int64],
) -> dict[str, Any]:
    logits = full.logits(network, nodes)
    labels = graph.labels[nodes]
    if graph.multi_label:
        matrix = confusion.label_matrices(labels, logits > 0)
    else:
        predicted = np.argmax(logits, axis=1)
        matrix = confusion.confusion_matrix(labels, predicted, graph.n_classes)
    return {
        **dataclasses.asdict(_scores(logits, graph, nodes)),
        "classes": confusion.class_table(matrix, graph.class_names),
        "confusion": matrix.tolist(),
    }


def _check_no_evaluation(folder: Path, overwrite: bool) -> None:
    path = folder / run_folder.EVALUATION
    if path.exists() and not overwrite:
        raise run_folder.RunFolderError(
            f"{path}: an earlier evaluation; give --overwrite to replace it"
        )


def describe(record: dict[str, Any]) -> str:
    """The result of a run in one line, for people."""
    test = record["test_accuracy"]
    shown = "none (no test nodes, or --noevaluate_test)"
    if test is not None:
        shown = f"{test:.4f}"
    if record.get("roc_auc") is not None:
        shown += f" (ROC-AUC {record['roc_auc']:.4f})"
    measure = "micro-F1" if record.get("multi_label") else "accuracy"
    return (
        f"test {measure} {shown}, validation {measure} "
        f"{record['val_accuracy']:.4f}, epoch "
        f"{record['best_epoch']} of {record['epochs']}, chosen by "
        f"{record['selected_by']}"
    )


def load_graph(config: Config) -> Graph:
    """The graph that `config` names, its features scaled."""
    graph = loading.load(config)
    return graph.with_features(prepared.scaled(graph, config.features))


def build_model(config: Config, graph: Graph) -> model.AdaptiveGCN:
    """The network of `config` for `graph`, compiled and built."""
    network = model.AdaptiveGCN(
        n_classes=graph.n_classes,
        hidden_units=config.hidden_units,
        attention=config.attention,
        self_dependent=config.self_dependent,
        skip=config.skip,
        dropout=config.dropout,
        weight_decay=config.weight_decay,
        variance_weight=config.variance_weight,
        variance_gradient=config.variance_gradient,
        variance_layers=config.variance_layers,
        network_term=config.network_term,
        train_sampler=config.method == "adapt",
        draws_from_q=config.draws_from_q,
        precomputed=config.precompute,
    )
    network.compile(
        optimizers.FusedAdam(
            config.learning_rate,
            use_ema=config.weight_average > 0,
            ema_momentum=config.weight_average,
        ),
        optimizers.FusedAdam(config.sampler_learning_rate),
    )
    network.build_for(graph.n_features)
    return network


def build_batches(
    config: Config, graph: Graph, network: model.AdaptiveGCN
) -> pipeline.Batches:
    """The sampled mini-batches of the training graph of `graph`."""
    train_graph = training_graph(graph)
    norm_adjacency = _normalized(config, train_graph)
    if config.precompute:
        train_graph = _with_aggregated(
            config, train_graph, norm_adjacency, "train"
        )
    features = train_graph.features
    w_g = network.self_dependent.w_g

    # Must not hold `network`: TensorFlow keeps the dataset's function while
    # the network's own functions live, and no collector finds that cycle.
    def self_importance() -> npt.NDArray[np.float64]:
        values = w_g.numpy()[:, 0]
        if not np.all(np.isfinite(values)):
            raise callbacks.TrainingDivergedError("W_g is not finite")
        return self_dependent.self_importance(
            features, values, config.self_dependent
        )

    return pipeline.Batches(
        graph=train_graph,
        sampler=_sampler(config, norm_adjacency),
        samples_per_layer=config.samples,
        batch_size=config.batch_size,
        seed=config.seed,
        feature_levels=network.feature_levels,
        importance_fn=self_importance,
        # g of a W_g that is not trained stays as it is.
        refresh_interval=config.refresh_interval * config.trains_sampler,
        prefetch=config.prefetch,
    )


def full_propagation(
    config: Config, graph: Graph
) -> propagation.FullPropagation:
    """The full architecture over the whole graph."""
    norm_adjacency = _normalized(config, graph)
    if config.precompute:
        graph = _with_aggregated(config, graph, norm_adjacency, "all")
    return propagation.FullPropagation(
        norm_adjacency, graph.features, config.block_entries
    )


def score(
    network: model.AdaptiveGCN,
    full: propagation.FullPropagation,
    graph: Graph,
    nodes: npt.NDArray[np.int64],
) -> Scores:
    """Scores of `nodes` under the full architecture."""
    return _scores(full.logits(network, nodes), graph, nodes)


def _scores(
    logits: npt.NDArray[np.float32], graph: Graph, nodes: npt.NDArray[np.int64]
) -> Scores:
    labels = graph.labels[nodes]
    loss, accuracy = _loss_and_accuracy(logits, labels)
    micro, macro = targets.f1_scores(labels, logits)
    return Scores(loss, accuracy, micro, macro, targets.roc_auc(labels, logits))


def _loss_and_accuracy(
    logits: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]
) -> tuple[float, float]:
    loss = float(targets.class_loss(labels, logits))
    return loss, targets.accuracy(labels, logits)


def _train(
    config: Config,
    graph: Graph,
    folder: Path,
    device: str,
    signals: StopSignals,
    workers: distributed.Workers | None,
) -> dict[str, Any]:
    started = time.perf_counter()
    memory_needed.announce(config, graph)
    found = None
    if config.resume:
        found = resume.snapshot(config, graph, Path(config.output_dir))
    network, batches = _network_and_batches(config, graph, workers)
    full = full_propagation(config, graph)
    graph.release_pages()
    _announce(config, batches, device)
    fit = fitting.Fit(
        config,
        network,
        batches,
        lambda: _epoch_scores(config, network, full, graph),
        functools.cache(lambda: graph_digest.digest(graph)),
        folder,
        signals,
        started,
        workers,
    )
    if found is None:
        run_folder.remove_results(folder)
        run_folder.write_json(folder / run_folder.CONFIG, config.as_dict())
    else:
        fit.resume_from(found)
    run_folder.remove_leftovers(folder)
    fit.run()
    validation = score(network, full, graph, graph.val_nodes)
    record = {
        "best_epoch": fit.best.best_epoch + 1,
        "selected_by": config.select,
        "epochs": len(fit.timer.seconds),
        "val_loss": validation.loss,
        "val_accuracy": validation.accuracy,
        "val_roc_auc": validation.roc_auc,
        **_test_scores(config, network, full, graph),
        "seconds_per_epoch": statistics.median(fit.timer.seconds),
        "seconds_total": time.perf_counter() - fit.started,
        "multi_label": graph.multi_label,
        "seed": config.seed,
        "flags": recorded_flags(config),
        "graph": {"name": graph.name, **graph.statistics()},
        "selection_checksum": graph_digest.of_selection(graph),
        "versions": run_folder.versions(),
        "machine": {**run_folder.machine(), "device": device},
    }
    if config.test_curve:
        record["curves"] = {
            "seconds": fit.timer.seconds,
            **{
                name: [row[name] for row in fit.history.rows]
                for name in ("val_accuracy", "test_accuracy")
            },
        }
    run_folder.write_json(folder / run_folder.RESULT, record)
    (folder / run_folder.CHECKPOINT).unlink(missing_ok=True)
    _LOG.info("records and weights are in %s", folder)
    return record


def _network_and_batches(
    config: Config, graph: Graph, workers: distributed.Workers | None
) -> tuple[model.AdaptiveGCN, pipeline.Batches]:
    if workers is None:
        network = build_model(config, graph)
        return network, build_batches(config, graph, network)
    n_parts = workers.n_parts
    distributed.check_batches(config, len(graph.train_nodes), n_parts)
    with workers.strategy.scope():
        network = build_model(config, graph)
    distributed.average_gradients(network, n_parts)
    batches = dataclasses.replace(
        build_batches(config, graph, network),
        worker=workers.index,
        n_workers=workers.count,
        replicas=workers.replicas,
    )
    return network, batches


def _test_scores(
    config: Config,
    network: model.AdaptiveGCN,
    full: propagation.FullPropagation,
    graph: Graph,
) -> dict[str, float | None]:
    """The one reading of the test nodes, with the chosen weights."""
    names = ("test_accuracy", "micro_f1", "macro_f1", "roc_auc")
    if not config.evaluate_test or not len(graph.test_nodes):
        return dict.fromkeys(names)
    test = score(network, full, graph, graph.test_nodes)
    _, *scores = dataclasses.astuple(test)
    return dict(zip(names, scores, strict=True))


def recorded_flags(config: Config) -> dict[str, Any]:
    """Flags that may bear on the result: all but where things lie."""
    flags = config.as_dict()
    for name in PLACES:
        del flags[name]
    return flags


def _epoch_scores(
    config: Config,
    network: model.AdaptiveGCN,
    full: propagation.FullPropagation,
    graph: Graph,
) -> dict[str, float]:
    """Validation loss and accuracy, and test accuracy if it is asked for."""
    graph.release_pages()  # What training read is not needed beside this.
    n_val = len(graph.val_nodes)
    nodes = graph.val_nodes
    if config.test_curve:
        nodes = np.concatenate([nodes, graph.test_nodes])
    logits, labels = full.logits(network, nodes), graph.labels[nodes]
    loss, accuracy = _loss_and_accuracy(logits[:n_val], labels[:n_val])
    scores = {"val_loss": loss, "val_accuracy": accuracy}
    if config.test_curve:
        _, test = _loss_and_accuracy(logits[n_val:], labels[n_val:])
        scores["test_accuracy"] = test
    return scores


def load_weights(network: model.AdaptiveGCN, config: Config) -> None:
    """Give the network the weights of the run in `output_dir`.

    Raises:
        run_folder.RunFolderError: If there are none, or those of another one.
    """
    path = Path(config.output_dir) / run_folder.WEIGHTS
    if not path.exists():
        raise run_folder.RunFolderError(f"{path}: there are no weights")
    try:
        network.load_weights(path)
    except (OSError, ValueError) as error:
        raise run_folder.RunFolderError(
            f"{path}: not the weights of this network ({error})"
        ) from error


def _normalized(config: Config, graph: Graph) -> Any:
    return normalize_adjacency(
        graph.adjacency,
        config.normalization,
        config.two_hop,
        config.identity_weight,
    )


def _with_aggregated(
    config: Config, graph: Graph, norm_adjacency: Any, nodes: str
) -> Graph:
    """The graph with A^X for X; `nodes` says over which of the nodes."""
    settings = (
        f"{nodes}-{config.features}-{config.normalization}"
        f"-hops{1 + config.two_hop}-identity{config.identity_weight!r}"
    )
    return graph.with_features(
        prepared.aggregated(graph, norm_adjacency, settings)
    )


def _sampler(config: Config, norm_adjacency: Any) -> samplers.Sampler:
    if config.method == "full":
        return samplers.FullSampler(norm_adjacency)
    if config.method == "iid":
        return samplers.IIDSampler(norm_adjacency, config.replacement)
    if config.method == "node_wise":
        return samplers.NodeWiseSampler(
            norm_adjacency, config.n_neighbors, config.replacement
        )
    return samplers.AdaptiveSampler(
        norm_adjacency, config.proposal, config.replacement
    )


def _announce(config: Config, batches: pipeline.Batches, device: str) -> None:
    graph = batches.graph
    _LOG.info(
        "sampler %s, nodes per layer %s below batches of %d; training graph: "
        "%d nodes, %d edges, %d isolated; device %s",
        config.method,
        _layer_sizes(config),
        config.batch_size,
        graph.n_nodes,
        graph.n_edges,
        graph.statistics()["isolated"],
        device,
    )
    if config.precompute:
        _LOG.info(
            "the bottom layer is not sampled: its A^X was computed once, over "
            "the training graph to train and the whole graph to evaluate"
        )
    if config.trains_sampler:
        _LOG.info(
            "g of all nodes is refreshed every %d steps and lags by up to %d",
            config.refresh_interval,
            config.prefetch,
        )
    if config.variance_weight and not config.replacement:
        _LOG.info(
            "draws without replacement: the variance and the gradient for W_g "
            "are those of draws with replacement, an approximation"
        )


def _layer_sizes(config: Config) -> str:
    if config.method == "full":
        return "all"
    if config.method == "node_wise":
        return f"{config.n_neighbors} a node"
    return ",".join(map(str, config.samples))


@contextmanager
def on_device(name: str) -> Iterator[str]:
    """Place what follows on the device that `--device` names."""
    gpus = [
        f"gpu:{i}" for i in range(len(tf.config.list_physical_devices("GPU")))
    ]
    name = name.lower()
    if name == "auto":
        name = gpus[0] if gpus else "cpu"
    elif name == "gpu" and gpus:
        name = gpus[0]
    if name not in ("cpu", *gpus):
        raise ConfigError(
            f"--device={name}: this machine shows "
            f"{', '.join(gpus) or 'no GPU'} to TensorFlow; use --device=auto, "
            "cpu or one of those"
        )
    with tf.device(f"/{name}"):
        yield name
