"""The matrices of a graph, made with little memory beyond the result.

All are `scipy.sparse.csr_array` [n_nodes, n_nodes] float32 with sorted
columns. Eq. numbers refer to Huang et al., arXiv:1809.05343.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from adaptive_gcn.jit import kernel

NORMALIZATIONS = ("sym", "row")
MOST_NODES = 2**31 - 1  # Column indices are int32.

Ids = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class EdgeStatistics:
    """What was read from an edge list, before and after cleaning.

    Attributes:
        entries: Number of (source, target) entries read.
        duplicates: Entries that repeat an earlier one.
        self_loops: Distinct nodes with an entry to themselves.
        reversed_added: Entries added because the reverse one was missing.
    """

    entries: int
    duplicates: int
    self_loops: int
    reversed_added: int


def symmetric_adjacency(
    sources: npt.NDArray[Any],
    targets: npt.NDArray[Any],
    n_nodes: int,
    directed: bool = True,
) -> tuple[sparse.csr_array, EdgeStatistics]:
    """The unweighted adjacency of an edge list, cleaned and symmetric.

    Needs 8 bytes an entry besides the result.

    Args:
        sources: [n_entries] integers in [0, n_nodes).
        targets: [n_entries], likewise.
        n_nodes: Number of nodes.
        directed: Whether (u, v) and (v, u) are different entries. If not, one
            of them is enough, and the other one is a duplicate.

    Returns:
        The adjacency, all weights 1, without self-loops, and what was read.
    """
    indptr = _half_entries_before(sources, targets, n_nodes)
    codes = np.empty(indptr[-1], np.uint32)
    n_looped, n_loops = _fill_rows(sources, targets, indptr, codes)
    repeats, repeats_undirected, added = _keep_distinct(indptr, codes)
    repeats += n_loops - n_looped
    repeats_undirected += n_loops - n_looped
    indices = codes[: indptr[-1]].view(np.int32).copy()
    adjacency = csr_matrix_of(
        np.ones(len(indices), np.float32), indices, indptr
    )
    statistics = EdgeStatistics(
        entries=len(sources),
        duplicates=repeats if directed else repeats_undirected,
        self_loops=n_looped,
        reversed_added=added if directed else 0,
    )
    return adjacency, statistics


def weigh_adjacency(
    adjacency: sparse.csr_array,
    sources: npt.NDArray[Any],
    targets: npt.NDArray[Any],
    weights: npt.NDArray[np.float32],
) -> tuple[int, int]:
    """Write the weights of an edge list into the adjacency made of it.

    All entries of one edge, in either direction, must have one weight.

    Args:
        adjacency: What `symmetric_adjacency` returned; changed in place.
        sources: [n_entries] as given to it.
        targets: [n_entries] likewise.
        weights: [n_entries] float32, finite and above 0.

    Returns:
        How many entries have another weight than an earlier one of the same
        edge, and the first of these.
    """
    adjacency.data[:] = 0
    n_conflicts, first = _fill_weights(
        adjacency.indptr,
        adjacency.indices,
        sources,
        targets,
        weights,
        adjacency.data,
    )
    return int(n_conflicts), int(first)


def csr_matrix_of(
    data: npt.NDArray[Any],
    indices: npt.NDArray[np.int32],
    indptr: npt.NDArray[Any],
) -> sparse.csr_array:
    """A square CSR matrix of its three arrays, without copying the large ones.

    SciPy keeps both kinds of indices in one type: 32 bits unless the number of
    entries needs more.
    """
    n_nodes = len(indptr) - 1
    if indptr[-1] <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    return sparse.csr_array((data, indices, indptr), (n_nodes, n_nodes))


def is_symmetric(adjacency: sparse.csr_array) -> bool:
    """Whether a CSR matrix with sorted columns equals its transpose."""
    return bool(
        _is_symmetric(adjacency.indptr, adjacency.indices, adjacency.data)
    )


def induced_adjacency(
    adjacency: sparse.csr_array, nodes: Ids
) -> sparse.csr_array:
    """The adjacency among `nodes`; row i of the result is `nodes[i]`."""
    place = np.full(adjacency.shape[0], -1, np.int32)
    place[nodes] = np.arange(len(nodes))
    indptr = _inside_before(adjacency.indptr, adjacency.indices, nodes, place)
    indices = np.empty(indptr[-1], np.int32)
    data = np.empty(indptr[-1], np.float32)
    _fill_inside(
        adjacency.indptr,
        adjacency.indices,
        adjacency.data,
        nodes,
        place,
        indices,
        data,
    )
    induced = csr_matrix_of(data, indices, indptr)
    induced.sort_indices()
    return induced


def normalize_adjacency(
    adjacency: sparse.csr_array,
    normalization: str = "sym",
    two_hop: bool = False,
    identity_weight: float = 0.0,
) -> sparse.csr_array:
    """The re-normalised adjacency of Eq. (1), and its variants.

    Args:
        adjacency: [n_nodes, n_nodes] CSR without self-loops.
        normalization: "sym" for D^-1/2 (A + I) D^-1/2, "row" for D^-1 (A + I);
            D holds the row sums of A + I.
        two_hop: Use M + M^2 in place of M (the paper's Sec. 6.2).
        identity_weight: Multiple of the identity added after that.

    Returns:
        [n_nodes, n_nodes] CSR float32 with sorted columns and every value
        > 0: what is 0 in float32, from very small weights, is no entry.

    Raises:
        ValueError: If `normalization` is unknown.
    """
    degree = adjacency.sum(axis=1, dtype=np.float64) + 1.0
    if normalization == "sym":
        left = right = degree**-0.5
    elif normalization == "row":
        left, right = 1.0 / degree, np.ones_like(degree)
    else:
        raise ValueError(
            f"`normalization` must be one of {NORMALIZATIONS}. "
            f"Received: normalization={normalization!r}"
        )
    if two_hop:
        normalized = _scaled_with_loops(adjacency, left, right, 0.0, np.float64)
        normalized = normalized + normalized @ normalized
        if identity_weight:
            identity = sparse.eye_array(adjacency.shape[0])
            normalized = normalized + identity_weight * identity
        normalized = sparse.csr_array(normalized).astype(np.float32)
        normalized.sort_indices()
    else:
        normalized = _scaled_with_loops(
            adjacency, left, right, identity_weight, np.float32
        )
    normalized.eliminate_zeros()
    return normalized


def _scaled_with_loops(
    adjacency: sparse.csr_array,
    left: npt.NDArray[np.float64],
    right: npt.NDArray[np.float64],
    identity_weight: float,
    dtype: Any,
) -> sparse.csr_array:
    """Diag(left) (A + I) diag(right) + identity_weight I."""
    n_nodes = adjacency.shape[0]
    nnz = adjacency.nnz + n_nodes
    indptr = adjacency.indptr + np.arange(n_nodes + 1, dtype=np.int64)
    indices, data = np.empty(nnz, np.int32), np.empty(nnz, dtype)
    _fill_scaled_with_loops(
        adjacency.indptr,
        adjacency.indices,
        adjacency.data,
        left,
        right,
        identity_weight,
        indices,
        data,
    )
    return csr_matrix_of(data, indices, indptr)


@kernel
def _half_entries_before(sources: Any, targets: Any, n_nodes: int) -> Any:
    """Row pointers of a matrix that holds every entry in both directions."""
    indptr = np.zeros(n_nodes + 1, np.int64)
    for k in range(len(sources)):
        if sources[k] != targets[k]:
            indptr[sources[k] + 1] += 1
            indptr[targets[k] + 1] += 1
    for v in range(n_nodes):
        indptr[v + 1] += indptr[v]
    return indptr


@kernel
def _fill_rows(sources: Any, targets: Any, indptr: Any, codes: Any) -> Any:
    """Fill each row with 2 u + (whether the entry reads (u, v)).

    Returns:
        The number of nodes with a self-loop and of entries that are one.
    """
    ahead = indptr[:-1].copy()
    looped = np.zeros(len(ahead), np.bool_)
    n_loops = 0
    for k in range(len(sources)):
        s, t = np.int64(sources[k]), np.int64(targets[k])
        if s == t:
            looped[s] = True
            n_loops += 1
            continue
        codes[ahead[s]] = 2 * t
        codes[ahead[t]] = 2 * s + 1
        ahead[s] += 1
        ahead[t] += 1
    return looped.sum(), n_loops


@kernel
def _keep_distinct(indptr: Any, codes: Any) -> Any:
    """Sort the rows and keep each neighbour once, as plain u; in place.

    Returns:
        The number of repeated entries, the same if (u, v) and (v, u) count as
        one, and of neighbours that were named in the other direction only.
    """
    repeats, repeats_undirected, added = 0, 0, 0
    kept = 0
    start = 0
    for v in range(len(indptr) - 1):
        stop = indptr[v + 1]
        codes[start:stop].sort()
        k = start
        while k < stop:
            u = codes[k] >> 1
            forward, backward = 0, 0
            while k < stop and codes[k] >> 1 == u:
                backward += codes[k] & 1
                forward += 1 - (codes[k] & 1)
                k += 1
            repeats += max(forward - 1, 0)
            if u > v:
                repeats_undirected += forward + backward - 1
            added += forward == 0
            codes[kept] = u
            kept += 1
        start = stop
        indptr[v + 1] = kept
    return repeats, repeats_undirected, added


@kernel
def _place(indptr: Any, indices: Any, row: Any, column: Any) -> Any:
    """Where a CSR matrix with sorted columns has an entry that is there."""
    start, stop = indptr[row], indptr[row + 1]
    return start + np.searchsorted(indices[start:stop], column)


@kernel
def _fill_weights(
    indptr: Any,
    indices: Any,
    sources: Any,
    targets: Any,
    weights: Any,
    data: Any,
) -> Any:
    n_conflicts, first = 0, -1
    for k in range(len(sources)):
        s, t = np.int64(sources[k]), np.int64(targets[k])
        if s == t:
            continue
        there = _place(indptr, indices, s, t)
        if data[there] == 0:
            data[there] = weights[k]
            data[_place(indptr, indices, t, s)] = weights[k]
        elif data[there] != weights[k]:
            if n_conflicts == 0:
                first = k
            n_conflicts += 1
    return n_conflicts, first


@kernel
def _is_symmetric(indptr: Any, indices: Any, data: Any) -> bool:
    """Rows are visited in order, so row u is met at its next column."""
    ahead = indptr[:-1].copy()
    for v in range(len(ahead)):
        for k in range(indptr[v], indptr[v + 1]):
            u = indices[k]
            twin = ahead[u]
            if twin == indptr[u + 1]:
                return False
            if indices[twin] != v or data[twin] != data[k]:
                return False
            ahead[u] = twin + 1
    return True


@kernel
def _inside_before(indptr: Any, indices: Any, nodes: Any, place: Any) -> Any:
    """Row pointers of the matrix among the nodes that have a place."""
    before = np.zeros(len(nodes) + 1, np.int64)
    for i in range(len(nodes)):
        inside = 0
        for k in range(indptr[nodes[i]], indptr[nodes[i] + 1]):
            inside += place[indices[k]] >= 0
        before[i + 1] = before[i] + inside
    return before


@kernel
def _fill_inside(
    indptr: Any,
    indices: Any,
    data: Any,
    nodes: Any,
    place: Any,
    new_indices: Any,
    new_data: Any,
) -> None:
    n = 0
    for v in nodes:
        for k in range(indptr[v], indptr[v + 1]):
            if place[indices[k]] >= 0:
                new_indices[n] = place[indices[k]]
                new_data[n] = data[k]
                n += 1


@kernel
def _fill_scaled_with_loops(
    indptr: Any,
    indices: Any,
    data: Any,
    left: Any,
    right: Any,
    identity_weight: float,
    new_indices: Any,
    new_data: Any,
) -> None:
    """Eq. (1), entry by entry; the diagonal goes where its column belongs."""
    n = 0
    for v in range(len(indptr) - 1):
        k, stop = indptr[v], indptr[v + 1]
        while k < stop and indices[k] < v:
            new_indices[n] = indices[k]
            new_data[n] = left[v] * data[k] * right[indices[k]]
            n, k = n + 1, k + 1
        new_indices[n] = v
        new_data[n] = left[v] * right[v] + identity_weight
        n += 1
        while k < stop:
            new_indices[n] = indices[k]
            new_data[n] = left[v] * data[k] * right[indices[k]]
            n, k = n + 1, k + 1
