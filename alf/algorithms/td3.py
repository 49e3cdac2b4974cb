# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""TD3: twin delayed deep deterministic policy gradient (arXiv 1802.09477), with its policy."""

import copy
from collections.abc import Callable
from typing import Annotated, Any

import tensorflow as tf

from alf.algorithms.action_values import NStep
from alf.algorithms.algorithm import Algorithm, TargetUpdater
from alf.algorithms.sac import pass_gradient_to_input_only
from alf.config.kinds import Above, AtMost, Fraction, NonNegativeFloat, PositiveInt
from alf.config.settings import configurable
from alf.core.annotations import Nest, NestedSpec
from alf.data_structures import Experience, LossInfo, PolicyState, PolicyStep, TimeStep
from alf.errors import ConfigError
from alf.networks import CriticsNetwork, PolicyNetwork
from alf.ops import draws, losses, td_losses
from alf.ops.unit_box import action_from_unit_box, action_to_unit_box, has_unit_box
from alf.policies.data_transformers import Pipeline
from alf.policies.policy import Policy
from alf.schedules import ScheduledFraction, ScheduledWeight, as_schedule


@configurable("alf.policies")
class Td3Policy(Policy):
    """TD3's actor: a deterministic action, to which `rollout_step` adds Gaussian noise.

    Args:
        observation_spec: nest of unbatched tensor specs of the observations after the data transformer.
        action_spec: unbatched tensor spec of one box of floats with finite bounds, else `ConfigError`.
        network: callable (observation_spec, num_outputs) -> network like `PolicyNetwork`, not recurrent. The
            tanh of its outputs are actions in [-1, 1].
        exploration_noise: number or `Schedule`, at least 0; the standard deviation of the noise, where the
            bounds are -1 and 1.
        data_transformer: `Pipeline`, or None.

    Attributes:
        network: the network that the argument `network` made.
    """

    def __init__(
        self,
        observation_spec: NestedSpec,
        action_spec: NestedSpec,
        network: Callable[..., Any] = PolicyNetwork,
        exploration_noise: ScheduledWeight = 0.1,
        data_transformer: Pipeline | None = None,
    ) -> None:
        if not has_unit_box(action_spec):
            raise ConfigError(
                f"action_spec is {action_spec}: Td3Policy needs one box of floats with finite bounds; DQN, "
                "SAC, PPO and IMPALA take integers"
            )
        super().__init__(observation_spec, action_spec, data_transformer=data_transformer)
        self.network = network(observation_spec, action_spec.shape.num_elements())
        if self.network.state_spec != ():
            raise ConfigError(
                "Td3Policy.network is recurrent, which TD3 does not learn: use SAC, or set rnn to None"
            )
        self._noise = as_schedule(exploration_noise)

    def predict_step(self, time_step: TimeStep, state: PolicyState) -> PolicyStep:
        outputs, _ = self.network.policy(time_step.observation)
        return PolicyStep(action_from_unit_box(tf.tanh(outputs), self.action_spec), state)

    def rollout_step(self, time_step: TimeStep, state: PolicyState) -> PolicyStep:
        outputs, _ = self.network.policy(time_step.observation)
        noise = self._noise(self.progress) * draws.normal(tf.shape(outputs))
        return PolicyStep(action_from_unit_box(tf.tanh(outputs) + noise, self.action_spec), state)


@configurable("alf.algorithms")
class Td3Algorithm(Algorithm):
    """TD3 from replay: twin critics, target actions with noise, and an actor that moves less often.

    With the actor mu, its target network mu', the critics Q_1 and Q_2 and their target networks Q'_c, for
    actions scaled to [-1, 1]:

        noise = clip(target_noise * normal, -target_noise_clip, target_noise_clip)
        a_n = clip(mu'(s_n) + noise, -1, 1)
        target = r_1 + ... + gamma^(n-1) r_n + gamma^n min_c Q'_c(s_n, a_n)
        critic_loss = sum over c of (target - Q_c(s_0, a_0))^2 / 2
        actor_loss = -Q_1(s_0, mu(s_0))

    Every `policy_delay`-th update moves the actor and all target networks, too. The priority of a sequence is
    the mean of its absolute TD errors, which are averaged over the critics.

    Args:
        policy: `Td3Policy`.
        critic: callable (observation_spec, action_size, num_outputs) -> network like `CriticsNetwork`, not
            recurrent.
        discount: number or schedule in [0, 1], gamma.
        n_step: int, n, the number of rewards in a target before it bootstraps; fewer if an episode ends.
        policy_delay: int, updates of the critics for one of the actor.
        target_noise: number, at least 0; the standard deviation of the noise of target actions.
        target_noise_clip: number, at least 0; the largest noise of a target action.
        tau: number in (0, 1], how far each move takes the target networks towards those that learn.
        priority_eta: number in [0, 1], as in `DqnAlgorithm`.
    """

    policy_type = Td3Policy

    def __init__(
        self,
        policy: Td3Policy,
        critic: Callable[..., CriticsNetwork] = CriticsNetwork,
        discount: ScheduledFraction = 0.99,
        n_step: PositiveInt = 1,
        policy_delay: PositiveInt = 2,
        target_noise: NonNegativeFloat = 0.2,
        target_noise_clip: NonNegativeFloat = 0.5,
        tau: Annotated[float, Above(0), AtMost(1)] = 0.005,
        priority_eta: Fraction = 0.0,
    ) -> None:
        super().__init__(policy, name="td3")
        self._n_step = NStep("Td3Algorithm", discount, n_step, burn_in=0, is_recurrent=False)
        self._actor = policy.network
        self._critic = critic(policy.observation_spec, policy.action_spec.shape.num_elements(), 1)
        if self._critic.state_spec != ():
            raise ConfigError("Td3Algorithm.critic is recurrent, which TD3 does not learn: use SAC")
        self._target_actor, self._target_critic = copy.deepcopy((self._actor, self._critic))
        self._update_targets = [
            TargetUpdater(self._actor, self._target_actor, tau, policy_delay),
            TargetUpdater(self._critic, self._target_critic, tau, policy_delay),
        ]
        self._policy_delay = policy_delay
        self._target_noise, self._target_noise_clip = target_noise, target_noise_clip
        self._priority_eta = priority_eta

    def check_sequence_length(self, length: int) -> None:
        self._n_step.check_length(length)

    def parameter_groups(self) -> dict[str, list[tf.Variable]]:
        """Returns the groups "actor" and "critic"."""
        groups = {"actor": self._actor, "critic": self._critic}
        return {name: list(network.trainable_variables) for name, network in groups.items()}

    def preprocess(self, experience: Experience) -> Nest:
        """Draws the noise of target actions, float32 [L+1, B, D], in [-clip, clip].

        It is not drawn in `train_step`, because XLA may compile that, and XLA draws other numbers from the
        same seed.
        """
        size = self.policy.action_spec.shape.num_elements()
        shape = tf.concat([tf.shape(experience.step_type), [size]], axis=0)
        noise = self._target_noise * draws.normal(shape)
        return tf.clip_by_value(noise, -self._target_noise_clip, self._target_noise_clip)

    def train_step(self, experience: Experience, prepared: Nest) -> Nest:
        """Evaluates the networks at both ends of the transitions.

        Returns:
            the `Transitions` [R, B]; the critics' values of the actions taken at the starts, float32
            [num_critics, R, B]; the first critic's value of the actor's actions there, float32 [R, B]; and
            the smallest value of the target critics at the ends, float32 [R, B].
        """
        transitions = self._n_step.make_transitions(experience, self.progress)

        def evaluate(network, learns):
            both = self._n_step.evaluate_starts_and_ends(network, experience, (), transitions.end, learns)
            return both[0 if learns else 1]

        # Of each network one end is needed: the other one's part of the graph is never run.
        features, outputs = evaluate(self._critic.features, True), evaluate(self._actor, True)
        next_features = evaluate(self._target_critic.features, False)
        next_outputs = evaluate(self._target_actor, False)
        taken = action_to_unit_box(self._n_step.select_starts(experience.action), self.policy.action_spec)
        q = self._critic.values(features, taken)[..., 0]
        # The actor's loss must not change the critics, whose variables this same tape watches.
        first_value = lambda action: self._critic.values(features, action)[0]  # noqa: E731
        actor_q = pass_gradient_to_input_only(first_value, tf.tanh(outputs))[..., 0]
        noise = self._n_step.select_ends(prepared, transitions.end)
        next_action = tf.clip_by_value(tf.tanh(next_outputs) + noise, -1.0, 1.0)
        # Critics overestimate where the actor looks for the largest value: the smallest one counts.
        next_q = tf.reduce_min(self._target_critic.values(next_features, next_action)[..., 0], axis=0)
        return transitions, q, actor_q, next_q

    def calc_loss(self, experience: Experience, train_info: Nest) -> LossInfo:
        """Computes the sum of the losses of critics and actor, and the priorities."""
        transitions, q, actor_q, next_q = train_info
        target = td_losses.td_target(transitions.reward, transitions.discount, next_q)
        # Their sum is the loss, because each part passes its gradient only to its own variables.
        parts = {
            "critic_loss": losses.weighted_mean(td_losses.sac_critic_loss(q, target), transitions.weight),
            "actor_loss": losses.weighted_mean(-actor_q, transitions.weight),
        }
        is_trained = tf.cast(transitions.weight > 0, tf.float32)
        extra = {**parts, "q": losses.weighted_mean(tf.reduce_mean(q, axis=0), is_trained)}
        td_error = tf.reduce_mean(tf.abs(q - target), axis=0)
        priority = td_losses.sequence_priority(td_error, transitions.weight, self._priority_eta)
        return LossInfo(tf.add_n(list(parts.values())), extra, priority)

    def update_with_gradient(
        self, loss_info: LossInfo, gradients: dict[str, list[Any]], optimizer: Any
    ) -> None:
        """Moves the critics, and the actor at every `policy_delay`-th update."""
        optimizer.apply(gradients, groups=["critic"])
        # The counter is increased after this update.
        is_due = tf.equal((self.progress.updates + 1) % self._policy_delay, 0)
        tf.cond(is_due, lambda: optimizer.apply(gradients, groups=["actor"]), lambda: None)

    def after_update(self, experience: Experience, train_info: Nest) -> None:
        for update in self._update_targets:
            update()
