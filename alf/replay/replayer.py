# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The interfaces of replayers, which keep observed experience until the learner uses it.

An `UnrollReplayer` hands out whole unrolls, most of them once. A `SequenceReplayer` keeps the newest
experience and hands out sequences of time steps, as often as it is asked.
"""

import abc
from typing import Any, NamedTuple

from alf.core.annotations import Array
from alf.data_structures import Experience
from alf.schedules import Progress, Tunable


class Sequences(NamedTuple):
    """The names of N sequences of time steps in a `SequenceReplayer`.

    Attributes:
        env: int64 [N], the index of the batched environment.
        column: int64 [N], the index in [0, B) of an environment in the batch.
        start: int64 [N], the position of the first time step, counted from the environment's first one.
    """

    env: Any
    column: Any
    start: Any


class Replayer(abc.ABC):
    """Base class of both interfaces.

    Replayers are not `tf.Module`s, so checkpoints do not hold their experience. Constructors raise
    ConfigError if a setting is wrong or the machine has too little memory.

    Consecutive unrolls of an environment must be connected: the last time step of one is the first time step
    of the next. Only an unroll that begins with a FIRST step may follow any other.

    Attributes:
        name: str, the name for `make_replayer`.
    """

    name: Any = None

    @abc.abstractmethod
    def observe(self, experience: Experience) -> None:
        """Adds an `Experience` of [Q, T+1, B, ...], Q unrolls in the order of time.

        Raises:
            ConfigError: if it does not fit the specs of the replayer.
        """

    @abc.abstractmethod
    def num_steps(self) -> Array:
        """Returns the number of environment steps that it holds, with steps to FIRST steps; int64 scalar."""

    @abc.abstractmethod
    def clear(self) -> None:
        """Forgets all experience."""

    def check_fits(self, unroll_spec: Experience, num_groups: int, context: int) -> None:  # noqa: B027
        """Raises ConfigError unless it was made for these arguments, the arguments of `make_replayer`."""

    def counts(self) -> dict[str, int]:
        """Returns counts for summaries over the whole run, a dict from name to int. Default: {}."""
        return {}

    def list_tunables(self) -> list[Tunable]:
        """Returns the `Tunable`s among its settings. Default: []."""
        return []

    def get_state(self) -> Any:
        """Returns the Python state that a checkpoint must hold, a dict of JSON types. Default: {}."""
        return {}

    def set_state(self, state: Any) -> None:  # noqa: B027
        """Restores what `get_state` returned. An empty dict changes nothing."""


class UnrollReplayer(Replayer):
    """Base class of replayers that hand out whole unrolls, each as soon as possible.

    Attributes:
        has_more: bool, whether `replay_all` can be called again before anything else is observed.
        draws: class attribute. True if `replay_all` draws random numbers by `alf.ops.draws`: they come from
            the learner's stream then.
    """

    has_more: Any = False
    draws = False

    @abc.abstractmethod
    def replay_all(self) -> tuple[Experience, int]:
        """Hands out experience to train on.

        Returns:
            `Experience` of [Q', T+1, B, ...], and an int: how many of these unrolls are fresh, that is, were
            not handed out before. Fresh unrolls come first.

        Raises:
            RuntimeError: if nothing was observed since the last call and `has_more` is False.
        """

    def divisor(self, num_unrolls: int) -> int:
        """Returns an int that divides Q' if `num_unrolls` were observed since the last call."""
        return num_unrolls


class SequenceReplayer(Replayer):
    """Base class of replayers that hand out sequences, drawn at random or named by the caller.

    A sequence of `length` environment steps, an int, has `length` + 1 time steps. It may contain the end of
    an episode and the beginning of the next, which its step types show. With a recurrent state, sequences
    start where unrolls did. In front of each sequence come `context` more time steps, which data transformers
    need. Methods raise ConfigError if the replayer can never hold a sequence of the given length.

    Attributes:
        row_spec: `Experience` of the specs of one time step of one environment; bounds are kept.
        capacity: int, the number of environment steps that it can hold; None if it has no limit.
        offline: `SequenceReplayer` of experience from files that it mixes in, or None.
    """

    row_spec: Experience
    capacity: Any = None
    offline: Any = None

    @abc.abstractmethod
    def num_sequences(self, length: int) -> Array:
        """Returns the number of sequences from which `sample` draws, int64 scalar. They overlap."""

    @abc.abstractmethod
    def sample(
        self, batch_size: int, length: int, progress: Progress, num_batches: int = 1
    ) -> tuple[Experience, Sequences, Array]:
        """Draws sequences with replacement.

        Args:
            batch_size: int, the number of sequences of a batch.
            length: int, environment steps of each sequence.
            progress: `Progress` of the run, for schedules.
            num_batches: int. N = num_batches * batch_size sequences are drawn, one batch after another.

        Returns:
            experience: `Experience` of [context + length + 1, N, ...]. The sequences begin at index
                `context`, where the recurrent state is `state.train` [N, ...]. `state.transformer` is zeros
                or ().
            sequences: the `Sequences` that were drawn.
            weight: float32 [N], at most 1, a factor of each sequence's loss that corrects for how often the
                sequence is drawn; 1 if all sequences are drawn with the same probability.

        Raises:
            InvalidArgumentError: if it holds no whole sequence yet (`num_sequences` is 0).
        """

    @abc.abstractmethod
    def all_sequences(self, length: int) -> Sequences:
        """Lists `Sequences` that cover the experience without overlap, for one pass over it.

        The sequences of one environment are in the order of time. The oldest steps are left out: `context` of
        each environment and up to `length` - 1 more. With a recurrent state, `length` should be a multiple of
        T.
        """

    @abc.abstractmethod
    def gather(self, sequences: Sequences, length: int) -> Experience:
        """Reads `Sequences` of [N]. Returns an `Experience` of [context + length + 1, N, ...]."""

    def new_sequences(self, length: int) -> Sequences:
        """Lists the `Sequences` that have become whole with the last call of `observe`."""
        raise NotImplementedError

    def update_priorities(self, sequences: Sequences, priorities: Array) -> None:
        """Sets the priorities of `Sequences` of [N]. Replayers without priorities ignore it.

        Args:
            sequences: `Sequences` that `sample` returned.
            priorities: float32 [N], for example the absolute TD errors.

        Raises:
            InvalidArgumentError: if a priority is negative or not finite.
        """

    @abc.abstractmethod
    def save(self, path: str, compress: bool = False) -> None:
        """Writes the experience to a file. Another thread may call `observe` meanwhile.

        Args:
            path: a file there is replaced.
            compress: whether arrays of integers and bools, such as images, are compressed.

        Raises:
            OSError: if the file cannot be written.
        """

    @abc.abstractmethod
    def load(self, path: str) -> None:
        """Replaces the experience by the content of a file, or by its newest part if the file holds more.

        Raises:
            ConfigError: if the file is damaged or does not fit. The replayer has not changed then, or it is
                empty.
        """
