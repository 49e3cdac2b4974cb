# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""NStep: which rows train, where their steps end, and what enters networks before them."""

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms.action_values import NStep
from alf.data_structures import FIRST, LAST, MID, Experience
from alf.errors import ConfigError
from alf.schedules import Progress

L, B = 6, 4
BEGINNING = Progress(0, 0)
STEP_TYPE = np.full((L + 1, B), MID, np.int32)
STEP_TYPE[3, 1], STEP_TYPE[4, 1] = LAST, FIRST  # terminated
STEP_TYPE[3, 2], STEP_TYPE[4, 2] = LAST, FIRST  # truncated
STEP_TYPE[4, 3] = FIRST  # broken off
DISCOUNT = np.ones((L + 1, B), np.float32)
DISCOUNT[3, 1] = 0.0


def make_experience(length=L):
    row = np.arange(L + 1, dtype=np.float32)[:, np.newaxis]
    reward = 10.0**row * np.ones(B, np.float32)  # which rewards are summed can be read off
    weight = 1 + row + np.zeros(B, np.float32)
    observation = {"row": np.broadcast_to(row, (L + 1, B)), "env": np.tile(np.arange(B), (L + 1, 1))}
    rows = Experience(
        step_type=STEP_TYPE,
        reward=reward,
        discount=DISCOUNT,
        observation=observation,
        prev_action=(),
        env_id=(),
        action=(),
        info=(),
        policy_version=(),
        state=(),
        weight=weight,
    )
    return tf.nest.map_structure(lambda x: tf.constant(x[: length + 1]), rows)


class Counter:
    """A network that counts steps since a reset, and notes how it is called."""

    def __init__(self):
        self.calls = []

    def __call__(self, observation, state, is_first, training):
        self.calls.append((observation["row"].shape[0], training))
        row = observation["row"]
        if is_first is None:
            assert state == ()
            return tf.stack([row, tf.cast(observation["env"], tf.float32)], axis=-1), ()
        outputs = []
        for first in tf.unstack(is_first):
            state = tf.where(first, 0.0, state) + 1.0
            outputs.append(state)
        return tf.stack([row, tf.stack(outputs)], axis=-1), state


def test_steps_of_one():
    steps = NStep("A", 0.5, 1, 0, False).make_transitions(make_experience(), BEGINNING)
    valid = STEP_TYPE[1:] != FIRST
    np.testing.assert_array_equal(steps.reward, np.where(valid, 10.0 ** np.arange(1, L + 1)[:, None], 0.0))
    np.testing.assert_array_equal(steps.discount, np.where(valid, 0.5 * DISCOUNT[1:], 0.0))
    np.testing.assert_array_equal(steps.end, np.tile(np.arange(1, L + 1)[:, None], B))
    np.testing.assert_array_equal(steps.weight, np.tile(np.arange(1.0, L + 1)[:, None], B))


def test_steps_of_three_after_a_burn_in():
    # Rows 2 and 3 train of the 6: 3 steps more there must be, and end in row 6.
    steps = NStep("A", 1.0, 3, 2, True).make_transitions(make_experience(), BEGINNING)
    np.testing.assert_array_equal(steps.reward, [[111e3] + [1e3] * 3, [111e4] + [0.0] * 3])
    np.testing.assert_array_equal(steps.discount, [[1, 0, 1, 1], [1, 0, 0, 0]])
    np.testing.assert_array_equal(steps.end[0], [3, 1, 1, 1])
    assert steps.end[1, 0] == 4
    np.testing.assert_array_equal(steps.weight, [[3.0] * B, [4.0] * B])


@pytest.mark.parametrize("n", [1, 3])
def test_without_recurrence_only_what_is_needed_is_evaluated(n):
    experience, network = make_experience(3), Counter()
    n_step = NStep("A", 1.0, n, 0, False)
    steps = n_step.make_transitions(experience, BEGINNING)
    starts, ends = n_step.evaluate_starts_and_ends(network, experience, (), steps.end)
    num_rows = 3 - n + 1
    assert network.calls == [(num_rows, True), (num_rows, False)]
    np.testing.assert_array_equal(starts[..., 0], np.tile(np.arange(num_rows)[:, None], B))
    np.testing.assert_array_equal(ends[..., 0], steps.end)
    np.testing.assert_array_equal(ends[..., 1], np.tile(np.arange(B), (num_rows, 1)))


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("burn_in", [None, 0, 2], ids=["not recurrent", "no burn-in", "burn-in"])
def test_a_network_that_does_not_learn_is_only_evaluated_at_the_ends(n, burn_in):
    experience, network = make_experience(), Counter()
    n_step = NStep("A", 1.0, n, burn_in or 0, burn_in is not None)
    inputs = experience, tf.fill((B,), 100.0), n_step.make_transitions(experience, BEGINNING).end
    starts, ends = n_step.evaluate_starts_and_ends(network, *inputs, learns=False)
    assert starts is None
    np.testing.assert_array_equal(ends, n_step.evaluate_starts_and_ends(Counter(), *inputs)[1])
    assert len(network.calls) == (2 if burn_in else 1)
    assert not any(training for _, training in network.calls)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("burn_in", [0, 2])
def test_with_recurrence_the_state_comes_through_all_rows(n, burn_in):
    experience, network = make_experience(), Counter()
    n_step = NStep("A", 1.0, n, burn_in, True)
    steps = n_step.make_transitions(experience, BEGINNING)
    starts, ends = n_step.evaluate_starts_and_ends(network, experience, tf.fill((B,), 100.0), steps.end)
    num_rows = L - burn_in - n + 1
    assert network.calls == ([(2, False), (5, True)] if burn_in else [(7, True)])
    count = np.zeros((L + 1, B))
    state = np.full(B, 100.0)
    for t in range(L + 1):
        state = np.where(STEP_TYPE[t] == FIRST, 0.0, state) + 1
        count[t] = state
    first, last = burn_in, burn_in + num_rows
    np.testing.assert_array_equal(starts[..., 0], np.tile(np.arange(first, last)[:, None], B))
    np.testing.assert_array_equal(starts[..., 1], count[first:last])
    end = steps.end.numpy() + burn_in
    np.testing.assert_array_equal(ends[..., 0], end)
    np.testing.assert_array_equal(ends[..., 1], np.take_along_axis(count, end, axis=0))


def test_gradients():
    """None into the burn-in, nor from where steps end."""
    experience, weight = make_experience(), tf.Variable(1.0)
    n_step = NStep("A", 1.0, 1, 2, True)

    def network(observation, state, is_first, training):
        states = []
        for row in tf.unstack(observation["row"]):
            state = state + weight * row
            states.append(state)
        return tf.stack(states), state

    with tf.GradientTape(persistent=True) as tape:
        starts, ends = n_step.evaluate_starts_and_ends(
            network, experience, tf.zeros(B), n_step.make_transitions(experience, BEGINNING).end
        )
        first = starts[0, 0]
    assert tape.gradient(ends, weight) is None
    assert tape.gradient(first, weight) == 2.0, "of row 2 alone, not 0 + 1 + 2"


def test_too_short_sequences_are_refused():
    n_step = NStep("Owner", 0.9, 3, 2, True)
    message = r"^mini_batch_length is 4: Owner needs at least burn_in \+ n_step = 2 \+ 3$"
    with pytest.raises(ConfigError, match=message):
        n_step.make_transitions(make_experience(4), BEGINNING)
    assert n_step.make_transitions(make_experience(5), BEGINNING).reward.shape == (1, B)
