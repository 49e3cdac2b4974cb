# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""An encoder of the board of Connect Four, as a Keras layer. See selfplay_connect_four.gin."""

import gin
import tensorflow as tf


@gin.configurable
def board_encoder(observation_spec, filters=128):
    """Makes an encoder of observations like `observation_spec`.

    Args:
        observation_spec: dict with "observation", [rows, columns, planes], and "is_turn", [1].
        filters: features of each square.
    """
    return BoardEncoder(filters)


class BoardEncoder(tf.keras.layers.Layer):
    """Looks at each square of 4 x 4 fields in the same way: any line of four lies within one."""

    def __init__(self, filters):
        super().__init__()
        self._convolution = tf.keras.layers.Conv2D(filters, 4, activation="relu")

    def call(self, observation):
        squares = self._convolution(tf.cast(observation["observation"], tf.float32))
        return tf.concat([tf.keras.layers.Flatten()(squares), observation["is_turn"]], axis=-1)
