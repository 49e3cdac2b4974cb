# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Member: what it does with orders, without Ray."""

import contextlib
import json
import math
import os
import sys
import threading

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import ImpalaAlgorithm
from alf.errors import ConfigError
from alf.population.bindings import SCHEDULED, is_tunable, make_bindings
from alf.population.member import Member
from alf.population.mutation import Choice, Integers, LogUniform, Uniform
from alf.schedules import find_tunables
from alf.training import Experiment, Trainer
from alf.training.config import parse_config
from tests.bin.conftest import KINDS

INTERVAL = 40
RANGES = {
    "Adam.learning_rate": LogUniform(1e-4, 1e-1),
    "ImpalaAlgorithm.entropy_weight": Uniform(0.0, 1.0),
    "Experiment.unroll_length": Integers(2, 9),
}
SETTINGS = {"Adam.learning_rate": 1e-2, "ImpalaAlgorithm.entropy_weight": 0.1, "Experiment.unroll_length": 4}
CONFIG = "\n".join(
    line.strip() for line in f"{KINDS['cartpole']}\nStopCriteria.num_iterations = None".splitlines()
)
EVAL = "\nTrainer.evaluator_ctor = @Evaluator\nEvaluator.interval_steps = 1\nEvaluator.num_episodes = 1\n"
SECONDS = 120.0


def make_order(number=0, member=0, parent=None, **changed):
    names = {name.rpartition(".")[2]: name for name in SETTINGS}
    settings = SETTINGS | {names[name]: value for name, value in changed.items()}
    return dict(member=member, number=number, settings=settings, parent=parent)


@pytest.fixture
def make_member(tmp_path):
    with contextlib.ExitStack() as stack:

        def make(index=0, config="", objective="AverageReturn", ranges=RANGES):
            member = Member(f"{CONFIG}\n{config}", str(tmp_path), index, ranges, INTERVAL, objective, seed=7)
            stack.callback(member.close, "the test is over")
            return member

        yield make


def as_parent(report):
    return {key: report[key] for key in ("member", "path", "env_steps", "objective")}


def read_checkpoint(path):
    """All arrays of a checkpoint, but for those that count, and what Python keeps."""
    reader = tf.train.load_checkpoint(path)
    names = [name for name in reader.get_variable_to_shape_map() if "VARIABLE_VALUE" in name]
    counts = ("progress", "dropped_steps", "save_counter", "_value/")
    return {name: reader.get_tensor(name) for name in names if not any(count in name for count in counts)}


def test_each_interval_ends_where_it_should(make_member):
    member = make_member()
    steps = [member.follow(make_order(), SECONDS)["env_steps"] for _ in range(4)]
    for i, count in enumerate(steps):
        assert (i + 1) * INTERVAL <= count < (i + 1) * INTERVAL + 8
    assert threading.active_count() < 40


def test_it_answers_in_time_and_trains_on(make_member):
    member, order = make_member(), make_order()
    report, tries = None, 0
    while report is None:
        report = member.follow(order, 0.001)
        tries += 1
    assert tries > 1 and INTERVAL <= report["env_steps"] < INTERVAL + 8
    assert os.path.exists(report["path"] + ".complete") and not report["is_over"] and not report["diverged"]


def test_tunables_change_without_another_graph(make_member, monkeypatch):
    traces, calc_loss = [], ImpalaAlgorithm.calc_loss
    monkeypatch.setattr(ImpalaAlgorithm, "calc_loss", lambda *args: traces.append(1) or calc_loss(*args))
    member = make_member()
    member.follow(make_order(), SECONDS)
    trainer, before = member._trainer, len(traces)
    shown = []
    for number, rate in enumerate([2e-3, 3e-3], start=1):
        train = trainer.learner.train
        monkeypatch.setattr(trainer.learner, "train", lambda train=train: shown.append(train()) or shown[-1])
        member.follow(make_order(number, learning_rate=rate, entropy_weight=0.5), SECONDS)
        assert float(shown[-1]["learning_rate"]) == np.float32(rate)
        assert float(shown[-1]["entropy_weight"]) == 0.5
    assert member._trainer is trainer and len(traces) == before > 0


def test_another_setting_makes_another_trainer_from_the_checkpoint(make_member):
    member = make_member()
    member.follow(make_order(), SECONDS)
    trainer = member._trainer
    weights = [v.numpy() for v in trainer.learner.trainable_variables]
    member.follow(make_order(1, learning_rate=1e-4), SECONDS)
    report = member.follow(make_order(2, unroll_length=9, learning_rate=2e-4), SECONDS)
    assert member._trainer is not trainer and member._trainer.driver.batch_shape[1] == 9
    assert 3 * INTERVAL <= report["env_steps"] < 3 * INTERVAL + 18
    # Little has changed at these learning rates: it went on from the weights from before.
    for ours, before in zip(member._trainer.learner.trainable_variables, weights, strict=True):
        np.testing.assert_allclose(ours, before, atol=0.02)
    assert find_tunables(member._trainer.learner)["Adam.learning_rate"][0].value == 2e-4
    with open(os.path.join(member.root_dir, "operative_config.gin")) as file:
        assert "Experiment.unroll_length = 9" in file.read()


@pytest.mark.parametrize("is_running", [True, False])
def test_a_copy_has_weights_and_optimizer_bit_by_bit(make_member, is_running):
    parent = make_member(0)
    for _ in range(3):
        report = parent.follow(make_order(), SECONDS)
    parent.close("enough")
    child = make_member(1)
    if is_running:
        own = child.follow(make_order(member=1), SECONDS)
        assert own["env_steps"] < report["env_steps"]
    saved = []
    order = make_order(1, member=1, parent=as_parent(report), learning_rate=3e-4)
    if is_running:
        child._trainer.add_callback(Saved(saved))
        child.follow(order, SECONDS)
    else:
        child._build(order)
        child._trainer.add_callback(Saved(saved))
        child._session.run(lambda: child._carry_out(order))
    theirs, ours = read_checkpoint(report["path"]), saved[0]
    assert theirs.keys() == ours.keys() and len(theirs) > 10
    assert any("optimizer" in name or "OPTIMIZER" in name for name in theirs)
    for name, array in theirs.items():
        np.testing.assert_array_equal(array, ours[name])
    tunables = find_tunables(child._trainer.learner)
    assert tunables["Adam.learning_rate"][0].value == 3e-4
    # Its own count goes on.
    assert child._trainer.counters["env_steps"] < 3 * INTERVAL


class Saved:
    """Notes the arrays of each checkpoint; a `Callback`, as far as it is needed."""

    def __init__(self, saved):
        self._saved = saved

    def on_checkpoint(self, trainer, path):
        self._saved.append(read_checkpoint(path))

    def __getattr__(self, name):
        return lambda *args: None


def test_an_order_is_carried_out_once(make_member, monkeypatch):
    parent = make_member(0)
    report = parent.follow(make_order(), SECONDS)
    parent.close("enough")
    copies, copy_from = [], Trainer.copy_from
    monkeypatch.setattr(Trainer, "copy_from", lambda *args: copies.append(1) or copy_from(*args))
    order = make_order(1, member=1, parent=as_parent(report))
    child = make_member(1)
    child.follow(order, SECONDS)
    child.follow(order, SECONDS)
    child.close("as if it were killed")
    again = make_member(1)
    steps = again.follow(order, SECONDS)["env_steps"]
    assert len(copies) == 1 and steps >= 3 * INTERVAL
    again.close("as if it were killed before it had saved the copy")
    with open(os.path.join(again.root_dir, "population_order.json"), "w") as file:
        json.dump({"number": 0}, file)
    make_member(1).follow(order, SECONDS)
    assert len(copies) == 2


def test_a_checkpoint_that_its_owner_has_removed_is_replaced_by_a_newer_one(make_member):
    parent = make_member(0)
    report = parent.follow(make_order(), SECONDS)
    for _ in range(4):
        newest = parent.follow(make_order(), SECONDS)
    parent.close("enough")
    assert not os.path.exists(report["path"] + ".complete")
    child = make_member(1)
    assert child.follow(make_order(1, member=1, parent=as_parent(report)), SECONDS)["env_steps"] >= INTERVAL
    assert os.path.exists(newest["path"] + ".complete")


def test_a_member_that_has_diverged_reports_it_and_goes_on_with_another_order(make_member):
    ranges = RANGES | {"Adam.learning_rate": LogUniform(1e-4, 1e38)}
    parent = make_member(0)
    good = parent.follow(make_order(), SECONDS)
    parent.close("enough")
    member = make_member(1, ranges=ranges)
    member.follow(make_order(member=1), SECONDS)
    report = member.follow(make_order(1, member=1, learning_rate=1e38), SECONDS)
    assert report["diverged"] and math.isnan(report["objective"]) and not report["is_over"]
    report = member.follow(make_order(2, member=1, parent=as_parent(good)), SECONDS)
    assert not report["diverged"] and report["env_steps"] >= INTERVAL


def test_the_end_of_a_member_is_reported(make_member):
    member = make_member(config="StopCriteria.num_env_steps = 60")
    assert not member.follow(make_order(), SECONDS)["is_over"]
    report = member.follow(make_order(), SECONDS)
    assert report["is_over"] and report["reason"] == "num_env_steps=60 reached"
    assert os.path.exists(report["path"] + ".complete")


def test_the_objective_may_be_an_evaluation(make_member):
    member = make_member(config=EVAL, objective="eval")
    objectives = [member.follow(make_order(), SECONDS)["objective"] for _ in range(8)]
    while math.isnan(objectives[-1]):
        objectives.append(member.follow(make_order(), SECONDS)["objective"])
        assert len(objectives) < 2000
    assert 1.0 <= objectives[-1] <= 500.0 and math.isnan(objectives[0])


@pytest.mark.parametrize(
    "config, objective, ranges, message",
    [
        ("", "eval", RANGES, "Population.objective is 'eval': set Trainer.evaluator_ctor"),
        ("", "Joy", RANGES, "Population.objective is 'Joy': it must be 'eval' or one of .*AverageReturn"),
        ("", "AverageReturn", RANGES | {"DqnAlgorithm.discount": Uniform(0, 1)}, "nothing reads .*DqnAlg"),
        ("Nothing.x = 1", "AverageReturn", RANGES, "Nothing"),
    ],
)
def test_what_is_wrong_is_a_config_error(make_member, config, objective, ranges, message):
    member, order = make_member(config=config, objective=objective, ranges=ranges), make_order()
    order["settings"] |= dict.fromkeys(ranges.keys() - RANGES.keys(), 0.5)
    with pytest.raises(ConfigError, match=message):
        member.follow(order, SECONDS)


def test_an_error_of_training_is_raised(make_member, monkeypatch):
    member = make_member()
    member.follow(make_order(), SECONDS)

    def fail():
        raise OSError("the disk is gone")

    monkeypatch.setattr(member._trainer.learner, "train", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        member.follow(make_order(), SECONDS)
    monkeypatch.undo()
    member._session = None


# Which settings are Tunables.

OWNERS = {
    "PPOAlgorithm": "cartpole",
    "ImpalaAlgorithm": "cartpole",
    "DqnAlgorithm": "dqn",
    "SacAlgorithm": "sac",
    "Adam": "cartpole",
    "EpsilonGreedyPolicy": "dqn",
    "RewardScaling": "cartpole",
}
NAMES = [
    "PPOAlgorithm.discount",
    "PPOAlgorithm.entropy_weight",
    "PPOAlgorithm.clip_range",
    "ImpalaAlgorithm.discount",
    "ImpalaAlgorithm.entropy_weight",
    "DqnAlgorithm.discount",
    "SacAlgorithm.discount",
    "Adam.learning_rate",
    "alf.EpsilonGreedyPolicy.epsilon",
    "RewardScaling.scale",
]


@pytest.mark.parametrize("name", NAMES)
def test_what_takes_a_schedule_is_a_tunable_of_the_learner(tmp_path, monkeypatch, name):
    monkeypatch.setattr(sys, "path", list(sys.path))
    owner = name.rpartition(".")[0].removeprefix("alf.")
    more = {
        "PPOAlgorithm": "Experiment.algorithm_ctor = @PPOAlgorithm",
        "RewardScaling": "Experiment.data_transformers = (@RewardScaling,)",
    }
    config = "\n".join(line.strip() for line in KINDS[OWNERS[owner]].splitlines())
    bindings = make_bindings({name: 0.25}, {name: Uniform(0.1, 0.9)})
    parse_config([], [config, more.get(owner, ""), *bindings])
    trainer = Trainer(str(tmp_path), Experiment().make_driver())
    (tunable,) = find_tunables(trainer.learner)[name]
    assert tunable.value == 0.25
    trainer.close()
    gin.clear_config()


def test_the_pattern_has_these_names_alone():
    for name in NAMES:
        assert is_tunable(name, Uniform(0.1, 0.9)) and is_tunable(f"scope/{name}", Uniform(0.1, 0.9))
        assert name.removeprefix("alf.") in SCHEDULED
        assert not is_tunable(name, Choice(["a", "b"])) and is_tunable(name, Choice([0.1, 0.2]))
    for name in (
        "PPOAlgorithm.lambda_",
        "PrioritizedReplayer.beta",
        "Adam.epsilon",
        "UnrollTraining.num_epochs",
    ):
        assert not is_tunable(name, Uniform(0.1, 0.9))
    assert is_tunable("own/Tunable.value", Uniform(0.1, 0.9)) and is_tunable(
        "Tunable.value", Uniform(0.1, 0.9)
    )


def test_bindings():
    ranges = {
        "a/Adam.learning_rate": Uniform(0, 1),
        "own/Tunable.value": Uniform(0, 2),
        "A.kind": Choice(["xy", "z"]),
    }
    assert make_bindings({"a/Adam.learning_rate": 0.5, "own/Tunable.value": 1.5, "A.kind": "z"}, ranges) == [
        "a/Adam.learning_rate = @a_Adam_learning_rate/Tunable()",
        "a_Adam_learning_rate/Tunable.value = 0.5",
        "a_Adam_learning_rate/Tunable.limits = (0.0, 1.0)",
        "a_Adam_learning_rate/Tunable.setting = 'a/Adam.learning_rate'",
        "own/Tunable.value = 1.5",
        "own/Tunable.limits = (0.0, 2.0)",
        "own/Tunable.setting = 'own/Tunable.value'",
        "A.kind = 'z'",
    ]
