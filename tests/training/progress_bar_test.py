# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Throughput and the progress line, with a clock of the test's own."""

import io
import logging as std_logging
import re
import sys
import types

import pytest
from absl import logging

from alf.training import progress_bar
from alf.training.collection import Phase
from alf.training.progress_bar import ProgressBar, Throughput
from alf.training.run_report import EpisodeFigures
from alf.training.stop_criteria import Position, StopCriteria
from tests.training.counting_parts import logged

SUMMARY = {"policy_lag_min": 0.0, "policy_lag_mean": 1.26, "policy_lag_max": 3.0}


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def test_rates_of_a_short_run_are_those_of_the_whole_run():
    clock = Clock()
    throughput = Throughput(clock)
    for _ in range(4):
        clock.now += 1.0
        throughput.add(100)
    assert throughput.rates() == pytest.approx({"10s": 100.0, "1min": 100.0, "5min": 100.0})


def test_each_window_holds_its_own_past():
    clock = Clock()
    throughput = Throughput(clock)
    for second in range(1, 1001):
        clock.now += 1.0
        # 1 a second for long, 10 in the last 5 minutes, 100 in the last minute, 1000 in 10 s.
        throughput.add(1000 if second > 990 else 100 if second > 940 else 10 if second > 700 else 1)
    rates = throughput.rates()
    assert rates["10s"] == pytest.approx(1000.0)
    assert rates["1min"] == pytest.approx((10 * 1000 + 50 * 100) / 60)
    assert rates["5min"] == pytest.approx((10 * 1000 + 50 * 100 + 240 * 10) / 300)


def test_rates_fall_to_zero_when_nothing_comes():
    clock = Clock()
    throughput = Throughput(clock)
    clock.now += 1.0
    throughput.add(100)
    clock.now += 400.0
    assert throughput.rates()["10s"] == pytest.approx(0.0, abs=1.0)
    assert throughput.rates()["5min"] == pytest.approx(0.0, abs=1.0)


def test_memory_is_bounded_and_nothing_is_lost():
    clock = Clock()
    throughput = Throughput(clock)
    for _ in range(100_000):  # 1000 s, a hundred updates a second
        clock.now += 0.01
        throughput.add(7)
    assert len(throughput._points) < 1500
    for rate in throughput.rates().values():
        assert rate == pytest.approx(700.0, rel=0.05)


def test_rates_before_the_first_step():
    assert set(Throughput(Clock()).rates().values()) == {0.0}


class _Stderr(io.StringIO):
    def __init__(self, isatty):
        super().__init__()
        self._isatty = isatty

    def isatty(self):
        return self._isatty


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress_bar.time, "monotonic", clock)
    return clock


@pytest.fixture
def lines():
    """The lines that are logged."""
    with logged() as found:
        yield found


class Metric:
    def __init__(self, value):
        self.value = value

    def result(self):
        return self.value


def make_progress(
    monkeypatch, clock, isatty, balanced_return=12.34, num_episodes=1234, word="", policies=None, **criteria
):
    stderr = _Stderr(isatty)
    monkeypatch.setattr(sys, "stderr", stderr)
    throughput, collected = Throughput(clock), Throughput(clock)
    collected.count_up_to(1000)  # of the runs before
    clock.now += 2.0
    throughput.add(4000)
    collected.count_up_to(6000)
    metrics = {"AverageReturn": Metric(float("nan")), "BalancedReturn": Metric(balanced_return)}
    metrics["NumberOfEpisodes"] = Metric(num_episodes)
    policies = policies or {}
    metrics |= {f"policies/{name}/BalancedReturn": Metric(value) for name, value in policies.items()}
    episodes, stages = EpisodeFigures(metrics, clock, tuple(policies)), types.SimpleNamespace(bottleneck=word)
    return ProgressBar(throughput, collected, StopCriteria(**criteria), episodes, stages), stderr


def position(env_steps, seconds, iterations=1):
    return Position(iterations, env_steps, seconds)


def test_one_line_every_few_seconds_without_a_terminal(monkeypatch, clock, lines):
    progress, stderr = make_progress(monkeypatch, clock, isatty=False)
    for i in range(100):  # 20 s
        clock.now += 0.2
        progress.update(position(4000, 0.2 * i), SUMMARY)
    progress.close()
    # 5 s after the start, then every 5 s: 3 or 4, as 0.2 is not exact.
    assert 3 <= len(lines) <= 4
    assert stderr.getvalue() == "", "a bar would write there"
    assert lines[0].startswith("BalancedReturn 12.3 | episodes 1,234 | env steps 4,000 | steps/s ")
    assert lines[0].endswith(" | lag 0/1.3/3")


def test_there_is_no_bar_without_stderr(monkeypatch, clock, lines):
    monkeypatch.setattr(sys.modules[__name__], "_Stderr", lambda isatty: None)  # as after 2>&-
    progress, _ = make_progress(monkeypatch, clock, isatty=True)
    clock.now += 6.0
    progress.update(position(4000, 6.0), SUMMARY)
    progress.close()
    assert len(lines) == 1 and lines[0].startswith("BalancedReturn 12.3 | ")


NAN = float("nan")
# Arguments, seconds since the last step, a part of the line, a part of the bar.
IN_LINE_AND_BAR = {
    "without episodes": (
        dict(balanced_return=NAN, num_episodes=0),
        0.0,
        "AverageReturn - | episodes 0 | env steps 5 | steps/s 2,000 / 2,000 / 2,000 (10 s / 1 min / 5 min) "
        "| collected/s 2,500 | lag 0/1.3/3",
        " lag 0/1.3/3",
    ),
    "bottleneck": (
        dict(word="actors"),
        0.0,
        " | collected/s 2,500 | bottleneck actors | lag ",
        " steps/s, bottleneck actors] lag",
    ),
    "several policies": (
        dict(policies={"main": 20.0, "other": NAN}),
        0.0,
        "BalancedReturn 12.3 | main 20, other - | episodes 1,234 |",
        " lag 0/1.3/3 main 20, other -",
    ),
    "an old return": (
        {},
        130.0,
        "BalancedReturn 12.3 (over 2 min old) | episodes 1,234 |",
        "BalancedReturn 12.3 (over 2 min old) 5 steps",
    ),
}


@pytest.mark.parametrize("kwargs, seconds, of_line, of_bar", IN_LINE_AND_BAR.values(), ids=IN_LINE_AND_BAR)
def test_the_line_and_the_bar(monkeypatch, clock, kwargs, seconds, of_line, of_bar):
    progress, stderr = make_progress(monkeypatch, clock, isatty=True, **kwargs)
    clock.now += seconds
    progress.update(position(5, 0.0), SUMMARY)
    assert of_line in progress.line()
    progress.close()
    assert of_bar in stderr.getvalue()


def test_the_lag_stays_while_no_update_is_due(monkeypatch, clock):
    progress, _ = make_progress(monkeypatch, clock, isatty=False)
    progress.update(position(5, 0.0), {})
    assert progress.line().endswith("| no update yet")
    progress.update(position(5, 1.0), SUMMARY)
    progress.update(position(5, 2.0), {})
    assert progress.line().endswith("| lag 0/1.3/3")


def test_steps_of_a_counter_are_those_since_its_first_value():
    clock = Clock()
    throughput = Throughput(clock)
    for count in (500, 500, 700, 900):
        throughput.count_up_to(count)
    clock.now += 2.0
    throughput.count_up_to(1000)
    assert throughput.rates()["10s"] == pytest.approx(500 / 2)


def test_the_time_that_is_left_is_that_of_the_criterion_that_comes_first(monkeypatch, clock):
    progress, _ = make_progress(monkeypatch, clock, isatty=False, num_env_steps=10_000, max_seconds=100.0)
    for now in (position(0, 0.0), position(1000, 1.0)):  # the rate counts from the first train step
        progress.update(now, SUMMARY)
        assert "left" not in progress.line()
    progress.update(position(2000, 11.0), SUMMARY)  # 8,000 steps, 100 each second
    assert progress.line().endswith("lag 0/1.3/3 | 01:20 left")
    progress.update(position(2000, 41.0), SUMMARY)  # 8,000 steps, 25 each second: 320 s
    assert progress.line().endswith("lag 0/1.3/3 | 00:59 left")


def test_the_time_that_is_left_follows_the_phase(monkeypatch, clock):
    limits = Position(None, None, None)
    before = Phase(False, limits._replace(num_iterations=100), "until collection begins")
    during = Phase(True, limits._replace(num_env_steps=1000), "until collection ends")
    after = Phase(False, limits)
    progress, _ = make_progress(monkeypatch, clock, isatty=False, num_iterations=1000)
    progress.update(position(0, 1.0, iterations=1), SUMMARY, before)
    progress.update(position(0, 11.0, iterations=51), SUMMARY, before)  # 5 iterations each second
    assert progress.line().endswith(" | 00:09 until collection begins")
    progress.update(position(0, 21.0, iterations=100), SUMMARY, during)
    assert progress.line().endswith("lag 0/1.3/3"), "the speed of this phase is not known yet"
    progress.update(position(100, 31.0, iterations=200), SUMMARY, during)  # 10 steps, 10 iterations a second
    assert progress.line().endswith(" | 01:20 left")
    progress.update(position(900, 41.0, iterations=201), SUMMARY, during)
    assert progress.line().endswith(" | 00:02 until collection ends")
    progress.update(position(1000, 50.0, iterations=400), SUMMARY, after)
    progress.update(position(1000, 51.0, iterations=500), SUMMARY, after)
    assert progress.line().endswith(" | 00:05 left")


def test_a_bar_on_a_terminal_without_a_size(monkeypatch, clock):
    monkeypatch.setenv("COLUMNS", "0")
    progress, stderr = make_progress(monkeypatch, clock, isatty=True)
    clock.now += 1.0
    progress.update(position(4000, 0.0), SUMMARY)
    progress.close()
    assert "BalancedReturn 12.3" in stderr.getvalue()


def test_a_bar_on_a_terminal(monkeypatch, clock, lines):
    monkeypatch.setenv("COLUMNS", "150")
    progress, stderr = make_progress(monkeypatch, clock, isatty=True, num_env_steps=10_000)
    progress.update(position(1000, 1.0), SUMMARY)
    clock.now += 3.0
    progress.update(position(4000, 4.0), SUMMARY)
    clock.now += 0.1
    progress.update(position(4500, 4.1), SUMMARY)  # too early to show
    shown = stderr.getvalue()
    assert re.search(
        r" 40%\|#+[^|]* +\| BalancedReturn 12.3 4,000 steps \[00:03<00:06, 800 steps/s\] lag 0/1.3/3", shown
    )
    assert "4,500" not in shown
    progress.close()
    last = stderr.getvalue().rstrip().rpartition("\r")[2]
    assert re.fullmatch(
        r" 45%\|#+[^|]* +\| BalancedReturn 12.3 4,500 steps \[00:03<00:0\d, \d+ steps/s\] lag .*", last
    )
    assert len(last) == 150
    assert not lines


def test_a_bar_without_an_end_in_sight(monkeypatch, clock):
    progress, stderr = make_progress(monkeypatch, clock, isatty=True, target_return=10.0)
    clock.now += 3.0
    progress.update(position(4000, 1.0), SUMMARY)
    progress.close()
    last = stderr.getvalue().rstrip().rpartition("\r")[2]
    assert last == "BalancedReturn 12.3 4,000 steps [00:03, 800 steps/s] lag 0/1.3/3"


def test_the_log_takes_the_place_of_the_bar(monkeypatch, clock):
    monkeypatch.setenv("COLUMNS", "70")
    progress, stderr = make_progress(monkeypatch, clock, isatty=True)
    clock.now += 1.0
    progress.update(position(4000, 1.0), SUMMARY)
    record = std_logging.LogRecord("absl", std_logging.WARNING, __file__, 1, "what is logged", (), None)
    handler = logging.get_absl_handler()
    assert handler.filter(record)
    assert stderr.getvalue().endswith("lag 0/1.3/3\r" + 66 * " " + "\r")
    progress.close()
    before = stderr.getvalue()
    handler.filter(record)
    assert stderr.getvalue() == before
