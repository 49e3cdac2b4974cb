# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Shared by algorithms with action values: transitions over n steps, and the index of an action."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from alf.core.annotations import Array, Nest
from alf.data_structures import FIRST, Experience
from alf.errors import ConfigError
from alf.ops import returns
from alf.schedules import Progress, ScheduledFloat, as_schedule


class Transitions(NamedTuple):
    """Transitions over n steps, or fewer if an episode ends, which start in R rows of a sequence."""

    reward: Any  # float32 [R, B], the discounted sum of the rewards
    discount: Any  # float32 [R, B], the factor of the value at the end; 0 after a termination
    end: Any  # int32 [R, B], the row where they end, counted from the first row that trains
    weight: Any  # float32 [R, B], the weight in the loss


class NStep(tf.Module):
    """Makes transitions over n steps from sequences of L + 1 rows, and evaluates networks at both their ends.

    Transitions start in the R = L - burn_in - n + 1 rows after the first `burn_in` rows. In the last n rows
    they only end, because too few steps follow.

    Args:
        owner: text, the name of the algorithm for errors.
        discount: number or schedule in [0, 1].
        n_step: int, n.
        burn_in: int, rows at the start of a sequence that only compute the recurrent state.
        is_recurrent: bool, whether there is a recurrent state, which `burn_in` needs.
    """

    def __init__(
        self, owner: str, discount: ScheduledFloat, n_step: int, burn_in: int, is_recurrent: bool
    ) -> None:
        super().__init__(name="n_step")
        self._owner = owner
        self._discount = as_schedule(discount)
        self._n = n_step
        self._burn_in = burn_in
        self._is_recurrent = is_recurrent
        if burn_in and not is_recurrent:
            raise ConfigError(
                f"{owner}.burn_in is {burn_in}: it has no effect without a recurrent network, so set the "
                "network's rnn, such as @GRU, or burn_in to 0"
            )

    def check_length(self, length: int) -> None:
        """Raises ConfigError if sequences of `length` steps have no transition over n steps."""
        if length < self._burn_in + self._n:
            needed = f"burn_in + n_step = {self._burn_in} + {self._n}"
            raise ConfigError(f"mini_batch_length is {length}: {self._owner} needs at least {needed}")

    def make_transitions(self, experience: Experience, progress: Progress) -> Transitions:
        """Makes the `Transitions` of a batch of sequences.

        Args:
            experience: `Experience` of [L+1, B, ...].
            progress: `Progress`, for a schedule of the discount.

        Raises:
            ConfigError: if L is too small.
        """
        b, n, length = self._burn_in, self._n, experience.step_type.shape[0] - 1
        self.check_length(length)
        num_rows = length - b - n + 1
        is_first = tf.equal(experience.step_type, FIRST)
        discount_t = self._discount(progress) * experience.discount[b + 1 :]
        # The environment's discount is 0 only at a termination: after a time limit the value still counts.
        transitions = returns.n_step_transitions(experience.reward[b + 1 :], discount_t, is_first[b:], n)
        # The later rows have fewer than n steps only because the sequence ends, and would mix shorter targets
        # in. The weight of a row is its first step's: it is 0 if that leads into another episode.
        return Transitions(*(x[:num_rows] for x in (*transitions, experience.weight[b:])))

    def select_starts(self, nest: Nest) -> Nest:
        """Selects the rows where transitions start from a nest of [L+1, B, ...]: a nest of [R, B, ...]."""
        return tf.nest.map_structure(lambda x: x[self._burn_in : -self._n], nest)

    def select_ends(self, nest: Nest, end: Array) -> Nest:
        """Selects the rows where transitions end from a nest of [L+1, B, ...]: a nest of [R, B, ...]."""
        return tf.nest.map_structure(lambda x: self._select_ends(x[self._burn_in :], end), nest)

    def _select_ends(self, x, end):  # row 0 of x is the first row that trains
        return x[1:] if self._n == 1 else returns.take_time_steps(x, end)

    def evaluate_starts_and_ends(
        self,
        network: Callable[..., Any],
        experience: Experience,
        state: Nest,
        end: Array,
        learns: bool = True,
    ) -> tuple[Any, Array]:
        """Evaluates a network in the rows where transitions start and in the rows where they end.

        Args:
            network: callable (observation, state, is_first, training) -> (outputs [T, B, ...], state).
            experience: `Experience` of [L+1, B, ...].
            state: nest of [B, ...], the recurrent state at row 0.
            end: `Transitions.end`.
            learns: bool. False for a target network: it is never called with `training`, because layers such
                as batch normalization would then change, and the starts count for nothing.

        Returns:
            the outputs [R, B, ...] at the starts, None without `learns`; and the outputs at the ends, without
            gradient.
        """
        b, observation = self._burn_in, experience.observation
        if not self._is_recurrent:
            # Two calls, because only the one for the starts must keep what the gradient needs.
            ends = self.select_ends(observation, end)
            starts = network(self.select_starts(observation), (), None, True)[0] if learns else None
            return starts, tf.stop_gradient(network(ends, (), None, False)[0])
        is_first = tf.equal(experience.step_type, FIRST)
        # A recurrent network needs all rows in order: one call for the starts and the ends.
        if b:
            before = tf.nest.map_structure(lambda x: x[:b], observation)
            _, state = network(before, state, is_first[:b], False)
            # The rows of the burn-in only bring the state up to date: nothing is learned from them (R2D2).
            state = tf.nest.map_structure(tf.stop_gradient, state)
        after = tf.nest.map_structure(lambda x: x[b:], observation)
        outputs, _ = network(after, state, is_first[b:], learns)
        return outputs[: -self._n] if learns else None, tf.stop_gradient(self._select_ends(outputs, end))


def action_to_index(action: Array, action_spec: Any) -> Array:
    """Converts integers [...] of a bounded scalar spec to indices from 0, int64 [...]."""
    return tf.cast(action, tf.int64) - int(action_spec.minimum)
