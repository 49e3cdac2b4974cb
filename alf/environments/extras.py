# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Optional packages: what is missing is an error that says how to install it."""

import importlib

from alf.errors import ConfigError


def import_extra(module, extra):
    """Returns a module that one of ALF's extras installs.

    Raises:
      ConfigError: if it is not installed; with the pip command.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing_extra(module, extra) from error


def missing_extra(module, extra):
    """The error for a `module` that the extra `extra` installs."""
    return ConfigError(f'the package {module} is not installed: pip install "alf-tf[{extra}]"')
