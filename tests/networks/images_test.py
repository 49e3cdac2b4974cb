# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Encoders of images: features, number of parameters, bfloat16."""

import numpy as np
import pytest
import tensorflow as tf

from alf.errors import ConfigError
from alf.networks import ImpalaResEncoder, NatureEncoder
from tests.networks.rounding import distance, max_distance

ATARI = tf.TensorSpec((4, 84, 84), tf.uint8)
# Convolutions of 3 x 3 pixels: into a section, and four in its two blocks; 84 -> 42 -> 21 -> 11 pixels.
RES_SECTIONS = [(4, 16), (16, 32), (32, 32)]
RES_PARAMETERS = sum(9 * i * o + o + 4 * (9 * o * o + o) for i, o in RES_SECTIONS) + 11 * 11 * 32 * 256 + 256
NATURE_PARAMETERS = (
    (4 * 8 * 8 * 32 + 32)
    + (32 * 4 * 4 * 64 + 64)
    + (64 * 3 * 3 * 64 + 64)
    + (7 * 7 * 64 * 512 + 512)  # 84 -> 20 -> 9 -> 7 pixels
)


def images(spec, n=3):
    return tf.constant(np.random.default_rng(0).integers(0, 256, (n, *spec.shape)), tf.uint8)


@pytest.mark.parametrize(
    "encoder_ctor, size, parameters",
    [(NatureEncoder, 512, NATURE_PARAMETERS), (ImpalaResEncoder, 256, RES_PARAMETERS)],
)
def test_features_and_number_of_parameters(encoder_ctor, size, parameters):
    encoder = encoder_ctor(ATARI)
    assert sum(v.shape.num_elements() for v in encoder.trainable_variables) == parameters
    features = encoder(images(ATARI))
    assert encoder.size == size and features.shape == (3, size) and features.dtype == tf.float32
    assert (features.numpy() >= 0).all() and 0.1 < np.std(features) < 10


def test_res_parameters_by_hand():
    assert RES_PARAMETERS == 592 + 9280 + 4640 + 36992 + 9248 + 36992 + 991488


def convolve(x, layer):
    return tf.nn.conv2d(x, layer.kernel, layer.strides, layer.padding.upper()) + layer.bias


def test_res_encoder_is_the_literal_network():
    spec = tf.TensorSpec((3, 11, 9), tf.uint8)
    encoder = ImpalaResEncoder(spec)
    for v in encoder.trainable_variables:
        v.assign_add(tf.random.stateless_normal(v.shape, (0, 1), stddev=0.05))
    convolutions = tf.nest.flatten(encoder._sections)
    dense = encoder._dense
    observation = images(spec)
    x = np.moveaxis(observation.numpy(), 1, 3).astype(np.float32) / 255
    for _ in range(3):
        first, *blocks = (convolutions.pop(0) for _ in range(5))
        x = tf.nn.max_pool2d(convolve(x, first), 3, 2, "SAME")
        for a, b in (blocks[:2], blocks[2:]):
            x = x + convolve(tf.nn.relu(convolve(tf.nn.relu(x), a)), b)
    x = np.reshape(tf.nn.relu(x), (3, -1)) @ dense.kernel.numpy() + dense.bias.numpy()
    np.testing.assert_allclose(encoder(observation), np.maximum(x, 0), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("encoder_ctor, num_layers", [(NatureEncoder, 4), (ImpalaResEncoder, 16)])
def test_bfloat16_has_float32_variables_and_close_features(encoder_ctor, num_layers):
    spec = tf.TensorSpec((1, 36, 36), tf.uint8)
    exact, rough = (encoder_ctor(spec, dtype, seed=0) for dtype in ("float32", "bfloat16"))
    for a, b in zip(exact.variables, rough.variables, strict=True):
        assert a.dtype == b.dtype == tf.float32
        np.testing.assert_array_equal(a, b)
    a, b = (encoder(images(spec)).numpy() for encoder in (exact, rough))
    assert a.dtype == b.dtype == np.float32
    assert 0 < distance(b, a) < max_distance(num_layers)


def test_channels_come_first():
    encoder = NatureEncoder(tf.TensorSpec((1, 36, 40), tf.uint8))
    assert encoder._convolutions[0].kernel.shape == (8, 8, 1, 32)
    assert encoder._dense.kernel.shape == (1 * 1 * 64, 512)  # 36 -> 8 -> 3 -> 1 pixel, 40 -> 9 -> 3 -> 1


@pytest.mark.parametrize("encoder_ctor", [NatureEncoder, ImpalaResEncoder])
@pytest.mark.parametrize(
    "spec",
    [
        {"image": ATARI},
        tf.TensorSpec((84, 84), tf.uint8),
        tf.TensorSpec((4, 84, 84), tf.float32),
    ],
)
def test_what_is_no_image_is_an_error(encoder_ctor, spec):
    with pytest.raises(ConfigError, match=f"{encoder_ctor.__name__} needs one image"):
        encoder_ctor(spec)


def test_small_images_are_for_the_res_encoder():
    spec = tf.TensorSpec((3, 35, 84), tf.uint8)
    with pytest.raises(ConfigError, match=r"36 x 36 pixels, not \(3, 35, 84\): ImpalaResEncoder takes"):
        NatureEncoder(spec)
    assert ImpalaResEncoder(spec)(images(spec)).shape == (3, 256)


@pytest.mark.parametrize("encoder_ctor", [NatureEncoder, ImpalaResEncoder])
def test_compute_dtype_is_checked(encoder_ctor):
    with pytest.raises(ConfigError, match=rf"{encoder_ctor.__name__}\.compute_dtype is 'float16'"):
        encoder_ctor(ATARI, compute_dtype="float16")
