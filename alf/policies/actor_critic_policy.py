# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""ActorCriticPolicy: a network and the distribution of the actions, as actor-critic algorithms use them."""

from typing import Any, NamedTuple

import gin
import tensorflow as tf

from alf.data_structures import FIRST, PolicyStep
from alf.errors import ConfigError
from alf.nest_utils import zeros_from_spec
from alf.networks import ActorCriticNetwork
from alf.policies.action_distributions import ActionInfo, make_action_distribution, split_mask


class ActorCriticInfo(NamedTuple):
    """What a policy thinks of an unroll.

    Fields:
        params: nest of [T+1, B, ...]; the parameters of the distribution.
        value: float32 [T+1, B].
    """

    params: Any
    value: Any


@gin.configurable(module="alf.policies")
class ActorCriticPolicy(tf.Module):
    """A network and the distribution of the actions.

    Args:
        observation_spec, action_spec: nests of unbatched tensor specs.
        network_ctor: callable (observation_spec, num_outputs) -> network, see `alf.networks`.
        action_ctor: callable (action_spec) -> `ActionDistribution`.
        action_mask_key: which entry of the observation, then a dict, is the mask of the actions that are
            allowed; the network gets the rest, the entry alone if it is one. None: all are allowed.

    Attributes:
        actions: the `ActionDistribution`.
        state_spec: nest of unbatched tensor specs of the network's recurrent state.
        info_spec: `ActionInfo` of unbatched tensor specs, of `PolicyStep.info`.
    """

    def __init__(
        self,
        observation_spec,
        action_spec,
        network_ctor=ActorCriticNetwork,
        action_ctor=make_action_distribution,
        action_mask_key=None,
    ):
        super().__init__(name="actor_critic_policy")
        self.actions = action_ctor(action_spec)
        self._action_mask_key = action_mask_key
        seen_spec, mask_spec = split_mask(observation_spec, action_mask_key)
        if mask_spec is not None:  # what does not fit is an error here rather than in an actor thread
            self.actions.params(tf.zeros((self.actions.num_outputs,)), zeros_from_spec(mask_spec))
        self._network = network_ctor(seen_spec, self.actions.num_outputs)
        self.state_spec = self._network.state_spec
        self.info_spec = ActionInfo(self.actions.params_spec, self.actions.raw_spec)

    def parameter_groups(self, optimizer):
        """See `Algorithm.parameter_groups`; `optimizer` is what `separate_optimizers` returned."""
        if not isinstance(optimizer, dict):
            return [(optimizer, self.trainable_variables)]
        of_value = self._network.value_variables
        ids = {id(variable) for variable in of_value}
        others = [variable for variable in self.trainable_variables if id(variable) not in ids]
        return [(optimizer["policy"], others), (optimizer["value"], of_value)]

    def separate_optimizers(self, optimizer, value_optimizer):
        """The optimizers for `Algorithm`: `optimizer` alone, or a dict if `value_optimizer` is not None.

        Raises:
            ConfigError: if no variable belongs to the value alone.
        """
        if value_optimizer is None:
            return optimizer
        if not self._network.value_variables:
            raise ConfigError(
                "value_optimizer is set, but policy and value share their layers: set share_layers = False"
            )
        return {"policy": optimizer, "value": value_optimizer}

    def sample(self, time_step, state):
        """Draws actions for a `TimeStep` of [B, ...]; `info` is an `ActionInfo`."""
        return self._act(time_step, state, self.actions.sample)

    def mode(self, time_step, state):
        """Takes the most likely actions."""
        return self._act(time_step, state, self.actions.mode)

    def unroll(self, experience, state):
        """Goes through an `Experience` of [T+1, B, ...], `state` [B, ...] having entered row 0.

        Returns:
            `ActorCriticInfo`.
        """
        observation, mask = split_mask(experience.observation, self._action_mask_key)
        is_first = tf.equal(experience.step_type, FIRST)
        outputs, value, _ = self._network(observation, state, is_first)
        return ActorCriticInfo(self.actions.params(outputs, mask), value)

    def _act(self, time_step, state, draw):
        observation, mask = split_mask(time_step.observation, self._action_mask_key)
        outputs, state = self._network.policy(observation, state)
        params = self.actions.params(outputs, mask)
        raw = draw(params)
        return PolicyStep(self.actions.action(raw), state, ActionInfo(params, raw))
