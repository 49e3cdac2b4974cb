# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Networks: one or more heads on top of a `Torso`.

Each network has a `state_spec`, a nest of unbatched tensor specs of its recurrent state; () if there is none.
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
from alf.networks.layers import Dense, Mlp, split_seed
from alf.networks.torso import Torso


@configurable("alf.networks")
class ActorCriticNetwork(CopyableModule):
    """A policy head and a value head on one shared `Torso`, or on one each.

    Args:
        num_outputs: int, the size of the policy head.
        share_layers: bool, whether policy and value share everything but the heads. None shares them if there
            is a recurrent layer or an encoder with weights. Hidden layers are better not shared: if rewards
            are not scaled, the value's gradients dominate (docs/measured.md).
        observation_spec, fc_layer_params, activation, layer_norm, spectral_norm: passed to `Torso`.
        encoder, rnn, compute_dtype, seed: passed to `Torso`.
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
        encoder: Callable[..., Any] = ObservationEncoder,
        rnn: Callable[..., Any] | None = None,
        compute_dtype: ComputeDtype = "float32",
        seed: Seed = None,
    ) -> None:
        super().__init__(name="actor_critic_network")
        self._spec, self._num_outputs = observation_spec, num_outputs
        settings = type(self).__name__, observation_spec, encoder, rnn, compute_dtype
        layers = fc_layer_params, activation, layer_norm, spectral_norm
        seed, value_seed = split_seed(seed, 2)
        torso = self._torso = Torso(*settings, seed, *layers)
        if share_layers is None:
            share_layers = torso.state_spec != () or torso.encoder_has_weights
        # With shared layers, both heads are one matrix product.
        head_size = num_outputs + 1 if share_layers else num_outputs
        # A small gain: at the start all actions are nearly as likely, and values are near 0.
        self._head = Dense(torso.size, head_size, 0.01, torso.head_seed, dtype=tf.float32)
        self._value_torso: Any = None
        self._value_head: Any = None
        self.state_spec = torso.state_spec
        # Two recurrent layers have a state each. Otherwise the value's part would be (), which nobody must
        # split.
        self._has_two_states = not share_layers and self.state_spec != ()
        if not share_layers:
            torso = self._value_torso = Torso(*settings, value_seed, *layers)
            self._value_head = Dense(torso.size, 1, 0.01, torso.head_seed, dtype=tf.float32)
        if self._has_two_states:
            self.state_spec = (self.state_spec, torso.state_spec)

    @property
    def value_variables(self) -> Sequence[tf.Variable]:
        """The trainable variables that only the value depends on; () if layers are shared."""
        if self._value_torso is None:
            return ()
        return self._value_torso.trainable_variables + tuple(self._value_head.trainable_variables)

    def __call__(
        self, observation: Nest, state: Nest = (), is_first: Array = None, training: bool = True
    ) -> tuple[Array, Array, Nest]:
        """Computes policy and value for a whole unroll.

        Without a recurrent layer, `state` and `is_first` are ignored, and there may be any leading dimensions
        in place of [T, B].

        Args:
            observation: nest of [T, B, *shape]; T must be known while tracing.
            state: nest of [B, ...] like `state_spec`, the state at row 0.
            is_first: bool [T, B], True where the state becomes zeros before the step.
            training: bool, for layers that behave differently in training.

        Returns:
            float32 [T, B, num_outputs] of the policy head, values float32 [T, B], and the final state.
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
        """Computes one step of the policy, without the value and not in training.

        Args:
            observation: nest of [B, *shape].
            state: nest of [B, ...] like `state_spec`, zeros where an episode begins.

        Returns:
            float32 [B, num_outputs] and the new state.
        """
        x, leading = merge_leading_dims(observation, self._spec)
        state, value_state = self._split(state)
        features, state = self._torso.step(x, state)
        if self._has_two_states:  # the next unroll starts from this state, so the value's must be in it
            state = state, self._value_torso.step(x, value_state)[1]
        outputs = self._head(features)
        if self._value_torso is None:
            # The last output is the value, which acting does not need.
            outputs = outputs[:, : self._num_outputs]
        return split_leading_dim(outputs, leading), state

    def _split(self, state):
        """Splits the state into the states of the policy's torso and of the value's torso."""
        if not self._has_two_states:
            return state, ()
        tf.nest.assert_same_structure(self.state_spec, state)
        return state


class _OneHeadNetwork(CopyableModule):
    """A torso with one head."""

    _head_gain = 0.01

    def __init__(
        self,
        observation_spec: NestedSpec,
        num_outputs: int,
        fc_layer_params: Sequence[PositiveInt] = (256, 256),
        activation: str = "relu",
        layer_norm: bool = False,
        encoder: Callable[..., Any] = ObservationEncoder,
        rnn: Callable[..., Any] | None = None,
        compute_dtype: ComputeDtype = "float32",
        seed: Seed = None,
    ) -> None:
        super().__init__()
        name, layers = type(self).__name__, (fc_layer_params, activation, layer_norm)
        torso = Torso(name, observation_spec, encoder, rnn, compute_dtype, seed, *layers)
        self._spec = observation_spec
        self._torso, self.state_spec = torso, torso.state_spec
        self._head = Dense(torso.size, num_outputs, self._head_gain, torso.head_seed, dtype=tf.float32)

    def __call__(
        self, observation: Nest, state: Nest = (), is_first: Array = None, training: bool = True
    ) -> tuple[Array, Nest]:
        """Computes the outputs for a whole sequence.

        Without a recurrent layer, `state` and `is_first` are ignored, and there may be any leading dimensions
        in place of [T, B].

        Args:
            observation: nest of [T, B, *shape]; T must be known while tracing.
            state: nest of [B, ...] like `state_spec`, the state at row 0.
            is_first: bool [T, B], True where the state becomes zeros before the step.
            training: bool, for layers that behave differently in training.

        Returns:
            float32 [T, B, num_outputs] and the final state.
        """
        x, leading = merge_leading_dims(observation, self._spec)
        x, state = self._torso.unroll(x, state, is_first, training)
        return split_leading_dim(self._outputs(x), leading), state

    def policy(self, observation: Nest, state: Nest = ()) -> tuple[Array, Nest]:
        """Computes one step, not in training.

        Args:
            observation: nest of [B, *shape].
            state: nest of [B, ...] like `state_spec`, zeros where an episode begins.

        Returns:
            float32 [B, num_outputs] and the new state.
        """
        x, leading = merge_leading_dims(observation, self._spec)
        x, state = self._torso.step(x, state)
        return split_leading_dim(self._outputs(x), leading), state

    def _outputs(self, features):
        return self._head(features)


@configurable("alf.networks")
class PolicyNetwork(_OneHeadNetwork):
    """A policy head without a value.

    Args:
        num_outputs: int, the size of the head.
        observation_spec, fc_layer_params, activation, layer_norm: passed to `Torso`.
        encoder, rnn, compute_dtype, seed: passed to `Torso`.
    """


@configurable("alf.networks")
class QValueNetwork(_OneHeadNetwork):
    """Computes the value of each of n actions.

    Args:
        num_outputs: int, n.
        dueling: bool. True computes a value of the state and an advantage of each action:
            Q = V + A - mean(A) (arXiv 1511.06581, eq. 9). The two share all hidden layers.
        observation_spec, fc_layer_params, activation, layer_norm: passed to `Torso`.
        encoder, rnn, compute_dtype, seed: passed to `Torso`.
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
        encoder: Callable[..., Any] = ObservationEncoder,
        rnn: Callable[..., Any] | None = None,
        compute_dtype: ComputeDtype = "float32",
        seed: Seed = None,
    ) -> None:
        head_size = num_outputs + 1 if dueling else num_outputs
        layers = fc_layer_params, activation, layer_norm
        super().__init__(observation_spec, head_size, *layers, encoder, rnn, compute_dtype, seed)
        self._dueling = dueling

    def _outputs(self, features):
        x = self._head(features)
        return _duel(x) if self._dueling else x


@configurable("alf.networks")
class QuantileNetwork(_OneHeadNetwork):
    """Computes N quantiles of the return of each of n actions, for `QrDqnAlgorithm` (arXiv 1710.10044).

    A call returns float32 [T, B, n, N]; `policy` returns the values of the actions, float32 [B, n], which are
    the means of their quantiles.

    Args:
        num_outputs: int, n.
        num_quantiles: N; 200 in the paper.
        dueling: bool. True computes quantiles of the value of the state and of the advantage of each action:
            Z = V + A - mean over actions of A (arXiv 1511.06581, eq. 9).
        observation_spec, fc_layer_params, activation, layer_norm: passed to `Torso`.
        encoder, rnn, compute_dtype, seed: passed to `Torso`.

    Attributes:
        num_quantiles: the argument.
    """

    _head_gain = 0.1

    def __init__(
        self,
        observation_spec: NestedSpec,
        num_outputs: int,
        num_quantiles: PositiveInt = 200,
        dueling: bool = True,
        fc_layer_params: Sequence[PositiveInt] = (128, 128),
        activation: str = "relu",
        layer_norm: bool = False,
        encoder: Callable[..., Any] = ObservationEncoder,
        rnn: Callable[..., Any] | None = None,
        compute_dtype: ComputeDtype = "float32",
        seed: Seed = None,
    ) -> None:
        head_size = (num_outputs + 1 if dueling else num_outputs) * num_quantiles
        layers = fc_layer_params, activation, layer_norm
        super().__init__(observation_spec, head_size, *layers, encoder, rnn, compute_dtype, seed)
        self._dueling, self.num_quantiles = dueling, num_quantiles

    def policy(self, observation: Nest, state: Nest = ()) -> tuple[Array, Nest]:
        quantiles, state = super().policy(observation, state)
        return tf.reduce_mean(quantiles, axis=-1), state

    def _outputs(self, features):
        x = self._head(features)
        x = tf.reshape(x, (-1, x.shape[-1] // self.num_quantiles, self.num_quantiles))
        return _duel(x) if self._dueling else x


def _duel(x):
    """Computes V + A - mean(A) from [N, 1 + n, ...], first V and then A of each action; [N, n, ...]."""
    # The loss only sees the sum V + A. Subtracting the mean makes the split into the two unique.
    value, advantage = x[:, :1], x[:, 1:]
    return value + advantage - tf.reduce_mean(advantage, axis=1, keepdims=True)


@configurable("alf.networks")
class CriticsNetwork(CopyableModule):
    """Several critics with different initial weights, which compute action values.

    All critics share a `Torso` without hidden layers: an encoder and an optional recurrent layer. Each critic
    has hidden layers of its own, whose inputs are these features and the action.

    Args:
        action_size: int, the number of floats of an action; 0 if a critic has one value for each action.
        num_outputs: int, the number of values of each critic: 1, or the number of actions.
        num_critics: int, the number of critics; 2 are the twins of arXiv 1802.09477.
        fc_layer_params, activation, layer_norm: passed to `Torso`. Each critic has these hidden layers.
        observation_spec, encoder, rnn, compute_dtype, seed: passed to `Torso`.
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
        encoder: Callable[..., Any] = ObservationEncoder,
        rnn: Callable[..., Any] | None = None,
        compute_dtype: ComputeDtype = "float32",
        seed: Seed = None,
    ) -> None:
        super().__init__()
        self._spec = observation_spec
        torso = Torso(type(self).__name__, observation_spec, encoder, rnn, compute_dtype, seed)
        self._torso, self.state_spec = torso, torso.state_spec
        # Each critic draws its own weights. Twins with equal weights would stay equal for ever, because they
        # train on the same batches.
        self._critics = []  # pairs: hidden layers and head
        for critic_seed in split_seed(torso.head_seed, num_critics):
            layers_seed, head_seed = split_seed(critic_seed, 2)
            with compute_in(compute_dtype):
                layers = Mlp(torso.size + action_size, fc_layer_params, activation, layers_seed, layer_norm)
            head = Dense(layers.size, num_outputs, 0.1, head_seed, dtype=tf.float32)
            self._critics.append([layers, head])

    def features(
        self, observation: Nest, state: Nest = (), is_first: Array = None, training: bool = True
    ) -> tuple[Array, Nest]:
        """Computes the features of a whole sequence that the critics share.

        Without a recurrent layer, `state` and `is_first` are ignored, and there may be any leading dimensions
        in place of [T, B].

        Args:
            observation: nest of [T, B, *shape]; T must be known while tracing.
            state: nest of [B, ...] like `state_spec`, the state at row 0.
            is_first: bool [T, B], True where the state becomes zeros before the step.
            training: bool, for layers that behave differently in training.

        Returns:
            float32 [T, B, F] and the final state.
        """
        x, leading = merge_leading_dims(observation, self._spec)
        x, state = self._torso.unroll(x, state, is_first, training)
        return split_leading_dim(x, leading), state

    def advance(self, observation: Nest, state: Nest) -> Nest:
        """Computes the recurrent state after one step, of an observation [B, *shape] and the state before."""
        if self.state_spec == ():
            return ()
        x, _ = merge_leading_dims(observation, self._spec)
        return self._torso.step(x, state)[1]

    def values(self, features: Array, action: Nest = None) -> Array:
        """Computes the values of all critics.

        Args:
            features: float32 [T, B, F], the result of `features`.
            action: float32 [T, B, action_size], or None if `action_size` is 0.

        Returns:
            float32 [num_critics, T, B, num_outputs].
        """
        x = features if action is None else tf.concat([features, action], axis=-1)
        leading = tf.shape(x)[:-1]
        x = tf.reshape(x, (-1, x.shape[-1]))
        # One product after another. Stacked kernels and a batched product were not faster.
        values = tf.stack([head(layers(x)) for layers, head in self._critics])
        return tf.reshape(values, tf.concat([[len(self._critics)], leading, [values.shape[-1]]], axis=0))


def check_network(setting: str, network: Any, like: type) -> Any:
    """Returns `network`, which the callable `setting` made.

    Raises:
        ConfigError: if it lacks methods of ALF's class `like`, or is another kind of ALF's networks.
    """
    kinds = (ActorCriticNetwork, _OneHeadNetwork, CriticsNetwork)
    # By methods, because users write networks of their own. The other kinds are refused by class: some of
    # their methods have the same names and other results.
    kind = next(kind for kind in kinds if issubclass(like, kind))
    methods = [name for name in vars(kind) if not name.startswith("_")]
    others = tuple(other for other in kinds if other is not kind)
    if isinstance(network, others) or not all(hasattr(network, name) for name in [*methods, "state_spec"]):
        raise ConfigError(
            f"{setting} makes an object of {type(network).__name__}: it must make one like {like.__name__}"
        )
    return network
