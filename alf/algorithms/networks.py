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


@gin.configurable(module="alf.algorithms")
class NatureNetwork(tf.Module):
    """The convolutional network of Mnih et al. 2015 (Nature 518), with a policy and a value head.

    Args:
        observation_spec: unbatched tensor spec, uint8 [channels, height, width], at least 36 x 36 pixels.
        num_outputs: size of the policy head.
        compute_dtype: "float32", or "bfloat16", which CPUs with AVX-512 or AMX compute faster; variables and
            outputs are float32.
        seed: of the initialisers; None draws one.
    """

    def __init__(self, observation_spec, num_outputs, compute_dtype="float32", seed=None):
        super().__init__(name="nature_network")
        if tf.nest.is_nested(observation_spec) or observation_spec.shape.rank != 3:
            raise ConfigError(
                f"NatureNetwork needs one image [channels, height, width], not {observation_spec}"
            )
        if compute_dtype not in _KERAS_POLICIES:
            choices = ", ".join(map(repr, _KERAS_POLICIES))
            raise ConfigError(
                f"NatureNetwork.compute_dtype is {compute_dtype!r}: it must be one of {choices}"
            )
        self._shape = observation_spec.shape
        self._num_outputs = num_outputs
        policy = tf.keras.mixed_precision.Policy(_KERAS_POLICIES[compute_dtype])
        channels, height, width = self._shape
        layers = [tf.keras.Input((height, width, channels))]
        for filters, size, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
            kernel = _orthogonal(2**0.5, seed)
            layers.append(
                tf.keras.layers.Conv2D(
                    filters, size, stride, activation="relu", kernel_initializer=kernel, dtype=policy
                )
            )
        layers.append(tf.keras.layers.Flatten(dtype=policy))
        kernel = _orthogonal(2**0.5, seed)
        layers.append(tf.keras.layers.Dense(512, "relu", kernel_initializer=kernel, dtype=policy))
        self._torso = tf.keras.Sequential(layers)
        self._heads = _dense(512, num_outputs + 1, seed)

    def __call__(self, observation):
        """Args: uint8 [..., C, H, W]. Returns: float32 [..., num_outputs] and values [...]."""
        leading = tf.shape(observation)[:-3]
        # CPUs convolve with the channels last.
        images = tf.transpose(tf.reshape(observation, (-1, *self._shape)), (0, 2, 3, 1))
        features = self._torso(tf.cast(images, tf.float32) / 255.0)
        outputs, value = tf.split(self._heads(tf.cast(features, tf.float32)), [self._num_outputs, 1], axis=-1)
        return _unflatten(outputs, leading), tf.reshape(value, leading)

    def policy(self, observation):
        """The policy head alone, for acting: float32 [..., num_outputs]."""
        return self(observation)[0]


_KERAS_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


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
