# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Compares IMPALA of ALF and of RLlib on CartPole-v1, with equal workers on one machine.

RLlib needs an environment of its own:

    python -m venv /tmp/rllib && /tmp/rllib/bin/pip install "ray[rllib]" torch
    python -m benchmarks.compare_rllib --rllib_python=/tmp/rllib/bin/python --workers=1,2,4

ALF: `alf benchmark` of examples/impala_cartpole.gin, with a collector for each worker and the learner alone
in its process. RLlib: `benchmarks/peers/rllib.py`, with an env runner for each worker and a learner process.
Both: Gymnasium's NumPy CartPole, as many environments in each worker, unrolls of the same length, an update
for each unroll of a worker, 2 shared layers of 64 units. They run in turn. Prints a Markdown table of the
environment steps per second that the learner trained on: medians, and the ratio's range over the rounds.
"""

import json
import statistics
import sys

from absl import app, flags

from benchmarks.peers import running

_RLLIB_PYTHON = flags.DEFINE_string("rllib_python", None, "Interpreter that has RLlib.", required=True)
_WORKERS = flags.DEFINE_list("workers", ["1", "2", "4"], "How many, one row of the table for each.")
_ENVS = flags.DEFINE_integer("envs", 32, "Environments of a worker.", lower_bound=1)
_UNROLL_LENGTH = flags.DEFINE_integer("unroll_length", 32, "Steps of an unroll.", lower_bound=1)
_SECONDS = flags.DEFINE_float("seconds", 20.0, "Of each measurement.", lower_bound=0.1)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Measurements of each row.", lower_bound=1)


def alf_command(workers):
    """The command that measures ALF."""
    settings = {
        "Experiment.num_envs": 0,
        "Experiment.num_collectors": workers,
        "Experiment.unroll_length": _UNROLL_LENGTH.value,
        "RayCollectors.num_groups": 1,
        "CollectorSettings.num_cpus": 0,  # they share the cores that there are
        "RayCollectors.num_envs": _ENVS.value,
    }
    command = [sys.executable, "-m", "alf", "benchmark", "examples/impala_cartpole.gin"]
    command += [f"--{name}={value}" for name, value in settings.items()]
    return [*command, f"--measure_seconds={_SECONDS.value}"]


def rllib_command(workers):
    """The command that measures RLlib."""
    command = [_RLLIB_PYTHON.value, "benchmarks/peers/rllib.py", "--workload=cartpole_vector"]
    command += [f"--workers={workers}", f"--envs={_ENVS.value}", f"--unroll_length={_UNROLL_LENGTH.value}"]
    return [*command, f"--seconds={_SECONDS.value}"]


def run(command, limit):
    """Runs a command for at most `limit` seconds; returns the JSON object that it prints."""
    output, _ = running.run(command, limit)
    return json.loads(output[output.index("{") :])


def row(workers, alf, rllib):
    """A line of the table; `alf` and `rllib` are lists of steps per second, one for each round."""
    ratios = [a / r for a, r in zip(alf, rllib, strict=True)]
    ratio = f"{statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"
    return f"| {workers} | {statistics.median(alf):,.0f} | {statistics.median(rllib):,.0f} | {ratio} |"


def main(argv):
    del argv
    limit = 3 * _SECONDS.value + 240  # for warm-up and start, too
    print("| workers | ALF, steps/s | RLlib, steps/s | ratio |\n| --- | --- | --- | --- |")
    for workers in map(int, _WORKERS.value):
        alf, rllib = [], []
        for _ in range(_ROUNDS.value):
            alf.append(run(alf_command(workers), limit)["training"]["env_steps_per_second"])
            rllib.append(run(rllib_command(workers), limit)["steps_per_second"])
        print(row(workers, alf, rllib), flush=True)


if __name__ == "__main__":
    app.run(main)
