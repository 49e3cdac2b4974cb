# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Draws learning curves over environment steps and over wall time, side by side."""

import collections
import os
import textwrap
from typing import NamedTuple

from alf.core.files import replace_file
from alf.errors import SaveError
from alf.plots.curves import join, mean_and_interval
from alf.plots.scores import MIN_RUNS

FORMATS = ("pdf", "png", "svg")  # the file name extensions of pictures
# The longest label of the legend, in characters. It fits below the axes.
_MAX_LABEL = 100
_LEGEND_WIDTH = 140  # characters, of all columns of the legend
# One colour for each algorithm, the same in every picture.
_COLORS = {"PPO": "tab:blue", "IMPALA": "tab:orange", "DQN": "tab:green", "SAC": "tab:red"}
_OTHER_COLORS = ("tab:purple", "tab:brown", "tab:pink", "tab:olive", "tab:cyan", "tab:gray")
_LINES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)))
_NUM_COLORS = 10  # of Matplotlib's "tab10"
# A target is drawn if it is at most this share of the curves' height away from them.
_TARGET_REACH = 0.5
_TIMES = ((300.0, 1.0, "seconds"), (3 * 3600.0, 60.0, "minutes"), (float("inf"), 3600.0, "hours"))


class Line(NamedTuple):
    """The curves of a group of runs in one environment. Lines of a group have the same label."""

    label: str
    algorithm: str  # it decides the colour
    curves: list  # of `Curve`s
    folder: str = ""  # the label if one is too long for the legend; "": a long label takes several lines
    task: str = ""  # the environment; each has axes of its own


def draw(lines, metric, target=None, title=""):
    """Draws a picture. Returns Matplotlib's figure.

    A single run is drawn as it is; of several runs, the mean is drawn with its 95 % interval as a band. Few
    runs have no band: each is a thin line. The legend has the number of runs. Each environment has a row of
    axes, because their scales differ.

    Args:
        lines: list of `Line`s.
        metric: text, the label of the y axes.
        target: float, the y of a labelled horizontal line (`finish_axes`), or None; or a dict of these by
            environment.
        title: text above the picture.
    """
    # Here, because Matplotlib is an extra, and because most callers of this package only read curves.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    lines = _name_lines(lines)
    tasks = list(dict.fromkeys(line.task for line in lines))
    entries = _make_entries(lines)
    columns = max(1, min(len(entries), _LEGEND_WIDTH // (8 + max(map(_measure, entries.values())))))
    rows = -(-sum(1 + text.count("\n") for text in entries.values()) // columns)
    height = (4 if len(tasks) == 1 else 3 * len(tasks)) + 0.2 * rows
    figure = Figure(figsize=(10, height), layout="constrained", dpi=120)
    # Without pyplot, which keeps all figures of the process and may look for a screen.
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(wspace=0.05)
    longest = max(curve.seconds[-1] for line in lines for curve in line.curves)
    per_unit, unit = next(rest for limit, *rest in _TIMES if longest < limit)
    styles = _choose_styles(lines)
    for task, (by_steps, by_time) in zip(tasks, figure.subplots(len(tasks), 2, sharey="row", squeeze=False)):
        for line in (line for line in lines if line.task == task):
            values = [curve.values for curve in line.curves]
            # Only the first axes that show an entry name it.
            label, style = entries.pop(line.label, None), styles[line.label]
            draw_line(by_steps, [curve.env_steps for curve in line.curves], values, label, style)
            draw_line(by_time, [curve.seconds / per_unit for curve in line.curves], values, None, style)
        for axes in (by_steps, by_time):
            finish_axes(axes, target.get(task) if isinstance(target, dict) else target)
        by_steps.set(ylabel=metric, title=task if len(tasks) > 1 else "")
        by_steps.xaxis.set_major_formatter(EngFormatter(sep=""))
    by_steps.set(xlabel="environment steps")
    by_time.set(xlabel=f"wall time, {unit}")
    # Below the axes, where it does not cover curves.
    figure.legend(loc="outside lower center", frameon=False, ncols=columns, fontsize="small")
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
    """Draws one run as it is, or the mean of several with its 95 % interval, or with few runs as thin lines.

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
    if len(xs) < MIN_RUNS:
        thin = dict(color=style["color"], linewidth=0.5, alpha=0.6, zorder=1, marker="." if is_point else "")
        for run in zip(xs, ys, strict=True):
            axes.plot(*run, **thin)
        return
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


def _name_lines(lines):
    """Returns lines whose labels fit into the legend: the folders of the runs, if any label is too long."""
    if not any(line.folder and len(line.label) > _MAX_LABEL for line in lines):
        return lines
    return [line._replace(label=line.folder or line.label) for line in lines]


def _make_entries(lines):
    """Returns the texts of the legend, a dict by label."""
    counts: dict = collections.Counter()
    for line in lines:
        counts[line.label] += len(line.curves)
    texts = {label: f"{label} ({count} run{'s' * (count > 1)})" for label, count in counts.items()}
    return {label: "\n".join(textwrap.wrap(text, _MAX_LABEL)) for label, text in texts.items()}


def _measure(text):
    return max(map(len, text.split("\n")))


def _choose_styles(lines):
    """Returns the style of each label, a dict of dicts with colour, dashes, and from the 51st on the width.

    Each algorithm has a colour, and lines of the same algorithm differ in their dashes. If there is only one
    algorithm, or one has more lines than there are dashes, each line has a colour.
    """
    from matplotlib import colormaps

    algorithms = {line.label: line.algorithm for line in lines}
    counts = collections.Counter(algorithms.values())
    if (len(counts) > 1 or len(algorithms) == 1) and max(counts.values()) <= len(_LINES):
        others = [name for name in counts if name not in _COLORS]
        colors = _COLORS | {name: _OTHER_COLORS[i % len(_OTHER_COLORS)] for i, name in enumerate(others)}
        drawn = dict.fromkeys(counts, 0)
        styles = {}
        for label, algorithm in algorithms.items():
            styles[label] = dict(color=colors[algorithm], linestyle=_LINES[drawn[algorithm]])
            drawn[algorithm] += 1
        return styles
    styles = {}
    for i, label in enumerate(algorithms):
        repeats, color = divmod(i, _NUM_COLORS)
        thicker, dashes = divmod(repeats, len(_LINES))
        style = dict(color=colormaps["tab10"](color), linestyle=_LINES[dashes])
        styles[label] = style | dict(linewidth=1.5 * (1 + thicker)) if thicker else style
    return styles
