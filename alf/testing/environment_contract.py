# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""EnvironmentContract: tests for pytest that every batched environment must pass, as a mixin.

class TestCartPole(EnvironmentContract):
    def make_env(self, seed):
        return load("CartPole-v1", batch_size=4, seed=seed)
"""

import contextlib
from typing import Any

import numpy as np
import tensorflow as tf

from alf.core.annotations import Environment, Nest
from alf.core.array_spec import BoundedArraySpec
from alf.data_structures import FIRST, LAST, EnvStep
from alf.environments.spaces import sample_actions


def sample_action(env: Environment, rng: np.random.RandomState) -> Nest:
    """Returns a random nest of actions [B, ...] of a batched environment, within its action spec."""
    return sample_actions(env.action_spec(), env.batch_size, rng)


def rollout(env: Environment, num_steps: int, action_seed: int = 0) -> list[Any]:
    """Returns the `EnvStep`s of a reset and of `num_steps` random actions, by `action_seed`."""
    rng = np.random.RandomState(action_seed)
    return [env.reset()] + [env.step(sample_action(env, rng)) for _ in range(num_steps)]


class EnvironmentContract:
    """Tests of a batched environment. Override `make_env`, and the attributes whose defaults do not fit.

    Attributes:
        num_steps: int, length of the rollouts.
        random: bool, whether another seed gives other time steps.
        ends: bool, whether an episode ends within `num_steps`.
    """

    env: Environment
    num_steps = 200
    random = True
    ends = True

    def make_env(self, seed: int) -> Environment:
        """Returns a new batched environment; `seed` is an int."""
        raise NotImplementedError

    # Only the tests of seeds and of `close` make environments of their own: some take seconds to start.
    @classmethod
    def setup_class(cls) -> None:
        cls.env = cls().make_env(seed=0)

    @classmethod
    def teardown_class(cls) -> None:
        cls.env.close()

    def test_is_batched(self) -> None:
        assert self.env.batched
        assert self.env.batch_size >= 1

    def test_time_steps_match_their_specs(self) -> None:
        step_type = BoundedArraySpec((), np.int32, FIRST, LAST, "step_type")
        spec = EnvStep(step_type, *self.env.time_step_spec()[1:])
        for time_step in rollout(self.env, self.num_steps):
            time_step = EnvStep(*time_step)
            tf.nest.assert_same_structure(spec, time_step)
            for s, x in zip(tf.nest.flatten(spec), tf.nest.flatten(time_step), strict=True):
                assert isinstance(x, np.ndarray), f"{s.name} is {type(x)}, not an array"
                found, expected = (x.dtype, x.shape), (s.dtype, (self.env.batch_size, *s.shape))
                assert found == expected, f"{s.name} is {found} instead of {expected}"
                assert x.flags.c_contiguous, f"{s.name} is not C-contiguous"
                if hasattr(s, "minimum"):
                    in_bounds = np.all(x >= s.minimum) and np.all(x <= s.maximum)
                    assert in_bounds, f"{s.name} is out of bounds: {x}"

    def test_reset_is_first_with_no_reward(self) -> None:
        for _ in range(2):
            time_step = self.env.reset()
            np.testing.assert_array_equal(time_step.step_type, FIRST)
            np.testing.assert_array_equal(time_step.reward, 0)
            np.testing.assert_array_equal(time_step.discount, 1)
            self.env.step(sample_action(self.env, np.random.RandomState(0)))

    def test_first_follows_last_and_nothing_else(self) -> None:
        step_types = np.stack([t.step_type for t in rollout(self.env, self.num_steps)])
        np.testing.assert_array_equal(step_types[:-1] == LAST, step_types[1:] == FIRST)
        assert np.any(step_types == LAST) == self.ends, f"ends is {self.ends}"

    def test_reset_in_the_middle_of_episodes_forgets_them(self) -> None:
        for num_steps in (3, self.num_steps):
            rollout(self.env, num_steps)  # leaves some episodes in the middle
            np.testing.assert_array_equal(self.env.reset().step_type, FIRST)
            time_step = self.env.step(sample_action(self.env, np.random.RandomState(0)))
            assert not np.any(time_step.step_type == FIRST), time_step.step_type

    def test_reward_and_discount_fit_the_step_type(self) -> None:
        for t in rollout(self.env, self.num_steps):
            np.testing.assert_array_equal(t.reward[t.step_type == FIRST], 0)
            np.testing.assert_array_equal(t.discount[t.step_type != LAST], 1)
            assert np.isin(t.discount[t.step_type == LAST], (0, 1)).all(), t

    def test_the_info_has_a_number_for_each_key(self) -> None:
        keys = getattr(self.env, "info_keys", ())
        self.env.reset()
        for seed in range(3):
            info = self.env.get_info() if keys else {}
            assert sorted(info) == sorted(keys)
            for key, x in info.items():
                assert x.shape == (self.env.batch_size,) and x.dtype == np.float32, key
            self.env.step(sample_action(self.env, np.random.RandomState(seed)))

    def test_returned_arrays_are_not_written_later(self) -> None:
        rng = np.random.RandomState(0)
        kept, copies = [], []
        for i in range(21):
            time_step = self.env.step(sample_action(self.env, rng)) if i else self.env.reset()
            kept.append(time_step)
            copies.append(tf.nest.map_structure(np.copy, time_step))
        for _ in range(20):
            self.env.step(sample_action(self.env, rng))
        self.env.reset()
        tf.nest.map_structure(np.testing.assert_array_equal, kept, copies)

    def test_actions_are_not_written(self) -> None:
        rng = np.random.RandomState(0)
        self.env.reset()
        for _ in range(20):
            action = sample_action(self.env, rng)
            copy = tf.nest.map_structure(np.copy, action)
            self.env.step(action)
            tf.nest.map_structure(np.testing.assert_array_equal, action, copy)

    def test_the_seed_decides_the_steps(self) -> None:
        runs = []
        for seed in (3, 3, 1003):
            with contextlib.closing(self.make_env(seed=seed)) as env:
                runs.append(rollout(env, self.num_steps))
        one, same, other = runs
        tf.nest.map_structure(np.testing.assert_array_equal, one, same)
        differs = not all(map(np.array_equal, tf.nest.flatten(one), tf.nest.flatten(other)))
        assert differs == self.random, f"random is {self.random}, but seeds say {differs}"

    def test_close_twice(self) -> None:
        env = self.make_env(seed=0)
        env.reset()
        env.close()
        env.close()
