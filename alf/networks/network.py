# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What every actor-critic network is, and how algorithms call it."""

import tensorflow as tf

from alf.errors import ConfigError
from alf.networks.compute_dtype import compute_in
from alf.networks.layers import dense, split_seed
from alf.networks.recurrent import Rnn


class Network(tf.Module):
    """Encoder, recurrent layer if wanted, policy head and value head; each is built at once.

    Policy and value share all but the heads, or nothing.

    Args:
        observation_spec: nest of unbatched tensor specs.
        num_outputs: size of the policy head.
        make_encoder: callable (seed=) -> encoder, see `encoders`.
        share_layers: whether policy and value share the encoder and the recurrent layer.
        rnn_cell: "gru", "lstm" or None, the recurrent layer between encoder and heads.
        rnn_units: its size.
        recurrence: through how many steps of an unroll gradients go back; None for all.
        compute_dtype: of all layers but the heads: "float32", "bfloat16" or "auto", see `compute_dtype`.
            Encoders that choose a dtype of their own keep it. Variables and all outputs are float32.
        seed: of the initialisers; None draws one.
        name: of the module.

    Attributes:
        state_spec: nest of unbatched tensor specs of the recurrent state; () if there is none.
    """

    def __init__(
        self,
        observation_spec,
        num_outputs,
        make_encoder,
        share_layers=True,
        rnn_cell=None,
        rnn_units=64,
        recurrence=None,
        compute_dtype="float32",
        seed=None,
        name=None,
    ):
        super().__init__(name=name)
        self._spec = observation_spec
        self._num_outputs = num_outputs
        # Where the layers are shared, one product makes both heads.
        sizes = [num_outputs + 1] if share_layers else [num_outputs, 1]
        rnn = dict(rnn_cell=rnn_cell, rnn_units=rnn_units, recurrence=recurrence)
        with compute_in("compute_dtype", compute_dtype):
            self._branches = [
                _Branch(make_encoder, size, branch_seed, **rnn)
                for size, branch_seed in zip(sizes, split_seed(seed, len(sizes)), strict=True)
            ]
        self._recurrent = rnn_cell is not None
        self.state_spec = self._join([branch.state_spec for branch in self._branches])

    @property
    def value_variables(self):
        """The trainable variables that the value alone depends on: none where layers are shared."""
        return self._branches[1].trainable_variables if len(self._branches) > 1 else ()

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
        x, leading = merge_leading(observation, self._spec)
        results = [
            branch.unroll(x, branch_state, is_first)
            for branch, branch_state in zip(self._branches, self._split(state), strict=True)
        ]
        outputs, states = zip(*results, strict=True)
        if len(outputs) == 1:
            outputs = tf.split(outputs[0], [self._num_outputs, 1], axis=-1)
        return unmerge_leading(outputs[0], leading), tf.reshape(outputs[1], leading), self._join(states)

    def policy(self, observation, state=()):
        """One step, to act.

        Args:
            observation: nest of [B, *shape].
            state: nest of [B, ...] like `state_spec`, already zeros where an episode begins.

        Returns:
            float32 [B, num_outputs] of the policy head, and the new state.
        """
        x, leading = merge_leading(observation, self._spec)
        (branch, *others), (state, *other_states) = self._branches, self._split(state)
        outputs, state = branch.step(x, state)
        if not others:
            outputs = outputs[:, : self._num_outputs]
        # The state that enters the next unroll must be the value's, too.
        other_states = [other.advance(x, s) for other, s in zip(others, other_states, strict=True)]
        return unmerge_leading(outputs, leading), self._join([state, *other_states])

    def _split(self, state):
        """The state of each branch."""
        if not self._recurrent:
            return [()] * len(self._branches)
        tf.nest.assert_same_structure(self.state_spec, state)
        return [state] if len(self._branches) == 1 else state

    def _join(self, states):
        """Reverses `_split`."""
        if not self._recurrent:
            return ()
        return states[0] if len(states) == 1 else tuple(states)


class _Branch(tf.Module):
    """Encoder, recurrent layer if wanted, and one head."""

    def __init__(self, make_encoder, num_outputs, seed, **rnn):
        super().__init__(name="branch")
        *torso_seeds, head_seed = split_seed(seed, 3)
        self._torso = Torso(make_encoder, seeds=torso_seeds, **rnn)
        self.state_spec = self._torso.state_spec
        self._head = dense(self._torso.size, num_outputs, gain=0.01, seed=head_seed)

    def unroll(self, observation, state, is_first):
        """Nest of [T * B, *shape] -> float32 [T * B, num_outputs], the final state."""
        x, state = self._torso.unroll(observation, state, is_first)
        return self._head(x), state

    def step(self, observation, state):
        """Nest of [B, *shape] -> float32 [B, num_outputs], the new state."""
        x, state = self._torso.step(observation, state)
        return self._head(x), state

    def advance(self, observation, state):
        """Nest of [B, *shape] -> the new state, without the head."""
        return self._torso.advance(observation, state)


class Torso(tf.Module):
    """Encoder, and recurrent layer if wanted: what is below a network's heads.

    Args:
        make_encoder: callable (seed=) -> encoder, see `encoders`.
        rnn_cell: "gru", "lstm" or None.
        rnn_units: size of the recurrent layer.
        seeds: of the encoder and of the recurrent layer.
        recurrence: through how many steps of an unroll gradients go back; None for all.

    Attributes:
        size: of the features.
        state_spec: nest of unbatched tensor specs of the recurrent state; () if there is none.

    Raises:
        ConfigError: if a setting is wrong, or there is a `recurrence` without a recurrent layer.
    """

    def __init__(self, make_encoder, rnn_cell, rnn_units, seeds, recurrence=None):
        super().__init__(name="torso")
        encoder_seed, rnn_seed = seeds
        self._encoder = make_encoder(seed=encoder_seed)
        self.size, self._rnn, self.state_spec = self._encoder.size, None, ()
        if rnn_cell is None and recurrence is not None:
            raise ConfigError(f"recurrence is {recurrence!r}: it has no effect without an rnn_cell")
        if rnn_cell is not None:
            self._rnn = Rnn(rnn_cell, self._encoder.size, rnn_units, rnn_seed, recurrence)
            self.size, self.state_spec = rnn_units, self._rnn.state_spec

    def unroll(self, observation, state, is_first, training=True):
        """Nest of [T * B, *shape] -> features float32 [T * B, size], the final state.

        `is_first` is bool [T, B]; without a recurrent layer it is ignored.
        """
        x = self._encoder(observation, training=training)
        if self._rnn is None:
            return x, ()
        if is_first is None:
            raise ValueError("a recurrent network needs is_first")
        tf.nest.assert_same_structure(self.state_spec, state)
        return self._rnn.unroll(x, state, is_first)

    def step(self, observation, state):
        """Nest of [B, *shape] -> features float32 [B, size], the new state."""
        if self._rnn is None:
            return self._encoder(observation, training=False), ()
        tf.nest.assert_same_structure(self.state_spec, state)
        return self._rnn.step(self._encoder(observation, training=False), state)

    def advance(self, observation, state):
        """Nest of [B, *shape] -> the new state; nothing is computed where there is none."""
        return () if self._rnn is None else self.step(observation, state)[1]


def merge_leading(observation, spec):
    """Nest of [..., *shape] -> nest of [N, *shape], and the leading dimensions."""
    xs, specs = tf.nest.flatten(observation), tf.nest.flatten(spec)
    num_leading = xs[0].shape.rank - specs[0].shape.rank
    known, dims = xs[0].shape[:num_leading], tf.shape(xs[0])
    leading = [dims[i] if n is None else n for i, n in enumerate(known)]
    if num_leading != 1:
        xs = [tf.reshape(x, (-1, *s.shape)) for x, s in zip(xs, specs, strict=True)]
    return tf.nest.pack_sequence_as(observation, xs), leading


def unmerge_leading(x, leading):
    """[N, size] -> [..., size]."""
    return x if len(leading) == 1 else tf.reshape(x, (*leading, x.shape[-1]))
