# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trainer: what ends a run, what it writes, how it continues, what it leaves after an error.

Two runs act and learn, and many tests read what they wrote: `runs`, `sync_run`. Where the loop alone is the
subject, a driver and a learner count in place of that (`counting_parts`).
"""

import errno
import functools
import gc
import json
import os
import resource
import shutil
import signal
import threading
import time
import weakref
from typing import Any, NamedTuple

import gin
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework.func_graph import FuncGraph

from alf.callback import Callback
from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.errors import ConfigError, DivergedError, EnvError, SaveError, StallError
from alf.learner import LearnerSettings, UnrollLearner, optimizers
from alf.networks import ActorCriticNetwork
from alf.policies import ActorCriticPolicy
from alf.runs.git_state import read_git_state
from alf.runs.run_description import read_description
from alf.runs.run_dir import RunDir
from alf.runs.seeds import seed_everything
from alf.testing.toy_environments import CountingEnvironment, MatchObservationEnvironment
from alf.training import Experiment
from alf.training.stop_criteria import StopCriteria
from tests.builders import build_driver, build_trainer, driver_of
from tests.training.counting_parts import Clock, CountingDriver, CountingLearner, logged
from tests.training.event_files import read_events, read_kinds

BATCH_SIZE, EPISODE_LENGTH, UNROLL_LENGTH = 4, 5, 4


class Environment(MatchObservationEnvironment):
    """Notes what is done with it; from step `special_step` on it does something special.

    Args:
        made: list that gets every instance.
        special: called with each reward from then on, returns another one.
    """

    def __init__(self, made=None, special=None, special_step=10, seed=0, **kwargs):
        super().__init__(BATCH_SIZE, episode_length=EPISODE_LENGTH, seed=seed, **kwargs)
        self.given_seed, self.closed, self.steps = seed, 0, 0
        self._special, self._special_step = special, special_step
        if made is not None:
            made.append(self)

    def close(self):
        self.closed += 1

    def _step(self, action):
        time_step = super()._step(action)
        self.steps += 1
        if self._special is not None and self.steps >= self._special_step:
            return time_step._replace(reward=self._special(time_step.reward))
        return time_step


def make_trainer(
    root_dir, env=None, stop=None, learning_rate=0.01, experiment=None, learner=UnrollLearner, **kwargs
):
    """A trainer of a small network. `env`, `stop`, `experiment`: arguments of their constructors."""
    optimizer = optimizers.Adam(learning_rate)
    network = functools.partial(ActorCriticNetwork, fc_layer_params=(8,))
    parts = {
        "env": functools.partial(Environment, **(env or {})),
        "policy": functools.partial(ActorCriticPolicy, network=network),
        "learner": functools.partial(
            learner, optimizer=optimizer, settings=LearnerSettings(max_grad_norm=40.0)
        ),
        "unroll_length": UNROLL_LENGTH,
        **(experiment or {}),
    }
    driver = driver_of(Experiment(**parts))
    trainer = build_trainer(str(root_dir), driver, stop_criteria=StopCriteria(**(stop or {})), **kwargs)
    trainer.optimizer = optimizer  # for `variables`
    return trainer


def make_counting_trainer(root_dir, get_time=None, experiment=None, **kwargs):
    """A trainer of the same parts that counts in place of acting and learning, 32 rows in each iteration."""
    parts = {"driver": functools.partial(CountingDriver, get_time=get_time), **(experiment or {})}
    kwargs = {"learner": CountingLearner, "save_git_state": False, **kwargs}
    return make_trainer(root_dir, experiment=parts, **kwargs)


class Tick(Callback):
    """Moves a clock after each train iteration; notes how many there were at each checkpoint."""

    def __init__(self, clock, seconds):
        self.clock, self.seconds, self.env_steps, self.saved = clock, seconds, [], []

    def on_train_iter(self, trainer, summary):
        self.clock.now += self.seconds
        self.env_steps.append(trainer.counters["env_steps"])

    def on_checkpoint(self, trainer, path):
        self.saved.append(trainer.counters["iterations"])


def make_ticking_trainer(root_dir, seconds, **kwargs):
    """A counting trainer whose train iterations take so many seconds; returns it and its `Tick`."""
    clock = Clock()
    tick = Tick(clock, seconds)
    return make_counting_trainer(root_dir, clock, callbacks=[tick], **kwargs), tick


def checkpoints(root_dir):
    folder = os.path.join(root_dir, "checkpoints")
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def list_saved(root_dir):
    """The names of the checkpoints' index files."""
    return [name for name in checkpoints(root_dir) if name.startswith("ckpt-")]


def variables(trainer):
    """Every variable: weights, counters, Adam's m and v of every weight."""
    return [v.numpy() for v in trainer.learner.variables]


def read_done(root_dir):
    with open(os.path.join(root_dir, "done.json")) as file:
        return json.load(file)


def metrics(trainer):
    return {metric.name: metric.get_state() for metric in trainer.driver.get_metrics()}


# Runs that act and learn.


class State(NamedTuple):
    """What a checkpoint must bring back."""

    counters: dict
    variables: list
    optimizer_iterations: int
    metrics: dict


def read_state(trainer):
    iterations = int(trainer.optimizer._step)
    return State(dict(trainer.counters), variables(trainer), iterations, metrics(trainer))


class Run(NamedTuple):
    """A run that is over."""

    trainer: Any
    began: State
    ended: State
    result: tuple  # that `train` returned
    events: dict
    messages: list
    seconds: float


def do_run(root_dir, **kwargs):
    start = time.monotonic()
    with logged() as messages:
        trainer = make_trainer(root_dir, **kwargs)
        began = read_state(trainer)
        result = trainer.train()
    seconds = time.monotonic() - start
    gin.clear_config()  # it was locked
    events = read_events(root_dir / "train")
    return Run(trainer, began, read_state(trainer), result, events, messages, seconds)


WITH_ACTOR = {"driver": functools.partial(build_driver, AsyncOffPolicyDriver, num_actor_queues=1)}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run with an actor that shows each of 40 iterations, and one that goes on to 60."""
    root_dir = tmp_path_factory.mktemp("run")
    parts = WITH_ACTOR
    first = do_run(
        root_dir, stop={"num_iterations": 40}, summary_interval=0.0, experiment={"seed": 0, **parts}
    )
    return first, do_run(root_dir, stop={"num_iterations": 60}, experiment={"seed": 1, **parts})


def make_sync_trainer(root_dir):
    experiment = {"seed": 3, "driver": SyncOffPolicyDriver}
    return make_trainer(root_dir, stop={"num_iterations": 5}, experiment=experiment)


@pytest.fixture(scope="module")
def sync_run(tmp_path_factory):
    """The trainer of a run of the synchronous driver, of 5 iterations and seed 3."""
    trainer = make_sync_trainer(tmp_path_factory.mktemp("sync"))
    trainer.train()
    gin.clear_config()
    return trainer


def check_env_steps(env_steps, num_unrolls):
    """All rows of the unrolls but those from LAST to FIRST."""
    rows = num_unrolls * UNROLL_LENGTH * BATCH_SIZE
    assert rows * EPISODE_LENGTH / (EPISODE_LENGTH + 1) - 8 <= env_steps < rows


def test_each_iteration_makes_an_update_of_the_unrolls_that_its_driver_collects(runs, sync_run):
    asynchronous = runs[0].trainer
    assert runs[0].result == (True, "num_iterations=40 reached")
    for trainer, num_iterations, unrolls in ((asynchronous, 40, 1), (sync_run, 5, 2)):
        assert trainer.counters["iterations"] == num_iterations
        assert trainer.learner.train_step_counter.numpy() == num_iterations
        check_env_steps(trainer.counters["env_steps"], num_iterations * unrolls)
        assert f"ckpt-{num_iterations}" in checkpoints(trainer.root_dir)


def test_a_table_at_the_end(runs):
    first, second = runs
    trainer, env_steps = second.trainer, first.ended.counters["env_steps"]
    (table,) = [text for text in second.messages if "where the time went" in text]
    rows = {line[:36].strip(): line[36:].split() for line in table.splitlines()[2:]}
    assert rows["train iterations"] == rows["updates"] == ["20", "60"]
    added, total = (int(number.replace(",", "")) for number in rows["env steps"])
    assert total == trainer.counters["env_steps"] == env_steps + added
    collected = int(rows["env steps collected"][1].replace(",", ""))
    assert collected == trainer.metrics["EnvironmentSteps"].result() >= total
    assert rows["episodes"][1] == str(trainer.metrics["NumberOfEpisodes"].result())
    parts = ["until the first train step", "waiting for experience", "training", "rest", "checkpoints"]
    parts.append("storing experience")
    found = [name for name in rows if rows[name][-1].endswith("%") and ":" not in name]
    assert set(found) == set(parts)
    assert len(rows["bottleneck"]) == 1
    for group in ("environments", "actors"):
        shares = [float(row[0][:-1]) for name, row in rows.items() if name.startswith(f"{group}: ")]
        assert len(shares) >= 2 and sum(shares) == pytest.approx(100.0, abs=0.3)
    assert float(rows["seconds"][0]) <= second.seconds + 0.1
    assert sum(float(rows[name][0]) for name in parts) == pytest.approx(float(rows["seconds"][0]), abs=0.3)
    assert sum(float(rows[name][1][:-1]) for name in parts) == pytest.approx(100.0, abs=0.3)
    assert int(rows["env steps/s since first train step"][0].replace(",", "")) > 0
    assert 0 < float(rows["BalancedReturn"][0]) <= EPISODE_LENGTH
    assert rows["AverageEpisodeLength"] == [str(EPISODE_LENGTH)]


def test_summaries(runs):
    run = runs[0]
    kinds = set(read_kinds(os.path.join(run.trainer.root_dir, "train")).values())
    assert kinds == {"scalars", "text", "hparams"}, (
        "histograms and pictures are there if somebody asks for them"
    )
    events = dict(run.events)
    assert len(events.pop("config/operative_config")) == 1
    expected = {
        "Overview": ["AverageReturn", "EpisodeLength", "throughput/steps_per_second_5min", "train/loss"],
        "metrics": [
            *("AverageReturn", "MinReturn", "MaxReturn", "AverageDiscountedReturn", "AverageReward"),
            *("AverageStepDiscountedReturn", "AverageEpisodeLength", "MinEpisodeLength", "MaxEpisodeLength"),
            *("NumberOfEpisodes", "BalancedReturn"),
        ],
        "train": [
            *("loss", "policy_loss", "value_loss", "entropy", "entropy_weight", "gradient_norm"),
            *("explained_variance", "learning_rate"),
            *("policy_lag_min", "policy_lag_mean", "policy_lag_max"),
        ],
        "throughput": [
            f"{name}steps_per_second_{window}"
            for name in ("", "collected_")
            for window in ("10s", "1min", "5min")
        ],
        "time": [
            "bottleneck",
            *("environments/step", "environments/waiting_for_actor", "environments/waiting_for_learner"),
            *("actors/inference", "learner/waiting_for_experience", "learner/update"),
            "environments/longest_step",
        ],
        "time_share": [
            *(f"environments/{stage}" for stage in ("step", "waiting_for_actor", "waiting_for_learner")),
            *("environments/waiting_for_metrics", "environments/rest"),
            *("actors/inference", "actors/waiting_for_environments"),
            *(f"learner/{stage}" for stage in ("waiting_for_experience", "storing_experience", "training")),
            "learner/rest",
        ],
        "memory": ["process_mb", "children_mb"],
        "cpu": ["cores"],
        "environments": ["worker_restarts"],
        "queues": ["actor_queue", "learn_queue", "log_queue"],
    }
    assert set(events) == {f"{group}/{name}" for group, names in expected.items() for name in names}
    for tag, points in events.items():
        steps, values = zip(*points)
        assert list(steps) == sorted(steps), tag
        assert tag == "time/bottleneck" or np.isfinite(values).all(), f"{tag}: {values}"
        # Episodes have no figures before the first one has ended.
        if not tag.startswith(
            ("metrics/Average", "metrics/Balanced", "metrics/Min", "metrics/Max", "Overview/")
        ):
            assert len(points) == 40, tag
    last = {tag: points[-1][1] for tag, points in events.items()}
    assert events["train/loss"][-1][0] == run.trainer.counters["env_steps"]
    assert last["train/learning_rate"] == pytest.approx(0.01)
    assert last["train/gradient_norm"] > 0
    assert last["train/policy_lag_min"] <= last["train/policy_lag_mean"]
    assert last["train/policy_lag_mean"] <= last["train/policy_lag_max"]
    assert last["metrics/AverageEpisodeLength"] == EPISODE_LENGTH
    assert 0 < last["metrics/AverageReturn"] <= EPISODE_LENGTH
    assert last["throughput/steps_per_second_10s"] > 0
    assert last["throughput/collected_steps_per_second_10s"] > 0
    for group in ("environments", "actors", "learner"):
        shares = [value for tag, value in last.items() if tag.startswith(f"time_share/{group}/")]
        assert sum(shares) == pytest.approx(1.0, abs=1e-4)


def test_nothing_that_is_drawn_repeats_the_x_axis(runs):
    for tag, points in runs[0].events.items():
        # Two texts; episodes are of equal length here; and after a long time to compile, the rates of the
        # first seconds grow as the steps do.
        others = "config/operative_config", "time/bottleneck", "metrics/NumberOfEpisodes"
        if tag.startswith(others) or "throughput/" in tag or len(points) < 8:
            continue
        x, y = np.transpose(points[5:])
        if np.ptp(y) > 0:
            assert abs(np.corrcoef(x, y)[0, 1]) < 0.9999, tag


def list_stages(trainer):
    """The stages of the threads that collect, a dict of sets."""
    groups = trainer.driver.clocks.by_group()
    del groups["learner"]
    return {group: {stage for clock in clocks for stage in clock.read()} for group, clocks in groups.items()}


def test_a_run_of_one_iteration_has_a_point_of_each_name(tmp_path, runs):
    parts = {"stop": {"num_iterations": 1}, "experiment": WITH_ACTOR}
    trainer = make_trainer(tmp_path, learner=CountingLearner, **parts)
    train, deadline = trainer.learner.train, time.monotonic() + 60

    def train_late():
        """Trains when each thread was in each stage, which it is while a real learner compiles."""
        while list_stages(trainer) != list_stages(runs[0].trainer) and time.monotonic() < deadline:
            time.sleep(0.01)
        return train()

    trainer.learner.train = train_late
    trainer.train()
    names, expected = (
        {tag for tag in events if not tag.startswith(("metrics/", "train/", "Overview/"))}
        for events in (read_events(tmp_path / "train"), runs[0].events)
    )
    assert names == expected
    assert "train/loss" in read_events(tmp_path / "train")


def test_a_run_continues_where_it_ended(runs):
    first, second = runs
    before, after = first.ended, second.began
    assert after.counters == before.counters
    assert after.counters["iterations"] == 40 and after.counters["env_steps"] > 300
    for a, b in zip(before.variables, after.variables, strict=True):
        np.testing.assert_array_equal(a, b)
    assert after.optimizer_iterations == 40
    assert all(slot.any() for slot in after.variables[-8:]), "Adam's m and v"
    assert after.metrics == before.metrics
    assert after.metrics["EnvironmentSteps"] > 0 and after.metrics["AverageReturn"]

    assert second.result == (True, "num_iterations=60 reached")
    trainer = second.trainer
    assert trainer.counters["iterations"] == 60
    assert trainer.learner.train_step_counter.numpy() == 60
    assert second.ended.optimizer_iterations == 60
    check_env_steps(trainer.counters["env_steps"] - after.counters["env_steps"], 20)
    assert second.ended.metrics["EnvironmentSteps"] > after.metrics["EnvironmentSteps"]
    assert "ckpt-60" in checkpoints(trainer.root_dir)


@pytest.mark.parametrize("driver", [AsyncOffPolicyDriver, SyncOffPolicyDriver])
def test_nothing_of_a_trainer_lives_when_it_has_gone(tmp_path, driver):
    """Programs that make trainers again and again would grow. A graph holds the memory of its functions."""
    list_graphs = lambda: [x for x in gc.get_objects() if isinstance(x, FuncGraph)]  # noqa: E731
    others = weakref.WeakSet(list_graphs())
    trainer = make_trainer(tmp_path, stop={"num_iterations": 2}, experiment={"driver": driver})
    trainer.train()
    learner = trainer.learner
    parts = [trainer, trainer.driver, learner, learner.policy, learner.algorithm, learner.replayer]
    parts += [trainer.optimizer, *learner.variables]
    graphs = [x for x in list_graphs() if x not in others]
    assert len(graphs) >= 3, "of the driver and of the update"
    living = [weakref.ref(x) for x in (*parts, *graphs)]
    del trainer, learner, parts, graphs
    gc.collect()
    assert [x() for x in living if x() is not None] == []


# What ends a run.


def test_num_env_steps(tmp_path):
    trainer, tick = make_ticking_trainer(tmp_path, 1.0, stop={"num_env_steps": 100})
    assert trainer.train() == (True, "num_env_steps=100 reached: 112, a whole batch")
    assert tick.env_steps[-2] < 100 <= tick.env_steps[-1] == trainer.counters["env_steps"]


def test_max_seconds_counts_from_the_first_train_step(tmp_path):
    trainer, tick = make_ticking_trainer(tmp_path, 0.5, stop={"max_seconds": 1.5})
    train = trainer.learner.train

    def train_late():
        if not tick.env_steps:
            tick.clock.now += 100.0  # as if it compiled
        return train()

    trainer.learner.train = train_late
    assert trainer.train() == (True, "max_seconds=1.5 reached")
    assert trainer.counters["iterations"] == 3


class LosingEnvironment(CountingEnvironment):
    """1,024 environments whose episodes have 1 to 200 steps with the reward -1."""

    def __init__(self, seed=None):
        super().__init__(1024)
        self._length = np.arange(1024) % 200 + 1

    def _reward(self, action):
        return np.full(1024, -1.0)


@pytest.mark.parametrize("target, is_reached", [(-20.0, False), (-90.0, False), (-99.0, True)])
def test_short_episodes_do_not_reach_a_target_alone(tmp_path, target, is_reached):
    """The mean return is -98.4. In the beginning only short episodes have ended, and these end more often."""
    stop = {"target_return": target, "num_iterations": 60}
    parts = {"env": LosingEnvironment, "num_groups": 1, "unroll_length": 10}
    trainer = make_counting_trainer(tmp_path, stop=stop, experiment=parts)
    _, reason = trainer.train()
    assert reason == (
        "target_return=-99.0 reached: BalancedReturn -98.4" if is_reached else "num_iterations=60 reached"
    )
    assert not is_reached or trainer.counters["iterations"] == 21  # when the longest episode has ended


def test_target_return(tmp_path):
    stop = {"target_return": 0.1 * EPISODE_LENGTH, "num_iterations": 10_000}
    trainer = make_counting_trainer(tmp_path, stop=stop)
    finished, reason = trainer.train()
    assert finished and reason.startswith("target_return=0.5 reached: ")
    assert trainer.counters["iterations"] < 10_000
    assert trainer.metrics["NumberOfEpisodes"].result() >= 100, "of fewer there is no average"


def test_a_run_that_has_nothing_left_to_do_ends_at_once(tmp_path):
    make_counting_trainer(tmp_path, stop={"num_iterations": 2}).train()
    again = make_counting_trainer(tmp_path, stop={"num_iterations": 2})
    before = variables(again)
    assert again.train() == (True, "num_iterations=2 reached")
    third = make_counting_trainer(tmp_path, stop={"num_iterations": 2})
    assert third.learner.train_step_counter.numpy() == 2
    for a, b in zip(before, variables(third), strict=True):
        np.testing.assert_array_equal(a, b)


def list_files(folder):
    paths = [folder, *folder.rglob("*")]
    return {p: (p.stat().st_mtime_ns, p.stat().st_ino, p.is_file() and p.read_bytes()) for p in paths}


def test_a_finished_run_that_is_started_again_writes_nothing(tmp_path):
    callback = WhileItRuns(tmp_path)
    start = functools.partial(make_counting_trainer, tmp_path, save_git_state=True, callbacks=[callback])
    start(stop={"num_iterations": 2}).train()
    before = list_files(tmp_path)
    again = start(stop={"num_iterations": 2})
    assert again.train() == (True, "num_iterations=2 reached") and again.finished
    assert list_files(tmp_path) == before and len(callback.found) == 2
    start(stop={"num_iterations": 2}).close()
    assert list_files(tmp_path) == before
    # It goes on with more to do, and after its weights were replaced; it ends if it was killed at the end.
    trainer = start(stop={"num_iterations": 3})
    assert (
        trainer.train()[0] and trainer.counters["iterations"] == 3 and read_done(tmp_path)["iterations"] == 3
    )
    copying = start(stop={"num_iterations": 3})
    copying.copy_from(os.path.join(tmp_path, "checkpoints", "ckpt-3"))
    assert copying.train()[0] and "ckpt-4" in checkpoints(tmp_path)
    os.remove(os.path.join(tmp_path, "done.json"))
    assert start(stop={"num_iterations": 3}).train()[0] and read_done(tmp_path)["status"] == "SUCCESS"


def test_a_finished_run_without_its_configuration_gets_it_again(tmp_path):
    """As a member of alf pbt that is built again, which has lost it (alf/studies/member.py)."""
    start = functools.partial(make_counting_trainer, tmp_path, stop={"num_iterations": 2})
    start().train()
    path = tmp_path / "operative_config.gin"
    before = path.read_text()
    path.unlink()
    assert start().train() == (True, "num_iterations=2 reached")
    assert path.read_text() == before


# What comes at intervals.


def test_checkpoints_come_at_their_interval_and_the_newest_are_kept(tmp_path):
    stop = {"num_iterations": 12}
    trainer, tick = make_ticking_trainer(tmp_path, 3.0, stop=stop, checkpoint_interval=10.0, max_to_keep=2)
    trainer.train()
    # The time when an iteration begins decides: the fifth begins after 12 seconds.
    assert tick.saved == [5, 9, 12]
    assert list_saved(tmp_path) == ["ckpt-12", "ckpt-9"]
    for value in (0, 2.5, None):
        with pytest.raises(ConfigError, match=f"Checkpoints.max_to_keep is {value}"):
            make_counting_trainer(tmp_path, max_to_keep=value)


def test_summaries_come_at_their_interval_and_at_the_end(tmp_path):
    trainer, tick = make_ticking_trainer(tmp_path, 3.0, stop={"num_iterations": 12}, summary_interval=10.0)
    trainer.train()
    events = read_events(tmp_path / "train")
    del events["config/operative_config"]
    shown = tuple(tick.env_steps[i - 1] for i in (4, 8, 12))
    assert shown[-1] == trainer.counters["env_steps"]
    # The first checkpoint comes in between, and with it the times of checkpoints.
    shares = [points for name, points in events.items() if "/checkpoints" not in name]
    assert {tuple(step for step, _ in points) for points in shares} == {shown}


def test_the_last_summary_is_that_of_the_last_update(tmp_path):
    trainer = make_counting_trainer(tmp_path, stop={"num_iterations": 4}, summary_interval=1e6)
    train, summaries = trainer.learner.train, []

    def train_twice():
        summaries.append(train() if len(summaries) < 2 else {})
        return summaries[-1]

    trainer.learner.train = train_twice
    trainer.train()
    ((_, loss),) = read_events(tmp_path / "train")["train/loss"]
    assert loss == summaries[1]["loss"] == 2.0


# What it writes.


class WhileItRuns(Callback):
    """Notes in each train iteration whether `done.json` is there; may raise an error at the end."""

    def __init__(self, path, error=None):
        self.path, self.error, self.found = path, error, []

    def on_train_iter(self, trainer, summary):
        self.found.append(os.path.exists(os.path.join(self.path, "done.json")))

    def on_end(self, trainer, reason):
        if self.error is not None:
            raise self.error


def test_a_file_says_how_the_run_ended_while_no_run_goes_on(tmp_path):
    trainer = make_counting_trainer(tmp_path, stop={"num_iterations": 2})
    trainer.train()
    done = {"status": "SUCCESS", "reason": "num_iterations=2 reached", **trainer.counters}
    assert done["iterations"] == 2 and read_done(tmp_path) == done
    # A run that is refused leaves it, and one that is continued replaces it.
    with pytest.raises(ConfigError):
        make_counting_trainer(tmp_path, max_to_keep=0)
    assert read_done(tmp_path) == done
    callback = WhileItRuns(tmp_path, error=KeyError("my\nbug"))
    trainer = make_counting_trainer(tmp_path, stop={"num_iterations": 4}, callbacks=[callback])
    with pytest.raises(KeyError):
        trainer.train()
    assert callback.found == [False, False]
    done = read_done(tmp_path)
    assert (done["status"], done["reason"], done["iterations"]) == ("FAILURE", r"KeyError: 'my\nbug'", 4)
    callback = WhileItRuns(tmp_path, error=KeyboardInterrupt())
    trainer = make_counting_trainer(tmp_path, stop={"num_iterations": 5}, callbacks=[callback])
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    assert read_done(tmp_path)["status"] == "INTERRUPTED"
    trainer = make_counting_trainer(tmp_path)
    trainer.stop("good enough")
    assert trainer.train() == (True, "good enough")
    assert read_done(tmp_path)["status"] == "SUCCESS"


def test_the_end_is_written_before_another_run_may_begin(tmp_path, monkeypatch):
    held = []
    close = RunDir.close

    def note(self):
        held.append(os.path.exists(os.path.join(self.path, "done.json")))
        close(self)

    monkeypatch.setattr(RunDir, "close", note)
    make_counting_trainer(tmp_path, stop={"num_iterations": 1}).train()
    assert held == [True]


def test_whether_the_state_of_git_is_saved(tmp_path, monkeypatch):
    tests = os.path.dirname(__file__)
    monkeypatch.syspath_prepend(tests)
    for save_git_state in (True, False):
        make_counting_trainer(tmp_path, save_git_state=save_git_state)._run_dir.close()
        # The tests are in a repository, or in a copy of one.
        expected = read_git_state([tests]) is not None and save_git_state
        assert (read_description(str(tmp_path)).git is not None) == expected


def test_a_second_run_in_the_directory_is_refused(tmp_path):
    made = []
    first = make_counting_trainer(tmp_path, stop={"num_iterations": 2})
    with pytest.raises(ConfigError, match="is in use: another run writes there now"):
        make_counting_trainer(tmp_path, env={"made": made})
    assert [env.closed for env in made] == [1, 1]
    first.train()
    with pytest.raises(EnvironmentError_):
        make_counting_trainer(tmp_path, env={"special": fail}).train()
    make_counting_trainer(tmp_path)  # both runs gave the directory back


# Interrupts.


def test_interrupt_ends_a_run_that_waits_for_a_slow_environment(tmp_path):
    hanging, is_saved, was_saved, made = threading.Barrier(3), threading.Event(), [], []

    def hang(reward):
        if not is_saved.is_set():
            hanging.wait(60)
        was_saved.append(is_saved.wait(60))
        return reward

    class Release(Callback):
        def on_end(self, trainer, reason):
            assert checkpoints(tmp_path)
            is_saved.set()

    env = {"special": hang, "made": made}
    trainer = make_trainer(tmp_path, env=env, learner=CountingLearner, callbacks=[Release()])

    def interrupt():
        hanging.wait(60)  # for both environments
        while trainer.driver.queue_sizes()["learn_queue"] or trainer.driver._threads._waiting_since is None:
            time.sleep(0.01)
        trainer.interrupt("enough")

    thread = threading.Thread(target=interrupt)
    thread.start()
    assert trainer.train() == (False, "enough")
    thread.join()
    assert all(was_saved), "the run has waited for its environments"
    iterations = trainer.counters["iterations"]
    assert iterations >= 1
    assert f"ckpt-{iterations}" in checkpoints(tmp_path)
    assert [env.closed for env in made] == [1, 1]
    assert read_done(tmp_path) == {"status": "INTERRUPTED", "reason": "enough", **trainer.counters}
    assert make_counting_trainer(tmp_path, callbacks=()).counters == trainer.counters


def test_interrupt_before_train(tmp_path):
    trainer = make_trainer(tmp_path)
    trainer.interrupt("enough")
    assert trainer.train() == (False, "enough")
    assert "ckpt-0" in checkpoints(tmp_path)


class Watched(Environment):
    """Calls `notice` with "reset" or "step" and how many there were."""

    def __init__(self, notice, seed):
        super().__init__(seed=seed)
        self._notice = notice

    def _reset(self):
        self._notice("reset", 1)
        return super()._reset()

    def _step(self, action):
        self._notice("step", self.steps + 1)
        return super()._step(action)


MOMENTS = [("reset", 1), ("step", 2), ("step", 30), ("train", 3), ("save", 3), ("seconds", 0.3)]
ALIKE = [("reset", 1), ("step", 2), ("train", 3)]  # for the synchronous driver: one of two threads waits


@pytest.mark.parametrize(
    "driver, moment",
    [
        (driver, moment)
        for driver in (AsyncOffPolicyDriver, SyncOffPolicyDriver)
        for moment in MOMENTS
        if driver is AsyncOffPolicyDriver or moment not in ALIKE
    ],
)
def test_an_interrupt_at_any_moment_saves_a_run_that_can_go_on(tmp_path, monkeypatch, driver, moment):
    def notice(*reached):
        if reached == moment:
            trainer.interrupt("enough")

    settings = {"driver": driver, "env": functools.partial(Watched, notice)}
    if driver is AsyncOffPolicyDriver:
        settings["driver"] = functools.partial(build_driver, driver, parameter_update_period=1)
    trainer = make_trainer(tmp_path, experiment=settings, learner=CountingLearner, checkpoint_interval=0.0)
    train, write = trainer.learner.train, tf.train.Checkpoint.write

    def train_and_notice():
        notice("train", trainer.counters["iterations"] + 1)
        return train()

    def write_and_notice(*args):
        notice("save", trainer.counters["iterations"])
        return write(*args)

    monkeypatch.setattr(tf.train.Checkpoint, "write", write_and_notice)
    trainer.learner.train = train_and_notice
    timer = threading.Timer(moment[1], notice, moment)
    if moment[0] == "seconds":
        timer.start()
    assert trainer.train() == (False, "enough")
    assert f"ckpt-{trainer.counters['iterations']}" in checkpoints(tmp_path)
    assert make_counting_trainer(tmp_path).counters == trainer.counters


# Errors.


class EnvironmentError_(Exception):
    pass


def fail(reward):
    raise EnvironmentError_("the simulator crashed")


def test_an_environments_own_error_ends_the_run(tmp_path):
    made = []
    trainer = make_trainer(tmp_path, env={"special": fail, "made": made}, learner=CountingLearner)
    start = time.monotonic()
    with pytest.raises(EnvironmentError_, match="the simulator crashed") as info:
        trainer.train()
    assert "fail" in [frame.name for frame in info.traceback]
    done = {"status": "FAILURE", "reason": "EnvironmentError_: the simulator crashed", **trainer.counters}
    assert read_done(tmp_path) == done
    assert time.monotonic() - start < 30.0
    assert [env.closed for env in made] == [1, 1]


def test_an_error_keeps_the_checkpoint_of_before(tmp_path):
    make_counting_trainer(tmp_path, stop={"num_iterations": 3}).train()
    before = checkpoints(tmp_path)
    trainer = make_counting_trainer(tmp_path, env={"special": fail})
    with pytest.raises(EnvironmentError_):
        trainer.train()
    assert set(before) <= set(checkpoints(tmp_path))
    assert make_counting_trainer(tmp_path).counters == trainer.counters


def test_a_run_that_makes_no_update_says_so(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("alf.training.progress._IDLE_SECONDS", -1.0)
    trainer = make_counting_trainer(tmp_path, stop={"num_iterations": 40})
    train = trainer.learner.train
    trainer.learner.train = lambda: {} if 10 <= trainer.counters["iterations"] < 30 else train()
    trainer.train()
    assert caplog.text.count("no update was made for -1 s: there was not enough experience") >= 1


class OnFirstIteration(Callback):
    """Calls a function after the first train iteration."""

    def __init__(self, function):
        self._function = function

    def on_train_iter(self, trainer, summary):
        if trainer.counters["iterations"] == 1:
            self._function()


@pytest.mark.parametrize(
    "change", [shutil.rmtree, lambda path: os.rename(path, f"{path}_2")], ids=["removed", "renamed"]
)
def test_a_directory_that_is_gone_at_the_end_is_not_made_anew(tmp_path, change):
    trainer = make_counting_trainer(tmp_path / "run", stop={"num_iterations": 2})
    trainer.add_callback(OnFirstIteration(lambda: change(tmp_path / "run")))
    with pytest.raises(SaveError, match="no checkpoint was saved: .*No such file or directory"):
        trainer.train()
    assert not (tmp_path / "run").exists()


def test_a_run_with_other_environments_is_refused(tmp_path, caplog):
    make_counting_trainer(tmp_path, stop={"num_iterations": 1}).train()
    text = (tmp_path / "run.json").read_text()
    (tmp_path / "run.json").write_text(text.replace('"float32"', '"float64"', 1))
    with pytest.raises(ConfigError, match="other environments: observation_spec.* was .*float64"):
        make_counting_trainer(tmp_path)
    (tmp_path / "run.json").unlink()
    (tmp_path / "operative_config.gin").unlink()
    make_counting_trainer(tmp_path).close()
    assert "there is no run.json: the environments are not compared with those of the run" in caplog.text
    assert "operative_config.gin is missing: the run goes on, whatever its settings were" in caplog.text


@pytest.mark.parametrize("num_iterations", [0, 3])
def test_an_error_of_the_collection_saves_the_weights(tmp_path, num_iterations):
    trainer = make_counting_trainer(tmp_path)
    collect = trainer.driver.collect

    def stall():
        if trainer.counters["iterations"] == num_iterations:
            raise StallError("an environment hangs")
        return collect()

    trainer.driver.collect = stall
    with pytest.raises(StallError, match="^an environment hangs$"):
        trainer.train()
    again = make_counting_trainer(tmp_path)
    assert again.counters["iterations"] == num_iterations
    assert bool(again.restored) == bool(num_iterations)


def test_a_reward_that_is_not_finite_ends_the_run_and_no_learner_sees_it(tmp_path):
    made = []
    env = {"special": lambda r: r * np.nan, "made": made}
    trainer = make_trainer(tmp_path, env=env, learner=CountingLearner)
    with pytest.raises(EnvError, match=r"envs\[[01]\] \(Environment\) returned nan in reward of sub-environ"):
        trainer.train()
    assert [env.closed for env in made] == [1, 1]


def test_a_run_that_diverges_keeps_its_last_good_checkpoint(tmp_path):
    parts = {"experiment": {"driver": SyncOffPolicyDriver}, "checkpoint_interval": 0.0}
    make_counting_trainer(tmp_path, stop={"num_iterations": 3}, **parts).train()
    # The first update makes weights that are too large; the next one is not finite.
    trainer = make_trainer(tmp_path, stop={"num_iterations": 20}, **parts)
    trainer.optimizer._learning_rate = 1e30
    message = "lower the optimizer's learning_rate.*; ckpt-4 has these weights and is set aside$"
    with pytest.raises(DivergedError, match=message):
        trainer.train()
    again = make_counting_trainer(tmp_path, stop={"num_iterations": 5}, **parts)
    assert again.counters["iterations"] == 3
    assert again.train() == (True, "num_iterations=5 reached")


def test_a_run_that_diverges_at_once_leaves_no_checkpoint(tmp_path):
    trainer = make_counting_trainer(tmp_path)

    def diverge():
        raise DivergedError("the loss is not finite")

    trainer.learner.train = diverge
    with pytest.raises(DivergedError, match="^the loss is not finite$"):
        trainer.train()
    assert list_saved(tmp_path) == []


def test_a_disk_that_is_full_for_a_while_does_not_end_the_run(tmp_path, monkeypatch, caplog):
    write = tf.train.Checkpoint.write
    errors = [OSError(errno.ENOSPC, "No space left"), tf.errors.ResourceExhaustedError(None, None, "full")]

    def fail_twice(*args):
        if errors:
            raise errors.pop()
        return write(*args)

    monkeypatch.setattr(tf.train.Checkpoint, "write", fail_twice)
    make_counting_trainer(tmp_path, stop={"num_iterations": 5}, checkpoint_interval=0.0).train()
    assert list_saved(tmp_path) == [f"ckpt-{n}" for n in (3, 4, 5)]
    messages = [r.getMessage() for r in caplog.records if "no checkpoint was saved" in r.getMessage()]
    assert len(messages) == 2 and "full" in messages[0] and "No space left" in messages[1]


def test_an_error_of_tensorflow_is_said_without_its_graph(tmp_path, monkeypatch):
    trainer = make_counting_trainer(tmp_path, stop={"num_iterations": 2})
    monkeypatch.setattr(tf.train.Checkpoint, "write", lambda *_: tf.io.read_file("/nope/mine"))
    with pytest.raises(SaveError, match="^no checkpoint was saved: /nope/mine; No such file or directory$"):
        trainer.train()


def test_a_disk_that_is_full_at_the_end_is_an_error(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left")

    made = []
    trainer = make_counting_trainer(tmp_path, stop={"num_iterations": 2}, env={"made": made})
    monkeypatch.setattr(tf.train.Checkpoint, "write", fail)
    with pytest.raises(SaveError, match="no checkpoint was saved: .*No space left"):
        trainer.train()
    assert [env.closed for env in made] == [1, 1]
    assert read_done(tmp_path)["reason"].startswith("SaveError: no checkpoint was saved: ")


def test_summaries_that_cannot_be_written_are_a_warning(tmp_path, caplog):
    trainer = make_counting_trainer(tmp_path, stop={"num_iterations": 5}, summary_interval=0.0)
    (tmp_path / "train").write_text("a file in place of the folder")
    assert trainer.train() == (True, "num_iterations=5 reached")
    (message,) = [r.getMessage() for r in caplog.records if "no summaries" in r.getMessage()]
    assert message.startswith(f"no summaries can be written to {tmp_path}/train: ")
    assert "ckpt-5" in checkpoints(tmp_path)


def test_a_full_disk_beneath_the_summaries(tmp_path, caplog):
    """The events' file must not grow beyond what it has: the write fails as on a full disk."""
    trainer = make_counting_trainer(tmp_path, stop={"num_iterations": 40}, summary_interval=0.0)
    write, limits = trainer.checkpoints.checkpointer.save, resource.getrlimit(resource.RLIMIT_FSIZE)
    trainer.checkpoints.checkpointer.save = lambda is_last: (
        resource.setrlimit(resource.RLIMIT_FSIZE, limits),
        write(is_last),
    )
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    try:
        assert trainer.train() == (True, "num_iterations=40 reached")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert "no summaries can be written" in caplog.text
    assert "ckpt-40" in checkpoints(tmp_path)


def test_an_environment_that_cannot_be_closed_does_not_fail_a_run_that_is_saved(tmp_path, caplog):
    class Unclosable(Environment):
        def close(self):
            super().close()
            raise ValueError("the simulator has gone")

    made = []
    experiment = {"env": functools.partial(Unclosable, made)}
    trainer = make_counting_trainer(tmp_path, stop={"num_iterations": 2}, experiment=experiment)
    assert trainer.train() == (True, "num_iterations=2 reached")
    assert [env.closed for env in made] == [1, 1]
    assert "the driver did not stop as it should" in caplog.text and "the simulator has gone" in caplog.text
    assert "ckpt-2" in checkpoints(tmp_path)


def test_failures_while_building_close_the_environments_and_write_nothing(tmp_path):
    root_dir = tmp_path / "run"
    made = []

    def second_fails(seed):
        if made:
            raise ValueError("no licence left")
        return Environment(made)

    with pytest.raises(ValueError, match="no licence left"):
        make_trainer(root_dir, experiment={"env": second_fails})
    assert [env.closed for env in made] == [1]

    made.clear()
    with pytest.raises(ConfigError, match="unroll_length is 0.5"):
        make_trainer(root_dir, env={"made": made}, experiment={"unroll_length": 0.5})
    assert [env.closed for env in made] == [1, 1]

    made.clear()
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written to"):
        make_trainer(tmp_path / "file" / "run", env={"made": made})
    assert [env.closed for env in made] == [1, 1]
    assert os.listdir(tmp_path) == ["file"]


def test_num_envs_is_checked(tmp_path):
    with pytest.raises(ConfigError, match="Experiment.num_envs is 0"):
        make_trainer(tmp_path, experiment={"num_envs": 0})


# Seeds.


class Seeded(Environment):
    """Keeps the seeds that it gets, each a tuple of its constructor's and that of `seed`."""

    seeds = []

    def __init__(self, seed):
        super().__init__(seed=seed)

    def seed(self, seed):
        self.seeds.append((self.given_seed, seed))


@pytest.mark.parametrize("seed", [3, None])
def test_a_continued_run_has_other_seeds(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(Seeded, "seeds", [])
    context.context()._seed = None  # as in a new process
    drawn = []
    for _ in range(2):  # the second continuation is from the same checkpoint: it is the same
        drawn.append(draw_after_start(tmp_path, seed))
    make_counting_trainer(tmp_path, stop={"num_iterations": 2}, experiment={"seed": seed}).train()
    del Seeded.seeds[:]
    for _ in range(2):
        drawn.append(draw_after_start(tmp_path, seed))
    make_counting_trainer(tmp_path, stop={"num_iterations": 4}, experiment={"seed": seed}).train()
    drawn.append(draw_after_start(tmp_path, seed))
    if seed is None:
        assert len({seed for seeds in Seeded.seeds for seed in seeds}) == 12 and len(set(drawn)) == 5
        return
    first, again, later = Seeded.seeds[:2], Seeded.seeds[2:4], Seeded.seeds[4:]
    assert first == again != later
    assert len({seed for _, seed in (*first, *later)} | {given for given, _ in first}) == 6
    assert drawn[0] == drawn[1] and drawn[2] == drawn[3] and len(set(drawn)) == 3


def draw_after_start(root_dir, seed):
    """Makes a trainer; returns the numbers that TensorFlow and NumPy draw next."""
    trainer = make_counting_trainer(root_dir, experiment={"seed": seed, "env": Seeded})
    trainer._run_dir.close()
    return float(tf.random.normal(())), np.random.random()  # noqa: NPY002


def test_each_environment_gets_a_seed_of_its_own(tmp_path):
    made = []
    make_counting_trainer(tmp_path, env={"made": made}, experiment={"num_groups": 4, "seed": 7})
    seeds = [env.given_seed for env in made]
    assert len(set(seeds)) == 4
    assert seeds == seed_everything(7, 4)


def test_seeds():
    assert seed_everything(3, 5) == seed_everything(3, 5)
    # More environments do not change the seeds of the first ones.
    assert seed_everything(3, 5)[:2] == seed_everything(3, 2)
    assert not set(seed_everything(3, 5)) & set(seed_everything(4, 5))
    assert seed_everything(None, 3) != seed_everything(None, 3)
    assert all(isinstance(s, int) and 0 <= s < 2**31 for s in seed_everything(3, 100))
    seed_everything(3, 1)
    drawn = tf.random.normal(()).numpy()
    seed_everything(3, 1)
    assert tf.random.normal(()).numpy() == drawn


def read_weights(trainer):
    return np.concatenate([np.ravel(w) for w in trainer.learner.algorithm.policy.trainable_variables])


def test_initial_weights_follow_from_the_seed(tmp_path):
    def make(name, seed):
        return read_weights(make_counting_trainer(tmp_path / name, experiment={"seed": seed}))

    expected = make("a", 3)
    tf.keras.utils.set_random_seed(5)  # Keras then draws from another generator
    np.testing.assert_array_equal(make("b", 3), expected)
    assert (expected != make("c", 4)).mean() > 0.5  # biases begin at 0
    assert (make("d", None) != make("e", None)).mean() > 0.5


def test_what_a_synchronous_run_learns_follows_from_the_seed(tmp_path, sync_run):
    tf.keras.utils.set_random_seed(5)
    again = make_sync_trainer(tmp_path)
    assert (read_weights(again) != read_weights(sync_run)).mean() > 0.5, "it has learned"
    again.train()
    np.testing.assert_array_equal(read_weights(again), read_weights(sync_run))
