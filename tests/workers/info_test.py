# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Numbers of the info: which are found, which are refused, and how they come from batches and workers."""

import contextlib
import functools
import math

import numpy as np
import pytest

from alf.errors import ConfigError, EnvError
from alf.workers import EnvBatch, WorkerPool
from alf.workers.arrays import MisfitError
from alf.workers.info import check_info_keys, make_info_reader, read_vector_info
from tests.workers.envs import INFO_KEYS, CountEnv, InfoEnv

NAN = math.nan
RAGGED = [[1], [2, 3], 4]


class Fixed(CountEnv):
    """Returns `infos` one after another: the first one from the reset."""

    def __init__(self, *infos):
        super().__init__(length=2)
        self._infos = list(infos)

    def reset(self, *, seed=None, options=None):
        return super().reset()[0], self._infos.pop(0)

    def step(self, action):
        return *super().step(action)[:4], self._infos.pop(0)


@pytest.mark.parametrize(
    "value, expected",
    [
        (0.5, 0.5),
        (3, 3.0),
        (True, 1.0),
        (np.False_, 0.0),
        (np.int64(-7), -7.0),
        (np.float32(0.25), 0.25),
        (np.array(2, np.uint8), 2.0),
        (NAN, NAN),
        (math.inf, math.inf),
    ],
)
def test_numbers_and_bools_are_read(value, expected):
    read = make_info_reader(("a", "b/c/d"))
    np.testing.assert_array_equal(read({"a": value}), [expected, NAN])
    np.testing.assert_array_equal(read({"b": {"c": {"d": value}}}), [NAN, expected])
    np.testing.assert_array_equal(read({"b": {"c": {}}, "a/x": value}), [NAN, NAN])


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: {"a/b/c": x},
        lambda x: {"a/b": {"c": x}},
        lambda x: {"a": {"b/c": x}},
        lambda x: {"a": {"b": {"c": x}}},
        lambda x: {"a": {}, "a/b": {"c": x}},
        lambda x: {"a": 3 * x, "a/b/c": x},
    ],
)
def test_a_key_with_slashes_is_an_entry_or_an_entry_of_a_dict(wrap):
    assert make_info_reader(("a/b/c", "d"))(wrap(2.0)) == pytest.approx([2.0, NAN], nan_ok=True)
    row = read_vector_info(wrap(np.array([2.0, 3.0])), "a/b/c", 2)
    np.testing.assert_array_equal(row, [2.0, 3.0])


def test_the_mask_of_an_entry_with_a_slash_counts():
    infos = {"a/b": np.array([1.0, 2.0]), "_a/b": np.array([False, True])}
    np.testing.assert_array_equal(read_vector_info(infos, "a/b", 2), [NAN, 2.0])


@pytest.mark.parametrize(
    "info, message",
    [
        ({"a": "yes"}, "^the info's 'a' is 'yes': it must be a number, True or False$"),
        ({"a": None}, "the info's 'a' is None"),
        ({"a": [1.0]}, "the info's 'a' is a list of 1"),
        ({"a": np.zeros(1)}, r"the info's 'a' is an array of shape \(1,\)"),
        ({"a": {}}, "the info's 'a' is a dict"),
        ({"a": 1j}, "the info's 'a' is 1j"),
        ({"a": 10**400}, "the info's 'a' is 1000"),
        ({"a": RAGGED}, "the info's 'a' is a list of 3"),
        ({"b": {"c": "x"}}, "the info's 'b/c' is 'x'"),
        ({"b": 3}, "the info has 3 where the key 'b/c' needs a dict"),
        ({"b": np.zeros(2)}, "where the key 'b/c' needs a dict"),
        (None, "the info has None where the key 'a' needs a dict"),
        ([], "the info has a list of 0 where"),
    ],
)
def test_what_is_no_number_is_refused(info, message):
    with pytest.raises(MisfitError, match=message):
        make_info_reader(("a", "b/c"))(info)


@pytest.mark.parametrize(
    "infos, expected",
    [
        ({}, [NAN, NAN, NAN]),
        ({"a": {}}, [NAN, NAN, NAN]),
        ({"a": {"b": np.array([1, 2, 3])}}, [1, 2, 3]),
        ({"a": {"b": np.array([1, 2, 3]), "_b": np.array([True, False, True])}}, [1, NAN, 3]),
        ({"a": {"b": np.array([1.0, 2, 3])}, "_a": np.array([False, False, True])}, [NAN, NAN, 3]),
        (
            {
                "a": {"b": np.array([True, False, True]), "_b": np.array([True, True, False])},
                "_a": np.array([False, True, True]),
            },
            [NAN, 0, NAN],
        ),
        ({"a": {"b": np.array([1, None, np.True_], object), "_b": np.array([1, 0, 1], bool)}}, [1, NAN, 1]),
        ({"a": {"b": [4, 5, 6]}}, [4, 5, 6]),
    ],
)
def test_masks_of_vector_environments_count(infos, expected):
    row = read_vector_info(infos, "a/b", 3)
    np.testing.assert_array_equal(row, np.array(expected, np.float32))
    assert row.dtype == np.float32


@pytest.mark.parametrize(
    "infos, message",
    [
        ({"a": 3.0}, "the info's 'a' is 3.0: it must be an array of 3 numbers"),
        ({"a": np.zeros(2)}, r"is an array of shape \(2,\) and dtype float64: it must be an array of 3"),
        ({"a": np.zeros((3, 1))}, r"shape \(3, 1\)"),
        ({"a": RAGGED}, "is a list of 3: it must be"),
        ({"a": np.array(["x", "y", "z"])}, "'a' of sub-environment 0 is .*x.*: it must be a number"),
        ({"a": np.array([1, None, 2], object)}, "'a' of sub-environment 1 is None"),
        ({"a": np.zeros(3), "_a": np.ones(2, bool)}, "is an array of shape"),
        ([1], "the info has a list of 1 where the key 'a' needs a dict"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(infos, message):
    with pytest.raises(MisfitError, match=message):
        read_vector_info(infos, "a", 3)


@pytest.mark.parametrize("keys", ["is_success", ("a", "a"), ("a", ""), (1,), 7, None])
def test_the_keys_are_checked(keys):
    with pytest.raises(ConfigError, match=r"here.info_keys is .*: it must be a tuple of different texts"):
        check_info_keys("here.info_keys", keys)
    assert check_info_keys("here.info_keys", ["a", "b/c"]) == ("a", "b/c")


def expected_info(observation):
    """What an `InfoEnv` with the default length says at an observation."""
    _, number, episode, step = observation
    if step == 0:
        return [-1, -1, -1, 1]
    even = step if step % 2 == 0 else NAN
    return [1000 * number + episode, step, even, (number + episode) % 2 == 0 if step == 5 else NAN]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_info_belongs_to_its_step(num_workers):
    env_fns = [functools.partial(InfoEnv, number) for number in range(7)]
    if num_workers:
        batch = WorkerPool(env_fns, range(7), num_workers, info_keys=INFO_KEYS)
    else:
        batch = EnvBatch(env_fns, range(7), info_keys=INFO_KEYS)
    with contextlib.closing(batch):
        for t in range(15):
            batch.step() if t % 13 else batch.reset()
            expected = [expected_info(row) for row in batch.arrays.observation[0]]
            np.testing.assert_array_equal(batch.arrays.info, np.array(expected, np.float32))


def test_without_keys_the_info_is_never_looked_at():
    batch = EnvBatch([lambda: Fixed(None, "x", [])], [0])
    batch.reset()
    batch.step()
    batch.step()
    assert batch.arrays.info.shape == (1, 0)


def test_random_steps_at_the_start_end_with_the_info_of_their_last_step():
    batch = EnvBatch([functools.partial(InfoEnv, 3)] * 20, range(20), 4, info_keys=INFO_KEYS)
    batch.reset()
    observation = batch.arrays.observation[0]
    assert len(set(observation[:, 3])) > 2
    expected = [expected_info(row) for row in observation]
    np.testing.assert_array_equal(batch.arrays.info, np.array(expected, np.float32))


@pytest.mark.parametrize(
    "infos, step, num_workers",
    [
        (({"a": "x"},), 0, 0),
        (({}, {"a": "x"}), 1, 1),
        (({}, {"a": 1}, {"a": True}, {"a": "x"}), 3, 0),  # the reset after the last step of an episode
    ],
)
def test_an_error_names_environment_step_and_key(infos, step, num_workers):
    env_fns = [CountEnv, functools.partial(Fixed, *infos)]
    if num_workers:
        batch = WorkerPool(env_fns, range(2), num_workers, info_keys=("a",))
    else:
        batch = EnvBatch(env_fns, range(2), info_keys=("a",))
    with contextlib.closing(batch):
        with pytest.raises(EnvError, match=f"^environment 1, step {step}: the info's 'a' is 'x': it must"):
            batch.reset()
            for _ in range(step):
                batch.step()


class SingleEnvironment:
    """Looks like a TF-Agents `PyEnvironment` of one environment; `get_info` returns or raises `info`."""

    batched = False

    def __init__(self, info):
        self._info = info

    def observation_spec(self):
        return _Spec((), np.float32)

    def action_spec(self):
        return _Spec((), np.float32)

    def reward_spec(self):
        return _Spec((), np.float32)

    def time_step_spec(self):
        raise AssertionError

    def seed(self, seed):
        raise NotImplementedError

    def reset(self):
        return _TimeStep(np.float32(0), np.float32(0))

    def step(self, action):
        return _TimeStep(np.float32(1), np.float32(1))

    def get_info(self):
        if isinstance(self._info, Exception):
            raise self._info
        return self._info

    def close(self):
        pass


class _Spec:
    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, np.dtype(dtype)


class _TimeStep:
    discount = 1.0

    def __init__(self, observation, reward):
        self.observation, self.reward = observation, reward

    def is_last(self):
        return False


@pytest.mark.parametrize("info, expected", [({"a": 3}, 3.0), (None, NAN), (NotImplementedError(), NAN)])
def test_the_info_of_a_tf_agents_environment_is_read(info, expected):
    batch = EnvBatch([lambda: SingleEnvironment(info)], [0], info_keys=("a",))
    for call in (batch.reset, batch.step):
        batch.arrays.info[:] = 7
        call()
        np.testing.assert_array_equal(batch.arrays.info, [[expected]])
    EnvBatch([lambda: SingleEnvironment(ValueError())], [0]).reset()  # not asked
