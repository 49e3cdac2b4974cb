# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures what evaluation costs while training goes on: `python -m benchmarks.evaluation [--runs=3]`.

Trains without evaluation, with evaluations one after another in a thread, and in a process of its own. That
is the most that they can cost; with an interval they cost the share of the time in which one goes on. Prints
a table: trained environment steps per second, and their ratio to those without evaluation in the same round.
"""

import json
import re
import statistics
import subprocess
import sys
import tempfile

from absl import app, flags

_RUNS = flags.DEFINE_integer("runs", 3, "Rounds; each trains in every way.", lower_bound=1)
_SECONDS = flags.DEFINE_float("seconds", 15.0, "Of training, each time.", lower_bound=1.0)

_COMMON = ("Experiment.seed = 0", "StopCriteria.target_return = None")
_IMPALA = ("examples/impala_cartpole.gin",)
WORKLOADS = {
    "CartPole, vector environment": _IMPALA,
    "CartPole, Python objects": (
        *_IMPALA,
        "--num_workers=0",
        "--Experiment.num_envs=64",
        "--num_env_threads=1",
    ),
    "HalfCheetah, workers": ("examples/appo_halfcheetah.gin",),
}
_EVALUATOR = (
    "Trainer.evaluator = @Evaluator",
    "Evaluator.interval_steps = 1",
    "Evaluator.num_episodes = 20",
)
WAYS = {
    "none": (),
    "thread": (*_EVALUATOR, 'Evaluator.place = "thread"'),
    "process": (*_EVALUATOR, 'Evaluator.place = "process"'),
}


def train(arguments, bindings, seconds):
    """Trains once; returns trained environment steps per second, and the number of evaluations."""
    bindings = [*_COMMON, f"StopCriteria.max_seconds = {seconds}", *bindings]
    with tempfile.TemporaryDirectory() as root_dir:
        command = [sys.executable, "-m", "alf", "train", *arguments, f"--output={root_dir}"]
        command += [f"--{binding}" for binding in bindings]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=seconds + 200)
    env_steps = int(re.search(r"'env_steps': (\d+)", done.stderr)[1])
    return env_steps / seconds, done.stderr.count("evaluation at ")


def main(_):
    results = {}
    for round_ in range(_RUNS.value):
        for workload, arguments in WORKLOADS.items():
            baseline = None
            for way, bindings in WAYS.items():
                rate, count = train(arguments, bindings, _SECONDS.value)
                baseline = baseline or rate
                results.setdefault((workload, way), []).append((rate, rate / baseline, count))
                print(f"{round_} {workload}, {way}: {rate:,.0f}, {count}", file=sys.stderr, flush=True)
    print("| workload | evaluation | steps/s | ratio | evaluations |")
    print("| --- | --- | --- | --- | --- |")
    for (workload, way), rows in results.items():
        rates, ratios, counts = zip(*rows)
        rate, ratio, count = statistics.median(rates), statistics.median(ratios), statistics.median(counts)
        shown = f"{ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"| {workload} | {way} | {rate:,.0f} | {shown} | {count:.0f} |")
    print(json.dumps({f"{workload}, {way}": rows for (workload, way), rows in results.items()}))


if __name__ == "__main__":
    app.run(main)
