"""Adam in one operation of TensorFlow."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import ops


@keras.saving.register_keras_serializable(package="adaptive_gcn")
class FusedAdam(keras.optimizers.Adam):
    """`keras.optimizers.Adam` by TensorFlow's own kernel.

    Keras composes the update of about ten operations, each a pass over the
    weights; this is one. Same arguments, same state, same update up to
    rounding.

    Raises:
        ValueError: If `amsgrad` is asked for, which the kernel has not.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.amsgrad:
            raise ValueError(
                "FusedAdam has no amsgrad; take keras.optimizers.Adam. "
                "Received: amsgrad=True"
            )

    def finalize_variable_values(self, var_list: Any) -> None:
        """Put the averages, if any, into the variables built for.

        `fit` names all of the model's, and some have another optimiser.
        """
        del var_list
        super().finalize_variable_values(self._trainable_variables)

    def update_step(
        self, gradient: tf.Tensor, variable: Any, learning_rate: tf.Tensor
    ) -> None:
        """Apply `gradient` to `variable`, both of one shape."""
        place = self._get_variable_index(variable)
        step = ops.cast(self.iterations + 1, variable.dtype)
        beta_1 = ops.cast(self.beta_1, variable.dtype)
        beta_2 = ops.cast(self.beta_2, variable.dtype)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[place].value.handle,
            v=self._velocities[place].value.handle,
            beta1_power=ops.power(beta_1, step),
            beta2_power=ops.power(beta_2, step),
            lr=ops.cast(learning_rate, variable.dtype),
            beta1=beta_1,
            beta2=beta_2,
            epsilon=ops.cast(self.epsilon, variable.dtype),
            grad=ops.cast(gradient, variable.dtype),
        )
