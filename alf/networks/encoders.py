# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Encoders compute features of observations.

`encoder(observation_spec, seed=...)` makes an encoder. It has an int `size`, and a call with an
observation, a nest of [N, *shape], and `training`, a bool, returns float32 [N, size].

An image is uint8 [channels, height, width] or [height, width, channels].
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from alf.config.kinds import NonNegativeInt, PositiveFloat, PositiveInt
from alf.config.settings import Seed, configurable
from alf.core.annotations import Array, Nest, NestedSpec
from alf.errors import ConfigError
from alf.networks.compute_dtype import ComputeDtype, compute_in
from alf.networks.copying import CopyableModule
from alf.networks.images import Channels, channel_axis, is_image, prepare_images
from alf.networks.layers import HIDDEN_GAIN, Conv2D, Dense, Mlp, find_activation, split_seed

_NATURE_LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # filters, size of the kernel, stride
_NATURE_PIXELS = 36  # `_count_pixels` of these layers


class _ImageEncoder(CopyableModule):
    """Base class of encoders of images: convolutions (`_convolve` of the subclass) and one hidden layer."""

    def __init__(self, observation_spec: NestedSpec, channels: str, standardize: bool) -> None:
        super().__init__()
        name = type(self).__name__
        if not is_image(observation_spec):
            raise ConfigError(f"{name} needs one image, uint8 of rank 3, not {observation_spec}")
        # 255 for pixels, 1 for images that say what is where.
        largest = max(1.0, float(np.max(getattr(observation_spec, "maximum", 255))))
        self._largest = None if standardize and largest > 1 else largest
        axis = channel_axis(observation_spec, f"{name}.channels", channels)
        self._order = (0, *(i + 1 for i in range(3) if i != axis), axis + 1)
        self._shape = tuple(observation_spec.shape[i - 1] for i in self._order[1:])  # height, width, channels

    def __call__(self, observation: Nest, training: bool = False) -> Array:
        """Encodes images, uint8 [N, *shape]. Returns float32 [N, size]."""
        # TensorFlow convolves on CPUs only with the channels last.
        x = self._convolve(prepare_images(observation, self._order, self._largest))
        return tf.cast(self._dense(tf.reshape(x, (-1, self._dense.kernel.shape[0]))), tf.float32)


@configurable("alf.networks")
class NatureEncoder(_ImageEncoder):
    """Convolutional layers, those of DQN (Mnih et al. 2015, Nature 518), and a hidden layer of 512 units.

    If strides do not divide an image evenly, zeros are added at its lower and right edges, so that no pixel
    is ignored. Images of 84 x 84 pixels fit as they are.

    Args:
        observation_spec: unbatched tensor spec of an image, of at least 36 x 36 pixels for the layers of DQN.
        compute_dtype: "float32", "bfloat16" or "auto" (bfloat16 if the machine is fast at it); None means the
            dtype of the network. Variables and features are float32.
        channels: "first" or "last", the axis of the image that holds the channels. "auto" chooses the shorter
            one of the two.
        standardize: bool. True scales each image to mean 0 and standard deviation 1 over all its numbers, so
            that a bright background does not hide small things, such as a ball of a few pixels. False divides
            by the upper bound of the observation space, or by 255. Images of 0 and 1, by their upper bound,
            stay as they are.
        gain: number, of the initial kernels. 2 ** 0.5 keeps the variance of features from layer to layer (He
            et al. 2015, arXiv 1502.01852), as is usual for PPO. 3 ** -0.5 is the variance of PyTorch's layers
            and of DQN's; with it, values learned from replay have small features and change together less.
        conv_layers: the convolutions, each with the number of its filters, the size of its kernel and its
            stride. ((16, 3, 1),) is small and fast, and enough for MinAtar's games (arXiv 1903.03176).
        units: int, the units of the hidden layer.
        seed: int, the seed of the initializers; None draws one.

    Raises:
        ConfigError: if the observation is not an image, is too small, or its channel axis is unclear.
    """

    def __init__(
        self,
        observation_spec: NestedSpec,
        compute_dtype: ComputeDtype | None = None,
        channels: Channels = "auto",
        standardize: bool = True,
        gain: PositiveFloat = HIDDEN_GAIN,
        conv_layers: Sequence[Sequence[PositiveInt]] = _NATURE_LAYERS,
        units: PositiveInt = 512,
        seed: Seed = None,
    ) -> None:
        super().__init__(observation_spec, channels, standardize)
        self.size = int(units)
        pixels = _count_pixels(conv_layers)
        if min(self._shape[:2]) < pixels:
            raise ConfigError(
                f"NatureEncoder needs at least {pixels} x {pixels} pixels, and the image is "
                f"{observation_spec.shape}: set NatureEncoder.conv_layers, or take ImpalaResEncoder"
            )
        *seeds, dense_seed = split_seed(seed, len(conv_layers) + 1)
        height, width, depth = self._shape
        self._convolutions, self._paddings = [], []
        with compute_in(compute_dtype):
            for (filters, size, stride), seed in zip(conv_layers, seeds, strict=True):
                self._convolutions.append(Conv2D(depth, filters, size, gain, seed, stride, "relu"))
                # Without this padding "valid" would drop rows and columns at the edges.
                below, right = (-(length - size) % stride for length in (height, width))
                self._paddings.append((below, right))
                height, width = (height + below - size) // stride + 1, (width + right - size) // stride + 1
                depth = filters
            num_features = height * width * depth
            self._dense = Dense(num_features, self.size, gain, dense_seed, "relu")

    def _convolve(self, x):
        for (below, right), layer in zip(self._paddings, self._convolutions):
            if below or right:
                x = tf.pad(x, [[0, 0], [0, below], [0, right], [0, 0]])
            x = layer(x)
        return x


def _count_pixels(conv_layers):
    """Returns the receptive field, in height and width, of one output of convolutional layers."""
    pixels = step = 1
    for layer in conv_layers:
        if len(layer) != 3:
            raise ConfigError(
                f"NatureEncoder.conv_layers has {layer}: write (filters, size of kernel, stride)"
            )
        pixels += (layer[1] - 1) * step
        step *= layer[2]
    return pixels


@configurable("alf.networks")
class ImpalaResEncoder(_ImageEncoder):
    """The deep residual network of IMPALA (arXiv 1802.01561, figure 3) and a hidden layer of 256 units.

    Args:
        observation_spec: unbatched tensor spec of an image of any size.
        compute_dtype: "float32", "bfloat16" or "auto" (bfloat16 if the machine is fast at it); None means the
            dtype of the network. Variables and features are float32.
        channels: "first" or "last", the axis of the image that holds the channels. "auto" chooses the shorter
            one of the two.
        standardize: bool. True scales each image to mean 0 and standard deviation 1. False divides by the
            upper bound of the observation space, or by 255. Images of 0 and 1, by their upper bound, stay as
            they are.
        seed: int, the seed of the initializers; None draws one.

    Raises:
        ConfigError: if the observation is not an image, or its channel axis is unclear.
    """

    size = 256

    def __init__(
        self,
        observation_spec: NestedSpec,
        compute_dtype: ComputeDtype | None = None,
        channels: Channels = "auto",
        standardize: bool = True,
        seed: Seed = None,
    ) -> None:
        super().__init__(observation_spec, channels, standardize)
        height, width, depth = self._shape
        *seeds, dense_seed = split_seed(seed, 16)
        seeds, self._sections = iter(seeds), []
        with compute_in(compute_dtype):
            for filters in (16, 32, 32):
                # The gain is 1, because no ReLU halves the input of this layer.
                first = Conv2D(depth, filters, 3, 1.0, next(seeds), padding="same")
                # A block adds its output to its input. With the usual gain for both layers, each of the 6
                # blocks would double the variance, and features would be of order 20 at the start.
                gains = (HIDDEN_GAIN, HIDDEN_GAIN / 6**0.5)
                blocks = [
                    [Conv2D(filters, filters, 3, gain, next(seeds), padding="same") for gain in gains]
                    for _ in range(2)
                ]
                self._sections.append([first, blocks])
                depth, height, width = filters, (height + 1) // 2, (width + 1) // 2
            size = height * width * depth
            self._dense = Dense(size, self.size, HIDDEN_GAIN, dense_seed, "relu")

    def _convolve(self, x):
        for first, blocks in self._sections:
            x = tf.nn.max_pool2d(first(x), 3, 2, "SAME")
            for layer_1, layer_2 in blocks:
                y = layer_2(tf.nn.relu(layer_1(tf.nn.relu(x))))
                # Without an operation between these, TensorFlow would try to fuse convolution and sum. That
                # fails if the sum has other uses: it logs "remapper failed", and fuses nothing in the graph.
                x += tf.ensure_shape(y, y.shape)
        return tf.nn.relu(x)


@configurable("alf.networks")
class ObservationEncoder(CopyableModule):
    """Encodes each leaf of an observation by its kind and concatenates the features.

    Each image, uint8 of rank 3, has an encoder. A scalar integer with bounds becomes one-hot. Other leaves
    are flattened, and each has hidden layers of its own (`vector_layer_params`).

    Args:
        observation_spec: nest of unbatched tensor specs.
        image_encoder: callable (observation_spec, seed=) -> encoder of an image. None means
            `NatureEncoder`, or `ImpalaResEncoder` for images with less than 36 pixels in height or width.
        max_one_hot: int; integers with more values are flattened like any other number.
        vector_layer_params: tuple or list of ints, the units of the hidden layers of each flattened leaf; ()
            for none. None means (64,) if there is also an image, so that a few numbers have weight beside
            hundreds of features of the image, else ().
        activation: text, the name of the activation of these layers.
        seed: int, the seed of the initializers; None draws one.
    """

    def __init__(
        self,
        observation_spec: NestedSpec,
        image_encoder: Callable[..., Any] | None = None,
        max_one_hot: NonNegativeInt = 1000,
        vector_layer_params: Sequence[PositiveInt] | None = None,
        activation: str = "tanh",
        seed: Seed = None,
    ) -> None:
        super().__init__(name="observation_encoder")
        specs = tf.nest.flatten(observation_spec)
        if vector_layer_params is None:
            vector_layer_params = (64,) if any(map(is_image, specs)) else ()
        find_activation(activation)  # wrong also where no leaf has layers
        if image_encoder is None:
            image_encoder = _make_image_encoder
        self._parts = []
        # A seed for each leaf, also for those without weights: a part's weights depend only on its place.
        for spec, part_seed in zip(specs, split_seed(seed, len(specs)), strict=True):
            is_choice = spec.shape.rank == 0 and spec.dtype.is_integer and hasattr(spec, "minimum")
            if is_image(spec):
                part = image_encoder(spec, seed=part_seed)
            elif is_choice and 0 < (size := int(spec.maximum) - int(spec.minimum) + 1) <= max_one_hot:
                part = _OneHotEncoder(int(spec.minimum), size)
            else:
                part = _VectorEncoder(spec, vector_layer_params, activation, part_seed)
            self._parts.append(part)
        self.size = sum(part.size for part in self._parts)

    def __call__(self, observation: Nest, training: bool = False) -> Array:
        """Encodes observations, a nest of [N, *shape]. Returns float32 [N, size]."""
        xs = tf.nest.flatten(observation)
        features = [part(x, training) for part, x in zip(self._parts, xs, strict=True)]
        return features[0] if len(features) == 1 else tf.concat(features, axis=-1)


class _OneHotEncoder(CopyableModule):
    def __init__(self, minimum, size):
        super().__init__(name="one_hot_encoder")
        self._minimum, self.size = minimum, size

    def __call__(self, observation, training=False):
        # In int64, where the difference cannot overflow or wrap around.
        return tf.one_hot(tf.cast(observation, tf.int64) - self._minimum, self.size)


class _VectorEncoder(CopyableModule):
    def __init__(self, spec, units, activation, seed):
        super().__init__(name="vector_encoder")
        self._rank, self._input_size = spec.shape.rank, spec.shape.num_elements()
        self._layers = Mlp(self._input_size, units, activation, seed)
        self.size = self._layers.size

    def __call__(self, observation, training=False):
        x = observation if self._rank == 1 else tf.reshape(observation, (-1, self._input_size))
        return self._layers(tf.cast(x, tf.float32), training)


def choose_image_encoder(spec):
    """Returns the class of the default encoder for an image, by its size."""
    return ImpalaResEncoder if sorted(spec.shape)[1] < _NATURE_PIXELS else NatureEncoder


def _make_image_encoder(spec, seed):
    return choose_image_encoder(spec)(spec, seed=seed)
