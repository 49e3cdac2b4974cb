# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""With `restart_on_error` an environment that raises is restarted, counted and limited like a lost worker."""

import contextlib
import functools
import traceback

import numpy as np
import pytest
from absl import logging

from alf.core.restart_limit import RestartLimit
from alf.workers import RestartedBatch, WorkerError, WorkerPool, WorkerSettings
from alf.workers.worker import count_raise
from tests.workers import envs
from tests.workers.envs import CountEnv, ResetFaultEnv

FIRST, MID, LAST = 0, 1, 2
PID, SEED, EPISODE, STEP = range(4)  # of the observation


@contextlib.contextmanager
def make(env_fns, num_workers, **settings):
    settings = WorkerSettings(restart_on_error=True, **settings)
    seeds = range(100, 100 + len(env_fns))
    if num_workers:
        batch = WorkerPool(env_fns, seeds, num_workers, settings=settings)
    else:
        limit = RestartLimit(settings.max_restarts, settings.restart_period)
        note = functools.partial(count_raise, limit)
        batch = RestartedBatch(env_fns, seeds, 0, 0, (), None, note)
    with contextlib.closing(batch):
        batch.reset()
        yield batch


@pytest.fixture
def warnings(monkeypatch):
    """The lines of the log, and the tracebacks in it."""
    found, causes = [], []

    def note(text, *args, exc_info=None):
        found.append(text % args)
        causes.append("".join(traceback.format_exception(exc_info)) if exc_info else "")

    monkeypatch.setattr(logging, "warning", note)
    return found, causes


def once(tmp_path, act=envs.raise_own_error):
    return functools.partial(envs.act_once, tmp_path / "raised", act)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("env", [CountEnv, ResetFaultEnv])
def test_an_environment_that_raises_begins_a_new_episode(warnings, tmp_path, num_workers, env):
    special = functools.partial(env, length=3, at=4, act=once(tmp_path))
    with make([functools.partial(CountEnv, 50)] * 2 + [special], num_workers) as batch:
        for _ in range(4 if env is CountEnv else 3):
            batch.step()
        before = batch.arrays.observation[0].copy()
        batch.step()
        after = batch.arrays.observation[0].copy()
        kept, lost = slice(0, 2), slice(2, 3)
        np.testing.assert_array_equal(after[kept, STEP], before[kept, STEP] + 1)
        np.testing.assert_array_equal(batch.arrays.step_type[lost], FIRST)
        np.testing.assert_array_equal(batch.arrays.reward[lost], 0)
        np.testing.assert_array_equal(batch.arrays.discount[lost], 1)
        np.testing.assert_array_equal(after[lost, [EPISODE, STEP]], [[1, 0]])
        assert len(set(after[:, SEED])) == 3 and not set(after[lost, SEED]) & set(before[:, SEED])
        assert batch.num_restarts == 1
        (text,), (cause,) = warnings
        assert text == "environment 2 raised KeyError: 'my own bug': restart 1 of 3 within 600 s"
        assert "in raise_own_error" in cause
        batch.step()
        np.testing.assert_array_equal(batch.arrays.step_type, MID)
        np.testing.assert_array_equal(batch.arrays.observation[0][kept, STEP], before[kept, STEP] + 2)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_restarts_are_bounded_and_the_reason_is_given(warnings, num_workers):
    raises = functools.partial(CountEnv, at=1, act=envs.raise_own_error)
    with make([raises], num_workers, max_restarts=2) as batch:
        with pytest.raises(WorkerError, match="'my own bug'; max_restarts=2 is reached within 600 s") as info:
            for _ in range(10):
                batch.step()
        assert batch.num_restarts == 2 and isinstance(info.value.__cause__, KeyError)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_constructor_that_fails_in_a_restart_counts(warnings, tmp_path, num_workers):
    """As that of a simulator whose server needs a moment to come back."""

    def make_env(path, state=[]):  # noqa: B006
        (path / "made").open("a").write("x")
        if len((path / "made").read_text()) in (2, 3):
            raise ConnectionError("the server does not answer")
        return CountEnv(at=1, act=functools.partial(envs.act_once, path / "raised", envs.raise_own_error))

    with make([functools.partial(make_env, tmp_path)], num_workers) as batch:
        batch.step()
        np.testing.assert_array_equal(batch.arrays.step_type, FIRST)
        assert batch.num_restarts == 3
        assert sum("the server does not answer" in text for text in warnings[0]) == 2


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_constructor_that_fails_at_first_is_no_loss(num_workers):
    with pytest.raises(KeyError, match="my own bug"):
        with make([functools.partial(CountEnv, at=0, act=envs.raise_own_error)], num_workers):
            pass


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_result_that_does_not_fit_begins_a_new_episode_alone(num_workers, tmp_path):
    class Env(CountEnv):
        wrong = ()

        def step(self, action):
            result = list(super().step(action))
            for i, value in self.wrong if self._steps == 2 and not (tmp_path / "made").exists() else ():
                (tmp_path / "made").touch()
                result[i] = value
            return tuple(result)

    for wrong in ((0, "no"), (1, None), (2, "no")):
        (tmp_path / "made").unlink(missing_ok=True)
        special = type("Wrong", (Env,), {"wrong": [wrong]})
        with make([CountEnv, special, CountEnv], num_workers) as batch:
            batch.step()
            batch.step()
            np.testing.assert_array_equal(batch.arrays.step_type, [MID, FIRST, MID])
            np.testing.assert_array_equal(batch.arrays.observation[0][:, STEP], [2, 0, 2])
            np.testing.assert_array_equal(batch.arrays.reward, [1.0, 0.0, 1.0])
            batch.step()
            np.testing.assert_array_equal(batch.arrays.observation[0][:, STEP], [3, 1, 3])
            assert batch.num_restarts == 1


def test_a_worker_is_not_replaced_for_an_environment_that_raises(tmp_path):
    special = functools.partial(CountEnv, at=1, act=once(tmp_path))
    with make([CountEnv, special], 1) as batch:
        pids = batch.pids
        batch.step()
        assert batch.pids == pids and batch.num_restarts == 1


@pytest.mark.parametrize("num_workers", [0, 1])
def test_environments_are_closed_before_they_are_made_again(tmp_path, num_workers):
    class Env(envs.CloseEnv):
        def step(self, action):
            once(tmp_path)()
            return super().step(action)

    with make([functools.partial(Env, path=str(tmp_path / "closed"))], num_workers) as batch:
        batch.step()
        assert (tmp_path / "closed").exists()


@pytest.mark.parametrize("num_workers", [0, 1])
def test_attributes_that_were_set_outlive_restarts(num_workers, tmp_path):
    class Env(envs.LevelEnv):
        def step(self, action):
            if self.level == 7 and (tmp_path / "raise").exists():
                (tmp_path / "raise").unlink()
                raise KeyError("my own bug")
            return super().step(action)

    with make([functools.partial(Env, i) for i in range(2)], num_workers) as batch:
        for value in (3, 7):  # the last value counts
            batch.set_attr("level", value)
        with pytest.raises(AttributeError):
            batch.set_attr("levle", 1)
        for count in (1, 2):  # the second restart, too
            (tmp_path / "raise").touch()
            batch.step()
            assert batch.num_restarts == count
            np.testing.assert_array_equal(batch.arrays.step_type, [FIRST, MID])
            np.testing.assert_array_equal(batch.arrays.observation[0][:, 2], 7)
