# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""IMPALA: an actor-critic that corrects for old policies with V-trace (arXiv 1802.01561)."""

import functools

import tensorflow as tf

from alf.algorithms.algorithm import Algorithm, check_vtrace_thresholds, group_actor_critic_variables
from alf.config.kinds import Fraction, NonNegativeFloat, PositiveFloat
from alf.config.settings import configurable
from alf.core.annotations import Nest
from alf.data_structures import FIRST, Experience, LossInfo
from alf.errors import ConfigError
from alf.ops import losses, returns
from alf.policies.actor_critic_policy import ActorCriticInfo, ActorCriticPolicy
from alf.schedules import ScheduledFraction, ScheduledWeight, as_schedule


@configurable("alf.algorithms")
class ImpalaAlgorithm(Algorithm):
    """V-trace actor-critic.

    The value targets v and the advantages A of V-trace (`returns.vtrace`) depend on the importance ratio of
    each step, rho = pi(a|x) / mu(a|x), where pi is the policy that learns and mu the policy that acted. The
    loss is the mean over transitions of

        -A log pi(a|x) + value_loss_weight (v - V(x))^2 / 2 - entropy_weight entropy(pi(x))

    With `vtrace = False` there is no correction for old policies, like in A3C (arXiv 1602.01783). Then v is
    the return of the rest of the unroll and A = v - V(x). With lambda = 1, T transitions and no end of an
    episode among them, row s has

        v_s = r_s + gamma r_{s+1} + ... + gamma^{T-1-s} r_{T-1} + gamma^{T-s} V(x_T)

    With another lambda it is the weighted mean of such returns of all lengths (`returns.lambda_return`).

    Args:
        policy: `ActorCriticPolicy`.
        discount: number or schedule in [0, 1], gamma.
        vtrace: bool, whether V-trace corrects for old policies.
        vtrace_lambda: number in [0, 1], lambda, also without V-trace. With a lower lambda, value targets
            depend less on later steps.
        clip_rho_threshold: number above 0, rho bar, the largest importance ratio in the value targets.
        clip_c_threshold: number above 0 and at most `clip_rho_threshold`, c bar, the largest ratio with which
            a TD error reaches earlier steps.
        clip_pg_rho_threshold: number above 0, the largest importance ratio in the policy gradient.
        value_loss_weight: number, at least 0, the weight of the value loss. The policy loss has weight 1.
        entropy_weight: number or schedule, at least 0, the weight of the entropy bonus.
        drop_last_ts: bool, whether the loss leaves out the last transition of each unroll, or of each segment
            of `UnrollLearner.recurrence` steps, like RLlib. Its target has a single reward, so it is the
            most biased. Needs at least 2 transitions.
    """

    policy_type = ActorCriticPolicy
    needs_own_actions = True

    def __init__(
        self,
        policy: ActorCriticPolicy,
        discount: ScheduledFraction = 0.99,
        vtrace: bool = True,
        vtrace_lambda: Fraction = 1.0,
        clip_rho_threshold: PositiveFloat = 1.0,
        clip_c_threshold: PositiveFloat = 1.0,
        clip_pg_rho_threshold: PositiveFloat = 1.0,
        value_loss_weight: NonNegativeFloat = 0.5,
        entropy_weight: ScheduledWeight = 0.01,
        drop_last_ts: bool = False,
    ) -> None:
        super().__init__(policy, name="impala")
        self._discount = as_schedule(discount)
        self._vtrace = vtrace
        self._thresholds = dict(
            check_vtrace_thresholds("ImpalaAlgorithm", clip_rho_threshold, clip_c_threshold),
            clip_pg_rho_threshold=clip_pg_rho_threshold,
        )
        self._lambda = vtrace_lambda
        self._value_loss_weight = value_loss_weight
        self._entropy_weight = as_schedule(entropy_weight)
        self._drop_last_ts = drop_last_ts

    def parameter_groups(self) -> dict[str, list[tf.Variable]]:
        return group_actor_critic_variables(self.policy)

    def train_step(self, experience: Experience, prepared: Nest) -> ActorCriticInfo:
        return self.policy.unroll(experience)

    def calc_loss(self, experience: Experience, train_info: Nest) -> LossInfo:
        actions = self.policy.actions
        # Row T only bootstraps: its action is a copy, and no reward follows it in this unroll.
        params, behavior = tf.nest.map_structure(lambda x: x[:-1], (train_info.params, experience.info))
        log_prob = actions.log_prob(params, behavior.raw)
        unroll = dict(
            values=train_info.value,
            r_t=experience.reward[1:],
            # The environment's discount is 0 only at a termination: V bootstraps after a time limit.
            discount_t=self._discount(self.progress) * experience.discount[1:],
            is_first=tf.equal(experience.step_type, FIRST),
            lambda_=self._lambda,
        )
        if self._vtrace:
            # The policy that learns minus the policy that acted. Reversed, the tests of V-trace itself would
            # still pass, and only learning would suffer.
            log_rho = log_prob - actions.log_prob(behavior.params, behavior.raw)
            target, _, advantage = returns.vtrace(log_rho, **unroll, **self._thresholds)
        else:
            advantage, target = returns.generalized_advantage(**unroll)
        # V-trace's advantages contain the limited importance ratio; the others have none to contain.
        policy_loss = losses.policy_gradient_loss(log_prob, advantage)
        value_loss = losses.value_loss(train_info.value[:-1], target)
        entropy = actions.entropy(params)
        entropy_weight = self._entropy_weight(self.progress)
        loss = policy_loss + self._value_loss_weight * value_loss - entropy_weight * entropy
        weight = experience.weight[:-1]
        if self._drop_last_ts:
            if weight.shape[0] == 1:
                raise ConfigError("ImpalaAlgorithm.drop_last_ts leaves nothing of an unroll of 1 step")
            # A weight of 0 in place of a shorter batch: all tensors keep T rows.
            weight = tf.pad(weight[:-1], [[0, 1], [0, 0]])
        # The gradient needs only one mean; the means of the parts are for display.
        mean = functools.partial(losses.weighted_mean, weight=weight)
        parts = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
        shown = {name: mean(tf.stop_gradient(part)) for name, part in parts.items()}
        explained = losses.explained_variance(train_info.value[:-1], target, weight)
        shown |= {"explained_variance": explained, "entropy_weight": entropy_weight}
        return LossInfo(mean(loss), shown)
