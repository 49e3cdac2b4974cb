# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Returns, advantages and V-trace, as pure functions of time-major tensors.

All functions share these conventions. An unroll has T + 1 time steps, hence T rows of transitions; row t goes
from time step t to time step t + 1:

* `values`, float32 [T + 1, B]: V of all observations. `v_tm1` is `values[:-1]`, `v_t` is `values[1:]`.
* `r_t`, float32 [T, B]: the reward that arrived with time step t + 1.
* `discount_t`, float32 [T, B]: gamma times the environment's discount of time step t + 1. It is 0 only on
  termination. A truncated episode keeps gamma, and V of its final observation, which is in `v_t`, bootstraps.
* `is_first`, bool [T + 1, B]: the time step begins an episode. A row that leads to such a time step is not a
  transition: the episode before it ended (LAST) or was interrupted. All outputs of this row are 0, even if
  its inputs are NaN, and nothing propagates across it. Mask losses with `transitions(is_first).valid`.
* `lambda_`: float in [0, 1].

Outputs are float32 [T, B] unless a docstring says otherwise, and no gradient flows through them. Arguments of
other dtypes or shapes raise `ValueError`.
"""

import numbers
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from alf.core.annotations import Array
from alf.ops.gather import gather
from alf.ops.scan import scan


class Transitions(NamedTuple):
    """The rows of an unroll that are transitions, and the rows from which a recursion continues.

    Attributes:
        valid: bool [T, B], True if row t is a transition, because time step t + 1 is not FIRST.
        trace: bool [T, B], True if row t may use the result of row t + 1, because that is in the unroll and
            belongs to the same episode.
    """

    valid: tf.Tensor
    trace: tf.Tensor


class NStepTransitions(NamedTuple):
    """Transitions over several steps.

    Attributes:
        reward: float32 [T, B], the discounted sum of the rewards.
        discount: float32 [T, B], the discount of the value that bootstraps.
        end: int32 [T, B], the time step of the unroll whose value bootstraps.
    """

    reward: tf.Tensor
    discount: tf.Tensor
    end: tf.Tensor


class GAEReturns(NamedTuple):
    """Results of `generalized_advantage`, float32 [T, B]."""

    advantages: tf.Tensor
    value_targets: tf.Tensor


class VTraceReturns(NamedTuple):
    """Results of `vtrace`, float32 [T, B]."""

    value_targets: tf.Tensor
    advantages: tf.Tensor
    pg_advantages: tf.Tensor


def check_time_major(
    shape: Sequence[int | None] = (None, None), dtype: tf.DType = tf.float32, **tensors: Array
) -> list[Array]:
    """Checks that tensors are [rows, B], of one shape and dtype. Returns them as a list.

    The number of rows must be known while tracing, because the recursions are unrolled; B may be unknown.

    Args:
        shape: pair of int or None, the known part of the shape.
        dtype: the expected dtype.
        **tensors: the tensors by the names of the arguments.

    Raises:
        ValueError: names the first argument that does not fit.
    """
    known = tf.TensorShape(shape)
    result = []
    for name, tensor in tensors.items():
        tensor = tf.convert_to_tensor(tensor)
        if tensor.dtype != dtype:
            raise ValueError(f"{name} must be {dtype.name}, not {tensor.dtype.name}")
        if tensor.shape.rank != 2 or not tensor.shape[0]:
            raise ValueError(
                f"{name} must be of rank 2 (time, batch) with a static number of time steps, not of shape "
                f"{tensor.shape}"
            )
        if not tensor.shape.is_compatible_with(known):
            raise ValueError(f"{name} must be of shape {known}, not {tensor.shape}")
        known = known.merge_with(tensor.shape)
        result.append(tensor)
    return result


def transitions(is_first: Array) -> Transitions:
    """Finds the `Transitions` of an unroll."""
    (is_first,) = check_time_major(dtype=tf.bool, is_first=is_first)
    valid = tf.logical_not(is_first[1:])
    # The last row has no next row in the unroll, so its recursion always starts from the value.
    next_row_valid = tf.concat([valid[1:], tf.zeros_like(valid[:1])], axis=0)
    return Transitions(valid, tf.logical_and(valid, next_row_valid))


def n_step_transitions(r_t: Array, discount_t: Array, is_first: Array, n: int) -> NStepTransitions:
    """Summarizes the next n steps of each row as one transition.

    A transition has m <= n steps: fewer if the episode ends (by termination or truncation) or the unroll
    ends. The value of the time step after them bootstraps:

    `reward_t = r_t + discount_t * r_{t+1} + ... + discount_t * ... * discount_{t+m-2} * r_{t+m-1}`
    `discount_t = discount_t * ... * discount_{t+m-1}` and `end_t = t + m`.

    The n-step return is `reward + discount * take_time_steps(values, end)` (Sutton & Barto, Reinforcement
    Learning, 2nd ed., section 7.1).

    Args:
        r_t, discount_t: float32 [T, B].
        is_first: bool [T + 1, B].
        n: int, at least 1.

    Returns:
        `NStepTransitions`. Rows that are not transitions have reward and discount 0.
    """
    if not isinstance(n, numbers.Integral) or isinstance(n, bool) or n < 1:
        raise ValueError(f"n must be an integer of at least 1, not {n!r}")
    r_t, discount_t = check_time_major(r_t=r_t, discount_t=discount_t)
    num_rows = r_t.shape[0]
    (is_first,) = check_time_major((num_rows + 1, r_t.shape[1]), dtype=tf.bool, is_first=is_first)
    valid = transitions(is_first).valid
    reward, discount = _zero_unless(valid, r_t), _zero_unless(valid, discount_t)
    end = tf.range(1, num_rows + 1)[:, tf.newaxis] + tf.zeros_like(tf.cast(valid, tf.int32))
    # Step k of the loop adds the (k + 1)-th reward to all rows at the same time. A row that has met the end
    # of its episode keeps its reward, discount and end from then on.
    continues = valid
    for k in range(1, min(n, num_rows)):
        # For rows 0 .. T - 1 - k: whether the k rows after the row belong to the same episode.
        continues = tf.logical_and(continues[:-1], valid[k:])
        last_rows = [[0, k], [0, 0]]
        # `discount` still is the product of k discounts here; the line after extends it.
        reward += tf.pad(_zero_unless(continues, discount[:-k] * r_t[k:]), last_rows)
        discount *= tf.pad(tf.where(continues, discount_t[k:], 1.0), last_rows, constant_values=1.0)
        end += tf.pad(tf.cast(continues, tf.int32), last_rows)
    return NStepTransitions(tf.stop_gradient(reward), tf.stop_gradient(discount), end)


def take_time_steps(x: Array, index: Array) -> Array:
    """Takes `x[index[t, b], b]` from x, [T + 1, B, ...] of any dtype, at int32 index [R, B]: [R, B, ...]."""
    # One gather of flat rows: `tf.gather` has only leading batch dimensions, so x would be transposed first.
    batch_size = tf.shape(index)[1]
    rows = tf.reshape(x, (-1, *x.shape[2:]))
    return gather(rows, index * batch_size + tf.range(batch_size))


def discounted_return(values: Array, r_t: Array, discount_t: Array, is_first: Array) -> Array:
    """Computes the discounted return, which bootstraps at truncations and at the end of the unroll.

    `G_t = r_t + discount_t * (G_{t+1} if trace_t else v_t)`
    """
    return lambda_return(values, r_t, discount_t, is_first, lambda_=1.0)


def lambda_return(
    values: Array, r_t: Array, discount_t: Array, is_first: Array, lambda_: float = 1.0
) -> Array:
    """Computes the TD(lambda) return (Sutton & Barto, Reinforcement Learning, 2nd ed., section 12.1).

    `G_t = r_t + discount_t * ((1 - lambda) * v_t + lambda * G_{t+1})`, with v_t instead of the mixture where
    `trace_t` is false.
    """
    _, v_t, r_t, discount_t, (valid, trace) = _check_unroll(values, r_t, discount_t, is_first)
    # Where nothing continues the recursion, the value replaces all of the rest, not only its part 1 - lambda.
    bootstrap = tf.where(trace, (1.0 - lambda_) * v_t, v_t)
    returns = _scan_backward(
        delta=_zero_unless(valid, r_t + discount_t * bootstrap),
        decay=_zero_unless(trace, discount_t * lambda_),
    )
    return tf.stop_gradient(returns)


def generalized_advantage(
    values: Array, r_t: Array, discount_t: Array, is_first: Array, lambda_: float = 1.0
) -> GAEReturns:
    """Computes generalized advantage estimates (arXiv 1506.02438, eq. 16).

    `A_t = delta_t + discount_t * lambda * A_{t+1}` within the episode, with
    `delta_t = r_t + discount_t * v_t - v_tm1`. The value targets `A + v_tm1` are the lambda returns.
    """
    v_tm1, v_t, r_t, discount_t, (valid, trace) = _check_unroll(values, r_t, discount_t, is_first)
    advantages = _scan_backward(
        delta=_zero_unless(valid, r_t + discount_t * v_t - v_tm1),
        decay=_zero_unless(trace, discount_t * lambda_),
    )
    return GAEReturns(
        advantages=tf.stop_gradient(advantages),
        value_targets=tf.stop_gradient(_zero_unless(valid, advantages + v_tm1)),
    )


def vtrace(
    log_rho_tm1: Array,
    values: Array,
    r_t: Array,
    discount_t: Array,
    is_first: Array,
    lambda_: float = 1.0,
    clip_rho_threshold: float = 1.0,
    clip_pg_rho_threshold: float = 1.0,
    clip_c_threshold: float = 1.0,
) -> VTraceReturns:
    """Computes V-trace targets and advantages (IMPALA, arXiv 1802.01561).

    With `rho = exp(log_rho_tm1)`, equation (1) and remark 2 of the paper:

    `vs_t = v_tm1 + delta_t + discount_t * c_t * (vs_{t+1} - v_t)`
    `delta_t = min(clip_rho, rho) * (r_t + discount_t * v_t - v_tm1)`
    `c_t = lambda * min(clip_c, rho)`

    and section 4.2: `pg_t = min(clip_pg_rho, rho) * (q_t - v_tm1)` where
    `q_t = r_t + discount_t * (lambda * vs_{t+1} + (1 - lambda) * v_t)`, the mixture of rlax. `vs_{t+1}` is
    taken from the next row of the same episode. If there is none, at the end of the unroll or of the episode,
    v_t takes its place; at the end of an episode, v_t is the value of the final observation.

    Args:
        log_rho_tm1: float32 [T, B], log-probability of the action taken, under the target policy *minus*
            under the behavior policy; for a composite action, the sum over its parts.
        values: float32 [T + 1, B] of the target policy.
        r_t, discount_t: float32 [T, B].
        is_first: bool [T + 1, B].
        lambda_: float in [0, 1].
        clip_rho_threshold: float, rho-bar of the value targets. It determines whose values are the fixed
            point: the target policy's if it is large, the behavior policy's if it is near 0.
        clip_pg_rho_threshold: float, rho-bar of the policy gradient.
        clip_c_threshold: float, c-bar, which only affects the speed of contraction. The paper assumes that it
            is at most clip_rho_threshold.

    Returns:
        `VTraceReturns`: vs, q - v, and the advantages of the policy gradient with their importance weight.
    """
    v_tm1, v_t, r_t, discount_t, (valid, trace) = _check_unroll(values, r_t, discount_t, is_first)
    (log_rho_tm1,) = check_time_major(r_t.shape, log_rho_tm1=log_rho_tm1)
    # This may be infinite, also in rows that are no transitions: thresholds limit it, `_zero_unless` drops
    # it.
    rho = tf.exp(log_rho_tm1)
    td_error = r_t + discount_t * v_t - v_tm1
    # The recursion is written for vs_t - v_tm1, which is 0 in rows that are not transitions.
    errors = _scan_backward(
        delta=_zero_unless(valid, tf.minimum(clip_rho_threshold, rho) * td_error),
        decay=_zero_unless(trace, discount_t * lambda_ * tf.minimum(clip_c_threshold, rho)),
    )
    # vs_{t+1} - v_t, the error of the next row; 0 if row t + 1 is not a transition or not in the unroll.
    next_errors = tf.concat([errors[1:], tf.zeros_like(errors[:1])], axis=0)
    pg_rho = tf.minimum(clip_pg_rho_threshold, rho)
    advantages = td_error + discount_t * lambda_ * next_errors
    return VTraceReturns(
        value_targets=tf.stop_gradient(_zero_unless(valid, v_tm1 + errors)),
        advantages=tf.stop_gradient(_zero_unless(valid, advantages)),
        pg_advantages=tf.stop_gradient(_zero_unless(valid, pg_rho * advantages)),
    )


def _check_unroll(values, r_t, discount_t, is_first):
    """Checks the shapes. Returns v_tm1, v_t, r_t, discount_t, Transitions."""
    r_t, discount_t = check_time_major(r_t=r_t, discount_t=discount_t)
    time_steps = (r_t.shape[0] + 1, r_t.shape[1])
    (values,) = check_time_major(time_steps, values=values)
    (is_first,) = check_time_major(time_steps, dtype=tf.bool, is_first=is_first)
    return values[:-1], values[1:], r_t, discount_t, transitions(is_first)


def _zero_unless(mask, x):
    """Returns `x` where `mask` holds and 0 elsewhere, even where x is infinite or NaN."""
    return tf.where(mask, x, tf.zeros_like(x))


def _scan_backward(delta, decay):
    """Solves `x_t = delta_t + decay_t * x_{t+1}`, starting from zeros.

    Rows are written out in the graph, in chunks (see `scan`): two small operations for each cost less than
    the bookkeeping of a loop. Doubling the distance in each of log2 T steps is as fast, but products of many
    decays may become infinite.
    """

    def solve(x, delta, decay):
        xs = []
        for delta_t, decay_t in zip(tf.unstack(delta)[::-1], tf.unstack(decay)[::-1], strict=True):
            x = delta_t + decay_t * x
            xs.append(x)
        return x, [xs[::-1]]

    # Nothing follows the last row: its bootstrap value is in its delta.
    _, (xs,) = scan(solve, tf.zeros_like(delta[0]), (delta, decay), 1, reverse=True)
    return xs.stack()
