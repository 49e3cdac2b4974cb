# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""DQN (Mnih et al. 2015, Nature 518) with its extensions for discrete actions from replay."""

import copy
from typing import Any, NamedTuple

import gin
import tensorflow as tf

from alf.algorithms.algorithm import Algorithm
from alf.algorithms.critic_actions import action_index
from alf.algorithms.n_step import NStep
from alf.algorithms.target_update import TargetUpdater
from alf.data_structures import LossInfo
from alf.errors import check_bool, check_number
from alf.ops import losses, td_losses


class DqnInfo(NamedTuple):
    """What the networks make of a sequence; n is the number of actions.

    Fields:
        steps: `Steps` of [R, B].
        q: float32 [R, B, n], in the rows that train.
        next_q: float32 [R, B, n], where their steps end.
        next_target_q: float32 [R, B, n], the target network's there.
    """

    steps: Any
    q: Any
    next_q: Any
    next_target_q: Any


@gin.configurable(module="alf.algorithms")
class DqnAlgorithm(Algorithm):
    """Deep Q-learning from replay, which may be prioritised (arXiv 1511.05952): double, of n steps.

    `QValueNetwork` is duelling (arXiv 1511.06581) and may be recurrent; then sequences begin with the state
    that was stored, and `burn_in` rows bring it up to date (R2D2, Kapturowski et al., ICLR 2019).

    A sequence of `mini_batch_length` L gives L - burn_in - n_step + 1 transitions of n steps, which nothing
    corrects for the policy that acted. Its priority is the mean absolute TD error of these.

    Args:
        policy: `EpsilonGreedyPolicy`.
        discount: gamma, in [0, 1].
        n_step: rewards of a target before it bootstraps; fewer where an episode ends.
        double: whether the network that learns chooses the action that the target network values (arXiv
            1509.06461).
        huber_delta: error from which on the loss is linear; None: it is the square everywhere.
        tau: in (0, 1], how far each update of the target network goes to the one that learns; 1 copies.
        target_update_period: updates from one of the target network to the next.
        burn_in: rows of a sequence that only bring the recurrent state up to date.
    """

    def __init__(
        self,
        policy,
        discount=0.99,
        n_step=1,
        double=True,
        huber_delta=1.0,
        tau=1.0,
        target_update_period=500,
        burn_in=0,
    ):
        check_bool("DqnAlgorithm.double", double)
        check_number("DqnAlgorithm.huber_delta", huber_delta, above=0, optional=True)
        super().__init__(policy, name="dqn")
        network = policy.network
        self._target_network = copy.deepcopy(network)
        self._update_target = TargetUpdater(
            network.variables, self._target_network.variables, tau, target_update_period
        )
        self._n_step = NStep("DqnAlgorithm", discount, n_step, burn_in, network.state_spec != ())
        self._double = double
        self._huber_delta = huber_delta

    def train_step(self, experience, state):
        steps = self._n_step.steps(experience)
        evaluate = lambda network: self._n_step.at_starts_and_ends(network, experience, state, steps.end)  # noqa: E731
        q, next_q = evaluate(self.policy.network)
        _, next_target_q = evaluate(self._target_network)
        return DqnInfo(steps, q, next_q, next_target_q)

    def calc_loss(self, experience, train_info):
        """The loss of the TD errors, weighted; and the priorities."""
        steps, q, next_q, next_target_q = train_info
        action = self._n_step.starts(experience, action_index(experience.action, self.policy.action_spec))
        q = td_losses.value_of_action(q, action)
        next_value = td_losses.greedy_value(next_target_q, next_q if self._double else None)
        td_error = td_losses.td_target(steps.reward, steps.discount, next_value) - q
        loss = losses.weighted_mean(td_losses.td_loss(td_error, self._huber_delta), steps.weight)
        seen = tf.cast(steps.weight > 0, tf.float32)
        extra = {
            "q": losses.weighted_mean(q, seen),
            "td_error": losses.weighted_mean(tf.abs(td_error), seen),
            "epsilon": self.policy.epsilon(),
        }
        return LossInfo(loss, extra, td_losses.mean_priority(td_error, steps.weight))

    def after_update(self, experience, train_info):
        self._update_target()
