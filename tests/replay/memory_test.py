# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The memory of a replay buffer, as the operating system counts it."""

import gc
import multiprocessing
import os
from concurrent import futures

import numpy as np
import pytest
import tensorflow as tf

from alf.core.nest_utils import zeros_from_spec
from alf.replay import UniformReplayer
from tests.replay.streams import make_unroll_spec

pytestmark = pytest.mark.programs

MEMORY_CAPACITY = 30_000  # rows of a frame of 84 * 84 bytes: 212 MB


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def fill_and_measure(spec, unroll):
    """Makes a buffer and fills it twice. Returns the resident bytes of this process at each stage."""
    replayer = UniformReplayer(spec, 1, capacity=MEMORY_CAPACITY)
    stages = [resident_bytes()]
    for num_unrolls in (150, 160, 310):  # half of the buffer, a bit more than the rest, all of it again
        for _ in range(num_unrolls):
            replayer.observe(unroll)
        replayer.sample(4, 3, None)
        stages.append(resident_bytes())
    return stages


def measure_memory():
    """Returns what this process has at each stage, and without the buffer: [5], in sizes of the buffer."""
    spec = make_unroll_spec(unroll_length=10, batch_size=10)
    spec = spec._replace(observation=tf.TensorSpec((11, 10, 84, 84), tf.uint8))
    unroll = zeros_from_spec(spec, 1)
    before = resident_bytes()
    stages = fill_and_measure(spec, unroll)
    gc.collect()  # graphs are cycles
    return (np.array([*stages, resident_bytes()]) - before) / (MEMORY_CAPACITY * 84 * 84)


def test_memory_is_taken_once_and_given_back(monkeypatch):
    # In a process of its own: in this one, other tests take and free memory. And without oneDNN: with it,
    # which depends on the CPU, TensorFlow's allocator keeps freed memory for itself.
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    with futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        stages = executor.submit(measure_memory).result()
    # A buffer that takes its memory at once, makes a copy, grows or stays is wrong by at least 0.5: half of
    # that is the bound. What else the process takes, graphs and arrays beside the frames, is 0.07 of it.
    assert stages == pytest.approx([0, 0.5, 1, 1, 0], abs=0.25)
