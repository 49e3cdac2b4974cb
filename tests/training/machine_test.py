# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Memory and CPU of this process and of those that it has started.

A figure of CPU lies between what the same counters say before and after each look of the meter. So the bounds
hold whatever else the machine does.
"""

import contextlib
import subprocess
import time
from typing import NamedTuple

import numpy as np
import psutil
import pytest

from alf.training import machine
from alf.training.machine import MachineMeter

SIZE = 100_000_000
BURN = ["dd", "if=/dev/zero", "of=/dev/null", f"bs={SIZE}"]
CPU_SECONDS = 0.1  # that a child uses at least, ten ticks of the kernel's clock


@contextlib.contextmanager
def burning():
    """A child process that has 100 MB and computes without an end; it has used some CPU when this begins."""
    child = subprocess.Popen(BURN, stderr=subprocess.DEVNULL)
    try:
        process = psutil.Process(child.pid)
        wait_for(lambda: process.memory_info().rss > SIZE and cpu_seconds(process) > CPU_SECONDS)
        yield process
    finally:
        child.kill()
        child.wait()


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def cpu_seconds(process):
    return sum(process.cpu_times()[:2])


class Readings(NamedTuple):
    """A clock and the CPU of some processes, from the same counters as those of the meter."""

    seconds: float
    cpu: float


class Meter:
    """A `MachineMeter` with readings before and after each of its looks; the first one is at construction."""

    def __init__(self, *processes):
        self._processes = [psutil.Process(), *processes]
        self.meter, self._last = self._bracket(MachineMeter)

    def measure(self):
        """Returns the figures, and the least and the most CPU cores that can be right."""
        values, (before, after) = self._bracket(self.meter.measure)
        first_before, first_after = self._last
        self._last = before, after
        least = (before.cpu - first_after.cpu) / (after.seconds - first_before.seconds)
        most = (after.cpu - first_before.cpu) / (before.seconds - first_after.seconds)
        return values, least, most

    def _bracket(self, look):
        before = self._read()
        return look(), (before, self._read())

    def _read(self):
        return Readings(time.monotonic(), sum(map(cpu_seconds, self._processes)))


@pytest.fixture(autouse=True)
def looks_always(monkeypatch):
    monkeypatch.setattr(machine, "_LIST_SECONDS", 0.0)


def test_memory_of_this_process():
    meter = MachineMeter()
    before = meter.measure()
    array = np.ones(40_000_000, np.uint8)
    after = meter.measure()
    assert after["memory/process_mb"] - before["memory/process_mb"] == pytest.approx(
        array.nbytes / 1e6, abs=15
    )
    assert before["memory/process_mb"] > 50


def test_memory_and_cpu_of_children():
    before = MachineMeter().measure()
    with burning() as process:
        meter, used = Meter(process), cpu_seconds(process)
        wait_for(lambda: cpu_seconds(process) > used + CPU_SECONDS)
        after, least, most = meter.measure()
    tiny = 1e-9  # of rounding
    assert least - tiny <= after["cpu/cores"] <= most + tiny
    assert 100 < after["memory/children_mb"] - before["memory/children_mb"] < 110
    gone = meter.meter.measure()
    assert gone["memory/children_mb"] == pytest.approx(before["memory/children_mb"], abs=5)


def test_what_a_child_did_before_it_was_seen_does_not_count():
    meter = Meter()
    with burning():
        values, least, most = meter.measure()  # this process alone
    assert least - 1e-9 <= values["cpu/cores"] <= most + 1e-9
