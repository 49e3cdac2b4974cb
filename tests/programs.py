# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The commands as programs, in forks of a process that has imported them, which is faster."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Done(NamedTuple):
    """A program that has ended."""

    status: int
    out: str
    err: str


class ForkServer:
    """`fork_server.py` with some modules. `run` runs a function in a fork of it."""

    def __init__(self, folder, env, *modules):
        self._folder = folder
        command = [sys.executable, str(ROOT / "tests" / "bin" / "fork_server.py"), *modules]
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        # Without a GPU: a process must not use one that it has from before the fork.
        self._process = subprocess.Popen(command, env={**env, "CUDA_VISIBLE_DEVICES": "-1"}, **pipes)
        assert self._process.stdout.readline() == "ready\n"

    def run(self, function, *args, cwd):
        outs = [self._folder / name for name in ("out", "err")]
        for path in outs:
            path.write_text("")
        job = [function, list(map(str, args)), str(cwd), *map(str, outs)]
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return Done(int(self._process.stdout.readline()), *(path.read_text() for path in outs))

    def close(self):
        self._process.kill()  # its own end would take a second
        self._process.communicate(timeout=60)


def environment(**variables):
    """The variables of this process but for those that ALF sets."""
    names = ("TF_USE_LEGACY_KERAS", "TF_CPP_MIN_LOG_LEVEL", "PYTHONPATH")
    return {**{k: v for k, v in os.environ.items() if k not in names}, **variables}
