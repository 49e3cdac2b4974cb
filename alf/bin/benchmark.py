# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures the speed of a run: `alf-benchmark --env=CartPole-v1 [--measure_seconds=N] [--sample_only]`.

It names what to train as alf-train does: FILE.gin, --env, --algorithm, --NAME=VALUE. First only the
environments and actors run, and nothing is learned; then the learner runs, too. Prints one JSON object:
environment steps per second and used CPU cores of both, and updates per second. --sample_only leaves out the
learner. --root_dir=DIR takes the configuration of a run that exists, and the policy of its --checkpoint.
Nothing is written. The exit status is 0, 1 after an error, 2 if a setting is wrong, 130 after Ctrl-C.
"""

import json
import os
from typing import Annotated

from absl import flags

from alf.bin.command import make_main, start, start_work
from alf.bin.experiment_flags import ALGORITHM, GIN_PARAM, NAMES, read_config, read_settings, split_arguments
from alf.bin.flags import share
from alf.config.kinds import AtLeast
from alf.config.parsing import check_dead_bindings, wrong_calls_are_config_errors
from alf.config.settings import check_value
from alf.errors import ConfigError
from alf.version import __version__

ROOT_DIR, CHECKPOINT, *_ = share("root_dir", "checkpoint", *NAMES)
_SECONDS = flags.DEFINE_float("measure_seconds", 20.0, "Seconds of each of the two measurements.")
_SAMPLE_ONLY = flags.DEFINE_bool("sample_only", False, "Measures only without the learner.")


def run(arguments):
    """Measures as the flags say; returns the exit status."""
    check_value("--measure_seconds", _SECONDS.value, Annotated[float, AtLeast(0.1)])
    (driver, learner), bindings, source = _build(split_arguments(arguments))
    import tensorflow as tf

    from alf.tools.throughput import benchmark

    try:
        # From here on the environments exist, and must be closed after an error, too.
        check_dead_bindings(bindings)
        result = benchmark(driver, learner, _SECONDS.value, _SAMPLE_ONLY.value)
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
    if arguments.says_what == bool(ROOT_DIR.value):
        raise ConfigError("name either a gin file or --env, or --root_dir of a run")
    if arguments.says_what and CHECKPOINT.value != CHECKPOINT.default:
        raise ConfigError(f"--checkpoint={CHECKPOINT.value}: it needs --root_dir, the run that has it")
    start_work()
    from alf.runs.presets import make_parts
    from alf.runs.saved_run import SavedRun

    saved = SavedRun(ROOT_DIR.value) if ROOT_DIR.value else None
    if saved is None:
        bindings = read_config(arguments)
    else:
        saved.read_config(GIN_PARAM.value)
        bindings = [*GIN_PARAM.value, *read_settings(arguments.settings, ALGORITHM.value)]
    with wrong_calls_are_config_errors():
        driver, learner = make_parts()
    if saved is None:
        return (driver, learner), bindings, {"gin_file": arguments.gin_files, "bindings": bindings}
    try:
        return (driver, learner), bindings, {"checkpoint": saved.restore(learner.policy, CHECKPOINT.value)}
    # The caller has no driver yet that it could stop.
    except BaseException:
        driver.stop()
        raise


main = make_main(run, takes_arguments=True)


def console_main():
    start(main, takes_settings=True)


if __name__ == "__main__":
    console_main()
