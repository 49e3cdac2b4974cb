# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""MixInReplayer: what is new, and some of what is older."""

from fractions import Fraction

import gin
import tensorflow as tf

from alf.errors import check_int, check_number
from alf.replay.one_time import OneTimeReplayer, join_unrolls
from alf.replay.replayer import Replayer
from alf.replay.storage import check_memory, num_bytes
from alf.replay.unroll_ring import UnrollRing


@gin.configurable(module="alf.replay")
class MixInReplayer(Replayer):
    """Hands out every unroll once, and with them older ones, drawn uniformly with replacement.

    As RLlib does for IMPALA ("mixin buffer").

    Args:
        unroll_spec, num_envs, context: as in `make_replayer`.
        capacity: int; unrolls of a batched environment to draw from, the newest of those handed out.
        replay_proportion: number; older unrolls for each new one, on average.
    """

    name = "mix_in"

    def __init__(self, unroll_spec, num_envs, context=0, capacity=100, replay_proportion=0.5):
        check_int("MixInReplayer.capacity", capacity)
        check_number("MixInReplayer.replay_proportion", replay_proportion, at_least=0)
        check_memory("MixInReplayer.capacity", capacity, capacity * num_bytes(unroll_spec))
        self._fresh = OneTimeReplayer(unroll_spec, num_envs, context)
        self._older = UnrollRing(unroll_spec, capacity)
        self._oldest = 0  # number of the oldest unroll to draw from
        # Exactly: floats would lose an unroll now and then.
        self._proportion = Fraction(str(replay_proportion))
        self._credit = Fraction(0)  # older unrolls that are owed

    def observe(self, experience):
        self._fresh.observe(experience)

    def replay_all(self):
        fresh, num_fresh = self._fresh.replay_all()
        oldest = max(self._oldest, self._older.count - self._older.capacity)
        num_older = 0
        if self._older.count > oldest:
            self._credit += self._proportion * num_fresh
            num_older = int(self._credit)
            self._credit -= num_older
        experience = fresh
        if num_older:
            numbers = tf.random.uniform((num_older,), oldest, self._older.count, tf.int64)
            experience = join_unrolls([fresh, self._older.read(numbers)])
        self._older.write(fresh)
        return experience, num_fresh

    def num_steps(self):
        return self._fresh.num_steps()

    def clear(self):
        self._fresh.clear()
        self._oldest = self._older.count
