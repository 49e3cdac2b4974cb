# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Action distributions: their parameters, and how actions are drawn from them.

`raw` is what a distribution draws. The environment's action is computed from it by scaling and squashing,
which cannot be inverted exactly. So `raw` is stored next to the parameters, and densities are those of `raw`.
All sizes below are those of one action; the leading dimensions [...] are free, e.g. [B] or [T, B].
"""

import abc
import functools
import inspect
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import tensorflow as tf

from alf.config.kinds import AtLeast, AtMost
from alf.config.settings import configurable
from alf.core.annotations import NestedSpec
from alf.core.nest_utils import BoundedTensorSpec
from alf.errors import ConfigError
from alf.ops import losses

# More choices than any network has outputs. A spec without real bounds has more: those of its dtype.
_MAX_CHOICES = 2**20
# Of the logarithm of a standard deviation: beyond these limits densities overflow in float32.
_LEAST_LOG_STD, _GREATEST_LOG_STD = -20.0, 20.0
# The least distance of a Beta draw from 0 and 1, where its density may be 0.
_EDGE = 1e-6


class ActionInfo(NamedTuple):
    """`PolicyStep.info`: the parameters of the distribution and what was drawn from it, nests of [B, ...]."""

    params: Any
    raw: Any


class ActionDistribution(tf.Module, abc.ABC):
    """A family of distributions over the actions of one spec. `copy.deepcopy` copies the variables too.

    The constructor of a subclass raises `ConfigError` if the spec or a setting is wrong.

    Attributes:
        params_spec: nest of unbatched float32 tensor specs of the parameters.
        raw_spec: nest of unbatched tensor specs of what is drawn.
        num_outputs: size of the network's policy head.
    """

    def __init__(self, params_spec, raw_spec, num_outputs):
        super().__init__()
        self.params_spec = params_spec
        self.raw_spec = raw_spec
        self.num_outputs = num_outputs

    @abc.abstractmethod
    def params(self, outputs, mask=None):
        """Turns network outputs into parameters, a nest of float32 [..., *shape] like `params_spec`.

        Args:
            outputs: float32 [..., num_outputs].
            mask: [..., num_outputs] of any dtype, 0 where an action is forbidden and gets no probability.
                None allows all; so does a row that forbids all, as many LAST steps do. A mask that does not
                fit is a `ConfigError`.
        """

    @abc.abstractmethod
    def sample(self, params):
        """Draws `raw`, a nest of [..., *shape] like `raw_spec`."""

    @abc.abstractmethod
    def mode(self, params):
        """Returns the most likely `raw`."""

    @abc.abstractmethod
    def action(self, raw):
        """Computes the environment's action, a nest of [..., *shape] like the action spec."""

    @abc.abstractmethod
    def log_prob(self, params, raw):
        """Computes log p(raw), float32 [...], of all parts of the action together."""

    @abc.abstractmethod
    def entropy(self, params):
        """Computes the entropy in nats, float32 [...]."""

    @abc.abstractmethod
    def kl(self, params_p, params_q):
        """Computes KL(p || q) in nats, float32 [...]."""

    def has_choice(self, params):
        """Tells where more than one action is possible, bool [...]: elsewhere log p has no gradient."""
        x, spec = tf.nest.flatten(params)[0], tf.nest.flatten(self.params_spec)[0]
        return tf.ones(tf.shape(x)[: x.shape.rank - spec.shape.rank], tf.bool)

    def symmetric_kl_to_uniform(self, params):
        """Sums `losses.symmetric_kl_to_uniform` over the parts, float32 [...]; for integer actions alone."""
        name = type(self).__name__
        raise ConfigError(f"the symmetric KL divergence is for integer actions alone, not for {name}")


class CategoricalActions(ActionDistribution):
    """One of n integers: `action_spec` is a scalar tensor spec of an integer, with bounds.

    The parameters are logits [..., n], raw is the index of the choice [...].
    """

    def __init__(self, action_spec):
        low, high = (x.tolist() for x in _read_bounds(action_spec))
        sizes = [b - a + 1 for a, b in zip(low, high)]
        if sum(sizes) > _MAX_CHOICES:
            raise ConfigError(f"action_spec is {action_spec}: {sum(sizes)} choices are too many")
        self._spec = action_spec
        self._minimum = np.reshape(np.array(low, action_spec.dtype.as_numpy_dtype), action_spec.shape)
        self._sizes = np.array(sizes)
        is_one = action_spec.shape.rank == 0
        shape = () if is_one else (len(sizes),)
        # With the same dtype and a minimum of 0, the index of one integer is the action.
        raw_dtype = tf.int64 if is_one and action_spec.dtype == tf.int64 else tf.int32
        params_spec = tf.TensorSpec((*shape, max(sizes)), tf.float32)
        super().__init__(params_spec, tf.TensorSpec(shape, raw_dtype), num_outputs=sum(sizes))

    def _arrange(self, x, missing):
        """Gives outputs or masks the shape of the logits; `missing` is for choices that do not exist."""
        return x

    def _sum_parts(self, x):
        """Sums float32 numbers of the integers of an action."""
        return x

    def params(self, outputs, mask=None):
        logits = self._arrange(outputs, losses.FORBIDDEN_LOGIT)
        if mask is None:
            return logits
        if tf.nest.is_nested(mask) or not outputs.shape.is_compatible_with(np.shape(mask)):
            raise ConfigError(f"the action mask is {mask}: it must be of the logits' shape {outputs.shape}")
        allowed = self._arrange(tf.cast(mask, tf.bool), False)
        allowed |= ~tf.reduce_any(allowed, axis=-1, keepdims=True)  # a row that forbids all allows all
        return tf.where(allowed, logits, losses.FORBIDDEN_LOGIT)

    def sample(self, params):
        logits = tf.reshape(params, (-1, params.shape[-1]))
        index = tf.random.categorical(logits, 1, dtype=self.raw_spec.dtype)
        return tf.reshape(index, tf.shape(params)[:-1])

    def mode(self, params):
        return tf.argmax(params, axis=-1, output_type=self.raw_spec.dtype)

    def action(self, raw):
        action = tf.cast(raw, self._spec.dtype)
        if self._spec.shape.rank > 1:
            action = _unflatten(action, self._spec.shape)
        return action + self._minimum if self._minimum.any() else action

    def log_prob(self, params, raw):
        return -self._sum_parts(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=raw, logits=params))

    def entropy(self, params):
        log_p = tf.nn.log_softmax(params)
        return -self._sum_parts(tf.reduce_sum(tf.exp(log_p) * log_p, axis=-1))

    def kl(self, params_p, params_q):
        log_p, log_q = tf.nn.log_softmax(params_p), tf.nn.log_softmax(params_q)
        return self._sum_parts(tf.reduce_sum(tf.exp(log_p) * (log_p - log_q), axis=-1))

    def has_choice(self, params):
        return self._sum_parts(tf.cast(losses.count_allowed(params) > 1, tf.float32)) > 0

    def symmetric_kl_to_uniform(self, params):
        return self._sum_parts(losses.symmetric_kl_to_uniform(params))


class MultiCategoricalActions(CategoricalActions):
    """D integers, each with its own number of choices; n is the sum of these numbers.

    The network's outputs and the mask are [..., n]. The parameters are logits [..., D, greatest number];
    choices that do not exist are forbidden. raw is [..., D], the indices of the choices.
    """

    def __init__(self, action_spec):
        super().__init__(action_spec)
        self._exists = np.arange(max(self._sizes)) < self._sizes[:, np.newaxis]
        # Which network output is the logit of a choice.
        self._index = np.where(self._exists, np.cumsum(self._exists).reshape(self._exists.shape) - 1, 0)

    def _arrange(self, x, missing):
        if self._exists.all():
            return _unflatten(x, self._exists.shape)
        return tf.where(self._exists, tf.gather(x, self._index, axis=-1), missing)

    def _sum_parts(self, x):
        return tf.reduce_sum(x, axis=-1)


class _BoxActions(ActionDistribution):
    """Base of the distributions of D independent numbers; both parameters and raw, the draw, are [..., D].

    A subclass turns the network's outputs, [..., D * outputs_per_number], into parameters with `_params`.
    """

    def __init__(self, action_spec, outputs_per_number=2):
        size = action_spec.shape.num_elements()
        spec = tf.TensorSpec((size,), tf.float32)
        super().__init__((spec, spec), spec, num_outputs=outputs_per_number * size)
        self._spec = action_spec
        self._is_scaled = False

    def _scale_to_bounds(self, setting):
        """Maps [-1, 1] to the bounds, which `setting`, a text, demands."""
        self._low, self._high = low, high = _read_bounds(self._spec)
        # In a spec, the limits of the dtype mean infinity.
        if not np.all(np.maximum(np.abs(low), np.abs(high)) < self._spec.dtype.max):
            raise ConfigError(f"{setting}: that needs finite bounds, and action_spec is {self._spec}")
        self._center, self._radius = low / 2 + high / 2, high / 2 - low / 2
        self._is_scaled = True

    def params(self, outputs, mask=None):
        if mask is not None:
            raise ConfigError(f"the action mask is {mask}: an action of floating point has none")
        return self._params(outputs)

    def action(self, raw):
        x = tf.cast(raw, self._spec.dtype)
        if self._is_scaled:
            # Clipped, because rounding alone may lead beyond the bounds.
            x = tf.clip_by_value(self._center + self._radius * x, self._low, self._high)
        return _unflatten(x, self._spec.shape)


class GaussianActions(_BoxActions):
    """A box of D independent normal actions.

    The parameters are (loc, log_std), raw is the draw, all [..., D]. The environment clips actions beyond its
    bounds; densities are those of the draw before clipping. With std = exp(log_std), and sums over D:

        log p(raw) = -sum((raw - loc)^2 / (2 std^2) + log_std + log(2 pi) / 2)
        entropy    = sum(log_std + log(2 pi e) / 2)
        KL(p || q) = sum(log_std_q - log_std_p + (std_p^2 + (loc_p - loc_q)^2) / (2 std_q^2) - 1 / 2)

    The network makes loc, and of its other outputs x the standard deviation:

        "exp":       std = exp(x + init_log_std)
        "softplus":  std = log(1 + exp(x + c)), where c makes it exp(init_log_std) at x = 0

    The exponential scales with x; softplus grows no faster than x, so that no output makes it explode.

    Args:
        action_spec: tensor spec of floating point.
        std: "state": the network computes x from the state; "shared": x + init_log_std, or x + c, is a
            variable, the same in every state; "fixed": the standard deviation is always exp(init_log_std).
        init_log_std: logarithm of the standard deviation at the start.
        scale_to_bounds: maps [-1, 1] to the bounds, which must be finite; actions beyond them are clipped.
        std_transform: "exp" or "softplus", see above; of no effect if the standard deviation is fixed.
        min_log_std, max_log_std: limits of log_std, within [-20, 20]. At a limit an output of the network has
            no gradient; the variable of "shared" comes back.
    """

    def __init__(
        self,
        action_spec,
        std="state",
        init_log_std=0.0,
        scale_to_bounds=False,
        std_transform="exp",
        min_log_std=-5.0,
        max_log_std=2.0,
    ):
        if min_log_std >= max_log_std:
            raise ConfigError(f"max_log_std is {max_log_std}: it must be above min_log_std = {min_log_std}")
        if not min_log_std <= init_log_std <= max_log_std:
            raise ConfigError(
                f"init_log_std is {init_log_std}: it must be from min_log_std = {min_log_std} to "
                f"max_log_std = {max_log_std}"
            )
        super().__init__(action_spec, outputs_per_number=2 if std == "state" else 1)
        if scale_to_bounds:
            self._scale_to_bounds("scale_to_bounds is True")
        invert = _log_softplus_inverse if std_transform == "softplus" else float
        low, self._start, high = map(invert, (min_log_std, init_log_std, max_log_std))
        # Before the transform: log(softplus(x)) has no finite gradient where softplus(x) is 0 in float32.
        self._limit = functools.partial(tf.clip_by_value, clip_value_min=low, clip_value_max=high)
        self._std, self._is_softplus, self._shared = std, std_transform == "softplus", None
        if std == "shared":
            # The optimizer limits it through this constraint. If `params` limited it, it would have no
            # gradient beyond the limits, and would stay there.
            initial = tf.fill(self.raw_spec.shape, self._start)
            self._shared = tf.Variable(initial, constraint=self._limit, name="std_before_transform")

    def _params(self, outputs):
        if self._std == "state":
            loc, x = tf.split(outputs, 2, axis=-1)
            return loc, self._log_std(self._limit(x + self._start))
        x = self._start if self._shared is None else self._shared
        return outputs, tf.broadcast_to(self._log_std(x), tf.shape(outputs))

    def _log_std(self, x):
        return tf.math.log(tf.nn.softplus(x)) if self._is_softplus else x

    def sample(self, params):
        return self.draw(params, tf.random.normal(tf.shape(params[0])))

    def draw(self, params, noise):
        """Computes `raw` from standard normal `noise`, float32 [..., D]."""
        loc, log_std = params
        return loc + tf.exp(log_std) * noise

    def mode(self, params):
        return params[0]

    def log_prob(self, params, raw):
        loc, log_std = params
        z = (raw - loc) * tf.exp(-log_std)
        return -tf.reduce_sum(0.5 * tf.square(z) + log_std + 0.5 * math.log(2 * math.pi), axis=-1)

    def entropy(self, params):
        return tf.reduce_sum(params[1] + 0.5 * math.log(2 * math.pi * math.e), axis=-1)

    def kl(self, params_p, params_q):
        (loc_p, log_std_p), (loc_q, log_std_q) = params_p, params_q
        variance = tf.exp(2 * (log_std_p - log_std_q))
        distance = tf.square((loc_p - loc_q) * tf.exp(-log_std_q))
        return tf.reduce_sum(0.5 * (variance + distance - 1) + log_std_q - log_std_p, axis=-1)


class TanhGaussianActions(GaussianActions):
    """A box of D independent normal draws, squashed by tanh and scaled to the bounds, which must be finite.

    Parameters and arguments are as in `GaussianActions`; raw is the draw before tanh, [..., D]. Densities are
    those of the action in [-1, 1], log p(raw) - sum(log(1 - tanh(raw)^2)); the mode is that of the draw.
    Squashing changes no KL divergence.
    """

    def __init__(
        self,
        action_spec,
        std="state",
        init_log_std=0.0,
        std_transform="exp",
        min_log_std=-5.0,
        max_log_std=2.0,
    ):
        super().__init__(action_spec, std, init_log_std, False, std_transform, min_log_std, max_log_std)
        self._scale_to_bounds("continuous is 'tanh_gaussian'")

    def action(self, raw):
        return super().action(tf.tanh(raw))

    def log_prob(self, params, raw):
        return super().log_prob(params, raw) - _log_slope_of_tanh(raw)

    def entropy(self, params):
        """Estimates the entropy from one sample; it has no closed form."""
        return super().entropy(params) + _log_slope_of_tanh(self.sample(params))


class BetaActions(_BoxActions):
    """A box of D independent Beta draws, scaled to the bounds of `action_spec`, which must be finite.

    The parameters are (alpha, beta), both above 1, so that there is one mode; raw is the draw in (0, 1); all
    are [..., D]. Densities are those of raw.
    """

    def __init__(self, action_spec):
        super().__init__(action_spec)
        self._scale_to_bounds("continuous is 'beta'")

    def _params(self, outputs):
        return tuple(tf.split(1 + tf.nn.softplus(outputs), 2, axis=-1))

    def sample(self, params):
        x, y = tf.unstack(tf.random.gamma((), tf.stack(params)))
        return tf.clip_by_value(x / (x + y), _EDGE, 1 - _EDGE)

    def mode(self, params):
        alpha, beta = params
        # In float32 both may be 1: then all numbers are equally likely, and the mode is the middle.
        mode = (alpha - 1 + _EDGE) / (alpha + beta - 2 + 2 * _EDGE)
        return tf.clip_by_value(mode, _EDGE, 1 - _EDGE)

    def action(self, raw):
        return super().action(2 * raw - 1)

    def log_prob(self, params, raw):
        alpha, beta = params
        log_p = (alpha - 1) * tf.math.log(raw) + (beta - 1) * tf.math.log1p(-raw)
        return tf.reduce_sum(log_p - _log_beta(alpha, beta), axis=-1)

    def entropy(self, params):
        alpha, beta = params
        total = alpha + beta
        entropy = _log_beta(alpha, beta) + (total - 2) * tf.math.digamma(total)
        entropy -= (alpha - 1) * tf.math.digamma(alpha) + (beta - 1) * tf.math.digamma(beta)
        return tf.reduce_sum(entropy, axis=-1)

    def kl(self, params_p, params_q):
        (alpha, beta), (alpha_q, beta_q) = params_p, params_q
        more_alpha, more_beta = alpha - alpha_q, beta - beta_q
        kl = _log_beta(alpha_q, beta_q) - _log_beta(alpha, beta)
        kl += more_alpha * tf.math.digamma(alpha) + more_beta * tf.math.digamma(beta)
        kl -= (more_alpha + more_beta) * tf.math.digamma(alpha + beta)
        return tf.reduce_sum(kl, axis=-1)


class NestedActions(ActionDistribution):
    """A dict, tuple or list of independent actions, made by `make_part`: (spec) -> `ActionDistribution`.

    Parameters, raw and masks have the structure of the specs, which is not empty. A mask that is None, or
    missing in a dict, allows all actions of its part.
    """

    def __init__(self, action_spec, make_part):
        self._keys = tuple(action_spec if isinstance(action_spec, Mapping) else range(len(action_spec)))
        if not self._keys:
            raise ConfigError(f"action_spec is {action_spec}: it holds no action")
        self._spec = action_spec
        self._parts = tuple(make_part(action_spec[key]) for key in self._keys)
        params_spec = self._pack(part.params_spec for part in self._parts)
        raw_spec = self._pack(part.raw_spec for part in self._parts)
        super().__init__(params_spec, raw_spec, num_outputs=sum(part.num_outputs for part in self._parts))

    def _pack(self, entries):
        """Gives the entries of the parts the structure of the action spec."""
        if isinstance(self._spec, Mapping):
            return dict(zip(self._keys, entries))
        if hasattr(self._spec, "_make"):  # a namedtuple
            return self._spec._make(entries)
        return list(entries) if isinstance(self._spec, list) else tuple(entries)

    def _zip(self, *nests):
        """Pairs each part with its entries of `nests`."""
        return zip(self._parts, *([nest[key] for key in self._keys] for nest in nests))

    def params(self, outputs, mask=None):
        outputs = tf.split(outputs, [part.num_outputs for part in self._parts], axis=-1)
        is_dict = isinstance(self._spec, Mapping)
        if mask is None:
            masks = [None] * len(self._parts)
        elif is_dict and isinstance(mask, Mapping) and mask.keys() <= set(self._keys):
            masks = [mask.get(key) for key in self._keys]
        elif not is_dict and isinstance(mask, (list, tuple)) and len(mask) == len(self._keys):
            masks = mask
        else:
            raise ConfigError(f"the action mask is {mask}: it must have the structure of {self._spec}")
        return self._pack(part.params(x, m) for part, x, m in zip(self._parts, outputs, masks))

    def sample(self, params):
        return self._pack(part.sample(p) for part, p in self._zip(params))

    def mode(self, params):
        return self._pack(part.mode(p) for part, p in self._zip(params))

    def action(self, raw):
        return self._pack(part.action(r) for part, r in self._zip(raw))

    def log_prob(self, params, raw):
        return tf.add_n([part.log_prob(p, r) for part, p, r in self._zip(params, raw)])

    def entropy(self, params):
        return tf.add_n([part.entropy(p) for part, p in self._zip(params)])

    def kl(self, params_p, params_q):
        return tf.add_n([part.kl(p, q) for part, p, q in self._zip(params_p, params_q)])

    def has_choice(self, params):
        return tf.reduce_any([part.has_choice(p) for part, p in self._zip(params)], axis=0)

    def symmetric_kl_to_uniform(self, params):
        return tf.add_n([part.symmetric_kl_to_uniform(p) for part, p in self._zip(params)])


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
) -> ActionDistribution:
    """Chooses the `ActionDistribution` for an action spec, or for each part of a nest of specs.

    A spec without a distribution, and a setting that is wrong or would have no effect, are a `ConfigError`.

    Args:
        action_spec: nest of unbatched tensor specs: integers with bounds, or of floating point.
        continuous: the distribution of floating point actions: "gaussian", "tanh_gaussian" or "beta".
        std, init_log_std, std_transform, min_log_std, max_log_std: as in `GaussianActions`, for "gaussian"
            and "tanh_gaussian"; None for the default.
        scale_to_bounds: as in `GaussianActions`, for "gaussian" alone: the others always scale.
    """
    distribution = _CONTINUOUS[continuous]
    options: dict[str, Any] = {"std": std, "init_log_std": init_log_std, "scale_to_bounds": scale_to_bounds}
    options |= {"std_transform": std_transform, "min_log_std": min_log_std, "max_log_std": max_log_std}
    options = {name: value for name, value in options.items() if value is not None}
    for name, value in options.items():
        if name not in inspect.signature(distribution).parameters:
            raise ConfigError(f"{name} is {value!r}: it has no effect where continuous is {continuous!r}")
    if std == "fixed" and std_transform is not None:
        raise ConfigError(f"std_transform is {std_transform!r}: it has no effect where std is 'fixed'")
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


def split_mask(observation, key):
    """Takes the action mask, the entry `key`, out of an observation, or its spec out of the spec.

    Returns the observation without the mask, or its only other entry itself; and the mask, or None. If each
    entry of the observation has a mask, as those of agents with different spaces, both are dicts.
    """
    if key is None:
        return observation, None
    if not has_mask(observation, key):
        has = f"the keys {list(observation)}" if isinstance(observation, Mapping) else "no keys"
        raise ConfigError(f"action_mask_key is {key!r}: the observation has {has}")
    if key not in observation:
        parts = {name: split_mask(x, key) for name, x in observation.items()}
        return tuple({name: part[i] for name, part in parts.items()} for i in range(2))
    rest = {k: v for k, v in observation.items() if k != key}
    if not rest:
        raise ConfigError(f"action_mask_key is {key!r}: the observation has nothing but that")
    return (rest if len(rest) > 1 else rest.popitem()[1]), observation[key]


def has_mask(observation, key):
    """Whether an observation, or its spec, is a dict with the entry `key`, or of dicts that all have it."""
    if not isinstance(observation, Mapping) or not observation:
        return False
    return key in observation or all(isinstance(x, Mapping) and key in x for x in observation.values())


def _read_bounds(action_spec):
    """Returns the minimum and the maximum of every number, flat arrays; without bounds they are infinite."""
    bounds = (-np.inf, np.inf)
    if isinstance(action_spec, BoundedTensorSpec):
        bounds = (action_spec.minimum, action_spec.maximum)
    elif action_spec.dtype.is_integer:
        raise ConfigError(f"action_spec is {action_spec}: a discrete action needs bounds")
    low, high = (np.broadcast_to(x, action_spec.shape).ravel() for x in bounds)
    if not np.all(low <= high):
        raise ConfigError(f"action_spec is {action_spec}: a minimum is above its maximum")
    return low, high


def _unflatten(x, shape):
    """[..., size] -> [..., *shape]."""
    return x if len(shape) == 1 else tf.reshape(x, tf.concat([tf.shape(x)[:-1], shape], axis=0))


def _log_softplus_inverse(y):
    """Computes the x of y = log(log(1 + exp(x)))."""
    std = math.exp(y)
    return std + math.log(-math.expm1(-std))


def _log_slope_of_tanh(x):
    """Computes log(1 - tanh(x)^2), summed over the last axis; the literal formula would lose all digits."""
    return tf.reduce_sum(2 * (math.log(2) - x - tf.nn.softplus(-2 * x)), axis=-1)


def _log_beta(alpha, beta):
    return tf.math.lgamma(alpha) + tf.math.lgamma(beta) - tf.math.lgamma(alpha + beta)
