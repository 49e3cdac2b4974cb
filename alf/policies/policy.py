# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Policy: what acts. Actor threads, evaluators and exporters get a policy and never an algorithm."""

import abc

import tensorflow as tf

from alf.core.annotations import Array, Nest, NestedSpec
from alf.core.nest_utils import add_leading_dims, find_mismatch, zero_where
from alf.data_structures import PolicyState, PolicyStep, TimeStep
from alf.errors import ConfigError
from alf.networks.copying import CopyableModule
from alf.policies.data_transformers import Pipeline
from alf.schedules import Progress

ONLY_POLICY = "policy"  # the name of the policy where there is one


class Policy(CopyableModule, abc.ABC):
    """Chooses actions: data transformer, acting networks, action distribution and the specs of its state.

    A subclass makes its networks in `__init__` and implements `rollout_step`. It holds what acting needs:
    critics, target networks and optimizers belong to the algorithm and the learner. `copy.deepcopy` must be
    able to copy every attribute, so none may be a function that has captured a variable.

    Args:
        observation_spec: nest of unbatched tensor specs of what the data transformer returns.
        action_spec: nest of unbatched tensor specs, with bounds if there are any.
        state_spec: nest of unbatched tensor specs of the recurrent state; () if there is none.
        info_spec: nest of unbatched tensor specs of `PolicyStep.info`.
        data_transformer: `Pipeline` for the environment's time steps; None changes nothing. It must
            return observations like `observation_spec`, else `ConfigError`.
        name: of the module.
        predict_state_spec: like `state_spec`, of the recurrent state that `predict_step` gets and returns.
            None: the same. Prediction may need less, if a part of the state is for training alone.

    Attributes:
        observation_spec, action_spec, state_spec, info_spec, data_transformer: as above.
        predict_state_spec: as above, never None.
        progress: `Progress` of int64 variables; the learner counts. `updates` is the version of the weights.
    """

    def __init__(
        self,
        observation_spec: NestedSpec,
        action_spec: NestedSpec,
        state_spec: NestedSpec = (),
        info_spec: NestedSpec = (),
        data_transformer: Pipeline | None = None,
        name: str = "policy",
        predict_state_spec: NestedSpec | None = None,
    ) -> None:
        super().__init__(name=name)
        self.observation_spec = observation_spec
        self.action_spec = action_spec
        self.state_spec = state_spec
        self.predict_state_spec = state_spec if predict_state_spec is None else predict_state_spec
        self.info_spec = info_spec
        self.data_transformer = data_transformer or Pipeline(observation_spec, tf.TensorSpec((), tf.float32))
        mismatch = find_mismatch(self.data_transformer.observation_spec, observation_spec)
        if mismatch:
            raise ConfigError(f"data_transformer does not return what observation_spec says: {mismatch}")
        counts = (tf.Variable(0, dtype=tf.int64, trainable=False, name=name) for name in Progress._fields)
        self.progress = Progress(*counts)
        self.data_transformer.use_progress(self.progress)

    @property
    def policies(self) -> dict[str, "Policy"]:
        """A dict of this policy, "policy": a `PolicyGroup` has several."""
        return {ONLY_POLICY: self}

    @property
    def time_step_spec(self) -> TimeStep:
        """`TimeStep` of unbatched tensor specs: what the environment gives, before the data transformer."""
        transformer, index = self.data_transformer, tf.TensorSpec((), tf.int32)
        reward, discount = transformer.input_reward_spec, tf.TensorSpec((), tf.float32)
        return TimeStep(
            index, reward, discount, transformer.input_observation_spec, self.action_spec, env_id=index
        )

    @property
    def policy_step_spec(self) -> PolicyStep:
        """`PolicyStep` of unbatched tensor specs, whose state is a `PolicyState`: what `rollout` returns."""
        state = PolicyState(self.data_transformer.state_spec, self.state_spec)
        return PolicyStep(self.action_spec, state, self.info_spec)

    @property
    def predict_step_spec(self) -> PolicyStep:
        """As `policy_step_spec`, of what `predict` returns."""
        state = PolicyState(self.data_transformer.state_spec, self.predict_state_spec)
        return PolicyStep(self.action_spec, state)

    @property
    def info_keys(self) -> tuple[str, ...]:
        """The keys of the environment's info that the data transformer needs, a tuple of texts."""
        return self.data_transformer.info_keys

    def version_spec(self, batch_size: int) -> tf.TensorSpec:
        """Describes what `read_version` returns for so many rows."""
        return tf.TensorSpec((), tf.int64)

    def read_version(self, time_step: TimeStep) -> Array:
        """How many updates the weights have seen that answer a `TimeStep` of [B, ...], int64 scalar."""
        return self.progress.updates.read_value()

    def rollout(self, time_step: TimeStep, state: PolicyState) -> PolicyStep:
        """Acts to collect experience: `rollout_step` of the transformed time step.

        It returns a `PolicyStep` of [B, ...] like `policy_step_spec`, or raises `ConfigError` while tracing.

        Args:
            time_step: `TimeStep` of [B, ...] as the environment gave it.
            state: `PolicyState` of [B, ...]; it becomes zeros where `time_step` is FIRST.
        """
        return self._act(self.rollout_step, time_step, state, self.policy_step_spec)

    def predict(self, time_step: TimeStep, state: PolicyState) -> PolicyStep:
        """Acts as well as it can: like `rollout`, with `predict_step` and `predict_step_spec`."""
        return self._act(self.predict_step, time_step, state, self.predict_step_spec, drops_info=True)

    def _act(self, step, time_step, state, spec, drops_info=False):
        state = zero_where(time_step.is_first(), state)
        transformed, transformer_state = self.data_transformer.step(time_step, state.transformer)
        policy_step = step(transformed, state.train)
        if isinstance(policy_step, PolicyStep):
            policy_step = policy_step._replace(state=PolicyState(transformer_state, policy_step.state))
            if drops_info:  # only training needs it
                policy_step = policy_step._replace(info=())
        spec = add_leading_dims(spec, time_step.step_type.shape[0])
        mismatch = find_mismatch(policy_step, spec)
        if mismatch:
            raise ConfigError(f"{step.__name__} does not return what the policy's specs say: {mismatch}")
        return policy_step

    @abc.abstractmethod
    def rollout_step(self, time_step: TimeStep, state: Nest) -> PolicyStep:
        """Acts to collect experience. Runs inside a `tf.function`, in actor threads while the learner trains.

        Args:
            time_step: `TimeStep` of [B, ...], transformed.
            state: nest of [B, ...] like `state_spec`; zeros in the rows where `time_step` is FIRST.

        Returns:
            `PolicyStep` of [B, ...]: action, state and info like `action_spec`, `state_spec` and `info_spec`.
        """

    def predict_step(self, time_step: TimeStep, state: Nest) -> PolicyStep:
        """Acts as well as it can, for example greedily; otherwise as `rollout_step`, which is the default.

        The state is like `predict_state_spec`. A subclass must override this where that is not `state_spec`.
        """
        return self.rollout_step(time_step, state)
