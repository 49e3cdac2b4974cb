# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""FrameStacker: gives the policy the last few observations."""

from collections.abc import Sequence
from typing import Annotated

import tensorflow as tf

from alf.config.kinds import AtLeast
from alf.config.settings import configurable
from alf.core.annotations import Nest, NestedSpec
from alf.core.nest_utils import list_leaves
from alf.data_structures import FIRST, Experience, TimeStep
from alf.errors import ConfigError
from alf.networks.images import Channels, channel_axis
from alf.ops.gather import gather
from alf.policies.data_transformers.data_transformer import DataTransformer


@configurable("alf.policies")
class FrameStacker(DataTransformer):
    """Stacks the last `num_frames` observations along the channel axis, oldest first.

    Each stacked part of the observation is an image or another tensor, whose first axis then counts as the
    channel axis. At the beginning of an episode, copies of its first observation fill the stack. Because the
    environment need not stack, each observation crosses the queues only once.

    Args:
        observation_spec: nest of unbatched tensor specs of its input.
        reward_spec: unbatched tensor spec of the rewards.
        num_frames: int, at least 2.
        keys: tuple or list of texts, the parts of a nested observation that are stacked, such as ("camera",)
            or ("sensors/camera", "sensors/lidar"); the others stay as they are. None stacks all parts.
        channels: "first", "last" or "auto", like `NatureEncoder.channels`, for all parts. "auto" is a
            `ConfigError` if an image and its stack do not show the same axis.
    """

    def __init__(
        self,
        observation_spec: NestedSpec,
        reward_spec: NestedSpec,
        num_frames: Annotated[int, AtLeast(2)] = 4,
        keys: Sequence[str] | None = None,
        channels: Channels = "auto",
    ) -> None:
        self._num_frames = num_frames
        self._chosen = _find_leaves("FrameStacker.keys", keys, observation_spec)
        leaves, state_spec, self._axes = tf.nest.flatten(observation_spec), [], []
        for i in self._chosen:
            if leaves[i].shape.rank == 0:
                raise ConfigError(
                    f"FrameStacker stacks tensors [C, ...], not {leaves[i]}: set FrameStacker.keys"
                )
            # The newest frame comes with the time step. The state crosses the queues at each step, so it has
            # no frame too many.
            state_spec.append(tf.TensorSpec((num_frames - 1, *leaves[i].shape), leaves[i].dtype))
            leaves[i], axis = _make_stack_spec(leaves[i], num_frames, channels)
            self._axes.append(axis)
        stack_spec = tf.nest.pack_sequence_as(observation_spec, leaves)
        super().__init__(stack_spec, reward_spec, tuple(state_spec), context=num_frames - 1)

    def step(self, time_step: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        def stack(newest, past, axis):
            # The state is zeros at FIRST rows; the first observation takes the place of all earlier ones.
            is_first = tf.reshape(time_step.is_first(), (-1, *[1] * newest.shape.rank))
            newest = newest[:, tf.newaxis]
            frames = tf.concat([tf.where(is_first, newest, past), newest], axis=1)
            return _stack(frames, axis), frames[:, 1:]  # the state is all but the oldest frame

        observation, state = self._map(stack, time_step.observation, state)
        return time_step._replace(observation=observation), state

    def unroll(self, experience: Experience, state: Nest) -> Experience:
        positions = self._find_positions(experience.step_type)

        def stack(x, past, axis):
            # The frames of the state become rows before row 0. Then one gather of flat frames makes all
            # stacks.
            frames = tf.concat([tf.experimental.numpy.moveaxis(past, 1, 0), x], axis=0)
            frames = gather(tf.reshape(frames, (-1, *frames.shape[2:])), positions)
            stacks = _stack(tf.reshape(frames, (-1, *frames.shape[2:])), axis)
            return tf.reshape(stacks, (*positions.shape[:2], *stacks.shape[1:])), ()

        # No state is handed on: each unroll starts from the state that its actor has stored.
        observation, _ = self._map(stack, experience.observation, state)
        return experience._replace(observation=observation)

    def _map(self, stack, observation, state):
        """Replaces the chosen leaves and their states by `stack`: (leaf, state, axis) -> (leaf, state)."""
        leaves, states = tf.nest.flatten(observation), []
        for i, past, axis in zip(self._chosen, state, self._axes, strict=True):
            leaves[i], past = stack(leaves[i], past, axis)
            states.append(past)
        return tf.nest.pack_sequence_as(observation, leaves), tuple(states)

    def _find_positions(self, step_type):
        """Finds the frames of each row's stack: indices, int32 [T+1, B, num_frames].

        The indices count frames [num_past + T+1, B], flattened, where the frames of the state come first.
        """
        batch_size, num_past = step_type.shape[1], self._num_frames - 1
        # The frames of the state count as MID: `step` has filled them with copies where an episode began.
        is_first = tf.pad(tf.equal(step_type, FIRST), [[num_past, 0], [0, 0]])
        length = is_first.shape[0]
        position = tf.reshape(tf.range(length * batch_size), (length, batch_size))[num_past:]
        positions = [position]
        # Backwards in time: the frame before is one batch earlier, but at a FIRST row it is the same one.
        for _ in range(num_past):
            begins = tf.gather(tf.reshape(is_first, (-1,)), position)
            position = tf.where(begins, position, position - batch_size)
            positions.insert(0, position)
        return tf.stack(positions, axis=-1)


def _find_leaves(setting, keys, observation_spec):
    """Returns the indices of the leaves that `keys` names by paths such as "a/b"; all leaves for None."""
    paths = [path for path, _ in list_leaves(observation_spec)]
    if keys is None:
        return list(range(len(paths)))
    is_right = isinstance(keys, (tuple, list)) and keys and all(key in paths and key for key in keys)
    if not is_right or len(set(keys)) < len(keys):
        known = ", ".join(map(repr, paths)) if paths != [""] else "none, it is one tensor"
        raise ConfigError(
            f"{setting} is {keys!r}: it must be None, or a tuple of different parts of the observation. "
            f"These are {known}"
        )
    return [paths.index(key) for key in keys]


def _make_stack_spec(spec, num_frames, channels):
    """Returns the spec of a stack of tensors like `spec`, and the axis that holds the channels."""
    axis, shape = channel_axis(spec, "FrameStacker.channels", channels), list(spec.shape)
    shape[axis] *= num_frames
    stack_spec = tf.TensorSpec(shape, spec.dtype, spec.name)
    # The encoder sees only the stack. With an "auto" of its own it would take another axis for the channels.
    if channels == "auto" and channel_axis(stack_spec, "FrameStacker.channels") != axis:
        raise ConfigError(
            f"FrameStacker.channels is 'auto': a stack {stack_spec.shape} does not show which axis holds "
            f"its channels; set this and the encoder's setting to {'last' if axis else 'first'!r}"
        )
    return stack_spec, axis


def _stack(frames, axis):
    """Merges the frames [N, num_frames, *shape] into the channels, which are in the `axis` of the shape."""
    shape = frames.shape[2:].as_list()
    shape[axis] *= frames.shape[1]
    if axis:  # frames next to the channels, or a reshape would mix rows of pixels
        frames = tf.experimental.numpy.moveaxis(frames, 1, axis + 1)
    return tf.reshape(frames, (-1, *shape))
