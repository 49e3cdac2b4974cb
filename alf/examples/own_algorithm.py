# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""An algorithm of one's own: advantage actor-critic, without a correction for old policies."""

import gin
import tensorflow as tf

from alf.algorithms import Algorithm
from alf.data_structures import FIRST, LossInfo
from alf.ops import losses, returns


@gin.configurable
class ActorCriticAlgorithm(Algorithm):
    """Learns from bootstrapped returns: right for a sync driver, and nearly so at a small policy lag."""

    def __init__(self, policy, discount=0.99, entropy_weight=0.01):
        super().__init__(policy)
        self._discount = discount
        self._entropy_weight = entropy_weight

    def train_step(self, experience, prepared):
        return self.policy.unroll(experience)

    def calc_loss(self, experience, train_info):
        value, actions = train_info.value, self.policy.actions
        is_first = experience.step_type == FIRST
        target = returns.discounted_return(
            value, experience.reward[1:], self._discount * experience.discount[1:], is_first
        )
        params, raw = tf.nest.map_structure(lambda x: x[:-1], (train_info.params, experience.info.raw))
        loss = (
            losses.policy_gradient_loss(actions.log_prob(params, raw), target - value[:-1])
            + 0.5 * losses.value_loss(value[:-1], target)
            + self._entropy_weight * losses.entropy_loss(actions.entropy(params))
        )
        return LossInfo(losses.weighted_mean(loss, experience.weight[:-1]))
