# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Distributions of floating point actions: Gaussian, Gaussian squashed by tanh, Beta."""

import functools
import math

import tensorflow as tf

from alf.errors import ConfigError
from alf.ops import draws
from alf.ops.unit_box import action_from_unit_box, are_finite
from alf.policies.action_distributions.distribution import (
    ActionDistribution,
    describe_mask,
    read_bounds,
    unflatten,
)

# Draws of a Beta distribution keep this distance from 0 and 1, where log p may be infinite.
_EDGE = 1e-6


class _BoxActions(ActionDistribution):
    """Base class of distributions of D independent numbers. Both parameters and raw, the draw, are [..., D].

    Subclasses implement `_params`, which turns network outputs [..., D * outputs_per_number] into parameters.
    """

    def __init__(self, action_spec, outputs_per_number=2):
        size = action_spec.shape.num_elements()
        spec = tf.TensorSpec((size,), tf.float32)
        super().__init__((spec, spec), spec, num_outputs=outputs_per_number * size)
        self._spec = action_spec
        self._is_scaled = False

    def _scale_to_bounds(self, setting):
        """Makes `action` map [-1, 1] to the bounds. `setting` is the text of the setting that asks for it."""
        low, high = read_bounds(self._spec)
        if not are_finite(low, high, self._spec.dtype):
            raise ConfigError(f"{setting}: that needs finite bounds, and action_spec is {self._spec}")
        self._is_scaled = True

    def params(self, outputs, mask=None):
        if mask is not None:
            raise ConfigError(
                f"the action mask is {describe_mask(mask)}: an action of floats has none, only integers have"
            )
        return self._params(outputs)

    def action(self, raw):
        if self._is_scaled:
            return action_from_unit_box(raw, self._spec)
        return unflatten(tf.cast(raw, self._spec.dtype), self._spec.shape)


class GaussianActions(_BoxActions):
    """D independent Gaussian actions.

    The parameters are (loc, log_std), raw is the draw, all [..., D]. The environment clips actions beyond its
    bounds; densities are densities of the draw before clipping. With std = exp(log_std), and sums over D:

        log p(raw) = -sum((raw - loc)^2 / (2 std^2) + log_std + log(2 pi) / 2)
        entropy    = sum(log_std + log(2 pi e) / 2)
        KL(p || q) = sum(log_std_q - log_std_p + (std_p^2 + (loc_p - loc_q)^2) / (2 std_q^2) - 1 / 2)

    The network computes loc. It also computes x, from which the standard deviation follows:

        "exp":       std = exp(x + init_log_std)
        "softplus":  std = log(1 + exp(x + c)), where c is such that std = exp(init_log_std) at x = 0

    With "exp" a step of x changes std by the same factor everywhere. With "softplus" std grows no faster than
    x, so no output makes it explode.

    Args:
        action_spec: unbatched tensor spec with a floating point dtype.
        std: "state": the network computes x from the observation. "shared": x + init_log_std, or x + c, is a
            variable, the same for all observations. "fixed": std is always exp(init_log_std).
        init_log_std: float, the logarithm of the standard deviation when training begins.
        scale_to_bounds: bool; True maps [-1, 1] to the bounds, which must be finite, and clips actions beyond
            them.
        std_transform: "exp" or "softplus"; without effect if `std` is "fixed".
        min_log_std, max_log_std: floats, the limits of log_std, within [-20, 20]. A network output beyond a
            limit gets no gradient; the variable of "shared" is moved back to the limit instead.
        noise_correlation: float in [0, 1), r, the correlation of the noise of two steps that follow each
            other in an episode. Above 0, actions go the same way for about 1 / (1 - r) steps, which finds
            rewards that single random steps do not reach. The noise x is autoregressive
            (arXiv 1903.11524): x_0 = e_0 and x_t = r x_(t-1) + sqrt(1 - r^2) e_t with standard normal e. Each
            single action has the same distribution as with r = 0, and densities ignore the correlation
            (arXiv 2312.11091).
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
        noise_correlation=0.0,
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
        self._correlation = noise_correlation
        self.noise_spec = self.raw_spec if noise_correlation else ()
        invert = _log_softplus_inverse if std_transform == "softplus" else float
        # The x at which log_std has these three values.
        low, self._start, high = map(invert, (min_log_std, init_log_std, max_log_std))
        # The limits hold before the transform: log(softplus(x)) has no finite gradient where softplus(x) is 0
        # in float32, and clipping after it would multiply that gradient by 0, which is NaN.
        self._limit = functools.partial(tf.clip_by_value, clip_value_min=low, clip_value_max=high)
        self._std, self._is_softplus, self._shared = std, std_transform == "softplus", None
        if std == "shared":
            # The optimizer applies the limits as a constraint of the variable. If `params` clipped it
            # instead, it would have no gradient beyond a limit and could never come back.
            initial = tf.fill(self.raw_spec.shape, self._start)
            self._shared = tf.Variable(initial, constraint=self._limit, name="std_before_transform")

    def _params(self, outputs):
        if self._std == "state":
            loc, x = tf.split(outputs, 2, axis=-1)
            return loc, self._log_std(self._limit(x + self._start))
        x = self._start if self._shared is None else self._shared
        # One for each row: the experience has the parameters with which its actions were drawn, and the
        # variable changes before the learner sees them.
        return outputs, tf.broadcast_to(self._log_std(x), tf.shape(outputs))

    def _log_std(self, x):
        return tf.math.log(tf.nn.softplus(x)) if self._is_softplus else x

    def sample(self, params):
        # Apart from `draw`, because SAC draws the noise itself, where XLA does not compile
        # (`SacAlgorithm.preprocess`).
        return self.draw(params, draws.normal(tf.shape(params[0])))

    def draw(self, params, noise):
        """Computes `raw` from standard normal `noise`, float32 [..., D]."""
        loc, log_std = params
        return loc + tf.exp(log_std) * noise

    def explore(self, params, noise, is_first):
        if not self._correlation:
            return super().explore(params, noise, is_first)
        new, r = draws.normal(tf.shape(noise)), self._correlation
        noise = tf.where(is_first[:, tf.newaxis], new, r * noise + math.sqrt(1 - r**2) * new)
        return self.draw(params, noise), noise

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
    """D independent Gaussian draws, squashed by tanh and scaled to the bounds, which must be finite.

    raw is the draw before tanh, [..., D]. Densities are densities of the action in [-1, 1],
    log p(raw) - sum(log(1 - tanh(raw)^2)). `mode` returns the mode of the draw. `kl` needs no correction,
    because an invertible map does not change a KL divergence. Parameters and arguments are the same as for
    `GaussianActions`.
    """

    def __init__(
        self,
        action_spec,
        std="state",
        init_log_std=0.0,
        std_transform="exp",
        min_log_std=-5.0,
        max_log_std=2.0,
        noise_correlation=0.0,
    ):
        limits = min_log_std, max_log_std
        super().__init__(action_spec, std, init_log_std, False, std_transform, *limits, noise_correlation)
        self._scale_to_bounds("continuous is 'tanh_gaussian'")

    def unit_action(self, raw):
        """Computes the action in [-1, 1] of draws, float32 [..., D], as critics get it."""
        return tf.tanh(raw)

    def action(self, raw):
        return super().action(self.unit_action(raw))

    def log_prob(self, params, raw):
        # For the action in [-1, 1] and not in the environment's bounds, so that entropies, and SAC's target
        # for them, do not depend on the unit of the actions.
        return super().log_prob(params, raw) - _log_slope_of_tanh(raw)

    def entropy(self, params):
        """Estimates the entropy from one sample; it has no closed form."""
        # The sample is reparameterized, so the gradient of the estimate is unbiased, too.
        return super().entropy(params) + _log_slope_of_tanh(self.sample(params))


class BetaActions(_BoxActions):
    """D independent Beta draws, scaled to the bounds of `action_spec`, which must be finite.

    The parameters are (alpha, beta), both above 1 so that there is a single mode; raw is the draw in (0, 1);
    all are [..., D]. Densities are densities of raw.
    """

    def __init__(self, action_spec):
        super().__init__(action_spec)
        self._scale_to_bounds("continuous is 'beta'")

    def _params(self, outputs):
        # Above 1: below, the density would be infinite at the bounds, and the policy would be drawn to them.
        return tuple(tf.split(1 + tf.nn.softplus(outputs), 2, axis=-1))

    def sample(self, params):
        # A Beta draw is x / (x + y) of two Gamma draws.
        x, y = tf.unstack(draws.gamma(tf.stack(params, axis=1)), axis=1)
        return tf.clip_by_value(x / (x + y), _EDGE, 1 - _EDGE)

    def mode(self, params):
        alpha, beta = params
        # In float32 both may be 1 exactly. Then all numbers are equally likely; _EDGE makes the mode 1/2, not
        # 0 / 0.
        mode = (alpha - 1 + _EDGE) / (alpha + beta - 2 + 2 * _EDGE)
        return tf.clip_by_value(mode, _EDGE, 1 - _EDGE)

    def unit_action(self, raw):
        """Computes the action in [-1, 1] of draws, float32 [..., D], as critics get it."""
        return 2 * raw - 1

    def action(self, raw):
        return super().action(self.unit_action(raw))

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


def _log_softplus_inverse(y):
    """Solves y = log(log(1 + exp(x))) for x."""
    std = math.exp(y)
    # log(exp(std) - 1), in a form that neither overflows for large std nor loses digits for small ones.
    return std + math.log(-math.expm1(-std))


def _log_slope_of_tanh(x):
    """Computes log(1 - tanh(x)^2), summed over the last axis.

    The literal formula is log(0) in float32 from |x| = 9 on.
    """
    return tf.reduce_sum(2 * (math.log(2) - x - tf.nn.softplus(-2 * x)), axis=-1)


def _log_beta(alpha, beta):
    return tf.math.lgamma(alpha) + tf.math.lgamma(beta) - tf.math.lgamma(alpha + beta)
