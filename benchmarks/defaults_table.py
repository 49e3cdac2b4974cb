# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The tables of `benchmarks.defaults` in docs/measured.md."""

import statistics

COMMAND = "python -m benchmarks.defaults --machine=NAME"
TASKS = [
    "ppo:CartPole-v1:100_000",
    "ppo:Acrobot-v1:200_000",
    "ppo:LunarLander-v3:500_000",
    "ppo:Pendulum-v1:200_000",
    "ppo:HalfCheetah-v5:500_000",
    "ppo:Hopper-v5:500_000",
    "dqn:CartPole-v1:100_000",
    "dqn:Acrobot-v1:100_000",
    "sac:Pendulum-v1:20_000",
    "td3:Pendulum-v1:20_000",
]
NAMES = {"ALF": "ALF", "sb3": "Stable-Baselines3", "sbx": "SBX", "torch": "CleanRL's settings"}


def format_tables(rows):
    """Returns the tables of all runs, in Markdown: one for each machine."""
    machines = sorted({row["machine"] for row in rows})
    return "\n\n".join(_format_table([row for row in rows if row["machine"] == x]) for x in machines)


def _format_table(rows):
    header = ["algorithm", "environment", "steps", *NAMES.values(), "ALF as good as the best after"]
    lines = [f"{rows[0]['machine']}, {max(row['date'] for row in rows)}, `{COMMAND}`:", ""]
    lines += [f"| {' | '.join(header)} |", "| --- " * len(header) + "|"]
    tasks = {row["task"] for row in rows}
    for task in [*filter(tasks.__contains__, TASKS), *sorted(tasks.difference(TASKS))]:
        runs = {x: [row for row in rows if (row["task"], row["library"]) == (task, x)] for x in NAMES}
        algorithm, env, steps = task.split(":")
        cells = [algorithm, env, f"{int(steps):,}", *map(_describe, runs.values()), _describe_reach(runs)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _describe(runs):
    """Describes the returns in the end, as mean and range, and the mean seconds of the process."""
    if not runs:
        return ""
    returns = [run["curve"][-1][-1] for run in runs]
    spread = f" ({min(returns):,.4g} to {max(returns):,.4g})" if len(runs) > 1 else ""
    seconds = statistics.fmean(run["seconds"] for run in runs)
    return f"{statistics.fmean(returns):,.4g}{spread}, {seconds:.0f} s"


def _describe_reach(runs):
    """Describes when ALF's runs reach the best mean return of another library in the end, by medians."""
    ours, *others = runs.values()
    means = [statistics.fmean(run["curve"][-1][-1] for run in mine) for mine in others if mine]
    if not means or not ours:
        return ""
    reached = [
        next(
            ((steps, seconds) for steps, seconds, x in run["curve"] if x is not None and x >= max(means)),
            None,
        )
        for run in ours
    ]
    found = [x for x in reached if x is not None]
    if 2 * len(found) <= len(ours):
        return f"{len(found)} of {len(ours)} runs"
    return "{:,.0f} steps, {:.0f} s".format(*map(statistics.median, zip(*found, strict=True)))
