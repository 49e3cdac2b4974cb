# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""How tests import and run the programs of `benchmarks`."""

import contextlib
import importlib
import os
import subprocess
import sys

import pytest
from absl import flags

from tests.programs import run_module

_FLAGS = {}  # of the programs, by module


def import_program(name):
    """Imports a program, and removes its flags from this process: several programs have flags of one name."""
    program = importlib.import_module(name)
    found = flags.FLAGS.flags_by_module_dict().pop(name, [])
    _FLAGS.setdefault(name, found)
    for flag in found:
        delattr(flags.FLAGS, flag.name)
    return program


@contextlib.contextmanager
def parsed_flags(program, *arguments):
    """Context in which an imported program has its flags, as a command line gives them; others give way."""
    own, hidden = flags.FlagValues(), {}
    for flag in _FLAGS[program.__name__]:
        own[flag.name] = flag
        if flag.name in flags.FLAGS:
            hidden[flag.name] = flags.FLAGS[flag.name]
            delattr(flags.FLAGS, flag.name)
        flags.FLAGS[flag.name] = flag
    own([program.__name__, *arguments])
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()
    try:
        yield
    finally:
        for flag in _FLAGS[program.__name__]:
            delattr(flags.FLAGS, flag.name)
        for name, flag in hidden.items():
            flags.FLAGS[name] = flag


def fork_python(patch):
    """Lets `subprocess.run` run `python -m MODULE` in forks, which need no 5 s to import TensorFlow.

    Args:
        patch: `pytest.MonkeyPatch` that ends it.

    Returns:
        a list of what they print, in their order.
    """
    run, outputs = subprocess.run, []

    def run_or_fork(command, **kwargs):
        if list(command[:2]) != [sys.executable, "-m"]:
            return run(command, **kwargs)
        env = kwargs.get("env") or os.environ
        changes = {name: value for name, value in env.items() if os.environ.get(name) != value}
        done = run_module(*command[2:], cwd=kwargs.get("cwd") or os.getcwd(), variables=changes)
        outputs.append(done.out)
        if kwargs.get("check") and done.status:
            raise subprocess.CalledProcessError(done.status, command, done.out, done.err)
        return subprocess.CompletedProcess(command, done.status, done.out, done.err)

    patch.setattr(subprocess, "run", run_or_fork)
    return outputs


@pytest.fixture
def forks_python(monkeypatch):
    """As `fork_python`, for one test."""
    return fork_python(monkeypatch)
