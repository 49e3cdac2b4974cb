# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures several policies beside one: `python -m benchmarks.several_policies FILE.gin [--rounds=3]`.

The rows of all environments take the policies in turn. Two kinds of it: the batch of one policy is divided
among the policies, so that there are more and smaller updates; or each policy has batches of that size, so
that there are as many updates as with one policy. Small updates cost more of themselves, so one policy makes
updates of the size of the first kind, too. Prints a Markdown table of medians over the rounds, in each
of which every kind takes its turn, in a process of its own.
"""

import json
import statistics
import subprocess
import sys

import gin
from absl import app, flags

from alf.config.parsing import parse_config

_POLICIES = flags.DEFINE_integer("policies", 2, "How many policies.", lower_bound=2)
_SECONDS = flags.DEFINE_float("seconds", 10.0, "Of training, each time.", lower_bound=1.0)
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Measurements of each kind.", lower_bound=1)


def make_kinds(num_policies, num_sequences, num_minibatches):
    """Returns a dict from each kind to its gin bindings.

    Args:
        num_policies: int.
        num_sequences: int, the sequences in a batch of a single policy.
        num_minibatches: int, the updates that a single policy makes of a batch.
    """
    names = tuple(f"policy_{i}" for i in range(num_policies))
    several = [
        "Experiment.policies=@Policies()",
        f"Policies.names={names}",
        "DriverSettings.learn_queue_cap=1",
    ]
    divided = max(1, num_sequences // num_policies)
    return {
        "one policy": [],
        "one policy, smaller updates": [f"UnrollLearner.num_minibatches={num_minibatches * num_policies}"],
        f"{num_policies} policies, batch divided": [*several, f"Policies.num_sequences={divided}"],
        f"{num_policies} policies, batch for each": [*several, f"Policies.num_sequences={num_sequences}"],
    }


def count_batch(gin_files):
    """Returns the sequences in a batch of a single policy, and the updates it makes of them: two ints."""
    parse_config(gin_files)
    num_unrolls = _query("DriverSettings.learn_queue_cap")
    num_rows = _query("Experiment.num_envs") // _query("Experiment.num_groups")
    return num_unrolls * num_rows, _query("UnrollLearner.num_minibatches")


def _query(setting):
    try:
        return gin.query_parameter(setting)
    except ValueError:
        return 1  # The default of each.


def measure(gin_files, bindings, seconds):
    """Runs `alf benchmark` once; returns the trained steps per second, a float."""
    command = [sys.executable, "-m", "alf", "benchmark", *gin_files, f"--measure_seconds={seconds}"]
    command += [f"--{line}" for line in bindings]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=10 * seconds + 300)
    return json.loads(done.stdout)["training"]["env_steps_per_second"]


def format_table(title, results):
    """Returns a table of the medians of rates and of their ratios in a round, dict from kind to rates."""
    lines = [f"| {title} | trained steps/s | beside one policy |", "| --- | --- | --- |"]
    for kind, rates in results.items():
        ratio = statistics.median(x / y for x, y in zip(rates, results["one policy"], strict=True))
        lines.append(f"| {kind} | {statistics.median(rates):,.0f} | {ratio:.2f} |")
    return "\n".join(lines)


def main(argv):
    kinds = make_kinds(_POLICIES.value, *count_batch(argv[1:]))
    results = {kind: [] for kind in kinds}
    for round_ in range(_ROUNDS.value):
        for kind, bindings in kinds.items():
            results[kind].append(measure(argv[1:], bindings, _SECONDS.value))
            print(f"{round_} {kind}: {results[kind][-1]:,.0f}", file=sys.stderr, flush=True)
    print(format_table(", ".join(argv[1:]), results))


if __name__ == "__main__":
    app.run(main)
