# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The interface of policies. Actor threads, evaluators and exporters get a policy, never an algorithm."""

import abc
import functools
from typing import Any

import tensorflow as tf

from alf.core.annotations import Array, NestedSpec
from alf.core.devices import HOST, count_flops
from alf.core.nest_utils import add_leading_dims, find_mismatch, zero_where, zeros_from_spec
from alf.data_structures import PolicyState, PolicyStep, TimeStep
from alf.errors import ConfigError
from alf.networks.copying import CopyableModule
from alf.policies.data_transformers import Pipeline
from alf.schedules import Progress

ONLY_POLICY = "policy"  # the name of the policy where there is one
_NO_STATE = PolicyState()


class Policy(CopyableModule, abc.ABC):
    """Base class of policies, which choose actions.

    A policy owns everything that acting needs: the data transformer, the acting networks, the action
    distribution and the specs of its state. Critics, target networks and optimizers belong to the algorithm
    and the learner.

    Subclasses make their networks in `__init__` and implement `rollout_step`. `copy.deepcopy` must be able to
    copy every attribute, so no attribute may be a function that has captured a variable.

    Args:
        observation_spec: nest of unbatched tensor specs of the observations after the data transformer.
        action_spec: nest of unbatched tensor specs, with bounds if there are any.
        state_spec: `PolicyState` of nests of unbatched tensor specs. Its `train` is the recurrent state; its
            `noise` is what exploration carries from step to step, such as correlated noise; () if there is
            none. Its `transformer` is (), because it follows from the data transformer.
        info_spec: nest of unbatched tensor specs of `PolicyStep.info`.
        data_transformer: `Pipeline` for the environment's time steps; None changes nothing. It must
            return observations like `observation_spec`, else `ConfigError`.
        name: text, the name of the module.

    Attributes:
        observation_spec, action_spec, info_spec, data_transformer: the arguments.
        progress: `Progress` of int64 variables, in which the learner counts. `progress.updates` is the
            version of the weights.
        action_mask_key: text, the key of the action mask in the observation; None if the policy heeds none.
        num_envs: int, the environments of all processes in which it acts; None before `use_envs`.
        first_env: int; `TimeStep.env_id` counts from this environment on, for example in a collector.
    """

    action_mask_key: str | None = None
    num_envs: int | None = None
    first_env = 0

    def __init__(
        self,
        observation_spec: NestedSpec,
        action_spec: NestedSpec,
        state_spec: PolicyState = _NO_STATE,
        info_spec: NestedSpec = (),
        data_transformer: Pipeline | None = None,
        name: str = "policy",
    ) -> None:
        super().__init__(name=name)
        self.observation_spec = observation_spec
        self.action_spec = action_spec
        # The two fields, because TensorFlow wraps a tuple of dicts that is an attribute of a module.
        self._train_spec, self._noise_spec = state_spec.train, state_spec.noise
        self.info_spec = info_spec
        self.data_transformer = data_transformer or Pipeline(observation_spec, tf.TensorSpec((), tf.float32))
        # Here, while the objects are made: later it would be a wrong shape somewhere inside of a network.
        mismatch = find_mismatch(self.data_transformer.observation_spec, observation_spec)
        if mismatch:
            raise ConfigError(f"data_transformer does not return what observation_spec says: {mismatch}")
        # The learner counts in these variables. They are part of the policy, so that copies and checkpoints
        # have the version of their weights, and schedules in the policy see the progress.
        with tf.device(HOST):
            counts = [tf.Variable(0, dtype=tf.int64, trainable=False, name=x) for x in Progress._fields]
        self.progress = Progress(*counts)
        # Schedules of the transformers read the same counters, also in a copy of the policy: it has its own.
        self.data_transformer.use_progress(self.progress)

    @property
    def policies(self) -> dict[str, "Policy"]:
        """A dict of this policy, "policy": a `PolicyGroup` has several."""
        return {ONLY_POLICY: self}

    @property
    def time_step_spec(self) -> TimeStep:
        """`TimeStep` of unbatched tensor specs of the environment, before the data transformer."""
        # Before the data transformer, because experience waits in queues and buffers as the environment made
        # it. The learner transforms it once more, with the statistics and schedules of that moment.
        transformer, index = self.data_transformer, tf.TensorSpec((), tf.int32)
        reward, discount = transformer.input_reward_spec, tf.TensorSpec((), tf.float32)
        return TimeStep(
            index, reward, discount, transformer.input_observation_spec, self.action_spec, env_id=index
        )

    def use_envs(self, first_env: int, num_envs: int) -> None:
        """Says in which environments it acts, before graphs are traced. Only the first call counts.

        Args:
            first_env, num_envs: as the attributes.
        """
        if self.num_envs is None:
            self.first_env, self.num_envs = first_env, num_envs

    def check_envs(self) -> None:  # noqa: B027
        """Raises ConfigError if it cannot explore in `num_envs` environments. Default: it can."""

    @property
    def state_spec(self) -> PolicyState:
        """`PolicyState` of nests of unbatched tensor specs, with the state of the data transformer."""
        return PolicyState(self.data_transformer.state_spec, self._train_spec, self._noise_spec)

    @property
    def policy_step_spec(self) -> PolicyStep:
        """`PolicyStep` of unbatched tensor specs that `rollout` returns; `predict` returns no info."""
        return PolicyStep(self.action_spec, self.state_spec, self.info_spec)

    @property
    def info_keys(self) -> tuple[str, ...]:
        """The keys of the environment's info that the data transformer needs, a tuple of texts."""
        return self.data_transformer.info_keys

    def version_spec(self, batch_size: int) -> tf.TensorSpec:
        """Returns the tensor spec of the result of `read_version` for `batch_size` rows."""
        # A scalar, because all rows are answered with the same weights; a `PolicyGroup` has a version for
        # each row.
        return tf.TensorSpec((), tf.int64)

    def read_version(self, time_step: TimeStep) -> Array:
        """Reads the version of the weights, int64 scalar: the number of updates so far.

        `time_step`, of [B, ...], is for policies whose rows have different weights (`PolicyGroup`).
        """
        # Read before acting. The learner may update the weights meanwhile, so the weights that act can be
        # newer than this version, never older.
        return self.progress.updates.read_value()

    def rollout(self, time_step: TimeStep, state: PolicyState) -> PolicyStep:
        """Acts to collect experience: transforms the time step and calls `rollout_step`.

        Args:
            time_step: `TimeStep` of [B, ...] from the environment.
            state: `PolicyState` of [B, ...]; rows where `time_step` is FIRST count as zeros.

        Returns:
            `PolicyStep` of [B, ...] like `policy_step_spec`.

        Raises:
            ConfigError: while tracing, if `rollout_step` does not return what the specs say.
        """
        return self._act(self.rollout_step, time_step, state, with_info=True)

    def predict(self, time_step: TimeStep, state: PolicyState) -> PolicyStep:
        """Acts as well as it can: like `rollout`, but with `predict_step`, and its info is ()."""
        return self._act(self.predict_step, time_step, state, with_info=False)  # only training needs it

    def _act(self, step, time_step, state, with_info):
        # The driver hands on the state across the end of an episode. Here is the only place that resets it.
        state = zero_where(time_step.is_first(), state)
        transformed, transformer_state = self.data_transformer.step(time_step, state.transformer)
        policy_step = step(transformed, state._replace(transformer=()))
        # The hook knows nothing of the transformer's state. Whatever else it returns, the check below
        # reports.
        if isinstance(policy_step, PolicyStep) and isinstance(policy_step.state, PolicyState):
            state = policy_step.state._replace(transformer=transformer_state)
            policy_step = policy_step._replace(state=state, info=policy_step.info if with_info else ())
        # This runs while tracing, so it costs nothing later. Queues would report a mismatch without a name.
        spec = PolicyStep(self.action_spec, self.state_spec, self.info_spec if with_info else ())
        spec = add_leading_dims(spec, time_step.step_type.shape[0])
        mismatch = find_mismatch(policy_step, spec)
        if mismatch:
            raise ConfigError(f"{step.__name__} does not return what the policy's specs say: {mismatch}")
        return policy_step

    @abc.abstractmethod
    def rollout_step(self, time_step: TimeStep, state: PolicyState) -> PolicyStep:
        """Acts to collect experience.

        It runs inside a `tf.function`, in actor threads, while the learner trains.

        Args:
            time_step: `TimeStep` of [B, ...], transformed.
            state: `PolicyState` of [B, ...] like `state_spec`, whose `transformer` is (); zeros in the rows
                where `time_step` is FIRST.

        Returns:
            `PolicyStep` of [B, ...]: action and info like `action_spec` and `info_spec`, and the next state,
            such as `state._replace(train=...)`. A policy without a state may leave it out.
        """

    def predict_step(self, time_step: TimeStep, state: PolicyState) -> PolicyStep:
        """Acts as well as it can, for example greedily. The default calls `rollout_step`.

        Arguments and result are the same as for `rollout_step`. Parts of the state that only exploration or
        training needs may be returned as they are.
        """
        return self.rollout_step(time_step, state)


class GreedyPolicy(CopyableModule):
    """Stands in a driver for a policy, whose `predict` it calls: it acts as well as it can.

    Args:
        policy: `Policy` or `PolicyGroup`.
    """

    def __init__(self, policy: Any) -> None:
        super().__init__(name="greedy_policy")
        if not isinstance(policy, CopyableModule):
            raise ConfigError(f"policy is {policy!r}: it must be a Policy or a PolicyGroup")
        self._policy = policy
        self.action_spec, self.info_spec = policy.action_spec, ()

    @property
    def policies(self) -> dict[str, Policy]:
        return self._policy.policies

    @property
    def spaces(self) -> Any:
        return getattr(self._policy, "spaces", None)

    @property
    def progress(self) -> Progress:
        return self._policy.progress

    @property
    def time_step_spec(self) -> TimeStep:
        return self._policy.time_step_spec

    @property
    def policy_step_spec(self) -> PolicyStep:
        return self._policy.policy_step_spec._replace(info=())

    @property
    def info_keys(self) -> tuple[str, ...]:
        return self._policy.info_keys

    def version_spec(self, batch_size: int) -> tf.TensorSpec:
        return self._policy.version_spec(batch_size)

    def read_version(self, time_step: TimeStep) -> Array:
        return self._policy.read_version(time_step)

    def rollout(self, time_step: TimeStep, state: PolicyState) -> PolicyStep:
        return self._policy.predict(time_step, state)


def count_row_flops(policy: Any) -> int:
    """Counts the floating point operations of `rollout` for one row.

    Args:
        policy: `Policy`; of a `PolicyGroup` the policy with the most operations counts.
    """

    def act(one):
        one.rollout(zeros_from_spec(one.time_step_spec, 1), zeros_from_spec(one.state_spec, 1))

    return max(count_flops(functools.partial(act, one)) for one in policy.policies.values())
