# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Random numbers for policies and learners, in graphs.

Actors answer environments in an order that differs from run to run, and a run may stop and continue. So that
each draw is the same in each run, draws come from a `Stream`: each learner has one, and each driver has one
for its environments. The numbers follow from the stream's seed and key, and from a counter, by a
counter-based generator (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"), whatever else is
in the batch. Without a stream, as in evaluations, numbers come from TensorFlow's own generators.
"""

import contextlib
import threading

import numpy as np
import tensorflow as tf

ENVIRONMENTS, LEARNERS = 0, 1  # the first number of a stream's key; in that of a learner its place follows


class Stream:
    """A stream of random numbers.

    Args:
        seed: int, at least 0. None draws one that follows from `tf.random.set_seed`, if that was called: each
            call draws another one.
        *key: ints, at least 0, by which streams of the same seed differ.

    Attributes:
        seed: int.
    """

    def __init__(self, seed=None, *key):
        self.seed = _draw_seed() if seed is None else seed
        self._key = key

    def spawn(self, number):
        """Returns another `Stream` of the same seed, whose key ends with `number`, an int."""
        return Stream(self.seed, *self._key, number)

    def at(self, counters):
        """Makes the draws of the graph that is traced in this context come from the stream.

        Args:
            counters: list of K pairs of integer scalars, tensors or variables: the index of an environment,
                or 0, and a count. The first axis of each draw has K equal parts, one for each pair, in this
                order. Another index or count gives other numbers. A draw reads a variable when it runs.
        """
        seeds = np.random.SeedSequence(self.seed, spawn_key=self._key)
        return _using((counters, None, np.random.default_rng(seeds)))


def _draw_seed():
    seeds = tf.compat.v1.get_seed(None)  # of the graph and of one operation, or None without `set_seed`
    return int(np.random.SeedSequence(None if None in seeds else seeds).generate_state(1)[0])


class _Context(threading.local):
    # The counters, a list; the number of rows of each, int32 [K], or None if they have equal parts; and a
    # generator that gives each draw a number.
    current = None


_context = _Context()


@contextlib.contextmanager
def _using(context):
    before, _context.current = _context.current, context
    try:
        yield
    finally:
        _context.current = before


def of_rows(rows, num_rows):
    """Makes the draws in this context be for some rows of a batch, each at the counter that it has there.

    Args:
        rows: int64 [N], indices of rows in ascending order. The first axis of each draw has N rows, or a
            multiple, in this order.
        num_rows: int, the number of all rows of the batch.
    """
    current = _context.current
    if current is None or len(current[0]) == 1:
        return _using(current)
    counters, _, rng = current
    places = rows // (num_rows // len(counters))
    is_at = tf.equal(places, tf.range(len(counters), dtype=places.dtype)[:, tf.newaxis])
    return _using((counters, tf.reduce_sum(tf.cast(is_at, tf.int32), axis=1), rng))


def fork():
    """Returns a function (number) -> context, for threads that draw at the present counters.

    Draws in the context of another number, an int at least 0, are other ones.
    """
    if _context.current is None:
        return lambda number: contextlib.nullcontext()
    counters, sizes, rng = _context.current
    seed = int(rng.integers(2**62))
    return lambda number: _using((counters, sizes, np.random.default_rng([seed, number])))


def normal(shape):
    """Draws standard normal numbers, float32. `shape`: ints."""
    if _context.current is None:
        return tf.random.normal(shape)
    return _draw(tf.random.stateless_normal, _split_shape(shape))


def uniform(shape, dtype=tf.float32):
    """Draws numbers that are uniform in [0, 1). `shape`: ints."""
    if _context.current is None:
        return tf.random.uniform(shape, dtype=dtype)
    return _draw(lambda part, seed: tf.random.stateless_uniform(part, seed, dtype=dtype), _split_shape(shape))


def gamma(alpha):
    """Draws from Gamma distributions of scale 1. `alpha`: their shapes, float32 [N, ...]."""
    if _context.current is None:
        return tf.random.gamma((), alpha)
    return _draw(lambda part, seed: tf.random.stateless_gamma(tf.shape(part), seed, part), _split(alpha))


def categorical(logits, dtype):
    """Draws an index for each row of `logits`, float32 [N, n]; returns [N] of `dtype`."""
    if _context.current is None:
        return tf.random.categorical(logits, 1, dtype=dtype)[:, 0]
    draw = lambda part, seed: tf.random.stateless_categorical(part, 1, seed, dtype=dtype)  # noqa: E731
    return _draw(draw, _split(logits))[:, 0]


def integers(shape, low, high):
    """Draws integers that are uniform in [low, high), int64. `low`, `high`: int64 scalars."""
    if _context.current is None:
        return tf.random.uniform(shape, low, high, tf.int64)
    draw = lambda part, seed: tf.random.stateless_uniform(part, seed, low, high, tf.int64)  # noqa: E731
    return _draw(draw, _split_shape(shape))


def shuffle(x):
    """Returns the rows of `x`, for a single counter, in an order drawn at random."""
    if _context.current is None:
        return tf.random.shuffle(x)
    return _draw(tf.random.experimental.stateless_shuffle, [x])


def _split(x):
    counters, sizes, _ = _context.current
    if len(counters) == 1:
        return [x]
    return tf.split(x, len(counters) if sizes is None else _scale(sizes, tf.shape(x)[0]))


def _split_shape(shape):
    (counters, sizes, _), shape = _context.current, tf.convert_to_tensor(shape, dtype_hint=tf.int32)
    if len(counters) == 1:
        return [shape]
    if sizes is None:
        return [tf.concat([shape[:1] // len(counters), shape[1:]], axis=0)] * len(counters)
    sizes = _scale(sizes, shape[0])
    return [tf.concat([sizes[i : i + 1], shape[1:]], axis=0) for i in range(len(counters))]


def _scale(sizes, total):
    """Returns multiples of `sizes` whose sum is `total`."""
    return sizes * (total // tf.maximum(tf.reduce_sum(sizes), 1))


def _draw(draw, parts):
    """Calls `draw` with the part and the seed of each counter; concatenates the results."""
    counters, _, rng = _context.current
    # 62 random bits, so that two draws hardly ever have the same seed (number + index, count).
    number = int(rng.integers(1, 2**62))
    drawn = [
        draw(part, tf.stack([number + tf.cast(index, tf.int64), tf.cast(count, tf.int64)]))
        for part, (index, count) in zip(parts, counters, strict=True)
    ]
    return tf.concat(drawn, axis=0) if len(drawn) > 1 else drawn[0]
