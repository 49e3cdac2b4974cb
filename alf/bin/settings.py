# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Lists the settings: `alf settings [WORD] [FILE.gin ...]`.

With a WORD, only the settings whose names have it, such as num_envs or alf.training; if it is the name of a
class or a function, such as Experiment, only the settings of that. With a gin file, the settings of the
modules that the file imports come first. The exit status is 0, 2 if a name or a file is wrong.
"""

from alf.bin.arguments import refuse_settings
from alf.bin.command import start_work
from alf.bin.flags import make_flags
from alf.bin.show import show

FLAGS = make_flags()


def run(arguments):
    """Lists as the arguments say; returns the exit status."""
    refuse_settings(arguments, FLAGS)
    start_work()
    from alf.config.listing import settings

    found = settings(*arguments.names)
    show(found)
    if found.problem is not None:
        raise found.problem
    return 0
