# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Algorithm: the base class of what computes a loss. A `Policy` acts, a `Learner` makes the updates."""

import abc

import tensorflow as tf


class Algorithm(tf.Module, abc.ABC):
    """The hooks that say how a policy learns.

    A subclass implements `train_step` and `calc_loss`, and overrides what else it needs. It owns the
    variables that only training needs, such as critics and target networks. Every hook but
    `after_train_iter` runs inside a `tf.function` of the learner.

    Variables must exist when `__init__` returns, because a checkpoint holds them.

    Args:
        policy: the `Policy` that learns.
        name: of the module.
    """

    def __init__(self, policy, name="algorithm"):
        super().__init__(name=name)
        self.policy = policy

    @property
    def progress(self):
        """How far training is, for schedules: `Progress` of int64 variables."""
        return self.policy.progress

    def parameter_groups(self):
        """Says which variables an optimizer of its own may change.

        Returns:
            dict from name to list of variables. `Learner.optimizer` is one optimizer for all groups, or a
            dict with one for each of these names. Default: one group with all trainable variables.
        """
        return {"all": list(self.trainable_variables)}

    def preprocess(self, experience, state):
        """Prepares a batch once before its updates, for example computes advantages with the current weights.

        Args:
            experience, state: as in `train_step`.

        Returns:
            `Experience` for `train_step` and `calc_loss`; every leaf has the dimensions [T+1, B].
        """
        del state
        return experience

    @abc.abstractmethod
    def train_step(self, experience, state):
        """Computes what `calc_loss` needs, under a gradient tape.

        Args:
            experience: time-major `Experience` of [T+1, B, ...], transformed.
            state: nest of [B, ...] like `Policy.state_spec` that entered row 0; not yet zeros where row 0 is
                FIRST.

        Returns:
            a nest of the algorithm's own.
        """

    @abc.abstractmethod
    def calc_loss(self, experience, train_info):
        """Computes the loss from what `train_step` returned.

        Returns:
            `LossInfo`.
        """

    def update_with_gradient(self, loss_info, gradients, optimizer):
        """Changes the weights by one step. The loss and its gradient are finite.

        Args:
            loss_info: `LossInfo`.
            gradients: dict from the names of `parameter_groups` to lists of gradients of the loss; None where
                the loss does not depend on a variable.
            optimizer: the learner's `GroupOptimizer`; None if the learner has none.
        """
        del loss_info
        optimizer.apply(gradients)

    def after_update(self, experience, train_info):
        """Runs in the graph after each update, for example to move a target network."""

    def stops_early(self, summary):
        """Says whether the learner skips the remaining updates of a batch.

        Args:
            summary: dict of float32 scalars of the last update.

        Returns:
            bool scalar.
        """
        del summary
        return tf.constant(False)

    def after_train_iter(self, experience):
        """Runs in Python after each call of `Learner.train` that made an update.

        Args:
            experience: the `Experience` of [Q, T+1, B, ...] that it used, () if it came from a replay buffer.
        """
