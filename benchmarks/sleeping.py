# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Real collectors whose environments sleep in each step, as if they computed on other machines."""

import time

from alf.drivers import EnvSpecs
from alf.drivers.collector import Collector
from alf.policies import ActorCriticPolicy
from alf.testing.toy_environments import NullEnvironment


class SleepingEnvironment(NullEnvironment):
    """A `NullEnvironment` whose step takes `seconds`, without the CPU."""

    def __init__(self, seconds, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._seconds = seconds

    def _step(self, action):
        time.sleep(self._seconds)
        return super()._step(action)


def make_policy(specs):
    return ActorCriticPolicy(specs.observation, specs.action)


def make_sleeping(batch_size, observation_dim, seconds, index, num_restarts, num_groups, **settings):
    """Makes a `Collector`: called as `RayCollectors` calls its `make_collector`, after the first three."""
    make_env = lambda: SleepingEnvironment(seconds, batch_size, observation_dim, 1000)  # noqa: E731
    envs = [make_env() for _ in range(num_groups)]
    return Collector(envs, make_policy(EnvSpecs(envs)), **settings)
