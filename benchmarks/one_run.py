# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""One training run in a process of its own, as text in and figures out."""

import glob
import re
import statistics
import subprocess
import sys
import tempfile
from typing import NamedTuple

from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.util import tensor_util


class Run(NamedTuple):
    """What one run did; None where it did not reach the target."""

    steps_per_second: float
    seconds: float
    env_steps: int
    lag: float


def train(config, seed, max_seconds, target):
    """Trains once; returns a `Run`."""
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/config.gin", "w") as file:
            file.write(config)
        command = [sys.executable, "-m", "alf", "train", f"{folder}/config.gin"]
        command += [f"--output={folder}/run", f"--seed={seed}"]
        command += [f"--StopCriteria.max_seconds={max_seconds}"]
        command += ["--Summaries.interval=0.5"]
        if target is not None:
            command += [f"--StopCriteria.target_return={target}"]
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
