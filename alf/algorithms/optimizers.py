# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Optimizers for gin: Keras 2's, whose updates are single fused operations on the CPU."""

import gin
import tensorflow as tf

Adam = gin.external_configurable(tf.keras.optimizers.legacy.Adam, "Adam", module="alf.optimizers")
RMSprop = gin.external_configurable(tf.keras.optimizers.legacy.RMSprop, "RMSprop", module="alf.optimizers")
SGD = gin.external_configurable(tf.keras.optimizers.legacy.SGD, "SGD", module="alf.optimizers")
