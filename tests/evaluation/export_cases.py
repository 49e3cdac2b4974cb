# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Policies of each kind, with their environments, and a record of how an `Agent` acts there."""

import functools
import pickle

import gymnasium
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from alf.core.nest_utils import to_tensor_spec
from alf.environments import load
from alf.networks import GRU, LSTM, ActorCriticNetwork, PolicyNetwork, QValueNetwork
from alf.networks.encoders import ImpalaResEncoder, ObservationEncoder
from alf.policies import (
    ActorCriticPolicy,
    EpisodeStep,
    EpsilonGreedyPolicy,
    PreviousAction,
    PreviousReward,
    SacPolicy,
)
from alf.policies.action_distributions import make_action_distribution
from alf.policies.agent import Agent
from alf.policies.data_transformers import (
    FrameStacker,
    ObservationNormalizer,
    Pipeline,
    RewardNormalizer,
    RunningStatistics,
)


class Car(gymnasium.Env):
    """Observations and actions of several parts."""

    observation_space = spaces.Dict(
        image=spaces.Box(0, 255, (1, 8, 8), np.uint8),
        **{"speed: x, y, z": spaces.Box(-np.inf, np.inf, (3,), np.float32)},
        gear=spaces.Discrete(5),
    )
    action_space = spaces.Dict(
        steer=spaces.Box(np.array([-1, 0], np.float32), np.array([1, 3], np.float32)),
        buttons=spaces.MultiDiscrete([2, 3]),
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self._observe(), {}

    def step(self, action):
        self.count += 1
        return self._observe(), float(action["steer"][0]), self.count == 9, False, {}

    def _observe(self):
        image = self.np_random.integers(0, 256, (1, 8, 8), np.uint8)
        speed = self.np_random.normal(2, 3, 3).astype(np.float32)
        return {"image": image, "speed: x, y, z": speed, "gear": self.np_random.integers(5)}


SMALL = dict(fc_layer_params=(16,), seed=1)


def actor_critic(rnn=None, continuous=None, compute_dtype="float32", **encoder):
    network = dict(SMALL, rnn=rnn, compute_dtype=compute_dtype, **encoder)
    actions = dict(continuous=continuous) if continuous else {}
    return functools.partial(
        ActorCriticPolicy,
        network=functools.partial(ActorCriticNetwork, **network),
        action_distribution=functools.partial(make_action_distribution, **actions),
    )


_images = functools.partial(ObservationEncoder, image_encoder=ImpalaResEncoder)
_sac = functools.partial(SacPolicy, network=functools.partial(PolicyNetwork, **SMALL))
_dqn = functools.partial(EpsilonGreedyPolicy, network=functools.partial(QValueNetwork, **SMALL))
_stack = functools.partial(FrameStacker, num_frames=3)
_lstm, _gru = functools.partial(LSTM, units=8), functools.partial(GRU, units=8)
# Name: environment, data transformers, policy.
CASES = {
    "feed_forward": ("CartPole-v1", (), actor_critic()),
    "lstm_stacked": ("CartPole-v1", (_stack,), actor_critic(_lstm)),
    "dqn": ("CartPole-v1", (ObservationNormalizer,), _dqn),
    "sac_normalized": ("Pendulum-v1", (ObservationNormalizer, RewardNormalizer), _sac),
    "parts_gru_beta": (
        Car,
        (PreviousAction, PreviousReward, EpisodeStep),
        actor_critic(_gru, "beta", encoder=_images),
    ),
}


def make_case(env_name, transformers, make_policy, seed=7):
    """Makes two sub-environments, and a policy whose actions differ from state to state."""
    limit = {} if callable(env_name) else {"max_episode_steps": 15}
    env = load(env_name, 2, seed=seed, num_workers="auto" if env_name == "CartPole-v1" else 0, **limit)
    specs = to_tensor_spec(env.observation_spec()), tf.TensorSpec(env.reward_spec().shape, tf.float32)
    action_spec = to_tensor_spec(env.action_spec())
    transformer = Pipeline(*specs, transformers, action_spec)
    policy = make_policy(transformer.observation_spec, action_spec, data_transformer=transformer)
    rng = np.random.default_rng(seed)
    for variable in policy.trainable_variables:
        if variable.shape.rank > 1:
            variable.assign_add(rng.normal(0, 0.3, variable.shape))
    for module in policy.submodules:
        if isinstance(module, RunningStatistics):
            values = rng.normal(0.3, 0.5, (50, *module.mean().shape))
            module.update(values, tf.ones([50], tf.bool))
    return env, policy


def record(env, agent, num_steps):
    """Lets an agent act; returns the steps, dicts of NumPy arrays, and the actions, lists of arrays."""
    steps, actions, state = [], [], None
    time_step = env.reset()
    for _ in range(num_steps):
        leaves = tf.nest.flatten(time_step.observation)
        steps.append({**time_step._asdict(), "leaves": leaves})
        action, state = agent.act(*time_step, state)
        actions.append(tf.nest.flatten(action))
        time_step = env.step(action)
    return steps, actions


def write_case(folder, case, export, num_steps=40):
    """Records a case and exports its policy by `export(policy, path)`; returns the actions of the agent."""
    env, policy = make_case(*case)
    steps, actions = record(env, Agent(policy), num_steps)
    env.close()
    folder.mkdir()
    (folder / "record.pickle").write_bytes(pickle.dumps(steps))
    export(policy, str(folder / "export"))
    return actions
