# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The table and the picture of a population: the objective of each member, and the copies."""

import os

from alf.plots.picture import save_picture
from alf.studies.ranges import LogUniform
from alf.studies.state import write_csv

TABLE_FILE, PICTURE_FILE = "population.csv", "lineage.png"
_COLUMNS = ("member", "env_steps", "objective", "parent", "parent_env_steps")


def make_table(rows):
    """Returns a list with a dict for each of `Evolution.rows`, with the settings beside the figures."""
    return [{name: row[name] for name in _COLUMNS} | row["settings"] for row in rows]


def write_table(folder, rows, names):
    """Writes the table, with a line for each of `Evolution.rows`; `names` are the names of the settings."""
    columns = [*_COLUMNS, *names]
    lines = [[line[name] for name in columns] for line in make_table(rows)]
    write_csv(os.path.join(folder, TABLE_FILE), [columns, *lines])


def draw_lineage(rows, ranges, objective, folder):
    """Writes the picture into a folder; SaveError is raised if that fails.

    Args:
        rows: the table `Evolution.rows`.
        ranges: dict from the names of the settings to `Range`; the first one gives the colours.
        objective: text, the label of the y axis.
        folder: path.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

    name, values = next(iter(ranges.items()))
    number_of, norm = _make_scale(values)
    colors = ScalarMappable(norm, "viridis")
    # Without pyplot, which keeps all figures of the process and may look for a screen.
    figure = Figure(figsize=(9, 5.5), layout="constrained", dpi=110)
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xlabel="environment steps of the member", ylabel=objective)
    shown = [row for row in rows if row["objective"] is not None]
    for member in sorted({row["member"] for row in rows}):
        own = [row for row in shown if row["member"] == member]
        for before, after in zip(own, own[1:], strict=False):
            color = colors.to_rgba(number_of(after["settings"][name]))
            axes.plot(*_points(before, after), color=color, linewidth=1.8)
        for row in own[:1]:
            axes.plot(*_points(row), ".", color=colors.to_rgba(number_of(row["settings"][name])))
            # A column for each member: many may begin at nearly the same objective.
            place = dict(xytext=(-10 - 9 * member, 0), textcoords="offset points")
            axes.annotate(f"{member}", *zip(*_points(row), strict=True), fontsize=9, va="center", **place)
    for start, end in _list_copies(shown):
        arrow = dict(arrowstyle="-|>", color="0.45", linewidth=0.8, shrinkA=0, shrinkB=0)
        axes.annotate("", xy=end, xytext=start, arrowprops=arrow)
    colorbar = figure.colorbar(colors, ax=axes, label=name)
    if values.limits is None:
        colorbar.set_ticks(range(len(values.values)), labels=[str(x) for x in values.values])
    axes.set_title("an arrow leads from the member that was copied to the one that goes on with its weights")
    axes.title.set_fontsize(9)
    axes.margins(x=0.05 + min(0.012 * len({row["member"] for row in rows}), 0.3))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    save_picture(figure, os.path.join(folder, PICTURE_FILE))


def _make_scale(values):
    """Returns a function from a value of a range to a number, and the norm of the colours.

    The function also takes values of another range, which the study had before.
    """
    from matplotlib.colors import LogNorm, Normalize

    if values.limits is None:
        return lambda x: values.values.index(values.fit(x)), Normalize(0, len(values.values) - 1)
    return values.fit, (LogNorm if isinstance(values, LogUniform) else Normalize)(*values.limits)


def _list_copies(rows):
    """Lists the copies as pairs of points: the parent's report, and the child's last report before."""
    copies, last = [], {}
    for row in rows:
        child = last.get(row["member"])
        last[row["member"]] = row
        if row["parent"] is None:
            continue
        same = (other for other in rows if other["member"] == row["parent"])
        parent = next((other for other in same if other["env_steps"] == row["parent_env_steps"]), None)
        if parent is not None:
            end = child or row  # A child without an earlier objective shows where it went on.
            copies.append(((parent["env_steps"], parent["objective"]), (end["env_steps"], end["objective"])))
    return copies


def _points(*rows):
    return [row["env_steps"] for row in rows], [row["objective"] for row in rows]
