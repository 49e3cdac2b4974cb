# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Players and games: random opponents, checkpoints of opponents, and evaluations of whole games."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from alf.core.nest_utils import BoundedTensorSpec, to_tensor_spec
from alf.core.randomness import bootstrap_interval
from alf.data_structures import FIRST, LAST, MID, EnvStep, TimeStep
from alf.environments import ArraySpec, BatchedEnvironment, BoundedArraySpec
from alf.errors import ConfigError
from alf.evaluation.episodes import evaluate, summarize_episodes
from alf.games import MappedEnvironment, PolicyGroup
from alf.games.players import add_players
from alf.policies import Agent
from alf.policies.random_policy import RandomPolicy

FEW_SAMPLES = functools.partial(bootstrap_interval, num_resamples=10)  # of the interval of a mean


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch):
    """The interval of a mean takes most of a short evaluation; episodes_test.py is about it."""
    monkeypatch.setattr("alf.evaluation.episodes.bootstrap_interval", FEW_SAMPLES)


class Race(BatchedEnvironment):
    """Games of three agents. In game g every agent's episode takes g + 2 steps; "quitter" has one step alone.

    The reward of each step is the action. After its end an agent gives FIRST steps until all have ended.
    """

    agents = ("fast", "slow", "quitter")
    space_names = None

    def __init__(self, num_games):
        super().__init__(
            3 * num_games,
            ArraySpec((2,), np.float32),
            BoundedArraySpec((), np.int64, 0, 2),
        )
        self._lengths = np.arange(num_games) + 2

    def _reset(self):
        self._time = np.full(len(self._lengths), -1)
        return self._advance(np.zeros(self._batch_size))

    def _step(self, action):
        return self._advance(action)

    def _advance(self, action):
        self._time = np.where(self._time == self._lengths, 0, self._time + 1)
        self.game_begins, self.game_ends = self._time == 0, self._time == self._lengths
        time, length = np.repeat(self._time, 3), np.repeat(self._lengths, 3)
        length[2::3] = 1
        step_type = np.where(time == length, LAST, np.where((time == 0) | (time > length), FIRST, MID))
        reward = np.where(step_type == FIRST, 0.0, action)
        observation = np.stack([time, np.arange(self._batch_size)], axis=1).astype(np.float32)
        ones = np.ones(self._batch_size, np.float32)
        return EnvStep(step_type.astype(np.int32), reward.astype(np.float32), ones, observation)


class Constant(RandomPolicy):
    """Chooses always the same action."""

    def __init__(self, action, env):
        super().__init__(to_tensor_spec(env.observation_spec()), to_tensor_spec(env.action_spec()))
        self._action = action

    def rollout_step(self, time_step, state):
        step = super().rollout_step(time_step, state)
        return step._replace(action=tf.ones_like(step.action) * self._action)


def make_race(num_games, mapping, kind=Race):
    """A race, and an agent that plays it: policy "two" adds 2 a step, "one" 1."""
    race = kind(num_games)
    env = MappedEnvironment(race, mapping, ("one", "two"), seed=0)
    policies = {"one": Constant(1, race), "two": Constant(2, race)}
    specs = to_tensor_spec(env.observation_spec()), to_tensor_spec(env.action_spec())
    return Agent(PolicyGroup(policies, *specs)), env


@pytest.mark.parametrize("num_episodes, num_games", [(1, 1), (7, 3), (9, 4)])
def test_exactly_n_games_count(num_episodes, num_games):
    agent, env = make_race(num_games, {"fast": "two", "slow": "one", "quitter": "two"})
    episodes = evaluate(agent, env, num_episodes)
    assert len(episodes.returns) == 3 * num_episodes
    share = [len(range(i, num_episodes, num_games)) for i in range(num_games)]
    lengths = np.repeat(np.arange(num_games) + 2, share)
    np.testing.assert_array_equal(episodes.lengths[episodes.labels["agents/fast"]], lengths)
    np.testing.assert_array_equal(episodes.returns[episodes.labels["agents/fast"]], 2 * lengths)
    np.testing.assert_array_equal(episodes.returns[episodes.labels["agents/slow"]], lengths)
    np.testing.assert_array_equal(episodes.returns[episodes.labels["agents/quitter"]], 2)


class BrokenOff(Race):
    """A race whose game 0 begins anew after its second step, in which "quitter" has ended."""

    _num_steps = 0

    def _step(self, action):
        self._num_steps += 1
        if self._num_steps == 2:
            self._time[0] = -1
        return super()._step(action)


def test_a_game_that_was_broken_off_does_not_count():
    mapping = {"fast": "two", "slow": "one", "quitter": "two"}
    expected, episodes = (evaluate(*make_race(2, mapping, kind), 3) for kind in (Race, BrokenOff))
    for name in ("returns", "lengths", "wins"):
        np.testing.assert_array_equal(getattr(episodes, name), getattr(expected, name))
    assert len(episodes.returns) == 3 * 3


def test_a_win_is_a_return_above_all_others():
    """Where two have the highest one, none wins. In game 0, of two steps, slow has 2, as quitter has."""
    agent, env = make_race(2, {"fast": "one", "slow": "one", "quitter": "one"})
    figures = summarize_episodes(evaluate(agent, env, 4))
    assert figures["agents/fast/win"]["mean"] == figures["agents/slow/win"]["mean"] == 0


class Fractions(Race):
    """A race of two steps with the rewards 0.1 and 0.2 for fast, 0.3 and 0 for slow, 0.3 for quitter."""

    def _advance(self, action):
        step = super()._advance(action)
        reward = np.array([[0, 0, 0], [0.1, 0.3, 0.3], [0.2, 0, 0]], np.float32)[self._time[0]]
        return step._replace(reward=np.where(step.step_type == FIRST, 0, reward).astype(np.float32))


def test_returns_that_float32_rounds_apart_are_no_win():
    agent, env = make_race(1, {"fast": "one", "slow": "one", "quitter": "one"}, Fractions)
    episodes = evaluate(agent, env, 3)
    assert len(set(episodes.returns)) > 1 and not episodes.wins.any()


def test_figures_of_agents_and_policies_are_those_of_the_rows_they_had():
    agent, env = make_race(2, {"fast": "two", "slow": "one", "quitter": "two"})
    figures = summarize_episodes(evaluate(agent, env, 2))
    assert figures["policies/one/return"]["mean"] == 2.5  # lengths 2 and 3
    assert figures["policies/two/return"]["mean"] == (4 + 6 + 2 + 2) / 4
    assert figures["agents/fast/win"]["mean"] == 1
    assert figures["agents/slow/win"]["mean"] == figures["agents/quitter/win"]["mean"] == 0


def make_steps(spec, num_rows, observation):
    signal = np.ones(num_rows, np.float32)
    return TimeStep(np.full(num_rows, MID, np.int32), signal, signal, observation, (), np.arange(num_rows))


@pytest.mark.parametrize(
    "spec, low, high",
    [
        (BoundedTensorSpec((), tf.int64, -1, 2), -1, 2),
        (BoundedTensorSpec((3,), tf.float32, -0.5, 2.0), -0.5, 2),
        (BoundedTensorSpec((3,), tf.float32, tf.float32.min, 2.0), -10, 2),
        (tf.TensorSpec((2,), tf.float32), -10, 10),
    ],
)
def test_random_actions_fill_the_bounds(spec, low, high):
    policy = RandomPolicy(tf.TensorSpec((1,), tf.float32), spec)
    step = policy.rollout(make_steps(spec, 4000, tf.zeros((4000, 1))), policy_state(policy, 4000))
    action = step.action.numpy()
    assert action.dtype == spec.dtype.as_numpy_dtype and action.shape[1:] == tuple(spec.shape)
    assert low <= action.min() < low + 0.02 * (high - low) and high >= action.max() > high - 0.02 * (
        high - low
    )
    # 6 standard deviations of the mean of uniform numbers
    assert abs(action.mean() - (low + high) / 2) < 6 * (high - low) / np.sqrt(10 * action.size)


def policy_state(policy, num_rows):
    return Agent(policy).initial_state(num_rows).policy


def test_random_actions_are_allowed_ones():
    observation_spec = {"board": tf.TensorSpec((1,), tf.float32), "action_mask": tf.TensorSpec((4,), tf.int8)}
    spec = BoundedTensorSpec((), tf.int64, 0, 3)
    policy = RandomPolicy(observation_spec, spec)
    mask = np.tile([[1, 0, 0, 1], [0, 1, 0, 0]], (1000, 1)).astype(np.int8)
    observation = {"board": np.zeros((2000, 1), np.float32), "action_mask": mask}
    action = policy.rollout(make_steps(spec, 2000, observation), policy_state(policy, 2000)).action.numpy()
    counts = np.bincount(action[::2], minlength=4)
    assert counts[1] == counts[2] == 0 and 400 < counts[0] < 600
    assert (action[1::2] == 1).all()


class Chase(BatchedEnvironment):
    """Games of one step, of a cat that chooses of 3 and sees one number, and a mouse that moves and sees two.

    The reward is the action.
    """

    agents = ("cat", "mouse")
    space_names = ("cat", "mouse")

    def __init__(self):
        observation = {name: ArraySpec((i,), np.float32) for i, name in enumerate(self.agents, 1)}
        move = BoundedArraySpec((), np.float32, -9, 9)
        super().__init__(2, observation, {"cat": BoundedArraySpec((), np.int64, 0, 2), "mouse": move})

    def _reset(self):
        return self._show(FIRST, np.zeros(2, np.float32))

    def _step(self, action):
        if self.game_ends.all():
            return self._reset()
        return self._show(LAST, np.array([action["cat"][0], action["mouse"][1]], np.float32))

    def _show(self, step_type, reward):
        self.game_begins, self.game_ends = np.array([step_type == FIRST]), np.array([step_type == LAST])
        observation = {name: np.ones((2, i), np.float32) for i, name in enumerate(self.agents, 1)}
        ones = np.ones(2, np.float32)
        return EnvStep(np.full(2, step_type, np.int32), reward, ones, observation)


class OneAction(RandomPolicy):
    """Chooses always the same action, in each entry; refuses observations that are not its own."""

    def __init__(self, action, observation_spec, action_spec):
        super().__init__(observation_spec, action_spec)
        self._action = action

    def rollout_step(self, time_step, state):
        tf.nest.map_structure(
            lambda x, s: x.shape[1:].assert_is_compatible_with(s.shape),
            time_step.observation,
            self.time_step_spec.observation,
        )
        step = super().rollout_step(time_step, state)
        return step._replace(
            action=tf.nest.map_structure(lambda x: tf.ones_like(x) * self._action, step.action)
        )


class Saved:
    """Has the place of a `SavedRun`: notes which checkpoints were asked for."""

    def __init__(self):
        self.checkpoints = []

    def restore(self, policy, checkpoint):
        self.checkpoints.append(checkpoint)


def make_chasers():
    """A run with a policy for each kind of agents, and one that acts as all of them."""
    chase = Chase()
    observation, action = to_tensor_spec(chase.observation_spec()), to_tensor_spec(chase.action_spec())
    spaces = {"hunter": "cat", "prey": "mouse"}
    policies = {
        name: OneAction(i, observation[entry], action[entry])
        for i, (name, entry) in enumerate(spaces.items(), 1)
    }
    mapped = MappedEnvironment(chase, {"cat": "hunter", "mouse": "prey"}, tuple(spaces), spaces)
    group = PolicyGroup(policies, to_tensor_spec(mapped.observation_spec()), action, spaces)
    return group, OneAction(2, observation, action)


@pytest.mark.parametrize(
    "is_group, text, returns",
    [
        (True, "cat=hunter,mouse=prey", {"cat": 1, "mouse": 2}),
        (True, "cat=random,mouse=prey", {"mouse": 2}),
        (False, "policy", {"cat": 2, "mouse": 2}),
        (False, "cat=random,mouse=policy", {"mouse": 2}),
    ],
)
def test_players_of_agents_with_different_spaces(is_group, text, returns):
    group, one = make_chasers()
    policy, env = add_players(Saved(), group if is_group else one, Chase(), text, seed=0)
    figures = summarize_episodes(evaluate(Agent(policy), env, 3))
    assert {name: figures[f"agents/{name}/return"]["mean"] for name in returns} == returns


@pytest.mark.parametrize("text", ["hunter", "cat=prey,mouse=hunter", "cat=hunter,mouse=hunter@3"])
def test_a_player_that_was_made_for_other_spaces_is_one_line(text):
    with pytest.raises(ConfigError, match="^policy: '.*' cannot act for '.*', because .* the spaces of '.*'"):
        add_players(Saved(), make_chasers()[0], Chase(), text)


def test_players_name_their_checkpoints():
    saved = Saved()
    add_players(saved, make_chasers()[0], Chase(), "cat=hunter@7,mouse=prey", checkpoint="best")
    assert saved.checkpoints == ["7", "best"]
    add_players(saved, make_chasers()[1], Chase(), "policy@")  # `SavedRun` says that there is no such one
    assert saved.checkpoints[2:] == [""]
