# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""overwrite_policy_output: the environment says which actions were taken."""

import numpy as np
import pytest

from alf.data_structures import FIRST
from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.errors import ConfigError
from alf.testing.fakes import FrozenPolicy, RecordingLearner, in_a_row
from alf.testing.toy_environments import CountingEnvironment
from tests.builders import build_driver, collect_and_observe


class Demonstrating(CountingEnvironment):
    """Takes action 1 wherever the step of the episode is a multiple of 3, whatever it was told."""

    def taken_action(self):
        return np.asarray((self._step_in_episode - 1) % 3 == 0, np.int64)


class Mumbling(CountingEnvironment):
    def taken_action(self):
        return np.zeros(7)


def collect(driver_class, *envs, **kwargs):
    learner = RecordingLearner(FrozenPolicy(envs[0]))
    driver = build_driver(driver_class, envs, learner, unroll_length=4, **kwargs)
    try:
        driver.start()
        for _ in range(5):
            collect_and_observe(driver)
    finally:
        driver.stop()
    return [
        type(e)(*(x[0] if i < 9 else () for i, x in enumerate(e)))
        for e in [e._replace(info=e.step_type) for e in learner.observed]
    ]


@pytest.mark.parametrize("driver_class", [SyncOffPolicyDriver, AsyncOffPolicyDriver])
def test_actions_are_those_that_were_taken(driver_class):
    unrolls = collect(driver_class, Demonstrating(2, 5), overwrite_policy_output=True)
    for unroll in unrolls:
        step = unroll.observation[..., 2]
        leads_on = unroll.step_type[1:] != FIRST
        np.testing.assert_array_equal(unroll.action[:-1][leads_on], (step[:-1] % 3 == 0)[leads_on])
        np.testing.assert_array_equal(unroll.prev_action[1:][leads_on], unroll.action[:-1][leads_on])
        assert not unroll.prev_action[unroll.step_type == FIRST].any()
    # The row that two unrolls share differs in the action alone, which the first of them cannot know.
    assert len(in_a_row([u._replace(info=(), weight=()) for u in unrolls]).step_type) == 21


def test_environments_of_one_thread_take_their_own_actions():
    envs = Demonstrating(2, 5), Demonstrating(2, 7, 1)
    settings = {"num_env_threads": 1, "overwrite_policy_output": True}
    unrolls = collect(AsyncOffPolicyDriver, *envs, **settings)
    for unroll in unrolls:
        step, leads_on = unroll.observation[..., 2], unroll.step_type[1:] != FIRST
        np.testing.assert_array_equal(unroll.action[:-1][leads_on], (step[:-1] % 3 == 0)[leads_on])
    assert {int(unroll.env_id[0, 0]) // 2 for unroll in unrolls} == {0, 1}


def test_without_the_setting_they_are_the_policys():
    (unroll, *_) = collect(SyncOffPolicyDriver, Demonstrating(2, 5))
    step = unroll.observation[:-1, :, 2]
    assert np.any(unroll.action[:-1] != (step % 3 == 0))


WRONG = [
    (lambda: Mumbling(2, 5), r"envs\[0\].taken_action\(\) returned"),
    (lambda: CountingEnvironment(2, 5), "overwrite_policy_output is True, but an environment has no"),
]


@pytest.mark.parametrize("make, message", WRONG)
def test_what_an_environment_says_wrongly_or_cannot_say(make, message):
    with pytest.raises(ConfigError, match=message):
        collect(SyncOffPolicyDriver, make(), overwrite_policy_output=True)
