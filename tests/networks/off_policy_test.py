# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Actors, action values and critics: shapes, recurrence, dueling heads, what is shared, settings."""

import functools

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.core.nest_utils import zeros_from_spec
from alf.errors import ConfigError
from alf.networks import GRU, LSTM, ActorCriticNetwork, CriticsNetwork, PolicyNetwork, QValueNetwork

VECTOR = tf.TensorSpec((4,), tf.float32)
IMAGE = tf.TensorSpec((1, 36, 36), tf.uint8)
NESTED = {"image": IMAGE, "more": (VECTOR, tf.TensorSpec((), tf.int32))}
T, B = 6, 3
SMALL = dict(fc_layer_params=(8,))
# Name: constructor, observation spec.
NETWORKS = {
    "actor": (functools.partial(PolicyNetwork, **SMALL), VECTOR),
    "actor_norm": (functools.partial(PolicyNetwork, layer_norm=True, **SMALL), NESTED),
    "actor_linear": (functools.partial(PolicyNetwork, fc_layer_params=()), VECTOR),
    "q": (functools.partial(QValueNetwork, **SMALL), NESTED),
    "q_image": (functools.partial(QValueNetwork, fc_layer_params=()), IMAGE),
    "q_plain": (functools.partial(QValueNetwork, dueling=False, **SMALL), VECTOR),
}


def random_observation(spec, *leading):
    rng = np.random.default_rng(0)
    return tf.nest.map_structure(
        lambda s: tf.constant(rng.integers(0, 5, (*leading, *s.shape)), s.dtype), spec
    )


def random_state(network):
    rng = np.random.default_rng(1)
    return tf.nest.map_structure(
        lambda s: tf.constant(rng.normal(size=(B, *s.shape)), s.dtype), network.state_spec
    )


def assert_close(a, b):
    tf.nest.assert_same_structure(a, b)
    for x, y in zip(tf.nest.flatten(a), tf.nest.flatten(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_have_the_leading_dimensions_of_the_observation(name):
    make_network, spec = NETWORKS[name]
    network = make_network(spec, 3)
    num_variables = len(network.variables)
    eager, in_graph = (lambda function: function), functools.partial(tf.function, autograph=False)
    for leading, wrap in (((5,), eager), ((7, 5), in_graph)):
        observation = random_observation(spec, *leading)
        (outputs, state), (policy, policy_state) = (
            wrap(function)(observation) for function in (network, network.policy)
        )
        assert outputs.shape == (*leading, 3) and outputs.dtype == tf.float32
        assert state == policy_state == network.state_spec == ()
        assert_close(policy, outputs)
    assert len(network.variables) == num_variables


def reset_twice():
    is_first = np.zeros((T, B), bool)
    is_first[0, 0] = is_first[3, 1] = True
    return is_first


# All networks have the same layers below their heads: not each of them needs both cells.
@pytest.mark.parametrize(
    "name, rnn",
    [
        ("actor", LSTM),
        ("actor_norm", GRU),
        ("actor_linear", GRU),
        ("q", GRU),
        ("q_image", LSTM),
        ("q_plain", LSTM),
    ],
)
def test_unroll_equals_steps(name, rnn):
    make_network, spec = NETWORKS[name]
    network = make_network(spec, 3, rnn=functools.partial(rnn, units=5))
    for v in network._head.variables:
        v.assign(100 * v)
    observation, state, is_first = random_observation(spec, T, B), random_state(network), reset_twice()
    outputs, final = network(observation, state, tf.constant(is_first))
    for t in range(T):
        state = tf.nest.map_structure(lambda s, t=t: tf.where(is_first[t][:, None], 0.0, s), state)
        row = tf.nest.map_structure(lambda x, t=t: x[t], observation)
        policy, state = network.policy(row, state)
        assert_close(policy, outputs[t])
    assert_close(state, final)


def test_dueling_head():
    """Q = V + A - mean(A): the mean over actions is the state's value."""
    network = QValueNetwork(VECTOR, 3, fc_layer_params=(8,))
    x = random_observation(VECTOR, B)
    bias, head, hidden_bias, kernel = (v.numpy() for v in network.trainable_variables)
    made = np.maximum(x.numpy() @ kernel + hidden_bias, 0) @ head + bias
    value, advantage = made[:, :1], made[:, 1:]
    q, _ = network(x)
    np.testing.assert_allclose(q, value + advantage - advantage.mean(-1, keepdims=True), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(q.numpy().mean(-1), value[:, 0], rtol=1e-4, atol=1e-6)
    plain = QValueNetwork(VECTOR, 3, dueling=False, fc_layer_params=(8,))
    assert [v.shape[-1] for v in (network.trainable_variables[0], plain.trainable_variables[0])] == [4, 3]


@pytest.mark.parametrize(
    "spec, rnn, action_size, num_outputs",
    [(VECTOR, None, 2, 1), (VECTOR, GRU, 0, 5), (NESTED, GRU, 2, 1), (NESTED, None, 0, 5)],
)
def test_critics(spec, rnn, action_size, num_outputs):
    network = CriticsNetwork(spec, action_size, num_outputs, num_critics=3, rnn=rnn, **SMALL)
    num_variables = len(network.variables)
    observation, state, is_first = random_observation(spec, T, B), random_state(network), reset_twice()
    features, final = tf.function(network.features, autograph=False)(
        observation, state, tf.constant(is_first)
    )
    action = tf.random.normal((T, B, 2)) if action_size else None
    values = tf.function(network.values, autograph=False)(features, action)
    assert values.shape == (3, T, B, num_outputs) and values.dtype == tf.float32
    assert len(network.variables) == num_variables
    assert np.abs(values[0] - values[1]).max() > 1e-3, "critics differ"
    for t in range(T):
        state = tf.nest.map_structure(lambda s, t=t: tf.where(is_first[t][:, None], 0.0, s), state)
        state = network.advance(tf.nest.map_structure(lambda x, t=t: x[t], observation), state)
    assert_close(state, final)
    if action_size:
        assert np.abs(network.values(features, action + 1) - values).max() > 1e-3


def test_critics_share_nothing_but_the_torso():
    network = CriticsNetwork(VECTOR, 2, rnn=GRU, **SMALL)
    x = random_observation(VECTOR, T, B)
    gradients = []
    for i in (0, 1):
        with tf.GradientTape() as tape:
            features, _ = network.features(x, random_state(network), tf.zeros((T, B), tf.bool))
            value = tf.reduce_sum(network.values(features, tf.zeros((T, B, 2)))[i])
        gradient = tape.gradient(value, network.trainable_variables)
        gradients.append([g is not None and np.abs(g).max() > 0 for g in gradient])
    in_torso = {id(v) for v in network._torso.trainable_variables}
    for v, *reached in zip(network.trainable_variables, *gradients, strict=True):
        assert reached == [True, True] if id(v) in in_torso else sum(reached) == 1


def test_seed_repeats_the_weights():
    for make in (PolicyNetwork, QValueNetwork, CriticsNetwork):

        def weights(seed, make=make):
            network = make(VECTOR, 2, fc_layer_params=(8, 8), rnn=GRU, seed=seed)
            return [v.numpy() for v in network.variables if v.shape.rank == 2]

        for a, b in zip(weights(3), weights(3), strict=True):
            np.testing.assert_array_equal(a, b)
        assert all((a != b).any() for a, b in zip(weights(3), weights(4), strict=True))


def test_gin_configures_them():
    gin.parse_config("""
        PolicyNetwork.rnn = @LSTM
        QValueNetwork.encoder = @ImpalaResEncoder
        QValueNetwork.fc_layer_params = ()
        CriticsNetwork.num_critics = 1
    """)
    assert len(PolicyNetwork(VECTOR, 2).state_spec) == 2
    assert QValueNetwork(IMAGE, 2)._torso.size == 256
    critic = CriticsNetwork(VECTOR, 2)
    assert critic.values(zeros_from_spec(VECTOR, B), tf.zeros((B, 2))).shape == (1, B, 1)


@pytest.mark.parametrize(
    "make, name, value",
    [
        (PolicyNetwork, "fc_layer_params", 64),
        (PolicyNetwork, "activation", "nope"),
        (PolicyNetwork, "layer_norm", 1),
        (PolicyNetwork, "encoder", "nature"),
        (QValueNetwork, "dueling", "yes"),
        (QValueNetwork, "rnn", "rnn"),
        (QValueNetwork, "fc_layer_params", (0,)),
        (CriticsNetwork, "num_critics", 0),
        (CriticsNetwork, "fc_layer_params", None),
        (CriticsNetwork, "layer_norm", "no"),
        (CriticsNetwork, "encoder", None),
    ],
)
def test_settings_are_checked(make, name, value):
    with pytest.raises(ConfigError, match=name):
        make(VECTOR, 2, **{name: value})


WRONG = {
    "fc_layer_params": 64,
    "activation": "nope",
    "layer_norm": "no",
    "spectral_norm": "no",
    "encoder": "nature",
    "rnn": "gru",
    "compute_dtype": "float16",
}
ALL = [ActorCriticNetwork, PolicyNetwork, QValueNetwork, CriticsNetwork]


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("make", ALL)
def test_gin_binds_each_setting_by_its_name(make, name):
    if name == "spectral_norm" and make is not ActorCriticNetwork:
        with pytest.raises(ValueError, match="doesn't have a parameter named 'spectral_norm'"):
            gin.bind_parameter(f"{make.__name__}.{name}", False)
        return
    gin.bind_parameter(f"{make.__name__}.{name}", WRONG[name])
    with pytest.raises(ConfigError, match=f"{name} is {WRONG[name]!r}"):
        make(VECTOR, 2)


@pytest.mark.parametrize("make", ALL)
def test_gin_binds_the_seed(make):
    def weights(seed):
        gin.bind_parameter(f"{make.__name__}.seed", seed)
        return [v.numpy() for v in make(VECTOR, 2).variables]

    assert all(np.array_equal(a, b) for a, b in zip(weights(3), weights(3), strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(weights(3), weights(4), strict=True))
