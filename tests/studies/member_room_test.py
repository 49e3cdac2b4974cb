# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What members, their collectors and their evaluations occupy."""

import re

import gin
import pytest

from alf.config.parsing import parse_config
from alf.errors import ConfigError
from alf.runs.experiment import Experiment  # noqa: F401  (gin files name it)
from alf.studies.member_room import find_helpers, request_resources
from alf.studies.population_settings import Population
from alf.studies.ranges import LogUniform
from alf.studies.run_population import find_place

RANGES = {"Adam.learning_rate": LogUniform(1e-4, 1e-2)}


def make_population(**settings):
    return Population(RANGES, 100, **settings)


@pytest.mark.parametrize(
    "total, num_members, settings, helpers, request_of_each, room",
    [
        ({"CPU": 8.0}, 4, {}, {}, {"CPU": 1.0, "GPU": 0}, 4),
        ({"CPU": 2.0}, 4, {}, {}, {"CPU": 0.5, "GPU": 0}, 4),
        ({"CPU": 2.0}, 3, {}, {}, {"CPU": 0.6666, "GPU": 0}, 3),
        ({"CPU": 8.0}, 4, {"num_cpus": 2}, {}, {"CPU": 2, "GPU": 0}, 4),
        ({"CPU": 7.0}, 4, {"num_cpus": 2}, {}, {"CPU": 2, "GPU": 0}, 3),
        ({"CPU": 8.0, "GPU": 2.0}, 4, {"num_gpus": 0.5}, {}, {"CPU": 1.0, "GPU": 0.5}, 4),
        ({"CPU": 8.0, "GPU": 1.0}, 4, {"num_gpus": 0.5}, {}, {"CPU": 1.0, "GPU": 0.5}, 2),
        (
            {"CPU": 8.0, "big": 3.0},
            4,
            {"resources": {"big": 1}},
            {},
            {"CPU": 1.0, "GPU": 0, "big": 1},
            3,
        ),
        ({"CPU": 8.0}, 4, {}, {"CPU": 1}, {"CPU": 1.0, "GPU": 0}, 4),
        ({"CPU": 5.0}, 4, {}, {"CPU": 1}, {"CPU": 0.25, "GPU": 0}, 4),
        ({"CPU": 8.0, "big": 8.0}, 4, {"num_cpus": 2}, {"big": 2}, {"CPU": 2, "GPU": 0}, 4),
    ],
    ids=lambda x: str(x),
)
def test_what_a_member_occupies(total, num_members, settings, helpers, request_of_each, room):
    found = request_resources(total, make_population(**settings), num_members, helpers)
    assert found == (request_of_each, room)


def test_members_that_share_gpus_are_spread_over_all_of_them(monkeypatch):
    gpus = []
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("alf.studies.run_population.find_gpus", lambda: ["0", "1"])
    monkeypatch.setattr("alf.studies.placement.RunProcess", lambda *args: gpus.append(args[-1]))
    place = find_place(make_population(num_gpus=0.5), 4, {})
    for _ in range(place.capacity):
        place.start([], "")
    assert gpus == [["0"], ["1"], ["0"], ["1"]]


@pytest.mark.parametrize(
    "total, settings, helpers, message",
    [
        ({"CPU": 2.0}, {"num_cpus": 3}, {}, "Population.num_cpus, num_gpus, resources: there is not"),
        ({"CPU": 2.0}, {"num_gpus": 1}, {}, "Population.num_cpus, num_gpus, resources: there is not"),
        ({"CPU": 2.0}, {"resources": {"big": 1}}, {}, "{'CPU': 1.0, 'GPU': 0, 'big': 1} for a member"),
        (
            {"CPU": 2.0},
            {},
            {"CPU": 1},
            "Experiment.num_collectors, Evaluator.place: the cluster lacks room for {'CPU': 1}",
        ),
        (
            {"CPU": 3.0},
            {"num_cpus": 1},
            {"CPU": 1},
            "Experiment.num_collectors, Evaluator.place: the cluster lacks room for",
        ),
        (
            {"CPU": 9.0},
            {},
            {"CPU": 1, "GPU": 1},
            "Experiment.num_collectors, Evaluator.place: the cluster lacks room for",
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
        (["CollectorSettings.num_cpus = 2"], {}),
        (["Experiment.num_collectors = 0"], {}),
        (["Experiment.num_collectors = 3"], {"CPU": 3, "GPU": 0}),
        (
            [
                "Experiment.num_collectors = 2",
                "CollectorSettings.num_cpus = 0.5",
                "CollectorSettings.num_gpus = 1",
                "CollectorSettings.resources = {'big': 4}",
            ],
            {"CPU": 1.0, "GPU": 2, "big": 8},
        ),
        (["Experiment.num_collectors = %n", "n = 3"], {"CPU": 3, "GPU": 0}),
        (
            [
                "Experiment.num_collectors = 2",
                "Experiment.collectors = @far/RayCollectors",
                "CollectorSettings.num_cpus = 5",
                "far/CollectorSettings.num_cpus = %n",
                "far/CollectorSettings.learner_num_cpus = 1",
                "n = 3",
            ],
            {"CPU": 7, "GPU": 0},
        ),
        (
            [
                "Experiment.num_collectors = 2",
                "Experiment.collectors = @far/RayCollectors",
                "far/RayCollectors.settings = @big/CollectorSettings()",
                "far/CollectorSettings.num_cpus = 7",
                "big/CollectorSettings.num_cpus = 4",
                "CollectorSettings.num_gpus = 1",
            ],
            {"CPU": 8, "GPU": 2},
        ),
        (["RayEvaluator.num_cpus = 2", "Trainer.evaluator = @Evaluator"], {}),
        (["Evaluator.place = 'cluster'"], {}),
        (["Trainer.evaluator = @Evaluator", "Evaluator.place = 'cluster'"], {"CPU": 1, "GPU": 0}),
        (
            [
                "Trainer.evaluator = @often/Evaluator",
                "often/Evaluator.place = %place",
                "place = 'cluster'",
                "Evaluator.cluster = @far/RayEvaluator",
                "far/RayEvaluator.resources = {'big': 0.5}",
                "often/Evaluator.num_workers = 3",
                "Experiment.num_collectors = 1",
            ],
            {"CPU": 4, "GPU": 0, "big": 1.5},
        ),
    ],
    ids=[
        "default",
        "none",
        "zero",
        "three",
        "all",
        "macro",
        "scope",
        "object",
        "thread",
        "unused",
        "cluster",
        "both",
    ],
)
def test_what_helpers_occupy(bindings, helpers):
    gin.clear_config()
    parse_config([], bindings)
    assert find_helpers() == helpers
