r"""How much variance each way to sample leaves, in closed form.

For one sampled layer with parents v, entries a(v, u) and hidden features
h(u), n draws from q estimate mu(v) = sum_u a(v, u) h(u) with

    mean_v Var = (1/n) (sum_u c(u) / q(u) - mean_v |mu(v)|^2),
    c(u) = mean_v a(v, u)^2 |h(u)|^2.

A relative variance is this over mean_v |mu(v)|^2; with n draws it is 1/n of
that of one. The optimum is q ~ sqrt(c). All networks here are without
attention, so that a is the adjacency.
"""

from __future__ import annotations

import dataclasses
import functools
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from scipy import sparse

from adaptive_gcn import run_folder, self_dependent, training
from adaptive_gcn.config import Config
from adaptive_gcn.graph import Graph, normalize_adjacency, training_graph
from adaptive_gcn.sampling import samplers

OPTIMUM = "optimum"

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Layer:
    """A layer to sample: nodes, their features, their g.

    Attributes:
        matrix: [n_nodes, n_nodes] CSR, the normalised adjacency a.
        hidden: [n_nodes, units], h; dense, CSR or `features.FeatureRows`.
        g: [n_nodes], the self-dependent function.
    """

    matrix: sparse.csr_array
    hidden: Any
    g: Floats

    @functools.cached_property
    def column_squares(self) -> Floats:
        """The sum over all nodes v of a(v, u)^2, [n_nodes]: q of iid."""
        squares = self.matrix.power(2)
        return np.asarray(squares.sum(axis=0, dtype=np.float64))


@dataclasses.dataclass(frozen=True)
class Block:
    """The rows of a layer's matrix below one batch, and what they weigh.

    Attributes:
        candidates: [n_candidates] neighbours of the parents, ascending.
        entries: [n_parents, n_candidates] CSR float64, a(v, u).
        hidden: [n_candidates, units] h, dense float64 or CSR.
    """

    candidates: Ids
    entries: sparse.csr_array
    hidden: Any

    @property
    def second_moment(self) -> Floats:
        """c(u), [n_candidates]."""
        squares = self.entries.power(2).sum(axis=0) / self.entries.shape[0]
        if sparse.issparse(self.hidden):
            norms = self.hidden.power(2).sum(axis=1)
        else:
            norms = np.sum(self.hidden**2, axis=1)
        return np.asarray(squares * norms)

    @property
    def mean_square(self) -> float:
        """mean_v |mu(v)|^2."""
        mean = self.entries @ self.hidden
        if sparse.issparse(mean):
            return float(mean.power(2).sum() / mean.shape[0])
        return float(np.sum(mean**2) / len(mean))


def block_of(layer: Layer, parents: Ids) -> Block:
    """What lies below `parents` in a layer."""
    rows = layer.matrix[parents].astype(np.float64)
    candidates = np.unique(rows.indices).astype(np.int64)
    hidden = layer.hidden[candidates].astype(np.float64)
    return Block(candidates, rows[:, candidates].tocsr(), hidden)


def proposals(layer: Layer, block: Block) -> dict[str, Floats]:
    """Every proposal at the candidates of a block, by its name.

    That of iid sums to less than 1: it also draws nodes that are no
    neighbours of the parents.
    """
    g = layer.g[block.candidates]
    row_sum = block.entries.sum(axis=1)
    per_parent = sparse.diags_array(1 / np.maximum(row_sum, 1e-30))
    cond_prob = per_parent @ block.entries  # p(u|v).
    first = cond_prob.sum(axis=0)  # Eq. (9) with g = 1.
    second = np.sqrt(block.entries.power(2).sum(axis=0))
    everywhere = layer.column_squares
    return {
        "iid": everywhere[block.candidates] / everywhere.sum(),
        "uniform": _share(np.ones(len(g))),
        "sum, g = 1": _share(first),
        "l2, g = 1": _share(second),
        "sum, trained g": _share(first * g),
        "l2, trained g": _share(second * g),
        OPTIMUM: _share(np.sqrt(block.second_moment)),
    }


def _share(weights: Floats) -> Floats:
    return np.asarray(weights / weights.sum())


def relative_variance(block: Block, proposal: Floats) -> float:
    """That of one draw; divide by n for n draws."""
    moment = block.second_moment
    drawn = moment > 0
    spread = float(np.sum(moment[drawn] / proposal[drawn]))
    return spread / block.mean_square - 1.0


def simulated(
    sampler: samplers.Sampler,
    layer: Layer,
    parents: Ids,
    n_samples: int,
    n_repeats: int = 400,
) -> dict[str, float]:
    """Relative variance of n draws by a sampler itself, and its error."""
    block = block_of(layer, parents)
    mean = _dense(block.entries @ block.hidden)
    rng = np.random.default_rng(0)
    squares = []
    for _ in range(n_repeats):
        drawn = sampler.sample(parents, n_samples, rng)
        weights = drawn.counts / (drawn.counts.sum() * drawn.sample_prob)
        estimate = sparse.csr_array(
            (drawn.values * weights[drawn.indices[:, 1]], drawn.indices.T),
            shape=(len(parents), len(drawn.nodes)),
        ) @ layer.hidden[drawn.nodes].astype(np.float64)
        squares.append(np.sum((_dense(estimate) - mean) ** 2) / len(parents))
    scale = block.mean_square
    return {
        "relative_variance": float(np.mean(squares)) / scale,
        "standard_error": float(np.std(squares)) / scale / n_repeats**0.5,
    }


def _dense(rows: Any) -> Any:
    return rows.toarray() if sparse.issparse(rows) else rows


def study(config: Config, n_batches: int = 20) -> dict[str, Any]:
    """Measure the layers of one network before and after its training.

    Args:
        config: Settings of the run, with two sampled layers and without
            attention.
        n_batches: Batches to average over.

    Returns:
        A record: `layers` by name and moment, relative variances of one draw
        by proposal; `monte_carlo`, the samplers themselves beside it.
    """
    started = time.perf_counter()
    graph = training.load_graph(config)
    keras.utils.set_random_seed(config.seed)
    network = training.build_model(config, graph)
    moments = {"before": _layers(config, graph, network)}
    with tempfile.TemporaryDirectory() as folder:
        run = training.train(dataclasses.replace(config, output_dir=folder))
        network = training.build_model(config, graph)
        network.load_weights(Path(folder) / run_folder.WEIGHTS)
    moments["after"] = _layers(config, graph, network)
    return {
        "layers": {
            name: {
                moment: _mean_over_batches(layers, name, config, n_batches)
                for moment, layers in moments.items()
            }
            for name in ("top", "bottom")
        },
        "monte_carlo": _monte_carlo(config, moments["after"]["top"]),
        "batches": n_batches,
        "test_accuracy": run["test_accuracy"],
        "seed": config.seed,
        "flags": training.recorded_flags(config),
        "graph": run["graph"],
        "versions": run["versions"],
        "machine": run["machine"],
        "seconds": time.perf_counter() - started,
    }


def _layers(config: Config, graph: Graph, network: Any) -> dict[str, Layer]:
    """Both layers of the training graph, under the network's weights."""
    train = training_graph(graph)
    matrix = normalize_adjacency(
        train.adjacency,
        config.normalization,
        config.two_hop,
        config.identity_weight,
    )
    kernel = network.convolutions[0].kernel.numpy()
    hidden = np.maximum(matrix @ (train.features @ kernel), 0)  # Eq. (1)
    w_g = network.self_dependent.w_g.numpy()[:, 0]
    g = self_dependent.self_importance(
        train.features, w_g, config.self_dependent
    )
    return {
        "top": Layer(matrix, hidden, g),
        "bottom": Layer(matrix, train.features, g),
    }


def _mean_over_batches(
    layers: dict[str, Layer], name: str, config: Config, n_batches: int
) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for parents in _parents(layers, name, config, n_batches):
        block = block_of(layers[name], parents)
        for proposal, q in proposals(layers[name], block).items():
            value = relative_variance(block, q)
            found.setdefault(proposal, []).append(value)
    return {key: statistics.mean(values) for key, values in found.items()}


def _parents(
    layers: dict[str, Layer], name: str, config: Config, n_batches: int
) -> Iterator[Ids]:
    """Batches, or for the bottom layer what is drawn below batches."""
    rng = np.random.default_rng(config.seed)
    matrix = layers["top"].matrix
    size = min(config.batch_size, matrix.shape[0])
    sampler = samplers.AdaptiveSampler(matrix, "l2")
    sampler.refresh(layers["top"].g)
    for _ in range(n_batches):
        batch = rng.choice(matrix.shape[0], size, replace=False)
        if name == "bottom":
            batch = sampler.sample(batch, config.samples[-1], rng).nodes
        yield batch.astype(np.int64)


def _monte_carlo(config: Config, layer: Layer) -> dict[str, Any]:
    """The samplers' own draws beside the closed form, for one batch."""
    (parents,) = _parents({"top": layer}, "top", config, 1)
    block = block_of(layer, parents)
    closed = proposals(layer, block)
    n = config.samples[-1]
    adaptive = samplers.AdaptiveSampler(layer.matrix, "l2")
    distinct = samplers.AdaptiveSampler(layer.matrix, "l2", replacement=False)
    for each in (adaptive, distinct):
        each.refresh(layer.g)
    iid = samplers.IIDSampler(layer.matrix)
    trained = relative_variance(block, closed["l2, trained g"]) / n
    return {
        "draws": n,
        "iid": {
            "closed_form": relative_variance(block, closed["iid"]) / n,
            **simulated(iid, layer, parents, n),
        },
        "l2, trained g": {
            "closed_form": trained,
            **simulated(adaptive, layer, parents, n),
        },
        "l2, trained g, without replacement": {
            "closed_form_with_replacement": trained,
            **simulated(distinct, layer, parents, n),
        },
    }
