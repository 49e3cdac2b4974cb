# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Averages over the replicas of a `tf.distribute` strategy, each of which has a part of a batch."""

import tensorflow as tf


def mean_over_replicas(x):
    """Averages a tensor over the replicas. Outside of a strategy, or with one replica, that is `x` itself."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return x
    return context.all_reduce(tf.distribute.ReduceOp.MEAN, x)
