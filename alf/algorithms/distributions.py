# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Action distributions: which parameters they take, and how they are made from them."""

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from tf_agents.specs import tensor_spec

from alf.errors import ConfigError

tfd = tfp.distributions


class CategoricalActions:
    """One discrete action; the parameters are logits [..., num_actions]."""

    def __init__(self, action_spec):
        self._minimum = int(np.min(action_spec.minimum))
        self._dtype = action_spec.dtype
        num_actions = int(np.max(action_spec.maximum)) - self._minimum + 1
        self.params_spec = tf.TensorSpec((num_actions,), tf.float32)
        self.num_outputs = num_actions

    def params(self, outputs):
        """Turns network outputs [..., num_outputs] into parameters."""
        return outputs

    def sample(self, params):
        """Draws actions [B] for parameters of [B, ...]."""
        return tf.random.categorical(params, 1, dtype=self._dtype)[:, 0] + self._minimum

    def mode(self, params):
        """The most likely actions [B]."""
        return tf.argmax(params, axis=-1, output_type=self._dtype) + self._minimum

    def log_prob(self, params, action):
        """log pi(action), float32 [...]."""
        return tfd.Categorical(logits=params).log_prob(action - self._minimum)

    def entropy(self, params):
        """Entropy in nats, float32 [...]."""
        return tfd.Categorical(logits=params).entropy()


class GaussianActions:
    """A vector of independent normal actions [D]; the parameters are (loc [..., D], log_scale [..., D]).

    The standard deviation depends on the state. Bounds are the environment's affair: it clips what it is
    given, and the policy keeps the density of the action that it drew.
    """

    def __init__(self, action_spec):
        self._size = action_spec.shape[0]
        spec = tf.TensorSpec(action_spec.shape, tf.float32)
        self.params_spec = (spec, spec)
        self.num_outputs = 2 * self._size

    def params(self, outputs):
        loc, log_scale = tf.split(outputs, 2, axis=-1)
        # Keeps densities finite: e^-5 is far below what any control task resolves.
        return loc, tf.clip_by_value(log_scale, -5.0, 2.0)

    def sample(self, params):
        loc, log_scale = params
        return loc + tf.exp(log_scale) * tf.random.normal(tf.shape(loc))

    def mode(self, params):
        return params[0]

    def log_prob(self, params, action):
        return self._distribution(params).log_prob(action)

    def entropy(self, params):
        return self._distribution(params).entropy()

    @staticmethod
    def _distribution(params):
        return tfd.MultivariateNormalDiag(params[0], tf.exp(params[1]))


def make_action_distribution(action_spec):
    """Chooses the distribution of a single bounded integer, or of a float vector.

    Raises:
        ConfigError: for any other action spec.
    """
    if tf.nest.is_nested(action_spec) or not isinstance(action_spec, tf.TensorSpec):
        raise ConfigError(f"action_spec is {action_spec}: one discrete or one continuous action is supported")
    if action_spec.dtype.is_integer and action_spec.shape.rank == 0:
        if not isinstance(action_spec, tensor_spec.BoundedTensorSpec):
            raise ConfigError(f"action_spec is {action_spec}: a discrete action needs bounds")
        return CategoricalActions(action_spec)
    if action_spec.dtype == tf.float32 and action_spec.shape.rank == 1:
        return GaussianActions(action_spec)
    raise ConfigError(f"action_spec is {action_spec}: use an integer scalar or a float32 vector")
