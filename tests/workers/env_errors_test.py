# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What an environment raises, or returns as in the old Gym, is named with environment and step."""

import asyncio
import builtins
import concurrent.futures
import re
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from alf.errors import EnvError
from alf.workers import EnvBatch
from tests.workers.envs import CountEnv

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
ZEROS = np.zeros(3, np.float32)


def limit_steps(env):
    """As `gymnasium.make` does for an id with `max_episode_steps`."""
    return gymnasium.wrappers.TimeLimit(gymnasium.wrappers.OrderEnforcing(env), 5)


class OldGym(gymnasium.Env):
    """Of Gym before 0.26."""

    observation_space, action_space = BOX, spaces.Discrete(2)

    def reset(self):
        return ZEROS

    def step(self, action):
        return ZEROS, 0.0, False, {}


class OldStep(OldGym):
    def reset(self, *, seed=None, options=None):
        return ZEROS, {}


class OldReset(OldGym):
    def reset(self, seed=None, options=None):
        return [0.0, 0.0]


class WithoutOptions(OldStep):
    def reset(self, seed=None):
        return ZEROS, {}


class OwnMistake(OldStep):
    def reset(self, *, seed=None, options=None):
        return dict.fromkeys(seed=3)


OF_OLD_GYM = [
    (
        OldGym,
        r"0: reset\(\) of OldGym takes no seed: define it as reset\(self, \*, seed=None, options=None\)",
    ),
    (OldReset, r"0: reset\(\) returned a list of 2 instead of \(observation, info\): the info is \{\}"),
    (OldStep, r"1: step\(\) returned .*4.* instead of \(.*\): the old done of Gym is now terminated"),
]


@pytest.mark.parametrize("wrap", [lambda env: env, limit_steps, gymnasium.wrappers.RecordEpisodeStatistics])
def test_an_environment_of_the_old_gym(wrap, subtests):
    for cls, message in OF_OLD_GYM:
        with subtests.test(cls.__name__):
            batch = EnvBatch([lambda cls=cls: wrap(cls())], [1], first_index=6)
            with pytest.raises(EnvError) as info:
                batch.reset()
                batch.step()
            assert "\n" not in str(info.value)
            if cls is not OldReset or wrap is not gymnasium.wrappers.RecordEpisodeStatistics:
                assert re.match(f"environment 6, step {message}", str(info.value))


OF_RESET = [
    # Wrappers need more of `reset` than a seed.
    (
        lambda: limit_steps(WithoutOptions()),
        EnvError,
        r"reset\(\) of WithoutOptions takes no options: define it as",
    ),
    (OwnMistake, TypeError, r"fromkeys\(\) takes no keyword arguments"),
]


@pytest.mark.parametrize("make, error, message", OF_RESET)
def test_what_is_wrong_with_reset(make, error, message):
    EnvBatch([WithoutOptions], [1]).reset()
    with pytest.raises(error, match=message):
        EnvBatch([make], [1]).reset()


def raise_in(method, error):
    """Makes an environment whose `method` raises an error at its second call."""

    def raises(self, *args, **kwargs):
        self.calls = getattr(self, "calls", 0) + 1
        if self.calls == 2:
            raise error
        return getattr(CountEnv, method)(self, *args, **kwargs)

    return type("Raises", (CountEnv,), {method: raises})


NAMED = [
    KeyboardInterrupt(),
    asyncio.CancelledError(),
    concurrent.futures.CancelledError(),
    SystemExit(0),
    GeneratorExit(),
    *(
        [builtins.ExceptionGroup("two", [ValueError("a"), KeyError("b")])]
        if sys.version_info >= (3, 11)
        else []
    ),
    *(
        [builtins.BaseExceptionGroup("of users", [KeyboardInterrupt()])]
        if sys.version_info >= (3, 11)
        else []
    ),
]


def run_in_thread(function):
    """Calls a function in another thread, as drivers do; Ctrl-C comes in the main thread."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


@pytest.mark.parametrize("error", NAMED, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("method, step", [("step", 3), ("reset", 2)])
def test_whatever_an_environment_raises_names_it_and_its_step(method, step, error):
    # Episodes of one step: the second step resets.
    makes = [lambda: CountEnv(1), lambda: raise_in(method, error)(1)]

    def run():
        batch = EnvBatch(makes, [0, 1], first_index=6)
        batch.reset()
        for _ in range(4):
            batch.step()

    with pytest.raises(EnvError) as info:
        run_in_thread(run)
    assert str(info.value) == f"environment 7, step {step} raised {error!r}"
    assert info.value.__cause__ is error


def test_other_exceptions_have_a_note():
    batch = EnvBatch([CountEnv, raise_in("step", ValueError("mine"))], [0, 1])
    batch.reset()
    batch.step()
    with pytest.raises(ValueError, match="^mine") as info:
        batch.step()
    assert getattr(info.value, "__notes__", []) == ["raised by environment 1, step 2"] * hasattr(
        info.value, "add_note"
    )


def test_ctrl_c_in_the_main_thread_stays_what_it_is():
    batch = EnvBatch([raise_in("step", KeyboardInterrupt())], [0])
    batch.reset()
    batch.step()
    with pytest.raises(KeyboardInterrupt):
        batch.step()
