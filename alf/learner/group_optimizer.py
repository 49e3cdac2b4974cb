# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""GroupOptimizer: applies optimizers to the groups of an algorithm's variables."""

import functools
from collections.abc import Collection, Mapping
from typing import Any

import tensorflow as tf

from alf.errors import ConfigError
from alf.learner.optimizers import KerasOptimizer, Optimizer, is_of_keras

_ALL = "all_groups"  # the name of the only optimizer


class GroupOptimizer(tf.Module):
    """Applies one optimizer to all groups of variables, or an optimizer to each group.

    Args:
        optimizer: as in `Learner`.
        max_grad_norm: as in `LearnerSettings`.
        groups: dict from name to list of variables, from `Algorithm.parameter_groups`.
        progress: `Progress`, by which schedules of the learning rate are evaluated.
        setting: text, the name of the setting that has `optimizer`, for errors.
        update_periods: as in `LearnerSettings`.
    """

    def __init__(
        self, optimizer, groups, progress, max_grad_norm=None, setting="optimizer", update_periods=None
    ):
        super().__init__(name="group_optimizer")
        self._max_grad_norm, self._setting = max_grad_norm, setting
        self._groups, self._progress = groups, progress
        optimizers = dict(optimizer) if isinstance(optimizer, Mapping) else {_ALL: optimizer}
        if isinstance(optimizer, Mapping) and optimizer.keys() != groups.keys():
            raise ConfigError(
                f"{setting} has the keys {sorted(optimizer)}: there must be one optimizer for each "
                f"group of the algorithm's variables, here {sorted(groups)}. (Where policy and value share "
                "their layers, there is no group 'value'.)"
            )
        # One optimizer for two groups would count two steps for each update, by which Adam corrects its
        # averages. A text makes an optimizer of its own for each group.
        given = [one for one in optimizers.values() if not isinstance(one, str)]
        if len({id(one) for one in given}) < len(given):
            raise ConfigError(
                f"{setting} holds one optimizer twice: the groups need different instances; in gin, each "
                " @Adam() makes one"
            )
        self._optimizers = {name: _check_optimizer(setting, name, one) for name, one in optimizers.items()}
        self._check_names("LearnerSettings.update_periods", update_periods or {})
        # Past `tf.Module`, which would wrap a dict.
        self.__dict__["_periods"] = dict.fromkeys(self._optimizers, 1) | (update_periods or {})
        for name, one in self._optimizers.items():
            # Now, and not at the first update, so that a checkpoint before that has the same variables.
            one.build(self._select(name, groups), progress)

    def norms(self, gradients):
        """Computes the global norm of the gradients of each group, a list of float32 scalars.

        `gradients` is a dict from the name of a group to a list with a gradient, or None, for each variable.
        """
        gradients = [[x for x in gradients[name] if x is not None] for name in self._groups]
        return [tf.linalg.global_norm(group) if group else tf.constant(0.0) for group in gradients]

    def limit(self, gradients, norms):
        """Scales the gradients of each group down to `max_grad_norm`; `norms` are their global norms.

        It returns new tensors, so control dependencies around this call hold for all that uses the tensors.
        """
        limited = {}
        for name, norm in zip(self._groups, norms, strict=True):
            change = tf.identity  # a new tensor also without a limit
            if self._max_grad_norm is not None:
                # Divided by the greater of the two, so that a norm of 0 divides nothing by zero and scales by
                # 1.
                scale = self._max_grad_norm / tf.maximum(norm, self._max_grad_norm)
                change = functools.partial(tf.multiply, scale)
            limited[name] = [None if x is None else change(x) for x in gradients[name]]
        return limited

    def apply(self, gradients: dict[str, list[Any]], groups: Collection[str] | None = None) -> None:
        """Makes one step of the optimizers, in the graph; of those with a period at every N-th update only.

        Args:
            gradients: dict as in `norms`.
            groups: names of the groups that change; None: all. The groups need optimizers of their own then,
                each of which counts its own steps.

        Raises:
            ConfigError: if `groups` names no group, or one optimizer has all groups.
        """
        names = self._optimizers.keys() if groups is None else groups
        self._check_names(f"apply(groups={list(names)})", names)
        for name in names:
            step = functools.partial(self._optimizers[name].apply, self._select(name, gradients))
            if self._periods[name] == 1:
                step()
            else:
                # The counter is increased after this update.
                is_due = tf.equal((self._progress.updates + 1) % self._periods[name], 0)
                tf.cond(is_due, step, lambda: None)

    def _check_names(self, what, names):
        """Raises ConfigError if a name of `what` names no group with an optimizer of its own."""
        if unknown := [name for name in names if name not in self._optimizers]:
            raise ConfigError(
                f"{what}: no optimizer has the group {unknown[0]!r} for itself; "
                f"{self._setting} must be a dict with an optimizer for each of {sorted(self._groups)}"
            )

    def learning_rates(self):
        """Returns a dict from "learning_rate" or "learning_rate_<group>" to float32 scalar."""
        return {
            "learning_rate" + f"_{name}" * (name != _ALL): one.learning_rate()
            for name, one in self._optimizers.items()
        }

    def _select(self, name, values):
        """Joins the lists of all groups to which the optimizer called `name` applies."""
        return [x for group in (self._groups if name == _ALL else [name]) for x in values[group]]


def _check_optimizer(setting, name, optimizer):
    """Returns an `Optimizer`, for one of Keras, too. Raises ConfigError for anything else."""
    setting += f"[{name!r}]" * (name != _ALL)
    if isinstance(optimizer, str) or is_of_keras(optimizer):
        try:
            optimizer = KerasOptimizer(optimizer)
        except ConfigError as error:
            raise ConfigError(f"{setting}: {error}") from None
    if not isinstance(optimizer, Optimizer):
        raise ConfigError(
            f"{setting} is {optimizer!r}: it must be an optimizer of ALF or Keras, such as Adam(1e-3), or "
            "the name of one of Keras; in gin, @Adam() with parentheses"
        )
    if optimizer.is_built:
        raise ConfigError(f"{setting} is the optimizer of another learner: each needs an instance of its own")
    return optimizer
