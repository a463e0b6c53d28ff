r"""The network and its training step.

`AdaptiveGCN` takes a sampled mini-batch, described by a dictionary of tuples
ordered bottom-up (index 0 is the layer of the input features):

    features     (x_0, ..., x_k): [n_l, n_features] float32, dense or
                 SparseTensor; level L is the batch itself. How many levels
                 the network needs is `feature_levels`
    adjacency    (S_0, ..., S_{L-1}): SparseTensor [n_{l+1}, n_l] float32
    sample_prob  (q_0, ..., q_{L-1}): [n_l] float32
    counts       (c_0, ..., c_{L-1}): [n_l] float32
    importance   (g_0, ..., g_{L-1}): [n_l] float32, g that q was made with;
                 left out where that is g of the present W_g
    nodes        (u_0, ..., u_L): [n_l] int64 ids; not used by the network

L is the number of sampled layers. With a precomputed bottom layer there is
one less of them than there are convolutions, level 0 is the lowest *sampled*
level and x_0 holds rows of A^ X.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from adaptive_gcn import feature_ops, layers, targets, variance

ATTENTION_FORMS = ("none", "paper", "plus_one")
DIVERGED_LOSS = 1e6  # No network that can still learn has such a loss.


class SampledLayer(NamedTuple):
    """What the loss terms need of one sampled layer in the forward pass.

    Attributes:
        hidden: [n_samples, input_dim], h of the sampled nodes; at the bottom
            a SparseTensor where it is the features and they are sparse.
        projected: [n_samples, units], h W of the layer's convolution.
        aggregated: [n_parents, units], z, the output before the activation.
        weights: [n_samples], importance weights.
        values: [nnz], adjacency times attention.
        indices: [nnz, 2], (parent, sampled node).
        sample_prob: [n_samples], q.
        counts: [n_samples], draws of each.
        n_parents: Scalar int64.
    """

    hidden: tf.Tensor
    projected: tf.Tensor
    aggregated: tf.Tensor
    weights: tf.Tensor
    values: tf.Tensor
    indices: tf.Tensor
    sample_prob: tf.Tensor
    counts: tf.Tensor
    n_parents: tf.Tensor


@keras.saving.register_keras_serializable(package="adaptive_gcn")
class AdaptiveGCN(keras.Model):
    r"""Graph convolutional network over adaptively sampled layers.

    The network weights follow the gradient of

    $$\mathcal L = \mathcal L_c + \lambda\, T + \text{L2},$$

    Eq. (10), by GradientTape; T is `network_term`. W_g follows lambda times
    the analytic gradient of the variance and nothing else: no gradient of
    the classification loss reaches it (Eq. (15)), neither through q nor
    through the attention, whose own weights the classification loss trains.

    Args:
        n_classes: Number of classes, the units of the top layer.
        hidden_units: Units of the hidden layers, bottom-up.
        attention: `none`, `paper` (Eq. (14)) or `plus_one` (authors' code).
        self_dependent: Form of g, see `SelfDependentFunction`.
        skip: Skip connection over the top two layers.
        dropout: Dropout rate on hidden layers while training; with `skip` it
            also drops what the skip connection passes on.
        weight_decay: The bottom kernel is penalised by half of this times
            its squared norm.
        variance_weight: lambda, >= 0. At 0 W_g is not touched.
        variance_gradient: `exact` or `paper`, for W_g.
        variance_layers: `top` or `all`: where variance is reduced.
        network_term: `none`, `variance` or `mean_logit`.
        train_sampler: Whether W_g is trained (with lambda > 0).
        draws_from_q: Whether the inputs are draws from one q per layer, so
            that a variance can be estimated (not so for node-wise sampling
            and for the full neighbourhood). The one that is logged is the
            top layer's. All variances are those of draws with replacement.
        precomputed: Whether the features are A^ X already. The bottom layer
            is then ReLU(A^ X W_0) of each node by itself, with its W_0
            trained as ever, and only the layers above it are sampled.

    Raises:
        ValueError: If a named option is unknown, a variance is asked of
            inputs that are not draws from q, or a skip connection or nothing
            to sample is left beside a precomputed bottom layer.
    """

    def __init__(
        self,
        n_classes: int,
        hidden_units: Sequence[int] = (16,),
        attention: str = "none",
        self_dependent: str = "exp",
        skip: bool = False,
        dropout: float = 0.0,
        weight_decay: float = 0.0,
        variance_weight: float = 0.5,
        variance_gradient: str = "exact",
        variance_layers: str = "all",
        network_term: str = "mean_logit",
        train_sampler: bool = True,
        draws_from_q: bool = True,
        precomputed: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self._config = {
            "n_classes": n_classes,
            "hidden_units": list(hidden_units),
            "attention": attention,
            "self_dependent": self_dependent,
            "skip": skip,
            "dropout": dropout,
            "weight_decay": weight_decay,
            "variance_weight": variance_weight,
            "variance_gradient": variance_gradient,
            "variance_layers": variance_layers,
            "network_term": network_term,
            "train_sampler": train_sampler,
            "draws_from_q": draws_from_q,
            "precomputed": precomputed,
        }
        _check_options(self._config)
        self.variance_weight = variance_weight
        self.variance_gradient = variance_gradient
        self.variance_layers = variance_layers
        self.network_term = network_term
        self.trains_sampler = train_sampler and variance_weight > 0
        self.attention_form = attention
        self.self_dependent = _self_dependent_function(
            self_dependent, attention
        )
        self.attention = _attention(attention)
        self.convolutions = _convolutions(
            [*hidden_units, n_classes], skip, weight_decay
        )
        self.dropout = keras.layers.Dropout(dropout)
        self.draws_from_q = draws_from_q
        self.precomputed = precomputed
        self.epoch_means = EpochMeans(self._log_names())
        self.first_diverged = FirstDiverged()

    def _log_names(self) -> list[str]:
        names = ["loss", "class_loss"]
        if self.draws_from_q:
            names.append("variance")
        if self.trains_sampler:
            names.append("w_g_gradient_norm")
        return names

    @property
    def feature_levels(self) -> int:
        """Of how many levels, bottom-up, the inputs must hold features."""
        if self.attention is not None:
            return self.n_sampled_layers + 1
        return self.n_sampled_layers if self.trains_sampler else 1

    @property
    def n_sampled_layers(self) -> int:
        """How many of the convolutions run over sampled nodes."""
        return len(self.convolutions) - self.precomputed

    @property
    def network_weights(self) -> list[Any]:
        """The trainable weights that follow the loss: all but W_g."""
        w_g = self.self_dependent.w_g
        return [v for v in self.trainable_variables if v is not w_g]

    def build_for(self, n_features: int) -> None:
        """Create all weights, and the slots of both optimisers.

        Must precede `fit` and every load: Keras drops the state of an
        optimiser that is not built, silently.
        """
        self._n_features = n_features
        width = n_features
        for convolution in self.convolutions:
            convolution.build((None, width))
            width = convolution.units
        self.self_dependent.build((None, n_features))
        if self.attention is not None:
            wide = self.attention_form == "plus_one"
            self.attention.build((None, n_features if wide else 1))
        self.built = True
        if self.compiled:
            self._build_optimizers()

    def _build_optimizers(self) -> None:
        self.optimizer.build(self.network_weights)
        self.sampler_optimizer.build([self.self_dependent.w_g])

    def compile(
        self,
        optimizer: Any = "adam",
        sampler_optimizer: Any = "adam",
        **kwargs: Any,
    ) -> None:
        """Set the optimisers of the network weights and of W_g.

        XLA has no kernel for sparse products, so it is off by default.

        Raises:
            ValueError: If a loss or metrics are given; both are built in.
        """
        given = {"loss", "metrics", "weighted_metrics"}.intersection(kwargs)
        if given:
            raise ValueError(
                "the loss is Eq. (10) and the metrics are built in. Received: "
                f"{', '.join(sorted(given))}"
            )
        super().compile(optimizer=optimizer, **{"jit_compile": False, **kwargs})
        self.sampler_optimizer = keras.optimizers.get(sampler_optimizer)
        if self.built:
            self._build_optimizers()

    def call(self, inputs: dict[str, Any], training: bool = False) -> tf.Tensor:
        return self.forward(inputs, training)[0]

    def forward(
        self, inputs: dict[str, Any], training: bool = False
    ) -> tuple[tf.Tensor, list[SampledLayer]]:
        """Logits [n_batch, n_classes] and the sampled layers, bottom-up."""
        hidden = inputs["features"][0]
        if self.precomputed:
            hidden = self.convolutions[0].transform(hidden)
            hidden = self.dropout(hidden, training=training)
        sampled = []
        for level, convolution in enumerate(self._sampled_convolutions()):
            adjacency = self._attend(inputs, level)
            sample_prob = inputs["sample_prob"][level]
            counts = inputs["counts"][level]
            weights = variance.importance_weights(sample_prob, counts)
            projected = convolution.project(hidden)
            aggregated = convolution.aggregate(projected, adjacency, weights)
            sampled.append(
                SampledLayer(
                    hidden,
                    projected,
                    aggregated,
                    weights,
                    adjacency.values,
                    adjacency.indices,
                    sample_prob,
                    counts,
                    adjacency.dense_shape[0],
                )
            )
            hidden = convolution.activate(aggregated)
            if level < self.n_sampled_layers - 1:
                hidden = self.dropout(hidden, training=training)
        return hidden, sampled

    def _sampled_convolutions(self) -> list[layers.SampledGraphConv]:
        return self.convolutions[-self.n_sampled_layers :]

    def attention_inputs(self, features: tf.Tensor) -> tf.Tensor:
        """Z of Eq. (14): x for `plus_one`, else g as the plain W_g x."""
        if self.attention_form == "plus_one":
            return features
        response = self.self_dependent.response(features)
        return tf.stop_gradient(response)[:, None]  # Eq. (15)

    def _attend(self, inputs: dict[str, Any], level: int) -> tf.SparseTensor:
        adjacency = inputs["adjacency"][level]
        if self.attention is None:
            return adjacency
        attention = self.attention(
            self.attention_inputs(inputs["features"][level + 1]),
            self.attention_inputs(inputs["features"][level]),
            adjacency.indices,
        )
        return adjacency.with_values(adjacency.values * attention)

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        """One step: Eq. (10) for the network, the analytic gradient for W_g.

        Args:
            data: (inputs, labels): the dictionary described at the head of
                this module, and the labels of `targets.class_loss`.

        Returns:
            Means over the epoch so far, by name.
        """
        inputs, labels, _ = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            logits, sampled = self.forward(inputs, training=True)
            class_loss = targets.class_loss(labels, logits)
            # Eq. (10): L = L_c + lambda T; `losses` holds the L2 penalty.
            loss = tf.add_n(
                [class_loss, self._network_loss(sampled), *self.losses]
            )
        weights = self.network_weights
        self.optimizer.apply(tape.gradient(loss, weights), weights)
        logs = {"loss": loss, "class_loss": class_loss}
        if self.trains_sampler:
            logs["w_g_gradient_norm"] = self._train_sampler(inputs, sampled)
        if self.draws_from_q:
            logs["variance"] = _variance(sampled[-1])
        return self._track(logs, tf.shape(labels)[0])

    def make_train_function(self, force: bool = False) -> Any:
        """Make what `fit` calls: `steps_per_execution` steps on an iterator.

        Keras' own loop wraps each element and each result in an optional, to
        stop at the end of the data; here the data has no end within a call.
        That saves a fifth of the time of a step (BUILD_NOTES.md section 5).
        """
        if self.train_function is not None and not force:
            return self.train_function

        def steps(iterator: Any) -> dict[str, tf.Tensor]:
            for _ in tf.range(self.steps_per_execution):
                self.train_step(next(iterator))
            return self.epoch_means.result()

        if not self.run_eagerly:
            steps = tf.function(steps, reduce_retracing=True)
        self.train_function = steps
        return steps

    def test_step(self, data: Any) -> dict[str, tf.Tensor]:
        """Class loss of sampled batches; `propagation` has the exact one."""
        inputs, labels, _ = keras.utils.unpack_x_y_sample_weight(data)
        loss = targets.class_loss(labels, self(inputs, training=False))
        self.epoch_means.update_state(
            {"class_loss": loss}, sample_weight=tf.shape(labels)[0]
        )
        return {"class_loss": self.epoch_means.result()["class_loss"]}

    def get_metrics_result(self) -> dict[str, Any]:
        """Nothing: Keras then takes what the steps returned, as it is."""
        return {}

    def _track(
        self, logs: dict[str, tf.Tensor], batch_size: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        self.first_diverged.update_state(logs["class_loss"])
        self.epoch_means.update_state(logs, sample_weight=batch_size)
        return self.epoch_means.result()

    def _varied(self) -> range:
        """Levels whose variance is reduced; the last is the top one."""
        top = self.n_sampled_layers - 1
        return range(top if self.variance_layers == "top" else 0, top + 1)

    def _network_loss(self, sampled: list[SampledLayer]) -> Any:
        """Lambda T of Eq. (10), the part that the network weights see."""
        if self.network_term == "none" or not self.variance_weight:
            return 0.0
        terms = []
        for level in self._varied():
            if self.network_term == "variance":
                terms.append(_variance(sampled[level]))
            else:
                terms.append(_mean_logit(sampled[level]))
        return self.variance_weight * tf.add_n(terms)

    def _train_sampler(
        self, inputs: dict[str, Any], sampled: list[SampledLayer]
    ) -> tf.Tensor:
        """Apply lambda dVar/dW_g to W_g; its norm (without lambda)."""
        gradient = tf.add_n(
            [
                self._sampler_gradient(inputs, sampled[level], level)
                for level in self._varied()
            ]
        )
        self.sampler_optimizer.apply(
            [self.variance_weight * gradient], [self.self_dependent.w_g]
        )
        return tf.norm(gradient)

    def _sampler_gradient(
        self, inputs: dict[str, Any], layer: SampledLayer, level: int
    ) -> tf.Tensor:
        """An estimate of dVar/dW_g of one sampled layer."""
        features = inputs["features"][level]
        response = self.self_dependent.response(features)
        if "importance" in inputs:  # Draws of a stale g, as if of the present.
            present = self.self_dependent.of_response(response)
            growth = present / inputs["importance"][level]
            sample_prob, counts = variance.reweigh(
                layer.sample_prob, layer.counts, growth
            )
            layer = layer._replace(sample_prob=sample_prob, counts=counts)
        return self.self_dependent.chain(
            features, response, self._log_gradient(layer)
        )

    def _log_gradient(self, layer: SampledLayer) -> tf.Tensor:
        if self.variance_gradient == "paper":
            return variance.paper_gradient(
                layer.values,
                layer.indices,
                layer.hidden,
                layer.sample_prob,
                layer.counts,
                layer.n_parents,
            )
        return variance.exact_gradient(
            _second_moment(layer), layer.sample_prob, layer.counts
        )

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._config}

    def get_build_config(self) -> dict[str, Any]:
        return {"n_features": self._n_features}

    def build_from_config(self, config: dict[str, Any]) -> None:
        self.build_for(config["n_features"])

    def get_compile_config(self) -> dict[str, Any]:
        serialize = keras.optimizers.serialize
        return {
            "optimizer": serialize(self.optimizer),
            "sampler_optimizer": serialize(self.sampler_optimizer),
        }

    def compile_from_config(self, config: dict[str, Any]) -> None:
        deserialize = keras.optimizers.deserialize
        self.compile(
            deserialize(config["optimizer"]),
            deserialize(config["sampler_optimizer"]),
        )


class EpochMeans(keras.metrics.Metric):
    """Means of several values over an epoch, weighted, kept in one vector.

    Args:
        names: Names of the values; one that is not given counts as 0.
    """

    def __init__(self, names: Sequence[str], **kwargs: Any):
        super().__init__(name="epoch_means", **kwargs)
        self.names = tuple(names)
        shape = (len(self.names),)
        self.total = self.add_variable(shape, "zeros", name="total")
        self.weight = self.add_variable((), "zeros", name="weight")

    def update_state(
        self, values: dict[str, tf.Tensor], sample_weight: tf.Tensor
    ) -> None:
        weight = tf.cast(sample_weight, tf.float32)
        vector = tf.stack([values.get(name, 0.0) for name in self.names])
        self.total.assign_add(weight * vector)
        self.weight.assign_add(weight)

    def result(self) -> dict[str, tf.Tensor]:
        means = tf.unstack(
            tf.math.divide_no_nan(self.total.value, self.weight.value)
        )
        return dict(zip(self.names, means, strict=True))


class FirstDiverged(keras.metrics.Metric):
    """The first step of the epoch, from 1, whose class loss diverged; or 0.

    It has diverged when it is not a number or above `DIVERGED_LOSS`.
    """

    def __init__(self, name: str = "first_diverged", **kwargs: Any):
        super().__init__(name=name, **kwargs)
        # Of several workers one is enough: weights spread in a step.
        one = {"initializer": "zeros", "aggregation": "only_first_replica"}
        self.step = self.add_variable((), name="step", **one)
        self.first = self.add_variable((), name="first", **one)

    def update_state(self, value: tf.Tensor, sample_weight: Any = None) -> None:
        self.step.assign_add(1.0)
        bad = tf.logical_and(
            tf.equal(self.first, 0.0),
            tf.logical_not(value <= DIVERGED_LOSS),
        )
        self.first.assign(tf.where(bad, self.step, self.first))

    def result(self) -> tf.Tensor:
        return tf.identity(self.first.value)


_OPTIONS = {
    "attention": ATTENTION_FORMS,
    "variance_gradient": ("exact", "paper"),
    "variance_layers": ("top", "all"),
    "network_term": ("none", "variance", "mean_logit"),
}


def _check_options(config: dict[str, Any]) -> None:
    for name, options in _OPTIONS.items():
        if config[name] not in options:
            raise ValueError(
                f"`{name}` must be one of {options}. "
                f"Received: {name}={config[name]!r}"
            )
    asks_variance = config["network_term"] == "variance"
    if (
        asks_variance
        and config["variance_weight"]
        and not config["draws_from_q"]
    ):
        raise ValueError(
            "network_term='variance' needs draws from q. Received: "
            "draws_from_q=False"
        )
    if config["precomputed"]:
        _check_precomputed(config)


def _check_precomputed(config: dict[str, Any]) -> None:
    if config["skip"]:
        raise ValueError(
            "skip joins the outputs of two sampled layers; with a precomputed "
            "bottom layer the lower one is not sampled. Received: skip=True"
        )
    if not config["hidden_units"]:
        raise ValueError(
            "a precomputed bottom layer needs a sampled layer above it. "
            "Received: hidden_units=[]"
        )


def _self_dependent_function(
    form: str, attention: str
) -> layers.SelfDependentFunction:
    # The attention of Eq. (14) is 0 everywhere, for good, if W_g is 0.
    initializer = "glorot_uniform" if attention == "paper" else None
    return layers.SelfDependentFunction(
        form, initializer, name="self_dependent"
    )


def _attention(form: str) -> layers.SelfDependentAttention | None:
    if form == "none":
        return None
    if form == "paper":
        return layers.SelfDependentAttention(0.0, "ones", name="attention")
    return layers.SelfDependentAttention(1.0, name="attention")


def _convolutions(
    units: list[int], skip: bool, weight_decay: float
) -> list[layers.SampledGraphConv]:
    """The stack, bottom-up: ReLU below the top, L2 on the bottom kernel."""
    top = len(units) - 1
    return [
        layers.SampledGraphConv(
            width,
            activation=None if level == top else "relu",
            skip=skip and level == top - 1,
            kernel_regularizer=(
                keras.regularizers.L2(0.5 * weight_decay)
                if level == 0 and weight_decay
                else None
            ),
            name=f"convolution_{level}",
        )
        for level, width in enumerate(units)
    ]


def _second_moment(layer: SampledLayer) -> tf.Tensor:
    return variance.second_moment(
        layer.values, layer.indices, layer.hidden, layer.n_parents
    )


def _variance(layer: SampledLayer) -> tf.Tensor:
    """Estimate of mean_v Var mu^(v) of one sampled layer, Eq. (6)."""
    aggregated = variance.weighted_sum(
        layer.values,
        layer.indices,
        layer.weights,
        layer.n_parents,
        feature_ops.to_dense(layer.hidden),
    )
    return variance.variance_estimate(
        _second_moment(layer), layer.sample_prob, layer.counts, aggregated
    )


def _mean_logit(layer: SampledLayer) -> tf.Tensor:
    return variance.mean_logit_term(
        layer.values,
        layer.indices,
        layer.projected,
        layer.aggregated,
        layer.weights,
        layer.counts,
    )
