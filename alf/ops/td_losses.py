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
        value: float32 [T, B], or [T, B, N] of N quantiles, of the time steps that bootstrap; it may be
            infinite or NaN where the discount is 0.

    Returns:
        float32 like `value`.
    """
    value = tf.convert_to_tensor(value)
    has_quantiles = value.shape.rank == 3
    one = value[..., 0] if has_quantiles else value
    reward, discount, _ = check_time_major(reward=reward, discount=discount, value=one)
    if has_quantiles:
        reward, discount = reward[..., tf.newaxis], discount[..., tf.newaxis]
    return tf.stop_gradient(reward + tf.math.multiply_no_nan(value, discount))


def signed_hyperbolic(x: Array, epsilon: float = 1e-3) -> Array:
    """Computes `h(x) = sign(x) * (sqrt(|x| + 1) - 1) + epsilon * x` (arXiv 1805.11593, section 3.2).

    It brings values of very different sizes close together: a value network may learn h(Q) in place of Q.

    Args:
        x: float32 of any shape.
        epsilon: float above 0.
    """
    size = tf.abs(x)
    # sqrt(|x| + 1) - 1 without the difference of two nearly equal numbers.
    return tf.sign(x) * size / (tf.sqrt(size + 1.0) + 1.0) + epsilon * x


def signed_parabolic(x: Array, epsilon: float = 1e-3) -> Array:
    """Computes the inverse of `signed_hyperbolic` (arXiv 1805.11593, proposition A.2).

    `sign(x) * (((sqrt(1 + 4 * epsilon * (|x| + 1 + epsilon)) - 1) / (2 * epsilon)) ** 2 - 1)`. The arguments
    are those of `signed_hyperbolic`.
    """
    shifted = tf.abs(x) + 1.0 + epsilon
    # The same quotient, without the difference.
    root = 2.0 * shifted / (tf.sqrt(1.0 + 4.0 * epsilon * shifted) + 1.0)
    return tf.sign(x) * (root - 1.0) * (root + 1.0)


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
    return _huber(tf.abs(td_error), huber_delta)


def _huber(size, delta):
    """Computes Huber's loss of absolute errors, of any shape."""
    # One formula for both parts: where `near` is the whole error, it is the square.
    near = tf.minimum(size, delta)
    return near * (size - 0.5 * near)


def quantile_huber_loss(quantiles: Array, targets: Array, huber_delta: float | None = 1.0) -> Array:
    """Computes the quantile regression loss of a distribution of returns (arXiv 1710.10044, eq. 9 and 10).

    With the errors `u_ij = targets_j - quantiles_i` and the midpoints `tau_i = (i + 0.5) / N`:

        sum over i of the mean over j of |tau_i - (1 if u_ij < 0 else 0)| * L(u_ij) / huber_delta

    L is Huber's loss. With `huber_delta` None it is |u_ij|, without the divisor (eq. 8).

    Args:
        quantiles: float32 [T, B, N]; may have a gradient.
        targets: float32 [T, B, M]; no gradient flows into it.
        huber_delta: float above 0, the size of an error from which on the loss is linear; None.
    """
    count = quantiles.shape[-1]
    midpoint = (tf.range(count, dtype=tf.float32)[:, tf.newaxis] + 0.5) / count
    error = tf.stop_gradient(targets)[..., tf.newaxis, :] - quantiles[..., tf.newaxis]  # [T, B, N, M]
    size = tf.abs(error)
    if huber_delta is not None:
        size = _huber(size, huber_delta) / huber_delta
    # The side of an error has no gradient.
    weight = tf.abs(midpoint - tf.cast(error < 0, tf.float32))
    return tf.reduce_sum(tf.reduce_mean(weight * size, axis=-1), axis=-1)


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


def sequence_priority(td_error: Array, weight: Array, eta: float = 0.0) -> Array:
    """Computes the priority of each sequence, `eta * max + (1 - eta) * mean` of its `|td_error|` (R2D2).

    Kapturowski et al., ICLR 2019, "Recurrent experience replay in distributed reinforcement learning",
    section 2.3. Only transitions with weight > 0 count.

    Args:
        td_error: may be infinite or NaN where the weight is 0.
        weight: at least 0, such as `Experience.weight`.
        eta: float in [0, 1]. A mean over a long sequence hides a large error; the paper has 0.9.

    Returns:
        float32 [B], without a gradient; 0 for a sequence without such transitions.
    """
    td_error, weight = check_time_major(td_error=td_error, weight=weight)
    counts = weight > 0
    size = tf.where(counts, tf.abs(td_error), tf.zeros_like(td_error))
    number = tf.reduce_sum(tf.cast(counts, tf.float32), axis=0)
    priority = tf.math.divide_no_nan(tf.reduce_sum(size, axis=0), number)
    if eta:
        priority = eta * tf.reduce_max(size, axis=0) + (1.0 - eta) * priority
    return tf.stop_gradient(priority)
