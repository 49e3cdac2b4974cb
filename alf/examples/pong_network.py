# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A small convolutional network for small images, as a Keras model. See appo_pong_small.gin."""

import gin
import tensorflow as tf


@gin.configurable
def small_image_model(observation_spec, filters=(16, 32, 32), units=256):
    """Makes a model from uint8 [N, channels, height, width], such as 42 x 42 pixels, to [N, units]."""
    layers = [
        tf.keras.Input(observation_spec.shape, dtype=tf.uint8),
        tf.keras.layers.Permute((2, 3, 1)),
        # To mean 0 and deviation 1: at this size the ball is one pixel, a little brighter than the ground.
        tf.keras.layers.Lambda(tf.image.per_image_standardization),
    ]
    for kernel_size, size in zip((5, 3, 3), filters):
        layers.append(tf.keras.layers.Conv2D(size, kernel_size, 2, activation="relu"))
    layers += [tf.keras.layers.Flatten(), tf.keras.layers.Dense(units, "relu")]
    return tf.keras.Sequential(layers)
