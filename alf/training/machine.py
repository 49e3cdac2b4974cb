# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What a run takes of its machine: memory, CPU and GPU memory."""

import contextlib
import time

import psutil
import tensorflow as tf

_LIST_SECONDS = 10.0  # between two looks for new child processes: a look costs 3 ms for 100 processes


class MachineMeter:
    """Measures this process and all that it has started, workers above all, between two `measure` calls."""

    def __init__(self):
        self._own = psutil.Process()
        self._children, self._listed = [], float("-inf")
        self._cpu, self._measured = {}, time.monotonic()
        self._read()

    def measure(self):
        """Returns figures to show, a dict of floats by name, in MB of 10^6 bytes and in CPU cores."""
        before, start = self._cpu, self._measured
        memory = self._read()
        # A process that is new counts from now on.
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
            self._children, self._listed = self._own.children(recursive=True), now
        self._cpu, memory = {}, {}
        for process in [self._own, *self._children]:
            with contextlib.suppress(psutil.Error):  # it has ended
                memory[process] = process.memory_info().rss
                self._cpu[process] = sum(process.cpu_times()[:2])
        return memory


def cpu_seconds():
    """CPU time so far of this process and of those that it has started and that still run."""
    own = psutil.Process()
    total = 0.0
    for process in [own, *own.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            total += sum(process.cpu_times()[:2])
    return total


def _measure_gpus():
    gpus = [device.name for device in tf.config.list_logical_devices("GPU")]
    used = [tf.config.experimental.get_memory_info(gpu)["current"] for gpu in gpus]
    return {f"memory/gpu_{i}_mb": size / 1e6 for i, size in enumerate(used)}
