# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""AsyncOffPolicyDriver: environments, actors and the learner run at the same time, coupled by queues."""

import gin
import tensorflow as tf

from alf.data_structures import count_transitions
from alf.drivers.actor_thread import ActorThread
from alf.drivers.driver_thread import QUEUE_CLOSED
from alf.drivers.env_thread import EnvThread, log_record
from alf.drivers.log_thread import LogThread
from alf.drivers.off_policy_driver import OffPolicyDriver
from alf.drivers.queues import ActionReply, ActionRequest, TFQueues
from alf.drivers.unroll import EnvUnroller
from alf.errors import ConfigError, check_int, check_number
from alf.tf_runtime import reserve_threads, single_threaded

# Threads of the pool beside those of environments and actors: the learner, the log, and some to spare.
_OTHER_THREADS = 4


@gin.configurable(module="alf.drivers")
class AsyncOffPolicyDriver(OffPolicyDriver):
    """Actors keep predicting while the learner keeps learning.

    Each environment has a thread that steps it and asks the actor of its queue for actions. Each actor
    answers `actor_queue_cap` environments at a time, whichever ask first. T transitions of one
    environment make an unroll; the learner takes `learn_queue_cap` unrolls at a time, whichever are
    ready, so a batch may hold an environment twice and another one not at all.

    Args:
        envs, algorithm, unroll_length, observers, metrics, exp_replayer, overwrite_policy_output: as in
            `OffPolicyDriver`. With an `unroll_length` of 0 the learner takes what waits in the learn queue,
            which may be nothing.
        num_actor_queues: actors, each with a thread and a queue; environment i belongs to actor
            i % num_actor_queues.
        learn_queue_cap: Q, unrolls that `get_training_exps` takes.
        max_waiting_batches: how many times Q unrolls may wait in the learn queue. 0 collects while
            `run_async` waits and not while the algorithm trains, one unroll of every environment, in their
            order: what a `SyncOffPolicyDriver` gives, collected by all environments at the same time.
        parameter_update_period: updates after which the actors get new weights, all at once between two
            answers; they act with a copy. None: they read the learner's weights while these change.
        actor_queue_cap: K, environments that an actor answers at a time. 1 is the quickest answer; more
            costs less for each.
        one_env_at_a_time: whether environments take turns to step. Right for several that compute in Python:
            they hold the GIL, and waiting for one's turn costs less than waiting for the GIL. Wrong for
            those that wait or compute outside Python.
        stop_timeout: seconds that `stop` waits for an environment that does not return from a step.

    Raises:
        ConfigError: if num_envs < num_actor_queues * actor_queue_cap: an actor would wait for ever for
            more environments than it has. If learn_queue_cap > num_envs. If max_waiting_batches is 0 and an
            actor could wait for environments that do not collect. If TensorFlow has started with too few
            threads.
    """

    def __init__(
        self,
        envs,
        algorithm,
        num_actor_queues=1,
        unroll_length=8,
        learn_queue_cap=1,
        actor_queue_cap=1,
        max_waiting_batches=1,
        parameter_update_period=None,
        observers=(),
        metrics=(),
        exp_replayer="one_time",
        overwrite_policy_output=False,
        one_env_at_a_time=False,
        stop_timeout=30.0,
    ):
        if parameter_update_period is not None:
            check_int("parameter_update_period", parameter_update_period)
        self._actor = algorithm if parameter_update_period is None else algorithm.rollout_copy()
        super().__init__(
            envs,
            algorithm,
            unroll_length,
            observers,
            metrics,
            exp_replayer,
            overwrite_policy_output,
            self._actor,
        )
        self._check(num_actor_queues, learn_queue_cap, actor_queue_cap, max_waiting_batches)
        algorithm.check_batch_size(learn_queue_cap * self.batch_size)
        check_number("stop_timeout", stop_timeout, above=0)
        reserve_threads(self.num_envs + num_actor_queues + _OTHER_THREADS)
        self._num_actor_queues = num_actor_queues
        self._learn_queue_cap = learn_queue_cap
        self._actor_queue_cap = actor_queue_cap
        self._max_waiting_batches = max_waiting_batches
        self._in_lockstep = max_waiting_batches == 0
        self._parameter_update_period = parameter_update_period
        self._published = None  # updates that the actors' weights have seen
        self._takes_what_is_there = unroll_length == 0
        self._stop_timeout = stop_timeout
        self._unroller = EnvUnroller(
            self._envs,
            self._specs,
            self._policy_step_spec,
            self._unroll_length,
            self._ask_actor,
            overwrite_policy_output,
        )
        self._tf_queues = self._make_queues()
        if one_env_at_a_time:
            self._unroller.take_turns(self._tf_queues.turn)
        # No error counts as a clean stop here: the threads know which one is (see DriverThread).
        self._coord = tf.train.Coordinator(clean_stop_exception_types=())
        self._threads = []
        self._stopped = False
        self._raised = None  # the thread's error that run_async has raised

    @classmethod
    def from_env_fn(cls, env_fn, num_envs, algorithm, **kwargs):
        """Makes the driver with `num_envs` environments that `env_fn(env_index)` returns."""
        return cls([env_fn(index) for index in range(num_envs)], algorithm, **kwargs)

    def start(self):
        """Traces the loops, in this thread, then starts the threads.

        Raises:
            RuntimeError: if called twice, or after `stop`.
        """
        if self._threads or self._stopped:
            raise RuntimeError("start() works once: make a new driver to start again")
        with single_threaded():
            self._threads = self._make_threads()
            self._publish_weights()
        for thread in self._threads:
            thread.start()

    @tf.function
    def get_training_exps(self):
        """Takes `learn_queue_cap` unrolls from the learn queue; waits for them.

        Returns:
            `Experience` [Q, T+1, B, ...] (`state` [Q, B, ...]), and the environment steps that it holds,
            int64 scalar: transitions between rows, without those that lead to a FIRST row.

        Raises:
            tf.errors.OutOfRangeError: if the driver has stopped.
        """
        experience = self._dequeue_training_exps()
        return experience, count_transitions(experience.step_type)

    def run_async(self):
        """Takes a batch of unrolls and lets the algorithm observe it.

        Returns:
            environment steps in that batch, an int; 0 if it took none, see `unroll_length`.

        Raises:
            RuntimeError: if the driver does not run.
            Exception: whatever ended a thread, as it was raised there.
        """
        if not self._threads or self._stopped:
            raise RuntimeError(
                "run_async() needs a driver that runs: call start() first, and not after stop()"
            )
        self._raise_if_stopping()
        try:
            with single_threaded():
                self._publish_weights()
                return self._collect()
        except QUEUE_CLOSED:
            self._raise_if_stopping()
            raise

    def run(self):
        raise RuntimeError("AsyncOffPolicyDriver has no run(): call run_async()")

    def interrupt(self):
        """Tells all threads to stop and wakes whoever waits for a queue; from any thread, returns at once."""
        self._coord.request_stop()
        self._tf_queues.close()

    def stop(self):
        """Stops and joins all threads and closes the environments; may be repeated, or come before start().

        Raises:
            RuntimeError: if a thread does not end within `stop_timeout` seconds; it names the thread.
            Exception: whatever ended a thread, unless `run_async` has raised it.
        """
        if self._stopped:
            return
        self._stopped = True
        self.interrupt()
        try:
            self._coord.join(self._threads, stop_grace_period_secs=self._stop_timeout)
        except BaseException as error:
            if error is not self._raised:
                raise
        finally:
            # An environment that still steps must not be closed beneath its thread.
            if not any(thread.is_alive() for thread in self._threads):
                self._close_envs()

    def queue_sizes(self):
        return self._tf_queues.sizes()

    def _collect(self):
        if not self._takes_what_is_there:
            return self._observe_training_exps() if self._collects_now() else 0
        num_batches = self._tf_queues.learn_queue.size() // self._learn_queue_cap
        return sum(self._observe_training_exps() for _ in range(num_batches))

    def _dequeue_training_exps(self):
        """`Experience` [Q, T+1, B, ...]."""
        queues = self._tf_queues
        if not self._in_lockstep:
            return queues.learn_queue.dequeue_many(self._learn_queue_cap)
        permitted = [queues.permits.enqueue(i, True) for i in range(self.num_envs)]
        with tf.control_dependencies(permitted):
            experience = queues.learn_queue.dequeue_many(self.num_envs)
        order = tf.argsort(experience.env_id[:, 0, 0])
        return tf.nest.map_structure(lambda x: tf.gather(x, order), experience)

    def _publish_weights(self):
        """Gives the actors new weights if it is time."""
        if self._parameter_update_period is None:
            return
        updates = int(self._algorithm.train_step_counter)
        if self._published is None or updates - self._published >= self._parameter_update_period:
            self._copy_weights()
            self._published = updates

    @tf.function(autograph=False)
    def _copy_weights(self):
        def copy():
            pairs = zip(self._actor.variables, self._algorithm.variables, strict=True)
            with tf.control_dependencies([ours.assign(theirs, read_value=False) for ours, theirs in pairs]):
                return tf.constant(True)

        self._tf_queues.weights.holding([], self._num_actor_queues, copy)

    def _check(self, num_actor_queues, learn_queue_cap, actor_queue_cap, max_waiting_batches):
        for name, value in (
            ("num_actor_queues", num_actor_queues),
            ("learn_queue_cap", learn_queue_cap),
            ("actor_queue_cap", actor_queue_cap),
        ):
            check_int(name, value)
        check_int("max_waiting_batches", max_waiting_batches, at_least=0)
        if self.num_envs < num_actor_queues * actor_queue_cap:
            raise ConfigError(
                f"num_envs is {self.num_envs}, less than num_actor_queues * actor_queue_cap = "
                f"{num_actor_queues} * {actor_queue_cap}: an actor would wait for ever for more environments "
                "than it has"
            )
        if learn_queue_cap > self.num_envs:
            raise ConfigError(
                f"learn_queue_cap is {learn_queue_cap}, more than num_envs = {self.num_envs}: the learner "
                "would wait for several unrolls of the same environment"
            )
        if max_waiting_batches == 0:
            self._check_lockstep(num_actor_queues, learn_queue_cap, actor_queue_cap)

    def _check_lockstep(self, num_actor_queues, learn_queue_cap, actor_queue_cap):
        if learn_queue_cap != self.num_envs:
            raise ConfigError(
                f"max_waiting_batches is 0: learn_queue_cap must be num_envs = {self.num_envs} then, not "
                f"{learn_queue_cap}"
            )
        if actor_queue_cap > 1 and actor_queue_cap * num_actor_queues != self.num_envs:
            raise ConfigError(
                "max_waiting_batches is 0: actor_queue_cap must be 1 then, or num_envs / num_actor_queues = "
                f"{self.num_envs} / {num_actor_queues}, not {actor_queue_cap}: an actor would wait for "
                "environments that have collected"
            )

    def _raise_if_stopping(self):
        """Raises what ended a thread at once: `stop` may have to wait for others first."""
        if not self._coord.should_stop():
            return
        try:
            self._coord.raise_requested_exception()
        except BaseException as error:
            self._raised = error
            raise
        self.stop()
        raise RuntimeError("the driver was interrupted")

    def _make_queues(self):
        frame = self._unroller.frame_spec()
        request = ActionRequest(
            env_index=tf.TensorSpec((), tf.int32),
            signals=frame.signals,
            observation=frame.observation,
            prev_action=frame.prev_action,
            state=frame.state,
        )
        return TFQueues(
            num_envs=self.num_envs,
            num_actor_queues=self._num_actor_queues,
            actor_queue_cap=self._actor_queue_cap,
            learn_queue_capacity=self._learn_queue_cap * max(self._max_waiting_batches, 1),
            request_spec=request,
            reply_spec=ActionReply(frame.policy_step, frame.version),
            unroll_spec=self._unroll_spec(),
            log_spec=self._log_spec(),
        )

    def _ask_actor(self, env_index, signals, observation, prev_action, state):
        request = ActionRequest(env_index, signals, observation, prev_action, state)
        sent = self._tf_queues.actor_queues.enqueue(env_index % self._num_actor_queues, request)
        with tf.control_dependencies([sent]):
            return self._tf_queues.action_return_queues.dequeue(env_index)

    def _serve(self, actor_index, iterations):
        """Answers `iterations` batches of requests."""

        def body(i):
            request = self._tf_queues.actor_queues.dequeue_many(actor_index, self._actor_queue_cap)
            policy_steps, version = self._answer(request)
            env_index = tf.unstack(request.env_index)
            sent = [
                self._tf_queues.action_return_queues.enqueue(index, ActionReply(step, version))
                for index, step in zip(env_index, policy_steps, strict=True)
            ]
            with tf.control_dependencies(sent):
                return i + 1

        tf.while_loop(lambda i: i < iterations, body, [tf.constant(0)], parallel_iterations=1)

    def _answer(self, request):
        if self._parameter_update_period is None:
            return self._policy(*request)
        inputs = tf.nest.flatten(request)
        return self._tf_queues.weights.holding(inputs, 1, lambda: self._policy(*request))

    def _unroll_and_enqueue(self, env_index, frame):
        if self._in_lockstep:
            with tf.control_dependencies([self._tf_queues.permits.dequeue(env_index)]):
                frame = tf.nest.map_structure(tf.identity, frame)
        frame, unroll = self._unroller.unroll(env_index, frame)
        logged = self._tf_queues.log_queue.enqueue(log_record(unroll))
        with tf.control_dependencies([logged]):
            learned = self._tf_queues.learn_queue.enqueue(unroll)
        with tf.control_dependencies([learned]):
            return tf.nest.map_structure(tf.identity, frame)

    def _make_threads(self):
        """Traces every loop once, for all threads of its kind, and makes the threads."""
        index = tf.TensorSpec((), tf.int32)
        first_frame = _traced(self._unroller.first_frame, index)
        unroll = _traced(self._unroll_and_enqueue, index, self._unroller.frame_spec())
        serve = _traced(self._serve, index, index)
        envs = [
            EnvThread(self._coord, self._tf_queues, i, self._unroller, first_frame, unroll)
            for i in range(self.num_envs)
        ]
        actors = [ActorThread(self._coord, self._tf_queues, a, serve) for a in range(self._num_actor_queues)]
        return [*envs, *actors, LogThread(self._coord, self._tf_queues, self._observers)]


def _traced(function, *signature):
    """Makes a `tf.function` that is traced now, in this thread, and never again.

    What it returns is called as a `tf.function`: a call of its concrete function formats every argument as
    text first, which takes milliseconds.
    """
    function = tf.function(function, input_signature=signature, autograph=False)
    function.get_concrete_function()
    return function
