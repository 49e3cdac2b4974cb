# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Collection that begins after training, or ends before it: counts, checkpoints, what is refused.

Drivers and replay buffers are real. Updates are counted alone, except where a test says that it learns.
"""

import functools
import math
import threading
from fractions import Fraction

import gin
import pytest

from alf.algorithms import DqnAlgorithm, ImpalaAlgorithm
from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.errors import ConfigError
from alf.learner import ReplayLearner, UnrollLearner, optimizers
from alf.policies import ActorCriticPolicy, EpsilonGreedyPolicy
from alf.testing.toy_environments import MatchObservationEnvironment
from alf.training import Callback, Experiment
from alf.training.progress_bar import ProgressBar
from alf.training.stop_criteria import StopCriteria
from tests.builders import build_driver, build_offline_driver, build_trainer, driver_of
from tests.training.counting_parts import CountingReplayLearner

BATCH = 2 * 5 * 4  # rows of a call of `collect` of the synchronous driver
DRIVERS = [SyncOffPolicyDriver, AsyncOffPolicyDriver]
# One of the two learns, where both learning and collecting are the subject.
LEARNERS = {SyncOffPolicyDriver: ReplayLearner, AsyncOffPolicyDriver: CountingReplayLearner}


class Environment(MatchObservationEnvironment):
    """Counts what is done with it."""

    def __init__(self, made, seed):
        super().__init__(4, episode_length=5, seed=seed)
        self.num_steps = self.num_closed = 0
        made.append(self)

    def _step(self, action):
        self.num_steps += 1
        return super()._step(action)

    def close(self):
        self.num_closed += 1


class Watch(Callback):
    """Notes after each train iteration what `look(trainer)` returns."""

    def __init__(self, look):
        self._look, self.seen = look, []

    def on_train_iter(self, trainer, summary):
        self.seen.append(self._look(trainer))


def make_trainer(
    root_dir,
    num_iterations=None,
    look=None,
    made=None,
    experiment=None,
    stop=None,
    learner=CountingReplayLearner,
    **kwargs,
):
    """A trainer of DQN in two environments. `experiment`, `stop`: arguments of their constructors."""
    optimizer = optimizers.Adam(1e-3)
    parts = {
        "env": functools.partial(Environment, [] if made is None else made),
        "policy": EpsilonGreedyPolicy,
        "algorithm": DqnAlgorithm,
        "exp_replayer": "uniform",
        "learner": functools.partial(learner, optimizer=optimizer),
        "driver": SyncOffPolicyDriver,
        "unroll_length": 5,
        "seed": 0,
        **(experiment or {}),
    }
    criteria = {"num_iterations": num_iterations, **(stop or {})}
    kwargs = {"save_git_state": False, **kwargs}
    watch = Watch(look or count)
    trainer = build_trainer(
        str(root_dir),
        driver_of(Experiment(**parts)),
        lambda: StopCriteria(**criteria),
        callbacks=[watch],
        **kwargs,
    )
    trainer.seen = watch.seen
    return trainer


def count(trainer):
    """Environment steps and updates."""
    return tuple(int(x) for x in trainer.learner.progress)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The file of a replay buffer of 160 rows."""
    root_dir = tmp_path_factory.mktemp("recorded")
    make_trainer(root_dir, 4, checkpoint_replay_buffer=True).train()
    gin.clear_config()  # it was locked
    return str(root_dir / "checkpoints" / "replay_buffer.npz")


@pytest.mark.parametrize("driver", DRIVERS)
def test_training_goes_on_after_the_end_of_collection(tmp_path, driver):
    gin.parse_config("""
        Trainer.collect_until_env_steps = 150
        ReplayLearner.replay_ratio = 0.3
    """)
    made = []

    def look(trainer):
        return (*count(trainer), sum(env.num_closed for env in made), sum(env.num_steps for env in made))

    trainer = make_trainer(tmp_path, 40, look, made, {"driver": driver}, learner=LEARNERS[driver])
    assert trainer.train() == (True, "num_iterations=40 reached")
    steps, updates, closed, env_steps = zip(*trainer.seen, strict=True)
    num_during = 1 + next(i for i, n in enumerate(steps) if n >= 150)
    assert num_during < 20
    # Exactly the replay ratio while it collects, then one update in each iteration.
    (start, others), ratio = trainer.learner.get_state()["start"], Fraction("0.3")
    expected = [max(0, math.floor(ratio * (n - start))) for n in steps[:num_during]]
    assert list(updates[:num_during]) == expected
    assert list(updates[num_during:]) == [expected[-1] + i + 1 for i in range(40 - num_during)]
    assert updates[-1] - others == expected[-1], "those after collection are no part of the replay ratio"
    assert closed == (0,) * num_during + (2,) * (40 - num_during)
    assert len(set(steps[num_during:])) == len(set(env_steps[num_during:])) == 1
    assert steps[-1] < 150 + BATCH


@pytest.mark.parametrize("driver", DRIVERS)
def test_offline_first_then_online(tmp_path, recorded, driver):
    gin.parse_config("""
        Trainer.collect_from_iteration = 6
        ReplayLearner.initial_collect_steps = 60
        ReplayLearner.replay_ratio = 0.3
    """)
    made = []

    def look(trainer):
        held = int(trainer.learner.replayer.num_steps())
        return (*count(trainer), sum(env.num_steps for env in made), held)

    experiment = {"driver": driver, "offline_buffer": recorded}
    if driver is AsyncOffPolicyDriver:
        experiment["driver"] = functools.partial(build_driver, driver, parameter_update_period=1)
    trainer = make_trainer(tmp_path, 20, look, made, experiment, learner=LEARNERS[driver])
    replayer, mixed = trainer.learner.replayer, []
    sample = replayer.sample
    replayer.sample = lambda *args: mixed.append(len(trainer.seen)) or sample(*args)  # traced once
    trainer.train()
    steps, updates, env_steps, held = zip(*trainer.seen, strict=True)
    assert updates[:6] == (1, 2, 3, 4, 5, 6)
    assert set(steps[:6]) == set(env_steps[:6]) == set(held[:6]) == {0}
    start_steps, start_updates = trainer.learner.get_state()["start"]
    assert start_updates == 6 and start_steps >= 60 * 5 // 6
    for n, done in zip(steps[6:], updates[6:], strict=True):
        assert done == 6 + max(0, math.floor(Fraction("0.3") * (n - start_steps)))
    assert updates[-1] > 6
    if LEARNERS[driver] is ReplayLearner:
        assert mixed[0] > 6, "a mixed batch before anything was collected"
    else:
        sources = list(trainer.learner.sources)
        assert sources[:6] == [replayer.offline] * 6 and set(sources[6:]) == {replayer}
    online = replayer._online
    versions = online.gather(online.all_sequences(1), 1).policy_version
    assert versions.numpy().min() >= 6, "the environments wait for the weights that were learned offline"


def test_the_two_together_with_passes_over_the_buffer(tmp_path, recorded, monkeypatch):
    gin.parse_config("""
        Trainer.collect_from_iteration = 2
        Trainer.collect_until_env_steps = 70
        ReplayLearner.whole_replay_buffer_training = True
        ReplayLearner.mini_batch_size = 20
    """)
    shown, update = [], ProgressBar.update

    def watch(self, position, summary, phase):
        shown.append(phase.what_ends)
        update(self, position, summary, phase)

    monkeypatch.setattr(ProgressBar, "update", watch)
    trainer = make_trainer(tmp_path, 6, experiment={"offline_buffer": recorded})
    trainer.train()
    assert list(dict.fromkeys(shown)) == ["until collection begins", "until collection ends", ""]
    steps, updates = zip(*trainer.seen, strict=True)
    assert steps[1] == 0 < steps[2] < 70 <= steps[3] == steps[5]
    # 160 recorded rows are 8 updates, 40 fresh ones 2 more.
    assert updates == (8, 16, 26, 38, 50, 62)


def make_phased_trainer(root_dir, num_iterations, recorded, made=None):
    gin.parse_config("""
        Trainer.collect_from_iteration = 5
        Trainer.collect_until_env_steps = 150
        ReplayLearner.replay_ratio = 0.3
    """)
    kwargs = dict(experiment={"offline_buffer": recorded}, checkpoint_replay_buffer=True)
    trainer = make_trainer(root_dir, num_iterations, made=made, **kwargs)
    gin.clear_config()  # it is locked
    return trainer


@pytest.fixture(scope="module")
def whole(tmp_path_factory, recorded):
    """What a run of all three phases has seen."""
    trainer = make_phased_trainer(tmp_path_factory.mktemp("whole"), 16, recorded)
    trainer.train()
    return trainer.seen


@pytest.mark.parametrize("stop", [3, 7, 12], ids=["before", "during", "after"])
def test_a_run_continues_in_each_phase(tmp_path, recorded, whole, stop):
    first = make_phased_trainer(tmp_path, stop, recorded)
    first.train()
    made = []
    again = make_phased_trainer(tmp_path, 16, recorded, made)
    again.train()
    seen = first.seen + again.seen
    assert len(seen) == 16
    assert [n > 0 for n, _ in seen] == [n > 0 for n, _ in whole]
    collected = [b - a for (a, _), (b, _) in zip([(0, 0), *seen], seen)]
    assert [n > 0 for n in collected] == [False] * 5 + [True] * 5 + [False] * 6
    assert [n for _, n in seen][:5] == [1, 2, 3, 4, 5]
    start = again.learner.get_state()["start"][0]
    for n, done in seen[5:10]:
        assert done == 5 + max(0, math.floor(Fraction("0.3") * (n - start)))
    assert [done - seen[9][1] for _, done in seen[10:]] == [1, 2, 3, 4, 5, 6]
    assert [env.num_closed for env in made] == [1, 1]
    if stop == 12:
        assert [env.num_steps for env in made] == [0, 0]


def test_what_was_collected_must_be_there_to_go_on(tmp_path):
    gin.parse_config("Trainer.collect_until_env_steps = 70")
    make_trainer(tmp_path, 4).train()
    made = []
    with pytest.raises(ConfigError, match="is 70: collection has ended, and the replay buffer is empty"):
        make_trainer(tmp_path, 6, made=made)
    assert [env.num_closed for env in made] == [1, 1]
    gin.clear_config()
    gin.parse_config("Trainer.collect_until_env_steps = 150")  # it may change
    again = make_trainer(tmp_path, 12)
    again.train()
    assert again.counters["env_steps"] >= 150


@pytest.mark.parametrize("driver", DRIVERS)
def test_nothing_waits_for_environments_that_stand_still(tmp_path, recorded, driver):
    gin.parse_config("""
        Trainer.collect_from_iteration = 3
        Trainer.collect_until_env_steps = 60
    """)

    others = set(threading.enumerate())

    def look(trainer):
        names = {thread.name.partition("-")[0] for thread in set(threading.enumerate()) - others}
        return names & {"StallWatch", "EnvThread", "UnrollThread"}

    experiment = {"driver": driver, "offline_buffer": recorded}
    trainer = make_trainer(tmp_path, 10, look, experiment=experiment)
    trainer.train()
    stepping = {SyncOffPolicyDriver: "UnrollThread", AsyncOffPolicyDriver: "EnvThread"}[driver]
    num_during = trainer.seen.count({"StallWatch", stepping})
    assert num_during > 0
    assert trainer.seen == [set()] * 3 + [{"StallWatch", stepping}] * num_during + [set()] * (7 - num_during)


@pytest.mark.parametrize("when", [2, 5, 9], ids=["before", "during", "after"])
def test_a_run_ends_well_in_each_phase(tmp_path, recorded, when):
    gin.parse_config("""
        Trainer.collect_from_iteration = 4
        Trainer.collect_until_env_steps = 100
    """)
    made = []

    def look(trainer):
        if trainer.counters["iterations"] == when:
            trainer.interrupt("enough")

    experiment = {"driver": AsyncOffPolicyDriver, "offline_buffer": recorded}
    trainer = make_trainer(tmp_path, 20, look, made, experiment)
    assert trainer.train() == (False, "enough")
    assert trainer.counters["iterations"] == when
    assert [env.num_closed for env in made] == [1, 1]


def test_the_end_of_collection_outlives_an_environment_that_does_not_close(tmp_path, caplog):
    gin.parse_config("Trainer.collect_until_env_steps = 60")
    made = []
    trainer = make_trainer(tmp_path, 6, made=made)

    def fail():
        raise OSError("no close")

    made[0].close = fail
    assert trainer.train() == (True, "num_iterations=6 reached")
    assert "collection has ended, but the driver did not stop as it should" in caplog.text
    assert made[1].num_closed == 1


def test_a_run_without_environments_trains_whatever_it_waits_for_elsewhere(tmp_path, recorded):
    gin.parse_config("""
        ReplayLearner.replay_ratio = 0.3
        ReplayLearner.initial_collect_steps = 100_000
    """)
    trainer = make_trainer(tmp_path, 5, experiment={"num_envs": 0, "offline_buffer": recorded})
    trainer.train()
    assert trainer.seen == [(0, i + 1) for i in range(5)]


def test_a_learner_of_unrolls_needs_environments(tmp_path):
    trainer = make_trainer(tmp_path / "first", 1, experiment=UNROLLS)
    trainer.driver.stop()
    with pytest.raises(ConfigError, match="there are no environments, .* needs fresh experience"):
        build_trainer(str(tmp_path / "run"), build_offline_driver(trainer.learner))


def test_too_little_was_collected(tmp_path):
    gin.parse_config("""
        Trainer.collect_until_env_steps = 10
        ReplayLearner.mini_batch_length = 50
    """)
    with pytest.raises(ConfigError, match="holds no sequence of 50 steps: it must hold one before"):
        make_trainer(tmp_path, 6).train()


def make_unroll_learner(algorithm, replayer):
    return UnrollLearner(algorithm, optimizers.SGD(), replayer)


UNROLLS = dict(
    exp_replayer="one_time",
    policy=ActorCriticPolicy,
    algorithm=ImpalaAlgorithm,
    learner=make_unroll_learner,
)
FROM, UNTIL = "Trainer.collect_from_iteration = 5", "Trainer.collect_until_env_steps = 100"


@pytest.mark.parametrize(
    "config, arguments, message",
    [
        ("Trainer.collect_from_iteration = -1", {}, "collect_from_iteration is -1: it must be an integer"),
        ("Trainer.collect_until_env_steps = 0", {}, "collect_until_env_steps is 0: it must be an integer"),
        (FROM, {}, "collect_from_iteration is set: there is nothing to train on .*offline_buffer"),
        (FROM, dict(experiment=UNROLLS), "collect_from_iteration is set: exp_replayer .* not 'one_time'"),
        (UNTIL, dict(experiment=UNROLLS), "collect_until_env_steps is set: exp_replayer .* not 'one_time'"),
        (f"{UNTIL}\nReplayLearner.clear_replay_buffer = True", {}, "clear_replay_buffer False"),
        (FROM, dict(offline=dict(num_envs=0)), "collect_from_iteration is set: there are no environments"),
        (UNTIL, dict(offline=dict(num_envs=0)), "collect_until_env_steps is set: there are no environments"),
        (
            f"{FROM}\nExperiment.data_transformers = (@ObservationNormalizer,)",
            dict(offline={}),
            "collect_from_iteration is set: data transformers that learn",
        ),
        (UNTIL, dict(stop={"num_env_steps": 101}), "num_env_steps is 101: collection ends at .* = 100"),
        (UNTIL, dict(num_iterations=None, stop={"target_return": 1.0}), "target_return cannot be reached"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path, recorded, config, arguments, message):
    gin.parse_config(config)
    arguments = {"num_iterations": 5, **arguments}
    if "offline" in arguments:
        arguments["experiment"] = {"offline_buffer": recorded, **arguments.pop("offline")}
    made = []
    with pytest.raises(ConfigError, match=message):
        make_trainer(tmp_path / "run", made=made, **arguments)
    assert all(env.num_closed == 1 for env in made)
    assert not (tmp_path / "run").exists()
