# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trains with nothing but an environment, an algorithm and a number of steps, beside Stable-Baselines3.

    python -m benchmarks.defaults --file=FILE.jsonl [--task=ALGORITHM:ENV:STEPS ...] [--seeds=5]
        [--sb3_python=PATH]

Adds a line to the file for each run that it does not have yet, so that it may be stopped and called again.
--sb3_python is the Python of an environment with Stable-Baselines3; without it only ALF trains. Prints the
table of all runs in the file: the average return of the last 100 episodes and the seconds of the whole
process, each as mean and standard deviation over the seeds; and the median of the steps and seconds of
training until a run has the mean last return of the other library's runs, if more than half of them have.
"""

import json
import pathlib
import statistics
import subprocess
import tempfile
import time

from absl import app, flags

from benchmarks.series import TIMEOUT, add_row, read_rows, train_once

_FILE = flags.DEFINE_string("file", None, "File of the runs, JSON lines.", required=True)
_TASKS = flags.DEFINE_multi_string(
    "task",
    [
        "ppo:CartPole-v1:100_000",
        "ppo:Acrobot-v1:200_000",
        "ppo:LunarLander-v3:500_000",
        "ppo:Pendulum-v1:200_000",
        "ppo:FrozenLake-v1:200_000",
        "ppo:CliffWalking-v1:200_000",
        "ppo:Taxi-v4:500_000",
        "sac:Pendulum-v1:20_000",
        "dqn:CartPole-v1:100_000",
        "dqn:Acrobot-v1:100_000",
        "impala:CartPole-v1:200_000",
        "impala:Acrobot-v1:200_000",
    ],
    "ALGORITHM:ENV:STEPS; may be repeated.",
)
_SEEDS = flags.DEFINE_integer("seeds", 5, "Runs of each task, with the seeds 0, 1, ...", lower_bound=1)
_SB3_PYTHON = flags.DEFINE_string("sb3_python", None, "Python of an environment with Stable-Baselines3.")
_ALF = flags.DEFINE_bool("alf", True, "Trains ALF.")
_SB3 = "Stable-Baselines3"
_NEAREST = {"impala": "a2c"}  # Stable-Baselines3 has no IMPALA; A2C has the same loss without V-trace


def train_alf(algorithm, env, steps, seed):
    """Trains ALF; returns its curve."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [env, f"--algorithm={algorithm}", f"--steps={steps}", f"--seed={seed}"]
        return train_once(f"{folder}/run", *arguments)


def train_sb3(algorithm, env, steps, seed):
    """Trains Stable-Baselines3; returns its curve."""
    nearest = _NEAREST.get(algorithm, algorithm)
    flags_ = [f"--env={env}", f"--algorithm={nearest}", f"--steps={steps}", f"--seed={seed}"]
    command = [_SB3_PYTHON.value, str(pathlib.Path(__file__).with_name("sb3.py")), *flags_]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT)
    return json.loads(done.stdout.splitlines()[-1])["curve"]


def read(path):
    """Returns the runs in a file, a dict from (library, task, seed) to dict."""
    return {(row["library"], row["task"], row["seed"]): row for row in read_rows(path)}


def train_all(path, tasks, seeds, libraries):
    """Adds the runs to the file that it lacks."""
    done = read(path)
    for seed in range(seeds):
        for task in tasks:
            algorithm, env, steps = task.split(":")
            for library, train in libraries.items():
                if (library, task, seed) in done:
                    continue
                start = time.monotonic()
                curve = train(algorithm, env, int(steps), seed)
                seconds = round(time.monotonic() - start, 1)
                row = {"library": library, "task": task, "seed": seed, "seconds": seconds, "curve": curve}
                add_row(path, row)
                print(f"{library} {task} seed {seed}: {curve[-1][-1]:.1f} in {seconds} s", flush=True)


def format_table(runs):
    """Returns the table of the runs, in Markdown."""
    header = ["task", "steps", "library", "return", "seconds", "seeds", "as good as the other after"]
    lines = [f"| {' | '.join(header)} |", "| --- " * len(header) + "|"]
    for task, library in sorted({(task, library) for library, task, _ in runs}):
        mine, others = (
            [row for (name, *_), row in runs.items() if row["task"] == task and (name == library) == own]
            for own in (True, False)
        )
        algorithm, env, steps = task.split(":")
        cells = [
            _spread([row["curve"][-1][-1] for row in mine], 1),
            _spread([row["seconds"] for row in mine], 0),
            f"{len(mine)}",
            _describe_reach(mine, others),
        ]
        lines.append(f"| {algorithm} {env} | {int(steps):,} | {library} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _describe_reach(rows, others):
    """Describes when runs reach the mean last return of others: the median steps and seconds of training."""
    if not others:
        return ""
    target = statistics.fmean(row["curve"][-1][-1] for row in others)
    reached = [
        next(((steps, seconds) for steps, seconds, x in row["curve"] if x is not None and x >= target), None)
        for row in rows
    ]
    found = [x for x in reached if x is not None]
    if 2 * len(found) <= len(rows):
        return f"{len(found)} of {len(rows)} runs"
    return "{:,.0f} steps, {:.0f} s".format(*map(statistics.median, zip(*found, strict=True)))


def _spread(values, digits):
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.fmean(values):,.{digits}f} ± {deviation:,.{digits}f}"


def main(argv):
    del argv
    libraries = {"ALF": train_alf} if _ALF.value else {}
    if _SB3_PYTHON.value:
        libraries[_SB3] = train_sb3
    path = pathlib.Path(_FILE.value)
    train_all(path, _TASKS.value, _SEEDS.value, libraries)
    print(format_table(read(path)))


if __name__ == "__main__":
    app.run(main)
