# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Fully connected layers, with orthogonal initial weights; each is built at once."""

import numpy as np
import tensorflow as tf

from alf.errors import ConfigError, check_int
from alf.networks.copying import CopyableModule

HIDDEN_GAIN = 2**0.5


def check_layers(name, units, activation):
    """Raises ConfigError unless `units` is a tuple of sizes and Keras knows the activation."""
    if not isinstance(units, (list, tuple)):
        raise ConfigError(f"{name} is {units!r}: it must be a tuple of sizes")
    for size in units:
        check_int(f"a size in {name}", size)
    try:
        tf.keras.activations.get(activation)
    except (TypeError, ValueError):
        raise ConfigError(f"activation is {activation!r}: Keras has none of that name") from None


def check_ctor(name, value, what, example):
    """Raises ConfigError unless the setting `name` is a function or class.

    Args:
        name: of the setting, as gin writes it.
        value: of the setting.
        what: the function must make, for the error.
        example: of a class, for the error.
    """
    if not callable(value):
        raise ConfigError(
            f"{name} is {value!r}: it must be a function or class that makes {what}. "
            f"In gin write, without parentheses: {name} = @{example}"
        )


def split_seed(seed, num):
    """Makes `num` seeds of one, so that layers of one shape differ; None stays None."""
    if seed is None:
        return [None] * num
    return [int(s) for s in np.random.SeedSequence(seed).generate_state(num)]


def orthogonal(gain, seed):
    """The initializer of all kernels: orthogonal, times `gain`."""
    return tf.keras.initializers.Orthogonal(gain, seed=seed)


def build_layer(layer, input_shape):
    """Creates the variables of a Keras layer now, and returns the layer."""
    with tf.name_scope(layer.name):
        layer.build(tf.TensorShape(input_shape))
    return layer


def dense(size, units, gain, seed, dtype="float32"):
    """A linear layer: [N, size] -> `dtype` [N, units]; None for that of the `compute_in` around."""
    layer = tf.keras.layers.Dense(units, kernel_initializer=orthogonal(gain, seed), dtype=dtype)
    return build_layer(layer, (None, size))


class Mlp(CopyableModule):
    """Hidden layers, which compute in the dtype of the `compute_in` around.

    Args:
        size: of the input.
        units: sizes of the layers; () for no layer.
        activation: a name that Keras knows.
        seed: of the initializers, or None.
        layer_norm: whether each layer is normalized before its activation (arXiv 1607.06450).
        spectral_norm: whether the layers are `SpectralDense`.

    Attributes:
        size: of the output.
    """

    def __init__(self, size, units, activation, seed, layer_norm=False, spectral_norm=False):
        super().__init__(name="mlp")
        layer_ctor = SpectralDense if spectral_norm else tf.keras.layers.Dense
        self._layers = []
        for n, layer_seed in zip(units, split_seed(seed, len(units)), strict=True):
            kernel = orthogonal(HIDDEN_GAIN, layer_seed)
            if layer_norm:
                layer = layer_ctor(n, use_bias=False, kernel_initializer=kernel)
                norm = tf.keras.layers.LayerNormalization(epsilon=1e-5)
                self._layers += [build_layer(layer, (None, size)), build_layer(norm, (None, n))]
                self._layers.append(tf.keras.layers.Activation(activation))
            else:
                layer = layer_ctor(n, activation, kernel_initializer=kernel)
                self._layers.append(build_layer(layer, (None, size)))
            size = n
        self.size = size

    def __call__(self, x, training=False):
        """[N, size of the input] -> float32 [N, size]."""
        for layer in self._layers:
            x = layer(x, training=training)
        return tf.cast(x, tf.float32)


class SpectralDense(tf.keras.layers.Dense):
    """A layer whose kernel is divided by its largest singular value (arXiv 1802.05957), always in float32.

    The value is |W u|, where u estimates the first right singular vector. A call in training makes one power
    iteration, u <- normalised W'W u, and keeps u; another call uses the u that is there. So acting and
    training compute the same function of the same variables.
    """

    def __init__(self, *args, **kwargs):
        # Eight bits are too few to iterate with.
        super().__init__(*args, dtype="float32", **kwargs)

    def build(self, input_shape):
        super().build(input_shape)
        rows, columns = self.kernel.shape
        self._vector = self.add_weight("singular_vector", (columns,), initializer="zeros", trainable=False)
        # In the span of the kernel's rows: else |W u| could start far below the singular values.
        start = tf.linalg.matvec(self.kernel, tf.ones(rows), transpose_a=True)
        self._vector.assign(tf.math.l2_normalize(start))

    def call(self, inputs, training=False):
        if training:
            left = tf.linalg.matvec(self.kernel, self._vector)
            self._vector.assign(tf.math.l2_normalize(tf.linalg.matvec(self.kernel, left, transpose_a=True)))
        product = tf.linalg.matvec(self.kernel, self._vector)
        largest = tf.sqrt(tf.reduce_sum(tf.square(product)) + 1e-12)
        outputs = tf.matmul(inputs, self.kernel / largest)
        return self.activation(tf.nn.bias_add(outputs, self.bias) if self.use_bias else outputs)
