# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Torso: the part of a network below its heads."""

import functools

import tensorflow as tf

from alf.errors import check_type
from alf.networks.compute_dtype import compute_in
from alf.networks.copying import CopyableModule
from alf.networks.layers import Mlp, split_seed
from alf.networks.recurrent import Rnn
from alf.networks.user_models import UserEncoder


class Torso(CopyableModule):
    """An encoder, hidden layers and an optional recurrent layer.

    Args:
        owner: text, the name of the network's class for errors.
        observation_spec: nest of unbatched tensor specs.
        encoder: callable (observation_spec, seed=) -> encoder, such as `ObservationEncoder`,
            `NatureEncoder`, `ImpalaResEncoder`, `KerasEncoder`, or one of your own: a layer or model of
            Keras, a `tf.Module` or a function that computes [N, F] of a nest of [N, *shape].
        rnn: callable (input_size, seed=) -> `Rnn`, such as `GRU` or `LSTM`, the recurrent layer after
            the hidden layers; None for none.
        compute_dtype: "float32", "bfloat16" or "auto" (bfloat16 if the machine is fast at it), the dtype of
            all layers except the heads and layers with `spectral_norm`. An encoder may have another one.
            Variables and outputs are float32.
        seed: int, the seed of the initializers; None draws one.
        fc_layer_params: tuple or list of ints, the units of each hidden layer after the encoder; () for none.
            `NatureEncoder` and `ImpalaResEncoder` already end in a hidden layer.
        activation: text, the activation of the hidden layers, such as "relu", "tanh" or "silu".
        layer_norm: bool, whether hidden layers are normalized before their activation (arXiv 1607.06450).
        spectral_norm: bool, whether the kernels of the hidden layers are divided by their largest singular
            value (arXiv 1802.05957). `unroll` in training improves the estimate of it, `step` only uses it.

    Attributes:
        size: int, the size of the features.
        state_spec: nest of unbatched tensor specs of the recurrent state; () if there is none.
        encoder_has_weights: bool.
        head_seed: int or None, the seed for the heads.

    Raises:
        ConfigError: if a setting is wrong.
    """

    def __init__(
        self,
        owner,
        observation_spec,
        encoder,
        rnn,
        compute_dtype,
        seed,
        fc_layer_params=(),
        activation="relu",
        layer_norm=False,
        spectral_norm=False,
    ):
        super().__init__(name="torso")
        # Each part has a seed of its own, so that its weights do not depend on the settings of other parts.
        seed, rnn_seed, self.head_seed = split_seed(seed, 3)
        encoder_seed, seed = split_seed(seed, 2)
        with compute_in(compute_dtype):
            made = encoder(observation_spec, seed=encoder_seed)
            if not isinstance(made, CopyableModule):
                make = functools.partial(encoder, seed=encoder_seed)
                made = UserEncoder(observation_spec, make, f"{owner}.encoder", made)
            self._encoder = made
            size = self._encoder.size
            self.encoder_has_weights = bool(self._encoder.trainable_variables)
            self._layers = Mlp(size, fc_layer_params, activation, seed, layer_norm, spectral_norm)
            self.size, self._rnn, self.state_spec = self._layers.size, None, ()
            if rnn is not None:
                self._rnn = rnn(self.size, seed=rnn_seed)
                check_type(f"the result of {owner}.rnn", self._rnn, Rnn)
                self.size, self.state_spec = self._rnn.size, self._rnn.state_spec

    def unroll(self, observation, state, is_first, training=True):
        """Computes the features of a whole unroll.

        Args:
            observation: nest of [T * B, *shape], row by row.
            state: nest of [B, ...] like `state_spec`, the state at row 0.
            is_first: bool [T, B], True where the state becomes zeros before the step.
            training: bool, for layers that behave differently in training.

        Returns:
            float32 [T * B, size] and the final state.
        """
        x = self._layers(self._encoder(observation, training=training), training)
        if self._rnn is None:
            return x, ()
        if is_first is None:
            raise ValueError("a recurrent network needs is_first")
        # While tracing. A state of another form would else be an error inside of the cell.
        tf.nest.assert_same_structure(self.state_spec, state)
        return self._rnn.unroll(x, state, is_first)

    def step(self, observation, state):
        """Computes one step, not in training. Returns features float32 [B, size] and the new state."""
        x = self._layers(self._encoder(observation, training=False), training=False)
        if self._rnn is None:
            return x, ()
        tf.nest.assert_same_structure(self.state_spec, state)
        return self._rnn.step(x, state)
