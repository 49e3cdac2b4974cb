# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures splits that share worker processes: `python -m benchmarks.splits [--workload=NAME] [--rounds=3]`.

The same number of environments as one batch, as two batches with workers of their own, and as two and three
splits of one batch; a batch for the learner has one unroll of all of them each time. Prints a Markdown table
of medians over the rounds, in each of which every kind takes its turn, in a process of its own.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

from absl import app, flags

_WORKLOAD = flags.DEFINE_enum("workload", "halfcheetah", ["halfcheetah", "cartpole_python"], "What to run.")
_ROWS = flags.DEFINE_integer("rows", 384, "Environments, a multiple of 6.", lower_bound=6)
_SECONDS = flags.DEFINE_float("seconds", 10.0, "Of training, each time.", lower_bound=1.0)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Measurements of each kind.", lower_bound=1)

_COLUMNS = {
    "trained_steps_per_second": "trained steps/s",
    "rollout_only_steps_per_second": "steps/s without learning",
    "cpu_cores_used": "cores used",
    "worker_processes": "worker processes",
    "memory_of_workers_mb": "their memory, MB",
}


def make_kinds(cores):
    """Returns a dict from each kind to (batches for the driver, splits of a batch, workers of each batch)."""
    return {
        "one batch": (1, 1, cores),
        "two batches, half of the cores each": (2, 1, max(1, cores // 2)),
        "two batches, all cores each": (2, 1, cores),
        "two splits": (2, 2, cores),
        "three splits": (3, 3, cores),
    }


def measure(workload, rows, kind, seconds):
    """Runs `benchmarks.throughput` once; returns its result, a dict."""
    num_envs, num_splits, num_workers = kind
    settings = {
        "workload": workload,
        "num_envs": num_envs,
        "num_splits": num_splits,
        "num_workers": num_workers,
        "batch_size": rows // num_envs,
        "learn_queue_cap": num_envs,
        "seconds": seconds,
    }
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "result.json")
        command = [sys.executable, "-m", "benchmarks.throughput", f"--result={path}"]
        command += [f"--{name}={value}" for name, value in settings.items()]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=10 * seconds + 300)
        with open(path) as file:
            return json.load(file)


def format_row(kind, results):
    """Returns a row of the table: the medians of each column."""
    medians = [statistics.median(result[column] for result in results) for column in _COLUMNS]
    cells = [f"{x:,.0f}" if x >= 10 or x == int(x) else f"{x:.2f}" for x in medians]
    return f"| {kind} | {' | '.join(cells)} |"


def main(_):
    if _ROWS.value % 6:
        raise app.UsageError(f"--rows is {_ROWS.value}: it must be a multiple of 6")
    kinds = make_kinds(os.cpu_count())
    results = {kind: [] for kind in kinds}
    for round_ in range(_ROUNDS.value):
        for name, kind in kinds.items():
            results[name].append(measure(_WORKLOAD.value, _ROWS.value, kind, _SECONDS.value))
            rate = results[name][-1]["trained_steps_per_second"]
            print(f"{round_} {name}: {rate:,.0f}", file=sys.stderr, flush=True)
    print(f"| {_WORKLOAD.value}, {_ROWS.value} environments | {' | '.join(_COLUMNS.values())} |")
    print("|" + " --- |" * (1 + len(_COLUMNS)))
    for name in kinds:
        print(format_row(name, results[name]))


if __name__ == "__main__":
    app.run(main)
