# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""SAC: soft actor-critic (arXiv 1812.05905), for discrete actions too (arXiv 1910.07207)."""

import copy
import functools
import math
from typing import Any, NamedTuple

import gin
import tensorflow as tf

from alf.algorithms.algorithm import Algorithm
from alf.algorithms.critic_actions import action_index, unit_action
from alf.algorithms.n_step import NStep
from alf.algorithms.target_update import TargetUpdater
from alf.data_structures import LossInfo
from alf.errors import ConfigError, check_bool, check_number
from alf.networks import CriticsNetwork
from alf.ops import losses, td_losses


class Choices(NamedTuple):
    """What the policy may do in each row: N actions, all that there are or one that was drawn.

    Fields:
        prob: float32 [R, B, N]; how much each counts: its probability, or 1 for the one drawn.
        log_prob: float32 [R, B, N].
        q: float32 [R, B, N], the smallest of the critics.
    """

    prob: Any
    log_prob: Any
    q: Any


class SacInfo(NamedTuple):
    """What policy and critics make of a sequence.

    Fields:
        steps: `Steps` of [R, B].
        q: float32 [num_critics, R, B], of the actions taken.
        now: `Choices` in the rows that train.
        then: `Choices` where their steps end, with the target critics' values.
    """

    steps: Any
    q: Any
    now: Any
    then: Any


@gin.configurable(module="alf.algorithms")
class SacAlgorithm(Algorithm):
    """Soft actor-critic: twin critics, target critics, automatic temperature.

    Actions are one box of floats with finite bounds, of tanh-Gaussians, or one integer. Densities, the
    entropy among them, are those of the action scaled to [-1, 1], whatever the bounds.

    Networks may be recurrent; then sequences begin with the state that was stored, and `burn_in` rows bring
    it up to date (R2D2, Kapturowski et al., ICLR 2019).

    A sequence of `mini_batch_length` L gives L - burn_in - n_step + 1 transitions of n steps, which nothing
    corrects for the policy that acted; the bonus for entropy is that of the state where they end alone. Its
    priority is the mean absolute TD error of these, over the critics too.

    Args:
        policy: `SacPolicy`.
        critic_ctor: callable (observation_spec, action_size, num_outputs) -> network like `CriticsNetwork`.
            None takes the policy's recurrent critics, else `CriticsNetwork`.
        discount: gamma, in [0, 1].
        n_step: rewards of a target before it bootstraps; fewer where an episode ends.
        initial_alpha: temperature, the weight of entropy against reward, where training begins.
        train_alpha: whether the temperature is trained; else it stays `initial_alpha`.
        target_entropy: in nats, which the temperature is to keep; None: -D for a box of D numbers, and for
            n actions 0.98 of the greatest there is, log n. Lower it where a policy so random is a bad one.
        tau: in (0, 1], how far each update of the target critics goes to the critics; 1 copies.
        target_update_period: updates from one of the target critics to the next.
        burn_in: rows of a sequence that only bring the recurrent state up to date.
    """

    def __init__(
        self,
        policy,
        critic_ctor=None,
        discount=0.99,
        n_step=1,
        initial_alpha=1.0,
        train_alpha=True,
        target_entropy=None,
        tau=0.005,
        target_update_period=1,
        burn_in=0,
    ):
        check_number("SacAlgorithm.initial_alpha", initial_alpha, above=0)
        check_number("SacAlgorithm.target_entropy", target_entropy, optional=True)
        check_bool("SacAlgorithm.train_alpha", train_alpha)
        super().__init__(policy, name="sac")
        self._critic = _make_critic(policy, critic_ctor)
        self._target_critic = copy.deepcopy(self._critic)
        self._update_target = TargetUpdater(
            self._critic.variables, self._target_critic.variables, tau, target_update_period
        )
        is_recurrent = bool(tf.nest.flatten(policy.state_spec))
        self._n_step = NStep("SacAlgorithm", discount, n_step, burn_in, is_recurrent)
        self._log_alpha = tf.Variable(math.log(initial_alpha), trainable=train_alpha, name="log_alpha")
        action_size, num_actions = policy.critic_sizes
        self._is_discrete = action_size == 0
        if target_entropy is None:
            target_entropy = 0.98 * math.log(num_actions) if self._is_discrete else -action_size
        self._target_entropy = float(target_entropy)

    def parameter_groups(self):
        """The groups "actor", "critic" and, if the temperature is trained, "alpha"."""
        groups = {
            "actor": list(self.policy.network.trainable_variables),
            "critic": list(self._critic.trainable_variables),
        }
        return {**groups, "alpha": [self._log_alpha]} if self._log_alpha.trainable else groups

    def preprocess(self, experience, state):
        """Draws the noise of the actions where steps start and end: `info` is a pair of float32 [T+1, B, D].

        Here rather than in `train_step`, whose random numbers do not follow the seed if XLA compiles it.
        """
        if self._is_discrete:
            return experience._replace(info=((), ()))
        shape = (*experience.step_type.shape, self.policy.action_spec.shape.num_elements())
        return experience._replace(info=(tf.random.normal(shape), tf.random.normal(shape)))

    def train_step(self, experience, state):
        steps = self._n_step.steps(experience)
        actor_state, critic_state = self.policy.split_state(state)
        outputs, next_outputs = self._n_step.at_starts_and_ends(
            self.policy.network, experience, actor_state, steps.end
        )
        features, _ = self._n_step.at_starts_and_ends(
            self._critic.features, experience, critic_state, steps.end
        )
        _, next_features = self._n_step.at_starts_and_ends(
            self._target_critic.features, experience, critic_state, steps.end
        )
        action, (noise, next_noise) = self._n_step.starts(experience, (experience.action, experience.info))
        evaluate = self._evaluate_choices if self._is_discrete else self._evaluate_draw
        q, now = evaluate(self._critic, features, outputs, noise, action)
        _, then = evaluate(self._target_critic, next_features, next_outputs, next_noise)
        return SacInfo(steps, q, now, then)

    def calc_loss(self, experience, train_info):
        """The losses of critics, actor and temperature; no gradient of one reaches the others' variables."""
        steps, q, now, then = train_info
        alpha = tf.stop_gradient(tf.exp(self._log_alpha))
        entropy = -tf.reduce_sum(now.prob * now.log_prob, axis=-1)
        target = td_losses.td_target(steps.reward, steps.discount, td_losses.soft_value(*then, alpha))
        mean = lambda x: losses.weighted_mean(x, steps.weight)  # noqa: E731
        parts = {
            "critic_loss": mean(td_losses.sac_critic_loss(q, target)),
            "actor_loss": mean(td_losses.sac_actor_loss(*now, alpha)),
        }
        if self._log_alpha.trainable:
            alpha_loss = td_losses.sac_alpha_loss(self._log_alpha, entropy, self._target_entropy)
            parts["alpha_loss"] = mean(alpha_loss)
        seen = tf.cast(steps.weight > 0, tf.float32)
        shown = {
            "alpha": alpha,
            "entropy": losses.weighted_mean(entropy, seen),
            "q": losses.weighted_mean(tf.reduce_mean(q, axis=0), seen),
        }
        loss = tf.add_n(list(parts.values()))
        td_error = tf.reduce_mean(tf.abs(q - target), axis=0)
        return LossInfo(loss, {**parts, **shown}, td_losses.mean_priority(td_error, steps.weight))

    def after_update(self, experience, train_info):
        self._update_target()

    def _evaluate_choices(self, critic, features, outputs, noise, action=None):
        """Q of the actions taken [num_critics, R, B], None without these, and the policy's `Choices`."""
        del noise
        q = critic.values(features)
        log_prob = tf.nn.log_softmax(self.policy.actions.params(outputs))
        choices = Choices(tf.exp(log_prob), log_prob, tf.stop_gradient(tf.reduce_min(q, axis=0)))
        if action is None:
            return None, choices
        return td_losses.value_of_action(q, action_index(action, self.policy.action_spec)), choices

    def _evaluate_draw(self, critic, features, outputs, noise, action=None):
        """The same for a box, with one action drawn; the critic's variables get no gradient from that."""
        params = self.policy.actions.params(outputs)
        raw = self.policy.actions.draw(params, noise)
        log_prob = self.policy.actions.log_prob(params, raw)[..., tf.newaxis]
        choices = functools.partial(Choices, tf.ones_like(log_prob), log_prob)
        smallest = lambda x: tf.reduce_min(critic.values(features, x), axis=0)  # noqa: E731
        if action is None:
            return None, choices(smallest(tf.tanh(raw)))
        q = critic.values(features, unit_action(action, self.policy.action_spec))[..., 0]
        return q, choices(of_input_alone(smallest, tf.tanh(raw)))


def of_input_alone(function, x):
    """`function(x)`, whose gradient goes to `x`, and not to what else the function depends on.

    Cheaper than to differentiate by all variables and drop what comes out.

    Args:
        function: callable (float32 [..., D]) -> float32 [..., 1], each row of the row of `x` alone.
        x: float32 [..., D].

    Returns:
        float32 [..., 1].
    """
    fixed = tf.stop_gradient(x)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(fixed)
        y = function(fixed)
    slope = tf.stop_gradient(tape.gradient(y, fixed))
    return tf.stop_gradient(y) + tf.reduce_sum(slope * (x - fixed), axis=-1, keepdims=True)


def _make_critic(policy, critic_ctor):
    """The critics that the policy carries along, else new ones.

    Raises:
        ConfigError: if the policy does not carry the recurrent state of the critics.
    """
    if policy.recurrent_critic is not None:
        if critic_ctor is not None:
            raise ConfigError(
                "SacAlgorithm.critic_ctor is set, but SacPolicy.recurrent_critic_ctor is set, too"
            )
        return policy.recurrent_critic
    critic = (critic_ctor or CriticsNetwork)(policy.observation_spec, *policy.critic_sizes)
    if critic.state_spec != ():
        raise ConfigError(
            "SacAlgorithm.critic_ctor makes recurrent critics, and the policy has to carry their state: "
            "set SacPolicy.recurrent_critic_ctor instead"
        )
    return critic
