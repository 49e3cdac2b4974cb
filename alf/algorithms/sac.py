# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""SAC: soft actor-critic (arXiv 1812.05905), for discrete actions too (arXiv 1910.07207)."""

import copy
import functools
import math
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import tensorflow as tf

from alf.algorithms.action_values import NStep, action_to_index
from alf.algorithms.algorithm import Algorithm, TargetUpdater
from alf.config.kinds import Above, AtMost, Fraction, NonNegativeInt, PositiveFloat, PositiveInt
from alf.config.settings import configurable
from alf.core.annotations import Array, Nest
from alf.data_structures import Experience, LossInfo
from alf.errors import ConfigError
from alf.networks import CriticsNetwork
from alf.networks.heads import check_network
from alf.ops import draws, losses, td_losses
from alf.ops.unit_box import action_to_unit_box
from alf.policies.action_distributions import split_mask
from alf.policies.off_policy import SacPolicy
from alf.schedules import ScheduledFraction


class EvaluatedActions(NamedTuple):
    """N actions of the policy in each row: all discrete actions, or one sample from a box."""

    prob: Any  # float32 [R, B, N]; 1 for a sample
    log_prob: Any  # float32 [R, B, N]
    q: Any  # float32 [R, B, N], the smallest value of all critics


@configurable("alf.algorithms")
class SacAlgorithm(Algorithm):
    """Soft actor-critic: twin critics, target critics, automatic temperature.

    With actions a of the policy, the temperature alpha and the smallest value Q of all critics, the losses of
    the critics, the actor and the temperature are

        sum over critics (target - Q_c(s_0, a_0))^2 / 2
        E_a[alpha log pi(a|s_0) - Q(s_0, a)]
        log(alpha) (entropy(pi(s_0)) - target_entropy)

    with target = r_1 + ... + gamma^(n-1) r_n + gamma^n E_a[Q_target(s_n, a) - alpha log pi(a|s_n)]. Each loss
    only changes its own variables. With n above 1, there is no correction for the policy that acted, and the
    entropy of the states in between is left out.

    The action is one box of floats with finite bounds, or one integer. Densities and entropies of a box are
    computed for the action scaled to [-1, 1], whatever the bounds.

    Networks may be recurrent. Sequences have transitions and priorities like in `DqnAlgorithm`; the TD errors
    are averaged over the critics.

    Args:
        policy: `SacPolicy`.
        critic: callable (observation_spec, action_size, num_outputs) -> network like `CriticsNetwork`.
            None takes the policy's recurrent critics if there are any, else `CriticsNetwork`.
        discount: number or schedule in [0, 1], gamma.
        n_step: int, n, the number of rewards in a target before it bootstraps; fewer if an episode ends.
        initial_alpha: number above 0, the initial temperature: the weight of entropy against reward.
        train_alpha: bool, whether the temperature is trained; otherwise it stays `initial_alpha`.
        target_entropy: number in nats; training changes the temperature until the policy has this entropy.
            None means -D for a box of D numbers, and 0.4 log N for N discrete actions that are allowed. The
            paper's 0.98 log N is nearly the uniform policy. A number counts as log N where it is above that.
        tau: number in (0, 1], how far each move takes the target critics towards the critics; 1 copies them.
        target_update_period: int, updates between two moves of the target critics.
        burn_in: int, rows at the start of a sequence that do not train. They only compute the recurrent state
            with the current weights, because the stored state came from older weights (R2D2, Kapturowski et
            al., ICLR 2019).
        priority_eta: number in [0, 1], as in `DqnAlgorithm`.
    """

    policy_type = SacPolicy

    def __init__(
        self,
        policy: SacPolicy,
        critic: Callable[..., CriticsNetwork] | None = None,
        discount: ScheduledFraction = 0.99,
        n_step: PositiveInt = 1,
        initial_alpha: PositiveFloat = 1.0,
        train_alpha: bool = True,
        target_entropy: float | None = None,
        tau: Annotated[float, Above(0), AtMost(1)] = 0.005,
        target_update_period: PositiveInt = 1,
        burn_in: NonNegativeInt = 0,
        priority_eta: Fraction = 0.0,
    ) -> None:
        super().__init__(policy, name="sac")
        is_recurrent = bool(tf.nest.flatten(policy.state_spec.train))
        self._n_step = NStep("SacAlgorithm", discount, n_step, burn_in, is_recurrent)
        self._critic = _make_critic(policy, critic)
        self._target_critic = copy.deepcopy(self._critic)
        self._update_target = TargetUpdater(self._critic, self._target_critic, tau, target_update_period)
        # The logarithm, so that alpha stays positive and moves by factors.
        self._log_alpha = tf.Variable(math.log(initial_alpha), trainable=train_alpha, name="log_alpha")
        action_size, _ = policy.critic_sizes
        self._is_discrete = action_size == 0
        self._target_entropy = target_entropy
        self._priority_eta = priority_eta

    def check_sequence_length(self, length: int) -> None:
        self._n_step.check_length(length)

    def parameter_groups(self) -> dict[str, list[tf.Variable]]:
        """Returns the groups "actor", "critic" and, if the temperature is trained, "alpha"."""
        actor = self.policy.network.trainable_variables + self.policy.actions.trainable_variables
        groups = {"actor": list(actor), "critic": list(self._critic.trainable_variables)}
        return {**groups, "alpha": [self._log_alpha]} if self._log_alpha.trainable else groups

    def preprocess(self, experience: Experience) -> Nest:
        """Draws the noise for sampled actions at both ends of the transitions.

        Returns a pair of float32 [L+1, B, D], or of () for discrete actions. The noise is not drawn in
        `train_step`, because XLA may compile that, and XLA draws other numbers from the same seed.
        """
        if self._is_discrete:
            return (), ()
        # Two draws: the sample in the target of a step must not depend on the sample in the actor's loss.
        size = self.policy.action_spec.shape.num_elements()
        shape = tf.concat([tf.shape(experience.step_type), [size]], axis=0)
        return draws.normal(shape), draws.normal(shape)

    def train_step(self, experience: Experience, prepared: Nest) -> Nest:
        """Evaluates the networks at both ends of the transitions.

        Returns:
            the `Transitions` [R, B]; the critics' values of the actions taken at the starts, float32
            [num_critics, R, B]; the `EvaluatedActions` at the starts, by the critics; and the
            `EvaluatedActions` at the ends, by the target critics.
        """
        observation, mask = split_mask(experience.observation, self.policy.action_mask_key)
        experience = experience._replace(observation=observation)
        transitions = self._n_step.make_transitions(experience, self.progress)
        actor_state, critic_state = experience.state.train
        evaluate, end = self._n_step.evaluate_starts_and_ends, transitions.end
        outputs, next_outputs = evaluate(self.policy.network, experience, actor_state, end)
        # One call for both losses: the features pass the critics' gradient on, and the actor's loss reaches
        # only the action (`_evaluate_actions`), so that it does not train the critics' encoder.
        features, _ = evaluate(self._critic.features, experience, critic_state, end)
        _, next_features = evaluate(self._target_critic.features, experience, critic_state, end, learns=False)
        taken, (noise, next_noise) = self._n_step.select_starts((experience.action, prepared))
        masks = (None, None)
        if mask is not None:
            masks = self._n_step.select_starts(mask), self._n_step.select_ends(mask, end)
        params, next_params = map(self.policy.actions.params, (outputs, next_outputs), masks)
        q, actions = self._evaluate_actions(self._critic, features, params, noise, taken)
        _, next_actions = self._evaluate_actions(self._target_critic, next_features, next_params, next_noise)
        return transitions, q, actions, next_actions

    def calc_loss(self, experience: Experience, train_info: Nest) -> LossInfo:
        """Computes the sum of the losses of critics, actor and temperature, and the priorities."""
        transitions, q, actions, next_actions = train_info
        # Critics and actor take the temperature as given. Only `sac_alpha_loss` trains it.
        alpha = tf.stop_gradient(tf.exp(self._log_alpha))
        entropy = -tf.reduce_sum(actions.prob * actions.log_prob, axis=-1)
        # A soft value: the entropy of later states counts like their rewards.
        next_value = td_losses.soft_value(alpha=alpha, **next_actions._asdict())
        target = td_losses.td_target(transitions.reward, transitions.discount, next_value)
        mean = functools.partial(losses.weighted_mean, weight=transitions.weight)
        # Their sum is the loss, because each part passes its gradient only to its own variables.
        parts = {
            "critic_loss": mean(td_losses.sac_critic_loss(q, target)),
            "actor_loss": mean(td_losses.sac_actor_loss(alpha=alpha, **actions._asdict())),
        }
        if self._log_alpha.trainable:
            target_entropy = self._find_target_entropy(actions)
            parts["alpha_loss"] = mean(td_losses.sac_alpha_loss(self._log_alpha, entropy, target_entropy))
        # The figures count each trained row once, whatever its importance weight.
        is_trained = tf.cast(transitions.weight > 0, tf.float32)
        shown = {
            "alpha": alpha,
            "entropy": losses.weighted_mean(entropy, is_trained),
            "q": losses.weighted_mean(tf.reduce_mean(q, axis=0), is_trained),
        }
        td_error = tf.reduce_mean(tf.abs(q - target), axis=0)
        priority = td_losses.sequence_priority(td_error, transitions.weight, self._priority_eta)
        return LossInfo(tf.add_n(list(parts.values())), {**parts, **shown}, priority)

    def after_update(self, experience: Experience, train_info: Nest) -> None:
        self._update_target()

    def _find_target_entropy(self, actions):
        """Returns the target entropy, a float; of discrete actions, float32 [R, B]."""
        if not self._is_discrete:
            # -D is the paper's choice (arXiv 1812.05905, appendix D).
            size, _ = self.policy.critic_sizes
            return float(-size if self._target_entropy is None else self._target_entropy)
        # No policy has more entropy than the uniform one. Where a mask allows one action, it has none, and
        # the temperature would grow without end if such rows asked for more.
        largest = tf.math.log(tf.cast(losses.count_allowed(actions.log_prob), tf.float32))
        # arXiv 1910.07207 demands 0.98 of the largest: with that, CartPole stays at a return of 60.
        return 0.4 * largest if self._target_entropy is None else tf.minimum(self._target_entropy, largest)

    def _evaluate_actions(self, critic, features, params, noise, taken=None):
        """Returns the values of the actions `taken`, or None without them, and `EvaluatedActions`."""
        spec = self.policy.action_spec
        if self._is_discrete:
            values = critic.values(features)
            log_prob = tf.nn.log_softmax(params)
            q = None if taken is None else td_losses.value_of_action(values, action_to_index(taken, spec))
            # The actor's loss is an exact expectation over all actions: it needs values, not their gradient.
            smallest_q = tf.stop_gradient(tf.reduce_min(values, axis=0))
            return q, EvaluatedActions(tf.exp(log_prob), log_prob, smallest_q)

        def smallest_q(action):
            # The smallest of several estimates: the actor looks for the largest value, and so finds the
            # errors of a single critic (arXiv 1802.09477, section 4.2).
            return tf.reduce_min(critic.values(features, action), axis=0)

        # Drawn as mean + std * noise, so that the gradient reaches the parameters through the action.
        raw = self.policy.actions.draw(params, noise)
        log_prob = self.policy.actions.log_prob(params, raw)[..., tf.newaxis]
        prob, sample = tf.ones_like(log_prob), self.policy.actions.unit_action(raw)
        if taken is None:
            return None, EvaluatedActions(prob, log_prob, smallest_q(sample))
        # Critics know only actions in [-1, 1], for which the policy draws and its density holds.
        q = critic.values(features, action_to_unit_box(taken, spec))[..., 0]
        # The actor's loss must not change the critics, whose variables this same tape watches.
        sample_q = pass_gradient_to_input_only(smallest_q, sample)
        return q, EvaluatedActions(prob, log_prob, sample_q)


def pass_gradient_to_input_only(function: Callable[[Array], Array], x: Array) -> Array:
    """Computes `function(x)` so that its gradient reaches `x`, but not the variables inside the function.

    This is cheaper than computing the gradients of all these variables and dropping them.

    Args:
        function: callable from float32 [..., D] to float32 [..., 1]. Each row of the result must depend only
            on the same row of `x`.
        x: float32 [..., D].
    """
    constant_x = tf.stop_gradient(x)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(constant_x)
        y = function(constant_x)
    # A linear function of x with the value y and the gradient of the function at x.
    slope = tf.stop_gradient(tape.gradient(y, constant_x))
    return tf.stop_gradient(y) + tf.reduce_sum(slope * (x - constant_x), axis=-1, keepdims=True)


def _make_critic(policy, make):
    """Returns the recurrent critics of the policy, or makes critics without a recurrent layer."""
    if policy.recurrent_critic is not None:
        if make is not None:
            raise ConfigError(
                "SacAlgorithm.critic is set, but SacPolicy.recurrent_critic is set, too: set one"
            )
        return policy.recurrent_critic
    observation_spec, _ = split_mask(policy.observation_spec, policy.action_mask_key)
    critic = (make or CriticsNetwork)(observation_spec, *policy.critic_sizes)
    check_network("SacAlgorithm.critic", critic, like=CriticsNetwork)
    if critic.state_spec != ():
        raise ConfigError(
            "SacAlgorithm.critic makes recurrent critics, whose state the policy must compute: set "
            "SacPolicy.recurrent_critic instead"
        )
    return critic
