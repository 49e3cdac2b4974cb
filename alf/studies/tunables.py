# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Makes gin bindings of the tuned settings of a member. Without Ray and TensorFlow.

A setting that takes a schedule is bound to a `Tunable`, which changes without another graph. Any other
setting is bound to its value, and needs a new `Trainer` when it changes.
"""

import re

from alf.config import registry
from alf.config.settings import find_setting, settings_of


def is_tunable(name, values):
    """Whether a setting with this name and `Range` becomes a `Tunable`, or is one: "x/Tunable.value"."""
    setting = find_setting(name)
    takes_schedules = setting is not None and setting.kind.takes_schedules
    return values.limits is not None and (takes_schedules or name.endswith("Tunable.value"))


def list_tunable():
    """Returns the names of ALF's settings that may be `Tunable`s."""
    names = registry.find_own()
    settings = [x for name in names if name.startswith("alf.") for x in settings_of(name).values()]
    return [f"{registry.shorten(x.owner)}.{x.name}" for x in settings if x.kind.takes_schedules]


def find_limits(ranges):
    """Returns a dict from name to (low, high) of the settings among `ranges` that become `Tunable`s."""
    return {name: x.limits for name, x in ranges.items() if is_tunable(name, x)}


def make_bindings(settings, limits):
    """Returns the bindings that give settings their values, a dict by name for `bind`.

    Args:
        settings: dict from name to value.
        limits: dict from the names of those that become `Tunable`s to (low, high), of `find_limits`.
    """
    bindings = {}
    for name, value in settings.items():
        if name not in limits:
            bindings[name] = value
            continue
        scope = name.rpartition("/")[0]  # the scope that the user has chosen
        if not name.endswith("Tunable.value"):
            # A scope for each setting: without one, all of them would share the bindings of `Tunable`.
            scope = re.sub(r"\W", "_", name)
            bindings[name] = registry.parse_value(f"@{scope}/Tunable()")
        tunable = f"{scope}/Tunable" if scope else "Tunable"
        bindings[f"{tunable}.value"] = value
        bindings[f"{tunable}.limits"] = tuple(limits[name])
        bindings[f"{tunable}.setting"] = name
    return bindings
