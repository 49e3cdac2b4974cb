# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""GraphSteps: the steps of environments that are operations of a driver's graph."""

import tensorflow as tf

from alf.adapters.graph_environment import GraphEnvironment
from alf.core.tf_runtime import timestamp, trace
from alf.data_structures import TimeStep
from alf.drivers.stage_clock import STEP
from alf.errors import ConfigError

# An executor of `single_threaded` keeps a thread for each function, branch and loop within another one.
_NESTED_THREADS = 4


def find_graph_envs(envs):
    """Returns the set of the places in a list of environments of those that step in the graph."""
    # Not by its methods: a wrapper of ALF passes them on, and must step in Python to do its work.
    return {i for i, env in enumerate(envs) if isinstance(env, GraphEnvironment)}


def count_nested_threads(envs):
    """Counts the threads of TensorFlow that nested parts of the environments' steps may need, an int."""
    return _NESTED_THREADS * len(find_graph_envs(envs))


class GraphSteps:
    """Adds the operations of `GraphEnvironment`s to the graph of an `EnvUnroller`, and measures their time.

    Args:
        envs: list of batched environments, perhaps none of which steps in the graph.
        num_loops: int, loops of the unroller; those that step in the graph need one each.

    Attributes:
        indices: set of the places in the list of those that step in the graph.
    """

    def __init__(self, envs, num_loops):
        self._envs = envs
        self._traced = None  # which of them is traced now; None: those that step in Python
        self.indices = find_graph_envs(envs)
        if self.indices and num_loops < len(envs):
            raise ConfigError(
                f"DriverSettings.num_env_threads is {num_loops}: leave it out, because a TFEnvironment steps "
                "in the graph of a thread of its own"
            )
        # Seconds and number of the steps that have ended since the last `count_time`, and the steps that have
        # not ended. The graph adds, `count_time` subtracts, both in the thread of the environment.
        self._spent = {i: tf.Variable(tf.zeros(3, tf.float64), trainable=False) for i in self.indices}

    def trace(self, function, *signature):
        """Traces a function (env_index, ...) of the unroller; returns a callable with the same arguments.

        All environments that step in Python share a trace. Each of the others has one: one graph with a
        branch for each of 16 environments took 16 s to start, these take 2 s.
        """
        traces = {}
        for index in [*self.indices, *([None] if len(self.indices) < len(self._envs) else [])]:
            self._traced = index
            traces[index] = trace(function, tf.TensorSpec((), tf.int32), *signature)
        if not self.indices:
            return traces[None]

        def call(env_index, *args):
            i = int(env_index)
            return traces[i if i in self.indices else None](env_index, *args)

        return call

    def call(self, inputs, in_graph, in_python):
        """Adds the call to the graph that is traced now.

        Returns a `TimeStep` without prev_action and env_id, and its info, () in the graph.

        Args:
            inputs: list of tensors that the call needs.
            in_graph: callable (environment) -> `EnvStep` of tensors.
            in_python: callable () -> the result of this method, for environments that step in Python.
        """
        if self._traced is None:
            return in_python()
        spent = self._spent[self._traced]
        # The executor runs operations in any order that their dependencies allow: first the stamp after the
        # action is there, then the step, then the second stamp.
        with tf.control_dependencies(inputs):
            started = timestamp()
        with tf.control_dependencies([started]):
            begin = spent.assign_add([0.0, 0.0, 1.0], read_value=False)
        graph = tf.compat.v1.get_default_graph()
        first = len(graph.get_operations())
        with tf.control_dependencies([begin]):
            step = in_graph(self._envs[self._traced])
        # Also what the time step does not depend on, such as an assertion: it fails within the step.
        effects = [op for op in graph.get_operations()[first:] if op.op_def.is_stateful]
        with tf.control_dependencies([*effects, *tf.nest.flatten(step)]):
            spent.assign_add(tf.stack([timestamp() - started, 1.0, -1.0]))
        return TimeStep(*step, prev_action=(), env_id=()), ()

    def is_in_step(self, env_index):
        """Returns whether a call of the graph has ended, by an error, within a step of an environment."""
        return env_index in self.indices and self._spent[env_index].numpy()[2] > 0

    def count_time(self, env_index, clock):
        """Counts the steps of a call of the graph in the `StageClock` of their thread."""
        if env_index in self.indices:
            spent = self._spent[env_index].numpy()
            self._spent[env_index].assign_sub(spent)
            clock.spend(STEP, float(spent[0]), int(spent[1]))
