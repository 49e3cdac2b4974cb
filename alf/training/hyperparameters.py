# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The settings that TensorBoard compares runs by."""

import ast

import gin

from alf.config.comparison import parse_settings
from alf.config.settings import find_role


def read_hyperparameters():
    """Reads the settings in force from gin: a dict by name of numbers, bools and texts.

    Those which may change when a run continues, such as `StopCriteria.num_env_steps`, do not make it another
    run, and are left out. What is no number, bool or text becomes a text, as it is in gin.
    """
    settings = parse_settings(gin.operative_config_str())
    return {name: _read_value(text) for name, text in settings.items() if not find_role(name).may_change}


def _read_value(text):
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):  # such as "@Adam()"
        return text
    return value if isinstance(value, (bool, int, float, str)) else text
