r"""Keras layers of AS-GCN: tensors in, tensors out.

A sampled layer arrives as a SparseTensor [n_parents, n_samples] of adjacency
entries, q of the sampled nodes and how often each was drawn. Nothing here
knows of graphs, files or samplers. Every operation has a GPU kernel.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from adaptive_gcn import feature_ops, variance
from adaptive_gcn.self_dependent import FORMS, LIMIT, LINEAR_FLOOR


@keras.saving.register_keras_serializable(package="adaptive_gcn")
class SelfDependentFunction(keras.layers.Layer):
    r"""The self-dependent function g of a node's own features, Eq. (8).

    With the response $r = W_g x(u)$:

    - `linear`: $|r| + 10^{-3}$. The paper has $|W_g x|$; it may vanish where
      the adjacency does not, which would bias the estimate, hence the floor.
    - `relu1`: $\max(r, 0) + 1$, the authors' code.
    - `exp`: $e^r$ with $r$ held in [-20, 20].
    - `softplus`: $\log(1 + e^{r + 1})$ with $r$ held likewise.

    Args:
        form: One of `linear`, `relu1`, `exp`, `softplus`.
        initializer: Keras initializer of `w_g`. Defaults to Glorot uniform
            for `linear` and `relu1`, which cannot leave 0, and to zeros for
            the others, where g then starts out the same for every node.

    Call arguments:
        features: [n_nodes, n_features] float32, dense or SparseTensor.

    Returns:
        [n_nodes] tensor, > 0.

    Raises:
        ValueError: If `form` is unknown.

    Reference:
        Huang et al. (2018), Sec. 4.2.
    """

    def __init__(
        self, form: str = "linear", initializer: Any = None, **kwargs: Any
    ):
        super().__init__(**kwargs)
        if form not in FORMS:
            raise ValueError(
                f"`form` must be one of {FORMS}. Received: form={form!r}"
            )
        if initializer is None:
            kinked = form in ("linear", "relu1")
            initializer = "glorot_uniform" if kinked else "zeros"
        self.form = form
        self.initializer = keras.initializers.get(initializer)

    def build(self, input_shape: Any) -> None:
        self.w_g = self.add_weight(
            shape=(input_shape[-1], 1), initializer=self.initializer, name="w_g"
        )

    def response(self, features: tf.Tensor) -> tf.Tensor:
        """W_g x(u), [n_nodes]."""
        return tf.squeeze(feature_ops.matmul(features, self.w_g), axis=1)

    def call(self, features: tf.Tensor) -> tf.Tensor:
        return self.of_response(self.response(features))

    def of_response(self, response: tf.Tensor) -> tf.Tensor:
        """G, given W_g x(u), [n_nodes]."""
        if self.form == "linear":
            return tf.abs(response) + LINEAR_FLOOR
        if self.form == "relu1":
            return tf.nn.relu(response) + 1.0
        if self.form == "exp":
            return tf.exp(tf.clip_by_value(response, -LIMIT, LIMIT))
        return tf.nn.softplus(tf.clip_by_value(response, -LIMIT, LIMIT) + 1.0)

    def log_slope(self, response: tf.Tensor) -> tf.Tensor:
        """Dlog g / dr, so that dlog g / dW_g = `log_slope` x(u), [n_nodes]."""
        if self.form == "linear":
            return tf.sign(response) / (tf.abs(response) + LINEAR_FLOOR)
        if self.form == "relu1":
            positive = tf.cast(response > 0, response.dtype)
            return positive / (tf.nn.relu(response) + 1.0)
        inside = tf.cast(tf.abs(response) < LIMIT, response.dtype)
        if self.form == "exp":
            return inside
        shifted = tf.clip_by_value(response, -LIMIT, LIMIT) + 1.0
        return inside * tf.sigmoid(shifted) / tf.nn.softplus(shifted)

    def chain(
        self,
        features: tf.Tensor,
        response: tf.Tensor,
        log_gradient: tf.Tensor,
    ) -> tf.Tensor:
        """Chain dVar/dlog w at sampled nodes to W_g: sum_j . dlog g/dW_g.

        Args:
            features: [n_samples, n_features].
            response: [n_samples], `response` of them.
            log_gradient: [n_samples], from `variance`.

        Returns:
            [n_features, 1], the shape of `w_g`.
        """
        coefficient = (log_gradient * self.log_slope(response))[:, None]
        return feature_ops.transposed_matmul(features, coefficient)

    def get_config(self) -> dict[str, Any]:
        initializer = keras.initializers.serialize(self.initializer)
        config = {"form": self.form, "initializer": initializer}
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable(package="adaptive_gcn")
class SelfDependentAttention(keras.layers.Layer):
    r"""Attention from each node's own input, Eq. (14).

    $$a(v, u) = \mathrm{ReLU}(W_1 z(v) + W_2 z(u)) + c$$

    With $z = g(x)$, so that $W_1$ and $W_2$ are scalars, and $c = 0$ this is
    the paper's equation; with $z = x$, so that $W_1, W_2$ are vectors, and
    $c = 1$ it is the authors' code. The factor 1/n of Eq. (14) is the one of
    Eq. (5) and is applied there, once (BUILD_NOTES.md section 3).

    Args:
        offset: c. Defaults to 0.
        initializer: Keras initializer of `w_1` and `w_2`.

    Call arguments:
        parents: [n_parents, size] float32, z of the parents; dense or
            SparseTensor.
        samples: [n_samples, size] float32, z of the sampled nodes, likewise.
        indices: [nnz, 2] int64, (parent, sampled node) of each entry.

    Returns:
        [nnz] attention of each entry.

    Reference:
        Huang et al. (2018), Sec. 6, "Taking the attention into account".
    """

    def __init__(
        self,
        offset: float = 0.0,
        initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.offset = float(offset)
        self.initializer = keras.initializers.get(initializer)

    def build(self, parents_shape: Any, *_: Any) -> None:
        shape = (parents_shape[-1], 1)
        self.parent_scale = self.add_weight(
            shape=shape, initializer=self.initializer, name="w_1"
        )
        self.sample_scale = self.add_weight(
            shape=shape, initializer=self.initializer, name="w_2"
        )

    def call(
        self, parents: tf.Tensor, samples: tf.Tensor, indices: tf.Tensor
    ) -> tf.Tensor:
        return self.combine(*self.scores(parents, samples), indices)

    def scores(
        self, parents: tf.Tensor, samples: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """W_1 z(v) and W_2 z(u), [n_parents] and [n_samples]."""
        parent_score = feature_ops.matmul(parents, self.parent_scale)
        sample_score = feature_ops.matmul(samples, self.sample_scale)
        return tf.squeeze(parent_score, 1), tf.squeeze(sample_score, 1)

    def combine(
        self, parent_score: tf.Tensor, sample_score: tf.Tensor, indices: Any
    ) -> tf.Tensor:
        """Attention of each entry from the scores of its two ends, [nnz]."""
        # Eq. (14): ReLU(W1 z(v) + W2 z(u)).
        score = tf.gather(parent_score, indices[:, 0]) + tf.gather(
            sample_score, indices[:, 1]
        )
        return tf.nn.relu(score) + self.offset

    def get_config(self) -> dict[str, Any]:
        initializer = keras.initializers.serialize(self.initializer)
        config = {"offset": self.offset, "initializer": initializer}
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable(package="adaptive_gcn")
class SampledGraphConv(keras.layers.Layer):
    r"""Graph convolution over an importance-sampled layer.

    Computes, for each parent $v$ (Eqs. (4) and (5); $N(v)\,p = \hat a$),

    $$z(v) = \frac1n \sum_{j=1}^{n} \frac{\hat a(v, u_j)}{q(u_j)}
        h(u_j) W, \qquad h'(v) = \sigma(z(v)).$$

    With every node sampled once and q = 1/n this is the exact convolution of
    Eq. (1). As in the paper there is no bias.

    With `skip=True` the layer returns $\sigma(z) + z$. The layer above, with
    blocks $S_1$ and kernel $W_1$, then computes $S_1 \sigma(z) W_1 + S_1 S_0
    h W_0 W_1$: Eqs. (11) to (13) without a product of adjacencies.

    Args:
        units: Positive integer, size of the output.
        activation: Keras activation. Defaults to linear.
        skip: Whether to add the skip connection to the layer above.
        kernel_regularizer: Keras regularizer of `kernel`.

    Call arguments:
        hidden: [n_samples, input_dim] float32, h of the sampled nodes; dense
            or, in the bottom layer, SparseTensor.
        adjacency: SparseTensor [n_parents, n_samples] float32, a^ (times
            attention).
        sample_prob: [n_samples] float32, q, > 0.
        counts: [n_samples] float32, how often each node was drawn.

    Returns:
        [n_parents, units] tensor.

    Raises:
        ValueError: If `units` is not a positive integer.

    Reference:
        Huang et al. (2018), Secs. 4.1 and 5.
    """

    def __init__(
        self,
        units: int,
        activation: Any = None,
        skip: bool = False,
        kernel_regularizer: Any = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if not isinstance(units, int) or units <= 0:
            raise ValueError(
                f"`units` must be a positive integer. Received: units={units}"
            )
        self.units = units
        self.activation = keras.activations.get(activation)
        self.skip = skip
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)

    def build(self, hidden_shape: Any, *_: Any) -> None:
        self.kernel = self.add_weight(
            shape=(hidden_shape[-1], self.units),
            initializer="glorot_uniform",
            regularizer=self.kernel_regularizer,
            name="kernel",
        )

    def call(
        self,
        hidden: tf.Tensor,
        adjacency: tf.SparseTensor,
        sample_prob: tf.Tensor,
        counts: tf.Tensor,
    ) -> tf.Tensor:
        weights = variance.importance_weights(sample_prob, counts)
        aggregated = self.aggregate(self.project(hidden), adjacency, weights)
        return self.activate(aggregated)

    def project(self, hidden: Any) -> tf.Tensor:
        """The product h W, [n_samples, units]."""
        return feature_ops.matmul(hidden, self.kernel)

    def aggregate(
        self,
        projected: tf.Tensor,
        adjacency: tf.SparseTensor,
        weights: tf.Tensor,
    ) -> tf.Tensor:
        """The weighted sum z of h W, Eq. (5).

        Args:
            projected: [n_samples, units], h W.
            adjacency: As in the call.
            weights: [n_samples], `variance.importance_weights`.

        Returns:
            [n_parents, units] tensor.
        """
        # (1/n) sum_j a/q h W, Eq. (5), repeated draws merged into counts.
        return variance.weighted_sum(
            adjacency.values,
            adjacency.indices,
            weights,
            adjacency.dense_shape[0],
            projected,
        )

    def transform(self, aggregated: Any) -> tf.Tensor:
        """sigma(A^h W), the layer's output where A^h is given, Eq. (1)."""
        return self.activate(self.project(aggregated))

    def activate(self, aggregated: tf.Tensor) -> tf.Tensor:
        """sigma(z), plus z with the skip connection, Eqs. (11)-(13)."""
        activated = self.activation(aggregated)
        return activated + aggregated if self.skip else activated

    def get_config(self) -> dict[str, Any]:
        config = {
            "units": self.units,
            "activation": keras.activations.serialize(self.activation),
            "skip": self.skip,
            "kernel_regularizer": keras.regularizers.serialize(
                self.kernel_regularizer
            ),
        }
        return {**super().get_config(), **config}
