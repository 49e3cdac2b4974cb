# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Targets and losses of action values and of SAC, as pure functions of tensors.

Arguments and results are float32 [T, B] unless a docstring says otherwise. Losses are minimized and have no
coefficients; reduce them with `losses.weighted_mean`. n is the number of actions, C the number of critics.
"""

import tensorflow as tf

from alf.core.annotations import Array, Nest
from alf.ops.returns import check_time_major


def value_of_action(q: Array, action: Nest) -> Array:
    """Selects Q of the action taken, int [T, B], from q, float32 [..., T, B, n]. Returns [..., T, B]."""
    return tf.reduce_sum(q * tf.one_hot(action, q.shape[-1]), axis=-1)


def greedy_value(target_q: Array, q: Array = None) -> Array:
    """Computes the target network's value of the greedy action.

    `max_a target_q(a)`, or with `q` the double estimate (arXiv 1509.06461), `target_q(argmax_a q(a))`.

    Args:
        target_q: float32 [T, B, n].
        q: float32 [T, B, n] of the network that learns and chooses the action; None if the target network
            chooses it.
    """
    if q is None:
        return tf.reduce_max(target_q, axis=-1)
    # argmax has no gradient, so the choice does not train the network that made it.
    return value_of_action(target_q, tf.argmax(q, axis=-1))


def soft_value(prob: Array, log_prob: Array, q: Array, alpha: Array) -> Array:
    """Computes the value of a state with the entropy bonus (arXiv 1812.05905, eq. 3).

    `sum_n prob * (q - alpha * log_prob)`, over all actions (arXiv 1910.07207, eq. 10) or over samples with
    the weights `prob`.

    Args:
        prob, log_prob, q: float32 [T, B, n].
        alpha: float32 scalar, the temperature.
    """
    return tf.reduce_sum(prob * (q - alpha * log_prob), axis=-1)


def td_target(reward: Array, discount: Array, value: Array) -> Array:
    """Computes `reward + discount * value`. No gradient flows through it.

    Args:
        reward, discount: for example from `returns.n_step_transitions`.
        value: of the time steps that bootstrap; it may be infinite or NaN where the discount is 0.
    """
    reward, discount, value = check_time_major(reward=reward, discount=discount, value=value)
    return tf.stop_gradient(reward + tf.math.multiply_no_nan(value, discount))


def td_loss(td_error: Array, huber_delta: float | None = None) -> Array:
    """Computes `0.5 * td_error ** 2`, or Huber's loss.

    Huber's loss is `delta * (|td_error| - 0.5 * delta)` where `|td_error| > delta`.

    Args:
        td_error: may have a gradient.
        huber_delta: float above 0; None computes the square everywhere.
    """
    (td_error,) = check_time_major(td_error=td_error)
    if huber_delta is None:
        return 0.5 * tf.square(td_error)
    size = tf.abs(td_error)
    # One formula for both parts: where `near` is the whole error, it is the square.
    near = tf.minimum(size, huber_delta)
    return near * (size - 0.5 * near)


def sac_critic_loss(q: Array, target: Array) -> Array:
    """Computes `0.5 * (q - target) ** 2`, summed over the critics (arXiv 1812.05905, eq. 5).

    Args:
        q: float32 [C, T, B], Q of the action taken.
        target: no gradient flows into it.
    """
    (target,) = check_time_major(target=target)
    return 0.5 * tf.reduce_sum(tf.square(q - tf.stop_gradient(target)), axis=0)


def sac_actor_loss(prob: Array, log_prob: Array, q: Array, alpha: Array) -> Array:
    """Computes `alpha * log_prob - q` for the policy's actions (arXiv 1812.05905, eq. 9; 1910.07207, eq. 12).

    Args:
        prob, log_prob: float32 [T, B, n] of all actions, or of samples with the weights `prob`.
        q: float32 [T, B, n], the smallest of the critics' values. For samples, its gradient must reach only
            the action, not the critics; for all actions it must have none.
        alpha: float32 scalar; no gradient flows into it.
    """
    return -soft_value(prob, log_prob, q, tf.stop_gradient(alpha))


def sac_alpha_loss(log_alpha: Array, entropy: Array, target_entropy: Array) -> Array:
    """Computes `log_alpha * (entropy - target_entropy)`. Alpha grows if there is too little entropy.

    This is arXiv 1812.05905, eq. 18, with log alpha instead of alpha, so that a small alpha moves as easily
    as a large one.

    Args:
        log_alpha: float32 scalar.
        entropy: of the policy; no gradient flows into it.
        target_entropy: float, or float32 [T, B].
    """
    (entropy,) = check_time_major(entropy=entropy)
    return log_alpha * tf.stop_gradient(entropy - target_entropy)


def mean_priority(td_error: Array, weight: Array) -> Array:
    """Computes the priority of each sequence, the mean of `|td_error|` over its transitions with weight > 0.

    Args:
        td_error: may be infinite or NaN where the weight is 0.
        weight: at least 0, such as `Experience.weight`.

    Returns:
        float32 [B], without a gradient; 0 for a sequence without such transitions.
    """
    td_error, weight = check_time_major(td_error=td_error, weight=weight)
    counts = weight > 0
    total = tf.reduce_sum(tf.where(counts, tf.abs(td_error), tf.zeros_like(td_error)), axis=0)
    return tf.stop_gradient(tf.math.divide_no_nan(total, tf.reduce_sum(tf.cast(counts, tf.float32), axis=0)))
