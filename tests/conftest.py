# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Sets TensorFlow up for all tests, before any of them starts it, and sorts the tests into tiers.

`make test` runs the tests that stay in this process and in ALF's environment workers, `make test-all` also
the files with the mark "programs", `make test-slow` the tests with the mark "slow". A file that is named on
the command line is run in either of the first two tiers.
"""

import gc
import pathlib
import random

import gin
import pytest

from alf.drivers import reserve_threads

reserve_threads(128)

TESTS = pathlib.Path(__file__).resolve().parent


def starts_programs(path):
    """Returns whether a file of tests has the mark "programs". It is only read: imports may need extras."""
    return "pytest.mark.programs" in path.read_text(encoding="utf-8")


def pytest_addoption(parser):
    group = parser.getgroup("tiers")
    help_of_tier = "quick: what starts no programs; all: those that do, too; slow: those with that mark alone"
    group.addoption("--tier", choices=("quick", "all", "slow"), default="quick", help=help_of_tier)
    help_of_part = "one of N equal parts of the tests, counted from 0"
    group.addoption("--part", metavar="K/N", default="0/1", help=help_of_part)


def pytest_ignore_collect(collection_path, config):
    is_test = collection_path.name.endswith("_test.py")
    if config.getoption("tier") == "quick" and is_test and starts_programs(collection_path):
        return True
    return None


def pytest_collection_modifyitems(config, items):
    is_slow = config.getoption("tier") == "slow"
    chosen = [item for item in items if (item.get_closest_marker("slow") is not None) == is_slow]
    part, num_parts = map(int, config.getoption("part").split("/"))
    chosen = chosen[part::num_parts]
    config.hook.pytest_deselected(items=list(set(items) - set(chosen)))
    items[:] = chosen


def pytest_collection_finish():
    # What the test modules hold lives to the end. Tracing makes so many objects that Python would look for
    # cycles among them all the time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_terminal_summary(terminalreporter, config):
    if config.getoption("tier") == "quick":
        num_files = sum(map(starts_programs, TESTS.rglob("*_test.py")))
        programs = f"{num_files} files of tests that start programs (make test-all)"
        terminalreporter.write_line(f"Left out: {programs}, and the slow tests (make test-slow)")


@pytest.fixture(autouse=True)
def _equal_initial_weights():
    """Gives every test the initial weights that it had in the last run: they come from this generator."""
    random.seed(0)


@pytest.fixture(autouse=True)
def _fresh_gin():
    """Gives every test a gin without bindings."""
    yield
    gin.clear_config()  # unlocks it, too
