# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Networks: shapes, sharing, recurrence, what policy() computes, settings."""

import functools
import itertools

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.core.nest_utils import to_tensor_spec, zeros_from_spec
from alf.environments import BoundedArraySpec
from alf.errors import ConfigError
from alf.networks import (
    GRU,
    LSTM,
    ActorCriticNetwork,
    ImpalaResEncoder,
    KerasEncoder,
    NatureEncoder,
    QValueNetwork,
)
from tests.networks.rounding import distance, max_distance

VECTOR = tf.TensorSpec((4,), tf.float32)
NESTED = {"matrix": tf.TensorSpec((2, 3), tf.uint8), "more": (VECTOR, tf.TensorSpec((), tf.int32))}
IMAGE = tf.TensorSpec((1, 36, 36), tf.uint8)
T, B = 6, 3


def make_model(spec):
    return tf.keras.layers.Dense(8, "tanh")


def encoder_network(encoder, **kwargs):
    """Makes a constructor of networks whose heads follow the encoder."""
    return functools.partial(ActorCriticNetwork, fc_layer_params=(), encoder=encoder, **kwargs)


nature_network = encoder_network(NatureEncoder)
keras_network = encoder_network(functools.partial(KerasEncoder, model=make_model))


def mlp_network(spec, num_outputs, share_layers=True, **kwargs):
    return ActorCriticNetwork(spec, num_outputs, fc_layer_params=(8,), share_layers=share_layers, **kwargs)


# Name: constructor, observation spec.
NETWORKS = {
    "mlp": (mlp_network, VECTOR),
    "separate": (functools.partial(mlp_network, share_layers=False), VECTOR),
    "nested": (mlp_network, NESTED),
    "norms": (functools.partial(mlp_network, layer_norm=True, spectral_norm=True), VECTOR),
    "res_encoder": (functools.partial(mlp_network, encoder=ImpalaResEncoder), IMAGE),
    "nature": (nature_network, IMAGE),
    "nature_bfloat16": (functools.partial(nature_network, compute_dtype="bfloat16"), IMAGE),
    "res": (encoder_network(ImpalaResEncoder), IMAGE),
    "keras": (keras_network, VECTOR),
    "keras_separate": (functools.partial(keras_network, share_layers=False), VECTOR),
}
all_cells = pytest.mark.parametrize("rnn", [GRU, LSTM])
shared_or_not = pytest.mark.parametrize("share_layers", [True, False])


def random_observation(spec, *leading):
    rng = np.random.default_rng(0)
    return tf.nest.map_structure(
        lambda s: tf.constant(rng.integers(0, 5, (*leading, *s.shape)), s.dtype), spec
    )


def random_state(network, batch_size=B):
    rng = np.random.default_rng(1)
    return tf.nest.map_structure(
        lambda s: tf.constant(rng.normal(size=(batch_size, *s.shape)), s.dtype), network.state_spec
    )


def heads(network):
    return [head for head in (network._head, network._value_head) if head is not None]


def enlarge_heads(network):
    """Makes outputs of order 1, so that comparisons mean something."""
    for head in heads(network):
        head.kernel.assign(100 * head.kernel)


def assert_close(a, b):
    tf.nest.assert_same_structure(a, b)
    for x, y in zip(tf.nest.flatten(a), tf.nest.flatten(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


def eager(function):
    return function


in_graph = functools.partial(tf.function, autograph=False)


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_have_the_leading_dimensions_of_the_observation(name):
    make_network, spec = NETWORKS[name]
    network = make_network(spec, 3)
    num_variables = len(network.variables)
    for leading, wrap in (((), eager), ((5,), eager), ((7, 5), in_graph)):
        observation = random_observation(spec, *leading)
        outputs, value, state = wrap(network)(observation)
        assert outputs.shape == (*leading, 3) and value.shape == leading and state == network.state_spec == ()
        assert outputs.dtype == value.dtype == tf.float32
        policy, state = wrap(network.policy)(observation)
        assert policy.shape == (*leading, 3) and state == ()
        assert_close(policy, outputs)
        assert len(network.variables) == num_variables
        if leading:  # each row depends on itself alone
            one = network(tf.nest.map_structure(lambda x: x[-1:], observation))
            one, last = (one[0][0], one[1][0]), (outputs[-1], value[-1])
            if "bfloat16" in name:  # another number of rows may be added up in another order, before rounding
                assert distance(one, last) < max_distance(num_layers=4)
            else:
                assert_close(one, last)


# All cells have the same layers before and after them: not each network needs both.
@pytest.mark.parametrize("name, rnn", list(zip(NETWORKS, itertools.cycle((GRU, LSTM)))))
def test_recurrent_networks(name, rnn):
    make_network, spec = NETWORKS[name]
    network = make_network(spec, 3, rnn=functools.partial(rnn, units=5))
    num_variables = len(network.variables)
    state = random_state(network)
    outputs, value, final = in_graph(network)(
        random_observation(spec, T, B), state, tf.zeros((T, B), tf.bool)
    )
    assert outputs.shape == (T, B, 3) and value.shape == (T, B)
    assert outputs.dtype == value.dtype == tf.float32
    policy, new_state = network.policy(random_observation(spec, B), state)
    assert policy.shape == (B, 3)
    for s in (final, new_state):
        tf.nest.assert_same_structure(network.state_spec, s)
        assert all(x.shape == (B, 5) and x.dtype == tf.float32 for x in tf.nest.flatten(s))
    num_states = (2 if rnn is LSTM else 1) * (2 if "separate" in name else 1)
    assert len(tf.nest.flatten(network.state_spec)) == num_states
    assert len(network.variables) == num_variables


def test_sizes_may_be_unknown_when_tracing():
    network = mlp_network(VECTOR, 3)
    x = random_observation(VECTOR, T, B)
    call = tf.function(network, input_signature=[tf.TensorSpec((None, None, 4))])
    assert_close(call(x), network(x))
    network = mlp_network(VECTOR, 3, rnn=GRU)
    specs = [
        tf.TensorSpec((T, None, 4)),
        tf.TensorSpec((None, 64)),
        tf.TensorSpec((T, None), tf.bool),
    ]
    call = tf.function(network, input_signature=specs)
    args = x, random_state(network), tf.zeros((T, B), tf.bool)
    assert_close(call(*args), network(*args))


@shared_or_not
@all_cells
def test_unroll_equals_steps(rnn, share_layers):
    network = mlp_network(VECTOR, 3, share_layers=share_layers, rnn=rnn)
    enlarge_heads(network)
    x, state = random_observation(VECTOR, T, B), random_state(network)
    is_first = np.zeros((T, B), bool)
    is_first[0, 0] = is_first[2, 1] = is_first[4] = True
    outputs, value, final = network(x, state, tf.constant(is_first))
    for t in range(T):
        state = tf.nest.map_structure(lambda s, t=t: tf.where(is_first[t][:, None], 0.0, s), state)
        # The state that acting leaves is right for the value, too.
        rest = network(x[t:], state, tf.constant(is_first[t:]))
        assert_close(rest[:2], (outputs[t:], value[t:]))
        policy, state = network.policy(x[t], state)
        assert_close(policy, outputs[t])
    assert_close(state, final)


@shared_or_not
@all_cells
def test_rows_after_a_reset_are_a_fresh_unroll_and_segments_equal_the_whole(rnn, share_layers):
    network = mlp_network(VECTOR, 3, share_layers=share_layers, rnn=rnn)
    enlarge_heads(network)
    x, state = random_observation(VECTOR, T, B), random_state(network)
    is_first = np.zeros((T, B), bool)
    is_first[2] = True
    outputs, value, final = network(x, state, tf.constant(is_first))
    never = tf.zeros((T - 2, B), tf.bool)
    fresh = network(x[2:], zeros_from_spec(network.state_spec, B), never)
    assert_close(fresh, (outputs[2:], value[2:], final))
    _, _, middle = network(x[:2], state, tf.constant(is_first[:2]))
    assert_close(network(x[2:], middle, tf.constant(is_first[2:])), fresh)
    carried = network(x[2:], middle, never)
    assert not np.allclose(carried[0], fresh[0], atol=1e-2)


@shared_or_not
@all_cells
def test_gradients_flow_through_time_but_not_across_a_reset(rnn, share_layers):
    network = mlp_network(VECTOR, 3, share_layers=share_layers, rnn=rnn)
    x = random_observation(VECTOR, T, B)
    is_first = np.zeros((T, B), bool)
    is_first[2, 1] = True
    for part in (0, 1):  # outputs, value
        with tf.GradientTape() as tape:
            tape.watch(x)
            result = tf.reduce_sum(network(x, random_state(network), tf.constant(is_first))[part][4])
        reached = np.abs(tape.gradient(result, x)).max(axis=-1) > 0
        expected = np.ones((T, B), bool)
        expected[5] = expected[:2, 1] = False
        np.testing.assert_array_equal(reached, expected)


def operations(function, *args):
    graph = tf.function(function, autograph=False).get_concrete_function(*args).graph
    return [op.type for op in graph.get_operations()]


def test_shared_heads_are_one_product():
    network = mlp_network(VECTOR, 3)
    for function in (network, network.policy):
        assert operations(function, random_observation(VECTOR, B)).count("MatMul") == 2
    head_bias, head, b, w = (v.numpy() for v in network.trainable_variables)
    x = random_observation(VECTOR, B)
    expected = np.tanh(x @ w + b) @ head + head_bias
    outputs, value, _ = network(x)
    assert_close((outputs, value), (expected[:, :3], expected[:, 3]))


def test_policy_computes_no_value():
    x = random_observation(VECTOR, B)
    network = mlp_network(VECTOR, 3, share_layers=False)
    assert operations(network.policy, x).count("MatMul") == 2
    # With recurrence the state of the value advances, without its head.
    network = mlp_network(VECTOR, 3, share_layers=False, rnn=GRU)
    assert operations(network.policy, x, random_state(network)).count("MatMul") == 2 * 3 + 1


@pytest.mark.parametrize("rnn", [None, GRU])
@shared_or_not
def test_shared_layers_are_shared_and_others_are_not(share_layers, rnn):
    network = mlp_network(VECTOR, 2, share_layers=share_layers, rnn=rnn)
    args = random_observation(VECTOR, T, B), random_state(network), tf.zeros((T, B), tf.bool)
    gradients = []
    for part in (0, 1):
        with tf.GradientTape() as tape:
            result = tf.reduce_sum(network(*args)[part])
        gradients.append([g is not None for g in tape.gradient(result, network.trainable_variables)])
    # Kernel and bias of the hidden layer and of the head; of a GRU also recurrent kernel and bias.
    num_variables = 4 if rnn is None else 8
    if share_layers:
        assert gradients == [[True] * num_variables] * 2
    else:
        assert len(gradients[0]) == 2 * num_variables
        assert [p ^ v for p, v in zip(*gradients, strict=True)] == [True] * 2 * num_variables
        assert sum(gradients[0]) == num_variables


@pytest.mark.parametrize(
    "spec, kwargs, is_shared",
    [
        (VECTOR, {}, False),
        (NESTED, {}, False),
        (VECTOR, {"rnn": GRU}, True),
        (IMAGE, {"encoder": NatureEncoder}, True),
        (IMAGE, {}, True),
        (VECTOR, {"encoder": functools.partial(KerasEncoder, model=make_model)}, True),
    ],
)
def test_layers_are_shared_by_default_with_memory_or_an_encoder_with_weights(spec, kwargs, is_shared):
    network = ActorCriticNetwork(spec, 2, fc_layer_params=(8,), **kwargs)
    assert len(heads(network)) == (1 if is_shared else 2)
    assert bool(network.value_variables) == (not is_shared)


@shared_or_not
def test_initial_outputs_are_small(share_layers):
    network = mlp_network(VECTOR, 3, share_layers=share_layers, rnn=LSTM)
    kernels = [head.kernel.numpy() for head in heads(network)]
    assert [k.shape for k in kernels] == ([(64, 4)] if share_layers else [(64, 3), (64, 1)])
    for kernel in kernels:
        np.testing.assert_allclose(kernel.T @ kernel, 1e-4 * np.eye(kernel.shape[1]), atol=1e-9)


def test_seed_repeats_the_weights():
    def weights(seed, **kwargs):
        network = ActorCriticNetwork(VECTOR, 2, (8, 8), rnn=GRU, seed=seed, **kwargs)
        return [v.numpy() for v in network.variables if v.shape.rank == 2]

    for a, b in zip(weights(3), weights(3), strict=True):
        np.testing.assert_array_equal(a, b)
    assert all((a != b).any() for a, b in zip(weights(3), weights(4), strict=True))
    separate = weights(3, share_layers=False)
    assert len(separate) == 10
    assert all((a != b).any() for a, b in zip(separate[:4], separate[5:9], strict=True))


def test_bfloat16_network_is_close_to_the_float32_one():
    make = functools.partial(nature_network, IMAGE, 3, rnn=GRU, seed=0)
    exact, rough = make(), make(compute_dtype="bfloat16")
    enlarge_heads(exact)
    enlarge_heads(rough)
    assert all(v.dtype == tf.float32 for v in rough.variables)
    args = random_observation(IMAGE, T, B), random_state(exact), tf.zeros((T, B), tf.bool)
    assert 0 < distance(rough(*args), exact(*args)) < max_distance(num_layers=4 + 1 + T)


def test_norms_change_the_outputs():
    x = random_observation(VECTOR, B)
    plain = mlp_network(VECTOR, 3, seed=0)
    for norm in ("layer_norm", "spectral_norm"):
        network = mlp_network(VECTOR, 3, seed=0, **{norm: True})
        assert np.abs(network(x)[0] - plain(x)[0]).max() > 1e-4


def test_policy_leaves_the_spectral_norm_alone():
    network = mlp_network(VECTOR, 3, spectral_norm=True)
    (vector,) = (v for v in network.variables if "singular_vector" in v.name)
    assert not any(v is vector for v in network.trainable_variables)
    (kernel,) = (v for v in network.variables if v.shape == (4, 8))
    kernel.assign(np.random.default_rng(0).normal(size=(4, 8)))
    before = vector.numpy()
    x = random_observation(VECTOR, B)
    tf.function(network.policy, autograph=False)(x)
    np.testing.assert_array_equal(vector, before)
    outputs, _, _ = tf.function(network, autograph=False)(x)
    assert np.abs(vector - before).max() > 1e-3
    assert_close(network.policy(x)[0], outputs)


def test_all_variables_are_in_a_checkpoint(tmp_path):
    def make(seed):
        return mlp_network(VECTOR, 3, share_layers=False, spectral_norm=True, rnn=LSTM, seed=seed)

    old, new = make(0), make(1)
    path = tf.train.Checkpoint(network=old).write(str(tmp_path / "checkpoint"))
    tf.train.Checkpoint(network=new).read(path).assert_consumed().assert_existing_objects_matched()
    for a, b in zip(old.variables, new.variables, strict=True):
        np.testing.assert_array_equal(a, b)


def test_dropout_acts_in_training_only():
    make_dropout = functools.partial(KerasEncoder, model=lambda spec: tf.keras.layers.Dropout(0.5))
    network = encoder_network(make_dropout)(VECTOR, 3)
    enlarge_heads(network)
    x = random_observation(VECTOR, B)
    assert_close(network.policy(x)[0], network.policy(x)[0])
    call = tf.function(network, autograph=False)
    assert any(np.abs(call(x)[0] - network.policy(x)[0]).max() > 1e-3 for _ in range(10))


def test_encoders_and_networks_are_configurable():
    gin.parse_config("""
        ActorCriticNetwork.encoder = @ObservationEncoder
        ActorCriticNetwork.rnn = @LSTM
        LSTM.units = 8
        ObservationEncoder.image_encoder = @ImpalaResEncoder
        ImpalaResEncoder.compute_dtype = "bfloat16"
    """)
    network = ActorCriticNetwork({"a": IMAGE, "b": VECTOR}, 3)
    assert network._torso._encoder.size == 256 + 64
    assert network.state_spec == (tf.TensorSpec((8,)), tf.TensorSpec((8,)))


def test_a_keras_model_is_configurable():
    gin.external_configurable(make_model, "my_model")
    gin.parse_config("""
        ActorCriticNetwork.encoder = @KerasEncoder
        ActorCriticNetwork.fc_layer_params = ()
        ActorCriticNetwork.share_layers = False
        KerasEncoder.model = @my_model
    """)
    network = ActorCriticNetwork(VECTOR, 3)
    assert [v.shape for v in network.variables] == [(3,), (8, 3), (4, 8), (8,), (1,), (8, 1), (4, 8), (8,)]
    assert len(network.value_variables) == 4


INCOMPLETE = {
    "no is_first": (lambda network, x, state: network(x, state), "needs is_first"),
    "no state": (lambda network, x, state: network(x, (), tf.zeros((T, B), tf.bool)), "structure"),
    "no state of a step": (lambda network, x, state: network.policy(x[0]), "structure"),
}


@pytest.mark.parametrize("make", [mlp_network, QValueNetwork])
@pytest.mark.parametrize("call, message", INCOMPLETE.values(), ids=INCOMPLETE)
def test_a_recurrent_network_needs_its_state_and_is_first(make, call, message):
    network = make(VECTOR, 3, rnn=GRU)
    with pytest.raises((TypeError, ValueError), match=message):
        call(network, random_observation(VECTOR, T, B), random_state(network))


NO_UNITS = functools.partial(GRU, units=0)
WRONG = [
    *((dict(fc_layer_params=x), "fc_layer_params") for x in [(0,), (8, -1), 64, "64", (8.0,), None]),
    (dict(activation="nope"), "activation is 'nope'"),
    (dict(activation=3), "activation is 3"),
    (dict(share_layers="False"), "share_layers is 'False'"),
    (dict(layer_norm=1), "layer_norm is 1"),
    (dict(spectral_norm=None), "spectral_norm is None"),
    (dict(encoder="nature"), "encoder is 'nature'"),
    (dict(rnn="gru"), "rnn is 'gru'"),
    (dict(rnn=[GRU]), r"rnn is \["),
    (dict(rnn=GRU(4)), r"rnn is an object of GRU: it must be a class or function \(@NAME\), or None"),
    (dict(rnn=NO_UNITS), "GRU.units is 0"),
    (dict(encoder=functools.partial(KerasEncoder, model=None)), "KerasEncoder.model is None"),
]


def test_settings_are_checked(subtests):
    for settings, message in WRONG:
        with subtests.test(message), pytest.raises(ConfigError, match=message):
            ActorCriticNetwork(VECTOR, 2, **settings)
    with subtests.test("an encoder of images"), pytest.raises(ConfigError, match="GRU.units is 0"):
        ActorCriticNetwork(IMAGE, 2, encoder=NatureEncoder, rnn=NO_UNITS)
    gin.parse_config("ActorCriticNetwork.rnn = @GRU()")
    line = r"In gin write, without parentheses: ActorCriticNetwork\.rnn = @GRU"
    with subtests.test("gin"), pytest.raises(ConfigError, match=line):
        ActorCriticNetwork(VECTOR, 2)


def test_a_network_may_be_linear():
    network = ActorCriticNetwork(VECTOR, 3, fc_layer_params=(), share_layers=True)
    bias, kernel = (v.numpy() for v in network.variables)
    x = random_observation(VECTOR, B)
    expected = x.numpy() @ kernel + bias
    outputs, value, _ = network(x)
    assert_close((outputs, value), (expected[:, :3], expected[:, 3]))


def test_discrete_observations_enter_one_hot():
    spec = to_tensor_spec(BoundedArraySpec((), np.int64, 0, 4))
    network = mlp_network(spec, 2)
    head_bias, head, b, w = (v.numpy() for v in network.trainable_variables)
    assert w.shape == (5, 8)
    expected = np.tanh(w[[3, 0]] + b) @ head + head_bias
    assert_close(network(tf.constant([3, 0], tf.int64))[0], expected[:, :2])
