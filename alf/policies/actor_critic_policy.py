# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""ActorCriticPolicy: the policy of actor-critic algorithms."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from alf.config.settings import configurable
from alf.core.annotations import Nest, NestedSpec
from alf.data_structures import FIRST, Experience, PolicyState, PolicyStep, TimeStep
from alf.networks import ActorCriticNetwork
from alf.networks.heads import check_network
from alf.policies.action_distributions import (
    ActionInfo,
    make_action_distribution,
    split_mask,
    split_mask_spec,
)
from alf.policies.data_transformers import Pipeline
from alf.policies.policy import Policy


class ActorCriticInfo(NamedTuple):
    """The network's outputs for an unroll."""

    params: Any  # nest of [T+1, B, ...]: parameters of the action distributions
    value: Any  # float32 [T+1, B]


@configurable("alf.policies")
class ActorCriticPolicy(Policy):
    """Draws actions from a distribution. One network computes its parameters and the value.

    Args:
        observation_spec: nest of unbatched tensor specs of the observations after the data transformer.
        action_spec: nest of unbatched tensor specs of the actions, with bounds if there are any.
        network: callable (observation_spec, num_outputs) -> network like `ActorCriticNetwork`.
        action_distribution: callable (action_spec) -> `ActionDistribution`.
        action_mask_key: text, the key of the action mask in the observation, which must be a dict. The
            network gets the other entries; if only one is left, it gets that entry itself. Only the
            mask of a LAST step may allow nothing, else drivers and evaluations raise EnvError; where it does,
            it counts as one that allows everything. None means that all actions are allowed.
        data_transformer: `Pipeline`, or None.

    Attributes:
        actions: the `ActionDistribution`.
    """

    def __init__(
        self,
        observation_spec: NestedSpec,
        action_spec: NestedSpec,
        network: Callable[..., Any] = ActorCriticNetwork,
        action_distribution: Callable[..., Any] = make_action_distribution,
        action_mask_key: str | None = None,
        data_transformer: Pipeline | None = None,
    ) -> None:
        actions = action_distribution(action_spec)
        network_spec = split_mask_spec(
            "ActorCriticPolicy", observation_spec, action_mask_key, actions, data_transformer
        )
        made = network(network_spec, actions.num_outputs)
        check_network("ActorCriticPolicy.network", made, like=ActorCriticNetwork)
        info_spec = ActionInfo(actions.params_spec, actions.raw_spec)
        super().__init__(
            observation_spec,
            action_spec,
            PolicyState(train=made.state_spec, noise=actions.noise_spec),
            info_spec,
            data_transformer,
        )
        self.actions = actions
        self._network = made
        self.action_mask_key = action_mask_key

    @property
    def value_variables(self) -> Sequence[tf.Variable]:
        """The trainable variables that only the value depends on; () if all layers are shared."""
        return self._network.value_variables

    def rollout_step(self, time_step: TimeStep, state: PolicyState) -> PolicyStep:
        params, state = self._params(time_step, state)
        raw, noise = self.actions.explore(params, state.noise, tf.equal(time_step.step_type, FIRST))
        return self._make_step(params, raw, state._replace(noise=noise))

    def predict_step(self, time_step: TimeStep, state: PolicyState) -> PolicyStep:
        params, state = self._params(time_step, state)
        return self._make_step(params, self.actions.mode(params), state)

    def _params(self, time_step, state):
        observation, mask = split_mask(time_step.observation, self.action_mask_key)
        outputs, train = self._network.policy(observation, state.train)
        return self.actions.params(outputs, mask), state._replace(train=train)

    def _make_step(self, params, raw, state):
        # The parameters go into the experience, and not only log p of the action: losses need the whole
        # distribution that acted, for example for PPO's KL divergence.
        return PolicyStep(self.actions.action(raw), state, ActionInfo(params, raw))

    def unroll(self, experience: Experience, training: bool = True) -> ActorCriticInfo:
        """Computes the outputs of the network for an unroll.

        Args:
            experience: `Experience` of [T+1, B, ...], transformed; `state.train` is the recurrent state at
                row 0.
            training: whether layers do as they do in an update: dropout, statistics of batches.

        Returns:
            `ActorCriticInfo`.
        """
        observation, mask = split_mask(experience.observation, self.action_mask_key)
        # All T + 1 rows: the value of row T bootstraps.
        is_first = tf.equal(experience.step_type, FIRST)
        outputs, value, _ = self._network(observation, experience.state.train, is_first, training)
        return ActorCriticInfo(self.actions.params(outputs, mask), value)

    def final_state(self, experience: Experience) -> Nest:
        """Computes the recurrent state after the last row, without gradients or training behavior of layers.

        The argument is the same as for `unroll`. Returns a nest of [B, ...] like `state_spec.train`.
        """
        observation, _ = split_mask(experience.observation, self.action_mask_key)
        # Not training: layers that keep statistics would count these rows twice, here and in the update.
        is_first = tf.equal(experience.step_type, FIRST)
        return self._network(observation, experience.state.train, is_first, training=False)[2]
