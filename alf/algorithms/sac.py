# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""SAC: soft actor-critic (arXiv 1812.05905), for discrete actions too (arXiv 1910.07207)."""

import functools
import math
from typing import Any, NamedTuple

import gin
import tensorflow as tf

from alf.algorithms.algorithm import Algorithm
from alf.algorithms.critic_actions import action_index, unit_action
from alf.algorithms.n_step import NStep
from alf.algorithms.target_update import TargetUpdater
from alf.data_structures import LossInfo, PolicyStep
from alf.errors import ConfigError, check_number
from alf.networks import CriticsNetwork, PolicyNetwork
from alf.ops import losses, td_losses
from alf.policies.action_distributions import CategoricalActions, TanhGaussianActions


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
        observation_spec, action_spec, max_grad_norm, max_policy_lag, jit_compile, train_step_counter: as in
            `Algorithm`.
        actor_optimizer, critic_optimizer: `tf.keras.optimizers.legacy` optimizers, each its own instance.
        alpha_optimizer: the same, of the temperature's logarithm; None leaves the temperature as it is.
        actor_ctor: callable (observation_spec, num_outputs) -> `PolicyNetwork`.
        critic_ctor: callable (observation_spec, action_size, num_outputs) -> `CriticsNetwork`.
        discount: gamma, in [0, 1].
        n_step: rewards of a target before it bootstraps; fewer where an episode ends.
        initial_alpha: temperature, the weight of entropy against reward, where training begins.
        target_entropy: in nats, which the temperature is to keep; None: -D for a box of D numbers, and for
            n actions 0.98 of the greatest there is, log n. Lower it where a policy so random is a bad one.
        tau: in (0, 1], how far each update of the target critics goes to the critics; 1 copies.
        target_update_period: updates from one of the target critics to the next.
        burn_in: rows of a sequence that only bring the recurrent state up to date.
    """

    def __init__(
        self,
        observation_spec,
        action_spec,
        actor_optimizer,
        critic_optimizer,
        alpha_optimizer=None,
        actor_ctor=PolicyNetwork,
        critic_ctor=CriticsNetwork,
        discount=0.99,
        n_step=1,
        initial_alpha=1.0,
        target_entropy=None,
        tau=0.005,
        target_update_period=1,
        burn_in=0,
        max_grad_norm=None,
        max_policy_lag=None,
        jit_compile=False,
        train_step_counter=None,
    ):
        check_number("SacAlgorithm.initial_alpha", initial_alpha, above=0)
        check_number("SacAlgorithm.target_entropy", target_entropy, optional=True)
        actions = _actions(action_spec)
        is_discrete = isinstance(actions, CategoricalActions)
        actor = actor_ctor(observation_spec, actions.num_outputs)
        sizes = (0, actions.num_outputs) if is_discrete else (action_spec.shape.num_elements(), 1)
        critic = critic_ctor(observation_spec, *sizes)
        is_recurrent = actor.state_spec != () or critic.state_spec != ()
        super().__init__(
            observation_spec,
            action_spec,
            _checked(actor=actor_optimizer, critic=critic_optimizer, alpha=alpha_optimizer),
            train_state_spec=(actor.state_spec, critic.state_spec) if is_recurrent else (),
            max_grad_norm=max_grad_norm,
            max_policy_lag=max_policy_lag,
            jit_compile=jit_compile,
            train_step_counter=train_step_counter,
            name="sac",
        )
        self._actions = actions
        self._is_discrete = is_discrete
        self._is_recurrent = is_recurrent
        self._actor = actor
        self._critic = critic
        self._target_critic = critic_ctor(observation_spec, *sizes)
        self._update_target = TargetUpdater(
            critic.variables, self._target_critic.variables, tau, target_update_period
        )
        self._n_step = NStep("SacAlgorithm", discount, n_step, burn_in, is_recurrent)
        self._log_alpha = tf.Variable(
            math.log(initial_alpha), trainable=alpha_optimizer is not None, name="log_alpha"
        )
        if target_entropy is None:
            target_entropy = 0.98 * math.log(sizes[1]) if is_discrete else -sizes[0]
        self._target_entropy = float(target_entropy)

    def parameter_groups(self):
        groups = {
            "actor": self._actor.trainable_variables,
            "critic": self._critic.trainable_variables,
            "alpha": [self._log_alpha],
        }
        return [(optimizer, groups[name]) for name, optimizer in self.optimizer.items()]

    def predict_step(self, time_step, state):
        """Takes the most likely action, before tanh if it is a box."""
        actor_state, critic_state = self._split(state)
        outputs, actor_state = self._actor.policy(time_step.observation, actor_state)
        raw = self._actions.mode(self._actions.params(outputs))
        return PolicyStep(self._actions.action(raw), self._join(actor_state, critic_state))

    def rollout_step(self, time_step, state):
        """Samples an action."""
        actor_state, critic_state = self._split(state)
        outputs, actor_state = self._actor.policy(time_step.observation, actor_state)
        critic_state = self._critic.advance(time_step.observation, critic_state)
        raw = self._actions.sample(self._actions.params(outputs))
        return PolicyStep(self._actions.action(raw), self._join(actor_state, critic_state))

    def preprocess(self, experience, state):
        """Draws the noise of the actions where steps start and end: `info` is a pair of float32 [T+1, B, D].

        Here rather than in `train_step`, whose random numbers do not follow the seed if XLA compiles it.
        """
        if self._is_discrete:
            return experience._replace(info=((), ()))
        shape = (*experience.step_type.shape, self.action_spec.shape.num_elements())
        return experience._replace(info=(tf.random.normal(shape), tf.random.normal(shape)))

    def train_step(self, experience, state):
        steps = self._n_step.steps(experience)
        actor_state, critic_state = self._split(state)
        outputs, next_outputs = self._n_step.at_starts_and_ends(
            self._actor, experience, actor_state, steps.end
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
        log_prob = tf.nn.log_softmax(self._actions.params(outputs))
        choices = Choices(tf.exp(log_prob), log_prob, tf.stop_gradient(tf.reduce_min(q, axis=0)))
        if action is None:
            return None, choices
        return td_losses.value_of_action(q, action_index(action, self.action_spec)), choices

    def _evaluate_draw(self, critic, features, outputs, noise, action=None):
        """The same for a box, with one action drawn; the critic's variables get no gradient from that."""
        params = self._actions.params(outputs)
        raw = self._actions.draw(params, noise)
        log_prob = self._actions.log_prob(params, raw)[..., tf.newaxis]
        choices = functools.partial(Choices, tf.ones_like(log_prob), log_prob)
        smallest = lambda x: tf.reduce_min(critic.values(features, x), axis=0)  # noqa: E731
        if action is None:
            return None, choices(smallest(tf.tanh(raw)))
        q = critic.values(features, unit_action(action, self.action_spec))[..., 0]
        return q, choices(of_input_alone(smallest, tf.tanh(raw)))

    def _split(self, state):
        """States of actor and critic."""
        return state if self._is_recurrent else ((), ())

    def _join(self, actor_state, critic_state):
        return (actor_state, critic_state) if self._is_recurrent else ()


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


def _actions(action_spec):
    """The distribution of one integer or one bounded box."""
    if isinstance(action_spec, tf.TensorSpec):
        if action_spec.dtype.is_integer and action_spec.shape.rank == 0:
            return CategoricalActions(action_spec)
        if action_spec.dtype.is_floating and action_spec.shape.num_elements():
            return _tanh_gaussian(action_spec)
    raise ConfigError(
        f"action_spec is {action_spec}: SacAlgorithm needs one box of floats or one integer, with bounds"
    )


def _tanh_gaussian(action_spec):
    try:
        return TanhGaussianActions(action_spec)
    except ConfigError:
        raise ConfigError(
            f"action_spec is {action_spec}: SacAlgorithm needs finite bounds, minimum <= maximum"
        ) from None


def _checked(**optimizers):
    """Dict of those that are not None, checked to be different instances."""
    optimizers = {name: one for name, one in optimizers.items() if one is not None}
    for name in ("actor", "critic"):
        if name not in optimizers:
            raise ConfigError(f"{name}_optimizer is None: it must be an optimizer; in gin, @Adam()")
    if len({id(one) for one in optimizers.values()}) < len(optimizers):
        raise ConfigError(
            "actor_optimizer, critic_optimizer and alpha_optimizer must be different instances; in gin, "
            "each @Adam() makes one"
        )
    return optimizers
