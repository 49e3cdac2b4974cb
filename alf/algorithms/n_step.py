# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""NStep: how algorithms with action values learn from replayed sequences."""

from typing import Any, NamedTuple

import tensorflow as tf

from alf.data_structures import FIRST
from alf.errors import ConfigError, check_int, check_number
from alf.ops import returns


class Transitions(NamedTuple):
    """Transitions of n steps, or of fewer where an episode ends. They start in R rows of a sequence.

    Attributes:
        reward: float32 [R, B], the discounted sum of the rewards.
        discount: float32 [R, B], the factor of the value at the end; 0 after a termination.
        end: int32 [R, B], the row where they end, counted from the first row that trains.
        weight: float32 [R, B], in the loss.
    """

    reward: Any
    discount: Any
    end: Any
    weight: Any


class NStep:
    """Makes transitions of n steps from sequences of L + 1 rows, and evaluates networks at both their ends.

    The first `burn_in` rows do not train. They compute the recurrent state with the present weights, because
    the stored state came from older weights (R2D2, Kapturowski et al., ICLR 2019). A transition starts in
    each of the next R = L - burn_in - n + 1 rows. The last n rows have too few steps after them: the
    transitions only end there.

    Args:
        owner: name of the algorithm, for errors.
        discount: gamma, in [0, 1].
        n_step: n, steps of a transition.
        burn_in: rows at the start of a sequence that do not train.
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

    def make_transitions(self, experience):
        """Makes the `Transitions` of an `Experience` of [L+1, B, ...].

        Raises:
            ConfigError: if the sequences are too short.
        """
        b, num_rows = self._burn_in, self._num_rows(experience)
        is_first = tf.equal(experience.step_type, FIRST)
        transitions = returns.n_step_transitions(
            experience.reward[b + 1 :], self._discount * experience.discount[b + 1 :], is_first[b:], self._n
        )
        return Transitions(*(x[:num_rows] for x in (*transitions, experience.weight[b:])))

    def select_starts(self, experience, nest):
        """Selects the rows where transitions start: nest of [L+1, B, ...] -> nest of [R, B, ...]."""
        num_rows = self._num_rows(experience)
        return tf.nest.map_structure(lambda x: x[self._burn_in : self._burn_in + num_rows], nest)

    def evaluate_starts_and_ends(self, network, experience, state, end):
        """Evaluates a network in the rows where transitions start, and in the rows where they end.

        Args:
            network: callable (observation, state, is_first, training) -> (outputs [T, B, ...], state).
            experience: `Experience` of [L+1, B, ...].
            state: nest of [B, ...] that entered row 0.
            end: `Transitions.end`.

        Returns:
            the outputs [R, B, ...] at the starts, and those at the ends, which pass no gradient.
        """
        b, observation = self._burn_in, experience.observation
        if not self._is_recurrent:
            starts = self.select_starts(experience, observation)
            ends = tf.nest.map_structure(lambda x: self._select_ends(x, end), observation)
            return network(starts, (), None, True)[0], tf.stop_gradient(network(ends, (), None, False)[0])
        is_first = tf.equal(experience.step_type, FIRST)
        if b:
            before = tf.nest.map_structure(lambda x: x[:b], observation)
            _, state = network(before, state, is_first[:b], False)
            state = tf.nest.map_structure(tf.stop_gradient, state)
        after = tf.nest.map_structure(lambda x: x[b:], observation)
        outputs, _ = network(after, state, is_first[b:], True)
        num_rows = self._num_rows(experience)
        return outputs[:num_rows], tf.stop_gradient(self._select_ends(outputs, end))

    def _select_ends(self, x, end):
        """Selects the rows where transitions end. Row 0 of `x` is the first row that trains."""
        return x[1:] if self._n == 1 else returns.take_time_steps(x, end)

    def _num_rows(self, experience):
        """R, the number of rows where transitions start."""
        length = experience.step_type.shape[0] - 1
        num_rows = length - self._burn_in - self._n + 1
        if num_rows < 1:
            raise ConfigError(
                f"mini_batch_length is {length}: {self._owner} needs at least burn_in + n_step = "
                f"{self._burn_in} + {self._n}"
            )
        return num_rows
