# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""evaluate: exactly N episodes, each sub-environment's first ones, as a plain loop finds them."""

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

from alf.data_structures import EnvStep, PolicyStep
from alf.drivers import EnvSpecs
from alf.environments import ArraySpec, BatchedEnvironment, BoundedArraySpec, load
from alf.errors import ConfigError
from alf.evaluation.episodes import evaluate, summarize, summarize_episodes
from alf.policies import ActorCriticPolicy, Policy
from alf.policies.agent import Agent


class UnequalEnvironment(BatchedEnvironment):
    """Sub-environment i has episodes of `lengths[i]` steps; step k of episode e gives reward 100 e + i.

    `breaks`: (sub-environment, step of the batch): there the episode is broken off by a FIRST step.
    """

    def __init__(self, lengths, breaks=(), num_rewards=None):
        reward_spec = ArraySpec((num_rewards,), np.float32) if num_rewards else None
        spec = BoundedArraySpec((), np.int64, 0, 1, "action")
        super().__init__(len(lengths), ArraySpec((1,), np.float32), spec, reward_spec)
        self._lengths, self._breaks, self._num_rewards = np.array(lengths), set(breaks), num_rewards
        self.num_steps = 0

    def _reset(self):
        self._position = np.zeros_like(self._lengths)
        self._episode = np.zeros_like(self._lengths)
        return self._make(np.zeros(len(self._lengths), np.int32))

    def _step(self, action):
        self.num_steps += 1
        over = self._position == self._lengths
        self._episode += over
        broken = np.array([(i, self.num_steps) in self._breaks for i in range(len(self._lengths))])
        self._position = np.where(over | broken, 0, self._position + 1)
        step_type = np.where(self._position == 0, 0, np.where(self._position == self._lengths, 2, 1))
        return self._make(step_type.astype(np.int32))

    def _make(self, step_type):
        reward = np.where(step_type == 0, 0, 100 * self._episode + np.arange(len(self._lengths)))
        reward = reward.astype(np.float32)
        if self._num_rewards:
            reward = np.stack([reward] * self._num_rewards, axis=1)
        discount = np.ones(len(reward), np.float32)
        return EnvStep(step_type, reward, discount, np.zeros([len(reward), 1], np.float32))


class ZeroPolicy(Policy):
    def __init__(self, reward_shape=()):
        observation, action = tf.TensorSpec((1,), tf.float32), tf.TensorSpec((), tf.int64)
        super().__init__(observation, action)
        self.data_transformer.input_reward_spec = tf.TensorSpec(reward_shape, tf.float32)

    def rollout_step(self, time_step, state):
        return PolicyStep(tf.zeros(tf.shape(time_step.step_type), tf.int64))


@pytest.mark.parametrize("num_episodes", [1, 2, 3, 7, 12])
def test_each_sub_environment_contributes_its_first_episodes(num_episodes):
    lengths = [1, 5, 50]
    episodes = evaluate(Agent(ZeroPolicy()), UnequalEnvironment(lengths), num_episodes)
    expected = []
    for i, length in enumerate(lengths):
        share = len(range(i, num_episodes, len(lengths)))
        expected += [(length * (100 * e + i), length) for e in range(share)]
    assert list(zip(episodes.returns, episodes.lengths)) == expected
    assert len(expected) == num_episodes


def test_no_step_is_taken_after_the_last_episode():
    env = UnequalEnvironment([3, 4])
    evaluate(Agent(ZeroPolicy()), env, 2)
    assert env.num_steps == 4


def test_an_episode_that_was_broken_off_does_not_count():
    env = UnequalEnvironment([3, 4], breaks=[(1, 2)])
    episodes = evaluate(Agent(ZeroPolicy()), env, 2)
    assert episodes.lengths.tolist() == [3, 4] and episodes.returns.tolist() == [0, 4]
    assert env.num_steps == 6


def test_components_of_a_vector_reward_are_added_and_shown():
    env = UnequalEnvironment([3, 4], num_rewards=2)
    episodes = evaluate(Agent(ZeroPolicy((2,))), env, 2)
    assert episodes.returns.tolist() == [0, 8]
    assert {name: x.tolist() for name, x in episodes.components.items()} == dict.fromkeys(
        ("return_0", "return_1"), [0, 4]
    )
    figures = summarize_episodes(episodes)
    assert figures["return"]["mean"] == 4 and figures["return_1"]["mean"] == 2
    assert evaluate(Agent(ZeroPolicy()), UnequalEnvironment([3]), 1).components == {}


class InfoEnvironment(UnequalEnvironment):
    """Its info: "step"; "deep/even" in even steps; "end" in the last one, the number of the episode."""

    info_keys = ("step", "deep/even", "end", "never")

    def get_info(self):
        even = self._position % 2 == 0
        ends = self._position == self._lengths
        rows = self._position, np.where(even, self._position, np.nan), np.where(ends, self._episode, np.nan)
        return dict(zip(self.info_keys, np.array([*rows, rows[0] * np.nan], np.float32), strict=True))


def test_info_of_each_episode():
    lengths = [1, 5, 4]
    episodes = evaluate(Agent(ZeroPolicy()), InfoEnvironment(lengths, breaks=[(1, 2)]), 7)
    rows = [(n, np.mean(range(1, n + 1)), e) for n, k in zip(lengths, (3, 2, 2)) for e in range(k)]
    assert episodes.lengths.tolist() == [n for n, *_ in rows]
    evens = [np.mean(range(2, n + 1, 2)) if n > 1 else np.nan for n, *_ in rows]
    expected = {
        "info/step": [mean for _, mean, _ in rows],
        "info_last/step": [n for n, *_ in rows],
        "info/deep/even": evens,
        "info_last/deep/even": [n if n % 2 == 0 else np.nan for n, *_ in rows],
        "info/end": [e for *_, e in rows],
        "info_last/end": [e for *_, e in rows],
        "info/never": [np.nan] * 7,
        "info_last/never": [np.nan] * 7,
        "info_sum/step": [mean * n for n, mean, _ in rows],
        "info_sum/deep/even": [mean * (n // 2) for (n, *_), mean in zip(rows, evens, strict=True)],
        "info_sum/end": [e for *_, e in rows],
        "info_sum/never": [np.nan] * 7,
    }
    assert set(episodes.info) == set(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(episodes.info[name], values, err_msg=name)


def test_without_info_keys_there_is_no_info():
    assert evaluate(Agent(ZeroPolicy()), UnequalEnvironment([3]), 1).info == {}


def test_it_can_be_stopped():
    env = UnequalEnvironment([1, 1000])
    episodes = evaluate(Agent(ZeroPolicy()), env, 2, should_stop=lambda: env.num_steps == 10)
    assert episodes.lengths.tolist() == [1] and env.num_steps == 10


def test_every_step_is_reported():
    env, steps = UnequalEnvironment([2, 3]), []
    evaluate(Agent(ZeroPolicy()), env, 2, on_step=lambda: steps.append(env.num_steps))
    assert steps == [0, 1, 2, 3]


def test_steps_are_kept_on_request():
    """Of each episode that counts, from its FIRST to its LAST step; not of one that was broken off."""
    lengths = [1, 5, 4]
    episodes = evaluate(Agent(ZeroPolicy()), InfoEnvironment(lengths, breaks=[(1, 2)]), 7, keep_steps=True)
    assert len(episodes.steps) == 7
    rows = [(i, e) for i, k in enumerate((3, 2, 2)) for e in range(k)]
    for (row, number), steps in zip(rows, episodes.steps, strict=True):
        n = lengths[row]
        assert steps.step_type[:, 0].tolist() == [0, *[1] * (n - 1), 2]
        assert steps.reward[:, 0].tolist() == [0, *[100 * number + row] * n]
        assert steps.observation.shape == (n + 1, 1, 1) and steps.discount.shape == (n + 1, 1)
        assert steps.action.shape == (n + 1, 1) and steps.env_id[:, 0].tolist() == [row] * (n + 1)
        assert steps.env_info["step"][:, 0].tolist() == list(range(n + 1))
        np.testing.assert_array_equal(
            steps.env_info["end"][:, 0], [*[np.nan] * n, number], err_msg="only in the last step"
        )
    assert [float(x.reward.sum()) for x in episodes.steps] == episodes.returns.tolist()
    assert evaluate(Agent(ZeroPolicy()), UnequalEnvironment(lengths), 3).steps == ()


class SharedArrays(UnequalEnvironment):
    """Returns the same arrays at each step, with other content: here the position."""

    def _make(self, step_type):
        if self.num_steps == 0:
            self._shared = np.zeros([len(self._lengths), 1], np.float32)
        self._shared[:, 0] = self._position
        return super()._make(step_type)._replace(observation=self._shared)


def test_steps_are_copies_and_have_the_actions_around_them():
    class Counting(ZeroPolicy):
        def predict_step(self, time_step, state):
            return PolicyStep(tf.cast(time_step.observation[:, 0], tf.int64) % 2)

    episodes = evaluate(Agent(Counting()), SharedArrays([3, 4]), 2, keep_steps=True)
    for steps, n in zip(episodes.steps, (3, 4), strict=True):
        assert steps.observation[:, 0, 0].tolist() == list(range(n + 1))
        assert steps.action[:, 0].tolist() == [*[k % 2 for k in range(n)], (n - 1) % 2]
        assert steps.prev_action[:, 0].tolist() == [0, *[k % 2 for k in range(n)]]


@pytest.mark.parametrize("kind", ["object", "vector", "name", "callable"])
def test_an_environment_object_or_its_name(kind):
    with load("CartPole-v1", batch_size=1, num_workers=0) as batched:
        specs = EnvSpecs([batched])
    agent = Agent(ActorCriticPolicy(specs.observation, specs.action))
    env = {
        "object": lambda: gymnasium.make("CartPole-v1", max_episode_steps=7),
        "vector": lambda: gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="vector_entry_point"),
        "name": lambda: "CartPole-v1",
        "callable": lambda: lambda: gymnasium.make("CartPole-v1", max_episode_steps=7),
    }[kind]()
    episodes = evaluate(agent, env, 3, keep_steps=True)
    assert [len(x.reward) - 1 for x in episodes.steps] == episodes.lengths.tolist()
    assert len(episodes.lengths) == 3 and (episodes.lengths > 0).all()
    if kind in ("object", "callable"):
        assert max(episodes.lengths) <= 7
    if kind in ("object", "vector"):  # it is still open
        env.reset()
        env.step(env.action_space.sample())


def test_what_evaluate_makes_is_closed():
    closed = []

    class Closing(gymnasium.Wrapper):
        def close(self):
            closed.append(True)
            super().close()

    agent = Agent(ActorCriticPolicy(tf.TensorSpec((4,), tf.float32), EnvSpecs([load("CartPole-v1")]).action))
    env = Closing(gymnasium.make("CartPole-v1"))
    evaluate(agent, env, 1)
    assert not closed
    evaluate(agent, lambda: env, 1)
    assert closed


def test_an_environment_of_other_specs_is_refused():
    policy = ZeroPolicy()
    policy.data_transformer.input_observation_spec = tf.TensorSpec((2,), tf.float32)
    with pytest.raises(ConfigError, match=r"the environment .* observation.* \(1,\) instead of .* \(2,\)"):
        evaluate(Agent(policy), UnequalEnvironment([1]), 1)


def test_summarize():
    rng = np.random.default_rng(1)
    values = rng.normal(5.0, 2.0, 400)
    figures = summarize(values)
    assert figures["mean"] == pytest.approx(values.mean()) and figures["median"] == np.median(values)
    assert figures["std"] == pytest.approx(np.std(values, ddof=1))
    assert (figures["min"], figures["max"]) == (values.min(), values.max())
    # The interval of the mean of many numbers: 1.96 standard errors to each side.
    error = 1.96 * figures["std"] / 20
    assert figures["low"] == pytest.approx(values.mean() - error, abs=0.1 * error)
    assert figures["high"] == pytest.approx(values.mean() + error, abs=0.1 * error)
    assert summarize([3.0]) == dict(mean=3, median=3, std=0, min=3, max=3, low=3, high=3)
