# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""FlatPolicy: names, and which inputs are left out."""

import collections

import pytest
import tensorflow as tf

from alf.data_structures import PolicyState, PolicyStep
from alf.policies import Policy
from alf.policies.data_transformers import Pipeline, RewardNormalizer
from alf.policies.flat_policy import FlatPolicy

NUMBER = tf.TensorSpec((), tf.float32)
Pair = collections.namedtuple("Pair", "left right")


class ChosenPolicy(Policy):
    """Its action and its next state are what `choose(time_step, state)` says; it has three states."""

    def __init__(self, choose, observation_spec=NUMBER, action_spec=NUMBER, transformers=()):
        transformer = Pipeline(observation_spec, NUMBER, transformers)
        state_spec = PolicyState(train=(NUMBER,) * 3)
        super().__init__(observation_spec, action_spec, state_spec, data_transformer=transformer)
        self._choose = choose

    def rollout_step(self, time_step, state):
        action, train = self._choose(time_step, state.train)
        return PolicyStep(action, state._replace(train=train))


def names(choose, **kwargs):
    flat = FlatPolicy(ChosenPolicy(choose, **kwargs))
    return " ".join(flat.inputs), " ".join(flat.outputs)


@pytest.mark.parametrize(
    "choose, inputs, outputs",
    [
        (lambda t, s: (t.observation, s), "observation", "action"),
        (lambda t, s: (t.reward, s), "reward observation", "action"),
        (lambda t, s: (t.discount * t.observation, s), "discount observation", "action"),
        (
            lambda t, s: (s[1], (s[0], t.observation, s[2])),
            "step_type observation state_1",
            "action next_state_1",
        ),
        # The action depends on state 1, that on state 0 of the step before.
        (
            lambda t, s: (s[1], (s[0] + t.reward, s[0], s[2])),
            "step_type reward observation state_0 state_1",
            "action next_state_0 next_state_1",
        ),
        (lambda t, s: (t.prev_action, s), "step_type observation state_3", "action next_state_3"),
    ],
)
def test_what_no_action_depends_on_is_left_out(choose, inputs, outputs):
    assert names(choose) == (inputs, outputs)


def test_the_state_of_a_reward_normalizer():
    """Its sums are for its statistics alone."""
    kwargs = {"transformers": [RewardNormalizer]}
    assert names(lambda t, s: (t.observation, s), **kwargs) == ("observation", "action")
    assert names(lambda t, s: (t.reward, s), **kwargs) == ("reward observation", "action")


def test_names_of_parts():
    spec = {"b": (NUMBER, Pair(NUMBER, NUMBER)), "a c": NUMBER}

    def choose(t, s):
        return {"x": t.observation["a c"], "y": [t.observation["b"][0]]}, s

    inputs, outputs = names(choose, observation_spec=spec, action_spec={"x": NUMBER, "y": [NUMBER]})
    assert inputs == "observation_a_c observation_b_0 observation_b_1_left observation_b_1_right"
    assert outputs == "action_x action_y_0"
    spec = {"front camera": NUMBER, "Füße": NUMBER}
    inputs, _ = names(lambda t, s: (t.observation["Füße"], s), observation_spec=spec)
    assert inputs == "observation_F__e observation_front_camera"
    # Two parts of one name.
    spec = {"a": {"b": NUMBER}, "a_b": NUMBER}
    inputs, _ = names(lambda t, s: (t.observation["a_b"], s), observation_spec=spec)
    assert inputs == "observation_0 observation_1"


def test_a_traced_function_computes():
    flat = FlatPolicy(ChosenPolicy(lambda t, s: (s[1], (s[0], t.observation, s[2]))))
    for batch_size in (None, 2):
        function = flat.trace(batch_size)
        state = tf.constant([5.0, 6.0])
        for step_type, expected in (([1, 0], [5, 0]), ([1, 1], [1, 2])):
            step_type = tf.constant(step_type)
            outputs = function(step_type=step_type, observation=tf.constant([1.0, 2.0]), state_1=state)
            assert outputs["action"].numpy().tolist() == expected
            state = outputs["next_state_1"]
