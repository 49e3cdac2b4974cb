# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Action distributions: which parameters they take, and how actions are drawn from them.

What is drawn, `raw`, is kept next to the parameters, because densities are its densities: the
environment's action is made of it by scaling and squashing that cannot be undone.
"""

import abc
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import gin
import numpy as np
import tensorflow as tf
from tf_agents.specs import tensor_spec

from alf.errors import ConfigError, check_number

# The logit of a forbidden action: its probability is 0 in float32, yet sums of its log-probability
# and the gradients of entropy and KL divergence stay finite.
_FORBIDDEN = -1e9
# More choices than any network has outputs for: bounds that are those of the dtype.
_MAX_CHOICES = 2**20
# Keeps densities finite: e^-5 is far below what any control task resolves.
_MIN_LOG_STD, _MAX_LOG_STD = -5.0, 2.0
# How close to 0 and 1, where its density may be 0, a Beta distribution draws.
_EDGE = 1e-6


class ActionInfo(NamedTuple):
    """What training needs of an action: `PolicyStep.info`.

    Fields:
        params: nest of [B, ...]; the distribution's parameters.
        raw: nest of [B, ...]; what was drawn from it.
    """

    params: Any
    raw: Any


class ActionDistribution(tf.Module, abc.ABC):
    """A family of distributions over the actions of one spec.

    Leading dimensions [...] are any, e.g. [B] or [T, B].

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
        """Turns network outputs into parameters, in which forbidden actions have no probability.

        Args:
            outputs: float32 [..., num_outputs].
            mask: [..., num_outputs] of any dtype, 0 where an action is forbidden; None allows all. Where it
                would allow nothing, as at many a LAST step, it allows all.

        Returns:
            nest of float32 [..., *shape] like `params_spec`.

        Raises:
            ConfigError: if the mask does not fit.
        """

    @abc.abstractmethod
    def sample(self, params):
        """Draws `raw`, a nest of [..., *shape] like `raw_spec`."""

    @abc.abstractmethod
    def mode(self, params):
        """The most likely `raw`."""

    @abc.abstractmethod
    def action(self, raw):
        """The environment's action, a nest of [..., *shape] like the action spec."""

    @abc.abstractmethod
    def log_prob(self, params, raw):
        """log p(raw), float32 [...], of all parts of the action together."""

    @abc.abstractmethod
    def entropy(self, params):
        """Entropy in nats, float32 [...]."""

    @abc.abstractmethod
    def kl(self, params_p, params_q):
        """KL(p || q) in nats, float32 [...]."""


class CategoricalActions(ActionDistribution):
    """One of n integers. The parameters are logits [..., n], raw is the index of the choice [...]."""

    def __init__(self, action_spec):
        (self._minimum,), (size,) = _choices(action_spec)
        self._dtype = action_spec.dtype
        super().__init__(
            params_spec=tf.TensorSpec((size,), tf.float32),
            # Where it can be, the index is the action.
            raw_spec=tf.TensorSpec((), tf.int64 if self._dtype == tf.int64 else tf.int32),
            num_outputs=size,
        )

    def params(self, outputs, mask=None):
        return outputs if mask is None else _forbid(outputs, _to_bool(mask, outputs))

    def sample(self, params):
        return _draw(params, self.raw_spec.dtype)

    def mode(self, params):
        return tf.argmax(params, axis=-1, output_type=self.raw_spec.dtype)

    def action(self, raw):
        action = tf.cast(raw, self._dtype)
        return action + self._minimum if self._minimum else action

    def log_prob(self, params, raw):
        return _log_prob(params, raw)

    def entropy(self, params):
        return _entropy(params)

    def kl(self, params_p, params_q):
        return _kl(params_p, params_q)


class MultiCategoricalActions(ActionDistribution):
    """D integers, each with choices of its own.

    The network's outputs and the mask are concatenated [..., sum of n]; the parameters are logits
    [..., D, greatest n], where choices that there are not are forbidden; raw is [..., D] of indices.
    """

    def __init__(self, action_spec):
        minimum, sizes = _choices(action_spec)
        self._minimum = np.array(minimum, action_spec.dtype.as_numpy_dtype)
        self._spec = action_spec
        self._exists = np.arange(max(sizes)) < np.array(sizes)[:, np.newaxis]
        # Which output is the logit of a choice.
        self._index = np.where(self._exists, np.cumsum(self._exists).reshape(self._exists.shape) - 1, 0)
        super().__init__(
            params_spec=tf.TensorSpec(self._exists.shape, tf.float32),
            raw_spec=tf.TensorSpec((len(sizes),), tf.int32),
            num_outputs=sum(sizes),
        )

    def params(self, outputs, mask=None):
        logits = self._pad(outputs)
        if mask is not None:
            logits = _forbid(logits, self._pad(_to_bool(mask, outputs)) & self._exists)
        return logits if self._exists.all() else tf.where(self._exists, logits, _FORBIDDEN)

    def sample(self, params):
        return _draw(params, tf.int32)

    def mode(self, params):
        return tf.argmax(params, axis=-1, output_type=tf.int32)

    def action(self, raw):
        action = tf.cast(raw, self._spec.dtype)
        if self._minimum.any():
            action += self._minimum
        return _unflatten(action, self._spec.shape)

    def log_prob(self, params, raw):
        return tf.reduce_sum(_log_prob(params, raw), axis=-1)

    def entropy(self, params):
        return tf.reduce_sum(_entropy(params), axis=-1)

    def kl(self, params_p, params_q):
        return tf.reduce_sum(_kl(params_p, params_q), axis=-1)

    def _pad(self, x):
        if self._exists.all():
            return _unflatten(x, self._exists.shape)
        return tf.gather(x, self._index, axis=-1)


class GaussianActions(ActionDistribution):
    """A box of D independent normal actions.

    The parameters are (loc, log_std), raw is the draw, all [..., D].

    Bounds are the environment's affair: it clips what it is given, and the policy keeps the density of
    what it drew.

    Args:
        action_spec: of floating point.
        std: "state", the network gives it; or "shared", it is a variable, the same in every state.
        init_log_std: logarithm of the standard deviation where training begins; it stays in [-5, 2].
        scale_to_bounds: whether [-1, 1] is mapped to the bounds; what is beyond them is clipped.

    Raises:
        ConfigError: if a setting is wrong, or `scale_to_bounds` has no finite bounds.
    """

    def __init__(self, action_spec, std="state", init_log_std=0.0, scale_to_bounds=False):
        if std not in ("state", "shared"):
            raise ConfigError(f"std is {std!r}: it must be 'state' or 'shared'")
        check_number("init_log_std", init_log_std, at_least=_MIN_LOG_STD, at_most=_MAX_LOG_STD)
        self._box = _Box(action_spec, "scale_to_bounds is True" if scale_to_bounds else None)
        spec = tf.TensorSpec((self._box.size,), tf.float32)
        num_outputs = self._box.size * (2 if std == "state" else 1)
        super().__init__(params_spec=(spec, spec), raw_spec=spec, num_outputs=num_outputs)
        self._init_log_std = init_log_std
        self._log_std = None
        if std == "shared":
            # A constraint of the optimizer's: if it were clipped where it is read, it would have no gradient
            # beyond the limits, and stay there.
            self._log_std = tf.Variable(
                tf.fill(spec.shape, float(init_log_std)), constraint=_limit_log_std, name="log_std"
            )

    def params(self, outputs, mask=None):
        _refuse_mask(mask)
        if self._log_std is not None:
            return outputs, tf.broadcast_to(self._log_std, tf.shape(outputs))
        loc, log_std = tf.split(outputs, 2, axis=-1)
        return loc, _limit_log_std(log_std + self._init_log_std)

    def sample(self, params):
        return self.draw(params, tf.random.normal(tf.shape(params[0])))

    def draw(self, params, noise):
        """The raw action that standard normal `noise`, float32 [..., D], leads to."""
        loc, log_std = params
        return loc + tf.exp(log_std) * noise

    def mode(self, params):
        return params[0]

    def action(self, raw):
        return self._box.action(raw)

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


class TanhGaussianActions(ActionDistribution):
    """A bounded box of D independent normal draws, squashed by tanh and scaled to the bounds.

    The parameters are (loc, log_std), raw is the draw before tanh, all [..., D]. Densities are those of the
    action in [-1, 1]. The mode is that of the draw.

    Args:
        action_spec, std, init_log_std: as in `GaussianActions`.

    Raises:
        ConfigError: if a setting is wrong, or a bound is not finite.
    """

    def __init__(self, action_spec, std="state", init_log_std=0.0):
        self._gaussian = GaussianActions(action_spec, std, init_log_std)
        self._box = _Box(action_spec, "continuous is 'tanh_gaussian'")
        super().__init__(self._gaussian.params_spec, self._gaussian.raw_spec, self._gaussian.num_outputs)

    def params(self, outputs, mask=None):
        return self._gaussian.params(outputs, mask)

    def sample(self, params):
        return self._gaussian.sample(params)

    def draw(self, params, noise):
        """As in `GaussianActions`."""
        return self._gaussian.draw(params, noise)

    def mode(self, params):
        return self._gaussian.mode(params)

    def action(self, raw):
        return self._box.action(tf.tanh(raw))

    def log_prob(self, params, raw):
        return self._gaussian.log_prob(params, raw) - _log_slope_of_tanh(raw)

    def entropy(self, params):
        """Estimated from one sample; it has no closed form."""
        return self._gaussian.entropy(params) + _log_slope_of_tanh(self.sample(params))

    def kl(self, params_p, params_q):
        return self._gaussian.kl(params_p, params_q)  # squashing both does not change it


class BetaActions(ActionDistribution):
    """A bounded box of D independent Beta draws, scaled to the bounds.

    The parameters are (alpha, beta), both above 1, so that there is one mode; raw is the draw in (0, 1),
    whose densities are meant; all [..., D].

    Raises:
        ConfigError: if a bound is not finite.
    """

    def __init__(self, action_spec):
        self._box = _Box(action_spec, "continuous is 'beta'")
        spec = tf.TensorSpec((self._box.size,), tf.float32)
        super().__init__(params_spec=(spec, spec), raw_spec=spec, num_outputs=2 * self._box.size)

    def params(self, outputs, mask=None):
        _refuse_mask(mask)
        return tuple(tf.split(1 + tf.nn.softplus(outputs), 2, axis=-1))

    def sample(self, params):
        x, y = tf.unstack(tf.random.gamma((), tf.stack(params)))
        return _keep_off_the_edges(x / (x + y))

    def mode(self, params):
        alpha, beta = params
        # In float32 both may be 1, where every number is as likely: then it is the middle.
        return _keep_off_the_edges((alpha - 1 + _EDGE) / (alpha + beta - 2 + 2 * _EDGE))

    def action(self, raw):
        return self._box.action(2 * raw - 1)

    def log_prob(self, params, raw):
        alpha, beta = params
        log_p = (alpha - 1) * tf.math.log(raw) + (beta - 1) * tf.math.log1p(-raw)
        return tf.reduce_sum(log_p - _log_beta(alpha, beta), axis=-1)

    def entropy(self, params):
        alpha, beta = params
        return tf.reduce_sum(
            _log_beta(alpha, beta)
            - (alpha - 1) * tf.math.digamma(alpha)
            - (beta - 1) * tf.math.digamma(beta)
            + (alpha + beta - 2) * tf.math.digamma(alpha + beta),
            axis=-1,
        )

    def kl(self, params_p, params_q):
        (alpha, beta), (alpha_q, beta_q) = params_p, params_q
        return tf.reduce_sum(
            _log_beta(alpha_q, beta_q)
            - _log_beta(alpha, beta)
            + (alpha - alpha_q) * tf.math.digamma(alpha)
            + (beta - beta_q) * tf.math.digamma(beta)
            + (alpha_q - alpha + beta_q - beta) * tf.math.digamma(alpha + beta),
            axis=-1,
        )


class NestedActions(ActionDistribution):
    """A dict or tuple of independent actions. Parameters, raw and masks are one too, of those of the parts.

    A mask that is None, or missing in a dict, allows all.

    Args:
        action_spec: dict, tuple or list of specs.
        make_part: callable (spec) -> `ActionDistribution`.
    """

    def __init__(self, action_spec, make_part):
        self._keys = tuple(action_spec if isinstance(action_spec, Mapping) else range(len(action_spec)))
        if not self._keys:
            raise ConfigError(f"action_spec is {action_spec}: it holds no action")
        self._like = action_spec
        self._parts = tuple(make_part(spec) for spec in self._entries(action_spec))
        super().__init__(
            params_spec=self._pack(part.params_spec for part in self._parts),
            raw_spec=self._pack(part.raw_spec for part in self._parts),
            num_outputs=sum(part.num_outputs for part in self._parts),
        )

    def params(self, outputs, mask=None):
        outputs = tf.split(outputs, [part.num_outputs for part in self._parts], axis=-1)
        masks = self._masks(mask)
        return self._pack(part.params(x, m) for part, x, m in zip(self._parts, outputs, masks))

    def sample(self, params):
        return self._pack(part.sample(p) for part, p in self._each(params))

    def mode(self, params):
        return self._pack(part.mode(p) for part, p in self._each(params))

    def action(self, raw):
        return self._pack(part.action(r) for part, r in self._each(raw))

    def log_prob(self, params, raw):
        return tf.add_n([part.log_prob(p, r) for part, p, r in self._each(params, raw)])

    def entropy(self, params):
        return tf.add_n([part.entropy(p) for part, p in self._each(params)])

    def kl(self, params_p, params_q):
        return tf.add_n([part.kl(p, q) for part, p, q in self._each(params_p, params_q)])

    def _entries(self, nest):
        return [nest[key] for key in self._keys]

    def _each(self, *nests):
        return zip(self._parts, *map(self._entries, nests))

    def _pack(self, entries):
        if isinstance(self._like, Mapping):
            return dict(zip(self._keys, entries))
        if hasattr(self._like, "_make"):  # a namedtuple
            return self._like._make(entries)
        return list(entries) if isinstance(self._like, list) else tuple(entries)

    def _masks(self, mask):
        if mask is None:
            return [None] * len(self._parts)
        if isinstance(self._like, Mapping):
            if isinstance(mask, Mapping) and mask.keys() <= set(self._keys):
                return [mask.get(key) for key in self._keys]
        elif isinstance(mask, (list, tuple)) and len(mask) == len(self._keys):
            return self._entries(mask)
        raise ConfigError(f"the action mask is {mask}: it must have the structure of {self._like}")


@gin.configurable(module="alf.policies")
def make_action_distribution(
    action_spec, continuous="gaussian", std=None, init_log_std=None, scale_to_bounds=None
):
    """Chooses the distribution for an action spec, or for each part of a nest of them.

    Args:
        action_spec: nest of unbatched tensor specs: integers with bounds, or of floating point.
        continuous: what actions of floating point are: "gaussian", "tanh_gaussian" or "beta".
        std: as in `GaussianActions`, for "gaussian" and "tanh_gaussian"; None is its default.
        init_log_std: the same.
        scale_to_bounds: the same, for "gaussian" alone: the others always do.

    Returns:
        `ActionDistribution`.

    Raises:
        ConfigError: if there is none for a spec, or a setting is wrong or would have no effect.
    """
    if continuous not in _CONTINUOUS:
        choices = ", ".join(map(repr, _CONTINUOUS))
        raise ConfigError(f"continuous is {continuous!r}: it must be one of {choices}")
    options = {"std": std, "init_log_std": init_log_std, "scale_to_bounds": scale_to_bounds}
    options = {name: value for name, value in options.items() if value is not None}
    _check_effect(action_spec, continuous, options)
    return _make(action_spec, lambda spec: _CONTINUOUS[continuous][0](spec, **options))


def split_mask(observation, key):
    """Takes the action mask out of an observation, or its spec out of the spec.

    Args:
        observation: a dict, unless `key` is None.
        key: of the mask, the setting `action_mask_key`; None if there is none.

    Returns:
        the observation without the mask, the entry alone if it is the only one left; and the mask or None.

    Raises:
        ConfigError: if there is no such mask, or nothing else.
    """
    if key is None:
        return observation, None
    if not isinstance(observation, Mapping) or key not in observation:
        has = f"the keys {list(observation)}" if isinstance(observation, Mapping) else "no keys"
        raise ConfigError(f"action_mask_key is {key!r}: the observation has {has}")
    rest = {k: v for k, v in observation.items() if k != key}
    if not rest:
        raise ConfigError(f"action_mask_key is {key!r}: the observation has nothing but that")
    return (rest if len(rest) > 1 else rest.popitem()[1]), observation[key]


_CONTINUOUS = {  # the class, and which options it takes
    "gaussian": (GaussianActions, ("std", "init_log_std", "scale_to_bounds")),
    "tanh_gaussian": (TanhGaussianActions, ("std", "init_log_std")),
    "beta": (BetaActions, ()),
}


def _make(action_spec, make_continuous):
    if tf.nest.is_nested(action_spec):
        return NestedActions(action_spec, lambda spec: _make(spec, make_continuous))
    if not isinstance(action_spec, tf.TensorSpec) or not action_spec.shape.num_elements():
        raise ConfigError(f"action_spec is {action_spec}: it must be a tensor spec of a known, positive size")
    if action_spec.dtype.is_floating:
        return make_continuous(action_spec)
    if action_spec.dtype.is_integer:
        return (MultiCategoricalActions if action_spec.shape.rank else CategoricalActions)(action_spec)
    raise ConfigError(f"action_spec is {action_spec}: its dtype must be an integer or floating point")


def _check_effect(action_spec, continuous, options):
    for name, value in options.items():
        if name not in _CONTINUOUS[continuous][1]:
            raise ConfigError(f"{name} is {value!r}: it has no effect where continuous is {continuous!r}")
    if continuous != "gaussian":
        options = {"continuous": continuous, **options}
    specs = [spec for spec in tf.nest.flatten(action_spec) if isinstance(spec, tf.TensorSpec)]
    if options and not any(spec.dtype.is_floating for spec in specs):
        name, value = next(iter(options.items()))
        raise ConfigError(f"{name} is {value!r}: it has no effect, no action is of floating point")


class _Box:
    """Makes actions in a box of rows of numbers.

    Args:
        action_spec: of floating point.
        scaled_by: the setting that maps [-1, 1] to the bounds, for errors; None if there is none.

    Attributes:
        size: numbers of a row.
    """

    def __init__(self, action_spec, scaled_by):
        self.size = action_spec.shape.num_elements()
        self._spec = action_spec
        self._is_scaled = scaled_by is not None
        if self._is_scaled:
            self._low, self._high = low, high = _bounds(action_spec)
            # Specs have the dtype's limits for infinity.
            if not np.all(np.maximum(np.abs(low), np.abs(high)) < action_spec.dtype.max):
                raise ConfigError(f"{scaled_by}: that needs finite bounds, and action_spec is {action_spec}")
            self._center, self._radius = low / 2 + high / 2, high / 2 - low / 2

    def action(self, x):
        """Args: float32 [..., size]. Returns: [..., *shape]."""
        x = tf.cast(x, self._spec.dtype)
        if self._is_scaled:
            # Rounding alone leads beyond the bounds, too.
            x = tf.clip_by_value(self._center + self._radius * x, self._low, self._high)
        return _unflatten(x, self._spec.shape)


def _bounds(action_spec):
    """Minimum and maximum of every number, flat arrays; infinite where a spec of floating point has none."""
    if not isinstance(action_spec, tensor_spec.BoundedTensorSpec):
        if action_spec.dtype.is_integer:
            raise ConfigError(f"action_spec is {action_spec}: a discrete action needs bounds")
        return -np.full(action_spec.shape, np.inf).ravel(), np.full(action_spec.shape, np.inf).ravel()
    bounds = (action_spec.minimum, action_spec.maximum)
    low, high = (np.broadcast_to(x, action_spec.shape).ravel() for x in bounds)
    if not np.all(low <= high):
        raise ConfigError(f"action_spec is {action_spec}: a minimum is above its maximum")
    return low, high


def _choices(action_spec):
    """Minimum and number of choices of every integer, lists of ints."""
    low, high = (x.tolist() for x in _bounds(action_spec))
    sizes = [b - a + 1 for a, b in zip(low, high)]
    if sum(sizes) > _MAX_CHOICES:
        raise ConfigError(
            f"action_spec is {action_spec}: {sum(sizes)} choices are too many for a discrete action"
        )
    return low, sizes


def _unflatten(x, shape):
    """[..., size] -> [..., *shape]."""
    if len(shape) == 1:
        return x
    return tf.reshape(x, tf.concat([tf.shape(x)[:-1], shape], axis=0))


def _to_bool(mask, outputs):
    if tf.nest.is_nested(mask) or not outputs.shape.is_compatible_with(np.shape(mask)):
        raise ConfigError(f"the action mask is {mask}: it must be of the logits' shape {outputs.shape}")
    return tf.cast(mask, tf.bool)


def _refuse_mask(mask):
    if mask is not None:
        raise ConfigError(f"the action mask is {mask}: an action of floating point has none")


def _forbid(logits, mask):
    """Args: float32 and bool, both [..., n]. A row that allows nothing allows all."""
    mask |= ~tf.reduce_any(mask, axis=-1, keepdims=True)
    return tf.where(mask, logits, _FORBIDDEN)


def _draw(logits, dtype):
    """An index [...] for logits [..., n]."""
    index = tf.random.categorical(tf.reshape(logits, (-1, logits.shape[-1])), 1, dtype=dtype)
    return tf.reshape(index, tf.shape(logits)[:-1])


def _log_prob(logits, index):
    return -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=index, logits=logits)


def _entropy(logits):
    log_p = tf.nn.log_softmax(logits)
    return -tf.reduce_sum(tf.exp(log_p) * log_p, axis=-1)


def _kl(logits_p, logits_q):
    log_p, log_q = tf.nn.log_softmax(logits_p), tf.nn.log_softmax(logits_q)
    return tf.reduce_sum(tf.exp(log_p) * (log_p - log_q), axis=-1)


def _limit_log_std(log_std):
    return tf.clip_by_value(log_std, _MIN_LOG_STD, _MAX_LOG_STD)


def _log_slope_of_tanh(x):
    """log(1 - tanh(x)^2), summed over the last axis, without the loss of precision of the literal formula."""
    return tf.reduce_sum(2 * (math.log(2) - x - tf.nn.softplus(-2 * x)), axis=-1)


def _keep_off_the_edges(x):
    return tf.clip_by_value(x, _EDGE, 1 - _EDGE)


def _log_beta(alpha, beta):
    return tf.math.lgamma(alpha) + tf.math.lgamma(beta) - tf.math.lgamma(alpha + beta)
