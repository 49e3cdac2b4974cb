# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Networks in bfloat16: close to those in float32, with float32 variables, outputs and gradients."""

import functools

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.errors import ConfigError
from alf.networks import (
    GRU,
    LSTM,
    ActorCriticNetwork,
    CriticsNetwork,
    ImpalaResEncoder,
    KerasEncoder,
    NatureEncoder,
    ObservationEncoder,
    PolicyNetwork,
    QValueNetwork,
)
from alf.policies import ActorCriticPolicy
from tests.networks.rounding import distance, max_distance

VECTOR = tf.TensorSpec((4,), tf.float32)
IMAGE = tf.TensorSpec((1, 36, 36), tf.uint8)
NESTED = {"image": IMAGE, "more": (VECTOR, tf.TensorSpec((), tf.int32))}
T, B = 4, 3


def make_model(spec):
    initializer = tf.keras.initializers.Orthogonal(seed=0)
    return tf.keras.layers.Dense(8, "tanh", kernel_initializer=initializer)


def encoder_network(encoder):
    """Makes a constructor of networks whose heads follow the encoder."""
    return functools.partial(ActorCriticNetwork, fc_layer_params=(), encoder=encoder)


nature_network, res_network = encoder_network(NatureEncoder), encoder_network(ImpalaResEncoder)
keras_network = encoder_network(functools.partial(KerasEncoder, model=make_model))
mlp_network = functools.partial(ActorCriticNetwork, fc_layer_params=(16, 8), share_layers=True)
vector_encoder = functools.partial(ObservationEncoder, vector_layer_params=(8,))
# Name: constructor, observation spec, number of layers one after another. A recurrent layer is one for all
# inputs and one for each step.
RNN = 1 + T
NETWORKS = {
    "mlp": (mlp_network, VECTOR, 2),
    "separate": (functools.partial(mlp_network, share_layers=False), VECTOR, 2),
    "nested": (functools.partial(mlp_network, encoder=vector_encoder), NESTED, 4 + 2),
    "layer_norm": (functools.partial(mlp_network, layer_norm=True), VECTOR, 2),
    "gru": (functools.partial(mlp_network, rnn=GRU), VECTOR, 2 + RNN),
    "nature": (nature_network, IMAGE, 4),
    "res": (functools.partial(res_network, rnn=LSTM), IMAGE, 16 + RNN),
    "keras": (functools.partial(keras_network, rnn=GRU), VECTOR, 1 + RNN),
    "actor": (PolicyNetwork, VECTOR, 2),
    "q": (functools.partial(QValueNetwork, rnn=LSTM), VECTOR, 2 + RNN),
}


def random_nest(spec, *leading):
    """Numbers of order 1; all values that images have."""
    rng = np.random.default_rng(0)

    def draw(s):
        shape = (*leading, *s.shape)
        if s.dtype.is_floating:
            return tf.constant(rng.uniform(-1, 1, shape), s.dtype)
        return tf.constant(rng.integers(0, 256 if s.dtype == tf.uint8 else 2, shape), s.dtype)

    return tf.nest.map_structure(draw, spec)


def make_call(network, spec):
    """Makes a function that computes outputs [T, B, ...], the final state, any values; and all gradients."""
    state = random_nest(network.state_spec, B)
    unroll = tf.function(network, autograph=False)

    def call():
        with tf.GradientTape() as tape:
            results = unroll(random_nest(spec, T, B), state, tf.zeros((T, B), tf.bool))
            loss = sum(tf.reduce_sum(tf.square(x)) for x in tf.nest.flatten(results))
        return results, tape.gradient(loss, network.trainable_variables)

    return call


def assert_float32(*nests):
    for x in tf.nest.flatten(nests):
        assert x.dtype == tf.float32 and np.isfinite(x).all()


def same_weights(make):
    """A float32 and a bfloat16 network, with heads large enough to compare what comes out of them."""
    networks = [make(seed=1, compute_dtype=dtype) for dtype in ("float32", "bfloat16")]
    for a, b in zip(*(network.variables for network in networks), strict=True):
        np.testing.assert_array_equal(a, b)
        if a.shape.rank == 2 and a.shape[1] <= 4:
            a.assign(30 * a)
            b.assign(30 * b)
    return networks


@pytest.fixture(scope="module", params=NETWORKS)
def compared(request):
    """A network in bfloat16, its spec and number of layers, its call, and what it computes in float32."""
    make_network, spec, num_layers = NETWORKS[request.param]
    exact, rough = same_weights(functools.partial(make_network, spec, 3))
    return rough, spec, num_layers, make_call(rough, spec), make_call(exact, spec)()


def test_bfloat16_is_close_to_float32(compared):
    rough, spec, num_layers, call, (results, gradients) = compared
    rough_results, rough_gradients = call()
    assert_float32(rough.variables, rough_results, rough_gradients)
    assert 1e-5 < distance(rough_results, results) < max_distance(num_layers)
    assert 1e-5 < distance(rough_gradients, gradients) < max_distance(num_layers, passes=3)
    assert_float32(rough.policy(random_nest(spec, B), random_nest(rough.state_spec, B)))


def test_another_weight_is_not_close(compared):
    rough, _, num_layers, call, (results, gradients) = compared
    # The largest kernel is half noise.
    kernel = max(rough.trainable_variables, key=lambda v: v.shape.num_elements())
    noise, before = np.random.default_rng(1).normal(size=kernel.shape), kernel.numpy()
    kernel.assign_add(0.5 * np.linalg.norm(kernel) / np.linalg.norm(noise) * noise)
    other_results, other_gradients = call()
    kernel.assign(before)
    assert distance(other_results, results) > max_distance(num_layers)
    assert distance(other_gradients, gradients) > max_distance(num_layers, passes=3)


def test_critics():
    make = functools.partial(CriticsNetwork, VECTOR, 2, fc_layer_params=(8,), rnn=GRU)
    values = []
    for network in same_weights(make):
        features, state = network.features(
            random_nest(VECTOR, T, B), random_nest(network.state_spec, B), tf.zeros((T, B), tf.bool)
        )
        values.append(network.values(features, tf.ones((T, B, 2))))
        assert_float32(network.variables, features, state, values[-1])
    assert 1e-5 < distance(values[1], values[0]) < max_distance(RNN + 1)


def operations(function, *args):
    graph = tf.function(function, autograph=False).get_concrete_function(*args).graph
    return [(op.type, op.outputs[0].dtype) for op in graph.get_operations() if op.outputs]


def products(network, spec):
    """How many products a call computes in bfloat16, and how many in float32."""
    args = random_nest(spec, T, B), random_nest(network.state_spec, B), tf.zeros((T, B), tf.bool)
    ops = operations(network, *args)
    return [
        sum(op in ("MatMul", "Conv2D") and op_dtype == dtype for op, op_dtype in ops)
        for dtype in (tf.bfloat16, tf.float32)
    ]


@pytest.mark.parametrize(
    "name, num_products",
    # A recurrent layer: one product of all inputs, and one of each step's state for each of three gates.
    [
        ("mlp", 2),
        ("separate", 4),
        ("nested", 4 + 2 + 2),
        ("gru", 2 + 1 + 3 * T),
        ("nature", 4),
        ("keras", 2 + 3 * T),
    ],
)
def test_all_products_but_the_heads_are_bfloat16(name, num_products):
    make_network, spec, _ = NETWORKS[name]
    num_heads = 2 if name == "separate" else 1
    assert products(make_network(spec, 3, compute_dtype="bfloat16"), spec) == [num_products, num_heads]
    assert products(make_network(spec, 3), spec) == [0, num_products + num_heads]


def test_spectral_norm_stays_float32():
    network = mlp_network(VECTOR, 3, spectral_norm=True, compute_dtype="bfloat16")
    before = [v.numpy() for v in network.variables if "singular_vector" in v.name]
    assert_float32(network.variables, make_call(network, VECTOR)())
    assert products(network, VECTOR)[0] == 0
    after = [v.numpy() for v in network.variables if "singular_vector" in v.name]
    assert len(after) == 2 and all((a != b).any() for a, b in zip(after, before, strict=True))


@pytest.mark.parametrize("fast", [True, False])
def test_auto(monkeypatch, fast):
    monkeypatch.setattr("alf.networks.compute_dtype.bfloat16_is_fast", lambda: fast)
    network = mlp_network(VECTOR, 3, compute_dtype="auto")
    assert products(network, VECTOR) == ([2, 1] if fast else [0, 3])


def test_one_binding_does_it():
    gin.parse_config("ActorCriticNetwork.compute_dtype = 'bfloat16'")
    policy = ActorCriticPolicy(NESTED, tf.TensorSpec((2,), tf.float32))
    assert products(policy._network, NESTED) == [
        4 + 2 + 2,
        1,
    ]  # image, vectors, after both


def test_an_encoder_may_choose_its_own():
    gin.parse_config("NatureEncoder.compute_dtype = 'bfloat16'")
    assert products(ActorCriticNetwork(NESTED, 3), NESTED) == [4, 2 + 2 + 1]


def test_a_checkpoint_fits_both(tmp_path):
    old, new = (mlp_network(VECTOR, 3, rnn=LSTM, compute_dtype=dtype) for dtype in ("bfloat16", "float32"))
    path = tf.train.Checkpoint(network=old).write(str(tmp_path / "checkpoint"))
    tf.train.Checkpoint(network=new).read(path).assert_consumed().assert_existing_objects_matched()
    for a, b in zip(old.variables, new.variables, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("make_network", [mlp_network, nature_network, res_network, keras_network])
def test_it_is_checked(make_network):
    with pytest.raises(ConfigError, match="compute_dtype is 'float16': it must be one of 'float32', 'bfl"):
        make_network(IMAGE, 3, compute_dtype="float16")
    assert tf.keras.mixed_precision.global_policy().name == "float32"
