# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""`Experiment.deterministic`: a run that stops and continues ends with the weights of one that does not."""

import functools
import os

import gin
import numpy as np
import pytest

from alf.algorithms import DqnAlgorithm, PPOAlgorithm, QrDqnAlgorithm, Td3Algorithm, Td3Policy
from alf.callback import Callback
from alf.core.files import find_path
from alf.drivers import AsyncOffPolicyDriver, DriverSettings, SyncOffPolicyDriver
from alf.errors import ConfigError, EnvError
from alf.evaluation.evaluator import Evaluator
from alf.learner import ReplayLearner, UnrollLearner, optimizers
from alf.networks import LSTM, ActorCriticNetwork, QuantileNetwork
from alf.policies import ActorCriticPolicy, EpsilonGreedyPolicy
from alf.runs import experiment as experiment_module
from alf.runs.checkpoint_files import list_numbers
from alf.runs.digests import find_split, is_noted, read_digests
from alf.testing.toy_environments import CountingEnvironment, MatchObservationEnvironment, RememberEnvironment
from alf.training import Experiment, replication
from alf.training.stop_criteria import StopCriteria
from tests.builders import build_learner, build_trainer, driver_of

ITERATIONS = 9
STEPS = (
    40  # rows of an iteration: 2 environments, 4 sub-environments, 5 steps; fewer steps where episodes end
)
SAVED = [4, 7]  # iterations with checkpoints; the last one is after 9


@pytest.fixture(autouse=True)
def other_operations(monkeypatch):
    """Leaves out TensorFlow's switch, which the process would keep; tests of programs have it."""
    monkeypatch.setattr(experiment_module, "require_deterministic_operations", lambda: None)


def network(*args, rnn=None):
    return ActorCriticNetwork(*args, fc_layer_params=(8,), rnn=rnn)


def ppo(mode, **kwargs):
    return {
        "env": functools.partial(MatchObservationEnvironment, 4, episode_length=7),
        "policy": functools.partial(ActorCriticPolicy, network=network),
        "algorithm": PPOAlgorithm,
        "learner": lambda algorithm, replayer: UnrollLearner(
            algorithm, optimizers.Adam(1e-2), replayer, num_epochs=2, num_minibatches=2
        ),
        "driver": functools.partial(AsyncOffPolicyDriver, settings=DriverSettings(mode=mode)),
        **kwargs,
    }


def dqn(mode, replayer, **kwargs):
    return {
        "env": functools.partial(MatchObservationEnvironment, 4, episode_length=7),
        "policy": EpsilonGreedyPolicy,
        "algorithm": DqnAlgorithm,
        "exp_replayer": replayer,
        "learner": lambda algorithm, replayer: ReplayLearner(algorithm, optimizers.Adam(1e-2), replayer),
        "driver": functools.partial(AsyncOffPolicyDriver, settings=DriverSettings(mode=mode)),
        **kwargs,
    }


def make_small_quantiles(*args):
    rnn = functools.partial(LSTM, units=4)
    return QuantileNetwork(*args, num_quantiles=3, fc_layer_params=(8,), rnn=rnn)


def r2d2(initial_priorities):
    """With quantiles, too."""
    return dqn(
        "overlap",
        "prioritized",
        env=functools.partial(RememberEnvironment, 4),
        policy=functools.partial(
            EpsilonGreedyPolicy,
            network=make_small_quantiles,
            epsilon=0.4,
            epsilon_exponent=7.0,
            reports_values=True,
        ),
        algorithm=functools.partial(
            QrDqnAlgorithm, burn_in=1, n_step=2, priority_eta=0.9, value_rescaling=1e-3
        ),
        learner=lambda algorithm, replayer: ReplayLearner(
            algorithm,
            optimizers.Adam(1e-2),
            replayer,
            mini_batch_size=8,
            mini_batch_length=10,
            initial_priorities=initial_priorities,
        ),
    )


def make_td3_learner(algorithm, replayer):
    groups = {name: optimizers.Adam(1e-2) for name in algorithm.parameter_groups()}
    return ReplayLearner(algorithm, groups, replayer, num_updates_per_train_iter=3)


CASES = {
    "lockstep": ppo("lockstep"),
    "overlap": ppo("overlap"),
    "sync": ppo("async", driver=SyncOffPolicyDriver),
    "uniform": dqn("lockstep", "uniform"),
    "prioritized": dqn("overlap", "prioritized"),
    "actors' priorities": r2d2("actor"),
    "learner's priorities": r2d2("learner"),
    "td3": dqn(
        "lockstep",
        "uniform",
        env=functools.partial(MatchObservationEnvironment, 4, episode_length=7, continuous=True),
        policy=Td3Policy,
        algorithm=Td3Algorithm,
        learner=make_td3_learner,
    ),
    "recurrent": ppo(
        "overlap",
        env=functools.partial(RememberEnvironment, 4),
        policy=functools.partial(
            ActorCriticPolicy,
            network=functools.partial(network, rnn=functools.partial(LSTM, units=4)),
        ),
    ),
}


def make_trainer(root_dir, parts, interval_steps=3 * STEPS, stop=None, deterministic=True, **kwargs):
    gin.clear_config()
    parts = {"num_groups": 2, "unroll_length": 5, "seed": 3, "deterministic": deterministic, **parts}
    stop_criteria = lambda: StopCriteria(**(stop or {"num_iterations": ITERATIONS}))  # noqa: E731
    buffer = "exp_replayer" in parts
    kwargs = {"checkpoint_replay_buffer": buffer, "save_git_state": False, **kwargs}
    if interval_steps is not None:
        kwargs["checkpoint_interval_steps"] = interval_steps
    return build_trainer(str(root_dir), driver_of(Experiment(**parts)), stop_criteria, **kwargs)


def train(*args, callback=None, **kwargs):
    """Trains; returns all that a run has learned and counted."""
    trainer = make_trainer(*args, **kwargs)
    if callback is not None:
        trainer.add_callback(callback)
    trainer.train()
    learned = [variable.numpy() for variable in trainer.learner.list_learned()]
    return learned, trainer.counters, trainer.driver.get_state(), trainer.learner.get_state()


class Interrupt(Callback):
    def __init__(self, iteration):
        self._iteration = iteration

    def on_train_iter(self, trainer, summary):
        if trainer.counters["iterations"] == self._iteration:
            trainer.interrupt("for the test")


def assert_same(ours, theirs):
    for x, y in zip(ours[0], theirs[0], strict=True):
        np.testing.assert_array_equal(x, y)
    assert ours[1:] == theirs[1:]


QUICK = ("lockstep", "overlap", "prioritized")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_a_run_that_stops_and_continues_is_the_same(tmp_path, name):
    parts = CASES[name]
    whole = train(tmp_path / "whole", parts)
    # Before the first checkpoint, where the run begins anew; at a checkpoint; and after one.
    for iteration in (2, 4, 8) if name == "lockstep" else (6,):
        assert train(tmp_path / "parts", parts, callback=Interrupt(iteration))[1]["iterations"] == iteration
    assert_same(train(tmp_path / "parts", parts), whole)
    digests, others = (read_digests(tmp_path / run) for run in ("whole", "parts"))
    assert digests == others and [*digests] == list(range(1, ITERATIONS + 1))
    assert len({*digests.values()}) == ITERATIONS


def test_another_run_of_the_process_changes_nothing(tmp_path):
    parts = CASES["lockstep"]
    alone = train(tmp_path / "alone", parts)
    # Another seed, made after and trained before; at its end the first one has not traced anything.
    trainer = make_trainer(tmp_path / "first", parts)
    train(tmp_path / "other", {**parts, "seed": 4})
    trainer.train()
    for x, y in zip(alone[0], trainer.learner.list_learned(), strict=True):
        np.testing.assert_array_equal(x, y)


def test_checkpoints_begin_new_episodes_and_nothing_else_does(tmp_path):
    """The test above would pass if no run reset anything, and if every iteration did."""
    parts = CASES["lockstep"]
    trainer = make_trainer(tmp_path / "run", parts)
    begun, reseed = [], trainer.driver.reseed
    trainer.driver.reseed = lambda *args: (begun.append(args), reseed(*args))
    trainer.train()
    assert begun == [(iteration,) for iteration in SAVED]
    other, *_ = train(tmp_path / "other", parts, interval_steps=4 * STEPS)
    ours = [variable.numpy() for variable in trainer.learner.list_learned()]
    assert any((x != y).any() for x, y in zip(ours, other, strict=True))


def test_evaluations_change_nothing(tmp_path):
    parts = CASES["overlap"]
    plain = train(tmp_path / "plain", parts)
    evaluator = Evaluator(interval_steps=2 * STEPS, num_episodes=2, batch_size=2, env=parts["env"])
    assert_same(train(tmp_path / "evaluated", parts, evaluator=evaluator), plain)
    names = os.listdir(tmp_path / "evaluated" / "checkpoints")
    assert "evaluated" in names
    assert list_numbers(tmp_path / "evaluated" / "checkpoints") == [*SAVED, ITERATIONS]


WRONG = {
    "mode must be 'lockstep' or 'overlap'": dict(parts=ppo("async")),
    "an environment has no seed": dict(parts=ppo("lockstep", env=functools.partial(CountingEnvironment, 4))),
    "Experiment.seed": dict(parts=ppo("lockstep", seed=None)),
    "Experiment.num_envs must not be 0": dict(parts=ppo("lockstep", num_envs=0, offline_buffer="x")),
    "max_seconds must be None": dict(stop={"max_seconds": 1.0}),
    "interval_steps must be set": dict(interval_steps=None),
    "replay_buffer must be True": dict(parts=CASES["uniform"], checkpoint_replay_buffer=False),
    "exp_replayer must be 'one_time'": dict(
        parts=ppo(
            "lockstep",
            exp_replayer="mix_in",
            learner=functools.partial(build_learner, optimizer=optimizers.SGD()),
        ),
        checkpoint_replay_buffer=False,
    ),
    "target_eval_return must be None": dict(
        stop={"target_eval_return": 1.0},
        evaluator=functools.partial(Evaluator, interval_steps=1, env=CASES["lockstep"]["env"]),
    ),
}


@pytest.mark.parametrize("rule", WRONG)
def test_what_cannot_repeat_is_refused(tmp_path, rule):
    with pytest.raises(ConfigError, match=f"Experiment.deterministic is True.*{rule}"):
        make_trainer(tmp_path, **{"parts": CASES["lockstep"], **WRONG[rule]})
    assert not os.listdir(tmp_path)


def test_a_worker_that_is_replaced_ends_the_run_before_it_saves(tmp_path, monkeypatch):
    trainer = make_trainer(tmp_path, CASES["lockstep"], interval_steps=STEPS)
    monkeypatch.setattr(type(trainer.driver), "num_restarts", property(lambda driver: 1))
    with pytest.raises(EnvError, match="start the run again"):
        trainer.train()
    assert not list_numbers(tmp_path / "checkpoints")


def test_find_split():
    assert find_split({1: "a", 2: "b", 3: "c"}, {1: "a", 2: "b"}) == (2, None)
    assert find_split({1: "a", 2: "b", 3: "c"}, {1: "a", 2: "x", 3: "c"}) == (1, 2)
    assert find_split({1: "a"}, {1: "b"}) == (None, 1)
    assert find_split({1: "a"}, {2: "a"}) == (None, None)


def test_a_run_is_replicated_in_the_home_directory(tmp_path, monkeypatch):
    class Replica:
        """Writes the digests in place of training."""

        def __init__(self, root_dir, driver, learner):
            self.root_dir = find_path(root_dir)

        def add_callback(self, callback):
            pass

        def train(self):
            write_digests(self.root_dir, "b")

    def write_digests(root_dir, last):
        os.makedirs(root_dir)
        with open(os.path.join(root_dir, "digests.csv"), "w") as file:
            file.write(f"env_steps,seconds,iterations,digest\n8,1,1,a\n16,2,2,{last}\n")

    write_digests(tmp_path / "run", "a")
    (tmp_path / "run" / "operative_config.gin").touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(replication, "make_parts", lambda: (None, None))
    monkeypatch.setattr(replication, "Trainer", Replica)
    assert replication.replicate(str(tmp_path / "run"), "~/replica") == (1, 2)


def test_the_file_of_digests_stays_small():
    assert all(map(is_noted, range(1001)))
    assert [i for i in range(9_995, 10_200) if is_noted(i)] == [10_000, 10_100]
    assert sum(map(is_noted, range(1_000_000))) == 1000 + 3 * 900
