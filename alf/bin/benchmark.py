# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures the speed of a run: `alf benchmark CartPole-v1 [--measure_seconds=N] [--sample_only]`.

It names what to train as alf train does. First only the environments and actors run, and nothing is learned;
then the learner runs, too. Prints one JSON object: environment steps per second and used CPU cores of both,
and updates per second. --sample_only leaves out the learner. `alf benchmark DIR` takes the configuration of
the run in DIR, and the policy of its --checkpoint.
Nothing is written. The exit status is 0, 1 after an error, 2 if a setting is wrong, 130 after Ctrl-C.
"""

import json
import os
from typing import Annotated

from absl import flags

from alf.bin.arguments import check_says_what, find_what, read_settings, read_what
from alf.bin.command import start_work
from alf.bin.flags import make_flags
from alf.config.kinds import AtLeast
from alf.config.parsing import check_dead_bindings, wrong_calls_are_config_errors
from alf.config.settings import check_value
from alf.errors import ConfigError
from alf.version import __version__

FLAGS = make_flags("checkpoint", "algorithm", "steps")
flags.DEFINE_float("measure_seconds", 20.0, "Seconds of each of the two measurements.", flag_values=FLAGS)
flags.DEFINE_bool("sample_only", False, "Measures only without the learner.", flag_values=FLAGS)


def run(arguments):
    """Measures as the flags say; returns the exit status."""
    check_value("--measure_seconds", FLAGS.measure_seconds, Annotated[float, AtLeast(0.1)])
    (driver, learner), bindings, source = _build(arguments)
    import tensorflow as tf

    from alf.tools.throughput import benchmark

    try:
        # From here on the environments exist, and must be closed after an error, too.
        check_dead_bindings(bindings)
        result = benchmark(driver, learner, FLAGS.measure_seconds, FLAGS.sample_only)
        versions = {"cores": os.cpu_count(), "alf": __version__, "tensorflow": tf.__version__}
        # Printed before `stop`, which may fail.
        print(json.dumps({**source, **result, **versions}, indent=2), flush=True)
    finally:
        driver.stop()
    return 0


def _build(arguments):
    """Makes the driver and the learner that the flags describe.

    Returns them as a pair, with the bindings of the command line, and a dict that tells its source.
    """
    check_says_what(arguments)
    what = find_what(arguments)
    if what.run is None and FLAGS["checkpoint"].present:
        raise ConfigError(f"--checkpoint={FLAGS.checkpoint}: it needs the folder of the run that has it")
    start_work()
    from alf.runs.presets import make_parts
    from alf.runs.saved_run import SavedRun

    saved = SavedRun(what.run) if what.run else None
    if saved is None:
        bindings = read_what(what, arguments, FLAGS)
    else:
        saved.read_config()
        bindings = read_settings(arguments, FLAGS)
    with wrong_calls_are_config_errors():
        driver, learner = make_parts()
    if saved is None:
        texts = [f"{name} = {value!r}" for name, value in bindings.items()]
        return (driver, learner), bindings, {"what": arguments.names, "settings": texts}
    try:
        return (driver, learner), bindings, {"checkpoint": saved.restore(learner.policy, FLAGS.checkpoint)}
    # The caller has no driver yet that it could stop.
    except BaseException:
        driver.stop()
        raise
