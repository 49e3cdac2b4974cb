# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The clock for time-outs stands still while the process is stopped."""

import os
import signal
import subprocess
import sys
import threading
import time

from alf.core.running_time import running_time
from tests.programs import ROOT, environment

STOPPED = """
import os, signal, sys, time
from alf.core.running_time import running_time

before, start = running_time(), time.monotonic()
print("ready", flush=True)
while time.monotonic() - start < 5.0:
    time.sleep(0.01)
print(running_time() - before, time.monotonic() - start)
"""


def test_it_runs_like_the_clock_of_the_system():
    start, before = time.monotonic(), running_time()
    time.sleep(1.2)
    ran, passed = running_time() - before, time.monotonic() - start
    assert ran <= passed and (ran >= 1.1 or passed > 2.0)  # a busy machine may stop this process


def test_it_stands_still_while_the_process_is_stopped():
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED], env=environment(), cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGSTOP)
        time.sleep(6.0)
        process.send_signal(signal.SIGCONT)
        ran, passed = map(float, process.stdout.readline().split())
    assert passed >= 6.0 and ran < passed - 3.0


def test_a_forked_process_has_a_clock_of_its_own():
    running_time()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        before = running_time()
        names = [thread.name for thread in threading.enumerate()]
        time.sleep(0.6)
        os.write(writer, str((running_time() - before >= 0.5, names.count("RunningTime"))).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"(True, 1)"
