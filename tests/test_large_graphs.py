"""Sizes beyond 32 bits, faked so that they need no memory."""

import numpy as np
import pytest
from scipy import sparse

from adaptive_gcn import adjacency
from adaptive_gcn.datasets.assemble import assemble
from adaptive_gcn.datasets.faults import Faults, FaultyDataError
from adaptive_gcn.datasets.graph_parts import GraphParts
from adaptive_gcn.sampling import samplers
from adaptive_gcn.split_rule import SplitRule
from tests.helpers import ring_graph

MANY = 2**31 + 3


def repeated(value):
    """More than 2^31 times the same number, in a few bytes."""
    return np.broadcast_to(np.int32(value), MANY)


@pytest.mark.slow
def test_more_than_2_to_31_entries_are_counted_in_64_bits():
    counts = adjacency._half_entries_before(repeated(0), repeated(2), 3)
    assert counts.dtype == np.int64
    assert counts.tolist() == [0, MANY, MANY, 2 * MANY]


def test_row_pointers_of_more_than_2_to_31_entries_stay_in_64_bits():
    """SciPy would copy the indices; so its class is stood in for."""
    seen = {}

    def keep(parts, shape):
        seen["indptr"] = parts[2]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse, "csr_array", keep)
        indptr = np.array([0, MANY, MANY])
        adjacency.csr_matrix_of(repeated(1), repeated(1), indptr)
        assert seen["indptr"].dtype == np.int64
        assert seen["indptr"].tolist() == indptr.tolist()
        adjacency.csr_matrix_of(None, None, np.array([0, MANY - 4, MANY - 4]))
        assert seen["indptr"].dtype == np.int32


def with_64_bits(matrix):
    """As SciPy keeps a matrix of more than 2^31 entries."""
    wide = matrix.copy()
    wide.indices = wide.indices.astype(np.int64)
    wide.indptr = wide.indptr.astype(np.int64)
    return wide


def test_wide_indices_give_the_same_matrices_and_draws():
    graph = ring_graph()
    plain, wide = graph.adjacency, with_64_bits(graph.adjacency)
    assert adjacency.is_symmetric(wide)
    nodes = np.arange(0, 30, 2)
    for function in (
        adjacency.normalize_adjacency,
        lambda matrix: adjacency.induced_adjacency(matrix, nodes),
    ):
        expected, found = function(plain), function(wide)
        np.testing.assert_array_equal(expected.toarray(), found.toarray())
    drawn = []
    for matrix in (plain, wide):
        normal = adjacency.normalize_adjacency(matrix)
        if matrix is wide:
            normal = with_64_bits(normal)
        sampler = samplers.AdaptiveSampler(normal)
        sampler.refresh(np.ones(30))
        drawn.append(sampler.sample(nodes, 7, np.random.default_rng(1)))
    np.testing.assert_array_equal(drawn[0].nodes, drawn[1].nodes)
    np.testing.assert_array_equal(drawn[0].values, drawn[1].values)


@pytest.mark.parametrize("n_nodes", [0, 2**31, 2**40])
def test_number_of_nodes_beyond_32_bits_is_refused_with_words(n_nodes):
    ends = np.empty(0, np.int64)
    parts = GraphParts("vast", n_nodes, ends, ends)
    with pytest.raises(
        FaultyDataError,
        match=f"vast: {n_nodes} nodes; expected 1 to 2147483647",
    ):
        assemble(parts, SplitRule("given"), 0, "constant", Faults())
