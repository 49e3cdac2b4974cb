# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What the commands have in common: how errors are shown, and how the process ends."""

import contextlib
import logging as std_logging
import os
import re
import signal
import sys
import threading

from absl import app, flags, logging

from alf.bin.flags import define_help, join_optional_texts
from alf.bin.signals import raise_interrupts
from alf.config.parsing import first_line
from alf.core.startup import start_tensorflow
from alf.errors import ConfigError, DivergedError, EnvError, LostPeerError, SaveError, StallError

# What absl says of a flag's value, and what is said in its place.
_WRONG_VALUES = {
    "('Non-boolean argument": "write --{name} or --no{name}",
    "invalid literal for int": "it must be an integer",
    "could not convert string to float": "it must be a number",
}
_EXIT_SECONDS = 10.0  # for threads that environments have started, after everything else has ended
_START_SECONDS = 2.0  # until a process ends after a signal that comes before the first of many runs starts


def make_main(run, takes_arguments=False):
    """Returns `main(argv)`, which calls `run()` and returns its exit status.

    With `takes_arguments` it calls `run(arguments)`, with what is no flag; else there must be none.

    An error that a user can mend is one line on stderr. The status is 2 if a setting is wrong, 130 after
    Ctrl-C, else 1.
    """

    def main(argv):
        if len(argv) > 1 and not takes_arguments:
            print(f"error: unexpected argument {argv[1]!r}", file=sys.stderr)
            return 2
        logging.set_verbosity(logging.INFO)
        logging.get_absl_logger().addFilter(_is_worth_a_line)
        try:
            return run(argv[1:]) if takes_arguments else run()
        except (ConfigError, DivergedError, EnvError, LostPeerError, SaveError, StallError) as error:
            print(f"error: {first_line(error)}", file=sys.stderr)
            return 2 if isinstance(error, ConfigError) else 1
        except SystemExit as error:  # of an environment's constructor, or a module that a gin file imports
            print(f"error: the user's code called sys.exit({error.code!r})", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("error: stopped by SIGINT", file=sys.stderr)
            return 128 + signal.SIGINT

    main.__module__ = run.__module__
    return main


def _is_worth_a_line(record):
    """Whether a record belongs in the log: not how long TensorFlow's saver took, at each checkpoint."""
    return record.levelno > std_logging.INFO or record.filename != "functional_saver.py"


def start(main):
    """Runs what `make_main` has returned as a program."""
    define_help(main.__module__)
    try:
        app.run(main, flags_parser=_parse_flags)
    except SystemExit as ended:
        exit_after(_EXIT_SECONDS, ended.code if isinstance(ended.code, int) else int(bool(ended.code)))
        raise


def start_work():
    """Imports TensorFlow and prepares this process for it. A `run` calls it after it has checked its flags.

    Before it, a signal ends the process at once; after it, Ctrl-C raises KeyboardInterrupt.
    """
    start_tensorflow()
    import tensorflow as tf

    from alf.core.tf_runtime import share_heaps

    share_heaps()
    tf.get_logger().setLevel("WARNING")  # it would log an environment's error, which is raised as well
    raise_interrupts()


def _parse_flags(argv):
    """Returns what is no flag in `argv`; ends the process if a flag is wrong. absl would write two lines."""
    try:
        return flags.FLAGS(join_optional_texts(argv))
    except flags.Error as error:
        print(f"error: {_explain(first_line(error))}", file=sys.stderr)
        sys.exit(2)


def _explain(text):
    """Returns what absl says of a wrong flag, with what to write."""
    for reason, rule in _WRONG_VALUES.items():
        wrong, found, _ = text.partition(f": {reason}")
        if found:
            name = wrong.removeprefix("flag --").partition("=")[0]
            return f"{wrong}: {rule.format(name=name)}"
    return text


@contextlib.contextmanager
def arguments_are_flags(*names):
    """Context of a call whose arguments of these names are flags: a ConfigError that begins with one says so.

    "num_steps is 0" and "check_env.num_steps is 0" become "--num_steps is 0".
    """
    try:
        yield
    except ConfigError as error:
        raise ConfigError(re.sub(rf"^(\w+\.)?({'|'.join(names)})\b", r"--\2", str(error))) from error


class Stopper:
    """What a signal does to a command that trains many times: all runs end, or, before any, the process.

    Attributes:
        signum: int, the signal that has come; None before.
        study: whatever ends once its `stop_reason` is set, a text; None before it starts.
    """

    def __init__(self):
        self.signum = self.study = None

    def watch(self, study):
        """Takes note of what is about to start."""
        self.study = study
        if self.signum is not None:
            self(self.signum)

    def __call__(self, signum):
        self.signum = signum
        if self.study is not None:
            self.study.stop_reason = f"stopped by {signal.Signals(signum).name}"
        else:  # nothing is lost
            exit_after(_START_SECONDS, 128 + signum)


def exit_after(seconds, status):
    """Ends this process with a status if it has not ended by itself after so many seconds."""

    def exit_now():
        names = [thread.name for thread in threading.enumerate() if not thread.daemon]
        print(f"error: after {seconds:g} s these threads still run: {', '.join(names)}", file=sys.stderr)
        os._exit(status)

    timer = threading.Timer(seconds, exit_now)
    timer.daemon = True
    timer.start()
