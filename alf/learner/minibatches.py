# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Splitting a batch of unrolls into segments and minibatches, with an update for each part, in the graph."""

import tensorflow as tf

from alf.data_structures import PolicyState
from alf.ops import draws
from alf.ops.gather import gather


def merge_unrolls(experience):
    """Makes one time-major batch of Q unrolls: [Q, T+1, B, ...] -> [T+1, Q*B, ...], state [Q*B, ...]."""

    def merge_rows(x):
        x = tf.experimental.numpy.moveaxis(x, 0, 1) if x.shape[0] != 1 else x[0][:, tf.newaxis]
        return tf.reshape(x, (x.shape[0], -1, *x.shape[3:]))

    rows = tf.nest.map_structure(merge_rows, experience._replace(state=()))
    state = tf.nest.map_structure(lambda x: tf.reshape(x, (-1, *x.shape[2:])), experience.state)
    return rows._replace(state=state)


def split_in_segments(batch, length, final_state):
    """Splits unrolls of T steps into T / `length` segments: shorter unrolls, side by side.

    The last row of a segment is also the first row of the next one. In the last row it only bootstraps, with
    weight 0, so each transition counts in one segment.

    Args:
        batch: pair of an `Experience` of [T+1, B, ...] with a state of [B, ...], and a nest of [T+1, B, ...].
        length: int, steps of a segment, which divides T.
        final_state: callable (`Experience` of [length, B, ...]) -> nest of [B, ...], the recurrent state
            after these rows. It is called only if the policy has a recurrent state.

    Returns:
        such a pair of [length + 1, T / length * B, ...], with the state that enters each segment.
    """
    experience, prepared = batch
    starts = range(0, experience.step_type.shape[0] - 1, length)
    rows = experience._replace(state=())
    states = [experience.state.train]
    # One segment after another: the state that enters a segment is the final state of the one before.
    # This runs before the tape of the loss begins, so no gradient goes back into the segment before.
    for start in starts[:-1] if tf.nest.flatten(states) else ():
        part = tf.nest.map_structure(lambda x, start=start: x[start : start + length], rows)
        states.append(final_state(part._replace(state=PolicyState(train=states[-1]))))
    index = tf.range(length + 1)[:, tf.newaxis] + tf.constant(list(starts))

    def cut(x):
        return tf.reshape(gather(x, index), (length + 1, -1, *x.shape[2:]))

    segments, prepared = tf.nest.map_structure(cut, (rows, prepared))
    # The last row of a segment has the weight of its transition in the next segment, but not here.
    weight = tf.pad(segments.weight[:-1], [[0, 1], [0, 0]])
    state = tf.nest.map_structure(lambda *x: tf.concat(x, axis=0), *states)
    return segments._replace(weight=weight, state=PolicyState(train=state)), prepared


def train_in_minibatches(update, batch, num_epochs=1, num_minibatches=1, stop=None):
    """Splits a batch by its columns into parts, and updates with each part, in the graph.

    A column is an environment or a segment. Columns are shuffled for every epoch. They stay whole, because
    recurrent policies and returns need the steps in their order.

    Args:
        update: callable (part of the batch) -> dict of float32 scalars.
        batch: pair of an `Experience` of [T+1, B, ...] with a state of [B, ...], and a nest of [T+1, B, ...].
        num_epochs, num_minibatches: passes over the batch, and parts of a pass; the latter must divide B.
        stop: callable or None, as in `repeat_update`.

    Returns:
        dict of float32 scalars, the averages over the updates.
    """
    if num_epochs * num_minibatches == 1:
        return update(batch)
    experience, prepared = batch
    batch_size = experience.step_type.shape[1]

    def update_with_part(i, order):
        part, _, order = select_part(i, order, batch_size // num_minibatches)
        rows = experience._replace(state=()), prepared
        rows, chosen = tf.nest.map_structure(lambda x: gather(x, part, axis=1), rows)
        state = tf.nest.map_structure(lambda x: tf.gather(x, part), experience.state)
        return update((rows._replace(state=state), chosen)), order

    return repeat_update(update_with_part, num_epochs * num_minibatches, tf.range(batch_size), stop)


def select_part(i, order, size):
    """Selects the `i`-th part in passes over N elements, which are shuffled for every pass.

    Args:
        i: int32 scalar, from 0.
        order: int32 [N], the numbers of the elements. For the first part in any order, then the order that
            the last call returned.
        size: int, elements of a part.

    Returns:
        int32 [size], the numbers of the elements; bool [size], False where the last part of a pass, which is
        not full, repeats elements; and the order of this pass.
    """
    count = tf.size(order)
    part = i % -(-count // size)
    # Shuffled once in a pass, and carried through its parts: all of them must be cut from one order. Else a
    # pass would take some elements twice and leave others out.
    order = tf.cond(part == 0, lambda: draws.shuffle(order), lambda: order)
    places = part * size + tf.range(size)
    return tf.gather(order, places % count), places < count, order


def repeat_update(update, num_updates, carried, stop=None):
    """Updates several times, in the graph; returns the averages of the scalars from `update`.

    Args:
        update: callable (i, carried) -> dict of float32 scalars, the same keys every time, and carried.
        num_updates: int32 scalar, at least 1.
        carried: nest of tensors that each update passes to the next one.
        stop: callable (dict from `update`) -> bool scalar, whether to skip the remaining updates. None: all
            updates are made.
    """
    stop = stop or (lambda summary: tf.constant(False))
    # A function of its own, because TensorFlow does not use oneDNN for operations directly in the body of a
    # loop. That makes convolutions a third slower.
    update = tf.function(update, autograph=False)

    def body(i, carried, totals, stopped):
        summary, carried = update(i, carried)
        totals = tf.nest.map_structure(tf.add, totals, summary)
        return i + 1, carried, totals, stop(summary)

    # The first update is outside the loop, because a loop must know the structure of its sums before it
    # starts.
    first, carried = update(tf.constant(0), carried)
    count, _, totals, _ = tf.while_loop(
        lambda i, carried, totals, stopped: (i < num_updates) & ~stopped,
        body,
        (tf.constant(1), carried, first, stop(first)),
        parallel_iterations=1,
    )
    return tf.nest.map_structure(lambda total: total / tf.cast(count, total.dtype), totals)
