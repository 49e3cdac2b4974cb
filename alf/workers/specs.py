# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Makes specs of Gymnasium spaces, and spaces of specs."""

import numpy as np
from gymnasium import spaces

from alf.core.array_spec import ArraySpec, BoundedArraySpec
from alf.workers.arrays import check_space


def spec_from_space(space, name):
    """Returns the unbatched spec of a Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or Tuple of them.

    It is a nest of `BoundedArraySpec`, or `ArraySpec` for a Box without any bound, with the dtypes of the
    space and the name `name`, "observation" or "action". A Dict becomes a dict, a Tuple a tuple. A space that
    `check_space` refuses is a `ConfigError`.
    """
    check_space(space, f"the {name} space")
    return _make_spec(space, name)


def _make_spec(space, name):
    if isinstance(space, spaces.Dict):
        return {k: _make_spec(v, f"{name}/{k}") for k, v in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_make_spec(v, f"{name}/{i}") for i, v in enumerate(space.spaces))
    if isinstance(space, spaces.Box):
        if not has_bounds(space):
            return ArraySpec(space.shape, space.dtype, name)
        low, high = space.low, space.high
    elif isinstance(space, spaces.Discrete):
        low, high = space.start, space.start + space.n - 1
    elif isinstance(space, spaces.MultiDiscrete):
        low, high = space.start, space.start + space.nvec - 1
    else:  # MultiBinary
        low, high = 0, 1
    return BoundedArraySpec(space.shape, space.dtype, low, high, name)


def space_from_spec(spec):
    """Returns the Gymnasium space of a nest of array specs."""
    if isinstance(spec, dict):
        return spaces.Dict({key: space_from_spec(part) for key, part in spec.items()})
    if isinstance(spec, (tuple, list)):
        return spaces.Tuple([space_from_spec(part) for part in spec])
    if not hasattr(spec, "minimum") and spec.dtype.kind in "fi":
        return spaces.Box(-np.inf, np.inf, spec.shape, spec.dtype)
    if not hasattr(spec, "minimum"):  # a Box of unsigned integers or bools has no infinite bounds
        limits = BoundedArraySpec(spec.shape, spec.dtype)
        return spaces.Box(int(limits.minimum), int(limits.maximum), spec.shape, spec.dtype)
    if np.issubdtype(spec.dtype, np.integer) and spec.shape == ():
        start = int(spec.minimum)
        return spaces.Discrete(int(spec.maximum) - start + 1, start=start, dtype=spec.dtype)
    low, high = (np.broadcast_to(bound, spec.shape) for bound in (spec.minimum, spec.maximum))
    return spaces.Box(low, high, spec.shape, spec.dtype)


def has_bounds(box):
    """Returns whether any element of a Box has a bound."""
    return np.isfinite(box.low).any() or np.isfinite(box.high).any()
