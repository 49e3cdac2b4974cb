# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""An algorithm of one's own: advantage actor-critic, without a correction for old policies."""

import gin
import tensorflow as tf

from alf.algorithms import Algorithm, losses, returns
from alf.algorithms.distributions import make_action_distribution
from alf.algorithms.networks import ActorCriticNetwork
from alf.data_structures import LossInfo, PolicyStep


@gin.configurable
class ActorCriticAlgorithm(Algorithm):
    """Learns from bootstrapped returns: right for a sync driver, and nearly so at a small policy lag."""

    def __init__(self, observation_spec, action_spec, optimizer, discount=0.99, entropy_weight=0.01):
        super().__init__(observation_spec, action_spec, optimizer, max_grad_norm=0.5)
        self._actions = make_action_distribution(action_spec)
        self._network = ActorCriticNetwork(observation_spec, self._actions.num_outputs)
        self._discount = discount
        self._entropy_weight = entropy_weight

    def rollout_step(self, time_step, state):
        params = self._actions.params(self._network.policy(time_step.observation))
        return PolicyStep(self._actions.sample(params), state)

    def train_step(self, experience, state):
        outputs, values = self._network(experience.observation)
        return self._actions.params(outputs), values

    def calc_loss(self, experience, train_info):
        params, values = train_info
        params, action = tf.nest.map_structure(lambda x: x[:-1], (params, experience.action))
        is_last = experience.step_type == 2
        target = returns.discounted_return(
            values, experience.reward[1:], self._discount * experience.discount[1:], is_last
        )
        log_prob = self._actions.log_prob(params, action)
        loss = (
            losses.policy_gradient_loss(log_prob, target - values[:-1])
            + 0.5 * losses.value_loss(values[:-1], target)
            + self._entropy_weight * losses.entropy_loss(self._actions.entropy(params))
        )
        return LossInfo(losses.masked_mean(loss, ~is_last[:-1]))
