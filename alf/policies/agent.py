# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Agent: calls a policy from Python with NumPy arrays, without a driver."""

import functools
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

# Not in TensorFlow's public API; TensorFlow is pinned in setup.py.
from alf.core.annotations import Array, Nest
from alf.core.devices import device_of
from alf.core.nest_utils import (
    BoundedTensorSpec,
    add_leading_dims,
    describe_specs,
    find_mismatch,
    flatten_like,
    zero_where,
    zeros_from_spec,
)
from alf.core.tf_private import original_errors
from alf.core.tf_runtime import single_threaded
from alf.data_structures import FIRST, MID, TimeStep
from alf.errors import ConfigError
from alf.policies.policy import Policy
from alf.workers.arrays import MisfitError, fit


class AgentState(NamedTuple):
    """The state of each environment between two of its steps: nests of tensors [B, ...]."""

    policy: Any  # `PolicyState`
    prev_action: Any  # as the policy chose it, before it was clipped


def agent_state_spec(policy):
    """Returns an `AgentState` of unbatched tensor specs."""
    return AgentState(policy.policy_step_spec.state, policy.action_spec)


def choose_action(choose, action_spec, step_type, reward, discount, observation, state):
    """Chooses actions, in a graph.

    Args:
        choose: `Policy.predict` or `Policy.rollout`.
        action_spec: nest of unbatched tensor specs, the policy's.
        step_type, reward, discount, observation: the fields of a `TimeStep` of [B, ...].
        state: `AgentState` of [B, ...]; rows where `step_type` is FIRST count as zeros.

    Returns:
        the action, clipped to the bounds of its spec, and the next `AgentState`.
    """
    # `choose` resets the policy's own state; the previous action is the agent's.
    prev_action = zero_where(tf.equal(step_type, FIRST), state.prev_action)
    # The rows of this call: no driver has given them other ids.
    env_id = tf.range(tf.size(step_type))
    time_step = TimeStep(step_type, reward, discount, observation, prev_action, env_id)
    policy_step = choose(time_step, state.policy)
    # The environment gets the clipped action. The next observation contains the action as it was chosen, like
    # in training, where drivers do not clip.
    action = tf.nest.map_structure(_clip, policy_step.action, action_spec)
    return action, AgentState(policy_step.state, policy_step.action)


class Agent:
    """A trained policy that chooses actions for NumPy observations.

    Args:
        policy: `Policy` or `PolicyGroup`.

    Attributes:
        policy: the same object.
        observation_spec, action_spec: nests of unbatched tensor specs, with bounds if there are any.
    """

    def __init__(self, policy: Policy) -> None:
        if not hasattr(policy, "policies"):
            raise ConfigError(f"policy is {policy!r}: it must be a Policy or a PolicyGroup")
        self.policy = policy
        self._device = device_of(policy)
        self.observation_spec = policy.time_step_spec.observation
        self.action_spec = policy.action_spec
        # The caller does not give the previous action, which is in the agent's state, and no ids.
        signature = add_leading_dims(policy.time_step_spec._replace(prev_action=(), env_id=()), None)[:4]
        self._state_spec = agent_state_spec(policy)
        # Traced for any batch size and with the exact dtypes, so that a call never traces again.
        specs = (*signature, add_leading_dims(self._state_spec, None))
        self._functions = {}
        for is_greedy, choose in ((True, policy.predict), (False, policy.rollout)):
            act = functools.partial(choose_action, choose, policy.action_spec)
            self._functions[is_greedy] = tf.function(act, input_signature=specs, autograph=False)

    def __repr__(self) -> str:
        specs = [describe_specs(spec) for spec in (self.observation_spec, self.action_spec)]
        return f"<Agent of {', '.join(self.policy.policies)}: observations {specs[0]}, actions {specs[1]}>"

    def predict(
        self,
        observation: Nest,
        state: AgentState | None = None,
        deterministic: bool = True,
        episode_start: Any = None,
    ) -> tuple[Nest, AgentState]:
        """Chooses actions for one observation, or for a batch of them.

        Args:
            observation: nest of arrays like `observation_spec` for one environment, or with a leading
                dimension B for a batch. Any dtype that can hold the same numbers is accepted.
            state: the state that the previous call for the same environments returned; None if all episodes
                begin.
            deterministic: True acts as well as it can (`Policy.predict`, for example greedily), False
                explores as in training (`Policy.rollout`).
            episode_start: bool or bools [B], True where an episode begins with this observation. None means
                that all episodes begin if `state` is None, else none.

        Returns:
            the action, a nest of NumPy arrays like `action_spec`, clipped to its bounds, with a leading
            dimension B for a batch; and the state for the next call. The policy sees rewards of 0.

        Raises:
            ValueError: if an argument does not fit.
        """
        observation, is_batch = self._to_batch(observation)
        batch_size = len(tf.nest.flatten(observation)[0])
        starts = np.full([batch_size], state is None)
        if episode_start is not None:
            starts = _to_starts(episode_start, batch_size)
        step_type = np.where(starts, FIRST, MID).astype(np.int32)
        reward = np.zeros([batch_size, *self.policy.time_step_spec.reward.shape], np.float32)
        # Nothing says that an episode has ended: the policy sees it when the next one begins.
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
        """Chooses actions for a time step of B environments.

        Args:
            step_type: int32 [B]; rows of `state` where it is FIRST count as zeros.
            reward: float32 [B], or [B, R], the reward that came with the observation.
            discount: float32 [B].
            observation: nest of arrays [B, ...] like `observation_spec`, with the same dtypes.
            state, deterministic: the same as for `predict`.

        Returns:
            the action, a nest of NumPy arrays [B, ...] like `action_spec`, clipped to its bounds; and the
            next state.

        Raises:
            ValueError: if the state does not fit.
        """
        if state is None:
            state = self.initial_state(len(step_type))
        # In Python, because TensorFlow's own error would name neither the state nor the number of rows.
        mismatch = find_mismatch(state, add_leading_dims(self._state_spec, len(step_type)))
        if mismatch:
            raise ValueError(
                f"the state is not one of this agent for {len(step_type)} environments: {mismatch}"
            )
        signals = step_type, np.asarray(reward, np.float32), np.asarray(discount, np.float32)
        # Such small batches gain nothing from TensorFlow's thread pools.
        with single_threaded(), tf.device(self._device), original_errors():
            action, next_state = self._functions[deterministic](*signals, observation, state)
        # The state stays a nest of tensors: nobody reads it, and it goes back into the graph.
        return tf.nest.map_structure(lambda x: x.numpy(), action), next_state

    def initial_state(self, batch_size: int) -> AgentState:
        """Returns the state for `predict` of `batch_size` environments whose episodes begin."""
        return zeros_from_spec(self._state_spec, batch_size)

    def _to_batch(self, observation):
        """Returns an observation as arrays [B, ...], and whether it was a batch."""
        specs = tf.nest.flatten(self.observation_spec)
        try:
            leaves = flatten_like(self.observation_spec, observation)
        except ValueError as error:
            raise ValueError(f"the observation does not fit the observation_spec: {error}") from None
        leaves = [np.asarray(x) for x in leaves]
        # The first leaf decides. `fit` below holds all others to the same B.
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


def _to_starts(episode_start, batch_size):
    """Returns `episode_start` as bools [B]. Numbers 0 and 1 are accepted; others raise ValueError."""
    starts = np.asarray(episode_start)
    is_flag = starts.dtype == bool or (starts.dtype.kind in "iuf" and np.isin(starts, (0, 1)).all())
    if not is_flag or starts.shape not in ((), (batch_size,)):
        raise ValueError(
            f"episode_start is {episode_start!r}: it must be a bool, or bools of the shape [{batch_size}]"
        )
    return np.broadcast_to(starts.astype(bool), [batch_size])


def _clip(action, spec):
    """Clips an action of floats to its bounds, as environments do. They refuse integers out of range."""
    if not (isinstance(spec, BoundedTensorSpec) and spec.dtype.is_floating):
        return action
    return tf.clip_by_value(action, spec.minimum, spec.maximum)
