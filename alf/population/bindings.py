# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""How the tuned settings of a member become gin bindings. Without Ray and TensorFlow.

A setting that takes a schedule is bound to a `Tunable`, which changes without another graph. Any other one is
bound to its value, and needs a new `Trainer` when it changes.
"""

import re

# Where ALF takes a schedule, as far as its `Tunable` belongs to the learner's modules.
SCHEDULED = (
    *("Adam.learning_rate", "RMSprop.learning_rate", "SGD.learning_rate"),
    *("PPOAlgorithm.discount", "ImpalaAlgorithm.discount", "DqnAlgorithm.discount", "SacAlgorithm.discount"),
    *("PPOAlgorithm.entropy_weight", "ImpalaAlgorithm.entropy_weight", "PPOAlgorithm.clip_range"),
    *("EpsilonGreedyPolicy.epsilon", "RewardScaling.scale"),
)


def is_tunable(name, values):
    """Whether a setting of that name and `Range` is a `Tunable`, as the user's own "x/Tunable.value" is."""
    parameter = ".".join(name.rpartition("/")[2].split(".")[-2:])
    return values.limits is not None and parameter in (*SCHEDULED, "Tunable.value")


def make_bindings(settings, ranges):
    """Returns the lines of a gin file that give settings their values.

    Args:
        settings: dict from name to value.
        ranges: dict from the same names to `Range`.
    """
    lines = []
    for name, value in settings.items():
        if not is_tunable(name, ranges[name]):
            lines.append(f"{name} = {value!r}")
            continue
        scope = name.rpartition("/")[0]  # the user's own
        if not name.endswith("Tunable.value"):
            scope = re.sub(r"\W", "_", name)
            lines.append(f"{name} = @{scope}/Tunable()")
        tunable = f"{scope}/Tunable" if scope else "Tunable"
        lines += [
            f"{tunable}.value = {value!r}",
            f"{tunable}.limits = {tuple(ranges[name].limits)!r}",
            f"{tunable}.setting = {name!r}",
        ]
    return lines
