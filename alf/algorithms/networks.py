# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Networks, of Keras layers; each is built at once, so that its variables exist from the start."""

import gin
import tensorflow as tf

from alf.checks import check_int
from alf.errors import ConfigError


def flatten_observation(observation, spec):
    """Makes rows of a nest of observations.

    Args:
        observation: nest of [..., *shape]; every leaf has the same leading dimensions, any number of them.
        spec: nest of unbatched tensor specs with these shapes.

    Returns:
        float32 [N, D], leading dimensions merged, leaves flattened and concatenated; and the leading
        dimensions, an int32 tensor.
    """
    rows = []
    for x, s in zip(tf.nest.flatten(observation), tf.nest.flatten(spec), strict=True):
        leading = tf.shape(x)[: x.shape.rank - s.shape.rank]
        rows.append(tf.cast(tf.reshape(x, (-1, s.shape.num_elements())), tf.float32))
    return (rows[0] if len(rows) == 1 else tf.concat(rows, axis=-1)), leading


@gin.configurable(module="alf.algorithms")
class ActorCriticNetwork(tf.Module):
    """A multilayer perceptron with one head for the policy and one for the value.

    Args:
        observation_spec: nest of unbatched tensor specs; leaves are flattened and concatenated.
        num_outputs: size of the policy head.
        fc_layer_params: units of each hidden layer.
        activation: of the hidden layers, a name that Keras knows.
        share_layers: whether policy and value share the hidden layers.
        seed: of the initialisers; None draws one.
    """

    def __init__(
        self,
        observation_spec,
        num_outputs,
        fc_layer_params=(64, 64),
        activation="tanh",
        share_layers=True,
        seed=None,
    ):
        super().__init__(name="actor_critic_network")
        _check_hidden_layers(fc_layer_params, activation)
        self._spec = observation_spec
        self._share_layers = share_layers
        self._num_outputs = num_outputs
        size = sum(s.shape.num_elements() for s in tf.nest.flatten(observation_spec))
        hidden = dict(units=tuple(fc_layer_params), activation=activation, seed=seed)
        if share_layers:
            self._torso = _mlp(size, **hidden)
            self._heads = _dense(fc_layer_params[-1], num_outputs + 1, seed)
        else:
            self._policy = _mlp(size, **hidden, num_outputs=num_outputs)
            self._value = _mlp(size, **hidden, num_outputs=1)

    def __call__(self, observation):
        """Args: nest of [..., *shape]. Returns: float32 [..., num_outputs] and values [...]."""
        x, leading = flatten_observation(observation, self._spec)
        if self._share_layers:
            # One product for both heads.
            outputs, value = tf.split(self._heads(self._torso(x)), [self._num_outputs, 1], axis=-1)
        else:
            outputs, value = self._policy(x), self._value(x)
        return _unflatten(outputs, leading), tf.reshape(value, leading)

    def policy(self, observation):
        """The policy head alone, for acting: float32 [..., num_outputs]."""
        if self._share_layers:
            return self(observation)[0]
        x, leading = flatten_observation(observation, self._spec)
        return _unflatten(self._policy(x), leading)


def _check_hidden_layers(fc_layer_params, activation):
    if not isinstance(fc_layer_params, (list, tuple)) or not fc_layer_params:
        raise ConfigError(f"fc_layer_params is {fc_layer_params!r}: it must be a tuple of sizes")
    for size in fc_layer_params:
        check_int("a size in fc_layer_params", size)
    try:
        tf.keras.activations.get(activation)
    except (TypeError, ValueError):
        raise ConfigError(f"activation is {activation!r}: Keras has none of that name") from None


def _unflatten(x, leading):
    return tf.reshape(x, tf.concat([leading, [x.shape[-1]]], axis=0))


def _mlp(size, units, activation, seed, num_outputs=None):
    layers = [tf.keras.Input((size,))]
    layers += [
        tf.keras.layers.Dense(n, activation, kernel_initializer=_orthogonal(2**0.5, seed)) for n in units
    ]
    if num_outputs is not None:
        layers.append(tf.keras.layers.Dense(num_outputs, kernel_initializer=_orthogonal(0.01, seed)))
    return tf.keras.Sequential(layers)


def _dense(size, units, seed):
    layer = tf.keras.layers.Dense(units, kernel_initializer=_orthogonal(0.01, seed))
    return tf.keras.Sequential([tf.keras.Input((size,)), layer])


def _orthogonal(gain, seed):
    return tf.keras.initializers.Orthogonal(gain, seed=seed)
