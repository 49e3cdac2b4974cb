# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""SyncOffPolicyDriver: the same data as the asynchronous driver's, without threads or queues."""

import gin
import tensorflow as tf

from alf.data_structures import count_transitions
from alf.drivers.actor_thread import act
from alf.drivers.driver import Driver
from alf.drivers.env_specs import EnvSpecs
from alf.drivers.env_thread import EnvUnroller, make_log_record
from alf.errors import ConfigError
from alf.tf_runtime import reserve_threads, single_threaded


@gin.configurable(module="alf.drivers")
class SyncOffPolicyDriver(Driver):
    """Unrolls all environments, one after another, then lets the learner observe: Q is the number of them.

    The asynchronous driver is tested against it. It is also the choice for debugging.

    Args:
        envs: list of batched environments that agree on batch size and specs. The driver closes them.
        learner, unroll_length, observers, metrics: as in `Driver`; `unroll_length` must be above 0.
        overwrite_policy_output: as in `AsyncOffPolicyDriver`.
    """

    def __init__(
        self, envs, learner, unroll_length=8, observers=(), metrics=(), overwrite_policy_output=False
    ):
        if unroll_length == 0:
            raise ConfigError("unroll_length is 0: a synchronous driver would never collect anything")
        super().__init__(learner, unroll_length, observers, metrics, envs)
        specs = EnvSpecs(self._envs)
        learner.check_batch_size(specs.num_envs * specs.batch_size)
        reserve_threads(2)

        def ask(env_index, time_step, state):
            return act(learner.policy, time_step._replace(env_id=specs.env_ids(env_index)), state)

        policy, length = learner.policy, self._unroll_length
        self._unroller = EnvUnroller(self._envs, specs, policy, length, ask, overwrite_policy_output)
        self._unroll = tf.function(self._unroller.unroll, autograph=False)
        self._frames = None

    def start(self):
        if self._frames is not None or self._stopped:
            raise RuntimeError("start() works once: make a new driver to start again")
        with single_threaded():
            first_frame = tf.function(self._unroller.first_frame, autograph=False)
            self._frames = [self._unroller.run(first_frame, index) for index in range(len(self._envs))]

    def get_training_exps(self):
        """Unrolls all environments; returns as in `AsyncOffPolicyDriver`."""
        unrolls = []
        with single_threaded():
            for index, frame in enumerate(self._frames):
                self._frames[index], unroll = self._unroller.run(self._unroll, index, frame)
                unrolls.append(unroll)
                self._log(make_log_record(unroll))
        experience = tf.nest.map_structure(lambda *x: tf.stack(x), *unrolls)
        return experience, count_transitions(experience.step_type)

    def collect(self):
        if self._frames is None or self._stopped:
            raise RuntimeError("collect() needs a driver that runs: call start() first, and not after stop()")
        if not self._is_collection_due():
            return 0
        experience, steps = self.get_training_exps()
        self.learner.observe(experience)
        return int(steps)
