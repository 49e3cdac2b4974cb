# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trains an agent: `python -m alf.bin.train --gin_file=FILE --root_dir=DIR [--gin_param=NAME=VALUE ...]`.

The exit status is 0 if training ended at a stop criterion, 1 after an error, 2 if a setting is wrong, and
128 plus its number if a signal ended training.
"""

import os
import re
import signal
import sys

import gin
import tensorflow as tf
from absl import app, flags, logging

import alf  # noqa: F401  (before TensorFlow)
from alf.bin.signals import on_signal
from alf.errors import ConfigError, DivergedError, EnvError, StallError
from alf.tf_runtime import share_heaps
from alf.training import Experiment, Trainer

_GIN_FILE = flags.DEFINE_multi_string("gin_file", [], "Path of a gin file; may be repeated.")
_GIN_PARAM = flags.DEFINE_multi_string("gin_param", [], "A gin binding, NAME=VALUE; may be repeated.")
_ROOT_DIR = flags.DEFINE_string("root_dir", None, "Directory for summaries and checkpoints.")


def parse_config(gin_files, gin_params):
    """Reads gin files, which may import Python modules beside them, and bindings; may raise ConfigError."""
    for path in gin_files:
        if not os.path.isfile(path):  # gin would say so too, after a line of its own
            raise ConfigError(f"--gin_file: there is no file {path!r}")
    beside = [os.path.dirname(os.path.abspath(path)) for path in gin_files]
    sys.path[:0] = [folder for folder in beside if folder not in sys.path]
    try:
        gin.parse_config_files_and_bindings(gin_files, gin_params, finalize_config=False)
    except OSError as error:
        raise ConfigError(f"--gin_file: {error}") from None
    except (KeyError, ValueError, SyntaxError, ImportError) as error:
        raise ConfigError(f"--gin_file or --gin_param: {' '.join(str(error).split())}") from None


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

    with on_signal((signal.SIGINT, signal.SIGTERM), stop):
        parse_config(_GIN_FILE.value, _GIN_PARAM.value)
        trainer = build(_ROOT_DIR.value)
        if signals:
            return 128 + signals[0]
        finished, reason = trainer.train()
    print(reason)
    return 0 if finished else 128 + signals[0]


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
    except (ConfigError, DivergedError, EnvError, StallError) as error:
        print(f"error: {_first_line(error)}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1


def console_main():
    app.run(main)


if __name__ == "__main__":
    console_main()
