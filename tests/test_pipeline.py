"""What the dataset emits."""

import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf
from scipy import sparse

from adaptive_gcn import pipeline
from adaptive_gcn.features import FeatureRows
from adaptive_gcn.graph import normalize_adjacency, training_graph
from adaptive_gcn.sampling import samplers
from tests.helpers import ring_graph


def batches(graph=None, sampler=None, **options):
    graph = training_graph(graph or ring_graph())
    matrix = normalize_adjacency(graph.adjacency)
    settings = {"samples_per_layer": (5, 4), "batch_size": 7, **options}
    sampler = sampler or samplers.AdaptiveSampler(matrix)
    return pipeline.Batches(graph=graph, sampler=sampler, **settings)


def take(source, n):
    return list(source.dataset().take(n))


def test_every_training_node_comes_once_an_epoch_with_a_short_last_batch():
    source = batches()
    assert source.n_steps == 3  # 18 nodes by 7
    epochs = take(source, 2 * source.n_steps)
    orders = []
    for epoch in (epochs[:3], epochs[3:]):
        ids = [inputs["nodes"][-1].numpy() for inputs, _ in epoch]
        assert [len(batch) for batch in ids] == [7, 7, 4]
        orders.append(np.concatenate(ids))
        np.testing.assert_array_equal(np.sort(orders[-1]), np.arange(18))
    assert not np.array_equal(*orders)


@pytest.mark.parametrize("as_sparse", [None, sparse.csr_array])
@pytest.mark.parametrize("levels", [1, 2, 3])
def test_element_holds_what_the_sampler_drew(as_sparse, levels):
    graph = ring_graph(n_features=25, sparse=as_sparse)
    source = batches(graph, feature_levels=levels)
    matrix = normalize_adjacency(source.graph.adjacency).toarray()
    for inputs, labels in take(source, 5):
        nodes = [level.numpy() for level in inputs["nodes"]]
        np.testing.assert_array_equal(labels, source.graph.labels[nodes[-1]])
        for level, block in enumerate(inputs["adjacency"]):
            expected = matrix[np.ix_(nodes[level + 1], nodes[level])]
            dense = tf.sparse.to_dense(block).numpy()  # checks the order too
            np.testing.assert_allclose(dense, expected)
            assert inputs["counts"][level].numpy().sum() == (5, 4)[level]
            assert inputs["sample_prob"][level].shape == (len(nodes[level]),)
        assert len(inputs["features"]) == levels
        table = source.graph.features
        table = table if as_sparse is None else table.toarray()
        for level, rows in enumerate(inputs["features"]):
            assert isinstance(rows, tf.SparseTensor) == (as_sparse is not None)
            if as_sparse is not None:
                rows = tf.sparse.to_dense(rows)
            np.testing.assert_allclose(rows, table[nodes[level]])


def test_sparse_features_of_high_density_travel_dense():
    graph = ring_graph()
    dense = graph.features
    object.__setattr__(graph, "features", sparse.csr_array(dense))
    (inputs, _), *_ = take(batches(graph), 1)
    assert isinstance(inputs["features"][0], tf.Tensor)


def test_large_sparse_features_stay_sparse_whatever_their_density(monkeypatch):
    monkeypatch.setattr(pipeline, "DENSE_LIMIT_BYTES", 100)
    graph = ring_graph()
    dense = graph.features
    object.__setattr__(graph, "features", sparse.csr_array(dense))
    (inputs, _), *_ = take(batches(graph), 1)
    assert isinstance(inputs["features"][0], tf.SparseTensor)


def test_same_seed_gives_the_same_elements_and_another_seed_does_not():
    def flat(seed):
        return [
            np.asarray(part)
            for element in take(batches(seed=seed), 4)
            for part in tf.nest.flatten(element, expand_composites=True)
        ]

    first, again, other = flat(1), flat(1), flat(2)
    assert all(map(np.array_equal, first, again))
    assert not all(map(np.array_equal, first, other))


@pytest.mark.parametrize("interval, expected", [(1, 6), (2, 3), (4, 2), (0, 1)])
def test_g_is_refreshed_every_interval_and_without_lag(interval, expected):
    taken = []  # steps done at each refresh
    done = 0

    def importance():
        taken.append(done)
        return np.ones(18)

    source = batches(importance_fn=importance, refresh_interval=interval)
    iterator = iter(source.dataset())
    for _ in range(6):
        next(iterator)
        done += 1
    assert taken == list(range(0, 6, interval or 6))
    assert len(taken) == expected


@pytest.mark.parametrize(
    "options, tells",
    [
        ({"refresh_interval": 1}, False),
        ({"refresh_interval": 0, "prefetch": 2}, False),
        ({"refresh_interval": 3}, True),
        ({"refresh_interval": 1, "prefetch": 2}, True),
    ],
)
def test_element_tells_the_g_it_was_drawn_with_where_w_g_may_have_moved(
    options, tells
):
    importance = iter(np.arange(1.0, 181.0).reshape(10, 18))
    source = batches(importance_fn=lambda: next(importance), **options)
    for step, (inputs, _) in enumerate(take(source, 6)):
        assert ("importance" in inputs) == tells
        if tells:
            drawn = 18 * (step // options["refresh_interval"])
            for g, nodes in zip(
                inputs["importance"], inputs["nodes"], strict=False
            ):
                np.testing.assert_array_equal(g, drawn + 1 + nodes.numpy())


def test_samplers_without_importance_are_never_refreshed():
    graph = training_graph(ring_graph())

    def fail():
        raise AssertionError("importance_fn was called")

    source = batches(
        sampler=samplers.IIDSampler(normalize_adjacency(graph.adjacency)),
        importance_fn=fail,
    )
    assert len(take(source, 2)) == 2


def test_dataset_says_that_it_does_not_end():
    cardinality = batches().dataset().cardinality()
    assert cardinality == tf.data.INFINITE_CARDINALITY


def test_close_frees_the_graph_though_tensorflow_keeps_its_function():
    source = batches()
    dataset = source.dataset()
    next(iter(dataset))
    graph = weakref.ref(source.graph)
    source.close()
    del source, dataset
    gc.collect()
    assert graph() is None


def test_rows_come_straight_from_the_matrix_behind_a_view(tmp_path):
    rng = np.random.default_rng(0)
    whole = rng.normal(size=(50, 6)).astype(np.float32)
    np.save(tmp_path / "features.npy", whole)
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    graph = training_graph(ring_graph())
    rows = rng.permutation(50)[: graph.n_nodes]
    object.__setattr__(graph, "features", FeatureRows(mapped, rows))
    source = pipeline.Batches(
        graph=graph,
        sampler=samplers.FullSampler(normalize_adjacency(graph.adjacency)),
        samples_per_layer=(1,),
        batch_size=7,
        feature_levels=2,
    )
    for inputs, _ in take(source, 3):
        for nodes, features in zip(
            inputs["nodes"], inputs["features"], strict=True
        ):
            np.testing.assert_array_equal(features, whole[rows[nodes]])
