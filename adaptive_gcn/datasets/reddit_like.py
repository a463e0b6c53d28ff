"""A synthetic graph of the size, and about the difficulty, of Reddit.

Nothing has to be downloaded for it: it serves measurements of speed and
memory at full size, and tests of the readers. It is not Reddit, and an
accuracy on it says nothing about the accuracy on Reddit.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from adaptive_gcn.datasets.synthetic import (
    Ids,
    SplitSizes,
    add_label_noise,
    check_range,
    draw_classes,
    draw_edges,
)
from adaptive_gcn.features import row_blocks
from adaptive_gcn.graph import Graph

_DEGREE_EXPONENT = 2.4  # Tail index of the degree propensities.
_DEGREE_SHIFT = 0.96  # Of the minimum, 1: leaves nodes of few neighbours.
_HUB_SHARE = 1 / 12  # Of all nodes: about how often a hub may be drawn.
_CLASSES_PER_GROUP = 5
_N_COUNTS = 2  # Columns of counts, before those of the text.


@dataclasses.dataclass(frozen=True)
class RedditLikeConfig(SplitSizes):
    """Size and difficulty of a graph like Reddit.

    By default logistic regression finds 66 % of the labels of the test nodes
    from their features, and 95 % from features propagated twice, out of the
    97 % that `label_noise` leaves.

    Attributes:
        n_nodes: Number of nodes; every class needs a training node.
        n_edges: Number of undirected edges.
        n_features: Number of columns: two counts, then the text.
        n_classes: Number of classes.
        homophily: Probability that the ends of an edge are drawn from one
            class. The share of such edges is lower: among the hubs of a class
            many edges are repeats and drawn anew, and `label_noise` lowers it
            further.
        label_noise: Share of the nodes that get the label of another class
            after their edges and features are drawn. It bounds the accuracy.
        group_signal: Deviation of the mean texts of the groups of classes,
            in each column; that of a node from its class mean is 1.
        class_signal: Deviation of the mean texts of the classes of one group.
        seed: Seed of everything random.

    Raises:
        DataError: If a value is outside its range.
    """

    val_fraction: ClassVar[float] = 23_699 / 232_965  # As in Reddit.
    test_fraction: ClassVar[float] = 55_334 / 232_965

    n_nodes: int = 232_965
    n_edges: int = 11_606_919
    n_features: int = 602
    n_classes: int = 41
    homophily: float = 0.6
    label_noise: float = 0.03
    group_signal: float = 0.15
    class_signal: float = 0.065
    seed: int = 0

    def __post_init__(self) -> None:
        check_range("n_classes", self.n_classes, 2, self.n_nodes)
        check_range("n_features", self.n_features, _N_COUNTS)
        check_range("n_edges", self.n_edges, 0, self.n_nodes**2 / 8)
        check_range("homophily", self.homophily, 0, 1)
        check_range("label_noise", self.label_noise, 0, 1)
        check_range("group_signal", self.group_signal, 0, 100)
        check_range("class_signal", self.class_signal, 0, 100)
        check_range("seed", self.seed, 0)
        check_range("n_classes", self.n_classes, 2, self.n_train)


def reddit_like_graph(config: RedditLikeConfig) -> Graph:
    """Draw a graph with communities, hubs, two counts and a text per node.

    The edges follow a degree-corrected block model, see
    `synthetic.draw_edges`. The text is Gaussian around the mean of its class.
    Classes come in groups with similar means, so that those of one group are
    confused. The split is random with respect to the node ids.

    Raises:
        DataError: If the edges asked for cannot be placed.
    """
    rng = np.random.default_rng(config.seed)
    order = rng.permutation(config.n_nodes)  # The training nodes come first.
    drawn = draw_classes(config.n_nodes, config.n_classes, rng)
    labels = add_label_noise(drawn, config.n_classes, config.label_noise, rng)
    classes = _put(drawn, order)
    sources, targets = _draw_ends(config, classes, rng)
    n_train_val = config.n_train + config.n_val
    return Graph.from_edges(
        (sources, targets),
        _draw_features(config, classes, rng),
        _put(labels, order),
        train_nodes=np.sort(order[: config.n_train]),
        val_nodes=np.sort(order[config.n_train : n_train_val]),
        test_nodes=np.sort(order[n_train_val:]),
        n_classes=config.n_classes,
        name="reddit_like",
        directed=False,
    )


def _put(values: Ids, places: Ids) -> Ids:
    """The array with `values[i]` at `places[i]`."""
    result = np.empty_like(values)
    result[places] = values
    return result


def _draw_ends(
    config: RedditLikeConfig, classes: Ids, rng: np.random.Generator
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Sources and targets [n_edges] of the distinct edges, each once."""
    propensity = rng.permutation(_propensities(config))
    pairs = draw_edges(
        classes, propensity, config.n_edges, config.homophily, rng
    ).astype(np.int32)
    return pairs[:, 0], pairs[:, 1]


def _propensities(config: RedditLikeConfig) -> npt.NDArray[np.float64]:
    """Shifted Pareto quantiles: the same hubs and tail for every seed."""
    quantiles = (np.arange(config.n_nodes) + 0.5) / config.n_nodes
    propensity = quantiles ** (-1 / _DEGREE_EXPONENT) - _DEGREE_SHIFT
    # A node is drawn propensity / rate times.
    rate = propensity.sum() / (2 * max(config.n_edges, 1))
    return propensity.clip(max=_HUB_SHARE * config.n_nodes * rate)


def _draw_features(
    config: RedditLikeConfig, classes: Ids, rng: np.random.Generator
) -> npt.NDArray[np.float32]:
    """[n_nodes, n_features], by blocks: the noise is never there twice."""
    means = _class_means(config, rng)
    features = np.empty((config.n_nodes, config.n_features), np.float32)
    for start, block in row_blocks(features):
        rng.standard_normal(out=block, dtype=np.float32)
        block[:, _N_COUNTS:] += means[classes[start : start + len(block)]]
    features[:, 0] = _draw_counts(config.n_nodes, rng)
    # A score is the votes for a post less those against it.
    features[:, 1] = _draw_counts(config.n_nodes, rng)
    features[:, 1] -= rng.poisson(4, config.n_nodes)
    return features


def _class_means(
    config: RedditLikeConfig, rng: np.random.Generator
) -> npt.NDArray[np.float32]:
    """[n_classes, n_features - 2] mean texts."""
    n_text = config.n_features - _N_COUNTS
    n_groups = -(-config.n_classes // _CLASSES_PER_GROUP)
    groups = config.group_signal * rng.standard_normal((n_groups, n_text))
    own = config.class_signal * rng.standard_normal((config.n_classes, n_text))
    group_of = np.arange(config.n_classes) % n_groups
    return (groups[group_of] + own).astype(np.float32)


def _draw_counts(n: int, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Heavy-tailed counts, whole numbers that float32 holds exactly."""
    counts = np.floor(rng.lognormal(2.0, 1.5, n))
    return np.minimum(counts, 2.0**24).astype(np.float32)
