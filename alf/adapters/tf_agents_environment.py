# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""TFAgentsEnvironment: a batched environment of ALF for the tools of TF-Agents."""

import tensorflow as tf
from tf_agents.environments.wrappers import PyEnvironmentBaseWrapper
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step

from alf.core.annotations import Environment, NestedSpec


class TFAgentsEnvironment(PyEnvironmentBaseWrapper):
    """A batched environment of ALF as a `PyEnvironment`, which TF-Agents' wrappers and drivers take.

    `TFPyEnvironment(TFAgentsEnvironment(alf.environments.load("CartPole-v1", 8)))` is an environment for
    TensorFlow.

    Args:
        env: `BatchedEnvironment`; `close()` closes it.
    """

    def __init__(self, env: Environment) -> None:
        super().__init__(env)

    def observation_spec(self) -> NestedSpec:
        return _to_tf_agents(self._env.observation_spec())

    def action_spec(self) -> NestedSpec:
        return _to_tf_agents(self._env.action_spec())

    def reward_spec(self) -> NestedSpec:
        return _to_tf_agents(self._env.reward_spec())

    def _reset(self):
        # `EnvStep` has the fields of TF-Agents' `TimeStep`, in the same order.
        return time_step.TimeStep(*self._env.reset())

    def _step(self, action):
        return time_step.TimeStep(*self._env.step(action))


def _to_tf_agents(nest):
    def convert(spec):
        if hasattr(spec, "minimum"):
            return array_spec.BoundedArraySpec(spec.shape, spec.dtype, spec.minimum, spec.maximum, spec.name)
        return array_spec.ArraySpec(spec.shape, spec.dtype, spec.name)

    return tf.nest.map_structure(convert, nest)
