# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The processes of runs on this machine, each on cores of its own. Without TensorFlow."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys

LOST = 255  # the exit status of a run whose process in a cluster cannot be reached any more


class RunProcess:
    """A Python process that writes to a log, and that SIGTERM ends when its owner has ended for any reason.

    It has a session of its own: a terminal's Ctrl-C is for its owner alone, who decides.

    Args:
        arguments: list of texts, of Python.
        log: path of a file; what is there is kept.
        import_paths: list of folders, before those of the environment variable PYTHONPATH.
        gpus: the GPUs that it sees, texts as CUDA_VISIBLE_DEVICES names them; None: those of its owner.
    """

    def __init__(self, arguments, log, import_paths=(), gpus=None):
        paths = [*import_paths, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
        if gpus is not None:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        os.makedirs(os.path.dirname(log), exist_ok=True)
        reader, self._lifeline = os.pipe()
        try:
            with open(log, "ab") as file:
                settings = dict(stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, env=env)
                self._process = subprocess.Popen(
                    [sys.executable, *arguments], pass_fds=[reader], start_new_session=True, **settings
                )
            # The kernel sends the signal when the other end of the pipe is closed.
            fcntl.fcntl(reader, fcntl.F_SETOWN, self._process.pid)
            fcntl.fcntl(reader, fcntl.F_SETSIG, signal.SIGTERM)
            fcntl.fcntl(reader, fcntl.F_SETFL, fcntl.fcntl(reader, fcntl.F_GETFL) | os.O_ASYNC)
        except BaseException:
            os.close(self._lifeline)
            raise
        finally:
            os.close(reader)

    def poll(self):
        """Returns the exit status, negative after a signal; None while the process runs."""
        status = self._process.poll()
        if status is not None and self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        return status

    def interrupt(self):
        """Asks the process to save and end."""
        self._process.terminate()

    def kill(self):
        """Kills the process and its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Machine:
    """Starts runs on this machine, as many at a time as have room.

    Args:
        cores: list of the cores that all runs share.
        run_cores: int, of each run: no other run uses them meanwhile.
        max_at_a_time: int or None; a further limit.
        gpus: list of the GPUs that all runs share, texts as CUDA_VISIBLE_DEVICES names them.
        run_gpus: int, of each run: no other run sees them meanwhile. With 0 a run sees those of this process.
    """

    def __init__(self, cores, run_cores, max_at_a_time=None, gpus=(), run_gpus=0):
        self._free_cores, self._run_cores = list(cores), run_cores
        self._free_gpus, self._run_gpus = list(gpus), run_gpus
        self._max = max_at_a_time
        self._taken = {}  # processes -> (cores, GPUs)

    def has_room(self):
        """Whether one more run has room."""
        has_cores = len(self._free_cores) >= self._run_cores
        has_gpus = len(self._free_gpus) >= self._run_gpus
        return has_cores and has_gpus and (self._max is None or len(self._taken) < self._max)

    def start(self, arguments, log, import_paths=()):
        """Starts a `RunProcess` of these arguments."""
        cores, self._free_cores = _split(self._free_cores, self._run_cores)
        gpus, self._free_gpus = _split(self._free_gpus, self._run_gpus)
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cores)  # of this thread alone; a process that it starts has them, too
        try:
            process = RunProcess(arguments, log, import_paths, gpus or None)
        finally:
            os.sched_setaffinity(0, before)
        self._taken[process] = cores, gpus
        return process

    def release(self, process):
        """Takes back the cores and the GPUs of a process that has ended."""
        cores, gpus = self._taken.pop(process)
        self._free_cores = sorted(self._free_cores + cores)
        self._free_gpus += gpus


def _split(items, count):
    return items[:count], items[count:]
