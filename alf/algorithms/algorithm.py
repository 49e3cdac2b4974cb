# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Algorithm: the base class of what computes a loss. A `Policy` acts, a `Learner` makes the updates."""

import abc
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from alf.config.registry import find_gin_name
from alf.core.annotations import Array, Nest
from alf.data_structures import Experience, LossInfo
from alf.errors import ConfigError
from alf.policies.actor_critic_policy import ActorCriticPolicy
from alf.policies.policy import Policy
from alf.schedules import Progress


class Algorithm(tf.Module, abc.ABC):
    """The hooks that say how a policy learns.

    A subclass implements `train_step` and `calc_loss`, and overrides what else it needs. It owns the
    variables that only training needs, such as critics and target networks. They must exist when `__init__`
    returns, because a checkpoint holds them. Every hook but `after_train_iter` runs inside a `tf.function` of
    the learner.

    Args:
        policy: the `Policy` that learns.
        name: of the module.

    Attributes:
        uses_env_info: whether training needs `Experience.env_info`; a subclass may say True. Queues and
            replay buffers hold it then.
        uses_vector_reward: whether the hooks get vector rewards as they are, `Experience.reward` of
            [T+1, B, R]; a subclass may say True. Otherwise they get the sum of the R components, weighted
            with `reward_weights`.
        policy_type: class; the policy must be of this class or of a subclass.
        needs_own_actions: whether training needs that the policy itself chose the actions, as importance
            ratios do; a subclass may say True. `Experiment.behavior_ctor` is refused then.
    """

    uses_env_info = False
    uses_vector_reward = False
    policy_type: Any = Policy
    needs_own_actions = False

    def __init__(self, policy: Policy, name: str = "algorithm") -> None:
        if not isinstance(policy, self.policy_type):
            needed, gin_name = self.policy_type.__name__, find_gin_name(self.policy_type)
            hint = f": write @{gin_name} in Experiment.policy_ctor" if gin_name else ""
            raise ConfigError(
                f"{type(self).__name__} needs the policy {needed}, not {type(policy).__name__}{hint}"
            )
        super().__init__(name=name)
        self.policy = policy

    @property
    def progress(self) -> Progress:
        """How far training is, for schedules: `Progress` of int64 variables."""
        return self.policy.progress

    @property
    def needs_env_info(self) -> bool:
        """Whether `Experience.env_info` is needed: by the algorithm, or by the policy's data transformer."""
        return self.uses_env_info or bool(self.policy.data_transformer.info_keys)

    @property
    def has_multidim_reward(self) -> bool:
        """Whether the reward is a vector, whose components have weights."""
        return self.policy.data_transformer.reward_weighting is not None

    @property
    def reward_weights(self) -> Array | None:
        """The weights of the components of a vector reward now, float32 [R]; None for scalar rewards."""
        return self.policy.data_transformer.reward_weighting.weights if self.has_multidim_reward else None

    def set_reward_weights(self, weights: Sequence[float]) -> None:
        """Changes the weights of the components of a vector reward, R numbers; from Python, between updates.

        They are in the checkpoint. `RewardWeighting.weights` are the first ones.

        Raises:
            ConfigError: if there are not as many as components, or one is no number.
        """
        if not self.has_multidim_reward:
            raise ConfigError("set_reward_weights: the reward of the environments is no vector")
        self.policy.data_transformer.reward_weighting.set_weights(weights)

    def parameter_groups(self) -> dict[str, list[tf.Variable]]:
        """Returns a dict from name to list of variables. Default: one group with all trainable variables.

        `Learner.optimizer` is one optimizer for all groups, or a dict with one for each of these names.
        """
        return {"all": list(self.trainable_variables)}

    def preprocess(self, experience: Experience, state: Nest) -> Experience:
        """Prepares a batch once before its updates, for example computes advantages with the current weights.

        Arguments as in `train_step`. Returns the `Experience` for `train_step` and `calc_loss`, where every
        leaf has the dimensions [T+1, B].
        """
        return experience

    @abc.abstractmethod
    def train_step(self, experience: Experience, state: Nest) -> Nest:
        """Computes what `calc_loss` needs, a nest of the algorithm's own, under a gradient tape.

        Args:
            experience: time-major `Experience` of [T+1, B, ...], transformed.
            state: nest of [B, ...] like `Policy.state_spec` that entered row 0; not yet zeros where row 0 is
                FIRST.
        """

    @abc.abstractmethod
    def calc_loss(self, experience: Experience, train_info: Nest) -> LossInfo:
        """Computes the `LossInfo` from what `train_step` returned."""

    def update_with_gradient(
        self, loss_info: LossInfo, gradients: dict[str, list[Any]], optimizer: Any
    ) -> None:
        """Changes the weights by one step. The loss and its gradient are finite.

        Args:
            loss_info: `LossInfo`.
            gradients: dict from the names of `parameter_groups` to lists of gradients of the loss; None where
                the loss does not depend on a variable.
            optimizer: the learner's `GroupOptimizer`; None if the learner has none.
        """
        optimizer.apply(gradients)

    def after_update(self, experience: Experience, train_info: Nest) -> None:
        """Runs in the graph after each update, for example to move a target network.

        Arguments as in `summarize_train`.
        """

    def summarize_rollout(self, experience: Experience) -> dict[str, Array]:
        """Computes further scalars to show of fresh experience: a dict of scalars by name. Default: none.

        It runs for each `Learner.observe`. Its last result is a part of what the next `Learner.train` with an
        update returns, and so of TensorBoard's `train/` and of `Callback.on_train_iter`.

        `experience` is an `Experience` of [Q, T+1, B, ...] as the environments gave it, not transformed;
        `info` is what the policy answered.
        """
        return {}

    def summarize_train(
        self, experience: Experience, train_info: Nest, loss_info: LossInfo
    ) -> dict[str, Array]:
        """Computes further scalars to show of an update: a dict of scalars by name. Default: none.

        They are averaged over the updates of a `Learner.train`, which returns them beside `LossInfo.extra`.

        Args:
            experience: `Experience` of [T+1, B, ...], as in `train_step`.
            train_info, loss_info: what `train_step` and `calc_loss` returned, before the weights change. With
                `Learner.strategy`, `train_info` is a tuple of what it returned in each replica.
        """
        return {}

    def stops_early(self, summary: dict[str, Any]) -> Array:
        """Whether the learner skips the remaining updates of a batch, bool scalar.

        `summary` is the dict of float32 scalars of the last update.
        """
        return tf.constant(False)

    def after_train_iter(self, experience: Experience) -> None:
        """Runs in Python after each call of `Learner.train` that made an update.

        `experience` is the `Experience` of [Q, T+1, B, ...] that it used first, () if it came from a replay
        buffer.
        """


def group_actor_critic_variables(policy: ActorCriticPolicy) -> dict[str, list[tf.Variable]]:
    """Groups the trainable variables of an `ActorCriticPolicy` for `Algorithm.parameter_groups`.

    "value" holds the variables that only the value depends on, "policy" the others. If policy and value share
    their layers, there is no group "value".
    """
    value_variables = list(policy.value_variables)
    value_ids = {id(variable) for variable in value_variables}
    others = [variable for variable in policy.trainable_variables if id(variable) not in value_ids]
    return {"policy": others, "value": value_variables} if value_variables else {"policy": others}


def check_vtrace_thresholds(
    owner: str, clip_rho_threshold: float, clip_c_threshold: float
) -> dict[str, float]:
    """Checks the settings of that name of the class called `owner`; returns a dict of them.

    Raises ConfigError if c bar is larger than rho bar (arXiv 1802.01561, section 4.1).
    """
    if clip_c_threshold > clip_rho_threshold:
        raise ConfigError(
            f"{owner}.clip_c_threshold is {clip_c_threshold}: it must be at most {owner}.clip_rho_threshold, "
            f"which is {clip_rho_threshold}"
        )
    return dict(clip_rho_threshold=clip_rho_threshold, clip_c_threshold=clip_c_threshold)


class TargetUpdater(tf.Module):
    """Moves the variables of a target network: `target <- tau * source + (1 - tau) * target`.

    Args:
        source, target: modules with variables of the same number and shapes, else there is a ValueError. The
            constructor copies the source's variables to the target's, and makes the latter not trainable:
            `tf.Module.trainable_variables` leaves them out.
        tau: in (0, 1]; 1 copies.
        period: every so many calls the target moves.
    """

    def __init__(self, source: tf.Module, target: tf.Module, tau: float = 1.0, period: int = 1) -> None:
        super().__init__(name="target_updater")
        self._tau = tau
        self._period = period
        self._pairs = list(zip(source.variables, target.variables, strict=True))
        self._calls = tf.Variable(0, dtype=tf.int64, trainable=False, name="calls")
        self.copy()
        for _, moved in self._pairs:
            # TensorFlow has no public way to change this later. If the target were made with trainable=False,
            # a Keras layer would list it at another position than its source.
            moved._trainable = False

    def copy(self) -> None:
        """Makes the target the same as the source."""
        for learned, moved in self._pairs:
            moved.assign(learned)

    def __call__(self) -> None:
        """Counts one update, in the graph, and moves the target if the period is over."""
        if self._period == 1:
            self._move()
        else:
            is_due = tf.equal(self._calls.assign_add(1) % self._period, 0)
            tf.cond(is_due, self._move, lambda: None)

    def _move(self):
        for learned, moved in self._pairs:
            value = learned.read_value()
            if self._tau < 1 and moved.dtype.is_floating:
                value = self._tau * value + (1.0 - self._tau) * moved
            moved.assign(value)
