# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""OneTimeReplayer: experience is learned from once."""

import gin
import tensorflow as tf

from alf.nest_utils import concat
from alf.replay.replayer import UnrollReplayer

NOTHING_OBSERVED = "there is nothing to train on: observe() must come before train()"


@gin.configurable(module="alf.replay")
class OneTimeReplayer(UnrollReplayer):
    """Keeps what it observes until `replay_all` hands it out, once."""

    name = "one_time"

    def __init__(self):
        self._observed = []

    def observe(self, experience):
        self._observed.append(experience)

    def replay_all(self):
        if not self._observed:
            raise RuntimeError(NOTHING_OBSERVED)
        observed, self._observed = self._observed, []
        experience = observed[0] if len(observed) == 1 else concat(observed, axis=0)
        return experience, experience.step_type.shape[0]

    def num_steps(self):
        steps = 0
        for experience in self._observed:
            num_unrolls, num_time_steps, batch_size = experience.step_type.shape
            steps += num_unrolls * (num_time_steps - 1) * batch_size
        return tf.constant(steps, tf.int64)

    def clear(self):
        self._observed = []
