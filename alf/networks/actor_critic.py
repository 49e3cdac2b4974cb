# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The network of actor-critic algorithms: a policy and a value."""

import gin
import tensorflow as tf

from alf.errors import check_bool
from alf.nest_utils import merge_leading_dims, split_leading_dim
from alf.networks.compute_dtype import compute_in
from alf.networks.copying import CopyableModule
from alf.networks.encoders import ObservationEncoder
from alf.networks.layers import dense, split_seed
from alf.networks.torso import Torso


@gin.configurable(module="alf.networks")
class ActorCriticNetwork(CopyableModule):
    """An encoder, hidden layers, a recurrent layer if wanted, a policy head and a value head.

    Policy and value share all but the heads, or nothing.

    Args:
        observation_spec: nest of unbatched tensor specs.
        num_outputs: size of the policy head.
        fc_layer_params: units of each hidden layer after the encoder; () for none, as after `NatureEncoder`
            and `ImpalaResEncoder`, which end in one of their own.
        activation: of the hidden layers, a name that Keras knows.
        share_layers: whether policy and value share everything but the heads.
        layer_norm: whether the hidden layers are normalized before their activation (arXiv 1607.06450).
        spectral_norm: whether the kernels of the hidden layers are divided by their largest singular value
            (arXiv 1802.05957). Calls of the network improve an estimate of it, `policy` only uses it.
        encoder_ctor: callable (observation_spec, seed=) -> encoder: `ObservationEncoder`, `NatureEncoder`,
            `ImpalaResEncoder`, `KerasEncoder`, or another, see `encoders`.
        rnn_ctor: `GRU`, `LSTM`, or another callable (input_size, seed=) -> `recurrent.Rnn`: the recurrent
            layer after the hidden layers. None for no recurrent layer.
        compute_dtype: of all layers but the heads and those with `spectral_norm`: "float32", "bfloat16" or
            "auto", see `compute_dtype`. An encoder with a dtype of its own keeps it. Variables and outputs
            are float32.
        seed: of the initializers; None draws one.

    Attributes:
        state_spec: nest of unbatched tensor specs of the recurrent state; () if there is none.

    Raises:
        ConfigError: if a setting is wrong.
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
        rnn_ctor=None,
        compute_dtype="float32",
        seed=None,
    ):
        super().__init__(name="actor_critic_network")
        check_bool("share_layers", share_layers)
        self._spec = observation_spec
        self._num_outputs = num_outputs

        def make(head_size, seed):
            """Makes a torso and its head."""
            *torso_seeds, head_seed = split_seed(seed, 3)
            torso = Torso(
                type(self).__name__,
                observation_spec,
                encoder_ctor,
                rnn_ctor,
                torso_seeds,
                fc_layer_params,
                activation,
                layer_norm,
                spectral_norm,
            )
            return torso, dense(torso.size, head_size, gain=0.01, seed=head_seed)

        seeds = split_seed(seed, 1 if share_layers else 2)
        with compute_in("compute_dtype", compute_dtype):
            if share_layers:  # one product makes both heads
                self._torso, self._head = make(num_outputs + 1, *seeds)
                self._value_torso = self._value_head = None
            else:
                self._torso, self._head = make(num_outputs, seeds[0])
                self._value_torso, self._value_head = make(1, seeds[1])
        self.state_spec = self._torso.state_spec
        if not share_layers and self.state_spec != ():
            self.state_spec = (self.state_spec, self._value_torso.state_spec)

    @property
    def value_variables(self):
        """The trainable variables that the value alone depends on: none where layers are shared."""
        if self._value_torso is None:
            return ()
        return self._value_torso.trainable_variables + tuple(self._value_head.trainable_variables)

    def __call__(self, observation, state=(), is_first=None):
        """A whole unroll, to train on.

        Without a recurrent layer, `state` and `is_first` are ignored, and any leading dimensions will do in
        place of [T, B].

        Args:
            observation: nest of [T, B, *shape]; T is known when this is traced.
            state: nest of [B, ...] like `state_spec`, which entered row 0.
            is_first: bool [T, B], where the state becomes zeros before the step.

        Returns:
            float32 [T, B, num_outputs] of the policy head, values float32 [T, B], and the final state.
        """
        x, leading = merge_leading_dims(observation, self._spec)
        if self._value_torso is None:
            features, state = self._torso.unroll(x, state, is_first)
            outputs, value = tf.split(self._head(features), [self._num_outputs, 1], axis=-1)
        else:
            state, value_state = self._split(state)
            features, state = self._torso.unroll(x, state, is_first)
            value_features, value_state = self._value_torso.unroll(x, value_state, is_first)
            outputs, value = self._head(features), self._value_head(value_features)
            state = () if self.state_spec == () else (state, value_state)
        return split_leading_dim(outputs, leading), tf.reshape(value, leading), state

    def policy(self, observation, state=()):
        """One step, to act.

        Args:
            observation: nest of [B, *shape].
            state: nest of [B, ...] like `state_spec`, already zeros where an episode begins.

        Returns:
            float32 [B, num_outputs] of the policy head, and the new state.
        """
        x, leading = merge_leading_dims(observation, self._spec)
        if self._value_torso is None or self.state_spec == ():
            features, state = self._torso.step(x, state)
        else:
            # The state that enters the next unroll must be the value's, too.
            state, value_state = self._split(state)
            features, state = self._torso.step(x, state)
            state = state, self._value_torso.step(x, value_state)[1]
        outputs = self._head(features)
        if self._value_torso is None:
            outputs = outputs[:, : self._num_outputs]
        return split_leading_dim(outputs, leading), state

    def _split(self, state):
        """The states of the policy and of the value, which share no layers."""
        if self.state_spec == ():
            return (), ()
        tf.nest.assert_same_structure(self.state_spec, state)
        return state
