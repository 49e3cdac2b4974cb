# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Errors that a user can mend, and the checks of settings that raise them.

The command line prints the message of such an error without a traceback.
"""

import math
import numbers


class ConfigError(ValueError):
    """A setting is wrong. The message names the setting, its value and what would be right."""


class DivergedError(ArithmeticError):
    """The loss or its gradient is not finite; the weights are those from before that update."""


def check_int(name, value, at_least=1):
    """Returns `value`; raises ConfigError unless it is an integer (no bool) that is large enough."""
    is_int = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_int or value < at_least:
        raise ConfigError(f"{name} is {value!r}: it must be an integer, at least {at_least}")
    return value


def check_number(name, value, at_least=None, above=None, at_most=None, optional=False):
    """Returns `value`; raises ConfigError unless it is a finite number (no bool) within the bounds.

    Args:
        name: of the setting.
        value: what to check.
        at_least, above, at_most: bounds, None for no bound.
        optional: whether None is right too.
    """
    if value is None and optional:
        return value
    bounds = {"at least": at_least, "above": above, "at most": at_most}
    rules = [f"{text} {bound}" for text, bound in bounds.items() if bound is not None]
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    if (
        not is_number
        or (at_least is not None and value < at_least)
        or (above is not None and value <= above)
        or (at_most is not None and value > at_most)
    ):
        rule = " ".join(["a number", " and ".join(rules)]).strip() + (", or None" if optional else "")
        raise ConfigError(f"{name} is {value!r}: it must be {rule}")
    return value


def check_bool(name, value):
    """Returns `value`; raises ConfigError unless it is True or False."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}: it must be True or False")
    return value
