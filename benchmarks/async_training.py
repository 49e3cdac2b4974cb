# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Compares drivers on the same task: `python -m benchmarks.async_training [--seeds=3] [GIN_FILE ...]`.

Trains every gin file with the synchronous driver and with the asynchronous one under several settings, each
run a process of its own, with the same batch: all environments once. Prints a Markdown table: steps trained
per second, wall time and environment steps to the target return, policy lag; medians over the seeds.
"""

import glob
import re
import statistics
import subprocess
import sys
import tempfile
from typing import NamedTuple

from absl import app, flags
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.util import tensor_util

_SEEDS = flags.DEFINE_integer("seeds", 3, "Runs of each, with the seeds 0, 1, ...", lower_bound=1)
_MAX_SECONDS = flags.DEFINE_integer("max_seconds", 600, "Gives up a run after that many seconds.")
_TARGET = flags.DEFINE_float("target_return", None, "In place of the gin files' own.")

_GIN_FILES = ("examples/appo_cartpole.gin", "examples/appo_halfcheetah.gin")
_ASYNC = ("Experiment.driver_ctor = @AsyncOffPolicyDriver",)
DRIVERS = {
    "sync": ("Experiment.driver_ctor = @SyncOffPolicyDriver",),
    "async, collects while it waits": (*_ASYNC, "AsyncOffPolicyDriver.max_waiting_batches = 0"),
    "async": _ASYNC,
    "async, 4 batches may wait": (*_ASYNC, "AsyncOffPolicyDriver.max_waiting_batches = 4"),
    "async, weights every 16 updates": (*_ASYNC, "AsyncOffPolicyDriver.parameter_update_period = 16"),
}


class Run(NamedTuple):
    """What one run did; None where it did not reach the target."""

    steps_per_second: float
    seconds: float
    env_steps: int
    lag: float


def make_config(text, driver, num_envs=2):
    """A gin file's text with another driver whose batch is one unroll of every environment."""
    lines = text.splitlines()
    lines = [x for x in lines if not x.startswith(("AsyncOffPolicyDriver.", "Experiment.num_envs"))]
    lines += [*DRIVERS[driver], f"Experiment.num_envs = {num_envs}"]
    if driver != "sync":
        lines += [f"AsyncOffPolicyDriver.learn_queue_cap = {num_envs}"]
    return "\n".join(lines) + "\n"


def train(config, seed, max_seconds, target):
    """Trains once; returns a `Run`."""
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/config.gin", "w") as file:
            file.write(config)
        command = [sys.executable, "-m", "alf.bin.train", f"--gin_file={folder}/config.gin"]
        command += [f"--root_dir={folder}/run", f"--gin_param=Experiment.seed={seed}"]
        command += [f"--gin_param=StopCriteria.max_seconds={max_seconds}"]
        command += ["--gin_param=Trainer.summary_interval=0.5"]
        if target is not None:
            command += [f"--gin_param=StopCriteria.target_return={target}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=max_seconds + 120)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed: {done.stderr[-2000:]}")
        lag = statistics.mean(_values(f"{folder}/run", "train/policy_lag_mean"))
    seconds = float(re.search(r"([\d.]+) s since the first train step", done.stderr)[1])
    env_steps = int(re.search(r"'env_steps': (\d+)", done.stderr)[1])
    there = "target_return" in done.stdout
    return Run(env_steps / seconds, seconds if there else None, env_steps if there else None, lag)


def _values(root_dir, tag):
    (path,) = glob.glob(f"{root_dir}/train/*tfevents*")
    values = (value for event in EventFileLoader(path).Load() for value in event.summary.value)
    return [float(tensor_util.make_ndarray(value.tensor)) for value in values if value.tag == tag]


def row(driver, runs):
    """A line of the table."""

    def median(name, text):
        values = [getattr(run, name) for run in runs if getattr(run, name) is not None]
        missing = f" ({len(values)} of {len(runs)})" if len(values) < len(runs) else ""
        return (text.format(statistics.median(values)) if values else "-") + missing

    figures = [
        median("steps_per_second", "{:,.0f}"),
        median("seconds", "{:.1f}"),
        median("env_steps", "{:,.0f}"),
        median("lag", "{:.1f}"),
    ]
    return f"| {driver} | " + " | ".join(figures) + " |"


def main(argv):
    for gin_file in argv[1:] or _GIN_FILES:
        with open(gin_file) as file:
            text = file.read()
        runs = {driver: [] for driver in DRIVERS}
        for seed in range(_SEEDS.value):  # in turn, so that what else the machine does hits all alike
            for driver in DRIVERS:
                config = make_config(text, driver)
                runs[driver].append(train(config, seed, _MAX_SECONDS.value, _TARGET.value))
        print(f"\n{gin_file}\n")
        print("| driver | steps/s | seconds to score | steps to score | mean policy lag |")
        print("| --- | --- | --- | --- | --- |")
        for driver, results in runs.items():
            print(row(driver, results), flush=True)


if __name__ == "__main__":
    app.run(main)
