# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""EnvSpecs: what the environments of a driver have in common, and what unrolls of them look like."""

import tensorflow as tf

from alf.data_structures import Experience, Frame, TimeStep
from alf.errors import ConfigError, check_int
from alf.nest_utils import add_leading_dims, to_tensor_spec


class EnvSpecs:
    """The specs that all environments of a driver share.

    Args:
        envs: list of batched TF-Agents `PyEnvironment`s.

    Attributes:
        num_envs: int; batched environments.
        batch_size: B, int; sub-environments of each.
        observation, action: nests of unbatched tensor specs; bounds are kept.
        reward: unbatched tensor spec, float32 of shape () or [R]. Rewards travel as float32, whatever the
            type of the environment's.

    Raises:
        ConfigError: if there is no environment, one is not batched, or they differ.
    """

    def __init__(self, envs):
        if not envs:
            raise ConfigError("envs is empty: a driver needs at least one batched environment")
        for index, env in enumerate(envs):
            if not env.batched:
                raise ConfigError(f"envs[{index}] is not batched: use alf.environments.load")
            if _key(env) != _key(envs[0]):
                raise ConfigError(f"envs[{index}] has another batch_size or other specs than envs[0]")
        self.num_envs = len(envs)
        self.batch_size = envs[0].batch_size
        self.observation = to_tensor_spec(envs[0].observation_spec())
        self.action = to_tensor_spec(envs[0].action_spec())
        self.reward = tf.TensorSpec(envs[0].reward_spec().shape, tf.float32)
        if self.reward.shape.rank > 1:
            raise ConfigError(f"the environments' reward has shape {self.reward.shape}: use () or [R]")

    def env_ids(self, env_index):
        """The ids of the sub-environments of a batched environment, int32 [..., B].

        Args:
            env_index: int32 [...].
        """
        return env_index[..., tf.newaxis] * self.batch_size + tf.range(self.batch_size, dtype=tf.int32)

    @property
    def time_step(self):
        """`TimeStep` of unbatched tensor specs; bounds are kept."""
        signal, index = tf.TensorSpec((), tf.float32), tf.TensorSpec((), tf.int32)
        return TimeStep(index, self.reward, signal, self.observation, self.action, index)

    def frame_spec(self, policy):
        """Describes one step of a batched environment and the answer of a policy: `Frame` of specs."""
        policy_step = policy.policy_step_spec
        frame = Frame(self.time_step._replace(env_id=()), policy_step.state, policy_step, version=())
        frame = add_leading_dims(frame, self.batch_size)
        return frame._replace(version=tf.TensorSpec((), tf.int64))

    def unroll_spec(self, policy, unroll_length, keep_bounds=True):
        """Describes one unroll of a batched environment, for a replayer for instance.

        Args:
            policy: `Policy` that acts.
            unroll_length: T, int, at least 1.
            keep_bounds: whether bounds of observations and actions are kept.

        Returns:
            `Experience` of tensor specs of [T+1, B, ...], with a state of [B, ...].

        Raises:
            ConfigError: if `unroll_length` is wrong.
        """
        check_int("unroll_length", unroll_length)
        rows = Experience(
            *self.time_step,
            action=self.action,
            info=policy.info_spec,
            policy_version=tf.TensorSpec((), tf.int64),
            state=(),
        )
        rows = add_leading_dims(rows, unroll_length + 1, self.batch_size, keep_bounds=keep_bounds)
        return rows._replace(state=add_leading_dims(policy.policy_step_spec.state, self.batch_size))


def _key(env):
    return env.batch_size, env.observation_spec(), env.action_spec(), env.reward_spec()
