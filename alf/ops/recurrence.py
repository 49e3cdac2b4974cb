# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Recurrent cells and their unrolls, as pure functions of tensors.

A cell has k gates. For a step, the input is projected to x, and the state h to p, each a sequence of k
tensors, float32 [B, U]. The weights are float32 tensors: the kernel [D, k * U] and the bias [k * U] that
project the input, the kernel [U, k * U] that projects h and, of a GRU, the bias [U] of the last part of p.

The gradient of an unroll is written by hand, so that the unroll can be a loop (see `scan`). It takes fewer
operations than TensorFlow's, and one product for the gradient of a kernel in a chunk of steps, not one in
each step. `python -m benchmarks.recurrent` measures it.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from alf.core.annotations import Array
from alf.ops.scan import scan

_sigmoid_gradient, _tanh_gradient = tf.raw_ops.SigmoidGrad, tf.raw_ops.TanhGrad


class GruCell:
    """A GRU. The reset gate is applied after the matrix product, like the default of `tf.keras.layers.GRU`:

        z, r = sigmoid(x_z + h W_z), sigmoid(x_r + h W_r)
        h' = z h + (1 - z) tanh(x_c + r (h W_c + b))

    Attributes:
        num_gates: int, k.
        num_sums: int; p of the first `num_sums` gates is only added to x, so both have the same gradient.
        num_saved: int, the number of tensors of a step that its gradient needs, besides the state before it.
    """

    num_gates, num_sums, num_saved = 3, 2, 4

    @staticmethod
    def step(x: Sequence[Array], p: Sequence[Array], state: Sequence[Array]) -> tuple[Any, Any]:
        """Computes one step.

        Args:
            x, p: the projected input and state.
            state: (h,), float32 [B, U].

        Returns:
            the new state, whose first tensor is the output; and what `gradient` needs.
        """
        (h,) = state
        z, r = tf.sigmoid(x[0] + p[0]), tf.sigmoid(x[1] + p[1])
        c = tf.tanh(x[2] + r * p[2])
        # z h + (1 - z) c, with one multiplication less.
        return (c + z * (h - c),), (z, r, c, p[2])

    @staticmethod
    def gradient(d_state: Sequence[Array], state: Sequence[Array], saved: Sequence[Array]) -> tuple[Any, ...]:
        """Computes the gradient of a step.

        Args:
            d_state: the gradient with respect to the new state.
            state: the state before the step.
            saved: what `step` returned.

        Returns:
            the gradients with respect to x; to p; and to the state where p is constant, None for zeros.
        """
        (d_h,), (h,), (z, r, c, p_c) = d_state, state, saved
        d_kept = d_h * z
        d_z = _sigmoid_gradient(y=z, dy=d_h * (h - c))
        d_c = _tanh_gradient(y=c, dy=d_h - d_kept)
        d_r = _sigmoid_gradient(y=r, dy=d_c * p_c)
        return (d_z, d_r, d_c), (d_z, d_r, d_c * r), (d_kept,)


class LstmCell:
    """An LSTM, whose state is (h, c). Its attributes and methods are like those of `GruCell`.

    i, f, g, o = sigmoid(x_i + h W_i), sigmoid(x_f + h W_f), tanh(x_g + h W_g), sigmoid(x_o + h W_o)
    c' = f c + i g
    h' = o tanh(c')
    """

    num_gates, num_sums, num_saved = 4, 4, 5

    @staticmethod
    def step(x: Sequence[Array], p: Sequence[Array], state: Sequence[Array]) -> tuple[Any, Any]:
        """Computes one step."""
        i, f, g, o = (a + b for a, b in zip(x, p, strict=True))
        i, f, g, o = tf.sigmoid(i), tf.sigmoid(f), tf.tanh(g), tf.sigmoid(o)
        c = f * state[1] + i * g
        tanh_c = tf.tanh(c)
        return (o * tanh_c, c), (i, f, g, o, tanh_c)

    @staticmethod
    def gradient(d_state: Sequence[Array], state: Sequence[Array], saved: Sequence[Array]) -> tuple[Any, ...]:
        """Computes the gradient of a step."""
        (d_h, d_c), (_, c), (i, f, g, o, tanh_c) = d_state, state, saved
        d_c += _tanh_gradient(y=tanh_c, dy=d_h * o)
        d_i, d_f = _sigmoid_gradient(y=i, dy=d_c * g), _sigmoid_gradient(y=f, dy=d_c * c)
        d_g, d_o = _tanh_gradient(y=g, dy=d_c * i), _sigmoid_gradient(y=o, dy=d_h * tanh_c)
        d = d_i, d_f, d_g, d_o
        return d, d, (None, d_c * f)


def step(
    cell: Any, x: Array, state: Sequence[Array], weights: Sequence[Array], dtype: Any
) -> Sequence[tf.Tensor]:
    """Computes one step of inputs [B, D]. Returns the new state. The arguments are like those of `unroll`."""
    x_kernel, x_bias, kernel, *bias = weights
    x = tf.split(_project(x, tf.cast(x_kernel, dtype), x_bias), cell.num_gates, axis=1)
    p = tf.split(_project(state[0], tf.cast(kernel, dtype)), cell.num_gates, axis=1)
    return cell.step(x, _add_bias(p, bias), state)[0]


def unroll(
    cell: Any, x: Array, state: Sequence[Array], is_first: Array, weights: Sequence[Array], dtype: Any
) -> tuple[tf.Tensor, Sequence[tf.Tensor]]:
    """Computes T steps of a cell.

    Args:
        cell: `GruCell` or `LstmCell`.
        x: [T * B, D], the inputs, row by row.
        state: sequence of float32 [B, U], the state at row 0.
        is_first: bool [T, B], True where the state becomes zeros before the step. T must be known.
        weights: sequence of the weights.
        dtype: dtype of the matrix products. All else is float32.

    Returns:
        h after each step, float32 [T * B, U], and the final state.
    """

    @tf.custom_gradient
    def run(x, state, weights):
        forward = _Forward(cell, weights, dtype)
        rows = tf.reshape(x, (is_first.shape[0], -1, x.shape[-1]))
        num_saved = len(state) + cell.num_saved
        final, (h, *saved) = scan(forward, state, (rows, is_first), 1 + num_saved)

        def gradient(d_h, *d_final):
            zeros = [tf.zeros_like(w) for w in weights]
            backward = _Backward(cell, weights, dtype)
            inputs = (rows, is_first, tf.reshape(d_h, (rows.shape[0], -1, d_h.shape[-1])), *saved)
            (d_state, d_weights), (d_x,) = scan(backward, (d_final, zeros), inputs, 1, reverse=True)
            return tf.cast(_flatten(d_x.stack()), x.dtype), *d_state, *d_weights

        return (_flatten(h.stack()), *final), gradient

    h, *state = run(x, tuple(state), tuple(weights))
    return h, state


class _Forward:
    """Computes a chunk of steps. Its outputs are h, the state before and what the gradient needs."""

    def __init__(self, cell, weights, dtype):
        self._cell = cell
        self._x_kernel, self._x_bias, kernel, *self._bias = weights
        self._x_kernel = tf.cast(self._x_kernel, dtype)
        # Splitting each product instead would take as long, or longer with large batches.
        self._kernels = tf.split(tf.cast(kernel, dtype), cell.num_gates, axis=1)

    def __call__(self, state, x, is_first):
        x = _project(_flatten(x), self._x_kernel, self._x_bias)
        x = [tf.unstack(_rows(x, is_first)) for x in tf.split(x, self._cell.num_gates, axis=1)]
        outputs = []
        for is_first_t, *x_t in zip(tf.unstack(is_first), *x, strict=True):
            before = _reset(state, is_first_t)
            p = [_project(before[0], kernel) for kernel in self._kernels]
            state, saved = self._cell.step(x_t, _add_bias(p, self._bias), before)
            outputs.append((state[0], *before, *saved))
        return state, [list(x) for x in zip(*outputs, strict=True)]


class _Backward:
    """Computes the gradient of a chunk of steps. Adds up the gradients of the weights."""

    def __init__(self, cell, weights, dtype):
        self._cell, self._dtype, self._has_bias = cell, dtype, len(weights) > 3
        # Once: each product with a transposed matrix would do it again.
        self._x_kernel, self._kernel = (tf.transpose(tf.cast(w, dtype)) for w in (weights[0], weights[2]))

    def __call__(self, carry, x, is_first, d_h, *saved):
        d_state, d_weights = carry
        num, d = len(d_state), []
        rows = zip(*map(_unstack, (is_first, d_h, *saved)), strict=True)
        for is_first_t, d_h_t, *saved_t in reversed(list(rows)):
            d_state = (d_state[0] + d_h_t, *d_state[1:])
            d_x, d_p, (d_kept, *d_state) = self._cell.gradient(d_state, saved_t[:num], saved_t[num:])
            d_p = tf.concat(d_p, axis=1)
            d_before = _project(d_p, self._kernel)
            d_before = d_before if d_kept is None else d_before + d_kept
            d_state = _reset((d_before, *d_state), is_first_t)
            d.append((d_p, *d_x[self._cell.num_sums :]))
        d_p, *others = (_flatten(tf.stack(x[::-1])) for x in zip(*d, strict=True))
        units = d_h.shape[-1]
        d_x = tf.concat([d_p[:, : self._cell.num_sums * units], *others], axis=1) if others else d_p
        more = [self._product(_flatten(x), d_x), _sum_rows(d_x)]
        more.append(self._product(_flatten(tf.convert_to_tensor(saved[0])), d_p))
        if self._has_bias:
            more.append(_sum_rows(d_p[:, -units:]))
        d_weights = [a + b for a, b in zip(d_weights, more, strict=True)]
        return (d_state, d_weights), [_rows(_project(d_x, self._x_kernel), is_first)]

    def _product(self, x, y):
        """Computes x' y."""
        return tf.cast(
            tf.matmul(tf.cast(x, self._dtype), tf.cast(y, self._dtype), transpose_a=True), tf.float32
        )


def _project(x, kernel, bias=None):
    """Computes x W + b in the dtype of W. Returns float32."""
    y = tf.matmul(tf.cast(x, kernel.dtype), kernel)
    return tf.cast(y if bias is None else tf.nn.bias_add(y, tf.cast(bias, y.dtype)), tf.float32)


def _add_bias(p, bias):
    return [*p[:-1], tf.nn.bias_add(p[-1], bias[0])] if bias else p


def _reset(state, is_first):
    """Returns the state, which is zeros in the rows where `is_first` is True."""
    # Not a product with 0 or 1: a state that is infinite would become NaN, and never be reset.
    return tuple(tf.raw_ops.Select(condition=is_first, x=tf.zeros_like(s), y=s) for s in state)


def _sum_rows(x):
    # The gradient of a bias, for which TensorFlow has a faster operation than for other sums.
    return tf.raw_ops.BiasAddGrad(out_backprop=x)


def _rows(x, is_first):
    """[T * B, N] -> [T, B, N]"""
    return tf.reshape(x, (is_first.shape[0], -1, x.shape[-1]))


def _flatten(x):
    """[T, B, N] -> [T * B, N]"""
    return tf.reshape(x, (-1, x.shape[-1]))


def _unstack(x):
    return x if isinstance(x, list) else tf.unstack(x)
