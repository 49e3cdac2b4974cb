# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""BehaviorEnvironment: another source of actions than the policy that learns."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from alf.core.annotations import Environment, Nest
from alf.core.nest_utils import find_structure_mismatch
from alf.environments.batched_environment import EnvironmentWrapper
from alf.errors import ConfigError, EnvError
from alf.workers.arrays import MisfitError, fit


class BehaviorEnvironment(EnvironmentWrapper):
    """A batched environment in which a behavior acts: a script, a person, or another run's agent.

    `step` ignores its argument, and `taken_action` returns the action of the behavior instead. A driver with
    `overwrite_policy_output` puts that action into the experience.

    Args:
        env: batched environment, B sub-environments.
        behavior: callable (time_step, state) -> (action, state). `time_step` is the last `EnvStep` of the
            environment, with arrays of [B, ...]: `step_type`, `reward`, `discount`, `observation`. `state` is
            the state that the behavior itself returned before for this environment, and None after a reset of
            all sub-environments. The action is a nest of arrays like `action_spec`, with a leading dimension
            B. Several threads may call one behavior at the same time, each for its own environment.

    Raises:
        EnvError: in `step`, if the action of the behavior does not fit the specs.
    """

    def __init__(self, env: Environment, behavior: Callable[..., tuple[Nest, Nest]]) -> None:
        super().__init__(env)
        if not callable(behavior):
            raise ConfigError(
                f"the behavior is {behavior!r}: it must be callable with a time step and a state; "
                "Experiment.behavior makes it"
            )
        self._behavior = behavior
        self._state = self._action = None

    def _reset(self):
        self._state = None  # Tells the behavior that all episodes begin anew.
        return self._env.reset()

    def _step(self, action):
        # In the thread that steps this environment, like the step itself.
        action, self._state = self._behavior(self.current_time_step(), self._state)
        # Kept for `taken_action`, by which the driver puts it into the experience.
        self._action = self._fit(action)
        return self._env.step(self._action)

    def taken_action(self) -> Nest:
        """Returns the actions of the last step, a nest of [B, ...]."""
        return self._action

    def _fit(self, action):
        """Returns an action as arrays of the dtypes and shapes of its spec."""
        spec = self._env.action_spec()
        mismatch = find_structure_mismatch(action, spec)
        if mismatch is None:
            pairs = zip(tf.nest.flatten(action), tf.nest.flatten(spec), strict=True)
            try:
                leaves = [
                    fit(x, (self._env.batch_size, *s.shape), np.dtype(s.dtype), "the action")
                    for x, s in pairs
                ]
                return tf.nest.pack_sequence_as(spec, leaves)
            except MisfitError as error:
                mismatch = str(error)
        raise EnvError(f"the behavior's action does not fit the environment's action_spec: {mismatch}")
