# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Recurrent layers. The same cell, a pure function, computes one step or a whole unroll."""

import numpy as np
import tensorflow as tf

from alf.config.kinds import PositiveInt
from alf.config.settings import Seed, configurable
from alf.core.annotations import Array, Nest
from alf.errors import ConfigError
from alf.networks.compute_dtype import current_dtype
from alf.networks.copying import CopyableModule
from alf.networks.layers import Dense, orthogonal, split_seed


def gru_step(x: Array, h: Array, kernel: Array, candidate_bias: Array) -> tuple[Array, Array]:
    """Computes one step of a GRU.

    The reset gate is applied after the matrix product, like the default of `tf.keras.layers.GRU`:

        z, r = sigmoid(x_z + h W_z), sigmoid(x_r + h W_r)
        h' = z h + (1 - z) tanh(x_c + r (h W_c + b))

    Args:
        x: float32 [B, 3 * U], the projected input with its bias: x_z, x_r, x_c.
        h: float32 [B, U], the state.
        kernel: [U, 3 * U], W_z, W_r, W_c, in the dtype of the product with h.
        candidate_bias: float32 [U], b.

    Returns:
        h', float32 [B, U], twice: as the output and as the new state.
    """
    x_z, x_r, x_c = tf.split(x, 3, axis=-1)
    h_z, h_r, h_c = tf.split(_product(h, kernel), 3, axis=-1)
    candidate = tf.tanh(x_c + tf.sigmoid(x_r + h_r) * (h_c + candidate_bias))
    # z h + (1 - z) candidate, with one multiplication less.
    h = candidate + tf.sigmoid(x_z + h_z) * (h - candidate)
    return h, h


def lstm_step(x: Array, state: tuple[Array, Array], kernel: Array) -> tuple[Array, tuple[Array, Array]]:
    """Computes one step of an LSTM.

        i, f, g, o = sigmoid(x_i + h W_i), sigmoid(x_f + h W_f), tanh(x_g + h W_g), sigmoid(x_o + h W_o)
        c' = f c + i g
        h' = o tanh(c')

    Args:
        x: float32 [B, 4 * U], the projected input with its bias: x_i, x_f, x_g, x_o.
        state: h and c, float32 [B, U] each.
        kernel: [U, 4 * U], W_i, W_f, W_g, W_o, in the dtype of the product with h.

    Returns:
        the output h', float32 [B, U], and the new state, h' and c'.
    """
    h, c = state
    i, f, g, o = tf.split(x + _product(h, kernel), 4, axis=-1)
    c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
    h = tf.sigmoid(o) * tf.tanh(c)
    return h, (h, c)


def _product(x, kernel):
    """Multiplies x and kernel in the kernel's dtype. Returns the dtype of x."""
    return tf.cast(tf.matmul(tf.cast(x, kernel.dtype), kernel), x.dtype)


class Rnn(CopyableModule):
    """Base class of `GRU` and `LSTM`.

    Matrix products are in the dtype of `compute_in`. Everything else is float32, above all the state, which
    accumulates small numbers.

    Args:
        num_gates: int; a step projects input and state to `num_gates` * `units` numbers each.
        input_size: int, the size of the features; the network passes it.
        units: int, the size of the output and of the state.
        seed: int, the seed of the initializers; None draws one.

    Attributes:
        size: int, the size of the output.
        state_spec: nest of unbatched tensor specs of the state.

    Raises:
        ConfigError: if `input_size` is missing.
    """

    def __init__(self, num_gates: int, input_size: int | None, units: int, seed: int | None) -> None:
        super().__init__()
        name = type(self).__name__
        if input_size is None:
            raise ConfigError(
                f"{name}() got no input_size, which the network passes. In gin write, without parentheses: "
                f"ActorCriticNetwork.rnn = @{name}. In Python: rnn={name}"
            )
        self.size = units
        # Read now, inside of the network's `compute_in`: calls come from threads that know nothing of it.
        self._compute_dtype = current_dtype()
        input_seed, seed = split_seed(seed, 2)
        self._input_layer = Dense(input_size, num_gates * units, 1.0, input_seed)
        kernel = orthogonal((units, num_gates * units), 1.0, seed)
        self._weights = [tf.Variable(kernel, name="recurrent_kernel")]

    def step(self, x: Array, state: Nest) -> tuple[Array, Nest]:
        """Computes one step of float32 [B, input_size]. Returns float32 [B, size] and the new state."""
        x, weights = self._project(x)
        return self._step(x, state, *weights)

    def unroll(self, x: Array, state: Nest, is_first: Array) -> tuple[Array, Nest]:
        """Computes T steps.

        Args:
            x: float32 [T * B, input_size].
            state: nest of [B, ...], the state at row 0.
            is_first: bool [T, B], True where the state becomes zeros before the step. T must be known while
                tracing.

        Returns:
            float32 [T * B, size] and the final state.
        """
        is_first.shape.assert_has_rank(2)
        is_first = tf.unstack(is_first[..., tf.newaxis])
        x, weights = self._project(x)  # one matrix product for the inputs of all steps
        x = tf.unstack(tf.reshape(x, (len(is_first), -1, x.shape[-1])))
        outputs = []
        # A Python loop, unrolled in the graph: tf.while_loop takes 1.4 to 2.5 times as long
        # (benchmarks/recurrent.py).
        for x_t, is_first_t in zip(x, is_first, strict=True):
            # Not a product with 0 or 1: a state that is infinite would become NaN, and never be reset.
            state = tf.nest.map_structure(lambda s, reset=is_first_t: tf.where(reset, 0.0, s), state)
            output, state = self._step(x_t, state, *weights)
            outputs.append(output)
        return tf.reshape(tf.stack(outputs), (-1, self.size)), state

    def _project(self, x):
        """Returns the input's part of each step, float32, and the weights, which are read and cast once."""
        kernel, *others = self._weights
        # Tensors, not variables: an unroll would otherwise read and cast the kernel in each of its T steps.
        weights = [tf.cast(kernel, self._compute_dtype), *map(tf.convert_to_tensor, others)]
        return tf.cast(self._input_layer(x), tf.float32), weights


@configurable("alf.networks")
class GRU(Rnn):
    """A GRU, whose formula is in `gru_step`.

    Gradients flow back through all steps of an unroll, or of the segments of `UnrollTraining.recurrence`
    steps.

    Args:
        input_size: int, the size of the features; the network passes it.
        units: int, the size of the output and of the state.
        seed: int, the seed of the initializers; None draws one.
    """

    _step = staticmethod(gru_step)

    def __init__(self, input_size: int | None = None, units: PositiveInt = 64, seed: Seed = None) -> None:
        super().__init__(3, input_size, units, seed)
        self.state_spec = tf.TensorSpec((units,), tf.float32)
        self._weights.append(tf.Variable(tf.zeros(units), name="candidate_bias"))


@configurable("alf.networks")
class LSTM(Rnn):
    """An LSTM, whose formula is in `lstm_step`. The bias of its forget gate starts at 1.

    Args:
        input_size: int, the size of the features; the network passes it.
        units: int, the size of the output and of each of the two parts of the state.
        seed: int, the seed of the initializers; None draws one.
    """

    _step = staticmethod(lstm_step)

    def __init__(self, input_size: int | None = None, units: PositiveInt = 64, seed: Seed = None) -> None:
        super().__init__(4, input_size, units, seed)
        self.state_spec = (tf.TensorSpec((units,), tf.float32),) * 2
        # A forget gate near 1 at the start lets gradients reach far back.
        self._input_layer.bias.assign(np.repeat((0.0, 1.0, 0.0, 0.0), units))
