# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Chooses the distribution for an action spec."""

import inspect
from typing import Annotated, Any, Literal

import tensorflow as tf

from alf.config.kinds import AtLeast, AtMost, Below
from alf.config.settings import configurable
from alf.core.annotations import NestedSpec
from alf.errors import ConfigError
from alf.policies.action_distributions.box import BetaActions, GaussianActions, TanhGaussianActions
from alf.policies.action_distributions.categorical import CategoricalActions, MultiCategoricalActions
from alf.policies.action_distributions.distribution import ActionDistribution
from alf.policies.action_distributions.nested import NestedActions

# Limits of the logarithm of a standard deviation: beyond them densities overflow in float32.
_LEAST_LOG_STD, _GREATEST_LOG_STD = -20.0, 20.0
_CONTINUOUS = {"gaussian": GaussianActions, "tanh_gaussian": TanhGaussianActions, "beta": BetaActions}


@configurable("alf.policies")
def make_action_distribution(
    action_spec: NestedSpec,
    continuous: Literal["gaussian", "tanh_gaussian", "beta"] = "gaussian",
    std: Literal["state", "shared", "fixed"] | None = None,
    init_log_std: float | None = None,
    scale_to_bounds: bool | None = None,
    std_transform: Literal["exp", "softplus"] | None = None,
    min_log_std: Annotated[float, AtLeast(_LEAST_LOG_STD)] | None = None,
    max_log_std: Annotated[float, AtMost(_GREATEST_LOG_STD)] | None = None,
    noise_correlation: Annotated[float, AtLeast(0), Below(1)] | None = None,
) -> ActionDistribution:
    """Makes the `ActionDistribution` for an action spec, or for each part of a nest of specs.

    Args:
        action_spec: nest of unbatched tensor specs: integers with bounds, or floating point numbers.
        continuous: the distribution of floating point actions: "gaussian", "tanh_gaussian" or "beta".
        std, init_log_std, std_transform, min_log_std, max_log_std, noise_correlation: passed to
            `GaussianActions`, for "gaussian" and "tanh_gaussian"; None means the default there.
        scale_to_bounds: passed to `GaussianActions`, only for "gaussian": the others always scale.

    Raises:
        ConfigError: if a spec has no distribution, or a setting is wrong or would have no effect.
    """
    distribution = _CONTINUOUS[continuous]
    options: dict[str, Any] = {"std": std, "init_log_std": init_log_std, "scale_to_bounds": scale_to_bounds}
    options |= {"std_transform": std_transform, "min_log_std": min_log_std, "max_log_std": max_log_std}
    options["noise_correlation"] = noise_correlation
    options = {name: value for name, value in options.items() if value is not None}
    for name, value in options.items():
        # An error rather than no effect: a user who sets `std` for "beta" would never find out.
        if name not in inspect.signature(distribution).parameters:
            raise ConfigError(f"{name} is {value!r}: it has no effect where continuous is {continuous!r}")
    if std == "fixed" and std_transform is not None:
        raise ConfigError(f"std_transform is {std_transform!r}: it has no effect where std is 'fixed'")
    # The default distribution is not a setting of the user, any other one is.
    settings = options if continuous == "gaussian" else {"continuous": continuous, **options}
    specs = [spec for spec in tf.nest.flatten(action_spec) if isinstance(spec, tf.TensorSpec)]
    if settings and not any(spec.dtype.is_floating for spec in specs):
        name, value = next(iter(settings.items()))
        raise ConfigError(f"{name} is {value!r}: it has no effect, no action is of floating point")

    def make(spec):
        if tf.nest.is_nested(spec):
            return NestedActions(spec, make)
        if not isinstance(spec, tf.TensorSpec) or not spec.shape.num_elements():
            raise ConfigError(f"action_spec is {spec}: it must be a tensor spec of a known, positive size")
        if spec.dtype.is_floating:
            return distribution(spec, **options)
        if spec.dtype.is_integer:
            return MultiCategoricalActions(spec) if spec.shape.rank else CategoricalActions(spec)
        raise ConfigError(f"action_spec is {spec}: its dtype must be an integer or floating point")

    return make(action_spec)
