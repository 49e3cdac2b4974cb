# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Experience to put into replayers, of which every row can be told from all others."""

import contextlib

import numpy as np
import tensorflow as tf

from alf.core.nest_utils import add_leading_dims
from alf.data_structures import FIRST, LAST, MID, Experience, PolicyState
from alf.testing.fakes import assert_equal_nests

LENGTH = 400  # time steps of each environment's stream


def make_unroll_spec(unroll_length, batch_size, recurrent=False):
    """`Experience` of specs of [T+1, B, ...] with nests, several dtypes and a data transformer's state."""
    number, index, counter = (tf.TensorSpec((), t) for t in (tf.float32, tf.int32, tf.int64))
    rows = Experience(
        step_type=index,
        reward=number,
        discount=number,
        observation={"image": tf.TensorSpec((2, 3), tf.uint8), "flags": (tf.TensorSpec((2,), tf.bool),)},
        prev_action=counter,
        env_id=index,
        action=counter,
        info={"logits": tf.TensorSpec((3,), tf.float32)},
        policy_version=counter,
    )
    train = {"h": tf.TensorSpec((4,), tf.float32)} if recurrent else ()
    state = PolicyState(transformer=(tf.TensorSpec((3, 2), tf.uint8),), train=train)
    rows = add_leading_dims(rows, unroll_length + 1, batch_size)
    return rows._replace(state=add_leading_dims(state, batch_size))


class Streams:
    """The time steps of batched environments as unrolls, and as they should come out again.

    Args:
        unroll_length, batch_size, recurrent: as in `make_unroll_spec`.
        num_groups: batched environments.
        seed: of all the numbers.

    Attributes:
        unroll_spec: `Experience` of specs.
        num_groups, batch_size, unroll_length: ints.
        steps: list of int; position of the newest time step of each batched environment.
    """

    def __init__(self, unroll_length=3, batch_size=2, num_groups=2, recurrent=False, seed=0):
        self.unroll_length, self.batch_size, self.num_groups = unroll_length, batch_size, num_groups
        self.unroll_spec = make_unroll_spec(unroll_length, batch_size, recurrent)
        self.steps = [0] * num_groups
        rng = np.random.default_rng(seed)
        self._streams = [self._make_stream(env, rng) for env in range(num_groups)]

    def _make_stream(self, env, rng):
        def draw(spec):
            numbers = rng.integers(0, 2 if spec.dtype == tf.bool else 100, (LENGTH, *spec.shape[1:]))
            return numbers.astype(spec.dtype.as_numpy_dtype)

        rows = self.unroll_spec._replace(state=())
        rows = tf.nest.map_structure(draw, rows)
        # The state that entered at every time step.
        states = tf.nest.map_structure(
            lambda s: rng.integers(0, 100, (LENGTH, *s.shape)).astype(s.dtype.as_numpy_dtype),
            self.unroll_spec.state,
        )
        batch = np.arange(self.batch_size)
        position = np.arange(LENGTH)[:, np.newaxis]
        step_type = rng.choice([FIRST, MID, MID, LAST], (LENGTH, self.batch_size)).astype(np.int32)
        shifted = np.concatenate([np.zeros_like(rows.action[:1]), rows.action[:-1]])
        return rows._replace(
            step_type=step_type,
            discount=rng.random(step_type.shape, np.float32),
            reward=(1000 * (env * self.batch_size + batch) + position).astype(np.float32),
            env_id=np.broadcast_to(env * self.batch_size + batch, step_type.shape).astype(np.int32),
            prev_action=np.where(step_type == FIRST, 0, shifted),
            state=states,
        )

    def next_unrolls(self, envs):
        """The next unroll of each of a list of environments, an `Experience` of [Q, T+1, B, ...]."""
        unrolls = []
        for env in envs:
            start, self.steps[env] = self.steps[env], self.steps[env] + self.unroll_length
            rows = self._streams[env]._replace(state=())
            rows = tf.nest.map_structure(lambda x, a=start: x[a : a + self.unroll_length + 1], rows)
            state = tf.nest.map_structure(lambda x, a=start: x[a], self._streams[env].state)
            unrolls.append(rows._replace(state=state))
        return tf.nest.map_structure(lambda *x: tf.constant(np.stack(x)), *unrolls)

    def sequences(self, envs, columns, starts, before, after):
        """What a buffer should return for sequences: `Experience` of [before + 1 + after, N, ...]."""

        def cut(num_before, num_after):
            def stack(*streams):
                parts = zip(envs, columns, starts)
                rows = [streams[e][s - num_before : s + num_after + 1, c] for e, c, s in parts]
                return np.stack(rows, axis=1)

            return stack

        rows = tf.nest.map_structure(cut(before, after), *[s._replace(state=()) for s in self._streams])
        state = tf.nest.map_structure(lambda *x: cut(0, 0)(*x)[0], *[s.state for s in self._streams])
        transformer = tf.nest.map_structure(np.zeros_like, state.transformer)
        return rows._replace(state=state._replace(transformer=transformer))


@contextlib.contextmanager
def without_graphs():
    """Runs every `tf.function` one operation after another: cheaper if it is called once or twice."""
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)


def to_numpy(nest):
    return tf.nest.map_structure(lambda x: x.numpy(), nest)


def check_content(experience, sequences, streams, context, length):
    """Checks that an `Experience` is that of `Sequences` of the streams."""
    expected = streams.sequences(*to_numpy(sequences), context, length)
    assert_equal_nests(to_numpy(experience), expected)


def chi_square_p(counts, expected=None):
    """The probability of counts at least as far from what is expected: by default all the same."""
    counts = np.asarray(counts, np.float64)
    expected = np.full(counts.shape, counts.mean()) if expected is None else np.asarray(expected)
    statistic = np.sum((counts - expected) ** 2 / expected)
    return float(tf.math.igammac(tf.constant((len(counts) - 1) / 2, tf.float64), statistic / 2))
