# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trainer.copy_from: what a run takes over from another one's checkpoint, and what stays its own."""

import functools
import glob

import numpy as np
import pytest

from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.errors import ConfigError
from alf.networks import ActorCriticNetwork
from alf.policies import ActorCriticPolicy
from alf.training import checkpointer
from alf.training.callback import Callback
from tests.training.trainer_test import make_trainer, variables

DRIVERS = {
    "async": AsyncOffPolicyDriver,
    "copies": functools.partial(AsyncOffPolicyDriver, parameter_update_period=5, max_waiting_batches=2),
    "lockstep": functools.partial(AsyncOffPolicyDriver, max_waiting_batches=0, learn_queue_cap=2),
    "sync": SyncOffPolicyDriver,
}


class Act(Callback):
    """Calls `act(trainer)` after train iteration 3, and notes the oldest version that each later one had."""

    def __init__(self, act):
        self._act, self.lags = act, []

    def on_train_iter(self, trainer, summary):
        if trainer.counters["iterations"] == 3:
            self._act(trainer)
            self.copied = int(trainer.learner.progress.updates)
        elif trainer.counters["iterations"] > 3:
            self.lags.append((int(trainer.learner.progress.updates), float(summary["policy_lag_max"])))


@pytest.fixture
def parent(tmp_path):
    """A run of 7 iterations, and the path of its checkpoint."""
    trainer = make_trainer(tmp_path / "parent", stop={"num_iterations": 7}, learning_rate=0.05)
    trainer.train()
    (path,) = glob.glob(str(tmp_path / "parent" / "checkpoints" / "ckpt-7.complete"))
    return trainer, path.removesuffix(".complete")


def counts(trainer):
    return [int(counter) for counter in trainer.learner.counters]


def learned(trainer):
    """Every variable but the counters."""
    counters = {id(counter) for counter in trainer.learner.counters}
    kept = [i for i, v in enumerate(trainer.learner.variables) if id(v) not in counters]
    every = variables(trainer)
    return [every[i] for i in kept] + every[len(trainer.learner.variables) :]


@pytest.mark.parametrize("driver", DRIVERS)
def test_weights_and_optimizer_are_the_same_bit_by_bit(tmp_path, parent, driver):
    other, path = parent
    seen = {}

    def act(trainer):
        before = counts(trainer), learned(trainer)
        trainer.copy_from(path)
        env_steps, updates, *rest = counts(trainer)
        assert [env_steps, updates - 1, *rest] == before[0], "its own, but for the version of the weights"
        assert trainer.counters["iterations"] == 4
        seen["same"] = [np.array_equal(x, y) for x, y in zip(learned(trainer), learned(other), strict=True)]
        seen["before"] = [np.array_equal(x, y) for x, y in zip(before[1], learned(other), strict=True)]
        seen["returns"] = trainer.metrics["AverageReturn"].get_state()[:3]
        seen["version"] = updates

    callback = Act(act)
    experiment = {"driver_ctor": DRIVERS[driver]}
    trainer = make_trainer(
        tmp_path / "child", stop={"num_iterations": 9}, experiment=experiment, callbacks=[callback]
    )
    assert trainer.train() == (True, "num_iterations=9 reached")
    assert len(seen["same"]) > 15 and all(seen["same"]) and not all(seen["before"])
    theirs = other.metrics["AverageReturn"].get_state()
    assert seen["returns"] == theirs[:3]
    # What the old weights have collected is never trained on.
    assert all(updates - 1 - lag >= seen["version"] for updates, lag in callback.lags) and callback.lags


@pytest.mark.parametrize("replayer", ["mix_in", "multi_pass"])
def test_what_is_trained_on_more_than_once_is_dropped(tmp_path, parent, replayer):
    callback = Act(lambda trainer: trainer.copy_from(parent[1]))
    trainer = make_trainer(
        tmp_path / "child",
        stop={"num_iterations": 8},
        experiment={"exp_replayer": replayer},
        callbacks=[callback],
    )
    trainer.train()
    last = int(trainer.learner.progress.updates)
    versions = [updates - 1 - lag for updates, lag in callback.lags]
    assert len(versions) == 4 and last > 4
    assert all(version >= callback.copied for version in versions)


def test_a_checkpoint_after_the_copy_has_the_copied_weights(tmp_path, parent):
    other, path = parent

    def act(trainer):
        assert trainer.save() == trainer.save()
        trainer.copy_from(path)
        trainer.save()
        trainer.interrupt("enough")

    trainer = make_trainer(tmp_path / "child", stop={"num_iterations": 9}, callbacks=[Act(act)])
    assert trainer.train() == (False, "enough")
    again = make_trainer(tmp_path / "child", stop={"num_iterations": 9})
    assert again.counters["iterations"] == 4
    assert all(np.array_equal(x, y) for x, y in zip(learned(again), learned(other), strict=True))
    again.driver.stop()


def test_a_kill_while_the_copy_is_saved_leaves_the_checkpoint_before(tmp_path, parent, monkeypatch):
    class Killed(BaseException):
        pass

    def act(trainer):
        trainer.save()
        trainer.copy_from(parent[1])
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(checkpointer.files, "mark_complete", fail)
            trainer.save()
        assert glob.glob(str(tmp_path / "child" / "checkpoints" / "ckpt-3.complete"))
        trainer.interrupt("enough")

    def fail(*args, **kwargs):
        raise Killed

    trainer = make_trainer(tmp_path / "child", stop={"num_iterations": 9}, callbacks=[Act(act)])
    assert trainer.train() == (False, "enough")


def test_before_training_it_copies_too(tmp_path, parent):
    other, path = parent
    trainer = make_trainer(tmp_path / "child", stop={"num_iterations": 2})
    trainer.copy_from(path)
    assert all(np.array_equal(x, y) for x, y in zip(learned(trainer), learned(other), strict=True))
    assert counts(trainer)[:2] == [0, 1] and trainer.counters["iterations"] == 1
    assert trainer.train() == (True, "num_iterations=2 reached")


def test_a_run_of_another_network_is_refused(tmp_path, parent):
    network_ctor = functools.partial(ActorCriticNetwork, fc_layer_params=(9,))
    policy_ctor = functools.partial(ActorCriticPolicy, network_ctor=network_ctor)
    trainer = make_trainer(tmp_path / "child", experiment={"policy_ctor": policy_ctor})
    with pytest.raises(ConfigError, match="does not fit this algorithm"):
        trainer.copy_from(parent[1])
    trainer.driver.stop()
