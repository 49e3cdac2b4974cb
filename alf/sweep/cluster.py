# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The processes of runs in a Ray cluster. Without TensorFlow.

`alf.distributed.cluster.connect` comes before, because it says to Ray where to listen when Ray is imported.
"""

import os
import time

from alf.distributed.ray_process import is_ready
from alf.errors import ConfigError
from alf.sweep.processes import LOST, RunProcess

_GB = 1e9
_WAIT_SECONDS = 0.5  # of one look at a process


class RunActor:
    """What an actor does: it has one `RunProcess`, which ends with it.

    Args:
        arguments, log, import_paths: as of `RunProcess`.
        folder: the current directory of the sweep; that of the run, too, if this machine has it.
    """

    def __init__(self, arguments, log, import_paths, folder):
        if os.path.isdir(folder):
            os.chdir(folder)
        self._process = RunProcess(arguments, log, import_paths)

    def wait(self):
        """Returns as `RunProcess.poll` does, after a while."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while (status := self._process.poll()) is None and time.monotonic() < deadline:
            time.sleep(0.05)
        return status

    def interrupt(self):
        self._process.interrupt()

    def kill(self):
        self._process.kill()


class ClusterProcess:
    """A `RunProcess` anywhere in the cluster, with the same methods; `poll` does not wait for the actor."""

    def __init__(self, ray, actor):
        self._ray, self._actor = ray, actor
        self._answer = actor.wait.remote()
        self._status = None

    def poll(self):
        if self._status is None and is_ready(self._ray, self._answer):
            try:
                self._status = self._ray.get(self._answer)
                self._answer = self._actor.wait.remote()
            except self._ray.exceptions.RayError:  # its node is gone, for example
                self._status = LOST
        return self._status

    def interrupt(self):
        self._actor.interrupt.remote()

    def kill(self):
        self._actor.kill.remote()

    def close(self):
        """Ends the actor."""
        self._ray.kill(self._actor)


class Cluster:
    """Starts runs in a Ray cluster, as many at a time as have room; as `Machine` does on one machine.

    The folders of the runs must be on a file system that all nodes share.

    Args:
        ray: the module, connected.
        run_cores, run_memory: what each run occupies: CPUs, and GB or None.
        max_cores, max_memory: what all of them may occupy; None: what the cluster has.
        run_gpus: int, GPUs that Ray gives each run.

    Raises:
        ConfigError: if no node has room for a run.
    """

    def __init__(self, ray, run_cores, run_memory=None, max_cores=None, max_memory=None, run_gpus=0):
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        memory = (run_memory or 0.0) * _GB
        occupied = {"CPU": run_cores, "GPU": run_gpus, "memory": memory}
        fits = [min(_divide(node.get(name, 0), share) for name, share in occupied.items()) for node in nodes]
        if not any(fits):
            raise ConfigError(
                f"--run_cores is {run_cores}, --run_memory {run_memory}, --run_gpus {run_gpus}: no node of "
                "the cluster has so much"
            )
        limits = [sum(fits), _divide(max_cores, run_cores), _divide(max_memory, run_memory)]
        self._max = int(min(limits))
        self._ray, self._running = ray, set()
        options = dict(num_cpus=run_cores, num_gpus=run_gpus, memory=memory or None, max_restarts=0)
        self._make_actor = ray.remote(**options)(RunActor)

    def has_room(self):
        return len(self._running) < self._max

    def start(self, arguments, log, import_paths=()):
        actor = self._make_actor.remote(arguments, log, import_paths, os.getcwd())
        process = ClusterProcess(self._ray, actor)
        self._running.add(process)
        return process

    def release(self, process):
        self._running.remove(process)
        process.close()


def _divide(total, share):
    """How often a share is in a total; any number of times if nothing is asked for, or nothing limits it."""
    return float("inf") if total is None or not share else total // share
