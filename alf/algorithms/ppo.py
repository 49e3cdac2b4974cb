# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""PPO on asynchronous data (arXiv 1707.06347), known as APPO: Sample Factory's, arXiv 2006.11751."""

import functools
from typing import Any, NamedTuple

import gin
import tensorflow as tf

from alf.algorithms.actor_critic import actor_critic_groups
from alf.algorithms.algorithm import Algorithm
from alf.algorithms.target_update import TargetUpdater
from alf.data_structures import FIRST, LossInfo
from alf.errors import ConfigError, check_bool, check_number
from alf.ops import losses, returns
from alf.policies.action_distributions import CategoricalActions, MultiCategoricalActions
from alf.schedules import as_schedule


class PPOInfo(NamedTuple):
    """What each update needs of a batch, from before its first one.

    Fields:
        raw: nest of [T+1, B, ...], the actions, as `ActionInfo.raw`.
        proximal: parameters of the proximal policy's distribution, nest of [T+1, B, ...].
        importance: float32 [T+1, B], ratio of the proximal policy to the one that acted, limited.
        value: float32 [T+1, B], of the weights before the first update.
        target: float32 [T+1, B], of the value; 0 in row T.
        advantage: float32 [T+1, B]; 0 in row T.
    """

    raw: Any
    proximal: Any
    importance: Any
    value: Any
    target: Any
    advantage: Any


@gin.configurable(module="alf.algorithms")
class PPOAlgorithm(Algorithm):
    """Proximal policy optimisation, against the policy that acted, however old it is.

    Values, targets and advantages are computed once for each batch, with the weights before its first update.

    With `target_update_period` the policy stays near a target policy instead, a copy of it that lags behind,
    as in IMPACT (arXiv 1912.00167): the surrogate's ratio, the divergence and V-trace are the target
    policy's, and the surrogate is weighted with `min(target / acted, clip_target_ratio)`, ratios of the
    probability of the action.

    Args:
        policy: `ActorCriticPolicy`.
        discount: gamma, in [0, 1].
        use_vtrace: whether targets and advantages are V-trace's, which correct for old policies, or GAE's.
        lambda_: of V-trace or GAE, in [0, 1].
        clip_range: e; the probability ratio is limited to [1 / (1 + e), 1 + e]. Number or schedule.
        value_clip_range: how far the value may move in one batch before its loss has no gradient; None does
            not limit it. Depends on the scale of the returns.
        value_loss_weight: weight of the squared value error, against the policy loss's 1.
        entropy_weight: weight of the exploration bonus. Number or schedule.
        exploration: the bonus: "entropy", or "symmetric_kl" to the uniform policy, for discrete actions.
        kl_weight: weight of the divergence from the policy that acted, or the target policy, to the new one.
        target_kl: the updates of a batch end where this divergence exceeds it; None does not end them.
        normalize_advantages: whether they have mean 0 and standard deviation 1 in each minibatch.
        target_update_period: updates after which the target policy becomes the policy; None: there is none.
        clip_target_ratio: see above.
    """

    def __init__(
        self,
        policy,
        discount=0.99,
        use_vtrace=False,
        lambda_=0.95,
        clip_range=0.2,
        value_clip_range=None,
        value_loss_weight=0.5,
        entropy_weight=0.01,
        exploration="entropy",
        kl_weight=0.0,
        target_kl=None,
        normalize_advantages=True,
        target_update_period=None,
        clip_target_ratio=2.0,
    ):
        check_number("PPOAlgorithm.discount", discount, at_least=0, at_most=1)
        check_number("PPOAlgorithm.lambda_", lambda_, at_least=0, at_most=1)
        check_number("PPOAlgorithm.value_clip_range", value_clip_range, above=0, optional=True)
        check_number("PPOAlgorithm.value_loss_weight", value_loss_weight, at_least=0)
        check_number("PPOAlgorithm.kl_weight", kl_weight, at_least=0)
        check_number("PPOAlgorithm.target_kl", target_kl, above=0, optional=True)
        check_bool("PPOAlgorithm.use_vtrace", use_vtrace)
        check_bool("PPOAlgorithm.normalize_advantages", normalize_advantages)
        check_number("PPOAlgorithm.clip_target_ratio", clip_target_ratio, above=0)
        super().__init__(policy, name="ppo")
        self._target_policy = None
        if target_update_period is not None:
            self._target_policy = policy.copy()
            self._update_target = TargetUpdater(
                policy.variables, self._target_policy.variables, period=target_update_period
            )
        self._clip_target_ratio = clip_target_ratio
        self._discount = discount
        self._use_vtrace = use_vtrace
        self._lambda = lambda_
        self._clip_range = as_schedule("PPOAlgorithm.clip_range", clip_range, above=0)
        self._value_clip_range = value_clip_range
        self._value_loss_weight = value_loss_weight
        self._entropy_weight = as_schedule("PPOAlgorithm.entropy_weight", entropy_weight, at_least=0)
        self._exploration = _exploration(exploration, policy.actions)
        self._kl_weight = kl_weight
        self._target_kl = target_kl
        self._normalize_advantages = normalize_advantages

    def parameter_groups(self):
        """Separate layers make the groups "policy" and "value"; shared layers are one group, "policy"."""
        return actor_critic_groups(self.policy)

    def preprocess(self, experience, state):
        before = self.policy.unroll(experience, state)
        behaviour = experience.info
        log_prob = functools.partial(self.policy.actions.log_prob, raw=behaviour.raw)
        behaviour_log_prob = log_prob(behaviour.params)
        if self._target_policy is None:
            proximal, importance = behaviour.params, tf.ones_like(behaviour_log_prob)
            log_rho = log_prob(before.params) - behaviour_log_prob
        else:
            proximal = self._target_policy.unroll(experience, state).params
            log_rho = log_prob(proximal) - behaviour_log_prob
            importance = tf.minimum(tf.exp(log_rho), self._clip_target_ratio)
        target, advantage = self._targets(experience, before.value, log_rho[:-1])
        last_row = [[0, 1], [0, 0]]
        target, advantage = tf.pad(target, last_row), tf.pad(advantage, last_row)
        info = PPOInfo(behaviour.raw, proximal, importance, before.value, target, advantage)
        return experience._replace(info=info)

    def train_step(self, experience, state):
        return self.policy.unroll(experience, state)

    def calc_loss(self, experience, train_info):
        """The clipped surrogate, the value loss, the exploration bonus and the divergence, averaged."""
        actions, progress = self.policy.actions, self.progress
        weight = experience.weight[:-1]
        mean = functools.partial(losses.weighted_mean, weight=weight)
        info = tf.nest.map_structure(lambda x: x[:-1], experience.info)
        params, value = tf.nest.map_structure(lambda x: x[:-1], tuple(train_info))
        log_ratio = actions.log_prob(params, info.raw) - actions.log_prob(info.proximal, info.raw)
        advantage = info.advantage
        if self._normalize_advantages:
            advantage = losses.normalize_advantages(advantage, weight > 0)
        clip_range = self._clip_range(progress)
        kl = mean(actions.kl(info.proximal, params))
        surrogate = losses.ppo_policy_loss(log_ratio, advantage, clip_range)
        parts = {
            "policy_loss": mean(info.importance * surrogate),
            "value_loss": mean(self._value_loss(value, info)),
            "entropy": mean(actions.entropy(params)),
            "kl": kl,
            "clipped_fraction": mean(tf.cast(losses.ppo_clipped(log_ratio, clip_range), tf.float32)),
        }
        entropy_weight = self._entropy_weight(progress)
        loss = (
            parts["policy_loss"]
            + self._value_loss_weight * parts["value_loss"]
            - entropy_weight * mean(self._exploration(params))
            + self._kl_weight * kl
        )
        return LossInfo(loss, {**parts, "clip_range": clip_range, "entropy_weight": entropy_weight})

    def after_update(self, experience, train_info):
        if self._target_policy is not None:
            self._update_target()

    def stops_early(self, summary):
        if self._target_kl is None:
            return tf.constant(False)
        return summary["kl"] > self._target_kl

    def _targets(self, experience, values, log_rho):
        """Targets of the value and advantages, both float32 [T, B]."""
        unroll = dict(
            values=values,
            r_t=experience.reward[1:],
            discount_t=self._discount * experience.discount[1:],
            is_first=tf.equal(experience.step_type, FIRST),
            lambda_=self._lambda,
        )
        if self._use_vtrace:
            # Without V-trace's weight: the surrogate has the ratio itself.
            estimate = returns.vtrace(log_rho_tm1=log_rho, **unroll)
        else:
            estimate = returns.generalized_advantage(**unroll)
        return estimate.value_targets, estimate.advantages

    def _value_loss(self, value, info):
        if self._value_clip_range is None:
            return losses.value_loss(value, info.target)
        return losses.clipped_value_loss(value, info.value, info.target, self._value_clip_range)


def _exploration(name, actions):
    """The exploration bonus called `name`: parameters [T, B, ...] -> float32 [T, B]."""
    if name == "entropy":
        return actions.entropy
    if name != "symmetric_kl":
        raise ConfigError(f"PPOAlgorithm.exploration is {name!r}: it must be 'entropy' or 'symmetric_kl'")
    if isinstance(actions, CategoricalActions):
        return lambda params: -losses.symmetric_kl_to_uniform(params)
    if isinstance(actions, MultiCategoricalActions):
        return lambda params: -tf.reduce_sum(losses.symmetric_kl_to_uniform(params), axis=-1)
    raise ConfigError("PPOAlgorithm.exploration is 'symmetric_kl': that is for integer actions alone")
