# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""EnvSpecs: what the environments of a driver have in common."""

import tensorflow as tf

from alf.errors import ConfigError
from alf.nest_utils import to_tensor_spec


class EnvSpecs:
    """What the drivers must know of their environments, which have to agree on it.

    Args:
        envs: list of batched TF-Agents `PyEnvironment`s.

    Raises:
        ConfigError: if the environments are none, unbatched or differ.
    """

    def __init__(self, envs):
        if not envs:
            raise ConfigError("envs is empty: a driver needs at least one batched environment")
        for index, env in enumerate(envs):
            if not env.batched:
                raise ConfigError(f"envs[{index}] is not batched: use alf.environments.load")
            if self._key(env) != self._key(envs[0]):
                raise ConfigError(f"envs[{index}] has another batch_size or other specs than envs[0]")
        self.batch_size = envs[0].batch_size
        self.array_observation = envs[0].observation_spec()
        self.observation = to_tensor_spec(envs[0].observation_spec())
        self.action = to_tensor_spec(envs[0].action_spec())
        # Signals travel as float32, whatever the environment's own type.
        self.reward = tf.TensorSpec(envs[0].reward_spec().shape, tf.float32)
        if self.reward.shape.rank > 1:
            raise ConfigError(f"the environments' reward has shape {self.reward.shape}: use () or [R]")

    @staticmethod
    def _key(env):
        return env.batch_size, env.observation_spec(), env.action_spec(), env.reward_spec()
