# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""DQN (Mnih et al. 2015, Nature 518) and its extensions: double, dueling, n steps, recurrent (R2D2)."""

import copy
from typing import Annotated

import tensorflow as tf

from alf.algorithms.action_values import NStep, Transitions, action_to_index
from alf.algorithms.algorithm import Algorithm, TargetUpdater
from alf.config.kinds import Above, AtMost, Fraction, NonNegativeInt, PositiveFloat, PositiveInt
from alf.config.settings import configurable
from alf.core.annotations import Array, Nest
from alf.data_structures import Experience, LossInfo
from alf.errors import ConfigError
from alf.ops import losses, td_losses
from alf.policies.action_distributions import split_mask
from alf.policies.off_policy import EpsilonGreedyPolicy
from alf.schedules import ScheduledFraction


@configurable("alf.algorithms")
class DqnAlgorithm(Algorithm):
    """Deep Q-learning from replay, also prioritized (arXiv 1511.05952).

    The loss is the square, or Huber's loss, of the TD error of transitions over n steps:

        target = r_1 + gamma r_2 + ... + gamma^(n-1) r_n + gamma^n Q_target(s_n, argmax_a Q(s_n, a))
        td_error = target - Q(s_0, a_0)

    Without `double`, Q_target also chooses the action. There is no correction for the policy that acted. With
    `EpsilonGreedyPolicy.action_mask_key`, the action is one that the mask of s_n allows.

    `QValueNetwork` is dueling (arXiv 1511.06581). It may be recurrent; then sequences start from the stored
    state (R2D2, Kapturowski et al., ICLR 2019). A sequence of `mini_batch_length` L has
    L - burn_in - n_step + 1 transitions, and its priority is priority_eta * max + (1 - priority_eta) * mean
    of their absolute TD errors.

    With `value_rescaling` the network learns h(Q), h = `td_losses.signed_hyperbolic`, in place of Q, so that
    rewards of very different sizes need no clipping (arXiv 1805.11593):

        target = h(r_1 + ... + gamma^n h^-1(Q_target(s_n, argmax_a Q(s_n, a))))

    Args:
        policy: `EpsilonGreedyPolicy`.
        discount: number or schedule in [0, 1], gamma.
        n_step: int, n, the number of rewards in a target before it bootstraps; fewer if an episode ends.
        double: bool, whether the network that learns chooses the action that the target network evaluates
            (arXiv 1509.06461).
        huber_delta: number above 0; the loss is linear beyond this absolute TD error. None makes it the
            square everywhere.
        tau: number in (0, 1], how far each move takes the target network towards the network that learns; 1
            copies it.
        target_update_period: int, updates between two moves of the target network.
        burn_in: int, rows at the start of a sequence that do not train. They only compute the recurrent state
            with the current weights, because the stored state came from older weights (R2D2).
        priority_eta: number in [0, 1]; the paper of R2D2 has 0.9.
        value_rescaling: the epsilon of h, a number above 0, 1e-3 in the papers. None: the network learns Q.
    """

    policy_type = EpsilonGreedyPolicy
    # Whether the network says a distribution of each value, as `QuantileNetwork` does.
    learns_quantiles = False

    def __init__(
        self,
        policy: EpsilonGreedyPolicy,
        discount: ScheduledFraction = 0.99,
        n_step: PositiveInt = 1,
        double: bool = True,
        huber_delta: PositiveFloat | None = 1.0,
        tau: Annotated[float, Above(0), AtMost(1)] = 1.0,
        target_update_period: PositiveInt = 500,
        burn_in: NonNegativeInt = 0,
        priority_eta: Fraction = 0.0,
        value_rescaling: PositiveFloat | None = None,
    ) -> None:
        super().__init__(policy, name="dqn")
        self._double = double
        self._huber_delta = huber_delta
        self._priority_eta = priority_eta
        self._value_rescaling = value_rescaling
        network = policy.network
        if hasattr(network, "num_quantiles") != self.learns_quantiles:
            needed = "QuantileNetwork" if self.learns_quantiles else "QValueNetwork"
            raise ConfigError(
                f"{type(self).__name__} does not learn a network such as {type(network).__name__}: set "
                f"EpsilonGreedyPolicy.network to one like {needed}"
            )
        self._n_step = NStep(type(self).__name__, discount, n_step, burn_in, network.state_spec != ())
        # Made here and not at the first update, because checkpoints and copies need its variables.
        self._target_network = copy.deepcopy(network)
        self._update_target = TargetUpdater(network, self._target_network, tau, target_update_period)

    def check_sequence_length(self, length: int) -> None:
        self._n_step.check_length(length)

    def train_step(self, experience: Experience, prepared: Nest) -> Nest:
        """Evaluates the networks at both ends of the transitions.

        Returns:
            the `Transitions` [R, B]; what the network says of all A actions, float32 [R, B, A, ...], at the
            starts (with gradient), at the ends, and from the target network at the ends; and the action masks
            at the ends, bool [R, B, A], or ().
        """
        observation, mask = split_mask(experience.observation, self.policy.action_mask_key)
        experience = experience._replace(observation=observation)
        transitions = self._n_step.make_transitions(experience, self.progress)
        evaluate, end = self._n_step.evaluate_starts_and_ends, transitions.end
        state = experience.state.train
        q, next_q = evaluate(self.policy.network, experience, state, end)
        _, next_target_q = evaluate(self._target_network, experience, state, end, learns=False)
        # Only at the ends: the action at the start was taken, whatever its mask says.
        next_mask = () if mask is None else self._n_step.select_ends(mask, end)
        return transitions, q, next_q, next_target_q, next_mask

    def next_value(self, next_q: Array, next_target_q: Array) -> Array:
        """Computes the value of the observations at which transitions end; a variant of DQN may override it.

        Args:
            next_q, next_target_q: float32 [R, B, A], the values of all A actions there, by the network that
                learns and by the target network; `losses.FORBIDDEN_LOGIT` of actions that the mask forbids.

        Returns:
            float32 [R, B].
        """
        # Double DQN: the network that learns chooses the action, the target network judges it. If one network
        # did both, its errors would choose the actions that it overestimates.
        return td_losses.greedy_value(next_target_q, next_q if self._double else None)

    def calc_loss(self, experience: Experience, train_info: Nest) -> LossInfo:
        """Computes the weighted mean loss of the TD errors, and the priorities of the sequences."""
        transitions, q, next_q, next_target_q, mask = train_info
        q = td_losses.value_of_action(q, self.taken_action(experience))
        next_value = self.next_value(*(self.allowed_values(x, mask) for x in (next_q, next_target_q)))
        td_error = self.target(transitions, next_value) - q
        return self.describe_loss(transitions, td_losses.td_loss(td_error, self._huber_delta), q, td_error)

    def allowed_values(self, values: Array, mask: Array) -> Array:
        """Returns values, float32 [R, B, A], with `losses.FORBIDDEN_LOGIT` where the mask is False.

        `mask` is bool [R, B, A], or () if all actions are allowed.
        """
        return self.policy.actions.params(values, mask) if tf.is_tensor(mask) else values

    def taken_action(self, experience: Experience) -> Array:
        """Returns the indices of the actions at the starts of the transitions, int64 [R, B]."""
        return action_to_index(self._n_step.select_starts(experience.action), self.policy.action_spec)

    def target(self, transitions: Transitions, next_value: Array) -> Array:
        """Computes what the network shall say at the starts, from values at the ends.

        Both are float32 [R, B], or [R, B, N] of N quantiles.
        """
        epsilon = self._value_rescaling
        if epsilon is not None:
            next_value = td_losses.signed_parabolic(next_value, epsilon)
        target = td_losses.td_target(transitions.reward, transitions.discount, next_value)
        return target if epsilon is None else td_losses.signed_hyperbolic(target, epsilon)

    def describe_loss(self, transitions: Transitions, loss: Array, q: Array, td_error: Array) -> LossInfo:
        """Makes the `LossInfo` of losses, values and TD errors, float32 [R, B], of `Transitions`."""
        # The figures are means over transitions, without the importance weights of the loss.
        is_trained = tf.cast(transitions.weight > 0, tf.float32)
        extra = {
            "q": losses.weighted_mean(q, is_trained),
            "td_error": losses.weighted_mean(tf.abs(td_error), is_trained),
            "epsilon": self.policy.epsilon(),
        }
        priority = td_losses.sequence_priority(td_error, transitions.weight, self._priority_eta)
        return LossInfo(losses.weighted_mean(loss, transitions.weight), extra, priority)

    def priority_of_actor(self, experience: Experience) -> Array:
        """Computes priorities from the `ActionValues` of the policy that acted.

        The newest row of an environment repeats the row before it, until the next unroll brings its own.
        """
        if not self.policy.reports_values:
            raise ConfigError(
                "ReplayLearner.initial_priorities is 'actor': set EpsilonGreedyPolicy.reports_values to True"
            )
        transitions = self._n_step.make_transitions(experience, self.progress)
        q = self._n_step.select_starts(experience.info.taken)
        next_value = self._n_step.select_ends(experience.info.greatest, transitions.end)
        td_error = self.target(transitions, next_value) - q
        return td_losses.sequence_priority(td_error, transitions.weight, self._priority_eta)

    def after_update(self, experience: Experience, train_info: Nest) -> None:
        self._update_target()
