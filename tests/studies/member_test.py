# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Member: what it does with orders."""

import contextlib
import fcntl
import functools
import itertools
import json
import math
import os
import sys
import threading
from pathlib import Path
from typing import NamedTuple

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import ImpalaAlgorithm
from alf.config.parsing import bind, parse_config
from alf.errors import ConfigError, DivergedError, FolderError
from alf.schedules import find_tunables
from alf.studies.member import Member
from alf.studies.population_study import ORDER_FILE
from alf.studies.ranges import Choice, Integers, LogUniform, Uniform
from alf.studies.state import write_json
from alf.studies.tunables import find_limits, is_tunable, list_tunable, make_bindings
from alf.training import Experiment, Trainer
from tests.bin.conftest import KINDS
from tests.builders import driver_of
from tests.studies.followed import Followed
from tests.studies.idle import learn_nothing

pytestmark = pytest.mark.programs

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
EVAL = "\nTrainer.evaluator = @Evaluator\nEvaluator.interval_steps = 1\nEvaluator.num_episodes = 1\n"
RATES = (2e-3, 3e-3)  # of the parent's last two intervals
INDICES = itertools.count(1)


def make_order(number=0, parent=None, **changed):
    names = {name.rpartition(".")[2]: name for name in SETTINGS}
    settings = SETTINGS | {names[name]: value for name, value in changed.items()}
    return dict(number=number, settings=settings, parent=parent)


@contextlib.contextmanager
def members_in(folder):
    """Context of a function that makes members in a folder; they are closed in the end."""
    with contextlib.ExitStack() as stack:

        def make(index=0, config="", objective="AverageReturn", ranges=RANGES):
            member = Followed(f"{CONFIG}\n{config}", str(folder), index, ranges, INTERVAL, objective)
            stack.callback(member.close)
            return member

        yield make


@pytest.fixture
def make_member(tmp_path, monkeypatch):
    """A function that makes members which learn nothing."""
    learn_nothing(monkeypatch)
    with members_in(tmp_path) as make:
        yield make


class Parent(NamedTuple):
    """What a member that learns has done: five intervals, and two with other settings. It is closed."""

    folder: Path  # of its directory and those of others
    reports: list  # of the five intervals
    num_threads: int  # after these
    newest: dict  # the last report
    learning_rates: list  # that the last update of each of the two intervals shows
    entropy_weights: list
    trainers: set
    num_traces: list  # of the loss, after each interval


def note_summary(shown, train):
    shown.append(train())
    return shown[-1]


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    folder, traces, calc_loss = tmp_path_factory.mktemp("members"), [], ImpalaAlgorithm.calc_loss
    num_traces, shown, last = [], [], []
    with members_in(folder) as make, pytest.MonkeyPatch.context() as patch:
        patch.setattr(ImpalaAlgorithm, "calc_loss", lambda *args: traces.append(1) or calc_loss(*args))
        member, trainers, reports = make(), set(), []
        for order in [make_order()] * 5 + [
            make_order(number, learning_rate=rate, entropy_weight=0.5)
            for number, rate in enumerate(RATES, start=1)
        ]:
            reports.append(member.follow(order))
            trainers.add(member.trainer)
            num_traces.append(len(traces))
            if len(reports) == 5:
                num_threads = threading.active_count()
                learner = member.trainer.learner
                note = functools.partial(note_summary, shown, learner.train)
                patch.setattr(learner, "train", note)
            last += shown[-1:]
        member.close()
    return Parent(
        folder,
        reports[:5],
        num_threads,
        reports[-1],
        [float(summary["learning_rate"]) for summary in last],
        [float(summary["entropy_weight"]) for summary in last],
        trainers,
        num_traces,
    )


@pytest.fixture
def make_child(parent, monkeypatch):
    """A function that makes members beside the parent, which learn nothing."""
    learn_nothing(monkeypatch)
    with members_in(parent.folder) as make:
        yield make


@pytest.fixture
def index():
    """An index for a child that no other one has."""
    return next(INDICES)


def as_parent(report):
    return {"member": 0} | {key: report[key] for key in ("path", "env_steps", "objective")}


def read_checkpoint(path):
    """All arrays of a checkpoint, but for those that count, and what Python keeps."""
    reader = tf.train.load_checkpoint(f"{path}/weights")
    names = [name for name in reader.get_variable_to_shape_map() if "VARIABLE_VALUE" in name]
    counts = ("progress", "dropped_steps", "save_counter", "_value/")
    return {name: reader.get_tensor(name) for name in names if not any(count in name for count in counts)}


def test_each_interval_ends_where_it_should(parent):
    for i, report in enumerate(parent.reports):
        assert (i + 1) * INTERVAL <= report["env_steps"] < (i + 1) * INTERVAL + 8
    assert parent.num_threads < 40


def test_a_report(make_member):
    report = make_member().follow(make_order())
    assert INTERVAL <= report["env_steps"] < INTERVAL + 8
    assert os.path.exists(report["path"]) and not report["is_over"] and not report["diverged"]


def test_a_stop_ends_a_member_that_waits_for_an_order(make_member):
    member = make_member()
    member.follow(make_order())
    member.close()
    assert member.has_ended is False
    with open(os.path.join(member.root_dir, "done.json")) as file:
        assert json.load(file)["status"] == "INTERRUPTED"


def test_tunables_change_without_another_graph(parent):
    assert parent.learning_rates == [np.float32(rate) for rate in RATES]
    assert parent.entropy_weights == [0.5, 0.5]
    assert len(parent.trainers) == 1
    assert set(parent.num_traces) == {parent.num_traces[0]} and parent.num_traces[0] > 0


def test_another_setting_makes_another_trainer_from_the_checkpoint(make_member, monkeypatch):
    def move(learner, experience):
        for variable in learner.algorithm.trainable_variables:
            variable.assign_add(tf.ones_like(variable))

    member = make_member()
    learn_nothing(monkeypatch, move)  # else the weights would be those that a new trainer begins with
    member.follow(make_order())
    learn_nothing(monkeypatch)
    trainer = member.trainer
    weights = [v.numpy() for v in trainer.learner.trainable_variables]
    report = member.follow(make_order(1, unroll_length=9, learning_rate=2e-4))
    assert member.trainer is not trainer and member.trainer.driver.batch_shape[1] == 9
    assert 2 * INTERVAL <= report["env_steps"] < 2 * INTERVAL + 18
    for ours, before in zip(member.trainer.learner.trainable_variables, weights, strict=True):
        np.testing.assert_array_equal(ours, before)
    assert find_tunables(member.trainer.learner)["Adam.learning_rate"][0].value == 2e-4
    with open(os.path.join(member.root_dir, "operative_config.gin")) as file:
        assert "Experiment.unroll_length = 9" in file.read()


@pytest.mark.parametrize("is_running", [True, False])
def test_a_copy_has_weights_and_optimizer_bit_by_bit(parent, make_child, index, is_running, monkeypatch):
    child, saved, copies, copy_from = make_child(index), [], [], Trainer.copy_from

    def copy_and_note(trainer, path):
        copies.append(path)
        copy_from(trainer, path)
        trainer.add_callback(Saved(saved))

    monkeypatch.setattr(Trainer, "copy_from", copy_and_note)
    order = make_order(1, parent=as_parent(parent.newest), learning_rate=3e-4)
    if is_running:
        own = child.follow(make_order())
        assert own["env_steps"] < parent.newest["env_steps"]
    child.follow(order)
    assert copies == [parent.newest["path"]]
    theirs, ours = read_checkpoint(parent.newest["path"]), saved[0]
    assert theirs.keys() == ours.keys() and len(theirs) > 10
    slots = [array for name, array in theirs.items() if "slots" in name]
    assert slots and any(array.any() for array in slots)
    for name, array in theirs.items():
        np.testing.assert_array_equal(array, ours[name])
    tunables = find_tunables(child.trainer.learner)
    assert tunables["Adam.learning_rate"][0].value == 3e-4
    # Its own count goes on.
    assert child.trainer.counters["env_steps"] < 3 * INTERVAL


class Saved:
    """Notes the arrays of each checkpoint; a `Callback`, as far as it is needed."""

    def __init__(self, saved):
        self._saved = saved

    def on_checkpoint(self, trainer, path):
        self._saved.append(read_checkpoint(path))

    def __getattr__(self, name):
        return lambda *args: None


def test_an_order_is_carried_out_once(parent, make_child, index, monkeypatch):
    copies, copy_from = [], Trainer.copy_from
    monkeypatch.setattr(Trainer, "copy_from", lambda *args: copies.append(1) or copy_from(*args))
    order = make_order(1, parent=as_parent(parent.newest))
    child = make_child(index)
    child.follow(order)
    child.follow(order)
    child.close()
    again = make_child(index)
    steps = again.follow(order)["env_steps"]
    assert len(copies) == 1 and steps >= 3 * INTERVAL
    again.close()
    with open(os.path.join(again.root_dir, "population_order.json"), "w") as file:
        json.dump({"number": 0}, file)
    make_child(index).follow(order)
    assert len(copies) == 2


def test_a_checkpoint_that_its_owner_has_removed_is_replaced_by_a_newer_one(
    parent, make_child, index, monkeypatch
):
    first, saved, copy_from = parent.reports[0], [], Trainer.copy_from
    assert not os.path.exists(first["path"])

    def copy_and_note(trainer, path):
        copy_from(trainer, path)
        trainer.add_callback(Saved(saved))

    monkeypatch.setattr(Trainer, "copy_from", copy_and_note)
    assert make_child(index).follow(make_order(1, parent=as_parent(first)))["env_steps"] >= INTERVAL
    for name, array in read_checkpoint(parent.newest["path"]).items():
        np.testing.assert_array_equal(array, saved[0][name])


def test_a_member_that_has_diverged_reports_it_and_goes_on_with_another_order(
    parent, make_child, index, monkeypatch
):
    def diverge(learner, experience):
        if find_tunables(member.trainer.learner)["Adam.learning_rate"][0].value > 1.0:
            raise DivergedError("its loss is not finite")

    learn_nothing(monkeypatch, diverge)
    member = make_child(index, ranges=RANGES | {"Adam.learning_rate": LogUniform(1e-4, 1e38)})
    member.follow(make_order())
    report = member.follow(make_order(1, learning_rate=1e38))
    assert report["diverged"] and not report["is_over"]
    assert report["reason"].startswith("its loss is not finite")
    report = member.follow(make_order(2, parent=as_parent(parent.newest)))
    assert not report["diverged"] and report["env_steps"] >= INTERVAL


def test_the_end_of_a_member_is_reported(make_member):
    member = make_member(config="StopCriteria.num_env_steps = 60")
    assert not member.follow(make_order())["is_over"]
    report = member.follow(make_order())
    assert report["is_over"] and report["reason"] == "num_env_steps=60 reached"
    assert os.path.exists(report["path"])


def test_the_objective_may_be_an_evaluation(make_member):
    member = make_member(config=EVAL, objective="eval")
    objectives = [member.follow(make_order())["objective"] for _ in range(8)]
    while math.isnan(objectives[-1]):
        objectives.append(member.follow(make_order())["objective"])
        assert len(objectives) < 2000
    assert 1.0 <= objectives[-1] <= 500.0 and math.isnan(objectives[0])


@pytest.mark.parametrize(
    "config, objective, ranges, message",
    [
        ("", "eval", RANGES, "Population.objective is 'eval': set Trainer.evaluator"),
        ("", "Joy", RANGES, "Population.objective is 'Joy': it must be 'eval' or one of .*AverageReturn"),
        ("", "AverageReturn", RANGES | {"DqnAlgorithm.discount": Uniform(0, 1)}, "nothing reads .*DqnAlg"),
        ("Nothing.x = 1", "AverageReturn", RANGES, "Nothing"),
    ],
)
def test_what_is_wrong_is_a_config_error(make_member, config, objective, ranges, message):
    member, order = make_member(config=config, objective=objective, ranges=ranges), make_order()
    order["settings"] |= dict.fromkeys(ranges.keys() - RANGES.keys(), 0.5)
    with pytest.raises(ConfigError, match=message):
        member.follow(order)


def test_an_error_of_training_is_raised(make_member, monkeypatch):
    member = make_member()
    member.follow(make_order())

    def fail():
        raise OSError("the disk is gone")

    monkeypatch.setattr(member.trainer.learner, "train", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        member.follow(make_order())
    monkeypatch.undo()


# Which settings are Tunables.

# By algorithm: the kind of a run, more bindings, and the settings.
OWNERS = {
    "PPO": (
        "cartpole",
        "Experiment.algorithm = @PPOAlgorithm\nExperiment.data_transformers = (@RewardScaling,)",
        [
            "PPOAlgorithm.discount",
            "PPOAlgorithm.entropy_weight",
            "PPOAlgorithm.clip_range",
            "Adam.learning_rate",
            "RewardScaling.scale",
        ],
    ),
    "IMPALA": ("cartpole", "", ["ImpalaAlgorithm.discount", "ImpalaAlgorithm.entropy_weight"]),
    "DQN": ("dqn", "", ["DqnAlgorithm.discount", "alf.EpsilonGreedyPolicy.epsilon"]),
    "SAC": ("sac", "", ["SacAlgorithm.discount"]),
    "replay": ("dqn", "Experiment.exp_replayer = 'prioritized'", ["PrioritizedReplayer.beta"]),
}
NAMES = [name for _, _, names in OWNERS.values() for name in names]


def test_what_takes_a_schedule_is_a_tunable_of_the_learner(monkeypatch, subtests):
    monkeypatch.setattr(sys, "path", list(sys.path))
    for algorithm, (kind, more, names) in OWNERS.items():
        gin.clear_config()
        values = {name: 0.25 + 0.125 * i for i, name in enumerate(names)}
        ranges = dict.fromkeys(names, Uniform(0.1, 0.9))
        config = "\n".join(line.strip() for line in KINDS[kind].splitlines())
        parse_config([], [config, more])
        bind(make_bindings(values, find_limits(ranges)))
        driver = driver_of(Experiment())
        found = find_tunables(driver.learner)
        for name, value in values.items():
            with subtests.test(name, algorithm=algorithm):
                assert [tunable.value for tunable in found.get(name, [])] == [value]
        driver.stop()


def test_the_pattern_has_these_names_alone():
    for name in NAMES:
        assert is_tunable(name, Uniform(0.1, 0.9)) and is_tunable(f"scope/{name}", Uniform(0.1, 0.9))
        assert name in list_tunable()
        assert not is_tunable(name, Choice(["a", "b"])) and is_tunable(name, Choice([0.1, 0.2]))
    for name in (
        "PPOAlgorithm.lambda_",
        "Adam.epsilon",
        "UnrollLearner.num_epochs",
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
    settings = {"a/Adam.learning_rate": 0.5, "own/Tunable.value": 1.5, "A.kind": "z"}
    bindings = make_bindings(settings, find_limits(ranges))
    assert repr(bindings.pop("a/Adam.learning_rate")) == "@a_Adam_learning_rate/Tunable()"
    assert bindings == {
        "a_Adam_learning_rate/Tunable.value": 0.5,
        "a_Adam_learning_rate/Tunable.limits": (0.0, 1.0),
        "a_Adam_learning_rate/Tunable.setting": "a/Adam.learning_rate",
        "own/Tunable.value": 1.5,
        "own/Tunable.limits": (0.0, 2.0),
        "own/Tunable.setting": "own/Tunable.value",
        "A.kind": "z",
    }


@pytest.mark.parametrize("stops", [True, False])
def test_a_member_does_not_wait_for_ever_for_an_earlier_process_of_it(tmp_path, monkeypatch, stops):
    monkeypatch.setattr("alf.studies.member._LOCK_SECONDS", 600.0 if stops else 0.1)
    write_json(str(tmp_path / ORDER_FILE), {})
    member, folder = Member("members.gin", str(tmp_path)), os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if stops:
            threading.Timer(0.1, member.stop, ("enough",)).start()
            assert not member.train()
        else:
            with pytest.raises(FolderError, match="is in use: another process trains there"):
                member.train()
    finally:
        os.close(folder)
