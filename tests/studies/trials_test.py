# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Which settings a sweep tries: grids against the literal product, samples against the literal draw."""

import math
import sys

import numpy as np
import optuna
import pytest

from alf.errors import ConfigError
from alf.studies.ranges import Choice, Discount, Integers, LogUniform, Uniform
from alf.studies.resources import Resources
from alf.studies.run_study import check_sweep
from alf.studies.settings import Sweep, name_grid, parse_grid
from alf.studies.trials import Trials, describe, make_distribution, make_pruner, plan_trials

RANGES = {
    "Adam.learning_rate": LogUniform(1e-4, 1e-2),
    "PPOAlgorithm.clip_range": Uniform(0.1, 0.3),
    "PPOAlgorithm.discount": Discount(0.9, 0.999),
    "Experiment.unroll_length": Integers(4, 9),
    "Experiment.exp_replayer": Choice(["one_time", "mix_in"]),
}


def test_a_grid_is_the_literal_product():
    texts = [
        "Adam.learning_rate=[1e-3, 0.1]",
        " a/SGD.momentum = (0.5, 0, 0.9) ",
        "Experiment.driver=[@Sweep]",
    ]
    grid = name_grid(parse_grid(texts))
    expected = []
    for rate in ("0.001", "0.1"):
        for value in ("0.5", "0", "0.9"):
            expected.append(
                {"Adam.learning_rate": rate, "a/SGD.momentum": value, "Experiment.driver": "@Sweep"}
            )
    assert plan_trials(Sweep(), grid) == expected
    assert plan_trials(Sweep(), {}) == [{}]


WRONG_GRIDS = {
    "no value": (["SGD.momentum"], "grid=SGD.momentum: it must be NAME="),
    "no name": (["=[1]"], "grid==.1.: it must be NAME="),
    "empty": (["SGD.momentum=[]"], r"grid SGD.momentum=\[\]: it must be a list of one or more values"),
    "no list": (["SGD.momentum=3"], "grid=SGD.momentum=3: it must be a list"),
    "a text": (["SGD.momentum='12'"], "grid=SGD.momentum='12': it must be a list"),
    "twice": (["SGD.momentum=[1]", "SGD.momentum=[2]"], "^grid has SGD.momentum twice: name it once$"),
    "two names": (
        ["x/LogUniform.low=[1]", "x/alf.population.LogUniform.low=[2]"],
        "^grid has x/LogUniform.low and x/alf.population.LogUniform.low, which are the same: name it once$",
    ),
    "value twice": (["SGD.momentum=[0.1, 2, 1e-1]"], "grid SGD.momentum=.*: 0.1 is there twice"),
    "broken": (["SGD.momentum=[1, "], "grid=SGD.momentum=.1, : it must be a list"),
    "reference": (
        ["SGD.momentum=[@Nothing]"],
        "grid=SGD.momentum=.@Nothing.: .*@Nothing",
    ),
}


def test_a_wrong_grid_is_one_line(subtests):
    for what, (texts, message) in WRONG_GRIDS.items():
        with subtests.test(what):
            with pytest.raises(ConfigError, match=message) as error:
                name_grid(parse_grid(texts))
            assert "\n" not in str(error.value)


def test_samples_are_the_literal_draws():
    samples = plan_trials(Sweep(RANGES, 5, seed=3), {})
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
    assert plan_trials(Sweep(RANGES, 7, seed=3), {})[:5] == samples  # more samples keep those from before
    assert plan_trials(Sweep(RANGES, 5, seed=4), {}) != samples


def test_each_point_of_a_grid_gets_the_same_samples():
    sweep = Sweep({"Adam.learning_rate": LogUniform(1e-4, 1e-2)}, num_samples=2)
    samples = plan_trials(sweep, {})
    assert plan_trials(sweep, {"a.b": ["1", "2"]}) == [
        {"a.b": value} | sample for value in "12" for sample in samples
    ]


def test_equal_samples_are_one_trial():
    trials = plan_trials(Sweep({"a.b": Choice([1, 2])}, num_samples=20), {})
    assert sorted(trial["a.b"] for trial in trials) == ["1", "2"]


def test_a_search_that_grows_asks_for_what_is_new_alone(tmp_path):
    trials = Trials(str(tmp_path), Sweep(), {"a.b": ["1", "3"]})
    assert [trials.ask() for _ in range(3)] == [0, 1, None]
    trials.tell(0, 1.0)
    grown = Trials(str(tmp_path), Sweep(), {"a.b": ["1", "2", "3"]})
    assert grown.count == 3 and [grown.ask() for _ in range(2)] == [2, None]
    assert [x["a.b"] for x in grown.settings] == ["1", "3", "2"]
    assert [grown.is_over(i) for i in range(3)] == [True, False, False]
    with pytest.raises(ConfigError, match="has tried a.b=3, which is not asked for now"):
        Trials(str(tmp_path), Sweep(), {"a.b": ["1", "2"]})


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
    "pruner": (dict(pruner=3, pruner_interval=3), "Sweep.pruner is 3: it must be a text"),
    "interval": (
        dict(pruner="MedianPruner"),
        "Sweep.pruner_interval is None, but Sweep.pruner is set: both, or",
    ),
    "no pruner": (dict(pruner_interval=10), "Sweep.pruner is None, but Sweep.pruner_interval is set"),
    "value": (dict(value="mean"), "Sweep.value is 'mean': it must be one of 'last', 'best'"),
}


def test_a_wrong_setting_is_one_line(subtests):
    for what, (values, message) in WRONG_SWEEPS.items():
        with subtests.test(what), pytest.raises(ConfigError, match=message):
            Sweep(**values)


def test_ranges_as_optuna_gets_them():
    distributions = optuna.distributions
    rate, clip, discount, length, replayer = map(make_distribution, RANGES.values())
    assert rate == distributions.FloatDistribution(1e-4, 1e-2, log=True)
    assert clip == distributions.FloatDistribution(0.1, 0.3)
    assert discount == distributions.FloatDistribution(1.0 - 0.999, 1.0 - 0.9, log=True)
    assert length == distributions.IntDistribution(4, 9)
    assert replayer == distributions.CategoricalDistribution(("one_time", "mix_in"))


PRUNERS = {
    "MedianPruner": dict(n_startup_trials=3),
    "PercentilePruner": dict(percentile=25.0),
    "SuccessiveHalvingPruner": {},
    "HyperbandPruner": dict(min_resource=2),
}


@pytest.mark.parametrize("name", PRUNERS)
def test_pruners_have_their_names(name):
    assert type(make_pruner(name, PRUNERS[name])).__name__ == name
    assert type(make_pruner(None, {})).__name__ == "NopPruner"


WRONG_PRUNERS = [
    ("median", {}, "Sweep.pruner is 'median': it must be one of Optuna's .*MedianPruner"),
    ("BasePruner", {}, "Sweep.pruner is 'BasePruner': it must be one of Optuna's"),
    ("os", {}, "Sweep.pruner is 'os': it must be one of Optuna's"),
    ("MedianPruner", {"n_startup": 3}, "^Sweep.pruner_arguments is .*: .*"),
    ("MedianPruner", {"n_startup_trials": -1}, "^Sweep.pruner_arguments is .*: .*"),
    ("MedianPruner", {"n_startup_trials": "x"}, "^Sweep.pruner_arguments is .*: .*"),
]


def test_a_wrong_pruner_is_one_line(subtests):
    for name, arguments, message in WRONG_PRUNERS:
        with subtests.test(f"{name} {arguments}"), pytest.raises(ConfigError, match=message):
            make_pruner(name, arguments)


def open_search(folder, num_samples=30):
    sweep = Sweep({"a.b": LogUniform(1e-4, 1.0)}, num_samples, "optuna", seed=1)
    return Trials(str(folder), sweep, {})


def objective_of(settings):
    """The best learning rate is 0.01."""
    return -abs(math.log10(float(settings["a.b"])) + 2.0)


def follow(trials, count):
    for _ in range(count):
        index = trials.ask()
        trials.tell(index, objective_of(trials.settings[index]))
    return trials.settings


def test_optuna_searches_where_the_objective_is_high_and_goes_on_as_if_it_had_not_stopped(tmp_path):
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    whole = follow(open_search(tmp_path / "whole"), 30)
    for _ in range(3):
        parts = follow(open_search(tmp_path / "parts"), 10)
    assert parts == whole and len({trial["a.b"] for trial in whole}) == 30
    first, last = (sum(map(objective_of, part)) / 10 for part in (whole[:10], whole[20:]))
    assert last > first + 0.3
    assert open_search(tmp_path / "whole").ask() is None  # 30 are all
    with pytest.raises(ConfigError, match="Sweep.num_samples is 2: the sweep there has tried 30"):
        open_search(tmp_path / "whole", 2)


def load(folder):
    """Optuna's study, as optuna-dashboard reads it."""
    journal = optuna.storages.journal.JournalFileBackend(str(folder / "optuna.log"))
    return optuna.load_study(study_name="sweep", storage=optuna.storages.JournalStorage(journal))


@pytest.mark.parametrize("search", ["random", "optuna"])
def test_optuna_knows_the_values_of_all_ranges(tmp_path, search):
    trials = Trials(str(tmp_path), Sweep(RANGES, 20, search), {})
    for _ in range(20):
        trials.ask()
    for one, settings in zip(load(tmp_path).get_trials(), trials.settings, strict=True):
        assert one.user_attrs["settings"] == settings
        assert 1.0 - one.params["1 - PPOAlgorithm.discount"] == pytest.approx(
            float(settings["PPOAlgorithm.discount"])
        )
        assert settings["Experiment.unroll_length"] == str(one.params["Experiment.unroll_length"])


def test_a_trial_that_was_only_half_asked_for_is_dropped(tmp_path):
    trials = open_search(tmp_path)
    trials.ask()
    load(tmp_path).ask()  # killed before it was written what it is
    again = open_search(tmp_path)
    assert again.settings == trials.settings
    assert [trial.state.name for trial in load(tmp_path).get_trials()] == ["RUNNING", "FAIL"]
    assert again.ask() == 1


STRANGE = [
    {"a.b": "0.01\nimport evil"},
    {"a.b": "@evil()"},
    {"a.b": "0.01", "c.d": "1"},
    {},
    {"a.b": None, "@evil": "1"},
    ["a.b"],
]


@pytest.mark.parametrize("settings", STRANGE, ids=str)
def test_settings_that_optuna_cannot_have_chosen_are_refused(tmp_path, settings):
    """They come from a file, and are parsed as gin bindings, which may import modules."""
    open_search(tmp_path).ask()
    trial = load(tmp_path).ask()
    trial.set_user_attr("settings", settings)
    trial.set_user_attr("trial", 1)
    with pytest.raises(ConfigError, match="has tried .*, which Sweep.settings cannot draw"):
        open_search(tmp_path)


def test_steps_are_kept(tmp_path):
    trials = open_search(tmp_path)
    trials.ask()
    assert trials.last_step(0) == 0 and not trials.report(0, 3, 1.5, may_prune=True)
    again = open_search(tmp_path)
    assert again.last_step(0) == 3 and not again.report(0, 4, 2.5, may_prune=True)
    again.tell(0, 2.5)
    (trial,) = load(tmp_path).get_trials()
    assert trial.intermediate_values == {3: 1.5, 4: 2.5} and trial.value == 2.5


@pytest.mark.parametrize("module", ["optuna", "matplotlib"])
def test_without_the_extra_there_is_one_line(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    message = rf'package {module} is not installed: pip install "alf-tf\[sweep\]"'
    with pytest.raises(ConfigError, match=message):
        check_sweep("folder", ["0"], Resources())
