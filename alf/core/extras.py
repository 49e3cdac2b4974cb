# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Packages that only an extra of ALF installs."""

import importlib
from types import ModuleType

from alf.errors import ConfigError


def import_extra(module: str, extra: str) -> ModuleType:
    """Imports and returns `module`; the ConfigError without it says how to install ALF's extra `extra`."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ConfigError(f'the package {package} is not installed: pip install "alf-tf[{extra}]"') from error
