# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What every batched environment promises, as tests to be mixed in.

class TestCartPole(EnvironmentContract):
  def make_env(self, seed):
    return load("CartPole-v1", batch_size=4, seed=seed)
"""

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.specs import array_spec

FIRST, MID, LAST = 0, 1, 2


def sample_action(env, rng):
    """Returns a batch of actions within `env.action_spec()`; `rng` is a RandomState.

    `array_spec.sample_spec_nest` cannot: it has no batches of integers with one bound
    per element.
    """

    def sample(spec):
        shape = (env.batch_size,) + tuple(spec.shape)
        if not isinstance(spec, array_spec.BoundedArraySpec):
            return rng.standard_normal(shape).astype(spec.dtype)
        if np.issubdtype(spec.dtype, np.integer):
            return rng.randint(spec.minimum, spec.maximum.astype(np.int64) + 1, shape).astype(spec.dtype)
        low, high = np.maximum(spec.minimum, -10), np.minimum(spec.maximum, 10)
        return rng.uniform(low, high, shape).astype(spec.dtype)

    return tf.nest.map_structure(sample, env.action_spec())


def rollout(env, num_steps, action_seed=0):
    """Returns a list of `num_steps + 1` `TimeStep`s under actions that are always the same."""
    rng = np.random.RandomState(action_seed)
    return [env.reset()] + [env.step(sample_action(env, rng)) for _ in range(num_steps)]


def assert_matches(spec, array, batch_size):
    """Asserts type, dtype, shape [B, ...], layout and bounds of one array."""
    assert isinstance(array, np.ndarray)
    assert array.dtype == spec.dtype
    assert array.shape == (batch_size,) + tuple(spec.shape)
    assert array.flags.c_contiguous
    if isinstance(spec, array_spec.BoundedArraySpec):
        assert np.all(array >= spec.minimum) and np.all(array <= spec.maximum)


class EnvironmentContract:
    """Override `make_env`, and the attributes where the defaults do not fit."""

    num_steps = 200
    random = True  # Different seeds give different data.
    ends = True  # An episode ends within num_steps.

    def make_env(self, seed):
        """Returns a new batched environment."""
        raise NotImplementedError

    @pytest.fixture
    def env(self):
        env = self.make_env(seed=0)
        yield env
        env.close()

    def test_is_batched(self, env):
        assert env.batched
        assert env.batch_size >= 1

    def test_time_steps_match_their_specs(self, env):
        spec = env.time_step_spec()
        for time_step in rollout(env, self.num_steps):
            tf.nest.assert_same_structure(spec, time_step)
            for leaf, array in zip(tf.nest.flatten(spec), tf.nest.flatten(time_step)):
                if leaf.name == "step_type":
                    assert_matches(
                        array_spec.BoundedArraySpec((), np.int32, FIRST, LAST),
                        array,
                        env.batch_size,
                    )
                else:
                    assert_matches(leaf, array, env.batch_size)

    def test_reset_is_first_with_no_reward(self, env):
        for _ in range(2):
            time_step = env.reset()
            np.testing.assert_array_equal(time_step.step_type, FIRST)
            np.testing.assert_array_equal(time_step.reward, 0)
            np.testing.assert_array_equal(time_step.discount, 1)
            env.step(sample_action(env, np.random.RandomState(0)))

    def test_first_follows_last_and_nothing_else(self, env):
        step_types = np.stack([t.step_type for t in rollout(env, self.num_steps)])
        np.testing.assert_array_equal(step_types[:-1] == LAST, step_types[1:] == FIRST)
        assert np.any(step_types == LAST) == self.ends

    def test_reset_in_the_middle_of_episodes_forgets_them(self, env):
        for num_steps in (3, self.num_steps):
            rollout(env, num_steps)  # It resets at its start, whatever was going on.
            np.testing.assert_array_equal(env.reset().step_type, FIRST)
            time_step = env.step(sample_action(env, np.random.RandomState(0)))
            assert not np.any(time_step.step_type == FIRST)

    def test_reward_and_discount_fit_the_step_type(self, env):
        for t in rollout(env, self.num_steps):
            np.testing.assert_array_equal(t.reward[t.step_type == FIRST], 0)
            np.testing.assert_array_equal(t.discount[t.step_type != LAST], 1)
            assert np.isin(t.discount[t.step_type == LAST], (0, 1)).all()

    def test_returned_arrays_are_not_written_later(self, env):
        rng = np.random.RandomState(0)
        kept, copies = [], []
        for i in range(21):
            time_step = env.step(sample_action(env, rng)) if i else env.reset()
            kept.append(time_step)
            copies.append(tf.nest.map_structure(np.copy, time_step))
        for _ in range(20):
            env.step(sample_action(env, rng))
        env.reset()
        tf.nest.map_structure(np.testing.assert_array_equal, kept, copies)

    def test_actions_are_not_written(self, env):
        rng = np.random.RandomState(0)
        env.reset()
        for _ in range(20):
            action = sample_action(env, rng)
            copy = tf.nest.map_structure(np.copy, action)
            env.step(action)
            tf.nest.map_structure(np.testing.assert_array_equal, action, copy)

    def test_same_seed_gives_the_same_steps(self):
        runs = [self._rollout_of_new_env(seed=3) for _ in range(2)]
        tf.nest.map_structure(np.testing.assert_array_equal, *runs)

    def test_different_seeds_differ(self):
        if not self.random:
            pytest.skip("nothing random")
        one, other = (self._rollout_of_new_env(seed) for seed in (3, 1003))
        assert not all(np.array_equal(a, b) for a, b in zip(tf.nest.flatten(one), tf.nest.flatten(other)))

    def test_close_twice(self, env):
        env.reset()
        env.close()
        env.close()

    def _rollout_of_new_env(self, seed):
        env = self.make_env(seed=seed)
        try:
            return rollout(env, self.num_steps)
        finally:
            env.close()
