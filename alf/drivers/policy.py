# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""BatchedPolicy: an algorithm's rollout for several environments at once."""

import tensorflow as tf

from alf.data_structures import TimeStep
from alf.drivers.packed_signals import env_ids, unpack_signals
from alf.errors import ConfigError
from alf.nest_utils import add_leading_dims


class BatchedPolicy:
    """Answers the requests of K environments with one call of `Algorithm.rollout`.

    Args:
        algorithm: an `Algorithm`.
        specs: the environments' `EnvSpecs`.
        policy_step_spec: `PolicyStep` of unbatched tensor specs that the algorithm promises.
    """

    def __init__(self, algorithm, specs, policy_step_spec):
        self._algorithm = algorithm
        self._specs = specs
        self._policy_step_spec = policy_step_spec

    def __call__(self, env_index, signals, observation, prev_action, state):
        """Args: int32 [K]; float32 [K, S, B]; nests of [K, B, ...].

        Returns:
            list of K `PolicyStep`s of [B, ...], and the weights' version, int64 scalar.
        """
        num_envs = signals.shape[0]
        merge = lambda x: tf.reshape(x, (-1, *x.shape[2:]))  # noqa: E731
        step_type, discount, reward = unpack_signals(signals, self._specs.reward)
        ids = env_ids(env_index[:, tf.newaxis], self._specs.batch_size)
        time_step = TimeStep(step_type, reward, discount, observation, prev_action, ids)
        time_step, state = tf.nest.map_structure(merge, (time_step, state))
        is_first = time_step.is_first()
        state = tf.nest.map_structure(lambda x: zero_where(is_first, x), state)
        # Read before the step: the weights may be newer than the version says, never older. And read once
        # the request is there: an actor that has waited for it since the last update would answer with old
        # weights.
        with tf.control_dependencies([signals]):
            version = self._algorithm.train_step_counter.read_value()
        with tf.control_dependencies([version]):
            policy_step = self._algorithm.rollout(time_step, state)
        policy_step = self._conform(policy_step, step_type.shape.num_elements())
        if num_envs == 1:
            return [policy_step], version
        parts = [tf.split(x, num_envs) for x in tf.nest.flatten(policy_step)]
        return [tf.nest.pack_sequence_as(policy_step, part) for part in zip(*parts, strict=True)], version

    def _conform(self, policy_step, batch_size):
        """Checks what `rollout_step` returned against the algorithm's specs, while tracing."""
        expected = add_leading_dims(self._policy_step_spec, batch_size)
        try:
            tf.nest.assert_same_structure(expected, policy_step)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"rollout_step does not return what its specs say: {error}") from None
        for x, s in zip(tf.nest.flatten(policy_step), tf.nest.flatten(expected), strict=True):
            if x.dtype != s.dtype or not s.shape.is_compatible_with(x.shape):
                raise ConfigError(
                    f"rollout_step returned {x.dtype.name} {x.shape} where the specs of the environment and "
                    f"the algorithm say {s.dtype.name} {s.shape}"
                )
        return policy_step


def zero_where(condition, x):
    """Zeros in the rows of `x` [B, ...] where `condition` (bool [B]) holds."""
    condition = tf.reshape(condition, (-1, *[1] * (x.shape.rank - 1)))
    return tf.where(condition, tf.zeros_like(x), x)
