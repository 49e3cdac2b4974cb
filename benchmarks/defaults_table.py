# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The tables of `benchmarks.defaults` in docs/measured.md."""

import statistics

from benchmarks.series import format_caption, select_last_machine, split_by_machine

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
    return "\n\n".join(map(_format_table, split_by_machine(rows).values()))


def format_returns(rows):
    """Returns a table of the returns of PPO on the machine that was measured last, in Markdown."""
    mine = select_last_machine(rows)
    header = ["environment", "steps", *NAMES.values()]
    lines = [f"| {' | '.join(header)} |", "| --- " * len(header) + "|"]
    for task in TASKS:
        algorithm, env, steps = task.split(":")
        runs = _by_library(mine, task)
        if algorithm == "ppo" and runs["ALF"]:
            cells = [env, f"{int(steps):,}", *map(_describe_returns, runs.values())]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _by_library(rows, task):
    return {x: [row for row in rows if (row["task"], row["library"]) == (task, x)] for x in NAMES}


def _format_table(rows):
    header = ["algorithm", "environment", "steps", *NAMES.values(), "ALF as good as the best after"]
    lines = [f"{format_caption(rows, COMMAND)}:", ""]
    lines += [f"| {' | '.join(header)} |", "| --- " * len(header) + "|"]
    tasks = {row["task"] for row in rows}
    for task in [*filter(tasks.__contains__, TASKS), *sorted(tasks.difference(TASKS))]:
        runs = _by_library(rows, task)
        algorithm, env, steps = task.split(":")
        cells = [algorithm, env, f"{int(steps):,}", *map(_describe, runs.values()), _describe_reach(runs)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _describe(runs):
    """Describes the returns in the end, and the mean seconds of the process."""
    return f"{_describe_returns(runs)}, {statistics.fmean(x['seconds'] for x in runs):.0f} s" if runs else ""


def _describe_returns(runs):
    """Describes the returns in the end, as mean and range."""
    if not runs:
        return ""
    returns = [run["curve"][-1][-1] for run in runs]
    spread = f" ({min(returns):,.4g} to {max(returns):,.4g})" if len(runs) > 1 else ""
    return f"{statistics.fmean(returns):,.4g}{spread}"


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
