# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Encoders of one image; see `encoders` for what an encoder is."""

import gin
import tensorflow as tf

from alf.errors import ConfigError
from alf.networks.compute_dtype import keras_policy
from alf.networks.copying import CopyableModule
from alf.networks.layers import HIDDEN_GAIN, build_layer, orthogonal, split_seed


@gin.configurable(module="alf.networks")
class NatureEncoder(CopyableModule):
    """The convolutional layers of Mnih et al. 2015 (Nature 518), and 512 units.

    Args:
        observation_spec: unbatched tensor spec, uint8 [channels, height, width], at least 36 x 36 pixels.
        compute_dtype: "float32", "bfloat16" or "auto", see `compute_dtype`; None for that of the network.
            Variables and features are float32.
        seed: of the initializers; None draws one.

    Raises:
        ConfigError: if the observation is no image, or too small.
    """

    size = 512

    def __init__(self, observation_spec, compute_dtype=None, seed=None):
        super().__init__(name="nature_encoder")
        _check_image("NatureEncoder", observation_spec)
        channels, height, width = observation_spec.shape
        if min(height, width) < 36:
            raise ConfigError(
                "NatureEncoder needs [channels, height, width] of at least 36 x 36 pixels, not "
                f"{observation_spec.shape}: ImpalaResEncoder takes smaller images"
            )
        policy = keras_policy("NatureEncoder.compute_dtype", compute_dtype)
        *seeds, dense_seed = split_seed(seed, 4)
        self._convolutions = []
        for (filters, kernel_size, strides), layer_seed in zip(
            ((32, 8, 4), (64, 4, 2), (64, 3, 1)), seeds, strict=True
        ):
            convolution = tf.keras.layers.Conv2D(
                filters,
                kernel_size,
                strides,
                activation="relu",
                kernel_initializer=orthogonal(HIDDEN_GAIN, layer_seed),
                dtype=policy,
            )
            self._convolutions.append(build_layer(convolution, (None, height, width, channels)))
            _, height, width, channels = convolution.compute_output_shape((None, height, width, channels))
        self._dense = _last_layer(height * width * channels, self.size, policy, dense_seed)

    def __call__(self, observation, training=False):
        """uint8 [N, channels, height, width] -> float32 [N, size]."""
        x = _pixels(observation)
        for convolution in self._convolutions:
            x = convolution(x)
        return _flatten_into(self._dense, x)


@gin.configurable(module="alf.networks")
class ImpalaResEncoder(CopyableModule):
    """The deep residual network of IMPALA (arXiv 1802.01561, figure 3), and 256 units.

    Args:
        observation_spec: unbatched tensor spec, uint8 [channels, height, width].
        compute_dtype, seed: as in `NatureEncoder`.

    Raises:
        ConfigError: if the observation is no image.
    """

    size = 256

    def __init__(self, observation_spec, compute_dtype=None, seed=None):
        super().__init__(name="impala_res_encoder")
        _check_image("ImpalaResEncoder", observation_spec)
        policy = keras_policy("ImpalaResEncoder.compute_dtype", compute_dtype)
        *seeds, dense_seed = split_seed(seed, 16)
        seeds = iter(seeds)

        def convolution(channels, filters, gain):
            kernel = orthogonal(gain, next(seeds))
            layer = tf.keras.layers.Conv2D(
                filters, 3, padding="same", kernel_initializer=kernel, dtype=policy
            )
            return build_layer(layer, (None, None, None, channels))

        channels, height, width = observation_spec.shape
        self._sections = []
        for filters in (16, 32, 32):
            first = convolution(channels, filters, gain=1.0)  # no ReLU before it
            # With all gains equal, features would be of order 20: each of 6 blocks doubles their square.
            blocks = [
                [convolution(filters, filters, gain) for gain in (HIDDEN_GAIN, HIDDEN_GAIN / 6**0.5)]
                for _ in range(2)
            ]
            self._sections.append([first, blocks])
            channels, height, width = filters, (height + 1) // 2, (width + 1) // 2
        self._dense = _last_layer(height * width * channels, self.size, policy, dense_seed)

    def __call__(self, observation, training=False):
        """uint8 [N, channels, height, width] -> float32 [N, size]."""
        x = _pixels(observation)
        for first, blocks in self._sections:
            x = tf.nn.max_pool2d(first(x), 3, 2, "SAME")
            for convolution_1, convolution_2 in blocks:
                x += convolution_2(tf.nn.relu(convolution_1(tf.nn.relu(x))))
        return _flatten_into(self._dense, tf.nn.relu(x))


def _check_image(owner, spec):
    if not isinstance(spec, tf.TensorSpec) or spec.dtype != tf.uint8 or spec.shape.rank != 3:
        raise ConfigError(f"{owner} needs one image, uint8 [channels, height, width], not {spec}")


def _pixels(image):
    """uint8 [N, C, H, W] -> float32 [N, H, W, C] in [0, 1]: CPUs convolve with the channels last."""
    return tf.cast(tf.transpose(image, (0, 2, 3, 1)), tf.float32) / 255.0


def _last_layer(size, units, policy, seed):
    kernel = orthogonal(HIDDEN_GAIN, seed)
    layer = tf.keras.layers.Dense(units, "relu", kernel_initializer=kernel, dtype=policy)
    return build_layer(layer, (None, size))


def _flatten_into(dense, x):
    """Applies a dense layer to [N, H, W, C] -> float32 [N, units]."""
    x = tf.reshape(x, (-1, dense.kernel.shape[0]))
    return tf.cast(dense(x), tf.float32)
