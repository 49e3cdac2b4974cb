# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures recurrent layers: `python -m benchmarks.recurrent --lengths=32,128,512 --rounds=N`.

A Markdown table of CPU time: seconds of the first call, which traces, and milliseconds of the outputs and
gradients of one unroll. The graph is in a loop and runs on one thread, like the learner's updates for
minibatches. The kinds take turns, and each is compared with ALF's layer in the same round, so that other
load on the machine matters less: medians of the rounds. Keras' layers do less, they have no reset at an
episode's first step.
"""

import contextlib
import statistics
import time

import keras
import tensorflow as tf
from absl import app, flags

from alf.core.tf_runtime import single_threaded
from alf.networks import GRU, LSTM

_LENGTHS = flags.DEFINE_list("lengths", ["32", "64", "128"], "Steps of an unroll.")
_BATCHES = flags.DEFINE_list("batches", ["8", "32", "256"], "Sizes of a batch.")
_UNITS = flags.DEFINE_list("units", ["64", "256"], "Sizes of the state.")
_KINDS = flags.DEFINE_list("kinds", [], "Kinds to compare with ALF's layer; all by default.")
_ROUNDS = flags.DEFINE_integer("rounds", 9, "Measurements of each kind.", lower_bound=1)
_SECONDS = flags.DEFINE_float("seconds", 0.2, "Least CPU seconds of a measurement.")
_CELLS = {GRU: keras.layers.GRU, LSTM: keras.layers.LSTM}


def _row(cell, x, state, is_first, weights):
    """One step without a gradient of its own. Returns the new state."""
    kernel, *bias = weights
    state = [tf.where(is_first[:, tf.newaxis], 0.0, s) for s in state]
    p = tf.split(state[0] @ kernel, cell.num_gates, axis=1)
    p[-1] = tf.nn.bias_add(p[-1], *bias) if bias else p[-1]
    return list(cell.step(tf.split(x, cell.num_gates, axis=1), p, state)[0])


def _written_out(rnn, x, state, is_first):
    """Each step in the graph, with TensorFlow's gradient."""
    x_kernel, x_bias, *weights = rnn._all_weights()
    x = tf.reshape(x @ x_kernel + x_bias, (*is_first.shape, -1))
    outputs = []
    for x_t, is_first_t in zip(tf.unstack(x), tf.unstack(is_first), strict=True):
        state = _row(rnn._cell, x_t, state, is_first_t, weights)
        outputs.append(state[0])
    return tf.stack(outputs)


def _while_loop(rnn, x, state, is_first):
    """A loop over the steps, with TensorFlow's gradient."""
    x_kernel, x_bias, *weights = rnn._all_weights()
    length, batch_size = is_first.shape
    x = tf.reshape(x @ x_kernel + x_bias, (length, batch_size, -1))

    def step(t, state, outputs):
        state = _row(rnn._cell, x[t], state, is_first[t], weights)
        return t + 1, state, outputs.write(t, state[0])

    outputs = tf.TensorArray(tf.float32, length, element_shape=(batch_size, rnn.size))
    start = 0, state, outputs
    return tf.while_loop(lambda t, *_: t < length, step, start, maximum_iterations=length)[2].stack()


def _with_gradient(forward, x, variables, **kwargs):
    """A function without arguments that computes outputs and returns gradients, also to the input."""

    @tf.function(autograph=False)
    def update(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.square(forward(x)))
        return tape.gradient(loss, [x, *variables])

    @tf.function(autograph=False, **kwargs)
    def run(x):
        zeros = [tf.zeros(v.shape) for v in (x, *variables)]
        return tf.while_loop(lambda *_: True, lambda *_: update(x), zeros, maximum_iterations=1)

    return lambda: run(x)


def make_kinds(make, length, batch_size, units):
    """Returns a dict from the kind of unroll to a function without arguments."""
    rnn = make(units, units, seed=0)
    x = tf.random.stateless_normal((length * batch_size, units), (0, 1))
    state = [tf.zeros((batch_size, units)) for _ in tf.nest.flatten(rnn.state_spec)]
    is_first = tf.random.stateless_uniform((length, batch_size), (0, 2)) < 0.02
    layer = _CELLS[make](units, return_sequences=True)
    layer.build((batch_size, length, units))

    def unroll(x):
        return rnn.unroll(x, tf.nest.pack_sequence_as(rnn.state_spec, state), is_first)[0]

    def in_keras(x):
        x = tf.transpose(tf.reshape(x, (length, batch_size, units)), (1, 0, 2))
        return tf.transpose(layer(x, initial_state=state), (1, 0, 2))

    variables = rnn.trainable_variables
    kinds = {
        "ALF": lambda: _with_gradient(unroll, x, variables),
        "written out": lambda: _with_gradient(lambda x: _written_out(rnn, x, state, is_first), x, variables),
        "tf.while_loop": lambda: _with_gradient(lambda x: _while_loop(rnn, x, state, is_first), x, variables),
        "Keras, no reset": lambda: _with_gradient(in_keras, x, [v.value for v in layer.trainable_variables]),
        "ALF, XLA": lambda: _with_gradient(unroll, x, variables, jit_compile=True),
    }
    chosen = _KINDS.value or list(kinds)
    return {name: make() for name, make in kinds.items() if name in ("ALF", *chosen)}


def measure(kinds, rounds, seconds):
    """Measures what `make_kinds` returned.

    Returns:
        dicts from each kind to the seconds of its first call, and to those of a call in each round. The
        second one lacks kinds that TensorFlow refuses to run.
    """
    first, calls = {}, {}
    for kind, run in kinds.items():
        start = time.process_time()
        with contextlib.suppress(tf.errors.UnimplementedError):  # sums of many large gradients, on one thread
            run()
            calls[kind] = 0
        first[kind] = time.process_time() - start
    for kind in calls:
        calls[kind] = 1 + int(seconds / _time(kinds[kind], 2))
    each = {kind: [] for kind in calls}
    for _ in range(rounds):
        for kind, results in each.items():
            results.append(_time(kinds[kind], calls[kind]))
    return first, each


def _time(run, calls):
    """Returns the CPU seconds of a call."""
    start = time.process_time()
    for _ in range(calls):
        gradients = run()
    gradients[0].numpy()  # waits for it
    return (time.process_time() - start) / calls


def _row_of_table(name, length, units, batch_size, first, each):
    ours = each["ALF"]
    cells = [name, length, units, batch_size, f"{1000 * statistics.median(ours):.1f}", f"{first['ALF']:.1f}"]
    for kind in list(first)[1:]:
        ratios = [a / b for a, b in zip(each.get(kind, []), ours)]
        cells += [f"x {statistics.median(ratios):.2f}" if ratios else "fails", f"{first[kind]:.1f}"]
    return "| " + " | ".join(map(str, cells)) + " |"


def main(argv):
    del argv
    tf.get_logger().setLevel("ERROR")  # it takes the many functions of one name for a mistake
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(8)  # which `single_threaded` needs
    header = None
    for make in _CELLS:
        for sizes in [
            (int(t), int(u), int(b)) for t in _LENGTHS.value for u in _UNITS.value for b in _BATCHES.value
        ]:
            length, units, batch_size = sizes
            with single_threaded():
                results = measure(make_kinds(make, length, batch_size, units), _ROUNDS.value, _SECONDS.value)
            if header is None:
                kinds = [f"{kind} | first, s" for kind in list(results[0])[1:]]
                header = " | ".join(["cell", "steps", "units", "batch", "ALF, ms", "first, s", *kinds])
                print(f"| {header} |\n|" + " --- |" * (header.count("|") + 1))
            print(_row_of_table(make.__name__, *sizes, *results), flush=True)


if __name__ == "__main__":
    app.run(main)
