# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""SyncOffPolicyDriver: makes the same data as the asynchronous driver, one environment at a time."""

import functools
import queue
from collections.abc import Sequence
from typing import Annotated, Any

import tensorflow as tf

from alf.config.kinds import PositiveFloat
from alf.config.settings import PASSED, configurable
from alf.core.annotations import Environment
from alf.core.devices import device_of
from alf.core.tf_runtime import SPARE_THREADS, reserve_threads, single_threaded
from alf.data_structures import Experience
from alf.drivers.actor_thread import answer_frame, choose_actor_device
from alf.drivers.driver import Driver
from alf.drivers.driver_settings import DriverSettings, Monitoring
from alf.drivers.graph_steps import count_nested_threads
from alf.drivers.log_thread import make_log_record, to_arrays
from alf.drivers.metrics import Metric
from alf.drivers.stage_clock import HAND_OVER, INFERENCE, REST, StageClock
from alf.drivers.threads import DriverThread
from alf.drivers.unroller import EnvUnroller
from alf.errors import ConfigError
from alf.policies.policy import Policy


@configurable("alf.drivers")
class SyncOffPolicyDriver(Driver):
    """Unrolls all environments, one after another.

    A batch holds one unroll of each, so Q is their number. Use this driver for debugging; tests compare the
    asynchronous driver with it.

    Args:
        envs, policy, unroll_length, settings, monitoring, overwrite_policy_output, metrics: as in `Driver`.
        collectors: must be None: this driver cannot wait for several processes at a time.
    """

    def __init__(
        self,
        envs: Sequence[Environment],
        policy: Policy,
        unroll_length: PositiveFloat = 8,
        settings: DriverSettings | None = None,
        monitoring: Monitoring | None = None,
        overwrite_policy_output: bool = False,
        collectors: Any = None,
        metrics: Annotated[Sequence[Metric], PASSED] = (),
    ) -> None:
        if collectors is not None:
            raise ConfigError(
                "SyncOffPolicyDriver has no collectors, but num_collectors is not 0: use "
                "AsyncOffPolicyDriver; with DriverSettings.mode = 'lockstep' it learns from the same unrolls"
            )
        super().__init__(
            envs, policy, unroll_length, settings, monitoring, overwrite_policy_output, metrics=metrics
        )
        if not self._envs:
            raise ConfigError("envs is empty: a driver needs at least one batched environment")
        if self.settings.prefetch:
            raise ConfigError(
                "DriverSettings.prefetch is True: SyncOffPolicyDriver collects nothing while the learner "
                "trains; use AsyncOffPolicyDriver in the mode 'async'"
            )
        specs = self.specs
        self.batch_shape = specs.num_groups, self._unroll_length, specs.batch_size
        # The thread of the environments, and the caller.
        reserve_threads(2 + SPARE_THREADS + count_nested_threads(self._envs))
        self.actor_device = choose_actor_device(self.settings.actor_device, policy, specs.batch_size)
        self._acting = policy  # what acts: the policy itself, or a copy on another device
        if self.actor_device != device_of(policy):
            with tf.device(self.actor_device):
                self._acting = policy = policy.copy()
        self.clocks.environments.append(StageClock())
        self._threads.unroller = self._unroller = EnvUnroller(
            self._envs,
            specs,
            policy,
            self._unroll_length,
            None,
            self.clocks.environments * specs.num_groups,  # one thread steps all of them
            overwrite_policy_output,
            sticky=self.settings.sticky,
            ask_stage=INFERENCE,
        )
        self._handover = Handover()

    def start(self) -> None:
        """Traces the graphs, starts the thread, and waits until all environments are reset."""
        self._threads.begin()
        self._renew_weights()
        # Not in the constructor: the stream may be replaced until now. No permits: the learner rests while
        # the policy acts.
        answering = self._acting, self.stream, self.actor_device, None, self.specs
        self._unroller.ask_policy = functools.partial(answer_frame, *answering)
        # Traced in the same context in which the thread calls them: a loop that was traced outside cannot run
        # there.
        with single_threaded():
            first_frame = self._unroller.trace(self._unroller.first_frame, tf.TensorSpec((), tf.int64))
            unroll = self._unroller.trace(self._unroll_and_log, self.specs.frame_spec(self._acting))
        (clock,) = self.clocks.environments
        num_groups, common = self.specs.num_groups, (self._threads.coord, self._handover)
        thread = UnrollThread(*common, num_groups, self._unroller, first_frame, unroll, clock)
        # One thread steps all environments. If it hangs in one of them, only this one waits for the thread to
        # be closed: the others are in no call.
        self._threads.start([thread], [thread] * num_groups)
        # The first outcome comes when all environments are reset. An error of a reset is raised here.
        self._take()

    def get_training_exps(self) -> Experience:
        """Unrolls all environments.

        Returns:
            `Experience` [Q, T+1, B, ...] (`state` [Q, B, ...]).
        """
        # The thread rests between two orders, so the policy does not change while it acts.
        self._renew_weights()
        self._handover.orders.put(True)
        unrolls = self._take()
        # Metrics and observers run in the thread of the caller, in the order of the environments.
        with single_threaded():
            for _, record in unrolls:
                self._log(to_arrays(record))
        return tf.nest.map_structure(lambda *x: tf.stack(x), *(unroll for unroll, _ in unrolls))

    @property
    def repeats(self) -> bool:
        return True

    def _renew_weights(self):
        """Copies the weights to the actors' device, if that is not the learner's."""
        if self._acting is not self.policy:
            self._copy_weights()
            self.num_broadcasts += 1

    @tf.function(autograph=False)
    def _copy_weights(self):
        self._acting.assign(self.policy)

    def _unroll_and_log(self, env_index, frame):
        """Makes one unroll in the graph.

        Returns the first `Frame` of the next unroll, and the pair of `Experience` and `LogRecord`.
        """
        frame, unroll = self._unroller.unroll(env_index, frame)
        spec = self.specs.record_spec(self._unroll_length, self._log_fields)
        return frame, (unroll, make_log_record(unroll, spec))

    def _take(self):
        """Waits for the next outcome of the thread and returns it; raises the error that ended the thread."""
        with self._waiting():
            outcome = self._handover.outcomes.get()
        # A thread that ends puts None to wake this one: the outcome counts only if nothing stops.
        self._threads.raise_if_stopping()
        return outcome

    def _wake(self):
        self._handover.close()


class Handover:
    """The two queues between the thread of a synchronous driver and its caller.

    Attributes:
        orders: `queue.SimpleQueue`; for each True the thread makes an unroll of each environment, for each
            False it answers what it was asked.
        outcomes: `queue.SimpleQueue`: first None, when all environments are reset; then lists of pairs of
            `Experience` and `LogRecord`, one for each environment.
    """

    def __init__(self):
        # Without a bound: the caller puts an order only after it took the last outcome, so neither grows, and
        # `close`, which may run in any thread, never waits for a place.
        self.orders = queue.SimpleQueue()
        self.outcomes = queue.SimpleQueue()

    def close(self):
        """Wakes all threads that wait; may be repeated, from any thread."""
        # One None for each side is enough: one thread takes from each queue, and it ends after that.
        self.orders.put(None)
        self.outcomes.put(None)


class UnrollThread(DriverThread):
    """Resets all environments, then makes an unroll of each one for each order.

    It is a thread of its own so that `collect`, which waits for it, can be interrupted while an environment
    hangs.

    Args:
        coord, queues: as in `DriverThread`; `queues` is a `Handover`.
        num_groups: int.
        unroller: `EnvUnroller`.
        first_frame: traced function `EnvUnroller.first_frame`.
        unroll: traced function (env_index, frame) -> the first `Frame` of the next unroll, and the pair of
            `Experience` and `LogRecord`.
        clock: `StageClock` of this thread.
    """

    def __init__(self, coord, queues, num_groups, unroller, first_frame, unroll, clock):
        super().__init__(coord, queues, "UnrollThread")
        self._num_groups = num_groups
        self._unroller = unroller
        self._first_frame = first_frame
        self._unroll = unroll
        self._clock = clock
        self._frames = None

    def ask(self, function):
        future = super().ask(function)
        self._queues.orders.put(False)
        return future

    def work(self):
        # One environment after another, in one thread, so that runs with the same seed make the same data.
        indices = range(self._num_groups)
        if self._frames is None:
            self._clock.lap(REST)
            self._frames = [self._unroller.begin(self._first_frame, index) for index in indices]
            self._queues.outcomes.put(None)
        elif self._queues.orders.get():
            self._clock.lap(HAND_OVER)
            done = []
            for index in indices:
                if self._unroller.begins[index]:
                    self._frames[index] = self._unroller.begin(self._first_frame, index)
                done.append(self._unroller.run(self._unroll, index, self._frames[index]))
                self._clock.lap(REST)
            self._frames = [frame for frame, _ in done]
            self._queues.outcomes.put([unroll for _, unroll in done])
        else:
            self.answer()
