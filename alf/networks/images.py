# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Recognizes images and their channel axis, and prepares images for convolutions.

An image is uint8 of rank 3. Emulators and frame stackers often put the channels first, [C, H, W]; cameras and
most of Gymnasium's environments put them last, [H, W, C].
"""

from typing import Literal

import tensorflow as tf

from alf.core.devices import find_gpus
from alf.core.xla import compiled
from alf.errors import ConfigError


def is_image(spec):
    """Returns whether an unbatched tensor spec describes an image."""
    return isinstance(spec, tf.TensorSpec) and spec.dtype == tf.uint8 and spec.shape.rank == 3


Channels = Literal["auto", "first", "last"]


def channel_axis(spec, setting, channels="auto"):
    """Returns the axis that holds the channels, an int.

    Args:
        spec: unbatched tensor spec of rank 1 or more.
        setting: text, the name of the setting `channels` for the error.
        channels: "first", "last" or "auto". "auto" chooses the shorter one of the first and the last axis of
            an image, and the first axis of any other tensor.

    Raises:
        ConfigError: if `channels` is "auto" and both axes of an image are equally long.
    """
    first, last = spec.shape[0], spec.shape[-1]
    if channels == "auto" and is_image(spec) and first == last:
        raise ConfigError(
            f"{setting} is 'auto': the image {spec.shape} does not show which axis holds its channels; "
            "set it to 'first' or 'last'"
        )
    is_last = channels == "last" or (channels == "auto" and is_image(spec) and last < first)
    return spec.shape.rank - 1 if is_last else 0


# XLA makes one pass of what are ten operations of TensorFlow. For the network of DQN on a CPU these take
# half as long as its convolutions.
@compiled
def prepare_images(images, order, largest=None):
    """Brings the axes of images into an order, and scales their numbers.

    Args:
        images: uint8 [N, ...], of rank 4.
        order: tuple of ints, a permutation of the axes as in `tf.transpose`.
        largest: float. The numbers are divided by it. None scales each image to mean 0 and standard deviation
            1, as `tf.image.per_image_standardization` does.

    Returns:
        float32 of rank 4.
    """
    numbers = tf.cast(tf.transpose(images, order), tf.float32)
    if largest is not None:
        return numbers / largest
    size = images.shape[1:].num_elements()
    # Sums of integers are exact in any order. Four in each step, because a sum waits for the one before.
    flat = tf.pad(tf.reshape(images, (-1, size)), [[0, 0], [0, -size % 4]])
    # No GPU computes with int32 in TensorFlow. float64 is exact here, too.
    dtype = tf.float64 if find_gpus() else tf.int32
    parts = tf.unstack(tf.reshape(tf.cast(flat, dtype), (-1, (size + 3) // 4, 4)), axis=-1)
    total, squares = (
        tf.reduce_sum(tf.cast(sum(x), tf.int64), axis=1) for x in (parts, [x * x for x in parts])
    )
    mean = tf.cast(total, tf.float32) / size
    variance = tf.cast(size * squares - total * total, tf.float32) / size**2
    # An image of one color would have no deviation.
    scale = tf.math.rsqrt(tf.maximum(variance, 1 / size))
    mean, scale = (tf.reshape(x, (-1, 1, 1, 1)) for x in (mean, scale))
    return (numbers - mean) * scale
