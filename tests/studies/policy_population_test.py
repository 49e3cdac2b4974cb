# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Population based training in one process: copies, stale experience, runs that go on, each setting."""

import contextlib
import copy
import csv
import functools
import itertools
import json
import logging
import math
import os
import shutil
import sys
import types
from typing import NamedTuple

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import PPOAlgorithm
from alf.config.parsing import parse_config, wrong_calls_are_config_errors
from alf.data_structures import OWNER
from alf.errors import ConfigError, DivergedError
from alf.games import LearnerGroup
from alf.ops import draws
from alf.schedules import assign_tunables, find_tunables
from alf.studies import policy_population
from alf.studies.evolution import Mutation, Replacement
from alf.studies.lineage import draw_lineage
from alf.studies.policy_population import PolicyPopulation
from alf.studies.ranges import LogUniform, Uniform
from alf.testing.toy_environments import MatchObservationEnvironment
from alf.training import Callback, Experiment, Trainer
from alf.training.stop_criteria import StopCriteria
from tests.builders import build_trainer, driver_of
from tests.studies.idle import learn_nothing
from tests.studies.member_test import read_checkpoint

pytestmark = pytest.mark.programs

BATCH_SIZE, EPISODE_LENGTH = 6, 5
INTERVAL = 60
RANGES = {"Adam.learning_rate": LogUniform(1e-4, 1e-1), "PPOAlgorithm.entropy_weight": Uniform(0.0, 0.1)}
CONFIG = """
Experiment.policies = @PolicyPopulation()
Experiment.algorithm = @PPOAlgorithm
Experiment.unroll_length = 4
Experiment.seed = 0
PolicyPopulation.num_policies = 3
PolicyPopulation.settings = {
  "Adam.learning_rate": @rate/LogUniform(),
  "PPOAlgorithm.entropy_weight": @entropy/Uniform(),
}
rate/LogUniform.low = 1e-4
rate/LogUniform.high = 1e-1
entropy/Uniform.low = 0.0
entropy/Uniform.high = 0.1
PolicyPopulation.interval = 60
PolicyPopulation.seed = 5
ActorCriticNetwork.fc_layer_params = (8,)
UnrollLearner.optimizer = @Adam()
Adam.learning_rate = 0.5
"""
DQN = """
Experiment.policy = @alf.EpsilonGreedyPolicy
Experiment.algorithm = @DqnAlgorithm
Experiment.exp_replayer = "uniform"
PolicyPopulation.settings = {
  "Adam.learning_rate": @rate/LogUniform(),
  "alf.EpsilonGreedyPolicy.epsilon": @entropy/Uniform(),
}
UniformReplayer.capacity = 5000
ReplayLearner.mini_batch_size = 8
ReplayLearner.replay_ratio = 0.25
QValueNetwork.fc_layer_params = (8,)
ReplayLearner.optimizer = @Adam()
"""
ENV = functools.partial(MatchObservationEnvironment, BATCH_SIZE, episode_length=EPISODE_LENGTH)


@pytest.fixture(autouse=True)
def _no_picture(monkeypatch):
    """A run draws one at its end, which costs as much as the training of a policy here."""
    monkeypatch.setattr(policy_population, "draw_lineage", lambda *args: None)


class Act(Callback):
    """Calls `act(trainer, iteration)` after each train iteration."""

    def __init__(self, act):
        self._act = act

    def on_train_iter(self, trainer, summary):
        self._act(trainer, trainer.counters["iterations"])


def make_trainer(root_dir, config="", num_iterations=None, act=None, env=ENV, **kwargs):
    gin.clear_config()
    unread = ("ActorCriticNetwork", "UnrollLearner") if "DqnAlgorithm" in config else ()
    base = "\n".join(line for line in CONFIG.splitlines() if not line.startswith(unread))
    parse_config([], [base, config])
    with wrong_calls_are_config_errors():
        driver = driver_of(Experiment(env=env))
        stop = functools.partial(StopCriteria, num_iterations=num_iterations)
        callbacks = [] if act is None else [Act(act)]
        return build_trainer(str(root_dir), driver, stop_criteria=stop, callbacks=callbacks, **kwargs)


def test_members_draw_other_numbers(tmp_path):
    trainer = make_trainer(tmp_path, DQN)
    drawn = set()
    for learner in trainer.learner.learners.values():
        with learner.stream.at([(0, learner.progress.updates)]):
            drawn.add(float(draws.normal(())))
    assert len(drawn) == 3


def settings_of(evolution):
    return [order["settings"] for order in evolution.orders]


def find_study(trainer):
    return trainer.metrics["population/copies"].evolution


def read_tunables(trainer):
    """The settings as the graphs read them, a list of a dict for each policy."""
    found = []
    for learner in trainer.learner.learners.values():
        tunables = find_tunables(learner)
        found.append({name: tunables[name][0].value for name in find_study(trainer)._ranges})
        assert all(len({one.value for one in same}) == 1 for same in tunables.values())
    return found


def counts(learner):
    return [int(counter) for counter in learner.counters]


def read_policies(path):
    """What a checkpoint has of each learner but counters: dict by policy of arrays by name."""
    found = {}
    for name, array in read_checkpoint(path).items():
        *before, rest = name.partition("learner/learners/")
        if before == ["", "learner/learners/"]:
            policy, _, rest = rest.partition("/")
            found.setdefault(policy, {})[rest] = array
    return found


def read_table(root_dir):
    with open(os.path.join(root_dir, "population.csv"), newline="") as file:
        return list(csv.DictReader(file))


def stop_at_rows(number):
    """An `act` that ends the run once the table has so many rows."""

    def act(trainer, iteration):
        if len(find_study(trainer).rows) >= number:
            trainer.stop("enough")

    return act


# What a copy takes over, and how decisions are carried out: a run that is killed.


class Killed(BaseException):
    pass


class Moment(NamedTuple):
    """A run after a train iteration."""

    num_copies: int  # as its metric says
    num_copied: int  # calls of `LearnerGroup.copy_policy`
    settings: list  # the study's
    tunables: list
    shown: list  # the settings as metrics show them
    env_steps: list  # of each policy
    updates: list
    num_traces: int  # of the loss so far


def list_trained(moments):
    """Those in which the graphs of all policies are there."""
    return [moment for moment in moments if min(moment.updates) > 5]


class Copy(NamedTuple):
    """A run before and after one policy has copied another one."""

    before: dict  # of `read_policies`
    after: dict
    counts_before: dict
    counts_after: dict


def copy_by_hand(trainer, parent, child):
    """Lets a policy copy another one of which the counters are others; returns a `Copy`."""
    learners = trainer.learner.learners
    for counter in learners[parent].counters:
        counter.assign_add(1000)
    counts_before = {name: counts(learner) for name, learner in learners.items()}
    before = read_policies(trainer.save())
    trainer.learner.copy_policy(parent, child)
    counts_after = {name: counts(learner) for name, learner in learners.items()}
    trainer._counts.iterations += 1
    return Copy(before, read_policies(trainer.save()), counts_before, counts_after)


def check_copy(copy, parent, child, *kinds):
    """Checks that the child has all that its parent has, bit by bit, and that nobody else has changed."""
    before, after = copy.before, copy.after
    expected = copy.counts_before | {child: list(copy.counts_before[child])}
    expected[child][1] += 1  # the copy counts as an update
    assert copy.counts_after == expected
    assert after[child].keys() == after[parent].keys() and len(after[child]) > 12
    assert all(any(kind in name for name in after[child]) for kind in kinds)
    for name, array in before[parent].items():
        np.testing.assert_array_equal(after[child][name], array)
    assert any((array != before[child][name]).any() for name, array in after[child].items())
    for policy in before.keys() - {child}:
        for name, array in before[policy].items():
            np.testing.assert_array_equal(after[policy][name], array)


class First(NamedTuple):
    """A run with three policies that learn; it makes a copy by hand, saves, and is killed five rows later."""

    copied: list  # pairs of parent and child
    moments: list
    rows: list  # of the study at the last moment
    copy: Copy
    state: dict  # of the study, as in the last checkpoint
    table: list


@pytest.fixture(scope="module")
def root_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("population") / "run"


@pytest.fixture(scope="module")
def first(root_dir):
    copied, moments, traces, seen = [], [], [], {}
    copy_policy, calc_loss = LearnerGroup.copy_policy, PPOAlgorithm.calc_loss

    def note(group, parent, child):
        copied.append((parent, child))
        copy_policy(group, parent, child)

    def look(trainer):
        study, learners = find_study(trainer), trainer.learner.learners
        shown = [
            {name: trainer.metrics[f"population/{policy}/{name}"].result() for name in RANGES}
            for policy in learners
        ]
        return Moment(
            trainer.metrics["population/copies"].result(),
            len(copied),
            copy.deepcopy(settings_of(study)),
            read_tunables(trainer),
            shown,
            [int(learner.progress.env_steps) for learner in learners.values()],
            [int(learner.progress.updates) for learner in learners.values()],
            len(traces),
        )

    def act(trainer, iteration):
        study = find_study(trainer)
        if not seen:
            if iteration % 10 and moments and len(copied) == moments[-1].num_copied:
                return  # to look costs time
            moments.append(look(trainer))
            if is_enough():
                seen["rows"] = copy.deepcopy(study.rows)
                seen["copy"] = copy_by_hand(trainer, "policy_2", "policy_0")
                assign_tunables(trainer.learner.learners["policy_0"], settings_of(study)[0])
        elif "state" not in seen:
            seen["state"] = study.get_state()
            trainer.save()
        elif len(study.rows) >= len(seen["state"]["rows"]) + 5:
            seen["table"] = read_table(root_dir)
            trainer.save = lambda **_: None  # a process that is killed does not save
            raise Killed

    def is_enough():
        """Whether there were some copies, since which all policies have learned."""
        trained, now = list_trained(moments), moments[-1]
        last = next(moment for moment in moments if moment.num_copied == now.num_copied)
        has_learned = all(a > b for a, b in zip(now.updates, last.updates, strict=True))
        return has_learned and len(trained) > 1 and now.num_copied > trained[0].num_copied + 2

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LearnerGroup, "copy_policy", note)
        patch.setattr(PPOAlgorithm, "calc_loss", lambda *args: traces.append(1) or calc_loss(*args))
        patch.setattr(policy_population, "draw_lineage", lambda *args: None)
        with pytest.raises(Killed):
            make_trainer(root_dir, "Replacement.quantile = 0.5", 5000, act).train()
    return First(copied=copied[: moments[-1].num_copied], moments=moments, **seen)


def test_a_copy_is_the_same_bit_by_bit_but_for_counters(first):
    check_copy(first.copy, "policy_2", "policy_0", "optimizer", "slots", "policy")


def test_decisions_are_carried_out(first):
    """After each copy the settings are those of the study."""
    for moment in first.moments:
        assert moment.num_copies == moment.num_copied
        assert moment.tunables == moment.shown == moment.settings
    for before, after in itertools.pairwise(first.moments):
        assert all(b <= a for b, a in zip(before.env_steps, after.env_steps, strict=True))
    assert len(first.copied) >= 3 and all(parent != child for parent, child in first.copied)
    for member in range(3):
        rows = [row for row in first.rows if row["member"] == member]
        numbers = [row["env_steps"] // INTERVAL for row in rows]
        assert numbers == sorted(set(numbers))
        assert numbers[-1] == first.moments[-1].env_steps[member] // INTERVAL


def test_settings_change_without_another_graph(first):
    trained = list_trained(first.moments)
    assert trained[-1].settings != trained[0].settings and trained[-1].num_copies > trained[0].num_copies + 2
    assert {moment.num_traces for moment in trained} == {trained[0].num_traces} and trained[0].num_traces > 0


# The same run goes on.


class Second(NamedTuple):
    """The run from its checkpoint to its end, three rows later."""

    trainer: Trainer
    state: dict  # the study's before it began
    tunables: list  # before it began
    num_draws: int  # when it began
    messages: list
    end: tuple
    table: list
    status: str
    picture: bytes


@pytest.fixture(scope="module")
def second(first, root_dir):
    num_draws, num_rows = [], len(first.state["rows"])

    class Begin(Callback):
        def on_begin(self, trainer):
            num_draws.append(find_study(trainer)._num_draws)

    def act(trainer, iteration):
        if len(find_study(trainer).rows) >= num_rows + 3:
            trainer.stop("enough")

    with pytest.MonkeyPatch.context() as patch, logged_messages() as messages:
        learn_nothing(patch)
        patch.chdir(root_dir.parent)
        trainer = make_trainer(root_dir.name, "Replacement.quantile = 0.5", act=act)
        patch.chdir("/")
        state, tunables = find_study(trainer).get_state(), read_tunables(trainer)
        trainer.add_callback(Begin())
        end = trainer.train()
    with open(root_dir / "done.json") as file:
        status = json.load(file)["status"]
    picture = (root_dir / "lineage.png").read_bytes()
    return Second(
        trainer, state, tunables, num_draws[0], messages, end, read_table(root_dir), status, picture
    )


@contextlib.contextmanager
def logged_messages():
    """Context of a list of what ALF logs."""
    messages, logger = [], logging.getLogger("absl")
    handler, level = logging.Handler(), logger.level
    handler.emit = lambda record: messages.append(record.getMessage())
    logger.addHandler(handler)
    logger.setLevel("INFO")
    try:
        yield messages
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def test_a_killed_run_goes_on_from_what_its_checkpoint_says(first, second):
    """The table has more rows than the checkpoint then; those are forgotten."""
    number = len(first.state["rows"])
    assert len(first.table) >= number + 5  # an iteration may add several
    assert second.state == first.state and second.tunables == [
        order["settings"] for order in first.state["orders"]
    ]
    assert second.num_draws == first.state["num_draws"], "nothing was drawn anew"
    rows = find_study(second.trainer).rows
    assert rows[:number] == first.state["rows"] and len(second.table) == len(rows) >= number + 3
    for member in "012":
        steps = [int(row["env_steps"]) for row in second.table if row["member"] == member]
        assert steps == sorted(set(steps))


def test_a_run_leaves_a_table_and_a_picture(second):
    assert second.end == (True, "enough") and second.status == "SUCCESS"
    table, study = second.table, find_study(second.trainer)
    assert list(table[0]) == ["member", "env_steps", "objective", "parent", "parent_env_steps", *RANGES]
    assert [float(row["Adam.learning_rate"]) for row in table] == [
        row["settings"]["Adam.learning_rate"] for row in study.rows
    ]
    assert {row["member"] for row in table} == {"0", "1", "2"}
    assert second.picture.startswith(b"\x89PNG")
    (line,) = [line for line in second.messages if "is the best" in line]
    best = int(line.split()[0].removeprefix("policy_"))
    assert line.startswith(f"policy_{best} is the best, BalancedReturn")
    assert study.objectives[best] == np.nanmax(study.objectives)  # several may have it


def test_without_matplotlib_there_is_no_picture(second, root_dir, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(policy_population, "draw_lineage", draw_lineage)
    (root_dir / "lineage.png").unlink(missing_ok=True)
    second.trainer.learner.callbacks[0].on_end(second.trainer, "it ends once more")
    assert not (root_dir / "lineage.png").exists()
    install = 'the package matplotlib is not installed: pip install "alf-tf[plot]"'
    assert f"the population is not drawn: {install}" in caplog.messages


def test_a_run_may_go_on_with_other_rules_but_not_with_other_ranges(second, root_dir, tmp_path, monkeypatch):
    learn_nothing(monkeypatch)
    root_dir = shutil.copytree(root_dir, tmp_path / "run")
    iterations = second.trainer.counters["iterations"]
    rules = "PolicyPopulation.interval = 70\nReplacement.warm_up = 5\nMutation.rate = 0.9\n"
    rules += "PolicyPopulation.seed = None\nPolicyPopulation.objective = 'AverageEpisodeLength'"
    trainer = make_trainer(root_dir, rules, num_iterations=iterations + 1)
    assert trainer.counters["iterations"] == iterations
    trainer.train()
    with pytest.raises(ConfigError, match="holds a run of another config .*rate/LogUniform.high"):
        make_trainer(root_dir, "rate/LogUniform.high = 0.2")


# Figures and replay buffers of a policy that copies another one.


def test_a_copy_takes_over_the_figures_of_the_last_episodes(tmp_path):
    trainer = make_trainer(tmp_path)
    (controller,), study = trainer.learner.callbacks, find_study(trainer)
    controller.on_begin(trainer)
    for member, figures in enumerate([[1.0], [7.0, 8.0], [3.0]]):
        for figure in ("AverageReturn", "AverageEpisodeLength"):
            trainer.metrics[f"policies/policy_{member}/{figure}"].set_state(figures)
        trainer.metrics[f"policies/policy_{member}/BalancedReturn"].set_state([figures])
    for member in (1, 2, 0):
        controller._report(trainer, member, 70, None)
    returns = [trainer.metrics[f"policies/policy_{i}/AverageReturn"].get_state() for i in range(3)]
    assert returns == [[7.0, 8.0], [7.0, 8.0], [3.0]] and study.num_copies == 1
    assert trainer.metrics["policies/policy_0/AverageEpisodeLength"].get_state() == [7.0, 8.0]
    assert trainer.metrics["policies/policy_0/BalancedReturn"].result() == 7.5
    trainer.close()


def test_a_copy_has_the_target_networks_of_its_parent_and_its_own_replay_buffer(tmp_path):
    seen = []

    def act(trainer, iteration):
        learners = trainer.learner.learners
        replayer = learners["policy_0"].replayer
        before = int(replayer.num_steps())
        is_trained = all(int(learner.progress.updates) > 5 for learner in learners.values())
        if before > 20 and is_trained and not seen:
            copied = copy_by_hand(trainer, "policy_1", "policy_0")
            seen.append((copied, before, int(replayer.num_steps())))
            assert learners["policy_0"]._oldest_version is None, "nothing is dropped"
            trainer.stop("enough")

    more = "PolicyPopulation.num_policies = 2\nPolicyPopulation.interval = 1_000_000_000"
    make_trainer(tmp_path, DQN + more, act=act).train()  # there are no intervals: nothing else copies
    ((copied, before, after),) = seen
    check_copy(copied, "policy_1", "policy_0", "optimizer", "slots", "target_network")
    assert before == after


# Experience of the weights from before.

KINDS = {
    "one_time": "",
    "mix_in": 'Experiment.exp_replayer = "mix_in"\nMixInReplayer.replay_proportion = 2.0\n',
    "multi_pass": 'Experiment.exp_replayer = "multi_pass"\nMultiPassReplayer.num_passes = 4\n'
    "MultiPassReplayer.num_batches = 5\n",
    "copies": "DriverSettings.parameter_update_period = 1_000_000_000\n",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_never_learns_from_the_weights_from_before(tmp_path, monkeypatch, kind):
    """Each step has the version of the weights that it was collected with, whatever a replayer hands out."""
    bounds, learned, versions = {}, [], []
    copy_policy = LearnerGroup.copy_policy

    def note_copy(group, parent, child):
        copy_policy(group, parent, child)
        bounds[child] = int(group.learners[child].progress.updates)

    def check(learner, experience):
        learners = trainer.learner.learners.items()
        (name,) = [name for name, one in learners if one is learner]
        oldest = int(tf.reduce_min(experience.policy_version))
        assert bounds.get(name, 0) <= oldest <= int(learner.progress.updates)
        versions.append(oldest)
        if int(learner.progress.updates) > bounds.get(name, math.inf) + 1:
            learned.append(name)
        if len(learned) > 60:
            trainer.stop("enough")

    monkeypatch.setattr(LearnerGroup, "copy_policy", note_copy)
    learn_nothing(monkeypatch, check)
    more = "Replacement.quantile = 0.5\nPolicyPopulation.num_policies = 2\n"
    trainer = make_trainer(tmp_path, KINDS[kind] + more, 4000, batches_per_train_iter=1)
    assert trainer.train() == (True, "enough"), "those that have copied others go on learning"


def test_a_batch_with_a_single_old_step_is_dropped(tmp_path):
    trainer, seen = make_trainer(tmp_path), []
    group = trainer.learner
    for name, learner in group.learners.items():
        note = lambda batch, name=name: seen.append((name, batch.policy_version.numpy().tolist()))  # noqa: E731
        learner.replayer = types.SimpleNamespace(observe=note, clear=lambda: None)

    def observe(name, *versions):
        batch = types.SimpleNamespace(policy_version=tf.constant(versions, tf.int64), env_info=())
        group.learners[name].observe(batch)

    group.learners["policy_1"].progress.updates.assign(6)
    observe("policy_1", 0, 6)
    group.copy_policy("policy_0", "policy_1")  # version 7
    for versions in [(7, 7), (6, 7), (7, 6), (8, 7), (9, 0)]:
        observe("policy_1", *versions)
    observe("policy_0", 0, 0)
    assert seen == [
        ("policy_1", [0, 6]),
        ("policy_1", [7, 7]),
        ("policy_1", [8, 7]),
        ("policy_0", [0, 0]),
    ]
    trainer.close()


# Policies that diverge.


def diverge(*members, after=1):
    """An `act` that lets policies diverge once there are so many rows."""
    done = []

    def act(trainer, iteration):
        study = find_study(trainer)
        if len(study.rows) >= after and not done:
            done.extend(members)
            for member in members:
                (tunable,) = find_tunables(trainer.learner.learners[f"policy_{member}"])["Adam.learning_rate"]
                tunable.assign(1e38)
        if done and len(study.rows) > after + 12:
            trainer.stop("enough")

    return act


WIDE = "rate/LogUniform.high = 1e38\nMutation.rate = 0.0\nMutation.resample_rate = 0.0\n"
WIDE += "Replacement.quantile = 0.3\nReplacement.min_gap = 1e9\nPolicyPopulation.num_policies = 2\n"


def draw_small(monkeypatch):
    monkeypatch.setattr(LogUniform, "draw", lambda self, rng: float(rng.uniform(1e-3, 1e-2)))


def test_a_policy_that_has_diverged_copies_a_good_one_at_once(tmp_path, monkeypatch):
    draw_small(monkeypatch)
    trainer = make_trainer(tmp_path, WIDE, 3000, diverge(1, after=4))
    assert trainer.train() == (True, "enough")
    study = find_study(trainer)
    assert [row["member"] for row in study.rows if row["objective"] is None] == [1]
    assert [(row["member"], row["parent"]) for row in study.rows if row["parent"] is not None] == [(1, 0)]
    assert read_tunables(trainer)[1] == settings_of(study)[0], "nothing mutates here"
    for learner in trainer.learner.learners.values():
        assert all(np.isfinite(v.numpy()).all() for v in learner.list_learned() if v.dtype.is_floating)


def test_nobody_copies_one_that_has_diverged_in_the_same_train_iteration(tmp_path):
    trainer = make_trainer(tmp_path)
    (controller,), study = trainer.learner.callbacks, find_study(trainer)
    controller.on_begin(trainer)
    for member, objective in enumerate([1.0, 9.0, 5.0]):
        study.report(member, 60 + member, objective)
        trainer.learner.learners[f"policy_{member}"].progress.env_steps.assign(70)
        trainer.metrics[f"policies/policy_{member}/BalancedReturn"].set_state([[objective]])
    assert [row["parent"] for row in study.rows] == [None] * 3 and study.num_copies == 0
    trainer.learner.learners["policy_0"].progress.env_steps.assign(120)
    trainer.learner.on_diverged("policy_1", DivergedError("it has diverged"))
    controller.on_train_iter(trainer, {})
    assert [(row["member"], row["objective"]) for row in study.rows[3:]] == [(1, None), (0, 1.0)]
    parents = [order["parent"] for order in study.orders]
    assert [parent and parent["member"] for parent in parents] == [None, 2, None]
    controller.on_train_iter(trainer, {})
    assert len(study.rows) == 5, "each is reported once"
    trainer.close()


def test_without_a_good_policy_the_run_ends_with_the_name_of_the_bad_one(tmp_path, monkeypatch):
    def diverge(learner, experience):
        if learner is trainer.learner.learners["policy_1"]:
            raise DivergedError("its loss is not finite")

    learn_nothing(monkeypatch, diverge)
    more = "PolicyPopulation.num_policies = 2\nPolicyPopulation.interval = 1_000_000_000"
    trainer = make_trainer(tmp_path, more, 3000)
    with pytest.raises(DivergedError, match="^policy_1: its loss is not finite"):
        trainer.train()
    with open(tmp_path / "done.json") as file:
        assert json.load(file)["status"] == "FAILURE"


# Settings.


def test_each_setting_has_its_effect(tmp_path):
    config = """
        PolicyPopulation.num_policies = 2
        PolicyPopulation.interval = 1000
        PolicyPopulation.seed = 11
        PolicyPopulation.objective = "AverageEpisodeLength"
        PolicyPopulation.mapping = ("policy_0", "policy_1", "policy_1")
        PolicyPopulation.num_sequences = 5
        PolicyPopulation.mutation = @own/Mutation
        own/Mutation.rate = 0.25
        PolicyPopulation.replacement = @own/Replacement
        own/Replacement.warm_up = 7
        """
    trainer = make_trainer(tmp_path, "\n".join(line.strip() for line in config.splitlines()))
    study = find_study(trainer)
    study.begin(2)
    assert set(trainer.learner.learners) == {"policy_0", "policy_1"}
    rng = np.random.default_rng([11, 1])
    assert settings_of(study)[0] == {name: values.draw(rng) for name, values in RANGES.items()}
    assert (trainer.learner.callbacks[0]._interval, study._mutation, study._replacement) == (
        1000,
        Mutation(rate=0.25),
        Replacement(warm_up=7),
    )
    assert trainer.learner.callbacks[0]._objective == "AverageEpisodeLength"
    assert {shape.num_sequences for shape in trainer.learner.shapes.values()} == {5}
    assert trainer.driver._envs[0].reset().observation[OWNER].tolist() == [0, 1, 1, 0, 1, 1]
    trainer.close()


def test_the_objective_is_what_is_judged(tmp_path, monkeypatch):
    """All episodes have the same length, so nobody is better."""
    learn_nothing(monkeypatch)
    more = "PolicyPopulation.objective = 'AverageEpisodeLength'\nPolicyPopulation.num_policies = 2"
    trainer = make_trainer(tmp_path, more, act=stop_at_rows(11))
    trainer.train()
    rows = find_study(trainer).rows
    assert len(rows) > 10 and {row["objective"] for row in rows} == {float(EPISODE_LENGTH)}
    assert all(row["parent"] is None for row in rows)


def make_population(num_policies=3, **kwargs):
    return PolicyPopulation(num_policies, {"Adam.learning_rate": LogUniform(1e-4, 1e-1)}, 100, **kwargs)


def list_owners(env, num_steps=40):
    env.reset()
    zeros = np.zeros(env.batch_size, np.int64)
    return np.array([env.step(zeros).observation[OWNER].copy() for _ in range(num_steps)])


class Pairs(MatchObservationEnvironment):
    """Games of two agents."""

    agents = ("a", "b")

    @property
    def game_begins(self):
        return self._step_in_episode[::2] == 0


def test_rows_take_the_policies_in_turn_if_their_number_allows_that():
    env = make_population(3).wrap(MatchObservationEnvironment(6, episode_length=2), 0)
    assert (list_owners(env) == [0, 1, 2, 0, 1, 2]).all()


@pytest.mark.parametrize(
    "env",
    [MatchObservationEnvironment(4, episode_length=2), Pairs(6, episode_length=2)],
    ids=["rows", "games"],
)
def test_else_each_agents_policy_is_drawn_where_an_episode_begins(env):
    first, again, other = (list_owners(make_population(3).wrap(env, seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert {tuple(column) for column in np.eye(3)[first].any(axis=0)} == {(True, True, True)}
    changes = (first[1:] != first[:-1]).any(axis=1)
    assert changes.sum() > 5 and not (changes[:-1] & changes[1:]).any(), "episodes have three time steps"


class Spaces(Pairs):
    space_names = ("a", "b")


BAD = {
    "num_policies": ("PolicyPopulation.num_policies = 1", "PolicyPopulation.num_policies is 1: .* least 2"),
    "interval": ("PolicyPopulation.interval = 0", "PolicyPopulation.interval is 0"),
    "seed": ("PolicyPopulation.seed = -1", "PolicyPopulation.seed is -1"),
    "objective": ("PolicyPopulation.objective = 3", "PolicyPopulation.objective is 3"),
    "no_metric": (
        "PolicyPopulation.objective = 'Joy'",
        "PolicyPopulation.objective is 'Joy': it must be one of AverageReturn, .*BalancedReturn",
    ),
    "settings": ("PolicyPopulation.settings = {}", "PolicyPopulation.settings is empty"),
    "name": (
        "PolicyPopulation.settings = {'rate': @rate/LogUniform()}",
        "PolicyPopulation.settings has 'rate': it must be the name of a gin binding",
    ),
    "range": ("PolicyPopulation.settings = {'Adam.learning_rate': 0.1}", "it must be a Range"),
    "another_graph": (
        "PolicyPopulation.settings = {'Experiment.unroll_length': @Integers()}\n"
        "Integers.low = 1\nIntegers.high = 4",
        "'Experiment.unroll_length', which cannot change .* Adam.learning_rate, .*NAME/Tunable.value; alf",
    ),
    "no_number": (
        "PolicyPopulation.settings = {'Adam.learning_rate': @Choice()}\nChoice.values = ('a', 'b')",
        "'Adam.learning_rate', which cannot change .* with numbers",
    ),
    "no_reader": (
        "PolicyPopulation.settings = {'Adam.learning_rate': @rate/LogUniform(),"
        " 'own/Tunable.value': @entropy/Uniform()}",
        "PolicyPopulation.settings has 'own/Tunable.value': nothing in the learner of policy_0 reads it",
    ),
    "unknown": (
        "PolicyPopulation.settings = {'Nothing/SGD.learning_rate': @rate/LogUniform()}",
        "PolicyPopulation.settings has 'Nothing/SGD.learning_rate': nothing in the learner of policy_0",
    ),
    "num_sequences": ("PolicyPopulation.num_sequences = 0", "PolicyPopulation.num_sequences is 0"),
    "mapping": ("PolicyPopulation.mapping = ('x',)", "Policies.mapping is .*no policy 'x'"),
    "algorithms": (
        "Experiment.algorithm = {'policy_0': @PPOAlgorithm, 'policy_1': @ImpalaAlgorithm, "
        "'policy_2': @PPOAlgorithm}\nPolicyPopulation.settings = {'Adam.learning_rate': @rate/LogUniform()}",
        "policy_0 and policy_1 differ in their algorithm",
    ),
    "networks": (
        "policy_2/ActorCriticNetwork.fc_layer_params = (9,)",
        "policy_0 and policy_2 differ in their algorithm",
    ),
    "optimizers": (
        "policy_2/UnrollLearner.optimizer = @RMSprop()",
        "policy_0 and policy_2 differ in their algorithm, policy or optimizer",
    ),
}


@pytest.mark.parametrize("bad", BAD)
def test_what_is_wrong_is_one_line_and_nothing_is_written(tmp_path, bad):
    config, message = BAD[bad]
    with pytest.raises(ConfigError, match=message) as caught:
        make_trainer(tmp_path / "run", config, 2).train()
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_agents_of_different_spaces_are_refused():
    with pytest.raises(ConfigError, match="different spaces: policies could not copy each other"):
        make_population().wrap(Spaces(6), 0)


def test_a_population_that_ends_at_once_leaves_nothing(tmp_path, monkeypatch):
    learn_nothing(monkeypatch)
    make_trainer(tmp_path, "PolicyPopulation.num_policies = 2", num_iterations=1).train()
    assert not (tmp_path / "population.csv").exists() and not (tmp_path / "lineage.png").exists()
