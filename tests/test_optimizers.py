"""Adam in one operation is Keras' Adam."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from adaptive_gcn.optimizers import FusedAdam

SETTINGS = {"learning_rate": 0.03, "beta_1": 0.8, "epsilon": 1e-3}


def variables_after(optimizer, n_steps):
    rng = np.random.default_rng(0)
    variables = [keras.Variable(np.ones(shape)) for shape in ((3, 2), (4, 1))]
    optimizer.build(variables)

    @tf.function
    def step(*gradients):
        optimizer.apply(gradients, variables)

    for _ in range(n_steps):
        step(
            *[
                tf.constant(rng.normal(size=v.shape), tf.float32)
                for v in variables
            ]
        )
    return [v.numpy() for v in variables]


@pytest.mark.parametrize("settings", [{}, SETTINGS, {"clipnorm": 0.1}])
def test_takes_the_steps_of_keras(settings):
    expected = variables_after(keras.optimizers.Adam(**settings), 7)
    received = variables_after(FusedAdam(**settings), 7)
    for right, ours in zip(expected, received, strict=True):
        np.testing.assert_allclose(ours, right, rtol=1e-5)
        assert not np.allclose(ours, 1)


def test_goes_on_from_the_state_of_keras():
    first = keras.optimizers.Adam()
    variables_after(first, 3)
    second = FusedAdam()
    variables_after(second, 0)
    state = {}
    first.save_own_variables(state)
    second.load_own_variables(state)
    for right, ours in zip(first.variables, second.variables, strict=True):
        np.testing.assert_array_equal(ours.numpy(), right.numpy())


def test_is_saved_and_loaded_with_its_settings():
    optimizer = FusedAdam(**SETTINGS)
    loaded = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert isinstance(loaded, FusedAdam)
    assert loaded.get_config() == optimizer.get_config()


def test_has_no_amsgrad():
    with pytest.raises(ValueError, match="take keras.optimizers.Adam"):
        FusedAdam(amsgrad=True)
