# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Shared by the subcommands that act with a trained policy, or export it."""

from alf.bin.arguments import take_one
from alf.bin.command import start_work


def start_acting(arguments):
    """Prepares this process to act; returns the folder of the run, or "alf:TASK", that `Arguments` name.

    Raises:
        ConfigError: if they name none, or several.
    """
    run = take_one(arguments, "the folder of a run, or alf:TASK")
    start_work()
    # Here, because it imports TensorFlow, which `start_work` starts without its own lines.
    from alf.core.devices import hide_gpus

    hide_gpus()  # a saved policy acts on the host
    return run
