# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Recurrent layers. The same cell computes one step or a whole unroll."""

import numpy as np
import tensorflow as tf

from alf.config.kinds import PositiveInt
from alf.config.settings import Seed, configurable
from alf.core.annotations import Array, Nest
from alf.errors import ConfigError
from alf.networks.compute_dtype import current_dtype
from alf.networks.copying import CopyableModule
from alf.networks.layers import Dense, orthogonal, split_seed
from alf.ops import recurrence
from alf.ops.recurrence import GruCell, LstmCell


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
        new_state = recurrence.step(
            self._cell, x, tf.nest.flatten(state), self._all_weights(), self._compute_dtype
        )
        return new_state[0], tf.nest.pack_sequence_as(state, new_state)

    def unroll(self, x: Array, state: Nest, is_first: Array) -> tuple[Array, Nest]:
        """Computes T steps.

        Args:
            x: float32 [T * B, input_size].
            state: nest of [B, ...], the state at row 0.
            is_first: bool [T, B], True where the state becomes zeros before the step. T must be known while
                tracing. The graph does not grow with T above 64.

        Returns:
            float32 [T * B, size] and the final state.
        """
        is_first.shape.assert_has_rank(2)
        outputs, final = recurrence.unroll(
            self._cell, x, tf.nest.flatten(state), is_first, self._all_weights(), self._compute_dtype
        )
        return outputs, tf.nest.pack_sequence_as(state, final)

    def _all_weights(self):
        # Tensors, not variables: each product would otherwise read its variable again.
        weights = self._input_layer.kernel, self._input_layer.bias, *self._weights
        return [tf.convert_to_tensor(w) for w in weights]


@configurable("alf.networks")
class GRU(Rnn):
    """A GRU, whose formula is in `alf.ops.recurrence.GruCell`.

    Gradients flow back through all steps of an unroll, or of the segments of `UnrollLearner.recurrence`
    steps.

    Args:
        input_size: int, the size of the features; the network passes it.
        units: int, the size of the output and of the state.
        seed: int, the seed of the initializers; None draws one.
    """

    _cell = GruCell

    def __init__(self, input_size: int | None = None, units: PositiveInt = 64, seed: Seed = None) -> None:
        super().__init__(3, input_size, units, seed)
        self.state_spec = tf.TensorSpec((units,), tf.float32)
        self._weights.append(tf.Variable(tf.zeros(units), name="candidate_bias"))


@configurable("alf.networks")
class LSTM(Rnn):
    """An LSTM, whose formula is in `alf.ops.recurrence.LstmCell`. The bias of its forget gate starts at 1.

    Args:
        input_size: int, the size of the features; the network passes it.
        units: int, the size of the output and of each of the two parts of the state.
        seed: int, the seed of the initializers; None draws one.
    """

    _cell = LstmCell

    def __init__(self, input_size: int | None = None, units: PositiveInt = 64, seed: Seed = None) -> None:
        super().__init__(4, input_size, units, seed)
        self.state_spec = (tf.TensorSpec((units,), tf.float32),) * 2
        # A forget gate near 1 at the start lets gradients reach far back.
        self._input_layer.bias.assign(np.repeat((0.0, 1.0, 0.0, 0.0), units))
