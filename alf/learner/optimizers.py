# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Optimizers for gin: Keras 2's, whose updates are single fused operations on the CPU.

RMSprop's is one only if its momentum is above 0. Its epsilon is then inside the square root, as in IMPALA's;
without momentum it is outside.
"""

import gin
import tensorflow as tf

Adam = gin.external_configurable(tf.keras.optimizers.legacy.Adam, "Adam", module="alf.optimizers")
RMSprop = gin.external_configurable(tf.keras.optimizers.legacy.RMSprop, "RMSprop", module="alf.optimizers")
SGD = gin.external_configurable(tf.keras.optimizers.legacy.SGD, "SGD", module="alf.optimizers")
