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

    Raises:
        ConfigError: if an argument is wrong.
    """

    def __init__(
        self, envs, learner, unroll_length=8, observers=(), metrics=(), overwrite_policy_output=False
    ):
        if unroll_length == 0:
            raise ConfigError("unroll_length is 0: a synchronous driver would never collect anything")
        super().__init__(learner, unroll_length, observers, metrics)
        envs = list(envs)
        self._specs = EnvSpecs(envs)
        learner.check_batch_size(self._specs.num_envs * self._specs.batch_size)
        reserve_threads(2)
        policy = learner.policy
        self._unroller = EnvUnroller(
            envs,
            self._specs,
            policy,
            self._unroll_length,
            self._ask_policy,
            overwrite_policy_output,
        )
        self._unroll = tf.function(self._unroller.unroll, autograph=False)
        self._frames = None
        self._stopped = False

    def _ask_policy(self, env_index, time_step, state):
        time_step = time_step._replace(env_id=self._specs.env_ids(env_index))
        return act(self.learner.policy, time_step, state)

    @property
    def num_restarts(self):
        return self._unroller.num_restarts

    def start(self):
        if self._frames is not None or self._stopped:
            raise RuntimeError("start() works once: make a new driver to start again")
        with single_threaded():
            first_frame = tf.function(self._unroller.first_frame, autograph=False)
            self._frames = [self._unroller.run(first_frame, index) for index in range(self._specs.num_envs)]

    def get_training_exps(self):
        """Unrolls all environments.

        Returns:
            `Experience` of [Q, T+1, B, ...], and the environment steps that it holds, int64 scalar.
        """
        unrolls = []
        with single_threaded():
            for index, frame in enumerate(self._frames):
                self._frames[index], unroll = self._unroller.run(self._unroll, index, frame)
                unrolls.append(unroll)
                record = tf.nest.map_structure(lambda x: x.numpy(), make_log_record(unroll))
                for observer in self._observers:
                    observer(record)
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

    run = collect

    def stop(self):
        if not self._stopped:
            self._stopped = True
            self._unroller.close()
