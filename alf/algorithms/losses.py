# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Per-step losses of actor-critic algorithms: pure functions of tensors.

All are float32 [T, B] in and out, to be minimised, without coefficients. Rows
that are no transitions count too: reduce with ``masked_mean`` and the mask
``returns.transitions(is_first).valid``.
"""

import tensorflow as tf

from alf.algorithms.returns import check_time_major


def policy_gradient_loss(log_prob, advantages):
    """``-advantage * log pi(a)``; its gradient is the policy gradient, negated.

    Args:
        log_prob: float32 [T, B], log-probability of the action taken under the
            policy being learned.
        advantages: float32 [T, B], no gradient flows into them. V-trace's
            ``pg_advantages`` already hold the importance weight.

    Returns:
        float32 [T, B].
    """
    log_prob, advantages = check_time_major(log_prob=log_prob, advantages=advantages)
    return -tf.stop_gradient(advantages) * log_prob


def value_loss(values, targets):
    """``0.5 * (target - value) ** 2``.

    Args:
        values: float32 [T, B], V of the observations that the rows start from.
        targets: float32 [T, B], no gradient flows into them.

    Returns:
        float32 [T, B].
    """
    values, targets = check_time_major(values=values, targets=targets)
    return 0.5 * tf.square(tf.stop_gradient(targets) - values)


def entropy_loss(entropy):
    """``-entropy``: minimising it keeps the policy exploring.

    Args:
        entropy: float32 [T, B], of the policy at each observation.

    Returns:
        float32 [T, B].
    """
    (entropy,) = check_time_major(entropy=entropy)
    return -entropy


def masked_mean(x, mask):
    """Mean of ``x`` where ``mask`` holds; 0 if it holds nowhere.

    Args:
        x: float32 [T, B]; may be infinite or NaN outside the mask.
        mask: bool [T, B].

    Returns:
        float32 scalar.
    """
    (x,) = check_time_major(x=x)
    (mask,) = check_time_major(x.shape, dtype=tf.bool, mask=mask)
    total = tf.reduce_sum(tf.where(mask, x, tf.zeros_like(x)))
    count = tf.reduce_sum(tf.cast(mask, tf.float32))
    return tf.math.divide_no_nan(total, count)
