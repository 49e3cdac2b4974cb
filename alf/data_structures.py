# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The records that cross a queue or a function boundary. All are nests that `tf.nest` understands.

Conventions of time: an `EnvStep` at t holds the observation at t, and the reward and the discount that
arrived with it. A `TimeStep` also holds the action that led to it. A LAST step holds the final observation of
its episode; the next step is the FIRST step of a new episode, and the action is ignored. A FIRST step may
also follow

* a MID step, if an episode was interrupted because its worker process was restarted, or
* a FIRST step, which it repeats while a sub-environment waits for the next unroll (`sticky` of a driver).

A step to a FIRST time step is not a transition; the learner gives it weight 0. `discount` is 0 only on
termination: a time limit keeps it. dm_env, TF-Agents and Gymnasium's NEXT_STEP autoreset use the
same conventions.
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from alf.core.annotations import Array
from alf.core.nest_utils import split

FIRST, MID, LAST = 0, 1, 2
NO_VERSION = -1  # `Experience.policy_version` of steps from a file
# The smallest and the largest value of fields of an `Experience`, wherever it comes from.
LIMITS = {"step_type": (FIRST, LAST), "discount": (0, 1)}

# The keys of the observation if several policies act: the environment's observation, and the index of the
# policy that acts in a row.
OBSERVATION, OWNER = "observation", "owner"


class EnvStep(NamedTuple):
    """What a batched environment returns: one step of B sub-environments, NumPy arrays."""

    step_type: Any  # int32 [B]; 0 FIRST, 1 MID, 2 LAST
    reward: Any  # float32 [B], or [B, R] for vector rewards; 0 where `step_type` is FIRST
    discount: Any  # float32 [B]
    observation: Any  # nest of [B, ...]


class TimeStep(NamedTuple):
    """One step of B environments, the input of a policy."""

    step_type: Any  # int32 [B]; 0 FIRST, 1 MID, 2 LAST
    reward: Any  # float32 [B], or [B, R] for vector rewards
    discount: Any  # float32 [B]
    observation: Any  # nest of [B, ...]
    prev_action: Any  # nest of [B, ...]; zeros where `step_type` is FIRST
    env_id: Any  # int32 [B]; unique over all environments of a driver

    def is_first(self) -> Array:
        return tf.equal(self.step_type, FIRST)


class PolicyState(NamedTuple):
    """The state of each environment between two of its steps, nests of [B, ...]."""

    transformer: Any = ()  # the state of the data transformer
    train: Any = ()  # the policy's recurrent state, from which training starts, too; () if there is none
    noise: Any = ()  # what exploration carries from step to step; training does not get it


class PolicyStep(NamedTuple):
    """The output of a policy for one step, nests of [B, ...]."""

    action: Any
    state: Any = PolicyState()  # the `PolicyState` for the next step
    info: Any = ()  # data for training, such as the parameters of the distribution that acted


class Frame(NamedTuple):
    """One step of an environment before a policy has answered it."""

    time_step: Any  # `TimeStep` of [B, ...] with the env_id (), which follows from the environment's index
    state: Any  # `PolicyState` of [B, ...], the input of the policy at this step
    env_info: Any = ()  # float32 [K, B], the values of the environment's `info_keys`; () without keys
    count: Any = ()  # int64 scalar, the number of the next draw for the environment


class ActionRequest(NamedTuple):
    """The message of an environment to its actor."""

    env_index: Any  # int32 scalar, the batched environment that asks and gets the answer
    time_step: Any  # `Frame.time_step`
    state: Any  # `Frame.state`
    count: Any  # `Frame.count`


class ActionReply(NamedTuple):
    """The answer of an actor."""

    policy_step: Any  # `PolicyStep` of [B, ...]
    # int64 scalar, [B] for a `PolicyGroup`: the number of updates before the answer. It is read before the
    # weights, so the weights can be newer than this version, never older.
    version: Any


class Experience(NamedTuple):
    """An unroll, the input of the learner.

    An unroll has T transitions, so T + 1 time steps. Row T bootstraps. It is also row 0 of the next unroll of
    the same environment, where the policy answers it with the newest weights: in row T, `action`, `info` and
    `policy_version` are copies of row T - 1. The shapes below are for one unroll; `get_training_exps` stacks
    Q unrolls in front, and training merges Q into B.
    """

    step_type: Any  # from here to `env_id`: the fields of `TimeStep`, but [T+1, B, ...]
    reward: Any
    discount: Any
    observation: Any
    prev_action: Any
    env_id: Any
    action: Any  # nest of [T+1, B, ...], the policy's answer to each time step
    info: Any  # nest of [T+1, B, ...], `PolicyStep.info` of each answer
    policy_version: Any  # int64 [T+1, B], `ActionReply.version` of each answer
    state: Any = PolicyState()  # `PolicyState` of [B, ...] at row 0
    # float32 [T+1, B], the weight in the loss of the transition from each row to the next one. The learner
    # sets it before training: 0 if there is nothing to learn (row T, a step to a FIRST row, a step that is
    # too old), the importance weight in prioritized replay, else 1.
    weight: Any = ()
    # dict of float32 [T+1, B], the values of the environment's `info_keys`; NaN where a step has no value. ()
    # without keys. Learners keep it only if the algorithm or a data transformer needs it.
    env_info: Any = ()


class LossInfo(NamedTuple):
    """The loss of a batch."""

    loss: Any  # float32 scalar, which is minimized
    extra: Any = ()  # dict of float32 scalars to show
    priority: Any = ()  # float32 [B], priorities of the sequences for prioritized replay; () without


class LogRecord(NamedTuple):
    """The part of an unroll that metrics need: each time step of an environment exactly once, in order.

    The fields `observation` and `action` are () unless the tuple `needs` of a metric or an observer names
    them.
    """

    step_type: Any  # int32 [T, B]
    reward: Any  # float32 [T, B] or [T, B, R], not transformed
    discount: Any  # float32 [T, B]
    env_id: Any  # int32 [B]
    env_info: Any = ()  # dict of float32 [T, B], NaN where a step has no value; () without `info_keys`
    observation: Any = ()  # nest of [T, B, ...]
    action: Any = ()  # nest of [T, B, ...], the policy's answer to each time step
    # () if a single policy acts:
    owner: Any = ()  # int32 [T, B], the index of the policy that acts
    policy_version: Any = ()  # int64 [T, B], `ActionReply.version` of each answer


def count_transitions(step_type: Array) -> Array:
    """Counts the environment steps of unrolls.

    Row t -> t+1 counts unless row t+1 is FIRST, because a FIRST row comes from a reset, not from a step.

    Args:
        step_type: int32 [..., T+1, B], a tensor or an array.

    Returns:
        int64 scalar tensor; of an array an int, which takes a tenth of the time that eager operations take.
    """
    if isinstance(step_type, np.ndarray):
        return int(np.count_nonzero(step_type[..., 1:, :] != FIRST))
    return tf.math.count_nonzero(tf.not_equal(step_type[..., 1:, :], FIRST))


def split_unroll(unroll: Experience, num_parts: int) -> list[Experience]:
    """Splits the rows of an unroll, an `Experience` of [T+1, B, ...] (`state` [B, ...]), into equal parts."""
    parts, states = split(unroll._replace(state=()), num_parts, axis=1), split(unroll.state, num_parts)
    return [part._replace(state=state) for part, state in zip(parts, states, strict=True)]
