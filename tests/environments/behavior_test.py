# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""BehaviorEnvironment: the behavior's actions are taken, and all else is as in the environment."""

import numpy as np
import pytest

from alf.environments import ArraySpec, BehaviorEnvironment, BoundedArraySpec
from alf.errors import EnvError
from alf.testing.fakes import FakeEnvironment, SpecEnvironment
from alf.testing.toy_environments import MatchObservationEnvironment


class Counting:
    """Acts by a fixed function of the observation, and notes what it was shown."""

    def __init__(self):
        self.seen = []

    def __call__(self, time_step, state):
        state = 0 if state is None else state
        self.seen.append((time_step, state))
        return time_step.observation.argmax(axis=1), state + 1


def test_the_action_of_the_behavior_is_taken():
    behavior = Counting()
    plain, env = (MatchObservationEnvironment(3, episode_length=4, seed=1) for _ in range(2))
    env = BehaviorEnvironment(env, behavior)
    expected, time_step = plain.reset(), env.reset()
    for i in range(10):
        np.testing.assert_array_equal(time_step.observation, expected.observation)
        target = expected.observation.argmax(axis=1)
        expected = plain.step(target)
        time_step = env.step(np.zeros(3, np.int64))
        np.testing.assert_array_equal(env.taken_action(), target)
        np.testing.assert_array_equal(time_step.reward, expected.reward)
        assert behavior.seen[i][1] == i
    env.reset()
    env.step(np.zeros(3, np.int64))
    assert behavior.seen[-1][1] == 0, "its state begins anew"


def test_all_else_is_as_in_the_environment():
    fake = FakeEnvironment(2)
    env = BehaviorEnvironment(fake, Counting())
    assert env.batch_size == 2 and env.batched and env.info_keys == ()
    assert env.action_spec() == fake.action_spec() and env.observation_spec() == fake.observation_spec()
    env.close()
    assert fake.num_closes == 1
    assert not hasattr(env, "num_restarts")


SPECS = {
    "a": BoundedArraySpec((), np.int64, 0, 3),
    "b": BoundedArraySpec((2,), np.float32, 0, 1),
}


@pytest.mark.parametrize(
    "action, message",
    [
        (np.zeros(2), "its structure differs"),
        ({"a": np.zeros(3, np.int64), "b": np.zeros((2, 2))}, r"shape \(2,\) and dtype int64"),
        ({"a": np.array([0.5, 1.0]), "b": np.zeros((2, 2))}, "dtype float64, its space says"),
    ],
)
def test_an_action_that_does_not_fit(action, message):
    number = ArraySpec((), np.float32)
    inner = SpecEnvironment(2, number, SPECS, number)
    env = BehaviorEnvironment(inner, lambda time_step, state: (action, state))
    env.reset()
    with pytest.raises(EnvError, match=f"^the behavior's action does not fit .*{message}"):
        env.step({"a": np.zeros(2, np.int64), "b": np.zeros((2, 2), np.float32)})


def test_other_dtypes_of_the_same_numbers_will_do():
    number = ArraySpec((), np.float32)
    action = {"a": [np.int32(1), np.int32(2)], "b": [[0.5, 0.25], [1, 0]]}
    env = BehaviorEnvironment(SpecEnvironment(2, number, SPECS, number), lambda *args: (action, None))
    env.reset()
    with pytest.raises(EnvError, match="structure"):
        env.step(None)
    action = {name: np.array(x) for name, x in action.items()}
    env.step(None)
    assert env.taken_action()["a"].dtype == np.int64 and env.taken_action()["b"].dtype == np.float32
