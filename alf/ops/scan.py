# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Recursions over the rows of an unroll, in graphs whose size does not grow with their number."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from alf.core.annotations import Array, Nest

# Up to so many rows are one chunk: the time steps of an unroll of 64 transitions. More are chunks of at least
# half as many, all of one size, in a loop.
MAX_ROWS = 65

Chunk: TypeAlias = Array | Sequence[Array]


class Rows:
    """A tensor [T, ...] in the chunks in which `scan` reads and writes it. Only `stack` copies it.

    Args:
        first: the first rows, those which are not in `chunks`: a tensor, or a list of the rows.
        chunks: a tensor [num_chunks, size, ...] or `tf.TensorArray` of the others; None if there are none.
    """

    def __init__(self, first: Chunk, chunks: Any = None) -> None:
        self.first, self._chunks = first, chunks

    def chunk(self, i: Array) -> tf.Tensor:
        """Returns chunk i, a tensor [size, ...]."""
        is_tensor = isinstance(self._chunks, tf.Tensor)
        return self._chunks[i] if is_tensor else self._chunks.read(i)

    def stack(self) -> tf.Tensor:
        """Returns the tensor [T, ...]."""
        if self._chunks is None:
            return tf.convert_to_tensor(self.first)
        chunks = self._chunks if isinstance(self._chunks, tf.Tensor) else self._chunks.stack()
        chunks = _reshape(chunks, (chunks.shape[0] * chunks.shape[1],), 2)
        return chunks if self.first is None else tf.concat([self.first, chunks], axis=0)


def scan(
    function: Callable[..., tuple[Nest, Sequence[Chunk]]],
    state: Nest,
    inputs: Sequence[Array | Rows],
    num_outputs: int,
    reverse: bool = False,
) -> tuple[Nest, list[Rows]]:
    """Calls `state, outputs = function(state, *inputs)` for one chunk of the rows after the other.

    The function writes a chunk's rows out in the graph one by one, because the work of a loop for each of
    them would cost more than they do. There is one chunk of up to `MAX_ROWS` rows, without a loop. More rows
    are a loop over chunks of at least half as many, besides the rows that are left over, the first ones.

    TensorFlow's gradient of such a loop is slow, because it keeps each tensor of each row in a list. Write
    the gradient as another scan (`tf.custom_gradient`).

    Args:
        function: callable (state, *chunks) -> (state, outputs). A chunk is a tensor [rows, ...]; of `Rows`
            that another scan returned it may also be the list of its rows. Outputs are float32, as tensors
            or as lists of rows.
        state: nest of tensors, whose shapes stay the same.
        inputs: tensors [T, ...], at least one, with a known T and at most one unknown dimension; `Rows` that
            a scan over T rows returned.
        num_outputs: int, the number of outputs.
        reverse: bool, whether the last chunk comes first. The order of rows in a chunk stays the same.

    Returns:
        the final state and `Rows`, one for each output.
    """
    num_rows = next(x.shape[0] for x in inputs if not isinstance(x, Rows))
    num_chunks, size = _plan(num_rows)
    inputs = [x if isinstance(x, Rows) else _split(x, num_chunks, size) for x in inputs]
    if not num_chunks:
        state, outputs = function(state, *(x.first for x in inputs))
        return state, [Rows(x) for x in outputs]

    def loop(state):
        def body(k, state, arrays):
            i = num_chunks - 1 - k if reverse else k
            state, outputs = function(state, *(x.chunk(i) for x in inputs))
            arrays = [a.write(i, tf.convert_to_tensor(x)) for a, x in zip(arrays, outputs, strict=True)]
            return k + 1, state, arrays

        arrays = [tf.TensorArray(tf.float32, num_chunks, clear_after_read=False) for _ in range(num_outputs)]
        # Each iteration needs the state of the one before, so they cannot be made at the same time.
        return tf.while_loop(lambda k, *_: k < num_chunks, body, (0, state, arrays), parallel_iterations=1)[
            1:
        ]

    first: Sequence[Any] = [None] * num_outputs
    if reverse:
        state, arrays = loop(state)
    if num_rows > num_chunks * size:
        state, first = function(state, *(x.first for x in inputs))
    if not reverse:
        state, arrays = loop(state)
    return state, [Rows(*x) for x in zip(first, arrays, strict=True)]


def _plan(num_rows):
    """Returns the number of chunks in the loop and their size. Rows that are left over are the first ones."""
    if num_rows <= MAX_ROWS:
        return 0, 0
    # The smallest size that leaves none over, because joining them costs a copy; else few.
    sizes = range(MAX_ROWS // 2, MAX_ROWS + 1)
    size = min(sizes, key=lambda size: (num_rows % size > 0, num_rows % size + size))
    return num_rows // size, size


def _split(x, num_chunks, size):
    if not num_chunks:
        return Rows(x)
    num_first = x.shape[0] - num_chunks * size
    return Rows(x[:num_first], _reshape(x[num_first:], (num_chunks, size), 1))


def _reshape(x, shape, num):
    """Gives the first `num` dimensions the shape `shape`."""
    return tf.reshape(x, (*shape, *(-1 if n is None else n for n in x.shape[num:])))
