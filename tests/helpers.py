"""Small graphs and runs shared by the tests."""

import contextlib
import dataclasses

import numpy as np
import pytest

from adaptive_gcn.graph import Graph

# Of a run of seconds, on 90 nodes of which 40 train.
SMALL_RUN = {
    "synthetic_nodes": 90,
    "synthetic_features": 30,
    "synthetic_classes": 3,
    "samples_per_layer": (8,),
    "batch_size": 16,
    "epochs": 2,
    "learning_rate": 0.01,
}


def ring_graph(n_nodes=30, n_features=6, n_classes=3, seed=0, sparse=None):
    """A ring with chords, random features, a split of 60/20/20."""
    rng = np.random.default_rng(seed)
    ring = np.stack([np.arange(n_nodes), (np.arange(n_nodes) + 1) % n_nodes], 1)
    chords = rng.integers(0, n_nodes, (n_nodes, 2))
    edges = np.concatenate([ring, chords])
    features = rng.normal(size=(n_nodes, n_features)).astype(np.float32)
    if sparse is not None:  # One word a node: sparse enough to stay so.
        words = np.eye(n_features, dtype=np.float32)
        features = sparse(words[rng.integers(0, n_features, n_nodes)])
    order = rng.permutation(n_nodes)
    train, val, test = np.split(order, [n_nodes * 3 // 5, n_nodes * 4 // 5])
    labels = rng.integers(0, n_classes, n_nodes)
    both = np.concatenate([edges, edges[:, ::-1]])
    return Graph.from_edges(
        both, features, labels, train, val, test, n_classes=n_classes
    )


def with_weights(graph, seed=0):
    """The graph with another weight for each edge."""
    matrix = graph.adjacency.copy()
    ends = matrix.tocoo().coords
    pairs = np.minimum(*ends) * graph.n_nodes + np.maximum(*ends)
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.2, 5, graph.n_nodes**2).astype(np.float32)
    matrix.data = weights[pairs]
    return dataclasses.replace(graph, adjacency=matrix)


def with_several_labels(graph, names=("a", "b", "c", "d"), seed=0):
    """The graph with labels of 0 and 1 for each of the names."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, (graph.n_nodes, len(names)))
    return dataclasses.replace(graph, labels=labels, class_names=tuple(names))


@contextlib.contextmanager
def trained(graph, folder):
    """The settings of a run on `graph`, which is what is loaded meanwhile."""
    from adaptive_gcn import training  # TensorFlow: for who trains only.
    from adaptive_gcn.config import Config

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "load_graph", lambda config: graph)
        config = Config(epochs=2, output_dir=str(folder), hidden_units=(5, 4))
        training.train(config)
        yield config
