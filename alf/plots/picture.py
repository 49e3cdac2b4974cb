# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Draws learning curves over environment steps and over wall time, side by side."""

import os
from typing import NamedTuple

from alf.core.files import replace_file
from alf.errors import SaveError
from alf.plots.curves import join, mean_and_interval

FORMATS = ("pdf", "png", "svg")  # the file name extensions of pictures
# One colour for each algorithm, the same in every picture.
_COLORS = {"PPO": "tab:blue", "IMPALA": "tab:orange", "DQN": "tab:green", "SAC": "tab:red"}
_OTHER_COLORS = ("tab:purple", "tab:brown", "tab:pink", "tab:olive", "tab:cyan", "tab:gray")
_LINES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))
# A target is drawn if it is at most this share of the curves' height away from them.
_TARGET_REACH = 0.5
_TIMES = ((300.0, 1.0, "seconds"), (3 * 3600.0, 60.0, "minutes"), (float("inf"), 3600.0, "hours"))


class Line(NamedTuple):
    """The curves of a group of runs, one entry of the legend."""

    label: str
    algorithm: str  # it decides the colour
    curves: list  # of `Curve`s


def draw(lines, metric, target=None, title=""):
    """Draws a picture. Returns Matplotlib's figure.

    A single run is drawn as it is; of several runs, the mean is drawn with its 95 % interval as a band. The
    legend has the number of runs.

    Args:
        lines: list of `Line`s.
        metric: text, the label of the y axis.
        target: float, the y of a labelled horizontal line (`finish_axes`), or None.
        title: text above the picture.
    """
    # Here, because Matplotlib is an extra, and because most callers of this package only read curves.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    columns = _count_columns(lines)
    figure = Figure(figsize=(10, 4 + 0.22 * -(-len(lines) // columns)), layout="constrained", dpi=120)
    # Without pyplot, which keeps all figures of the process and may look for a screen.
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
    # Below the axes, where it does not cover curves.
    figure.legend(loc="outside lower center", frameon=False, ncols=columns)
    figure.suptitle(title)
    return figure


def save_picture(figure, path):
    """Writes Matplotlib's figure to a file, which is replaced. Raises SaveError if that fails."""
    try:
        with replace_file(path) as file:
            figure.savefig(file, format=format_of(path))
    except OSError as error:
        raise SaveError(f"{path} cannot be written: {error.strerror or error}") from None


def format_of(path):
    """Returns the extension of a file name without the dot, such as "png"."""
    return os.path.splitext(path)[1].removeprefix(".").lower()


def draw_line(axes, xs, ys, label, style):
    """Draws one run as it is, or the mean of several runs with its 95 % interval as a band.

    Args:
        axes: Matplotlib's axes.
        xs, ys: lists of arrays [N], one for each run.
        label: text for the legend, or None.
        style: dict of keyword arguments for Matplotlib's lines, with `color`.
    """
    if len(xs) == 1:
        marker = "o" if len(xs[0]) == 1 else ""
        axes.plot(xs[0], ys[0], label=label, marker=marker, **style)
        return
    x, y = join(xs, ys)
    mean, low, high = mean_and_interval(y)
    is_point = x[0] == x[-1]
    axes.plot(x, mean, label=label, marker="o" if is_point else "", **style)
    # The band of a point has no width.
    axes.fill_between(x, low, high, color=style["color"], alpha=0.2, linewidth=4 if is_point else 0)


def finish_axes(axes, target=None):
    """Draws the grid of Matplotlib's axes from x = 0, and a labelled line at `target` unless it is None.

    The curves decide which part of the y axis is seen. A target that is so far away that they would be flat
    is named at the upper or lower edge, without a line.
    """
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if target is not None:
        _draw_target(axes, target)


def _draw_target(axes, target):
    low, high = axes.get_ylim()  # of the curves
    reach = _TARGET_REACH * (high - low)
    label = dict(text=f"target {target:g}", color="0.3", fontsize=9, textcoords="offset points")
    if low - reach <= target <= high + reach:
        axes.axhline(target, color="0.4", linestyle=(0, (2, 2)), linewidth=1, zorder=1)
        # On the left, where most curves are far below the target.
        label |= dict(xy=(0, target), xycoords=axes.get_yaxis_transform(), xytext=(3, 2), va="bottom")
    elif target > high:
        label["text"] += " \N{UPWARDS ARROW}"
        label |= dict(xy=(0, 1), xycoords="axes fraction", xytext=(3, -2), va="top")
    else:
        label["text"] += " \N{DOWNWARDS ARROW}"
        label |= dict(xy=(0, 0), xycoords="axes fraction", xytext=(3, 2), va="bottom")
    axes.annotate(**label)


def _choose_styles(lines):
    """Returns a list of dicts with colour and line style, one for each line.

    Each algorithm has a colour, and lines of the same algorithm differ in their dashes. If there is only one
    algorithm, each line has a colour.
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
    count = len(line.curves)
    return f"{line.label} ({count} run{'s' * (count > 1)})"


def _count_columns(lines):
    """Returns how many columns of the legend fit side by side, in about 120 characters."""
    widest = max(len(_describe(line)) for line in lines) + 8
    return max(1, min(len(lines), 120 // widest))
