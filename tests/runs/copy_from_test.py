# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trainer.copy_from: what a run takes over from another one's checkpoint, and what stays its own."""

import functools
import glob

import numpy as np
import pytest

from alf.callback import Callback
from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.errors import ConfigError
from alf.learner import UnrollLearner, optimizers
from alf.runs import checkpointer
from tests.builders import build_driver, variables_of
from tests.training.small_runs import add_to_weights, make_idle_learner, make_trainer

# The driver, and whether the learner really trains: what waits in a driver does not depend on that. The tests
# below have a `SyncOffPolicyDriver`, in which nothing waits.
CASES = {
    "async": (AsyncOffPolicyDriver, True),
    "copies": (
        functools.partial(
            build_driver, AsyncOffPolicyDriver, parameter_update_period=5, max_waiting_batches=2
        ),
        False,
    ),
    "lockstep": (
        functools.partial(build_driver, AsyncOffPolicyDriver, mode="lockstep", learn_queue_cap=2),
        False,
    ),
}


def make_run(
    root_dir,
    num_iterations,
    trains=False,
    driver=SyncOffPolicyDriver,
    parts=(),
    act=lambda _: None,
    units=8,
):
    """A trainer with an `Act`, Adam and two environments; without `trains` its weights move by themselves."""
    optimizer = optimizers.Adam(0.05)
    idle = functools.partial(make_idle_learner, move=add_to_weights)
    learner = functools.partial(UnrollLearner if trains else idle, optimizer=optimizer)
    experiment = {"num_groups": 2, "learner": learner, "driver": driver, **dict(parts)}
    stop = {"num_iterations": num_iterations}
    trainer = make_trainer(root_dir, stop=stop, experiment=experiment, units=units)
    trainer.optimizer, trainer.act = optimizer, Act(act)
    trainer.add_callback(trainer.act)
    return trainer


class Act(Callback):
    """Calls `act(trainer)` after train iteration 3, and notes the oldest version that each later one had."""

    def __init__(self, act):
        self._act, self.lags = act, []

    def on_train_iter(self, trainer, summary):
        if trainer.counters["iterations"] == 3:
            self._act(trainer)
            self.copied = int(trainer.learner.progress.updates)
        elif trainer.counters["iterations"] > 3 and summary:  # what older weights have collected is dropped
            self.lags.append((int(trainer.learner.progress.updates), float(summary["policy_lag_max"])))


@pytest.fixture(scope="module")
def parent(tmp_path_factory):
    """A run of 7 iterations, and the path of its checkpoint."""
    folder = tmp_path_factory.mktemp("parent")
    trainer = make_run(folder, 7, trains=True)
    trainer.train()
    (path,) = glob.glob(str(folder / "checkpoints" / "ckpt-7"))
    return trainer, path


def counts(trainer):
    return [int(counter) for counter in trainer.learner.counters]


def learned(trainer):
    """Every variable but the counters: weights, the count of Adam and its m and v of each weight."""
    counters = {id(counter) for counter in trainer.learner.counters}
    kept = [v for v in trainer.learner.variables if id(v) not in counters]
    own = variables_of(trainer.optimizer)
    assert len(own) == 1 + 2 * len(trainer.learner.trainable_variables)
    assert {*map(id, own)} < {*map(id, kept)}
    return [v.numpy() for v in kept]


def are_same(xs, ys):
    return [np.array_equal(x, y) for x, y in zip(xs, ys, strict=True)]


@pytest.mark.parametrize("case", CASES)
def test_weights_and_optimizer_are_the_same_bit_by_bit(tmp_path, parent, case):
    other, path = parent
    driver, trains = CASES[case]
    seen = {}

    def act(trainer):
        before = counts(trainer), learned(trainer)
        trainer.copy_from(path)
        env_steps, updates, *rest = counts(trainer)
        assert [env_steps, updates - 1, *rest] == before[0], "its own, but for the version of the weights"
        assert trainer.counters["iterations"] == 4
        seen["same"] = are_same(learned(trainer), learned(other))
        seen["before"] = are_same(before[1], learned(other))
        seen["returns"] = trainer.metrics["AverageReturn"].get_state()[:3]
        seen["version"] = updates

    trainer = make_run(tmp_path, 9, trains, driver, act=act)
    assert trainer.train() == (True, "num_iterations=9 reached")
    assert len(seen["same"]) > 15 and all(seen["same"]) and not any(seen["before"][:2])
    theirs = other.metrics["AverageReturn"].get_state()
    assert seen["returns"] == theirs[:3]
    # What the old weights have collected is never trained on.
    assert all(updates - 1 - lag >= seen["version"] for updates, lag in trainer.act.lags) and trainer.act.lags


@pytest.mark.parametrize("replayer", ["mix_in", "multi_pass"])
def test_what_is_trained_on_more_than_once_is_dropped(tmp_path, parent, replayer):
    act = lambda trainer: trainer.copy_from(parent[1])  # noqa: E731
    trainer = make_run(tmp_path, 8, parts={"exp_replayer": replayer}, act=act)
    trainer.train()
    last = int(trainer.learner.progress.updates)
    versions = [updates - 1 - lag for updates, lag in trainer.act.lags]
    assert len(versions) == 4 and last > 4
    assert all(version >= trainer.act.copied for version in versions)


def test_a_checkpoint_after_the_copy_has_the_copied_weights(tmp_path, parent, monkeypatch):
    """A kill while it is saved leaves the one from before the copy."""
    other, path = parent

    class Killed(BaseException):
        pass

    def fail(*args, **kwargs):
        raise Killed

    def act(trainer):
        assert trainer.save() == trainer.save()
        trainer.copy_from(path)
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(checkpointer.files, "write_weights", fail)
            trainer.save()
        assert glob.glob(str(tmp_path / "checkpoints" / "ckpt-3"))
        trainer.save()
        trainer.interrupt("enough")

    trainer = make_run(tmp_path, 9, act=act)
    assert trainer.train() == (False, "enough")
    again = make_run(tmp_path, 9)
    assert again.counters["iterations"] == 4
    assert all(are_same(learned(again), learned(other)))
    again.close()


def test_the_counters_never_show_the_other_run(tmp_path, parent, monkeypatch):
    """Not even before `copy_from` returns: actors read the version of the weights at any moment."""
    trainer = make_run(tmp_path, 2)
    assign, seen = checkpointer.assign_values, []
    monkeypatch.setattr(
        checkpointer, "assign_values", lambda values: (assign(values), seen.append(counts(trainer)))
    )
    trainer.copy_from(parent[1])
    trainer.close()
    assert seen == [[0] * len(trainer.learner.counters)]


def test_before_training_it_copies_too(tmp_path, parent):
    other, path = parent
    trainer = make_run(tmp_path, 2)
    trainer.copy_from(path)
    assert all(are_same(learned(trainer), learned(other)))
    assert counts(trainer)[:2] == [0, 1] and trainer.counters["iterations"] == 1
    assert trainer.train() == (True, "num_iterations=2 reached")


def test_a_run_of_another_network_is_refused(tmp_path, parent):
    trainer = make_run(tmp_path, 1, units=9)
    with pytest.raises(ConfigError, match="does not fit this algorithm"):
        trainer.copy_from(parent[1])
    trainer.close()
