# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What members, their collectors and evaluations occupy; what Tune is told comes from the settings."""

import re
import types

import gin
import pytest

from alf.config.parsing import parse_config
from alf.errors import ConfigError
from alf.population.mutation import LogUniform
from alf.population.population import Population
from alf.population.room import find_helpers, request_resources
from alf.population.study import Study
from alf.runs.experiment import Experiment  # noqa: F401  (gin files name it)

RANGES = {"Adam.learning_rate": LogUniform(1e-4, 1e-2)}


def make_population(**settings):
    return Population(RANGES, 100, **settings)


@pytest.mark.parametrize(
    "total, num_members, settings, helpers, request_of_each, has_room",
    [
        ({"CPU": 8.0}, 4, {}, {}, {"CPU": 1.0, "GPU": 0}, True),
        ({"CPU": 2.0}, 4, {}, {}, {"CPU": 0.5, "GPU": 0}, True),
        ({"CPU": 2.0}, 3, {}, {}, {"CPU": 0.6666, "GPU": 0}, True),
        ({"CPU": 8.0}, 4, {"num_cpus": 2}, {}, {"CPU": 2, "GPU": 0}, True),
        ({"CPU": 7.0}, 4, {"num_cpus": 2}, {}, {"CPU": 2, "GPU": 0}, False),
        ({"CPU": 8.0, "GPU": 2.0}, 4, {"num_gpus": 0.5}, {}, {"CPU": 1.0, "GPU": 0.5}, True),
        ({"CPU": 8.0, "GPU": 1.0}, 4, {"num_gpus": 0.5}, {}, {"CPU": 1.0, "GPU": 0.5}, False),
        (
            {"CPU": 8.0, "big": 3.0},
            4,
            {"resources": {"big": 1}},
            {},
            {"CPU": 1.0, "GPU": 0, "big": 1},
            False,
        ),
        ({"CPU": 8.0}, 4, {}, {"CPU": 1}, {"CPU": 1.0, "GPU": 0}, True),
        ({"CPU": 5.0}, 4, {}, {"CPU": 1}, {"CPU": 0.25, "GPU": 0}, True),
        ({"CPU": 8.0, "big": 8.0}, 4, {"num_cpus": 2}, {"big": 2}, {"CPU": 2, "GPU": 0}, True),
    ],
    ids=lambda x: str(x),
)
def test_what_a_member_occupies(total, num_members, settings, helpers, request_of_each, has_room):
    found = request_resources(total, make_population(**settings), num_members, helpers)
    assert found == (request_of_each, has_room)


@pytest.mark.parametrize(
    "total, settings, helpers, message",
    [
        ({"CPU": 2.0}, {"num_cpus": 3}, {}, "Population.num_cpus, num_gpus, resources: the cluster has not"),
        ({"CPU": 2.0}, {"num_gpus": 1}, {}, "Population.num_cpus, num_gpus, resources: the cluster has not"),
        ({"CPU": 2.0}, {"resources": {"big": 1}}, {}, "{'CPU': 1.0, 'GPU': 0, 'big': 1} for a member"),
        (
            {"CPU": 2.0},
            {},
            {"CPU": 1},
            "Experiment.num_collectors, Evaluator.place: the cluster has not {'CPU': 1} for",
        ),
        (
            {"CPU": 3.0},
            {"num_cpus": 1},
            {"CPU": 1},
            "Experiment.num_collectors, Evaluator.place: the cluster has not",
        ),
        (
            {"CPU": 9.0},
            {},
            {"CPU": 1, "GPU": 1},
            "Experiment.num_collectors, Evaluator.place: the cluster has not",
        ),
    ],
    ids=lambda x: str(x)[:40],
)
def test_where_there_is_no_room(total, settings, helpers, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        request_resources(total, make_population(**settings), 2, helpers)


@pytest.mark.parametrize(
    "bindings, helpers",
    [
        ([], {}),
        (["RayCollectors.num_cpus = 2"], {}),
        (["Experiment.num_collectors = 0"], {}),
        (["Experiment.num_collectors = 3"], {"CPU": 3, "GPU": 0}),
        (
            [
                "Experiment.num_collectors = 2",
                "RayCollectors.num_cpus = 0.5",
                "RayCollectors.num_gpus = 1",
                "RayCollectors.resources = {'big': 4}",
            ],
            {"CPU": 1.0, "GPU": 2, "big": 8},
        ),
        (["Experiment.num_collectors = %n", "n = 3"], {"CPU": 3, "GPU": 0}),
        (
            [
                "Experiment.num_collectors = 2",
                "Experiment.collectors_ctor = @far/RayCollectors",
                "RayCollectors.num_cpus = 5",
                "far/RayCollectors.num_cpus = %n",
                "far/RayCollectors.learner_num_cpus = 1",
                "n = 3",
            ],
            {"CPU": 7, "GPU": 0},
        ),
        (["RayEvaluator.num_cpus = 2", "Trainer.evaluator_ctor = @Evaluator"], {}),
        (["Evaluator.place = 'cluster'"], {}),
        (["Trainer.evaluator_ctor = @Evaluator", "Evaluator.place = 'cluster'"], {"CPU": 1, "GPU": 0}),
        (
            [
                "Trainer.evaluator_ctor = @often/Evaluator",
                "often/Evaluator.place = %place",
                "place = 'cluster'",
                "Evaluator.cluster_ctor = @far/RayEvaluator",
                "far/RayEvaluator.resources = {'big': 0.5}",
                "Experiment.num_collectors = 1",
            ],
            {"CPU": 2, "GPU": 0, "big": 0.5},
        ),
    ],
    ids=["default", "none", "zero", "three", "all", "macro", "scope", "thread", "unused", "cluster", "both"],
)
def test_what_helpers_occupy(bindings, helpers):
    gin.clear_config()
    parse_config([], bindings)
    assert find_helpers() == helpers


class Told(Exception):
    """What Tune was told, in place of a study."""


@pytest.fixture
def told(tmp_path, monkeypatch):
    """A function from settings of `Population` to what Tune is told: the trainable class, and the rest."""
    pytest.importorskip("ray")
    pytest.importorskip("pandas")
    from alf.population import ray_study

    def tell(trainable, **rest):
        raise Told(trainable, rest)

    def run(helpers=(), **settings):
        population = make_population(**settings)
        study = Study(str(tmp_path), population, 2, {})
        ray = types.SimpleNamespace(cluster_resources=lambda: {"CPU": 4.0, "GPU": 4.0, "big": 4.0})
        monkeypatch.setattr(ray_study.tune, "Tuner", tell)
        schedulers = []
        others = "a.b = 1", str(tmp_path), print, print, schedulers.append
        with pytest.raises(Told) as error:
            ray_study.run_study(ray, study, population, dict(helpers), *others)
        trainable, rest = error.value.args
        return trainable.default_resource_request({}), rest, schedulers[0]

    return run


def test_tune_is_told_what_a_member_occupies(told):
    occupied = told(num_cpus=1.5, num_gpus=0.5, resources={"big": 2})[0]
    assert occupied.required_resources == {"CPU": 1.5, "GPU": 0.5, "big": 2}
    assert told(helpers={"CPU": 1.5})[0].required_resources == {"CPU": 0.5}


@pytest.mark.parametrize("num_cpus, has_room", [(2, True), (2.5, False)])
def test_members_without_room_take_turns(told, num_cpus, has_room):
    assert told(num_cpus=num_cpus)[2]._has_room == has_room


def test_tune_is_told_how_often_a_member_may_crash(told):
    _, rest, _ = told(max_failures=7)
    assert rest["run_config"].failure_config.max_failures == 7


def test_a_member_is_told_the_settings(told):
    _, rest, scheduler = told(objective="Joy", seed=5)
    settings = dict(rest["param_space"]["settings"])
    assert settings.pop("folder").endswith("members") and settings.pop("seed") > 0
    assert settings == dict(config="a.b = 1", ranges=RANGES, interval=100, objective="Joy")
    assert [order["member"] for order in rest["param_space"]["order"]["grid_search"]] == [0, 1]
    assert rest["tune_config"].scheduler is scheduler and rest["run_config"].stop._scheduler is scheduler
