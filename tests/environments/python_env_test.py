# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""PythonEnvironment in this process and in workers: the contract, seeds, every space."""

import contextlib
import functools
import threading
import time

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from tf_agents.environments import random_py_environment, wrappers
from tf_agents.specs import array_spec

from alf.core.array_spec import BoundedArraySpec
from alf.data_structures import FIRST, LAST, MID
from alf.environments import GymnasiumEnvironment, PythonEnvironment, load, python_env
from alf.environments.batched_environment import EnvironmentWrapper
from alf.errors import ConfigError, EnvError
from alf.testing import EnvironmentContract, rollout
from alf.workers import EnvBatch, WorkerError, WorkerPool
from tests.builders import build_python_env
from tests.workers import envs
from tests.workers.envs import (
    BOOLS,
    INFO_KEYS,
    REFUSED_SPACES,
    CountEnv,
    InfoEnv,
    RefusesRandomActions,
    SlowEnv,
    SpaceEnv,
    VectorRewardEnv,
    WrongShapeEnv,
)

NESTED = spaces.Dict(
    {
        "image": spaces.Box(0, 255, (5, 4, 3), np.uint8),
        "all": spaces.Tuple([spaces.Discrete(4, start=2), spaces.MultiBinary(3)]),
        "Zero": spaces.Box(-np.inf, np.inf, (), np.float64),
        "many": spaces.MultiDiscrete([3, 5]),
    }
)
OBJECTS = spaces.Dict(
    board=spaces.Box(0, 1, (10, 10, 4), np.bool_), lights=spaces.Tuple([spaces.Box(0, 1, (), np.bool_)])
)


class TestInThisProcess(EnvironmentContract):
    def make_env(self, seed):
        return load("CartPole-v1", 3, seed=seed, num_workers=0)


class TestInWorkers(EnvironmentContract):
    def make_env(self, seed):
        return load("CartPole-v1", 3, seed=seed, num_workers=1)


class TestContinuous(EnvironmentContract):
    def make_env(self, seed):
        return load("Pendulum-v1", 2, seed=seed, num_workers=0)


class TestTimeLimit(EnvironmentContract):
    def make_env(self, seed):
        return load("MountainCar-v0", 2, seed=seed, max_episode_steps=30, num_workers=0)


class TestNested(EnvironmentContract):
    random = False
    ends = False
    num_steps = 20

    def make_env(self, seed):
        return PythonEnvironment([functools.partial(SpaceEnv, NESTED, NESTED)] * 3, seed, num_workers=1)


class TestInfo(EnvironmentContract):
    random = False

    def make_env(self, seed):
        return PythonEnvironment([functools.partial(InfoEnv, 5)] * 2, seed, 0, info_keys=INFO_KEYS)


def load_py_environment(seed, num_workers, discount=0.9, max_episode_steps=None, **settings):
    observation = {"x": array_spec.ArraySpec((2,), np.float32)}
    action = (array_spec.BoundedArraySpec((), np.int32, 0, 2), array_spec.ArraySpec((3,), np.float32))

    def make():
        env = random_py_environment.RandomPyEnvironment(
            observation, action, episode_end_probability=0.1, discount=discount
        )
        return env if max_episode_steps is None else wrappers.TimeLimit(env, max_episode_steps)

    return load(make, 3, seed=seed, num_workers=num_workers, **settings)


class TestPyEnvironment(EnvironmentContract):
    def make_env(self, seed):
        return load_py_environment(seed, num_workers=0, discount=1.0)


@pytest.mark.parametrize("max_episode_steps", [None, 4])
def test_the_discount_of_a_tf_agents_environment_is_kept(max_episode_steps):
    env = load_py_environment(0, 0, discount=0.9, max_episode_steps=max_episode_steps)
    found = {FIRST: set(), MID: set(), LAST: set()}
    action = np.zeros(3, np.int32), np.zeros((3, 3), np.float32)
    for step in [env.reset(), *(env.step(action) for _ in range(200))]:
        for kind, discount in zip(step.step_type, step.discount, strict=True):
            found[int(kind)].add(round(float(discount), 5))
    env.close()
    # The time limit ends an episode, but it is not the end of the environment's own.
    assert found == {FIRST: {1.0}, MID: {0.9}, LAST: {0.0} if max_episode_steps is None else {0.0, 0.9}}


def load_gymnasium(name, seed, num_workers):
    return load(name, 3, seed=seed, num_workers=num_workers)


@pytest.mark.parametrize(
    "make, all_num_workers",
    [
        (functools.partial(load_gymnasium, "CartPole-v1"), (0, 3)),
        (functools.partial(load_gymnasium, "Pendulum-v1"), (0, 1)),
        (load_py_environment, (0, 1)),  # Its workers import TF-Agents, for seconds.
    ],
    ids=["CartPole", "Pendulum", "PyEnvironment"],
)
def test_the_same_seed_gives_the_same_steps_whatever_the_number_of_workers(make, all_num_workers):
    runs = []
    for num_workers in all_num_workers:
        env = make(7, num_workers)
        runs.append(rollout(env, 300))
        env.close()
    for other in runs[1:]:
        tf.nest.map_structure(np.testing.assert_array_equal, runs[0], other)


def test_every_environment_has_a_seed_of_its_own():
    seeds = []
    for seed in (0, 1, 0):
        env = PythonEnvironment([CountEnv] * 50, seed, num_workers=0)
        seeds.append(env.reset().observation[:, 1].tolist())
        np.testing.assert_array_equal(env.reset().observation[:, 1], seeds[-1])  # seeded once
        env.close()
    assert len(set(seeds[0] + seeds[1])) == 100
    assert seeds[0] == seeds[2]


@pytest.mark.parametrize(
    "num_workers, space",
    [
        (1, NESTED),  # All others take the same way to a worker.
        (0, NESTED),
        (0, spaces.Discrete(3)),
        (0, spaces.Discrete(3, start=-1)),
        (0, spaces.MultiDiscrete([[2, 3], [4, 5]])),
        (0, spaces.MultiBinary(4)),
        (0, spaces.Box(-1, 1, (2, 2), np.float64)),
        (0, spaces.Box(0, 255, (8, 8, 1), np.uint8)),
        (0, spaces.Tuple([spaces.Tuple([spaces.Discrete(2)]), spaces.Dict(b=spaces.Discrete(5))])),
    ],
    ids=str,
)
def test_observations_and_actions_of_every_space_arrive_unchanged(space, num_workers):
    env = PythonEnvironment([functools.partial(SpaceEnv, space, space)] * 2, 0, num_workers)
    original = SpaceEnv(space, space)
    expected = [original.reset()[0]]
    observed = [env.reset().observation]
    rng = np.random.default_rng(0)
    for _ in range(5):
        # Samples of the space are valid actions, which the environment checks.
        space.seed(int(rng.integers(1000)))
        samples = [space.sample() for _ in range(2)]
        action = tf.nest.map_structure(lambda *x: np.stack(x), *[_plain(x) for x in samples])
        observed.append(env.step(action).observation)
        expected.append(original.step(_plain(samples[0]))[0])
    env.close()
    for want, got in zip(expected, observed, strict=True):
        want = tf.nest.map_structure(lambda x: np.stack([x, x]), _plain(want))
        tf.nest.map_structure(np.testing.assert_array_equal, want, got)


@pytest.mark.parametrize("num_workers", [0, 1, "vector"])
def test_observations_of_bools_are_images_of_0_and_1(num_workers):
    env_fns = [functools.partial(SpaceEnv, OBJECTS, spaces.Discrete(2))] * 2
    if num_workers == "vector":
        env = GymnasiumEnvironment(gymnasium.vector.SyncVectorEnv(env_fns))
    else:
        env = PythonEnvironment(env_fns, 0, num_workers)
    specs = env.observation_spec()
    assert specs["board"] == BoundedArraySpec((10, 10, 4), np.uint8, 0, 1)
    expected = SpaceEnv(OBJECTS, spaces.Discrete(2)).reset()[0]
    observed = env.reset().observation
    env.close()
    assert observed["board"].dtype == observed["lights"][0].dtype == np.uint8
    np.testing.assert_array_equal(observed["board"], [expected["board"]] * 2)
    np.testing.assert_array_equal(observed["lights"][0], [expected["lights"][0]] * 2)
    assert 0 < observed["board"].mean() < 1


def _plain(x):
    """Gymnasium's samples without its own kinds of dict."""
    if isinstance(x, dict):
        return {key: _plain(value) for key, value in x.items()}
    return tuple(map(_plain, x)) if isinstance(x, tuple) else x


@pytest.mark.parametrize("num_workers", [0, 1])
def test_info_of_each_step(num_workers):
    env_fns = [functools.partial(InfoEnv, number, 3 + number) for number in range(4)]
    env = PythonEnvironment(env_fns, 0, num_workers, info_keys=INFO_KEYS)
    vector_env = gymnasium.vector.SyncVectorEnv(env_fns)
    with contextlib.closing(env), contextlib.closing(vector_env):
        twin = GymnasiumEnvironment(vector_env, info_keys=INFO_KEYS)
        assert env.info_keys == twin.info_keys == INFO_KEYS
        kept = []
        for t in range(30):
            for x in (env, twin):
                x.step(np.zeros(4, np.int64)) if t % 17 else x.reset()
            info = env.get_info()
            assert list(info) == list(INFO_KEYS)
            for key, row in info.items():
                assert row.dtype == np.float32 and row.shape == (4,)
                np.testing.assert_array_equal(row, twin.get_info()[key], strict=True)
            kept.append((info, {key: row.copy() for key, row in info.items()}))
        assert any(np.isfinite(info["is_success"]).any() for info, _ in kept[1:17])
        for info, copies in kept:  # not written later
            tf.nest.map_structure(np.testing.assert_array_equal, info, copies)


def test_bounded_actions_are_clipped():
    space = spaces.Box(-1, 1, (1,), np.float32)
    env = PythonEnvironment([functools.partial(CountEnv, action_space=space)], num_workers=0)
    env.reset()
    env.step(np.array([[7.0]], np.float32))  # the environment would refuse it


@pytest.mark.parametrize("max_random_steps, num_workers", [(0, 0), (50, 1)])
def test_random_steps_at_the_start_part_episodes_of_equal_length(max_random_steps, num_workers):
    env = PythonEnvironment(
        [functools.partial(CountEnv, length=10)] * 20, 0, num_workers, max_random_steps=max_random_steps
    )
    steps = rollout(env, 20)
    np.testing.assert_array_equal(steps[0].step_type, FIRST)
    np.testing.assert_array_equal(steps[0].reward, 0)
    first_ends = np.argmax([t.step_type == LAST for t in steps], axis=0)
    if max_random_steps:
        assert len(set(first_ends.tolist())) > 5
        assert len({tuple(t.observation[:, 3]) for t in rollout(env, 1)[:1]}) == 1  # only at the first reset
    else:
        np.testing.assert_array_equal(first_ends, 10)
    env.close()


@pytest.mark.parametrize("num_workers", [0, 1])
def test_vector_rewards_stay_vectors(num_workers):
    env = PythonEnvironment([VectorRewardEnv] * 3, 0, num_workers)
    assert env.reward_spec().shape == (2,)
    steps = rollout(env, 6)
    env.close()
    np.testing.assert_array_equal(steps[0].reward, np.zeros((3, 2), np.float32))
    np.testing.assert_array_equal(steps[3].reward, [[1.5, -1.5]] * 3)
    np.testing.assert_array_equal(steps[6].step_type, FIRST)
    np.testing.assert_array_equal(steps[6].reward, np.zeros((3, 2), np.float32))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_observation_of_another_shape_is_refused(num_workers):
    env = PythonEnvironment([CountEnv, CountEnv, WrongShapeEnv], num_workers=num_workers)
    message = (
        r"^environment 2, step 0: the observation is an array of shape \(1,\) and dtype float64, "
        r"its space says shape \(4,\) and dtype float64$"
    )
    with pytest.raises(EnvError, match=message):
        env.reset()
    env.close()


@pytest.mark.parametrize("num_workers", [0, 1])
def test_seed_makes_the_next_reset_what_the_first_one_was(num_workers):
    env = PythonEnvironment([CountEnv] * 3, 5, num_workers)
    first = env.reset().observation[:, 1].tolist()
    env.seed(6)
    other = env.reset().observation[:, 1].tolist()
    env.reset()
    env.seed(5)
    assert env.reset().observation[:, 1].tolist() == first
    env.close()
    env = PythonEnvironment([CountEnv] * 3, 6, num_workers)
    assert env.reset().observation[:, 1].tolist() == other and not set(first) & set(other)
    env.close()


# In a worker, and in the trial of "auto", one of them is enough.
WRONG = [
    ({"num_workers": 3}, "num_workers is 3, more than batch_size = 2"),
    ({"num_workers": -1}, "num_workers is -1"),
    ({"num_workers": "all"}, "num_workers is 'all'"),
    ({"max_restarts": -1}, "max_restarts is -1"),
    ({"restart_period": 0}, "restart_period is 0"),
    ({"step_timeout": 0}, "step_timeout is 0"),
    ({"start_timeout": None}, "start_timeout is None"),
    ({"step_timeout": 1e30}, "step_timeout is 1e[+]30: .* at most 1000000000"),
    ({"start_timeout": 1e30}, "start_timeout is 1e[+]30"),
    ({"heartbeat_interval": 1e30}, "heartbeat_interval is 1e[+]30"),
    ({"max_random_steps": 1.5}, "max_random_steps is 1.5"),
    ({"worker_nice": -1}, "worker_nice is -1: it must be an integer, at least 0"),
    ({"max_concurrent_starts": 0}, "max_concurrent_starts is 0"),
    ({"heartbeat_interval": 0}, "heartbeat_interval is 0"),
    ({"pin_workers": 1}, "pin_workers is 1: it must be True or False"),
    ({"single_threaded": None}, "single_threaded is None: it must be True or False"),
    ({"info_keys": "a"}, "PythonEnvironment.info_keys is 'a': it must be a tuple"),
]


def test_settings_are_checked(subtests):
    calls = [(lambda x=x: build_python_env([CountEnv] * 2, **x), ConfigError, text) for x, text in WRONG]
    calls.append((lambda: PythonEnvironment([]), ConfigError, "PythonEnvironment.env_fns is empty"))
    neither = "neither a gymnasium.Env nor a TF-Agents PyEnvironment"
    calls.append((lambda: load(dict, 2, num_workers=0), ValueError, neither))
    for call, error, message in calls:
        with subtests.test(message), pytest.raises(error, match=message):
            call()


def test_spaces_that_are_not_supported_are_refused(subtests):
    rows = [("observation", [space], fault) for space, fault in REFUSED_SPACES]
    rows += [("action", [spaces.Discrete(2), space], fault) for space, fault in REFUSED_SPACES]
    rows.append(("action", [spaces.Discrete(2), BOOLS], "'s 'b' is a Box of bool, use MultiBinary"))
    # In a worker, and in the trial of "auto", one of them is enough.
    for num_workers, chosen in ((0, rows), (1, rows[1:2]), ("auto", rows[1:2])):
        for kind, pair, fault in chosen:
            message = f"^the {kind} space{fault}: supported are .*empty(\\n|$)"
            with subtests.test(message, num_workers=num_workers), pytest.raises(ConfigError, match=message):
                PythonEnvironment([functools.partial(SpaceEnv, *pair)], num_workers=num_workers)


def test_a_class_of_a_script_needs_no_import(tmp_path):
    namespace = {"__name__": "__main__", "gymnasium": gymnasium, "CountEnv": CountEnv}
    exec("class Mine(CountEnv): pass", namespace)
    env = load(namespace["Mine"], 2, num_workers=1)
    assert env.reset().observation.shape == (2, 4)
    env.close()


def test_auto_steps_what_cannot_be_pickled_in_this_process():
    lock = threading.Lock()
    env = PythonEnvironment([lambda: lock and SlowEnv(0.001)] * 2)
    assert isinstance(env._batch, EnvBatch)
    env.close()


@pytest.mark.parametrize(
    "act, error, message",
    [
        (envs.end_process, WorkerError, "ended with exit status 7, before it had made its environments"),
        (envs.sleep_for_long, WorkerError, "did not answer within start_timeout=0.3 s"),
        (envs.exit_python, EnvError, r"^the constructor of environment 0 raised SystemExit\(3\)"),
        (envs.raise_own_error, KeyError, "my own bug"),
    ],
)
def test_auto_tries_the_constructor_in_a_worker(monkeypatch, act, error, message):
    with pytest.raises(error, match=message):
        timeout = 0.3 if act is envs.sleep_for_long else 60.0
        build_python_env(
            [functools.partial(CountEnv, at=0, act=act)],
            start_timeout=timeout,
            max_restarts=0,
            close_timeout=0.1,
        )


@pytest.mark.parametrize("act", [envs.end_process, envs.sleep_for_long])
def test_auto_chooses_workers_for_an_environment_that_ends_or_hangs_in_its_trial(monkeypatch, act):
    env = build_python_env(
        [functools.partial(CountEnv, at=1, act=act)], step_timeout=0.3, max_restarts=0, close_timeout=0.1
    )
    assert isinstance(env._batch, WorkerPool)
    env.close()


@pytest.mark.parametrize("num_workers", [0, 1])
def test_stacks_of_workers_are_printed(capfd, num_workers):
    env = PythonEnvironment([CountEnv], num_workers=num_workers)
    env.reset()
    deadline = time.monotonic() + (60.0 if num_workers else 0.1)
    found = ""
    while "in main" not in found and time.monotonic() < deadline:
        env.dump_stacks()  # again and again: capfd loses what is written while it reads
        time.sleep(0.1)
        found += capfd.readouterr().err
    assert ("in main" in found) == bool(num_workers)
    env.close()


def test_auto_tries_equal_environments_once(monkeypatch):
    trials = []

    def measure(env_fn, settings):
        trials.append(env_fn)
        return 0.0, 0.0

    monkeypatch.setattr(python_env, "_measure_step", measure)
    monkeypatch.setattr(python_env, "_step_costs", {})
    first, other = functools.partial(CountEnv, length=3), functools.partial(CountEnv, length=4)
    for env_fns, settings, count in [
        ([first] * 2, {}, 1),
        ([functools.partial(CountEnv, length=3)], {"seed": 5}, 1),
        ([other], {}, 2),
        ([first], {"single_threaded": False}, 3),
    ]:
        build_python_env(env_fns, **settings).close()
        assert len(trials) == count


def test_an_environment_tells_how_many_of_its_kind_would_step_in_this_process(monkeypatch):
    monkeypatch.setattr(python_env, "_find_step_cost", lambda *_: (10e-6, 10e-6))  # a message takes 80
    expected = {"auto": [True, False, False], "thread": [True] * 3, 0: [True] * 3, 1: [False] * 3}
    for num_workers, answers in expected.items():
        with build_python_env([CountEnv], num_workers=num_workers) as env:
            assert [env.would_compute_in_python(size) for size in (7, 9, 40)] == answers
            wrapped = EnvironmentWrapper(env)
            assert [wrapped.would_compute_in_python(size) for size in (7, 9, 40)] == answers


@pytest.mark.parametrize(
    "make_env, batch_size, in_process",
    [
        (SlowEnv, 2, True),
        (SlowEnv, 64, False),
        (functools.partial(SlowEnv, 0.001), 2, False),
        (RefusesRandomActions, 2, False),
    ],
)
def test_auto_spares_cheap_environments_the_way_to_a_worker(make_env, batch_size, in_process):
    env = PythonEnvironment([make_env] * batch_size, 0)
    batch = env._batch
    env.close()
    assert isinstance(batch, EnvBatch if in_process else WorkerPool)


@pytest.mark.parametrize(
    "batch_size, seconds, cpu_seconds, workers",
    [
        (1, 70e-6, 70e-6, 0),
        (8, 1e-3, 1e-3, 2),
        (8, 1e-3, 0.6e-3, 2),  # a busy machine, perhaps
        (8, 1e-3, 0.4e-3, 5),
        (8, 5e-3, 0.1e-3, 8),
        (300, 5e-3, 0.0, 32),
        (300, np.inf, np.inf, 2),
    ],
)
def test_steps_that_wait_get_more_workers(batch_size, seconds, cpu_seconds, workers, monkeypatch):
    monkeypatch.setattr(python_env.os, "sched_getaffinity", lambda _: range(4))
    assert python_env.find_num_workers(batch_size, seconds, cpu_seconds) == workers


def test_environments_that_wait_do_so_at_the_same_time():
    with PythonEnvironment([functools.partial(SlowEnv, 0.05)] * 6, 0) as env:
        env.reset()
        start = time.monotonic()
        for _ in range(4):
            env.step(np.zeros(6, np.int64))
        assert time.monotonic() - start < 0.6 * 4 * 6 * 0.05  # one after another


def test_workers_for_what_cannot_be_pickled_are_one_line():
    lock = threading.Lock()
    with pytest.raises(ConfigError, match="num_workers is 2, but cloudpickle cannot pickle .*lock.* or 0"):
        PythonEnvironment([lambda: lock and SlowEnv(0.001)] * 2, num_workers=2)
