# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Agent: a policy that is called from Python, with NumPy arrays, outside of a driver."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

# Not in TensorFlow's public API; TensorFlow is pinned in setup.py.
from tensorflow.python.util.nest import flatten_up_to

from alf.core.annotations import Array, Nest
from alf.core.nest_utils import (
    BoundedTensorSpec,
    add_leading_dims,
    find_mismatch,
    zero_where,
    zeros_from_spec,
)
from alf.core.tf_runtime import single_threaded
from alf.data_structures import FIRST, MID, TimeStep
from alf.errors import ConfigError
from alf.policies.policy import Policy
from alf.workers.arrays import MisfitError, fit


class AgentState(NamedTuple):
    """What an agent keeps of each environment between two of its steps: nests of tensors [B, ...]."""

    policy: Any  # `PolicyState`
    prev_action: Any  # as the policy gave it, before it was clipped


def agent_state_spec(policy, deterministic):
    """The `AgentState` of unbatched tensor specs for `Policy.predict`, or, not `deterministic`, `rollout`."""
    spec = policy.predict_step_spec if deterministic else policy.policy_step_spec
    return AgentState(spec.state, policy.action_spec)


def choose_action(choose, action_spec, step_type, reward, discount, observation, state):
    """Chooses actions in a graph, for a time step whose fields are as in `TimeStep`.

    Args:
        choose: `Policy.predict` or `Policy.rollout`.
        action_spec: of the policy.
        step_type, reward, discount, observation: of [B, ...].
        state: `AgentState` of [B, ...]; it becomes zeros where `step_type` is FIRST.

    Returns:
        the action, clipped to the bounds of its spec, and the next `AgentState`.
    """
    prev_action = zero_where(tf.equal(step_type, FIRST), state.prev_action)
    env_id = tf.range(tf.size(step_type))
    time_step = TimeStep(step_type, reward, discount, observation, prev_action, env_id)
    policy_step = choose(time_step, state.policy)
    action = tf.nest.map_structure(_clip, policy_step.action, action_spec)
    return action, AgentState(policy_step.state, policy_step.action)


class Agent:
    """Chooses actions for observations.

    Args:
        policy: `Policy`.

    Attributes:
        policy: as above.
        observation_spec, action_spec: nests of unbatched tensor specs, with bounds if there are any.
    """

    def __init__(self, policy: Policy) -> None:
        if not hasattr(policy, "policies"):
            raise ConfigError(f"policy is {policy!r}: it must be a Policy or a PolicyGroup")
        self.policy = policy
        self.observation_spec = policy.time_step_spec.observation
        self.action_spec = policy.action_spec
        signature = add_leading_dims(policy.time_step_spec._replace(prev_action=(), env_id=()), None)[:4]
        self._state_specs = {is_greedy: agent_state_spec(policy, is_greedy) for is_greedy in (True, False)}
        self._functions = {}
        for is_greedy, act in ((True, self._act_greedily), (False, self._act_as_in_training)):
            specs = (*signature, add_leading_dims(self._state_specs[is_greedy], None))
            self._functions[is_greedy] = tf.function(act, input_signature=specs, autograph=False)

    def predict(
        self,
        observation: Nest,
        state: AgentState | None = None,
        deterministic: bool = True,
        episode_start: Any = None,
    ) -> tuple[Nest, AgentState]:
        """Chooses actions for one observation, or for a batch of them.

        Args:
            observation: nest of arrays like `observation_spec`, of one environment or, with one more leading
                dimension, of B environments. Any dtype that holds the same numbers will do.
            state: what the last call returned for the same environments. None where all episodes begin. A
                state of calls with another `deterministic` may not fit, see `Policy.predict_state_spec`.
            deterministic: whether the agent acts as well as it can (`Policy.predict`, for example greedily),
                or explores as in training (`Policy.rollout`).
            episode_start: bool, or bools [B]: whether an episode begins with this observation. None: with the
                first call, the one without a state.

        Returns:
            the action, nest of NumPy arrays like `action_spec`, with a leading dimension B for a batch, and
            clipped to the bounds of the spec; and the state for the next call, which is opaque.

        Raises:
            ValueError: if an argument does not fit. The policy sees rewards of 0.
        """
        observation, is_batch = self._to_batch(observation)
        batch_size = len(tf.nest.flatten(observation)[0])
        starts = np.full([batch_size], state is None)
        if episode_start is not None:
            starts = _to_starts(episode_start, batch_size)
        step_type = np.where(starts, FIRST, MID).astype(np.int32)
        reward = np.zeros([batch_size, *self.policy.time_step_spec.reward.shape], np.float32)
        discount = np.ones([batch_size], np.float32)
        action, state = self.act(step_type, reward, discount, observation, state, deterministic)
        return action if is_batch else tf.nest.map_structure(lambda x: x[0], action), state

    def act(
        self,
        step_type: Array,
        reward: Array,
        discount: Array,
        observation: Nest,
        state: AgentState | None = None,
        deterministic: bool = True,
    ) -> tuple[Nest, AgentState]:
        """Chooses actions for a time step of B environments, whose fields are as in `TimeStep`.

        `state` and `deterministic`, and what is returned, are as in `predict`; `reward` is what came with the
        observation, and the state is zero where `step_type` is FIRST.
        """
        if state is None:
            state = self.initial_state(len(step_type), deterministic)
        mismatch = find_mismatch(state, add_leading_dims(self._state_specs[deterministic], len(step_type)))
        if mismatch:
            raise ValueError(
                f"the state is not one of this agent for {len(step_type)} environments: {mismatch}"
            )
        signals = step_type, np.asarray(reward, np.float32), np.asarray(discount, np.float32)
        with single_threaded():
            action, next_state = self._functions[deterministic](*signals, observation, state)
        return tf.nest.map_structure(lambda x: x.numpy(), action), next_state

    def initial_state(self, batch_size: int, deterministic: bool = True) -> AgentState:
        """Returns the state with which episodes begin, of `batch_size` environments; see `predict`."""
        return zeros_from_spec(self._state_specs[deterministic], batch_size)

    def _to_batch(self, observation):
        """Returns an observation as arrays [B, ...], and whether it was a batch."""
        specs = tf.nest.flatten(self.observation_spec)
        try:  # A list may be an array.
            leaves = flatten_up_to(self.observation_spec, observation, check_types=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"the observation does not fit the observation_spec: {error}") from None
        leaves = [np.asarray(x) for x in leaves]
        is_batch = leaves[0].ndim == specs[0].shape.rank + 1
        if not is_batch:
            leaves = [x[np.newaxis] for x in leaves]
        shapes = [(len(leaves[0]), *spec.shape) for spec in specs]
        dtypes = [np.dtype(spec.dtype.as_numpy_dtype) for spec in specs]
        try:
            leaves = [fit(*args, "the observation") for args in zip(leaves, shapes, dtypes, strict=True)]
        except MisfitError as error:
            raise ValueError(str(error)) from None
        return tf.nest.pack_sequence_as(self.observation_spec, leaves), is_batch

    def _act_greedily(self, *args):
        return choose_action(self.policy.predict, self.action_spec, *args)

    def _act_as_in_training(self, *args):
        return choose_action(self.policy.rollout, self.action_spec, *args)


def _to_starts(episode_start, batch_size):
    """Returns a bool, or bools [B], as an array [B]; numbers 0 and 1 will do. Else raises ValueError."""
    starts = np.asarray(episode_start)
    is_flag = starts.dtype == bool or (starts.dtype.kind in "iuf" and np.isin(starts, (0, 1)).all())
    if not is_flag or starts.shape not in ((), (batch_size,)):
        raise ValueError(
            f"episode_start is {episode_start!r}: it must be a bool, or bools of the shape [{batch_size}]"
        )
    return np.broadcast_to(starts.astype(bool), [batch_size])


def _clip(action, spec):
    """Limits an action of floats to its bounds, as environments do; they refuse integers out of range."""
    if not (isinstance(spec, BoundedTensorSpec) and spec.dtype.is_floating):
        return action
    return tf.clip_by_value(action, spec.minimum, spec.maximum)
