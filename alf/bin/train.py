# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trains an agent: `alf-train --env=CartPole-v1 --algorithm=ppo --steps=100_000 [--NAME=VALUE ...]`.

With a gin file: `alf-train FILE.gin [--NAME=VALUE ...]`. One of ALF's tasks: `alf-train alf:CartPole-v1`. To
continue a run: `alf-train --root_dir=DIR`.

A NAME is a setting, with or without its class: --num_envs=64, --learning_rate=1e-3, --Adam.epsilon=1e-5. It
may also be what another library calls a setting that means the same: --gamma=0.98. Without --root_dir, the
run gets a new directory in runs/.

`--list_settings` only prints the settings, `--list_settings NAME` those whose names have NAME. With a gin
file, the settings of the modules that the file imports come first.

The exit status is 0 if training ended at a stop criterion, 1 after an error, 2 if a setting is wrong, and
128 plus its number if a signal (SIGINT, SIGTERM, SIGHUP) ended training.
"""

import os
import signal

from absl import flags

from alf.bin.command import exit_after, make_main, start, start_work
from alf.bin.experiment_flags import (
    GIN_PARAM,
    NAMES,
    check_says_what,
    make_root_dir,
    read_config,
    split_arguments,
)
from alf.bin.flags import OptionalText, share, show
from alf.bin.signals import list_hangups, on_signal
from alf.config.gin_files import CONFIG_FILE
from alf.config.hints import suggest_settings
from alf.config.listing import format_settings, list_settings
from alf.config.parsing import wrong_calls_are_config_errors
from alf.distributed.cluster import connect
from alf.errors import ConfigError

ROOT_DIR, RAY_ADDRESS, *_ = share("root_dir", "ray_address", *NAMES)
_LIST_SETTINGS = flags.DEFINE_flag(
    OptionalText("list_settings", "Prints the settings for gin files, or those whose name has the text.")
)

_BUILD_SECONDS = 2.0  # until the process ends after a signal that comes before training


def find_config(root_dir):
    """Returns a list with the gin file of the run in `root_dir`, to continue it.

    It is empty without a `root_dir`, and where bindings say what to train; otherwise ConfigError is raised.
    """
    path = os.path.join(root_dir or "", CONFIG_FILE)
    if root_dir and os.path.isfile(path):
        return [path]
    if root_dir and not GIN_PARAM.value:
        begin = "alf-train --env=CartPole-v1 --algorithm=ppo --steps=100_000, or alf-train FILE.gin"
        raise ConfigError(f"--root_dir={root_dir} has no run to continue: begin with {begin}")
    return []


def build(root_dir):
    """Makes the `Trainer` that gin's bindings describe; raises ConfigError if a binding is wrong."""
    from alf.runs.presets import make_parts
    from alf.training import Trainer

    with wrong_calls_are_config_errors():
        return Trainer(root_dir, *make_parts())


def print_settings(name, arguments):
    """Prints the settings whose names contain a text; returns the exit status.

    A wrong binding, in a gin file or on the command line, does not keep them back: the user may need them to
    mend it.
    """
    try:
        read_config(arguments)
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


def run(arguments):
    """Trains as the flags say; returns the exit status."""
    arguments = split_arguments(arguments)
    if _LIST_SETTINGS.value is not None:
        start_work()
        return print_settings(_LIST_SETTINGS.value, arguments)
    if not arguments.says_what:
        arguments = arguments._replace(gin_files=find_config(ROOT_DIR.value))
        check_says_what(arguments)
    start_work()
    root_dir = ROOT_DIR.value or make_root_dir(arguments)
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
        read_config(arguments)
        # Before the parts are made, some of which would else start Ray on this machine.
        if RAY_ADDRESS.value is not None:
            connect(RAY_ADDRESS.value)
        trainer = build(root_dir)
        if signals:
            # The trainer is not closed: its environments end with this process.
            return 128 + signals[0]
        finished, reason = trainer.train()
    show(reason)
    # Without a signal of its own, this process was ended by another learner process, which had one.
    return 0 if finished else 128 + (signals or [signal.SIGTERM])[0]


main = make_main(run, takes_arguments=True)


def console_main():
    start(main, takes_settings=True)


if __name__ == "__main__":
    console_main()
