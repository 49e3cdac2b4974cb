# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Collector: environments and actors for a learner in another process. It exchanges NumPy arrays."""

import dataclasses

import numpy as np
import tensorflow as tf

from alf.drivers.async_off_policy_driver import AsyncOffPolicyDriver
from alf.drivers.driver_settings import DriverSettings, Monitoring
from alf.drivers.episode_statistics import EpisodeStatistics
from alf.drivers.weights import set_weights
from alf.ops.draws import ENVIRONMENTS, Stream


class Collector:
    """Makes unrolls for a learner in another process.

    Its actors use a copy of the policy. New weights come between two answers of an actor, never within one.

    Args:
        envs: list of batched environments, as in `Driver`. The collector closes them.
        policy: `Policy` for these environments; the learner's weights replace the values of its variables.
        first_env_id: int, `Experience.env_id` of the first sub-environment. Collectors have different ones,
            so that no two sub-environments have the same id.
        num_envs: int, the sub-environments of all processes; None: those of `envs`.
        driver: callable (envs, policy, unroll_length=, settings=, monitoring=) -> `AsyncOffPolicyDriver`.
        unroll_length: T, transitions of an unroll.
        num_unrolls: N, unrolls that `collect` returns. If N is the number of environments, each makes one
            unroll, and they stand still between two calls. If N is less, the environments go on between
            calls, until N unrolls wait.
        seed: int, from which the draws of the policy follow; None draws one.
    """

    def __init__(
        self,
        envs,
        policy,
        first_env_id=0,
        num_envs=None,
        driver=AsyncOffPolicyDriver,
        unroll_length=8,
        num_unrolls=1,
        seed=None,
    ):
        self._policy = policy
        self._first_env_id = first_env_id
        for one in policy.policies.values() if num_envs else ():
            one.use_envs(first_env_id, num_envs)
        settings = dataclasses.replace(
            DriverSettings(),
            mode="lockstep" if num_unrolls == len(envs) else "async",
            learn_queue_cap=num_unrolls,
            max_waiting_batches=1,
            max_unroll_length=None,
            prefetch=False,
            # The copy lets `set_weights` write while actors act; `collect` copies if the counter of updates,
            # one of the variables that come with the weights, has grown.
            parameter_update_period=1,
        )
        # The user's observers and metrics see the steps where the learner is. By position, because gin would
        # make the bound ones even if keywords replace them.
        monitoring = Monitoring((), (), EpisodeStatistics)
        self._driver = driver(
            envs, policy, unroll_length=unroll_length, settings=settings, monitoring=monitoring
        )
        self._driver.stream = Stream(seed, ENVIRONMENTS)
        self._is_started = False

    def collect(self, weights=None):
        """Waits for N unrolls.

        Args:
            weights: list of arrays that `get_weights` returned for the learner's policy. None keeps the
                present weights.

        Returns:
            list of arrays, which travel faster than a nest: the leaves of an `Experience` [N, T+1, B, ...]
            (`state` [N, B, ...]), as `tf.nest.flatten` orders them. It has the `env_info` of the
            environments even if the learner does not need it.

        Raises:
            ConfigError: if the weights do not fit the policy.
            Exception: any error of `Driver.collect`.
        """
        # `Driver.collect` copies them to the actors, between two answers.
        if weights is not None:
            set_weights(self._policy, weights)
        # Not in the constructor: the weights come with the first call, and with N below the number of
        # environments these act from the start on.
        if not self._is_started:
            self._driver.start()
            self._is_started = True
        # One batch: `unroll_length` is an int and the mode is not "poll".
        (experience,) = self._driver.collect()
        # The driver counts its sub-environments from 0, as the drivers of all other collectors do.
        experience = experience._replace(env_id=experience.env_id + np.int32(self._first_env_id))
        return [x.numpy() for x in tf.nest.flatten(experience)]

    def call_envs(self, method, *args):
        """Calls a method of each environment; returns a list, as `Driver.call_envs` does."""
        return self._driver.call_envs(method, *args)

    def set_attr(self, name, value):
        """Sets an attribute of each environment, as `Driver.set_attr` does."""
        self._driver.set_attr(name, value)

    def close(self):
        """Ends all threads and closes the environments, as `Driver.stop` does."""
        self._driver.stop()
