# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures the speed of a gin file: `alf-benchmark --gin_file=FILE [--measure_seconds=N] [--sample_only]`.

First only the environments and actors run, and nothing is learned; then the learner runs, too. Prints one
JSON object: environment steps per second and used CPU cores of both, and updates per second. --sample_only
leaves out the learner. --root_dir=DIR in place of --gin_file takes the configuration of a run, and the policy
of its --checkpoint. Nothing is written. The exit status is 0, 1 after an error, 2 if a setting is wrong, 130
after Ctrl-C.
"""

import json
import os
from typing import Annotated

from absl import flags

from alf.bin.command import make_main, start, start_work
from alf.bin.flags import share
from alf.config.kinds import AtLeast
from alf.config.parsing import check_dead_bindings, parse_config, wrong_calls_are_config_errors
from alf.config.settings import check_value
from alf.errors import ConfigError
from alf.version import __version__

GIN_FILE, GIN_PARAM = share("gin_file", "gin_param")
ROOT_DIR, CHECKPOINT = share("root_dir", "checkpoint")
_SECONDS = flags.DEFINE_float("measure_seconds", 20.0, "Seconds of each of the two measurements.")
_SAMPLE_ONLY = flags.DEFINE_bool("sample_only", False, "Measures only without the learner.")


def run():
    """Measures as the flags say; returns the exit status."""
    check_value("--measure_seconds", _SECONDS.value, Annotated[float, AtLeast(0.1)])
    driver, source = _build()
    import tensorflow as tf

    from alf.tools.throughput import benchmark

    try:
        # From here on the environments exist, and must be closed after an error, too.
        check_dead_bindings(GIN_PARAM.value)
        result = benchmark(driver, _SECONDS.value, _SAMPLE_ONLY.value)
        versions = {"cores": os.cpu_count(), "alf": __version__, "tensorflow": tf.__version__}
        # Printed before `stop`, which may fail.
        print(json.dumps({**source, **result, **versions}, indent=2), flush=True)
    finally:
        driver.stop()
    return 0


def _build():
    """Makes the driver that the flags describe; returns it with a dict that tells its source."""
    if bool(GIN_FILE.value) == bool(ROOT_DIR.value):
        raise ConfigError("name either --gin_file, or --root_dir of a run")
    if GIN_FILE.value and CHECKPOINT.value != CHECKPOINT.default:
        raise ConfigError(f"--checkpoint={CHECKPOINT.value}: it needs --root_dir, the run that has it")
    start_work()
    from alf.runs.presets import make_driver
    from alf.runs.saved_run import SavedRun

    saved = SavedRun(ROOT_DIR.value) if ROOT_DIR.value else None
    if saved is None:
        parse_config(GIN_FILE.value, GIN_PARAM.value)
    else:
        saved.read_config(GIN_PARAM.value)
    with wrong_calls_are_config_errors():
        driver = make_driver()
    if saved is None:
        return driver, {"gin_file": GIN_FILE.value}
    try:
        return driver, {"checkpoint": saved.restore(driver.learner.policy, CHECKPOINT.value)}
    # The caller has no driver yet that it could stop.
    except BaseException:
        driver.stop()
        raise


main = make_main(run)


def console_main():
    start(main)


if __name__ == "__main__":
    console_main()
