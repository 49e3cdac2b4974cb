# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Replayer: the interface of all that keeps observed experience until it is trained on."""

import abc
from typing import Any, NamedTuple

from alf.errors import ConfigError

ONE_TIME = ("one_time", "cyclic_one_time", "mix_in")
BUFFERS = ("uniform", "prioritized")


class Sequences(NamedTuple):
    """Which sequences of time steps, of those that a buffer holds.

    Fields:
        env: int64 [N]; index of the batched environment.
        column: int64 [N]; which of its B environments.
        start: int64 [N]; the first time step, counted from the environment's first one.
    """

    env: Any
    column: Any
    start: Any


class Sample(NamedTuple):
    """How a batch was sampled.

    Fields:
        sequences: `Sequences` of [B].
        weight: float32 [B]; the factor of each sequence's loss, at most 1, that makes up for how often it is
            drawn. 1 where all are drawn equally often.
    """

    sequences: Any
    weight: Any


class Replayer(abc.ABC):
    """Keeps observed experience until it is trained on.

    There are two families. The one-time kinds give whole unrolls, through `replay_all`; buffers give
    sequences of time steps, through `sample` or `gather`. What a kind cannot do raises a `ConfigError`.

    It is no `tf.Module`: what it holds is not in a checkpoint. A buffer has files of its own.

    Consecutive unrolls of an environment must follow upon each other (row T of one is row 0 of the next),
    or begin with a FIRST step.
    """

    name = None  # what `make_replayer` calls it
    is_buffer = False  # whether it gives sequences of time steps

    @abc.abstractmethod
    def observe(self, experience):
        """Adds an `Experience` of [Q, T+1, B, ...], Q unrolls in the order of their time."""

    @abc.abstractmethod
    def num_steps(self):
        """Environment steps that are held now, int64 scalar; those that lead to a FIRST step included."""

    @abc.abstractmethod
    def clear(self):
        """Forgets everything."""

    def replay_all(self):
        """Hands out unrolls to train on.

        Returns:
            `Experience` of [Q', T+1, B, ...], and an int: how many of its unrolls, the leading ones, were
            never handed out before.

        Raises:
            RuntimeError: if nothing was observed since the last call.
        """
        raise self._cannot("replay_all", ONE_TIME)

    def sample(self, batch_size, length, progress):
        """Draws sequences of `length` steps, with replacement; also inside a `tf.function`.

        A sequence may hold the end of an episode and the begin of the next: its step types tell. With a
        recurrent state, sequences start where unrolls did.

        Args:
            batch_size: int; how many.
            length: int; in environment steps.
            progress: `alf.schedules.Progress`.

        Returns:
            `Experience` of [context + length + 1, batch_size, ...], in which the sequence begins at row
            `context`, and a `Sample`. `state.train` [batch_size, ...] entered row `context`;
            `state.transformer` is zeros.

        Raises:
            InvalidArgumentError: if there is no whole sequence yet: ask `num_sequences` before.
            ConfigError: if the buffer can never hold one.
        """
        raise self._cannot("sample", BUFFERS)

    def num_sequences(self, length):
        """How many sequences of `length` steps, which overlap, `sample` chooses from; int64 scalar."""
        raise self._cannot("sample", BUFFERS)

    def all_sequences(self, length):
        """Sequences of `length` steps that cover the buffer without overlap, for one pass over it.

        Up to `length` - 1 of the oldest steps are left out, and `context` more. With a recurrent state
        `length` should be a multiple of T.

        Returns:
            `Sequences`, of each environment in the order of their time.
        """
        raise self._cannot("give all sequences", BUFFERS)

    def gather(self, sequences, length):
        """Reads sequences, as `sample` returns them.

        Args:
            sequences: `Sequences` of [N].
            length: int; in environment steps.

        Returns:
            `Experience` of [context + length + 1, N, ...].
        """
        raise self._cannot("gather", BUFFERS)

    def update_priorities(self, sequences, priorities):
        """Tells how much there is to learn from sequences. Kinds without priorities ignore it.

        Args:
            sequences: `Sequences` of [N].
            priorities: float32 [N], finite and not negative, the TD errors' size for instance.
        """
        del sequences, priorities

    def save(self, path):
        """Writes what is held to a file; also from another thread, while experience is observed.

        See `alf.replay.buffer_file` for the format.
        """
        raise self._cannot("be saved", BUFFERS)

    def load(self, path):
        """Replaces what is held by a file's content, of which a smaller buffer keeps the newest part.

        Raises:
            ConfigError: if the file is damaged or does not fit; nothing has changed then.
        """
        raise self._cannot("be loaded", BUFFERS)

    def _cannot(self, what, kinds):
        kinds = " or ".join(repr(kind) for kind in kinds)
        return ConfigError(f"exp_replayer is {self.name!r}, which cannot {what}: {kinds} can")
