# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""EnvBatch refuses what the interface of Gymnasium does not allow, and says which environment did it."""

import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from alf.errors import ConfigError, EnvError
from alf.workers import EnvBatch
from tests.workers.envs import SlowEnv, VectorRewardEnv

RIGHT = (np.zeros(3, np.float32), 0.0, False, False, {})
ZEROS = np.zeros(3, np.float32)


class ReplayEnv(gymnasium.Env):
    """Returns `results` one after another, and raises those that are exceptions; then `RIGHT`."""

    action_space = spaces.Discrete(2)

    def __init__(self, space, first, results=()):
        self.observation_space, self._first, self._results = space, first, list(results)

    def reset(self, *, seed=None, options=None):
        return self._take(self._first)

    def step(self, action):
        return self._take(self._results.pop(0))

    def _take(self, result):
        if isinstance(result, BaseException):
            raise result
        return result


def make(space, right, *results, first=None):
    """A batch of one right environment and one that does as it is told, with indices 5 and 6."""
    steps = [(right, 0.0, False, False, {})] * 9
    return EnvBatch(
        [
            lambda: ReplayEnv(space, (right, {}), steps),
            lambda: ReplayEnv(space, first or (right, {}), results),
        ],
        [0, 1],
        first_index=5,
    )


BOX = spaces.Box(-1, 1, (3,), np.float32)
BYTES = spaces.Box(0, 255, (3,), np.uint8)
NEST = spaces.Dict(a=spaces.Tuple([spaces.Discrete(3), BOX]), b=spaces.Box(-1, 1, (), np.float32))
NEST_RIGHT = {"a": (1, ZEROS), "b": 0.5}


@pytest.mark.parametrize(
    "space, right, wrong, message",
    [
        (
            BOX,
            ZEROS,
            ZEROS[:1],
            r"the observation is an array of shape \(1,\) and dtype float32, its",
        ),
        (BOX, ZEROS, np.float32(1), "the observation is 1.0, its space says shape .3,. and dtype float32"),
        (BOX, ZEROS, ZEROS[None], r"an array of shape \(1, 3\) and dtype float32, its space says"),
        (BOX, ZEROS, None, "the observation is None, its space says"),
        (BOX, ZEROS, ["1", "2", "3"], "the observation is a list of 3, its space says"),
        (BOX, ZEROS, [[1], [2, 3], 4], "the observation is a list of 3, which is not an array"),
        (BOX, ZEROS, ZEROS + 1j, "dtype complex64, its space says"),
        (BYTES, ZEROS.astype(np.uint8), ZEROS + 0.7, "dtype float32, its space says .* dtype uint8"),
        (
            BYTES,
            ZEROS.astype(np.uint8),
            np.array([0, 1, 256]),
            "has values from 0 to 256, its .* dtype uint8",
        ),
        (BYTES, ZEROS.astype(np.uint8), np.array([0, -1, 3]), "has values from -1 to 3, its .* dtype uint8"),
        (spaces.Discrete(3), 1, 0.7, "the observation is 0.7, its space says shape .. and dtype int64"),
        (spaces.Discrete(3), 1, None, "the observation is None"),
        (spaces.Discrete(3), 1, 10**30, "the observation is 10000"),
        (spaces.Discrete(3), 1, np.array([1]), r"the observation is an array of shape \(1,\)"),
        (
            NEST,
            NEST_RIGHT,
            {"a": (1, ZEROS)},
            r"the observation is a dict with .* \['a'\], .* part 'b'",
        ),
        (NEST, NEST_RIGHT, None, "the observation is None, its space has the part 'a'"),
        (NEST, NEST_RIGHT, {"a": (1,), "b": 0.5}, "the observation's 'a' is a tuple of 1, .* a Tuple of 2"),
        (NEST, NEST_RIGHT, {"a": (1, ZEROS, 2), "b": 0.5}, "the observation's 'a' is a tuple of 3, .* of 2"),
        (NEST, NEST_RIGHT, {"a": (1, ZEROS[:1]), "b": 0.5}, r"the observation's 'a/1' is .* shape \(1,\)"),
        (NEST, NEST_RIGHT, {"a": (1, ZEROS), "b": None}, "the observation's 'b' is None"),
    ],
)
def test_an_observation_that_does_not_fit(space, right, wrong, message):
    ended = (right, 0.0, True, False, {})
    with pytest.raises(EnvError, match=f"^environment 6, step 0: .*{message}"):
        make(space, right, first=(wrong, {})).reset()
    batch = make(space, right, ended, ended, (wrong, 0.0, False, False, {}))
    batch.reset()
    for _ in range(3):  # The episode ends, and another begins and ends.
        batch.step()
    batch.reset()
    with pytest.raises(EnvError, match=f"^environment 6, step 4: .*{message}"):
        batch.step()


class Steps(gymnasium.Env):
    """Its `step` returns what it was made with, or calls it."""

    observation_space, action_space = BOX, gymnasium.spaces.Discrete(2)

    def __init__(self, result):
        self.result = result

    def reset(self, *, seed=None, options=None):
        return ZEROS, {}

    def step(self, action):
        return self.result() if callable(self.result) else self.result


def limit_steps(env):
    """As `gymnasium.make` does for an id with `max_episode_steps`."""
    return gymnasium.wrappers.TimeLimit(gymnasium.wrappers.OrderEnforcing(env), 5)


@pytest.mark.parametrize("wrap", [limit_steps, lambda env: env])
@pytest.mark.parametrize("code", ["a, b = 1, 2, 3", "dict(1)", "int('x')", "len(1, x=2)"])
def test_the_environments_own_errors_pass_through(wrap, code):
    batch = EnvBatch([lambda: wrap(Steps(lambda: exec(code)))], [1])
    batch.reset()
    with pytest.raises((TypeError, ValueError)) as caught:
        batch.step()
    assert not isinstance(caught.value, ConfigError)


WRONG_RESETS = [
    (ZEROS, r"reset\(\) returned an array of shape \(3,\) .* instead of \(observation, info\)"),
    (ZEROS[:2], r"reset\(\) returned an array of shape \(2,\)"),
    ((ZEROS, {}, {}), r"reset\(\) returned a tuple of 3"),
    (None, r"reset\(\) returned None"),
]
WRONG_STEPS = [
    ((ZEROS, 0.0, False, {}), r"step\(\) returned a tuple of 4 instead of \(observation, rew.*info\)"),
    ((ZEROS, 0.0, False, False, {}, 1), r"step\(\) returned a tuple of 6"),
    (None, r"step\(\) returned None"),
    ((ZEROS, 0.0, "no", False, {}), "terminated is 'no': it must be True or False"),
    ((ZEROS, 0.0, False, None, {}), "truncated is None"),
    ((ZEROS, 0.0, 0, False, {}), "terminated is 0"),
    ((ZEROS, 0.0, np.array([False]), False, {}), r"terminated is an array of shape \(1,\)"),
    ((ZEROS, 0.0, False, np.array(0.0), {}), r"truncated is an array of shape \(\) and dtype float64"),
]
WRONG_REWARDS = [
    (None, r"the reward is None, its space says shape \(\) and dtype float32"),
    ("1", "the reward is '1'"),
    (np.zeros(1), r"the reward is an array of shape \(1,\)"),
]


def test_a_return_value_of_another_form(subtests):
    for wrong, message in WRONG_RESETS:
        with subtests.test(message), pytest.raises(EnvError, match=f"^environment 6, step 0: {message}"):
            EnvBatch([lambda wrong=wrong: ReplayEnv(BOX, wrong)], [0], first_index=6).reset()
    # Nobody sees the rewards of random steps. Seed 2 gives one random step.
    of_rewards = [((ZEROS, reward, False, False, {}), message) for reward, message in WRONG_REWARDS]
    for num_random_steps, rows in ((0, WRONG_STEPS + of_rewards), (1, WRONG_STEPS)):
        for wrong, message in rows:
            make = lambda wrong=wrong: ReplayEnv(BOX, (ZEROS, {}), [wrong])  # noqa: E731
            batch = EnvBatch([make], [2], num_random_steps, first_index=6)
            message = f"^environment 6, step {1 - num_random_steps}: {message}"
            with subtests.test(message), pytest.raises(EnvError, match=message):
                batch.reset()
                batch.step()


class NoSpace(SlowEnv):
    observation_space = None


UNMADE = [
    (
        [SlowEnv, lambda: sys.exit(4)],
        EnvError,
        r"^the constructor of environment 8 raised SystemExit\(4\)",
    ),
    ([NoSpace], ConfigError, "the observation space is None: supported are"),
]


@pytest.mark.parametrize("env_fns, error, message", UNMADE)
def test_what_cannot_be_made_is_named(env_fns, error, message):
    with pytest.raises(error, match=message):
        EnvBatch(env_fns, range(len(env_fns)), first_index=7)


def test_a_scalar_in_place_of_a_vector_reward():
    class Wrong(VectorRewardEnv):
        def step(self, action):
            observation, _, *rest = super().step(action)
            return observation, 1.0, *rest

    batch = EnvBatch([Wrong, Wrong], [0, 1])  # NumPy would write two scalars into an array [2, 2]
    batch.reset()
    with pytest.raises(EnvError, match=r"^environment 0, step 1: the reward is 1.0, its .* shape \(2,\)"):
        batch.step()


@pytest.mark.parametrize(
    "space, value",
    [
        (BOX, np.float64([0.5, 1, -1])),
        (BOX, [0.5, 1, -1]),
        (BOX, np.array([0, 1, -1])),
        (BYTES, np.array([0, 7, 255])),
        (BYTES, [0, 7, 255]),
        (BYTES, np.array([True, False, True])),
        (BOX, np.array([True, False, True])),
        (spaces.Box(-9, 9, (3,), np.int32), np.array([0, 7, -8], np.int64)),
        (spaces.Discrete(3), np.int32(2)),
        (spaces.Discrete(3), np.array(2)),
        (spaces.Discrete(3), True),
        (spaces.Box(-1, 1, (), np.float32), np.float64(0.5)),
        (spaces.Box(-1, 1, (), np.float32), 1),
        (spaces.MultiBinary(3), np.array([True, False, True])),
        (spaces.MultiBinary(3), [0, 1, 0]),
    ],
)
def test_values_that_fit_are_taken(space, value):
    batch = make(space, value, (value, np.int32(3), np.False_, np.array(True), {}))
    batch.reset()
    np.testing.assert_array_equal(batch.arrays.observation[0], [value, value])
    batch.arrays.observation[0].fill(0)
    batch.step()
    np.testing.assert_array_equal(batch.arrays.observation[0], [value, value])
    assert batch.arrays.reward.tolist() == [0, 3] and batch.arrays.step_type.tolist() == [1, 2]
    assert batch.arrays.discount.tolist() == [1, 1]


@pytest.mark.parametrize("error", [SystemExit(3), StopIteration("end"), GeneratorExit()])
def test_an_exception_that_means_something_to_other_code_is_contained(error):
    batch = make(BOX, ZEROS, RIGHT, error)
    batch.reset()
    batch.step()
    with pytest.raises(EnvError, match=f"^environment 6, step 2 raised {type(error).__name__}") as info:
        batch.step()
    assert info.value.__cause__ is error
    with pytest.raises(EnvError, match=f"^environment 6, step 0 raised {type(error).__name__}"):
        EnvBatch([lambda: ReplayEnv(BOX, error)], [0], first_index=6).reset()


@pytest.mark.parametrize(
    "error", [ValueError("mine"), TypeError("mine"), KeyError("mine"), KeyboardInterrupt()]
)
def test_other_exceptions_pass_through(error):
    batch = make(BOX, ZEROS, error)
    batch.reset()
    with pytest.raises(type(error)) as info:
        batch.step()
    assert info.value is error


class NoisyEnd(SlowEnv):
    closed = []

    def __init__(self, name, error=None):
        super().__init__()
        self._name, self._error = name, error

    def close(self):
        self.closed.append(self._name)
        if self._error:
            raise self._error


def test_close_closes_all_and_then_raises():
    NoisyEnd.closed.clear()
    errors = [None, ValueError("mine"), None, SystemExit(5), None]
    batch = EnvBatch([lambda i=i, e=e: NoisyEnd(i, e) for i, e in enumerate(errors)], range(5))
    with pytest.raises(EnvError, match=r"close\(\) of environment 3 raised SystemExit\(5\)"):
        batch.close()
    assert NoisyEnd.closed == [4, 3, 2, 1, 0]
    batch.close()
    assert len(NoisyEnd.closed) == 5


def test_an_error_of_close_does_not_hide_that_of_a_constructor():
    NoisyEnd.closed.clear()

    def fail():
        raise KeyError("the first error")

    with pytest.raises(KeyError, match="the first error"):
        EnvBatch([lambda: NoisyEnd(0, ValueError("mine")), fail], range(2))
    assert NoisyEnd.closed == [0]
