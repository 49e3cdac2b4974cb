# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What is below the heads of every network."""

import tensorflow as tf

from alf.errors import ConfigError, check_type
from alf.networks.compute_dtype import compute_in
from alf.networks.copying import CopyableModule
from alf.networks.layers import Mlp, split_seed
from alf.networks.recurrent import Rnn


class Torso(CopyableModule):
    """An encoder, hidden layers, and a recurrent layer if wanted; each is built at once.

    Args:
        owner: name of the network's class, for errors.
        observation_spec: nest of unbatched tensor specs.
        encoder_ctor: callable (observation_spec, seed=) -> encoder: `ObservationEncoder`, `NatureEncoder`,
            `ImpalaResEncoder`, `KerasEncoder`, or another, see `encoders`.
        rnn_ctor: callable (input_size, seed=) -> `recurrent.Rnn`, such as `GRU` or `LSTM`: the recurrent
            layer after the hidden layers. None for no recurrent layer.
        compute_dtype: "float32", "bfloat16" or "auto", see `compute_dtype`: the dtype of all layers but the
            heads and those with `spectral_norm`. An encoder with a dtype of its own keeps it. Variables and
            outputs are float32.
        seed: int or None, of the initializers; None draws one.
        fc_layer_params: tuple or list of the units of each hidden layer after the encoder; () for none, as
            after `NatureEncoder` and `ImpalaResEncoder`, which end in one of their own.
        activation: text, a name that Keras knows: the activation of the hidden layers.
        layer_norm: whether the hidden layers are normalized before their activation (arXiv 1607.06450).
        spectral_norm: whether the kernels of the hidden layers are divided by their largest singular value
            (arXiv 1802.05957). `unroll` in training improves an estimate of it, `step` only uses it.

    Attributes:
        size: of the features.
        state_spec: nest of unbatched tensor specs of the recurrent state; () if there is none.
        encoder_has_weights: bool.
        head_seed: the seed for what is above.

    Raises:
        ConfigError: if a setting is wrong.
    """

    def __init__(
        self,
        owner,
        observation_spec,
        encoder_ctor,
        rnn_ctor,
        compute_dtype,
        seed,
        fc_layer_params=(),
        activation="relu",
        layer_norm=False,
        spectral_norm=False,
    ):
        super().__init__(name="torso")
        seed, rnn_seed, self.head_seed = split_seed(seed, 3)
        encoder_seed, seed = split_seed(seed, 2)
        with compute_in(compute_dtype):
            self._encoder = encoder_ctor(observation_spec, seed=encoder_seed)
            if not callable(self._encoder) or not hasattr(self._encoder, "size"):
                raise ConfigError(
                    f"{owner}.encoder_ctor makes an object of {type(self._encoder).__name__}: it must make "
                    "one like NatureEncoder"
                )
            size = self._encoder.size
            self.encoder_has_weights = bool(self._encoder.trainable_variables)
            self._layers = Mlp(size, fc_layer_params, activation, seed, layer_norm, spectral_norm)
            self.size, self._rnn, self.state_spec = self._layers.size, None, ()
            if rnn_ctor is not None:
                self._rnn = rnn_ctor(self.size, seed=rnn_seed)
                check_type(f"what {owner}.rnn_ctor makes", self._rnn, Rnn)
                self.size, self.state_spec = self._rnn.size, self._rnn.state_spec

    def unroll(self, observation, state, is_first, training=True):
        """A whole unroll: nest of [T * B, *shape], row by row -> features float32 [T * B, size], final state.

        The arguments are as in a call of `PolicyNetwork`, but for the shape of the observation.
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
