"""A synthetic citation graph, about as difficult as Cora.

Nothing has to be downloaded for it: it serves tests, demonstrations and
measurements of speed at any size.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from adaptive_gcn.graph import DataError, Graph

_DEGREE_EXPONENT = 2.5  # Tail index of the degree propensities.
_MAX_PROPENSITY = 50.0  # Bounds the degree of a hub, relative to the minimum.
_ZIPF_EXPONENT = 1.0
_MAX_ROUNDS = 50

Ids = npt.NDArray[np.int64]


class SplitSizes:
    """Sizes of the parts of a split, in the proportions of a real one.

    Attributes:
        n_nodes: Number of nodes.
        val_fraction: Fraction of them that validates.
        test_fraction: Fraction of them that tests.
    """

    n_nodes: int
    val_fraction: ClassVar[float]
    test_fraction: ClassVar[float]

    @property
    def n_val(self) -> int:
        """Number of validation nodes."""
        return round(self.n_nodes * self.val_fraction)

    @property
    def n_test(self) -> int:
        """Number of test nodes."""
        return round(self.n_nodes * self.test_fraction)

    @property
    def n_train(self) -> int:
        """Number of training nodes: all others."""
        return self.n_nodes - self.n_val - self.n_test


@dataclasses.dataclass(frozen=True)
class SyntheticConfig(SplitSizes):
    """Size and difficulty of a synthetic graph.

    Attributes:
        n_nodes: Number of nodes; every class needs a training node.
        n_features: Size of the vocabulary.
        n_classes: Number of classes.
        mean_degree: Mean number of neighbours.
        homophily: Share of the edges that join two nodes of one class, before
            `label_noise`, which lowers it to about
            homophily * (1 - label_noise)^2.
        label_noise: Share of the nodes that get the label of another class
            after their edges and words are drawn. It bounds the accuracy.
        word_signal: Probability that a word comes from the topic of the
            node's class and not from the common background.
        words_per_node: Mean number of words drawn per node; a repeated word
            counts once.
        seed: Seed of everything random.

    Raises:
        DataError: If a value is outside its range.
    """

    val_fraction: ClassVar[float] = 500 / 2708  # As in Cora.
    test_fraction: ClassVar[float] = 1000 / 2708

    n_nodes: int = 2708
    n_features: int = 1433
    n_classes: int = 7
    mean_degree: float = 3.9
    homophily: float = 0.81
    label_noise: float = 0.08
    word_signal: float = 0.28
    words_per_node: float = 18.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_range("n_classes", self.n_classes, 2, self.n_nodes)
        check_range("n_features", self.n_features, 1)
        check_range("mean_degree", self.mean_degree, 0, self.n_nodes / 4)
        check_range("homophily", self.homophily, 0, 1)
        check_range("label_noise", self.label_noise, 0, 1)
        check_range("word_signal", self.word_signal, 0, 1)
        check_range("words_per_node", self.words_per_node, 0)
        check_range("seed", self.seed, 0)
        check_range("n_classes", self.n_classes, 2, self.n_train)


def synthetic_graph(config: SyntheticConfig) -> Graph:
    """Draw a graph with communities, hubs and a bag of words per node.

    The edges follow a degree-corrected block model: an end is drawn by its
    propensity, the other end by its propensity among the nodes of the same
    class (with probability `homophily`) or of the other classes. A word
    comes from the topic of the class or from the background, both of which
    are Zipf distributions over their own order of the vocabulary.

    Raises:
        DataError: If the edges asked for cannot be placed.
    """
    rng = np.random.default_rng(config.seed)
    classes = draw_classes(config.n_nodes, config.n_classes, rng)
    n_edges = round(config.n_nodes * config.mean_degree / 2)
    propensity = rng.permutation(_propensities(config.n_nodes))
    pairs = draw_edges(classes, propensity, n_edges, config.homophily, rng)
    words = _draw_words(config, classes, rng)
    ids = np.arange(config.n_nodes)
    n_train_val = config.n_train + config.n_val
    return Graph.from_edges(
        np.concatenate([pairs, pairs[:, ::-1]]),
        words,
        add_label_noise(classes, config.n_classes, config.label_noise, rng),
        train_nodes=ids[: config.n_train],
        val_nodes=ids[config.n_train : n_train_val],
        test_nodes=ids[n_train_val:],
        n_classes=config.n_classes,
        name="synthetic",
    )


def check_range(
    name: str, value: float, low: float, high: float = float("inf")
) -> None:
    """Raise DataError unless low <= value <= high."""
    if not low <= value <= high:
        raise DataError(
            f"synthetic graph: expected {low:g} <= {name} <= {high:g}. "
            f"Received: {name}={value!r}"
        )


def draw_classes(n_nodes: int, n_classes: int, rng: np.random.Generator) -> Ids:
    """Unequal classes; the first nodes, which train, cover each of them."""
    weights = np.arange(1, n_classes + 1) ** -0.5
    classes = rng.choice(n_classes, n_nodes, p=weights / weights.sum())
    classes[:n_classes] = np.arange(n_classes)
    return classes


def add_label_noise(
    classes: Ids, n_classes: int, label_noise: float, rng: np.random.Generator
) -> Ids:
    """Labels: the classes, of which a share `label_noise` is exchanged.

    The first `n_classes` nodes, which stand for their class, keep it.
    """
    noisy = rng.random(len(classes)) < label_noise
    noisy[:n_classes] = False
    shift = rng.integers(1, n_classes, len(classes))
    return (classes + noisy * shift) % n_classes


def draw_edges(
    classes: Ids,
    propensity: npt.NDArray[np.float64],
    n_edges: int,
    homophily: float,
    rng: np.random.Generator,
) -> Ids:
    """Draw the edges of a degree-corrected block model.

    A pair that is a loop or a repeat is drawn anew. So the share of the edges
    inside a class falls below `homophily` where a class is nearly complete.

    Args:
        classes: [n_nodes] the class of each node.
        propensity: [n_nodes] positive weights of the nodes as ends.
        n_edges: Number of edges.
        homophily: Probability that both ends are drawn from one class.
        rng: What is random.

    Returns:
        [n_edges, 2] distinct pairs (smaller id, larger id), in random order.

    Raises:
        DataError: If so many distinct edges were not found.
    """
    n_nodes = len(classes)
    codes = np.empty(0, np.int64)
    for _ in range(_MAX_ROUNDS):
        missing = n_edges - len(codes)
        if missing <= 0:
            break
        n_pairs = missing + missing // 8 + 64  # Some repeat, some are loops.
        ends = _draw_pairs(classes, propensity, n_pairs, homophily, rng)
        ends = np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1)
        new = ends[:, 0] * n_nodes + ends[:, 1]
        codes = np.sort(np.concatenate([codes, new]))
        codes = codes[np.diff(codes, prepend=-1) > 0]
    if len(codes) < n_edges:
        raise DataError(
            f"synthetic graph: expected {n_edges} edges, but only "
            f"{len(codes)} distinct ones were found in {_MAX_ROUNDS} rounds; "
            "ask for fewer"
        )
    codes = rng.permutation(codes)[:n_edges]
    return np.stack(np.divmod(codes, n_nodes), axis=1)


def _draw_pairs(
    classes: Ids,
    propensity: npt.NDArray[np.float64],
    n_pairs: int,
    homophily: float,
    rng: np.random.Generator,
) -> Ids:
    """[n_pairs, 2] node pairs; may repeat, may join a node to itself."""
    # With the nodes ordered by class, a class is one stretch of the
    # cumulated propensities and a draw inside or outside it is one uniform.
    order = np.argsort(classes, kind="stable")
    total = np.concatenate([[0.0], np.cumsum(propensity[order])])
    bounds = np.searchsorted(classes[order], np.arange(classes.max() + 2))
    start, stop = total[bounds[:-1]], total[bounds[1:]]

    first = _nodes_at(rng.random(n_pairs) * total[-1], total)
    class_ = classes[order][first]
    size = stop[class_] - start[class_]
    inside = rng.random(n_pairs) < homophily
    uniform = rng.random(n_pairs)
    position = np.where(
        inside,
        start[class_] + uniform * size,
        (stop[class_] + uniform * (total[-1] - size)) % total[-1],
    )
    return order[np.stack([first, _nodes_at(position, total)], axis=1)]


def _propensities(n_nodes: int) -> npt.NDArray[np.float64]:
    """Pareto quantiles: the same hubs and tail for every seed."""
    quantiles = (np.arange(n_nodes) + 0.5) / n_nodes
    return np.minimum(quantiles ** (-1 / _DEGREE_EXPONENT), _MAX_PROPENSITY)


def _nodes_at(
    position: npt.NDArray[np.float64], total: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    index = np.searchsorted(total, position, side="right") - 1
    return np.minimum(index, len(total) - 2)


def _draw_words(
    config: SyntheticConfig,
    classes: npt.NDArray[np.int64],
    rng: np.random.Generator,
) -> sparse.csr_array:
    """[n_nodes, n_features] zeros and ones."""
    counts = rng.poisson(config.words_per_node, config.n_nodes)
    rows = np.repeat(np.arange(config.n_nodes), counts)
    # One order of the vocabulary per class, and one for the background.
    orders = np.stack(
        [
            rng.permutation(config.n_features)
            for _ in range(config.n_classes + 1)
        ]
    )
    from_topic = rng.random(len(rows)) < config.word_signal
    topic = np.where(from_topic, classes[rows], config.n_classes)
    ranks = np.arange(1, config.n_features + 1)
    total = np.cumsum(np.concatenate([[0.0], ranks**-_ZIPF_EXPONENT]))
    words = orders[topic, _nodes_at(rng.random(len(rows)) * total[-1], total)]
    shape = (config.n_nodes, config.n_features)
    features = sparse.csr_array(
        (np.ones(len(rows), np.float32), (rows, words)), shape
    )
    features.data[:] = 1  # A repeated word counts once.
    return features
