# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""PythonEnvironment: Gymnasium environments of one each, as a batched TF-Agents environment."""

import contextlib
import os

import gin
import numpy as np
import tensorflow as tf
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from alf.environments.spaces import action_converter, map_space, spec_from_space
from alf.errors import ConfigError, check_int, check_number
from alf.seeds import spawn_seeds
from alf.workers import EnvBatch, WorkerPool

# Where workers overtake in training, measured with CartPole on 2 cores: 5 environments of 12 microseconds.
_MESSAGE_SECONDS = 80e-6
_MAX_CHEAP = 32  # environments: more are not tried, a step of any in Python takes 2 microseconds


@gin.configurable(module="alf.environments")
class PythonEnvironment(py_environment.PyEnvironment):
    """B Gymnasium environments, in worker processes or in this one, as one batched environment.

    See `alf.data_structures` for the convention of time steps, and `alf.workers.WorkerPool` for what
    happens when a worker dies: its rows begin new episodes.

    Args:
      env_fns: B callables without arguments, each returns a `gymnasium.Env`, or a TF-Agents
        `PyEnvironment` of one environment. For workers they must be fit for cloudpickle.
      seed: int or None. Environment i is reset with a seed of its own, from `SeedSequence(seed)`: the same
        whatever the number of workers.
      num_workers: worker processes, at most B; 0 steps all in this process. "auto" takes half the cores
        of this machine, so that two batched environments use all; but it steps in this process where a
        message to a worker would take longer than all B steps, which it tries with one environment.
      max_random_steps: before its first step each environment takes a random number of random actions,
        at most so many, so that episodes of equal length do not end together.
      start_timeout, step_timeout, max_restarts, pin_workers, single_threaded: as in `WorkerPool`.

    Raises:
      ConfigError: if a setting is wrong or a space has no spec.
      Exception: what an environment raises.
    """

    def __init__(
        self,
        env_fns,
        seed=None,
        num_workers="auto",
        max_random_steps=0,
        start_timeout=120.0,
        step_timeout=60.0,
        max_restarts=3,
        pin_workers=False,
        single_threaded=True,
    ):
        super().__init__()
        env_fns = list(env_fns)
        num_workers = _choose_num_workers(num_workers, env_fns)
        check_int("PythonEnvironment.max_random_steps", max_random_steps, at_least=0)
        check_number("PythonEnvironment.start_timeout", start_timeout, above=0)
        check_number("PythonEnvironment.step_timeout", step_timeout, above=0)
        check_int("PythonEnvironment.max_restarts", max_restarts, at_least=0)
        self._batch_size = len(env_fns)
        seeds = spawn_seeds(seed, len(env_fns))
        if num_workers == 0:
            self._batch = EnvBatch(env_fns, seeds, max_random_steps)
        else:
            self._batch = WorkerPool(
                env_fns,
                seeds,
                num_workers,
                max_random_steps,
                start_timeout,
                step_timeout,
                max_restarts,
                pin_workers,
                single_threaded,
            )
        try:
            self._make_specs(self._batch.layout)
        except BaseException:
            self.close()
            raise

    @property
    def batched(self):
        return True

    @property
    def batch_size(self):
        return self._batch_size

    @property
    def num_restarts(self):
        """How often a worker process was restarted."""
        return self._batch.num_restarts

    def observation_spec(self):
        return self._observation_spec

    def action_spec(self):
        return self._action_spec

    def reward_spec(self):
        return self._reward_spec

    def close(self):
        """Closes the environments and ends the workers; may be repeated."""
        self._batch.close()

    def _make_specs(self, layout):
        self._observation_spec = spec_from_space(layout.observation_space, "observation")
        self._action_spec = spec_from_space(layout.action_space, "action")
        self._reward_spec = array_spec.ArraySpec(layout.reward_shape, np.float32, "reward")
        self._convert_action = map_space(
            layout.action_space, lambda space: action_converter(space, self._batch_size)
        )

    def _reset(self):
        self._batch.reset()
        return self._time_step()

    def _step(self, action):
        for array, x in zip(
            self._batch.arrays.action, tf.nest.flatten(self._convert_action(action)), strict=True
        ):
            array[...] = x
        self._batch.step()
        return self._time_step()

    def _time_step(self):
        """Copies the arrays: the next step writes them again."""
        arrays = self._batch.arrays
        observation = [x.copy() for x in arrays.observation]
        return ts.TimeStep(
            arrays.step_type.copy(),
            arrays.reward.copy(),
            arrays.discount.copy(),
            tf.nest.pack_sequence_as(self._observation_spec, observation),
        )


def _choose_num_workers(num_workers, env_fns):
    if num_workers == "auto":
        if _is_cheap(env_fns):
            return 0
        return min(len(env_fns), max(1, len(os.sched_getaffinity(0)) // 2))
    check_int("num_workers", num_workers, at_least=0)
    if num_workers > len(env_fns):
        raise ConfigError(f"num_workers is {num_workers}, more than batch_size = {len(env_fns)}")
    return num_workers


def _is_cheap(env_fns):
    """Whether one step of all environments takes less than a message to a worker and back."""
    if len(env_fns) > _MAX_CHEAP:
        return False
    try:
        with contextlib.closing(EnvBatch(env_fns[:1], [0])) as batch:
            return len(env_fns) * batch.time_step() < _MESSAGE_SECONDS
    except Exception:  # the workers will say what is wrong; or random actions are not all allowed
        return False
