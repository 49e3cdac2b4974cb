# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The base class of all batched environments, and what else a driver takes for one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tf_agents.environments import py_environment, tf_py_environment
from tf_agents.trajectories import time_step as ts

from alf.config.kinds import NonNegativeInt, PositiveInt
from alf.config.settings import checked
from alf.core.annotations import Environment, NestedSpec
from alf.environments.spaces import sample_actions
from alf.workers.info import check_info_keys


@checked
class BatchedEnvironment(py_environment.PyEnvironment):
    """A `PyEnvironment` of B sub-environments. It keeps the batch size and the specs.

    A subclass implements `_reset()` and `_step(action)`. Both return a `TimeStep` of arrays [B, ...] that
    follow the convention of `alf.data_structures`; `alf.testing.EnvironmentContract` tests it. With
    `info_keys` it also implements `get_info()`, the info of the last reset or step: a dict with float32 [B]
    for each key, NaN where there is no value. It may implement `_render()`, which returns a frame of
    sub-environment 0, uint8 [height, width, 3]. It may have a method `hold(rows)`, for `sticky` drivers: the
    next step leaves the sub-environments of these indices, a list of ints, as they are, and returns their
    FIRST step again.

    A subclass whose sub-environments step together alone returns `_start_randomly` of its first FIRST step.

    Args:
        batch_size: B; a ConfigError if it is not a positive integer.
        observation_spec, action_spec: nests of `ArraySpec`, without the batch dimension.
        reward_spec: `ArraySpec` of one sub-environment, or None for a float32 scalar.
        info_keys: tuple of different texts; also an attribute, which a subclass may set for the class.
        max_random_steps: int, see `_start_randomly`.

    Attributes:
        render_fps: how many frames of `render` make a second.
    """

    batched = True
    info_keys = ()
    render_fps: Any = 30

    def __init__(
        self,
        batch_size: PositiveInt,
        observation_spec: NestedSpec,
        action_spec: NestedSpec,
        reward_spec: NestedSpec = None,
        info_keys: Sequence[str] = (),
        max_random_steps: NonNegativeInt = 0,
    ) -> None:
        self._max_random_steps = max_random_steps
        self.info_keys = check_info_keys("info_keys", info_keys or self.info_keys)
        super().__init__()
        self._batch_size = int(batch_size)
        self._observation_spec = observation_spec
        self._action_spec = action_spec
        self._reward_spec = super().reward_spec() if reward_spec is None else reward_spec

    @property
    def batch_size(self) -> int:
        return self._batch_size

    def observation_spec(self) -> NestedSpec:
        return self._observation_spec

    def action_spec(self) -> NestedSpec:
        return self._action_spec

    def reward_spec(self) -> NestedSpec:
        return self._reward_spec

    def render(self, mode: str = "rgb_array") -> np.ndarray:
        """Returns what sub-environment 0 looks like, uint8 [height, width, 3].

        Raises:
            NotImplementedError: if it cannot be rendered, or `mode` is another one.
        """
        if mode != "rgb_array":
            raise NotImplementedError(f"the mode {mode!r} is not supported")
        return self._render()

    def _start_randomly(self, time_step, seed):
        """Takes a random number of random steps, at most `max_random_steps`, from a FIRST step of all rows.

        They are no part of an episode: the last one is returned as the FIRST step of every row. Where it
        ended an episode, the next step begins another one, and nothing is learned from this one.

        Args:
            time_step: `TimeStep` that `_reset` has made.
            seed: what `np.random.RandomState` takes: it decides the number and the actions.
        """
        if not self._max_random_steps:
            return time_step
        rng = np.random.RandomState(seed)
        for _ in range(rng.randint(self._max_random_steps + 1)):
            time_step = self._step(sample_actions(self._action_spec, self._batch_size, rng))
        return ts.TimeStep(
            step_type=np.zeros_like(time_step.step_type),
            reward=np.zeros_like(time_step.reward),
            discount=np.ones_like(time_step.discount),
            observation=time_step.observation,
        )

    def _render(self):
        raise NotImplementedError(f"{type(self).__name__} has no rendering")


def as_py_environment(env: Environment) -> Environment | None:
    """Returns `env` if it is a `PyEnvironment`, the one in a `TFPyEnvironment`, or None for anything else."""
    if isinstance(env, tf_py_environment.TFPyEnvironment):
        return env.pyenv
    return env if isinstance(env, py_environment.PyEnvironment) else None
