# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""ActorCriticPolicy: what it draws, its greedy action, masks, and unrolls like its single steps."""

from functools import partial

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.core.nest_utils import BoundedTensorSpec, zero_where, zeros_from_spec
from alf.data_structures import FIRST, LAST, MID, Experience, PolicyState, TimeStep
from alf.errors import ConfigError
from alf.networks import GRU, LSTM, ActorCriticNetwork
from alf.policies import ActorCriticPolicy, SacPolicy
from alf.policies.action_distributions import make_action_distribution

OBSERVATION = tf.TensorSpec((4,), tf.float32)
DISCRETE = BoundedTensorSpec((), tf.int64, 0, 2)
CONTINUOUS = BoundedTensorSpec((2,), tf.float32, -1.0, 1.0)


def log_softmax(x):
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def time_step(rows=5):
    rng = np.random.default_rng(0)
    observation = tf.constant(rng.normal(size=(rows, 4)), tf.float32)
    zeros = tf.zeros((rows,))
    index = tf.zeros((rows,), tf.int32)
    return TimeStep(index + 1, zeros, zeros + 1, observation, zeros, index)


@pytest.mark.parametrize("action_spec", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
def test_rollout_step_samples_and_says_from_what(action_spec):
    policy = ActorCriticPolicy(OBSERVATION, action_spec)
    rows = time_step(5000)
    rows = rows._replace(observation=tf.ones_like(rows.observation))
    step = tf.function(policy.rollout_step, autograph=False)(rows, PolicyState())
    spec = policy.info_spec
    tf.nest.assert_same_structure(spec, step.info)
    for x, s in zip(tf.nest.flatten(step.info), tf.nest.flatten(spec), strict=True):
        assert x.shape == (5000, *s.shape) and x.dtype == s.dtype
    assert step.action.dtype == action_spec.dtype
    assert step.action.shape == (5000, *action_spec.shape)
    # The same observation everywhere, yet the actions follow a distribution: about that of `info`.
    if action_spec is DISCRETE:
        p = np.exp(log_softmax(step.info.params.numpy()))[0]
        frequencies = np.bincount(step.action.numpy(), minlength=3) / 5000
        np.testing.assert_allclose(frequencies, p, atol=0.04)
    else:
        loc, log_scale = (x.numpy()[0] for x in step.info.params)
        np.testing.assert_allclose(step.action.numpy().mean(axis=0), loc, atol=0.1)
        np.testing.assert_allclose(step.action.numpy().std(axis=0), np.exp(log_scale), rtol=0.1)


@pytest.mark.parametrize("action_spec", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
def test_predict_step_is_greedy(action_spec):
    policy = ActorCriticPolicy(OBSERVATION, action_spec)
    rows = time_step(50)
    step = policy.predict_step(rows, PolicyState())
    outputs, _, _ = policy._network(rows.observation)
    if action_spec is DISCRETE:
        np.testing.assert_array_equal(step.action, outputs.numpy().argmax(axis=-1))
    else:
        np.testing.assert_allclose(step.action, outputs.numpy()[:, :2], rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(step.action, policy.predict_step(rows, PolicyState()).action)


def test_network_and_heads_can_be_chosen():
    made = []

    class Linear(tf.Module):
        def __init__(self, observation_spec, num_outputs):
            super().__init__()
            made.append((observation_spec, num_outputs))
            self.weights = tf.Variable(tf.ones((4, num_outputs)))

        state_spec = value_variables = ()

        def __call__(self, observation, state, is_first, training=True):
            return observation @ self.weights, tf.reduce_sum(observation, axis=-1), state

        def policy(self, observation, state):
            return observation @ self.weights, state

    policy = ActorCriticPolicy(OBSERVATION, DISCRETE, Linear)
    assert made == [(OBSERVATION, 3)]
    assert [v is policy._network.weights for v in policy.trainable_variables] == [True]
    policy.predict_step(time_step(), PolicyState())


OBSERVATIONS = {"seen": OBSERVATION, "mask": tf.TensorSpec((3,), tf.int8)}


def test_the_network_does_not_see_the_mask():
    made = []

    def network(observation_spec, num_outputs):
        made.append(observation_spec)
        return ActorCriticNetwork(observation_spec, num_outputs)

    for more in ({}, {"position": OBSERVATION}):
        spec = {**OBSERVATIONS, **more}
        policy = ActorCriticPolicy(spec, DISCRETE, network, action_mask_key="mask")
        assert policy.observation_spec == spec
    assert made == [OBSERVATION, {"seen": OBSERVATION, "position": OBSERVATION}]


@pytest.mark.parametrize("step", ["rollout_step", "predict_step"])
def test_steps_keep_to_the_mask(step):
    policy = ActorCriticPolicy(OBSERVATIONS, DISCRETE, action_mask_key="mask")
    rows = time_step(300)
    mask = np.tile([[0, 0, 1], [1, 1, 0], [0, 0, 0]], (100, 1)).astype(np.int8)
    rows = rows._replace(observation={"seen": rows.observation, "mask": tf.constant(mask)})
    action = getattr(policy, step)(rows, PolicyState()).action.numpy().reshape(100, 3)
    assert np.all(action[:, 0] == 2) and np.all(action[:, 1] < 2)
    assert set(action[:, 2]) <= {0, 1, 2}


@pytest.mark.parametrize(
    "observation_spec, key, message",
    [
        (OBSERVATION, "mask", "action_mask_key is 'mask': the observation has no keys"),
        (OBSERVATIONS, "action_mask", r"action_mask_key is 'action_mask': .* \['seen', 'mask'\]"),
        (OBSERVATIONS, "seen", r"the action mask is .* the logits' shape \(3,\)"),
    ],
)
def test_a_mask_that_is_not_there_or_does_not_fit_is_an_error(observation_spec, key, message):
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        ActorCriticPolicy(observation_spec, DISCRETE, action_mask_key=key)


def test_gin_chooses_the_distribution():
    gin.parse_config(
        "make_action_distribution.continuous = 'tanh_gaussian'\nmake_action_distribution.std = 'shared'\n"
        "ActorCriticNetwork.fc_layer_params = (8,)\nActorCriticNetwork.share_layers = True"
    )
    policy = ActorCriticPolicy(OBSERVATION, CONTINUOUS)
    action = policy.rollout_step(time_step(500), PolicyState()).action
    assert np.all(np.abs(action) <= 1) and np.std(action) > 0.5
    # Two layers of two variables each, and the deviation.
    assert [v.shape for v in policy.trainable_variables].count((2,)) == 1
    assert len(policy.trainable_variables) == 5


@pytest.mark.parametrize(
    "rnn, share_layers, mask_key",  # every two of them meet in all their values
    [
        (None, True, None),
        (None, False, "mask"),
        (GRU, True, "mask"),
        (GRU, False, None),
        (LSTM, True, None),
        (LSTM, False, "mask"),
    ],
)
def test_an_unroll_gives_the_parameters_of_its_single_steps(rnn, share_layers, mask_key):
    """Training must see the distributions that the actors drew from, also after the end of an episode."""
    network = partial(ActorCriticNetwork, share_layers=share_layers, rnn=rnn, seed=0)
    spec = OBSERVATION if mask_key is None else OBSERVATIONS
    policy = ActorCriticPolicy(spec, DISCRETE, network, action_mask_key=mask_key)
    length, rows = 5, 3
    rng = np.random.default_rng(0)
    observation = tf.constant(rng.normal(size=(length, rows, 4)), tf.float32)
    if mask_key is not None:
        mask = tf.constant(rng.integers(0, 2, (length, rows, 3)), tf.int8)
        observation = {"seen": observation, "mask": mask}
    step_type = np.full((length, rows), MID, np.int32)
    step_type[1, 0], step_type[2, 0], step_type[3, 1] = LAST, FIRST, FIRST
    first_state = tf.nest.map_structure(
        lambda s: tf.constant(rng.normal(size=(rows, *s.shape)), s.dtype), policy.state_spec.train
    )
    experience = Experience(step_type, *[()] * 9)._replace(observation=observation)
    experience = experience._replace(state=PolicyState(train=first_state))
    unrolled = policy.unroll(experience)
    assert unrolled.params.shape == (length, rows, 3) and unrolled.value.shape == (length, rows)
    state = PolicyState(train=first_state)
    for t in range(length):
        state = zero_where(tf.constant(step_type[t] == FIRST), state)
        seen = tf.nest.map_structure(lambda x, t=t: x[t], observation)
        step = policy.rollout_step(time_step(rows)._replace(observation=seen), state)
        np.testing.assert_allclose(step.info.params, unrolled.params[t], rtol=1e-4, atol=1e-5)
        tf.nest.assert_same_structure(step.state, policy.state_spec)
        state = step.state
    assert bool(policy.value_variables) == (not share_layers)
    if rnn is not None:
        zeros = PolicyState(train=zeros_from_spec(policy.state_spec.train, rows))
        other = policy.unroll(experience._replace(state=zeros))
        assert np.abs(other.value[0] - unrolled.value[0]).max() > 1e-4, "the first state matters"


SQUASHED = partial(make_action_distribution, continuous="tanh_gaussian", noise_correlation=0.9)


def make_noisy(name):
    if name == "SacPolicy":
        with gin.unlock_config():
            gin.bind_parameter("make_action_distribution.noise_correlation", 0.9)
        return SacPolicy(OBSERVATION, CONTINUOUS)
    network = partial(ActorCriticNetwork, rnn=partial(LSTM, units=3) if name == "recurrent" else None)
    return ActorCriticPolicy(OBSERVATION, CONTINUOUS, network, SQUASHED)


@pytest.mark.parametrize("name", ["plain", "recurrent", "SacPolicy"])
def test_noise_goes_from_step_to_step_and_not_to_training(name):
    policy = make_noisy(name)
    # Or training would take it for recurrent.
    assert bool(tf.nest.flatten(policy.state_spec.train)) == (name == "recurrent")
    rows, rollout = 4000, tf.function(policy.rollout, autograph=False)
    state, seen = zeros_from_spec(policy.state_spec, rows), []
    for step_type in (FIRST, MID, MID, LAST, FIRST):
        step = time_step(rows)._replace(
            step_type=tf.fill((rows,), step_type),
            prev_action=tf.zeros((rows, 2)),
            observation=tf.ones((rows, 4)),
        )
        state = rollout(step, state).state
        seen.append(state.noise.numpy()[:, 0])
    for i, j, correlation in [(0, 1, 0.9), (1, 3, 0.81), (3, 4, 0)]:
        assert abs(np.corrcoef(seen[i], seen[j])[0, 1] - correlation) < 5 / np.sqrt(rows)
    np.testing.assert_allclose(np.std(seen, axis=1), 1, rtol=5 / np.sqrt(2 * rows))
    predicted = policy.predict(step._replace(step_type=tf.fill((rows,), MID)), state)
    np.testing.assert_array_equal(predicted.state.noise, state.noise)
    actions = predicted.action.numpy()
    np.testing.assert_allclose(actions, actions[:1].repeat(rows, 0), rtol=1e-5)
