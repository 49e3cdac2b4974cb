# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Numbers of an environment that are not finite end the run before anybody learns from them."""

import time

import numpy as np
import pytest
from tf_agents.specs import BoundedArraySpec

from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.errors import EnvError
from alf.testing.fakes import FrozenPolicy, RecordingLearner, RecordingObserver, SpecEnvironment

DRIVERS = [AsyncOffPolicyDriver, SyncOffPolicyDriver]
OBSERVATION = {
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


@pytest.mark.parametrize("driver_class", DRIVERS)
@pytest.mark.parametrize(
    "observation_spec, reward_spec, get, place, text",
    [
        (SCALAR, SCALAR, lambda t: t.reward, 1, "in reward of sub-environment 1,"),
        (SCALAR, VECTOR, lambda t: t.reward, (0, 2), r"in reward\[2\] of sub-environment 0,"),
        (SCALAR, SCALAR, lambda t: t.observation, 0, "in observation of sub-environment 0,"),
        (
            OBSERVATION,
            SCALAR,
            lambda t: t.observation["more"][0],
            (1, 1),
            r"in observation more/0\[1\] of sub-e",
        ),
        (OBSERVATION, SCALAR, lambda t: t.observation["more"][1], 1, "in observation more/1 of sub-e"),
    ],
    ids=["reward", "vector", "observation", "float64", "float16"],
)
@pytest.mark.parametrize("value, at", [(np.nan, 0), (np.inf, 7), (-np.inf, 9)])
def test_a_number_that_is_not_finite(
    driver_class, observation_spec, reward_spec, get, place, text, value, at
):
    envs = [
        BrokenEnvironment(observation_spec, reward_spec),
        BrokenEnvironment(observation_spec, reward_spec, set_at(get, place, value), at),
    ]
    learner, observer = RecordingLearner(FrozenPolicy(envs[0])), RecordingObserver()
    driver = driver_class(envs, learner, unroll_length=3, observers=[observer])
    row = at if at <= 3 else (at - 1) % 3 + 1
    text = rf"^envs\[1\] \(BrokenEnvironment\) returned {value} {text}.* in row {row} of an unroll"
    try:
        with pytest.raises(EnvError, match=text):
            driver.start()
            end = time.monotonic() + 60  # the other environment may be far ahead on a busy machine
            while time.monotonic() < end:
                driver.collect()
    finally:
        driver.stop()
    assert all(np.isfinite(record.reward).all() for record in observer.records)
    for experience in learner.observed:
        assert all(np.isfinite(x).all() for x in np.atleast_1d(experience.reward))
        leaves = [experience.observation] if observation_spec is SCALAR else experience.observation["more"]
        assert all(np.isfinite(x).all() for x in leaves)


@pytest.mark.parametrize("driver_class", DRIVERS)
def test_finite_numbers_may_be_large(driver_class):
    """Their sum is not finite in float32, they are."""
    spec = BoundedArraySpec((8,), np.float64, 0, 1e300)
    huge = set_at(lambda t: t.observation, slice(None), 3e38)
    envs = [BrokenEnvironment(spec, SCALAR, huge, at) for at in (2, 5)]
    learner = RecordingLearner(FrozenPolicy(envs[0]))
    driver = driver_class(envs, learner, unroll_length=3)
    try:
        driver.start()
        for _ in range(6):
            driver.collect()
    finally:
        driver.stop()
    assert len(learner.observed) == 6
