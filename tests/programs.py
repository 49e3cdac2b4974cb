# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The commands as programs, in forks of a process that has imported them, which is faster."""

import atexit
import functools
import json
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
ALF = "alf.bin.main:console_main"


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
        self._process.communicate(timeout=300)


def environment(**variables):
    """The variables of this process but for those that ALF sets."""
    names = ("TF_USE_LEGACY_KERAS", "TF_CPP_MIN_LOG_LEVEL", "PYTHONPATH")
    return {**{k: v for k, v in os.environ.items() if k not in names}, **variables}


def run_program(function, *args, cwd=ROOT):
    """Runs a function, such as `ALF`, in a fork; returns what it has `Done`."""
    return _start_shared_server().run(function, *args, cwd=cwd)


def run_module(module, *args, cwd=ROOT, variables=None):
    """Does what `python -m MODULE ARGUMENT...` does in a fork, with more variables of the environment."""
    changes = [f"{name}={value}" for name, value in (variables or {}).items()]
    return run_program("tests.programs:be_module", *changes, module, *args, cwd=cwd)


@functools.cache
def _start_shared_server():
    """Starts a `ForkServer` for all tests of this process; it ends with it.

    It has imported what takes long.
    """
    folder = tempfile.TemporaryDirectory()
    modules = "tests.quiet_start", "alf.training", "alf.testing"
    server = ForkServer(Path(folder.name), environment(PYTHONPATH=str(ROOT)), *modules)
    atexit.register(folder.cleanup)
    atexit.register(server.close)
    return server


def be_module():
    """Does the work of `run_module` in the fork, as its arguments say: NAME=VALUE..., MODULE, ARGUMENT..."""
    arguments = sys.argv[1:]
    while "=" in arguments[0]:
        name, _, value = arguments.pop(0).partition("=")
        os.environ[name] = value
    sys.argv = arguments
    try:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
            return 1
        return ended.code
    return 0
