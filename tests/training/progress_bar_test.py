# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Throughput and the progress line, with a clock of the test's own."""

import io
import logging as std_logging
import sys

import pytest
from absl import logging

from alf.training import progress_bar
from alf.training.progress_bar import ProgressBar, Throughput

METRICS = {"AverageReturn": 12.34, "NumberOfEpisodes": 1234}
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
    found = []

    class Handler(std_logging.Handler):
        def emit(self, record):
            found.append(record.getMessage())

    handler, verbosity = Handler(), logging.get_verbosity()
    logging.set_verbosity(logging.INFO)
    logging.get_absl_logger().addHandler(handler)
    yield found
    logging.get_absl_logger().removeHandler(handler)
    logging.set_verbosity(verbosity)


def make_progress(monkeypatch, clock, isatty, **kwargs):
    stderr = _Stderr(isatty)
    monkeypatch.setattr(sys, "stderr", stderr)
    throughput = Throughput(clock)
    clock.now += 2.0
    throughput.add(4000)
    return ProgressBar(throughput, **kwargs), stderr


def test_one_line_every_few_seconds_without_a_terminal(monkeypatch, clock, lines):
    progress, stderr = make_progress(monkeypatch, clock, isatty=False)
    for _ in range(100):  # 20 s
        clock.now += 0.2
        progress.update(4000, METRICS, SUMMARY)
    progress.close()
    # 5 s after the start, then every 5 s: 3 or 4, as 0.2 is not exact.
    assert 3 <= len(lines) <= 4
    assert stderr.getvalue() == "", "a bar would write there"
    assert lines[0].startswith("env steps 4,000 | steps/s ")
    assert lines[0].endswith("(10 s / 1 min / 5 min) | return 12.3 | episodes 1,234 | lag 0/1.3/3")


def test_line_without_episodes(monkeypatch, clock):
    progress, _ = make_progress(monkeypatch, clock, isatty=False)
    line = progress.line(5, {"AverageReturn": float("nan"), "NumberOfEpisodes": 0}, SUMMARY)
    assert line == (
        "env steps 5 | steps/s 2,000 / 2,000 / 2,000 (10 s / 1 min / 5 min) "
        "| return - | episodes 0 | lag 0/1.3/3"
    )


def test_a_bar_on_a_terminal_without_a_size(monkeypatch, clock):
    monkeypatch.setenv("COLUMNS", "0")
    progress, stderr = make_progress(monkeypatch, clock, isatty=True)
    clock.now += 1.0
    progress.update(4000, METRICS, SUMMARY)
    progress.close()
    assert "return 12.3" in stderr.getvalue()


def test_a_bar_on_a_terminal(monkeypatch, clock, lines):
    progress, stderr = make_progress(monkeypatch, clock, isatty=True, total_steps=10_000, initial_steps=1000)
    clock.now += 1.0
    progress.update(4000, METRICS, SUMMARY)
    clock.now += 0.1
    progress.update(4500, METRICS, SUMMARY)  # too early to show
    progress.close()
    shown = stderr.getvalue()
    assert "40%" in shown and "4.00k/10.0k" in shown and "4.50k" not in shown.split("\r")[1]
    assert "return 12.3 lag 0/1.3/3" in shown
    assert not lines
