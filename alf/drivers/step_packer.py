# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""StepPacker: brings time steps of NumPy arrays into the graph of an EnvUnroller."""

import numpy as np
import tensorflow as tf

from alf.core.nest_utils import add_leading_dims, find_mismatch, find_structure_mismatch
from alf.data_structures import OBSERVATION, OWNER, TimeStep
from alf.drivers.env_specs import name_env
from alf.drivers.mask_check import MaskCheck
from alf.errors import ConfigError, EnvError


class StepPacker:
    """Checks time steps of environments, packs them into few arrays, and unpacks them in the graph.

    Args:
        envs: list of batched environments.
        specs: `EnvSpecs` of the environments.
        num_rows: int, rows of a time step in the graph, which may hold the steps of several environments.
        policy: `Policy` or `PolicyGroup`, whose action masks are checked.

    Attributes:
        spec: the specs of a packed time step: of its signals and its info, and of its observation.
        batch_axes: list of ints, the axis of the batch in each array of a packed time step.
    """

    def __init__(self, envs, specs, num_rows, policy):
        self._envs, self._specs = envs, specs
        self._check_masks = [MaskCheck(name_env(i, env), env, policy) for i, env in enumerate(envs)]
        self._has_owner = bool(specs.policies)
        self._observation_spec = add_leading_dims(self._split(specs.observation)[0], specs.batch_size)
        # The types that the arrays of every step must have: `pack` checks them with one comparison of lists.
        observation_spec, _ = self._split(envs[0].observation_spec())
        arrays = tf.nest.flatten(observation_spec)
        self._is_nested = tf.nest.is_nested(observation_spec)
        self._array_types = [((specs.batch_size, *s.shape), np.dtype(s.dtype)) for s in arrays]
        self._signal_shapes = [(specs.batch_size, *shape) for shape in ((), specs.reward.shape, ())]
        self._num_signals = 2 + specs.reward.shape.num_elements() + self._has_owner
        num_signals = self._num_signals + len(specs.info_keys)
        observation = add_leading_dims(self._split(specs.observation)[0], num_rows)
        self.spec = tf.TensorSpec((num_signals, num_rows), tf.float32), observation
        self.batch_axes = [1, *[0] * len(arrays)]

    def unpack(self, packed, observation):
        """Adds operations to the graph that unpack a step. Returns a `TimeStep` and the info, [K, B] or ().

        Its `prev_action` and `env_id` are ().
        """
        end, num_keys = self._num_signals, len(self._specs.info_keys)
        env_info = packed[end:] if num_keys else ()
        step_type, discount, *reward = tf.unstack(packed[:end] if num_keys else packed)
        if self._has_owner:
            observation = {OBSERVATION: observation, OWNER: tf.cast(reward.pop(), tf.int32)}
        reward = reward[0] if self._specs.reward.shape.rank == 0 else tf.stack(reward, axis=-1)
        time_step = TimeStep(tf.cast(step_type, tf.int32), reward, discount, observation, (), env_id=())
        return time_step, env_info

    def pack(self, env_index, time_step):
        """Checks a time step of NumPy arrays against the specs, and packs it for TensorFlow.

        It runs at every step, so each check is one comparison as long as the step fits. Returns a list of
        arrays with the specs `spec`, but for the number of rows.
        """
        nested, owner = self._split(time_step.observation)
        # Copies, because TensorFlow keeps an array whose address is a multiple of 64 as it is, and the
        # environment may fill it anew while the unroll still needs it.
        is_array = isinstance(nested, np.ndarray)  # the usual case, for which TensorFlow's functions are slow
        observation = [np.array(x) for x in ([nested] if is_array else tf.nest.flatten(nested))]
        fits = [(x.shape, x.dtype) for x in observation] == self._array_types
        if self._is_nested or (not is_array and tf.nest.is_nested(nested)):
            fits = fits and find_structure_mismatch(nested, self._observation_spec) is None
        if not fits:
            mismatch = find_mismatch(nested, self._observation_spec)
            raise ConfigError(
                f"envs[{env_index}] returned an observation that does not fit its observation_spec with "
                f"batch_size = {self._specs.batch_size}: {mismatch}"
            )
        shapes = [np.shape(x) for x in time_step[:3]]
        kind = np.asarray(time_step.step_type).dtype
        if shapes != self._signal_shapes or kind.kind not in "iu":
            step_type, reward, discount = shapes
            raise ConfigError(
                f"envs[{env_index}] returned step_type {step_type} of {kind}, discount {discount} and reward "
                f"{reward}, which do not fit integers, batch_size {self._specs.batch_size} and reward_spec "
                f"{self._specs.reward.shape}"
            )
        self._check_masks[env_index](time_step)
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
        """Splits an observation, or its spec, into the environment's own and the owner, or None."""
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
