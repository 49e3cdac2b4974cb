# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Targets and losses of action values, and SAC's: pure functions of tensors.

Arguments and results are float32 [T, B], where nothing else is said. Losses are to be minimized, and have no
coefficients; reduce them with `losses.weighted_mean`. n is the number of actions, C the number of critics.
"""

import tensorflow as tf

from alf.core.annotations import Array, Nest
from alf.ops.returns import check_time_major


def value_of_action(q: Array, action: Nest) -> Array:
    """Q of the action that was taken: float32 q [..., T, B, n], int action [T, B] -> float32 [..., T, B]."""
    return tf.reduce_sum(q * tf.one_hot(action, q.shape[-1]), axis=-1)


def greedy_value(target_q: Array, q: Array = None) -> Array:
    """The target network's value of the greedy action.

    `max_a target_q(a)`, or with `q` the double estimate (arXiv 1509.06461): `target_q(argmax_a q(a))`.

    Args:
        target_q: float32 [T, B, n].
        q: float32 [T, B, n] of the network that learns, or None for the target network's own choice.
    """
    if q is None:
        return tf.reduce_max(target_q, axis=-1)
    return value_of_action(target_q, tf.argmax(q, axis=-1))


def soft_value(prob: Array, log_prob: Array, q: Array, alpha: Array) -> Array:
    """Value of a state with the bonus for entropy (arXiv 1812.05905, eq. 3).

    `sum_n prob * (q - alpha * log_prob)`: over all actions (arXiv 1910.07207, eq. 10), or over samples, each
    weighted with `prob`.

    Args:
        prob, log_prob, q: float32 [T, B, n].
        alpha: float32 scalar, the temperature.
    """
    return tf.reduce_sum(prob * (q - alpha * log_prob), axis=-1)


def td_target(reward: Array, discount: Array, value: Array) -> Array:
    """`reward + discount * value`; passes no gradient.

    Args:
        reward, discount: e.g. of `returns.n_step_transitions`.
        value: of the time steps that bootstrap; where the discount is 0 it may be infinite or NaN.
    """
    reward, discount, value = check_time_major(reward=reward, discount=discount, value=value)
    return tf.stop_gradient(reward + tf.math.multiply_no_nan(value, discount))


def td_loss(td_error: Array, huber_delta: float | None = None) -> Array:
    """`0.5 * td_error ** 2`, or Huber's loss, which is linear beyond delta.

    Huber's loss is `delta * (|td_error| - 0.5 * delta)` where `|td_error| > delta`. `huber_delta` is a float
    above 0; None is for the square everywhere.
    """
    (td_error,) = check_time_major(td_error=td_error)
    if huber_delta is None:
        return 0.5 * tf.square(td_error)
    size = tf.abs(td_error)
    near = tf.minimum(size, huber_delta)
    return near * (size - 0.5 * near)


def sac_critic_loss(q: Array, target: Array) -> Array:
    """`0.5 * (q - target) ** 2`, summed over the critics (arXiv 1812.05905, eq. 5).

    Args:
        q: float32 [C, T, B], of the action taken.
        target: no gradient flows into it.
    """
    (target,) = check_time_major(target=target)
    return 0.5 * tf.reduce_sum(tf.square(q - tf.stop_gradient(target)), axis=0)


def sac_actor_loss(prob: Array, log_prob: Array, q: Array, alpha: Array) -> Array:
    """`alpha * log_prob - q`, of the policy's own actions (arXiv 1812.05905, eq. 9; 1910.07207, eq. 12).

    Args:
        prob, log_prob: float32 [T, B, n], as in `soft_value`.
        q: float32 [T, B, n], the smallest of the critics. Its gradient reaches the policy's action alone; it
            has none if n runs over all actions.
        alpha: float32 scalar; no gradient flows into it.
    """
    return -soft_value(prob, log_prob, q, tf.stop_gradient(alpha))


def sac_alpha_loss(log_alpha: Array, entropy: Array, target_entropy: Array) -> Array:
    """`log_alpha * (entropy - target_entropy)`: alpha grows where there is too little entropy.

    This is arXiv 1812.05905, eq. 18, with log alpha instead of alpha: so a small alpha moves as easily as a
    large one.

    Args:
        log_alpha: float32 scalar.
        entropy: of the policy; no gradient flows into it.
        target_entropy: float.
    """
    (entropy,) = check_time_major(entropy=entropy)
    return log_alpha * tf.stop_gradient(entropy - target_entropy)


def mean_priority(td_error: Array, weight: Array) -> Array:
    """Priority of each sequence: the mean of `|td_error|` over its transitions that train.

    Args:
        td_error: may be infinite or NaN where the weight is 0.
        weight: at least 0, such as `Experience.weight`.

    Returns:
        float32 [B], without a gradient; 0 where a sequence trains nothing.
    """
    td_error, weight = check_time_major(td_error=td_error, weight=weight)
    counts = weight > 0
    total = tf.reduce_sum(tf.where(counts, tf.abs(td_error), tf.zeros_like(td_error)), axis=0)
    return tf.stop_gradient(tf.math.divide_no_nan(total, tf.reduce_sum(tf.cast(counts, tf.float32), axis=0)))
