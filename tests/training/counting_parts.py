# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A learner and a driver that count in place of learning and acting: a run of them takes a tenth of the time.

They are for tests of the loop around them: when it ends, what it writes, whom it calls.
"""

import collections
import contextlib
import logging as std_logging

import numpy as np
import tensorflow as tf
from absl import logging

from alf.core.randomness import spawn_seeds
from alf.data_structures import FIRST, Experience, LogRecord, LossInfo, count_transitions
from alf.drivers.driver import Driver
from alf.drivers.stage_clock import StageClock
from alf.learner import ReplayLearner, UnrollLearner

LAGS = {"policy_lag_min": 0.0, "policy_lag_mean": 0.0, "policy_lag_max": 0.0}


class CountingLearner(UnrollLearner):
    """Counts environment steps, and an update in each call of `train`; its weights stay as they are.

    The loss is the number of the update. The batches of drivers that act must be finite.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._waiting = 0

    def observe(self, experience):
        if isinstance(experience, Experience):
            assert np.isfinite(experience.reward).all() and np.isfinite(experience.observation).all()
            experience = count_transitions(experience.step_type)
        self._waiting += int(experience)

    def train(self):
        self.progress.env_steps.assign_add(self._waiting)
        self._waiting = 0
        self.progress.updates.assign_add(1)
        return {"loss": float(self.progress.updates), **LAGS}


class CountingReplayLearner(ReplayLearner):
    """Decides when it makes updates, on what, and how many, and only counts them.

    `sources` is a deque of the replayer of each time that it made some.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.sources = collections.deque()

    def _train_on_part(self, replayer, num_updates):
        if not num_updates:
            return {}
        self.sources.append(replayer)
        if self._takes_all:  # so many passes
            num_updates *= -(-len(replayer.all_sequences(self._length).start) // self._size)
        self.progress.updates.assign_add(num_updates)
        return {"loss": 0.0, **LAGS}


class WeightDecay:
    """Lets an algorithm make the weights smaller, whatever there is to learn from: its graph is small."""

    def preprocess(self, experience):
        return ()

    def train_step(self, experience, prepared):
        return ()

    def calc_loss(self, experience, train_info):
        return LossInfo(tf.add_n([tf.nn.l2_loss(variable) for variable in self.trainable_variables]))


class CountingDriver(Driver):
    """Steps its environments with action 0, in the thread that collects, and traces nothing.

    Metrics get what other drivers give them; a batch is the number of its steps alone.

    Args:
        get_time: clock of the training loop, which decides by it when to save, to show and to stop.
    """

    def __init__(self, envs, policy, unroll_length, get_time=None):
        super().__init__(envs, policy, unroll_length)
        if get_time is not None:
            self.clocks.learner = StageClock(get_time)

    def start(self):
        self._threads.begin()
        self._rows = [env.reset() for env in self._envs]

    def reseed(self, iterations):
        seeds = spawn_seeds([self.stream.seed, iterations], len(self._envs))
        for env, given in zip(self._envs, seeds, strict=True):
            with contextlib.suppress(NotImplementedError):
                env.seed(given)

    def collect(self):
        self._threads.raise_if_stopping()
        return [self.get_training_exps()]

    def get_training_exps(self):
        return sum(map(self._unroll, range(len(self._envs))))

    def _unroll(self, index):
        """Makes an unroll of an environment; returns its steps."""
        env, rows = self._envs[index], [self._rows[index]]
        action = np.zeros(env.batch_size, np.int64)
        rows += [env.step(action) for _ in range(self._unroll_length)]
        self._rows[index] = rows.pop()
        fields = [np.stack(x) for x in zip(*((row.step_type, row.reward, row.discount) for row in rows))]
        env_id = index * env.batch_size + np.arange(env.batch_size, dtype=np.int32)
        for observer in self._observers:
            observer(LogRecord(*fields, env_id))
        return sum(int(np.sum(row.step_type != FIRST)) for row in [*rows[1:], self._rows[index]])


class Clock:
    """A clock that stands at `now`, but for a microsecond at each look: no two looks are at the same time."""

    def __init__(self, now=1000.0):
        self.now = now

    def __call__(self):
        self.now += 1e-6
        return self.now


@contextlib.contextmanager
def logged():
    """Context that gives the list of the messages that are logged in it, from level INFO on."""
    found = []

    class Handler(std_logging.Handler):
        def emit(self, record):
            found.append(record.getMessage())

    handler, verbosity = Handler(), logging.get_verbosity()
    logging.set_verbosity(logging.INFO)
    logging.get_absl_logger().addHandler(handler)
    try:
        yield found
    finally:
        logging.get_absl_logger().removeHandler(handler)
        logging.set_verbosity(verbosity)
