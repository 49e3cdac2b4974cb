# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Distributions of integer actions."""

import numpy as np
import tensorflow as tf

from alf.errors import ConfigError
from alf.ops import draws, losses
from alf.policies.action_distributions.distribution import (
    ActionDistribution,
    describe_mask,
    read_bounds,
    unflatten,
)

# More than any network has outputs. A spec without bounds of its own has the bounds of its dtype, and more
# choices than this: it is refused here, before it asks for gigabytes.
_MAX_CHOICES = 2**20


class CategoricalActions(ActionDistribution):
    """A categorical distribution over the n values of one integer.

    The parameters are logits [..., n]; raw is the index of the choice, [...].

    Args:
        action_spec: scalar tensor spec of an integer, with bounds.
    """

    def __init__(self, action_spec):
        # In Python's integers: the number of choices of a wide int64 spec must not overflow to a small one.
        low, high = (x.tolist() for x in read_bounds(action_spec))
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
        """Gives outputs or masks the shape of the logits, with `missing` for choices that do not exist."""
        return x

    def _sum_parts(self, x):
        """Sums float32 [..., D] over the D integers of an action."""
        return x

    def params(self, outputs, mask=None):
        logits = self._arrange(outputs, losses.FORBIDDEN_LOGIT)
        if mask is None:
            return logits
        if tf.nest.is_nested(mask) or not outputs.shape.is_compatible_with(mask.shape):
            raise ConfigError(
                f"the action mask is {describe_mask(mask)}: it must be of the logits' shape {outputs.shape}, "
                "with a number for each choice"
            )
        allowed = self._arrange(tf.cast(mask, tf.bool), False)
        # Environments often forbid everything at LAST steps, where nobody acts. Such a row allows all.
        allowed |= ~tf.reduce_any(allowed, axis=-1, keepdims=True)
        return tf.where(allowed, logits, losses.FORBIDDEN_LOGIT)

    def sample(self, params):
        # TensorFlow draws only from logits [N, n].
        logits = tf.reshape(params, (-1, params.shape[-1]))
        index = draws.categorical(logits, self.raw_spec.dtype)
        return tf.reshape(index, tf.shape(params)[:-1])

    def mode(self, params):
        return tf.argmax(params, axis=-1, output_type=self.raw_spec.dtype)

    def action(self, raw):
        action = tf.cast(raw, self._spec.dtype)
        if self._spec.shape.rank > 1:
            action = unflatten(action, self._spec.shape)
        return action + self._minimum if self._minimum.any() else action

    def log_prob(self, params, raw):
        return -self._sum_parts(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=raw, logits=params))

    def entropy(self, params):
        log_p = tf.nn.log_softmax(params)
        # Forbidden choices add 0: exp(log_p) is 0, and log_p is finite because `FORBIDDEN_LOGIT` is.
        return -self._sum_parts(tf.reduce_sum(tf.exp(log_p) * log_p, axis=-1))

    def kl(self, params_p, params_q):
        log_p, log_q = tf.nn.log_softmax(params_p), tf.nn.log_softmax(params_q)
        return self._sum_parts(tf.reduce_sum(tf.exp(log_p) * (log_p - log_q), axis=-1))

    def describe(self, params):
        # Logits have no common scale, and those of forbidden choices are very low.
        return {**super().describe(params), "distribution": tf.nn.softmax(params)}

    def has_choice(self, params):
        return self._sum_parts(tf.cast(losses.count_allowed(params) > 1, tf.float32)) > 0

    def symmetric_kl_to_uniform(self, params):
        return self._sum_parts(losses.symmetric_kl_to_uniform(params))


class MultiCategoricalActions(CategoricalActions):
    """D independent categorical distributions over D integers, which may have different numbers of choices.

    With n the sum and m the maximum of these numbers, the network's outputs and the mask are [..., n] and the
    parameters are logits [..., D, m], in which choices that do not exist are forbidden. raw holds the indices
    of the choices, [..., D].

    Args:
        action_spec: tensor spec of integers, with bounds.
    """

    def __init__(self, action_spec):
        super().__init__(action_spec)
        self._exists = np.arange(max(self._sizes)) < self._sizes[:, np.newaxis]
        # The network output that is the logit of each choice; 0, any output, where there is no choice.
        self._index = np.where(self._exists, np.cumsum(self._exists).reshape(self._exists.shape) - 1, 0)

    def _arrange(self, x, missing):
        # All integers have equally many choices: a reshape is cheaper than a gather.
        if self._exists.all():
            return unflatten(x, self._exists.shape)
        return tf.where(self._exists, tf.gather(x, self._index, axis=-1), missing)

    def _sum_parts(self, x):
        return tf.reduce_sum(x, axis=-1)

    def is_possible(self, mask):
        # Each integer needs a choice of its own.
        begins = np.cumsum([0, *self._sizes[:-1]])
        return np.logical_or.reduceat(np.asarray(mask, bool), begins, axis=-1).all(axis=-1)
