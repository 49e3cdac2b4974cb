# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The picture of learning curves: by environment steps and by wall time, side by side."""

import os
from typing import NamedTuple

from alf.core.files import replace_file
from alf.errors import SaveError
from alf.plots.curves import join, mean_and_interval

FORMATS = ("pdf", "png", "svg")  # file name extensions of the pictures that can be written
# One colour for each algorithm, the same in every picture.
_COLORS = {"PPO": "tab:blue", "IMPALA": "tab:orange", "DQN": "tab:green", "SAC": "tab:red"}
_OTHER_COLORS = ("tab:purple", "tab:brown", "tab:pink", "tab:olive", "tab:cyan", "tab:gray")
_LINES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))
_TIMES = ((300.0, 1.0, "seconds"), (3 * 3600.0, 60.0, "minutes"), (float("inf"), 3600.0, "hours"))


class Line(NamedTuple):
    """One entry of the legend: the runs of a group."""

    label: str
    algorithm: str  # which gives the colour
    curves: list  # of `Curve`s


def draw(lines, metric, target=None, title=""):
    """Draws a picture; returns Matplotlib's figure, for `savefig`.

    A group of one run is drawn as it is, several as their mean, with its 95 % interval as a band.

    Args:
        lines: list of `Line`s.
        metric: what the y axis is called.
        target: of a labelled horizontal line, or None.
        title: text above the picture.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    columns = _count_columns(lines)
    figure = Figure(figsize=(10, 4 + 0.22 * -(-len(lines) // columns)), layout="constrained", dpi=120)
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(wspace=0.05)
    by_steps, by_time = figure.subplots(1, 2, sharey=True)
    longest = max(curve.seconds[-1] for line in lines for curve in line.curves)
    per_unit, unit = next(rest for limit, *rest in _TIMES if longest < limit)
    for line, style in zip(lines, _choose_styles(lines), strict=True):
        values = [curve.values for curve in line.curves]
        draw_line(by_steps, [curve.env_steps for curve in line.curves], values, _describe(line), style)
        draw_line(by_time, [curve.seconds / per_unit for curve in line.curves], values, None, style)
    for axes in (by_steps, by_time):
        finish_axes(axes, target)
    by_steps.set(xlabel="environment steps", ylabel=metric)
    by_steps.xaxis.set_major_formatter(EngFormatter(sep=""))
    by_time.set(xlabel=f"wall time, {unit}")
    # Below the axes, where it covers no curve.
    figure.legend(loc="outside lower center", frameon=False, ncols=columns)
    figure.suptitle(title)
    return figure


def save_picture(figure, path):
    """Writes Matplotlib's figure to a file, which is replaced; SaveError is raised if that fails."""
    try:
        with replace_file(path) as file:
            figure.savefig(file, format=format_of(path))
    except OSError as error:
        raise SaveError(f"{path} cannot be written: {error.strerror or error}") from None


def format_of(path):
    """The end of a file's name, without its dot: "png"."""
    return os.path.splitext(path)[1].removeprefix(".").lower()


def draw_line(axes, xs, ys, label, style):
    """Draws one run as it is, several as their mean, with its 95 % interval as a band.

    Args:
        axes: Matplotlib's.
        xs, ys: lists of arrays [N], one for each run.
        label: of the line; None: it is not in the legend.
        style: dict of `color` and what else Matplotlib's lines take.
    """
    if len(xs) == 1:
        marker = "o" if len(xs[0]) == 1 else ""
        axes.plot(xs[0], ys[0], label=label, marker=marker, **style)
        return
    x, y = join(xs, ys)
    mean, low, high = mean_and_interval(y)
    axes.plot(x, mean, label=label, marker="o" if x[0] == x[-1] else "", **style)
    axes.fill_between(x, low, high, color=style["color"], alpha=0.2, linewidth=0)


def finish_axes(axes, target=None):
    """Draws the grid of Matplotlib's axes from x = 0 on, and a labelled line at a target that is not None."""
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if target is None:
        return
    axes.axhline(target, color="0.4", linestyle=(0, (2, 2)), linewidth=1, zorder=1)
    # On the left, where most curves are far below it.
    place = dict(xycoords=axes.get_yaxis_transform(), xytext=(3, 2), textcoords="offset points")
    axes.annotate(f"target {target:g}", (0, target), va="bottom", color="0.3", fontsize=9, **place)


def _choose_styles(lines):
    """A dict of colour and line style for each line.

    The colour is that of the algorithm, and the lines of one algorithm differ in their dashes. If there is
    one algorithm only, each line has a colour of its own.
    """
    from matplotlib import colormaps

    algorithms = list(dict.fromkeys(line.algorithm for line in lines))
    if len(algorithms) > 1 or len(lines) == 1:
        others = [name for name in algorithms if name not in _COLORS]
        colors = _COLORS | {name: _OTHER_COLORS[i % len(_OTHER_COLORS)] for i, name in enumerate(others)}
        drawn = dict.fromkeys(algorithms, 0)
        styles = []
        for line in lines:
            dashes = _LINES[drawn[line.algorithm] % len(_LINES)]
            styles.append(dict(color=colors[line.algorithm], linestyle=dashes))
            drawn[line.algorithm] += 1
        return styles
    if len(lines) <= 10:
        return [dict(color=colormaps["tab10"](i)) for i in range(len(lines))]
    return [dict(color=colormaps["viridis"](i / (len(lines) - 1))) for i in range(len(lines))]


def _describe(line):
    return f"{line.label}, {len(line.curves)} runs" if len(line.curves) > 1 else line.label


def _count_columns(lines):
    """As many columns of the legend as fit side by side, in about 120 characters."""
    widest = max(len(_describe(line)) for line in lines) + 8
    return max(1, min(len(lines), 120 // widest))
