# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Runs of the gin files in alf/examples/."""

from pathlib import Path

import gin

from alf.config.parsing import parse_config, wrong_calls_are_config_errors
from alf.runs.presets import make_parts
from alf.training import Trainer

EXAMPLES = Path(__file__).resolve().parent.parent / "alf" / "examples"


def build(gin_file, root_dir, changes):
    """Makes the `Trainer` of a gin file, with a list of further bindings and no others."""
    gin.clear_config()
    parse_config([str(gin_file)], changes)
    with wrong_calls_are_config_errors():
        return Trainer(str(root_dir), *make_parts())
