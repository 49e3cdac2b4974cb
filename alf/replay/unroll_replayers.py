# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The replayers that hand out whole unrolls."""

from typing import Any

import tensorflow as tf

from alf.config.kinds import NonNegativeFloat, PositiveInt
from alf.config.settings import configurable
from alf.core.annotations import Array
from alf.core.credit import Credit
from alf.core.nest_utils import concat
from alf.core.tf_runtime import GraphFunction
from alf.data_structures import FIRST, Experience
from alf.ops import draws
from alf.replay.replayer import UnrollReplayer
from alf.replay.storage import allocate, check_experience, check_unroll_spec, read_at, write_at

_NOTHING_OBSERVED = "there is nothing to train on: observe() must come before train()"


@configurable("alf.replay")
class OneTimeReplayer(UnrollReplayer):
    """Hands out each unroll once."""

    name = "one_time"

    def __init__(self) -> None:
        self._observed = []

    def observe(self, experience: Experience) -> None:
        # Kept without a copy: nobody changes the tensors of a batch.
        self._observed.append(experience)

    def replay_all(self) -> tuple[Experience, int]:
        if not self._observed:
            raise RuntimeError(_NOTHING_OBSERVED)
        observed, self._observed = self._observed, []
        # A single batch is handed out without a copy.
        experience = observed[0] if len(observed) == 1 else concat(observed, axis=0)
        return experience, experience.step_type.shape[0]

    def num_steps(self) -> Array:
        return _count_steps(self._observed)

    def clear(self) -> None:
        self._observed = []


@configurable("alf.replay")
class CyclicOneTimeReplayer(UnrollReplayer):
    """Hands out each unroll once, in memory that does not grow: if too many wait, it drops the oldest.

    Checkpoints hold the counts of dropped unrolls and steps, but not the unrolls that wait.

    Args:
        unroll_spec: `Experience` of tensor specs of one unroll, [T+1, B, ...], state [B, ...].
        max_unrolls: int, how many unrolls of batched environments may wait.

    Attributes:
        num_dropped: int, unrolls that were dropped and never handed out.
        num_dropped_steps: int, the environment steps in these unrolls, without steps to FIRST steps.
    """

    name = "cyclic_one_time"

    def __init__(self, unroll_spec: Experience, max_unrolls: PositiveInt = 100) -> None:
        self._ring = _UnrollRing("CyclicOneTimeReplayer.max_unrolls", unroll_spec, max_unrolls)
        num_time_steps, batch_size = unroll_spec.step_type.shape
        self._steps_per_unroll = (num_time_steps - 1) * batch_size
        self.num_dropped = self.num_dropped_steps = 0
        self._waiting = []  # the number of environment steps of each unroll in the ring

    def observe(self, experience: Experience) -> None:
        self._ring.write(experience)
        # Rows that lead to a FIRST step are not steps of the environment.
        steps = tf.math.count_nonzero(tf.not_equal(experience.step_type[:, 1:], FIRST), axis=(1, 2))
        # Counted now, because an unroll that is dropped later has been overwritten by then.
        self._waiting += steps.numpy().tolist()
        # The ring has overwritten its oldest unrolls; the difference to what should wait was dropped.
        num_dropped = len(self._waiting) - (self._ring.count - self._ring.first)
        self.num_dropped += num_dropped
        self.num_dropped_steps += sum(self._waiting[:num_dropped])
        del self._waiting[:num_dropped]

    def replay_all(self) -> tuple[Experience, int]:
        num_fresh = self._ring.count - self._ring.first
        if not num_fresh:
            raise RuntimeError(_NOTHING_OBSERVED)
        experience = self._ring.read(tf.range(self._ring.first, self._ring.count, dtype=tf.int64))
        self.clear()
        return experience, num_fresh

    def divisor(self, num_unrolls: int) -> int:
        return min(num_unrolls, self._ring.max_unrolls)

    def num_steps(self) -> Array:
        return tf.constant((self._ring.count - self._ring.first) * self._steps_per_unroll, tf.int64)

    def clear(self) -> None:
        self._ring.clear()
        self._waiting = []

    def check_fits(self, unroll_spec: Experience, num_groups: int, context: int) -> None:
        self._ring.check_fits(self.name, unroll_spec)

    def counts(self) -> dict[str, int]:
        return {"dropped_steps": self.num_dropped_steps}

    def get_state(self) -> Any:
        return {"dropped": [self.num_dropped, self.num_dropped_steps]}

    def set_state(self, state: Any) -> None:
        if "dropped" in state:
            self.num_dropped, self.num_dropped_steps = state["dropped"]


@configurable("alf.replay")
class MixInReplayer(OneTimeReplayer):
    """Hands out each unroll once, together with older ones, drawn uniformly with replacement.

    RLlib's IMPALA does the same with its mixin buffer.

    Args:
        unroll_spec: `Experience` of tensor specs of one unroll, [T+1, B, ...], state [B, ...].
        max_unrolls: int; older unrolls are drawn from the newest `max_unrolls` that were handed out.
        replay_proportion: number, the average number of older unrolls for each fresh one.
    """

    name = "mix_in"
    draws = True

    def __init__(
        self,
        unroll_spec: Experience,
        max_unrolls: PositiveInt = 100,
        replay_proportion: NonNegativeFloat = 0.5,
    ) -> None:
        super().__init__()
        self._older = _UnrollRing("MixInReplayer.max_unrolls", unroll_spec, max_unrolls)
        self._credit = Credit(replay_proportion)

    def replay_all(self) -> tuple[Experience, int]:
        fresh, num_fresh = super().replay_all()
        experience = fresh
        if self._older.count > self._older.first:
            self._credit.earn(num_fresh)
            # A fraction of an unroll is carried to the next batch, and not rounded away.
            num_older = self._credit.take()
            if num_older:
                numbers = draws.integers((num_older,), self._older.first, self._older.count)
                experience = concat([fresh, self._older.read(numbers)], axis=0)
        # Written after the draw, or a fresh unroll could be drawn as an older one of the same batch.
        self._older.write(fresh)
        return experience, num_fresh

    def divisor(self, num_unrolls: int) -> int:
        # The number of older unrolls differs from batch to batch, so nothing more is sure.
        return 1

    def clear(self) -> None:
        super().clear()
        # Older unrolls, too: `Learner.note_copied_weights` clears the replayer to get rid of steps of other
        # weights.
        self._older.clear()

    def check_fits(self, unroll_spec: Experience, num_groups: int, context: int) -> None:
        self._older.check_fits(self.name, unroll_spec)

    def get_state(self) -> Any:
        return {"credit": self._credit.get_state()}

    def set_state(self, state: Any) -> None:
        if "credit" in state:
            self._credit.set_state(state["credit"])


@configurable("alf.replay")
class MultiPassReplayer(OneTimeReplayer):
    """Hands out each batch several times, alternating with other batches.

    This is the minibatch buffer of RLlib's IMPALA. A batch holds the unrolls that were observed since the
    last fresh batch. There are `num_batches` slots, which are visited in turn. An empty slot takes the fresh
    batch; each visit hands out the batch of the slot, which is removed after `num_passes` visits.
    `Learner.train` trains on the fresh batch, then on the batches of the next slots until one is empty. So
    the learner uses each batch `num_passes` times, with updates from other batches in between, and each time
    for `UnrollLearner.num_epochs` epochs.

    Args:
        num_batches: int, the number of slots; with 1, the passes over a batch follow one another. RLlib's
            `minibatch_buffer_size`.
        num_passes: int, how often each batch is handed out. RLlib's `num_sgd_iter`.
    """

    name = "multi_pass"

    def __init__(self, num_batches: PositiveInt = 2, num_passes: PositiveInt = 2) -> None:
        super().__init__()
        self._num_passes = num_passes
        # None, or a pair: an `Experience` and the number of passes over it so far.
        # A slot refers to the tensors that were observed, which stay in memory until its last pass.
        self._slots: list[Any] = [None] * num_batches
        self._turn = 0

    @property
    def has_more(self) -> bool:
        return self._slots[self._turn] is not None

    def replay_all(self) -> tuple[Experience, int]:
        if self.has_more:
            # Nothing of it is fresh, so the learner does not count its environment steps again.
            (experience, passes), num_fresh = self._slots[self._turn], 0
        else:
            (experience, num_fresh), passes = super().replay_all(), 0
        passes += 1
        # After its last pass the slot is empty. The next visit fills it with a fresh batch, or ends the
        # training iteration.
        self._slots[self._turn] = (experience, passes) if passes < self._num_passes else None
        self._turn = (self._turn + 1) % len(self._slots)
        return experience, num_fresh

    def num_steps(self) -> Array:
        held = [slot[0] for slot in self._slots if slot is not None]
        return super().num_steps() + _count_steps(held)

    def clear(self) -> None:
        super().clear()
        # The turn stays where it is: empty slots are all alike.
        self._slots = [None] * len(self._slots)


def _count_steps(experiences):
    """Counts the environment steps in a list of `Experience`s of [Q, T+1, B, ...], int64 scalar."""
    shapes = [experience.step_type.shape for experience in experiences]
    return tf.constant(sum(q * (num_time_steps - 1) * b for q, num_time_steps, b in shapes), tf.int64)


class _UnrollRing:
    """A ring buffer of the newest `max_unrolls` unrolls, which are numbered from the first one written.

    Attributes:
        first, count: ints; it holds the unrolls with the numbers first, first + 1, ... count - 1.
        max_unrolls: int, the argument.
    """

    def __init__(self, setting, unroll_spec, max_unrolls):
        self.first = self.count = 0
        self.max_unrolls = max_unrolls
        self._spec = unroll_spec
        self._unrolls = allocate(f"{setting} is {max_unrolls}", max_unrolls, unroll_spec)
        self._write = GraphFunction(self._write_unrolls, reduce_retracing=True)

    def write(self, experience):
        """Adds an `Experience` of [Q, T+1, B, ...]."""
        # The count goes into the graph as a tensor: a Python number would need a trace for every call.
        count = self.count + experience.step_type.shape[0]
        self._write((experience, tf.constant(count, tf.int64)))
        # After the write: a batch that does not fit the spec is refused there, and nothing has changed.
        self.count = count
        self.first = max(self.first, count - self.max_unrolls)

    def clear(self):
        self.first = self.count  # the memory stays, and the numbers go on

    def check_fits(self, name, unroll_spec):
        """Raises ConfigError unless it can hold unrolls of a spec. `name` is the replayer's name."""
        check_unroll_spec(name, self._spec, unroll_spec)

    @tf.function(autograph=False, reduce_retracing=True)
    def read(self, numbers):
        """Returns the unrolls with the numbers int64 [Q], an `Experience` of [Q, T+1, B, ...]."""
        # A copy, so an `observe` that overwrites these places does not change a batch.
        return read_at(self._unrolls, numbers % self.max_unrolls)

    def _write_unrolls(self, inputs):
        experience, count = inputs
        check_experience(experience, self._spec)
        # More unrolls than the ring holds would write some places twice, in an undefined order.
        newest = tf.nest.map_structure(lambda x: x[-self.max_unrolls :], experience)
        num_unrolls = tf.shape(newest.step_type, tf.int64)[0]
        write_at(self._unrolls, tf.range(count - num_unrolls, count) % self.max_unrolls, newest)
