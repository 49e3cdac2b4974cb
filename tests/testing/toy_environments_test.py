# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Tests for the toy environments, and that users can import alf.testing without pytest."""

import ast
import pathlib

import numpy as np
import pytest

import alf
from alf.data_structures import FIRST, LAST, MID
from alf.testing import EnvironmentContract, rollout
from alf.testing import toy_environments as toy


class TestCountingContract(EnvironmentContract):
    random = False

    def make_env(self, seed):
        return toy.CountingEnvironment(5, seed=seed)


class TestMatchContract(EnvironmentContract):
    def make_env(self, seed):
        return toy.MatchObservationEnvironment(5, seed=seed)


class TestMatchContinuousContract(EnvironmentContract):
    def make_env(self, seed):
        return toy.MatchObservationEnvironment(5, continuous=True, seed=seed)


class TestRememberContract(EnvironmentContract):
    def make_env(self, seed):
        return toy.RememberEnvironment(5, seed=seed)


class TestRememberDelayOneContract(EnvironmentContract):
    def make_env(self, seed):
        return toy.RememberEnvironment(5, delay=1, seed=seed)


class TestNullContract(EnvironmentContract):
    random = False

    def make_env(self, seed):
        return toy.NullEnvironment(5, episode_length=7)


class TestEndlessNullContract(EnvironmentContract):
    random = False
    ends = False

    def make_env(self, seed):
        return toy.NullEnvironment(5)


def test_counting_counts_rows_steps_and_ids():
    steps = rollout(toy.CountingEnvironment(4, episode_length=5, env_index=2), 100)
    observation = np.stack([t.observation for t in steps])  # [T, B, 3]
    np.testing.assert_array_equal(observation[..., 0], [[8, 9, 10, 11]] * 101)
    np.testing.assert_array_equal(observation[..., 1], np.arange(101)[:, None] + [[0] * 4])
    for b, length in enumerate([5, 6, 7, 5]):
        expected = np.arange(101) % (length + 1)
        np.testing.assert_array_equal(observation[:, b, 2], expected)
        np.testing.assert_array_equal([t.reward[b] for t in steps], expected)
        np.testing.assert_array_equal(
            [t.step_type[b] for t in steps],
            np.where(expected == 0, FIRST, np.where(expected == length, LAST, MID)),
        )


def test_counting_goes_on_counting_after_reset():
    env = toy.CountingEnvironment(2)
    rollout(env, 3)
    np.testing.assert_array_equal(env.reset().observation, [[0, 4, 0], [1, 4, 0]])


def test_counting_ends_in_turn_by_termination_and_time_limit():
    steps = rollout(toy.CountingEnvironment(3), 100)
    for b in range(3):
        discounts = [t.discount[b] for t in steps if t.step_type[b] == LAST]
        assert len(discounts) > 6
        np.testing.assert_array_equal(discounts, np.arange(len(discounts)) % 2)


def test_match_pays_for_the_target_that_was_seen():
    env = toy.MatchObservationEnvironment(64, num_actions=4, episode_length=3)
    seen = env.reset().observation
    assert {tuple(row) for row in seen} == {tuple(row) for row in np.eye(4)}
    for right, step_type in ((True, MID), (False, MID), (True, LAST)):
        action = (np.argmax(seen, axis=1) + (not right)) % 4
        time_step = env.step(action)
        np.testing.assert_array_equal(time_step.reward, float(right))
        np.testing.assert_array_equal(time_step.step_type, step_type)
        np.testing.assert_array_equal(time_step.discount, 1)
        seen = time_step.observation
    # The row that starts the next episode ignores the action, even the right one.
    time_step = env.step(np.argmax(seen, axis=1))
    np.testing.assert_array_equal(time_step.reward, 0)


def test_match_continuous_pays_by_the_square_and_clips():
    env = toy.MatchObservationEnvironment(8, continuous=True)
    target = env.reset().observation
    time_step = env.step(target)
    np.testing.assert_array_equal(time_step.reward, 1)
    target = time_step.observation
    time_step = env.step(target + 0.5)
    np.testing.assert_allclose(time_step.reward, 0.75, rtol=1e-6)
    target = time_step.observation
    time_step = env.step(np.full([8, 1], 5, np.float32))
    np.testing.assert_allclose(time_step.reward, 1 - (2 - target[:, 0]) ** 2, rtol=1e-6)


def test_remember_shows_the_bit_once_and_pays_once():
    env = toy.RememberEnvironment(64, delay=3)
    for episode in range(4):
        time_step = env.reset() if episode == 0 else env.step(np.zeros([64], np.int64))
        np.testing.assert_array_equal(time_step.step_type, FIRST)
        np.testing.assert_array_equal(time_step.observation.sum(axis=1), 1)
        bit = np.argmax(time_step.observation, axis=1)
        assert set(bit) == {0, 1}
        answer = bit if episode % 2 == 0 else 1 - bit
        for t, (step_type, reward) in enumerate([(MID, 0), (MID, 0), (LAST, float(episode % 2 == 0))]):
            time_step = env.step(answer if t == 2 else 1 - answer)  # Only the last one counts.
            np.testing.assert_array_equal(time_step.step_type, step_type)
            np.testing.assert_array_equal(time_step.reward, reward)
            np.testing.assert_array_equal(time_step.observation, 0)
        np.testing.assert_array_equal(time_step.discount, 0)


def test_null_reuses_its_arrays_and_protects_them():
    env = toy.NullEnvironment(3, observation_dim=2)
    env.reset()
    one, other = env.step(None), env.step(None)
    assert one is other
    with pytest.raises(ValueError, match="read-only"):
        one.observation[0, 0] = 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: toy.CountingEnvironment(0),
        lambda: toy.CountingEnvironment(2, episode_length=0),
        lambda: toy.RememberEnvironment(2, delay=0),
        lambda: toy.NullEnvironment(0),
        lambda: toy.NullEnvironment(2, episode_length=0),
    ],
)
def test_refuses_sizes_below_one(make):
    with pytest.raises(ValueError, match="at least 1"):
        make()


def test_refuses_actions_of_the_wrong_shape():
    env = toy.MatchObservationEnvironment(2)
    env.reset()
    with pytest.raises(ValueError, match=r"shape \(2, 1\) instead of \(2,\)"):
        env.step(np.zeros([2, 1], np.int64))


def test_the_product_imports_neither_pytest_nor_its_own_test_tools():
    root = pathlib.Path(alf.__file__).parent
    for path in root.rglob("*.py"):
        imported = []
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                imported += [f"{node.module}.{alias.name}" for alias in node.names]
        wrong = [name for name in imported if name.split(".")[0] == "pytest"]
        # `alf.testing` of the package itself is loaded when it is asked for.
        if root / "testing" not in path.parents and path != root / "__init__.py":
            wrong += [name for name in imported if name.startswith("alf.testing")]
        assert not wrong, f"{path} imports {wrong}"
