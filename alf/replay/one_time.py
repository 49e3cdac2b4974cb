# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""OneTimeReplayer: experience is learned from once."""

import tensorflow as tf

from alf.replay.replayer import Replayer


class OneTimeReplayer(Replayer):
    """Keeps what was observed until `replay_all` hands it out, once.

    Args:
        unroll_spec, num_envs, context: as in `make_replayer`; not needed.
    """

    name = "one_time"

    def __init__(self, unroll_spec, num_envs, context=0):
        del unroll_spec, num_envs, context
        self._observed = []

    def observe(self, experience):
        self._observed.append(experience)

    def replay_all(self):
        if not self._observed:
            raise nothing_to_train_on()
        observed, self._observed = self._observed, []
        num_fresh = sum(x.step_type.shape[0] for x in observed)
        if len(observed) == 1:
            return observed[0], num_fresh
        return join_unrolls(observed), num_fresh

    def num_steps(self):
        steps = 0
        for experience in self._observed:
            num_unrolls, rows, batch_size = experience.step_type.shape
            steps += num_unrolls * (rows - 1) * batch_size
        return tf.constant(steps, tf.int64)

    def clear(self):
        self._observed = []


def nothing_to_train_on():
    return RuntimeError("there is nothing to train on: observe() must come before train()")


def join_unrolls(experiences):
    """Makes one `Experience` of several of [Q, T+1, B, ...]."""
    return tf.nest.map_structure(lambda *x: tf.concat(x, axis=0), *experiences)
