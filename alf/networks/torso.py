# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What is below the heads of every network."""

import tensorflow as tf

from alf.errors import check_bool
from alf.networks.copying import CopyableModule
from alf.networks.layers import Mlp, check_ctor, check_layers, split_seed


class Torso(CopyableModule):
    """An encoder, hidden layers, and a recurrent layer if there is an `rnn_ctor`; each is built at once.

    Args:
        owner: name of the network's class, for errors.
        observation_spec: nest of unbatched tensor specs.
        encoder_ctor: callable (observation_spec, seed=) -> encoder, see `encoders`.
        rnn_ctor: callable (input_size, seed=) -> `Rnn`, or None.
        seeds: two, of encoder and hidden layers and of the recurrent layer.
        fc_layer_params: units of each hidden layer; () for none.
        activation, layer_norm, spectral_norm: of the hidden layers, as in `layers.Mlp`.

    Attributes:
        size: of the features.
        state_spec: nest of unbatched tensor specs of the recurrent state; () if there is none.

    Raises:
        ConfigError: if a setting is wrong.
    """

    def __init__(
        self,
        owner,
        observation_spec,
        encoder_ctor,
        rnn_ctor,
        seeds,
        fc_layer_params=(),
        activation="relu",
        layer_norm=False,
        spectral_norm=False,
    ):
        super().__init__(name="torso")
        check_layers("fc_layer_params", fc_layer_params, activation)
        check_bool("layer_norm", layer_norm)
        check_bool("spectral_norm", spectral_norm)
        check_ctor(f"{owner}.encoder_ctor", encoder_ctor, "an encoder", "NatureEncoder")
        if rnn_ctor is not None:
            check_ctor(f"{owner}.rnn_ctor", rnn_ctor, "a recurrent layer", "GRU")
        seed, rnn_seed = seeds
        encoder_seed, seed = split_seed(seed, 2)
        self._encoder = encoder_ctor(observation_spec, seed=encoder_seed)
        self._layers = Mlp(self._encoder.size, fc_layer_params, activation, seed, layer_norm, spectral_norm)
        self.size, self._rnn, self.state_spec = self._layers.size, None, ()
        if rnn_ctor is not None:
            self._rnn = rnn_ctor(self.size, seed=rnn_seed)
            self.size, self.state_spec = self._rnn.size, self._rnn.state_spec

    def unroll(self, observation, state, is_first, training=True):
        """A whole unroll, or any rows where there is no recurrent layer.

        Args:
            observation: nest of [T * B, *shape], row by row.
            state: nest of [B, ...] that enters row 0; ignored without a recurrent layer.
            is_first: bool [T, B], where the state becomes zeros before the step; ignored likewise.
            training: whether the call trains, for layers to which it matters.

        Returns:
            features float32 [T * B, size], and the final state.
        """
        x = self._layers(self._encoder(observation, training=training), training)
        if self._rnn is None:
            return x, ()
        if is_first is None:
            raise ValueError("a recurrent network needs is_first")
        tf.nest.assert_same_structure(self.state_spec, state)
        return self._rnn.unroll(x, state, is_first)

    def step(self, observation, state):
        """One step, to act: nest of [B, *shape] -> features float32 [B, size], the new state."""
        x = self._layers(self._encoder(observation, training=False), training=False)
        if self._rnn is None:
            return x, ()
        tf.nest.assert_same_structure(self.state_spec, state)
        return self._rnn.step(x, state)
