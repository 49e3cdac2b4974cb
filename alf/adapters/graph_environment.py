# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""GraphEnvironment: an environment of TF-Agents whose steps are operations of TensorFlow, for ALF."""

from typing import Any

import numpy as np
import tensorflow as tf

from alf.core.annotations import Nest
from alf.core.nest_utils import add_leading_dims, find_mismatch
from alf.core.tf_private import convert_by_autograph, original_errors
from alf.data_structures import EnvStep
from alf.environments import BatchedEnvironment
from alf.errors import ConfigError


class GraphEnvironment(BatchedEnvironment):
    """A `TFEnvironment` of TF-Agents as a batched environment of ALF.

    A driver adds the environment's operations to its graph: Python runs while the graph is traced, never for
    a step. Wrappers of ALF and evaluations step it from Python, with arrays.

    Args:
        env: `TFEnvironment` whose rows begin new episodes by themselves. Its constructor makes its variables.
            If its methods are `tf.function`s, nobody may have called them before a driver does. If it has a
            method `close`, `close()` calls it. Also the attribute `tf_env`.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env.batch_size, env.observation_spec(), env.action_spec(), env.reward_spec())
        self.tf_env = env
        self._time_step_spec = add_leading_dims(env.time_step_spec(), env.batch_size)
        self._call = convert_by_autograph(_call)
        # For Python. A driver must trace the operations anew: in its threads no loop or branch can run that
        # was traced elsewhere.
        self._run_reset = tf.function(self.reset_in_graph, autograph=False)
        self._run_step = tf.function(self.step_in_graph, autograph=False)

    def reset_in_graph(self) -> EnvStep:
        """Adds the operations of a reset to the graph; returns an `EnvStep` of tensors [B, ...]."""
        return self._convert(self._call(self.tf_env.reset))

    def step_in_graph(self, action: Nest) -> EnvStep:
        """Adds the operations of a step with an action, a nest of tensors [B, ...]; returns an `EnvStep`."""
        return self._convert(self._call(self.tf_env.step, action))

    def current_in_graph(self) -> EnvStep:
        """Adds the operations that read the last step again; returns an `EnvStep`."""
        return self._convert(self._call(self.tf_env.current_time_step))

    def call(self, name: str, *args: Any) -> list[Any]:
        return [getattr(self.tf_env, name)(*args)]

    def set_attr(self, name: str, value: Any) -> None:
        variable = getattr(self.tf_env, name)
        if not isinstance(variable, tf.Variable):  # the graph of the driver has the value of today
            raise ConfigError(
                f"{type(self.tf_env).__name__}.{name} must be a tf.Variable: no step would see the change"
            )
        variable.assign(value)

    def close(self) -> None:
        if hasattr(self.tf_env, "close"):
            self.tf_env.close()

    def _reset(self):
        with original_errors():
            return tf.nest.map_structure(np.array, self._run_reset())

    def _step(self, action):
        with original_errors():
            return tf.nest.map_structure(np.array, self._run_step(action))

    def _render(self):
        return np.asarray(self.tf_env.render())[0]

    def _convert(self, time_step):
        """Turns a `TimeStep` of TF-Agents into an `EnvStep`; ConfigError if it does not fit its spec."""
        mismatch = find_mismatch(time_step, self._time_step_spec)
        if mismatch:
            name = type(self.tf_env).__name__
            raise ConfigError(f"{name} returned a time step that differs from time_step_spec(): {mismatch}")
        # Loops need static shapes, which code with `if` and `while` may lose.
        tf.nest.map_structure(lambda x, s: x.set_shape(s.shape), time_step, self._time_step_spec)
        return EnvStep(
            tf.cast(time_step.step_type, tf.int32),
            tf.cast(time_step.reward, tf.float32),
            tf.cast(time_step.discount, tf.float32),
            time_step.observation,
        )


def _call(method, *args):
    # AutoGraph translates this function and what it calls, and so the `if` and `while` of the environment's
    # code, as drivers of TF-Agents do; the graphs of ALF's own drivers are made without it.
    return method(*args)
