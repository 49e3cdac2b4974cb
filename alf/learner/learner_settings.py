# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""LearnerSettings: the settings that all learners share."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Literal

import tensorflow as tf

from alf.config.kinds import NonNegativeInt, PositiveFloat, PositiveInt
from alf.config.settings import Role, configurable


@configurable("alf.learner")
@dataclasses.dataclass(frozen=True)
class LearnerSettings:
    """Settings of learners: how an update is made, and what it shows.

    Args:
        max_grad_norm: number, limit of the global norm of the gradient. It applies to each of
            `Algorithm.parameter_groups` by itself, so a value loss of large returns does not shrink the
            policy's gradient. None: no limit.
        update_periods: dict from the name of a group of `Algorithm.parameter_groups` to an int N: the group
            changes at every N-th update only, by its gradient of that update, as TD3's actor does with
            {"actor": 2}. The groups need optimizers of their own. None: all groups change at each update.
        max_policy_lag: updates. A step whose action was chosen more updates ago gets weight 0 in the loss and
            is counted in `dropped_steps`. The log says so if that happens to most steps. None keeps all
            steps.
        jit_compile: whether XLA compiles all updates of a call of `train` into one program. Small layers
            become several times as fast. It takes some seconds, once. "auto" does it after 1000 updates on
            CPUs, where `train` makes at least four updates, unless there are convolutions or large products,
            which XLA does not make faster there. Where XLA cannot, as with `debug_summaries`, with
            `tf.debugging.Assert` or with Python code in a loss, the log says why, and the updates are made
            without it.
        train_step_counter: `tf.Variable`, an int64 scalar that the user owns. Each update adds 1 to it.
            Checkpoints hold it. None: no such counter.
        debug_summaries: whether TensorBoard gets histograms of the observations, actions and rewards of the
            last update, and of the rewards before data transformers.
        rollout_summaries: whether TensorBoard gets histograms of the last experience that was observed: the
            environments' rewards, the actions and the parameters and entropy of their distributions.
        summarize_grads_and_vars: whether TensorBoard gets histograms of each variable of
            `Algorithm.parameter_groups`, and of its gradient in the last update, before `max_grad_norm`.
    """

    max_grad_norm: PositiveFloat | None = None
    update_periods: Mapping[str, PositiveInt] | None = None
    max_policy_lag: NonNegativeInt | None = None
    jit_compile: Annotated[bool | Literal["auto"], Role.EXECUTION] = "auto"
    train_step_counter: Annotated[tf.Variable | None, Role.EXECUTION] = None
    debug_summaries: Annotated[bool, Role.EXECUTION] = False
    rollout_summaries: Annotated[bool, Role.EXECUTION] = False
    summarize_grads_and_vars: Annotated[bool, Role.EXECUTION] = False
