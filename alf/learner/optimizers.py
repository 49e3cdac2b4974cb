# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Optimizers for gin, and GroupOptimizer, which applies them to the groups of an algorithm's variables.

They are the legacy optimizers of Keras 2, because each of their updates is a single fused operation on the
CPU. The update of RMSprop is a single operation only if its momentum is above 0. Then its epsilon is inside
the square root, as in IMPALA; without momentum it is outside.
"""

import functools
from typing import Annotated, TypeAlias

import tensorflow as tf

from alf.config.kinds import AtLeast, AtMost, Fraction, Matches, NonNegativeFloat, PositiveFloat
from alf.config.settings import configurable
from alf.errors import ConfigError
from alf.schedules import Schedule, ScheduledFloat, Tunable

_GREATEST = float(tf.float32.max)
Optimizer = (
    Annotated[tf.keras.optimizers.legacy.Optimizer, "Optimizer"]
    | Annotated[tf.keras.optimizers.Optimizer, "Optimizer"]
)
_KerasSchedule: TypeAlias = tf.keras.optimizers.schedules.LearningRateSchedule
LearningRate: TypeAlias = Annotated[ScheduledFloat, AtLeast(0), AtMost(_GREATEST)] | _KerasSchedule
# The greatest float32 below 1; with 1, Adam divides by zero.
DecayRate = Annotated[float, AtLeast(0), AtMost(1 - 2**-24)]
# What TensorFlow, in the first update only, takes as the name of a scope.
ScopeName = Annotated[
    str,
    Matches(
        r"([A-Za-z0-9.][A-Za-z0-9_.\\/>-]*)?",
        "a text of letters, digits, '_', '.', '-' and '/' that begins with a letter or digit",
    ),
]


@configurable("alf.optimizers")
class Adam(tf.keras.optimizers.legacy.Adam):
    """Adam (arXiv 1412.6980).

    Args:
        learning_rate: number, `Schedule` of ALF, or schedule of Keras.
        beta_1, beta_2: decay rates of the averages of gradients and of their squares.
        epsilon: number that is added to the root of the average square. None: 1e-7. It is "epsilon hat" of
            the paper, added before the average is corrected for its bias: in update t it acts like an epsilon
            of PyTorch or Stable-Baselines3 of epsilon / sqrt(1 - beta_2^t), so more at the beginning.
        amsgrad: whether the greatest average square so far is used (Reddi et al., ICLR 2018).
        name: text, first part of the names of its variables.
        clipnorm: limit of the norm of each variable's gradient. None: no limit.
        clipvalue: limit of each number of a gradient. None: no limit.
        global_clipnorm: limit of the norm of all gradients of this optimizer. None: no limit.
        decay: d, the learning rate of step t is divided by 1 + d t.
    """

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        beta_1: DecayRate = 0.9,
        beta_2: DecayRate = 0.999,
        epsilon: PositiveFloat | None = 1e-7,
        amsgrad: bool = False,
        name: ScopeName = "Adam",
        clipnorm: PositiveFloat | None = None,
        clipvalue: PositiveFloat | None = None,
        global_clipnorm: PositiveFloat | None = None,
        decay: NonNegativeFloat = 0.0,
    ) -> None:
        others = _list_others(clipnorm, clipvalue, global_clipnorm, decay)
        super().__init__(learning_rate, beta_1, beta_2, epsilon, amsgrad, name, **others)


@configurable("alf.optimizers")
class RMSprop(tf.keras.optimizers.legacy.RMSprop):
    """RMSprop.

    Args:
        rho: decay rate of the average of squared gradients.
        momentum: number in [0, 1].
        epsilon: number that is added to the average square. None: 1e-7.
        centered: whether the variance of gradients takes the place of their average square.
        learning_rate, name, clipnorm, clipvalue, global_clipnorm, decay: as in `Adam`.
    """

    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        rho: DecayRate = 0.9,
        momentum: Fraction = 0.0,
        epsilon: PositiveFloat | None = 1e-7,
        centered: bool = False,
        name: ScopeName = "RMSprop",
        clipnorm: PositiveFloat | None = None,
        clipvalue: PositiveFloat | None = None,
        global_clipnorm: PositiveFloat | None = None,
        decay: NonNegativeFloat = 0.0,
    ) -> None:
        others = _list_others(clipnorm, clipvalue, global_clipnorm, decay)
        super().__init__(learning_rate, rho, momentum, epsilon, centered, name, **others)


@configurable("alf.optimizers")
class SGD(tf.keras.optimizers.legacy.SGD):
    """Gradient descent, with momentum if wanted.

    Args:
        momentum: number in [0, 1].
        nesterov: whether to use Nesterov momentum, with the gradient at the point to which the momentum
            leads.
        learning_rate, name, clipnorm, clipvalue, global_clipnorm, decay: as in `Adam`.
    """

    def __init__(
        self,
        learning_rate: LearningRate = 0.01,
        momentum: Fraction = 0.0,
        nesterov: bool = False,
        name: ScopeName = "SGD",
        clipnorm: PositiveFloat | None = None,
        clipvalue: PositiveFloat | None = None,
        global_clipnorm: PositiveFloat | None = None,
        decay: NonNegativeFloat = 0.0,
    ) -> None:
        others = _list_others(clipnorm, clipvalue, global_clipnorm, decay)
        super().__init__(learning_rate, momentum, nesterov, name, **others)


def _list_others(clipnorm, clipvalue, global_clipnorm, decay):
    """Returns the arguments of all optimizers of Keras as a dict."""
    if clipnorm is not None and global_clipnorm is not None:
        raise ConfigError("clipnorm and global_clipnorm of an optimizer exclude each other: set one of them")
    return dict(clipnorm=clipnorm, clipvalue=clipvalue, global_clipnorm=global_clipnorm, decay=decay)


class GroupOptimizer(tf.Module):
    """Applies one optimizer to all groups of variables, or an optimizer to each group.

    Args:
        optimizer, max_grad_norm: as in `Learner`.
        groups: dict from name to list of variables, from `Algorithm.parameter_groups`.
        progress: `Progress`, by which schedules of the learning rate are evaluated.
    """

    def __init__(self, optimizer, groups, progress, max_grad_norm=None):
        super().__init__(name="group_optimizer")
        self._max_grad_norm = max_grad_norm
        self._groups = groups
        optimizers = dict(optimizer) if isinstance(optimizer, dict) else {"": optimizer}
        if isinstance(optimizer, dict) and optimizer.keys() != groups.keys():
            raise ConfigError(
                f"Learner.optimizer has the keys {sorted(optimizer)}: there must be one optimizer for each "
                f"group of the algorithm's variables, here {sorted(groups)}. (Where policy and value share "
                "their layers, there is no group 'value'.)"
            )
        # One optimizer for two groups would count two steps for each update, by which Adam corrects its
        # averages.
        if len({id(one) for one in optimizers.values()}) < len(optimizers):
            raise ConfigError(
                "Learner.optimizer holds one optimizer twice: the groups need different instances; in gin, "
                "each @Adam() makes one"
            )
        self._optimizers = {name: _to_legacy(name, one) for name, one in optimizers.items()}
        # Here, because optimizers are not `tf.Module`s, and checkpoints must find the variables.
        self._tunables = []
        for name, one in self._optimizers.items():
            schedule = _prepare_optimizer(name, one, progress)
            self._tunables += [schedule] if isinstance(schedule, Tunable) else []
            # Now, and not at the first update, so that a checkpoint before that has the same variables.
            one._create_all_weights(self._select(name, groups))

    def list_weights(self):
        """Returns a list of the variables of all optimizers: numbers of steps, and averages of gradients."""
        return [variable for one in self._optimizers.values() for variable in one.weights]

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

    def apply(self, gradients):
        """Makes one step of each optimizer; `gradients` is a dict as in `norms`."""
        for name, optimizer in self._optimizers.items():
            pairs = zip(self._select(name, gradients), self._select(name, self._groups), strict=True)
            # The gradients are averages over replicas already, so Keras must not average them again;
            # TensorFlow would also keep each graph that does.
            optimizer.apply_gradients(pairs, experimental_aggregate_gradients=False)

    def _select(self, name, values):
        """Joins the lists of all groups to which the optimizer called `name` applies; "" is the only one."""
        return [x for group in ([name] if name else self._groups) for x in values[group]]

    def learning_rates(self):
        """Returns a dict from "learning_rate" or "learning_rate_<group>" to float32 scalar."""
        return {
            "_".join(filter(None, ("learning_rate", name))): tf.cast(one._decayed_lr(tf.float32), tf.float32)
            for name, one in self._optimizers.items()
        }


def _name_setting(name):
    return f"Learner.optimizer[{name!r}]" if name else "Learner.optimizer"


def _to_legacy(name, optimizer):
    """Returns the legacy optimizer with the settings of a current one of Keras; a legacy one is returned."""
    if isinstance(optimizer, tf.keras.optimizers.legacy.Optimizer):
        return optimizer
    if not isinstance(optimizer, tf.keras.optimizers.Optimizer):
        raise ConfigError(
            f"{_name_setting(name)} is {optimizer!r}: it must be an optimizer of tf.keras.optimizers, such "
            "as Adam(1e-3); in gin, @Adam() with parentheses"
        )
    try:
        return tf.keras.__internal__.optimizers.convert_to_legacy_optimizer(optimizer)
    except ValueError:
        raise ConfigError(
            f"{_name_setting(name)} is {type(optimizer).__name__}, which has no counterpart in "
            "tf.keras.optimizers.legacy: take Adam, RMSprop, SGD or another one that has"
        ) from None


def _prepare_optimizer(name, optimizer, progress):
    """Checks an optimizer and connects a `Schedule` of its learning rate with the progress.

    Returns the schedule, or None.
    """
    if optimizer.weights:
        raise ConfigError(
            f"{_name_setting(name)} is the optimizer of another learner: each needs an instance of its own"
        )
    learning_rate = optimizer._hyper.get("learning_rate", 0.0)
    if isinstance(learning_rate, Schedule):
        # Keras calls it while the graph of the update is traced, which then reads the counters in each
        # update. A number, evaluated here, would stay in the graph as a constant.
        optimizer.learning_rate = lambda: learning_rate(progress)
        return learning_rate
    return None
