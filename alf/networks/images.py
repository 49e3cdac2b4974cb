# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Encoders of one image; see `encoders` for what an encoder is."""

import gin
import tensorflow as tf

from alf.errors import ConfigError
from alf.networks.compute_dtype import keras_policy
from alf.networks.layers import HIDDEN_GAIN, orthogonal, split_seed


@gin.configurable(module="alf.networks")
class NatureEncoder(tf.Module):
    """The convolutional layers of Mnih et al. 2015 (Nature 518), and 512 units.

    Args:
        observation_spec: unbatched tensor spec, uint8 [channels, height, width], at least 36 x 36 pixels.
        compute_dtype: "float32", "bfloat16" or "auto", see `compute_dtype`; None for that of the network.
            Variables and features are float32.
        seed: of the initialisers; None draws one.
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
        make = _LayerMaker("NatureEncoder", compute_dtype, split_seed(seed, 4))
        layers = [tf.keras.Input((height, width, channels))]
        for filters, kernel_size, strides in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
            layers.append(make(tf.keras.layers.Conv2D, filters, kernel_size, strides, activation="relu"))
        layers.append(make(tf.keras.layers.Flatten))
        layers.append(make(tf.keras.layers.Dense, self.size, "relu"))
        self._layers = tf.keras.Sequential(layers)

    def __call__(self, observation, training=False):
        return tf.cast(self._layers(_pixels(observation)), tf.float32)


@gin.configurable(module="alf.networks")
class ImpalaResEncoder(tf.Module):
    """The deep residual network of IMPALA (arXiv 1802.01561, figure 3), and 256 units.

    Args:
        observation_spec: unbatched tensor spec, uint8 [channels, height, width].
        compute_dtype, seed: as in `NatureEncoder`.
    """

    size = 256

    def __init__(self, observation_spec, compute_dtype=None, seed=None):
        super().__init__(name="impala_res_encoder")
        _check_image("ImpalaResEncoder", observation_spec)
        make = _LayerMaker("ImpalaResEncoder", compute_dtype, split_seed(seed, 16))
        channels, height, width = observation_spec.shape
        x = image = tf.keras.Input((height, width, channels))
        for filters in (16, 32, 32):
            x = make(tf.keras.layers.Conv2D, filters, 3, padding="same", gain=1.0)(x)  # no ReLU before it
            x = make(tf.keras.layers.MaxPool2D, 3, 2, padding="same")(x)
            for _ in range(2):
                shortcut = x
                # With all gains equal, features would be of order 20: each of 6 blocks doubles their square.
                for gain in (HIDDEN_GAIN, HIDDEN_GAIN / 6**0.5):
                    x = make(tf.keras.layers.ReLU)(x)
                    x = make(tf.keras.layers.Conv2D, filters, 3, padding="same", gain=gain)(x)
                x = make(tf.keras.layers.Add)([x, shortcut])
        x = make(tf.keras.layers.Flatten)(make(tf.keras.layers.ReLU)(x))
        x = make(tf.keras.layers.Dense, self.size, "relu")(x)
        self._layers = tf.keras.Model(image, x)

    def __call__(self, observation, training=False):
        return tf.cast(self._layers(_pixels(observation)), tf.float32)


class _LayerMaker:
    """Makes Keras layers that compute in one dtype; each that has a kernel takes the next seed."""

    def __init__(self, owner, compute_dtype, seeds):
        self._policy = keras_policy(f"{owner}.compute_dtype", compute_dtype)
        self._seeds = iter(seeds)

    def __call__(self, layer_ctor, *args, gain=HIDDEN_GAIN, **kwargs):
        if layer_ctor in (tf.keras.layers.Conv2D, tf.keras.layers.Dense):
            kwargs["kernel_initializer"] = orthogonal(gain, next(self._seeds))
        return layer_ctor(*args, dtype=self._policy, **kwargs)


def _check_image(owner, spec):
    if not isinstance(spec, tf.TensorSpec) or spec.dtype != tf.uint8 or spec.shape.rank != 3:
        raise ConfigError(f"{owner} needs one image, uint8 [channels, height, width], not {spec}")


def _pixels(image):
    """uint8 [N, C, H, W] -> float32 [N, H, W, C] in [0, 1]: CPUs convolve with the channels last."""
    return tf.cast(tf.transpose(image, (0, 2, 3, 1)), tf.float32) / 255.0
