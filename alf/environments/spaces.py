# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""From Gymnasium spaces to specs, and from a policy's actions to those that a space contains."""

import numpy as np
from gymnasium import spaces
from tf_agents.specs import array_spec

from alf.errors import ConfigError


def spec_from_space(space, name="space"):
    """Returns the unbatched spec of a Gymnasium space.

    Args:
      space: Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or Tuple of them.
      name: str, the name of the spec, and of the space in errors.

    Returns:
      A nest of `ArraySpec` (a Box without any bound) and `BoundedArraySpec`, with the
      dtypes of the space. Dict becomes dict and Tuple becomes tuple.

    Raises:
      ConfigError: any other space.
    """
    if isinstance(space, spaces.Dict):
        return {k: spec_from_space(v, f"{name}/{k}") for k, v in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(spec_from_space(v, f"{name}/{i}") for i, v in enumerate(space.spaces))
    if isinstance(space, spaces.Box):
        if not (np.isfinite(space.low).any() or np.isfinite(space.high).any()):
            return array_spec.ArraySpec(space.shape, space.dtype, name)
        low, high = space.low, space.high
    elif isinstance(space, spaces.Discrete):
        low, high = space.start, space.start + space.n - 1
    elif isinstance(space, spaces.MultiDiscrete):
        low, high = space.start, space.start + space.nvec - 1
    elif isinstance(space, spaces.MultiBinary):
        low, high = 0, 1
    else:
        raise ConfigError(
            f"No spec for the {name} space {space}: supported are Box, Discrete, "
            "MultiDiscrete, MultiBinary, and Dict and Tuple of them."
        )
    return array_spec.BoundedArraySpec(space.shape, space.dtype, low, high, name)


def map_space(space, make):
    """Returns a function that converts a nest of batched arrays, leaf by leaf.

    The nest is walked here, once, and not in every step as `tf.nest` would.

    Args:
      space: a Gymnasium space that has a spec.
      make: a function from a leaf of `space` to a function from array to array.
    """
    if isinstance(space, spaces.Dict):
        parts = {k: map_space(v, make) for k, v in space.spaces.items()}
        return lambda nest: {k: convert(nest[k]) for k, convert in parts.items()}
    if isinstance(space, spaces.Tuple):
        parts = tuple(map_space(v, make) for v in space.spaces)
        return lambda nest: tuple(convert(x) for convert, x in zip(parts, nest))
    return make(space)


def action_converter(space, batch_size):
    """Returns a function from an action to what the batched `space` contains.

    It raises ValueError for a wrong shape and TypeError for floats where `space` has
    integers; an action outside the bounds of a Box is clipped. One outside the range of
    a discrete space is an error of the policy, left to the environment to refuse.
    """
    dtype = space.dtype
    shape = (batch_size,) + tuple(space.shape)

    def convert(action):
        action = np.asarray(action).astype(dtype, casting="same_kind", copy=False)
        if action.shape != shape:
            raise ValueError(f"The action has shape {action.shape} instead of {shape}.")
        return action

    if not isinstance(space, spaces.Box):
        return convert
    low, high = space.low, space.high
    if not (np.isfinite(low).any() or np.isfinite(high).any()):
        return convert
    # Two ufuncs cost half of what np.clip does on small arrays.
    return lambda action: np.minimum(np.maximum(convert(action), low), high)
