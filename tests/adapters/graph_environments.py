# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Environments of TF-Agents whose steps are operations of TensorFlow, for tests."""

import tensorflow as tf
from tf_agents.environments.tf_environment import TFEnvironment
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from alf.data_structures import FIRST, LAST, MID


class CountingTFEnvironment(TFEnvironment):
    """The same as `CountingEnvironment`, in operations of TensorFlow.

    Attributes:
        num_calls: how often Python called `_reset`, `_step` or `_current_time_step`.
    """

    def __init__(self, batch_size=2, episode_length=4, env_index=0):
        observation = tensor_spec.BoundedTensorSpec((3,), tf.float32, 0.0, tf.float32.max, "observation")
        action = tensor_spec.BoundedTensorSpec((), tf.int64, 0, 1, "action")
        super().__init__(ts.time_step_spec(observation), action, batch_size)
        rows = tf.range(batch_size, dtype=tf.int64)
        self._env_id, self._length = env_index * batch_size + rows, episode_length + rows % 3
        self._before = tf.Variable(tf.fill([batch_size], tf.constant(-1, tf.int64)))
        self._in_episode = tf.Variable(tf.zeros([batch_size], tf.int64))
        self._episodes = tf.Variable(tf.zeros([batch_size], tf.int64))
        self.num_calls = 0

    def _reset(self):
        self.num_calls += 1
        self._in_episode.assign(tf.zeros_like(self._in_episode))
        return self._count()

    def _step(self, action):
        self.num_calls += 1
        if tf.reduce_any(self._before < 0):  # autograph must translate it
            self._in_episode.assign(tf.zeros_like(self._in_episode))
        else:
            ended = tf.equal(self._in_episode, self._length)
            self._in_episode.assign(tf.where(ended, tf.zeros_like(self._in_episode), self._in_episode + 1))
        return self._count()

    def _count(self):
        # Each line reads what the line before has assigned.
        self._before.assign_add(tf.ones_like(self._before))
        self._episodes.assign_add(tf.cast(tf.equal(self._in_episode, 0), tf.int64))
        return self._current_time_step()

    def _current_time_step(self):
        in_episode = self._in_episode.read_value()
        first, last = tf.equal(in_episode, 0), tf.equal(in_episode, self._length)
        terminates = tf.equal(self._episodes % 2, 1)
        columns = [self._env_id, self._before.read_value(), in_episode]
        return ts.TimeStep(
            step_type=tf.where(first, FIRST, tf.where(last, LAST, MID)),
            reward=tf.cast(in_episode, tf.float32),
            discount=1 - tf.cast(last & terminates, tf.float32),
            observation=tf.cast(tf.stack(columns, axis=1), tf.float32),
        )
