# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Layers with orthogonal initial weights. Their variables are created at once."""

import numpy as np
import tensorflow as tf

from alf.errors import ConfigError
from alf.networks.copying import CopyableModule

# A ReLU drops half of the variance of its input; this gain makes up for it (He et al. 2015, arXiv
# 1502.01852).
HIDDEN_GAIN = 2**0.5


def check_activation(activation):
    """Raises ConfigError unless Keras has an activation of this name."""
    try:
        tf.keras.activations.get(activation)
    except (TypeError, ValueError):
        raise ConfigError(f"activation is {activation!r}: Keras has no activation of that name") from None


def split_seed(seed, num):
    """Makes a list of `num` seeds from one, so that layers of equal shape differ; of None if it is None."""
    if seed is None:
        return [None] * num
    return [int(s) for s in np.random.SeedSequence(seed).generate_state(num)]


def orthogonal(gain, seed):
    """Returns the initializer of all kernels: orthogonal, multiplied by `gain`."""
    return tf.keras.initializers.Orthogonal(gain, seed=seed)


def build_layer(layer, input_shape):
    """Creates the variables of a Keras layer. Returns the layer."""
    # Keras opens this scope itself when it builds a layer at its first call. That would be too late: copies,
    # optimizers and checkpoints need the variables before.
    with tf.name_scope(layer.name):
        layer.build(tf.TensorShape(input_shape))
    return layer


def dense(size, units, gain, seed, dtype="float32", activation=None):
    """Makes a layer from [N, size] to `dtype` [N, units]; None means the dtype of `compute_in`."""
    kernel = orthogonal(gain, seed)
    layer = tf.keras.layers.Dense(units, activation, kernel_initializer=kernel, dtype=dtype)
    return build_layer(layer, (None, size))


def convolution(channels, filters, kernel_size, gain, seed, **kwargs):
    """Makes a layer that convolves [N, H, W, channels], in the dtype of `compute_in`."""
    kernel = orthogonal(gain, seed)
    layer = tf.keras.layers.Conv2D(filters, kernel_size, kernel_initializer=kernel, **kwargs)
    return build_layer(layer, (None, None, None, channels))


class Mlp(CopyableModule):
    """Hidden layers, which compute in the dtype of `compute_in`.

    Args:
        size: int, the size of the input.
        units: tuple or list of ints, the size of each layer.
        activation, seed, layer_norm, spectral_norm: the arguments of `Torso`.

    Attributes:
        size: int, the size of the output.
    """

    def __init__(self, size, units, activation, seed, layer_norm=False, spectral_norm=False):
        super().__init__(name="mlp")
        check_activation(activation)
        make_layer = SpectralDense if spectral_norm else tf.keras.layers.Dense
        self._layers = []
        for n, layer_seed in zip(units, split_seed(seed, len(units)), strict=True):
            layer = make_layer(
                n,
                # The normalization comes before the activation, and has a bias of its own.
                None if layer_norm else activation,
                use_bias=not layer_norm,
                kernel_initializer=orthogonal(HIDDEN_GAIN, layer_seed),
            )
            self._layers.append(build_layer(layer, (None, size)))
            if layer_norm:
                norm = tf.keras.layers.LayerNormalization(epsilon=1e-5)
                self._layers += [build_layer(norm, (None, n)), tf.keras.layers.Activation(activation)]
            size = n
        self.size = size

    def __call__(self, x, training=False):
        """Computes float32 [N, size] of the input."""
        for layer in self._layers:
            x = layer(x, training=training)
        return tf.cast(x, tf.float32)


class SpectralDense(tf.keras.layers.Dense):
    """A dense layer whose kernel W is divided by its largest singular value (arXiv 1802.05957), in float32.

    The singular value is |W u|, where u estimates the first right singular vector. A call in training makes
    one power iteration, u <- W'W u / |W'W u|, and stores u; other calls use the stored u. So acting and
    training compute the same function of the same variables.
    """

    def __init__(self, *args, **kwargs):
        # The power iteration does not converge with the eight bits of bfloat16.
        super().__init__(*args, dtype="float32", **kwargs)

    def build(self, input_shape):
        super().build(input_shape)
        rows, columns = self.kernel.shape
        self._vector = self.add_weight("singular_vector", (columns,), initializer="zeros", trainable=False)
        # u starts in the span of the kernel's rows, or |W u| could be far below the singular values.
        start = tf.linalg.matvec(self.kernel, tf.ones(rows), transpose_a=True)
        self._vector.assign(tf.math.l2_normalize(start))

    def call(self, inputs, training=False):
        if training:
            left = tf.linalg.matvec(self.kernel, self._vector)
            self._vector.assign(tf.math.l2_normalize(tf.linalg.matvec(self.kernel, left, transpose_a=True)))
        product = tf.linalg.matvec(self.kernel, self._vector)
        # The small number keeps the gradient of the root finite if the product is 0. The gradient takes u as
        # a constant, because the variable is not trainable; so does the paper.
        largest = tf.sqrt(tf.reduce_sum(tf.square(product)) + 1e-12)
        outputs = tf.matmul(inputs, self.kernel / largest)
        return self.activation(tf.nn.bias_add(outputs, self.bias) if self.use_bias else outputs)
