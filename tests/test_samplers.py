import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats

from adaptive_gcn import graph
from adaptive_gcn.sampling import samplers
from adaptive_gcn.sampling.samplers import (
    AdaptiveSampler,
    FullSampler,
    IIDSampler,
    NodeWiseSampler,
)

LAYER_WISE = {
    "adaptive": AdaptiveSampler,
    "adaptive_l2": lambda a: AdaptiveSampler(a, proposal="l2"),
    "iid": IIDSampler,
}
LAYER_WISE_DISTINCT = {
    "adaptive_distinct": lambda a: AdaptiveSampler(a, replacement=False),
    "adaptive_l2_distinct": lambda a: AdaptiveSampler(
        a, proposal="l2", replacement=False
    ),
    "iid_distinct": lambda a: IIDSampler(a, replacement=False),
}
NODE_WISE = {
    "node_wise": lambda a: NodeWiseSampler(a, n_neighbors=2),
    "node_wise_distinct": lambda a: NodeWiseSampler(
        a, n_neighbors=2, replacement=False
    ),
}
SAMPLED = LAYER_WISE | LAYER_WISE_DISTINCT | NODE_WISE
ALL = SAMPLED | {"full": FullSampler}
ADAPTIVE = [name for name in ALL if name.startswith("adaptive")]


class Given:
    """Stands in for a random generator and returns the given uniforms."""

    def __init__(self, uniforms):
        self._uniforms = np.asarray(uniforms, np.float64)

    def random(self, size=()):
        return self._uniforms.reshape(size)


def adjacency_of(edges, n_nodes):
    dense = np.zeros((n_nodes, n_nodes), np.float32)
    for u, v in edges:
        dense[u, v] = dense[v, u] = 1
    return graph.normalize_adjacency(sparse.csr_array(dense))


# Node 5 is isolated; the parents 4 and 1 share the neighbours 1 and 4.
SIX = adjacency_of([(0, 1), (0, 2), (1, 2), (2, 3), (1, 4)], 6)
SIX_PARENTS = np.array([4, 1])
SIX_G = np.array([1.0, 0.3, 2.0, 5.0, 0.7, 1.5], np.float32)
PATH = adjacency_of([(0, 1), (1, 2), (2, 3), (3, 4), (1, 3)], 5)


def hidden(n_nodes):
    return np.random.default_rng(9).normal(size=(n_nodes, 2)) + 1


def estimate(sample, n_parents, h):
    """The formula in the docstring of LayerSample, in float64."""
    counts = sample.counts.astype(np.float64)
    weight = counts / (counts.sum() * sample.sample_prob)
    block = np.zeros((n_parents, len(sample.nodes)))
    block[sample.indices[:, 0], sample.indices[:, 1]] = sample.values
    return block @ (weight[:, None] * h[sample.nodes])


def cells(function, n_grid=256):
    """The intervals of [0, 1) on which `function` is constant.

    Returns:
        (middle, length) of each, found by bisection.
    """
    grid = (np.arange(n_grid) + 0.5) / n_grid
    values = [function(u) for u in grid]
    ends = [0.0]
    for k in np.flatnonzero([a != b for a, b in itertools.pairwise(values)]):
        low, high = grid[k], grid[k + 1]
        while high - low > 1e-13:
            middle = (low + high) / 2
            same = function(middle) == values[k]
            low, high = (middle, high) if same else (low, middle)
        ends.append(high)
    ends = np.array([*ends, 1.0])
    return list(zip((ends[1:] + ends[:-1]) / 2, np.diff(ends), strict=True))


def nodes_at(sampler, parents, n_samples):
    return lambda u: tuple(
        sampler.sample(parents, n_samples, Given(u)).nodes.tolist()
    )


def expectation_with_replacement(sampler, parents, n_samples, h):
    one_draw = cells(nodes_at(sampler, parents, 1))
    total = 0.0
    for draws in itertools.product(one_draw, repeat=n_samples):
        uniforms, lengths = zip(*draws, strict=True)
        sample = sampler.sample(parents, n_samples, Given(uniforms))
        total = total + np.prod(lengths) * estimate(sample, len(parents), h)
    return total


def expectation_without_replacement(sampler, parents, n_samples, h):
    total = 0.0
    for uniform, length in cells(nodes_at(sampler, parents, n_samples)):
        sample = sampler.sample(parents, n_samples, Given(uniform))
        total = total + length * estimate(sample, len(parents), h)
    return total


def expectation_node_wise(sampler, parents, n_neighbors, h):
    # 12 equal cells are exact for each degree that divides 12.
    middles = (np.arange(12) + 0.5) / 12
    size = len(parents) * n_neighbors
    estimates = [
        estimate(sampler.sample(parents, 1, Given(uniforms)), len(parents), h)
        for uniforms in itertools.product(middles, repeat=size)
    ]
    return np.mean(estimates, axis=0)


def assert_same_sample(a, b):
    for field in ("nodes", "indices", "values", "sample_prob", "counts"):
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field))


def assert_mean_within_standard_errors(estimates, exact):
    estimates = np.array(estimates)
    error = estimates.std(axis=0, ddof=1) / np.sqrt(len(estimates))
    deviation = np.abs(estimates.mean(axis=0) - exact)
    assert np.all(deviation <= 4 * error + 1e-6)


# Values.


def test_full_sampler_equals_exact_convolution():
    h = hidden(6)
    sample = FullSampler(SIX).sample(SIX_PARENTS, 1, Given(()))
    np.testing.assert_allclose(
        estimate(sample, 2, h), (SIX @ h)[SIX_PARENTS], rtol=1e-6
    )
    assert sample.nodes.tolist() == [0, 1, 2, 4]
    np.testing.assert_allclose(
        sample.counts / (sample.counts.sum() * sample.sample_prob), 1, rtol=1e-7
    )


def test_repeated_draws_are_merged_into_counts():
    # One parent with neighbours 0, 1, 2 of equal probability.
    matrix = sparse.csr_array(np.full((3, 3), 1 / 3, np.float32))
    uniforms = [0.9, 0.1, 0.8, 0.99, 0.2]
    for sampler in (AdaptiveSampler(matrix), AdaptiveSampler(matrix, "l2")):
        sample = sampler.sample(np.array([1]), 5, Given(uniforms))
        assert sample.nodes.tolist() == [0, 2]
        assert sample.counts.tolist() == [2, 3]
        np.testing.assert_allclose(sample.sample_prob, 1 / 3, rtol=1e-6)
        assert sample.indices.tolist() == [[0, 0], [0, 1]]


@pytest.mark.parametrize("name", ALL)
def test_dtypes(name):
    sample = ALL[name](SIX).sample(SIX_PARENTS, 2, np.random.default_rng(0))
    assert sample.nodes.dtype == sample.indices.dtype == np.int64
    assert sample.values.dtype == np.float32
    assert sample.sample_prob.dtype == sample.counts.dtype == np.float32
    assert sample.indices.flags.c_contiguous


@pytest.mark.parametrize("proposal", ["sum", "l2"])
def test_proposal_equals_the_dense_formula(proposal):
    sampler = AdaptiveSampler(SIX, proposal)
    sampler.refresh(SIX_G)
    rows = SIX.toarray()[SIX_PARENTS].astype(np.float64)
    if proposal == "sum":  # Eq. (9)
        weights = (rows / rows.sum(axis=1, keepdims=True)).sum(axis=0) * SIX_G
    else:
        weights = np.sqrt((rows**2).sum(axis=0)) * SIX_G
    candidates, q = sampler.proposal_of(SIX_PARENTS)
    assert candidates.tolist() == [0, 1, 2, 4]
    np.testing.assert_allclose(q, (weights / weights.sum())[candidates])
    assert q.sum() == pytest.approx(1, abs=1e-12)


def test_importance_is_1_before_the_first_refresh():
    sampler = AdaptiveSampler(SIX)
    before = sampler.sample(SIX_PARENTS, 3, np.random.default_rng(0))
    sampler.refresh(np.ones(6))
    after = sampler.sample(SIX_PARENTS, 3, np.random.default_rng(0))
    assert_same_sample(before, after)
    sampler.refresh(SIX_G)
    other = sampler.sample(SIX_PARENTS, 3, np.random.default_rng(0))
    assert not np.array_equal(before.sample_prob, other.sample_prob)


@pytest.mark.parametrize("name", LAYER_WISE)
def test_sample_prob_is_the_probability_of_a_draw(name):
    sampler = LAYER_WISE[name](SIX)
    sampler.refresh(SIX_G)
    one_draw = cells(nodes_at(sampler, SIX_PARENTS, 1))
    exact = np.zeros(6)
    for uniform, length in one_draw:
        exact[nodes_at(sampler, SIX_PARENTS, 1)(uniform)[0]] += length
    sample = sampler.sample(SIX_PARENTS, 500, np.random.default_rng(0))
    np.testing.assert_array_equal(sample.nodes, np.flatnonzero(exact))
    np.testing.assert_allclose(
        sample.sample_prob, exact[sample.nodes], rtol=1e-6
    )
    if sampler.uses_importance:
        _, q = sampler.proposal_of(SIX_PARENTS)
        np.testing.assert_allclose(sample.sample_prob, q, rtol=1e-6)


def test_iid_proposal_is_the_squared_column_norm():
    sample = IIDSampler(SIX).sample(
        np.array([0]), 2000, np.random.default_rng(0)
    )
    weights = (SIX.toarray().astype(np.float64) ** 2).sum(axis=0)
    assert sample.nodes.tolist() == [0, 1, 2, 3, 4, 5]
    np.testing.assert_allclose(
        sample.sample_prob, weights / weights.sum(), rtol=1e-6
    )
    assert set(sample.indices[:, 1]) == {0, 1, 2}  # Others have no entry.


@pytest.mark.parametrize("name", LAYER_WISE_DISTINCT)
def test_distinct_draws_weight_by_inclusion_probability(name):
    sampler = LAYER_WISE_DISTINCT[name](SIX)
    sampler.refresh(SIX_G)
    inclusion = np.zeros(6)
    reported = np.zeros(6)
    for uniform, length in cells(nodes_at(sampler, SIX_PARENTS, 2)):
        sample = sampler.sample(SIX_PARENTS, 2, Given(uniform))
        assert len(sample.nodes) == 2 and sample.counts.tolist() == [1, 1]
        inclusion[sample.nodes] += length
        reported[sample.nodes] = 2 * sample.sample_prob
    np.testing.assert_allclose(reported, inclusion, rtol=1e-6)
    assert inclusion.sum() == pytest.approx(2)


def test_l2_proposal_has_the_least_variance_for_its_importance():
    h = hidden(6)
    norm = np.linalg.norm(h, axis=1)
    second_moment = {}
    for proposal in ("sum", "l2"):
        sampler = AdaptiveSampler(SIX, proposal)
        sampler.refresh(norm)
        candidates, q = sampler.proposal_of(SIX_PARENTS)
        columns = SIX.toarray()[SIX_PARENTS][:, candidates]
        c = (columns**2).mean(axis=0) * norm[candidates] ** 2
        second_moment[proposal] = (c / q).sum()
    bound = np.sqrt(c).sum() ** 2  # Cauchy-Schwarz: no q is better.
    assert second_moment["l2"] == pytest.approx(bound, rel=1e-6)
    assert second_moment["sum"] > bound * 1.001


# Unbiasedness, exactly.


@pytest.mark.parametrize("n_samples", [1, 3])
@pytest.mark.parametrize("name", LAYER_WISE)
def test_expectation_over_all_draws_is_exact(name, n_samples):
    sampler = LAYER_WISE[name](SIX)
    sampler.refresh(SIX_G)
    h = hidden(6)
    mean = expectation_with_replacement(sampler, SIX_PARENTS, n_samples, h)
    np.testing.assert_allclose(mean, (SIX @ h)[SIX_PARENTS], rtol=1e-6)


@pytest.mark.parametrize("n_samples", [1, 2, 3, 4, 99])
@pytest.mark.parametrize("name", LAYER_WISE_DISTINCT)
def test_expectation_over_all_distinct_draws_is_exact(name, n_samples):
    sampler = LAYER_WISE_DISTINCT[name](SIX)
    sampler.refresh(SIX_G)
    h = hidden(6)
    mean = expectation_without_replacement(sampler, SIX_PARENTS, n_samples, h)
    np.testing.assert_allclose(mean, (SIX @ h)[SIX_PARENTS], rtol=1e-6)


@pytest.mark.parametrize("name", NODE_WISE)
def test_expectation_of_node_wise_draws_is_exact(name):
    h = hidden(6)
    mean = expectation_node_wise(NODE_WISE[name](SIX), SIX_PARENTS, 2, h)
    np.testing.assert_allclose(mean, (SIX @ h)[SIX_PARENTS], rtol=1e-6)


# Unbiasedness and distribution, by simulation.


@pytest.mark.parametrize("name", SAMPLED)
def test_mean_on_a_hub_with_1000_leaves(name):
    star = adjacency_of([(0, leaf) for leaf in range(1, 1001)], 1001)
    parents = np.array([7, 0, 1000])
    sampler = SAMPLED[name](star)
    sampler.refresh(np.random.default_rng(1).lognormal(size=1001))
    h, rng = hidden(1001), np.random.default_rng(2)
    estimates = [
        estimate(sampler.sample(parents, 60, rng), 3, h) for _ in range(2000)
    ]
    assert_mean_within_standard_errors(estimates, (star @ h)[parents])


@pytest.mark.parametrize("name", SAMPLED)
def test_d5_mean_on_a_path_with_a_chord(name):
    parents = np.array([0, 2])
    sampler = SAMPLED[name](PATH)
    h, rng = hidden(5), np.random.default_rng(3)
    estimates = [
        estimate(sampler.sample(parents, 3, rng), 2, h) for _ in range(20_000)
    ]
    assert_mean_within_standard_errors(estimates, (PATH @ h)[parents])


@pytest.mark.parametrize("name", LAYER_WISE)
def test_draws_follow_sample_prob(name):
    sampler = LAYER_WISE[name](SIX)
    sampler.refresh(SIX_G)
    sample = sampler.sample(SIX_PARENTS, 50_000, np.random.default_rng(4))
    expected = sample.sample_prob.astype(np.float64)
    expected *= 50_000 / expected.sum()
    assert stats.chisquare(sample.counts, expected).pvalue > 1e-4


@pytest.mark.parametrize("name", LAYER_WISE)
def test_counts_sum_to_the_number_of_draws(name):
    sample = LAYER_WISE[name](SIX).sample(
        SIX_PARENTS, 40, np.random.default_rng(0)
    )
    assert sample.counts.sum() == 40
    assert sample.counts.max() > 1


# Cases from bug reports.


@pytest.mark.parametrize("name", ALL)
def test_d2_fewer_candidates_than_draws(name):
    star = adjacency_of([(0, leaf) for leaf in range(1, 5)], 5)
    h = hidden(5)
    sample = ALL[name](star).sample(
        np.array([3]), 128, np.random.default_rng(0)
    )
    assert set(sample.nodes) <= (set(range(5)) if "iid" in name else {0, 3})
    if "distinct" in name or name == "full":
        exact = (star @ h)[[3]]
        np.testing.assert_allclose(estimate(sample, 1, h), exact, rtol=1e-6)
        weights = sample.counts.sum() * sample.sample_prob
        np.testing.assert_allclose(weights, 1, rtol=1e-7)


@pytest.mark.parametrize("name", ADAPTIVE)
def test_d4_zero_importance_is_refused_and_a_small_one_is_unbiased(name):
    dense = np.zeros((4, 4), np.float32)
    dense[3, :3] = 1
    sampler = ALL[name](sparse.csr_array(dense))
    with pytest.raises(ValueError, match="1 other values.*importance.1.=0.0"):
        sampler.refresh(np.array([1.0, 0.0, 2.0, 1.0]))
    sampler.refresh(np.array([1.0, 0.01, 2.0, 1.0]))
    h = np.array([[1.0], [100.0], [1.0], [0.0]])
    expectation = (
        expectation_without_replacement
        if "distinct" in name
        else expectation_with_replacement
    )
    mean = expectation(sampler, np.array([3]), 2, h)
    np.testing.assert_allclose(mean, 102, rtol=1e-6)  # 34 x row sum 3.


@pytest.mark.parametrize("name", [*LAYER_WISE, *LAYER_WISE_DISTINCT])
def test_weights_beyond_rounding_keep_a_q_above_0(name):
    """g from e^-20 to e^20; of a weighted star, edges from 1e-20 to 1."""
    leaves = np.arange(1, 9)
    entries = np.where(leaves < 3, 1.0, 1e-20).astype(np.float32)
    star = sparse.coo_array((entries, (0 * leaves, leaves)), shape=(9, 9))
    sampler = ALL[name](sparse.csr_array(star + star.T))
    sampler.refresh(np.exp(np.where(np.arange(9) < 5, 20.0, -20.0)))
    for seed in range(20):
        sample = sampler.sample(np.array([0]), 5, np.random.default_rng(seed))
        assert np.all(sample.sample_prob > 0)
        assert np.isfinite(sample.sample_prob).all()
        assert sample.counts.sum() == 5
        if name in LAYER_WISE_DISTINCT and name != "iid_distinct":
            assert {1, 2} <= set(sample.nodes)


@pytest.mark.parametrize("replacement", [True, False])
def test_d12_node_wise_with_fewer_neighbours_than_draws(replacement):
    sampler = NodeWiseSampler(PATH, 5, replacement)
    parents = np.arange(5)
    h, rng = hidden(5), np.random.default_rng(0)
    exact = PATH @ h
    estimates = []
    for _ in range(4000):
        sample = sampler.sample(parents, 1, rng)
        assert sample.nodes.max() < 5
        entries = PATH.toarray()[
            parents[sample.indices[:, 0]], sample.nodes[sample.indices[:, 1]]
        ]
        assert np.all(entries > 0)
        estimates.append(estimate(sample, 5, h))
    if replacement:
        assert_mean_within_standard_errors(estimates, exact)
    else:  # No node has more than 5 neighbours, itself included.
        np.testing.assert_allclose(estimates[0], exact, rtol=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_parents_without_candidates_give_an_empty_sample(name):
    dense = np.zeros((3, 3), np.float32)
    if "iid" not in name:  # Whose candidates do not depend on the parents.
        dense[1, 2] = 1
    sampler = ALL[name](sparse.csr_array(dense))
    sample = sampler.sample(np.array([0, 2]), 4, np.random.default_rng(0))
    assert len(sample.nodes) == len(sample.values) == len(sample.counts) == 0
    assert sample.indices.shape == (0, 2)
    if sampler.uses_importance:
        assert len(sampler.proposal_of(np.array([0, 2]))[0]) == 0


# Properties.


@st.composite
def graphs_and_parents(draw):
    n_nodes = draw(st.integers(1, 12))
    node = st.integers(0, n_nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=30))
    parents = draw(st.lists(node, unique=True))
    edges = [(u, v) for u, v in edges if u != v]
    return adjacency_of(edges, n_nodes), np.array(parents, np.int64)


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=40, deadline=None)
@given(graphs_and_parents(), st.integers(1, 20), st.integers(0, 2**32))
def test_sample_is_well_formed(name, case, n_samples, seed):
    matrix, parents = case
    sampler = ALL[name](matrix)
    sample = sampler.sample(parents, n_samples, np.random.default_rng(seed))
    n_sampled = len(sample.nodes)
    assert np.all(np.diff(sample.nodes) > 0)
    assert np.all((sample.nodes >= 0) & (sample.nodes < matrix.shape[0]))
    rows, columns = sample.indices.T
    assert np.all((rows >= 0) & (rows < len(parents)))
    assert np.all((columns >= 0) & (columns < n_sampled))
    assert np.all(np.diff(rows * n_sampled + columns) > 0)  # Row-major.
    assert np.all(sample.sample_prob > 0) and np.all(sample.counts >= 1)
    block = np.zeros((len(parents), n_sampled), np.float32)
    block[rows, columns] = sample.values
    exact = matrix.toarray()[parents][:, sample.nodes]
    if name in NODE_WISE:
        assert np.all(exact[block > 0] > 0)
    else:
        np.testing.assert_array_equal(block, exact)


@pytest.mark.parametrize("name", SAMPLED)
def test_same_seed_same_sample(name):
    def draw(seed):
        rng = np.random.default_rng(seed)
        return SAMPLED[name](SIX).sample(np.arange(6), 3, rng)

    assert_same_sample(draw(5), draw(5))
    others = [draw(seed) for seed in range(20)]
    assert any(
        not np.array_equal(draw(5).indices, other.indices) for other in others
    )


@pytest.mark.parametrize("name", ALL)
def test_calls_do_not_influence_each_other(name):
    used, fresh = ALL[name](SIX), ALL[name](SIX)
    used.sample(np.arange(6), 4, np.random.default_rng(0))
    with pytest.raises(ValueError, match="Received"):
        used.sample(np.array([0, 1, 0]), 4, np.random.default_rng(0))
    assert_same_sample(
        used.sample(SIX_PARENTS, 4, np.random.default_rng(1)),
        fresh.sample(SIX_PARENTS, 4, np.random.default_rng(1)),
    )
    assert np.all(used._position == -1) and not used._bits.any()
    if used.uses_importance:
        assert not used._column_sum.any()


def test_matrix_with_int64_indices_and_read_only_arrays_is_accepted():
    matrix = SIX.copy()
    matrix.indices = matrix.indices.astype(np.int64)
    matrix.indptr = matrix.indptr.astype(np.int64)
    matrix.data.flags.writeable = False
    assert_same_sample(
        AdaptiveSampler(matrix).sample(
            SIX_PARENTS, 4, np.random.default_rng(1)
        ),
        AdaptiveSampler(SIX).sample(SIX_PARENTS, 4, np.random.default_rng(1)),
    )


def test_unsorted_matrix_gives_the_same_sample():
    matrix = SIX.copy()
    for start, stop in itertools.pairwise(matrix.indptr):
        matrix.indices[start:stop] = matrix.indices[start:stop][::-1].copy()
        matrix.data[start:stop] = matrix.data[start:stop][::-1].copy()
    matrix = sparse.csr_array(
        (matrix.data, matrix.indices, matrix.indptr), matrix.shape
    )
    assert_same_sample(
        AdaptiveSampler(matrix).sample(
            SIX_PARENTS, 4, np.random.default_rng(1)
        ),
        AdaptiveSampler(SIX).sample(SIX_PARENTS, 4, np.random.default_rng(1)),
    )


# Layers.


@pytest.mark.parametrize("name", LAYER_WISE)
def test_layers_are_drawn_top_down_and_listed_bottom_up(name):
    lower, upper = samplers.sample_layers(
        LAYER_WISE[name](SIX), SIX_PARENTS, (7, 3), np.random.default_rng(0)
    )
    rng = np.random.default_rng(0)
    sampler = LAYER_WISE[name](SIX)
    first = sampler.sample(SIX_PARENTS, 3, rng)
    assert_same_sample(upper, first)
    assert_same_sample(lower, sampler.sample(first.nodes, 7, rng))
    assert upper.counts.sum() == 3 and lower.counts.sum() == 7


# Errors.


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    "parents, n_samples, message",
    [
        ([0], 0, r"`n_samples`.*Received: n_samples=0"),
        ([0], -3, r"Received: n_samples=-3"),
        ([0, 6], 1, r"ids in 0..5. Received: parents\[1\]=6"),
        ([-1, 0], 1, r"Received: parents\[0\]=-1"),
        ([2, 3, 2], 1, r"distinct.*Received: parents\[2\]=2"),
    ],
)
def test_wrong_arguments_are_refused(name, parents, n_samples, message):
    sampler = ALL[name](SIX)
    with pytest.raises(ValueError, match=message):
        sampler.sample(np.array(parents), n_samples, np.random.default_rng(0))


def test_fractional_parents_are_refused():
    with pytest.raises(TypeError, match="float64"):
        FullSampler(SIX).sample(np.array([0.5]), 1, np.random.default_rng(0))


@pytest.mark.parametrize("name", ADAPTIVE)
@pytest.mark.parametrize(
    "importance, message",
    [
        (np.ones(5), r"shape \(6,\). Received: shape \(5,\)"),
        (np.ones((6, 1)), r"Received: shape \(6, 1\)"),
        ([1, 1, 0, 1, -1, 1], r"2 other values, .*importance\[2\]=0.0"),
        ([1, np.nan, 1, 1, 1, 1], r"1 other values, .*\[1\]=nan"),
        ([1, 1, 1, np.inf, 1, 1], r"1 other values, .*\[3\]=inf"),
    ],
)
def test_wrong_importance_is_refused(name, importance, message):
    sampler = ALL[name](SIX)
    with pytest.raises(ValueError, match=message):
        sampler.refresh(np.array(importance))


def test_wrong_options_are_refused():
    with pytest.raises(ValueError, match="Received: proposal='max'"):
        AdaptiveSampler(SIX, "max")
    with pytest.raises(ValueError, match="Received: n_neighbors=0"):
        NodeWiseSampler(SIX, 0)


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_wrong_matrix_is_refused(value):
    matrix = SIX.copy()
    matrix.data[3] = value
    with pytest.raises(ValueError, match="Received: 1 other values"):
        IIDSampler(matrix)
    with pytest.raises(ValueError, match=r"Received: shape \(5, 6\)"):
        FullSampler(SIX[:5])
