# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""LastValues: tensors of the last update, which Python reads when it shows them."""

import tensorflow as tf


class LastValues:
    """Keeps tensors from one update to the next, in main memory.

    It is no `tf.Module`, so that checkpoints and the variables of a learner are without them.
    """

    def __init__(self):
        self._kept = {}

    def keep(self, name, x):
        """Keeps a tensor of any shape in place of the one before of that name; in the graph."""
        if name not in self._kept:
            with tf.init_scope(), tf.device("CPU:0"):
                zero = tf.zeros([], x.dtype)
                self._kept[name] = tf.Variable(zero, trainable=False, shape=tf.TensorShape(None))
        self._kept[name].assign(x)

    def read(self):
        """Returns a dict of arrays by name."""
        return {name: variable.numpy() for name, variable in self._kept.items()}
