# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Networks of algorithms that learn from replay: a policy without a value, and action values."""

import gin
import tensorflow as tf

from alf.errors import check_bool, check_int
from alf.nest_utils import merge_leading_dims, split_leading_dim
from alf.networks.compute_dtype import compute_in
from alf.networks.copying import CopyableModule
from alf.networks.encoders import ObservationEncoder
from alf.networks.layers import Mlp, check_layers, dense, split_seed
from alf.networks.torso import Torso


class _OneHeadNetwork(CopyableModule):
    """A torso and one head; each is built at once.

    Args:
        observation_spec: nest of unbatched tensor specs.
        head_size: numbers that the head makes.
        head_gain: of its initial weights.
        compute_dtype, seed: as in `PolicyNetwork`.
        torso: further arguments of `Torso`.

    Attributes:
        state_spec: nest of unbatched tensor specs of the recurrent state; () if there is none.
    """

    def __init__(self, observation_spec, head_size, head_gain, compute_dtype, seed, **torso):
        super().__init__()
        *torso_seeds, head_seed = split_seed(seed, 3)
        self._spec = observation_spec
        with compute_in("compute_dtype", compute_dtype):
            self._torso = Torso(type(self).__name__, observation_spec, seeds=torso_seeds, **torso)
        self._head = dense(self._torso.size, head_size, head_gain, head_seed)
        self.state_spec = self._torso.state_spec

    def __call__(self, observation, state=(), is_first=None, training=True):
        """A whole sequence.

        Args:
            observation: nest of [T, B, *shape]; of any leading dimensions without a recurrent layer.
            state: nest of [B, ...] like `state_spec`, which entered row 0.
            is_first: bool [T, B], where the state becomes zeros before the step.
            training: whether the call trains, for layers to which it matters.

        Returns:
            float32 [T, B, num_outputs], and the final state.
        """
        x, leading = merge_leading_dims(observation, self._spec)
        x, state = self._torso.unroll(x, state, is_first, training)
        return split_leading_dim(self._outputs(x), leading), state

    def policy(self, observation, state=()):
        """One step, to act: nest of [B, *shape] -> float32 [B, num_outputs], and the new state.

        `state`, nest of [B, ...], is zeros where an episode begins.
        """
        x, leading = merge_leading_dims(observation, self._spec)
        x, state = self._torso.step(x, state)
        return split_leading_dim(self._outputs(x), leading), state

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
        layer_norm: whether the hidden layers are normalized before their activation (arXiv 1607.06450).
        encoder_ctor: callable (observation_spec, seed=) -> encoder, see `encoders`; images go through
            `NatureEncoder` by default.
        rnn_ctor: `GRU`, `LSTM`, or another callable (input_size, seed=) -> `recurrent.Rnn`: the recurrent
            layer after the hidden layers. None for no recurrent layer.
        compute_dtype: of all layers but the head: "float32", "bfloat16" or "auto", see `compute_dtype`.
            Variables and outputs are float32.
        seed: of the initializers; None draws one.
    """

    def __init__(
        self,
        observation_spec,
        num_outputs,
        fc_layer_params=(256, 256),
        activation="relu",
        layer_norm=False,
        encoder_ctor=ObservationEncoder,
        rnn_ctor=None,
        compute_dtype="float32",
        seed=None,
    ):
        super().__init__(
            observation_spec,
            num_outputs,
            0.01,
            compute_dtype,
            seed,
            encoder_ctor=encoder_ctor,
            rnn_ctor=rnn_ctor,
            fc_layer_params=fc_layer_params,
            activation=activation,
            layer_norm=layer_norm,
        )


@gin.configurable(module="alf.networks")
class QValueNetwork(_OneHeadNetwork):
    """The value of each of n actions.

    Args:
        observation_spec: nest of unbatched tensor specs.
        num_outputs: n.
        dueling: whether the head makes the state's value and each action's advantage, of which the mean is
            subtracted: Q = V + A - mean(A) (arXiv 1511.06581, eq. 9). The two share all hidden layers.
        fc_layer_params, activation, layer_norm, encoder_ctor, rnn_ctor, compute_dtype, seed: as in
            `PolicyNetwork`. For images, () leaves the encoder's own hidden layer.
    """

    def __init__(
        self,
        observation_spec,
        num_outputs,
        dueling=True,
        fc_layer_params=(128, 128),
        activation="relu",
        layer_norm=False,
        encoder_ctor=ObservationEncoder,
        rnn_ctor=None,
        compute_dtype="float32",
        seed=None,
    ):
        check_bool("QValueNetwork.dueling", dueling)
        super().__init__(
            observation_spec,
            num_outputs + 1 if dueling else num_outputs,
            0.1,
            compute_dtype,
            seed,
            encoder_ctor=encoder_ctor,
            rnn_ctor=rnn_ctor,
            fc_layer_params=fc_layer_params,
            activation=activation,
            layer_norm=layer_norm,
        )
        self._dueling = dueling

    def _outputs(self, features):
        x = self._head(features)
        if not self._dueling:
            return x
        value, advantage = x[:, :1], x[:, 1:]
        return value + advantage - tf.reduce_mean(advantage, axis=-1, keepdims=True)


@gin.configurable(module="alf.networks")
class CriticsNetwork(CopyableModule):
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
        rnn_ctor: the recurrent layer after the encoder, as in `PolicyNetwork`.

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
        rnn_ctor=None,
        compute_dtype="float32",
        seed=None,
    ):
        super().__init__()
        check_int("num_critics", num_critics)
        check_layers("fc_layer_params", fc_layer_params, activation)
        check_bool("layer_norm", layer_norm)
        *torso_seeds, seed = split_seed(seed, 3)
        self._spec = observation_spec
        with compute_in("compute_dtype", compute_dtype):
            self._torso = Torso(type(self).__name__, observation_spec, encoder_ctor, rnn_ctor, torso_seeds)
            self._critics = []  # hidden layers and head of each
            for critic_seed in split_seed(seed, num_critics):
                layers_seed, head_seed = split_seed(critic_seed, 2)
                size = self._torso.size + action_size
                layers = Mlp(size, fc_layer_params, activation, layers_seed, layer_norm)
                self._critics.append([layers, dense(layers.size, num_outputs, gain=0.1, seed=head_seed)])
        self.state_spec = self._torso.state_spec

    def features(self, observation, state=(), is_first=None, training=True):
        """What the critics see of a whole sequence.

        Args:
            observation, state, is_first, training: as when a `PolicyNetwork` is called.

        Returns:
            float32 [T, B, F], and the final state.
        """
        x, leading = merge_leading_dims(observation, self._spec)
        x, state = self._torso.unroll(x, state, is_first, training)
        return split_leading_dim(x, leading), state

    def advance(self, observation, state):
        """One step of the recurrent state: nest of [B, *shape], state [B, ...] -> state."""
        if self.state_spec == ():
            return ()
        x, _ = merge_leading_dims(observation, self._spec)
        return self._torso.step(x, state)[1]

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
        values = tf.stack([head(layers(x)) for layers, head in self._critics])
        return tf.reshape(values, tf.concat([[len(self._critics)], leading, [values.shape[-1]]], axis=0))
