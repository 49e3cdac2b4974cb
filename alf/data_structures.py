# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The records that cross a queue or a function boundary. All are nests that `tf.nest` understands.

Time convention. An `EnvStep` at t holds the observation at t, and the reward and the discount that arrived
with it; a `TimeStep` holds the action that led to it, too. A LAST step holds the final observation of its
episode; the next step is the FIRST of a new episode and ignores the action. A FIRST step may also follow a
MID step, where an episode was broken off because its worker process was restarted. It may follow a FIRST
step, which it repeats, where a sub-environment waits for the next unroll (`sticky` of a driver). The step to
a FIRST time step is no transition: the learner gives it weight 0. `discount` is 0 only on termination: a time
limit keeps it.
Gymnasium's NEXT_STEP autoreset, dm_env and TF-Agents use the same conventions.
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from alf.core.annotations import Array

FIRST, MID, LAST = 0, 1, 2

# Where several policies act, the observation is a dict: what the environment gives, and whose row it is.
OBSERVATION, OWNER = "observation", "owner"


class EnvStep(NamedTuple):
    """What a batched environment returns: one step of B sub-environments, NumPy arrays."""

    step_type: Any  # int32 [B]; 0 FIRST, 1 MID, 2 LAST
    reward: Any  # float32 [B], or [B, R] for vector rewards; 0 where `step_type` is FIRST
    discount: Any  # float32 [B]
    observation: Any  # nest of [B, ...]

    def is_first(self) -> Array:
        return np.equal(self.step_type, FIRST)

    def is_last(self) -> Array:
        return np.equal(self.step_type, LAST)


class TimeStep(NamedTuple):
    """What a policy sees: one step of B environments."""

    step_type: Any  # int32 [B]; 0 FIRST, 1 MID, 2 LAST
    reward: Any  # float32 [B], or [B, R] for vector rewards
    discount: Any  # float32 [B]
    observation: Any  # nest of [B, ...]
    prev_action: Any  # nest of [B, ...]; zeros where `step_type` is FIRST
    env_id: Any  # int32 [B]; unique over all environments of a driver

    def is_first(self) -> Array:
        return tf.equal(self.step_type, FIRST)

    def is_last(self) -> Array:
        return tf.equal(self.step_type, LAST)


class PolicyStep(NamedTuple):
    """What a policy answers: nests of [B, ...]."""

    action: Any
    state: Any = ()  # the recurrent state that enters the next step, () if there is none
    info: Any = ()  # what training needs, e.g. the behavior distribution's parameters


class PolicyState(NamedTuple):
    """What is kept of each environment between two of its steps: nests of [B, ...]."""

    transformer: Any = ()  # the state of the data transformer
    train: Any = ()  # the policy's recurrent state, like `Policy.state_spec`; training starts from it, too


class Frame(NamedTuple):
    """One step of an environment that no policy has answered yet."""

    time_step: Any  # `TimeStep` of [B, ...], whose env_id is (): it follows from the environment's index
    state: Any  # `PolicyState` of [B, ...] that enters the policy at this step
    env_info: Any = ()  # float32 [K, B], what the environment's `info_keys` name; () without keys


class ActionRequest(NamedTuple):
    """What an environment sends to its actor."""

    env_index: Any  # int32 scalar; which environment asks, so where the answer goes
    time_step: Any  # as in `Frame`
    state: Any  # as in `Frame`


class ActionReply(NamedTuple):
    """What an actor answers."""

    policy_step: Any  # `PolicyStep` of [B, ...]
    version: Any  # int64 scalar; how many updates the weights that answered had seen; [B] of a `PolicyGroup`


class Experience(NamedTuple):
    """Unrolls as the learner gets them.

    An unroll is T transitions, so T + 1 time steps: row T bootstraps, and is row 0 of the same
    environment's next unroll. Only then does the policy answer it, with the newest weights: `action`,
    `info` and `policy_version` of row T are copies of row T-1. Shapes below are one unroll's;
    `get_training_exps` stacks Q of them in front, training merges Q into B.
    """

    step_type: Any  # from here to `env_id`: as in `TimeStep`, but [T+1, B, ...]
    reward: Any
    discount: Any
    observation: Any
    prev_action: Any
    env_id: Any
    action: Any  # nest of [T+1, B, ...]; this and `info` answer each time step, as in `PolicyStep`
    info: Any  # nest of [T+1, B, ...]
    policy_version: Any  # int64 [T+1, B]; as `ActionReply.version`
    state: Any = PolicyState()  # of [B, ...]; entered row 0
    # float32 [T+1, B], the weight in the loss of the transition from each row to the next one. The learner
    # sets it before training: 0 where there is nothing to learn (row T, a step to a FIRST row, a step that is
    # too old), the importance weight in prioritized replay, else 1.
    weight: Any = ()
    # dict of float32 [T+1, B], what the environment's `info_keys` name; NaN where a step has no value. () for
    # algorithms that do not ask for it, see `Algorithm.uses_env_info`.
    env_info: Any = ()


class LossInfo(NamedTuple):
    """A loss."""

    loss: Any  # float32 scalar, what is minimized
    extra: Any = ()  # dict of float32 scalars to show
    priority: Any = ()  # float32 [B] of the batch's sequences, for prioritized replay; () if there is none


class LogRecord(NamedTuple):
    """The part of an unroll that metrics need: every time step exactly once, in order, per env.

    The fields `observation`, `action` and `first_value` are () unless a metric or an observer has a tuple
    `needs` that names them.
    """

    step_type: Any  # int32 [T, B]
    reward: Any  # float32 [T, B] or [T, B, R], as the environment gave it
    discount: Any  # float32 [T, B]
    env_id: Any  # int32 [B]
    env_info: Any = ()  # dict of float32 [T, B], as in `Experience`; () without `info_keys`
    observation: Any = ()  # nest of [T, B, ...]
    action: Any = ()  # nest of [T, B, ...]; it answers each time step
    first_value: Any = ()  # float32 [T, B], the policy's value at FIRST rows; NaN in other rows
    # () where a single policy acts:
    owner: Any = ()  # int32 [T, B], which of several policies acts
    policy_version: Any = ()  # int64 [T, B], as in `Experience`


def count_transitions(step_type: Array) -> Array:
    """Counts the environment steps of unrolls, int32 [..., T+1, B] -> int64 scalar.

    A FIRST row is a reset, not a step. So row t -> t+1 counts unless row t+1 is FIRST.
    """
    return tf.math.count_nonzero(tf.not_equal(step_type[..., 1:, :], FIRST))
