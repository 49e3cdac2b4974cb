# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The lock of a run's directory, held by another process."""

import os
import signal
import subprocess
import sys

import pytest

from alf.errors import ConfigError
from alf.runs.run_dir import RunDir
from tests.programs import ROOT, environment

pytestmark = pytest.mark.programs

HOLDS_LOCK = """
import os, sys, time
from alf.runs.run_dir import RunDir
run_dir = RunDir(sys.argv[1])
run_dir.lock()
if not os.fork():  # as an environment may do
    print(os.getpid(), flush=True)  # the child has given up the lock before it gets here
time.sleep(600)
"""


def test_a_lock_ends_with_its_process_and_not_with_a_child_of_it(tmp_path):
    command = [sys.executable, "-c", HOLDS_LOCK, str(tmp_path)]
    env = environment(PYTHONPATH=str(ROOT))
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        child = int(process.stdout.readline())
        try:
            with pytest.raises(ConfigError, match="is in use"):
                RunDir(str(tmp_path)).lock()
            process.kill()
            process.wait()
            os.kill(child, 0)  # it still runs
            RunDir(str(tmp_path)).lock()
        finally:
            process.kill()
            os.kill(child, signal.SIGKILL)
