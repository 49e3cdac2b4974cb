# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""MachineMeter: measures memory, CPU and GPU memory of a run."""

import contextlib
import time

import psutil
import tensorflow as tf

_LIST_SECONDS = 10.0  # between two searches for child processes, each of which takes 3 ms for 100 processes


class MachineMeter:
    """Measures this process and all processes that it has started, between two calls of `measure`."""

    def __init__(self):
        self._own = psutil.Process()
        self._children, self._listed = [], float("-inf")
        self._cpu, self._measured = {}, time.monotonic()
        self._read()

    def measure(self):
        """Returns a dict of floats by name: memory in MB of 10^6 bytes, and CPU in cores."""
        before, start = self._cpu, self._measured
        memory = self._read()
        # psutil compares processes by number and start: one that got the number of an ended process is a new
        # one.
        # The CPU time of a new process counts from now on.
        used = sum(seconds - before.get(process, seconds) for process, seconds in self._cpu.items())
        own = memory.pop(self._own)
        return {
            "memory/process_mb": own / 1e6,
            "memory/children_mb": sum(memory.values()) / 1e6,
            "cpu/cores": used / max(self._measured - start, 1e-9),
            **_measure_gpus(),
        }

    def _read(self):
        """Reads the CPU time of each process; returns the resident memory of each, a dict of bytes."""
        now = self._measured = time.monotonic()
        if now - self._listed >= _LIST_SECONDS:
            # Children of children, too: an evaluation in another process has workers of its own.
            self._children, self._listed = self._own.children(recursive=True), now
        self._cpu, memory = {}, {}
        for process in [self._own, *self._children]:
            with contextlib.suppress(psutil.Error):  # it has ended
                # Memory that processes share, such as the arrays of workers, counts in each that has touched
                # it: the sum may be more than the machine has given.
                memory[process] = process.memory_info().rss
                # User and system. The next two fields are the times of children, which are counted by
                # themselves.
                self._cpu[process] = sum(process.cpu_times()[:2])
        return memory


def cpu_seconds():
    """Returns the CPU seconds of this process and of all running processes that it has started."""
    own = psutil.Process()
    total = 0.0
    for process in [own, *own.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            total += sum(process.cpu_times()[:2])
    return total


def _measure_gpus():
    memory = {}
    for i, device in enumerate(tf.config.list_logical_devices("GPU")):
        # The devices of some plug-ins do not count their memory.
        with contextlib.suppress(ValueError):
            # Of TensorFlow's tensors, and not of the blocks that it has reserved or other processes use.
            used = tf.config.experimental.get_memory_info(device.name)["current"]
            memory[f"memory/gpu_{i}_mb"] = used / 1e6
    return memory
