# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Training: a process that trains, what it says and when, and what it leaves on the disk."""

import contextlib
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import tensorflow as tf

from alf.core.files import without_pattern
from alf.runs.progress_file import PROGRESS_FILE, read_rows

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_POLL_SECONDS = 0.01
_CONSOLE_SCRIPT = "from alf.bin.main import console_main; console_main()"
_QUIET_SECONDS = 2.0  # in which all processes of an ended run must end


class HungError(Exception):
    """What a case waits for did not come in time. The process group was killed."""


class Training:
    """A process that trains, in a session of its own. Leave its `with` block to end all processes of it.

    Args:
        folder: `pathlib.Path` of an empty folder for output and events.
        root_dir: the run's, relative to `cwd` or not.
        args: the arguments of `alf`, without -o.
        fault: dict, see `envs`, or None.
        process: dict, see `program`, or None.
        variables: dict of more environment variables.
        cwd: where it runs.
        server: `Server` whose fork trains; None starts `python -m alf`.
        timeout: seconds that the process may take; the case fails after them.
        console_script: whether it starts as `alf` does: without `cwd` in the search path.
        script: a program in Python that runs in place of `alf`, with the same arguments, or None.

    Attributes:
        lines: list of (seconds since 1970, line of stderr).
        status: exit status, as in `subprocess.Popen.returncode`, or None.
        started, ended: seconds since 1970.
        restored_steps: environment steps in the newest checkpoint when the process started.
    """

    def __init__(
        self,
        folder,
        root_dir,
        args,
        fault=None,
        process=None,
        variables=None,
        cwd=None,
        server=None,
        timeout=90.0,
        console_script=False,
        script=None,
    ):
        self.folder, self.root_dir = folder, pathlib.Path(cwd or "", root_dir)
        folder.mkdir(parents=True)
        found = find_checkpoints(self.root_dir)
        self.restored_steps = read_env_steps(found[-1]) if found else 0
        self.lines, self.status, self.ended = [], None, None
        args = [*args, f"--output={root_dir}"]
        variables = {"ALF_FAULT_FOLDER": str(folder), "PYTHONPATH": str(_ROOT), **(variables or {})}
        variables |= {"ALF_FAULT": json.dumps(fault or {}), "ALF_FAULT_PROCESS": json.dumps(process or {})}
        paths = [str(folder / "stdout"), str(folder / "stderr")]
        self.started = time.time()
        if server is not None:
            self.pid, self._wait = server.start(args, variables, *paths)
        else:
            module = "benchmarks.faults.program" if process else "alf"
            with open(paths[0], "wb") as stdout, open(paths[1], "wb") as stderr:
                program = ["-m", module]
                if script is not None:
                    program = ["-c", script]
                elif console_script:
                    program = ["-c", f"import sys; sys.path[0] = {str(_ROOT)!r}; {_CONSOLE_SCRIPT}"]
                popen = subprocess.Popen(
                    [sys.executable, *program, *args],
                    env={**os.environ, **variables},
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    start_new_session=True,
                )
            self.pid, self._wait = popen.pid, popen.wait
        self._deadline = time.monotonic() + timeout
        self._watchers = [
            threading.Thread(target=target, daemon=True) for target in (self._read, self._watch)
        ]
        for thread in self._watchers:
            thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill_all()
        for thread in self._watchers:
            thread.join()

    def _watch(self):
        self.status = self._wait()
        self.ended = time.time()

    def _read(self):
        """Notes when each line of stderr appears."""
        path, rest = self.folder / "stderr", b""
        while not path.exists() and self.status is None:
            time.sleep(_POLL_SECONDS)
        with open(path, "rb") as file:
            while True:
                ended = self.status is not None
                *lines, rest = (rest + file.read()).split(b"\n")
                self.lines += [(time.time(), line.decode(errors="replace")) for line in lines]
                if ended:
                    return
                time.sleep(_POLL_SECONDS)

    def kill_all(self):
        """Kills every process of the training."""
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()

    def processes(self):
        """Lists the live processes: the training itself, its workers, and what they started."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                is_ours = process.environ().get("ALF_FAULT_FOLDER") == str(self.folder)
                is_ours = is_ours or os.getsid(process.pid) == self.pid
                if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def workers(self):
        """The worker processes, ordered by start."""
        return self._find("alf.workers")

    def evaluations(self):
        """The processes of the evaluation, ordered by start."""
        return self._find("alf.evaluation.session_process")

    def _find(self, module):
        found = []
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                if process.pid != self.pid and module in " ".join(process.cmdline()):
                    found.append(process)
        return sorted(found, key=lambda process: process.create_time())

    def wait_until(self, condition, seconds=None, what="something"):
        """Waits until `condition()` is true and returns its value; raises HungError after `seconds`."""
        deadline = self._deadline if seconds is None else min(self._deadline, time.monotonic() + seconds)
        while not (value := condition()):
            if self.status is not None and not (value := condition()):
                raise HungError(
                    f"waited for {what}, but training ended with status {self.status}: {self.last_line()}"
                )
            if time.monotonic() > deadline:
                self.kill_all()
                raise HungError(f"waited for {what} in vain: {self.last_line()}")
            time.sleep(_POLL_SECONDS)
        return value

    def wait_for_line(self, pattern, seconds=None):
        """Waits for a line of stderr; returns when it came."""
        return self.wait_until(lambda: self.find_line(pattern), seconds, f"the line {pattern!r}")[0]

    def find_line(self, pattern):
        """Returns (time, line) of the first line of stderr that matches, or None."""
        return next((entry for entry in list(self.lines) if re.search(pattern, entry[1])), None)

    def wait_for_end(self, seconds=None):
        """Waits for the end; returns the exit status."""
        self.wait_until(lambda: self.ended, seconds, "the end")
        for thread in self._watchers:
            thread.join()
        return self.status

    def send(self, signum, to_all=False):
        """Sends a signal to the training alone, or to all processes of its group as a terminal does."""
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if to_all else os.kill)(self.pid, signum)
        return time.time()

    def inject(self):
        """Lets a fault with `when` happen from now on; returns the time."""
        (self.folder / "now").touch()
        return time.time()

    def events(self, name):
        """The environments' events of that name, in order."""
        path = self.folder / "events"
        lines = path.read_text().splitlines() if path.exists() else []
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def num_env_steps(self):
        """Steps that the environments took in this process so far; exact even after kill -9."""
        return sum(
            struct.unpack("q", content)[0]
            for content in (path.read_bytes() for path in self.folder.glob("steps-*"))
            if len(content) == 8
        )

    def last_line(self):
        """The last line of stderr that is not empty."""
        return next((line for _, line in reversed(list(self.lines)) if line.strip()), "")

    def has_traceback(self):
        return self.find_line("^Traceback") is not None

    def left_processes(self):
        """Waits until all processes of the ended training have ended; lists the ids of those that live on."""
        deadline = time.monotonic() + _QUIET_SECONDS
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        return [process.pid for process in left]

    def steps_lost(self):
        """Environment steps that the newest checkpoint does not hold."""
        found = find_checkpoints(self.root_dir)
        saved = read_env_steps(found[-1]) if found else 0
        return max(0, self.num_env_steps() + self.restored_steps - saved)

    def find_restored(self):
        """The path of the checkpoint from which this training says that it continues, or None."""
        found = self.find_line("continues from ")
        return re.search(r"continues from (.*ckpt-\d+)", found[1])[1] if found else None


class Server:
    """A process that has imported TensorFlow; its forks train, one at a time."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.faults.program", "--serve"],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def start(self, args, variables, stdout, stderr):
        """Starts a fork; returns its process id and a function that waits for its exit status."""
        self._process.stdin.write(json.dumps([args, variables, stdout, stderr]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline()), lambda: int(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait(30)


def find_checkpoints(root_dir):
    """Lists the paths of the checkpoints that TensorFlow can read, oldest first."""
    paths = [path for path in (pathlib.Path(root_dir) / "checkpoints").glob("ckpt-*") if not path.suffix]
    paths.sort(key=lambda path: int(path.name.removeprefix("ckpt-")))
    return [str(path) for path in paths if _is_whole(path)]


def read_weights(path):
    """Reads all tensors of a checkpoint; returns a dict from name to array."""
    with without_pattern(os.path.abspath(path)) as folder:
        reader = tf.train.load_checkpoint(f"{folder}/weights")
        return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def _is_whole(path):
    try:
        return bool(read_weights(path))
    except Exception:  # damaged files raise nearly anything
        return False


def read_env_steps(path):
    """The environment steps that a checkpoint counts."""
    return next(int(x) for name, x in read_weights(path).items() if "progress/env_steps/" in name)


def read_recorded_steps(path):
    """The environment steps that the metrics in a checkpoint count."""
    state = json.loads((pathlib.Path(path) / "state.json").read_text())["state"]
    return state["driver"]["metrics"]["EnvironmentSteps"]


def are_weights_sane(path):
    """Says whether the learned floats in a checkpoint are finite, and so small that their loss is, too."""
    tensors = (np.asarray(x) for name, x in read_weights(path).items() if "learning_rate" not in name)
    return all(np.all(np.abs(x) < 1e10) for x in tensors if x.dtype.kind == "f")


def last_value(root_dir, name):
    """The last value of a summary of a run."""
    columns, rows = read_rows(str(pathlib.Path(root_dir) / PROGRESS_FILE))
    return float(rows[-1][columns.index(name)])


SIGNAL_STATUS = {signum: 128 + signum for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}


def number_of(path):
    """The train iteration in a checkpoint's name."""
    return int(path.rpartition("-")[2])
