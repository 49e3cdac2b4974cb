# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Places where runs have room: cores of this machine, or actors of a Ray cluster. Without TensorFlow.

A place, `Machine` or `Cluster`, has room for `capacity` runs at a time. `start` starts the process of a run,
`release` takes its room back, and `close` ends the use of the place.
"""

import contextlib
import fcntl
import math
import os
import signal
import subprocess
import sys
import time

from alf.distributed.ray_process import count_fits, hide_gpus, is_ready, list_nodes

LOST = 255  # the exit status of a run whose process in a cluster cannot be reached any more
_WAIT_SECONDS = 0.5  # of one look at a process in a cluster


class RunProcess:
    """A Python process that writes to a log. It gets SIGTERM when its owner has ended for any reason.

    It has a session of its own: a terminal's Ctrl-C reaches only its owner, which then decides.

    Args:
        arguments: list of texts, of Python.
        log: path of a file, which is appended to.
        import_paths: list of folders, put before the environment variable PYTHONPATH.
        gpus: list of the GPUs that it sees, as CUDA_VISIBLE_DEVICES names them; None: the GPUs of its owner.
    """

    def __init__(self, arguments, log, import_paths=(), gpus=None):
        paths = [*import_paths, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
        # An empty list hides all GPUs: TensorFlow would else take the memory of every GPU that it sees.
        if gpus is not None:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        os.makedirs(os.path.dirname(log), exist_ok=True)
        # Nothing is ever written: the process has the reading end, and only its owner the writing end, which
        # the kernel closes when the owner ends, even by SIGKILL.
        reader, self._lifeline = os.pipe()
        try:
            # The process gets a copy of the descriptor, so the file may be closed here at once.
            with open(log, "ab") as file:
                settings = dict(stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, env=env)
                self._process = subprocess.Popen(
                    [sys.executable, *arguments], pass_fds=[reader], start_new_session=True, **settings
                )
            # Makes the kernel send SIGTERM to the process when the writing end is closed. These settings
            # belong to the open file that both processes share, so they can be made here.
            fcntl.fcntl(reader, fcntl.F_SETOWN, self._process.pid)
            fcntl.fcntl(reader, fcntl.F_SETSIG, signal.SIGTERM)
            # From this call on it works: only a kill of the owner within the microseconds before would leave
            # the process behind.
            fcntl.fcntl(reader, fcntl.F_SETFL, fcntl.fcntl(reader, fcntl.F_GETFL) | os.O_ASYNC)
        except BaseException:
            os.close(self._lifeline)
            raise
        finally:
            os.close(reader)  # The process has its own copy.

    def poll(self):
        """Returns the exit status, negative after a signal; None while the process runs."""
        status = self._process.poll()
        if status is not None and self._lifeline is not None:
            # Only after its end: until then this would be the signal.
            os.close(self._lifeline)
            self._lifeline = None
        return status

    def interrupt(self):
        """Asks the process to save and end."""
        self._process.terminate()

    def kill(self):
        """Kills the process and its group, that is, also the processes that it started."""
        # It leads its group, because it has a session of its own.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Machine:
    """Starts runs on this machine, as many at a time as have room.

    Args:
        cores: list of the cores that all runs share.
        run_cores: number of cores of each run, which no other run uses meanwhile; below 1, runs use all cores
            together, and it only limits how many go on at a time.
        max_at_a_time: int or None, a further limit on the number of runs.
        gpus: list of the GPUs that all runs share, texts as CUDA_VISIBLE_DEVICES names them.
        run_gpus: number of GPUs of each run. It sees only these, and no other run sees them meanwhile; below
            1, so many runs see the same GPU as have a share of it.

    Attributes:
        capacity: int, how many runs have room at a time.
    """

    def __init__(self, cores, run_cores, max_at_a_time=None, gpus=(), run_gpus=0):
        # A GPU that several runs share is there several times: once for each of its shares, and all GPUs
        # before one is there again, so that runs are spread over them.
        self._free_gpus = list(gpus) * (int(1 / run_gpus + 1e-6) if 0 < run_gpus < 1 else 1)
        self._run_gpus = math.ceil(run_gpus)
        self._free_cores, self._run_cores = list(cores), int(run_cores)
        self._shared_cores = list(cores) if run_cores < 1 else []
        total = {"cores": len(cores), "GPUs": len(self._free_gpus), "runs": max_at_a_time}
        self.capacity = count_fits(total, {"cores": run_cores, "GPUs": self._run_gpus, "runs": 1})
        self._taken = {}  # processes -> (cores, GPUs)

    def start(self, arguments, log, import_paths=()):
        """Starts a `RunProcess` with these arguments."""
        cores, self._free_cores = _split(self._free_cores, self._run_cores)
        gpus, self._free_gpus = _split(self._free_gpus, self._run_gpus)
        before = os.sched_getaffinity(0)
        # A process inherits the cores of the thread that starts it. Other threads of this process keep
        # theirs.
        os.sched_setaffinity(0, cores or self._shared_cores)
        try:
            process = RunProcess(arguments, log, import_paths, gpus)
        finally:
            os.sched_setaffinity(0, before)
        # Not returned if the start fails: the study ends then, and nothing else starts.
        self._taken[process] = cores, gpus
        return process

    def release(self, process):
        """Takes back the cores and the GPUs of a process that has ended."""
        cores, gpus = self._taken.pop(process)
        self._free_cores = sorted(self._free_cores + cores)
        self._free_gpus += gpus

    def close(self):
        """Does nothing."""


def _split(items, count):
    return items[:count], items[count:]


def find_gpus():
    """Lists the GPUs that this process may use, texts as CUDA_VISIBLE_DEVICES names them."""
    from alf.core.devices import find_all_gpus  # here: it needs TensorFlow, and flags are checked without it

    count = len(find_all_gpus())
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = map(str, range(count)) if named is None else named.split(",")
    return [name.strip() for name in names][:count]  # CUDA ignores all after an unknown name.


class RunActor(RunProcess):
    """A `RunProcess` as an actor: if the actor ends, so does the process.

    Args:
        arguments, log, import_paths: arguments of `RunProcess`.
        folder: the current directory of the study, in which the run starts if this machine has it.
        address: address of the cluster, in which the run may have actors of its own.
    """

    def __init__(self, arguments, log, import_paths, folder, address):
        hide_gpus()
        os.environ["RAY_ADDRESS"] = address  # The run's own process finds the cluster by it.
        if os.path.isdir(folder):
            os.chdir(folder)
        super().__init__(arguments, log, import_paths)

    def wait(self):
        """Returns the exit status as `poll` does, as soon as there is one or 0.5 s have passed."""
        # An actor carries out one call after the other, so a longer wait would delay `interrupt` and `kill`.
        deadline = time.monotonic() + _WAIT_SECONDS
        while (status := self.poll()) is None and time.monotonic() < deadline:
            time.sleep(0.05)
        return status


class ClusterProcess:
    """A `RunProcess` anywhere in the cluster, with the same methods; `poll` does not wait for the actor."""

    def __init__(self, ray, actor):
        self._ray, self._actor = ray, actor
        # There is always one call of `wait` on its way: a look at it costs nothing.
        self._answer = actor.wait.remote()
        self._status = None
        self._has_begun = False  # whether the actor has answered

    def poll(self):
        if self._status is None and is_ready(self._ray, self._answer):
            try:
                self._status = self._ray.get(self._answer)
                self._has_begun = True
                self._answer = self._actor.wait.remote()
            except self._ray.exceptions.RayError:  # Its node may be gone.
                self._status = LOST
        return self._status

    def interrupt(self):
        # Not awaited, here and below: an actor whose node is gone never answers, which `poll` finds out.
        self._end(self._actor.interrupt)

    def kill(self):
        self._end(self._actor.kill)

    def _end(self, method):
        """Calls a method of the actor; ends an actor that has no room yet, which would never answer."""
        if self._has_begun:
            method.remote()
        else:
            self._ray.kill(self._actor)

    def close(self):
        """Ends the actor."""
        # With the actor its end of the lifeline is closed, so the process of the run gets SIGTERM if it
        # lives.
        self._ray.kill(self._actor)


class Cluster:
    """Starts runs in a Ray cluster, as many at a time as have room. It has the methods of `Machine`.

    The folders of the runs must be on a file system that all nodes share.

    Args:
        ray: the module, connected.
        needs: dict of the resources of each run, numbers by Ray's names: "CPU", "GPU", "memory" in bytes, and
            names that the cluster defines.
        limits: dict of the resources that all runs together may use; a resource without a limit is limited
            only by the cluster.

    Attributes:
        capacity: int, how many runs have room at a time.
    """

    def __init__(self, ray, needs, limits=()):
        self._ray = ray
        # A run needs all of its resources on one node.
        room = sum(count_fits(node, needs) for node in list_nodes(ray))
        self.capacity = min(room, count_fits(dict(limits), needs, lacking=None))
        resources = {name: x for name, x in needs.items() if x}
        options = dict(num_cpus=resources.pop("CPU", 0), num_gpus=resources.pop("GPU", 0))
        # Without restarts: the study decides whether a run that was lost is started again.
        options |= dict(memory=resources.pop("memory", None), resources=resources, max_restarts=0)
        self._make_actor = ray.remote(**options)(RunActor)

    def start(self, arguments, log, import_paths=()):
        address = self._ray.get_runtime_context().gcs_address
        actor = self._make_actor.remote(arguments, log, import_paths, os.getcwd(), address)
        return ClusterProcess(self._ray, actor)

    def release(self, process):
        """Ends the actor of a process that has ended, which frees its resources."""
        process.close()

    def close(self):
        """Leaves the cluster, which ends processes that still run."""
        self._ray.shutdown()
