# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""How tests import the programs of `benchmarks`."""

import importlib

from absl import flags


def import_program(name):
    """Imports a program, and removes its flags from this process: several programs have flags of one name."""
    program = importlib.import_module(name)
    for flag in flags.FLAGS.flags_by_module_dict().pop(name, []):
        delattr(flags.FLAGS, flag.name)
    return program
