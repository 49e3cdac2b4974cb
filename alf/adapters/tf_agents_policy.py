# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""TFAgentsPolicy: a policy of ALF for the tools of TF-Agents, and its `PolicySaver`."""

import tensorflow as tf
from tf_agents.policies.policy_saver import PolicySaver
from tf_agents.policies.tf_policy import TFPolicy
from tf_agents.trajectories import policy_step, time_step

from alf.core.nest_utils import BoundedTensorSpec, name_leaves
from alf.policies import Policy
from alf.policies.agent import agent_state_spec, choose_action


class TFAgentsPolicy(TFPolicy):
    """A `Policy` as a `TFPolicy`, for TF-Agents' drivers, metrics and `PolicySaver`.

    Its state is an `AgentState`, because time steps of TF-Agents do not hold the previous action. A state of
    `()` means zeros; at the beginning of an episode the state is ignored. Actions are clipped to the bounds
    of their spec. `distribution` is not implemented.

    Args:
        policy: `Policy`; its variables are used, not copied.
        deterministic: True acts as well as it can (`Policy.predict`, for example greedily), False explores
            like a policy in training (`Policy.rollout`).
    """

    def __init__(self, policy: Policy, deterministic: bool = True) -> None:
        spec = policy.time_step_spec
        super().__init__(
            time_step.time_step_spec(_name("observation", spec.observation), _name("reward", spec.reward)),
            _name("action", policy.action_spec),
            _name("state", agent_state_spec(policy)),
            clip=False,  # `choose_action` clips
            automatic_state_reset=False,  # `choose_action` does that
            name="tf_agents_policy",
        )
        self._weights = policy.variables  # `tf.Module` finds them here, for checkpoints and SavedModels.
        # Hides the policy from `tf.Module`, or SavedModels would hold its Keras layers, too.
        self.__dict__["_policy"] = policy
        self._deterministic = deterministic

    def _action(self, time_step, policy_state, seed=None):
        if seed is not None:
            raise ValueError(f"seed is {seed!r}: use tf.random.set_seed, policies of ALF take no other seed")
        policy = self._policy
        choose = policy.predict if self._deterministic else policy.rollout
        # Tools of TF-Agents may begin without a state; the graph needs one of the right structure.
        if policy_state == ():
            policy_state = self.get_initial_state(tf.size(time_step.step_type))
        action, state = choose_action(choose, policy.action_spec, *time_step, policy_state)
        return policy_step.PolicyStep(action, state, ())

    def _distribution(self, time_step, policy_state):
        raise NotImplementedError("policies of ALF return actions, not distributions")


def make_saver(policy: Policy, deterministic: bool) -> PolicySaver:
    """Makes a `PolicySaver` that saves a `Policy` as a `TFAgentsPolicy` with this `deterministic`."""
    tf_policy = TFAgentsPolicy(policy, deterministic)
    # Without TF-Agents' names by path, which the specs have already (`_name`). `train_step` becomes a
    # function of the SavedModel: it answers with the version of the weights.
    return PolicySaver(tf_policy, use_nest_path_signatures=False, train_step=policy.progress.updates)


def _name(name, spec):
    """Names the specs of a nest by their paths, because `PolicySaver` cannot make names of all dict keys."""

    def rename(name, spec):
        if isinstance(spec, BoundedTensorSpec):
            return BoundedTensorSpec(spec.shape, spec.dtype, spec.minimum, spec.maximum, name)
        return tf.TensorSpec(spec.shape, spec.dtype, name)

    return tf.nest.pack_sequence_as(spec, [rename(*item) for item in name_leaves(name, spec).items()])
