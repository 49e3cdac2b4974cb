# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Agent: acts as the policy does in a driver, for one observation or a batch, and names what does not fit."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from alf.core.nest_utils import BoundedTensorSpec
from alf.data_structures import FIRST, PolicyState, PolicyStep, TimeStep
from alf.errors import ConfigError
from alf.networks import GRU, ActorCriticNetwork
from alf.policies import ActorCriticPolicy, Policy
from alf.policies.agent import Agent
from alf.policies.data_transformers import FrameStacker, ObservationNormalizer, Pipeline

VECTOR, REWARD = tf.TensorSpec((2,), tf.float32), tf.TensorSpec((), tf.float32)
BOX = BoundedTensorSpec((2,), tf.float32, [-1.0, -2.0], [1.0, 2.0])


class EchoPolicy(Policy):
    """Its action is what it was shown: observation, previous action, reward; the state counts steps."""

    def __init__(self, action_spec=None):
        action_spec = action_spec or {"echo": VECTOR, "prev": VECTOR, "reward": REWARD, "count": REWARD}
        super().__init__(VECTOR, action_spec, PolicyState(train=REWARD))

    def rollout_step(self, time_step, state):
        action = {"echo": time_step.observation, "prev": time_step.prev_action["echo"]}
        action.update(reward=time_step.reward, count=state.train)
        return PolicyStep(action, state._replace(train=state.train + 1))

    def predict_step(self, time_step, state):
        step = self.rollout_step(time_step, state)
        return step._replace(action={**step.action, "count": step.action["count"] + 100})


def test_a_batch_and_one_observation():
    agent = Agent(EchoPolicy())
    batch = np.arange(6.0).reshape(3, 2)  # float64 will do
    actions, state = agent.predict(batch)
    assert isinstance(actions["echo"], np.ndarray) and actions["echo"].dtype == np.float32
    np.testing.assert_array_equal(actions["echo"], batch)
    action, _ = agent.predict(batch[1])
    assert action["echo"].shape == (2,) and action["count"].shape == ()
    np.testing.assert_array_equal(action["echo"], batch[1])
    again, _ = agent.predict(batch + 1, state)
    np.testing.assert_array_equal(again["prev"], batch)


def test_state_and_episode_start():
    agent = Agent(EchoPolicy())
    batch = np.ones([3, 2])
    actions, state = agent.predict(batch, deterministic=False)
    assert actions["count"].tolist() == [0, 0, 0] and actions["prev"].tolist() == [[0, 0]] * 3
    actions, state = agent.predict(batch, state, deterministic=False)
    assert actions["count"].tolist() == [1, 1, 1]
    actions, state = agent.predict(batch, state, episode_start=[False, True, False])
    assert actions["count"].tolist() == [102, 100, 102]
    assert actions["prev"].tolist() == [[1, 1], [0, 0], [1, 1]]
    actions, _ = agent.predict(batch, state, episode_start=True)
    assert actions["count"].tolist() == [100] * 3


class CountPolicy(Policy):
    """Its action is its state, the number of steps in the episode."""

    def __init__(self):
        super().__init__(VECTOR, REWARD, PolicyState(train=REWARD))

    def rollout_step(self, time_step, state):
        return PolicyStep(state.train, state._replace(train=state.train + 1))

    predict_step = rollout_step


class VecEnv:
    """What `evaluate_policy` of Stable-Baselines3 needs of its `VecEnv`, which begins episodes by itself.

    The reward is 1 if the action is the number of the step in the episode, else 0.
    """

    def __init__(self, lengths):
        self.lengths, self.num_envs, self._steps = lengths, len(lengths), None

    def reset(self):
        self._steps = np.zeros(self.num_envs)
        return np.zeros((self.num_envs, 2), np.float32)

    def step(self, actions):
        rewards = (actions == self._steps).astype(np.float32)
        dones = self._steps + 1 == self.lengths
        self._steps = np.where(dones, 0, self._steps + 1)
        return np.zeros((self.num_envs, 2), np.float32), rewards, dones, [{}] * self.num_envs


def evaluate_policy(model, env, n_eval_episodes, deterministic):
    """The calls of `stable_baselines3.common.evaluation.evaluate_policy`; returns the returns, a list."""
    returns, counts, current = [], np.zeros(env.num_envs, int), np.zeros(env.num_envs)
    targets = np.array([(n_eval_episodes + i) // env.num_envs for i in range(env.num_envs)])
    observations, states, episode_starts = env.reset(), None, np.ones((env.num_envs,), bool)
    while (counts < targets).any():
        actions, states = model.predict(
            observations, state=states, episode_start=episode_starts, deterministic=deterministic
        )
        observations, rewards, dones, _ = env.step(actions)
        current += rewards
        for i in np.flatnonzero(counts < targets):
            episode_starts[i] = dones[i]
            if dones[i]:
                returns.append(current[i])
                counts[i] += 1
                current[i] = 0
    return returns


@pytest.mark.parametrize("deterministic", [False, True])
def test_stable_baselines3_evaluates_it(deterministic):
    returns = evaluate_policy(Agent(CountPolicy()), VecEnv(np.array([2, 3, 7])), 6, deterministic)
    assert sorted(returns) == [2, 2, 3, 3, 7, 7]


def test_act_hands_on_the_reward():
    agent = Agent(EchoPolicy())
    ones = np.ones([2], np.float32)
    actions, _ = agent.act(np.ones([2], np.int32), ones * 7, ones, np.ones([2, 2], np.float32))
    assert actions["reward"].tolist() == [7, 7]


class WidePolicy(Policy):
    """Acts beyond the bounds, and shows in its state the previous action that it was given."""

    def __init__(self):
        super().__init__(VECTOR, BOX, PolicyState(train=VECTOR))

    def rollout_step(self, time_step, state):
        return PolicyStep(10.0 * time_step.observation, PolicyState(train=time_step.prev_action))


def test_actions_are_clipped_and_previous_actions_are_not():
    agent = Agent(WidePolicy())
    action, state = agent.predict([1.0, -1.0])
    assert action.tolist() == [1, -2]
    _, state = agent.predict([0.0, 0.0], state)
    assert state.policy.train.numpy().tolist() == [[10, -10]]


def test_nested_observations():
    class Nested(EchoPolicy):
        def __init__(self):
            spec = {"a": VECTOR, "b": (REWARD, VECTOR)}
            Policy.__init__(self, spec, spec)

        def rollout_step(self, time_step, state):
            return PolicyStep(time_step.observation)

        predict_step = rollout_step

    agent = Agent(Nested())
    action, _ = agent.predict({"a": [1, 2], "b": (3, np.ones(2))})
    assert action["a"].tolist() == [1, 2] and action["b"][0] == 3
    action, _ = agent.predict({"a": [[1, 2]] * 5, "b": ([3] * 5, np.ones([5, 2]))})
    assert action["b"][0].tolist() == [3] * 5
    with pytest.raises(ValueError, match="the observation does not fit the observation_spec"):
        agent.predict({"a": [1, 2]})


def test_integers_keep_their_values():
    class Bytes(EchoPolicy):
        def __init__(self):
            spec = tf.TensorSpec((2,), tf.uint8)
            Policy.__init__(self, spec, {"echo": spec})

        def rollout_step(self, time_step, state):
            return PolicyStep({"echo": time_step.observation})

        predict_step = rollout_step

    agent = Agent(Bytes())
    assert agent.predict([1, 255])[0]["echo"].tolist() == [1, 255]
    for wrong in ([1, 256], [0.5, 1.0]):
        with pytest.raises(ValueError, match="its space says .*dtype uint8"):
            agent.predict(wrong)


NO_STARTS = r"episode_start is .*: it must be a bool, or bools of the shape \[3\]"
WRONG = [  # (observation, more arguments, message)
    ({"x": [1.0, 2.0]}, {}, r"the observation is .*, its space says shape \(1, 2\)"),
    ([1.0, 2.0, 3.0], {}, r"shape \(1, 3\) and dtype float64, its space says shape \(1, 2\)"),
    (1.0, {}, r"shape \(1,\) and dtype"),
    (np.zeros([2, 2, 2]), {}, r"shape \(1, 2, 2, 2\)"),
    (np.zeros([5, 3]), {}, r"shape \(5, 3\) .* says shape \(5, 2\)"),
    (["a", "b"], {}, "dtype <U1"),
    (np.ones([2, 2]), {"state": "state"}, "the state is not one of this agent"),
    *(
        (np.ones([3, 2]), {"episode_start": starts}, NO_STARTS)
        for starts in ([True], [True] * 4, [[True] * 3], "yes", ["yes"] * 3, [2, 0, 1], [None] * 3)
    ),
]


def test_what_is_wrong_is_named(subtests):
    agent = Agent(EchoPolicy())
    for observation, arguments, message in WRONG:
        what = f"{message} {arguments}"
        with subtests.test(what), pytest.raises(ValueError, match=message):
            agent.predict(observation, **arguments)
    _, state = agent.predict(np.ones([3, 2]))
    message = "the state is not one of this agent for 2 environments"
    with subtests.test(message), pytest.raises(ValueError, match=message):
        agent.predict(np.ones([2, 2]), state)
    message = "policy is 3: it must be a Policy or a PolicyGroup"
    with subtests.test(message), pytest.raises(ConfigError, match=message):
        Agent(3)


@pytest.mark.parametrize("starts", [True, [True] * 3, np.array([1.0, 0.0, 1.0]), [0, 1, 0]])
def test_episodes_may_begin_as_other_frameworks_say(starts):
    Agent(EchoPolicy()).predict(np.ones([3, 2]), episode_start=starts)


@pytest.mark.parametrize("deterministic", [True, False])
def test_an_agent_computes_what_the_policy_does(deterministic):
    """With a recurrent network, two transformers with states, and rows that begin anew."""
    tf.random.set_seed(0)
    frames = tf.TensorSpec((3,), tf.float32)
    ctors = [functools.partial(FrameStacker, num_frames=2), ObservationNormalizer]
    transformer = Pipeline(frames, REWARD, ctors)
    network = functools.partial(ActorCriticNetwork, fc_layer_params=(8,), rnn=functools.partial(GRU, units=4))
    policy = ActorCriticPolicy(transformer.observation_spec, BOX, network, data_transformer=transformer)
    agent = Agent(policy)
    rng = np.random.default_rng(0)
    reward, discount = np.zeros([2], np.float32), np.ones([2], np.float32)
    choose = policy.predict if deterministic else policy.rollout
    policy_state, agent_state, prev = agent.initial_state(2).policy, None, tf.zeros([2, 2])
    for step_type in ([0, 0], [1, 1], [1, 2], [1, 0], [1, 1]):
        step_type = np.array(step_type, np.int32)
        observation = rng.normal(size=[2, 3]).astype(np.float32)
        starts = step_type == FIRST
        prev = tf.where(starts[:, np.newaxis], 0.0, prev)
        time_step = TimeStep(*map(tf.constant, (step_type, reward, discount, observation)), prev, tf.range(2))
        tf.random.set_seed(1)
        expected = choose(time_step, policy_state)
        policy_state, prev = expected.state, expected.action
        tf.random.set_seed(1)
        action, agent_state = agent.predict(observation, agent_state, deterministic, episode_start=starts)
        if deterministic:
            np.testing.assert_allclose(action, np.clip(prev, BOX.minimum, BOX.maximum), rtol=1e-5, atol=1e-6)
        else:
            prev = agent_state.prev_action
        assert isinstance(agent_state.policy, PolicyState)
        tf.nest.map_structure(
            lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6),
            agent_state.policy,
            policy_state,
        )
