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
from alf.config.listing import format_settings, list_settings
from alf.errors import ConfigError

FLAGS = make_flags()


def run(arguments):
    """Lists as the arguments say; returns the exit status.

    A wrong gin file does not keep the settings back: the user may need them to mend it.
    """
    refuse_settings(arguments, FLAGS)
    gin_files = [name for name in arguments.names if name.endswith(".gin") or name.startswith("alf:")]
    words = [name for name in arguments.names if name not in gin_files]
    if len(words) > 1:
        raise ConfigError(f"unexpected argument {words[1]!r}: name one")
    start_work()
    from alf.config.hints import suggest_settings
    from alf.config.parsing import parse_config

    wrong = None
    try:
        parse_config(gin_files)
    except ConfigError as error:
        wrong = error
    settings = list_settings(*words)
    if not settings:
        raise wrong or ConfigError(f"there is no setting {words[0]!r}{suggest_settings(words[0])}")
    show(format_settings(settings))
    if wrong is not None:
        raise wrong
    return 0
