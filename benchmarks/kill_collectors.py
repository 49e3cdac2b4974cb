# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trains CartPole while collectors and nodes are lost: `python -m benchmarks.kill_collectors`.

Starts a Ray cluster of three nodes on this machine: a head, to which the learner belongs, and two for the
collectors. Every `--interval` seconds it kills a collector (SIGKILL), or in turn removes a node with all its
processes and adds a fresh one, until the run reaches the target return of its gin file. Prints each of these
events, then one JSON object. The exit status is 1 if the run ends otherwise, or takes longer than `--limit`.
"""

import contextlib
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

import psutil
from absl import app, flags

_CONFIG_FILE = flags.DEFINE_string("config", "examples/impala_cartpole.gin", "Gin file of what to train.")
_PARAM = flags.DEFINE_multi_string("param", [], "Further settings of the run; may be repeated.")
_COLLECTORS = flags.DEFINE_integer("collectors", 4, "How many.", lower_bound=1)
_STEP_MS = flags.DEFINE_float(
    "step_ms", 100.0, "Milliseconds that each step sleeps, so that the run takes long."
)
_INTERVAL = flags.DEFINE_float("interval", 20.0, "Seconds from one loss to the next.", lower_bound=0.1)
_LIMIT = flags.DEFINE_float("limit", 1800.0, "Seconds after which the run is given up.", lower_bound=1.0)

_LOG = flags.DEFINE_string("log", None, "File for the log of the run; without it, nothing is kept.")

_END_SECONDS = 60.0  # for a run to end after a signal
_CONFIG = """
import benchmarks.slow_steps
Experiment.env = @SlowSteps
SlowSteps.ms = {step_ms}
Experiment.num_envs = 0
Experiment.num_collectors = {collectors}
RayCollectors.num_envs = 128
RayCollectors.num_groups = 1
# An unroll of each makes a batch: with less, the weights change several times while an unroll is made, and
# learning breaks down now and then.
DriverSettings.learn_queue_cap = {collectors}
CollectorSettings.max_restarts = 1_000_000  # far more losses than a run should have
"""


class Nodes:
    """A Ray cluster on this machine, from which collectors and nodes are taken.

    Args:
        folder: for Ray's files; a short path, because those of its sockets have a limit.
        num_cpus: of each of the two nodes for collectors.
    """

    def __init__(self, folder, num_cpus):
        # Ray reads both when it is imported. It listens on the loopback address, and no other cluster of this
        # machine is touched.
        os.environ.update(RAY_TMPDIR=folder, RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0")
        from ray.cluster_utils import Cluster

        self._num_cpus = num_cpus
        self._cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
        )
        self._nodes = [self._add(), self._add()]

    @property
    def address(self):
        """Where the cluster answers, "HOST:PORT"."""
        return self._cluster.address

    def kill_collector(self):
        """Kills one of the collectors; returns whether there was one."""
        processes = psutil.Process().children(recursive=True)
        random.shuffle(processes)
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):  # It has ended meanwhile.
                if "CollectorActor" in process.name():
                    process.kill()
                    return True
        return False

    def replace_node(self):
        """Removes the older node, whose processes are killed, and adds a new one."""
        self._cluster.remove_node(self._nodes.pop(0), allow_graceful=False)
        self._nodes.append(self._add())
        return True

    def close(self):
        self._cluster.shutdown()

    def _add(self):
        return self._cluster.add_node(num_cpus=self._num_cpus)


def start_training(folder, address, log):
    """Starts alf train; returns its `subprocess.Popen`.

    Args:
        folder: `pathlib.Path`, for what it needs and writes.
        address: of the Ray cluster.
        log: `pathlib.Path` of its log.
    """
    config = _CONFIG.format(step_ms=_STEP_MS.value, collectors=_COLLECTORS.value)
    (folder / "collectors.gin").write_text(config)
    command = [sys.executable, "-m", "alf", "train", _CONFIG_FILE.value]
    command += [f"{folder}/collectors.gin", f"--output={folder}/run", f"--ray_address={address}"]
    command += [f"--{param}" for param in _PARAM.value]
    with log.open("w") as file:
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)


def take_away(nodes, training, interval, limit):
    """Takes a collector or a node away, in turn, after each interval, until the training ends.

    Args:
        nodes: `Nodes`.
        training: `subprocess.Popen`.
        interval, limit: seconds; after the limit the training goes on alone.

    Returns:
        list of texts: what was done, in order.
    """
    losses, start = [], time.monotonic()
    while (left := start + limit - time.monotonic()) > 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            training.wait(min(interval, left))
            break
        loss = (nodes.kill_collector, nodes.replace_node)[len(losses) % 2]
        if loss():
            losses.append(loss.__name__)
            print(f"{time.monotonic() - start:.0f} s: {loss.__name__}", flush=True)
    return losses


def end(training):
    """Ends the training, if it goes on, and waits for it."""
    training.terminate()
    try:
        training.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        training.kill()
        training.wait()


def describe(log, done, losses, seconds):
    """What happened, a dict; "reached" says whether the run reached its target return.

    Args:
        log, done: `pathlib.Path`s of the run's log and its `done.json`.
        losses: what `take_away` returned.
        seconds: of the whole.
    """
    log = log.read_text()
    end = json.loads(done.read_text()) if done.exists() else {"reason": f"unknown: {log[-2000:]}"}
    return {
        "reached": end["reason"].startswith("target_return="),
        **end,
        "collectors_killed": losses.count("kill_collector"),
        "nodes_replaced": losses.count("replace_node"),
        "collectors_replaced": len(re.findall(r": restart \d+ of", log)),
        "seconds": round(seconds, 1),
    }


def main(argv):
    del argv
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder, start = pathlib.Path(name), time.monotonic()
        log = pathlib.Path(_LOG.value or folder / "log")
        nodes = Nodes(name, num_cpus=_COLLECTORS.value)  # all fit on the node that is left
        training = start_training(folder, nodes.address, log)
        try:
            losses = take_away(nodes, training, _INTERVAL.value, _LIMIT.value)
        finally:
            end(training)
            nodes.close()
        outcome = describe(log, folder / "run" / "done.json", losses, time.monotonic() - start)
    print(json.dumps(outcome, indent=1))
    return 0 if outcome["reached"] else 1


if __name__ == "__main__":
    app.run(main)
