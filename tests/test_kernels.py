import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats

from adaptive_gcn.sampling import kernels

# Rows 0 and 2 share the columns 1 and 3; row 3 is empty.
MATRIX = np.array(
    [
        [0.5, 0.25, 0.0, 0.25],
        [0.0, 1.0, 0.0, 0.0],
        [0.0, 0.2, 0.3, 0.6],
        [0.0, 0.0, 0.0, 0.0],
    ],
    np.float32,
)
ROW_SUM = MATRIX.sum(axis=1, dtype=np.float64)
G = np.array([1.0, 2.0, 4.0, 0.5], np.float32)
PARENTS = np.array([2, 0])
JUST_BELOW_1 = 1 - 2.0**-53


def as_csr(dense):
    matrix = sparse.csr_array(dense)
    return (
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.uint32),
        matrix.data.astype(np.float32),
    )


CSR = as_csr(MATRIX)


def position():
    return np.full(4, -1, np.int32)


def prefix_of(csr=CSR, row_sum=ROW_SUM, importance=G):
    prefix = np.empty(len(csr[2]))
    kernels.fill_prefix_sums(csr, row_sum, importance, prefix)
    return prefix


def test_first_invalid_finds_the_first_fault_of_each_kind():
    scratch = position()
    for parents, expected in [
        ([3, 0, 1], -1),
        ([], -1),
        ([0, 4, -1], 1),
        ([0, 1, -1], 2),
        ([2, 1, 2, 1], 2),
    ]:
        ids = np.array(parents, np.int64)
        assert kernels.first_invalid(ids, scratch) == expected
        assert np.all(scratch == -1)


def test_merge_repeats_counts_each_value():
    values, counts = kernels.merge_repeats(np.array([1, 4, 4, 4, 7]))
    assert values.tolist() == [1, 4, 7]
    assert counts.tolist() == [1, 3, 1]
    assert counts.dtype == np.float32


def test_extract_block_is_the_submatrix_in_row_major_order():
    scratch, bits = position(), np.zeros(1, np.uint32)
    indices, values = kernels.extract_block(
        CSR, PARENTS, np.array([1, 3]), scratch, bits
    )
    assert indices.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    np.testing.assert_array_equal(
        values, np.array([0.2, 0.6, 0.25, 0.25], np.float32)
    )
    assert np.all(scratch == -1) and np.all(bits == 0)


def test_extract_block_tells_nodes_of_one_word_of_bits_apart():
    dense = np.eye(70, dtype=np.float32)
    nodes = np.array([0, 31, 32, 63, 69])
    bits = np.zeros(3, np.uint32)
    scratch = np.full(70, -1, np.int32)
    indices, _ = kernels.extract_block(
        as_csr(dense), np.arange(70), nodes, scratch, bits
    )
    np.testing.assert_array_equal(
        indices, np.stack([nodes, np.arange(5)], axis=1)
    )
    assert not bits.any()


def test_distinct_columns_lists_each_neighbour_once():
    scratch = position()
    columns = kernels.distinct_columns(CSR, PARENTS, scratch)
    assert sorted(columns.tolist()) == [0, 1, 2, 3]
    assert np.all(scratch == -1)


def test_prefix_sums_run_within_each_row():
    expected = [0.5, 1.0, 1.125, 2.0]  # Rows 0 and 1: p g = a g here.
    expected += (np.cumsum([0.2 * 2, 0.3 * 4, 0.6 * 0.5]) / 1.1).tolist()
    np.testing.assert_allclose(prefix_of(), expected, rtol=1e-6)


@pytest.mark.parametrize("target", [0.0, 0.5, 1.0, 1.5, 2.0, 3.9, 4.0, 9.0])
def test_search_agrees_with_numpy(target):
    cumulative = np.array([1.0, 1.0, 2.0, 4.0])
    expected = min(np.searchsorted(cumulative, target, "right"), 3)
    assert kernels.search(cumulative, 0, 3, target) == expected


def test_draw_by_prefix_maps_every_cell_to_its_parent_and_neighbour():
    rows = [MATRIX[v].astype(np.float64) / ROW_SUM[v] * G for v in PARENTS]
    lengths = np.concatenate(rows)
    ends = np.cumsum(lengths) / lengths.sum()
    middles = (ends - lengths / lengths.sum() / 2)[lengths > 0]
    drawn, total = kernels.draw_by_prefix(CSR, prefix_of(), PARENTS, middles)
    assert drawn.tolist() == [1, 2, 3, 0, 1, 3]
    assert total == pytest.approx(lengths.sum())


def test_draw_by_prefix_stays_in_range_at_the_ends_and_skips_empty_rows():
    ends = np.array([0.0, JUST_BELOW_1])
    for parents in ([3, 0, 3], [3, 2, 0, 3, 1, 3]):
        drawn, _ = kernels.draw_by_prefix(
            CSR, prefix_of(), np.array(parents), ends
        )
        assert np.all(MATRIX[parents][:, drawn].sum(axis=0) > 0)
    drawn, total = kernels.draw_by_prefix(CSR, prefix_of(), np.array([3]), ends)
    assert len(drawn) == 0 and total == 0


def test_block_proposal_is_equation_9():
    nodes = np.array([1, 3])
    indices, values = kernels.extract_block(
        CSR, PARENTS, nodes, position(), np.zeros(1, np.uint32)
    )
    weights = (MATRIX[PARENTS] / ROW_SUM[PARENTS, None]).sum(axis=0) * G
    q = kernels.block_proposal(
        indices, values, ROW_SUM[PARENTS], G[nodes], weights.sum()
    )
    np.testing.assert_allclose(q, (weights / weights.sum())[nodes], rtol=1e-6)


@pytest.mark.parametrize("squared", [False, True])
def test_candidate_weights_equal_the_dense_formula(squared):
    scratch = np.zeros(4, np.float32)
    scale = np.ones(4) if squared else 1 / np.maximum(ROW_SUM, 1e-9)
    candidates, cumulative = kernels.candidate_weights(
        CSR, scale, G, squared, PARENTS, scratch
    )
    weights = np.diff(cumulative)
    rows = MATRIX[PARENTS].astype(np.float64)
    if squared:
        expected = np.sqrt((rows**2).sum(axis=0)) * G
    else:
        expected = (rows / ROW_SUM[PARENTS, None]).sum(axis=0) * G
    assert candidates.tolist() == [1, 2, 3, 0]  # As first seen.
    np.testing.assert_allclose(weights, expected[candidates], rtol=1e-6)
    assert cumulative[0] == 0 and np.all(scratch == 0)


def test_running_sums_rise_whatever_the_weights():
    weights = np.array([1e-30, 1.0, 1e-30, 2.0, 1e-300])
    steps = np.diff(kernels.running_sums(weights))
    assert np.all(steps > 0)
    np.testing.assert_allclose(steps, weights, atol=4 * 2.0**-50)
    assert np.all(kernels.inclusion_probabilities(steps, 4) > 0)


def test_draw_places_follows_the_weights():
    weights = np.array([1.0, 5.0, 0.5, 3.5])
    uniforms = np.random.default_rng(0).random(50_000)
    places = kernels.draw_places(np.cumsum(weights), uniforms)
    observed = np.bincount(places, minlength=4)
    assert stats.chisquare(observed, 5_000 * weights).pvalue > 1e-4


@pytest.mark.parametrize(
    "weights, n_samples, expected",
    [
        ([1, 1, 2], 1, [0.25, 0.25, 0.5]),
        ([1, 1, 2], 2, [0.5, 0.5, 1]),
        ([1, 1, 8], 2, [0.5, 0.5, 1]),
        # The second node becomes certain only after the first one is.
        ([100, 3, 1, 1], 3, [1, 1, 0.5, 0.5]),
        ([5, 1, 1], 3, [1, 1, 1]),
        ([5, 1], 9, [1, 1]),
        ([1, 1, 1e-20], 2, [1, 1, 1e-20]),
    ],
)
def test_inclusion_probabilities_are_capped(weights, n_samples, expected):
    probabilities = kernels.inclusion_probabilities(
        np.array(weights, np.float64), n_samples
    )
    np.testing.assert_allclose(probabilities, expected, rtol=1e-12)


@settings(deadline=None)
@given(
    st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=60),
    st.integers(1, 60),
    st.one_of(
        st.floats(0, 1, exclude_max=True), st.sampled_from([0.0, JUST_BELOW_1])
    ),
)
def test_systematic_draws_are_distinct_and_as_many_as_asked(
    weights, n_samples, uniform
):
    n_samples = min(n_samples, len(weights))
    probabilities = kernels.inclusion_probabilities(
        np.array(weights), n_samples
    )
    assert probabilities.sum() == pytest.approx(n_samples)
    places = kernels.draw_systematic(
        np.cumsum(probabilities), n_samples, uniform
    )
    assert len(places) == n_samples
    assert np.all(np.diff(places) > 0)
    assert places[0] >= 0 and places[-1] < len(weights)


def test_systematic_draws_survive_rounding_of_the_sums():
    cumulative = np.cumsum(np.full(30, 0.1))  # 2.9999999999999996 or so.
    for uniform in (0.0, JUST_BELOW_1):
        places = kernels.draw_systematic(cumulative, 3, uniform)
        assert len(set(places.tolist())) == 3
    too_long = np.array([0.5, np.nextafter(1.5, 2), 2.0])
    places = kernels.draw_systematic(too_long, 2, 0.5)
    assert places.tolist() == [1, 2]
    everything = np.arange(1.0, 6.0)  # uniform + 1 rounds to 2 here.
    places = kernels.draw_systematic(everything, 5, JUST_BELOW_1)
    assert places.tolist() == [0, 1, 2, 3, 4]


def test_draw_neighbors_merges_repeats_and_weights_by_degree_over_draws():
    uniforms = np.array([[0.9, 0.1, 0.9, 0.9], [0.5, 0.5, 0.4, 0.0]])
    indices, values = kernels.draw_neighbors(CSR, PARENTS, uniforms, True)
    assert indices.tolist() == [[0, 1], [0, 3], [1, 0], [1, 1]]
    np.testing.assert_allclose(
        values,
        [0.2 * 3 / 4, 0.6 * 3 * 3 / 4, 0.5 * 3 / 4, 0.25 * 3 * 3 / 4],
        rtol=1e-6,
    )


def test_draw_neighbors_without_replacement_takes_every_pair_equally_often():
    pairs = []
    # Floyd's algorithm uses range(2) and then range(3) for 2 out of 3.
    for first, second in itertools.product((0.25, 0.75), (0.1, 0.5, 0.9)):
        indices, values = kernels.draw_neighbors(
            CSR, np.array([2]), np.array([[first, second]]), False
        )
        pairs.append(tuple(indices[:, 1].tolist()))
        np.testing.assert_allclose(
            values, MATRIX[2, indices[:, 1]] * 3 / 2, rtol=1e-6
        )
    assert sorted(pairs) == [(1, 2)] * 2 + [(1, 3)] * 2 + [(2, 3)] * 2


def test_draw_neighbors_without_replacement_takes_all_of_a_short_row():
    uniforms = np.full((3, 3), JUST_BELOW_1)
    indices, values = kernels.draw_neighbors(
        CSR, np.array([1, 3, 0]), uniforms, False
    )
    assert indices.tolist() == [[0, 1], [2, 0], [2, 1], [2, 3]]
    assert values.tolist() == [1.0, 0.5, 0.25, 0.25]


def test_relabel_replaces_ids_by_places():
    indices = np.array([[0, 3], [1, 1], [1, 3]])
    scratch = position()
    kernels.relabel(indices, np.array([1, 3]), scratch)
    assert indices.tolist() == [[0, 1], [1, 0], [1, 1]]
    assert np.all(scratch == -1)
