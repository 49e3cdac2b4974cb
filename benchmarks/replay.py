# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures replay buffers: `python -m benchmarks.replay --sizes=10000,100000,1000000`.

What a buffer takes of memory, and how long it takes to add an unroll, to sample a batch and to set its
priorities, for buffers that hold so many environment steps, as a Markdown table: medians of `--calls` calls.
2 environments of batch size 32, unrolls of 20 steps, batches of 32 sequences of 8 steps, as an algorithm
calls them. Pong has single frames, and 3 more time steps in front of each sequence to stack 4 frames.
"""

import gc
import statistics
import time

import tensorflow as tf
from absl import app, flags

import alf
from alf.core.nest_utils import add_leading_dims
from alf.core.tf_runtime import single_threaded
from alf.data_structures import Experience, PolicyState
from alf.replay import PrioritizedReplayer, UniformReplayer
from alf.schedules import Progress

_SIZES = flags.DEFINE_list("sizes", ["10000", "100000", "1000000"], "Environment steps held.")
_WORKLOADS = flags.DEFINE_list("workloads", ["pong", "halfcheetah"], "Which.")
_CALLS = flags.DEFINE_integer("calls", 200, "Calls of which the median is shown.", lower_bound=1)

_NUM_ENVS, _BATCH_SIZE, _UNROLL_LENGTH = 2, 32, 20
_NUM_SEQUENCES, _LENGTH = 32, 8
_NUMBER = tf.TensorSpec((), tf.float32)
_INDEX = tf.TensorSpec((), tf.int32)
_VERSION = tf.TensorSpec((), tf.int64)
_WORKLOAD_SPECS = {  # observation, action, info, context
    "pong": (tf.TensorSpec((84, 84), tf.uint8), _VERSION, tf.TensorSpec((6,), tf.float32), 3),
    "halfcheetah": (tf.TensorSpec((17,), tf.float32), tf.TensorSpec((6,), tf.float32), (), 0),
}


def make_unroll_spec(observation, action, info):
    """`Experience` of tensor specs of an unroll."""
    rows = Experience(_INDEX, _NUMBER, _NUMBER, observation, action, _INDEX, action, info, _VERSION)
    rows = add_leading_dims(rows._replace(state=()), _UNROLL_LENGTH + 1, _BATCH_SIZE)
    return rows._replace(state=PolicyState())


def make_unroll(spec, env):
    """An unroll with numbers in it, `Experience` of [1, T+1, B, ...]."""

    def draw(s):
        return tf.cast(tf.random.uniform((1, *s.shape), 0, 256, tf.int32), s.dtype)

    env_id = env * _BATCH_SIZE + tf.range(_BATCH_SIZE)
    unroll = tf.nest.map_structure(draw, spec)
    return unroll._replace(env_id=tf.ones_like(unroll.env_id) * env_id)


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def median_us(function, calls):
    """Microseconds that a call takes."""
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times)


def measure(kind, workload, size, calls):
    """Fills a replayer; returns gigabytes, and microseconds to observe, to sample, to set priorities."""
    *specs, context = _WORKLOAD_SPECS[workload]
    spec = make_unroll_spec(*specs)
    unrolls = [make_unroll(spec, env) for env in range(_NUM_ENVS)]
    progress = Progress(tf.constant(0, tf.int64), tf.constant(0, tf.int64))
    before = resident_bytes()
    replayer = kind(spec, _NUM_ENVS, context, capacity=size)
    sample = tf.function(lambda: replayer.sample(_NUM_SEQUENCES, _LENGTH, progress))
    update = tf.function(replayer.update_priorities)
    with single_threaded():
        while replayer.num_steps() < size:
            for unroll in unrolls:
                replayer.observe(unroll)
        sequences = sample()[1]
        priorities = tf.range(_NUM_SEQUENCES, dtype=tf.float32)
        update(sequences, priorities)
        times = [
            median_us(lambda: replayer.observe(unrolls[0]), calls),
            median_us(sample, calls),
            median_us(lambda: update(sequences, priorities), calls),
        ]
    return (resident_bytes() - before) / 1e9, *times


def main(argv):
    del argv
    print(f"ALF {alf.__version__}, TensorFlow {tf.__version__}\n")
    header = ["workload", "replayer", "steps held", "GB", "observe, us", "sample, us", "set priorities, us"]
    print("| " + " | ".join(header) + " |\n|" + " --- |" * len(header))
    for workload in _WORKLOADS.value:
        for kind in (UniformReplayer, PrioritizedReplayer):
            for size in map(int, _SIZES.value):
                gigabytes, *times = measure(kind, workload, size, _CALLS.value)
                gc.collect()
                times = [f"{t:,.0f}" for t in (times if kind is PrioritizedReplayer else times[:-1])]
                cells = [workload, kind.name, f"{size:,}", f"{gigabytes:.2f}", *times]
                print("| " + " | ".join(cells + [""] * (len(header) - len(cells))) + " |", flush=True)


if __name__ == "__main__":
    app.run(main)
