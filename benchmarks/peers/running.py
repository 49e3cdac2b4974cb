# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Runs ALF and the peers as commands, and measures the memory of all their processes."""

import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from typing import NamedTuple

import psutil

from benchmarks.peers.setups import REPLAY_RATIOS, SETUPS, SMALL, preset_settings

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = pathlib.Path(__file__).resolve().parent
VENVS = ROOT / ".peers"
_OTHER_SECONDS = 600  # that a command may need beside those that are measured


class Peer(NamedTuple):
    """A library: the folder of its virtual environment, what it runs, and the choices of its flags."""

    venv: str
    scripts: dict  # of each algorithm
    workloads: tuple
    choices: dict = {}  # flag -> values that a short search tries

    def python(self):
        return VENVS / self.venv / "bin" / "python"

    def variants(self, workload):
        """Lists the arguments of all variants of a workload."""
        choices = {"vector": SETUPS[workload].vectors, **self.choices}
        if SETUPS[workload].algorithm != "ppo" or SETUPS[workload].preset:
            choices.pop("groups", None)
        if not self.choices:
            return [[]]
        values = itertools.product(*choices.values())
        return [[f"--{name}={x}" for name, x in zip(choices, row)] for row in values]


_OBJECTS = "cartpole_python", "pong", "halfcheetah"  # whose environments are Python objects
_PROCESSES = {"vector": ("inprocess", "workers"), "threads": (1, 2)}
PEERS = {
    "torch": Peer(
        "torch",
        {"ppo": "torch_ppo.py", "sac": "torch_sac.py", "dqn": "torch_dqn.py"},
        tuple(SETUPS),
        {"groups": (1, 2), "threads": (1, 2)},
    ),
    "sample_factory": Peer("sample_factory", {"ppo": "appo.py"}, _OBJECTS),
    "rllib": Peer("rllib", {"ppo": "rllib.py"}, (*_OBJECTS, "cartpole_vector")),
    "pufferlib": Peer("pufferlib", {"ppo": "puffer.py"}, _OBJECTS, _PROCESSES),
    # In one process: its workers are a process for each environment.
    "sb3": Peer(
        "sb3",
        dict.fromkeys(("ppo", "sac", "dqn"), "sb3_speed.py"),
        (*_OBJECTS, *REPLAY_RATIOS, *SMALL),
        {"vector": ("inprocess",), "threads": (1, 2)},
    ),
    "sbx": Peer(
        "sbx",
        dict.fromkeys(("ppo", "sac", "dqn"), "sb3_speed.py"),
        (*_OBJECTS, *REPLAY_RATIOS, *SMALL),
        {"library": ("sbx",), "vector": ("inprocess",), "threads": (1, 2)},
    ),
}


def installed(names):
    """Returns the peers that are there, and says which are not."""
    there = [name for name in names if PEERS[name].python().exists()]
    for name in names:
        if name not in there:
            print(f"{name} is left out: {PEERS[name].python()} is missing, see make peers", file=sys.stderr)
    return there


def run(command, limit, folder=ROOT):
    """Runs a command in a folder for at most `limit` seconds.

    Returns:
        what it has printed, and the peak of the memory of its processes in MB.
    """
    # The second one keeps Ray on the loopback address, see `alf.distributed.cluster.connect`.
    env = {**os.environ, "RAY_ADDRESS": "", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            list(map(str, command)), cwd=folder, env=env, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        peak = [0.0]
        watcher = threading.Thread(target=_watch_memory, args=(process, peak))
        watcher.start()
        try:
            output, _ = process.communicate(timeout=limit)
        finally:
            for child in _processes(process.pid):
                child.kill()
            watcher.join()
        if process.returncode:
            errors.seek(0)
            raise RuntimeError(f"{' '.join(map(str, command))} failed: {errors.read()[-2000:]}")
    return output, peak[0]


def _watch_memory(process, peak):
    while process.poll() is None:
        peak[0] = max(peak[0], sum(map(_memory_mb, _processes(process.pid))))
        time.sleep(1.0)


def _processes(pid):
    """Lists a process and those that it has started, directly or not; [] if it has ended."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _memory_mb(process):
    """The proportional set size, in which memory that processes share counts once; 0 if it has ended."""
    try:
        return process.memory_full_info().pss / 2**20
    except psutil.Error:
        return 0.0


def measure_alf(workload, seconds):
    """Runs ALF, and a lean loop if there is one; returns ALF's figures under the names that the peers use."""
    output, memory = run(alf_command(workload, seconds), 4 * seconds + _OTHER_SECONDS)
    figures = alf_figures(workload, json.loads(output[output.index("{") :]), memory)
    if SETUPS[workload].preset:
        output, _ = run(lean_command(workload, seconds), 2 * seconds + _OTHER_SECONDS)
        figures["limit_steps_per_second"] = read_line(output)["steps_per_second"]
    return figures


def alf_command(workload, seconds):
    """Makes the command that measures ALF: `benchmarks.throughput`, or `alf benchmark` of a preset."""
    setup = SETUPS[workload]
    if setup.preset:
        settings = preset_settings(setup.preset, setup.batch_envs)
        flags = [f"--{name}={x}" for name, x in settings.items()]
        command = "-m", "alf", "benchmark", setup.env, f"--algorithm={setup.preset}"
        return [sys.executable, *command, f"--measure_seconds={seconds}", *flags]
    flags = [f"--workload={workload}", f"--seconds={seconds}"]
    if workload in REPLAY_RATIOS:
        flags.append(f"--replay_ratio={REPLAY_RATIOS[workload]}")
    return [sys.executable, "-m", "benchmarks.throughput", *flags]


def lean_command(workload, seconds):
    """Makes the command that measures the lean loop of a preset."""
    setup = SETUPS[workload]
    flags = f"--preset={setup.preset}", f"--num_envs={setup.batch_envs}", f"--seconds={seconds}"
    return [sys.executable, "-m", "benchmarks.limits.loop", *flags]


def alf_figures(workload, result, memory):
    """Makes a row of ALF of what `alf_command` has printed."""
    setup = SETUPS[workload]
    if setup.preset:
        figures = {
            "steps_per_second": "env_steps_per_second",
            "updates_per_second": "updates_per_second",
        }
        result, variant = result["training"], setup.preset.upper()
    else:
        figures = {
            "steps_per_second": "trained_steps_per_second",
            "updates_per_second": "updates_per_second",
            "seconds_to_first_update": "seconds_to_first_train_step",
        }
        variant = "IMPALA" if setup.algorithm == "ppo" else ""
    figures = {name: result[theirs] for name, theirs in figures.items()}
    return {**figures, "peak_memory_mb": memory, "variant": variant}


def measure_peer(name, workload, seconds, arguments=()):
    """Runs a peer with a variant's arguments; returns its figures."""
    peer = PEERS[name]
    script = SCRIPTS / peer.scripts[SETUPS[workload].algorithm]
    command = [peer.python(), script, f"--workload={workload}", f"--seconds={seconds}", *arguments]
    with tempfile.TemporaryDirectory() as folder:  # PufferLib leaves a link where it starts
        output, memory = run(command, 2 * seconds + _OTHER_SECONDS, folder)
    return {**read_line(output), "peak_memory_mb": memory, "arguments": list(arguments)}


def read_line(output):
    """Reads the last line that is a JSON object of what a script has printed."""
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if not lines:
        raise RuntimeError(f"no figures in {output[-2000:]!r}")
    return json.loads(lines[-1])


def best_variant(results):
    """Returns the arguments of the fastest of some figures."""
    return max(results, key=lambda result: result["updates_per_second"])["arguments"]
