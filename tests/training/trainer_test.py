# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trainer: what ends a run, what it writes, how it continues, what it leaves after an error."""

import functools
import os
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.util import event_pb2

from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.errors import ConfigError, DivergedError
from alf.learner import Learner
from alf.networks import ActorCriticNetwork
from alf.policies import ActorCriticPolicy
from alf.testing.toy_environments import MatchObservationEnvironment
from alf.training import Experiment, Trainer
from alf.training.experiment import seed_everything
from alf.training.stop_criteria import StopCriteria

BATCH_SIZE, EPISODE_LENGTH, UNROLL_LENGTH = 4, 5, 4


class Environment(MatchObservationEnvironment):
    """Notes what is done with it; from step `special_step` on it does something special.

    Args:
        made: list that gets every instance.
        special: called with each reward from then on, returns another one.
    """

    def __init__(self, made=None, special=None, special_step=10, seed=0, **kwargs):
        super().__init__(BATCH_SIZE, episode_length=EPISODE_LENGTH, seed=seed, **kwargs)
        self.seed, self.closed, self.steps = seed, 0, 0
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


def make_trainer(root_dir, env=None, stop=None, learning_rate=0.01, experiment=None, **kwargs):
    """A trainer of a small network. `env`, `stop`, `experiment`: arguments of their constructors."""
    optimizer = tf.keras.optimizers.legacy.Adam(learning_rate)
    network_ctor = functools.partial(ActorCriticNetwork, fc_layer_params=(8,))
    parts = {
        "env_ctor": functools.partial(Environment, **(env or {})),
        "policy_ctor": functools.partial(ActorCriticPolicy, network_ctor=network_ctor),
        "learner_ctor": functools.partial(Learner, optimizer=optimizer, max_grad_norm=40.0),
        "unroll_length": UNROLL_LENGTH,
        **(experiment or {}),
    }
    driver = Experiment(**parts).driver
    trainer = Trainer(
        str(root_dir), driver, stop_criteria_ctor=lambda: StopCriteria(**(stop or {})), **kwargs
    )
    trainer.optimizer = optimizer  # for `variables`
    return trainer


def checkpoints(root_dir):
    folder = os.path.join(root_dir, "checkpoints")
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def variables(trainer):
    """Every variable: weights, counters, then Adam's m and v of every weight."""
    optimizer, weights = trainer.optimizer, trainer.learner.trainable_variables
    optimizer._create_all_weights(weights)
    slots = [optimizer.get_slot(w, name) for name in ("m", "v") for w in weights]
    return [v.numpy() for v in (*trainer.learner.variables, optimizer.iterations, *slots)]


def metrics(trainer):
    return {metric.name: metric.get_state() for metric in trainer.driver.get_metrics()}


@pytest.mark.parametrize("driver", [AsyncOffPolicyDriver, SyncOffPolicyDriver])
def test_num_iterations(tmp_path, driver):
    trainer = make_trainer(
        tmp_path,
        stop={"num_iterations": 7},
        experiment={"driver_ctor": driver},
    )
    assert trainer.train() == (True, "num_iterations=7 reached")
    assert trainer.counters["iterations"] == 7
    assert trainer.learner.train_step_counter.numpy() == 7
    # All rows but those from LAST to FIRST.
    unrolls = 7 * (2 if driver is SyncOffPolicyDriver else 1)
    rows = unrolls * UNROLL_LENGTH * BATCH_SIZE
    assert rows * EPISODE_LENGTH / (EPISODE_LENGTH + 1) - 8 <= trainer.counters["env_steps"] < rows
    assert "checkpoint" in checkpoints(tmp_path)


def test_num_env_steps(tmp_path):
    trainer = make_trainer(tmp_path, stop={"num_env_steps": 100})
    assert trainer.train() == (True, "num_env_steps=100 reached")
    assert 100 <= trainer.counters["env_steps"] < 100 + UNROLL_LENGTH * BATCH_SIZE


def test_max_seconds(tmp_path):
    trainer = make_trainer(tmp_path, stop={"max_seconds": 1.5})
    start = time.monotonic()
    assert trainer.train() == (True, "max_seconds=1.5 reached")
    assert 1.5 <= time.monotonic() - start < 30.0
    assert trainer.counters["iterations"] >= 1


def test_target_return(tmp_path):
    trainer = make_trainer(tmp_path, stop={"target_return": 0.1 * EPISODE_LENGTH, "num_iterations": 10_000})
    finished, reason = trainer.train()
    assert finished and reason.startswith("target_return=0.5 reached: ")
    assert trainer.counters["iterations"] < 10_000


def read_events(folder):
    """Returns {tag: [(step, value), ...]}."""
    found = {}
    for name in sorted(os.listdir(folder)):
        for record in tf.data.TFRecordDataset(os.path.join(folder, name)).as_numpy_iterator():
            event = event_pb2.Event.FromString(record)
            for value in event.summary.value:
                number = float(tf.make_ndarray(value.tensor))
                found.setdefault(value.tag, []).append((event.step, number))
    return found


def test_summaries(tmp_path):
    trainer = make_trainer(tmp_path, stop={"num_iterations": 60}, summary_interval=0.0)
    trainer.train()
    events = read_events(tmp_path / "train")
    expected = {
        "metrics": [
            "AverageReturn",
            "AverageEpisodeLength",
            "EnvironmentSteps",
            "NumberOfEpisodes",
        ],
        "train": [
            *("loss", "policy_loss", "value_loss", "entropy", "entropy_weight", "gradient_norm"),
            "learning_rate",
            *("policy_lag_min", "policy_lag_mean", "policy_lag_max", "iterations"),
        ],
        "throughput": [f"steps_per_second_{window}" for window in ("10s", "1min", "5min")],
        "environments": ["worker_restarts"],
        "queues": ["actor_queue", "learn_queue", "log_queue"],
    }
    assert set(events) == {f"{group}/{name}" for group, names in expected.items() for name in names}
    for tag, points in events.items():
        steps, values = zip(*points)
        assert list(steps) == sorted(steps), tag
        assert np.isfinite(values).all(), f"{tag}: {values}"
        if not tag.startswith("metrics/Average"):  # there is none before the first episode's end
            assert len(points) == 60 + 1, tag
    last = {tag: points[-1][1] for tag, points in events.items()}
    assert events["train/loss"][-1][0] == trainer.counters["env_steps"]
    assert last["train/iterations"] == 60
    assert last["train/learning_rate"] == pytest.approx(0.01)
    assert last["train/gradient_norm"] > 0
    assert last["train/policy_lag_min"] <= last["train/policy_lag_mean"]
    assert last["train/policy_lag_mean"] <= last["train/policy_lag_max"]
    assert last["metrics/AverageEpisodeLength"] == EPISODE_LENGTH
    assert 0 < last["metrics/AverageReturn"] <= EPISODE_LENGTH
    assert last["throughput/steps_per_second_10s"] > 0


def test_summaries_come_at_their_interval_and_at_the_end(tmp_path):
    trainer = make_trainer(tmp_path, stop={"num_iterations": 60}, summary_interval=1e6)
    trainer.train()
    events = read_events(tmp_path / "train")
    assert {len(points) for points in events.values()} == {1}
    assert events["train/iterations"] == [(trainer.counters["env_steps"], 60)]


def test_a_run_continues_where_it_ended(tmp_path):
    first = make_trainer(tmp_path, stop={"num_iterations": 30}, experiment={"seed": 0})
    first.train()
    second = make_trainer(tmp_path, stop={"num_iterations": 32}, experiment={"seed": 1})
    assert second.counters == first.counters
    assert second.counters["iterations"] == 30 and second.counters["env_steps"] > 300
    for a, b in zip(variables(first), variables(second), strict=True):
        np.testing.assert_array_equal(a, b)
    assert second.optimizer.iterations.numpy() == 30
    assert all(slot.any() for slot in variables(second)[-8:]), "Adam's m and v"
    assert metrics(second) == metrics(first)
    assert metrics(second)["EnvironmentSteps"] > 0 and metrics(second)["AverageReturn"]

    env_steps = second.counters["env_steps"]
    assert second.train() == (True, "num_iterations=32 reached")
    assert second.counters["iterations"] == 32
    assert second.learner.train_step_counter.numpy() == 32
    assert second.optimizer.iterations.numpy() == 32
    rows = UNROLL_LENGTH * BATCH_SIZE
    assert env_steps + rows <= second.counters["env_steps"] <= env_steps + 2 * rows
    assert metrics(second)["EnvironmentSteps"] > metrics(first)["EnvironmentSteps"]
    assert "ckpt-32.index" in checkpoints(tmp_path)


def test_a_run_that_has_nothing_left_to_do_ends_at_once(tmp_path):
    make_trainer(tmp_path, stop={"num_iterations": 2}).train()
    again = make_trainer(tmp_path, stop={"num_iterations": 2})
    before = variables(again)
    assert again.train() == (True, "num_iterations=2 reached")
    third = make_trainer(tmp_path, stop={"num_iterations": 2})
    for a, b in zip(before, variables(third), strict=True):
        np.testing.assert_array_equal(a, b)


def test_checkpoints_come_at_their_interval(tmp_path):
    make_trainer(tmp_path, stop={"num_iterations": 5}, checkpoint_interval=0.0).train()
    assert [name for name in checkpoints(tmp_path) if name.endswith(".index")] == [
        f"ckpt-{n}.index" for n in (3, 4, 5)
    ]


def slowly(seconds, started=None):
    def special(reward):
        if started is not None:
            started.set()
        time.sleep(seconds)
        return reward

    return special


def test_interrupt_ends_a_run_that_waits_for_a_slow_environment(tmp_path):
    started = threading.Event()
    made = []
    # An unroll takes 4 s from step 10 on.
    trainer = make_trainer(tmp_path, env={"special": slowly(1.0, started), "made": made})
    interrupted = []

    def interrupt():
        started.wait()
        time.sleep(0.2)
        interrupted.append(time.monotonic())
        trainer.interrupt("enough")

    thread = threading.Thread(target=interrupt)
    thread.start()
    assert trainer.train() == (False, "enough")
    assert time.monotonic() - interrupted[0] < 3.0
    thread.join()
    iterations = trainer.counters["iterations"]
    assert iterations >= 1
    assert f"ckpt-{iterations}.index" in checkpoints(tmp_path)
    assert [env.closed for env in made] == [1, 1]
    assert make_trainer(tmp_path).counters == trainer.counters


def test_interrupt_before_train(tmp_path):
    trainer = make_trainer(tmp_path)
    trainer.interrupt("enough")
    assert trainer.train() == (False, "enough")
    assert "ckpt-0.index" in checkpoints(tmp_path)


class EnvironmentError_(Exception):
    pass


def fail(reward):
    raise EnvironmentError_("the simulator crashed")


def test_an_environments_own_error_ends_the_run(tmp_path):
    made = []
    trainer = make_trainer(tmp_path, env={"special": fail, "made": made})
    start = time.monotonic()
    with pytest.raises(EnvironmentError_, match="the simulator crashed") as info:
        trainer.train()
    assert "fail" in [frame.name for frame in info.traceback]
    assert time.monotonic() - start < 30.0
    assert [env.closed for env in made] == [1, 1]
    assert checkpoints(tmp_path) == []


def test_an_error_keeps_the_checkpoint_of_before(tmp_path):
    make_trainer(tmp_path, stop={"num_iterations": 3}).train()
    before = checkpoints(tmp_path)
    with pytest.raises(EnvironmentError_):
        make_trainer(tmp_path, env={"special": fail}).train()
    assert checkpoints(tmp_path) == before
    assert make_trainer(tmp_path).counters["iterations"] == 3


def test_a_reward_that_is_not_finite_ends_the_run(tmp_path):
    made = []
    trainer = make_trainer(tmp_path, env={"special": lambda r: r * np.nan, "made": made})
    with pytest.raises(DivergedError, match="because the environment's reward is not"):
        trainer.train()
    assert all(np.isfinite(v).all() for v in variables(trainer))
    assert checkpoints(tmp_path) == []
    assert [env.closed for env in made] == [1, 1]


@pytest.mark.parametrize("learning_rate, stop", [(1e30, {}), (1e39, {"num_iterations": 1})])
def test_a_learning_rate_that_is_too_large_ends_the_run(tmp_path, learning_rate, stop):
    trainer = make_trainer(tmp_path, learning_rate=learning_rate, stop=stop)
    with pytest.raises(DivergedError, match="lower the optimizer's learning_rate"):
        trainer.train()
    assert not [name for name in checkpoints(tmp_path) if name.endswith(".index")]


def test_failures_while_building_close_the_environments_and_write_nothing(tmp_path):
    root_dir = tmp_path / "run"
    made = []

    def second_fails(seed):
        if made:
            raise ValueError("no licence left")
        return Environment(made)

    with pytest.raises(ValueError, match="no licence left"):
        make_trainer(root_dir, experiment={"env_ctor": second_fails})
    assert [env.closed for env in made] == [1]

    made.clear()
    with pytest.raises(ConfigError, match="unroll_length is 0"):
        make_trainer(root_dir, env={"made": made}, experiment={"unroll_length": 0})
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


def test_each_environment_gets_a_seed_of_its_own(tmp_path):
    made = []
    make_trainer(tmp_path, env={"made": made}, experiment={"num_envs": 4, "seed": 7})
    seeds = [env.seed for env in made]
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
