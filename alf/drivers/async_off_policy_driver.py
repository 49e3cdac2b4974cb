# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""AsyncOffPolicyDriver: environments, actors and the learner run at the same time, coupled by queues."""

import functools
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NoReturn

import tensorflow as tf

from alf.config.kinds import NonNegativeFloat, NonNegativeInt, PositiveInt
from alf.config.settings import Role, Timeout, configurable
from alf.core.annotations import Array, Environment
from alf.core.nest_utils import add_leading_dims
from alf.core.tf_runtime import (
    SPARE_THREADS,
    GraphFunction,
    check_device,
    on_device,
    reserve_threads,
    single_threaded,
    trace,
)
from alf.data_structures import Experience, LogRecord, count_transitions
from alf.drivers.actor_thread import ActorThread, serve
from alf.drivers.collector_thread import Collectors, CollectorThread
from alf.drivers.driver import Driver
from alf.drivers.env_thread import EnvThread, EnvUnroller, make_log_record
from alf.drivers.log_thread import LogThread
from alf.drivers.metrics import EpisodeStatistics
from alf.drivers.policy_queues import PolicyQueues
from alf.drivers.queues import NestFIFOQueue
from alf.drivers.stage_clock import COPY, StageClock
from alf.drivers.tf_queues import TFQueues
from alf.drivers.weights import get_weights
from alf.errors import ConfigError
from alf.learner import LearnerGroup
from alf.learner.learner import Learner


@configurable("alf.drivers")
class AsyncOffPolicyDriver(Driver):
    """Actors keep predicting while the learner keeps learning.

    Each environment has a thread that steps it and asks the actor of its queue for actions. Each actor
    answers `actor_queue_cap` environments at a time, those that ask first. T transitions of one environment
    make an unroll. The learner takes `learn_queue_cap` unrolls at a time, those that are ready: a batch may
    hold an environment twice and another one not at all.

    Args:
        envs, observers, metrics: as in `Driver`.
        learner: as in `Driver`. With a `LearnerGroup` each policy has a learn queue, see `PolicyQueues`, and
            `collect` takes the batch that is complete first, of any policy.
        unroll_length: as in `Driver`. With 0, `collect` takes what waits in the learn queue, which may be
            nothing, in unrolls of one step.
        num_actor_queues: actors, each with a thread and a queue; environment i belongs to actor
            i % num_actor_queues.
        learn_queue_cap: Q, unrolls that `get_training_exps` takes; at most the number of environments.
        actor_queue_cap: K, environments that an actor answers at a time. 1 gives the quickest answer; more
            costs less for each environment. num_actor_queues * K is at most the number of environments.
        max_waiting_batches: how many times Q unrolls may wait in the learn queue. 0 is lockstep: the
            environments collect while `collect` waits and stand still while the learner trains. A batch
            then holds one unroll of every environment, in their order, as a `SyncOffPolicyDriver` gives it.
        max_unroll_length: with an `unroll_length` of 0, how many steps of each environment `collect` takes at
            most, on average over the environments; None: all that wait.
        parameter_update_period: updates after which the actors get new weights. They act with a copy that
            changes between two answers and never within one. None: they read the learner's weights, which
            change at any time.
        actor_device: text, the TensorFlow device that has this copy and where the policy acts, such as
            "GPU:1". None leaves the choice to TensorFlow.
        overwrite_policy_output: whether the environments say which actions were taken in place of the
            policy's, by `taken_action()` -> nest of [B, ...], the actions of their last step: those of a
            person or a script, for instance. `Experience.action` and `prev_action` are these then. For
            algorithms that learn from them rather than from `info`.
        one_env_at_a_time: whether environments take turns to step. Right for several that compute in Python:
            they hold the GIL, and to wait for one's turn costs less than to wait for the GIL. Wrong for those
            that wait or compute outside Python.
        sticky: whether a sub-environment whose episode ends in an unroll waits for the next unroll: its other
            rows repeat the FIRST step of its next episode, which is no transition. The environments must be
            able to hold single sub-environments, as `PythonEnvironment` is, or have a `batch_size` of 1. With
            T above the length of every episode, each unroll begins with an episode and holds all of it.
        start_spread: seconds; environment i of E starts i / E of them later than the first one, so that
            unrolls, slow resets and ends of episodes come evenly from the beginning, not all at once. 0: all
            start at once.
        collectors: `Collectors` in other processes, whose unrolls enter the same learn queue; `envs` may be
            empty then. None: there are none.
        stop_timeout, stall_timeout, on_stall, statistics_ctor: as in `Driver`.

    Raises:
        ConfigError: if an argument is wrong; if a thread would wait for ever with these numbers; if
            TensorFlow has started with too few threads.
    """

    def __init__(
        self,
        envs: Sequence[Environment],
        learner: Learner | LearnerGroup,
        unroll_length: NonNegativeFloat = 8,
        observers: Annotated[Sequence[Callable[[LogRecord], Any]], Role.MEASUREMENT] = (),
        metrics: Annotated[Sequence[Any], Role.MEASUREMENT] = (),
        num_actor_queues: PositiveInt = 1,
        learn_queue_cap: PositiveInt = 1,
        actor_queue_cap: PositiveInt = 1,
        max_waiting_batches: NonNegativeInt = 1,
        max_unroll_length: PositiveInt | None = None,
        parameter_update_period: PositiveInt | None = None,
        actor_device: Annotated[str | None, Role.EXECUTION] = None,
        overwrite_policy_output: bool = False,
        sticky: bool = False,
        one_env_at_a_time: bool = False,
        start_spread: Annotated[NonNegativeFloat, Role.EXECUTION] = 0.0,
        stop_timeout: Timeout = 5.0,
        stall_timeout: Timeout | None = 300.0,
        on_stall: Annotated[Literal["error", "warn"], Role.EXECUTION] = "error",
        statistics_ctor: Annotated[Callable[..., Any], Role.MEASUREMENT] = EpisodeStatistics,
        collectors: Collectors | None = None,
    ) -> None:
        rest = stop_timeout, stall_timeout, on_stall, statistics_ctor, collectors
        super().__init__(envs, learner, unroll_length, observers, metrics, *rest)
        specs, num_envs = self._specs, len(self._envs)
        if specs is None:
            raise ConfigError("envs is empty: a driver needs at least one batched environment, or collectors")
        if isinstance(learner, LearnerGroup):
            _check_group(unroll_length, learn_queue_cap, max_waiting_batches)
        if num_envs:
            _check_actors(num_envs, num_actor_queues, actor_queue_cap, max_waiting_batches)
        _check_learn_queue(self._num_sources, learn_queue_cap, max_waiting_batches, unroll_length)
        if max_waiting_batches == 0 and collectors is not None:
            _check_all_answer(collectors)
        self._published = None  # how many updates the weights of the collectors have seen
        _check_start_spread(start_spread, stall_timeout)
        self._start_spread = start_spread
        self._max_batches = float("inf")
        if max_unroll_length is not None:
            max_unrolls = max_unroll_length * self._num_sources
            self._max_batches = max_unrolls // learn_queue_cap
            if unroll_length != 0:
                raise ConfigError(f"max_unroll_length is {max_unroll_length}: unroll_length must be 0 then")
        self.batch_shape = learn_queue_cap, self._unroll_length, specs.batch_size
        reserve_threads(num_envs + num_actor_queues + SPARE_THREADS)
        self._learn_queue_cap = learn_queue_cap
        self._is_lockstep = max_waiting_batches == 0
        self._takes_what_waits = unroll_length == 0
        self._update_period = parameter_update_period
        copies = parameter_update_period is not None
        self._policy = policy = _make_policy(learner.policy, parameter_update_period, actor_device)
        self._record_spec = specs.record_spec(self._unroll_length, self._log_fields)
        self._tf_queues = queues = TFQueues(
            specs.frame_spec(policy),
            specs.reply_spec(policy),
            self._make_learn_queue(max_waiting_batches),
            self._record_spec,
            num_envs,
            num_actor_queues if num_envs else 0,
            actor_queue_cap,
            # Room for a slow metric, so that it does not stop the environments; bounded, so that memory is.
            4 * self._num_sources,
        )
        self._dequeue = GraphFunction(self._dequeue_batch)
        self._serve = functools.partial(serve, policy, actor_device, specs, queues, actor_queue_cap, copies)
        if num_envs:
            self.clocks.actors += [StageClock() for _ in range(num_actor_queues)]
            self._unroller = self._make_unroller(one_env_at_a_time, overwrite_policy_output, sticky)
        self._env_threads = []
        collector_orders: list[Any] = [] if collectors is None else [queues.collector_orders]
        self._orders = [*queues.unroll_orders, *collector_orders]

    def _make_learn_queue(self, max_waiting_batches):
        """Makes the learn queue, of several policies their queues, and what takes a batch from it."""
        if isinstance(self.learner, LearnerGroup):
            queues = PolicyQueues(
                self._policy, self._specs, self.learner, self._unroll_length, max_waiting_batches
            )
            self._take = queues.take
            return queues
        spec = self._specs.unroll_spec(
            self._policy,
            self._unroll_length,
            keep_bounds=False,
            with_env_info=self.learner.uses_env_info,
        )
        self._take = self.get_training_exps
        return NestFIFOQueue(self._learn_queue_cap * max(max_waiting_batches, 1), spec, "learn_queue")

    def _make_unroller(self, one_env_at_a_time, overwrite_policy_output, sticky):
        """Makes what steps the environments, and their clocks."""
        self.clocks.takes_turns = one_env_at_a_time
        self.clocks.environments += [StageClock() for _ in self._envs]
        return EnvUnroller(
            self._envs,
            self._specs,
            self._policy,
            self._unroll_length,
            self._tf_queues.ask_actor,
            self.clocks.environments,
            overwrite_policy_output,
            self._tf_queues.env_turn if one_env_at_a_time else None,
            sticky,
        )

    def start(self) -> None:
        """Traces every loop in this thread, once for all threads of its kind, then starts the threads.

        Raises:
            RuntimeError: if called twice, or after `stop`.
        """
        self._check_starts()
        if self._update_period is not None:  # The learner may have loaded a checkpoint.
            self._policy.assign(self.learner.policy)
        threads = [LogThread(self._coord, self._tf_queues, self._log)]
        with single_threaded():
            if self._envs:
                threads += self._make_sampling_threads()
            if self._collectors is not None:
                threads.append(self._make_collector_thread())
        self._start_threads(threads)

    def _make_sampling_threads(self):
        """Makes the threads of actors and environments."""
        queues, index = self._tf_queues, tf.TensorSpec((), tf.int32)
        first_frame = trace(self._unroller.first_frame, index)
        unroll = trace(self._unroll_and_enqueue, index, self._specs.frame_spec(self._policy))
        serve_actor = trace(self._serve, index, index)
        common, num_envs = (self._coord, queues), len(self._envs)
        self._env_threads = [
            EnvThread(
                *common,
                i,
                self._unroller,
                first_frame,
                unroll,
                clock,
                queues.unroll_orders[i] if self._is_lockstep else None,
                self._start_spread * i / num_envs,
            )
            for i, clock in enumerate(self.clocks.environments)
        ]
        actors = [ActorThread(*common, i, serve_actor, clock) for i, clock in enumerate(self.clocks.actors)]
        return [*actors, *self._env_threads]

    def _make_collector_thread(self):
        """Starts the collectors in other processes, and makes the thread that receives what they send."""
        spec = self._specs.unroll_spec(
            self._policy,
            self._unroll_length,
            keep_bounds=False,
            with_env_info=bool(self._specs.info_keys),
        )
        spec = add_leading_dims(spec, None)
        hand_over = trace(functools.partial(self._hand_over_all, spec), tf.nest.flatten(spec))
        self._publish_weights()
        self._collectors.start(self._unroll_length)
        orders = self._tf_queues.collector_orders if self._is_lockstep else None
        clock = StageClock()
        self.clocks.collectors.append(clock)
        return CollectorThread(self._coord, self._tf_queues, self._collectors, hand_over, clock, orders)

    def get_training_exps(self) -> tuple[Experience, Array]:
        """Takes `learn_queue_cap` unrolls from the learn queue; waits for them.

        Returns:
            `Experience` [Q, T+1, B, ...] (`state` [Q, B, ...]), and the environment steps that it holds, see
            `count_transitions`.

        Raises:
            tf.errors.OutOfRangeError: if the driver has stopped.
        """
        return self._dequeue(())

    def _dequeue_batch(self, _):
        queues = self._tf_queues
        if not self._is_lockstep:
            experience = queues.learn_queue.dequeue_many(self._learn_queue_cap)
        else:
            ordered = [orders.enqueue(True) for orders in self._orders]
            with tf.control_dependencies(ordered):
                experience = queues.learn_queue.dequeue_many(self._num_sources)
            by_env = tf.argsort(experience.env_id[:, 0, 0])
            experience = tf.nest.map_structure(lambda x: tf.gather(x, by_env), experience)
        return experience, count_transitions(experience.step_type)

    def _collect(self, observe):
        self._check_runs()
        publishes, self._publishes_next = self._publishes_next, False
        with single_threaded():
            if self._update_period is not None:
                age = int(self.learner.progress.updates) - int(self._policy.progress.updates)
                if publishes or age >= self._update_period:
                    with self._waiting(COPY):
                        self._copy_weights()
            if self._collectors is not None:
                age = int(self.learner.progress.updates) - self._published
                if publishes or age >= self._collectors.broadcast_interval:
                    self._publish_weights()
                    self.clocks.learner.lap(COPY)
            total = 0
            for _ in range(self._count_due_batches()):
                with self._waiting():
                    experience, steps = self._take()
                observe(experience)
                total += int(steps)
            return total

    def run_async(self) -> int:
        """Another name of `collect`."""
        return self.collect()

    def run(self) -> NoReturn:
        """Refuses: this driver has no synchronous step."""
        raise RuntimeError("AsyncOffPolicyDriver has no run(): call run_async()")

    def _wake(self):
        self._tf_queues.close()

    def _get_stepping_thread(self, env_index):
        return self._env_threads[env_index] if self._env_threads else None

    def _count_due_batches(self):
        if not self._takes_what_waits:
            return super()._count_due_batches()
        return min(self._tf_queues.learn_queue.size() // self._learn_queue_cap, self._max_batches)

    def queue_sizes(self) -> dict[str, int]:
        return self._tf_queues.sizes()

    @tf.function(autograph=False)
    def _copy_weights(self):
        """Copies the weights while it holds the permits of all actors, so that none of them acts."""

        def copy():
            with tf.control_dependencies(self._policy.assign(self.learner.policy)):
                return tf.constant(True)

        self._tf_queues.weights.hold(len(self._tf_queues.actor_queues), [], copy)

    def _unroll_and_enqueue(self, env_index, frame):
        """Makes one unroll and hands it to the log and to the learner, in the graph of an environment.

        Returns the next frame, and what `_hand_over` does.
        """
        frame, unroll = self._unroller.unroll(env_index, frame)
        return frame, self._hand_over(unroll)

    def _hand_over(self, unroll):
        """Hands an unroll to the log and to the learner, in the graph.

        Returns float64 [2], the seconds for which the log queue and the learn queue were full.
        """
        queues = self._tf_queues
        record, item = make_log_record(unroll, self._policy, self._record_spec), self._for_learner(unroll)
        with tf.control_dependencies(tf.nest.flatten((record, item))):
            times = [tf.timestamp()]
        for queue, x in ((queues.log_queue, record), (queues.learn_queue, item)):
            with tf.control_dependencies([times[-1]]):
                enqueued = queue.enqueue(x)
            with tf.control_dependencies([enqueued]):
                times.append(tf.timestamp())
        return tf.stack([times[1] - times[0], times[2] - times[1]])

    def _hand_over_all(self, spec, leaves):
        """Hands an `Experience` over that collectors sent, one unroll after another.

        Returns the sum of what `_hand_over` does.
        """
        unrolls = tf.nest.pack_sequence_as(spec, leaves)

        def hand_over(index, waits):
            unroll = tf.nest.map_structure(lambda x: x[index], unrolls)
            return index + 1, waits + self._hand_over(unroll)

        num_unrolls, start = tf.shape(leaves[0])[0], (0, tf.zeros(2, tf.float64))
        return tf.while_loop(lambda i, _: i < num_unrolls, hand_over, start, parallel_iterations=1)[1]

    def _publish_weights(self):
        """Gives the collectors the learner's weights, for what they do from now on."""
        self._published = int(self.learner.progress.updates)
        self._collectors.publish(get_weights(self.learner.policy, self._collectors.weights_dtype))


def _check_group(unroll_length, learn_queue_cap, max_waiting_batches):
    """Raises ConfigError if settings do not apply where several policies learn."""
    if learn_queue_cap != 1:
        raise ConfigError(
            f"learn_queue_cap is {learn_queue_cap}: with several policies, Policies.num_sequences says how "
            "large a batch is"
        )
    if max_waiting_batches == 0:
        raise ConfigError(
            "max_waiting_batches is 0: it must be at least 1 with several policies, because an unroll may "
            "have nothing for a policy"
        )
    if unroll_length == 0 or unroll_length != int(unroll_length):
        raise ConfigError(
            f"unroll_length is {unroll_length:g}: it must be an integer above 0 with several policies"
        )


def _make_policy(policy, update_period, device):
    """Returns the policy that the actors act with: the learner's own, or a copy of it on a device."""
    if device is not None and update_period is None:
        raise ConfigError(
            f"actor_device is {device!r}: the weights must be copied there; set parameter_update_period"
        )
    check_device("actor_device", device)
    with on_device(device):
        return policy if update_period is None else policy.copy()


def _check_start_spread(start_spread, stall_timeout):
    """Raises ConfigError if `collect` could take the environment that starts last for one that hangs."""
    if stall_timeout is not None and start_spread >= stall_timeout:
        raise ConfigError(
            f"start_spread is {start_spread:g}: it must be less than stall_timeout = {stall_timeout:g}, "
            "because collect may wait for the environment that starts last"
        )


def _check_all_answer(collectors):
    """Raises ConfigError unless an answer of each collector is an unroll of each environment."""
    if collectors.num_unrolls * collectors.num_collectors != collectors.num_envs:
        raise ConfigError(
            f"max_waiting_batches is 0: num_unrolls of the collectors must be their num_envs then, not "
            f"{collectors.num_unrolls}"
        )


def _check_actors(num_envs, num_actor_queues, actor_queue_cap, max_waiting_batches):
    """Raises ConfigError if an actor would wait for ever."""
    if num_envs < num_actor_queues * actor_queue_cap:
        raise ConfigError(
            f"num_envs is {num_envs}, less than num_actor_queues * actor_queue_cap = {num_actor_queues} * "
            f"{actor_queue_cap}: an actor would wait for ever for more environments than it has"
        )
    if max_waiting_batches == 0 and actor_queue_cap > 1 and actor_queue_cap * num_actor_queues != num_envs:
        raise ConfigError(
            "max_waiting_batches is 0: actor_queue_cap must be 1 then, or num_envs / num_actor_queues = "
            f"{num_envs} / {num_actor_queues}, not {actor_queue_cap}: an actor would wait for environments "
            "that have collected"
        )


def _check_learn_queue(num_envs, learn_queue_cap, max_waiting_batches, unroll_length):
    """Raises ConfigError if a capacity is wrong, or the learner would wait for ever."""
    if learn_queue_cap > num_envs:
        raise ConfigError(
            f"learn_queue_cap is {learn_queue_cap}, more than num_envs = {num_envs}: the learner would wait "
            "for several unrolls of the same environment"
        )
    if max_waiting_batches > 0:
        return
    if unroll_length == 0:
        raise ConfigError(
            "max_waiting_batches is 0: unroll_length must not be 0 then, because no unroll ever waits"
        )
    if learn_queue_cap != num_envs:
        raise ConfigError(
            "max_waiting_batches is 0: learn_queue_cap must be num_envs = "
            f"{num_envs} then, not {learn_queue_cap}"
        )
