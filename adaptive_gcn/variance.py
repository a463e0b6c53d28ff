r"""Variance of the layer-wise estimate and its gradient for the sampler.

Functions from tensors to tensors; no layer, no model. One sampled layer is
described by (shapes in brackets):

    values       [nnz] a(v, u), the adjacency entry times attention if any
    indices      [nnz, 2] (parent, sampled node) of each entry
    sample_prob  [n_samples] q(u_j) of the distinct sampled nodes
    counts       [n_samples] how often each was drawn; their sum is n
    hidden       [n_samples, units] h(u_j); a SparseTensor where it may be
    n_parents    scalar, m

The estimate is mu^(v) = (1/n) sum_j a(v, u_j) / q(u_j) h(u_j) over the n
draws, Eq. (5) with N(v) restored: a = N p. Where the paper prints |h| (Eqs.
(6), (16), (17)) and so a scalar mu, `eq_17` does as printed; the others take
h as the vector it is (BUILD_NOTES.md section 3).

The gradients are those of log w(u), w the unnormalised weight of q: the
caller multiplies by dlog w / dW_g.
"""

from __future__ import annotations

import tensorflow as tf

from adaptive_gcn import feature_ops

LEAST_SHARE = 1e-3  # Of q now in q drawn with, see `reweigh`.


def importance_weights(sample_prob: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
    """Weight of each distinct sampled node in Eq. (5): counts / (n q).

    Args:
        sample_prob: [n_samples], q of the distinct sampled nodes.
        counts: [n_samples], how often each was drawn.

    Returns:
        [n_samples] weights, of the dtype of the arguments.
    """
    n = tf.reduce_sum(counts)
    return counts / (n * sample_prob)


def reweigh(
    sample_prob: tf.Tensor, counts: tf.Tensor, growth: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Make draws from an earlier q stand for draws from the present one.

    With w the weights of the draw, q ~ w, and w' = w `growth` those of now,
    q' = q growth / sum_u q(u) growth(u). The sum is estimated by the mean over
    the draws, and each draw counts q' / q times. The gradient that
    `exact_gradient` makes of them is unbiased for draws with replacement, for
    the mean cancels in it. Without replacement q' does not know of the bound
    1/n on q. q' / q is held above 1e-3: a node whose g has collapsed has a
    gradient without bound.

    Args:
        sample_prob: [n_samples], q that was drawn with.
        counts: [n_samples], draws of each; their sum is n.
        growth: [n_samples], g now / g drawn with, > 0.

    Returns:
        q' and counts q' / q, [n_samples] each; the latter sum to n, or
        slightly more where the bound holds.
    """
    mean = tf.reduce_sum(counts * growth) / tf.reduce_sum(counts)
    share = tf.maximum(growth / mean, LEAST_SHARE)
    return sample_prob * share, counts * share


def weighted_sum(
    values: tf.Tensor,
    indices: tf.Tensor,
    weights: tf.Tensor,
    n_parents: tf.Tensor,
    hidden: tf.Tensor,
) -> tf.Tensor:
    """mu^(v), Eq. (5), for dense h.

    Args:
        values: [nnz], a(v, u).
        indices: [nnz, 2], (parent, sampled node), row-major.
        weights: [n_samples], `importance_weights`.
        n_parents: Scalar, number of parents.
        hidden: [n_samples, units], h(u_j).

    Returns:
        [n_parents, units] tensor.
    """
    weighted = values * tf.gather(weights, indices[:, 1])
    return feature_ops.sparse_matmul(weighted, indices, n_parents, hidden)


def second_moment(
    values: tf.Tensor,
    indices: tf.Tensor,
    hidden: tf.Tensor,
    n_parents: tf.Tensor,
) -> tf.Tensor:
    """c(u_j) = mean_v a(v, u_j)^2 |h(u_j)|^2, [n_samples]."""
    squared_norm = feature_ops.squared_norms(hidden)
    column_sum = tf.math.unsorted_segment_sum(
        tf.square(values), indices[:, 1], tf.size(squared_norm)
    )
    return column_sum * squared_norm / tf.cast(n_parents, values.dtype)


def variance_estimate(
    moment: tf.Tensor,
    sample_prob: tf.Tensor,
    counts: tf.Tensor,
    aggregated: tf.Tensor,
) -> tf.Tensor:
    """Unbiased estimate of mean_v Var mu^(v) from one sample.

    1 / (n (n - 1)) sum_j mean_v |a h_j / q_j - mu^(v)|^2: the sample form of
    Eq. (6) for vectors. With one draw there is no estimate and the result
    is 0. For draws with replacement; of draws without it, it is what the
    variance with replacement would be, and too large.

    Args:
        moment: [n_samples], `second_moment` of the sampled nodes.
        sample_prob: [n_samples], q.
        counts: [n_samples], draws of each.
        aggregated: [n_parents, units], mu^(v).

    Returns:
        Scalar.
    """
    n = tf.reduce_sum(counts)
    n_parents = tf.cast(tf.shape(aggregated)[0], aggregated.dtype)
    mean_square = 2.0 * tf.nn.l2_loss(aggregated) / n_parents
    spread = tf.reduce_sum(counts * moment / tf.square(sample_prob))
    return tf.math.divide_no_nan(spread - n * mean_square, n * (n - 1.0))


def exact_gradient(
    moment: tf.Tensor, sample_prob: tf.Tensor, counts: tf.Tensor
) -> tf.Tensor:
    """Unbiased estimate of dVar / dlog w at the distinct sampled nodes.

    dVar/dtheta = -(1/n) sum_u c(u)/q(u) dlog q(u). From the same draws that
    is minus 1/n times the sample covariance of c/q^2 and dlog w, in which
    the normaliser of q is the sample mean and n/(n - 1) makes up for it. For
    draws with replacement; without it the covariance of two draws makes the
    second term approximate.

    Args:
        moment: [n_samples], `second_moment` of the sampled nodes.
        sample_prob: [n_samples], q.
        counts: [n_samples], draws of each.

    Returns:
        [n_samples], summing to 0; 0 throughout for a single draw.
    """
    n = tf.reduce_sum(counts)
    ratio = moment / tf.square(sample_prob)
    centred = ratio - tf.reduce_sum(counts * ratio) / n
    return tf.math.divide_no_nan(-counts * centred, n * (n - 1.0))


def paper_gradient(
    values: tf.Tensor,
    indices: tf.Tensor,
    hidden: tf.Tensor,
    sample_prob: tf.Tensor,
    counts: tf.Tensor,
    n_parents: tf.Tensor,
) -> tf.Tensor:
    """Eq. (17) as printed, averaged over parents, chained to log w.

    The printed derivative takes the draws as fixed, which biases it
    (BUILD_NOTES.md section 3). The chain is dq_j = q_j (dlog w_j - sum_k q_k
    dlog w_k), the last sum estimated by the mean over the draws.

    Args:
        values: [nnz], a(v, u).
        indices: [nnz, 2], (parent, sampled node).
        hidden: [n_samples, units], h(u_j).
        sample_prob: [n_samples], q.
        counts: [n_samples], draws of each.
        n_parents: Scalar, number of parents.

    Returns:
        [n_samples], summing to 0.
    """
    n = tf.reduce_sum(counts)
    per_entry = eq_17(values, indices, hidden, sample_prob, counts, n_parents)
    per_node = tf.math.unsorted_segment_sum(
        per_entry, indices[:, 1], tf.size(counts)
    ) / tf.cast(n_parents, values.dtype)
    direct = counts * per_node * sample_prob
    return direct - counts / n * tf.reduce_sum(direct)


def eq_17(
    values: tf.Tensor,
    indices: tf.Tensor,
    hidden: tf.Tensor,
    sample_prob: tf.Tensor,
    counts: tf.Tensor,
    n_parents: tf.Tensor,
) -> tf.Tensor:
    """Eq. (17) at each entry: -(1/n^2) p|h| (p|h| - mu^ q) / q^3, [nnz].

    Arguments as in `paper_gradient`; p is `values`, mu^ the estimate of
    sum_u p(u|v) |h(u)|, a scalar per parent.
    """
    n = tf.reduce_sum(counts)
    parent, node = indices[:, 0], indices[:, 1]
    q = tf.gather(sample_prob, node)
    hidden_norm = tf.sqrt(feature_ops.squared_norms(hidden))
    scaled_norm = values * tf.gather(hidden_norm, node)
    contribution = scaled_norm / q * tf.gather(counts, node) / n
    mean_norm = tf.math.unsorted_segment_sum(contribution, parent, n_parents)
    deviation = scaled_norm - tf.gather(mean_norm, parent) * q
    return -scaled_norm * deviation / (tf.square(n) * q**3)


def mean_logit_term(
    values: tf.Tensor,
    indices: tf.Tensor,
    projected: tf.Tensor,
    aggregated: tf.Tensor,
    weights: tf.Tensor,
    counts: tf.Tensor,
) -> tf.Tensor:
    """The term of the authors' code: (1/(n C)) sum_j |m_j M_j - mu|^2.

    m_j is the mean over parents of the importance-weighted adjacency of draw
    j, M = h W and mu = sum_j m_j M_j, which is the mean of the outputs. The
    sum over the n draws is therefore that of |m_j M_j|^2, and n - 2 times
    |mu|^2; the term is about (1/C) |mu|^2: a penalty on the outputs averaged
    over the batch, not a variance.

    Args:
        values: [nnz], a(v, u).
        indices: [nnz, 2], (parent, sampled node).
        projected: [n_samples, units], h(u_j) W.
        aggregated: [n_parents, units], `weighted_sum` of `projected`.
        weights: [n_samples], `importance_weights`.
        counts: [n_samples], draws of each.

    Returns:
        Scalar.
    """
    n = tf.reduce_sum(counts)
    n_parents, units = tf.unstack(tf.shape(aggregated))
    column_sum = tf.math.unsorted_segment_sum(
        values, indices[:, 1], tf.size(counts)
    )
    # m_j times the draws of that node.
    scale = column_sum * weights / tf.cast(n_parents, values.dtype)
    own = tf.square(scale) / counts * feature_ops.squared_norms(projected)
    mean = tf.reduce_mean(aggregated, axis=0)
    rest = (n - 2.0) * tf.reduce_sum(tf.square(mean))
    return (tf.reduce_sum(own) + rest) / (n * tf.cast(units, values.dtype))
