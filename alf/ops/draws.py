# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Random numbers for policies and learners, in graphs.

Actors answer environments in an order that differs from run to run, and a run may stop and continue. So that
each draw is the same in each run, draws have owners (`owned_by`): an environment, or the learner. The numbers
of an owner follow from the run's seed, the owner and a count, by a counter-based generator (Salmon et al.
2011, "Parallel random numbers: as easy as 1, 2, 3"), whatever else is in the batch. Without owners, as in
evaluations, numbers come from TensorFlow's own generators.
"""

import contextlib
import threading

import numpy as np
import tensorflow as tf

LEARNER = -1  # the owner of the learner's draws; environments are owners from 0

_seed = None  # the seed in place of that of `tf.random.set_seed`, or None


def set_seed(seed):
    """Sets the seed of graphs that are traced later: int, or None for the seed of `tf.random.set_seed`."""
    global _seed
    _seed = seed


def get_seed():
    """Returns the seed of graphs that are traced now, an int, or None: each draws one."""
    return global_seed() if _seed is None else _seed


def global_seed():
    """Returns 31 bits of the seed of the last `tf.random.set_seed`, an int, or None if there was none."""
    return tf.compat.v1.get_seed(None)[0]


class _Context(threading.local):
    current = None  # the pair of the owners, a list, and a generator that gives each draw a number


_context = _Context()


@contextlib.contextmanager
def _using(context):
    before, _context.current = _context.current, context
    try:
        yield
    finally:
        _context.current = before


def owned_by(owners):
    """Makes the draws of the graph that is traced in this context belong to K owners.

    Args:
        owners: list of K pairs of integer scalars: the number of the owner, and how often it has drawn
            before, a tensor, or a variable that each draw reads. The first axis of each draw has K equal
            parts, one for each owner, in this order.
    """
    return _using((owners, np.random.default_rng(get_seed())))


def owned_by_first():
    """Makes the draws in this context belong to the first one of the present owners, whatever their size."""
    current = _context.current
    return _using(None if current is None else (current[0][:1], current[1]))


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
    return _draw(lambda part, seed: tf.random.stateless_gamma(part.shape, seed, part), _split(alpha))


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
    """Returns the rows of `x`, of one owner, in an order drawn at random."""
    if _context.current is None:
        return tf.random.shuffle(x)
    return _draw(tf.random.experimental.stateless_shuffle, [x])


def _split(x):
    owners, _ = _context.current
    return tf.split(x, len(owners)) if len(owners) > 1 else [x]


def _split_shape(shape):
    (owners, _), shape = _context.current, tf.convert_to_tensor(shape)
    part = tf.concat([shape[:1] // len(owners), shape[1:]], axis=0) if len(owners) > 1 else shape
    return [part] * len(owners)


def _draw(draw, parts):
    """Calls `draw` with each owner's part and seed; concatenates the results."""
    owners, rng = _context.current
    # 62 random bits, so that two draws hardly ever have the same seed (number + owner, count).
    number = int(rng.integers(1, 2**62))
    drawn = [
        draw(part, tf.stack([number + tf.cast(owner, tf.int64), tf.cast(count, tf.int64)]))
        for part, (owner, count) in zip(parts, owners, strict=True)
    ]
    return tf.concat(drawn, axis=0) if len(drawn) > 1 else drawn[0]
