# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""EnvThread: steps one batched environment and fills the learn queue. EnvUnroller has its loop.

The loop is a graph: `unroll` steps an environment T times in a `tf.while_loop` whose body calls Python for
the step alone. The synchronous driver runs the same loop.
"""

import functools
import weakref

import numpy as np
import tensorflow as tf

from alf.data_structures import FIRST, Experience, Frame, LogRecord, TimeStep
from alf.drivers.driver_thread import DriverThread
from alf.errors import ConfigError, check_bool
from alf.nest_utils import (
    add_leading_dims,
    find_mismatch,
    find_structure_mismatch,
    zero_where,
    zeros_from_spec,
)
from alf.tf_patches import keep_python_thread


class EnvUnroller:
    """Unrolls environments. One traced graph serves all of them: they differ in `env_index`, a tensor.

    Args:
        envs: list of batched environments. An array that an environment returns must not be written again.
        specs: their `EnvSpecs`.
        policy: the `Policy` that `ask` asks.
        unroll_length: T.
        ask: callable (env_index, `TimeStep`, `PolicyState`) -> (`PolicyStep`, version), in the graph.
        overwrite_policy_output: see `AsyncOffPolicyDriver`.
        env_turn: `Semaphore` with the permit to step, where environments take turns; None if they do not.

    Raises:
        ConfigError: if `overwrite_policy_output` is wrong, or the policy's actions are not the environments'.
    """

    def __init__(self, envs, specs, policy, unroll_length, ask, overwrite_policy_output=False, env_turn=None):
        check_bool("overwrite_policy_output", overwrite_policy_output)
        self._envs = list(envs)
        self._specs = specs
        if overwrite_policy_output and not all(hasattr(env, "taken_action") for env in self._envs):
            raise ConfigError("overwrite_policy_output is True, but an environment has no taken_action()")
        mismatch = find_mismatch(policy.action_spec, specs.action)
        if mismatch:
            raise ConfigError(f"the policy's action_spec is not that of the environments: {mismatch}")
        self._unroll_length = unroll_length
        self._ask = ask
        self._env_turn = env_turn
        self._overwrites = overwrite_policy_output
        self._policy_step_spec = policy.policy_step_spec
        self._errors = {}  # env_index -> the exception that its environment raised
        batch_size = self._specs.batch_size
        array_spec = self._envs[0].observation_spec()
        self._observation_spec = add_leading_dims(self._specs.observation, batch_size)
        self._is_nested = tf.nest.is_nested(array_spec)
        # What the arrays of each step must be, to check that at the price of a comparison.
        self._array_types = [((batch_size, *s.shape), np.dtype(s.dtype)) for s in tf.nest.flatten(array_spec)]
        self._signal_shapes = [(batch_size,), (batch_size, *self._specs.reward.shape), (batch_size,)]

    @property
    def num_restarts(self):
        """How often worker processes of the environments were restarted, an int."""
        return sum(getattr(env, "num_restarts", 0) for env in self._envs)

    def close(self):
        """Closes the environments."""
        for env in self._envs:
            env.close()

    def run(self, function, env_index, *args):
        """Calls a traced function for an environment.

        Args:
            function: callable (env_index, *args).
            env_index: int.
            *args: further arguments.

        Raises:
            Exception: what the environment raised, with its own traceback. TensorFlow would pass on its text.
        """
        try:
            return function(tf.constant(env_index, tf.int32), *args)
        except tf.errors.OpError:
            if env_index in self._errors:
                raise self._errors[env_index] from None
            raise

    def first_frame(self, env_index):
        """Resets an environment and asks for its first action.

        Args:
            env_index: int32 scalar.

        Returns:
            `Frame`.
        """
        batch_size = self._specs.batch_size
        step_type, reward, discount, observation = self._call_env(env_index, self._reset, [env_index])
        prev_action = zeros_from_spec(self._specs.action, batch_size)
        time_step = TimeStep(step_type, reward, discount, observation, prev_action, env_id=())
        state = zeros_from_spec(self._policy_step_spec.state, batch_size)
        return Frame(time_step, state, *self._ask(env_index, time_step, state))

    def next_frame(self, env_index, frame):
        """Steps an environment with the action of a `Frame` and asks for the next one; returns a `Frame`."""
        action = frame.policy_step.action
        inputs = [env_index, *tf.nest.flatten(action)]
        step_type, reward, discount, observation = self._call_env(env_index, self._step, inputs)
        if self._overwrites:
            action = self._taken_action(env_index, step_type)
        prev_action = zero_where(tf.equal(step_type, FIRST), action)
        time_step = TimeStep(step_type, reward, discount, observation, prev_action, env_id=())
        state = frame.policy_step.state
        return Frame(time_step, state, *self._ask(env_index, time_step, state))

    def unroll(self, env_index, frame):
        """Runs T steps from `frame`, which becomes row 0.

        Args:
            env_index: int32 scalar.
            frame: `Frame`, the last one of the unroll before.

        Returns:
            the last `Frame`, which is row 0 of the next unroll; and the unroll, an `Experience`.
        """
        length = self._unroll_length + 1
        arrays = [
            tf.TensorArray(x.dtype, length, element_shape=x.shape).write(0, x)
            for x in tf.nest.flatten(_row_of(frame))
        ]

        def body(t, needed, arrays):
            frame = self.next_frame(env_index, needed)
            row = tf.nest.flatten(_row_of(frame))
            arrays = [array.write(t, x) for array, x in zip(arrays, row, strict=True)]
            return t + 1, _needed_for_next(frame), arrays

        # One iteration at a time: a step needs the action of the step before.
        start = (tf.constant(1), _needed_for_next(frame), arrays)
        _, needed, arrays = tf.while_loop(lambda t, *_: t < length, body, start, parallel_iterations=1)
        rows = tf.nest.pack_sequence_as(_row_of(frame), [array.stack() for array in arrays])
        last = tf.nest.map_structure(lambda x: x[-1], rows)
        last = last._replace(
            state=needed.state, policy_step=last.policy_step._replace(state=needed.policy_step.state)
        )
        time_step, action = rows.time_step, rows.policy_step.action
        if self._overwrites:
            # The action that was taken in the last row is not known yet: it is in row 0 of the next unroll.
            action = tf.nest.map_structure(
                lambda taken, own: tf.concat([taken[1:], own[-1:]], axis=0), time_step.prev_action, action
            )
        ones = tf.ones_like(time_step.step_type)
        time_step = time_step._replace(env_id=ones * self._specs.env_ids(env_index))
        unroll = Experience(
            *time_step,
            action=action,
            info=rows.policy_step.info,
            policy_version=tf.cast(ones, tf.int64) * rows.version[:, tf.newaxis],
            state=frame.state,
        )
        return last, unroll

    def _call_env(self, env_index, method, inputs):
        """Calls Python from the graph; returns step type, reward, discount and observation of [B, ...]."""
        dtypes = [tf.float32, *(s.dtype for s in tf.nest.flatten(self._observation_spec))]
        call = functools.partial(_call_python, method, inputs, dtypes)
        packed, *observation = call() if self._env_turn is None else self._env_turn.hold(1, inputs, call)
        packed.set_shape((_num_signals(self._specs.reward), self._specs.batch_size))
        for x, (shape, _) in zip(observation, self._array_types, strict=True):
            x.set_shape(shape)
        step_type, reward, discount = _unpack_signals(packed, self._specs.reward)
        return step_type, reward, discount, tf.nest.pack_sequence_as(self._observation_spec, observation)

    def _taken_action(self, env_index, step_type):
        """The action that led to the environment's last step, in place of the policy's."""
        spec = add_leading_dims(self._specs.action, self._specs.batch_size)
        leaves = tf.nest.flatten(spec)
        with tf.control_dependencies([step_type]):
            action = _call_python(self._get_taken_action, [env_index], [s.dtype for s in leaves])
        for x, s in zip(action, leaves, strict=True):
            x.set_shape(s.shape)
        return tf.nest.pack_sequence_as(spec, action)

    def _reset(self, env_index):
        return self._guard(env_index, lambda env: self._pack(env_index, env.reset()))

    def _step(self, env_index, *action):
        action = tf.nest.pack_sequence_as(self._specs.action, action)
        return self._guard(env_index, lambda env: self._pack(env_index, env.step(action)))

    def _get_taken_action(self, env_index):
        def get(env):
            action = env.taken_action()
            mismatch = find_mismatch(action, add_leading_dims(self._specs.action, self._specs.batch_size))
            if mismatch:
                raise ConfigError(
                    f"envs[{env_index}].taken_action() returned what its specs do not say: {mismatch}"
                )
            return [np.asarray(x) for x in tf.nest.flatten(action)]

        return self._guard(env_index, get)

    def _guard(self, env_index, call):
        """Calls an environment and keeps the exception that it raises, for `run`."""
        keep_python_thread()
        try:
            return call(self._envs[env_index])
        except BaseException as error:
            self._errors[int(env_index)] = error
            raise

    def _pack(self, env_index, time_step):
        """Checks a time step of NumPy arrays against the specs, and packs it for TensorFlow.

        On the hot path, so each check is one comparison as long as the step fits.
        """
        nested = time_step.observation
        observation = [np.asarray(x) for x in tf.nest.flatten(nested)]
        fits = [(x.shape, x.dtype) for x in observation] == self._array_types
        if self._is_nested or tf.nest.is_nested(nested):
            fits = fits and find_structure_mismatch(nested, self._observation_spec) is None
        if not fits:
            mismatch = find_mismatch(nested, self._observation_spec)
            raise ConfigError(
                f"envs[{env_index}] returned an observation that does not fit its observation_spec with "
                f"batch_size = {self._specs.batch_size}: {mismatch}"
            )
        shapes = [np.shape(x) for x in time_step[:3]]
        if shapes != self._signal_shapes:
            step_type, reward, discount = shapes
            raise ConfigError(
                f"envs[{env_index}] returned step_type {step_type}, discount {discount} and reward {reward}, "
                f"which do not fit batch_size {self._specs.batch_size} and reward_spec "
                f"{self._specs.reward.shape}"
            )
        return [_pack_signals(time_step), *observation]


class EnvThread(DriverThread):
    """Unrolls environment `env_index` again and again.

    Args:
        coord, tf_queues: as in `DriverThread`.
        env_index: int.
        unroller: `EnvUnroller`.
        first_frame: traced function (env_index) -> `Frame`.
        unroll: traced function (env_index, frame) -> the first `Frame` of the next unroll. It puts the unroll
            into the learn queue and the log queue.
    """

    def __init__(self, coord, tf_queues, env_index, unroller, first_frame, unroll):
        super().__init__(coord, tf_queues, name=f"EnvThread-{env_index}")
        self._env_index = env_index
        self._unroller = unroller
        self._first_frame = first_frame
        self._unroll = unroll
        self._frame = None

    def prepare(self):
        self._frame = self._unroller.run(self._first_frame, self._env_index)

    def work(self):
        self._frame = self._unroller.run(self._unroll, self._env_index, self._frame)


def make_log_record(unroll):
    """The `LogRecord` of an unroll: all rows but the last, which is row 0 of the next unroll."""
    return LogRecord(unroll.step_type[:-1], unroll.reward[:-1], unroll.discount[:-1], unroll.env_id[0])


def _row_of(frame):
    """What an unroll keeps of each frame. It keeps the state of row 0 alone."""
    return frame._replace(state=(), policy_step=frame.policy_step._replace(state=()))


def _needed_for_next(frame):
    """What the next frame depends on. A loop copies each tensor that it carries, in every iteration."""
    return frame._replace(time_step=(), policy_step=frame.policy_step._replace(info=()), version=())


def _call_python(method, inputs, dtypes):
    """Calls a bound method from the graph with NumPy arrays; returns tensors of the dtypes."""
    # TensorFlow keeps what it is given here until the process ends: a weak reference keeps no environment.
    reference = weakref.WeakMethod(method)
    return tf.numpy_function(lambda *args: reference()(*args), inputs, dtypes)


# `tf.numpy_function` takes about 12 us of GIL time for each array that it returns. So step type, discount and
# reward (or its R components) travel as the rows of one float32 array [S, B], which holds them exactly.


def _num_signals(reward_spec):
    return 2 + (reward_spec.shape.num_elements() or 1)


def _pack_signals(time_step):
    reward = np.asarray(time_step.reward, np.float32)
    packed = np.empty((2 + reward[0].size, len(reward)), np.float32)
    packed[0] = time_step.step_type
    packed[1] = time_step.discount
    packed[2:] = reward.T
    return packed


def _unpack_signals(packed, reward_spec):
    """Reverses `_pack_signals`; returns step type, reward and discount."""
    step_type, discount, *reward = tf.unstack(packed)
    reward = reward[0] if reward_spec.shape.rank == 0 else tf.stack(reward, axis=-1)
    return tf.cast(step_type, tf.int32), reward, discount
