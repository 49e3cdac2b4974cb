# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Random steps before the first one part the episodes, for every kind of environment."""

import contextlib
import functools

import gin
import gymnasium
import numpy as np
import pytest

from alf.data_structures import FIRST, LAST
from alf.environments import GymnasiumEnvironment, PythonEnvironment, load
from alf.environments.spaces import sample_actions
from alf.errors import ConfigError
from alf.runs.saved_run import make_env
from alf.testing import EnvironmentContract, rollout
from alf.tools.env_check import check_env
from alf.workers.env_batch import EnvBatch
from alf.workers.specs import spec_from_space
from tests.environments.gymnasium_env_test import NO, ReplayVectorEnv
from tests.extras import NEEDS_ENVPOOL
from tests.workers.envs import CountEnv

SEED, STEP = 1, 3  # of the observation of `CountEnv`


class TestVectorEnvironment(EnvironmentContract):
    def make_env(self, seed):
        return load("CartPole-v1", 3, seed=seed, max_random_steps=5)


def make_vector_env(seed, max_random_steps, length=1000):
    env = gymnasium.vector.SyncVectorEnv([functools.partial(CountEnv, length=length)] * 3)
    return GymnasiumEnvironment(env, seed, max_random_steps=max_random_steps)


def make_single_envs(seed, max_random_steps, length=1000):
    make = functools.partial(CountEnv, length=length)
    return PythonEnvironment([make] * 3, seed, 0, max_random_steps)


@pytest.mark.parametrize("make", [make_vector_env, make_single_envs])
def test_the_seed_decides_the_number_of_random_steps(make):
    starts = []
    for seed in [*range(20), 7]:
        with contextlib.closing(make(seed, 50)) as env:
            first = env.reset()
            assert first.step_type.tolist() == [FIRST] * 3
            assert first.reward.tolist() == [0] * 3 and first.discount.tolist() == [1] * 3
            starts.append(first.observation[:, STEP].tolist())
            assert env.reset().observation[:, STEP].tolist() == [0] * 3  # before the first reset alone
            env.seed(seed)
            assert env.reset().observation[:, STEP].tolist() == starts[-1]
    assert starts[7] == starts[20]
    flat = sum(starts, [])
    assert min(flat) >= 0 and max(flat) <= 50 and len(set(flat)) > 10
    if make is make_vector_env:  # whose environments step together
        assert all(len(set(start)) == 1 for start in starts)


class Masked(gymnasium.Env):
    """Allows one of 5 actions, or one choice of each of two integers; the last mask allows nothing."""

    def __init__(self, multi):
        self._sizes = (3, 4) if multi else (5,)
        if multi:
            self.action_space = gymnasium.spaces.MultiDiscrete(self._sizes)
        else:
            self.action_space = gymnasium.spaces.Discrete(5, start=-2)
        mask = gymnasium.spaces.MultiBinary(sum(self._sizes))
        steps = gymnasium.spaces.Box(0, 1000, (1,), np.float32)
        self.observation_space = gymnasium.spaces.Dict(steps=steps, action_mask=mask)
        self._all_steps = 0

    def _look(self):
        self._allowed = [(self._time + i) % n for i, n in enumerate(self._sizes)]
        mask = np.concatenate([np.eye(n, dtype=np.int8)[x] for n, x in zip(self._sizes, self._allowed)])
        return {"steps": np.array([self._all_steps], np.float32), "action_mask": mask * (self._time < 3)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return self._look(), {}

    def step(self, action):
        choices = np.ravel(action - self.action_space.start).tolist()
        if self._time < 3 and choices != self._allowed:
            raise ValueError(f"{action} is forbidden")
        self._time, self._all_steps = self._time + 1, self._all_steps + 1
        return self._look(), 0.0, self._time == 4, False, {}


@pytest.mark.parametrize("multi", [False, True])
def test_random_steps_take_allowed_actions(multi):
    """Also those that measure the seconds of a step, and those of `alf check`."""
    make = functools.partial(Masked, multi)
    with contextlib.closing(PythonEnvironment([make] * 3, 0, 0, 50)) as env:
        assert (env.reset().observation["steps"] > 0).all()
    seconds, cpu_seconds = EnvBatch([make], [0]).measure_step()
    assert 0 < seconds < np.inf and 0 <= cpu_seconds < np.inf
    report = check_env(make, num_steps=30)
    assert report.num_steps == 30 and not [x for x in report.problems if "forbidden" in x]


def test_an_episode_that_ends_with_the_last_random_step_is_forgotten():
    """Environment 0 ends an episode there: both its FIRST steps lead to none that is learned."""
    rows = [([5, 5], NO, NO), ([5, 5], [True, False], NO), ([0, 5], NO, NO), ([5, 5], NO, NO)]
    seed = next(s for s in range(100) if np.random.RandomState(s).randint(3) == 2)
    env = GymnasiumEnvironment(ReplayVectorEnv(rows), seed, max_random_steps=2)
    steps = [env.reset(), *(env.step(np.zeros(2, np.int64)) for _ in range(2))]
    assert [t.step_type.tolist() for t in steps] == [[0, 0], [0, 1], [1, 1]]
    assert [t.reward.tolist() for t in steps] == [[0, 0], [0, 5], [5, 5]]
    assert [t.discount.tolist() for t in steps] == [[1, 1]] * 3


@pytest.mark.parametrize("continuous", [False, True])
def test_random_actions_follow_from_the_seed(continuous):
    space = gymnasium.spaces.Box(-2, 2, (3,)) if continuous else gymnasium.spaces.Discrete(9, start=-4)

    def actions(seed):
        raw = ReplayVectorEnv([([0, 0], NO, NO)] * 30, action_space=space)
        GymnasiumEnvironment(raw, seed, max_random_steps=30).reset()
        assert all(x in space for action in raw.actions for x in action)
        return np.array(raw.actions)

    assert len(np.unique(actions(1))) > 5
    np.testing.assert_array_equal(actions(1), actions(1))
    assert not np.array_equal(actions(1)[:3], actions(2)[:3])


@pytest.mark.parametrize(
    "bounds, expected",
    [
        ((15, 30), (15, 30)),
        ((-40, -12), (-32, -12)),
        ((20, np.inf), (20, 40)),
        ((-40, 12), (-10, 10)),
        ((-2, np.inf), (-2, 10)),
        ((-np.inf, np.inf), (-10, 10)),
    ],
)
def test_random_actions_are_within_their_bounds(bounds, expected):
    spec = spec_from_space(gymnasium.spaces.Box(*bounds, (3,)), "action")
    actions = sample_actions(spec, 300, np.random.RandomState(0))
    assert actions.shape == (300, 3) and actions.dtype == np.float32
    assert expected[0] <= actions.min() < actions.max() <= expected[1]


KINDS = [
    ("CartPole-v1", "auto"),
    ("CartPole-v1", 0),
    ("ALE/Pong-v5", "auto"),
    pytest.param("envpool:CartPole-v1", "auto", marks=NEEDS_ENVPOOL),
]


@pytest.mark.parametrize("name, num_workers", KINDS)
def test_it_reaches_every_kind_of_environment(name, num_workers):
    def first(max_random_steps):
        gin.bind_parameter("alf.environments.load.max_random_steps", max_random_steps)
        with contextlib.closing(load(name, 1, seed=1, num_workers=num_workers)) as env:
            return env.reset().observation

    plain = first(None)
    np.testing.assert_array_equal(plain, first(0))
    assert not np.array_equal(plain, first(40))
    np.testing.assert_array_equal(first(40), first(40))


@pytest.mark.parametrize(
    "adapter", ["load_atari", pytest.param("load_envpool", marks=NEEDS_ENVPOOL), "PythonEnvironment"]
)
def test_what_the_adapter_says_counts_where_load_says_nothing(adapter):
    gin.bind_parameter(f"alf.environments.{adapter}.max_random_steps", -1)
    name = {"load_atari": "ALE/Pong-v5", "load_envpool": "envpool:CartPole-v1"}.get(adapter, CountEnv)
    with pytest.raises(ConfigError, match="max_random_steps is -1: it must be an integer, at least 0"):
        load(name, 1)
    load(name, 1, max_random_steps=0).close()


@pytest.mark.parametrize("value", [-1, 1.5, "7"])
def test_bad_values(value):
    with pytest.raises(ConfigError, match="load.max_random_steps is"):
        load("CartPole-v1", 2, max_random_steps=value)


def test_evaluation_starts_without_random_steps():
    gin.parse_config("""
        alf.environments.load.max_random_steps = 50
        PythonEnvironment.max_random_steps = 50
        PythonEnvironment.num_workers = 0
    """)
    for _ in range(3):
        load_counting = functools.partial(load, CountEnv, 20, num_workers=0)
        with contextlib.closing(make_env(1, env=load_counting)) as env:
            assert not env.reset().observation[:, STEP].any()


def test_random_starts_part_the_ends_of_batches():
    ends = []
    for seed in range(8):
        with contextlib.closing(make_vector_env(seed, 9, length=10)) as env:
            types = np.array([t.step_type[0] for t in rollout(env, 12)])
            ends.append(int(np.argmax(types == LAST)))
    assert len(set(ends)) > 3
