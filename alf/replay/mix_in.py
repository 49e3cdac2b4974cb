# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""MixInReplayer: fresh unrolls, and with them some older ones."""

import gin
import tensorflow as tf

from alf.credit import Credit
from alf.errors import check_number
from alf.nest_utils import concat
from alf.replay.one_time import OneTimeReplayer
from alf.replay.replayer import UnrollReplayer
from alf.replay.unroll_ring import UnrollRing


@gin.configurable(module="alf.replay")
class MixInReplayer(UnrollReplayer):
    """Hands out every unroll once, and with them older ones, drawn uniformly with replacement.

    RLlib does the same for IMPALA ("mixin buffer").

    Args:
        unroll_spec: `Experience` of tensor specs of one unroll, [T+1, B, ...], state [B, ...].
        max_unrolls: int; unrolls of a batched environment to draw from, the newest of those handed out.
        replay_proportion: number; older unrolls for each fresh one, on average.

    Raises:
        ConfigError: if a setting is wrong, or the machine has too little memory.
    """

    name = "mix_in"

    def __init__(self, unroll_spec, max_unrolls=100, replay_proportion=0.5):
        check_number("MixInReplayer.replay_proportion", replay_proportion, at_least=0)
        self._fresh = OneTimeReplayer()
        self._older = UnrollRing("MixInReplayer.max_unrolls", unroll_spec, max_unrolls)
        self._oldest = 0  # number of the oldest unroll that `clear` has not forgotten
        self._credit = Credit(replay_proportion)

    def observe(self, experience):
        self._fresh.observe(experience)

    def replay_all(self):
        fresh, num_fresh = self._fresh.replay_all()
        oldest = max(self._oldest, self._older.count - self._older.max_unrolls)
        experience = fresh
        if self._older.count > oldest:
            self._credit.earn(num_fresh)
            num_older = self._credit.take()
            if num_older:
                numbers = tf.random.uniform((num_older,), oldest, self._older.count, tf.int64)
                experience = concat([fresh, self._older.read(numbers)], axis=0)
        self._older.write(fresh)
        return experience, num_fresh

    def num_steps(self):
        return self._fresh.num_steps()

    def clear(self):
        self._fresh.clear()
        self._oldest = self._older.count

    def get_state(self):
        return {"credit": self._credit.get_state()}

    def set_state(self, state):
        if "credit" in state:
            self._credit.set_state(state["credit"])
