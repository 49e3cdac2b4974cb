# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures the time to a solved CartPole-v1: `python -m benchmarks.time_to_score [--result=FILE]`.

Trains examples/impala_cartpole.gin once per seed, each run a process of its own, and prints one JSON object:
seconds from the first train step and from the start of the process to the target return, and their medians.
"""

import json
import re
import statistics
import subprocess
import sys
import tempfile
import time

from absl import app, flags

_GIN_FILE = flags.DEFINE_string("gin_file", "examples/impala_cartpole.gin", "What to train.")
_SEEDS = flags.DEFINE_integer("seeds", 5, "Runs, with the seeds 0, 1, ...", lower_bound=1)
_MAX_SECONDS = flags.DEFINE_integer("max_seconds", 120, "Gives up after that many seconds.")
_RESULT = flags.DEFINE_string("result", None, "File to write the result to.")


def train(gin_file, seed, max_seconds):
    """Trains once; returns a dict of seconds, or raises RuntimeError if the target was missed."""
    with tempfile.TemporaryDirectory() as root_dir:
        command = [sys.executable, "-m", "alf", "train", gin_file]
        command += [f"--output={root_dir}", f"--seed={seed}"]
        command += [f"--StopCriteria.max_seconds={max_seconds}"]
        start = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, timeout=max_seconds + 120)
        total = time.monotonic() - start
    if "target_return" not in done.stdout:
        raise RuntimeError(f"seed {seed} missed its target: {done.stdout}{done.stderr[-2000:]}")
    since_first = float(re.search(r"([\d.]+) s since the first train step", done.stderr)[1])
    env_steps = int(re.search(r"'env_steps': (\d+)", done.stderr)[1])
    return {
        "seed": seed,
        "seconds_from_first_train_step": since_first,
        "seconds_from_process_start": round(total, 2),
        "env_steps": env_steps,
    }


def main(argv):
    del argv
    runs = [train(_GIN_FILE.value, seed, _MAX_SECONDS.value) for seed in range(_SEEDS.value)]
    medians = {
        f"median_{name}": statistics.median(run[name] for run in runs) for name in runs[0] if name != "seed"
    }
    text = json.dumps({"gin_file": _GIN_FILE.value, **medians, "runs": runs}, indent=2)
    print(text)
    if _RESULT.value:
        with open(_RESULT.value, "w") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    app.run(main)
