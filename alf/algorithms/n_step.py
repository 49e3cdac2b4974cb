# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""NStep: which rows of a replayed sequence train action values, and on what."""

from typing import Any, NamedTuple

import tensorflow as tf

from alf.data_structures import FIRST
from alf.errors import ConfigError, check_int, check_number
from alf.ops import returns


class Steps(NamedTuple):
    """Transitions of n steps, or fewer where an episode ends, from R rows of a sequence.

    Fields:
        reward: float32 [R, B], the discounted sum of their rewards.
        discount: float32 [R, B], of the value where they end; 0 after a termination.
        end: int32 [R, B], the row where they end, counted from the first one that trains.
        weight: float32 [R, B], in the loss.
    """

    reward: Any
    discount: Any
    end: Any
    weight: Any


class NStep:
    """Transitions of n steps out of sequences of L + 1 rows.

    Rows 0 to burn_in - 1 only bring the recurrent state up to date with the weights of now, as in R2D2
    (Kapturowski et al., ICLR 2019). The R = L - burn_in - n + 1 rows after them train, each on the whole n
    steps; what follows is there to bootstrap.

    Args:
        owner: name of the algorithm, for errors.
        discount: gamma, in [0, 1].
        n_step: n.
        burn_in: rows.
        is_recurrent: whether there is a recurrent state.

    Raises:
        ConfigError: if a setting is wrong.
    """

    def __init__(self, owner, discount, n_step, burn_in, is_recurrent):
        check_number(f"{owner}.discount", discount, at_least=0, at_most=1)
        check_int(f"{owner}.n_step", n_step)
        check_int(f"{owner}.burn_in", burn_in, at_least=0)
        if burn_in and not is_recurrent:
            raise ConfigError(f"{owner}.burn_in is {burn_in}: it has no effect without a recurrent network")
        self._owner = owner
        self._discount = discount
        self._n = n_step
        self._burn_in = burn_in
        self._is_recurrent = is_recurrent

    def steps(self, experience):
        """The `Steps` of an `Experience` of [L+1, B, ...].

        Raises:
            ConfigError: if the sequences are too short.
        """
        b, num_rows = self._burn_in, self._num_rows(experience)
        reward, discount, is_first = (
            x[b:] for x in (experience.reward, experience.discount, tf.equal(experience.step_type, FIRST))
        )
        steps = returns.n_step_transitions(reward[1:], self._discount * discount[1:], is_first, self._n)
        weight = experience.weight[b:]
        return Steps(*(x[:num_rows] for x in (*steps, weight)))

    def starts(self, experience, nest):
        """The rows that train of a nest of [L+1, B, ...]: [R, B, ...]."""
        b = self._burn_in
        num_rows = self._num_rows(experience)
        return tf.nest.map_structure(lambda x: x[b : b + num_rows], nest)

    def at_starts_and_ends(self, network, experience, state, end):
        """What a network makes of the rows that train, and of those where their steps end.

        Args:
            network: callable (observation, state, is_first, training) -> (outputs [T, B, ...], state).
            experience: `Experience` of [L+1, B, ...].
            state: nest of [B, ...] that entered row 0.
            end: of the `Steps`.

        Returns:
            outputs [R, B, ...] with gradients, and outputs [R, B, ...] without.
        """
        if not self._is_recurrent:
            starts = self.starts(experience, experience.observation)
            ends = tf.nest.map_structure(lambda x: self._at(x, end), experience.observation)
            return network(starts, (), None, True)[0], tf.stop_gradient(network(ends, (), None, False)[0])
        outputs = self._unrolled(network, experience, state)
        return outputs[: self._num_rows(experience)], tf.stop_gradient(self._at(outputs, end))

    def _unrolled(self, network, experience, state):
        """Outputs of the rows after the burn-in."""
        b, is_first = self._burn_in, tf.equal(experience.step_type, FIRST)
        before, after = (
            tf.nest.map_structure(lambda x, rows=rows: x[rows], experience.observation)
            for rows in (slice(b), slice(b, None))
        )
        if b:
            _, state = network(before, state, is_first[:b], False)
            state = tf.nest.map_structure(tf.stop_gradient, state)
        return network(after, state, is_first[b:], True)[0]

    def _at(self, x, end):
        """The rows of `x`, which begins with the first one that trains, where the steps end."""
        return x[1:] if self._n == 1 else returns.take_time_steps(x, end)

    def _num_rows(self, experience):
        length = experience.step_type.shape[0] - 1
        num_rows = length - self._burn_in - self._n + 1
        if num_rows < 1:
            raise ConfigError(
                f"mini_batch_length is {length}: {self._owner} needs at least burn_in + n_step = "
                f"{self._burn_in} + {self._n}"
            )
        return num_rows
