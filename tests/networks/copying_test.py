# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""copy.deepcopy of networks: the same function of variables of their own."""

import copy
import functools
import itertools
import random

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

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

VECTOR = tf.TensorSpec((4,), tf.float32)
IMAGE = tf.TensorSpec((1, 36, 36), tf.uint8)
NESTED = {"image": IMAGE, "more": (VECTOR, tf.TensorSpec((), tf.int32))}
T, B = 3, 2


def random_nest(spec, *leading):
    rng = np.random.default_rng(0)
    return tf.nest.map_structure(
        lambda s: tf.constant(rng.integers(0, 5, (*leading, *s.shape)), s.dtype), spec
    )


def outputs_of(network, spec):
    """What the methods of a network compute, without training where they can be told."""
    state, is_first = random_nest(network.state_spec, B), tf.zeros((T, B), tf.bool)
    observation = random_nest(spec, T, B)
    if isinstance(network, CriticsNetwork):
        features, final = network.features(observation, state, is_first, training=False)
        outputs = network.values(features, tf.ones((T, B, 2))), final
        acting = network.advance(random_nest(spec, B), state)
    else:
        kwargs = {} if isinstance(network, ActorCriticNetwork) else {"training": False}
        outputs = network(observation, state, is_first, **kwargs)
        acting = network.policy(random_nest(spec, B), state)
    return [x.numpy() for x in tf.nest.flatten((acting, outputs))]


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def values(module):
    return [v.numpy() for v in module.variables]


def is_float(x):
    """Layers of Keras 3 that draw numbers have variables of integers."""
    return x.dtype == np.float32


def kinds(variables):
    return [(type(v), v.shape, v.dtype, v.trainable) for v in variables]


def assign(module, new_values):
    for v, value in zip(module.variables, new_values, strict=True):
        v.assign(value)


def check_copy(module, compute):
    """Checks that a copy of the module has variables of its own, and that both compute the same.

    Args:
        module: a network or encoder.
        compute: a function of the module that returns a list of arrays; it may move the estimates of
            `spectral_norm`.

    Returns:
        the copy.
    """
    # Away from the initial values, which a module that is only made again would have, too.
    rng = np.random.default_rng(1)
    assign(module, [x + is_float(x) * rng.normal(scale=0.1, size=x.shape) for x in values(module)])
    new = copy.deepcopy(module)
    assert kinds(new.variables) == kinds(module.variables)
    assert [v.trainable for v in new.variables] == [v.trainable for v in module.variables]
    assert not {id(v.handle) for v in new.variables} & {id(v.handle) for v in module.variables}
    start = values(module)
    assert same(values(new), start)
    outputs = compute(module)
    moved, others = values(module), [0.9 * x + 0.1 if is_float(x) else x for x in start]
    assert same(values(new), start)
    # What happens to the original changes nothing of the copy, nor the other way round.
    assign(module, others)
    assert same(values(new), start)
    assert same(compute(new), outputs)
    assert same(values(new), moved)
    assert same(values(module), others)
    assign(module, start)
    assign(new, others)
    assert not same(compute(new), outputs)
    assert same(values(module), start)
    assert same(compute(module), outputs)
    return new


SETTINGS = {
    "plain": {},
    "layer_norm": {"layer_norm": True},
    "bfloat16": {"compute_dtype": "bfloat16"},
    "bfloat16_layer_norm": {"compute_dtype": "bfloat16", "layer_norm": True},
}


# Every two of the four settings meet in all their values.
@pytest.mark.parametrize(
    "setting, rnn, share_layers, spectral_norm",
    [
        ("plain", None, True, True),
        ("plain", GRU, False, False),
        ("plain", LSTM, True, False),
        ("layer_norm", None, False, True),
        ("layer_norm", GRU, True, False),
        ("layer_norm", LSTM, False, True),
        ("bfloat16", None, True, False),
        ("bfloat16", GRU, False, True),
        ("bfloat16", LSTM, True, False),
        ("bfloat16_layer_norm", None, False, False),
        ("bfloat16_layer_norm", GRU, True, True),
        ("bfloat16_layer_norm", LSTM, False, True),
    ],
)
def test_actor_critic_network(setting, spectral_norm, share_layers, rnn):
    network = ActorCriticNetwork(
        VECTOR,
        3,
        (8, 6),
        share_layers=share_layers,
        spectral_norm=spectral_norm,
        rnn=rnn,
        **SETTINGS[setting],
    )
    new = check_copy(network, functools.partial(outputs_of, spec=VECTOR))
    assert len(new.value_variables) == len(network.value_variables)
    assert new.state_spec == network.state_spec


# The layers below the heads are those of `ActorCriticNetwork`.
@pytest.mark.parametrize(
    "make, setting, rnn",
    [
        (PolicyNetwork, "bfloat16_layer_norm", None),
        (PolicyNetwork, "plain", GRU),
        (QValueNetwork, "plain", None),
        (QValueNetwork, "bfloat16_layer_norm", LSTM),
        (functools.partial(QValueNetwork, dueling=False), "layer_norm", None),
        (functools.partial(QValueNetwork, dueling=False), "bfloat16", GRU),
        (functools.partial(CriticsNetwork, num_outputs=1), "bfloat16", None),
        (functools.partial(CriticsNetwork, num_outputs=1), "layer_norm", LSTM),
    ],
)
def test_networks_of_replay(make, setting, rnn):
    network = make(VECTOR, 2, fc_layer_params=(8, 6), rnn=rnn, **SETTINGS[setting])
    check_copy(network, functools.partial(outputs_of, spec=VECTOR))


@pytest.mark.parametrize(
    "spec, encoder, compute_dtype",
    [
        (IMAGE, NatureEncoder, "float32"),
        (IMAGE, ImpalaResEncoder, "bfloat16"),
        (NESTED, functools.partial(ObservationEncoder, vector_layer_params=(5,)), "bfloat16"),
    ],
)
def test_image_encoders(spec, encoder, compute_dtype):
    network = ActorCriticNetwork(spec, 3, (), encoder=encoder, compute_dtype=compute_dtype)
    check_copy(network, functools.partial(outputs_of, spec=spec))


class Scale(layers.Layer):
    """A layer that is not registered with Keras, and has an argument without a default."""

    def __init__(self, factor):
        super().__init__()
        self._factor = factor

    def build(self, input_shape):
        self.scale = self.add_weight(name="scale", shape=(input_shape[-1],), initializer="ones")

    def call(self, inputs):
        return self._factor * inputs * self.scale


def functional(spec):
    x = keras.Input((4,))
    shared = layers.Dense(4, "tanh")
    merged = layers.Add()([shared(x), shared(Scale(2.0)(x))])
    merged = layers.Concatenate()([merged, x]) * 2.0 + 1.0
    return keras.Model(x, layers.Lambda(lambda y: tf.square(y))(merged))


class Subclassed(keras.Model):
    """A model with a Lambda, a variable, layers in a list, in a dictionary, and in models inside."""

    def __init__(self, spec):
        super().__init__()
        self.square = layers.Lambda(lambda x: x**2)
        self.inner = [
            layers.Dense(5, "tanh"),
            keras.Sequential([layers.Dense(5), layers.BatchNormalization()]),
        ]
        self.parts = {"functional": functional(spec), "scale": Scale(3.0)}
        self.offset = self.add_weight(name="offset", shape=(1,), initializer="ones")

    def call(self, inputs, training=False):
        x = self.parts["functional"](inputs)
        for layer in self.inner:
            x = layer(x, training=training)
        x = self.parts["scale"](self.square(x))
        return x + tf.cast(self.offset, x.dtype)


class FunctionalSubclass(keras.Model):
    def __init__(self, spec):
        x = keras.Input((4,))
        super().__init__(x, layers.Dense(3)(x))


def nested(spec):
    x = keras.Input((4,))
    inner = keras.Sequential([keras.Input((4,)), Scale(2.0), layers.Dense(4)])
    outer = keras.Sequential([inner, functional(spec), layers.Dense(4), Subclassed(spec)])
    return keras.Model(x, layers.Add()([outer(x), layers.Dense(5)(inner(x))]))


MODELS = {
    "layer": lambda spec: layers.Dense(3, "relu"),
    "sequential": lambda spec: keras.Sequential([keras.Input((4,)), layers.Dense(5), Scale(2.0)]),
    "sequential_without_input": lambda spec: keras.Sequential([layers.Dense(5), Scale(2.0)]),
    "functional": functional,
    "subclassed": Subclassed,
    "functional_subclass": FunctionalSubclass,
    "nested": nested,
    "batch_norm": lambda spec: keras.Sequential([layers.Dense(4), layers.BatchNormalization()]),
    "frozen": lambda spec: keras.Sequential([layers.Dense(4, trainable=False), layers.Dense(3)]),
    "dropout": lambda spec: keras.Sequential([layers.Dense(4), layers.Dropout(0.5, seed=1)]),
    "recurrent": lambda spec: keras.Sequential(
        [layers.Reshape((2, 2)), layers.GRU(3), layers.LayerNormalization()]
    ),
    "bidirectional": lambda spec: keras.Sequential(
        [layers.Reshape((2, 2)), layers.Bidirectional(layers.SimpleRNN(3))]
    ),
}
# Variables that cast are copied one by one, wherever they are: one layer, and all kinds of models inside one.
IN_BFLOAT16 = ("layer", "batch_norm", "subclassed")


@pytest.mark.parametrize(
    "name, compute_dtype",
    [*((name, "float32") for name in MODELS), *((name, "bfloat16") for name in IN_BFLOAT16)],
)
def test_keras_models(name, compute_dtype):
    network = QValueNetwork(
        VECTOR,
        2,
        encoder=functools.partial(KerasEncoder, model=MODELS[name]),
        fc_layer_params=(),
        compute_dtype=compute_dtype,
    )
    new = check_copy(network, functools.partial(outputs_of, spec=VECTOR))
    x = tf.ones((2, 4))
    operations = [
        [
            op.type
            for op in tf.function(n.policy, autograph=False).get_concrete_function(x).graph.get_operations()
        ]
        for n in (network, new)
    ]
    assert operations[0] == operations[1]


def test_keras_models_that_are_not_shared():
    encoder = functools.partial(KerasEncoder, model=MODELS["batch_norm"])
    network = ActorCriticNetwork(VECTOR, 2, encoder=encoder, share_layers=False, rnn=LSTM)
    check_copy(network, outputs_of_policy)


def outputs_of_policy(network):
    """Without training, which moves the averages of BatchNormalization."""
    state = random_nest(network.state_spec, B)
    return [x.numpy() for x in tf.nest.flatten(network.policy(random_nest(VECTOR, B), state))]


@pytest.mark.parametrize("training", [True, False])
def test_training_is_the_same(training):
    """BatchNormalization moves its averages, in the copy by its own."""
    encoder = KerasEncoder(VECTOR, MODELS["batch_norm"])
    new = copy.deepcopy(encoder)
    x, before = tf.random.normal((5, 4)), values(encoder)
    first, second = new(x, training), encoder(x, training)
    np.testing.assert_array_equal(first, second)
    assert same(values(new), values(encoder))
    assert same(before, values(encoder)) is not training


def test_dropout_drops_in_training_alone():
    new = copy.deepcopy(KerasEncoder(VECTOR, MODELS["dropout"]))
    x = tf.ones((20, 4))
    assert np.all(new(x) != 0)
    assert 20 < np.sum(new(x, training=True) == 0) < 60


def test_a_copy_of_a_copy_in_one_structure():
    """One deepcopy of two owners of one network makes one network."""
    network = ActorCriticNetwork(VECTOR, 3, compute_dtype="bfloat16", rnn=GRU)
    first, again = copy.deepcopy(copy.deepcopy([network, {"again": network}]))
    assert first is again["again"] and first is not network
    assert same(values(first), values(network))


def captured(spec):
    dense = layers.Dense(3)
    dense.build((None, 4))
    return layers.Lambda(lambda x: dense(x))


class HiddenVariable(keras.layers.Layer):
    """Keras 3 lists no `tf.Variable` among its weights."""

    def __init__(self):
        super().__init__()
        self.offset = tf.Variable([1.0], name="offset")

    def call(self, inputs):
        return inputs + self.offset


def captured_by_a_function(spec):
    weight = tf.Variable(tf.ones((4, 2)), name="captured")
    return lambda x: x @ weight


@pytest.mark.parametrize(
    "model, variable",
    [
        (captured, "kernel"),
        (lambda spec: HiddenVariable(), "offset"),
        (captured_by_a_function, "captured"),
    ],
)
def test_weights_that_the_model_does_not_list_are_refused(model, variable):
    message = (
        f"the model that KerasEncoder.model returns uses variables .* not list: .*{variable}.* attribute"
    )
    with pytest.raises(ConfigError, match=message):
        KerasEncoder(VECTOR, model)


SHARED = layers.Dense(3)
SIZES = itertools.count(3)


@pytest.mark.parametrize(
    "model, reason",
    [
        (lambda spec: SHARED, "the same variables again"),
        (lambda spec: layers.Dense(next(SIZES)), "in place of"),
    ],
)
def test_models_that_are_not_made_anew_cannot_be_copied(model, reason):
    encoder = KerasEncoder(VECTOR, model)
    with pytest.raises(ConfigError, match=f"KerasEncoder.model made .*{reason} .*must make a new model"):
        copy.deepcopy(encoder)


class GraphAndCall(keras.Model):
    """What `keras.models.clone_model` and `copy.deepcopy` cannot copy."""

    def __init__(self, spec):
        x = keras.Input((4,))
        super().__init__(x, layers.Dense(3)(x))
        self.generator = (i for i in range(3))

    def call(self, inputs):
        return 2.0 * super().call(inputs)


def test_any_model_that_is_made_anew_can_be_copied():
    check_copy(KerasEncoder(VECTOR, GraphAndCall), lambda encoder: [encoder(tf.ones((2, 4))).numpy()])


def test_copies_draw_nothing_from_the_generators():
    encoder = KerasEncoder(VECTOR, MODELS["layer"])
    random.seed(3)
    expected = KerasEncoder(VECTOR, MODELS["layer"])
    random.seed(3)
    copy.deepcopy(encoder)
    actual = KerasEncoder(VECTOR, MODELS["layer"])
    assert same(values(actual), values(expected)) and not same(values(actual), values(encoder))
