# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trains an agent: `python -m alf.bin.train --gin_file=FILE --root_dir=DIR [--gin_param=NAME=VALUE ...]`.

The exit status is 0 if training ended at a stop criterion, 1 after an error, 2 if a setting is wrong, and
128 plus its number if a signal (SIGINT, SIGTERM, SIGHUP) ended training.
"""

import os
import re
import signal
import sys
import threading
import tokenize

import gin
import tensorflow as tf
from absl import app, flags, logging

import alf  # noqa: F401  (before TensorFlow)
from alf.bin.signals import on_signal
from alf.errors import ConfigError, DivergedError, EnvError, SaveError, StallError
from alf.tf_runtime import share_heaps
from alf.training import Experiment, Trainer

_GIN_FILE = flags.DEFINE_multi_string("gin_file", [], "Path of a gin file; may be repeated.")
_GIN_PARAM = flags.DEFINE_multi_string("gin_param", [], "A gin binding, NAME=VALUE; may be repeated.")
_ROOT_DIR = flags.DEFINE_string("root_dir", None, "Directory for summaries and checkpoints.")

_BUILD_SECONDS = 2.0  # until the process ends after a signal that comes before anything was trained
_EXIT_SECONDS = 10.0  # for threads that environments have started, after everything else has ended


def parse_config(gin_files, gin_params):
    """Reads gin files, which may import Python modules beside them, and bindings; may raise ConfigError."""
    for path in gin_files:
        if not os.path.isfile(path):  # gin would say so too, after a line of its own
            raise ConfigError(f"--gin_file: there is no file {path!r}")
    beside = [os.path.dirname(os.path.abspath(path)) for path in gin_files]
    sys.path[:0] = [folder for folder in beside if folder not in sys.path]
    sources = [(f"--gin_file={path}", gin.parse_config_file, path) for path in gin_files]
    for name, parse, source in [*sources, ("--gin_param", gin.parse_config, gin_params)]:
        try:
            parse(source)
        except RecursionError:
            raise ConfigError(f"{name}: the file includes itself") from None
        except tokenize.TokenError:
            raise ConfigError(f"{name}: a bracket or a quotation mark is not closed") from None
        except (OSError, KeyError, ValueError, SyntaxError, ImportError) as error:
            raise ConfigError(f"{name}: {' '.join(str(error).split())}") from None


def build(root_dir):
    """Makes the `Trainer` that gin's bindings describe; raises ConfigError if one of them is wrong.

    Wrong is also one that makes a call lack an argument, have an unknown one, or need a missing module.
    """
    if not root_dir:
        raise ConfigError("--root_dir is missing: name the directory to write to")
    try:
        return Trainer(root_dir, Experiment().driver)
    except (ImportError, TypeError) as error:
        wrong_call = re.search("No values supplied by Gin|[Uu]nexpected keyword", str(error))
        if isinstance(error, TypeError) and not wrong_call:
            raise
        called = re.findall("In call to configurable '(.*?)'", str(error))
        raise ConfigError(f"{', '.join(called[:1])}: {_first_line(error)}") from error


def run():
    """Trains as the flags say; returns the exit status."""
    signals = []
    trainer = None

    def stop(signum):
        signals.append(signum)
        if trainer is not None:
            trainer.interrupt(f"stopped by {signal.Signals(signum).name}")
        else:  # nothing is lost; an environment's constructor may hang
            _exit_after(_BUILD_SECONDS, 128 + signum)

    with on_signal((signal.SIGINT, signal.SIGTERM, *_hangups()), stop):
        parse_config(_GIN_FILE.value, _GIN_PARAM.value)
        trainer = build(_ROOT_DIR.value)
        if signals:
            return 128 + signals[0]
        finished, reason = trainer.train()
    print(reason)
    return 0 if finished else 128 + signals[0]


def _hangups():
    """SIGHUP, unless it is ignored, as `nohup` wants it."""
    return [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]


def _exit_after(seconds, status):
    """Ends this process with a status if it has not ended by itself after so many seconds."""

    def exit_now():
        names = [thread.name for thread in threading.enumerate() if not thread.daemon]
        print(f"error: after {seconds:g} s these threads still run: {', '.join(names)}", file=sys.stderr)
        os._exit(status)

    timer = threading.Timer(seconds, exit_now)
    timer.daemon = True
    timer.start()


def _first_line(error):
    """An error's text without what gin adds: through which calls it came."""
    return " ".join(re.split("\n *(?:In call to|No values supplied)", str(error))[0].split())


def main(argv):
    if len(argv) > 1:
        print(f"error: unexpected argument {argv[1]!r}", file=sys.stderr)
        return 2
    logging.set_verbosity(logging.INFO)
    share_heaps()
    tf.get_logger().setLevel("WARNING")  # it would log an environment's error, which is raised as well
    try:
        return run()
    except (ConfigError, DivergedError, EnvError, SaveError, StallError) as error:
        print(f"error: {_first_line(error)}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    except SystemExit as error:  # of an environment's constructor, or a module that a gin file imports
        print(f"error: the user's code called sys.exit({error.code!r})", file=sys.stderr)
        return 1


def console_main():
    try:
        app.run(main)
    except SystemExit as ended:
        _exit_after(_EXIT_SECONDS, ended.code if isinstance(ended.code, int) else int(bool(ended.code)))
        raise


if __name__ == "__main__":
    console_main()
