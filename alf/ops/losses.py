# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Per-step losses of actor-critic algorithms, as pure functions of tensors.

Arguments and results are float32 [T, B] unless a docstring says otherwise; a `clip_range` is a float or a
float32 scalar tensor. Losses are minimized and have no coefficients. Rows that are not transitions have a
loss, too, so reduce losses with `weighted_mean` and the `weight` of the `Experience`.
"""

import tensorflow as tf

from alf.core.annotations import Array
from alf.ops.reductions import mean_over_replicas
from alf.ops.returns import check_time_major

# The logit of a forbidden action. Its probability is 0 in float32, but its log-probability stays finite, and
# so do the gradients of entropy and KL divergence.
FORBIDDEN_LOGIT = -1e9


def policy_gradient_loss(log_prob: Array, advantages: Array) -> Array:
    """Computes `-advantage * log pi(a)`, whose gradient is the negative policy gradient.

    Args:
        log_prob: log-probability of the action taken, under the policy being learned.
        advantages: no gradient flows into them. V-trace's `pg_advantages` contain the importance weight.
    """
    log_prob, advantages = check_time_major(log_prob=log_prob, advantages=advantages)
    # Stopped here, whatever the caller hands over: through the V(x) in A, the policy loss would train the
    # value.
    return -tf.stop_gradient(advantages) * log_prob


def ppo_policy_loss(log_ratio: Array, advantages: Array, clip_range: Array) -> Array:
    """Computes PPO's clipped surrogate, negated (arXiv 1707.06347, eq. 7).

    `-min(ratio * A, clip(ratio, 1 / (1 + clip_range), 1 + clip_range) * A)`

    The lower limit is Sample Factory's, not 1 - clip_range: the limits are symmetric in log space, and
    positive for every clip_range.

    Args:
        log_ratio: log-probability of the action taken, under the policy being learned *minus* under the
            policy that acted; for a composite action, the sum over its parts.
        advantages: A; no gradient flows into them.
        clip_range: at least 0.
    """
    log_ratio, advantages = check_time_major(log_ratio=log_ratio, advantages=advantages)
    limit = tf.math.log1p(tf.convert_to_tensor(clip_range, tf.float32))
    # Clipped before exp, because the gradient of a ratio that overflows is NaN even if it is clipped.
    clipped = tf.where(advantages < 0, tf.maximum(log_ratio, -limit), tf.minimum(log_ratio, limit))
    return -tf.stop_gradient(advantages) * tf.exp(clipped)


def ppo_clipped(log_ratio: Array, clip_range: Array) -> Array:
    """Returns bool [T, B], True where the ratio is outside the limits of `ppo_policy_loss`, for display."""
    (log_ratio,) = check_time_major(log_ratio=log_ratio)
    return tf.abs(log_ratio) > tf.math.log1p(tf.convert_to_tensor(clip_range, tf.float32))


def value_loss(values: Array, targets: Array) -> Array:
    """Computes `0.5 * (target - value) ** 2`.

    Args:
        values: V of the observations at which the rows start.
        targets: no gradient flows into them.
    """
    values, targets = check_time_major(values=values, targets=targets)
    return 0.5 * tf.square(tf.stop_gradient(targets) - values)


def clipped_value_loss(values: Array, old_values: Array, targets: Array, clip_range: Array) -> Array:
    """Computes the value loss of PPO's reference code, which limits how far a value moves in an update.

    `0.5 * max((value - target) ** 2, (clipped - target) ** 2)` with
    `clipped = old_value + clip(value - old_value, -clip_range, clip_range)`

    Args:
        values: V of the observations at which the rows start.
        old_values: V of the same observations before the update, or of the policy that acted; no gradient
            flows into them.
        targets: no gradient flows into them.
        clip_range: above 0, in units of the values, so it depends on the scale of the rewards.
    """
    values, old_values, targets = check_time_major(values=values, old_values=old_values, targets=targets)
    targets = tf.stop_gradient(targets)
    clipped = tf.clip_by_value(values, old_values - clip_range, old_values + clip_range)
    # Where nothing is clipped, both errors are equal, and the gradient of `maximum` goes to the first.
    clipped_error = tf.stop_gradient(tf.square(clipped - targets))
    return 0.5 * tf.maximum(tf.square(values - targets), clipped_error)


def entropy_loss(entropy: Array) -> Array:
    """Computes `-entropy` of the policy at each observation. Minimizing it keeps the policy exploring."""
    (entropy,) = check_time_major(entropy=entropy)
    return -entropy


def symmetric_kl_to_uniform(logits: Array) -> Array:
    """Computes the divergence of a categorical policy from the uniform one.

    `0.5 * (KL(pi || u) + KL(u || pi))`, where u is uniform over the allowed actions, is the sum over the
    allowed actions of `0.5 * (pi - u) * log pi`. It is Sample Factory's exploration loss.

    Unlike the gradient of the entropy, its gradient does not vanish if one action has all the probability. No
    component of the gradient exceeds `0.5 * (1 + log n)`, so there is no need to clamp the loss at 30 like
    Sample Factory, which would stop the gradient when it is needed most.

    Args:
        logits: float32 [..., n], any leading dimensions. Actions with logits below -1e8 are forbidden.

    Returns:
        float32 [...]; 0 where all actions are forbidden.
    """
    logits = tf.convert_to_tensor(logits)
    if logits.dtype != tf.float32 or not logits.shape.rank:
        raise ValueError(
            f"logits must be float32 of rank 1 or more, not {logits.dtype.name} of shape {logits.shape}"
        )
    # A limit far below all logits of networks.
    forbidden = logits < 0.1 * FORBIDDEN_LOGIT
    count = tf.reduce_sum(tf.cast(~forbidden, tf.float32), axis=-1, keepdims=True)
    # Forbidden logits must be finite here, even if they were -inf: 0 * inf would make the gradient NaN.
    log_pi = tf.nn.log_softmax(tf.where(forbidden, tf.float32.min, logits))
    terms = (tf.exp(log_pi) - 1.0 / count) * log_pi
    return 0.5 * tf.reduce_sum(tf.where(forbidden, 0.0, terms), axis=-1)


def count_allowed(logits: Array) -> Array:
    """Counts the allowed actions of logits, float32 [..., n]. Returns int32 [...]."""
    return tf.reduce_sum(tf.cast(logits > 0.1 * FORBIDDEN_LOGIT, tf.int32), axis=-1)


def normalize_advantages(advantages: Array, mask: Array) -> Array:
    """Normalizes advantages to mean 0 and standard deviation 1 over the rows in `mask`; others become 0.

    `(A - mean) / (std + 1e-8)` with the standard deviation of the population: equal numbers, or a single
    number, become 0. In a replica of a `tf.distribute` strategy, the moments are taken over all replicas.

    Args:
        advantages: may be infinite or NaN outside the mask.
        mask: bool [T, B].
    """
    (advantages,) = check_time_major(advantages=advantages)
    (mask,) = check_time_major(advantages.shape, dtype=tf.bool, mask=mask)
    count = mean_over_replicas(tf.reduce_sum(tf.cast(mask, tf.float64)))
    # In float64, the mean of equal float32 numbers is exactly that number. In float32, a rounding error would
    # be scaled up to 1.
    x = tf.where(mask, tf.cast(advantages, tf.float64), 0.0)
    mean = tf.math.divide_no_nan(mean_over_replicas(tf.reduce_sum(x)), count)
    x = tf.where(mask, x - mean, 0.0)
    variance = tf.math.divide_no_nan(mean_over_replicas(tf.reduce_sum(tf.square(x))), count)
    return tf.cast(x / (tf.sqrt(variance) + 1e-8), tf.float32)


def weighted_mean(x: Array, weight: Array) -> Array:
    """Computes the mean of `weight * x` over the rows with weight > 0, float32 scalar; 0 if there are none.

    `sum(weight * x) / count(weight > 0)`

    In a replica of a `tf.distribute` strategy, the count is the average count of the replicas. So the average
    of the results is the mean over the rows of all replicas, even if some replicas have fewer rows.

    Args:
        x: may be infinite or NaN where the weight is 0.
        weight: at least 0, such as `Experience.weight`.
    """
    (x,) = check_time_major(x=x)
    (weight,) = check_time_major(x.shape, weight=weight)
    counts = weight > 0
    total = tf.reduce_sum(tf.where(counts, weight * x, tf.zeros_like(x)))
    count = mean_over_replicas(tf.reduce_sum(tf.cast(counts, tf.float32)))
    return tf.math.divide_no_nan(total, count)


def explained_variance(values: Array, targets: Array, weight: Array) -> Array:
    """Computes how much of the variance of the targets the values explain, float32 scalar, for display.

    `1 - var(target - value) / var(target)`, over the rows with weight > 0. It is 1 if the values are right up
    to a constant, 0 if they are as good as a constant, and negative if they are worse. It is also 0 if all
    targets are equal. In a replica of a `tf.distribute` strategy, the variances are taken over all replicas.

    Args:
        values, targets: may be infinite or NaN where the weight is 0.
        weight: at least 0, such as `Experience.weight`.
    """
    (targets,) = check_time_major(targets=targets)
    values, weight = check_time_major(targets.shape, values=values, weight=weight)
    counts = weight > 0
    # float64, because both variances are small differences of large sums.
    target, error = (tf.where(counts, tf.cast(x, tf.float64), 0.0) for x in (targets, targets - values))
    # All moments in one tensor, so that replicas communicate once.
    sums = [tf.cast(counts, tf.float64), target, target**2, error, error**2]
    moments = mean_over_replicas(tf.stack([tf.reduce_sum(x) for x in sums]))
    count, target, target_2, error, error_2 = tf.unstack(moments)
    variance = target_2 - tf.math.divide_no_nan(target**2, count)
    error_variance = error_2 - tf.math.divide_no_nan(error**2, count)
    # If all targets are equal, `variance` is a rounding error.
    explained = 1.0 - tf.math.divide_no_nan(error_variance, variance)
    return tf.cast(tf.where(variance > 1e-12 * target_2, explained, 0.0), tf.float32)
