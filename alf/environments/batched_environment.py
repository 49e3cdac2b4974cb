# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The base classes of all batched environments."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from alf.config.kinds import NonNegativeInt, PositiveInt
from alf.config.settings import checked
from alf.core.annotations import Environment, Nest, NestedSpec
from alf.core.array_spec import ArraySpec, BoundedArraySpec, to_array_spec
from alf.data_structures import FIRST, LAST, EnvStep
from alf.environments.spaces import sample_actions
from alf.workers.info import check_info_keys


@checked
class BatchedEnvironment:
    """The base of environments of B sub-environments that step together.

    It keeps the batch size, the specs and the last step.

    A subclass implements `_reset()` and `_step(action)`. Both return an `EnvStep` of arrays [B, ...] that
    follow the convention of `alf.data_structures`; `alf.testing.EnvironmentContract` tests it. With
    `info_keys` it also implements `get_info()`, the info of the last reset or step: a dict with float32 [B]
    for each key, NaN without a value. It may implement `_render()`, which returns a frame of
    sub-environment 0, uint8 [height, width, 3]. It may have a method `hold(rows)`, for `sticky` drivers: the
    next step leaves the sub-environments of these indices, a list of ints, as they are, and returns their
    FIRST step again.

    A subclass whose sub-environments can only step together returns `_start_randomly` of its first FIRST
    step.

    Args:
        batch_size: B; a ConfigError if it is not a positive integer.
        observation_spec, action_spec: nests of `ArraySpec`, or of specs of TF-Agents, without the batch
            dimension.
        reward_spec: `ArraySpec` of one sub-environment, or None for a float32 scalar.
        info_keys: tuple of different texts; also an attribute, which a subclass may set for the class.
        max_random_steps: int, the most random steps that `_start_randomly` takes.

    Attributes:
        render_fps: how many frames of `render` make a second.
        computes_in_python: whether a step takes its time in Python in this process, so that the steps of
            several threads would wait for each other. Subclasses set it, the class or each object.
    """

    batched = True
    computes_in_python = False
    info_keys = ()
    render_fps: Any = 30

    def __init__(
        self,
        batch_size: PositiveInt,
        observation_spec: NestedSpec,
        action_spec: NestedSpec,
        reward_spec: NestedSpec = None,
        info_keys: Sequence[str] = (),
        max_random_steps: NonNegativeInt = 0,
    ) -> None:
        self._max_random_steps = max_random_steps
        self.info_keys = check_info_keys("info_keys", info_keys or self.info_keys)
        self._batch_size = int(batch_size)
        specs = observation_spec, action_spec, reward_spec or ArraySpec((), np.float32, "reward")
        specs = tf.nest.map_structure(to_array_spec, specs)
        self._observation_spec, self._action_spec, self._reward_spec = specs
        self._current_time_step: Any = None

    def __enter__(self) -> "BatchedEnvironment":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    @property
    def batch_size(self) -> int:
        return self._batch_size

    def would_compute_in_python(self, batch_size: int) -> bool:
        """Whether `computes_in_python` would hold of such an environment with another `batch_size`."""
        return self.computes_in_python

    def observation_spec(self) -> NestedSpec:
        return self._observation_spec

    def action_spec(self) -> NestedSpec:
        return self._action_spec

    def reward_spec(self) -> NestedSpec:
        return self._reward_spec

    def time_step_spec(self) -> EnvStep:
        """Returns an `EnvStep` of the specs of one sub-environment."""
        step_type = BoundedArraySpec((), np.int32, FIRST, LAST, "step_type")
        discount = BoundedArraySpec((), np.float32, 0.0, 1.0, "discount")
        return EnvStep(step_type, self.reward_spec(), discount, self.observation_spec())

    def current_time_step(self) -> EnvStep:
        """Returns the last `EnvStep`; raises ValueError before the first one."""
        if self._current_time_step is None:
            raise ValueError(f"{type(self).__name__} has made no step yet: call reset first")
        return self._current_time_step

    def reset(self) -> EnvStep:
        """Begins new episodes in all sub-environments; returns their FIRST steps."""
        self._current_time_step = self._reset()
        return self._current_time_step

    def step(self, action: Nest) -> EnvStep:
        """Steps all sub-environments; the first call resets them.

        Args:
            action: nest of arrays [B, ...] like `action_spec`; ignored where the last step was LAST.
        """
        # Like TF-Agents' environments, whose tools rely on it.
        if self._current_time_step is None:
            return self.reset()
        self._current_time_step = self._step(action)
        return self._current_time_step

    def seed(self, seed: int | None, first_index: int = 0) -> None:
        """Seeds the next reset; NotImplementedError if the environment cannot be seeded.

        Args:
            seed: int or None.
            first_index: int; sub-environment i gets the seed of number `first_index + i` in a larger batch.
                So several processes can share a batch (`Evaluator.num_workers`).
        """
        raise NotImplementedError(f"{type(self).__name__} takes no seed")

    def get_info(self) -> dict[str, np.ndarray]:
        """Returns the info of the last step, float32 [B] for each of the `info_keys`."""
        raise NotImplementedError(f"{type(self).__name__} has no info")

    def call(self, name: str, *args: Any) -> list[Any]:
        """Calls the method `name` of each environment that this one is made of; returns the results.

        Here that is this environment itself, and so one result. `PythonEnvironment` calls each of its single
        environments, `MultiAgentEnvironment` each of its games.
        """
        return [getattr(self, name)(*args)]

    def set_attr(self, name: str, value: Any) -> None:
        """Sets an attribute that each environment has, as `call`; AttributeError if one has none."""
        getattr(self, name)
        setattr(self, name, value)

    def close(self) -> None:
        """Frees what the environment holds; may be called again."""

    def render(self, mode: str = "rgb_array") -> np.ndarray:
        """Returns a frame of sub-environment 0, uint8 [height, width, 3].

        Raises:
            NotImplementedError: if it cannot be rendered, or `mode` is not "rgb_array".
        """
        if mode != "rgb_array":
            raise NotImplementedError(f"the mode {mode!r} is not supported")
        return self._render()

    def _start_randomly(self, time_step, seed):
        """Takes a random number of random steps, at most `max_random_steps`, from a FIRST step of all rows.

        These steps do not belong to an episode: the last of them is returned as the FIRST step of every row.
        If it ended an episode, the next step begins another one, and nothing is learned from this one.

        Args:
            time_step: `EnvStep` that `_reset` has made.
            seed: seed for `np.random.RandomState`, which decides the number and the actions.
        """
        if not self._max_random_steps:
            return time_step
        # It takes arrays of seeds, too, which Atari games have, one for each row.
        rng = np.random.RandomState(seed)
        for _ in range(rng.randint(self._max_random_steps + 1)):
            # By `_step`, so that `current_time_step` never is one of these.
            time_step = self._step(sample_actions(self._action_spec, self._batch_size, rng))
        return EnvStep(
            step_type=np.zeros_like(time_step.step_type),
            reward=np.zeros_like(time_step.reward),
            discount=np.ones_like(time_step.discount),
            observation=time_step.observation,
        )

    def _reset(self):
        raise NotImplementedError(f"{type(self).__name__} has no _reset")

    def _step(self, action):
        raise NotImplementedError(f"{type(self).__name__} has no _step")

    def _render(self):
        raise NotImplementedError(f"{type(self).__name__} has no rendering")


class EnvironmentWrapper(BatchedEnvironment):
    """A batched environment that passes everything on to another one, unless a subclass changes it.

    Args:
        env: batched environment.
    """

    def __init__(self, env: Environment) -> None:
        self._env = env
        specs = env.observation_spec(), env.action_spec(), env.reward_spec()
        super().__init__(env.batch_size, *specs, getattr(env, "info_keys", ()))

    def __getattr__(self, name: str) -> Any:
        # It is missing while the object is copied or unpickled: without this, endless recursion.
        if name == "_env":
            raise AttributeError(name)
        return getattr(self._env, name)

    @property
    def render_fps(self) -> Any:
        return getattr(self._env, "render_fps", BatchedEnvironment.render_fps)

    @property
    def computes_in_python(self) -> bool:  # type: ignore[override]
        return getattr(self._env, "computes_in_python", False)

    def would_compute_in_python(self, batch_size: int) -> bool:
        own = getattr(self._env, "would_compute_in_python", lambda _: self.computes_in_python)
        return own(batch_size)

    def seed(self, seed: int | None, first_index: int = 0) -> None:
        # Not every environment that users wrap has the second argument.
        return self._env.seed(seed, first_index) if first_index else self._env.seed(seed)

    def get_info(self) -> dict[str, np.ndarray]:
        return self._env.get_info()

    def call(self, name: str, *args: Any) -> list[Any]:
        """Calls this wrapper's own method `name` if its class has it, else it passes the call on."""
        return super().call(name, *args) if self._has_own(name) else call_env(self._env, name, *args)

    def set_attr(self, name: str, value: Any) -> None:
        if self._has_own(name):
            super().set_attr(name, value)
        else:
            set_env_attr(self._env, name, value)

    def _has_own(self, name):
        return name in vars(self) or hasattr(type(self), name)

    def close(self) -> None:
        self._env.close()

    def _reset(self):
        return self._env.reset()

    def _step(self, action):
        return self._env.step(action)

    def _render(self):
        return self._env.render()


def call_env(env, name, *args):
    """Returns the results of `BatchedEnvironment.call`, also of an environment of TF-Agents."""
    return getattr(env, "call", functools.partial(BatchedEnvironment.call, env))(name, *args)


def set_env_attr(env, name, value):
    """Sets an attribute as `BatchedEnvironment.set_attr`, also of an environment of TF-Agents."""
    getattr(env, "set_attr", functools.partial(BatchedEnvironment.set_attr, env))(name, value)
