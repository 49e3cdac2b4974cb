# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Hides what C++ says while TensorFlow starts: about CPU features, and about GPUs that are not there.

`python -m alf.core.startup MODULE ARGS` is `python -m MODULE ARGS`, but TensorFlow starts first, silently.
"""

import contextlib
import os
import runpy
import signal
import sys


def start_tensorflow():
    """Imports TensorFlow and lets it look for GPUs; shows what that writes only if it fails.

    With TF_CPP_MIN_LOG_LEVEL=0 in the environment it shows it in any case.

    Call it before any of the user's modules is imported: what they write is not to be hidden. It does nothing
    if TensorFlow is imported already.
    """
    if "tensorflow" in sys.modules:
        return
    wants_all = os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0"
    with contextlib.nullcontext() if wants_all else hide_stderr():
        import tensorflow as tf

        tf.config.list_physical_devices()


@contextlib.contextmanager
def hide_stderr():
    """Context in which what this process writes to the standard error stream is held back, also by C++.

    It is dropped at the end. If the context raises an error, or the process dies in it, it is shown. For that
    a child process reads it from a pipe: it outlives a process that crashes.
    """
    if sys.stderr is None:  # the stream is closed
        yield
        return
    sys.stderr.flush()
    reader, writer = os.pipe()
    # Signals to all processes of a command, a terminal's Ctrl-C for instance, must not end the child.
    blocked = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    child = os.fork()
    if not child:
        _show_at_end(reader, writer)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(reader)
    stderr = os.dup(2)
    os.dup2(writer, 2)
    has_failed = True
    try:
        yield
        has_failed = False
    finally:
        sys.stderr.flush()
        os.dup2(stderr, 2)
        os.close(stderr)
        if not has_failed:
            os.kill(child, signal.SIGKILL)
        os.close(writer)  # the last one: a child that lives shows now what it has read
        os.waitpid(child, 0)


def _show_at_end(reader, writer):
    """Reads until nobody can write any more, then shows what it has read; never returns."""
    try:
        os.close(writer)
        with open(reader, "rb") as pipe:
            held = pipe.read()
        while held:
            held = held[os.write(2, held) :]
    finally:
        os._exit(0)


if __name__ == "__main__":
    start_tensorflow()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
