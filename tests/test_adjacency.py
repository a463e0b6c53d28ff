"""Matrices of a graph against plain SciPy and by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from adaptive_gcn import adjacency
from adaptive_gcn.adjacency import EdgeStatistics

PAIRS = st.integers(1, 6).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))),
    )
)


def ends(pairs, dtype=np.int64):
    array = np.array(pairs, dtype).reshape(-1, 2)
    return array[:, 0], array[:, 1]


@settings(deadline=None, max_examples=200)
@given(PAIRS, st.booleans())
def test_cleaning_equals_sets_of_pairs(case, directed):
    n_nodes, pairs = case
    matrix, statistics = adjacency.symmetric_adjacency(
        *ends(pairs), n_nodes, directed
    )
    edges = {(u, v) for u, v in pairs if u != v}
    both = edges | {(v, u) for u, v in edges}
    assert set(zip(*matrix.nonzero(), strict=True)) == both
    assert matrix.has_canonical_format
    assert np.all(matrix.data == 1)
    assert adjacency.is_symmetric(matrix)
    kinds = set(pairs) if directed else {tuple(sorted(p)) for p in pairs}
    assert statistics == EdgeStatistics(
        entries=len(pairs),
        duplicates=len(pairs) - len(kinds),
        self_loops=len({u for u, v in pairs if u == v}),
        reversed_added=len(both) - len(edges) if directed else 0,
    )


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
def test_ends_of_any_integer_type(dtype):
    matrix, _ = adjacency.symmetric_adjacency(*ends([[2, 0]], dtype), 3)
    assert matrix.toarray().tolist() == [[0, 0, 1], [0, 0, 0], [1, 0, 0]]
    assert matrix.indices.dtype == matrix.indptr.dtype == np.int32


@pytest.mark.parametrize(
    "rows, symmetric",
    [
        ([[0, 1], [1, 0]], True),
        ([[0, 1], [0, 0]], False),
        ([[0, 0], [1, 0]], False),
        ([[0, 1], [2, 0]], False),
        ([[0, 0], [0, 0]], True),
        ([[0, 1, 0], [0, 0, 1], [1, 0, 0]], False),
    ],
)
def test_is_symmetric(rows, symmetric):
    matrix = sparse.csr_array(np.array(rows, np.float32))
    assert adjacency.is_symmetric(matrix) == symmetric


def random_adjacency(n_nodes, seed=0):
    rng = np.random.default_rng(seed)
    matrix, _ = adjacency.symmetric_adjacency(
        *rng.integers(0, n_nodes, (2, 3 * n_nodes)), n_nodes
    )
    return matrix


def test_induced_adjacency_follows_the_order_of_the_nodes():
    matrix = random_adjacency(40)
    nodes = np.random.default_rng(1).permutation(40)[:25]
    induced = adjacency.induced_adjacency(matrix, nodes)
    np.testing.assert_array_equal(
        induced.toarray(), matrix.toarray()[np.ix_(nodes, nodes)]
    )
    assert induced.has_canonical_format


@pytest.mark.parametrize("identity_weight", [0.0, 0.5])
@pytest.mark.parametrize("two_hop", [False, True])
@pytest.mark.parametrize("normalization", adjacency.NORMALIZATIONS)
def test_normalized_equals_the_dense_formula(
    normalization, two_hop, identity_weight
):
    matrix = random_adjacency(40)
    loops = matrix.toarray().astype(np.float64) + np.eye(40)
    degree = loops.sum(axis=1)
    if normalization == "sym":
        expected = loops / np.sqrt(np.outer(degree, degree))
    else:
        expected = loops / degree[:, None]
    if two_hop:
        expected = expected + expected @ expected
    expected = expected + identity_weight * np.eye(40)
    received = adjacency.normalize_adjacency(
        matrix, normalization, two_hop, identity_weight
    )
    np.testing.assert_allclose(received.toarray(), expected, rtol=1e-6)
    assert received.has_canonical_format
    assert received.dtype == np.float32


@pytest.mark.parametrize("normalization", adjacency.NORMALIZATIONS)
def test_what_float32_rounds_to_0_is_no_entry(normalization):
    """A path 0-1-2: of two steps from 0 to 2 nothing is left of 1e-50."""
    matrix = path_of(1e-25, 1e-25)
    one_hop = adjacency.normalize_adjacency(matrix, normalization)
    assert one_hop.nnz == 7
    np.testing.assert_allclose(one_hop[[0], [1]], [1e-25], rtol=1e-6)
    received = adjacency.normalize_adjacency(matrix, normalization, True)
    np.testing.assert_array_equal(received.toarray() > 0, one_hop.toarray() > 0)
    np.testing.assert_allclose(received.data, [2, *[3e-25, 3e-25, 2] * 2])
    assert received.nnz == 7 and received.has_canonical_format


def test_an_edge_beside_a_huge_one_may_be_rounded_to_0():
    received = adjacency.normalize_adjacency(path_of(1e-35, 1e30))
    expected = [[1, 0, 0], [0, 1e-30, 1], [0, 1, 1e-30]]
    np.testing.assert_allclose(received.toarray(), expected, rtol=1e-6)
    assert received.nnz == 5 and received.has_canonical_format


def path_of(*weights):
    """The path 0-1-2 with these weights."""
    dense = np.diag(np.array(weights, np.float32), 1)
    return sparse.csr_array(dense + dense.T)
