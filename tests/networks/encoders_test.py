# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Encoders of whole observations: each part by its kind, and Keras models."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from alf.core.nest_utils import to_tensor_spec
from alf.environments import BoundedArraySpec
from alf.errors import ConfigError
from alf.networks import ImpalaResEncoder, NatureEncoder, ObservationEncoder

IMAGE = tf.TensorSpec((1, 36, 36), tf.uint8)
VECTOR = tf.TensorSpec((4,), tf.float32)


def discrete(low, high, dtype=np.int64):
    return to_tensor_spec(BoundedArraySpec((), dtype, low, high))


NESTED = {
    "card": discrete(2, 4),
    "more": (VECTOR, tf.TensorSpec((), tf.int32), tf.TensorSpec((2, 3), tf.uint8)),
    "screen": IMAGE,
}


def random_observation(spec, n=5):
    rng = np.random.default_rng(0)
    return tf.nest.map_structure(lambda s: tf.constant(rng.integers(2, 5, (n, *s.shape)), s.dtype), spec)


def test_each_part_is_encoded_by_its_kind():
    encoder = ObservationEncoder(NESTED, vector_layer_params=())
    observation = random_observation(NESTED)
    screen = encoder._parts[-1]
    vector, number, matrix = observation["more"]
    expected = [
        np.eye(3)[observation["card"].numpy() - 2],
        vector,
        np.reshape(number, (-1, 1)),
        np.reshape(matrix, (-1, 6)),
        screen(observation["screen"]),
    ]
    features = encoder(observation)
    assert features.dtype == tf.float32 and encoder.size == 3 + 4 + 1 + 6 + 512
    np.testing.assert_array_equal(features, np.concatenate(expected, axis=1))
    assert isinstance(screen, NatureEncoder)


def test_beside_an_image_vectors_have_a_layer_by_default():
    encoder = ObservationEncoder({"image": IMAGE, "vector": VECTOR, "card": discrete(2, 4)})
    card, image, vector = encoder._parts  # by key
    assert encoder.size == 3 + 512 + 64
    bias, kernel = vector.trainable_variables
    assert kernel.shape == (4, 64)
    observation = random_observation({"image": IMAGE, "vector": VECTOR, "card": discrete(2, 4)})
    expected = np.tanh(observation["vector"] @ kernel + bias)
    np.testing.assert_allclose(encoder(observation)[:, -64:], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(encoder(observation)[:, 3:-64], image(observation["image"]))
    assert ObservationEncoder({"vector": VECTOR, "card": discrete(2, 4)}).trainable_variables == ()


@pytest.mark.parametrize("shape", [(35, 84, 3), (3, 7, 7), (10, 10, 4)], ids=str)
def test_small_images_need_no_setting(shape):
    spec = tf.TensorSpec(shape, tf.uint8)
    encoder = ObservationEncoder(spec)
    assert isinstance(encoder._parts[0], ImpalaResEncoder)
    assert np.std(encoder(random_observation(spec))) > 0
    assert isinstance(ObservationEncoder(tf.TensorSpec((36, 36, 3), tf.uint8))._parts[0], NatureEncoder)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, np.int8])
def test_integers_with_bounds_are_one_hot(dtype):
    encoder = ObservationEncoder(discrete(1, 3, dtype))
    features = encoder(tf.constant([3, 1, 2], dtype))
    np.testing.assert_array_equal(features, [[0, 0, 1], [1, 0, 0], [0, 1, 0]])


@pytest.mark.parametrize(
    "spec",
    [
        discrete(0, 1000),
        discrete(0, 2**62),
        discrete(-(2**63), 2**63 - 1),
        to_tensor_spec(BoundedArraySpec((), np.float32, 0, 2)),
        tf.TensorSpec((), tf.int64),
    ],
)
def test_other_numbers_stay_numbers(spec):
    encoder = ObservationEncoder(spec)
    assert encoder.size == 1
    np.testing.assert_array_equal(encoder(tf.constant([3, 1], spec.dtype)), [[3.0], [1.0]])


def test_max_one_hot():
    assert ObservationEncoder(discrete(0, 999)).size == 1000
    assert ObservationEncoder(discrete(0, 2), max_one_hot=2).size == 1
    assert ObservationEncoder(discrete(0, 2), max_one_hot=3).size == 3


def test_an_image_encoder_can_be_chosen():
    small = functools.partial(ImpalaResEncoder, compute_dtype="bfloat16")
    encoder = ObservationEncoder((IMAGE, VECTOR), image_encoder=small)
    assert encoder.size == 256 + 64 and isinstance(encoder._parts[0], ImpalaResEncoder)


def test_vectors_can_have_layers_of_their_own():
    spec = (VECTOR, discrete(0, 2), VECTOR)
    encoder = ObservationEncoder(spec, vector_layer_params=(8, 6), activation="relu")
    assert encoder.size == 6 + 3 + 6
    assert len(encoder.trainable_variables) == 8
    b1, w1, b2, w2 = (v.numpy() for v in encoder._parts[0]._layers.variables)
    observation = random_observation(spec)
    expected = np.maximum(np.maximum(observation[0] @ w1 + b1, 0) @ w2 + b2, 0)
    np.testing.assert_allclose(encoder(observation)[:, :6], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name, value",
    [
        ("max_one_hot", -1),
        ("vector_layer_params", 8),
        ("vector_layer_params", (0,)),
        ("activation", "nope"),
        ("image_encoder", "nature"),
    ],
)
def test_settings_are_checked(name, value):
    with pytest.raises(ConfigError, match=name):
        ObservationEncoder(VECTOR, **{name: value})
