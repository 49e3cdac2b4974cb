# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""IMPALA: an actor-critic that corrects for old policies with V-trace (arXiv 1802.01561)."""

from typing import Any, NamedTuple

import gin
import tensorflow as tf

from alf.algorithms import losses, returns
from alf.algorithms.algorithm import Algorithm
from alf.algorithms.distributions import make_action_distribution
from alf.algorithms.networks import ActorCriticNetwork
from alf.checks import check_number
from alf.data_structures import FIRST, LossInfo, PolicyStep


class TrainInfo(NamedTuple):
    """Fields: params, nest of [T+1, B, ...] of the distribution; value, float32 [T+1, B]."""

    params: Any
    value: Any


@gin.configurable(module="alf.algorithms")
class ImpalaAlgorithm(Algorithm):
    """V-trace actor-critic for feed-forward policies with one discrete or one continuous action.

    Args:
        observation_spec, action_spec, optimizer, max_grad_norm, train_step_counter: as in `Algorithm`.
        network_ctor: callable (observation_spec, num_outputs) -> network, see `ActorCriticNetwork`.
        discount: gamma, in [0, 1].
        vtrace_lambda: lambda, in [0, 1]: how far corrections reach.
        clip_rho_threshold: rho bar, limits the importance ratio of the value targets.
        clip_pg_rho_threshold: limits the importance ratio of the policy gradient.
        reward_scale: factor on the rewards that the learner sees; metrics show them as they are.
        reward_clip: the learner's rewards are limited to plus or minus this; None does not limit them.
        value_loss_weight: weight of the squared value error, against the policy gradient's 1.
        entropy_weight: weight of the entropy bonus.
    """

    def __init__(
        self,
        observation_spec,
        action_spec,
        optimizer,
        network_ctor=ActorCriticNetwork,
        discount=0.99,
        vtrace_lambda=1.0,
        clip_rho_threshold=1.0,
        clip_pg_rho_threshold=1.0,
        reward_scale=1.0,
        reward_clip=None,
        value_loss_weight=0.5,
        entropy_weight=0.01,
        max_grad_norm=40.0,
        train_step_counter=None,
    ):
        check_number("ImpalaAlgorithm.discount", discount, at_least=0, at_most=1)
        check_number("ImpalaAlgorithm.vtrace_lambda", vtrace_lambda, at_least=0, at_most=1)
        check_number("ImpalaAlgorithm.clip_rho_threshold", clip_rho_threshold, above=0)
        check_number("ImpalaAlgorithm.clip_pg_rho_threshold", clip_pg_rho_threshold, above=0)
        check_number("ImpalaAlgorithm.reward_scale", reward_scale, above=0)
        check_number("ImpalaAlgorithm.reward_clip", reward_clip, above=0, optional=True)
        check_number("ImpalaAlgorithm.value_loss_weight", value_loss_weight, at_least=0)
        check_number("ImpalaAlgorithm.entropy_weight", entropy_weight)
        self._actions = make_action_distribution(action_spec)
        super().__init__(
            observation_spec,
            action_spec,
            optimizer,
            rollout_info_spec=self._actions.params_spec,
            max_grad_norm=max_grad_norm,
            train_step_counter=train_step_counter,
            name="impala",
        )
        self._network = network_ctor(observation_spec, self._actions.num_outputs)
        self._discount = discount
        self._vtrace = dict(
            lambda_=vtrace_lambda,
            clip_rho_threshold=clip_rho_threshold,
            clip_pg_rho_threshold=clip_pg_rho_threshold,
        )
        self._reward_scale = reward_scale
        self._reward_clip = reward_clip
        self._value_loss_weight = value_loss_weight
        self._entropy_weight = entropy_weight

    def predict_step(self, time_step, state):
        """Takes the most likely action."""
        params = self._actions.params(self._network.policy(time_step.observation))
        return PolicyStep(self._actions.mode(params), state, params)

    def rollout_step(self, time_step, state):
        """Samples an action; `info` holds the parameters of the distribution that it came from."""
        params = self._actions.params(self._network.policy(time_step.observation))
        return PolicyStep(self._actions.sample(params), state, params)

    def train_step(self, experience, state):
        outputs, value = self._network(experience.observation)
        return TrainInfo(self._actions.params(outputs), value)

    def calc_loss(self, experience, train_info):
        """Policy gradient, value and entropy losses, averaged over the transitions of the batch."""
        rows = tf.nest.map_structure(
            lambda x: x[:-1], (train_info.params, experience.info, experience.action)
        )
        params, behaviour_params, action = rows
        log_prob = self._actions.log_prob(params, action)
        is_first = tf.equal(experience.step_type, FIRST)
        trace = returns.vtrace(
            log_rho_tm1=log_prob - self._actions.log_prob(behaviour_params, action),
            values=train_info.value,
            r_t=self._reward(experience.reward[1:]),
            discount_t=self._discount * experience.discount[1:],
            is_first=is_first,
            **self._vtrace,
        )
        valid = returns.transitions(is_first).valid
        policy_loss = losses.masked_mean(losses.policy_gradient_loss(log_prob, trace.pg_advantages), valid)
        value_loss = losses.masked_mean(losses.value_loss(train_info.value[:-1], trace.value_targets), valid)
        entropy = losses.masked_mean(self._actions.entropy(params), valid)
        loss = policy_loss + self._value_loss_weight * value_loss - self._entropy_weight * entropy
        return LossInfo(loss, {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy})

    def _reward(self, reward):
        """What the learner sees of the environment's rewards."""
        reward = self._reward_scale * reward
        if self._reward_clip is None:
            return reward
        return tf.clip_by_value(reward, -self._reward_clip, self._reward_clip)
