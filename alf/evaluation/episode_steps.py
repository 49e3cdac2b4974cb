# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""EpisodeSteps: keeps the steps of the episodes of an evaluation."""

import numpy as np
import tensorflow as tf

from alf.data_structures import FIRST, Experience
from alf.drivers.env_specs import get_info_keys


class EpisodeSteps:
    """Keeps the steps of the episodes that are under way in a batched environment.

    Args:
        env: batched environment of B rows.
    """

    def __init__(self, env):
        self._env, self._has_info = env, bool(get_info_keys(env))
        self._ids = np.arange(env.batch_size, dtype=np.int32)
        self._steps: list = []  # flat lists of arrays [B, ...]; the first is one of the oldest episode
        self._begins = np.zeros(env.batch_size, int)  # the index in `_steps` of the FIRST step of each row
        self._nest = None  # an `Experience` of the structure of the flat lists

    def begin(self, time_step):
        """Keeps the step of a reset."""
        action_spec, size = self._env.action_spec(), self._env.batch_size
        self.add(time_step, tf.nest.map_structure(lambda s: np.zeros([size, *s.shape], s.dtype), action_spec))

    def add(self, time_step, action):
        """Keeps a step of all rows, and the action that led to it, a nest of arrays [B, ...]."""
        info = self._env.get_info() if self._has_info else ()
        row = Experience(*time_step, action, self._ids, (), (), (), state=(), env_info=info)
        # Copies: an environment may fill its arrays anew.
        self._steps.append([np.array(x) for x in tf.nest.flatten(row)])
        self._nest = row
        self._begins[time_step.step_type == FIRST] = len(self._steps) - 1
        oldest = self._begins.min()
        del self._steps[:oldest]
        self._begins -= oldest

    def cut(self, row):
        """Returns the episode of a row until now, an `Experience` of arrays [L+1, 1, ...]."""
        steps = self._steps[self._begins[row] :]
        columns = [np.stack([x[row : row + 1] for x in same]) for same in zip(*steps, strict=True)]
        episode = tf.nest.pack_sequence_as(self._nest, columns)

        def clear_first(x):
            return np.concatenate([np.zeros_like(x[:1]), x[1:]])

        # The last row repeats the action, as in every `Experience`.
        action = tf.nest.map_structure(lambda x: np.concatenate([x[1:], x[-1:]]), episode.prev_action)
        prev_action = tf.nest.map_structure(clear_first, episode.prev_action)
        return episode._replace(prev_action=prev_action, action=action)
