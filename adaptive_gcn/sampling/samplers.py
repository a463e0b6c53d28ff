"""Layer-wise samplers: draw the nodes of a layer given those of the one above.

All samplers share `sample(parents, n_samples, rng) -> LayerSample` and take
all their randomness from `rng`. They keep scratch arrays of one entry per
node, so that a call costs nothing that grows with the graph; for the same
reason one sampler must not be used by two threads at a time.

Eq. numbers refer to Huang et al., "Adaptive Sampling Towards Fast Graph
Representation Learning", NeurIPS 2018 (arXiv:1809.05343).
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from adaptive_gcn.sampling import kernels

PROPOSALS = ("sum", "l2")


@dataclasses.dataclass(frozen=True, eq=False)
class LayerSample:
    """The nodes drawn for one layer, and their links to the layer above.

    Eq. (5) with N(v) restored estimates row v_i of the convolution as

        sum_j values[i, j] counts_j / (sum(counts) sample_prob_j) h(u_j).

    Attributes:
        nodes: [n_sampled] int64. Distinct node ids, ascending.
        indices: [nnz, 2] int64, row-major. Row = place in the parents,
            column = place in `nodes`.
        values: [nnz] float32. a(v_i, u_j); from the node-wise sampler times
            the weight that belongs to the single edge.
        sample_prob: [n_sampled] float32, > 0. q(u_j).
        counts: [n_sampled] float32, >= 1. How often u_j was drawn.
    """

    nodes: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int64]
    values: npt.NDArray[np.float32]
    sample_prob: npt.NDArray[np.float32]
    counts: npt.NDArray[np.float32]


class Sampler(abc.ABC):
    """Base of the samplers: holds the matrix and checks the arguments.

    Args:
        norm_adjacency: [n_nodes, n_nodes] CSR, every value finite and > 0.

    Raises:
        ValueError: If the matrix is not square or has another value.
    """

    uses_importance: ClassVar[bool] = False

    def __init__(self, norm_adjacency: sparse.csr_array) -> None:
        self._matrix = _checked_matrix(norm_adjacency)
        self.n_nodes = int(self._matrix.shape[0])
        self._csr = _as_tuple(self._matrix)
        self._position = np.full(self.n_nodes, -1, np.int32)
        self._bits = np.zeros(self.n_nodes // 32 + 1, np.uint32)

    def refresh(self, self_importance: npt.NDArray[np.floating]) -> None:
        """Take new values of g. Only the adaptive sampler uses them."""
        del self_importance

    def sample(
        self,
        parents: npt.NDArray[np.int64],
        n_samples: int,
        rng: np.random.Generator,
    ) -> LayerSample:
        """Draw the nodes of the layer below `parents`.

        Args:
            parents: [n_parents] distinct node ids.
            n_samples: Number of draws.
            rng: Source of all randomness.

        Raises:
            ValueError: If n_samples < 1, or an id is out of range or repeated.
            TypeError: If the ids are not integers.
        """
        if n_samples < 1:
            raise ValueError(
                "`n_samples` must be a positive integer. "
                f"Received: n_samples={n_samples}"
            )
        parents = np.array(parents).astype(np.int64, casting="safe")
        invalid = kernels.first_invalid(parents, self._position)
        if invalid >= 0:
            raise ValueError(
                "`parents` must be distinct node ids in "
                f"0..{self.n_nodes - 1}. "
                f"Received: parents[{invalid}]={parents[invalid]}"
            )
        return self._sample(parents, n_samples, rng)

    @abc.abstractmethod
    def _sample(
        self,
        parents: npt.NDArray[np.int64],
        n_samples: int,
        rng: np.random.Generator,
    ) -> LayerSample:
        """Draw, for arguments that are known to be valid."""

    def _block(
        self,
        parents: npt.NDArray[np.int64],
        nodes: npt.NDArray[np.int64],
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        return kernels.extract_block(
            self._csr, parents, nodes, self._position, self._bits
        )


class FullSampler(Sampler):
    """No sampling: every neighbour of the parents, each with weight 1."""

    def _sample(
        self,
        parents: npt.NDArray[np.int64],
        n_samples: int,
        rng: np.random.Generator,
    ) -> LayerSample:
        del n_samples, rng
        nodes = np.sort(
            kernels.distinct_columns(self._csr, parents, self._position)
        )
        return _unweighted(nodes, *self._block(parents, nodes))


class NodeWiseSampler(Sampler):
    """Node-wise sampling as in GraphSAGE: Eq. (3), each parent by itself.

    Draws uniformly among the neighbours of a parent and weights an edge by
    degree / draws, which keeps the estimate of the weighted sum unbiased.

    Args:
        norm_adjacency: See `Sampler`.
        n_neighbors: Draws for each parent; `n_samples` of `sample` is ignored.
        replacement: If false, neighbours are distinct, and a parent that has
            no more than `n_neighbors` takes them all.
    """

    def __init__(
        self,
        norm_adjacency: sparse.csr_array,
        n_neighbors: int = 5,
        replacement: bool = True,
    ) -> None:
        super().__init__(norm_adjacency)
        if n_neighbors < 1:
            raise ValueError(
                "`n_neighbors` must be a positive integer. "
                f"Received: n_neighbors={n_neighbors}"
            )
        self._n_neighbors = n_neighbors
        self._replacement = replacement

    def _sample(
        self,
        parents: npt.NDArray[np.int64],
        n_samples: int,
        rng: np.random.Generator,
    ) -> LayerSample:
        del n_samples
        uniforms = rng.random((len(parents), self._n_neighbors))
        indices, values = kernels.draw_neighbors(
            self._csr, parents, uniforms, self._replacement
        )
        nodes, _ = kernels.merge_repeats(np.sort(indices[:, 1]))
        kernels.relabel(indices, nodes, self._position)
        return _unweighted(nodes, indices, values)


class IIDSampler(Sampler):
    """FastGCN: draws that do not depend on the parents.

    q(u) is proportional to sum_v a(v,u)^2 over the whole matrix. A parent
    without a drawn neighbour has an empty row in the sample.

    Args:
        norm_adjacency: See `Sampler`.
        replacement: If false, the nodes are distinct, with inclusion
            probabilities proportional to q and at most 1; systematic sampling
            in the order of the ids.
    """

    def __init__(
        self, norm_adjacency: sparse.csr_array, replacement: bool = True
    ) -> None:
        super().__init__(norm_adjacency)
        self._replacement = replacement
        _, columns, values = self._csr
        squares = values.astype(np.float64) ** 2
        weights = np.zeros(self.n_nodes)
        np.add.at(weights, columns, squares)
        self._candidates = np.flatnonzero(weights)
        self._cumulative = kernels.running_sums(weights[self._candidates])
        self._urns: dict[int, _Urn] = {}

    def _sample(
        self,
        parents: npt.NDArray[np.int64],
        n_samples: int,
        rng: np.random.Generator,
    ) -> LayerSample:
        if n_samples not in self._urns:
            self._urns[n_samples] = _Urn(
                self._candidates,
                self._cumulative,
                n_samples,
                self._replacement,
            )
        nodes, sample_prob, counts = self._urns[n_samples].draw(rng)
        indices, values = self._block(parents, nodes)
        return LayerSample(nodes, indices, values, sample_prob, counts)


class AdaptiveSampler(Sampler):
    """The sampler of the paper: draws given the parents and g.

    q(u) is proportional to sum_v p(u|v) g(u), Eq. (9), or, for "l2", to
    sqrt(sum_v a(v,u)^2) g(u), the form that minimises the mean variance over
    the parents if g is the norm of the hidden features (BUILD_NOTES.md
    section 3). g may be out of date: that costs variance, but the estimate
    stays unbiased.

    Args:
        norm_adjacency: See `Sampler`.
        proposal: "sum" or "l2".
        replacement: If false, the nodes are distinct, with inclusion
            probabilities proportional to q and at most 1; systematic sampling
            in the order in which the parents name their neighbours, which
            spreads the sample over the parents.
    """

    uses_importance = True

    def __init__(
        self,
        norm_adjacency: sparse.csr_array,
        proposal: str = "sum",
        replacement: bool = True,
    ) -> None:
        super().__init__(norm_adjacency)
        if proposal not in PROPOSALS:
            raise ValueError(
                f"`proposal` must be one of {PROPOSALS}. "
                f"Received: proposal={proposal!r}"
            )
        self._squared = proposal == "l2"
        self._replacement = replacement
        self._row_sum = self._matrix.sum(axis=1, dtype=np.float64)
        self._row_scale = self._scale_rows()
        self._column_sum = np.zeros(self.n_nodes, np.float32)
        by_prefix = replacement and not self._squared
        self._prefix = np.empty(self._matrix.nnz) if by_prefix else None
        self.refresh(np.ones(self.n_nodes))

    def _scale_rows(self) -> npt.NDArray[np.float64]:
        """1 / N(v), or for "l2" one factor for all, which leaves q as it is."""
        if self._squared:
            largest = self._matrix.data.max(initial=0.0)
            return np.full(self.n_nodes, 1 / largest if largest else 1.0)
        scale = np.ones(self.n_nodes)
        np.divide(1.0, self._row_sum, where=self._row_sum > 0, out=scale)
        return scale

    def refresh(self, self_importance: npt.NDArray[np.floating]) -> None:
        """Take new values of g.

        Costs one pass over the matrix for the proposal "sum" with
        replacement, otherwise one pass over the nodes.

        Args:
            self_importance: [n_nodes], finite and > 0; kept as float32.

        Raises:
            ValueError: If a value or their number is wrong.
        """
        importance = np.array(self_importance, np.float32)
        _check_importance(importance, self.n_nodes)
        self._importance = importance
        if self._prefix is not None:
            kernels.fill_prefix_sums(
                self._csr, self._row_sum, importance, self._prefix
            )

    def proposal_of(
        self, parents: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """The distribution that `sample` draws from, written plainly.

        Returns:
            candidates [n_candidates] int64, ascending, and q at them.
        """
        parents = parents[self._row_sum[parents] > 0]
        rows = self._matrix[parents].astype(np.float64)
        if self._squared:
            weights = np.sqrt(rows.power(2).sum(axis=0)) * self._importance
        else:
            cond_prob = sparse.diags_array(1 / self._row_sum[parents]) @ rows
            weights = cond_prob.sum(axis=0) * self._importance  # Eq. (9)
        candidates = np.flatnonzero(weights)
        return candidates, weights[candidates] / weights.sum()

    def _sample(
        self,
        parents: npt.NDArray[np.int64],
        n_samples: int,
        rng: np.random.Generator,
    ) -> LayerSample:
        if self._prefix is not None:
            uniforms = rng.random(n_samples)
            return self._sample_by_prefix(parents, self._prefix, uniforms)
        candidates, cumulative = kernels.candidate_weights(
            self._csr,
            self._row_scale,
            self._importance,
            self._squared,
            parents,
            self._column_sum,
        )
        urn = _Urn(candidates, cumulative, n_samples, self._replacement)
        nodes, sample_prob, counts = urn.draw(rng)
        indices, values = self._block(parents, nodes)
        return LayerSample(nodes, indices, values, sample_prob, counts)

    def _sample_by_prefix(
        self,
        parents: npt.NDArray[np.int64],
        prefix: npt.NDArray[np.float64],
        uniforms: npt.NDArray[np.float64],
    ) -> LayerSample:
        drawn, total = kernels.draw_by_prefix(
            self._csr, prefix, parents, uniforms
        )
        nodes, counts = kernels.merge_repeats(np.sort(drawn))
        indices, values = self._block(parents, nodes)
        sample_prob = kernels.block_proposal(
            indices,
            values,
            self._row_sum[parents],
            self._importance[nodes],
            total,
        )
        return LayerSample(nodes, indices, values, sample_prob, counts)


def sample_layers(
    sampler: Sampler,
    parents: npt.NDArray[np.int64],
    samples_per_layer: Sequence[int],
    rng: np.random.Generator,
) -> list[LayerSample]:
    """Draw all layers, top-down.

    Args:
        sampler: What to draw with.
        parents: [batch_size] distinct node ids, the top layer.
        samples_per_layer: Number of draws for each sampled layer, bottom-up.
        rng: Source of all randomness.

    Returns:
        One sample for each layer, bottom-up. The parents of a layer are the
        nodes of the next one; those of the last are `parents`.
    """
    samples: list[LayerSample] = []
    for n_samples in reversed(samples_per_layer):
        sample = sampler.sample(parents, n_samples, rng)
        samples.append(sample)
        parents = sample.nodes
    return samples[::-1]


class _Urn:
    """Draws from candidates with given weights.

    Args:
        candidates: [n_candidates] distinct node ids.
        cumulative: [n_candidates + 1] float64, running sums of the weights,
            from 0.
        n_samples: Number of draws.
        replacement: If false, min(n_samples, n_candidates) distinct nodes.
    """

    def __init__(
        self,
        candidates: npt.NDArray[Any],
        cumulative: npt.NDArray[np.float64],
        n_samples: int,
        replacement: bool,
    ) -> None:
        if len(candidates) == 0:
            n_samples = 0
        if not replacement:
            n_samples = min(n_samples, len(candidates))
            cumulative = kernels.running_sums(
                kernels.inclusion_probabilities(np.diff(cumulative), n_samples)
            )
        self._candidates = candidates
        self._cumulative = cumulative
        self._n_samples = n_samples
        self._replacement = replacement

    def draw(
        self, rng: np.random.Generator
    ) -> tuple[
        npt.NDArray[np.int64],
        npt.NDArray[np.float32],
        npt.NDArray[np.float32],
    ]:
        """Draw once; nodes (ascending), q at them, and their counts."""
        cumulative, n_samples = self._cumulative, self._n_samples
        if self._replacement:
            uniforms = rng.random(n_samples)
            places = np.sort(kernels.draw_places(cumulative[1:], uniforms))
        else:
            uniform = rng.random()
            places = kernels.draw_systematic(cumulative[1:], n_samples, uniform)
        # q is the step that the draw fell into. Without replacement the total
        # is n_samples, and q = inclusion probability / n_samples.
        nodes, sample_prob, counts = kernels.collect_draws(
            self._candidates, cumulative, places
        )
        order = np.argsort(nodes)
        return nodes[order], sample_prob[order], counts[order]


def _unweighted(
    nodes: npt.NDArray[np.int64],
    indices: npt.NDArray[np.int64],
    values: npt.NDArray[np.float32],
) -> LayerSample:
    """A sample in which counts / (sum(counts) sample_prob) is 1."""
    counts = np.ones(len(nodes), np.float32)
    sample_prob = counts / np.float32(max(len(nodes), 1))
    return LayerSample(nodes, indices, values, sample_prob, counts)


def _checked_matrix(norm_adjacency: sparse.csr_array) -> sparse.csr_array:
    matrix = sparse.csr_array(norm_adjacency)
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(
            f"`norm_adjacency` must be square. Received: shape {matrix.shape}"
        )
    wrong = np.count_nonzero(~(np.isfinite(matrix.data) & (matrix.data > 0)))
    if wrong:
        raise ValueError(
            "`norm_adjacency` must hold finite values > 0. "
            f"Received: {wrong} other values"
        )
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def _as_tuple(matrix: sparse.csr_array) -> kernels.Csr:
    """Each array of one type and writable: one signature for numba."""
    flags: list[Any] = ["C", "W", "E"]
    return (
        np.require(matrix.indptr, np.int64, flags),
        np.require(matrix.indices, np.int32, flags).view(np.uint32),
        np.require(matrix.data, np.float32, flags),
    )


def _check_importance(
    importance: npt.NDArray[np.float32], n_nodes: int
) -> None:
    if importance.shape != (n_nodes,):
        raise ValueError(
            f"`self_importance` must have shape ({n_nodes},). "
            f"Received: shape {importance.shape}"
        )
    wrong = np.flatnonzero(~(np.isfinite(importance) & (importance > 0)))
    if wrong.size:
        raise ValueError(
            "`self_importance` must be finite and > 0. "
            f"Received: {wrong.size} other values, the first is "
            f"self_importance[{wrong[0]}]={importance[wrong[0]]}"
        )
