# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Recurrent layers: the same cell, a pure function, makes one step or a whole unroll."""

import numpy as np
import tensorflow as tf

from alf.algorithms.networks.layers import dense, orthogonal, split_seed
from alf.checks import check_int
from alf.errors import ConfigError


def gru_step(x, h, kernel, candidate_bias):
    """One step of a GRU whose reset gate acts after the product, as `tf.keras.layers.GRU` by default.

        z, r = sigmoid(x_z + h W_z), sigmoid(x_r + h W_r)
        h' = z h + (1 - z) tanh(x_c + r (h W_c + b))

    Args:
        x: float32 [B, 3 * U], the projected input with its bias: z, r, c.
        h: float32 [B, U], the state.
        kernel: float32 [U, 3 * U]: W_z, W_r, W_c.
        candidate_bias: float32 [U], b.

    Returns:
        float32 [B, U], both the output and the new state.
    """
    x_z, x_r, x_c = tf.split(x, 3, axis=-1)
    h_z, h_r, h_c = tf.split(tf.matmul(h, kernel), 3, axis=-1)
    candidate = tf.tanh(x_c + tf.sigmoid(x_r + h_r) * (h_c + candidate_bias))
    h = candidate + tf.sigmoid(x_z + h_z) * (h - candidate)
    return h, h


def lstm_step(x, state, kernel):
    """One step of an LSTM.

        i, f, g, o = sigmoid(x_i + h W_i), sigmoid(x_f + h W_f), tanh(x_g + h W_g), sigmoid(x_o + h W_o)
        c' = f c + i g
        h' = o tanh(c')

    Args:
        x: float32 [B, 4 * U], the projected input with its bias: i, f, g, o.
        state: h and c, float32 [B, U] each.
        kernel: float32 [U, 4 * U]: W_i, W_f, W_g, W_o.

    Returns:
        float32 [B, U], the output h'; and the new state, h' and c'.
    """
    h, c = state
    i, f, g, o = tf.split(x + tf.matmul(h, kernel), 4, axis=-1)
    c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
    h = tf.sigmoid(o) * tf.tanh(c)
    return h, (h, c)


class Rnn(tf.Module):
    """A recurrent layer.

    Args:
        cell: "gru", or "lstm", whose forget gate starts with a bias of 1.
        input_size: of the features that enter.
        units: size of the output.
        seed: of the initialisers; None draws one.

    Attributes:
        size: of the output.
        state_spec: nest of unbatched tensor specs of the state.
    """

    def __init__(self, cell, input_size, units, seed=None):
        _check_rnn(cell, units)
        super().__init__(name=cell)
        self.size = units
        vector = tf.TensorSpec((units,), tf.float32)
        input_seed, seed = split_seed(seed, 2)
        num_gates = 3 if cell == "gru" else 4
        self._input_layer = dense(input_size, num_gates * units, gain=1.0, seed=input_seed)
        kernel = tf.Variable(orthogonal(1.0, seed)((units, num_gates * units)), name="recurrent_kernel")
        if cell == "gru":
            self.state_spec = vector
            self._step = gru_step
            self._weights = [kernel, tf.Variable(tf.zeros(units), name="candidate_bias")]
        else:
            self.state_spec = (vector, vector)
            self._step = lstm_step
            self._weights = [kernel]
            self._input_layer.layers[0].bias.assign(np.repeat((0.0, 1.0, 0.0, 0.0), units))

    def step(self, x, state):
        """One step: float32 [B, input_size], state of [B, ...] -> float32 [B, size], the new state."""
        return self._step(self._input_layer(x), state, *self._weights)

    def unroll(self, x, state, is_first):
        """T steps, T known when this is traced.

        Args:
            x: float32 [T * B, input_size], row by row.
            state: nest of [B, ...] that enters row 0.
            is_first: bool [T, B], where the state becomes zeros before the step.

        Returns:
            float32 [T * B, size], and the final state.
        """
        is_first.shape.assert_has_rank(2)
        is_first = tf.unstack(is_first[..., tf.newaxis])
        # One product for the inputs of all steps.
        x = self._input_layer(x)
        x = tf.unstack(tf.reshape(x, (len(is_first), -1, x.shape[-1])))
        weights = [tf.convert_to_tensor(w) for w in self._weights]
        outputs = []
        # Unrolled: a tf.while_loop took 5 to 50 % longer, with gradients on one core, most at small batches.
        for x_t, is_first_t in zip(x, is_first, strict=True):
            state = tf.nest.map_structure(lambda s, reset=is_first_t: tf.where(reset, 0.0, s), state)
            output, state = self._step(x_t, state, *weights)
            outputs.append(output)
        return tf.reshape(tf.stack(outputs), (-1, self.size)), state


def _check_rnn(cell, units):
    if cell not in ("gru", "lstm"):
        raise ConfigError(f"rnn_cell is {cell!r}: it must be None, 'gru' or 'lstm'")
    check_int("rnn_units", units)
