# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Unrolls of environments as graph loops, for the asynchronous and the synchronous driver alike."""

import weakref
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from alf.data_structures import FIRST, Experience
from alf.drivers.packed_signals import env_ids, num_signals, pack_signals, unpack_signals
from alf.drivers.policy import zero_where
from alf.errors import ConfigError
from alf.nest_utils import add_leading_dims, zeros_from_spec
from alf.tf_runtime import keep_python_thread


class Frame(NamedTuple):
    """One row of an unroll.

    Fields:
        signals: float32 [S, B].
        observation, prev_action: nests of [B, ...].
        state: nest of [B, ...]; the recurrent state that entered the policy at this row.
        policy_step: `PolicyStep` of [B, ...]; the answer.
        version: int64 scalar; of the weights that answered.
    """

    signals: Any
    observation: Any
    prev_action: Any
    state: Any
    policy_step: Any
    version: Any


class EnvUnroller:
    """Unrolls environments with a policy that is asked through `act`.

    One traced graph serves all environments: they differ in `env_index`, a tensor.

    Args:
        envs: list of batched environments. An array that they return must not be written again.
        specs: their `EnvSpecs`.
        policy_step_spec: `PolicyStep` of unbatched tensor specs.
        unroll_length: T.
        act: callable (env_index, signals, observation, prev_action, state) -> (`PolicyStep`, version).
        overwrite_policy_output: as in `OffPolicyDriver`.
    """

    def __init__(self, envs, specs, policy_step_spec, unroll_length, act, overwrite_policy_output=False):
        self._envs = envs
        self._specs = specs
        self._policy_step_spec = policy_step_spec
        self._unroll_length = unroll_length
        self._act = act
        self._overwrites = overwrite_policy_output
        self._turn = None
        self._signals_shape = (num_signals(specs.reward), specs.batch_size)
        self._nested = tf.nest.is_nested(specs.array_observation)
        batch = (specs.batch_size,)
        self._signal_shapes = (batch, (*batch, *specs.reward.shape), batch)
        # (shape, dtype) of every observation array, to check what the environments return.
        self._expected = [
            ((specs.batch_size, *s.shape), np.dtype(s.dtype))
            for s in tf.nest.flatten(specs.array_observation)
        ]
        self.errors = {}  # env_index -> the exception that its environment raised

    def take_turns(self, turn):
        """Lets one environment step at a time: the one that has taken the item out of the queue `turn`."""
        self._turn = turn

    def frame_spec(self):
        batch_size = self._specs.batch_size
        return Frame(
            signals=tf.TensorSpec(self._signals_shape, tf.float32),
            observation=add_leading_dims(self._specs.observation, batch_size),
            prev_action=add_leading_dims(self._specs.action, batch_size),
            state=add_leading_dims(self._policy_step_spec.state, batch_size),
            policy_step=add_leading_dims(self._policy_step_spec, batch_size),
            version=tf.TensorSpec((), tf.int64),
        )

    def first_frame(self, env_index):
        """Resets environment `env_index` (int32 scalar) and asks for its first action."""
        batch_size = self._specs.batch_size
        signals, observation = self._call(self._reset, [env_index])
        prev_action = zeros_from_spec(self._specs.action, batch_size)
        state = zeros_from_spec(self._policy_step_spec.state, batch_size)
        return self._answered(env_index, signals, observation, prev_action, state)

    def next_frame(self, env_index, frame):
        """Steps environment `env_index` with the frame's action and asks for the next one."""
        action = frame.policy_step.action
        signals, observation = self._call(self._step, [env_index, *tf.nest.flatten(action)])
        if self._overwrites:
            action = self._taken_action(env_index, signals)
        is_first = tf.equal(tf.unstack(signals)[0], FIRST)
        prev_action = tf.nest.map_structure(lambda a: zero_where(is_first, a), action)
        return self._answered(env_index, signals, observation, prev_action, frame.policy_step.state)

    def unroll(self, env_index, frame):
        """Runs T steps from `frame`, which becomes row 0.

        Returns:
            the last frame, which is the first row of the next unroll, and the unroll, an `Experience`.
        """
        length = self._unroll_length + 1
        arrays = [
            tf.TensorArray(x.dtype, length, element_shape=x.shape).write(0, x)
            for x in tf.nest.flatten(_recorded(frame))
        ]

        def body(t, frame, arrays):
            frame = self.next_frame(env_index, frame)
            rows = tf.nest.flatten(_recorded(frame))
            return t + 1, frame, [a.write(t, x) for a, x in zip(arrays, rows, strict=True)]

        start = (tf.constant(1), frame, arrays)
        _, last, arrays = tf.while_loop(lambda t, *_: t < length, body, start, parallel_iterations=1)
        rows = tf.nest.pack_sequence_as(_recorded(frame), [a.stack() for a in arrays])
        return last, self._experience(env_index, frame, rows)

    def _answered(self, env_index, signals, observation, prev_action, state):
        policy_step, version = self._act(env_index, signals, observation, prev_action, state)
        return Frame(signals, observation, prev_action, state, policy_step, version)

    def _experience(self, env_index, first, rows):
        step_type, discount, reward = unpack_signals(rows.signals, self._specs.reward)
        like = tf.ones_like(step_type)
        action = rows.policy_step.action
        if self._overwrites:
            # What was taken in the last row is not known yet: it is row 0 of the next unroll.
            action = tf.nest.map_structure(
                lambda taken, own: tf.concat([taken[1:], own[-1:]], axis=0), rows.prev_action, action
            )
        return Experience(
            step_type=step_type,
            reward=reward,
            discount=discount,
            observation=rows.observation,
            prev_action=rows.prev_action,
            env_id=like * env_ids(env_index, self._specs.batch_size),
            action=action,
            info=rows.policy_step.info,
            policy_version=tf.cast(like, tf.int64) * rows.version[:, tf.newaxis],
            state=first.state,
        )

    def _call(self, function, inputs):
        """Calls Python from the graph; returns signals and observation."""
        dtypes = [tf.float32] + [s.dtype for s in tf.nest.flatten(self._specs.observation)]
        # TensorFlow keeps what it is given here until the process ends: not the environments, then.
        method = weakref.WeakMethod(function)
        signals, *observation = self._in_turn(
            lambda: tf.numpy_function(lambda *args: method()(*args), inputs, dtypes), inputs
        )
        signals.set_shape(self._signals_shape)
        for x, (shape, _) in zip(observation, self._expected, strict=True):
            x.set_shape(shape)
        return signals, tf.nest.pack_sequence_as(self._specs.observation, observation)

    def _taken_action(self, env_index, signals):
        """The action that led to the environment's last step."""
        spec = add_leading_dims(self._specs.action, self._specs.batch_size)
        leaves = tf.nest.flatten(spec)
        method = weakref.WeakMethod(self._get_taken_action)
        with tf.control_dependencies([signals]):
            action = tf.numpy_function(lambda i: method()(i), [env_index], [s.dtype for s in leaves])
        for x, s in zip(action, leaves, strict=True):
            x.set_shape(s.shape)
        return tf.nest.pack_sequence_as(spec, action)

    def _get_taken_action(self, env_index):
        try:
            return self._checked_action(env_index, self._envs[env_index].taken_action())
        except BaseException as error:
            self.errors[int(env_index)] = error
            raise

    def _checked_action(self, env_index, action):
        spec = add_leading_dims(self._specs.action, self._specs.batch_size)
        try:
            tf.nest.assert_same_structure(spec, action)
            arrays = [np.asarray(x) for x in tf.nest.flatten(action)]
            fits = all(
                x.shape == s.shape and x.dtype == s.dtype for x, s in zip(arrays, tf.nest.flatten(spec))
            )
        except (TypeError, ValueError):
            fits = False
        if not fits:
            raise ConfigError(f"envs[{env_index}].taken_action() returned {action}: its specs say {spec}")
        return arrays

    def _in_turn(self, call, inputs):
        return call() if self._turn is None else self._turn.holding(inputs, 1, call)

    def _reset(self, env_index):
        return self._guarded(env_index, lambda env: env.reset())

    def _step(self, env_index, *action):
        action = tf.nest.pack_sequence_as(self._specs.action, action)
        return self._guarded(env_index, lambda env: env.step(action))

    def _guarded(self, env_index, call):
        """Keeps the environment's own exception: TensorFlow would pass on its text alone."""
        keep_python_thread()
        try:
            return self._checked(env_index, call(self._envs[env_index]))
        except BaseException as error:
            self.errors[int(env_index)] = error
            raise

    def _checked(self, env_index, time_step):
        """Checks a time step against the specs; on the hot path, so as cheaply as it can."""
        if self._nested or tf.nest.is_nested(time_step.observation):
            self._check_structure(env_index, time_step.observation)
        observation = [np.asarray(x) for x in tf.nest.flatten(time_step.observation)]
        for x, (shape, dtype) in zip(observation, self._expected, strict=True):
            if x.shape != shape or x.dtype != dtype:
                raise ConfigError(
                    f"envs[{env_index}] returned an observation {x.dtype} {x.shape}, its observation_spec "
                    f"with batch_size says {dtype} {shape}"
                )
        shapes = tuple(np.shape(x) for x in time_step[:3])
        if shapes != self._signal_shapes:
            step_type, reward, discount = shapes
            raise ConfigError(
                f"envs[{env_index}] returned step_type {step_type}, discount {discount} and reward {reward}, "
                f"which do not fit batch_size {self._specs.batch_size} and reward_spec "
                f"{self._specs.reward.shape}"
            )
        return [pack_signals(time_step), *observation]

    def _check_structure(self, env_index, observation):
        try:
            tf.nest.assert_same_structure(self._specs.array_observation, observation)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"envs[{env_index}] returned an observation of another structure than its "
                f"observation_spec: {error}"
            ) from None


def _recorded(frame):
    """What each row of an unroll keeps of its frame: of the recurrent state only row 0's is kept."""
    return frame._replace(state=(), policy_step=frame.policy_step._replace(state=()))
