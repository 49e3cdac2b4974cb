# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The interface of action distributions."""

import abc
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from alf.core.annotations import Array, Nest, NestedSpec
from alf.core.nest_utils import BoundedTensorSpec
from alf.errors import ConfigError


class ActionInfo(NamedTuple):
    """`PolicyStep.info` of policies that draw actions from a distribution."""

    params: Any  # nest of [B, ...]: the parameters of the distribution
    raw: Any  # nest of [B, ...]: the draw, before it was scaled and squashed


class ActionDistribution(tf.Module, abc.ABC):
    """A family of distributions over the actions of one spec.

    The constructors of the subclasses raise `ConfigError` if the spec or a setting is wrong. `copy.deepcopy`
    copies the variables, too.

    Attributes:
        params_spec: nest of unbatched float32 tensor specs of the parameters.
        raw_spec: nest of unbatched tensor specs of the draws.
        num_outputs: int, the size of the network's policy head.
        noise_spec: nest of unbatched tensor specs of what `explore` carries from step to step; () if draws do
            not depend on each other.
    """

    noise_spec: Any = ()

    def __init__(self, params_spec: NestedSpec, raw_spec: NestedSpec, num_outputs: int) -> None:
        super().__init__()
        self.params_spec = params_spec
        self.raw_spec = raw_spec
        self.num_outputs = num_outputs

    @abc.abstractmethod
    def params(self, outputs: Array, mask: Array | None = None) -> Nest:
        """Turns network outputs into parameters, a nest of float32 [..., *shape] like `params_spec`.

        Args:
            outputs: float32 [..., num_outputs].
            mask: [..., num_outputs] of any dtype, 0 where an action is forbidden and gets no probability.
                None allows all actions. A row that forbids all actions, as at many LAST steps, allows all:
                nobody acts there (`alf.drivers` checks the others).

        Raises:
            ConfigError: if the mask does not fit.
        """

    def is_possible(self, mask: Nest) -> np.ndarray:
        """Returns bool [...], False where a mask, arrays of NumPy as for `params`, allows no action."""
        return np.asarray(np.asarray(mask).any(axis=-1))

    @abc.abstractmethod
    def sample(self, params: Nest) -> Nest:
        """Draws `raw`, a nest of [..., *shape] like `raw_spec`, independently for each row."""

    def explore(self, params: Nest, noise: Nest, is_first: Array) -> tuple[Nest, Nest]:
        """Draws `raw` for the next step of episodes: as `sample`, unless draws depend on those before.

        Args:
            params: the parameters, nest of [B, ...].
            noise: what this method returned at the step before, nest of [B, ...] like `noise_spec`.
            is_first: bool [B], True where an episode begins and `noise` has no meaning.

        Returns:
            `raw`, and the noise for the next step.
        """
        return self.sample(params), noise

    @abc.abstractmethod
    def mode(self, params: Nest) -> Nest:
        """Returns the most likely `raw`."""

    @abc.abstractmethod
    def action(self, raw: Nest) -> Nest:
        """Computes the environment's action, a nest of [..., *shape] like the action spec."""

    @abc.abstractmethod
    def log_prob(self, params: Nest, raw: Nest) -> Array:
        """Computes log p(raw), float32 [...]: the sum over all parts of the action."""

    @abc.abstractmethod
    def entropy(self, params: Nest) -> Array:
        """Computes the entropy in nats, float32 [...]."""

    @abc.abstractmethod
    def kl(self, params_p: Nest, params_q: Nest) -> Array:
        """Computes KL(p || q) in nats, float32 [...]."""

    def describe(self, params: Nest) -> dict[str, Nest]:
        """Returns what histograms show of distributions, a dict of nests of [..., ...] by name."""
        return {"entropy": self.entropy(params), "distribution": params}

    def has_choice(self, params: Nest) -> Array:
        """Returns bool [...], True where several actions are possible. Elsewhere log p has no gradient."""
        # Every float is a choice; distributions of integers override this.
        x, spec = tf.nest.flatten(params)[0], tf.nest.flatten(self.params_spec)[0]
        return tf.ones(tf.shape(x)[: x.shape.rank - spec.shape.rank], tf.bool)

    def symmetric_kl_to_uniform(self, params: Nest) -> Array:
        """Sums `losses.symmetric_kl_to_uniform` over the parts, float32 [...]; only for integer actions."""
        name = type(self).__name__
        raise ConfigError(f"the symmetric KL divergence exists only for integer actions, not for {name}")


def read_bounds(action_spec):
    """Returns the minimum and maximum of every number, flat arrays; infinite where there is no bound."""
    bounds = (-np.inf, np.inf)
    if isinstance(action_spec, BoundedTensorSpec):
        bounds = (action_spec.minimum, action_spec.maximum)
    # Floats without bounds are fine for a Gaussian; a categorical needs to know how many choices there are.
    elif action_spec.dtype.is_integer:
        raise ConfigError(f"action_spec is {action_spec}: a discrete action needs bounds")
    low, high = (np.broadcast_to(x, action_spec.shape).ravel() for x in bounds)
    if not np.all(low <= high):
        raise ConfigError(f"action_spec is {action_spec}: a minimum is above its maximum")
    return low, high


def describe_mask(mask):
    """Returns a text for an action mask: its dtype and shape, or its keys."""
    if isinstance(mask, Mapping):
        return f"a dict of {', '.join(map(repr, mask))}"
    if isinstance(mask, (list, tuple)):
        return f"a {type(mask).__name__} of {len(mask)}"
    return f"{getattr(mask.dtype, 'name', mask.dtype)} {list(mask.shape)}"


def unflatten(x, shape):
    """Reshapes [..., size] to [..., *shape]."""
    return x if len(shape) == 1 else tf.reshape(x, tf.concat([tf.shape(x)[:-1], shape], axis=0))
