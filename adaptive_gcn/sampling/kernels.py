"""The loops of the samplers, compiled by numba.

Every kernel is a function of its arguments: uniforms come in as arrays, so
that a test can enumerate all draws. Common arguments:

    csr: The tuple (indptr int64, indices uint32, values float32) of a matrix
        [n_nodes, n_nodes] with sorted columns and positive values. Unsigned,
        because numba then leaves out the test for negative indices.
    parents: [n_parents] int64, distinct rows of that matrix.
    position: [n_nodes] int32, scratch. All -1 before and after each call.
    uniforms: Numbers in [0, 1).

Eq. numbers refer to Huang et al., "Adaptive Sampling Towards Fast Graph
Representation Learning", NeurIPS 2018 (arXiv:1809.05343).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from adaptive_gcn.jit import kernel, prefetch

Ints = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
Scratch = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Csr = tuple[Ints, npt.NDArray[np.uint32], Floats]

# Typed, or numba would widen the shifts below to 64 bits.
_ONE = np.uint32(1)
_FIVE = np.uint32(5)
_LOW_FIVE = np.uint32(31)

_LARGE = 2**19  # Nodes whose float32 no second-level cache holds.
_TINY = np.float32(1e-18)  # Its square is above 0 in float32.
_LEAST_PROB = 1e-30  # q of a drawn node, that 1/q is finite in float32.
_LEAST = 2.0**-50  # Least step of a running sum, relative: above rounding.


@kernel
def first_invalid(parents: Ints, position: Scratch) -> int:
    """Index of the first id that is out of range or repeated; -1 if none."""
    n_valid = 0
    for node in parents:
        if node < 0 or node >= len(position) or position[node] >= 0:
            break
        position[node] = n_valid
        n_valid += 1
    for node in parents[:n_valid]:
        position[node] = -1
    return n_valid if n_valid < len(parents) else -1


@kernel
def merge_repeats(ordered: Ints) -> tuple[Ints, Floats]:
    """The distinct values of a sorted array and how often each occurs."""
    distinct = np.empty(len(ordered), np.int64)
    counts = np.zeros(len(ordered), np.float32)
    n_distinct = 0
    for k in range(len(ordered)):
        if k == 0 or ordered[k] != ordered[k - 1]:
            distinct[n_distinct] = ordered[k]
            n_distinct += 1
        counts[n_distinct - 1] += 1
    return distinct[:n_distinct].copy(), counts[:n_distinct].copy()


@kernel
def count_entries(indptr: Ints, parents: Ints) -> int:
    """The number of non-zeros in the rows of the parents."""
    n_entries = 0
    for v in parents:
        n_entries += indptr[v + 1] - indptr[v]
    return n_entries


@kernel
def prefetch_row(indptr: Ints, array: npt.NDArray[Any], v: int) -> None:
    """Ask for the first 128 numbers of row v while another row is read.

    The rows lie scattered over the memory; waiting for their first lines is
    a third of the time of a loop over them.
    """
    start = indptr[v]
    for k in range(start, min(start + 128, indptr[v + 1]), 16):
        prefetch(array, k)


@kernel
def prefetch_columns(csr: Csr, array: npt.NDArray[Any], v: int) -> None:
    """Ask for what `array` holds at the first 64 columns of row v."""
    indptr, columns, _ = csr
    start = indptr[v]
    for k in range(start, min(start + 64, indptr[v + 1])):
        prefetch(array, columns[k])


@kernel
def extract_block(
    csr: Csr,
    parents: Ints,
    nodes: Ints,
    position: Scratch,
    bits: npt.NDArray[np.uint32],
) -> tuple[Ints, Floats]:
    """The block of the matrix with rows `parents` and columns `nodes`.

    Args:
        csr: The matrix.
        parents: Its rows.
        nodes: [n_sampled] distinct columns, ascending.
        position: Scratch.
        bits: [n_nodes / 32, rounded up], scratch. All 0 before and after each
            call. One bit for each node: unlike `position` it fits into the
            first-level cache, and most entries are not in the block.

    Returns:
        indices [nnz, 2], row-major, and values [nnz] of the block.
    """
    indptr, columns, entries = csr
    for j in range(len(nodes)):
        u = np.uint32(nodes[j])
        position[u] = j
        bits[u >> _FIVE] |= _ONE << (u & _LOW_FIVE)
    capacity = count_entries(indptr, parents)
    indices = np.empty((capacity, 2), np.int64)
    values = np.empty(capacity, np.float32)
    nnz = 0
    for i in range(len(parents)):
        if i + 1 < len(parents):
            prefetch_row(indptr, columns, parents[i + 1])
        for k in range(indptr[parents[i]], indptr[parents[i] + 1]):
            u = columns[k]
            if (bits[u >> _FIVE] >> (u & _LOW_FIVE)) & _ONE:
                indices[nnz, 0] = i
                indices[nnz, 1] = position[u]
                values[nnz] = entries[k]
                nnz += 1
    for node in nodes:
        position[node] = -1
        bits[node >> 5] = 0
    return indices[:nnz].copy(), values[:nnz].copy()


@kernel
def distinct_columns(csr: Csr, parents: Ints, position: Scratch) -> Ints:
    """All neighbours of the parents, in no particular order."""
    indptr, columns, _ = csr
    nodes = np.empty(count_entries(indptr, parents), np.int64)
    n_nodes = 0
    for v in parents:
        for u in columns[indptr[v] : indptr[v + 1]]:
            if position[u] < 0:
                position[u] = 0
                nodes[n_nodes] = u
                n_nodes += 1
    for node in nodes[:n_nodes]:
        position[node] = -1
    return nodes[:n_nodes]


# The prefix kernel: q of Eq. (9) without looking at every candidate.


@kernel
def fill_prefix_sums(
    csr: Csr, row_sum: Doubles, importance: Floats, prefix: Doubles
) -> None:
    """Set `prefix` [nnz] to the running sums of p(u|v) g(u) in each row v."""
    indptr, columns, entries = csr
    for v in range(len(indptr) - 1):
        running = 0.0
        for k in range(indptr[v], indptr[v + 1]):
            running += entries[k] / row_sum[v] * importance[columns[k]]
            prefix[k] = running


@kernel
def search(cumulative: Doubles, first: int, last: int, target: float) -> int:
    """First place in first..last with cumulative > target, at most `last`."""
    while first < last:
        middle = (first + last) // 2
        if cumulative[middle] > target:
            last = middle
        else:
            first = middle + 1
    return first


@kernel
def draw_by_prefix(
    csr: Csr, prefix: Doubles, parents: Ints, uniforms: Doubles
) -> tuple[Ints, float]:
    """Draw nodes from Eq. (9) at a cost that does not depend on the degrees.

    A draw picks the parent v with probability R(v) / sum R, where
    R(v) = sum_u p(u|v) g(u), and then u with probability p(u|v) g(u) / R(v).
    Over all parents this is q(u) = sum_v p(u|v) g(u) / sum R, Eq. (9).

    Args:
        csr: The matrix.
        prefix: [nnz], from `fill_prefix_sums`.
        parents: Its rows.
        uniforms: [n_samples], one for each draw.

    Returns:
        The nodes drawn, repeats included, and sum R. No node is drawn if the
        parents have no neighbours.
    """
    indptr, columns, _ = csr
    cumulative = np.empty(len(parents), np.float64)
    total = 0.0
    for i in range(len(parents)):
        if i + 8 < len(parents):
            prefetch(prefix, indptr[parents[i + 8] + 1] - 1)
        v = parents[i]
        if indptr[v + 1] > indptr[v]:
            total += prefix[indptr[v + 1] - 1]
        cumulative[i] = total
    if total == 0.0:
        return np.empty(0, np.int64), total
    # In three loops: each asks for what the next one reads.
    drawn = np.empty(len(uniforms), np.int64)
    targets = uniforms * total  # < total: some parent exceeds it.
    for k in range(len(drawn)):
        i = search(cumulative, 0, len(parents) - 1, targets[k])
        if i > 0:
            targets[k] -= cumulative[i - 1]
        v = parents[i]
        drawn[k] = v
        prefetch(prefix, (indptr[v] + indptr[v + 1]) // 2)
    for k in range(len(drawn)):
        v = drawn[k]
        drawn[k] = search(prefix, indptr[v], indptr[v + 1] - 1, targets[k])
        prefetch(columns, drawn[k])
    for k in range(len(drawn)):
        drawn[k] = columns[drawn[k]]
    return drawn, total


@kernel
def block_proposal(
    indices: Ints,
    values: Floats,
    parent_row_sum: Doubles,
    node_importance: Floats,
    total: float,
) -> Floats:
    """Eq. (9) at the drawn nodes: sum_v p(u|v) g(u) / total."""
    proposal = np.zeros(len(node_importance), np.float64)
    for k in range(len(values)):
        proposal[indices[k, 1]] += values[k] / parent_row_sum[indices[k, 0]]
    proposal = proposal * node_importance / total
    return np.maximum(proposal, _LEAST_PROB).astype(np.float32)


# The union kernel: weights of all candidates, for every other proposal.


@kernel
def next_sum(running: float, weight: float) -> float:
    """The running sum that follows, above the one before unless that is 0.

    A weight that rounding would lose counts as 2^-50 of the sum before it, so
    that whatever may be drawn has a q > 0.
    """
    return running + max(weight, _LEAST * running)


@kernel
def candidate_weights(
    csr: Csr,
    row_scale: Doubles,
    importance: Floats,
    squared: bool,
    parents: Ints,
    column_sum: Floats,
) -> tuple[npt.NDArray[np.uint32], Doubles]:
    """The neighbours of the parents and running sums of their weights.

    The column sums are float32: that halves the memory that is hit at random.
    It rounds the weights, and `next_sum` says what becomes of the least, but
    draws and q follow the same weights.

    Args:
        csr: The matrix.
        row_scale: [n_nodes], factor of each row, such that products are at
            most 1: 1 / N(v), which makes them p(u|v), or a constant.
        importance: [n_nodes], g.
        squared: With b the scaled entries, weights sqrt(sum_v b(v,u)^2) g(u)
            if true, otherwise sum_v b(v,u) g(u), Eq. (9).
        parents: Its rows.
        column_sum: [n_nodes], scratch. All 0 before and after each call.

    Returns:
        candidates [n_candidates] in the order in which the rows of the
        parents name them first, and [n_candidates + 1] running sums of their
        weights, from 0.
    """
    indptr, columns, entries = csr
    capacity = min(count_entries(indptr, parents), len(column_sum)) + 1
    candidates = np.empty(capacity, np.uint32)
    n_candidates = 0
    for i in range(len(parents)):
        if i + 2 < len(parents):
            prefetch_row(indptr, columns, parents[i + 2])
        if i + 1 < len(parents):
            prefetch_row(indptr, entries, parents[i + 1])
            if len(column_sum) > _LARGE:
                prefetch_columns(csr, column_sum, parents[i + 1])
        v = parents[i]
        scale = row_scale[v]
        for k in range(indptr[v], indptr[v + 1]):
            u = columns[k]
            share = max(np.float32(entries[k] * scale), _TINY)
            before = column_sum[u]
            # Keep u only if it is new: without a branch, which would often
            # be predicted wrongly.
            candidates[n_candidates] = u
            n_candidates += before == np.float32(0.0)
            column_sum[u] = before + (share * share if squared else share)
    cumulative = np.empty(n_candidates + 1, np.float64)
    running = 0.0
    cumulative[0] = running
    for j in range(n_candidates):
        u = candidates[j]
        total = np.float64(column_sum[u])
        weight = (np.sqrt(total) if squared else total) * importance[u]
        running = next_sum(running, weight)
        cumulative[j + 1] = running
        column_sum[u] = 0.0
    return candidates[:n_candidates], cumulative


@kernel
def inclusion_probabilities(weights: Doubles, n_samples: int) -> Doubles:
    """Probabilities proportional to the weights, at most 1, that sum to n.

    A node whose share exceeds 1 is certain; the others share what is left,
    until no further node becomes certain.
    """
    if n_samples >= len(weights):
        return np.ones(len(weights))
    rate = 0.0
    n_before, n_certain = -1, 0
    while n_before < n_certain < n_samples:
        rest = 0.0
        for weight in weights:
            if weight * rate < 1.0:
                rest += weight
        rate = (n_samples - n_certain) / rest
        n_before, n_certain = n_certain, 0
        for weight in weights:
            n_certain += weight * rate >= 1.0
    return np.minimum(weights * rate, 1.0)


@kernel
def draw_places(cumulative: Doubles, uniforms: Doubles) -> Ints:
    """Draw places with the steps of `cumulative` as weights."""
    drawn = np.empty(len(uniforms), np.int64)
    for k in range(len(uniforms)):
        target = uniforms[k] * cumulative[-1]
        drawn[k] = search(cumulative, 0, len(cumulative) - 1, target)
    return drawn


@kernel
def draw_systematic(
    cumulative: Doubles, n_samples: int, uniform: float
) -> Ints:
    """Draw distinct places by systematic sampling.

    The points uniform, uniform + 1, ... fall into intervals that are no
    longer than 1, so no place is drawn twice, and each is drawn with the
    length of its interval as probability. Rounding is kept from breaking
    this: each place lies behind the last one and leaves enough for the rest.

    Args:
        cumulative: [n_candidates >= n_samples] running sums of the inclusion
            probabilities; the last is n_samples up to rounding.
        n_samples: Number of places to draw.
        uniform: Where to start.

    Returns:
        [n_samples] places, ascending.
    """
    drawn = np.empty(n_samples, np.int64)
    first = 0
    for k in range(n_samples):
        last = len(cumulative) - n_samples + k
        drawn[k] = search(cumulative, first, last, uniform + k)
        first = drawn[k] + 1
    return drawn


@kernel
def running_sums(weights: Doubles) -> Doubles:
    """Running sums of the weights by `next_sum`, [len(weights) + 1], from 0."""
    cumulative = np.zeros(len(weights) + 1, np.float64)
    for j in range(len(weights)):
        cumulative[j + 1] = next_sum(cumulative[j], weights[j])
    return cumulative


@kernel
def collect_draws(
    candidates: npt.NDArray[Any], cumulative: Doubles, places: Ints
) -> tuple[Ints, Floats, Floats]:
    """The distinct nodes drawn, q at them, and how often each was drawn.

    Args:
        candidates: [n_candidates] node ids.
        cumulative: [n_candidates + 1] running sums of their weights, from 0.
        places: [n_draws], where among the candidates; ascending.
    """
    distinct, counts = merge_repeats(places)
    nodes = np.empty(len(distinct), np.int64)
    sample_prob = np.empty(len(distinct), np.float32)
    for j in range(len(distinct)):
        place = distinct[j]
        nodes[j] = candidates[place]
        step = cumulative[place + 1] - cumulative[place]
        sample_prob[j] = max(step / cumulative[-1], _LEAST_PROB)
    return nodes, sample_prob, counts


# The node-wise kernel.


@kernel
def _pick_entries(
    degree: int, uniforms: Doubles, replacement: bool, picked: Ints
) -> int:
    """Pick from range(degree) into `picked`, ascending; return how many."""
    n_picks = len(uniforms)
    if not replacement and degree <= n_picks:
        picked[:degree] = np.arange(degree)
        return degree
    for k in range(n_picks):
        # Without replacement this is Floyd's algorithm: all subsets are
        # equally likely.
        size = degree if replacement else degree - n_picks + k + 1
        pick = int(uniforms[k] * size)
        if not replacement and np.any(picked[:k] == pick):
            pick = size - 1
        picked[k] = pick
        while k > 0 and picked[k - 1] > picked[k]:
            picked[k - 1], picked[k] = picked[k], picked[k - 1]
            k -= 1
    return n_picks


@kernel
def draw_neighbors(
    csr: Csr, parents: Ints, uniforms: Doubles, replacement: bool
) -> tuple[Ints, Floats]:
    """Draw neighbours of each parent by itself, uniformly, Eq. (3).

    Args:
        csr: The matrix.
        parents: Its rows.
        uniforms: [n_parents, n_neighbors].
        replacement: Whether one parent may draw a neighbour repeatedly. If
            not, a parent with too few neighbours takes all of them.

    Returns:
        indices [nnz, 2] of (row in parents, node), row-major, and values
        [nnz] a(v,u) * multiplicity * degree / number of draws.
    """
    indptr, columns, entries = csr
    indices = np.empty((uniforms.size, 2), np.int64)
    values = np.empty(uniforms.size, np.float32)
    picked = np.empty(uniforms.shape[1], np.int64)
    nnz = 0
    for i in range(len(parents)):
        start = indptr[parents[i]]
        degree = indptr[parents[i] + 1] - start
        if degree == 0:
            continue
        n_picks = _pick_entries(degree, uniforms[i], replacement, picked)
        for k in range(n_picks):
            weighted = entries[start + picked[k]] * degree / n_picks
            if k > 0 and picked[k] == picked[k - 1]:
                values[nnz - 1] += weighted
                continue
            indices[nnz, 0] = i
            indices[nnz, 1] = columns[start + picked[k]]
            values[nnz] = weighted
            nnz += 1
    return indices[:nnz].copy(), values[:nnz].copy()


@kernel
def relabel(indices: Ints, nodes: Ints, position: Scratch) -> None:
    """Replace the node ids in indices[:, 1] by their places in `nodes`."""
    for j in range(len(nodes)):
        position[nodes[j]] = j
    for k in range(len(indices)):
        indices[k, 1] = position[indices[k, 1]]
    for node in nodes:
        position[node] = -1
