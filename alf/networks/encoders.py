# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Encoders: from observations to features.

An encoder has a `size`, and is called with (observation, training): a nest of [N, *shape], and whether the
call trains; it returns float32 [N, size].
"""

import gin
import tensorflow as tf

from alf.errors import ConfigError, check_bool, check_int
from alf.nest_utils import zeros_from_spec
from alf.networks.images import NatureEncoder
from alf.networks.layers import check_layers, mlp, split_seed


@gin.configurable(module="alf.networks")
class ObservationEncoder(tf.Module):
    """Encodes each part of an observation by its kind, and concatenates the features.

    An image, uint8 [channels, height, width], goes through an encoder of its own. A scalar integer with
    bounds becomes one-hot. Anything else is flattened, and goes through hidden layers of its own if wanted.

    Args:
        observation_spec: nest of unbatched tensor specs.
        image_encoder_ctor: callable (observation_spec, seed=) -> encoder of an image.
        max_one_hot: integers of more values than that are numbers like any others.
        vector_layer_params: units of the hidden layers of each part that is flattened; () for none.
        activation: of these layers, a name that Keras knows.
        seed: of the initialisers; None draws one.
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
        if not callable(image_encoder_ctor):
            raise ConfigError(
                f"image_encoder_ctor is {image_encoder_ctor!r}: it must be a function that makes an encoder"
            )
        specs = tf.nest.flatten(observation_spec)
        self._parts = []
        for spec, part_seed in zip(specs, split_seed(seed, len(specs)), strict=True):
            if spec.dtype == tf.uint8 and spec.shape.rank == 3:
                part = image_encoder_ctor(spec, seed=part_seed)
            elif 0 < _num_values(spec) <= max_one_hot:
                part = _OneHotEncoder(spec)
            else:
                part = _VectorEncoder(spec, vector_layer_params, activation, part_seed)
            self._parts.append(part)
        self.size = sum(part.size for part in self._parts)

    def __call__(self, observation, training=False):
        xs = tf.nest.flatten(observation)
        features = [part(x, training) for part, x in zip(self._parts, xs, strict=True)]
        return features[0] if len(features) == 1 else tf.concat(features, axis=-1)


class MlpEncoder(tf.Module):
    """Hidden layers after another encoder.

    Args:
        encoder: whose features enter.
        units, activation, seed, layer_norm, spectral_norm: as in `layers.mlp`.
    """

    def __init__(self, encoder, units, activation, seed, layer_norm=False, spectral_norm=False):
        super().__init__(name="mlp_encoder")
        self.size = units[-1]
        self._encoder = encoder
        self._layers = mlp(encoder.size, units, activation, seed, layer_norm, spectral_norm)

    def __call__(self, observation, training=False):
        x = self._layers(self._encoder(observation, training), training=training)
        return tf.cast(x, tf.float32)


def mlp_encoder_maker(
    observation_spec, encoder_ctor, units, activation, layer_norm=False, spectral_norm=False
):
    """How to make an encoder of any observation with hidden layers after it: callable (seed=) -> encoder.

    Args:
        observation_spec: nest of unbatched tensor specs.
        encoder_ctor: callable (observation_spec, seed=) -> encoder.
        units: sizes of the hidden layers, the setting `fc_layer_params`; () for none.
        activation, layer_norm, spectral_norm: as in `layers.mlp`.
    """
    check_layers("fc_layer_params", units, activation)
    check_bool("layer_norm", layer_norm)
    check_bool("spectral_norm", spectral_norm)
    if not callable(encoder_ctor):
        raise ConfigError(f"encoder_ctor is {encoder_ctor!r}: it must be a function that makes an encoder")

    def make_encoder(seed):
        encoder_seed, seed = split_seed(seed, 2)
        encoder = encoder_ctor(observation_spec, seed=encoder_seed)
        if not units:
            return encoder
        return MlpEncoder(encoder, tuple(units), activation, seed, layer_norm, spectral_norm)

    return make_encoder


class KerasEncoder(tf.Module):
    """A Keras layer or model of the user's.

    Args:
        observation_spec: nest of unbatched tensor specs.
        model_ctor: callable (observation_spec) -> layer or model from a nest of [N, *shape] to [N, F].
    """

    def __init__(self, observation_spec, model_ctor):
        super().__init__(name="keras_encoder")
        if not callable(model_ctor):
            raise ConfigError(f"model_ctor is {model_ctor!r}: it must be a function that makes a Keras model")
        self._model = model_ctor(observation_spec)
        if not isinstance(self._model, tf.keras.layers.Layer):
            raise ConfigError(
                f"model_ctor made {self._model!r}: it must make a tf.keras.Model or tf.keras.layers.Layer"
            )
        features = self._model(zeros_from_spec(observation_spec, 2), training=False)
        if not tf.is_tensor(features) or features.shape.rank != 2 or features.shape[0] != 2:
            shapes = tf.nest.map_structure(lambda x: getattr(x, "shape", x), features)
            raise ConfigError(
                f"the model of model_ctor makes {shapes} of 2 observations: it must make one tensor of "
                "features, (2, F)"
            )
        self.size = features.shape[-1]

    def __call__(self, observation, training=False):
        # Keras leaves `training` out where `call` does not take it.
        return tf.cast(self._model(observation, training=training), tf.float32)


class _OneHotEncoder(tf.Module):
    def __init__(self, spec):
        super().__init__(name="one_hot_encoder")
        self.size = _num_values(spec)
        self._minimum = int(spec.minimum)

    def __call__(self, observation, training=False):
        return tf.one_hot(tf.cast(observation, tf.int64) - self._minimum, self.size)


class _VectorEncoder(tf.Module):
    def __init__(self, spec, units, activation, seed):
        super().__init__(name="vector_encoder")
        self._rank = spec.shape.rank
        self._input_size = spec.shape.num_elements()
        self.size = units[-1] if units else self._input_size
        self._layers = mlp(self._input_size, units, activation, seed) if units else None

    def __call__(self, observation, training=False):
        x = observation if self._rank == 1 else tf.reshape(observation, (-1, self._input_size))
        x = tf.cast(x, tf.float32)
        return x if self._layers is None else tf.cast(self._layers(x), tf.float32)


def _num_values(spec):
    """How many values a scalar integer with bounds has; 0 for any other spec."""
    if spec.shape.rank != 0 or not spec.dtype.is_integer or not hasattr(spec, "minimum"):
        return 0
    return int(spec.maximum) - int(spec.minimum) + 1
