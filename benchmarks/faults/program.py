# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Runs `alf` after changes to the process, which the variable `ALF_FAULT_PROCESS` holds as JSON:

    file_bytes: int, the limit of a file's size, as if the disk were full.
    slow_replace: [text, seconds], how long it takes to give a file its name if that contains the text.
    kill_at_rename: int, the rename of a file in a folder `checkpoints`, counted from 1, before which the
        process is killed by SIGKILL.

With `--serve` this is a server instead, see `serve`.
"""

import json
import os
import resource
import runpy
import signal
import sys
import time


def change_process(file_bytes=None, slow_replace=None, kill_at_rename=None):
    """Changes this process as the module's docstring says."""
    if file_bytes is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that a write fails with OSError
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    if slow_replace is not None:
        part, seconds = slow_replace
        _before_rename(lambda path: time.sleep(seconds) if part in path else None)
    if kill_at_rename is not None:
        left = [kill_at_rename]

        def count(path):
            left[0] -= "checkpoints" in path
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

        _before_rename(count)


def _before_rename(call):
    """Makes every rename in Python first call `call` with the new path."""
    for name in ("replace", "rename"):
        setattr(os, name, _call_first(call, getattr(os, name)))


def _call_first(call, rename):
    def call_and_rename(source, target, *args, **kwargs):
        call(os.fsdecode(target))
        return rename(source, target, *args, **kwargs)

    return call_and_rename


def serve():
    """Trains in forks of this process, one at a time, which saves the import of TensorFlow.

    A fork survives because nothing has started TensorFlow's threads yet. Each line that is read is a JSON
    list: flags, a dict of environment variables, paths of stdout and stderr. Two lines answer it: the process
    id at once, and the exit status at the end, as in `subprocess.Popen.returncode`.
    """
    from alf.bin import train

    for line in sys.stdin:
        args, variables, stdout, stderr = json.loads(line)
        pid = os.fork()
        if not pid:
            _train_in_fork(train, args, variables, stdout, stderr)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _train_in_fork(train, args, variables, stdout, stderr):
    """Never returns."""
    from absl import logging

    from alf.bin.command import parse, run

    os.setsid()
    os.environ.update(variables)
    for fd, path in ((0, os.devnull), (1, stdout), (2, stderr)):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), fd)
    logging.use_absl_handler()
    status = 1
    try:
        status = run(train, parse(train, args))
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    if "--serve" in sys.argv:
        serve()
    else:
        change_process(**json.loads(os.environ.get("ALF_FAULT_PROCESS", "{}")))
        runpy.run_module("alf", run_name="__main__", alter_sys=True)
