# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The networks to choose from; what they have in common is in `Network`."""

import functools

import gin

from alf.errors import ConfigError, check_bool
from alf.networks.encoders import KerasEncoder, ObservationEncoder, mlp_encoder_maker
from alf.networks.images import ImpalaResEncoder, NatureEncoder
from alf.networks.network import Network


@gin.configurable(module="alf.networks")
class ActorCriticNetwork(Network):
    """An encoder of any observation, and a multilayer perceptron.

    Args:
        observation_spec: nest of unbatched tensor specs.
        num_outputs: size of the policy head.
        fc_layer_params: units of each hidden layer.
        activation: of the hidden layers, a name that Keras knows.
        share_layers: whether policy and value share everything but the heads.
        layer_norm: whether the hidden layers are normalised before their activation (arXiv 1607.06450).
        spectral_norm: whether the kernels of the hidden layers are divided by their largest singular value
            (arXiv 1802.05957), an estimate that calls of the network improve and `policy` only uses.
        encoder_ctor: callable (observation_spec, seed=) -> encoder, see `encoders`.
        rnn_cell: "gru", "lstm" or None, the recurrent layer after the hidden layers.
        rnn_units: its size.
        recurrence: through how many steps of an unroll gradients go back; None for all. It changes gradients
            alone: the state that enters a step is the same.
        compute_dtype: of all layers but the heads and those with `spectral_norm`: "float32", "bfloat16" or
            "auto", see `compute_dtype`. Variables and all outputs are float32.
        seed: of the initialisers; None draws one.
    """

    def __init__(
        self,
        observation_spec,
        num_outputs,
        fc_layer_params=(64, 64),
        activation="tanh",
        share_layers=True,
        layer_norm=False,
        spectral_norm=False,
        encoder_ctor=ObservationEncoder,
        rnn_cell=None,
        rnn_units=64,
        recurrence=None,
        compute_dtype="float32",
        seed=None,
    ):
        make_encoder = mlp_encoder_maker(
            observation_spec, encoder_ctor, fc_layer_params, activation, layer_norm, spectral_norm
        )
        if not fc_layer_params:
            raise ConfigError(f"fc_layer_params is {fc_layer_params!r}: there must be a hidden layer")
        check_bool("share_layers", share_layers)
        super().__init__(
            observation_spec,
            num_outputs,
            make_encoder,
            share_layers,
            rnn_cell=rnn_cell,
            rnn_units=rnn_units,
            recurrence=recurrence,
            compute_dtype=compute_dtype,
            seed=seed,
            name="actor_critic_network",
        )


@gin.configurable(module="alf.networks")
class NatureNetwork(Network):
    """The convolutional network of Mnih et al. 2015 (Nature 518), with a policy and a value head.

    Args:
        observation_spec: unbatched tensor spec, uint8 [channels, height, width], at least 36 x 36 pixels.
        num_outputs: size of the policy head.
        compute_dtype, rnn_cell, rnn_units, recurrence, seed: as in `ActorCriticNetwork`.
    """

    def __init__(
        self,
        observation_spec,
        num_outputs,
        compute_dtype="float32",
        rnn_cell=None,
        rnn_units=64,
        recurrence=None,
        seed=None,
    ):
        super().__init__(
            observation_spec,
            num_outputs,
            functools.partial(NatureEncoder, observation_spec),
            rnn_cell=rnn_cell,
            rnn_units=rnn_units,
            recurrence=recurrence,
            compute_dtype=compute_dtype,
            seed=seed,
            name="nature_network",
        )


@gin.configurable(module="alf.networks")
class ImpalaResNetwork(Network):
    """The deep residual network of IMPALA (arXiv 1802.01561), with a policy and a value head.

    Args:
        observation_spec: unbatched tensor spec, uint8 [channels, height, width].
        num_outputs: size of the policy head.
        compute_dtype, rnn_cell, rnn_units, recurrence, seed: as in `ActorCriticNetwork`.
    """

    def __init__(
        self,
        observation_spec,
        num_outputs,
        compute_dtype="float32",
        rnn_cell=None,
        rnn_units=64,
        recurrence=None,
        seed=None,
    ):
        super().__init__(
            observation_spec,
            num_outputs,
            functools.partial(ImpalaResEncoder, observation_spec),
            rnn_cell=rnn_cell,
            rnn_units=rnn_units,
            recurrence=recurrence,
            compute_dtype=compute_dtype,
            seed=seed,
            name="impala_res_network",
        )


@gin.configurable(module="alf.networks")
class KerasNetwork(Network):
    """A Keras model of the user's, with a policy and a value head.

    Args:
        observation_spec: nest of unbatched tensor specs.
        num_outputs: size of the policy head.
        model_ctor: callable (observation_spec) -> a new tf.keras.Model or tf.keras.layers.Layer, from a nest
            of [N, *shape] to features [N, F]. If its `call` takes `training`, that is True in calls of the
            network and False in `policy`.
        share_layers: whether policy and value share one model.
        rnn_cell, rnn_units, recurrence: as in `ActorCriticNetwork`.
        compute_dtype: as in `ActorCriticNetwork`, of those layers of the model that are made without a dtype.
        seed: of the initialisers except the model's own; None draws one.
    """

    def __init__(
        self,
        observation_spec,
        num_outputs,
        model_ctor,
        share_layers=True,
        rnn_cell=None,
        rnn_units=64,
        recurrence=None,
        compute_dtype="float32",
        seed=None,
    ):
        check_bool("share_layers", share_layers)
        super().__init__(
            observation_spec,
            num_outputs,
            lambda seed: KerasEncoder(observation_spec, model_ctor),
            share_layers,
            rnn_cell=rnn_cell,
            rnn_units=rnn_units,
            recurrence=recurrence,
            compute_dtype=compute_dtype,
            seed=seed,
            name="keras_network",
        )
