# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Averages and sums over the replicas and the processes of a `tf.distribute` strategy."""

import tensorflow as tf


def mean_over_replicas(x):
    """Averages a tensor over the replicas, each of which has a part of a batch.

    Outside of a replica, or with one replica, that is `x` itself.
    """
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return x
    return context.all_reduce(tf.distribute.ReduceOp.MEAN, x)


def sum_over_peers(x):
    """Sums a tensor over the processes of a `MultiWorkerMirroredStrategy`, in its scope, not in its replicas.

    Outside of such a scope that is `x` itself.
    """
    strategy = tf.distribute.get_strategy()
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return x
    return strategy.reduce(tf.distribute.ReduceOp.SUM, x, axis=None)
