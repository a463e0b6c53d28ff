"""The variance and its gradients, against enumeration of every sample.

A layer of 4 parents over 6 nodes, 3 draws: all 216 samples, float64.
"""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from adaptive_gcn import variance

N_PARENTS, N_NODES, N_DRAWS, UNITS, N_FEATURES = 4, 6, 3, 2, 3


@pytest.fixture
def layer():
    """a(v, u), h(u), x(u), the graph part s(u) of the weight, and theta."""
    rng = np.random.default_rng(3)
    adjacency = rng.uniform(0.1, 1.0, (N_PARENTS, N_NODES))
    adjacency[rng.uniform(size=adjacency.shape) < 0.3] = 0
    hidden = rng.normal(size=(N_NODES, UNITS))
    features = rng.normal(size=(N_NODES, N_FEATURES))
    theta = 0.5 * rng.normal(size=N_FEATURES)
    return adjacency, hidden, features, adjacency.sum(axis=0), theta


def proposal(layer, theta):
    _, _, features, graph_part, _ = layer
    weights = graph_part * np.exp(features @ theta)
    return weights / weights.sum()


def enumerate_samples(q):
    for draws in itertools.product(range(N_NODES), repeat=N_DRAWS):
        yield np.array(draws), np.prod(q[list(draws)])


def sampled_block(adjacency, q, draws):
    """The arguments that describe one sample to `variance`, as tensors."""
    nodes, counts = np.unique(draws, return_counts=True)
    rows, columns = np.nonzero(adjacency[:, nodes])
    return nodes, {
        "values": tf.constant(adjacency[:, nodes][rows, columns]),
        "indices": tf.constant(np.stack([rows, columns], 1)),
        "sample_prob": tf.constant(q[nodes]),
        "counts": tf.constant(counts.astype(np.float64)),
    }


def estimate(layer, q, draws):
    """mu^(v), Eq. (5), [N_PARENTS, UNITS]."""
    adjacency, hidden = layer[:2]
    return np.mean(
        [adjacency[:, [u]] / q[u] * hidden[u] for u in draws], axis=0
    )


def enumerated_variance(layer, theta):
    """mean_v Var mu^(v) over all samples, no formula."""
    q = proposal(layer, theta)
    samples = [(estimate(layer, q, d), p) for d, p in enumerate_samples(q)]
    mean = sum(p * mu for mu, p in samples)
    return sum(p * np.sum((mu - mean) ** 2) for mu, p in samples) / N_PARENTS


def numerical_gradient(function, point, step=1e-5):
    moves = step * np.eye(len(point))
    return np.array(
        [
            (function(point + m) - function(point - m)) / (2 * step)
            for m in moves
        ]
    )


def moment_of(layer, nodes, block):
    return variance.second_moment(
        block["values"],
        block["indices"],
        tf.constant(layer[1][nodes]),
        tf.constant(N_PARENTS),
    )


def test_variance_estimate_is_unbiased_over_all_samples(layer):
    q = proposal(layer, layer[4])
    expected = 0.0
    for draws, probability in enumerate_samples(q):
        nodes, block = sampled_block(layer[0], q, draws)
        value = variance.variance_estimate(
            moment_of(layer, nodes, block),
            block["sample_prob"],
            block["counts"],
            tf.constant(estimate(layer, q, draws)),
        )
        expected += probability * float(value)
    assert expected == pytest.approx(
        enumerated_variance(layer, layer[4]), rel=1e-9
    )


def expected_gradient(layer, gradient):
    """E over all samples of sum_j gradient_j dlog w_j / dtheta."""
    q = proposal(layer, layer[4])
    total = np.zeros(N_FEATURES)
    for draws, probability in enumerate_samples(q):
        nodes, block = sampled_block(layer[0], q, draws)
        total += probability * (gradient(nodes, block) @ layer[2][nodes])
    return total


def test_exact_gradient_equals_finite_differences_of_enumeration(layer):
    def gradient(nodes, block):
        moment = moment_of(layer, nodes, block)
        return variance.exact_gradient(
            moment, block["sample_prob"], block["counts"]
        ).numpy()

    numerical = numerical_gradient(
        lambda theta: enumerated_variance(layer, theta), layer[4]
    )
    difference = expected_gradient(layer, gradient) - numerical
    assert np.linalg.norm(difference) < 1e-6 * np.linalg.norm(numerical)


@pytest.mark.parametrize("size", [0.1, 2.0])
def test_gradient_from_draws_of_an_earlier_q_is_unbiased_for_the_present(
    layer, size
):
    adjacency, _, features, graph_part, present = layer
    earlier = present + size * np.array([1.0, -0.5, 0.3])
    growth = np.exp(features @ (present - earlier))

    def gradient(nodes, block):
        sample_prob, counts = variance.reweigh(
            block["sample_prob"], block["counts"], tf.constant(growth[nodes])
        )
        moment = moment_of(layer, nodes, block)
        return variance.exact_gradient(moment, sample_prob, counts).numpy()

    drawn_with = (*layer[:4], earlier)
    numerical = numerical_gradient(
        lambda theta: enumerated_variance(layer, theta), present
    )
    difference = expected_gradient(drawn_with, gradient) - numerical
    assert np.linalg.norm(difference) < 1e-6 * np.linalg.norm(numerical)


def test_reweighing_all_nodes_in_proportion_to_q_gives_the_present_q(layer):
    growth = np.exp(layer[2] @ np.array([1.0, -0.5, 0.3]))
    q = proposal(layer, layer[4])
    present = q * growth / (q @ growth)
    sample_prob, counts = variance.reweigh(
        tf.constant(q), tf.constant(100 * q), tf.constant(growth)
    )
    np.testing.assert_allclose(sample_prob, present)
    np.testing.assert_allclose(counts, 100 * present)


@pytest.mark.parametrize("growth", [[1e17, 1, 1], [1, 1, 1e-17]])
def test_gradients_are_finite_where_g_has_collapsed(growth):
    """One parent, h = 1: the gradient asks for more of what collapsed."""
    block = {
        "values": tf.ones(3),
        "indices": tf.constant([[0, 0], [0, 1], [0, 2]]),
        "hidden": tf.ones((3, 1)),
        "n_parents": tf.constant(1),
    }
    sample_prob, counts = variance.reweigh(
        tf.constant([0.3, 0.2, 0.01]),
        tf.constant([3.0, 2.0, 1.0]),
        tf.constant(growth),
    )
    exact = variance.exact_gradient(
        variance.second_moment(**block), sample_prob, counts
    )
    paper = variance.paper_gradient(
        sample_prob=sample_prob, counts=counts, **block
    )
    for gradient in (exact, paper):
        assert np.isfinite(gradient).all()
        assert gradient[np.argmin(growth)] < 0


def test_reweighing_by_equal_growth_changes_nothing(layer):
    q = proposal(layer, layer[4])
    _, block = sampled_block(layer[0], q, [0, 2, 2])
    growth = tf.constant([7.0, 7.0], tf.float64)
    sample_prob, counts = variance.reweigh(
        block["sample_prob"], block["counts"], growth
    )
    np.testing.assert_allclose(sample_prob, q[[0, 2]])
    np.testing.assert_allclose(counts, [1, 2])


def test_paper_gradient_is_biased_but_points_the_same_way(layer):
    def gradient(nodes, block):
        return variance.paper_gradient(
            hidden=tf.constant(layer[1][nodes]), n_parents=N_PARENTS, **block
        ).numpy()

    numerical = numerical_gradient(
        lambda theta: enumerated_variance(layer, theta), layer[4]
    )
    paper = expected_gradient(layer, gradient)
    size = np.linalg.norm(paper) * np.linalg.norm(numerical)
    assert paper @ numerical / size > 0.8
    assert np.linalg.norm(paper - numerical) > 0.1 * np.linalg.norm(numerical)


def test_paper_gradient_is_eq_17_chained_to_log_w_draw_by_draw(layer):
    """sum_j dVar/dq_j q_j (dlog w_j - mean over draws of dlog w)."""
    adjacency, hidden, features = layer[:3]
    q = proposal(layer, layer[4])
    draws = np.array([0, 2, 2])
    norms = np.linalg.norm(hidden, axis=1)
    mean_norm = np.mean(adjacency[:, draws] * norms[draws] / q[draws], axis=1)
    mean_slope = features[draws].mean(axis=0)
    expected = np.zeros(N_FEATURES)
    for u in draws:
        scaled = adjacency[:, u] * norms[u]
        per_parent = -scaled * (scaled - mean_norm * q[u]) / (9 * q[u] ** 3)
        expected += per_parent.mean() * q[u] * (features[u] - mean_slope)
    nodes, block = sampled_block(adjacency, q, draws)
    gradient = variance.paper_gradient(
        hidden=tf.constant(hidden[nodes]), n_parents=N_PARENTS, **block
    )
    chained = gradient.numpy() @ features[nodes]
    np.testing.assert_allclose(chained, expected, rtol=1e-9)


def test_eq_17_value_by_hand():
    # One parent, nodes 0 and 1 with |h| = 5 and 2, p = .5 and .25,
    # q = .4 and .2, node 0 drawn twice: n = 3.
    # mu^ = (1/3)(2 * .5*5/.4 + .25*2/.2) = (1/3)(12.5 + 2.5) = 5.
    # node 0: -(1/9) 2.5 (2.5 - 5*.4) / .064; node 1: -(1/9) .5 (.5 - 1) / .008
    derivative = variance.eq_17(
        values=tf.constant([0.5, 0.25]),
        indices=tf.constant([[0, 0], [0, 1]]),
        hidden=tf.constant([[3.0, 4.0], [0.0, 2.0]]),
        sample_prob=tf.constant([0.4, 0.2]),
        counts=tf.constant([2.0, 1.0]),
        n_parents=tf.constant(1),
    )
    expected = [-2.5 * 0.5 / (9 * 0.064), 0.5 * 0.5 / (9 * 0.008)]
    np.testing.assert_allclose(derivative, expected, rtol=1e-5)


def test_eq_17_is_half_of_the_derivative_at_fixed_draws(layer):
    """Eq. (16) differentiated with the draws and mu^ held fixed, over 2."""
    adjacency, hidden = layer[:2]
    norms = np.linalg.norm(hidden, axis=1)
    q = proposal(layer, layer[4])
    draws = np.array([0, 2, 2])
    nodes, block = sampled_block(adjacency, q, draws)
    mean_norm = np.mean(adjacency[:, draws] * norms[draws] / q[draws], axis=1)

    def eq_16(sample_prob):  # sum_v of Eq. (16), each distinct node once
        terms = adjacency[:, nodes] * norms[nodes] - np.outer(
            mean_norm, sample_prob
        )
        return np.sum((terms / sample_prob) ** 2) / N_DRAWS**2

    per_entry = variance.eq_17(
        hidden=tf.constant(hidden[nodes]), n_parents=N_PARENTS, **block
    )
    per_node = tf.math.unsorted_segment_sum(
        per_entry, block["indices"][:, 1], len(nodes)
    )
    numerical = numerical_gradient(eq_16, q[nodes], step=1e-6)
    np.testing.assert_allclose(2 * per_node, numerical, rtol=1e-5)


@pytest.mark.parametrize("function", ["exact", "paper"])
def test_gradients_of_log_weights_sum_to_zero(layer, function):
    """q does not change if all weights grow by one factor."""
    q = proposal(layer, layer[4])
    nodes, block = sampled_block(layer[0], q, np.array([1, 3, 4]))
    if function == "exact":
        moment = moment_of(layer, nodes, block)
        gradient = variance.exact_gradient(
            moment, block["sample_prob"], block["counts"]
        )
    else:
        gradient = variance.paper_gradient(
            hidden=tf.constant(layer[1][nodes]), n_parents=N_PARENTS, **block
        )
    assert np.abs(gradient).max() > 1e-3
    assert float(tf.reduce_sum(gradient)) == pytest.approx(0, abs=1e-9)


def test_single_draw_gives_zero_not_nan():
    moment, one = tf.constant([2.0]), tf.constant([1.0])
    gradient = variance.exact_gradient(moment, tf.constant([0.5]), one)
    spread = variance.variance_estimate(
        moment, tf.constant([0.5]), one, tf.constant([[1.0]])
    )
    assert gradient.numpy().tolist() == [0.0]
    assert float(spread) == 0.0


def test_importance_weights_are_counts_over_n_q():
    weights = variance.importance_weights(
        tf.constant([0.5, 0.25]), tf.constant([3.0, 1.0])
    )
    np.testing.assert_allclose(weights, [3 / (4 * 0.5), 1 / (4 * 0.25)])


def test_mean_logit_term_equals_its_definition_draw_by_draw(layer):
    adjacency, hidden = layer[:2]
    q = proposal(layer, layer[4])
    draws = np.array([5, 1, 1])
    nodes, block = sampled_block(adjacency, q, draws)
    per_draw = np.array(
        [adjacency[:, u].mean() / (N_DRAWS * q[u]) * hidden[u] for u in draws]
    )
    spread = np.sum((per_draw - per_draw.sum(axis=0)) ** 2)
    output = adjacency[:, draws] / (N_DRAWS * q[draws]) @ hidden[draws]
    term = variance.mean_logit_term(
        block["values"],
        block["indices"],
        tf.constant(hidden[nodes]),
        tf.constant(output),
        variance.importance_weights(block["sample_prob"], block["counts"]),
        block["counts"],
    )
    assert float(term) == pytest.approx(spread / (N_DRAWS * UNITS))
