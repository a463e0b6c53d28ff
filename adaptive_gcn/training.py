"""A whole run: load, fit, choose the epoch, test once, write the records."""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import statistics
import sys
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
    loading,
    memory,
    model,
    optimizers,
    pipeline,
    prepared,
    propagation,
    run_folder,
    targets,
)
from adaptive_gcn.adjacency import normalize_adjacency
from adaptive_gcn.check_data import check_trainable
from adaptive_gcn.config import PLACES, Config, ConfigError
from adaptive_gcn.graph import Graph, training_graph
from adaptive_gcn.sampling import importance, samplers

_LOG = logging.getLogger(__name__)

MOST_STEPS_PER_EXECUTION = 100
SAME_ACCURACY = 5e-3  # A tie may turn between machines; settings move more.

# What a user can cause and mend: one line and no traceback.
USER_ERRORS = (
    ConfigError,
    *loading.USER_ERRORS,
    tf.errors.ResourceExhaustedError,
    callbacks.TrainingDivergedError,
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


def train(config: Config) -> dict[str, Any]:
    """Train as `config` says; evaluate; write the run's records.

    Args:
        config: The settings; `mode` is not looked at.

    Returns:
        The record that is also written to result.json.

    Raises:
        ConfigError: If a setting does not fit this machine or this graph.
        run_folder.RunFolderError: If the output folder cannot be used.
        callbacks.TrainingDivergedError: If the loss is not finite; the best
            weights so far are saved first.
    """
    with _on_device(config.device) as device:
        memory.keep_freed_memory()
        folder = run_folder.claim(
            config.output_dir,
            config.overwrite,
            f"{config.dataset}-{config.method}-seed{config.seed}",
        )
        keras.backend.clear_session()
        memory.forget_custom_gradients()
        keras.config.set_floatx("float32")
        keras.utils.set_random_seed(config.seed)
        graph = load_graph(config)
        check_trainable(config, graph)
        return _train(config, graph, folder, device)


def evaluate(config: Config) -> dict[str, Any]:
    """Evaluate the saved weights of a run on validation and test nodes.

    Args:
        config: The settings of the run; `output_dir` is its folder.

    Returns:
        The record that is also written to evaluation.json: `validation` and
        `test`, each as the fields of `Scores`.

    Raises:
        run_folder.RunFolderError: If the folder holds no weights, those of
            another network, or an evaluation and `overwrite` is false.
    """
    with _on_device(config.device):
        folder = Path(config.output_dir)
        _check_no_evaluation(folder, config.overwrite)
        graph = load_graph(config)
        network = build_model(config, graph)
        _load_weights(network, folder / run_folder.WEIGHTS)
        full = full_propagation(config, graph)
        record = {
            name: dataclasses.asdict(score(network, full, graph, nodes))
            for name, nodes in (
                ("validation", graph.val_nodes),
                ("test", graph.test_nodes),
            )
            if len(nodes) and (config.evaluate_test or name != "test")
        }
        _check_same_as_trained(folder, record["validation"]["accuracy"])
        run_folder.write_json(folder / run_folder.EVALUATION, record)
        return record


def _check_no_evaluation(folder: Path, overwrite: bool) -> None:
    path = folder / run_folder.EVALUATION
    if path.exists() and not overwrite:
        raise run_folder.RunFolderError(
            f"{path}: an earlier evaluation; give --overwrite to replace it"
        )


def _check_same_as_trained(folder: Path, val_accuracy: float) -> None:
    """Settings changed by hand would score another network in silence."""
    path = folder / run_folder.RESULT
    if not path.exists():
        return
    trained = run_folder.read_json(path).get("val_accuracy")
    if trained is None or abs(trained - val_accuracy) > SAME_ACCURACY:
        raise run_folder.RunFolderError(
            f"{path}: has validation accuracy {trained}, but now it is "
            f"{val_accuracy:.4f}; settings, weights or data have changed"
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
        return importance.self_importance(
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
    logits = full.logits(network, nodes)
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
    config: Config, graph: Graph, folder: Path, device: str
) -> dict[str, Any]:
    started = time.perf_counter()
    network = build_model(config, graph)
    batches = build_batches(config, graph, network)
    full = full_propagation(config, graph)
    graph.release_pages()
    _announce(config, batches, device)
    run_folder.remove_results(folder)
    run_folder.write_json(folder / run_folder.CONFIG, config.as_dict())
    best, timer, history = _fit(config, graph, network, batches, full, folder)
    validation = score(network, full, graph, graph.val_nodes)
    record = {
        "best_epoch": best.best_epoch + 1,
        "selected_by": config.select,
        "epochs": len(timer.seconds),
        "val_loss": validation.loss,
        "val_accuracy": validation.accuracy,
        "val_roc_auc": validation.roc_auc,
        **_test_scores(config, network, full, graph),
        "seconds_per_epoch": statistics.median(timer.seconds),
        "seconds_total": time.perf_counter() - started,
        "multi_label": graph.multi_label,
        "seed": config.seed,
        "flags": recorded_flags(config),
        "graph": {"name": graph.name, **graph.statistics()},
        "versions": run_folder.versions(),
        "machine": {**run_folder.machine(), "device": device},
    }
    if config.test_curve:
        record["curves"] = {
            "seconds": timer.seconds,
            "val_accuracy": history["val_accuracy"],
            "test_accuracy": history["test_accuracy"],
        }
    run_folder.write_json(folder / run_folder.RESULT, record)
    _LOG.info("records and weights are in %s", folder)
    return record


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


def _fit(
    config: Config,
    graph: Graph,
    network: model.AdaptiveGCN,
    batches: pipeline.Batches,
    full: propagation.FullPropagation,
    folder: Path,
) -> tuple[
    keras.callbacks.EarlyStopping,
    callbacks.EpochTimer,
    dict[str, list[float]],
]:
    timer = callbacks.EpochTimer()
    best = keras.callbacks.EarlyStopping(
        monitor=config.select,
        mode="min" if config.select == "val_loss" else "max",
        patience=config.patience or config.epochs,
        restore_best_weights=True,
    )

    network.steps_per_execution = steps_per_execution(config, batches.n_steps)
    terminal = sys.stderr.isatty()
    try:
        history = network.fit(
            batches.dataset(),
            steps_per_epoch=batches.n_steps,
            epochs=config.epochs,
            shuffle=False,
            verbose=1 if terminal else 0,
            callbacks=[
                timer,
                callbacks.StopOnDivergence(),
                *_averaging(config),
                callbacks.FullValidation(
                    lambda: _epoch_scores(config, network, full, graph)
                ),
                best,
                callbacks.History(str(folder / run_folder.HISTORY)),
                *([] if terminal else [callbacks.EpochLine()]),
            ],
        )
    except tf.errors.OpError as error:
        _check_sampler(network, len(timer.seconds) + 1, error)
        raise
    finally:
        batches.close()
        if best.best_weights is not None:
            network.set_weights(best.best_weights)
            _save_weights(network, folder / run_folder.WEIGHTS)
    return best, timer, history.history


def _averaging(config: Config) -> list[keras.callbacks.Callback]:
    """Puts the averaged weights into the network between epochs."""
    if not config.weight_average:
        return []
    return [keras.callbacks.SwapEMAWeights(swap_on_epoch=True)]


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


def _check_sampler(
    network: model.AdaptiveGCN, epoch: int, error: tf.errors.OpError
) -> None:
    """Raise what happened, if drawing failed since W_g is not a number."""
    if not np.all(np.isfinite(network.self_dependent.w_g.numpy())):
        raise callbacks.TrainingDivergedError(
            f"training diverged: epoch {epoch}: W_g is not finite; "
            f"{callbacks.REMEDY}"
        ) from error


def steps_per_execution(config: Config, n_steps: int) -> int:
    """The largest divisor of an epoch's steps that is not too large.

    It must divide: the dataset has no end at which a longer run would stop.
    Within an execution TensorFlow may ask for the next batch while a step
    still runs. So where batches follow a trained W_g without lag, g may be
    refreshed only at the start of an execution.
    """
    if config.trains_sampler and not config.prefetch:
        n_steps = math.gcd(n_steps, config.refresh_interval)
    limit = min(n_steps, MOST_STEPS_PER_EXECUTION)
    return next(k for k in range(limit, 0, -1) if n_steps % k == 0)


def _save_weights(network: model.AdaptiveGCN, path: Path) -> None:
    temporary = path.with_name(f"tmp-{path.name}")
    network.save_weights(temporary)
    os.replace(temporary, path)


def _load_weights(network: model.AdaptiveGCN, path: Path) -> None:
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
def _on_device(name: str) -> Iterator[str]:
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
