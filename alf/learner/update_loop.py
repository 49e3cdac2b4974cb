# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""UpdateLoop: all updates of a train iteration in one call, as a graph or as a program that XLA compiles."""

import re

import tensorflow as tf
from absl import logging

from alf.core.devices import HOST, count_flops_of, shorten
from alf.core.graphs import add_operations, find_operation
from alf.core.tf_private import call_flat, find_written
from alf.errors import ConfigError
from alf.learner.minibatches import select_columns
from alf.learner.update import NOT_FINITE

# By default XLA compiles after so many updates, because compiling takes seconds, and where one call makes at
# least so many: with fewer the copies of the variables cost what it saves.
PLAIN_UPDATES, FEWEST_UPDATES = 1000, 4
# XLA leaves the first ones out without a word: users would miss their checks. It cannot run the others, and
# TensorFlow would log that in several lines of its own.
_NOT_FOR_XLA = {"Assert", "CheckNumerics", "CheckNumericsV2"}
_NOT_FOR_XLA |= {"PrintV2", "StringFormat", "PyFunc", "PyFuncStateless", "EagerPyFunc"}
# Floating point operations of an update from which XLA gains nothing on CPUs: it saves some 0.5 ms.
_MOST_FLOPS = 2e8
# oneDNN is faster at these than XLA on CPUs.
_SLOWER = {"Conv2D", "Conv3D", "DepthwiseConv2dNative"}
_HOOKS = re.compile("train_step|calc_loss|update_with_gradient|after_update|summarize_train|stops_early")


class CannotCompileError(Exception):
    """The updates cannot be a program of XLA, for the reason in the text; "" is not worth a word."""


class UpdateLoop:
    """Makes the updates of one call of `Learner.train`, in the graph.

    A program of XLA locks the variables that it writes while it runs, and actors that read weights would wait
    for all of its updates. So it works on copies. The graph around it copies the learner's variables into
    them before, and back afterwards: these are moments.

    Args:
        update: `Update`.
        settings: `LearnerSettings`.
        stop: callable (dict of float32 scalars of an update) -> bool scalar, whether to skip the remaining
            updates.
        device: text, where the updates are made.
        last: the variable that is written back after all others.
    """

    def __init__(self, update, settings, stop, device, last):
        self._update, self._stop = update, stop
        self._device, self._last = device, last
        self._keeps_tensors = settings.debug_summaries or settings.summarize_grads_and_vars
        self._is_forced = settings.jit_compile is True
        self._is_compilable = settings.jit_compile is not False
        if self._is_compilable and update.has_replicas:
            if self._is_forced:
                raise ConfigError(
                    "LearnerSettings.jit_compile is True: XLA cannot compile for a strategy of replicas"
                )
            self._is_compilable = False
        if self._is_compilable and not self._is_forced:
            self._is_compilable = device == HOST
        self._is_large = False  # so far as a graph has been traced
        # Of each variable, by its handle's id: a copy for XLA. Not a `tf.Module`: checkpoints have the
        # variables themselves.
        self._variables, self._copies = {}, {}

    def compiles(self, count, updates):
        """Returns whether XLA compiles `count` updates after the first `updates`, an int or a variable."""
        # By the count of updates and not by the calls of this process: a run that continues goes the way
        # that it would have gone without a stop. The variable is read last: at each call that costs time.
        return self._would_compile(count) and (self._is_forced or int(updates) >= PLAIN_UPDATES)

    def compiles_later(self, count):
        """Returns whether XLA has compiled nothing so far, and will compile calls of `count` updates."""
        return not self._copies and self._would_compile(count)

    def _would_compile(self, count):
        is_fit = self._is_forced or (count >= FEWEST_UPDATES and not self._is_large)
        return self._is_compilable and is_fit

    def make_copies(self, learner):
        """Makes the copies for XLA of all variables of a learner, before a graph is traced."""
        if self._copies:
            return
        variables = learner.variables  # a search that takes milliseconds
        with tf.device(self._device):
            for variable in variables:
                copy = tf.Variable(variable.read_value(), trainable=False, name="copy_for_xla")
                self._variables[id(variable.handle)], self._copies[id(variable.handle)] = variable, copy

    def fall_back(self, error):
        """Makes all further updates without XLA; raises the error again if compiling did not cause it.

        Args:
            error: what the first call of a compiled graph raised.
        """
        if isinstance(error, CannotCompileError):
            reason = str(error)
        else:
            if NOT_FINITE in error.message or not re.search("compil|XLA|tf2xla", error.message):
                raise error
            lines = [line for line in error.message.splitlines() if "compil" in line]
            reason = (lines or [error.message])[0].strip()
        self._is_compilable = False
        self._variables, self._copies = {}, {}
        if reason:
            logging.warning("LearnerSettings.jit_compile: XLA does not compile the updates: %s", reason)

    def run(self, batch, parts, num_updates, compiles):
        """Makes an update with each part of a batch, in the graph.

        Args:
            batch: pair of an `Experience` of [T+1, B, ...] and a nest of [T+1, B, ...], from
                `Update.prepare`.
            parts: int32 [N, size], the columns of each update; None for one update with all columns.
            num_updates: int32 scalar from 1 to N, the updates to make.
            compiles: bool, whether XLA compiles the updates. Then `make_copies` must have been called.

        Returns:
            a dict of float32 scalars, averages over the updates, and `LossInfo.priority` of each: () or
            float32 [N, size], or [B] without `parts`, of which those of later rows are not defined.

        Raises:
            CannotCompileError: if `compiles`, and XLA cannot.
        """
        find = lambda i: batch if parts is None else select_columns(batch, parts[i])  # noqa: E731
        if not compiles:
            summary, priorities, _, _ = self._loop(find, parts, num_updates, fails=True)
            return summary, priorities

        def program(batch, parts, num_updates):
            find = lambda i: batch if parts is None else select_columns(batch, parts[i])  # noqa: E731
            return self._loop(find, parts, num_updates, fails=False)

        program = tf.function(program, autograph=False, jit_compile=True)
        program = program.get_concrete_function(batch, parts, num_updates)
        outputs = self._call_on_copies(program, (batch, parts, num_updates))
        summary, priorities, count, is_finite = outputs
        # The update after `count` good ones was not finite.
        is_finite = self._update.check_finite(is_finite, lambda: find(count))
        with tf.control_dependencies([is_finite]):
            return tf.nest.map_structure(tf.identity, (summary, priorities))

    def _loop(self, find, parts, num_updates, fails):
        """Makes the updates; returns `run`'s results, the number of updates, and whether all were finite."""
        # A function of its own, because TensorFlow does not use oneDNN for operations directly in the body of
        # a loop. That makes convolutions a third slower.
        step = tf.function(lambda i: self._update(find(i), fails), autograph=False)
        step = step.get_concrete_function(tf.TensorSpec((), tf.int32))
        if self._is_compilable:
            large = count_flops_of(step.graph.get_operations()) > _MOST_FLOPS
            self._is_large = large or find_operation(step.graph, _SLOWER) is not None
        written = [] if fails else self._check_compilable(step)

        def make_update(i):
            before = [variable.read_value() for variable in written]
            summary, priority, is_finite = step(i)
            for variable, value in zip(written, before, strict=True):
                variable.assign(tf.where(is_finite, variable, value))
            return summary, priority, is_finite

        if parts is None:
            summary, priority, is_finite = make_update(tf.constant(0))
            return summary, priority, tf.cast(is_finite, tf.int32), is_finite
        totals, priority, _ = step.structured_outputs
        totals = tf.nest.map_structure(lambda x: tf.zeros((), x.dtype), totals)
        arrays = tf.nest.map_structure(
            lambda x: tf.TensorArray(x.dtype, size=parts.shape[0], element_shape=x.shape), priority
        )

        def body(i, totals, arrays, _, is_finite):
            summary, priority, is_finite = make_update(i)
            totals = tf.nest.map_structure(tf.add, totals, summary)
            arrays = tf.nest.map_structure(lambda array, x: array.write(i, x), arrays, priority)
            return i + tf.cast(is_finite, tf.int32), totals, arrays, self._stop(summary), is_finite

        count, totals, arrays, _, is_finite = tf.while_loop(
            lambda i, totals, arrays, stopped, is_finite: (i < num_updates) & ~stopped & is_finite,
            body,
            (tf.constant(0), totals, arrays, tf.constant(False), tf.constant(True)),
            parallel_iterations=1,
        )
        priorities = tf.nest.map_structure(lambda array: array.stack(), arrays)
        divisor = tf.maximum(count, 1)
        summary = tf.nest.map_structure(lambda total: total / tf.cast(divisor, total.dtype), totals)
        return summary, priorities, count, is_finite

    def _check_compilable(self, step):
        """Returns the variables that a step writes, a list; CannotCompileError if XLA must not compile it."""
        if self._is_large and not self._is_forced:
            raise CannotCompileError("")
        if operation := find_operation(step.graph, _NOT_FOR_XLA):
            raise CannotCompileError(f"it has no {operation.name}, which {_find_hook(operation)} adds")
        if self._keeps_tensors:
            raise CannotCompileError("debug_summaries and summarize_grads_and_vars keep tensors of any shape")
        written = find_written(step)
        if any(id(handle) not in self._variables for handle in written):
            raise CannotCompileError("they write a variable that no attribute of the algorithm holds")
        return [self._variables[id(handle)] for handle in written]

    def _call_on_copies(self, program, inputs):
        """Calls a compiled function on copies of the variables that it writes, and writes them back."""
        written = {id(handle) for handle in find_written(program)}
        captured, copied = [], []
        for tensor in program.captured_inputs:
            variable, copy = self._variables.get(id(tensor)), self._copies.get(id(tensor))
            # What is only read is copied, too, where it is on another device: XLA could not read it there.
            is_here = variable is None or shorten(variable.device) == self._device
            if id(tensor) in written or not is_here:
                copied.append((variable, copy))
                tensor = copy.handle
            captured.append(tensor)
        for variable, copy in copied:
            copy.assign(variable)
        outputs = call_flat(program, [x for x in tf.nest.flatten(inputs) if x is not None], captured)
        changed = [(variable, copy) for variable, copy in copied if id(variable.handle) in written]
        # Stable: the last one comes last.
        *others, last = sorted(changed, key=lambda pair: pair[0] is self._last)

        def write_back():
            for variable, copy in others:
                variable.assign(copy)

        with tf.control_dependencies(add_operations(write_back)):
            written_back = add_operations(lambda: last[0].assign(last[1]))
        # New tensors, which wait for the variables: what makes an error of a flag must come afterwards.
        with tf.control_dependencies(written_back):
            return tf.nest.map_structure(tf.identity, outputs)


def _find_hook(operation):
    """Returns where the hook of an algorithm that adds an operation does so, a text."""
    frames = [frame for frame in operation.traceback if _HOOKS.fullmatch(frame.name)]
    if not frames:
        return "the update"
    return f"{frames[-1].name} ({frames[-1].filename}:{frames[-1].lineno})"
