# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""ReplayTraining: how often, and from how much at a time, an algorithm learns from a replay buffer."""

from fractions import Fraction

import gin

from alf.checks import check_bool, check_int, check_number
from alf.errors import ConfigError


@gin.configurable(module="alf.algorithms")
class ReplayTraining:
    """Settings of training from a replay buffer, and the count of the updates that are due.

    Args:
        mini_batch_size: sequences of an update.
        mini_batch_length: L, environment steps of each.
        initial_collect_steps: environment steps that the buffer must hold before the first update.
        replay_ratio: updates for each environment step after these, held exactly: what is due waits for the
            next call, and what an update is late the environments wait for it.
        num_updates_per_train_iter: in place of a replay ratio, updates of each call of `Algorithm.train`;
            with `whole_replay_buffer_training`, passes over the buffer.
        whole_replay_buffer_training: whether every update takes other sequences, all of the buffer's in
            turn, shuffled, or draws them as the replayer does.
        clear_replay_buffer: whether the buffer is emptied after each call of `Algorithm.train`.

    Raises:
        ConfigError: if a setting is wrong.
    """

    def __init__(
        self,
        mini_batch_size=256,
        mini_batch_length=1,
        initial_collect_steps=0,
        replay_ratio=None,
        num_updates_per_train_iter=None,
        whole_replay_buffer_training=False,
        clear_replay_buffer=False,
    ):
        check_int("ReplayTraining.mini_batch_size", mini_batch_size)
        check_int("ReplayTraining.mini_batch_length", mini_batch_length)
        check_int("ReplayTraining.initial_collect_steps", initial_collect_steps, at_least=0)
        check_number("ReplayTraining.replay_ratio", replay_ratio, above=0, optional=True)
        check_bool("ReplayTraining.whole_replay_buffer_training", whole_replay_buffer_training)
        check_bool("ReplayTraining.clear_replay_buffer", clear_replay_buffer)
        if num_updates_per_train_iter is None and (replay_ratio is None or whole_replay_buffer_training):
            num_updates_per_train_iter = 1
        elif num_updates_per_train_iter is not None:
            check_int("ReplayTraining.num_updates_per_train_iter", num_updates_per_train_iter)
        if replay_ratio is not None and num_updates_per_train_iter is not None:
            raise ConfigError(
                "ReplayTraining.replay_ratio says how many updates there are: leave "
                "num_updates_per_train_iter and whole_replay_buffer_training out"
            )
        self.mini_batch_size = mini_batch_size
        self.mini_batch_length = mini_batch_length
        self.initial_collect_steps = initial_collect_steps
        self.whole_replay_buffer_training = whole_replay_buffer_training
        self.clear_replay_buffer = clear_replay_buffer
        self._num_updates = num_updates_per_train_iter
        # Exactly: floats would lose an update now and then.
        self._ratio = None if replay_ratio is None else Fraction(str(replay_ratio))
        self._credit = Fraction(0)
        self._steps = 0
        self._updates = 0

    def num_updates(self, num_steps):
        """Updates, or passes, that are due now.

        Args:
            num_steps: int; environment steps since the last call.
        """
        self._steps += num_steps
        if self._ratio is None:
            return self._num_updates
        self._credit += self._ratio * num_steps
        due = int(self._credit)
        self._credit -= due
        return due

    def made(self, num_updates):
        """Notes updates that were made; returns how many there were for each environment step so far."""
        self._updates += num_updates
        return self._updates / self._steps if self._steps else float("inf")
