# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""AsyncOffPolicyDriver: environments and actors run while the learner trains, coupled by queues."""

import collections
import contextlib
import functools
from collections.abc import Sequence
from typing import Annotated, Any

import tensorflow as tf
from absl import logging

from alf.config.kinds import PositiveFloat
from alf.config.settings import PASSED, configurable
from alf.core.annotations import Environment
from alf.core.devices import device_of
from alf.core.nest_utils import add_leading_dims
from alf.core.tf_runtime import (
    SPARE_THREADS,
    GraphFunction,
    reserve_threads,
    single_threaded,
    trace,
)
from alf.data_structures import Experience, split_unroll
from alf.drivers.actor_thread import ActorThread, answer_frame, choose_actor_device, serve
from alf.drivers.collector_thread import Collectors, CollectorThread, hand_over_all
from alf.drivers.driver import Driver
from alf.drivers.driver_settings import DriverSettings, Monitoring
from alf.drivers.env_thread import EnvThread
from alf.drivers.graph_steps import count_nested_threads
from alf.drivers.log_thread import LogThread, make_log_record, to_arrays
from alf.drivers.metrics import Metric
from alf.drivers.prefetch_thread import PrefetchThread
from alf.drivers.stage_clock import ASK, COPY, INFERENCE, StageClock
from alf.drivers.tf_queues import TFQueues
from alf.drivers.threads import QUEUE_CLOSED
from alf.drivers.unroller import EnvUnroller
from alf.drivers.weights import get_weights
from alf.errors import ConfigError
from alf.policies.policy import Policy


@configurable("alf.drivers")
class AsyncOffPolicyDriver(Driver):
    """Steps environments and chooses actions while the learner trains, in threads that queues connect.

    Each environment has a thread, or shares one with others (`num_env_threads`), that steps it and asks an
    actor for actions. An actor is a thread that answers `actor_queue_cap` requests at a time, the oldest
    first; with `num_actor_queues = 0` there is none, and the environments' threads call the policy. T
    transitions of one environment make an unroll, which waits in the learn queue. `DriverSettings.mode` says
    which unrolls make a batch.

    Args:
        envs, policy, unroll_length, settings, monitoring, overwrite_policy_output, metrics: as in `Driver`.
        collectors: `Collectors` in other processes, whose unrolls enter the same learn queue; `envs` may be
            empty then. None: all environments are in this process.

    Raises:
        ConfigError: if an argument is wrong; if a thread would wait for ever with these settings; if
            TensorFlow has started with too few threads.
    """

    def __init__(
        self,
        envs: Sequence[Environment],
        policy: Policy,
        unroll_length: PositiveFloat = 8,
        settings: DriverSettings | None = None,
        monitoring: Monitoring | None = None,
        overwrite_policy_output: bool = False,
        collectors: Collectors | None = None,
        metrics: Annotated[Sequence[Metric], PASSED] = (),
    ) -> None:
        super().__init__(
            envs, policy, unroll_length, settings, monitoring, overwrite_policy_output, collectors, metrics
        )
        self._learner_device = device_of(policy)
        self.settings = settings = self.settings.choose(self._envs, self._learner_device)
        specs, num_groups = self.specs, len(self._envs)
        if specs is None:
            raise ConfigError("envs is empty: a driver needs at least one batched environment, or collectors")
        settings.check(num_groups, self._num_sources, self.monitoring.stall_timeout)
        if settings.is_ordered and collectors is not None:
            collectors.check_all_answer(settings.mode)
        num_loops, num_actors = settings.count_threads(num_groups)
        logging.info(
            "groups: %d of %d environments, threads: %d, actors: %d (num_groups, num_env_threads and "
            "num_actor_queues choose others)",
            num_groups,
            specs.batch_size,
            num_loops,
            num_actors,
        )
        # Each loop occupies a thread of TensorFlow, also while it waits. The learner must still find threads.
        num_threads = num_loops + num_actors + settings.prefetch
        reserve_threads(num_threads + SPARE_THREADS + count_nested_threads(self._envs))
        self._num_unrolls = settings.count_unrolls(self._num_sources)
        num_steps = self._num_unrolls * self._unroll_length
        self._max_batches = settings.find_max_batches(self._num_sources, num_steps)
        self.batch_shape = self._num_unrolls, self._unroll_length, specs.batch_size
        rows = settings.actor_queue_cap * specs.batch_size * num_groups // max(1, num_loops)
        self.actor_device = choose_actor_device(settings.actor_device, policy, rows)
        self._copy_period = settings.copy_period(self.actor_device != self._learner_device)
        self._acting = policy  # what the actors read: the policy itself, or a copy
        if self._copy_period is not None:
            with tf.device(self.actor_device):
                self._acting = policy = policy.copy()
        self._record_spec = specs.record_spec(self._unroll_length, self._log_fields)
        # No more than the batch that was ordered can wait.
        self._queue_length = self._num_unrolls * (1 if settings.is_ordered else settings.max_waiting_batches)
        self._loop_specs = loop_specs = specs.share(num_loops) if num_groups else specs
        self._tf_queues = queues = TFQueues(
            loop_specs.frame_spec(policy),
            loop_specs.reply_spec(policy),
            self._make_unroll_spec(),
            self._record_spec,
            num_loops,
            num_actors,
            settings.actor_queue_cap,
            self._queue_length,
            # Room for a slow metric, so that it does not stop the environments; bounded, so that memory is.
            4 * self._num_sources,
        )
        self._dequeue = GraphFunction(self._dequeue_ordered if settings.is_ordered else self._dequeue_batch)
        self._sort = GraphFunction(self._sort_unrolls)
        self._take_batch: Any = functools.partial(self._dequeue, ())
        self._order = GraphFunction(self._order_unrolls)
        if num_groups:
            self.clocks.actors += [StageClock() for _ in range(num_actors)]
            self.clocks.environments += [StageClock() for _ in range(num_loops)]
            ask, stage = (queues.ask_actor, ASK) if num_actors else (None, INFERENCE)
            self._threads.unroller = self._unroller = EnvUnroller(
                self._envs,
                specs,
                policy,
                self._unroll_length,
                ask,
                self.clocks.environments,
                overwrite_policy_output,
                settings.sticky,
                stage,
            )
        collector_orders: list[Any] = [] if collectors is None else [queues.collector_orders]
        self._orders = [*queues.unroll_orders, *collector_orders]
        self._published = None  # the version of the weights that the collectors have
        self._collector_thread: Any = None
        self._set_aside: Any = collections.deque()  # batches that `_make_room` has taken, for `collect`

    def _make_unroll_spec(self):
        """Returns the specs of an unroll in the learn queue: an `Experience` of [T+1, B, ...]."""
        return self.specs.unroll_spec(
            self._acting,
            self._unroll_length,
            keep_bounds=False,
            with_env_info=bool(self.specs.info_keys),
        )

    def start(self) -> None:
        """Traces the loops, one trace for all threads of a kind, in this thread; then starts the threads.

        Raises:
            RuntimeError: if called twice, or after `stop`.
        """
        self._threads.begin()
        # The copy dates from the constructor; since then the learner may have loaded a checkpoint.
        if self._copy_period is not None:
            self._acting.assign(self.policy)
        common = self._threads.coord, self._tf_queues
        # In lockstep and overlap `collect` logs, so that metrics show each batch and nothing later.
        threads: list[Any] = [] if self.settings.is_ordered else [LogThread(*common, self._log)]
        env_threads: list[Any] = []
        # The threads call the graphs in this context, so they must be traced in it.
        with single_threaded():
            if self._envs:
                actors, env_threads = self._make_sampling_threads()
                threads += [*actors, *env_threads]
            if self._collectors is not None:
                threads.append(self._make_collector_thread())
            if self.settings.prefetch:
                threads.append(PrefetchThread(*common, trace(self._load_batch)))
                self._take_batch = threads[-1].take
            if self.settings.mode == "overlap":
                # `get_training_exps` orders all other batches. If the queue is closed, `collect` says why.
                with contextlib.suppress(*QUEUE_CLOSED):
                    self._order(())
        self._threads.start(threads, env_threads)

    def _make_sampling_threads(self):
        """Makes a list of `ActorThread`s and a list of `EnvThread`s."""
        queues, index = self._tf_queues, tf.TensorSpec((), tf.int32)
        if not self.clocks.actors:
            # Now, because the stream may be replaced before. Not a method: the graphs would hold the driver.
            self._unroller.ask_policy = functools.partial(answer_frame, *self._answering(), self._loop_specs)
        # All traces are made before a thread starts: the threads only call finished graphs.
        first_frame = self._unroller.trace(self._unroller.first_frame, tf.TensorSpec((), tf.int64))
        unroll = self._unroller.trace(self._unroll_and_enqueue, self._loop_specs.frame_spec(self._acting))
        settings = self.settings
        served = *self._answering(), self._loop_specs, queues, settings.actor_queue_cap
        serve_actor = trace(functools.partial(serve, *served), index, index) if self.clocks.actors else None
        common, num_threads = (self._threads.coord, queues), self._unroller.num_loops
        env_threads = [
            EnvThread(
                *common,
                i,
                self._unroller,
                first_frame,
                unroll,
                clock,
                queues.unroll_orders[i] if settings.is_ordered else None,
                settings.start_spread * i / num_threads,
            )
            for i, clock in enumerate(self.clocks.environments)
        ]
        actors = [ActorThread(*common, i, serve_actor, clock) for i, clock in enumerate(self.clocks.actors)]
        return actors, env_threads

    def _answering(self) -> tuple[Any, Any, Any, Any]:
        """Returns what answers need: policy, stream, device, and the permits to read weights that change."""
        weights = None if self._copy_period is None else self._tf_queues.weights
        return self._acting, self.stream, self.actor_device, weights

    def _make_collector_thread(self):
        """Starts the collectors in other processes, and makes the thread that receives their unrolls."""
        spec = add_leading_dims(self._make_unroll_spec(), None)
        hand_over = trace(functools.partial(hand_over_all, self._hand_over, spec), tf.nest.flatten(spec))
        # Before the start: the first unrolls need the weights.
        self._publish_weights()
        self._collectors.start(self._unroll_length)
        orders = self._tf_queues.collector_orders if self.settings.is_ordered else None
        clock = StageClock()
        self.clocks.collectors.append(clock)
        self._collector_thread = CollectorThread(
            self._threads.coord, self._tf_queues, self._collectors, hand_over, clock, orders
        )
        return self._collector_thread

    def get_training_exps(self) -> Experience:
        """Waits for Q unrolls and takes them from the learn queue.

        Returns:
            `Experience` [Q, T+1, B, ...] (`state` [Q, B, ...]).

        Raises:
            tf.errors.OutOfRangeError: if the driver has stopped; with `prefetch` also CancelledError.
        """
        with self._waiting():
            batch = self._set_aside.popleft() if self._set_aside else self._take_batch()
        if not self.settings.is_ordered:
            return batch
        unrolls, records = batch
        self._go_on()  # First of all: the environments stand still until then.
        self._log_all(records)
        return self._sort(unrolls)

    def _log_all(self, records):
        """Calls metrics and observers with the records of a batch, in the order of the environments."""
        arrays = to_arrays(records)
        for i in arrays["env_id"][:, 0].argsort():
            self._log(tf.nest.map_structure(lambda x, i=i: x[i], arrays))

    def _drop_collected(self):
        if self.settings.mode == "overlap":
            with self._waiting(), single_threaded():
                self._take_batch()

    def _go_on(self):
        """Lets the environments make the next batch, if they do so while the learner trains."""
        if self.settings.mode == "overlap":
            # All environments have made their unrolls, so no actor acts while the weights change.
            with single_threaded():
                self._renew_weights()
                self._order(())

    def _dequeue_batch(self, _):
        return self._tf_queues.learn_queue.dequeue_many(self._num_unrolls)

    def _dequeue_ordered(self, _):
        """Takes an unroll of each environment, and their records for the log, in any order."""
        # The dependency keeps the executor from waiting for unrolls before they are ordered.
        ordered = [self._order_unrolls(())] if self.settings.mode == "lockstep" else []
        with tf.control_dependencies(ordered):
            queues = self._tf_queues.learn_queue, self._tf_queues.log_queue
            return tuple(queue.dequeue_many(self._num_unrolls) for queue in queues)

    def _sort_unrolls(self, experience):
        # Unrolls arrive in the order in which threads finish; sorted, a batch does not depend on it.
        by_env = tf.argsort(experience.env_id[:, 0, 0])
        return tf.nest.map_structure(lambda x: tf.gather(x, by_env), experience)

    def _order_unrolls(self, _):
        """Orders one unroll of each environment, so that a batch has exactly one of each; returns True."""
        with tf.control_dependencies([orders.enqueue(True) for orders in self._orders]):
            return tf.constant(True)

    def _load_batch(self):
        experience = self._dequeue_batch(())
        with tf.device(self._learner_device):
            return tf.nest.map_structure(tf.identity, experience)

    def _take_batches(self):
        with single_threaded():
            if self.settings.mode != "overlap":
                # Before a batch is taken, so that actors use the new weights while this thread waits.
                self._renew_weights()
            return super()._take_batches()

    def _renew_weights(self):
        """Copies the weights to the actors and to the collectors, if their copies are too old."""
        publishes, self._publishes_next = self._publishes_next, False
        period = self._copy_period
        if period is not None:
            # The counter is one of the copied variables, so the copy itself says how old it is. Weights
            # that were copied from elsewhere count as an update (`Learner.note_copied_weights`).
            age = int(self.policy.progress.updates) - int(self._acting.progress.updates)
            if publishes or age >= period:
                # A wait that `StallWatch` measures: an actor gives its permit back only after its answer.
                with self._waiting(COPY):
                    self._copy_weights()
                self.num_broadcasts += 1
        if self._collectors is not None:
            age = int(self.policy.progress.updates) - self._published
            if publishes or age >= self._collectors.broadcast_interval:
                self._publish_weights()
                self.clocks.learner.lap(COPY)

    def _ask_collectors(self, method, *args):
        thread = self._collector_thread
        return [] if thread is None else [thread.ask(functools.partial(thread.ask_collectors, method, *args))]

    def _make_room(self, waiting):
        # For unrolls that were ordered there is always room. Otherwise a thread answers once its unroll is in
        # the learn queue. If that is full, only this thread could make room, and it waits for the answer: so
        # it takes a batch, which the next `collect` gets. But not while all threads that it waits for step an
        # environment, or have not begun: meanwhile batches would gather without end.
        unroller, collectors = self._threads.unroller, self._threads.num_loops  # whose thread comes last
        is_handing_over = any(
            i == collectors
            or (not unroller.begins[i] and all(unroller.calls[env] is None for env in unroller.members(i)))
            for i in waiting
        )
        may_be_full = is_handing_over and not self.settings.is_ordered
        if may_be_full and self._tf_queues.learn_queue.size() == self._queue_length:
            # A queue that closes now is not the error: `_ask` raises that for which the driver ends.
            with single_threaded(), contextlib.suppress(*QUEUE_CLOSED):
                self._set_aside.append(self._take_batch())

    def _wake(self):
        # Other waits end by themselves: start delays at the stop, waits for collectors in half a second.
        self._tf_queues.close()

    def _count_due_batches(self):
        if self.settings.mode != "poll":
            return super()._count_due_batches()
        # Nobody else takes unrolls, so those that are counted now are still there when they are taken.
        num_ready = len(self._set_aside) + self._tf_queues.learn_queue.size() // self._num_unrolls
        return num_ready if self._max_batches is None else min(num_ready, self._max_batches)

    def queue_sizes(self) -> dict[str, int]:
        return self._tf_queues.sizes()

    @tf.function(autograph=False)
    def _copy_weights(self):
        """Copies the weights while it holds the permits of all actors, so that no actor acts meanwhile."""

        def copy():
            # `hold` gives the permits back when this output is there, so it must wait for all assignments.
            with tf.control_dependencies(self._acting.assign(self.policy)):
                return tf.constant(True)

        weights = self._tf_queues.weights
        weights.hold(weights.num_permits, [], copy)

    def _unroll_and_enqueue(self, env_index, frame):
        """Makes an unroll of each environment of a loop and hands them over, in the graph.

        Returns the first `Frame` of the next unroll, and the seconds [2] of `TFQueues.hand_over`.
        """
        frame, unroll = self._unroller.unroll(env_index, frame)
        waits = tf.zeros(2, tf.float64)
        for part in split_unroll(unroll, self._loop_specs.batch_size // self.specs.batch_size):
            # One after another, so that the waits add up.
            with tf.control_dependencies([waits]):
                waits += self._hand_over(part)
        return frame, waits

    def _hand_over(self, unroll):
        """Puts an unroll into the queues as `TFQueues.hand_over` does."""
        record = make_log_record(unroll, self._record_spec)
        return self._tf_queues.hand_over(record, unroll)

    def _publish_weights(self):
        """Gives the collectors the policy's weights; later requests use them."""
        # Read before the weights, in the thread that updates them: both are of the same update.
        self._published = int(self.policy.progress.updates)
        self.num_broadcasts += 1
        self._collectors.publish(get_weights(self.policy, self._collectors.weights_dtype))
