# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Shared by the subcommands: the start, one-line errors, and the end of the process."""

import functools
import importlib
import logging as std_logging
import os
import signal
import sys
import threading

from absl import app, flags, logging

from alf.bin.arguments import find_what, read_what, split_arguments
from alf.bin.flags import describe, describe_all
from alf.bin.show import show
from alf.config.parsing import first_line
from alf.core.signals import list_endings, on_signal, raise_interrupts
from alf.core.startup import import_tensorflow
from alf.errors import SAY_ALL, ConfigError, arguments_are_flags
from alf.runs.run_dir import remove_unused

_HELP = {"--help", "-h", "-?", "--helpshort"}
# Parts of absl's messages about a wrong value, and the rule that is shown instead.
_WRONG_VALUES = {
    "('Non-boolean argument": "write --{name} or --no{name}",
    "invalid literal for int": "it must be an integer",
    "could not convert string to float": "it must be a number",
}
_EXIT_SECONDS = 10.0  # for threads that environments have started, after everything else has ended
_START_SECONDS = 2.0  # until a process ends after a signal that comes before the first of many runs starts


def run(command, argv):
    """Runs a subcommand, a module, with the result of `parse`; returns its exit status.

    An error that a user can mend is one line on stderr. The status is 2 if a setting is wrong, 130 after
    Ctrl-C, else 1.
    """
    if not flags.FLAGS["verbosity"].present:  # otherwise the user has asked for a level
        logging.set_verbosity(logging.INFO)
    logging.get_absl_logger().addFilter(_is_worth_a_line)
    with arguments_are_flags(command.__name__.rpartition(".")[2], command.FLAGS):
        return _run(command, argv)


def _run(command, argv):
    try:
        # Whatever is not caught here is a mistake in code, and keeps its traceback.
        return command.run(split_arguments(argv[1:]))
    except SAY_ALL as error:
        print(f"error: {first_line(error)}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    except SystemExit as error:
        # Raised by an environment's constructor, or by a module that a gin file imports.
        print(f"error: the user's code called sys.exit({error.code!r})", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: stopped by SIGINT", file=sys.stderr)
        # As a shell says it of a program that the signal itself has ended.
        return 128 + signal.SIGINT


def _is_worth_a_line(record):
    """Whether a log record is shown: all but the times of TensorFlow's saver at each checkpoint."""
    return record.levelno > std_logging.INFO or record.filename != "functional_saver.py"


def start(name, arguments):
    """Runs the subcommand of a name as a program."""
    command = importlib.import_module(f"alf.bin.{name}")
    if _HELP & {*arguments}:  # also beside flags that are wrong
        show(describe(command))
        sys.exit(0)
    if "--helpfull" in arguments:
        show(describe_all(command))
        sys.exit(0)
    try:
        app.run(
            functools.partial(run, command), [f"alf {name}", *arguments], functools.partial(parse, command)
        )
    # Threads of environments that are not daemons would keep the process alive for ever.
    except SystemExit as ended:
        # absl ends a command by SystemExit; a code that is a text counts as 1, as for Python itself.
        exit_after(_EXIT_SECONDS, ended.code if isinstance(ended.code, int) else int(bool(ended.code)))
        raise
    except BaseException:  # a mistake in code, of an environment for example
        exit_after(_EXIT_SECONDS, 1)
        raise


def parse(command, argv):
    """Sets the flags of a subcommand, and absl's; a wrong value ends the process with one line of text.

    Returns:
        `argv` without these flags.
    """
    try:
        return flags.FLAGS(command.FLAGS(argv, known_only=True), known_only=True)
    except flags.Error as error:
        print(f"error: {_explain(first_line(error))}", file=sys.stderr)
        sys.exit(2)


def start_work():
    """Imports TensorFlow and prepares this process for it. A `run` calls it after it has checked its flags.

    Before this call a signal ends the process at once; afterwards Ctrl-C raises KeyboardInterrupt.
    """
    import_tensorflow()
    import tensorflow as tf

    from alf.core.tf_runtime import share_heaps

    # Before drivers and environments start their threads, each of which would get a heap of its own.
    share_heaps()
    tf.get_logger().setLevel("WARNING")  # Its notes would stand between the lines of a run.
    raise_interrupts()


def _explain(text):
    """Returns absl's message about a wrong flag, with the rule for its value."""
    for reason, rule in _WRONG_VALUES.items():
        wrong, found, _ = text.partition(f": {reason}")
        if found:
            name = wrong.removeprefix("flag --").partition("=")[0]
            return f"{wrong}: {rule.format(name=name)}"
    return text


class Stopper:
    """Ends a command that trains many times when a signal comes: its runs, or the process if none has begun.

    Attributes:
        signum: int, the signal that has come, or None.
        runner: `Runner` of the trials, which ends once its `stop_reason`, a text, is set; None before.
    """

    def __init__(self):
        self.signum = self.runner = None

    def watch(self, runner):
        """Sets `runner`, which is about to start; it ends at once if a signal has come already."""
        # First the runner, then the look; `__call__`, in the thread of `on_signal`, does it in the other
        # order. So a signal that comes just now ends the runner in one of the two.
        self.runner = runner
        if self.signum is not None:
            self(self.signum)

    def __call__(self, signum):
        self.signum = signum
        if self.runner is not None:
            self.runner.stop_reason = f"stopped by {signal.Signals(signum).name}"
        else:  # Nothing has begun, so nothing is lost. The main thread may hang in a constructor.
            exit_after(_START_SECONDS, 128 + signum)


def run_many(arguments, known, carry_out):
    """Runs a command that trains many times; returns the exit status.

    Args:
        arguments: `Arguments`.
        known: the subcommand's flags, a `flags.FlagValues`.
        carry_out: callable (`Stopper`) -> the exit status, called once gin's configuration says what to
            train.
    """
    what, stopper = find_what(arguments), Stopper()
    # Before `on_signal`: nothing has begun yet, so a signal may end the process at once.
    start_work()
    with on_signal(list_endings(), stopper):
        read_what(what, arguments, known)
        status = carry_out(stopper)
    if stopper.signum is None:
        return status
    show(f"{stopper.runner.stop_reason}; the same command goes on")
    return 128 + stopper.signum


def exit_after(seconds, status):
    """Ends this process with `status` unless it ends by itself within `seconds`."""

    def exit_now():
        remove_unused()  # of a run that is being built
        names = [thread.name for thread in threading.enumerate() if not thread.daemon]
        print(f"error: after {seconds:g} s these threads still run: {', '.join(names)}", file=sys.stderr)
        # Without the exit handlers of Python, which would wait for these threads.
        os._exit(status)

    timer = threading.Timer(seconds, exit_now)
    # Otherwise the timer would itself keep a process alive that could end before.
    timer.daemon = True
    timer.start()
