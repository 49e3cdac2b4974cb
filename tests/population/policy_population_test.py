# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Population based training in one process: copies, stale experience, runs that go on, each setting."""

import csv
import functools
import json
import math
import os
import sys

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import PPOAlgorithm
from alf.data_structures import OWNER
from alf.errors import ConfigError, DivergedError
from alf.learner import LearnerGroup
from alf.learner.learner_group import PolicyBatch
from alf.population.mutation import LogUniform, Mutation, Replacement, Uniform
from alf.population.policy_population import PolicyPopulation
from alf.schedules import find_tunables
from alf.testing.toy_environments import MatchObservationEnvironment
from alf.training import Callback, Experiment, Trainer
from alf.training.config import parse_config, wrong_calls_are_config_errors
from alf.training.stop_criteria import StopCriteria
from tests.population.member_test import read_checkpoint

BATCH_SIZE, EPISODE_LENGTH = 6, 5
INTERVAL = 60
RANGES = {"Adam.learning_rate": LogUniform(1e-4, 1e-1), "PPOAlgorithm.entropy_weight": Uniform(0.0, 0.1)}
CONFIG = """
Experiment.policies = @PolicyPopulation()
Experiment.algorithm_ctor = @PPOAlgorithm
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
alf.Learner.optimizer = @Adam()
Adam.learning_rate = 0.5
"""
DQN = """
Experiment.policy_ctor = @alf.EpsilonGreedyPolicy
Experiment.algorithm_ctor = @DqnAlgorithm
Experiment.exp_replayer = "uniform"
PolicyPopulation.settings = {
  "Adam.learning_rate": @rate/LogUniform(),
  "alf.EpsilonGreedyPolicy.epsilon": @entropy/Uniform(),
}
UniformReplayer.capacity = 5000
ReplayTraining.mini_batch_size = 8
ReplayTraining.replay_ratio = 0.25
QValueNetwork.fc_layer_params = (8,)
ActorCriticNetwork.fc_layer_params = None
"""
ENV = functools.partial(MatchObservationEnvironment, BATCH_SIZE, episode_length=EPISODE_LENGTH)


class Act(Callback):
    """Calls `act(trainer, iteration)` after each train iteration."""

    def __init__(self, act):
        self._act = act

    def on_train_iter(self, trainer, summary):
        self._act(trainer, trainer.counters["iterations"])


def make_trainer(root_dir, config="", num_iterations=None, act=None, env_ctor=ENV, **kwargs):
    gin.clear_config()
    dqn = "DqnAlgorithm" in config
    base = "\n".join(x for x in CONFIG.splitlines() if not dqn or "ActorCriticNetwork" not in x)
    parse_config([], [base, config.replace("ActorCriticNetwork.fc_layer_params = None\n", "")])
    with wrong_calls_are_config_errors():
        driver = Experiment(env_ctor=env_ctor).make_driver()
        stop = functools.partial(StopCriteria, num_iterations=num_iterations)
        callbacks = [] if act is None else [Act(act)]
        return Trainer(str(root_dir), driver, stop_criteria_ctor=stop, callbacks=callbacks, **kwargs)


def find_study(trainer):
    return trainer.metrics["population/copies"]._study


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
            # The names of an optimizer's slots have the policy's.
            found.setdefault(policy, {})[rest.replace(f"learners/{policy}/", "")] = array
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


# What a copy takes over.


@pytest.mark.parametrize("config", ["", DQN], ids=["ppo", "dqn"])
def test_a_copy_is_the_same_bit_by_bit_but_for_counters(tmp_path, config):
    seen = {}

    def act(trainer, iteration):
        learners = trainer.learner.learners
        trained = all(int(learner.progress.updates) > 5 for learner in learners.values())
        if not trained or seen:
            return
        for counter in learners["policy_2"].counters:
            counter.assign_add(1000)
        before = {name: counts(learner) for name, learner in learners.items()}
        seen["before"] = read_policies(trainer.save())
        trainer.learner.copy_policy("policy_2", "policy_0")
        after = {name: counts(learner) for name, learner in learners.items()}
        before["policy_0"][1] += 1  # the copy counts as an update
        assert after == before
        trainer._checkpointer.iterations += 1
        seen["after"] = read_policies(trainer.save())
        trainer.stop("enough")

    # No intervals: nothing else copies.
    trainer = make_trainer(tmp_path, config + "PolicyPopulation.interval = 1_000_000_000", act=act)
    trainer.train()
    before, after = seen["before"], seen["after"]
    assert after["policy_0"].keys() == after["policy_2"].keys() and len(after["policy_0"]) > 12
    kinds = ("optimizer", "OPTIMIZER_SLOT", "target_network" if config else "policy")
    assert all(any(kind in name for name in after["policy_0"]) for kind in kinds)
    for name, array in before["policy_2"].items():
        np.testing.assert_array_equal(after["policy_0"][name], array)
    assert any((array != before["policy_0"][name]).any() for name, array in after["policy_0"].items())
    for policy in ("policy_1", "policy_2"):
        for name, array in before[policy].items():
            np.testing.assert_array_equal(after[policy][name], array)


def test_decisions_are_carried_out(tmp_path, monkeypatch):
    """After each copy the settings are those of the study, and the figures those of the parent."""
    copied, copy_policy, steps, seen = [], LearnerGroup.copy_policy, {}, {"copied": 0}

    def note(group, parent, child):
        copied.append((parent, child, counts(group.learners[child])))
        copy_policy(group, parent, child)

    def act(trainer, iteration):
        study = find_study(trainer)
        assert trainer.metrics["population/copies"].result() == len(copied)
        if iteration % 10 and len(copied) == seen["copied"]:
            return  # to look costs time
        seen["copied"] = len(copied)
        assert read_tunables(trainer) == study.settings
        for policy, settings in zip(trainer.learner.learners, study.settings, strict=True):
            for name, value in settings.items():
                assert trainer.metrics[f"population/{policy}/{name}"].result() == value
        for name, learner in trainer.learner.learners.items():
            env_steps = int(learner.progress.env_steps)
            assert env_steps >= steps.get(name, 0)
            steps[name] = env_steps
        if len(copied) >= 3:
            trainer.stop("enough")

    monkeypatch.setattr(LearnerGroup, "copy_policy", note)
    trainer = make_trainer(tmp_path, "Replacement.quantile = 0.5", 3000, act)
    assert trainer.train() == (True, "enough")
    assert all(parent != child for parent, child, _ in copied)
    study = find_study(trainer)
    ends = {name: int(learner.progress.env_steps) for name, learner in trainer.learner.learners.items()}
    for member, name in enumerate(trainer.learner.learners):
        rows = [row for row in study.rows if row["member"] == member]
        numbers = [row["env_steps"] // INTERVAL for row in rows]
        assert numbers == sorted(set(numbers)) and numbers[-1] == ends[name] // INTERVAL


def test_settings_change_without_another_graph(tmp_path, monkeypatch):
    traces, calc_loss, seen = [], PPOAlgorithm.calc_loss, {}
    monkeypatch.setattr(PPOAlgorithm, "calc_loss", lambda *args: traces.append(1) or calc_loss(*args))

    def act(trainer, iteration):
        copies = trainer.metrics["population/copies"].result()
        if all(int(learner.progress.updates) > 2 for learner in trainer.learner.learners.values()):
            seen[iteration] = copies, len(traces)
        if seen and copies > min(seen.values())[0] + 2:
            trainer.stop("enough")

    make_trainer(tmp_path, "Replacement.quantile = 0.5", 3000, act).train()
    copies, counts = zip(*seen.values(), strict=True)
    assert max(copies) > min(copies) + 2 and set(counts) == {counts[0]} and counts[0] > 0


def test_a_copy_takes_over_the_figures_of_the_last_episodes(tmp_path):
    seen = []

    def act(trainer, iteration):
        study = find_study(trainer)
        (name,) = [name for name, x in trainer.metrics.items() if name == "policies/policy_0/AverageReturn"]
        if math.isnan(trainer.metrics[name].result()) or study.rows:
            return
        trainer.driver.stop()  # no episode ends any more
        for member, figures in enumerate([[1.0], [7.0, 8.0], [3.0]]):
            for figure in ("AverageReturn", "AverageEpisodeLength"):
                trainer.metrics[f"policies/policy_{member}/{figure}"].set_state(figures)
        controller = trainer.learner.callbacks[0]
        for member in (1, 2, 0):
            controller._report(trainer, member, 70, None)
        copied = [trainer.metrics[f"policies/policy_{i}/AverageReturn"].get_state() for i in range(3)]
        lengths = trainer.metrics["policies/policy_0/AverageEpisodeLength"].get_state()
        seen.append((copied, lengths, study.num_copies))
        trainer.stop("enough")

    make_trainer(tmp_path, "PolicyPopulation.interval = 1_000_000_000", act=act).train()
    assert seen == [([[7.0, 8.0], [7.0, 8.0], [3.0]], [7.0, 8.0], 1)]


# Experience of the weights from before.

KINDS = {
    "one_time": "",
    "mix_in": 'Experiment.exp_replayer = "mix_in"\nMixInReplayer.replay_proportion = 2.0\n',
    "multi_pass": 'Experiment.exp_replayer = "multi_pass"\nMultiPassReplayer.num_passes = 4\n',
    "copies": "AsyncOffPolicyDriver.parameter_update_period = 1_000_000_000\n",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_never_learns_from_the_weights_from_before(tmp_path, monkeypatch, kind):
    """Each step has a version, and the lag of each update says which was the oldest one in it."""
    bounds, learned, seen = {}, [], {"updates": 0}
    copy_policy = LearnerGroup.copy_policy

    def note(group, parent, child):
        copy_policy(group, parent, child)
        bounds[child] = int(group.learners[child].progress.updates)

    def act(trainer, iteration):
        for name, bound in bounds.items():
            learner = trainer.learner.learners[name]
            if int(learner.progress.updates) > bound + 1:
                learned.append(name)
        if len(learned) > 60:
            trainer.stop("enough")

    monkeypatch.setattr(LearnerGroup, "copy_policy", note)
    more = "Replacement.quantile = 0.5\nMutation.min_factor = 1.0\n"
    trainer = make_trainer(tmp_path, KINDS[kind] + more, 4000, act, batches_per_train_iter=1)
    for name, learner in trainer.learner.learners.items():

        def prepare(batch, *args, name=name, learner=learner, prepare=learner.prepare):
            oldest = tf.reduce_min(batch.policy_version)
            oldest = tf.py_function(
                functools.partial(check, name), [oldest, learner.progress.updates], tf.int64
            )
            with tf.control_dependencies([oldest]):
                return prepare(batch, *args)

        learner.prepare = prepare

    def check(name, oldest, updates):
        seen["updates"] += 1
        assert int(oldest) >= bounds.get(name, 0)
        assert int(oldest) <= int(updates)
        return oldest

    assert trainer.train() == (True, "enough"), "those that have copied others go on learning"
    assert seen["updates"] > 60


def test_a_batch_with_a_single_old_step_is_dropped(tmp_path):
    trainer = make_trainer(tmp_path)
    group, seen = trainer.learner, []
    for name, learner in group.learners.items():
        learner.observe = lambda experience, name=name: seen.append((name, int(experience[0, 0, 0])))

    class Batch:
        def __init__(self, *versions):
            self.policy_version = tf.constant([[versions]], tf.int64)

        def __getitem__(self, index):
            return self.policy_version[index]

    def observe(name, *versions):
        group.observe(PolicyBatch(name, Batch(*versions)))

    group.learners["policy_1"].progress.updates.assign(6)
    observe("policy_1", 0, 6)
    group.copy_policy("policy_0", "policy_1")  # version 7
    for versions in [(7, 7), (6, 7), (7, 6), (8, 7), (9, 0)]:
        observe("policy_1", *versions)
    observe("policy_0", 0, 0)
    assert seen == [("policy_1", 0), ("policy_1", 7), ("policy_1", 8), ("policy_0", 0)]
    trainer.close()


def test_a_replay_buffer_stays(tmp_path):
    seen = []

    def act(trainer, iteration):
        learner = trainer.learner.learners["policy_0"]
        before = int(learner.replayer.num_steps())
        if before > 20 and not seen:
            trainer.learner.copy_policy("policy_1", "policy_0")
            seen.append((before, int(learner.replayer.num_steps())))
            assert not trainer.learner._recent.oldest_versions
            trainer.stop("enough")

    make_trainer(tmp_path, DQN, act=act).train()
    assert seen[0][0] == seen[0][1]


# Runs that go on.


class Killed(BaseException):
    pass


def test_a_killed_run_goes_on_from_what_its_checkpoint_says(tmp_path):
    """The table has more rows than the checkpoint then; those are forgotten."""
    saved = {}

    def act(trainer, iteration):
        study = find_study(trainer)
        if not saved and study.num_copies >= 2:
            saved["state"] = study.get_state()
            saved["arrays"] = read_policies(trainer.save())
        if saved and len(study.rows) >= len(saved["state"]["rows"]) + 5:
            raise Killed

    with pytest.raises(Killed):
        make_trainer(tmp_path, "Replacement.quantile = 0.5", act=act).train()
    first_table = read_table(tmp_path)
    assert len(first_table) == len(saved["state"]["rows"]) + 5
    seen = []

    def look(trainer, iteration):
        study = find_study(trainer)
        if not seen:
            seen.append(study._num_draws)
        if len(study.rows) >= len(saved["state"]["rows"]) + 3:
            trainer.stop("enough")

    again = make_trainer(tmp_path, "Replacement.quantile = 0.5", act=look)
    study = find_study(again)
    assert study.get_state() == saved["state"]
    assert read_tunables(again) == saved["state"]["settings"]
    again.train()
    assert seen == [saved["state"]["num_draws"]], "nothing was drawn anew"
    rows, number = study.rows, len(saved["state"]["rows"])
    assert rows[:number] == saved["state"]["rows"]
    table = read_table(tmp_path)
    assert len(table) == len(rows)
    for member in "012":
        steps = [int(row["env_steps"]) for row in table if row["member"] == member]
        assert steps == sorted(set(steps))


def test_a_run_may_go_on_with_other_rules_but_not_with_other_ranges(tmp_path):
    make_trainer(tmp_path, num_iterations=2).train()
    rules = "PolicyPopulation.interval = 70\nReplacement.warm_up = 5\nMutation.rate = 0.9\n"
    rules += "PolicyPopulation.seed = None\nPolicyPopulation.objective = 'AverageEpisodeLength'"
    trainer = make_trainer(tmp_path, rules, num_iterations=3)
    assert trainer.counters["iterations"] == 2
    trainer.train()
    with pytest.raises(ConfigError, match="holds a run of another config .*rate/LogUniform.high"):
        make_trainer(tmp_path, "rate/LogUniform.high = 0.2")


def test_a_trained_policy_can_be_used_without_this_module_being_imported(tmp_path):
    make_trainer(tmp_path, num_iterations=2).train()
    config = (tmp_path / "operative_config.gin").read_text()
    assert "import alf.population.policy_population\n" in config


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
WIDE += "Replacement.quantile = 0.3\nReplacement.min_gap = 1e9\n"


def draw_small(monkeypatch):
    monkeypatch.setattr(LogUniform, "draw", lambda self, rng: float(rng.uniform(1e-3, 1e-2)))


def test_a_policy_that_has_diverged_copies_a_good_one_at_once(tmp_path, monkeypatch):
    draw_small(monkeypatch)
    trainer = make_trainer(tmp_path, WIDE, 3000, diverge(1, after=6))
    assert trainer.train() == (True, "enough")
    study = find_study(trainer)
    (index,) = [i for i, row in enumerate(study.rows) if row["member"] == 1 and row["objective"] is None]
    parents = [(row["member"], row["parent"]) for row in study.rows if row["parent"] is not None]
    assert len(parents) == 1 and parents[0][0] == 1 and parents[0][1] in (0, 2)
    assert read_tunables(trainer)[1] == study.settings[parents[0][1]], "nothing mutates here"
    for learner in trainer.learner.learners.values():
        assert all(np.isfinite(v.numpy()).all() for v in learner.list_learned() if v.dtype.is_floating)


def test_nobody_copies_one_that_has_diverged_in_the_same_train_iteration(tmp_path):
    trainer = make_trainer(tmp_path)
    (controller,), study = trainer.learner.callbacks, find_study(trainer)
    controller.on_begin(trainer)
    for member, objective in enumerate([1.0, 9.0, 5.0]):
        study.report(member, 60 + member, objective)
        trainer.learner.learners[f"policy_{member}"].progress.env_steps.assign(70)
        trainer.metrics[f"policies/policy_{member}/AverageReturn"].set_state([objective])
    assert [row["parent"] for row in study.rows] == [None] * 3 and study.num_copies == 0
    trainer.learner.learners["policy_0"].progress.env_steps.assign(120)
    trainer.learner.on_diverged("policy_1", DivergedError("it has diverged"))
    controller.on_train_iter(trainer, {})
    assert [(row["member"], row["objective"]) for row in study.rows[3:]] == [(1, None), (0, 1.0)]
    assert [copied and copied["parent"] for copied in study._copied] == [None, 2, None]
    controller.on_train_iter(trainer, {})
    assert len(study.rows) == 5, "each is reported once"
    trainer.close()


def test_without_a_good_policy_the_run_ends_with_the_name_of_the_bad_one(tmp_path, monkeypatch):
    draw_small(monkeypatch)
    act = diverge(1, after=0)
    trainer = make_trainer(tmp_path, WIDE + "PolicyPopulation.interval = 1_000_000_000", 3000, act)
    with pytest.raises(
        DivergedError, match="^policy_1: the loss or its gradient is not finite after .*lower"
    ):
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
        PolicyPopulation.mutation_ctor = @own/Mutation
        own/Mutation.rate = 0.25
        PolicyPopulation.replacement_ctor = @own/Replacement
        own/Replacement.warm_up = 7
        """
    trainer = make_trainer(tmp_path, "\n".join(line.strip() for line in config.splitlines()))
    study = find_study(trainer)
    study.begin()
    assert set(trainer.learner.learners) == {"policy_0", "policy_1"}
    rng = np.random.default_rng([11, 1])
    assert study.settings[0] == {name: values.draw(rng) for name, values in RANGES.items()}
    assert (study._interval, study._mutation, study._replacement) == (
        1000,
        Mutation(rate=0.25),
        Replacement(warm_up=7),
    )
    assert trainer.learner.callbacks[0]._objective == "AverageEpisodeLength"
    assert {shape.num_sequences for shape in trainer.learner.shapes.values()} == {5}
    assert trainer.driver._envs[0].reset().observation[OWNER].tolist() == [0, 1, 1, 0, 1, 1]
    trainer.close()


def test_the_objective_is_what_is_judged(tmp_path):
    """All episodes have the same length, so nobody is better."""
    trainer = make_trainer(tmp_path, "PolicyPopulation.objective = 'AverageEpisodeLength'", 200)
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
        "PolicyPopulation.objective is 'Joy': it must be one of AverageReturn, AverageEpisodeLength",
    ),
    "settings": ("PolicyPopulation.settings = {}", "PolicyPopulation.settings is {}"),
    "name": (
        "PolicyPopulation.settings = {'rate': @rate/LogUniform()}",
        "PolicyPopulation.settings has 'rate': it must be the name of a gin binding",
    ),
    "range": ("PolicyPopulation.settings = {'Adam.learning_rate': 0.1}", "must be a range"),
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
        "Experiment.algorithm_ctor = {'policy_0': @PPOAlgorithm, 'policy_1': @ImpalaAlgorithm, "
        "'policy_2': @PPOAlgorithm}\nPolicyPopulation.settings = {'Adam.learning_rate': @rate/LogUniform()}",
        "policy_0 and policy_1 differ in their algorithm",
    ),
    "networks": (
        "policy_2/ActorCriticNetwork.fc_layer_params = (9,)",
        "policy_0 and policy_2 differ in their algorithm",
    ),
    "optimizers": (
        "policy_2/alf.Learner.optimizer = @RMSprop()",
        "policy_0 and policy_2 differ in their algorithm, policy or optimizer",
    ),
}


@pytest.mark.parametrize("bad", BAD)
def test_what_is_wrong_is_one_line_and_nothing_is_written(tmp_path, bad):
    config, message = BAD[bad]
    with pytest.raises(ConfigError, match=message) as caught:
        make_trainer(tmp_path / "run", config, 2).train()
    first, *rest = str(caught.value).splitlines()
    assert first and all("In call to configurable" in line for line in rest)  # which gin adds
    assert not (tmp_path / "run").exists()


def test_agents_of_different_spaces_are_refused():
    with pytest.raises(ConfigError, match="different spaces: policies could not copy each other"):
        make_population().wrap(Spaces(6), 0)


# What does not know several policies.


def test_what_does_not_know_several_policies_names_them(tmp_path):
    trainer = make_trainer(tmp_path)
    for refused in (lambda: trainer.copy_from("anywhere"), trainer.driver.drop_old_experience):
        with pytest.raises(ConfigError, match="does not know several policies, here policy_0, policy_1, pol"):
            refused()
    trainer.close()


# A whole run.


def test_a_run_leaves_a_table_and_a_picture(tmp_path, caplog):
    caplog.set_level("INFO", "absl")
    trainer = make_trainer(tmp_path, act=stop_at_rows(9))
    assert trainer.train() == (True, "enough")
    table, rows = read_table(tmp_path), find_study(trainer).rows
    assert list(table[0]) == ["member", "env_steps", "objective", "parent", "parent_env_steps", *RANGES]
    assert [float(row["Adam.learning_rate"]) for row in table] == [
        row["settings"]["Adam.learning_rate"] for row in rows
    ]
    assert {row["member"] for row in table} == {"0", "1", "2"}
    assert (tmp_path / "lineage.png").read_bytes().startswith(b"\x89PNG")
    (line,) = [line for line in caplog.messages if "is the best" in line]
    objectives = find_study(trainer).objectives
    best = int(line.split()[0].removeprefix("policy_"))
    assert line.startswith(f"policy_{best} is the best, AverageReturn")
    assert objectives[best] == np.nanmax(objectives)  # several may have it
    with open(tmp_path / "done.json") as file:
        assert json.load(file)["status"] == "SUCCESS"


def test_without_matplotlib_there_is_no_picture(tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.chdir(tmp_path)
    trainer = make_trainer("run", act=stop_at_rows(3))
    monkeypatch.chdir("/")
    trainer.train()
    assert not (tmp_path / "run" / "lineage.png").exists() and len(read_table(tmp_path / "run")) >= 3
    install = 'the package matplotlib is not installed: pip install "alf-tf[tune]"'
    assert f"there is no picture of the population: {install}" in caplog.messages


def test_a_population_that_ends_at_once_leaves_nothing(tmp_path):
    make_trainer(tmp_path, num_iterations=1).train()
    assert not (tmp_path / "population.csv").exists() and not (tmp_path / "lineage.png").exists()
