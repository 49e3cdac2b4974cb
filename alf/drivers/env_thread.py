# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""EnvThread: steps one batched environment and fills the learn queue. `EnvUnroller` has its loop.

The synchronous driver runs the same loop.
"""

import itertools
import math
import re
import weakref

import numpy as np
import tensorflow as tf

from alf.core.nest_utils import (
    add_leading_dims,
    find_mismatch,
    find_structure_mismatch,
    list_leaves,
    zero_where,
    zeros_from_spec,
)
from alf.core.tf_patches import keep_python_thread, take_from_tensorflow
from alf.data_structures import OBSERVATION, OWNER, Experience, Frame, TimeStep
from alf.drivers.env_specs import name_env
from alf.drivers.stage_clock import ASK, HAND_OVER, LOG, REST, STEP
from alf.drivers.threads import DriverThread
from alf.errors import ConfigError, EnvError, contain

_NOT_FINITE = "numbers that are not finite"


class EnvUnroller:
    """Unrolls environments. One traced graph serves all of them: they differ in `env_index`, an int32 scalar.

    Args:
        envs: list of batched environments. An array that an environment returns must not be written again.
        specs: their `EnvSpecs`.
        policy: the `Policy` that `ask` asks.
        unroll_length: T.
        ask: callable (env_index, `TimeStep`, `PolicyState`) -> (`PolicyStep`, version), in the graph.
        overwrite_policy_output: see `AsyncOffPolicyDriver`.
        env_turn: `Semaphore` with the permit to step, where environments take turns; None if they do not.
        sticky: see `AsyncOffPolicyDriver`.
        clocks: list of `StageClock`s, that of the thread of each environment.
        ask_stage: text; the stage of that thread from one step to the next.

    Attributes:
        calls: list of what each environment does now: None, or ("reset" or "step", since when in seconds of
            `time.monotonic`) while a call of it has not returned.
    """

    def __init__(
        self,
        envs,
        specs,
        policy,
        unroll_length,
        ask,
        clocks,
        overwrite_policy_output=False,
        env_turn=None,
        sticky=False,
        ask_stage=ASK,
    ):
        _check_holds(sticky, envs, specs.batch_size)
        if overwrite_policy_output and not all(hasattr(env, "taken_action") for env in envs):
            raise ConfigError("overwrite_policy_output is True, but an environment has no taken_action()")
        mismatch = find_mismatch(policy.action_spec, specs.action)
        if mismatch:
            raise ConfigError(f"the policy's action_spec is not that of the environments: {mismatch}")
        self._envs = envs
        self._specs = specs
        self._state_spec = policy.policy_step_spec.state
        self._answer_spec = _answer(*specs.reply_spec(policy))
        self._unroll_length = unroll_length
        self._ask = ask
        self._clocks = clocks
        self._ask_stage = ask_stage
        self._overwrites = overwrite_policy_output
        self._env_turn = env_turn
        self._sticky = sticky
        self._last_steps = [None] * len(envs)  # what `_step` has returned, if sticky
        self.calls = [None] * len(envs)
        self._calls_of_graphs = []  # the functions that the graphs of this object call
        self._closed = False
        self._floats = []  # pairs of name and shape of what `_check_finite` checks
        self._errors = {}  # env_index -> the exception that its environment raised
        self._has_owner = bool(specs.policies)
        self._observation_spec = add_leading_dims(self._split(specs.observation)[0], specs.batch_size)
        self._action_spec = add_leading_dims(specs.action, specs.batch_size)
        # What the arrays of each step must be, to check that at the price of a comparison.
        observation_spec, _ = self._split(envs[0].observation_spec())
        arrays = tf.nest.flatten(observation_spec)
        self._is_nested = tf.nest.is_nested(observation_spec)
        self._array_types = [((specs.batch_size, *s.shape), np.dtype(s.dtype)) for s in arrays]
        self._signal_shapes = [(specs.batch_size, *shape) for shape in ((), specs.reward.shape, ())]
        self._num_signals = 2 + specs.reward.shape.num_elements() + self._has_owner

    def run(self, function, env_index, *args):
        """Calls a traced function (env_index, *args) for an environment; here `env_index` is an int.

        It raises what the environment raised, with its own traceback. TensorFlow would pass on its text.
        """
        try:
            return function(tf.constant(env_index, tf.int32), *args)
        except tf.errors.OpError as error:
            cause = self._errors.get(env_index) or self._find_not_finite(env_index, error.message)
            if cause is None:
                raise
        raise cause

    def close(self):
        """Refuses all further calls of environments; from any thread. Calls that have begun go on.

        An environment without an entry in `calls` is not called any more afterwards.
        """
        self._closed = True

    def first_frame(self, env_index):
        """Resets an environment; returns a `Frame`."""
        time_step, env_info = self._call_env(EnvUnroller._reset, env_index)
        time_step = time_step._replace(prev_action=zeros_from_spec(self._action_spec))
        return Frame(time_step, zeros_from_spec(self._state_spec, self._specs.batch_size), env_info)

    def next_frame(self, env_index, policy_step, is_held=None):
        """Steps an environment with the action of a `PolicyStep`; returns a `Frame`.

        Sub-environments where `is_held`, bool [B], do not step: they return the same FIRST step again.
        """
        action = policy_step.action
        inputs = tf.nest.flatten(action)
        if is_held is None:
            time_step, env_info = self._call_env(EnvUnroller._step, env_index, *inputs)
        else:
            time_step, env_info = self._call_env(EnvUnroller._step_or_hold, env_index, is_held, *inputs)
        if self._overwrites:
            with tf.control_dependencies([time_step.step_type]):  # The action that led to this time step.
                action = self._call_python(EnvUnroller._get_taken_action, [env_index], self._action_spec)
        time_step = time_step._replace(prev_action=zero_where(time_step.is_first(), action))
        return Frame(time_step, policy_step.state, env_info)

    def unroll(self, env_index, frame):
        """Asks for an action and steps, T times, from a `Frame`: the last one of the unroll before.

        Returns:
            the last `Frame`, which is row 0 of the next unroll; and the unroll, an `Experience` with
            `env_info`, if the environments have any.
        """
        length = self._unroll_length
        seen = _write(_make_arrays(length + 1, _seen(frame)), 0, _seen(frame))
        answers = _make_arrays(length, self._answer_spec)

        def body(t, frame, seen, answers):
            policy_step, version = self._ask(env_index, frame.time_step, frame.state)
            answers = _write(answers, t, _answer(policy_step, version))
            # An episode that begins at row 1 follows one that ended in the unroll before: it goes on.
            is_held = frame.time_step.is_first() & (t > 1) if self._sticky else None
            frame = self.next_frame(env_index, policy_step, is_held)
            return t + 1, frame, _write(seen, t + 1, _seen(frame)), answers

        # One iteration at a time: a step needs the action of the step before.
        start = (tf.constant(0), frame, seen, answers)
        _, last, seen, answers = tf.while_loop(lambda t, *_: t < length, body, start, parallel_iterations=1)
        time_step, env_info = tf.nest.pack_sequence_as(_seen(frame), [array.stack() for array in seen])
        # Row T has no answer yet. That of row T-1 has a probability, as one of zeros might not.
        rows = [*range(length), length - 1]
        answers = [array.gather(rows) for array in answers]
        action, info, version = tf.nest.pack_sequence_as(self._answer_spec, answers)
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
            info=info,
            policy_version=tf.cast(ones, tf.int64) * tf.reshape(version, (length + 1, -1)),
            state=frame.state,
            env_info=self._name_env_info(env_info),
        )
        # Every queue needs the reward, so that nothing is enqueued before the check.
        return last, unroll._replace(reward=self._check_finite(env_index, unroll))

    def _check_finite(self, env_index, unroll):
        """Returns the reward of an unroll; fails unless rewards and float observations are finite.

        `_find_not_finite` reads the error's message. A branch that calls Python costs 40 us more.
        """
        names, arrays = zip(*_get_floats(unroll), strict=True)
        self._floats = [(name, x.shape.as_list()) for name, x in zip(names, arrays, strict=True)]
        are_finite = tf.stack([tf.reduce_all(tf.math.is_finite(x)) for x in arrays])
        # `tf.Assert` would put it into a `tf.cond`, which costs 40 us.
        data = [tf.constant(_NOT_FINITE), *arrays]
        fine = tf.raw_ops.Assert(condition=tf.reduce_all(are_finite), data=data, summarize=-1)
        with tf.control_dependencies([fine]):
            return tf.identity(unroll.reward)

    def _find_not_finite(self, env_index, message):
        """Makes an EnvError of the message of `_check_finite`; None for any other message."""
        _, found, text = message.partition(f"[{_NOT_FINITE}]")
        values = iter(re.findall(r"[^][\s]+", text))
        for name, shape in self._floats if found else ():
            array = [float(value) for value in itertools.islice(values, math.prod(shape))]
            array = np.reshape(array, shape)
            places = np.argwhere(~np.isfinite(array)).tolist()
            if places:
                row, column, *place = places[0]
                value, name_of_env = array[tuple(places[0])], name_env(env_index, self._envs[env_index])
                return EnvError(
                    f"{name_of_env} returned {value} in {name}{place or ''} of sub-environment {column}, in "
                    f"row {row} of an unroll of rows 0 to {self._unroll_length}"
                )
        return None

    def _name_env_info(self, env_info):
        """Makes a dict of [T+1, B] from the `env_info` of an unroll's rows, [T+1, K, B]; () without keys."""
        keys = self._specs.info_keys
        return dict(zip(keys, tf.unstack(env_info, axis=1), strict=True)) if keys else ()

    def _call_env(self, method, *inputs):
        """Resets or steps an environment; returns what `Frame` holds of it; prev_action and env_id are ()."""
        num_signals, num_keys = self._num_signals, len(self._specs.info_keys)
        packed_spec = tf.TensorSpec((num_signals + num_keys, self._specs.batch_size), tf.float32)
        call = lambda: self._call_python(method, inputs, (packed_spec, self._observation_spec))  # noqa: E731
        packed, observation = call() if self._env_turn is None else self._env_turn.hold(1, inputs, call)
        env_info = packed[num_signals:] if num_keys else ()
        step_type, discount, *reward = tf.unstack(packed[:num_signals] if num_keys else packed)
        if self._has_owner:
            observation = {OBSERVATION: observation, OWNER: tf.cast(reward.pop(), tf.int32)}
        reward = reward[0] if self._specs.reward.shape.rank == 0 else tf.stack(reward, axis=-1)
        time_step = TimeStep(tf.cast(step_type, tf.int32), reward, discount, observation, (), env_id=())
        return time_step, env_info

    def _call_python(self, method, inputs, spec):
        """Calls `method` from the graph with NumPy arrays, `env_index` first; returns a nest like `spec`."""
        # A weak reference, since `self` keeps `call`: so both are freed at once.
        reference = weakref.ref(self)

        stage = "reset" if method is EnvUnroller._reset else "step"
        times = 0 if method is EnvUnroller._get_taken_action else 1  # it is a part of the step before

        def call(env_index, *arrays):
            keep_python_thread()
            unroller = reference()
            clock = unroller._clocks[env_index]
            unroller.calls[env_index] = stage, clock.lap(unroller._ask_stage, times=times)
            try:
                if unroller._closed:
                    raise RuntimeError("the driver was interrupted")
                return method(unroller, env_index, *arrays)
            except BaseException as error:
                name = name_env(env_index, unroller._envs[env_index])
                unroller._errors[int(env_index)] = error = contain(error, name)
                raise error
            finally:
                unroller.calls[env_index] = None
                clock.lap(STEP, times=times)

        leaves = tf.nest.flatten(spec)
        outputs = tf.numpy_function(call, inputs, [s.dtype for s in leaves])
        self._calls_of_graphs.append(take_from_tensorflow(call))
        for x, s in zip(outputs, leaves, strict=True):
            x.set_shape(s.shape)
        return tf.nest.pack_sequence_as(spec, outputs)

    def _reset(self, env_index):
        return self._pack(env_index, self._envs[env_index].reset())

    def _step(self, env_index, *action):
        action = tf.nest.pack_sequence_as(self._specs.action, action)
        return self._pack(env_index, self._envs[env_index].step(action))

    def _step_or_hold(self, env_index, is_held, *action):
        """As `_step`; returns the step before again if all sub-environments are held."""
        if not is_held.all():
            if is_held.any():
                self._envs[env_index].hold(is_held.nonzero()[0].tolist())
            self._last_steps[env_index] = self._step(env_index, *action)
        return self._last_steps[env_index]

    def _get_taken_action(self, env_index):
        action = self._envs[env_index].taken_action()
        mismatch = find_mismatch(action, self._action_spec)
        if mismatch:
            raise ConfigError(
                f"envs[{env_index}].taken_action() returned what its specs do not say: {mismatch}"
            )
        return [np.asarray(x) for x in tf.nest.flatten(action)]

    def _pack(self, env_index, time_step):
        """Checks a time step of NumPy arrays against the specs, and packs it for TensorFlow.

        On the hot path, so each check is one comparison as long as the step fits.
        """
        nested, owner = self._split(time_step.observation)
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
        # `tf.numpy_function` takes about 12 us of GIL time for each array that it returns. So step type,
        # discount, reward (or its R components), the owner, if there is one, and K numbers of the info travel
        # as the rows of one float32 array, which holds all but the last exactly.
        end, info_keys = self._num_signals, self._specs.info_keys
        packed = np.empty((end + len(info_keys), self._specs.batch_size), np.float32)
        packed[0] = time_step.step_type
        packed[1] = time_step.discount
        packed[2 : end - self._has_owner] = np.asarray(time_step.reward, np.float32).T
        if self._has_owner:
            packed[end - 1] = owner
        if info_keys:
            packed[end:] = self._get_info(env_index)
        return [packed, *observation]

    def _split(self, observation):
        """Takes the owner out of an observation, or of its spec: the rest, and the owner or None."""
        if self._has_owner:
            return observation[OBSERVATION], observation[OWNER]
        return observation, None

    def _get_info(self, env_index):
        """Returns the K rows [B] of an environment's info, after a check."""
        info = self._envs[env_index].get_info()
        rows = [np.asarray(info.get(key)) for key in self._specs.info_keys]
        for key, row in zip(self._specs.info_keys, rows, strict=True):
            if row.shape != (self._specs.batch_size,) or row.dtype.kind not in "biuf":
                raise EnvError(
                    f"{name_env(env_index, self._envs[env_index])}: get_info() returned for {key!r} an array "
                    f"of shape {row.shape} and dtype {row.dtype}: it must be {self._specs.batch_size} numbers"
                )
        return rows


class EnvThread(DriverThread):
    """Unrolls environment `env_index` again and again.

    Args:
        coord, queues: as in `DriverThread`.
        env_index: int.
        unroller: `EnvUnroller`.
        first_frame: traced function (env_index) -> `Frame`.
        unroll: traced function (env_index, frame) -> the first `Frame` of the next unroll, and the float64
            seconds [2] for which the log queue and the learn queue, into which it puts the unroll, were full.
        clock: `StageClock` of this thread.
        orders: in lockstep a `NestFIFOQueue`: each item asks for an unroll; else None.
        start_delay: seconds before the environment is reset for the first time.
    """

    def __init__(
        self, coord, queues, env_index, unroller, first_frame, unroll, clock, orders=None, start_delay=0.0
    ):
        super().__init__(coord, queues, f"EnvThread-{env_index}")
        self._env_index = env_index
        self._unroller = unroller
        self._first_frame = first_frame
        self._unroll = unroll
        self._clock = clock
        self._orders = orders
        self._start_delay = start_delay
        self._frame = None

    def work(self):
        if self._frame is None:
            if not self._coord.wait_for_stop(self._start_delay):
                self._clock.lap(REST)
                self._frame = self._unroller.run(self._first_frame, self._env_index)
            return
        if self._orders is not None:
            self._orders.dequeue()
            self._clock.lap(HAND_OVER, times=0)
        self._frame, waits = self._unroller.run(self._unroll, self._env_index, self._frame)
        lap_hand_over(self._clock, waits)


def lap_hand_over(clock, waits, times=1):
    """Counts the time since the last lap of a thread that has put unrolls into the queues.

    Args:
        clock: its `StageClock`.
        waits: float64 seconds [2] for which the log queue and the learn queue were full.
        times: how many unrolls.
    """
    log, learner = waits.numpy().tolist()
    clock.lap(REST, [(LOG, log, times), (HAND_OVER, learner, times)], times)


def make_log_record(unroll, policy, spec):
    """Makes the `LogRecord` of an unroll: all rows but the last, which is row 0 of the next unroll.

    Args:
        unroll: `Experience` of [T+1, B, ...], of `policy`.
        spec: what `EnvSpecs.record_spec` returns; the record is a dict like it.
    """
    rows = unroll._asdict()
    if "first_value" in spec:
        rows["first_value"] = _compute_first_value(policy, TimeStep(*unroll[: len(TimeStep._fields)]))
    if OWNER in spec:
        rows[OWNER] = unroll.observation[OWNER]
    record = tf.nest.map_structure(lambda x: x[:-1], {name: rows[name] for name in spec})
    return {**record, "env_id": unroll.env_id[0]}


def _compute_first_value(policy, rows):
    """The policy's value at FIRST rows of a `TimeStep` of [T, B, ...], float32 [T, B]; NaN in other rows."""
    is_first = rows.is_first()
    no_value = tf.fill(is_first.shape, float("nan"))
    # All rows, because a policy may need to know their number while it is traced.
    flat = tf.nest.map_structure(lambda x: tf.reshape(x, (-1, *x.shape[2:])), rows)

    def compute():
        return tf.where(is_first, tf.reshape(policy.first_value(flat), is_first.shape), no_value)

    return tf.cond(tf.reduce_any(is_first), compute, lambda: no_value)


def _check_holds(sticky, envs, batch_size):
    """Raises ConfigError if an environment of several sub-environments cannot hold some of them."""
    for index, env in enumerate(envs):
        if sticky and batch_size > 1 and not hasattr(env, "hold"):
            raise ConfigError(
                f"sticky is True: {name_env(index, env)} has no hold() to let single sub-environments wait; "
                "PythonEnvironment has one (load.num_workers = 0), and a batch_size of 1 needs none"
            )


def _get_floats(unroll):
    """The pairs of name and tensor of an unroll's reward and of the floats in its observation."""
    observation = list_leaves(unroll.observation)
    named = [(f"observation {path}".strip(), x) for path, x in observation if x.dtype.is_floating]
    return [("reward", unroll.reward), *named]


def _seen(frame):
    """What an unroll keeps of each `Frame`. It keeps the state of row 0 alone."""
    return frame.time_step, frame.env_info


def _answer(policy_step, version):
    """What an unroll keeps of each answer."""
    return policy_step.action, policy_step.info, version


def _make_arrays(length, nest):
    """Makes a `tf.TensorArray` for each leaf of a nest of tensors or specs."""
    return [tf.TensorArray(x.dtype, length, element_shape=x.shape) for x in tf.nest.flatten(nest)]


def _write(arrays, t, nest):
    """Writes each leaf of a nest into its array; returns the arrays."""
    return [array.write(t, x) for array, x in zip(arrays, tf.nest.flatten(nest), strict=True)]
