# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Recurrent layers: the same cell, a pure function, makes one step or a whole unroll."""

import numpy as np
import tensorflow as tf

from alf.config.kinds import PositiveInt
from alf.config.settings import Seed, configurable
from alf.core.annotations import Array, Nest
from alf.errors import ConfigError
from alf.networks.copying import CopyableModule
from alf.networks.layers import dense, orthogonal, split_seed


def gru_step(x: Array, h: Array, kernel: Array, candidate_bias: Array) -> tuple[Array, Array]:
    """One step of a GRU: returns h', float32 [B, U], twice, as the output and as the new state.

    The reset gate acts after the product, as in `tf.keras.layers.GRU` by default.

        z, r = sigmoid(x_z + h W_z), sigmoid(x_r + h W_r)
        h' = z h + (1 - z) tanh(x_c + r (h W_c + b))

    Args:
        x: float32 [B, 3 * U], the projected input with its bias: z, r, c.
        h: float32 [B, U], the state.
        kernel: [U, 3 * U]: W_z, W_r, W_c; its dtype is that of the product with h.
        candidate_bias: float32 [U], b.
    """
    x_z, x_r, x_c = tf.split(x, 3, axis=-1)
    h_z, h_r, h_c = tf.split(_product(h, kernel), 3, axis=-1)
    candidate = tf.tanh(x_c + tf.sigmoid(x_r + h_r) * (h_c + candidate_bias))
    h = candidate + tf.sigmoid(x_z + h_z) * (h - candidate)
    return h, h


def lstm_step(x: Array, state: tuple[Array, Array], kernel: Array) -> tuple[Array, tuple[Array, Array]]:
    """One step of an LSTM: returns the output h', float32 [B, U], and the new state, h' and c'.

        i, f, g, o = sigmoid(x_i + h W_i), sigmoid(x_f + h W_f), tanh(x_g + h W_g), sigmoid(x_o + h W_o)
        c' = f c + i g
        h' = o tanh(c')

    Args:
        x: float32 [B, 4 * U], the projected input with its bias: i, f, g, o.
        state: h and c, float32 [B, U] each.
        kernel: [U, 4 * U]: W_i, W_f, W_g, W_o; its dtype is that of the product with h.
    """
    h, c = state
    i, f, g, o = tf.split(x + _product(h, kernel), 4, axis=-1)
    c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
    h = tf.sigmoid(o) * tf.tanh(c)
    return h, (h, c)


def _product(x, kernel):
    """x and kernel multiplied in the kernel's dtype -> the dtype of x."""
    return tf.cast(tf.matmul(tf.cast(x, kernel.dtype), kernel), x.dtype)


class Rnn(CopyableModule):
    """What recurrent layers have in common; `GRU` and `LSTM` are the two. Wrong settings are a `ConfigError`.

    A step makes `num_gates` vectors of `units` numbers of the input and of the state; other arguments are as
    in `GRU`. Products are in the dtype of the `compute_in` around. The rest is float32, above all the state,
    which adds up small numbers.

    Attributes:
        size: of the output.
        state_spec: nest of unbatched tensor specs of the state.
    """

    def __init__(self, num_gates: int, input_size: int | None, units: int, seed: int | None) -> None:
        super().__init__()
        name = type(self).__name__
        if input_size is None:
            raise ConfigError(
                f"{name}() got no input_size, which the network gives. In gin write, without parentheses: "
                f"ActorCriticNetwork.rnn_ctor = @{name}. In Python: rnn_ctor={name}"
            )
        self.size = units
        self._compute_dtype = tf.keras.mixed_precision.global_policy().compute_dtype
        input_seed, seed = split_seed(seed, 2)
        self._input_layer = dense(input_size, num_gates * units, gain=1.0, seed=input_seed, dtype=None)
        kernel = orthogonal(1.0, seed)((units, num_gates * units))
        self._weights = [tf.Variable(kernel, name="recurrent_kernel")]

    def step(self, x: Array, state: Nest) -> tuple[Array, Nest]:
        """One step: float32 [B, input_size], state of [B, ...] -> float32 [B, size], and the new state."""
        x, weights = self._project(x)
        return self._step(x, state, *weights)

    def unroll(self, x: Array, state: Nest, is_first: Array) -> tuple[Array, Nest]:
        """T steps, known when this is traced: float32 [T * B, input_size] -> [T * B, size], the final state.

        `state`, nest of [B, ...], enters row 0. It becomes zeros before a step where `is_first`, bool [T, B].
        """
        is_first.shape.assert_has_rank(2)
        is_first = tf.unstack(is_first[..., tf.newaxis])
        x, weights = self._project(x)  # One product for the inputs of all steps.
        x = tf.unstack(tf.reshape(x, (len(is_first), -1, x.shape[-1])))
        outputs = []
        # Unrolled: a tf.while_loop takes 1.4 to 2.5 times as long, see benchmarks.recurrent.
        for x_t, is_first_t in zip(x, is_first, strict=True):
            state = tf.nest.map_structure(lambda s, reset=is_first_t: tf.where(reset, 0.0, s), state)
            output, state = self._step(x_t, state, *weights)
            outputs.append(output)
        return tf.reshape(tf.stack(outputs), (-1, self.size)), state

    def _project(self, x):
        """The input's part of a step, float32, and the weights for the state's part, each read once."""
        kernel, *others = self._weights
        weights = [tf.cast(kernel, self._compute_dtype), *map(tf.convert_to_tensor, others)]
        return tf.cast(self._input_layer(x), tf.float32), weights


@configurable("alf.networks")
class GRU(Rnn):
    """A GRU, see `gru_step`.

    Gradients go back through all steps of an unroll, or of a segment of it, see `UnrollTraining.recurrence`.

    Args:
        input_size: int, size of the features that enter; the network gives it.
        units: int, size of the output and of the state.
        seed: int or None, of the initializers; None draws one.
    """

    _step = staticmethod(gru_step)

    def __init__(self, input_size: int | None = None, units: PositiveInt = 64, seed: Seed = None) -> None:
        super().__init__(3, input_size, units, seed)
        self.state_spec = tf.TensorSpec((units,), tf.float32)
        self._weights.append(tf.Variable(tf.zeros(units), name="candidate_bias"))


@configurable("alf.networks")
class LSTM(Rnn):
    """An LSTM, see `lstm_step`, whose forget gate starts with a bias of 1.

    Args:
        input_size, seed: as in `GRU`.
        units: int, size of the output and of each of the two parts of the state.
    """

    _step = staticmethod(lstm_step)

    def __init__(self, input_size: int | None = None, units: PositiveInt = 64, seed: Seed = None) -> None:
        super().__init__(4, input_size, units, seed)
        self.state_spec = (tf.TensorSpec((units,), tf.float32),) * 2
        self._input_layer.bias.assign(np.repeat((0.0, 1.0, 0.0, 0.0), units))
