# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Encoders of images: features, number of parameters, bfloat16."""

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.core.nest_utils import BoundedTensorSpec
from alf.core.xla import without_xla
from alf.errors import ConfigError
from alf.networks import ActorCriticNetwork, ImpalaResEncoder, NatureEncoder
from alf.networks.images import prepare_images
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
    "make_encoder, size, parameters",
    [(NatureEncoder, 512, NATURE_PARAMETERS), (ImpalaResEncoder, 256, RES_PARAMETERS)],
)
def test_features_and_number_of_parameters(make_encoder, size, parameters):
    encoder = make_encoder(ATARI)
    assert sum(v.shape.num_elements() for v in encoder.trainable_variables) == parameters
    features = encoder(images(ATARI))
    assert encoder.size == size and features.shape == (3, size) and features.dtype == tf.float32
    assert (features.numpy() >= 0).all() and 0.1 < np.std(features) < 10


def test_res_parameters_by_hand():
    assert RES_PARAMETERS == 592 + 9280 + 4640 + 36992 + 9248 + 36992 + 991488


def standardize(images):
    """Images [N, ...] with mean 0 and deviation 1 each, float64."""
    axes = tuple(range(1, images.ndim))
    return (images - images.mean(axes, keepdims=True)) / images.std(axes, keepdims=True)


def convolve(x, layer):
    return tf.nn.conv2d(x, layer.kernel, 1, "SAME") + layer.bias


def test_res_encoder_is_the_literal_network():
    spec = tf.TensorSpec((3, 11, 9), tf.uint8)
    encoder = ImpalaResEncoder(spec)
    for v in encoder.trainable_variables:
        v.assign_add(tf.random.stateless_normal(v.shape, (0, 1), stddev=0.05))
    convolutions = tf.nest.flatten(encoder._sections)
    dense = encoder._dense
    observation = images(spec)
    x = standardize(np.moveaxis(observation.numpy(), 1, 3)).astype(np.float32)
    for _ in range(3):
        first, *blocks = (convolutions.pop(0) for _ in range(5))
        x = tf.nn.max_pool2d(convolve(x, first), 3, 2, "SAME")
        for a, b in (blocks[:2], blocks[2:]):
            x = x + convolve(tf.nn.relu(convolve(tf.nn.relu(x), a)), b)
    x = np.reshape(tf.nn.relu(x), (3, -1)) @ dense.kernel.numpy() + dense.bias.numpy()
    np.testing.assert_allclose(encoder(observation), np.maximum(x, 0), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("make_encoder, num_layers", [(NatureEncoder, 4), (ImpalaResEncoder, 16)])
def test_bfloat16_has_float32_variables_and_close_features(make_encoder, num_layers):
    spec = tf.TensorSpec((1, 36, 36), tf.uint8)
    exact, rough = (make_encoder(spec, dtype, seed=0) for dtype in ("float32", "bfloat16"))
    for a, b in zip(exact.variables, rough.variables, strict=True):
        assert a.dtype == b.dtype == tf.float32
        np.testing.assert_array_equal(a, b)
    a, b = (encoder(images(spec)).numpy() for encoder in (exact, rough))
    assert a.dtype == b.dtype == np.float32
    assert 0 < distance(b, a) < max_distance(num_layers)


@pytest.mark.parametrize("shape", [(4, 84, 84), (3, 7, 5), (1, 1, 1)])
def test_images_are_prepared_as_tensorflow_does_it(shape):
    pixels = np.random.default_rng(0).integers(0, 256, (5, *shape))
    # The squares of bright pixels are large beside their variance: the sums must be exact.
    pixels[1], pixels[2] = 255, 254
    pixels[2, 0, 0, 0] = 255
    for order in ((0, 2, 3, 1), (0, 1, 2, 3)):
        x = np.transpose(pixels, order).astype(np.float64)
        mean, deviation = (f(x, axis=(1, 2, 3), keepdims=True) for f in (np.mean, np.std))
        expected = (x - mean) / np.maximum(deviation, pixels[0].size ** -0.5)
        prepare = tf.function(lambda x, y, order=order: prepare_images(x, order, y), autograph=False)
        standardized, divided = (prepare(tf.constant(pixels, tf.uint8), largest) for largest in (None, 255.0))
        # The mean has an error of rounding, which the scale of an image of one color makes larger.
        np.testing.assert_allclose(
            standardized, expected, rtol=1e-5, atol=255 * 2**-22 * pixels[0].size ** 0.5
        )
        np.testing.assert_allclose(standardized[0], expected[0], rtol=1e-4, atol=1e-6)
        by_tensorflow = tf.image.per_image_standardization(x[0].astype(np.float32))
        np.testing.assert_allclose(standardized[0], by_tensorflow, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(divided, x / 255, rtol=1e-6)
        assert standardized.dtype == divided.dtype == tf.float32


def test_sums_of_large_bright_images_do_not_overflow():
    frame = np.full((1, 700, 500, 4), 255, np.uint8)
    frame[:, :350] = 251
    np.testing.assert_allclose(np.abs(prepare_images(tf.constant(frame), (0, 1, 2, 3))), 1, rtol=1e-6)


def test_xla_prepares_images_but_not_for_gpus_and_other_formats(monkeypatch):
    encoder = NatureEncoder(ATARI, units=8)

    def functions_for_xla():
        graph = tf.function(encoder, autograph=False).get_concrete_function(images(ATARI)).graph
        nodes = graph.as_graph_def().node
        return [node.name for node in nodes if node.attr["_XlaMustCompile"].b]

    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: [])
    assert len(functions_for_xla()) == 1
    with without_xla():
        assert functions_for_xla() == []
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["/GPU:0"])
    assert functions_for_xla() == []


def test_images_are_the_same_numbers_for_a_gpu(monkeypatch):
    expected = prepare_images(images(ATARI), (0, 2, 3, 1))
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["/GPU:0"])
    np.testing.assert_allclose(prepare_images(images(ATARI), (0, 2, 3, 1)), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("make_encoder", [NatureEncoder, ImpalaResEncoder])
def test_standardized_images_have_mean_0_and_deviation_1(make_encoder):
    spec = tf.TensorSpec((36, 40, 2), tf.uint8)
    encoder = make_encoder(spec, seed=0)
    dark = images(spec) // 3
    bright = 2 * dark + 50
    np.testing.assert_allclose(encoder(dark), encoder(bright), rtol=1e-4, atol=1e-4)
    x = standardize(dark.numpy())
    expected = encoder._dense(tf.reshape(encoder._convolve(tf.constant(x, tf.float32)), (len(x), -1)))
    np.testing.assert_allclose(encoder(dark), expected, rtol=1e-4, atol=1e-4)
    assert np.isfinite(encoder(tf.zeros((1, 36, 40, 2), tf.uint8))).all()  # no deviation
    gin.parse_config(f"{make_encoder.__name__}.standardize = False")
    plain = make_encoder(spec, seed=0)
    assert not np.allclose(plain(dark), plain(bright), rtol=0.1)
    expected = plain._dense(tf.reshape(plain._convolve(tf.cast(dark, tf.float32) / 255), (3, -1)))
    np.testing.assert_allclose(plain(dark), expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(ConfigError, match=f"{make_encoder.__name__}.standardize is 1: it must be True or"):
        make_encoder(spec, standardize=1)


@pytest.mark.parametrize("make_encoder", [NatureEncoder, ImpalaResEncoder])
def test_images_of_0_and_1_stay_as_they_are(make_encoder):
    """Those of a Box of bool, which say what is where: a mean of what is seen says nothing there."""
    spec = tf.TensorSpec((4, 36, 36), tf.uint8)
    bits = tf.cast(images(spec) > 128, tf.uint8)
    pixels, *objects = (
        make_encoder(BoundedTensorSpec(spec.shape, tf.uint8, 0, x), standardize=standardizes, seed=0)
        for x, standardizes in ((255, False), (1, False), (1, True))
    )
    for encoder in objects:
        np.testing.assert_allclose(encoder(bits), pixels(255 * bits), rtol=1e-5, atol=1e-5)


def test_gain_scales_the_initial_kernels():
    spec = tf.TensorSpec((4, 36, 36), tf.uint8)
    usual, small = (NatureEncoder(spec, seed=0, **settings) for settings in ({}, {"gain": 3**-0.5}))
    for large_kernel, kernel in zip(usual.trainable_variables, small.trainable_variables, strict=True):
        np.testing.assert_allclose(kernel, large_kernel * 6**-0.5, rtol=1e-6)
    with pytest.raises(ConfigError, match="NatureEncoder.gain is 0"):
        NatureEncoder(spec, gain=0)


@pytest.mark.parametrize("make_encoder", [NatureEncoder, ImpalaResEncoder])
def test_channels_may_come_first_or_last(make_encoder):
    specs = tf.TensorSpec((3, 36, 40), tf.uint8), tf.TensorSpec((36, 40, 3), tf.uint8)
    first, last = (make_encoder(spec, seed=0) for spec in specs)
    observation = images(specs[0])
    features = first(observation)
    np.testing.assert_array_equal(features, last(tf.transpose(observation, (0, 2, 3, 1))))
    assert np.std(features) > 0.1


def test_the_shorter_of_the_outer_axes_holds_the_channels():
    for shape, channels in (((1, 36, 40), 1), ((36, 40, 1), 1), ((42, 84, 12), 12), ((84, 84, 4), 4)):
        encoder = NatureEncoder(tf.TensorSpec(shape, tf.uint8), units=8)
        assert encoder._convolutions[0].kernel.shape == (8, 8, channels, 32)


@pytest.mark.parametrize("make_encoder", [NatureEncoder, ImpalaResEncoder])
def test_a_setting_says_which_axis_holds_the_channels(make_encoder):
    spec, name = tf.TensorSpec((40, 36, 40), tf.uint8), make_encoder.__name__
    with pytest.raises(ConfigError, match=rf"{name}.channels is 'auto': the image \(40, 36, 40\) does not"):
        make_encoder(spec)
    with pytest.raises(
        ConfigError, match=rf"{name}.channels is 'middle': it must be one of 'auto', 'first', 'last'"
    ):
        make_encoder(spec, channels="middle")
    for channels, size in (("first", 41), ("last", 40)):
        gin.clear_config()
        gin.parse_config(f"{name}.channels = {channels!r}")
        encoder = make_encoder(tf.TensorSpec((41, 42, 40), tf.uint8))
        assert size in {v.shape[2] for v in encoder.trainable_variables if v.shape.rank == 4}


@pytest.mark.parametrize(
    "make_encoder, size", [(NatureEncoder, 42), (NatureEncoder, 59), (ImpalaResEncoder, 42)]
)
def test_every_pixel_counts(make_encoder, size):
    encoder = make_encoder(tf.TensorSpec((size, size, 1), tf.uint8), seed=0)
    # One white pixel in each image: all along the lower and the right edge, where Pong's paddle is.
    images = np.zeros((2 * size, size, size, 1), np.uint8)
    for i in range(size):
        images[i, i, -1] = images[size + i, -1, i] = 255
    features = encoder(tf.constant(images)).numpy()
    np.testing.assert_array_equal(encoder(tf.zeros_like(images[:1])), np.zeros((1, encoder.size)))
    assert np.all(features.max(axis=1) > 1e-4)


@pytest.mark.parametrize(
    "shape, size", [((84, 84, 4), 7 * 7), ((42, 42, 4), 2 * 2), ((36, 40, 4), 1 * 2), ((96, 96, 3), 9 * 9)]
)
def test_nature_keeps_so_many_places(shape, size):
    encoder = NatureEncoder(tf.TensorSpec(shape, tf.uint8), units=8)
    assert encoder._dense.kernel.shape == (64 * size, 8)


@pytest.mark.parametrize(
    "make_encoder, shape",
    [
        (NatureEncoder, (84, 84, 4)),
        (NatureEncoder, (1, 64, 48)),
        (ImpalaResEncoder, (84, 84, 4)),
        (ImpalaResEncoder, (42, 42, 2)),
    ],
)
def test_features_begin_at_order_one_and_gradients_reach_every_layer(make_encoder, shape):
    spec = tf.TensorSpec(shape, tf.uint8)
    encoder = make_encoder(spec, seed=0)
    observation = images(spec, n=8)
    with tf.GradientTape() as tape:
        features = encoder(observation)
        loss = tf.reduce_mean(tf.square(features - 1))
    assert 0.2 < np.sqrt(np.mean(np.square(features))) < 5
    norms = [float(tf.norm(g)) for g in tape.gradient(loss, encoder.trainable_variables)]
    assert min(norms) > 1e-3 and max(norms) < 100


@pytest.mark.parametrize("shape", [(84, 84, 4), (42, 42, 3), (7, 7, 3)], ids=str)
def test_a_default_network_of_images_begins_undecided(shape):
    spec = tf.TensorSpec(shape, tf.uint8)
    network = ActorCriticNetwork(spec, 6, seed=0)
    outputs, value, _ = network(images(spec, n=16)[tf.newaxis])
    assert np.abs(tf.nn.softmax(outputs) - 1 / 6).max() < 0.02
    assert np.abs(value).max() < 0.5


def test_small_images_are_for_the_res_encoder():
    spec = tf.TensorSpec((3, 35, 84), tf.uint8)
    with pytest.raises(ConfigError, match=r"and the image is \(3, 35, 84\): .*, or take ImpalaResEncoder"):
        NatureEncoder(spec)
    assert ImpalaResEncoder(spec)(images(spec)).shape == (3, 256)


def test_other_convolutions(subtests):
    layers = ((5, 4, 2), (6, 3, 1))
    encoder = NatureEncoder(tf.TensorSpec((9, 8, 3), tf.uint8), conv_layers=layers, units=7, seed=0)
    shapes = [tuple(layer.kernel.shape) for layer in encoder._convolutions]
    # 9 x 8 places and a row of zeros below them make 4 x 3 by the first layer, and 2 x 1 by the second.
    assert shapes == [(4, 4, 3, 5), (3, 3, 5, 6)] and encoder._dense.kernel.shape == (2 * 1 * 6, 7)
    features = encoder(images(tf.TensorSpec((9, 8, 3), tf.uint8)))
    assert features.shape == (3, encoder.size) == (3, 7)
    spec = tf.TensorSpec((7, 8, 3), tf.uint8)
    for wrong, message in {
        layers: "needs at least 8 x 8 pixels",
        ((5, 4),): r"conv_layers has \(5, 4\)",
    }.items():
        with subtests.test(message):
            with pytest.raises(ConfigError, match=message):
                NatureEncoder(spec, conv_layers=wrong)


@pytest.mark.parametrize("make_encoder", [NatureEncoder, ImpalaResEncoder])
def test_compute_dtype_is_checked(make_encoder):
    with pytest.raises(ConfigError, match=rf"{make_encoder.__name__}\.compute_dtype is 'float16'"):
        make_encoder(ATARI, compute_dtype="float16")
