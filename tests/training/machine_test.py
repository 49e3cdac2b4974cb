# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Memory and CPU of this process and of those that it has started."""

import contextlib
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

from alf.training import machine
from alf.training.machine import MachineMeter

BURN = "import time\nx = bytearray(100_000_000)\nprint(flush=True)\nwhile True: pass"


@contextlib.contextmanager
def burning():
    """A child process that has 100 MB and burns a core; it began to when this begins."""
    with subprocess.Popen([sys.executable, "-c", BURN], stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def cpu_seconds_of(process):
    return sum(psutil.Process(process.pid).cpu_times()[:2])


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
    meter = MachineMeter()
    before = meter.measure()
    with burning() as process:
        meter.measure()
        start, own, childs = time.monotonic(), time.process_time(), cpu_seconds_of(process)
        time.sleep(1.0)
        after = meter.measure()
        used = cpu_seconds_of(process) - childs + time.process_time() - own
        seconds = time.monotonic() - start
        most = seconds + time.process_time() - own
    assert after["cpu/cores"] * seconds == pytest.approx(used, rel=0.3, abs=0.05)
    assert 0.02 < after["cpu/cores"] <= most + 0.2, "it gets little beside busy processes"
    assert 100 < after["memory/children_mb"] - before["memory/children_mb"] < 150
    assert meter.measure()["memory/children_mb"] == pytest.approx(before["memory/children_mb"], abs=5)


def test_what_a_child_did_before_it_was_seen_does_not_count():
    own, start = time.process_time(), time.monotonic()
    meter = MachineMeter()
    with burning() as process:
        while cpu_seconds_of(process) < 0.5:
            time.sleep(0.05)
        used = meter.measure()["cpu/cores"] * (time.monotonic() - start)
    assert used < 0.4 + time.process_time() - own
