# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The table and the picture of ALF beside its peers."""

import statistics

from benchmarks.peers.setups import SETUPS

HEADER = (
    "| workload | environment | ALF | best peer | steps/s | ratio (range) | ALF of the limit | "
    "memory, MB, ALF / peer |"
)

_LIMIT = "limit_steps_per_second"


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
    """Returns the table in Markdown; a workload without ALF or without a peer has no line."""
    lines = [HEADER, "| --- " * HEADER.count(" | ") + "| --- |"]
    for workload in SETUPS:
        found = medians(rows, workload)
        peers = [name for name in found if name != "ALF"]
        if "ALF" in found and peers and ratios(rows, workload, peers[0]):
            lines.append(_format_line(rows, workload, found, peers[0]))
    return "\n".join(lines)


def _format_line(rows, workload, found, peer):
    alf, other = _select(rows, workload, "ALF"), _select(rows, workload, peer)
    both = ratios(rows, workload, peer)
    limits = [row["steps_per_second"] / row[_LIMIT] for row in alf if _LIMIT in row]
    memory = [statistics.median(row["peak_memory_mb"] for row in x) for x in (alf, other)]
    cells = [
        workload,
        f"{SETUPS[workload].env}",
        f"{found['ALF']:,.0f}",
        f"{peer} ({other[-1]['variant']})",
        f"{found[peer]:,.0f}",
        f"{statistics.median(both):.2f} ({min(both):.2f} to {max(both):.2f})",
        f"{statistics.median(limits):.2f}" if limits else "",
        f"{memory[0]:,.0f} / {memory[1]:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


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
