# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Optimizers: those for gin, and GroupOptimizer, which applies them to the groups of an algorithm.

They are Keras 2's legacy optimizers, because each of their updates is a single fused operation on the CPU.
The update of RMSprop is a single operation only if its momentum is above 0. Then its epsilon is inside the
square root, as in IMPALA's; without momentum it is outside.
"""

import functools
import inspect
import re

import gin
import tensorflow as tf

from alf.errors import ConfigError, check_bool, check_number
from alf.schedules import Schedule, Tunable, as_schedule

_GREATEST = float(tf.float32.max)
_BELOW_ONE = 1 - 2**-24  # the greatest float32 below 1, with which Adam divides by zero
_FLAGS = ("amsgrad", "centered", "nesterov")
_BOUNDS = {  # see `check_number`
    **dict.fromkeys(("beta_1", "beta_2", "rho"), {"at_least": 0, "at_most": _BELOW_ONE}),
    **dict.fromkeys(("clipnorm", "clipvalue", "global_clipnorm"), {"above": 0, "optional": True}),
    "momentum": {"at_least": 0, "at_most": 1},
    "epsilon": {"above": 0, "optional": True},  # Keras takes its default in place of 0
    "decay": {"at_least": 0},
}
_NAME = r"[A-Za-z0-9.][\w.\\/>-]*"  # what TensorFlow takes


def _register(cls):
    """Makes an optimizer of Keras configurable; what it cannot train with is a ConfigError."""
    signature = inspect.signature(cls.__init__)

    @functools.wraps(cls, updated=())
    class Optimizer(cls):
        @functools.wraps(cls.__init__)
        def __init__(self, *args, **kwargs):
            given = signature.bind(self, *args, **kwargs).arguments
            for name, value in {**given, **given.get("kwargs", {})}.items():
                _check_value(f"{cls.__name__}.{name}", name, value)
            try:
                super().__init__(*args, **kwargs)
            except (TypeError, ValueError) as error:
                raise ConfigError(f"{cls.__name__}: {error}") from error

        # Gin reads the defaults here, not in the function that `wraps` names: config files of runs have them.
        __init__.__signature__ = signature

    return gin.external_configurable(Optimizer, cls.__name__, module="alf.optimizers")


def _check_value(setting, name, value):
    """Raises ConfigError if an argument of an optimizer is wrong, of which Keras takes nearly everything."""
    if name == "learning_rate":
        is_known = isinstance(value, (Schedule, tf.keras.optimizers.schedules.LearningRateSchedule))
        if not is_known and (inspect.isclass(value) or not callable(value)):
            as_schedule(setting, value, at_least=0, at_most=_GREATEST)
    elif isinstance(value, Schedule):
        raise ConfigError(f"{setting} is a {type(value).__name__}: only learning_rate can follow a schedule")
    elif name == "name":
        if not isinstance(value, str) or not re.fullmatch(_NAME, value):
            raise ConfigError(f"{setting} is {value!r}: it must be a text of letters, digits and underscores")
    elif name in _FLAGS:
        check_bool(setting, value)
    elif name in _BOUNDS and not callable(value):  # Keras calls a function for the number
        check_number(setting, value, **_BOUNDS[name])


Adam = _register(tf.keras.optimizers.legacy.Adam)
RMSprop = _register(tf.keras.optimizers.legacy.RMSprop)
SGD = _register(tf.keras.optimizers.legacy.SGD)


class GroupOptimizer(tf.Module):
    """Applies one optimizer to all groups of variables, or one to each.

    Args:
        optimizer, max_grad_norm: as in `Learner`.
        groups: dict from name to list of variables, see `Algorithm.parameter_groups`.
        progress: `Progress` that schedules of the learning rate follow.
    """

    def __init__(self, optimizer, groups, progress, max_grad_norm=None):
        super().__init__(name="group_optimizer")
        self._max_grad_norm = check_number("Learner.max_grad_norm", max_grad_norm, above=0, optional=True)
        self._groups = groups
        self._optimizers = dict(optimizer) if isinstance(optimizer, dict) else {"": optimizer}
        if isinstance(optimizer, dict) and optimizer.keys() != groups.keys():
            raise ConfigError(
                f"Learner.optimizer has the keys {sorted(optimizer)}: there must be one optimizer for each "
                f"group of the algorithm's variables, here {sorted(groups)}. (Where policy and value share "
                "their layers, there is no group 'value'.)"
            )
        if len({id(one) for one in self._optimizers.values()}) < len(self._optimizers):
            raise ConfigError(
                "Learner.optimizer holds one optimizer twice: the groups need different instances; in gin, "
                "each @Adam() makes one"
            )
        self._tunables = []  # here, because the optimizers are no `tf.Module`s
        for name, one in self._optimizers.items():
            schedule = _prepare_optimizer(name, one, progress)
            self._tunables += [schedule] if isinstance(schedule, Tunable) else []
            # Now, and not at the first update: a checkpoint from before it holds them too then.
            one._create_all_weights(self._select(name, groups))

    def list_weights(self):
        """Lists the variables of all optimizers: how many steps they have made, and what they keep."""
        return [variable for one in self._optimizers.values() for variable in one.weights]

    def norms(self, gradients):
        """Computes the global norm of the gradients of each group, a list of float32 scalars.

        `gradients` is a dict from the name of a group to a list of gradients, None where there is none.
        """
        gradients = [[x for x in gradients[name] if x is not None] for name in self._groups]
        return [tf.linalg.global_norm(group) if group else tf.constant(0.0) for group in gradients]

    def limit(self, gradients, norms):
        """Scales the gradients of each group, which have these `norms`, down to `max_grad_norm`.

        It returns new tensors: control dependencies around this call hold for everything that uses them.
        """
        limited = {}
        for name, norm in zip(self._groups, norms, strict=True):
            change = tf.identity
            if self._max_grad_norm is not None:
                scale = self._max_grad_norm / tf.maximum(norm, self._max_grad_norm)
                change = functools.partial(tf.multiply, scale)
            limited[name] = [None if x is None else change(x) for x in gradients[name]]
        return limited

    def apply(self, gradients):
        """Changes the variables by one step of each optimizer; gradients as in `norms`."""
        for name, optimizer in self._optimizers.items():
            pairs = zip(self._select(name, gradients), self._select(name, self._groups), strict=True)
            # They are averages over replicas already. TensorFlow would keep each graph that averages them.
            optimizer.apply_gradients(pairs, experimental_aggregate_gradients=False)

    def _select(self, name, values):
        """Joins the lists of all groups that the optimizer called `name` changes."""
        return [x for group in ([name] if name else self._groups) for x in values[group]]

    def learning_rates(self):
        """Returns a dict from "learning_rate" or "learning_rate_<group>" to float32 scalar."""
        return {
            "_".join(filter(None, ("learning_rate", name))): tf.cast(one._decayed_lr(tf.float32), tf.float32)
            for name, one in self._optimizers.items()
        }


def _prepare_optimizer(name, optimizer, progress):
    """Checks an optimizer; connects a schedule of its learning rate with the progress, and returns it."""
    setting = f"Learner.optimizer[{name!r}]" if name else "Learner.optimizer"
    if not isinstance(optimizer, tf.keras.optimizers.legacy.Optimizer):
        raise ConfigError(
            f"{setting} is {optimizer!r}: it must be an instance of a class of tf.keras.optimizers.legacy; "
            "in gin, @Adam() with parentheses"
        )
    if optimizer.weights:
        raise ConfigError(f"{setting} is the optimizer of another learner: each needs an instance of its own")
    for key, value in {**vars(optimizer), **optimizer._hyper}.items():
        if key != "learning_rate":
            _check_value(f"the {key} of {setting}", key, value)
    learning_rate = optimizer._hyper.get("learning_rate", 0.0)
    if isinstance(learning_rate, Schedule):
        schedule = as_schedule(f"the learning_rate of {setting}", learning_rate, at_least=0)
        optimizer.learning_rate = lambda: schedule(progress)
        return schedule
    if not isinstance(learning_rate, tf.keras.optimizers.schedules.LearningRateSchedule):
        learning_rate = optimizer.get_config().get("learning_rate", 0.0)
        check_number(f"the learning_rate of {setting}", learning_rate, at_least=0, at_most=_GREATEST)
    return None
