# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The interface of algorithms, which compute the loss. A `Policy` acts, a `Learner` makes the updates."""

import abc
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from alf.config.registry import find_gin_name
from alf.core.annotations import Array, Nest
from alf.core.tf_private import make_untrainable
from alf.data_structures import Experience, LossInfo
from alf.errors import ConfigError
from alf.policies.actor_critic_policy import ActorCriticPolicy
from alf.policies.policy import Policy
from alf.schedules import Progress


class Algorithm(tf.Module, abc.ABC):
    """Base class of algorithms: the hooks with which a policy learns.

    Subclasses implement `train_step` and `calc_loss` and override other hooks if they need them. They own the
    variables that only training needs, such as critics and target networks, which must exist when `__init__`
    returns, because checkpoints hold them. All hooks except `after_train_iter` run inside a `tf.function` of
    the learner.

    Args:
        policy: the `Policy` that learns.
        name: text, the name of the module.

    Attributes:
        policy: the argument.
        uses_env_info: class attribute. True if training needs `Experience.env_info`; queues and replay
            buffers then hold it.
        uses_vector_reward: class attribute. True if the hooks need vector rewards, `Experience.reward` of
            [T+1, B, R]. Otherwise they get the sum of the R components, weighted with `reward_weights`.
        policy_type: class attribute, the class of the policies that the algorithm can train.
        needs_own_actions: class attribute. True if the policy itself must have chosen the actions, for
            example for importance ratios. `Experiment.behavior` is then refused.
    """

    uses_env_info = False
    uses_vector_reward = False
    policy_type: Any = Policy
    needs_own_actions = False

    def __init__(self, policy: Policy, name: str = "algorithm") -> None:
        if not isinstance(policy, self.policy_type):
            needed, gin_name = self.policy_type.__name__, find_gin_name(self.policy_type)
            hint = f": write @{gin_name} in Experiment.policy" if gin_name else ""
            raise ConfigError(
                f"{type(self).__name__} needs the policy {needed}, not {type(policy).__name__}{hint}"
            )
        super().__init__(name=name)
        self.policy = policy

    @property
    def progress(self) -> Progress:
        """The progress of training for schedules, `Progress` of int64 variables."""
        return self.policy.progress

    @property
    def needs_env_info(self) -> bool:
        """Whether the algorithm or the policy's data transformer needs `Experience.env_info`."""
        return self.uses_env_info or bool(self.policy.data_transformer.info_keys)

    @property
    def has_multidim_reward(self) -> bool:
        """Whether the environment's reward is a vector, whose components have weights."""
        return self.policy.data_transformer.reward_weighting is not None

    @property
    def reward_weights(self) -> Array | None:
        """The current weights of the components of a vector reward, float32 [R]; None for scalar rewards."""
        return self.policy.data_transformer.reward_weighting.weights if self.has_multidim_reward else None

    def set_reward_weights(self, weights: Sequence[float]) -> None:
        """Changes the weights of the components of a vector reward. Call it between updates.

        Checkpoints hold the weights. Their initial values are `RewardWeighting.weights`.

        Args:
            weights: R numbers.

        Raises:
            ConfigError: if these are not R finite numbers, or the reward is a scalar.
        """
        if not self.has_multidim_reward:
            raise ConfigError("set_reward_weights: the reward of the environments is not a vector")
        self.policy.data_transformer.reward_weighting.set_weights(weights)

    def check_sequence_length(self, length: int) -> None:  # noqa: B027
        """Raises ConfigError if replayed sequences of `length` steps are too short. Default: none is."""

    def parameter_groups(self) -> dict[str, list[tf.Variable]]:
        """Groups the trainable variables for optimizers. Default: one group "all".

        The learner's `optimizer` is one optimizer for all groups, or a dict with one for each name.

        Returns:
            dict from name to list of variables.
        """
        return {"all": list(self.trainable_variables)}

    def preprocess(self, experience: Experience) -> Nest:
        """Prepares a batch, once before all updates on it. Advantages, for example, are computed here.

        Args:
            experience: time-major `Experience` of [T+1, B, ...], transformed. `state.train`, a nest of
                [B, ...] like `Policy.state_spec.train`, is the recurrent state at row 0, before it is set to
                zeros where row 0 is FIRST.

        Returns:
            a nest of [T+1, B, ...] for `train_step`, which is split into minibatches like the experience. Its
            form is up to the algorithm; () is nothing.
        """
        return ()

    @abc.abstractmethod
    def train_step(self, experience: Experience, prepared: Nest) -> Nest:
        """Evaluates the networks under a gradient tape.

        Args:
            experience: as in `preprocess`; all columns, or those of a minibatch.
            prepared: the same columns of the result of `preprocess`.

        Returns:
            a nest for `calc_loss`; its form is up to the algorithm.
        """

    @abc.abstractmethod
    def calc_loss(self, experience: Experience, train_info: Nest) -> LossInfo:
        """Computes the `LossInfo`, under the gradient tape.

        Args:
            experience: the argument of `train_step`.
            train_info: the result of `train_step`.
        """

    def update_with_gradient(
        self, loss_info: LossInfo, gradients: dict[str, list[Any]], optimizer: Any
    ) -> None:
        """Updates the weights. The learner has checked that the loss and its gradient are finite.

        Args:
            loss_info: `LossInfo`.
            gradients: dict from the names of `parameter_groups` to lists of gradients, with None for
                variables on which the loss does not depend.
            optimizer: the learner's `GroupOptimizer`, or None. It changes only some groups by
                `optimizer.apply(gradients, groups=["critic"])`.
        """
        optimizer.apply(gradients)

    def after_update(self, experience: Experience, train_info: Nest) -> None:
        """Runs in the graph after each update, for example to move a target network.

        Args:
            experience: `Experience` of [T+1, B, ...], the argument of `train_step`.
            train_info: the result of `train_step`; with `Experiment.strategy` a tuple with one result
                for each replica.
        """

    def summarize_rollout(self, experience: Experience) -> dict[str, Array]:
        """Computes scalars of fresh experience to show. Default: none.

        It runs in each `Learner.observe`. The next `Learner.train` that makes an update returns its last
        result, so TensorBoard shows it under `train/`, and `Callback.on_train_iter` gets it.

        Args:
            experience: `Experience` of [Q, T+1, B, ...] from the environments, not transformed, with the
                policy's `info`.

        Returns:
            dict from name to scalar.
        """
        return {}

    def summarize_train(
        self, experience: Experience, train_info: Nest, loss_info: LossInfo
    ) -> dict[str, Array]:
        """Computes scalars of an update to show. Default: none.

        `Learner.train` averages them over its updates and returns them with `LossInfo.extra`.

        Args:
            experience: `Experience` of [T+1, B, ...], the argument of `train_step`.
            train_info: the result of `train_step`, before the weights change; with `Experiment.strategy`
                a tuple with one result for each replica.
            loss_info: the result of `calc_loss`.

        Returns:
            dict from name to scalar.
        """
        return {}

    def first_priority(self, experience: Experience, prepared: Nest) -> Array:
        """Computes the priorities of new sequences, if `ReplayLearner.initial_priorities` is "learner".

        Default: what the loss says with the present weights. B is not known while this is traced.

        Args:
            experience, prepared: as in `train_step`.

        Returns:
            float32 [B].
        """
        return self.calc_loss(experience, self.train_step(experience, prepared)).priority

    def priority_of_actor(self, experience: Experience) -> Array:
        """Computes the priorities of new sequences, if `ReplayLearner.initial_priorities` is "actor".

        They follow from the `Experience.info` of the policy that acted, without an evaluation of a network.

        Args:
            experience: as in `train_step`.

        Returns:
            float32 [B].

        Raises:
            ConfigError: by default.
        """
        raise ConfigError(
            f"ReplayLearner.initial_priorities is 'actor': {type(self).__name__} computes none from what "
            "actors say, so set 'learner' or 'largest'"
        )

    def stops_early(self, summary: dict[str, Any]) -> Array:
        """Returns whether the learner skips the remaining updates of a batch, bool scalar.

        `summary` is the dict of float32 scalars of the last update.
        """
        return tf.constant(False)

    def after_train_iter(self, experience: Experience) -> None:
        """Runs in Python after each call of `Learner.train` that made an update.

        Args:
            experience: `Experience` of [Q, T+1, B, ...] from the environments, not transformed, with the
                policy's `info`: the batch of the call, or, if the updates were made from a replay buffer, the
                one that was observed last. () while nothing is collected.
        """


def group_actor_critic_variables(policy: ActorCriticPolicy) -> dict[str, list[tf.Variable]]:
    """Groups the trainable variables of an `ActorCriticPolicy` for `Algorithm.parameter_groups`.

    The group "value" holds the variables that only the value depends on, "policy" all others. If policy and
    value share their layers, there is no group "value".
    """
    value_variables = list(policy.value_variables)
    # By id: variables compare by value, elementwise.
    value_ids = {id(variable) for variable in value_variables}
    others = [variable for variable in policy.trainable_variables if id(variable) not in value_ids]
    return {"policy": others, "value": value_variables} if value_variables else {"policy": others}


def check_vtrace_thresholds(
    owner: str, clip_rho_threshold: float, clip_c_threshold: float
) -> dict[str, float]:
    """Checks the thresholds of V-trace of the class `owner`. Returns them as a dict.

    Raises:
        ConfigError: if c bar is larger than rho bar (arXiv 1802.01561, section 4.1).
    """
    if clip_c_threshold > clip_rho_threshold:
        raise ConfigError(
            f"{owner}.clip_c_threshold is {clip_c_threshold}: it must be at most {owner}.clip_rho_threshold, "
            f"which is {clip_rho_threshold}"
        )
    return dict(clip_rho_threshold=clip_rho_threshold, clip_c_threshold=clip_c_threshold)


class TargetUpdater(tf.Module):
    """Moves the variables of a target network: `target <- tau * source + (1 - tau) * target`.

    The constructor copies the source's variables to the target's and makes the target's not trainable.

    Args:
        source, target: modules with variables of the same number and shapes, else ValueError.
        tau: number in (0, 1]; 1 copies.
        period: int, the number of calls between two moves.
    """

    def __init__(self, source: tf.Module, target: tf.Module, tau: float = 1.0, period: int = 1) -> None:
        super().__init__(name="target_updater")
        self._tau = tau
        self._period = period
        self._pairs = list(zip(source.variables, target.variables, strict=True))
        # A variable, so that checkpoints hold it: a run that goes on moves the target after the same updates.
        self._calls = tf.Variable(0, dtype=tf.int64, trainable=False, name="calls")
        self.copy()
        for _, moved in self._pairs:
            make_untrainable(moved)

    def copy(self) -> None:
        """Copies all variables of the source to the target."""
        for learned, moved in self._pairs:
            moved.assign(learned)

    def __call__(self) -> None:
        """Counts one update and moves the target if the period is over, in the graph."""
        # The usual period of soft updates, which needs neither the counter nor a condition in the graph.
        if self._period == 1:
            self._move()
        else:
            is_due = tf.equal(self._calls.assign_add(1) % self._period, 0)
            tf.cond(is_due, self._move, lambda: None)

    def _move(self):
        for learned, moved in self._pairs:
            value = learned.read_value()
            # Integers, such as the counters of a policy, have nothing in between: they are copied.
            if self._tau < 1 and moved.dtype.is_floating:
                value = self._tau * value + (1.0 - self._tau) * moved
            moved.assign(value)
