# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""benchmarks.waiting: its figures."""

from tests.benchmarks.conftest import import_program

waiting = import_program("benchmarks.waiting")


def test_environments_that_sleep_are_the_limit():
    rate, cpu = waiting.measure(0.01, 4, "auto", 2.0)
    limit = 4 / 0.01
    assert 0.03 * limit < rate <= 1.3 * limit  # batches that end at the beginning have been counted, too
    assert 0 < cpu * rate < 1, "the process waits"


def test_a_row_has_the_rate_as_a_fraction_of_the_limit():
    line = waiting.format_row(5.0, 64, 6400.0, 20e-6)
    assert line == "| 5 | 64 | 6,400 | 0.50 | 20.0 | 640 |"
