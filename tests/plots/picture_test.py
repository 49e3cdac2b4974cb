# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The picture of learning curves: what Matplotlib is given to draw."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from alf.plots.picture import Line, draw
from alf.plots.runs import Curve


def curve(*values, per_second=10.0):
    steps = 100.0 * np.arange(1, len(values) + 1)
    return Curve(steps, steps / per_second, np.array(values, float))


def test_one_run_is_drawn_point_by_point_from_its_beginning():
    figure = draw([Line("PPO", "PPO", [curve(1, 5, 3)])], "AverageReturn")
    by_steps, by_time = figure.axes
    np.testing.assert_array_equal(by_steps.lines[0].get_xydata(), [[100, 1], [200, 5], [300, 3]])
    np.testing.assert_array_equal(by_time.lines[0].get_xydata(), [[10, 1], [20, 5], [30, 3]])
    assert by_steps.get_xlim()[0] == by_time.get_xlim()[0] == 0
    assert (by_steps.get_ylabel(), by_steps.get_xlabel()) == ("AverageReturn", "environment steps")


def test_several_runs_are_their_mean_and_a_band():
    figure = draw([Line("PPO", "PPO", [curve(i, 4 + i, 2 + i) for i in range(5)])], "AverageReturn")
    for axes in figure.axes:
        (line,), (band,) = axes.lines, axes.collections
        points = line.get_xydata()
        assert (points[0][1], points[-1][1]) == (2, 4)
        ys = band.get_paths()[0].vertices[:, 1]
        assert 0 < ys.min() < 2 and 6 < ys.max() < 8  # closer than the lowest and the highest run


def test_few_runs_are_their_mean_and_thin_lines():
    figure = draw([Line("PPO", "PPO", [curve(1, 5, 3), curve(3, 7, 5)])], "AverageReturn")
    for axes in figure.axes:
        mean, *runs = axes.lines
        assert not axes.collections
        assert [list(line.get_ydata()) for line in runs] == [[1, 5, 3], [3, 7, 5]]
        assert (mean.get_ydata()[0], mean.get_ydata()[-1]) == (2, 4)
        assert max(line.get_linewidth() for line in runs) < mean.get_linewidth()


@pytest.mark.parametrize(
    "per_second, unit, end",
    [(1.0, "minutes", 5.0), (10.0, "seconds", 30.0), (0.01, "hours", 300 / 36)],
    ids=["minutes", "seconds", "hours"],
)
def test_the_unit_of_wall_time(per_second, unit, end):
    _, axes = draw([Line("PPO", "PPO", [curve(1, 5, 3, per_second=per_second)])], "x").axes
    assert axes.get_xlabel() == f"wall time, {unit}"
    assert axes.lines[0].get_xdata()[-1] == pytest.approx(end)


def test_one_point_is_a_dot():
    lines = [
        Line("one", "PPO", [curve(1)]),
        Line("two", "PPO", [curve(2), curve(4)]),
        Line("five", "PPO", [curve(2), curve(4), curve(2), curve(4), curve(4)]),
        Line("x", "PPO", [curve(1, 2)]),
    ]
    for axes in draw(lines, "x").axes:
        assert [line.get_marker() for line in axes.lines] == ["o", "o", ".", ".", "o", ""]
        # A band of no width is only seen by its edge.
        (interval,) = axes.collections
        assert interval.get_linewidth() > 0
        ys = interval.get_paths()[0].vertices[:, 1]
        assert 2 <= ys.min() < ys.max() <= 4


def test_an_algorithm_has_its_colour_and_its_groups_have_dashes():
    lines = [
        Line("a", "PPO", [curve(1, 2)]),
        Line("b", "IMPALA", [curve(1, 2)]),
        Line("c", "PPO", [curve(1, 2)]),
    ]
    for axes in draw(lines, "x").axes:
        colors = [to_hex(line.get_color()) for line in axes.lines]
        assert colors[0] == colors[2] != colors[1]
        assert axes.lines[0].get_linestyle() == "-" != axes.lines[2].get_linestyle()
    alone = draw(lines[1:2], "x").axes[0].lines[0]
    assert to_hex(alone.get_color()) == colors[1]


@pytest.mark.parametrize("count", [2, 10, 15, 120], ids=str)
@pytest.mark.parametrize("algorithms", [("PPO",), ("PPO", "SAC")], ids=["one", "two"])
def test_groups_look_different(count, algorithms):
    lines = [Line(str(i), algorithms[i % len(algorithms)], [curve(i, 2)]) for i in range(count)]
    drawn = draw(lines, "x").axes[0].lines
    looks = {(to_hex(x.get_color()), str(x._dash_pattern), x.get_linewidth()) for x in drawn}
    assert len(looks) == count
    if len(algorithms) == 1 and count <= 10:
        assert len({to_hex(line.get_color()) for line in drawn}) == count


def test_each_group_has_one_entry_in_the_legend():
    lines = [Line("a", "PPO", [curve(1, 2)] * 3), Line("b", "SAC", [curve(1, 2)])]
    lines.append(Line("c", "DQN", [curve(1, 2)] * 5))
    figure = draw(lines, "x")
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [*("a (3 runs)", "b (1 run)", "c (5 runs)")]


def find_outside(figure):
    """The texts of the legend that are not within the picture, and whether they cover the axes."""
    figure.draw_without_rendering()
    (legend,) = figure.legends
    boxes = {text.get_text(): text.get_window_extent() for text in legend.get_texts()}
    picture = figure.bbox
    outside = [
        text
        for text, box in boxes.items()
        if not (picture.x0 <= box.x0 and box.x1 <= picture.x1 and picture.y0 <= box.y0 <= box.y1)
    ]
    top = max(box.y1 for box in boxes.values())
    return outside, top > min(axes.get_window_extent().y0 for axes in figure.axes)


@pytest.mark.parametrize("count", [1, 12, 100], ids=str)
@pytest.mark.parametrize("length", [3, 60, 400], ids=str)
def test_the_legend_is_whole_and_covers_nothing(count, length):
    labels = [f"{i} {'M.x=1 ' * (length // 6)}" for i in range(count)]
    figure = draw([Line(label, "PPO", [curve(i, 2)]) for i, label in enumerate(labels)], "x")
    assert find_outside(figure) == ([], False)
    assert len(figure.legends[0].get_texts()) == count
    assert min(axes.get_position().height * figure.get_figheight() for axes in figure.axes) > 2, "inches"


def test_folders_take_the_place_of_labels_that_are_too_long():
    def read(*lines):
        return [text.get_text() for text in draw(list(lines), "x").legends[0].get_texts()]

    short = Line("rate=1", "PPO", [curve(1, 2)], "a/run1")
    long = Line("rate=2, " * 20, "PPO", [curve(1, 2)] * 2, "b/run2")
    own = Line("my label", "PPO", [curve(1, 2)])
    assert read(short, long, own) == [
        "a/run1 (1 run)",
        "b/run2 (2 runs)",
        "my label (1 run)",
    ]
    assert read(short, own) == ["rate=1 (1 run)", "my label (1 run)"]


def test_each_environment_has_axes_of_its_own():
    """A label has one look and one entry in all of them, and the axes have their own scales and targets."""
    lines = [
        Line("a", "PPO", [curve(1, 2)] * 2, task="Small"),
        Line("a", "PPO", [curve(1000, 2000)], task="Large"),
        Line("b", "PPO", [curve(1500, 1000)], task="Large"),
    ]
    figure = draw(lines, "x", target={"Small": 1.5, "Large": None})
    assert [axes.get_title() for axes in figure.axes] == ["Small", "", "Large", ""]
    small, _, large, _ = figure.axes
    assert small.get_ylim()[1] < 3 and large.get_ylim()[1] > 1900
    assert small.lines[0].get_color() == large.lines[0].get_color() != large.lines[1].get_color()
    assert [text.get_text() for text in small.texts] == ["target 1.5"] and not large.texts
    assert [x.get_text() for x in figure.legends[0].get_texts()] == [
        "a (3 runs)",
        "b (1 run)",
    ]
    assert find_outside(figure) == ([], False)


def test_the_target_is_a_labelled_line_in_both_pictures():
    for axes in draw([Line("a", "PPO", [curve(1, 2)])], "x", target=2.25).axes:
        assert list(axes.lines[-1].get_ydata()) == [2.25, 2.25]
        assert [text.get_text() for text in axes.texts] == ["target 2.25"]
    for axes in draw([Line("a", "PPO", [curve(1, 2)])], "x").axes:
        assert len(axes.lines) == 1 and not axes.texts


@pytest.mark.parametrize("target", [-475.0, -20.0, 40.0, 475.0], ids=str)
def test_a_target_that_is_far_away_is_named_at_the_edge(target):
    lines = [Line("a", "PPO", [curve(1, 20), curve(3, 24)])]
    limits = draw(lines, "x").axes[0].get_ylim()
    for axes in draw(lines, "x", target=target).axes:
        assert axes.get_ylim() == limits and len(axes.lines) == 3  # the mean and both runs
        ((name, place),) = [(text.get_text(), text.xy) for text in axes.texts]
        above = target > 0
        arrow = "\u2191" if above else "\u2193"
        assert (name, place) == (f"target {target:g} {arrow}", (0, int(above)))


@pytest.mark.parametrize("target", [-8.0, 0.0, 15.0, 20.0, 28.0], ids=str)
def test_a_target_that_is_near_is_seen_and_leaves_the_curves_most_of_the_height(target):
    lines = [Line("a", "PPO", [curve(1, 20)])]
    low, high = draw(lines, "x").axes[0].get_ylim()
    for axes in draw(lines, "x", target=target).axes:
        bottom, top = axes.get_ylim()
        assert bottom < target < top and (high - low) / (top - bottom) > 0.6
        assert len(axes.lines) == 2
