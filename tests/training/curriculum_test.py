# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A callback that changes the environments of a run: it continues with the run, and may be interrupted."""

import functools
import threading
import time

import pytest

from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.environments import PythonEnvironment
from alf.training import Callback
from alf.workers import WorkerError
from tests.training.small_runs import make_idle_learner, make_trainer
from tests.workers.envs import kill_process, make_wrapped_level_env

LEVEL = 2  # of the observation


class Harder(Callback):
    """Raises the level in every second train iteration; `act(trainer)` is called in iteration 3."""

    def __init__(self, act=None):
        self.level, self._act = 1, act

    def on_begin(self, trainer):
        trainer.driver.set_attr("level", self.level)

    def on_train_iter(self, trainer, summary):
        if trainer.counters["iterations"] % 2 == 0:
            self.level += 1
            numbers = range(len(trainer.driver.call_envs("where")))
            assert trainer.driver.call_envs("set_level", self.level) == [(i, self.level) for i in numbers]
        if self._act is not None and trainer.counters["iterations"] == 3:
            self._act(trainer)

    def get_state(self):
        return self.level

    def set_state(self, state):
        self.level = state


def make_env(seed, num_workers):
    return PythonEnvironment(
        [functools.partial(make_wrapped_level_env, i) for i in range(2)], seed, num_workers
    )


def make_run(root_dir, num_iterations, driver, num_workers=0, **kwargs):
    seen = []

    def make_learner(*args, **settings):
        learner = make_idle_learner(*args, **settings)
        observe = learner.observe
        learner.observe = lambda e: (seen.append(e.observation.numpy()[..., LEVEL]), observe(e))
        return learner

    experiment = {
        "env": functools.partial(make_env, num_workers=num_workers),
        "driver": driver,
        "learner": make_learner,
    }
    trainer = make_trainer(root_dir, {"num_iterations": num_iterations}, experiment, **kwargs)
    return trainer, seen


@pytest.mark.parametrize("driver", [SyncOffPolicyDriver, AsyncOffPolicyDriver])
def test_a_curriculum_continues_with_the_run(driver, tmp_path):
    callback = Harder()
    trainer, seen = make_run(tmp_path, 4, driver, callbacks=[callback])
    assert trainer.train()[0]
    assert callback.level == 3 and (seen[0] == 1).all()
    callback = Harder()
    trainer, seen = make_run(tmp_path, 8, driver, callbacks=[Callback()])
    trainer.add_callback(callback)
    assert trainer.train()[0]
    assert (seen[0] == 3).all(), "before the first reset"
    assert callback.level == 5
    if driver is SyncOffPolicyDriver:  # which has no unrolls in queues
        assert [int(levels[0, -1, 0]) for levels in seen] == [3, 3, 4, 4]


def interrupt_a_call(trainer):
    threading.Timer(0.3, trainer.interrupt, ["enough"]).start()
    trainer.driver.call_envs("act_once", trainer.root_dir + "/once", functools.partial(time.sleep, 2))


@pytest.mark.parametrize("driver", [SyncOffPolicyDriver, AsyncOffPolicyDriver])
def test_an_interrupted_call_ends_the_run_as_interrupted_and_saves(driver, tmp_path, caplog):
    trainer, _ = make_run(tmp_path, 9, driver, callbacks=[Harder(interrupt_a_call)])
    assert trainer.train() == (False, "enough")
    assert "raised an error" not in caplog.text
    callback = Harder()
    trainer, _ = make_run(tmp_path, 4, driver, callbacks=[callback])
    assert trainer.counters["iterations"] == 3
    assert trainer.train()[0]
    assert callback.level == 3


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda trainer: trainer.driver.call_envs("fail_if", 1), KeyError),
        (lambda trainer: trainer.driver.set_attr("levle", 1), AttributeError),
        (lambda trainer: trainer.driver.call_envs("act", kill_process), WorkerError),
    ],
    ids=["an exception", "no such attribute", "too many restarts"],
)
def test_a_call_that_fails_costs_no_step(act, error, tmp_path):
    trainer, _ = make_run(tmp_path, 9, SyncOffPolicyDriver, num_workers=1, callbacks=[Harder(act)])
    with pytest.raises(error):
        trainer.train()
    callback = Harder()
    trainer, _ = make_run(tmp_path, 9, SyncOffPolicyDriver, num_workers=1, callbacks=[callback])
    assert trainer.counters["iterations"] == 3
    assert trainer.train()[0] and callback.level == 5


def test_run_in_workers(tmp_path):
    trainer, seen = make_run(tmp_path, 4, SyncOffPolicyDriver, num_workers=1, callbacks=[Harder()])
    assert trainer.train()[0]
    assert [int(levels[0, -1, 0]) for levels in seen] == [1, 1, 2, 2]
