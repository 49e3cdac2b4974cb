# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""PPO (arXiv 1707.06347) on asynchronous data: the APPO of Sample Factory (arXiv 2006.11751)."""

import functools
from typing import Annotated, Any, Literal, NamedTuple

import tensorflow as tf

from alf.algorithms.algorithm import (
    Algorithm,
    TargetUpdater,
    check_vtrace_thresholds,
    group_actor_critic_variables,
)
from alf.config.kinds import Above, Fraction, NonNegativeFloat, PositiveFloat, PositiveInt
from alf.config.settings import configurable
from alf.core.annotations import Array, Nest
from alf.core.nest_utils import zeros_from_spec
from alf.data_structures import FIRST, Experience, LossInfo
from alf.errors import ConfigError
from alf.ops import losses, returns
from alf.policies.actor_critic_policy import ActorCriticInfo, ActorCriticPolicy
from alf.schedules import ScheduledFloat, ScheduledFraction, ScheduledWeight, as_schedule


class PPOTargets(NamedTuple):
    """Data for all updates on a batch, computed before the first of them."""

    proximal: Any  # nest of [T+1, B, ...], the parameters of the proximal policy's distribution
    importance: Any  # float32 [T+1, B], the limited ratio of the proximal policy to the one that acted
    value: Any  # float32 [T+1, B]
    target: Any  # float32 [T+1, B], the target of the value; 0 in row T
    advantage: Any  # float32 [T+1, B]; 0 in row T


@configurable("alf.algorithms")
class PPOAlgorithm(Algorithm):
    """Proximal policy optimization.

    The new policy stays near the proximal policy, which is the policy that acted, however old. With the
    probability ratio rho = pi(a|x) / proximal(a|x), the loss is the mean over transitions of

        -importance min(rho A, clip(rho, 1 / (1 + clip_range), 1 + clip_range) A)
        + value_loss_weight (target - V(x))^2 / 2 - entropy_weight bonus(pi) + kl_weight KL(proximal || pi)

    The advantages A and the targets are computed once for each batch, with the weights before its first
    update. The importance is 1.

    With `target_update_period` the proximal policy is a target policy, an older copy of the policy, like in
    IMPACT (arXiv 1912.00167). With `use_vtrace`, V-trace then corrects from the policy that acted to the
    target policy. The importance is min(target(a|x) / acted(a|x), clip_target_ratio).

    Args:
        policy: `ActorCriticPolicy`.
        discount: number or schedule in [0, 1], gamma.
        lambda_: number in [0, 1], lambda of V-trace or GAE.
        use_vtrace: bool. True computes targets and advantages with V-trace, which corrects for old policies,
            False with GAE (arXiv 1506.02438).
        clip_rho_threshold: number above 0, rho bar of V-trace, the largest importance ratio in the value
            targets.
        clip_c_threshold: number above 0 and at most `clip_rho_threshold`, c bar of V-trace, the largest ratio
            with which a TD error reaches earlier steps.
        clip_range: number or schedule above 0. The probability ratio is clipped to
            [1 / (1 + clip_range), 1 + clip_range].
        value_clip_range: number above 0, how far a value may move in one batch before its loss has no
            gradient; it depends on the scale of the returns. None for no limit.
        value_loss_weight, kl_weight: numbers, at least 0, weights in the loss. The policy loss has weight 1.
        entropy_weight: number or schedule, at least 0, the weight of the exploration bonus.
        exploration: the bonus. "entropy" is the entropy; "symmetric_kl", only for integer actions, is minus
            the symmetric KL divergence to the uniform policy.
        target_kl: number above 0. If the KL divergence from the proximal policy to the new one is larger, the
            remaining updates on the batch are skipped. None never skips them.
        normalize_advantages: bool, whether the advantages of each minibatch are normalized to mean 0 and
            standard deviation 1, without the steps at which the action mask allows only one action.
        target_update_period: int, updates after which the target policy becomes a copy of the policy again;
            None for no target policy.
        clip_target_ratio: number above 0, the largest importance with a target policy.
    """

    policy_type = ActorCriticPolicy
    needs_own_actions = True

    def __init__(
        self,
        policy: ActorCriticPolicy,
        discount: ScheduledFraction = 0.99,
        use_vtrace: bool = False,
        clip_rho_threshold: PositiveFloat = 1.0,
        clip_c_threshold: PositiveFloat = 1.0,
        lambda_: Fraction = 0.95,
        clip_range: Annotated[ScheduledFloat, Above(0)] = 0.2,
        value_clip_range: PositiveFloat | None = None,
        value_loss_weight: NonNegativeFloat = 0.5,
        entropy_weight: ScheduledWeight = 0.01,
        exploration: Literal["entropy", "symmetric_kl"] = "entropy",
        kl_weight: NonNegativeFloat = 0.0,
        target_kl: PositiveFloat | None = None,
        normalize_advantages: bool = True,
        target_update_period: PositiveInt | None = None,
        clip_target_ratio: PositiveFloat = 2.0,
    ) -> None:
        super().__init__(policy, name="ppo")
        self._discount = as_schedule(discount)
        self._use_vtrace = use_vtrace
        self._thresholds = check_vtrace_thresholds("PPOAlgorithm", clip_rho_threshold, clip_c_threshold)
        self._lambda = lambda_
        self._clip_range = as_schedule(clip_range)
        self._value_clip_range = value_clip_range
        self._value_loss_weight = value_loss_weight
        self._entropy_weight = as_schedule(entropy_weight)
        self._exploration = exploration
        _check_exploration(exploration, policy.actions)
        self._kl_weight = kl_weight
        self._target_kl = target_kl
        self._normalize_advantages = normalize_advantages
        self._clip_target_ratio = clip_target_ratio
        self._target_policy = None
        if target_update_period is not None:
            # An attribute, so that checkpoints hold its variables: a run that goes on has the same target.
            self._target_policy = policy.copy()
            self._update_target = TargetUpdater(policy, self._target_policy, period=target_update_period)

    def parameter_groups(self) -> dict[str, list[tf.Variable]]:
        return group_actor_critic_variables(self.policy)

    def preprocess(self, experience: Experience) -> PPOTargets:
        """Computes the `PPOTargets` with the weights before the first update."""
        # No gradient flows from here: the tape of an update begins after this (`Update.loss_and_gradients`).
        before = self.policy.unroll(experience, training=False)
        behavior = experience.info
        log_prob = functools.partial(self.policy.actions.log_prob, raw=behavior.raw)
        behavior_log_prob = log_prob(behavior.params)
        if self._target_policy is None:
            # The clipped ratio compares with the policy that acted, so its importance weight is 1.
            proximal, importance = behavior.params, tf.ones_like(behavior_log_prob)
            log_rho = log_prob(before.params) - behavior_log_prob
        else:
            # The ratio compares with the target policy; the truncated importance corrects for the policy that
            # acted.
            proximal = self._target_policy.unroll(experience, training=False).params
            log_rho = log_prob(proximal) - behavior_log_prob
            importance = tf.minimum(tf.exp(log_rho), self._clip_target_ratio)
        unroll = dict(
            values=before.value,
            r_t=experience.reward[1:],
            discount_t=self._discount(self.progress) * experience.discount[1:],
            is_first=tf.equal(experience.step_type, FIRST),
            lambda_=self._lambda,
        )
        if self._use_vtrace:
            # Not `pg_advantages`: these contain the ratio, with which the surrogate loss multiplies, too.
            estimate: Any = returns.vtrace(log_rho[:-1], **unroll, **self._thresholds)
        else:
            estimate = returns.generalized_advantage(**unroll)
        # Minibatches split [T+1, B]: all leaves need a row T, which no loss uses.
        row_t = [[0, 1], [0, 0]]
        target, advantage = tf.pad(estimate.value_targets, row_t), tf.pad(estimate.advantages, row_t)
        return PPOTargets(proximal, importance, before.value, target, advantage)

    def train_step(self, experience: Experience, prepared: PPOTargets) -> tuple[ActorCriticInfo, PPOTargets]:
        return self.policy.unroll(experience), prepared

    def calc_loss(self, experience: Experience, train_info: Nest) -> LossInfo:
        actions = self.policy.actions
        weight = experience.weight[:-1]
        mean = functools.partial(losses.weighted_mean, weight=weight)
        # Row T only bootstraps.
        (params, value), info, raw = tf.nest.map_structure(
            lambda x: x[:-1], (tuple(train_info[0]), train_info[1], experience.info.raw)
        )
        # `raw` is the action before squashing and clipping, so its density needs no inverse of them.
        log_ratio = actions.log_prob(params, raw) - actions.log_prob(info.proximal, raw)
        advantage = info.advantage
        if self._normalize_advantages:
            # Rows without a choice have no policy gradient. With them, mean and scale would be wrong for the
            # others: in a game in turns, half of all rows only wait.
            mask = (weight > 0) & actions.has_choice(params)
            advantage = losses.normalize_advantages(advantage, mask)
        clip_range = self._clip_range(self.progress)
        surrogate = losses.ppo_policy_loss(log_ratio, advantage, clip_range)
        if self._value_clip_range is None:
            value_loss = losses.value_loss(value, info.target)
        else:
            # The old value is of the weights before the first update, not of the policy that acted.
            value_loss = losses.clipped_value_loss(value, info.value, info.target, self._value_clip_range)
        parts = {
            "policy_loss": mean(info.importance * surrogate),
            "value_loss": mean(value_loss),
            "entropy": mean(actions.entropy(params)),
            # The divergence of the distributions, not an estimate from the actions taken: `target_kl` must
            # not stop the updates of a batch by chance.
            "kl": mean(actions.kl(info.proximal, params)),
            "clipped_fraction": mean(tf.cast(losses.ppo_clipped(log_ratio, clip_range), tf.float32)),
        }
        bonus = parts["entropy"]
        if self._exploration == "symmetric_kl":
            bonus = -mean(actions.symmetric_kl_to_uniform(params))
        entropy_weight = self._entropy_weight(self.progress)
        loss = parts["policy_loss"] + self._value_loss_weight * parts["value_loss"] - entropy_weight * bonus
        loss += self._kl_weight * parts["kl"]
        parts["explained_variance"] = losses.explained_variance(value, info.target, weight)
        return LossInfo(loss, {**parts, "clip_range": clip_range, "entropy_weight": entropy_weight})

    def after_update(self, experience: Experience, train_info: Nest) -> None:
        if self._target_policy is not None:
            self._update_target()

    def stops_early(self, summary: dict[str, Any]) -> Array:
        # Computed in the forward pass, so it is the divergence of the weights before the last update.
        return tf.constant(False) if self._target_kl is None else summary["kl"] > self._target_kl


def _check_exploration(exploration, actions):
    """Raises ConfigError unless `actions` have the exploration bonus of that name."""
    if exploration == "symmetric_kl":
        try:
            actions.symmetric_kl_to_uniform(zeros_from_spec(actions.params_spec))
        except ConfigError as error:
            raise ConfigError(f"PPOAlgorithm.exploration is 'symmetric_kl': {error}") from None
