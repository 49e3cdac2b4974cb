# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures recurrent layers: `python -m benchmarks.recurrent --rounds=N`.

Time of outputs and gradients of an unroll of 32 steps, as a Markdown table. The kinds take turns, and each is
compared with ALF's layer in the same round, so that other load on the machine matters less: medians of the
rounds. Keras' layers do less, they have no reset at an episode's first step.
"""

import functools
import statistics
import time

import tensorflow as tf
from absl import app, flags

from alf.networks import GRU, LSTM

_ROUNDS = flags.DEFINE_integer("rounds", 9, "Measurements of each kind.", lower_bound=1)
_CALLS = flags.DEFINE_integer("calls", 5, "Unrolls of each measurement.", lower_bound=1)
_THREADS = flags.DEFINE_integer("threads", 1, "Threads of TensorFlow, 0 for one per core.", lower_bound=0)
_LENGTH, _BATCH_SIZES, _UNITS = 32, (8, 64), (64, 256)
_CELLS = {GRU: tf.keras.layers.GRU, LSTM: tf.keras.layers.LSTM}


def _while_loop(rnn, x, state, is_first):
    """The recurrent layer's `unroll`, with a loop in the graph; returns the outputs alone."""
    length, batch_size = is_first.shape
    x, weights = rnn._project(x)
    x = tf.reshape(x, (length, batch_size, -1))

    def step(t, state, outputs):
        reset = is_first[t][:, tf.newaxis]
        state = tf.nest.map_structure(lambda s: tf.where(reset, 0.0, s), state)
        output, state = rnn._step(x[t], state, *weights)
        return t + 1, state, outputs.write(t, output)

    outputs = tf.TensorArray(tf.float32, length, element_shape=(batch_size, rnn.size))
    _, _, outputs = tf.while_loop(
        lambda t, *_: t < length, step, (0, state, outputs), maximum_iterations=length
    )
    return outputs.stack()


def _with_gradient(forward, x, variables, **kwargs):
    """A function that computes outputs and returns gradients, also with respect to the input."""

    @tf.function(autograph=False, **kwargs)
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.square(forward(x)))
        return tape.gradient(loss, [x, *variables])

    return functools.partial(run, x)


def make_kinds(cell, batch_size, units):
    """Returns a dict from the kind of unroll to a function without arguments."""
    rnn = cell(units, units, seed=0)
    x = tf.random.stateless_normal((_LENGTH * batch_size, units), (0, 1))
    state = tf.nest.map_structure(lambda s: tf.zeros((batch_size, *s.shape)), rnn.state_spec)
    is_first = tf.random.stateless_uniform((_LENGTH, batch_size), (0, 2)) < 0.02
    layer = _CELLS[cell](units, return_sequences=True, time_major=True)
    layer.build((_LENGTH, batch_size, units))

    def unroll(x):
        return rnn.unroll(x, state, is_first)[0]

    def while_loop(x):
        return _while_loop(rnn, x, state, is_first)

    def keras(x):
        return layer(tf.reshape(x, (_LENGTH, batch_size, units)), initial_state=tf.nest.flatten(state))

    return {
        "ALF": _with_gradient(unroll, x, rnn.trainable_variables),
        "ALF, jit_compile": _with_gradient(unroll, x, rnn.trainable_variables, jit_compile=True),
        "tf.while_loop": _with_gradient(while_loop, x, rnn.trainable_variables),
        "Keras, no reset": _with_gradient(keras, x, layer.trainable_variables),
    }


def measure(kinds, rounds, calls):
    """Returns a dict from each kind to its seconds per call, a list of one for each round."""
    for run in kinds.values():
        for _ in range(3):  # traces, compiles, warms up
            run()
    seconds = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind, run in kinds.items():
            start = time.perf_counter()
            for _ in range(calls):
                gradients = run()
            gradients[0].numpy()  # waits for it
            seconds[kind].append((time.perf_counter() - start) / calls)
    return seconds


def main(argv):
    del argv
    tf.get_logger().setLevel("ERROR")  # it takes the many functions of one name for a mistake
    tf.config.threading.set_intra_op_parallelism_threads(_THREADS.value)
    tf.config.threading.set_inter_op_parallelism_threads(_THREADS.value)
    header = None
    for cell in _CELLS:
        for units in _UNITS:
            for batch_size in _BATCH_SIZES:
                kinds = make_kinds(cell, batch_size, units)
                seconds = measure(kinds, _ROUNDS.value, _CALLS.value)
                if header is None:
                    header = ["cell", "units", "batch", "ALF, ms", *list(seconds)[1:]]
                    print("| " + " | ".join(header) + " |\n|" + " --- |" * len(header))
                ours, *others = seconds.values()
                ratios = [statistics.median(a / b for a, b in zip(other, ours)) for other in others]
                cells = [cell.__name__, str(units), str(batch_size), f"{1000 * statistics.median(ours):.1f}"]
                cells += [f"x {ratio:.2f}" for ratio in ratios]
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    app.run(main)
