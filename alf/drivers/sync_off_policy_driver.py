# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""SyncOffPolicyDriver: the same data as the asynchronous driver's, without threads or queues."""

import gin
import tensorflow as tf

from alf.data_structures import count_transitions
from alf.drivers.env_thread import log_record
from alf.drivers.off_policy_driver import OffPolicyDriver
from alf.drivers.unroll import EnvUnroller
from alf.errors import ConfigError
from alf.tf_runtime import reserve_threads, single_threaded


@gin.configurable(module="alf.drivers")
class SyncOffPolicyDriver(OffPolicyDriver):
    """Unrolls all environments, one after another, then lets the algorithm observe: Q = num_envs.

    The reference that the asynchronous driver is tested against, and the choice for debugging.

    Args:
        envs, algorithm, unroll_length, observers, metrics, exp_replayer, overwrite_policy_output: as in
            `OffPolicyDriver`; an `unroll_length` of 0 is none for it.
    """

    def __init__(
        self,
        envs,
        algorithm,
        unroll_length=8,
        observers=(),
        metrics=(),
        exp_replayer="one_time",
        overwrite_policy_output=False,
    ):
        if unroll_length == 0:
            raise ConfigError("unroll_length is 0: a synchronous driver would never collect anything")
        super().__init__(
            envs, algorithm, unroll_length, observers, metrics, exp_replayer, overwrite_policy_output
        )
        algorithm.check_batch_size(self.num_envs * self.batch_size)
        reserve_threads(2)
        self._unroller = EnvUnroller(
            self._envs,
            self._specs,
            self._policy_step_spec,
            self._unroll_length,
            self._ask_policy,
            overwrite_policy_output,
        )
        self._unroll = tf.function(self._unroller.unroll, autograph=False)
        self._frames = None
        self._stopped = False

    def start(self):
        if self._frames is not None or self._stopped:
            raise RuntimeError("start() works once: make a new driver to start again")
        with single_threaded():
            first_frame = tf.function(self._unroller.first_frame, autograph=False)
            self._frames = [self._call(first_frame, index) for index in range(self.num_envs)]

    def get_training_exps(self):
        unrolls = []
        with single_threaded():
            for index, frame in enumerate(self._frames):
                self._frames[index], unroll = self._call(self._unroll, index, frame)
                unrolls.append(unroll)
                self._log(unroll)
        experience = tf.nest.map_structure(lambda *x: tf.stack(x), *unrolls)
        return experience, count_transitions(experience.step_type)

    def run(self):
        if self._frames is None or self._stopped:
            raise RuntimeError("run() needs a driver that runs: call start() first, and not after stop()")
        return self._observe_training_exps() if self._collects_now() else 0

    def stop(self):
        if not self._stopped:
            self._stopped = True
            self._close_envs()

    def interrupt(self):
        """Nothing waits in another thread."""

    def _call(self, function, index, *args):
        try:
            return function(tf.constant(index, tf.int32), *args)
        except tf.errors.OpError:
            if index in self._unroller.errors:
                raise self._unroller.errors[index] from None
            raise

    def _ask_policy(self, env_index, *request):
        request = tf.nest.map_structure(lambda x: x[tf.newaxis], (env_index, *request))
        (policy_step,), version = self._policy(*request)
        return policy_step, version

    def _log(self, unroll):
        record = tf.nest.map_structure(lambda x: x.numpy(), log_record(unroll))
        for observer in self._observers:
            observer(record)
