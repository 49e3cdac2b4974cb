# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Layers: `tf.Module`s that compute in the dtype of `compute_in`. Their variables are float32.

They have the meaning of PyTorch's and Keras' layers of the same names. Kernels start orthogonal, biases at
0. All variables are created at once, not at the first call, because copies, optimizers and checkpoints need
them before.
"""

import random

import numpy as np
import tensorflow as tf

from alf.errors import ConfigError
from alf.networks.compute_dtype import current_dtype
from alf.networks.copying import CopyableModule

# A ReLU drops half of the variance of its input; this gain makes up for it (He et al. 2015, arXiv
# 1502.01852).
HIDDEN_GAIN = 2**0.5

# By the names that Keras and PyTorch use.
_ACTIVATIONS = {
    "elu": tf.nn.elu,
    "gelu": tf.nn.gelu,
    "leaky_relu": tf.nn.leaky_relu,  # with a slope of 0.2, as in Keras
    "linear": tf.identity,
    "relu": tf.nn.relu,
    "relu6": tf.nn.relu6,
    "selu": tf.nn.selu,
    "sigmoid": tf.sigmoid,
    "silu": tf.nn.silu,
    "softplus": tf.nn.softplus,
    "softsign": tf.nn.softsign,
    "swish": tf.nn.silu,
    "tanh": tf.tanh,
}


def find_activation(name):
    """Returns the function of an activation. Raises ConfigError if there is none of this name."""
    if name not in _ACTIVATIONS:
        raise ConfigError(f"activation is {name!r}: it must be one of {', '.join(map(repr, _ACTIVATIONS))}")
    return _ACTIVATIONS[name]


def split_seed(seed, num):
    """Makes a list of `num` seeds from one, so that layers of equal shape differ; of None if it is None."""
    if seed is None:
        return [None] * num
    return [int(s) for s in np.random.SeedSequence(seed).generate_state(num)]


def orthogonal(shape, gain, seed):
    """Draws an orthogonal matrix and multiplies it by `gain` (Saxe et al. 2013, arXiv 1312.6120).

    Rows or columns, whichever are fewer, are orthogonal to each other and have the norm `gain`.

    Args:
        shape: tuple of ints. All dimensions but the last one count as one.
        gain: number.
        seed: int, or None: Python's generator, which `random.seed` seeds, draws one.

    Returns:
        float32 array of `shape`.
    """
    rng = np.random.default_rng(random.getrandbits(64) if seed is None else seed)
    rows, columns = int(np.prod(shape[:-1])), shape[-1]
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    # QR leaves the signs open; with these every orthogonal matrix is equally likely (arXiv math-ph/0609050).
    q *= np.sign(np.diag(r))
    return (gain * (q if rows >= columns else q.T)).reshape(shape).astype(np.float32)


class Dense(CopyableModule):
    """A fully connected layer: activation(x W + b), for x of [N, size].

    Args:
        size: int, the size of the input.
        units: int, the size of the output.
        gain: number, of the initial kernel.
        seed: int, the seed of the initial kernel; None draws one.
        activation: text, the name of the activation.
        use_bias: bool.
        dtype: dtype of the product and of the output; None means the dtype of `compute_in`.

    Attributes:
        kernel, bias: float32 variables W, [size, units], and b, [units], or None.
    """

    def __init__(self, size, units, gain, seed, activation="linear", use_bias=True, dtype=None):
        super().__init__(name="dense")
        self._dtype, self._activation = dtype or current_dtype(), find_activation(activation)
        with self.name_scope:
            self.kernel = tf.Variable(orthogonal((size, units), gain, seed), name="kernel")
            self.bias = tf.Variable(tf.zeros(units), name="bias") if use_bias else None

    def __call__(self, x, training=False):
        x = tf.matmul(tf.cast(x, self._dtype), tf.cast(self.kernel, self._dtype))
        return self._activation(_add_bias(x, self.bias))


class SpectralDense(Dense):
    """A dense layer whose kernel W is divided by its largest singular value (arXiv 1802.05957), in float32.

    The singular value is |W u|, where u estimates the first right singular vector. A call in training makes
    one power iteration, u <- W'W u / |W'W u|, and stores u; other calls use the stored u. So acting and
    training compute the same function of the same variables.
    """

    def __init__(self, size, units, gain, seed, activation="linear", use_bias=True):
        # The power iteration does not converge with the eight bits of bfloat16.
        super().__init__(size, units, gain, seed, activation, use_bias, tf.float32)
        # u starts in the span of the kernel's rows, or |W u| could be far below the singular values.
        start = tf.linalg.matvec(self.kernel, tf.ones(size), transpose_a=True)
        with self.name_scope:
            self._vector = tf.Variable(tf.math.l2_normalize(start), trainable=False, name="singular_vector")

    def __call__(self, x, training=False):
        if training:
            left = tf.linalg.matvec(self.kernel, self._vector)
            self._vector.assign(tf.math.l2_normalize(tf.linalg.matvec(self.kernel, left, transpose_a=True)))
        product = tf.linalg.matvec(self.kernel, self._vector)
        # The small number keeps the gradient of the root finite if the product is 0. The gradient takes u as
        # a constant, because the variable is not trainable; so does the paper.
        largest = tf.sqrt(tf.reduce_sum(tf.square(product)) + 1e-12)
        x = tf.matmul(tf.cast(x, tf.float32), self.kernel / largest)
        return self._activation(_add_bias(x, self.bias))


class Conv2D(CopyableModule):
    """A convolution of images [N, H, W, channels]: activation(x * W + b).

    Args:
        channels: int, the channels of the input.
        filters: int, the channels of the output.
        kernel_size, stride: ints, for height and width.
        gain, seed, activation: as in `Dense`.
        padding: "valid" or "same".

    Attributes:
        kernel, bias: float32 variables, [kernel_size, kernel_size, channels, filters] and [filters].
    """

    def __init__(
        self, channels, filters, kernel_size, gain, seed, stride=1, activation="linear", padding="valid"
    ):
        super().__init__(name="conv2d")
        self._dtype, self._activation = current_dtype(), find_activation(activation)
        self._stride, self._padding = stride, padding.upper()
        shape = (kernel_size, kernel_size, channels, filters)
        with self.name_scope:
            self.kernel = tf.Variable(orthogonal(shape, gain, seed), name="kernel")
            self.bias = tf.Variable(tf.zeros(filters), name="bias")

    def __call__(self, x):
        kernel = tf.cast(self.kernel, self._dtype)
        x = tf.nn.conv2d(tf.cast(x, self._dtype), kernel, self._stride, self._padding)
        return self._activation(_add_bias(x, self.bias))


def _add_bias(x, bias):
    return x if bias is None else tf.nn.bias_add(x, tf.cast(bias, x.dtype))


class LayerNorm(CopyableModule):
    """Normalizes each row of x, [N, size], in float32 (arXiv 1607.06450):

        gamma (x - mean(x)) / sqrt(variance(x) + epsilon) + beta

    Args:
        size: int.
        epsilon: number; 1e-5 as in PyTorch.
        activation: text, the name of the activation of the result.

    Attributes:
        gamma, beta: float32 variables [size], which start at 1 and 0.
    """

    def __init__(self, size, epsilon=1e-5, activation="linear"):
        super().__init__(name="layer_norm")
        self._epsilon, self._activation = epsilon, find_activation(activation)
        with self.name_scope:
            self.gamma = tf.Variable(tf.ones(size), name="gamma")
            self.beta = tf.Variable(tf.zeros(size), name="beta")

    def __call__(self, x, training=False):
        dtype, x = x.dtype, tf.cast(x, tf.float32)
        mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
        x = tf.nn.batch_normalization(x, mean, variance, self.beta, self.gamma, self._epsilon)
        return self._activation(tf.cast(x, dtype))


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
        find_activation(activation)  # wrong also where there are no layers
        make_layer = SpectralDense if spectral_norm else Dense
        self._layers = []
        for n, layer_seed in zip(units, split_seed(seed, len(units)), strict=True):
            if layer_norm:  # comes before the activation, and has a bias of its own
                dense = make_layer(size, n, HIDDEN_GAIN, layer_seed, use_bias=False)
                self._layers += [dense, LayerNorm(n, activation=activation)]
            else:
                self._layers.append(make_layer(size, n, HIDDEN_GAIN, layer_seed, activation))
            size = n
        self.size = size

    def __call__(self, x, training=False):
        """Computes float32 [N, size] of the input."""
        for layer in self._layers:
            x = layer(x, training)
        return tf.cast(x, tf.float32)
