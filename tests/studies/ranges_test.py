# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Ranges, mutation, and who copies whom, against literal models."""

import collections
import math
import subprocess
import sys

import gin
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alf.errors import ConfigError
from alf.studies.evolution import Mutation, Replacement, choose_parent, mutate
from alf.studies.ranges import Choice, Discount, Integers, LogUniform, Uniform, draw, fit

RANGES = {
    "log": LogUniform(1e-6, 1e-1),
    "uniform": Uniform(-2.0, 3.0),
    "discount": Discount(0.9, 0.999),
    "integers": Integers(1, 40),
    "choice": Choice(["a", "b", "c", "d"]),
    "sizes": Choice([8, 16, 32]),
}
NAN = float("nan")


def is_in(setting, value):
    if isinstance(setting, Choice):
        return value in setting.values
    low, high = setting.limits
    return low <= value <= high and isinstance(value, int if isinstance(setting, Integers) else float)


@pytest.mark.parametrize("seed", range(3))
def test_draws_are_in_the_ranges_and_follow_the_seed(seed):
    rng, again = np.random.default_rng(seed), np.random.default_rng(seed)
    for _ in range(200):
        values = draw(RANGES, rng)
        assert values == draw(RANGES, again)
        assert all(is_in(RANGES[name], value) for name, value in values.items())


def test_the_distributions_of_draws():
    rng = np.random.default_rng(0)
    draws = [draw(RANGES, rng) for _ in range(4000)]
    column = {name: np.array([values[name] for values in draws]) for name in RANGES}
    np.testing.assert_allclose(np.mean(column["log"] < 10**-3.5), 0.5, atol=0.04)
    np.testing.assert_allclose(np.mean(column["uniform"] < 0.5), 0.5, atol=0.04)
    np.testing.assert_allclose(np.mean(column["discount"] < 0.99), 0.5, atol=0.04)
    assert set(column["integers"]) == set(range(1, 41))
    counts = collections.Counter(column["choice"])
    assert set(counts) == {"a", "b", "c", "d"} and min(counts.values()) > 800


@pytest.mark.parametrize(
    "name, value, factor, up, down",
    [
        ("log", 1e-3, 1.25, 1.25e-3, 8e-4),
        ("log", 9e-2, 1.25, 1e-1, 7.2e-2),
        ("log", 1e-6, 2.0, 2e-6, 1e-6),
        ("uniform", 1.0, 1.5, 1.5, 1 / 1.5),
        ("uniform", -1.5, 1.5, -2.0, -1.0),
        ("uniform", 0.0, 1.5, 0.0, 0.0),
        ("discount", 0.98, 2.0, 0.99, 0.96),
        ("discount", 0.9985, 2.0, 0.999, 0.997),
        ("discount", 0.93, 2.0, 0.965, 0.9),
        ("integers", 10, 1.5, 15, 7),
        ("integers", 2, 1.1, 3, 1),
        ("integers", 40, 1.5, 40, 27),
        ("integers", 1, 1.1, 2, 1),
        ("choice", "b", 1.1, "c", "a"),
        ("choice", "d", 1.5, "d", "c"),
        ("sizes", 8, 1.5, 16, 8),
    ],
)
def test_moves(name, value, factor, up, down):
    moved = [RANGES[name].move(value, factor, is_up) for is_up in (True, False)]
    if isinstance(up, float):
        np.testing.assert_allclose(moved, [up, down], rtol=1e-12)
    else:
        assert moved == [up, down]
    assert all(is_in(RANGES[name], x) for x in moved)


@given(seed=st.integers(0, 2**32 - 1), rate=st.sampled_from([0.0, 0.3, 1.0]))
def test_mutated_values_are_moves_in_the_ranges(seed, rate):
    rng = np.random.default_rng(seed)
    values = draw(RANGES, rng)
    mutated = mutate(values, RANGES, Mutation(rate, 1.2, 1.5, 0.0), rng)
    assert mutated.keys() == values.keys()
    for name, value in mutated.items():
        assert is_in(RANGES[name], value)
        before = values[name]
        if name == "log" and value not in (before, *RANGES[name].limits):
            assert 1.2 - 1e-9 <= max(value / before, before / value) <= 1.5 + 1e-9
    if rate == 0.0:
        assert mutated == values


def count_changes(**settings):
    """Of 4000 values in the middle of a range: the share that changed, and went up, and the factors."""
    rng, ranges = np.random.default_rng(1), {"x": LogUniform(1e-30, 1e30)}
    values = np.array([mutate({"x": 1.0}, ranges, Mutation(**settings), rng)["x"] for _ in range(4000)])
    factors = np.maximum(values, 1 / values)
    return np.mean(values != 1.0), np.mean(values > 1.0), factors


@pytest.mark.parametrize("seed", range(3))
def test_what_is_in_the_ranges_fits(seed):
    values = draw(RANGES, np.random.default_rng(seed))
    assert fit(values, RANGES) == values


@pytest.mark.parametrize(
    "setting, value, fitted",
    [
        (LogUniform(1e-4, 1e-2), 0.5, 1e-2),
        (Uniform(-1.0, 2.0), -3, -1.0),
        (Discount(0.9, 0.99), 0.999, 0.99),
        (Integers(2, 9), 1, 2),
        (Integers(2, 9), 3.4, 3),
        (Integers(2, 9), "relu", 2),
        (Choice(["a", "b"]), "c", "a"),
        (Choice([8, 16]), 4.5, 8),
        (Uniform(0.5, 2.0), True, 0.5),
    ],
    ids=["log", "uniform", "discount", "few", "rounded", "text", "texts", "numbers", "bool"],
)
def test_what_is_in_no_range_gets_into_it(setting, value, fitted):
    assert fit({"x": value}, {"x": setting}) == {"x": fitted}
    assert is_in(setting, fitted)


def test_the_largest_values():
    largest = {name: setting.largest() for name, setting in RANGES.items()}
    numbers = {"log": 1e-1, "uniform": 3.0, "discount": 0.999, "integers": 40, "sizes": 32}
    assert largest == {**numbers, "choice": "d"}


def test_rate_and_factors():
    share, up, factors = count_changes(rate=0.3, min_factor=1.2, max_factor=2.0, resample_rate=0.0)
    np.testing.assert_allclose([share, up], [0.3, 0.15], atol=0.03)
    moved = factors[factors > 1.0]
    assert 1.2 - 1e-9 <= moved.min() < 1.25 and 1.95 < moved.max() <= 2.0 + 1e-9
    assert count_changes(rate=1.0, min_factor=1.2, max_factor=2.0, resample_rate=0.0)[0] == 1.0
    assert count_changes(rate=0.0, min_factor=1.2, max_factor=2.0, resample_rate=0.0)[0] == 0.0


def test_resample_rate():
    share, _, factors = count_changes(rate=0.0, min_factor=1.2, max_factor=2.0, resample_rate=0.2)
    np.testing.assert_allclose(share, 0.2, atol=0.03)
    assert np.median(factors[factors > 1.0]) > 1e3, "anywhere in the range"


def test_settings_change_independently():
    rng, ranges = np.random.default_rng(2), {name: LogUniform(1e-3, 1e3) for name in "ab"}
    settings = dict(rate=0.5, min_factor=1.1, max_factor=1.2, resample_rate=0.0)
    pairs = collections.Counter()
    for _ in range(2000):
        mutated = mutate({"a": 1.0, "b": 1.0}, ranges, Mutation(**settings), rng)
        pairs[mutated["a"] != 1.0, mutated["b"] != 1.0] += 1
    assert len(pairs) == 4 and min(pairs.values()) > 400


def literal_choice(member, objectives, quantile, min_gap, min_relative_gap):
    """The parents that a member may copy, written down as one would say it."""
    num_members = len(objectives)
    finite = sorted((x, i) for i, x in enumerate(objectives) if not math.isnan(x))
    order = [i for i, x in enumerate(objectives) if math.isnan(x)] + [i for _, i in finite]
    count = 0
    while count < num_members * quantile and 2 * (count + 1) <= num_members:
        count += 1
    if order.index(member) >= count:
        return set()
    allowed = set()
    for parent in order[::-1][:count]:
        better = objectives[parent] - objectives[member]
        if math.isnan(objectives[parent]):
            continue
        is_enough = better > 0 and better >= min_gap and better >= min_relative_gap * abs(objectives[parent])
        if is_enough or math.isnan(objectives[member]):
            allowed.add(parent)
    return allowed


OBJECTIVES = st.lists(st.sampled_from([NAN, -50.0, -1.0, 0.0, 1.0, 2.0, 2.5, 100.0]), min_size=1, max_size=9)


@given(
    objectives=OBJECTIVES,
    quantile=st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5]),
    min_gap=st.sampled_from([0.0, 0.5, 60.0]),
    min_relative_gap=st.sampled_from([0.0, 0.3, 1.5]),
)
def test_the_choice_of_a_parent_is_that_of_the_literal_model(objectives, quantile, min_gap, min_relative_gap):
    rng = np.random.default_rng(0)
    settings = quantile, min_gap, min_relative_gap
    for member in range(len(objectives)):
        chosen = {choose_parent(member, objectives, Replacement(*settings), rng) for _ in range(60)}
        allowed = literal_choice(member, objectives, *settings)
        assert chosen - {None} == allowed
        assert member not in chosen


def test_parents_are_equally_likely():
    rng, objectives = np.random.default_rng(3), [0.0, 1.0, 5.0, 6.0]
    counts = collections.Counter(choose_parent(0, objectives, Replacement(0.5), rng) for _ in range(1000))
    assert set(counts) == {2, 3} and min(counts.values()) > 400


def test_nobody_copies_one_that_is_not_better():
    rng = np.random.default_rng(0)
    assert [choose_parent(0, [1.0, other], Replacement(0.5), rng) for other in (1.0, 1.1)] == [None, 1]


def test_nobody_copies_a_member_without_an_objective():
    rng = np.random.default_rng(0)
    assert choose_parent(0, [NAN, NAN, NAN, NAN], Replacement(0.5), rng) is None
    assert {choose_parent(0, [NAN, 1.0, NAN, NAN], Replacement(0.5), rng) for _ in range(20)} == {1}


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: LogUniform(0, 1), "LogUniform.low is 0: it must be a number above 0$"),
        (lambda: LogUniform(1e-2, 1e-3), "LogUniform.low is 0.01: it must be less than high = 0.001$"),
        (lambda: Uniform(1, "2"), "Uniform.high is '2': it must be a number$"),
        (lambda: Uniform(1, 1), "Uniform.low is 1: it must be less than high = 1$"),
        (lambda: Discount(0.9, 1.0), "Discount.high is 1.0: it must be a number below 1$"),
        (lambda: Discount(-0.1, 0.9), "Discount.low is -0.1: it must be a number at least 0$"),
        (lambda: Integers(1.0, 2), "Integers.low is 1.0: it must be an integer$"),
        (lambda: Integers(3, 2), "Integers.low is 3: it must be less than high = 2$"),
        (lambda: Choice("ab"), "Choice.values is 'ab': it must be a tuple or list, each a number"),
        (lambda: Choice([1]), r"Choice.values is \[1\]: it must have at least two values"),
        (lambda: Choice([1, None]), r"Choice.values\[1\] is None: it must be a number"),
        (lambda: Mutation(rate=1.5), "Mutation.rate is 1.5: .* at most 1$"),
        (lambda: Mutation(resample_rate=-1), "Mutation.resample_rate is -1: .*"),
        (lambda: Mutation(min_factor=0.8), "Mutation.min_factor is 0.8: it must be a number at least 1$"),
        (lambda: Mutation(min_factor=1.6), "Mutation.max_factor is 1.5: it must be at least min_factor"),
        (lambda: Replacement(quantile=0.6), "Replacement.quantile is 0.6: .* at most 0.5$"),
        (lambda: Replacement(min_gap=-1), "Replacement.min_gap is -1: .*"),
        (lambda: Replacement(min_relative_gap=-1), "Replacement.min_relative_gap is -1: .*"),
        (lambda: Replacement(warm_up=1.5), "Replacement.warm_up is 1.5: it must be an integer.*"),
    ],
)
def test_wrong_numbers_are_one_line(make, message):
    with pytest.raises(ConfigError, match=f"(?m)^{message}"):
        make()


def test_gin_binds_ranges_by_scopes():
    gin.parse_config(
        """
        rate/LogUniform.low = 1e-5
        rate/LogUniform.high = 1e-2
        Choice.values = [1, 2]
        settings/macro.value = {"Adam.learning_rate": @rate/LogUniform(), "A.b": @Choice()}
        """
    )
    settings = gin.query_parameter("settings/macro.value")
    made = {name: reference.scoped_configurable_fn() for name, reference in settings.items()}
    assert made["Adam.learning_rate"].limits == (1e-5, 1e-2) and made["A.b"].values == [1, 2]


def test_a_study_needs_neither_ray_nor_tensorflow():
    modules = "population_study", "sweep_study", "runner", "placement"
    imports = ", ".join(f"alf.studies.{name}" for name in modules)
    program = f"import sys, {imports}; print('ray' in sys.modules, 'tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.stdout == "False False\n", done.stderr
