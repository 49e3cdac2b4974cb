# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Optional packages: if one is missing, the error says how to install it."""

import importlib

from alf.errors import ConfigError


def import_extra(module, extra):
    """Imports and returns `module`, which ALF's extra `extra` installs.

    Raises:
        ConfigError: if it is not installed; the message has the pip command.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(f'the package {module} is not installed: pip install "alf-tf[{extra}]"') from error
