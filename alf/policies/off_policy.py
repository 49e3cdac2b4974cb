# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Policies of algorithms with replay: epsilon-greedy on action values, and SAC's actor."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from alf.config.kinds import PositiveFloat
from alf.config.settings import configurable
from alf.core.annotations import Array, NestedSpec
from alf.data_structures import FIRST, PolicyState, PolicyStep, TimeStep
from alf.errors import ConfigError
from alf.networks import CriticsNetwork, PolicyNetwork, QValueNetwork
from alf.networks.heads import check_network
from alf.ops import draws, td_losses
from alf.ops.unit_box import has_unit_box
from alf.policies.action_distributions import (
    CategoricalActions,
    make_action_distribution,
    split_mask,
    split_mask_spec,
)
from alf.policies.data_transformers import Pipeline
from alf.policies.policy import Policy
from alf.schedules import ScheduledFraction, as_schedule


class ActionValues(NamedTuple):
    """What the network of an `EpsilonGreedyPolicy` says when it acts."""

    taken: Any  # float32 [B], the value of the action that was taken
    greatest: Any  # float32 [B], the greatest value of an action that is allowed


@configurable("alf", claims_name=True)
class EpsilonGreedyPolicy(Policy):
    """Takes the action with the highest value, or with probability epsilon a random one.

    With `epsilon_exponent` each of the N environments of all processes has an epsilon of its own, so that
    some follow the policy and others explore (Ape-X, arXiv 1803.00933, section 4.1):

        epsilon_i = epsilon ** (1 + epsilon_exponent * i / (N - 1)), i = 0, ..., N - 1

    Args:
        observation_spec: nest of unbatched tensor specs of the observations after the data transformer.
        action_spec: unbatched tensor spec of one integer with bounds, else `ConfigError`.
        network: callable (observation_spec, num_actions) -> network like `QValueNetwork`.
        epsilon: number or `Schedule` in [0, 1], the probability of a random action in `rollout_step`.
        epsilon_exponent: number above 0; 7 in Ape-X. None: all environments have the same epsilon.
        reports_values: whether `PolicyStep.info` is `ActionValues`, which replay buffers then hold: for
            `ReplayLearner.initial_priorities = "actor"`.
        action_mask_key: text, the key of the action mask in the observation, as in `ActorCriticPolicy`:
            greedy and random actions are allowed ones. None means that all actions are allowed.
        data_transformer: `Pipeline`, or None.

    Attributes:
        network: the network that the argument `network` made.
        actions: `CategoricalActions`.
    """

    def __init__(
        self,
        observation_spec: NestedSpec,
        action_spec: NestedSpec,
        network: Callable[..., Any] = QValueNetwork,
        epsilon: ScheduledFraction = 0.05,
        epsilon_exponent: PositiveFloat | None = None,
        reports_values: bool = False,
        action_mask_key: str | None = None,
        data_transformer: Pipeline | None = None,
    ) -> None:
        if not _is_one_integer(action_spec):
            raise ConfigError(
                f"action_spec is {action_spec}: EpsilonGreedyPolicy (DQN) needs one bounded integer; PPO, "
                "IMPALA, SAC and TD3 take floats"
            )
        actions = CategoricalActions(action_spec)
        network_spec = split_mask_spec(
            "EpsilonGreedyPolicy", observation_spec, action_mask_key, actions, data_transformer
        )
        made = network(network_spec, actions.num_outputs)
        check_network("EpsilonGreedyPolicy.network", made, like=QValueNetwork)
        # Q-learning needs only the action, so replay buffers store nothing else.
        value = tf.TensorSpec((), tf.float32)
        info_spec = ActionValues(value, value) if reports_values else ()
        state_spec = PolicyState(train=made.state_spec)
        super().__init__(observation_spec, action_spec, state_spec, info_spec, data_transformer)
        self.network = made
        self.actions = actions
        self.action_mask_key = action_mask_key
        self._epsilon, self._exponent = as_schedule(epsilon), epsilon_exponent
        self.reports_values = reports_values

    def check_envs(self) -> None:
        if self._exponent is not None and self.num_envs == 1:
            raise ConfigError(
                f"EpsilonGreedyPolicy.epsilon_exponent is {self._exponent}, but there is one environment, "
                "with one epsilon: raise Experiment.num_envs, or set epsilon_exponent to None"
            )

    def epsilon(self) -> Array:
        """Returns the current probability of a random action, float32 scalar, the mean over environments."""
        return tf.reduce_mean(self._epsilon_of(tf.range(self.num_envs or 1)))

    def _epsilon_of(self, env_id):
        """Returns the probability, float32 [...] or scalar, in the environments `env_id`, int32 [...]."""
        epsilon = self._epsilon(self.progress)
        if self._exponent is None:
            return epsilon
        # A policy may act in more environments than it was made for, as in `alf.rollout`.
        place = tf.minimum(tf.cast(env_id, tf.float32) / max(1, (self.num_envs or 1) - 1), 1.0)
        return epsilon ** (1.0 + self._exponent * place)

    def predict_step(self, time_step: TimeStep, state: PolicyState) -> PolicyStep:
        q, _, state = self._evaluate(time_step, state)
        return PolicyStep(self.actions.action(self.actions.mode(q)), state)

    def rollout_step(self, time_step: TimeStep, state: PolicyState) -> PolicyStep:
        q, mask, state = self._evaluate(time_step, state)
        # Each of the B environments explores independently.
        is_random = draws.uniform(tf.shape(q)[:1]) < self._epsilon_of(self.first_env + time_step.env_id)
        # Equal logits, here zeros, draw from all allowed actions with the same probability.
        uniform = self.actions.params(tf.zeros_like(q), mask)
        index = tf.where(is_random, self.actions.sample(uniform), self.actions.mode(q))
        step = PolicyStep(self.actions.action(index), state)
        if not self.reports_values:
            return step
        values = ActionValues(td_losses.value_of_action(q, index), td_losses.greedy_value(q))
        return step._replace(info=values)

    def _evaluate(self, time_step, state):
        """Returns the values of the actions, very low ones of those that are forbidden; mask and state."""
        observation, mask = split_mask(time_step.observation, self.action_mask_key)
        q, train = self.network.policy(observation, state.train)
        return self.actions.params(q, mask), mask, state._replace(train=train)


@configurable("alf.policies")
class SacPolicy(Policy):
    """SAC's actor: a tanh-Gaussian over one box of floats, or a categorical over one integer.

    The standard deviation is set by the arguments of `make_action_distribution`.

    Args:
        observation_spec: nest of unbatched tensor specs of the observations after the data transformer.
        action_spec: unbatched tensor spec of one integer with bounds, or of one box of floats with finite
            bounds; others are a `ConfigError`.
        network: callable (observation_spec, num_outputs) -> network like `PolicyNetwork`.
        recurrent_critic: callable (observation_spec, action_size, num_outputs) -> network like
            `CriticsNetwork`, with a recurrent layer. Replayed sequences start from the critics' recurrent
            state, so `rollout` computes it; `predict` returns it as it is. None if the critics are not
            recurrent; then `SacAlgorithm` makes them.
        action_mask_key: text, the key of the action mask in the observation, as in `ActorCriticPolicy`; only
            for an integer. None means that all actions are allowed.
        data_transformer: `Pipeline`, or None.

    Attributes:
        network: the network that the argument `network` made.
        recurrent_critic: the network that the argument `recurrent_critic` made, or None.
        actions: the `ActionDistribution`.
        critic_sizes: (action_size, num_outputs) of critics for these actions.
    """

    def __init__(
        self,
        observation_spec: NestedSpec,
        action_spec: NestedSpec,
        network: Callable[..., Any] = PolicyNetwork,
        recurrent_critic: Callable[..., CriticsNetwork] | None = None,
        action_mask_key: str | None = None,
        data_transformer: Pipeline | None = None,
    ) -> None:
        actions = _make_actions(action_spec)
        is_discrete = isinstance(actions, CategoricalActions)
        network_spec = split_mask_spec(
            "SacPolicy", observation_spec, action_mask_key, actions, data_transformer
        )
        critic_sizes = (0, actions.num_outputs) if is_discrete else (action_spec.shape.num_elements(), 1)
        made = network(network_spec, actions.num_outputs)
        check_network("SacPolicy.network", made, like=PolicyNetwork)
        critic = None
        if recurrent_critic is not None:
            # Made by the policy and not by `SacAlgorithm`: actors must have these weights to compute the
            # state.
            critic = recurrent_critic(network_spec, *critic_sizes)
            check_network("SacPolicy.recurrent_critic", critic, like=CriticsNetwork)
            if critic.state_spec == ():
                raise ConfigError("SacPolicy.recurrent_critic makes critics without a recurrent layer")
        # The states of the actor and of the critics.
        train_spec = (made.state_spec, () if critic is None else critic.state_spec)
        state_spec = PolicyState(train=train_spec, noise=actions.noise_spec)
        super().__init__(observation_spec, action_spec, state_spec, data_transformer=data_transformer)
        self.network = made
        self.actions = actions
        self.critic_sizes = critic_sizes
        self.action_mask_key = action_mask_key
        self.recurrent_critic = critic

    def predict_step(self, time_step: TimeStep, state: PolicyState) -> PolicyStep:
        params, state = self._params(time_step, state)
        return PolicyStep(self.actions.action(self.actions.mode(params)), state)

    def rollout_step(self, time_step: TimeStep, state: PolicyState) -> PolicyStep:
        params, state = self._params(time_step, state)
        raw, noise = self.actions.explore(params, state.noise, tf.equal(time_step.step_type, FIRST))
        actor_state, critic_state = state.train
        # The critics do not choose the action. Their state is computed because it goes into the replay
        # buffer.
        if self.recurrent_critic is not None:
            observation, _ = split_mask(time_step.observation, self.action_mask_key)
            critic_state = self.recurrent_critic.advance(observation, critic_state)
        state = state._replace(train=(actor_state, critic_state), noise=noise)
        return PolicyStep(self.actions.action(raw), state)

    def _params(self, time_step, state):
        actor_state, critic_state = state.train
        observation, mask = split_mask(time_step.observation, self.action_mask_key)
        outputs, actor_state = self.network.policy(observation, actor_state)
        return self.actions.params(outputs, mask), state._replace(train=(actor_state, critic_state))


def _is_one_integer(spec):
    return isinstance(spec, tf.TensorSpec) and spec.dtype.is_integer and spec.shape.rank == 0


def _make_actions(spec):
    """Makes the distribution for one integer or one box of floats."""
    if _is_one_integer(spec):
        return CategoricalActions(spec)
    if has_unit_box(spec):
        return make_action_distribution(spec, continuous="tanh_gaussian")
    needs = "one integer with bounds, or one box of floats with finite bounds, minimum <= maximum"
    raise ConfigError(f"action_spec is {spec}: SacPolicy needs {needs}")
