# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Networks of algorithms that learn from replay: actors without a value, and action values."""

import gin
import tensorflow as tf

from alf.errors import check_bool, check_int
from alf.networks.compute_dtype import compute_in
from alf.networks.encoders import ObservationEncoder, mlp_encoder_maker
from alf.networks.layers import check_layers, dense, mlp, split_seed
from alf.networks.network import Torso, merge_leading, unmerge_leading


class _OneHeadNetwork(tf.Module):
    """Encoder, recurrent layer if wanted, and one head; each is built at once.

    Attributes:
        state_spec: nest of unbatched tensor specs of the recurrent state; () if there is none.
    """

    def __init__(self, observation_spec, make_encoder, num_outputs, head_gain, compute_dtype, seed, **rnn):
        super().__init__()
        *torso_seeds, head_seed = split_seed(seed, 3)
        self._spec = observation_spec
        with compute_in("compute_dtype", compute_dtype):
            self._torso = Torso(make_encoder, seeds=torso_seeds, **rnn)
        self._head = dense(self._torso.size, num_outputs, head_gain, head_seed)
        self.state_spec = self._torso.state_spec

    def __call__(self, observation, state=(), is_first=None, training=True):
        """A whole sequence. See `Network` for the arguments.

        Args:
            observation: nest of [T, B, *shape]; of any leading dimensions without a recurrent layer.
            state: nest of [B, ...] like `state_spec`, which entered row 0.
            is_first: bool [T, B], where the state becomes zeros before the step.
            training: whether the call trains, for layers to which it matters.

        Returns:
            float32 [T, B, num_outputs], and the final state.
        """
        x, leading = merge_leading(observation, self._spec)
        x, state = self._torso.unroll(x, state, is_first, training)
        return unmerge_leading(self._outputs(x), leading), state

    def policy(self, observation, state=()):
        """One step, to act: nest of [B, *shape] -> float32 [B, num_outputs], and the new state.

        `state`, nest of [B, ...], is zeros where an episode begins.
        """
        x, leading = merge_leading(observation, self._spec)
        x, state = self._torso.step(x, state)
        return unmerge_leading(self._outputs(x), leading), state

    def _outputs(self, features):
        return self._head(features)


@gin.configurable(module="alf.networks")
class PolicyNetwork(_OneHeadNetwork):
    """The parameters of a policy, without a value.

    Args:
        observation_spec: nest of unbatched tensor specs.
        num_outputs: size of the head.
        fc_layer_params: units of each hidden layer; () for none.
        activation: of the hidden layers, a name that Keras knows.
        layer_norm: whether the hidden layers are normalised before their activation (arXiv 1607.06450).
        encoder_ctor: callable (observation_spec, seed=) -> encoder, see `encoders`; images go through
            `NatureEncoder` by default.
        rnn_cell: "gru", "lstm" or None, the recurrent layer after the hidden layers.
        rnn_units: its size.
        recurrence: through how many steps of a sequence gradients go back; None for all.
        compute_dtype: of all layers but the head: "float32", "bfloat16" or "auto", see `compute_dtype`.
            Variables and outputs are float32.
        seed: of the initialisers; None draws one.
    """

    def __init__(
        self,
        observation_spec,
        num_outputs,
        fc_layer_params=(256, 256),
        activation="relu",
        layer_norm=False,
        encoder_ctor=ObservationEncoder,
        rnn_cell=None,
        rnn_units=64,
        recurrence=None,
        compute_dtype="float32",
        seed=None,
    ):
        make = mlp_encoder_maker(observation_spec, encoder_ctor, fc_layer_params, activation, layer_norm)
        rnn = dict(rnn_cell=rnn_cell, rnn_units=rnn_units, recurrence=recurrence)
        super().__init__(observation_spec, make, num_outputs, 0.01, compute_dtype, seed, **rnn)


@gin.configurable(module="alf.networks")
class QValueNetwork(_OneHeadNetwork):
    """The value of each of n actions.

    Args:
        observation_spec: nest of unbatched tensor specs.
        num_outputs: n.
        duelling: whether the head makes the state's value and each action's advantage, of which the mean is
            subtracted: Q = V + A - mean(A) (arXiv 1511.06581, eq. 9). The two share all hidden layers.
        fc_layer_params, activation, layer_norm, encoder_ctor, rnn_cell, rnn_units, recurrence, compute_dtype,
            seed: as in `PolicyNetwork`. For images, () leaves the encoder's own hidden layer.
    """

    def __init__(
        self,
        observation_spec,
        num_outputs,
        duelling=True,
        fc_layer_params=(128, 128),
        activation="relu",
        layer_norm=False,
        encoder_ctor=ObservationEncoder,
        rnn_cell=None,
        rnn_units=64,
        recurrence=None,
        compute_dtype="float32",
        seed=None,
    ):
        check_bool("QValueNetwork.duelling", duelling)
        make = mlp_encoder_maker(observation_spec, encoder_ctor, fc_layer_params, activation, layer_norm)
        size = num_outputs + 1 if duelling else num_outputs
        rnn = dict(rnn_cell=rnn_cell, rnn_units=rnn_units, recurrence=recurrence)
        super().__init__(observation_spec, make, size, 0.1, compute_dtype, seed, **rnn)
        self._duelling = duelling

    def _outputs(self, features):
        x = self._head(features)
        if not self._duelling:
            return x
        value, advantage = x[:, :1], x[:, 1:]
        return value + advantage - tf.reduce_mean(advantage, axis=-1, keepdims=True)


@gin.configurable(module="alf.networks")
class CriticsNetwork(tf.Module):
    """Several critics, which differ in their initial weights: action values of one observation and action.

    Observations go through an encoder and, if wanted, a recurrent layer, which all critics share. Each
    critic has hidden layers of its own, of these features and the action.

    Args:
        observation_spec: nest of unbatched tensor specs.
        action_size: numbers of an action; 0 if there is a value for each of `num_outputs` actions.
        num_outputs: values that each critic makes.
        num_critics: how many critics; 2 are the twins of arXiv 1802.09477.
        fc_layer_params: units of each hidden layer of a critic.
        activation, layer_norm, encoder_ctor, compute_dtype, seed: as in `PolicyNetwork`.
        rnn_cell, rnn_units, recurrence: the recurrent layer after the encoder, as in `PolicyNetwork`.

    Attributes:
        state_spec: nest of unbatched tensor specs of the recurrent state; () if there is none.
    """

    def __init__(
        self,
        observation_spec,
        action_size,
        num_outputs=1,
        num_critics=2,
        fc_layer_params=(256, 256),
        activation="relu",
        layer_norm=False,
        encoder_ctor=ObservationEncoder,
        rnn_cell=None,
        rnn_units=64,
        recurrence=None,
        compute_dtype="float32",
        seed=None,
    ):
        super().__init__()
        check_int("num_critics", num_critics)
        check_layers("fc_layer_params", fc_layer_params, activation)
        check_bool("layer_norm", layer_norm)
        *torso_seeds, seed = split_seed(seed, 3)
        self._spec = observation_spec
        make_encoder = mlp_encoder_maker(observation_spec, encoder_ctor, (), activation)
        with compute_in("compute_dtype", compute_dtype):
            self._torso = Torso(make_encoder, rnn_cell, rnn_units, torso_seeds, recurrence)
            size = self._torso.size + action_size
            self._critics = [
                _critic(size, fc_layer_params, activation, layer_norm, num_outputs, critic_seed)
                for critic_seed in split_seed(seed, num_critics)
            ]
        self.state_spec = self._torso.state_spec

    def features(self, observation, state=(), is_first=None, training=True):
        """What the critics see of a whole sequence.

        Args:
            observation, state, is_first, training: as when an `PolicyNetwork` is called.

        Returns:
            float32 [T, B, F], and the final state.
        """
        x, leading = merge_leading(observation, self._spec)
        x, state = self._torso.unroll(x, state, is_first, training)
        return unmerge_leading(x, leading), state

    def advance(self, observation, state):
        """One step of the recurrent state: nest of [B, *shape], state [B, ...] -> state."""
        x, _ = merge_leading(observation, self._spec)
        return self._torso.advance(x, state)

    def values(self, features, action=None):
        """Q of each critic.

        Args:
            features: float32 [T, B, F].
            action: float32 [T, B, action_size]; None if `action_size` is 0.

        Returns:
            float32 [num_critics, T, B, num_outputs].
        """
        x = features if action is None else tf.concat([features, action], axis=-1)
        leading = tf.shape(x)[:-1]
        x = tf.reshape(x, (-1, x.shape[-1]))
        # Stacked kernels and a batched product were not faster than one product after another.
        values = tf.stack([critic(x) for critic in self._critics])
        return tf.reshape(values, tf.concat([[len(self._critics)], leading, [values.shape[-1]]], axis=0))


def _critic(size, units, activation, layer_norm, num_outputs, seed):
    """float32 [N, size] -> float32 [N, num_outputs]."""
    seed, head_seed = split_seed(seed, 2)
    layers = [mlp(size, units, activation, seed, layer_norm)] if units else []
    head = dense(units[-1] if units else size, num_outputs, gain=0.1, seed=head_seed)
    return tf.keras.Sequential([*layers, head])
