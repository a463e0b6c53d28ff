"""Training on the published graphs; needs their files."""

import csv
import dataclasses

import numpy as np
import pytest

from adaptive_gcn import callbacks, training
from adaptive_gcn.config import Config
from adaptive_gcn.graph import normalize_adjacency

pytestmark = pytest.mark.data


@pytest.fixture
def cora(data_dir, tmp_path):
    return Config(
        dataset="cora",
        data_dir=str(data_dir),
        output_dir=str(tmp_path / "run"),
        epochs=3,
        seed=7,
        overwrite=True,
        refresh_interval=5,
    )


def losses_of(config):
    training.train(config)
    with open(f"{config.output_dir}/history.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


def test_cora_trains_offline_and_repeats_by_seed(cora, no_network):
    first = losses_of(cora)
    assert float(first[2]["val_loss"]) < float(first[0]["val_loss"])
    assert losses_of(cora) == first
    assert losses_of(dataclasses.replace(cora, seed=8)) != first


def test_cora_diverges_with_words_at_a_huge_rate(cora):
    config = dataclasses.replace(cora, learning_rate=1e6)
    with pytest.raises(callbacks.TrainingDivergedError, match="epoch 1, step"):
        training.train(config)


def test_scores_of_cora_equal_a_numpy_network(cora):
    graph = training.load_graph(cora)
    network = training.build_model(cora, graph)
    full = training.full_propagation(cora, graph)
    w_0, w_1 = (c.kernel.numpy() for c in network.convolutions)
    matrix = normalize_adjacency(graph.adjacency)
    hidden = np.maximum(matrix @ (graph.features @ w_0), 0)
    expected = (matrix @ (hidden @ w_1))[graph.test_nodes]
    logits = full.logits(network, graph.test_nodes)
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    scores = training.score(network, full, graph, graph.test_nodes)
    right = expected.argmax(axis=1) == graph.labels[graph.test_nodes]
    assert scores.accuracy == pytest.approx(right.mean())


def entries_per_step(config, n_steps=3):
    """Adjacency entries in the sampled blocks of some steps."""
    graph = training.load_graph(config)
    network = training.build_model(config, graph)
    batches = training.build_batches(config, graph, network)
    found = []
    for inputs, _ in batches.dataset().take(n_steps):
        found.append(sum(len(block.values) for block in inputs["adjacency"]))
        for level, block in enumerate(inputs["adjacency"]):
            n_nodes = len(inputs["nodes"][level])
            assert int(block.indices[:, 1].numpy().max()) < n_nodes
            assert inputs["nodes"][level].numpy().max() < graph.n_nodes
    batches.close()
    return found


def test_default_sampler_saves_work_on_pubmed(data_dir):
    sampled = Config(dataset="pubmed", data_dir=str(data_dir))
    full = dataclasses.replace(sampled, method="full", variance_weight=0.0)
    assert max(entries_per_step(sampled)) < 0.2 * min(entries_per_step(full))


@pytest.mark.parametrize("replacement", [True, False])
def test_node_wise_sampling_takes_the_few_neighbours_of_citeseer(
    data_dir, replacement
):
    config = Config(
        dataset="citeseer",
        data_dir=str(data_dir),
        method="node_wise",
        replacement=replacement,
    )
    assert min(entries_per_step(config)) > 0


@pytest.mark.slow
def test_variance_is_logged_and_lower_with_the_term(cora):
    """D8: after 50 epochs, mean of three seeds."""

    def last_variance(weight, seed):
        config = dataclasses.replace(
            cora, epochs=50, patience=0, seed=seed, variance_weight=weight
        )
        return float(losses_of(config)[-1]["variance"])

    without, with_term = (
        np.mean([last_variance(weight, seed) for seed in range(3)])
        for weight in (0.0, 0.5)
    )
    assert with_term > 1e-6
    assert with_term < without
