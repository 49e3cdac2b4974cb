# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""EnvUnroller: steps environments and makes unrolls of their steps, in the graph of a driver's thread."""

import os
import weakref

import numpy as np
import tensorflow as tf

from alf.core.nest_utils import (
    add_leading_dims,
    find_mismatch,
    zero_where,
    zeros_from_spec,
)
from alf.core.tf_private import keep_python_thread, spare_version_checks, take_from_tensorflow
from alf.data_structures import Experience, Frame
from alf.drivers.env_specs import check_holds, name_env
from alf.drivers.graph_steps import GraphSteps
from alf.drivers.stage_clock import ASK, REST, STEP
from alf.drivers.step_packer import StepPacker
from alf.drivers.unroll_check import ACTION, check_values, describe_wrong_value
from alf.environments.batched_environment import call_env, set_env_attr
from alf.errors import ConfigError, DivergedError, EnvError, InterruptedDriverError, contain


class EnvUnroller:
    """Steps environments and makes unrolls of their steps.

    Loop i of L steps the environments i, i + L, ..., one after another, as one batch for the policy. One
    traced graph serves all loops whose environments step in Python. Its argument `env_index`, an int32
    scalar, selects one of them: it is the index of the loop's first environment. Below, [B, ...] are the rows
    of all environments of a loop.

    Args:
        envs: list of batched environments. They may fill the same arrays anew in each step. The graph has
            the operations of a `GraphEnvironment`, and calls Python for any other.
        specs: `EnvSpecs` of the environments.
        policy: `Policy` that chooses the actions.
        unroll_length: int, T, transitions of an unroll.
        ask: callable (env_index, `Frame`) -> (`PolicyStep`, version), or None for now. It is called while the
            graph is traced, and adds the operations that choose an action.
        clocks: list with a `StageClock` for each loop, of the thread that runs it.
        overwrite_policy_output: bool, as in `Driver`.
        sticky: bool, as in `DriverSettings`.
        ask_stage: text, the stage in which the clock counts the time between two steps.

    Attributes:
        num_loops: int, L.
        calls: list with an entry for each environment: None, or, while `reset`, `step` or `ask` runs, the
            pair of "reset", "step" or "call" and the start in seconds of `time.monotonic`.
        ask_policy: the argument `ask`; another callable may be set before a graph is traced.
        begins: list of bools, whether each loop begins new episodes before its next unroll.
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
        sticky=False,
        ask_stage=ASK,
    ):
        check_holds(sticky, envs, specs.batch_size)
        if overwrite_policy_output and not all(hasattr(env, "taken_action") for env in envs):
            raise ConfigError("overwrite_policy_output is True, but an environment has no taken_action()")
        mismatch = find_mismatch(policy.action_spec, specs.action)
        if mismatch:
            raise ConfigError(
                f"the policy's action_spec differs from the environments' action_spec: {mismatch}"
            )
        self._envs = envs
        self._specs = specs
        self.num_loops = len(clocks)
        self._loop_specs = specs.share(self.num_loops)
        self._state_spec = policy.policy_step_spec.state
        self._answer_spec = _answer(*self._loop_specs.reply_spec(policy))
        self._unroll_length = unroll_length
        self.ask_policy = ask
        self._clocks = clocks
        self._ask_stage = ask_stage
        self._overwrites = overwrite_policy_output
        self._sticky = sticky
        self._last_steps = [None] * len(envs)  # the last outputs of `_step`, for `_step_or_hold`
        self.calls = [None] * len(envs)
        self.begins, self._first_count = [True] * self.num_loops, 0
        spare_version_checks()
        self._graph_steps = GraphSteps(envs, self.num_loops)
        self._packer = StepPacker(envs, specs, self._loop_specs.batch_size, policy)
        # The graphs call these Python functions, which must live as long as the graphs run. TensorFlow would
        # keep them until the process ends.
        self._calls_of_graphs = []
        self._closed = False
        self._action_spec = add_leading_dims(specs.action, self._loop_specs.batch_size)
        self._own_action_spec = add_leading_dims(specs.action, specs.batch_size)

    def members(self, env_index):
        """Returns the indices of a loop's environments, a range; `env_index` is that of the first one."""
        return range(env_index, len(self._envs), self.num_loops)

    def trace(self, function, *signature):
        """Traces a function (env_index, ...) that calls methods of this class; returns a callable like it.

        Args:
            function: callable.
            *signature: nests of tensor specs of the arguments after `env_index`.
        """
        return self._graph_steps.trace(function, *signature)

    def run(self, function, env_index, *args):
        """Calls a traced function (env_index, *args) for the loop of the environment `env_index`, an int.

        What the environment raises is raised here, with its traceback.
        """
        try:
            outputs = function(tf.constant(env_index, tf.int32), *args)
            self._graph_steps.count_time(env_index, self._clocks[env_index])
            return outputs
        except tf.errors.OpError as error:
            cause = self._explain(env_index, error)
            if cause is None:
                raise
        # Outside the handler: Python would show the error of TensorFlow as the context of the cause.
        raise cause

    def ask(self, env_index, method, *args):
        """Calls a method of each environment of a loop; returns a list of the results.

        In the thread that runs the loop, between two unrolls. `method` is "call" or "set_attr" of
        `BatchedEnvironment`, or "reseed" with the seeds of all environments and the first count of draws.
        """
        clock = self._clocks[env_index]
        return [self._ask_env(clock, i, method, *args) for i in self.members(env_index)]

    def _ask_env(self, clock, env_index, method, *args):
        env = self._envs[env_index]
        # The entry before the look at `_closed`, as in `_call_python`.
        self.calls[env_index] = "call", clock.lap(REST)
        try:
            if self._closed:
                raise InterruptedDriverError("the driver was interrupted")
            if method == "reseed":
                return self._reseed(env_index, *args)
            return {"call": call_env, "set_attr": set_env_attr}[method](env, *args)
        except BaseException as error:
            error = contain(error, name_env(env_index, env))
            raise error
        finally:
            self.calls[env_index] = None
            clock.lap(REST)

    def begin(self, first_frame, env_index):
        """Resets a loop's environments with the traced method `first_frame`; returns their `Frame`."""
        self.begins[env_index] = False
        return self.run(first_frame, env_index, tf.constant(self._first_count, tf.int64))

    def _reseed(self, env_index, seeds, first_count):
        """Makes an environment begin new episodes in its next unroll; returns whether it takes the seed."""
        self.begins[env_index % self.num_loops], self._first_count = True, first_count
        try:
            self._envs[env_index].seed(seeds[env_index])
        except NotImplementedError:
            return False
        return True

    def close(self):
        """Refuses all further calls of environments; from any thread. Calls that have begun go on.

        Afterwards no call begins any more: an environment whose entry in `calls` is None can be closed.
        """
        self._closed = True

    def first_frame(self, env_index, count):
        """Resets a loop; returns a `Frame`. `count`, int64 scalar: the number of its first draw."""
        time_step, env_info = self._call_env(
            EnvUnroller._reset, env_index, in_graph=lambda env: env.reset_in_graph()
        )
        time_step = time_step._replace(prev_action=zeros_from_spec(self._action_spec))
        state = zeros_from_spec(self._state_spec, self._loop_specs.batch_size)
        return Frame(time_step, state, env_info, count)

    def next_frame(self, env_index, policy_step, count, is_held=None):
        """Steps a loop's environments with the action of answer number `count`; returns a `Frame`.

        Where `is_held`, bool [B], is True, a sub-environment does not step: it returns its FIRST step again.
        """
        action = policy_step.action
        method, inputs = EnvUnroller._step, tf.nest.flatten(action)
        if is_held is not None:
            method, inputs = EnvUnroller._step_or_hold, [is_held, *inputs]

        def step_in_graph(env):
            step = lambda: env.step_in_graph(action)  # noqa: E731
            # With more rows than one it would have no `hold`.
            return step() if is_held is None else tf.cond(is_held[0], env.current_in_graph, step)

        time_step, env_info = self._call_env(method, env_index, *inputs, in_graph=step_in_graph)
        if self._overwrites:
            # After the step: the environment then knows the action that led to this time step.
            with tf.control_dependencies([time_step.step_type]):
                axes = [0] * len(tf.nest.flatten(self._action_spec))
                action = self._call_python(
                    EnvUnroller._get_taken_action, [env_index], self._action_spec, axes
                )
        # A FIRST step has no action before it: the one that was sent has only caused the reset.
        time_step = time_step._replace(prev_action=zero_where(time_step.is_first(), action))
        return Frame(time_step, policy_step.state, env_info, count + 1)

    def unroll(self, env_index, frame):
        """Asks for an action and steps, T times. It starts at `frame`, the last `Frame` of the unroll before.

        Returns:
            the last `Frame`, which is row 0 of the next unroll; and the unroll, an `Experience` of
            [T+1, B, ...], `state` [B, ...]. Its `env_info` is a dict of [T+1, B], or () without info keys.
        """
        length = self._unroll_length
        seen = _write(_make_arrays(length + 1, _seen(frame)), 0, _seen(frame))
        answers = _make_arrays(length, self._answer_spec)

        def body(t, frame, seen, answers):
            policy_step, version = self.ask_policy(env_index, frame)
            answers = _write(answers, t, _answer(policy_step, version))
            # A FIRST step in row 0 or 1 begins the episode of this unroll: in row 1 it follows a LAST step,
            # the end of the unroll before. A FIRST step in a later row waits for the next unroll.
            is_held = frame.time_step.is_first() & (t > 1) if self._sticky else None
            frame = self.next_frame(env_index, policy_step, frame.count, is_held)
            return t + 1, frame, _write(seen, t + 1, _seen(frame)), answers

        # One iteration at a time: a step needs the action of the step before.
        start = (tf.constant(0), frame, seen, answers)
        _, last, seen, answers = tf.while_loop(lambda t, *_: t < length, body, start, parallel_iterations=1)
        time_step, env_info = tf.nest.pack_sequence_as(_seen(frame), [array.stack() for array in seen])
        # Row T has no answer yet: it is given in the next unroll. The answer of row T-1 stands in for it,
        # because losses compute the log probability of every row, which of zeros may not be finite.
        rows = [*range(length), length - 1]
        answers = [array.gather(rows) for array in answers]
        action, info, version = tf.nest.pack_sequence_as(self._answer_spec, answers)
        if self._overwrites:
            # The action that was taken in the last row is not known yet: it is in row 0 of the next unroll.
            action = tf.nest.map_structure(
                lambda taken, own: tf.concat([taken[1:], own[-1:]], axis=0), time_step.prev_action, action
            )
        ones = tf.ones_like(time_step.step_type)
        time_step = time_step._replace(env_id=ones * self._loop_specs.env_ids(env_index))
        unroll = Experience(
            *time_step,
            action=action,
            info=info,
            policy_version=tf.cast(ones, tf.int64) * tf.reshape(version, (length + 1, -1)),
            state=frame.state,
            env_info=self._name_env_info(env_info),
        )
        # Every queue needs the reward, so that nothing is enqueued before the check.
        return last, unroll._replace(reward=check_values(unroll, bool(self._specs.policies)))

    def _explain(self, env_index, error):
        """Makes the error for one that TensorFlow raised, without an error in Python; None if it says all."""
        name = self._name_loop(env_index)
        leaf, text = describe_wrong_value(error.message)
        if leaf is None and self._graph_steps.is_in_step(env_index):
            # Of an operation TensorFlow names neither the environment nor the line of its code.
            return EnvError(f"{name} raised {type(error).__name__}: {error.message}")
        if leaf is None or not leaf.startswith(ACTION):
            return leaf and EnvError(f"{name} returned {text}")
        if self._overwrites:
            return EnvError(f"{name}: an action that was taken, by its taken_action(), is not finite")
        return DivergedError(
            "the policy chose an action that is not finite: lower the optimizer's learning_rate or set "
            "max_grad_norm"
        )

    def _name_loop(self, env_index):
        # TensorFlow does not tell whose row it was.
        name = name_env(env_index, self._envs[env_index])
        return name if self.num_loops == len(self._envs) else f"{name}, or one of its thread's others,"

    def _name_env_info(self, env_info):
        """Turns `env_info` of [T+1, K, B] into a dict of [T+1, B] by key; () without keys."""
        keys = self._specs.info_keys
        return dict(zip(keys, tf.unstack(env_info, axis=1), strict=True)) if keys else ()

    def _call_env(self, method, *inputs, in_graph):
        """Resets or steps; returns a `TimeStep`, without prev_action and env_id, and env_info.

        `in_graph` does it for a `GraphEnvironment`, `method` for all others.
        """

        def in_python():
            packed = self._call_python(method, inputs, self._packer.spec, self._packer.batch_axes)
            return self._packer.unpack(*packed)

        return self._graph_steps.call(inputs, in_graph, in_python)

    def _call_python(self, method, inputs, spec, batch_axes):
        """Calls `method` from the graph for each environment of a loop; returns a nest like `spec`.

        Args:
            method: function (unroller, index of an environment, *arrays) -> list of arrays.
            inputs: list of tensors: `env_index`, and arrays of [B, ...], of which each call gets its rows.
            spec: nest of the specs of the results of all calls, joined along their batch axes.
            batch_axes: list of ints, one for each array that `method` returns.
        """
        # A weak reference: `self` keeps `call`, and without a cycle both are freed at once, with the
        # environments, not at some later garbage collection.
        reference = weakref.ref(self)

        def call(loop, *arrays):
            keep_python_thread()
            unroller = reference()
            loop = int(loop)
            envs = unroller.members(loop)
            if len(envs) == 1:
                return unroller._call_one(method, loop, loop, *arrays)
            rows = [np.split(x, len(envs)) for x in arrays]
            results = [
                unroller._call_one(method, loop, i, *(x[part] for x in rows)) for part, i in enumerate(envs)
            ]
            return [np.concatenate(x, axis) for x, axis in zip(zip(*results), batch_axes, strict=True)]

        leaves = tf.nest.flatten(spec)
        outputs = tf.numpy_function(call, inputs, [s.dtype for s in leaves])
        self._calls_of_graphs.append(take_from_tensorflow(call))
        for x, s in zip(outputs, leaves, strict=True):
            x.set_shape(s.shape)
        return tf.nest.pack_sequence_as(spec, outputs)

    def _call_one(self, method, loop, env_index, *arrays):
        """Calls `method` for one environment of a loop, so that other threads know of it."""
        clock, stage = self._clocks[loop], "reset" if method is EnvUnroller._reset else "step"
        times = 0 if method is EnvUnroller._get_taken_action else 1  # which is a part of the step before
        # First the entry, then the look at `_closed`: `close` sets `_closed` before anyone reads `calls`, so
        # an environment either shows that it is called, or is not called any more.
        start, process = clock.lap(self._ask_stage, times=times), os.getpid()
        self.calls[env_index] = stage, start
        try:
            if self._closed:
                raise InterruptedDriverError("the driver was interrupted")
            return method(self, env_index, *arrays)
        except BaseException as error:
            error = contain(error, name_env(env_index, self._envs[env_index]))
            raise error
        finally:
            if os.getpid() != process:  # forked by the environment: it has no other thread, and would wait
                os._exit(1)
            # From now on `stop` may close the environment at once, in another thread.
            self.calls[env_index] = None
            seconds = clock.lap(STEP, times=times) - start
            if seconds > clock.longest_step and stage == "step":
                clock.longest_step = seconds

    def _reset(self, env_index):
        return self._packer.pack(env_index, self._envs[env_index].reset())

    def _step(self, env_index, *action):
        action = tf.nest.pack_sequence_as(self._specs.action, action)
        return self._packer.pack(env_index, self._envs[env_index].step(action))

    def _step_or_hold(self, env_index, is_held, *action):
        """Steps the sub-environments that are not held; if all are held, returns the last outputs again."""
        if not is_held.all():
            if is_held.any():
                self._envs[env_index].hold(is_held.nonzero()[0].tolist())
            self._last_steps[env_index] = self._step(env_index, *action)
        return self._last_steps[env_index]

    def _get_taken_action(self, env_index):
        action = self._envs[env_index].taken_action()
        mismatch = find_mismatch(action, self._own_action_spec)
        if mismatch:
            raise ConfigError(
                f"envs[{env_index}].taken_action() returned an action that does not fit its spec: {mismatch}"
            )
        return [np.asarray(x) for x in tf.nest.flatten(action)]


def _seen(frame):
    """Returns the part of a `Frame` that an unroll keeps for each row. It keeps the state only of row 0."""
    return frame.time_step, frame.env_info


def _answer(policy_step, version):
    """Returns the part of an answer that an unroll keeps for each row."""
    return policy_step.action, policy_step.info, version


def _make_arrays(length, nest):
    """Makes a `tf.TensorArray` for each leaf of a nest of tensors or specs."""
    return [tf.TensorArray(x.dtype, length, element_shape=x.shape) for x in tf.nest.flatten(nest)]


def _write(arrays, t, nest):
    """Writes each leaf of a nest into its array; returns the arrays."""
    return [array.write(t, x) for array, x in zip(arrays, tf.nest.flatten(nest), strict=True)]
