# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Action masks that allow no action, or are none, are one line before a policy acts on them."""

import functools
from collections.abc import Mapping
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

import alf
from alf.core.nest_utils import BoundedTensorSpec
from alf.data_structures import FIRST, LAST, MID, EnvStep
from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.drivers.mask_check import MaskCheck
from alf.environments import PythonEnvironment
from alf.errors import EnvError
from alf.networks import ActorCriticNetwork, QValueNetwork
from alf.policies import ActorCriticPolicy, EpsilonGreedyPolicy
from tests.training.masks_training_test import Doors

VECTOR = tf.TensorSpec((2,), tf.float32)
ONE = BoundedTensorSpec((), tf.int64, 0, 2)
TWO = BoundedTensorSpec((2,), tf.int64, [0, 0], [1, 2])
MIXED = {"x": ONE, "y": BoundedTensorSpec((1,), tf.float32, -1.0, 1.0)}
NAN, INF = float("nan"), float("inf")


def make_policy(action_spec=ONE, dtype=tf.float32, key="mask", **kwargs):
    size = 5 if action_spec is TWO else 3
    mask = tf.TensorSpec((size,), dtype)
    spec = {"seen": VECTOR, "mask": {"x": mask} if action_spec is MIXED else mask}
    network = functools.partial(ActorCriticNetwork, fc_layer_params=(4,))
    return ActorCriticPolicy(spec, action_spec, network, action_mask_key=key, **kwargs)


def make_step(masks, step_type, is_nested=False):
    masks = np.array(masks, np.float32)
    count = len(masks)
    zeros = np.zeros(count, np.float32)
    observation = {"seen": np.zeros((count, 2), np.float32), "mask": {"x": masks} if is_nested else masks}
    return EnvStep(np.array(step_type, np.int32), zeros, zeros + 1, observation)


def check(policy, *steps, **attributes):
    """Checks steps of an environment; a step is a list of masks and one of step types."""
    env = SimpleNamespace(batch_size=len(steps[0][0]), **attributes)
    check_one = MaskCheck("env", env, policy)
    for masks, step_type in steps:
        check_one(make_step(masks, step_type, isinstance(policy.action_spec, Mapping)))


FINE = [1, 0, 1]
SHUT = "the action mask 'mask' allows no action, which only the last step of an episode may do"
ODD = "the action mask 'mask' has a number below 0, or NaN: it must be 1 or 0 for each action"


@pytest.mark.parametrize("step_type", [FIRST, MID])
@pytest.mark.parametrize(
    "action_spec, fine, mask, message",
    [
        (ONE, FINE, [0, 0, 0], SHUT),
        (MIXED, FINE, [0, 0, 0], SHUT),
        (TWO, [0, 1, 1, 0, 0], [1, 1, 0, 0, 0], SHUT),  # one of the two integers has no choice
        (TWO, [1, 0, 0, 0, 1], [0, 0, 1, 0, 1], SHUT),
        (ONE, FINE, [0, NAN, 1], ODD),
        (ONE, FINE, [0, -INF, 0], ODD),  # as it is added to logits: it would mean the contrary
        (ONE, FINE, [0, -1, 1], ODD),
    ],
)
def test_a_mask_that_is_wrong_names_row_and_step(action_spec, fine, mask, message, step_type):
    begin = ([fine, fine], [FIRST, FIRST])
    for row in (0, 1):
        masks, types = [fine, fine], [MID, MID]
        masks[row], types[row] = mask, step_type
        with pytest.raises(EnvError) as error:
            check(make_policy(action_spec), begin, ([fine] * 2, [MID] * 2), (masks, types))
        step = 0 if step_type == FIRST else 2
        assert str(error.value) == f"env, row {row}, step {step} of its episode: {message}"


def test_masks_that_are_right_pass():
    policy = make_policy()
    steps = [([FINE, [0, 0, 1]], [FIRST] * 2), ([[0, 0, 0], [2, 0, 0]], [LAST, MID])]
    check(policy, *steps)
    # Without a key nobody heeds them.
    check(make_policy(key=None), ([[0, 0, 0]] * 2, [MID] * 2))
    # An agent of a game that is not in it has FIRST steps and a blank observation.
    game = dict(agents=("a", "b"), game_begins=np.array([True]))
    check(policy, ([FINE, [0, 0, 0]], [FIRST] * 2), **game)
    with pytest.raises(EnvError, match="^env, row 1 .agent 'b'., step 1 of its episode: the action mask"):
        check(policy, ([FINE, FINE], [FIRST] * 2), ([FINE, [0, 0, 0]], [MID] * 2), **game)


def test_a_row_of_several_policies_is_checked_for_its_own():
    group = SimpleNamespace(policies={"heeds": make_policy(), "does not": make_policy(key=None)})
    env = SimpleNamespace(batch_size=2, policies=tuple(group.policies))
    check_one, step = MaskCheck("env", env, group), make_step([[0, 0, 0], FINE], [MID, MID])
    for owner, is_wrong in ([1, 0], False), ([0, 1], True):
        observed = {"observation": step.observation, "owner": np.array(owner, np.int32)}
        if not is_wrong:
            check_one(step._replace(observation=observed))
            continue
        with pytest.raises(EnvError, match="^env, row 0, step 2 of its episode: the action mask "):
            check_one(step._replace(observation=observed))


class Shut(Doors):
    """As `Doors`, but in step 3 of an episode no door is open."""

    def _observe(self, is_over=False):
        observation = super()._observe(is_over)
        if self._length == 3 and not is_over:
            observation["doors"][:] = 0
        return observation


class OfAnotherShape(Doors):
    def _observe(self, is_over=False):
        observation = super()._observe(is_over)
        return {**observation, "doors": observation["doors"][: 4 - (self._length == 3)]}


class OfTexts(Doors):
    def _observe(self, is_over=False):
        observation = super()._observe(is_over)
        return {**observation, "doors": np.array(list("1010"))} if self._length == 3 else observation


SHUT_LINE = "row 0, step 3 of its episode: the action mask 'doors' allows no action"


@pytest.mark.parametrize("driver", [SyncOffPolicyDriver, AsyncOffPolicyDriver])
@pytest.mark.parametrize(
    "cls, message",
    [
        (Shut, rf"^envs\[0\] \(PythonEnvironment\), {SHUT_LINE}, which only the last"),
        (OfAnotherShape, r"^environment 0, step 3: the observation's 'doors' is an array of shape \(3,\)"),
        (
            OfTexts,
            "^environment 0, step 3: the observation's 'doors' is an array of shape .4,. and dtype",
        ),
    ],
)
def test_a_driver_stops_at_the_step(driver, cls, message):
    env = PythonEnvironment([cls] * 2, seed=0, num_workers=0)
    specs = alf.drivers.EnvSpecs([env])
    network = functools.partial(QValueNetwork, fc_layer_params=(4,))
    policy = EpsilonGreedyPolicy(specs.observation, specs.action, network, action_mask_key="doors")
    with pytest.raises(EnvError, match=message) as error:
        for _ in alf.rollout(env, policy, n_steps=4, driver=driver):
            pass
    assert "\n" not in str(error.value)


def test_an_evaluation_stops_at_the_step():
    env = PythonEnvironment([Shut] * 2, seed=0, num_workers=0)
    specs = alf.drivers.EnvSpecs([env])
    network = functools.partial(QValueNetwork, fc_layer_params=(4,))
    policy = EpsilonGreedyPolicy(specs.observation, specs.action, network, action_mask_key="doors")
    with pytest.raises(EnvError, match=f"^PythonEnvironment, {SHUT_LINE}"):
        alf.evaluate(alf.Agent(policy), env, 4)
    env.close()
