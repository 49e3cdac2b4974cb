# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trains an agent: `python -m alf.bin.train --gin_file=FILE --root_dir=DIR [--gin_param=NAME=VALUE ...]`.

`--list_settings` only prints the settings for gin files, `--list_settings NAME` those whose names have NAME.
With --gin_file, the settings of the modules that the file imports come first.

The exit status is 0 if training ended at a stop criterion, 1 after an error, 2 if a setting is wrong, and
128 plus its number if a signal (SIGINT, SIGTERM, SIGHUP) ended training.
"""

import signal

from absl import flags

from alf.bin.command import exit_after, make_main, start, start_work
from alf.bin.flags import OptionalText, share, show
from alf.bin.signals import list_hangups, on_signal
from alf.config.hints import suggest_settings
from alf.config.listing import format_settings, list_settings
from alf.config.parsing import parse_config, wrong_calls_are_config_errors
from alf.distributed.cluster import connect
from alf.errors import ConfigError

GIN_FILE, GIN_PARAM, ROOT_DIR, RAY_ADDRESS = share("gin_file", "gin_param", "root_dir", "ray_address")
_LIST_SETTINGS = flags.DEFINE_flag(
    OptionalText("list_settings", "Prints the settings for gin files, or those whose name has the text.")
)

_BUILD_SECONDS = 2.0  # until the process ends after a signal that comes before training


def build(root_dir):
    """Makes the `Trainer` that gin's bindings describe; raises ConfigError if a binding is wrong."""
    from alf.training import Experiment, Trainer

    with wrong_calls_are_config_errors():
        return Trainer(root_dir, Experiment().make_driver())


def print_settings(name):
    """Prints the settings whose names contain a text; returns the exit status.

    A wrong binding in the gin file does not keep them back: the user may need them to mend it.
    """
    try:
        parse_config(GIN_FILE.value, GIN_PARAM.value)
        wrong = None
    except ConfigError as error:
        wrong = error
    settings = list_settings(name)
    if not settings:
        raise wrong or ConfigError(
            f"--list_settings={name}: there is no such setting{suggest_settings(name)}"
        )
    show(format_settings(settings))
    if wrong is not None:
        raise wrong
    return 0


def run():
    """Trains as the flags say; returns the exit status."""
    if _LIST_SETTINGS.value is not None:
        start_work()
        return print_settings(_LIST_SETTINGS.value)
    if not ROOT_DIR.value:
        raise ConfigError("--root_dir is missing: name the directory to write to")
    start_work()
    signals = []
    trainer = None

    def stop(signum):
        # In the thread of `on_signal`. The mark comes first: if the trainer is made at this moment, `run`
        # looks at the mark after it, and does not train.
        signals.append(signum)
        if trainer is not None:
            trainer.interrupt(f"stopped by {signal.Signals(signum).name}")
        else:  # Nothing is lost yet, and an environment's constructor may hang.
            exit_after(_BUILD_SECONDS, 128 + signum)

    with on_signal((signal.SIGINT, signal.SIGTERM, *list_hangups()), stop):
        parse_config(GIN_FILE.value, GIN_PARAM.value)
        # Before the parts are made, some of which would else start Ray on this machine.
        if RAY_ADDRESS.value is not None:
            connect(RAY_ADDRESS.value)
        trainer = build(ROOT_DIR.value)
        if signals:
            # The trainer is not closed: its environments end with this process.
            return 128 + signals[0]
        finished, reason = trainer.train()
    show(reason)
    # Without a signal of its own, this process was ended by another learner process, which had one.
    return 0 if finished else 128 + (signals or [signal.SIGTERM])[0]


main = make_main(run)


def console_main():
    start(main)


if __name__ == "__main__":
    console_main()
