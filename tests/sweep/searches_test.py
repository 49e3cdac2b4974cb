# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Which settings a sweep tries: grids against the literal product, samples against the literal draw."""

import math
import sys
import types

import numpy as np
import pytest

from alf.errors import ConfigError
from alf.population.mutation import Choice, Discount, Integers, LogUniform, Uniform
from alf.sweep.searches import (
    FixedSearch,
    could_draw,
    describe,
    draw_samples,
    list_points,
    make_search,
    parse_grid,
    recall,
    suggest,
)
from alf.sweep.sweep import Sweep

RANGES = {
    "Adam.learning_rate": LogUniform(1e-4, 1e-2),
    "PPOAlgorithm.clip_range": Uniform(0.1, 0.3),
    "PPOAlgorithm.discount": Discount(0.9, 0.999),
    "Experiment.unroll_length": Integers(4, 9),
    "Experiment.exp_replayer": Choice(["one_time", "mix_in"]),
}


def ask_all(search):
    known = []
    while (asked := search.ask(known)) is not None:
        known.append(asked)
    return known


def test_a_grid_is_the_literal_product():
    grid = parse_grid(
        ["Adam.learning_rate=[1e-3, 0.1]", " a/B.c = ('x', None, (3, 4)) ", "Net.ctor=[@Sweep]"]
    )
    expected = []
    for rate in ("0.001", "0.1"):
        for value in ("'x'", "None", "(3, 4)"):
            expected.append({"Adam.learning_rate": rate, "a/B.c": value, "Net.ctor": "@Sweep"})
    assert list_points(grid) == expected
    assert ask_all(make_search(Sweep(), grid)) == expected
    assert ask_all(make_search(Sweep(), {})) == [{}]


WRONG_GRIDS = {
    "no value": (["a.b"], "--grid=a.b: it must be NAME="),
    "no name": (["=[1]"], "--grid==.1.: it must be NAME="),
    "empty": (["a.b=[]"], r"--grid=a.b=\[\]: it must be a list of one or more values"),
    "no list": (["a.b=3"], "--grid=a.b=3: it must be a list"),
    "a text": (["a.b='12'"], "--grid=a.b='12': it must be a list"),
    "twice": (["a.b=[1]", "a.b=[2]"], "^--grid has a.b twice: name it once$"),
    "two names": (
        ["x/LogUniform.low=[1]", "x/alf.population.LogUniform.low=[2]"],
        "^--grid has x/LogUniform.low and x/alf.population.LogUniform.low, which are the same: name it once$",
    ),
    "value twice": (["a.b=[0.1, 2, 1e-1]"], "--grid=a.b=.*: 0.1 is there twice"),
    "broken": (["a.b=[1, "], "--grid=a.b=.1,: it cannot be read"),
    "word": (["a.b=[relu]"], "--grid=a.b=.relu.: it cannot be read"),
    "reference": (["a.b=[@Nothing]"], "--grid=a.b=.@Nothing.: it cannot be read: .*Nothing"),
}


@pytest.mark.parametrize("texts, message", WRONG_GRIDS.values(), ids=WRONG_GRIDS)
def test_a_wrong_grid_is_one_line(texts, message):
    with pytest.raises(ConfigError, match=message) as error:
        parse_grid(texts)
    assert "\n" not in str(error.value)


def test_samples_are_the_literal_draws():
    samples = draw_samples(RANGES, 5, seed=3)
    for i, sample in enumerate(samples):
        rng = np.random.default_rng([3, i])
        rate = math.exp(rng.uniform(math.log(1e-4), math.log(1e-2)))
        clip, distance = (
            rng.uniform(0.1, 0.3),
            math.exp(rng.uniform(math.log(1.0 - 0.999), math.log(1.0 - 0.9))),
        )
        length, replayer = rng.integers(4, 10), ["one_time", "mix_in"][rng.integers(2)]
        assert float(sample["Adam.learning_rate"]) == pytest.approx(rate, rel=1e-12)
        assert float(sample["PPOAlgorithm.clip_range"]) == clip
        assert float(sample["PPOAlgorithm.discount"]) == pytest.approx(1.0 - distance, rel=1e-12)
        assert sample["Experiment.unroll_length"] == str(length)
        assert sample["Experiment.exp_replayer"] == repr(replayer)
    assert draw_samples(RANGES, 7, seed=3)[:5] == samples  # more samples keep those from before
    assert draw_samples(RANGES, 5, seed=4) != samples


def test_each_point_of_a_grid_gets_the_same_samples():
    sweep = Sweep({"Adam.learning_rate": LogUniform(1e-4, 1e-2)}, num_samples=2)
    trials = ask_all(make_search(sweep, {"a.b": ["1", "2"]}))
    samples = draw_samples(sweep.settings, 2, 0)
    assert trials == [{"a.b": value} | sample for value in "12" for sample in samples]


def test_equal_samples_are_one_trial():
    sweep = Sweep({"a.b": Choice([1, 2])}, num_samples=20)
    search = make_search(sweep, {})
    assert search.count == 2 and sorted(trial["a.b"] for trial in ask_all(search)) == ["1", "2"]


def test_a_search_that_grows_asks_for_what_is_new_alone():
    old = [{"a.b": "1"}, {"a.b": "3"}]
    search = FixedSearch([{"a.b": text} for text in "123"])
    search.check(old)
    assert search.ask(old) == {"a.b": "2"} and search.ask([*old, {"a.b": "2"}]) is None
    with pytest.raises(ConfigError, match="a.b=3"):
        FixedSearch(old[:1]).check(old)


def test_settings_are_described_in_a_line():
    settings = {"a.b": "0.00012345678", "c.d": "20000", "e.f": "'x'", "g.h": "-3", "i.j": "0.1"}
    assert describe(settings) == "a.b=0.0001235, c.d=20000, e.f='x', g.h=-3, i.j=0.1"


WRONG_SWEEPS = {
    "settings": (
        dict(settings={"a.b": 3}, num_samples=1),
        r"Sweep.settings\['a.b'\] is 3: it must be a Range",
    ),
    "two names": (
        dict(settings=dict.fromkeys(["Sweep.seed", "alf.sweep.Sweep.seed"], Uniform(0, 1)), num_samples=1),
        "^Sweep.settings has Sweep.seed and alf.sweep.Sweep.seed, which are the same: name it once",
    ),
    "samples": (dict(settings={"a.b": Uniform(0, 1)}), "Sweep.num_samples is None"),
    "no settings": (dict(num_samples=3), "Sweep.settings is None"),
    "count": (dict(settings={"a.b": Uniform(0, 1)}, num_samples=0), "Sweep.num_samples is 0"),
    "search": (dict(search="best"), "Sweep.search is 'best': it must be one of 'random', 'optuna'"),
    "optuna": (dict(search="optuna"), "Sweep.search is 'optuna': set Sweep.settings"),
    "seed": (dict(seed=-1), "Sweep.seed is -1"),
    "objective": (dict(objective=3), "Sweep.objective is 3: it must be a text"),
    "value": (dict(value="mean"), "Sweep.value is 'mean': it must be one of 'last', 'best'"),
}


@pytest.mark.parametrize("values, message", WRONG_SWEEPS.values(), ids=WRONG_SWEEPS)
def test_a_wrong_setting_is_one_line(values, message):
    with pytest.raises(ConfigError, match=message):
        Sweep(**values)


class RecordingTrial:
    """Notes how Optuna is asked for a value, and suggests the lowest one."""

    def __init__(self):
        self.asked = []

    def suggest_float(self, name, low, high, log=False):
        self.asked.append((name, low, high, log))
        return low

    def suggest_int(self, name, low, high):
        self.asked.append((name, low, high))
        return low

    def suggest_categorical(self, name, values):
        self.asked.append((name, values))
        return values[0]


def test_ranges_as_optuna_gets_them():
    trial = RecordingTrial()
    values = {name: suggest(trial, name, values) for name, values in RANGES.items()}
    rate, clip, discount, length, replayer = trial.asked
    assert rate == ("Adam.learning_rate", 1e-4, 1e-2, True)
    assert clip == ("PPOAlgorithm.clip_range", 0.1, 0.3, False)
    assert discount == ("1 - PPOAlgorithm.discount", 1.0 - 0.999, 1.0 - 0.9, True)
    assert length == ("Experiment.unroll_length", 4, 9)
    assert replayer == ("Experiment.exp_replayer", ["one_time", "mix_in"])
    assert list(values.values()) == [1e-4, 0.1, pytest.approx(0.999), 4, "one_time"]


def make_optuna_search(num_samples=30):
    pytest.importorskip("optuna")
    settings = {"a.b": LogUniform(1e-4, 1.0)}
    return make_search(Sweep(settings, num_samples, "optuna", seed=1), {})


def objective_of(settings):
    """The best learning rate is 0.01."""
    return -abs(math.log10(float(settings["a.b"])) + 2.0)


def follow(search, known, count):
    """Goes on after the trials of a list, and asks and tells `count` times; adds to the list."""
    search.go_on(known)
    for trial, settings in enumerate(known):
        search.tell(trial, objective_of(settings))
    for _ in range(count):
        known.append(search.ask(known))
        search.tell(len(known) - 1, objective_of(known[-1]))


def test_optuna_searches_where_the_objective_is_high_and_goes_on_as_if_it_had_not_stopped():
    whole, parts = [], []
    follow(make_optuna_search(), whole, 30)
    for _ in range(3):
        follow(make_optuna_search(), parts, 10)
    assert parts == whole and len({trial["a.b"] for trial in whole}) == 30
    first, last = (sum(map(objective_of, part)) / 10 for part in (whole[:10], whole[20:]))
    assert last > first + 0.3
    assert make_optuna_search().ask(whole) is None  # 30 are all


def test_optuna_knows_the_values_of_all_ranges_again():
    pytest.importorskip("optuna")
    sweep = Sweep(RANGES, 40, "optuna")
    search, again = make_search(sweep, {}), make_search(sweep, {})
    known = []
    for _ in range(20):
        known.append(search.ask(known))
    again.check(known)
    again.go_on(known)
    for one, other in zip(search._study.get_trials(), again._study.get_trials(), strict=True):
        assert other.params == pytest.approx(one.params) and other.distributions == one.distributions


@pytest.mark.parametrize("name", RANGES)
def test_what_is_recalled_is_what_was_suggested(name):
    trial = RecordingTrial()
    value = suggest(trial, name, RANGES[name])
    (asked,) = trial.asked
    lowest = asked[1][0] if isinstance(asked[1], list) else asked[1]
    assert recall(name, RANGES[name], repr(value)) == (asked[0], pytest.approx(lowest))


def test_optuna_takes_failed_trials_and_those_that_go_on():
    search = make_optuna_search()
    known = [search.ask([])]
    search.tell(0, None)
    search.tell(0, 3.0)  # again: it has ended
    known.append(search.ask(known))
    assert [trial.state.name for trial in search._study.get_trials()] == ["FAIL", "RUNNING"]
    again = make_optuna_search()
    again.go_on(known)  # both start again
    again.tell(0, 3.0)
    assert [trial.value for trial in again._study.get_trials()] == [3.0, None]
    with pytest.raises(ConfigError, match="Sweep.num_samples is 2: the sweep there has tried 3"):
        make_optuna_search(2).check([{"a.b": "0.1"}] * 3)


@pytest.mark.parametrize(
    "settings",
    [
        {"a.b": "0.01\nimport evil"},
        {"a.b": "@evil()"},
        {"a.b": "1e-5"},
        {"a.b": "0.01", "c.d": "1"},
        {},
        {"a.b": 0.01, "@evil": "1"},
    ],
)
def test_settings_that_optuna_cannot_have_chosen_are_refused(settings):
    """They come from a file, and are parsed as gin bindings, which may import modules."""
    search = make_optuna_search()
    search.check([{"a.b": "0.01"}, {"a.b": "1.0"}])
    with pytest.raises(ConfigError, match="which Sweep.settings cannot draw"):
        search.check([{"a.b": "0.01"}, settings])


@pytest.mark.parametrize(
    "values, text, expected",
    [
        (Choice(["one_time", 1, True]), "'one_time'", True),
        (Choice(["one_time", 1, True]), "True", True),
        (Choice(["one_time", 1, True]), "'mix_in'", False),
        (Choice(["one_time", 1, True]), "one_time", False),
        (Integers(4, 9), "9", True),
        (Integers(4, 9), "10", False),
        (Integers(4, 9), "4.5", False),
        (Discount(0.9, 0.999), "0.9", True),
        (Discount(0.9, 0.999), "nan", False),
    ],
)
def test_what_a_range_could_draw(values, text, expected):
    assert could_draw(values, text) is expected


def test_optuna_knows_no_grid():
    with pytest.raises(ConfigError, match="--grid is set, but Sweep.search is 'optuna': name a Choice"):
        make_search(types.SimpleNamespace(search="optuna"), {"a.b": ["1"]})


def test_without_optuna_there_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ConfigError, match=r'package optuna is not installed: pip install "alf-tf\[sweep\]"'):
        make_search(Sweep({"a.b": Uniform(0, 1)}, 3, "optuna"), {})
