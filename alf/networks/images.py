# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What an image is, and which of its axes holds the channels.

An image is uint8 of rank 3. Emulators and frame stackers often put the channels first, [C, H, W]; cameras and
most of Gymnasium's environments put them last, [H, W, C].
"""

from typing import Literal

import tensorflow as tf

from alf.errors import ConfigError


def is_image(spec):
    """Whether a tensor spec, unbatched, is that of an image."""
    return isinstance(spec, tf.TensorSpec) and spec.dtype == tf.uint8 and spec.shape.rank == 3


Channels = Literal["auto", "first", "last"]


def channel_axis(spec, setting, channels="auto"):
    """Returns the axis of an unbatched tensor spec, of rank 1 or more, that holds the channels.

    Args:
        spec: the tensor spec.
        setting: name of the setting `channels`, for the error.
        channels: "first", "last", or "auto": of an image the shorter one of the first and the last axis, of
            anything else the first one.

    Raises:
        ConfigError: if `channels` is "auto" and the two axes are equally long.
    """
    first, last = spec.shape[0], spec.shape[-1]
    if channels == "auto" and is_image(spec) and first == last:
        raise ConfigError(
            f"{setting} is 'auto': the image {spec.shape} does not show which axis holds its channels; "
            "set it to 'first' or 'last'"
        )
    is_last = channels == "last" or (channels == "auto" and is_image(spec) and last < first)
    return spec.shape.rank - 1 if is_last else 0
