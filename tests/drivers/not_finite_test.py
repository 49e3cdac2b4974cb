# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Wrong values of an environment end the run before anybody learns from them; reused arrays are no harm."""

import operator
import time

import numpy as np
import pytest

from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.environments import BoundedArraySpec
from alf.errors import EnvError
from alf.testing.fakes import FrozenPolicy, RecordingLearner, RecordingObserver, SpecEnvironment
from tests.builders import build_driver, collect_and_observe

ASYNC, SYNC = AsyncOffPolicyDriver, SyncOffPolicyDriver
NEST = {
    "image": BoundedArraySpec((4, 3), np.uint8, 0, 255),
    "more": (BoundedArraySpec((2,), np.float64, 0, 100), BoundedArraySpec((), np.float16, 0, 9)),
}
VECTOR = BoundedArraySpec((3,), np.float32, 0, 1)
SCALAR = BoundedArraySpec((), np.float32, 0, 1)


class BrokenEnvironment(SpecEnvironment):
    """Calls `change(time_step)` at time step `at`; 0 is the reset."""

    def __init__(self, observation_spec, reward_spec, change=None, at=0):
        super().__init__(2, observation_spec, BoundedArraySpec((), np.int32, 0, 4), reward_spec)
        self._change = change
        self._at = at
        self._count = 0

    def _time_step(self):
        time_step = super()._time_step()
        if self._count == self._at and self._change is not None:
            self._change(time_step)
        self._count += 1
        return time_step


def set_at(get, place, value):
    def change(time_step):
        get(time_step)[place] = value

    return change


def get_more(i):
    return lambda time_step: time_step.observation["more"][i]


get_reward, get_observation = operator.attrgetter("reward"), operator.attrgetter("observation")
get_discount, get_step_type = operator.attrgetter("discount"), operator.attrgetter("step_type")


# Each place once, with one of the values at one of the time steps, in one of the drivers.
@pytest.mark.parametrize(
    "driver_class, value, at, specs, get, place, text",
    [
        (SYNC, np.nan, 0, (SCALAR, SCALAR), get_reward, 1, "reward of sub-environment 1,"),
        (SYNC, np.inf, 7, (SCALAR, VECTOR), get_reward, (0, 2), r"reward\[2\] of sub-environment 0,"),
        (ASYNC, -np.inf, 9, (SCALAR, SCALAR), get_observation, 0, "observation of sub-environment 0,"),
        (ASYNC, np.nan, 0, (NEST, SCALAR), get_more(0), (1, 1), r"observation more/0\[1\] of sub-e"),
        (SYNC, np.inf, 7, (NEST, SCALAR), get_more(1), 1, "observation more/1 of sub-e"),
        (SYNC, 5, 2, (SCALAR, SCALAR), get_discount, 1, "discount of sub-environment 1,"),
        (ASYNC, -1, 0, (SCALAR, SCALAR), get_discount, 0, "discount of sub-environment 0,"),
        (SYNC, np.nan, 4, (SCALAR, SCALAR), get_discount, 0, "discount of sub-environment 0,"),
        (ASYNC, 7, 3, (SCALAR, SCALAR), get_step_type, 1, "step_type of sub-environment 1,"),
        (SYNC, -1, 3, (SCALAR, SCALAR), get_step_type, 1, "step_type of sub-environment 1,"),
    ],
    ids=["reward", "vector", "observation", "float64", "float16"]
    + ["discount above", "discount below", "discount nan", "step type above", "step type below"],
)
def test_a_number_that_is_not_finite_ends_the_run_before_anybody_learns_from_it(
    driver_class, value, at, specs, get, place, text
):
    envs = [BrokenEnvironment(*specs), BrokenEnvironment(*specs, set_at(get, place, value), at)]
    learner, observer = RecordingLearner(FrozenPolicy(envs[0])), RecordingObserver()
    driver = build_driver(driver_class, envs, learner, unroll_length=3, observers=[observer])
    row = at if at <= 3 else (at - 1) % 3 + 1
    text = rf"^envs\[1\] \(BrokenEnvironment\) returned {value} in {text}.* in row {row} of an unroll"
    try:
        with pytest.raises(EnvError, match=text):
            driver.start()
            end = time.monotonic() + 60  # the other environment may be far ahead on a busy machine
            while time.monotonic() < end:
                collect_and_observe(driver)
    finally:
        driver.stop()
    assert all(np.isfinite(record.reward).all() for record in observer.records)
    for experience in learner.observed:
        assert all(np.isfinite(x).all() for x in np.atleast_1d(experience.reward))
        leaves = [experience.observation] if specs[0] is SCALAR else experience.observation["more"]
        assert all(np.isfinite(x).all() for x in leaves)


def test_finite_numbers_may_be_large():
    """Their sum is not finite in float32, they are."""
    spec = BoundedArraySpec((8,), np.float64, 0, 1e300)
    huge = set_at(get_observation, slice(None), 3e38)
    envs = [BrokenEnvironment(spec, SCALAR, huge, at) for at in (2, 5)]
    learner = RecordingLearner(FrozenPolicy(envs[0]))
    driver = build_driver(SYNC, envs, learner, unroll_length=3)
    try:
        driver.start()
        for _ in range(6):
            collect_and_observe(driver)
    finally:
        driver.stop()
    assert len(learner.observed) == 6


class ReusingEnvironment(SpecEnvironment):
    """Fills the same array of observations in every step, at an address with this remainder modulo 64."""

    def __init__(self, remainder):
        spec = BoundedArraySpec((3,), np.float32, 0, 1000)
        super().__init__(2, spec, BoundedArraySpec((), np.int32, 0, 4), SCALAR)
        memory = np.zeros(256, np.uint8)
        start = (remainder - memory.__array_interface__["data"][0]) % 64
        self._array = memory[start : start + 24].view(np.float32).reshape(2, 3)
        self._count = 0

    def _time_step(self):
        self._array[:] = self._count
        self._count += 1
        return super()._time_step()._replace(observation=self._array)


@pytest.mark.parametrize("remainder", [0, 4, 32])
@pytest.mark.parametrize("driver_class", [ASYNC, SYNC])
def test_an_environment_may_fill_the_same_array_in_every_step(driver_class, remainder):
    env = ReusingEnvironment(remainder)
    learner = RecordingLearner(FrozenPolicy(env))
    driver = build_driver(driver_class, [env], learner, unroll_length=3)
    try:
        driver.start()
        collect_and_observe(driver)
        collect_and_observe(driver)
    finally:
        driver.stop()
    for unroll, experience in enumerate(learner.observed):
        rows = np.reshape(experience.observation, (4, 2, 3))
        assert (rows == np.arange(3 * unroll, 3 * unroll + 4).reshape(4, 1, 1)).all()
