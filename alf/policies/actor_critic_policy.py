# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""ActorCriticPolicy: a network and the distribution of the actions, as actor-critic algorithms use them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from alf.config.settings import configurable
from alf.core.annotations import Array, Nest, NestedSpec
from alf.core.nest_utils import zeros_from_spec
from alf.data_structures import FIRST, Experience, PolicyStep, TimeStep
from alf.networks import ActorCriticNetwork
from alf.networks.heads import check_network
from alf.policies.action_distributions import ActionInfo, make_action_distribution, split_mask
from alf.policies.data_transformers import Pipeline
from alf.policies.policy import Policy


class ActorCriticInfo(NamedTuple):
    """Of an unroll: parameters of the distributions, nest of [T+1, B, ...], and value, float32 [T+1, B]."""

    params: Any
    value: Any


@configurable("alf.policies")
class ActorCriticPolicy(Policy):
    """Draws actions from a distribution whose parameters a network computes, together with the value.

    Args:
        observation_spec, action_spec, data_transformer: as in `Policy`.
        network_ctor: callable (observation_spec, num_outputs) -> network like `ActorCriticNetwork`.
        action_ctor: callable (action_spec) -> `ActionDistribution`, the attribute `actions`.
        action_mask_key: text, which entry of the observation, a dict then, is the mask of the allowed
            actions. The network gets the other entries, or the entry itself if one is left. None: all actions
            are allowed.
    """

    def __init__(
        self,
        observation_spec: NestedSpec,
        action_spec: NestedSpec,
        network_ctor: Callable[..., Any] = ActorCriticNetwork,
        action_ctor: Callable[..., Any] = make_action_distribution,
        action_mask_key: str | None = None,
        data_transformer: Pipeline | None = None,
    ) -> None:
        actions = action_ctor(action_spec)
        network_spec, mask_spec = split_mask(observation_spec, action_mask_key)
        if mask_spec is not None:  # A mask that does not fit is an error here rather than in an actor thread.
            actions.params(tf.zeros((actions.num_outputs,)), zeros_from_spec(mask_spec))
        network = network_ctor(network_spec, actions.num_outputs)
        check_network("ActorCriticPolicy.network_ctor", network, like=ActorCriticNetwork)
        info_spec = ActionInfo(actions.params_spec, actions.raw_spec)
        super().__init__(observation_spec, action_spec, network.state_spec, info_spec, data_transformer)
        self.actions = actions
        self._network = network
        self._action_mask_key = action_mask_key

    @property
    def value_variables(self) -> Sequence[tf.Variable]:
        """The trainable variables that only the value depends on; () where all layers are shared."""
        return self._network.value_variables

    def rollout_step(self, time_step: TimeStep, state: Nest) -> PolicyStep:
        return self._choose(self.actions.sample, time_step, state)

    def predict_step(self, time_step: TimeStep, state: Nest) -> PolicyStep:
        return self._choose(self.actions.mode, time_step, state)

    def _choose(self, choose, time_step, state):
        observation, mask = split_mask(time_step.observation, self._action_mask_key)
        outputs, state = self._network.policy(observation, state)
        params = self.actions.params(outputs, mask)
        raw = choose(params)
        return PolicyStep(self.actions.action(raw), state, ActionInfo(params, raw))

    def first_value(self, time_step: TimeStep) -> Array:
        """Computes the value of the observations with which episodes begin.

        `time_step` is a `TimeStep` of [B, ...] as the environment gave it, taken to be FIRST in every row.
        Returns float32 [B].
        """
        time_step = time_step._replace(step_type=tf.fill(time_step.step_type.shape, FIRST))
        state = zeros_from_spec(self.policy_step_spec.state, time_step.step_type.shape[0])
        time_step, _ = self.data_transformer.step(time_step, state.transformer)
        observation, _ = split_mask(time_step.observation, self._action_mask_key)
        return self._network.value(observation, state.train)

    def unroll(self, experience: Experience, state: Nest) -> ActorCriticInfo:
        """Computes the `ActorCriticInfo` of an `Experience` [T+1, B, ...]; `state` [B, ...] entered row 0."""
        observation, mask = split_mask(experience.observation, self._action_mask_key)
        is_first = tf.equal(experience.step_type, FIRST)
        outputs, value, _ = self._network(observation, state, is_first)
        return ActorCriticInfo(self.actions.params(outputs, mask), value)

    def final_state(self, experience: Experience, state: Nest) -> Nest:
        """Computes the recurrent state after the last row; arguments as in `unroll`. It does not train."""
        observation, _ = split_mask(experience.observation, self._action_mask_key)
        is_first = tf.equal(experience.step_type, FIRST)
        return self._network(observation, state, is_first, training=False)[2]
