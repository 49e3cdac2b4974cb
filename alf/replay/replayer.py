# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The two interfaces of what keeps observed experience until it is trained on.

An `UnrollReplayer` hands out whole unrolls, most of them once. A `SequenceReplayer` keeps the newest
experience and hands out sequences of time steps, as often as it is asked.
"""

import abc
from typing import Any, NamedTuple

from alf.core.annotations import Array
from alf.data_structures import Experience
from alf.schedules import Progress, Tunable


class Sequences(NamedTuple):
    """Names sequences of time steps in a `SequenceReplayer`.

    Attributes:
        env, column: int64 [N]; index of the batched environment, and which of its B environments.
        start: int64 [N]; position of the first time step, counted from the environment's first one.
    """

    env: Any
    column: Any
    start: Any


class Replayer(abc.ABC):
    """What both interfaces share.

    A replayer is no `tf.Module`: a checkpoint does not hold its experience. Constructors raise ConfigError if
    a setting is wrong, or the machine has too little memory.

    Consecutive unrolls of an environment must be connected: the last time step of one is the first time step
    of the next. Only an unroll that begins with a FIRST step may follow any other.

    Attributes:
        name: str; what `make_replayer` calls it.
    """

    name: Any = None

    @abc.abstractmethod
    def observe(self, experience: Experience) -> None:
        """Adds `Experience` of [Q, T+1, B, ...], Q unrolls in the order of time.

        ConfigError says that it does not have the specs of the replayer.
        """

    @abc.abstractmethod
    def num_steps(self) -> Array:
        """Counts the environment steps that it holds now; int64 scalar. Steps to a FIRST step count too."""

    @abc.abstractmethod
    def clear(self) -> None:
        """Forgets all experience."""

    def check_fits(self, unroll_spec: Experience, num_envs: int, context: int) -> None:  # noqa: B027
        """Raises ConfigError unless it was made for these arguments, which are as in `make_replayer`."""

    def counts(self) -> dict[str, int]:
        """Returns what to show, a dict of ints by name, of all runs in a root_dir; here an empty one."""
        return {}

    def list_tunables(self) -> list[Tunable]:
        """Returns the `Tunable`s among its settings; here none."""
        return []

    def get_state(self) -> Any:
        """Returns the Python state that a checkpoint must hold: a dict of JSON types, here an empty one."""
        return {}

    def set_state(self, state: Any) -> None:  # noqa: B027
        """Restores what `get_state` returned. An empty dict changes nothing."""


class UnrollReplayer(Replayer):
    """Hands out whole unrolls, each as soon as possible.

    Attributes:
        has_more: bool, whether `replay_all` has more to hand out before anything else is observed.
    """

    has_more: Any = False

    @abc.abstractmethod
    def replay_all(self) -> tuple[Experience, int]:
        """Returns `Experience` of [Q', T+1, B, ...] to train on, and an int: the number of fresh unrolls.

        These come first; no call has handed them out before. RuntimeError says that nothing was observed
        since the last call, and there is no more.
        """

    def divisor(self, num_unrolls: int) -> int:
        """Returns a number that divides Q' whenever `num_unrolls` were observed since the last call."""
        return num_unrolls


class SequenceReplayer(Replayer):
    """Keeps experience and hands out sequences of it, drawn at random or named by the caller.

    A sequence of `length` environment steps, an int, has `length` + 1 time steps. ConfigError says that the
    replayer can never hold a sequence of this length. A sequence may hold the end of an episode and the
    beginning of the next: its step types tell. With a recurrent state, sequences start where unrolls did. In
    front of each sequence come `context` more time steps, which data transformers need.

    Attributes:
        row_spec: `Experience` of the specs of one time step of one environment; bounds are kept.
        capacity: int, the most environment steps that it can hold; None if it knows no limit.
        offline: `SequenceReplayer` of a part that was full from the beginning, or None.
    """

    row_spec: Experience
    capacity: Any = None
    offline: Any = None

    @abc.abstractmethod
    def num_sequences(self, length: int) -> Array:
        """Counts the sequences that `sample` chooses from; int64 scalar. They overlap."""

    @abc.abstractmethod
    def sample(self, batch_size: int, length: int, progress: Progress) -> tuple[Experience, Sequences, Array]:
        """Draws `batch_size` (int) sequences with replacement; `progress` is `alf.schedules.Progress`.

        InvalidArgumentError says that it holds no whole sequence yet; `num_sequences` tells before.

        Returns:
            `Experience` of [context + length + 1, batch_size, ...]. A sequence begins at index `context`.
            `state.train` [batch_size, ...] is the state that entered there. `state.transformer` is not
            stored: it is zeros or ().
            The `Sequences` that were drawn.
            float32 [batch_size], at most 1; the factor of each sequence's loss, which corrects for how often
            the sequence is drawn. 1 where all sequences are drawn equally often.
        """

    @abc.abstractmethod
    def all_sequences(self, length: int) -> Sequences:
        """Lists `Sequences` that cover the experience without overlap, for one pass over it.

        Those of one environment are in the order of time. The oldest steps are left out: `context` of each
        environment and up to `length` - 1 more. With a recurrent state, `length` should be a multiple of T.
        """

    @abc.abstractmethod
    def gather(self, sequences: Sequences, length: int) -> Experience:
        """Reads `Sequences` of [N]; returns `Experience` of [context + length + 1, N, ...], as `sample`."""

    def update_priorities(self, sequences: Sequences, priorities: Array) -> None:
        """Sets how much there is to learn from `Sequences` of [N]. Kinds without priorities ignore it.

        `priorities` is float32 [N], for example the size of TD errors. InvalidArgumentError says that one
        is negative or not finite.
        """

    @abc.abstractmethod
    def save(self, path: str, compress: bool = False) -> None:
        """Writes the experience to a file, compressed or not, see `alf.replay.buffer_file.save`.

        Another thread may observe meanwhile. OSError says that it failed.
        """

    @abc.abstractmethod
    def load(self, path: str) -> None:
        """Replaces the experience by that of a file. A smaller replayer keeps the newest part.

        ConfigError says that the file is damaged or does not fit; the replayer has not changed then.
        """
