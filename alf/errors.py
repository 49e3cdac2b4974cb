# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Errors whose message is all that a user needs: the command line prints them without a traceback."""


class ConfigError(ValueError):
    """A setting is wrong. The message names the setting, its value and what would be right."""


class DivergedError(ArithmeticError):
    """The loss or its gradient is not finite; the weights are those from before that update."""
