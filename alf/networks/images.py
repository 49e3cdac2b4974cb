# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Recognizes images and their channel axis.

An image is uint8 of rank 3. Emulators and frame stackers often put the channels first, [C, H, W]; cameras and
most of Gymnasium's environments put them last, [H, W, C].
"""

from typing import Literal

import tensorflow as tf

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
