# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Reductions over the replicas and the processes of a `tf.distribute` strategy."""

import tensorflow as tf


def mean_over_replicas(x):
    """Averages a tensor over all replicas, each of which has a part of a batch.

    Outside of a replica, or with one replica, the result is `x`. All replicas must call it, in the same
    order, because each waits for the others.
    """
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return x
    # The average, like the average of losses and gradients in `alf.learner.replicas`: a loss that is divided
    # by this number becomes the mean over all rows.
    return context.all_reduce(tf.distribute.ReduceOp.MEAN, x)


def sum_over_peers(x):
    """Sums a tensor over the processes of a `MultiWorkerMirroredStrategy`.

    Call it in the scope of the strategy, but not in a replica. Outside of such a scope the result is `x`. All
    processes must call it, in the same order: each waits for the others.
    """
    strategy = tf.distribute.get_strategy()
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return x
    return strategy.reduce(tf.distribute.ReduceOp.SUM, x, axis=None)
