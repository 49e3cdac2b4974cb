# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Encoders: from observations to features.

An encoder is made by `encoder_ctor(observation_spec, seed=...)`. It has a `size`, and is called with
(observation, training): a nest of [N, *shape], and whether the call trains. It returns float32 [N, size].
"""

import gin
import tensorflow as tf

from alf.errors import ConfigError, check_int
from alf.nest_utils import zeros_from_spec
from alf.networks.compute_dtype import compute_in
from alf.networks.copying import CopyableModule
from alf.networks.layers import HIDDEN_GAIN, Mlp, check_ctor, check_layers, convolution, dense, split_seed


class _ImageEncoder(CopyableModule):
    """Convolutions, `_convolve` in the subclass, and after them `_dense`, a hidden layer."""

    def __call__(self, observation, training=False):
        """uint8 [N, channels, height, width] -> float32 [N, size]."""
        x = tf.transpose(observation, (0, 2, 3, 1))  # CPUs convolve with the channels last.
        x = self._convolve(tf.cast(x, tf.float32) / 255.0)
        return tf.cast(self._dense(tf.reshape(x, (-1, self._dense.kernel.shape[0]))), tf.float32)


@gin.configurable(module="alf.networks")
class NatureEncoder(_ImageEncoder):
    """The convolutional layers of Mnih et al. 2015 (Nature 518), and 512 units.

    Args:
        observation_spec: unbatched tensor spec, uint8 [channels, height, width], at least 36 x 36 pixels.
        compute_dtype: "float32", "bfloat16" or "auto", see `compute_dtype`; None for that of the network.
            Variables and features are float32.
        seed: of the initializers; None draws one.

    Raises:
        ConfigError: if the observation is no image, or too small.
    """

    size = 512

    def __init__(self, observation_spec, compute_dtype=None, seed=None):
        super().__init__()
        channels, height, width = _image_shape("NatureEncoder", observation_spec)
        if min(height, width) < 36:
            raise ConfigError(
                "NatureEncoder needs [channels, height, width] of at least 36 x 36 pixels, not "
                f"{observation_spec.shape}: ImpalaResEncoder takes smaller images"
            )
        *seeds, dense_seed = split_seed(seed, 4)
        shape, self._convolutions = (None, height, width, channels), []
        sizes = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
        with compute_in("NatureEncoder.compute_dtype", compute_dtype):
            for (filters, size, strides), seed in zip(sizes, seeds, strict=True):
                kwargs = dict(strides=strides, activation="relu")
                layer = convolution(shape[-1], filters, size, HIDDEN_GAIN, seed, **kwargs)
                shape = layer.compute_output_shape(shape)
                self._convolutions.append(layer)
            self._dense = dense(shape[1:].num_elements(), self.size, HIDDEN_GAIN, dense_seed, None, "relu")

    def _convolve(self, x):
        for layer in self._convolutions:
            x = layer(x)
        return x


@gin.configurable(module="alf.networks")
class ImpalaResEncoder(_ImageEncoder):
    """The deep residual network of IMPALA (arXiv 1802.01561, figure 3), and 256 units.

    The arguments are as in `NatureEncoder`, but the image may be smaller.
    """

    size = 256

    def __init__(self, observation_spec, compute_dtype=None, seed=None):
        super().__init__()
        channels, height, width = _image_shape("ImpalaResEncoder", observation_spec)
        *seeds, dense_seed = split_seed(seed, 16)
        seeds, self._sections = iter(seeds), []
        with compute_in("ImpalaResEncoder.compute_dtype", compute_dtype):
            for filters in (16, 32, 32):
                # Its gain is 1: no ReLU is before it.
                first = convolution(channels, filters, 3, 1.0, next(seeds), padding="same")
                # With all gains equal, features would be of order 20: each of 6 blocks doubles their square.
                gains = (HIDDEN_GAIN, HIDDEN_GAIN / 6**0.5)
                blocks = [
                    [convolution(filters, filters, 3, gain, next(seeds), padding="same") for gain in gains]
                    for _ in range(2)
                ]
                self._sections.append([first, blocks])
                channels, height, width = filters, (height + 1) // 2, (width + 1) // 2
            size = height * width * channels
            self._dense = dense(size, self.size, HIDDEN_GAIN, dense_seed, None, "relu")

    def _convolve(self, x):
        for first, blocks in self._sections:
            x = tf.nn.max_pool2d(first(x), 3, 2, "SAME")
            for layer_1, layer_2 in blocks:
                x += layer_2(tf.nn.relu(layer_1(tf.nn.relu(x))))
        return tf.nn.relu(x)


@gin.configurable(module="alf.networks")
class ObservationEncoder(CopyableModule):
    """Encodes each part of an observation by its kind, and concatenates the features.

    An image, uint8 [channels, height, width], goes through an encoder of its own. A scalar integer with
    bounds becomes one-hot. Anything else is flattened, and goes through the hidden layers of
    `vector_layer_params`, each part through its own.

    Args:
        observation_spec: nest of unbatched tensor specs.
        image_encoder_ctor: callable (observation_spec, seed=) -> encoder of an image.
        max_one_hot: an integer with more values than this is flattened, like any other number.
        vector_layer_params: units of the hidden layers for each flattened part; () for none.
        activation: of these layers, a name that Keras knows.
        seed: of the initializers; None draws one.
    """

    def __init__(
        self,
        observation_spec,
        image_encoder_ctor=NatureEncoder,
        max_one_hot=1000,
        vector_layer_params=(),
        activation="tanh",
        seed=None,
    ):
        super().__init__(name="observation_encoder")
        check_int("ObservationEncoder.max_one_hot", max_one_hot, at_least=0)
        check_layers("ObservationEncoder.vector_layer_params", vector_layer_params, activation)
        check_ctor("ObservationEncoder.image_encoder_ctor", image_encoder_ctor, "an encoder", "NatureEncoder")
        specs = tf.nest.flatten(observation_spec)
        self._parts = []
        for spec, part_seed in zip(specs, split_seed(seed, len(specs)), strict=True):
            is_choice = spec.shape.rank == 0 and spec.dtype.is_integer and hasattr(spec, "minimum")
            if spec.dtype == tf.uint8 and spec.shape.rank == 3:
                part = image_encoder_ctor(spec, seed=part_seed)
            elif is_choice and 0 < (size := int(spec.maximum) - int(spec.minimum) + 1) <= max_one_hot:
                part = _OneHotEncoder(int(spec.minimum), size)
            else:
                part = _VectorEncoder(spec, vector_layer_params, activation, part_seed)
            self._parts.append(part)
        self.size = sum(part.size for part in self._parts)

    def __call__(self, observation, training=False):
        """Nest of [N, *shape] -> float32 [N, size]."""
        xs = tf.nest.flatten(observation)
        features = [part(x, training) for part, x in zip(self._parts, xs, strict=True)]
        return features[0] if len(features) == 1 else tf.concat(features, axis=-1)


@gin.configurable(module="alf.networks")
class KerasEncoder(CopyableModule):
    """A Keras layer or model of the user's.

    Args:
        observation_spec: nest of unbatched tensor specs.
        model_ctor: callable (observation_spec) -> a new tf.keras.Model or tf.keras.layers.Layer, from a nest
            of [N, *shape] to features [N, F]. Its layers that are made without a dtype compute in that of the
            network. If its `call` takes `training`, that is False in `policy` and whenever the algorithm does
            not train.
        seed: not used, the model has its own initializers.

    Raises:
        ConfigError: if `model_ctor` makes anything else; in `copy.deepcopy`, if the model cannot be copied.
    """

    def __init__(self, observation_spec, model_ctor, seed=None):
        del seed
        super().__init__(name="keras_encoder")
        check_ctor("KerasEncoder.model_ctor", model_ctor, "a Keras model", "my_model")
        self._spec = observation_spec
        self._model = model_ctor(observation_spec)
        if not isinstance(self._model, tf.keras.layers.Layer):
            raise ConfigError(
                f"model_ctor made {self._model!r}: it must make a tf.keras.Model or tf.keras.layers.Layer"
            )
        features = self._encode_zeros()
        if not tf.is_tensor(features) or features.shape.rank != 2 or features.shape[0] != 2:
            shapes = tf.nest.map_structure(lambda x: getattr(x, "shape", x), features)
            raise ConfigError(
                f"the model of model_ctor makes {shapes} of 2 observations: it must make one tensor of "
                "features, (2, F)"
            )
        self.size = features.shape[-1]

    def __call__(self, observation, training=False):
        """Nest of [N, *shape] -> float32 [N, size]."""
        # Keras leaves `training` out where `call` does not take it.
        return tf.cast(self._model(observation, training=training), tf.float32)

    def __deepcopy__(self, memo):
        try:
            new = super().__deepcopy__(memo)
            with tf.GradientTape() as tape:
                new._encode_zeros()
            shapes = [[v.shape for v in encoder.variables] for encoder in (self, new)]
            if shapes[0] != shapes[1]:
                raise ValueError(f"variables {shapes[0]} became {shapes[1]}")
            handles = {id(v.handle) for v in new.variables}
            shared = [v.name for v in self.variables if id(v.handle) in handles]
            shared += [v.name for v in tape.watched_variables() if id(v.handle) not in handles]
            if shared:
                raise ValueError(f"the copy uses variables of others, {', '.join(shared)}")
        except Exception as error:
            raise ConfigError(
                f"the model of KerasEncoder.model_ctor, {self._model!r}, cannot be copied, which target "
                f"networks and actors need: {error}. Make each layer and variable an attribute of the model, "
                "and use them in `call`, not in a lambda; or give the model's class a method `__deepcopy__`"
            ) from error
        return new

    def _encode_zeros(self):
        """Features of 2 observations; the first call builds the model."""
        return self._model(zeros_from_spec(self._spec, 2), training=False)


class _OneHotEncoder(CopyableModule):
    def __init__(self, minimum, size):
        super().__init__(name="one_hot_encoder")
        self._minimum, self.size = minimum, size

    def __call__(self, observation, training=False):
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


def _image_shape(owner, spec):
    if not isinstance(spec, tf.TensorSpec) or spec.dtype != tf.uint8 or spec.shape.rank != 3:
        raise ConfigError(f"{owner} needs one image, uint8 [channels, height, width], not {spec}")
    return spec.shape
