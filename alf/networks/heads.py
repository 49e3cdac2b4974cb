# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Networks: one or more heads above a `Torso`.

Each has a `state_spec`: nest of unbatched tensor specs of the recurrent state, () if there is none.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from alf.config.kinds import PositiveInt
from alf.config.settings import Seed, configurable
from alf.core.annotations import Array, Nest, NestedSpec
from alf.core.nest_utils import merge_leading_dims, split_leading_dim
from alf.errors import ConfigError
from alf.networks.compute_dtype import ComputeDtype, compute_in
from alf.networks.copying import CopyableModule
from alf.networks.encoders import ObservationEncoder
from alf.networks.layers import Mlp, dense, split_seed
from alf.networks.torso import Torso


@configurable("alf.networks")
class ActorCriticNetwork(CopyableModule):
    """A policy head and a value head above one `Torso`, or each above its own.

    Args:
        num_outputs: int, size of the policy head.
        share_layers: whether policy and value share everything but the heads. None: they do with a recurrent
            layer or an encoder that has weights. Hidden layers alone are better apart: where rewards are not
            scaled, the value's gradients swamp shared ones (docs/learning_curves.md).
        observation_spec, fc_layer_params, activation, layer_norm, spectral_norm: as in `Torso`.
        encoder_ctor, rnn_ctor, compute_dtype, seed: as in `Torso`.
    """

    def __init__(
        self,
        observation_spec: NestedSpec,
        num_outputs: int,
        fc_layer_params: Sequence[PositiveInt] = (64, 64),
        activation: str = "tanh",
        share_layers: bool | None = None,
        layer_norm: bool = False,
        spectral_norm: bool = False,
        encoder_ctor: Callable[..., Any] = ObservationEncoder,
        rnn_ctor: Callable[..., Any] | None = None,
        compute_dtype: ComputeDtype = "float32",
        seed: Seed = None,
    ) -> None:
        super().__init__(name="actor_critic_network")
        self._spec, self._num_outputs = observation_spec, num_outputs
        settings = type(self).__name__, observation_spec, encoder_ctor, rnn_ctor, compute_dtype
        layers = fc_layer_params, activation, layer_norm, spectral_norm
        seed, value_seed = split_seed(seed, 2)
        torso = self._torso = Torso(*settings, seed, *layers)
        if share_layers is None:
            share_layers = torso.state_spec != () or torso.encoder_has_weights
        # One product makes both heads where they share layers.
        head_size = num_outputs + 1 if share_layers else num_outputs
        self._head = dense(torso.size, head_size, gain=0.01, seed=torso.head_seed)
        self._value_torso: Any = None
        self._value_head: Any = None
        self.state_spec = torso.state_spec
        self._has_two_states = not share_layers and self.state_spec != ()
        if not share_layers:
            torso = self._value_torso = Torso(*settings, value_seed, *layers)
            self._value_head = dense(torso.size, 1, gain=0.01, seed=torso.head_seed)
        if self._has_two_states:
            self.state_spec = (self.state_spec, torso.state_spec)

    @property
    def value_variables(self) -> Sequence[tf.Variable]:
        """The trainable variables that the value alone depends on: none where layers are shared."""
        if self._value_torso is None:
            return ()
        return self._value_torso.trainable_variables + tuple(self._value_head.trainable_variables)

    def __call__(
        self, observation: Nest, state: Nest = (), is_first: Array = None, training: bool = True
    ) -> tuple[Array, Array, Nest]:
        """A whole unroll; the arguments are as in a call of `PolicyNetwork`.

        Returns float32 [T, B, num_outputs] of the policy head, values float32 [T, B], and the final state.
        """
        x, leading = merge_leading_dims(observation, self._spec)
        state, value_state = self._split(state)
        features, state = self._torso.unroll(x, state, is_first, training)
        outputs = self._head(features)
        if self._value_torso is None:
            outputs, value = tf.split(outputs, [self._num_outputs, 1], axis=-1)
        else:
            features, value_state = self._value_torso.unroll(x, value_state, is_first, training)
            value = self._value_head(features)
        if self._has_two_states:
            state = state, value_state
        return split_leading_dim(outputs, leading), tf.reshape(value, leading), state

    def policy(self, observation: Nest, state: Nest = ()) -> tuple[Array, Nest]:
        """One step, to act, as in `PolicyNetwork`; it computes no value."""
        x, leading = merge_leading_dims(observation, self._spec)
        state, value_state = self._split(state)
        features, state = self._torso.step(x, state)
        if self._has_two_states:  # The state that enters the next unroll must be the value's, too.
            state = state, self._value_torso.step(x, value_state)[1]
        outputs = self._head(features)
        if self._value_torso is None:
            outputs = outputs[:, : self._num_outputs]
        return split_leading_dim(outputs, leading), state

    def value(self, observation: Nest, state: Nest = ()) -> Array:
        """The value alone, of one step: nest of [B, *shape] -> float32 [B]. It does not train."""
        x, leading = merge_leading_dims(observation, self._spec)
        state, value_state = self._split(state)
        if self._value_torso is None:
            value = self._head(self._torso.step(x, state)[0])[:, self._num_outputs :]
        else:
            value = self._value_head(self._value_torso.step(x, value_state)[0])
        return tf.reshape(value, leading)

    def _split(self, state):
        """The states of the policy's torso and of the value's, if that has one."""
        if not self._has_two_states:
            return state, ()
        tf.nest.assert_same_structure(self.state_spec, state)
        return state


class _OneHeadNetwork(CopyableModule):
    """A torso and one head."""

    _head_gain = 0.01

    def __init__(
        self,
        observation_spec: NestedSpec,
        num_outputs: int,
        fc_layer_params: Sequence[PositiveInt] = (256, 256),
        activation: str = "relu",
        layer_norm: bool = False,
        encoder_ctor: Callable[..., Any] = ObservationEncoder,
        rnn_ctor: Callable[..., Any] | None = None,
        compute_dtype: ComputeDtype = "float32",
        seed: Seed = None,
    ) -> None:
        super().__init__()
        name, layers = type(self).__name__, (fc_layer_params, activation, layer_norm)
        torso = Torso(name, observation_spec, encoder_ctor, rnn_ctor, compute_dtype, seed, *layers)
        self._spec = observation_spec
        self._torso, self.state_spec = torso, torso.state_spec
        self._head = dense(torso.size, num_outputs, self._head_gain, torso.head_seed)

    def __call__(
        self, observation: Nest, state: Nest = (), is_first: Array = None, training: bool = True
    ) -> tuple[Array, Nest]:
        """A whole sequence.

        Without a recurrent layer, `state` and `is_first` are ignored, and any leading dimensions will do in
        place of [T, B].

        Args:
            observation: nest of [T, B, *shape]; T is known when this is traced.
            state: nest of [B, ...] like `state_spec`, which entered row 0.
            is_first: bool [T, B], where the state becomes zeros before the step.
            training: whether the call trains, for layers to which it matters.

        Returns:
            float32 [T, B, num_outputs], and the final state.
        """
        x, leading = merge_leading_dims(observation, self._spec)
        x, state = self._torso.unroll(x, state, is_first, training)
        return split_leading_dim(self._outputs(x), leading), state

    def policy(self, observation: Nest, state: Nest = ()) -> tuple[Array, Nest]:
        """One step, to act: nest of [B, *shape] -> float32 [B, num_outputs], and the new state.

        `state`, nest of [B, ...], is zeros where an episode begins.
        """
        x, leading = merge_leading_dims(observation, self._spec)
        x, state = self._torso.step(x, state)
        return split_leading_dim(self._outputs(x), leading), state

    def _outputs(self, features):
        return self._head(features)


@configurable("alf.networks")
class PolicyNetwork(_OneHeadNetwork):
    """The parameters of a policy, without a value.

    Args:
        num_outputs: int, size of the head.
        observation_spec, fc_layer_params, activation, layer_norm: as in `Torso`.
        encoder_ctor, rnn_ctor, compute_dtype, seed: as in `Torso`.
    """


@configurable("alf.networks")
class QValueNetwork(_OneHeadNetwork):
    """The value of each of n actions.

    Args:
        num_outputs: int, n.
        dueling: whether the head makes the state's value and each action's advantage, of which the mean is
            subtracted: Q = V + A - mean(A) (arXiv 1511.06581, eq. 9). The two share all hidden layers.
        observation_spec, fc_layer_params, activation, layer_norm: as in `Torso`.
        encoder_ctor, rnn_ctor, compute_dtype, seed: as in `Torso`.
    """

    _head_gain = 0.1

    def __init__(
        self,
        observation_spec: NestedSpec,
        num_outputs: int,
        dueling: bool = True,
        fc_layer_params: Sequence[PositiveInt] = (128, 128),
        activation: str = "relu",
        layer_norm: bool = False,
        encoder_ctor: Callable[..., Any] = ObservationEncoder,
        rnn_ctor: Callable[..., Any] | None = None,
        compute_dtype: ComputeDtype = "float32",
        seed: Seed = None,
    ) -> None:
        head_size = num_outputs + 1 if dueling else num_outputs
        layers = fc_layer_params, activation, layer_norm
        super().__init__(observation_spec, head_size, *layers, encoder_ctor, rnn_ctor, compute_dtype, seed)
        self._dueling = dueling

    def _outputs(self, features):
        x = self._head(features)
        if not self._dueling:
            return x
        value, advantage = x[:, :1], x[:, 1:]
        return value + advantage - tf.reduce_mean(advantage, axis=-1, keepdims=True)


@configurable("alf.networks")
class CriticsNetwork(CopyableModule):
    """Several critics, which differ in their initial weights: action values of one observation and action.

    All critics share a `Torso` without hidden layers: an encoder and, if wanted, a recurrent layer. Each has
    hidden layers of its own, of these features and the action.

    Args:
        action_size: int, numbers of an action; 0 if there is a value for each of `num_outputs` actions.
        num_outputs: values that each critic makes.
        num_critics: how many critics; 2 are the twins of arXiv 1802.09477.
        fc_layer_params, activation, layer_norm: as in `Torso`; the hidden layers are those of each critic.
        observation_spec, encoder_ctor, rnn_ctor, compute_dtype, seed: as in `Torso`.
    """

    def __init__(
        self,
        observation_spec: NestedSpec,
        action_size: int,
        num_outputs: int = 1,
        num_critics: PositiveInt = 2,
        fc_layer_params: Sequence[PositiveInt] = (256, 256),
        activation: str = "relu",
        layer_norm: bool = False,
        encoder_ctor: Callable[..., Any] = ObservationEncoder,
        rnn_ctor: Callable[..., Any] | None = None,
        compute_dtype: ComputeDtype = "float32",
        seed: Seed = None,
    ) -> None:
        super().__init__()
        self._spec = observation_spec
        torso = Torso(type(self).__name__, observation_spec, encoder_ctor, rnn_ctor, compute_dtype, seed)
        self._torso, self.state_spec = torso, torso.state_spec
        self._critics = []  # hidden layers and head of each
        for critic_seed in split_seed(torso.head_seed, num_critics):
            layers_seed, head_seed = split_seed(critic_seed, 2)
            with compute_in(compute_dtype):
                layers = Mlp(torso.size + action_size, fc_layer_params, activation, layers_seed, layer_norm)
            self._critics.append([layers, dense(layers.size, num_outputs, gain=0.1, seed=head_seed)])

    def features(
        self, observation: Nest, state: Nest = (), is_first: Array = None, training: bool = True
    ) -> tuple[Array, Nest]:
        """What the critics see of a whole sequence, float32 [T, B, F], and the final state.

        The arguments are as in a call of `PolicyNetwork`.
        """
        x, leading = merge_leading_dims(observation, self._spec)
        x, state = self._torso.unroll(x, state, is_first, training)
        return split_leading_dim(x, leading), state

    def advance(self, observation: Nest, state: Nest) -> Nest:
        """One step of the recurrent state: nest of [B, *shape], state [B, ...] -> state."""
        if self.state_spec == ():
            return ()
        x, _ = merge_leading_dims(observation, self._spec)
        return self._torso.step(x, state)[1]

    def values(self, features: Array, action: Nest = None) -> Array:
        """Q of each critic: features float32 [T, B, F] -> float32 [num_critics, T, B, num_outputs].

        `action` is float32 [T, B, action_size], or None if `action_size` is 0.
        """
        x = features if action is None else tf.concat([features, action], axis=-1)
        leading = tf.shape(x)[:-1]
        x = tf.reshape(x, (-1, x.shape[-1]))
        # Stacked kernels and a batched product were not faster than one product after another.
        values = tf.stack([head(layers(x)) for layers, head in self._critics])
        return tf.reshape(values, tf.concat([[len(self._critics)], leading, [values.shape[-1]]], axis=0))


def check_network(setting: str, network: Any, like: type) -> Any:
    """Returns a network that a setting's callable has made.

    Raises ConfigError if it lacks methods that ALF's class `like` has, or is another kind of ALF's networks.
    """
    kinds = (ActorCriticNetwork, _OneHeadNetwork, CriticsNetwork)
    kind = next(kind for kind in kinds if issubclass(like, kind))
    methods = [name for name in vars(kind) if not name.startswith("_")]
    others = tuple(other for other in kinds if other is not kind)
    if isinstance(network, others) or not all(hasattr(network, name) for name in [*methods, "state_spec"]):
        raise ConfigError(
            f"{setting} makes an object of {type(network).__name__}: it must make one like {like.__name__}"
        )
    return network
