# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The tables and the picture of ALF beside its peers."""

import statistics

from benchmarks.peers.setups import SETUPS
from benchmarks.series import format_caption, select_last_machine, split_by_machine

COMMAND = "python -m benchmarks.peers --machine=NAME"
HEADER = (
    "| workload | environment | ALF | best peer | steps/s | ratio (range) | ALF of the limit | "
    "memory, MB, ALF / peer |"
)
LIBRARIES = {
    "torch": "a loop of one file in PyTorch (PPO, SAC, DQN)",
    "pufferlib": "PufferLib (PPO)",
    "sample_factory": "Sample Factory (APPO)",
    "rllib": "RLlib (IMPALA)",
    "sb3": "Stable-Baselines3 (PPO, SAC, DQN)",
    "sbx": "SBX (PPO, SAC, DQN)",
}
# The columns of the ratios to each library.
_TITLES = {
    "cartpole_python": "CartPole, objects",
    "cartpole_vector": "CartPole, vector",
    "pong": "Pong",
    "halfcheetah": "HalfCheetah",
    "sac_halfcheetah": "SAC, HalfCheetah",
    "dqn_pong": "DQN, Pong",
}
_LIMIT = "limit_steps_per_second"


def select_measurements(rows):
    """Returns the measurements of speed in a file's rows, without searches and runs to a score."""
    return [row for row in rows if "round" in row]


def format_tables(rows):
    """Returns two tables for each machine, in Markdown: ALF beside the best peer, and beside each."""
    return "\n\n".join(
        f"{format_caption(mine, COMMAND)}:\n\n{format_table(mine)}\n\n"
        f"{format_caption(mine, COMMAND)}, ALF's steps per second by those of each library:\n\n"
        f"{format_ratios(mine)}"
        for mine in split_by_machine(select_measurements(rows)).values()
    )


def format_last_ratios(rows):
    """Returns the ratios to each library on the machine that was measured last, without ranges."""
    return format_ratios(select_last_machine(select_measurements(rows)), has_ranges=False)


def medians(rows, workload):
    """Returns the median of steps per second of each library of a workload, the fastest first."""
    libraries = dict.fromkeys(row["library"] for row in rows if row["workload"] == workload)
    found = {
        name: statistics.median(row["steps_per_second"] for row in _select(rows, workload, name))
        for name in libraries
    }
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def ratios(rows, workload, peer):
    """Returns ALF's steps per second by a peer's, one for each round that has both."""
    by_round = {row["round"]: row["steps_per_second"] for row in _select(rows, workload, peer)}
    pairs = [
        (row["steps_per_second"], by_round[row["round"]])
        for row in _select(rows, workload, "ALF")
        if row["round"] in by_round
    ]
    return [alf / other for alf, other in pairs]


def format_table(rows):
    """Returns the table of ALF beside the fastest peer; a workload without ALF or a peer has no line."""
    lines = [HEADER, "| --- " * HEADER.count(" | ") + "| --- |"]
    for workload in SETUPS:
        found = medians(rows, workload)
        peers = [name for name in found if name != "ALF"]
        if "ALF" in found and peers and ratios(rows, workload, peers[0]):
            lines.append(_format_line(rows, workload, found, peers[0]))
    return "\n".join(lines)


def _format_line(rows, workload, found, peer):
    alf, other = _select(rows, workload, "ALF"), _select(rows, workload, peer)
    limits = [row["steps_per_second"] / row[_LIMIT] for row in alf if _LIMIT in row]
    memory = [statistics.median(row["peak_memory_mb"] for row in x) for x in (alf, other)]
    cells = [
        workload,
        f"{SETUPS[workload].env}",
        f"{found['ALF']:,.0f}",
        f"{peer} ({other[-1]['variant']})",
        f"{found[peer]:,.0f}",
        _format_ratio(ratios(rows, workload, peer)),
        f"{statistics.median(limits):.2f}" if limits else "",
        f"{memory[0]:,.0f} / {memory[1]:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def format_ratios(rows, has_ranges=True):
    """Returns the table of the median ratio to each library, with the range over the rounds or without."""
    titles = {name: title for name, title in _TITLES.items() if medians(rows, name)}
    lines = [f"| library | {' | '.join(titles.values())} |", "| --- " * (len(titles) + 1) + "|"]
    for library, name in LIBRARIES.items():
        found = [ratios(rows, workload, library) for workload in titles]
        if any(found):
            cells = [_format_ratio(x, has_ranges) if x else "" for x in found]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _format_ratio(values, has_range=True):
    spread = f" ({min(values):.2f} to {max(values):.2f})" if has_range else ""
    return f"{statistics.median(values):.2f}{spread}"


def _select(rows, workload, library):
    return [row for row in rows if (row["workload"], row["library"]) == (workload, library)]


def draw(rows):
    """Draws the libraries' steps per second as bars, one part for each workload; returns the figure."""
    # Here, because Matplotlib is an extra.
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    workloads = [name for name in SETUPS if medians(rows, name)]
    figure = Figure(figsize=(10, 0.4 + 1.6 * len(workloads)), layout="constrained", dpi=120)
    parts = figure.subplots(len(workloads), 1, squeeze=False)[:, 0]
    for axes, workload in zip(parts, workloads):
        found = medians(rows, workload)
        colors = ["tab:blue" if name == "ALF" else "tab:gray" for name in found]
        bars = axes.barh(list(found), list(found.values()), color=colors)
        axes.bar_label(bars, [f"{x:,.0f}" for x in found.values()], padding=3)
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(f"{workload}, steps/s", loc="left", fontsize=10)
    return figure
