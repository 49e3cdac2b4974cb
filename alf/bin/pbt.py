# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Population based training: `alf-pbt --gin_file=FILE --root_dir=DIR --population=N [--ray_address=ADDRESS]`.

Trains N members at a time, each in a process that Ray starts, with settings from the ranges of
`Population.settings`. At the end of each interval bad members copy good ones and change the settings a
little. The same command continues a study. DIR/members/K is the run of member K, DIR/population.csv the table
of all intervals, DIR/lineage.png a picture of it.

The exit status is 0 if the study has ended, 1 after an error, 2 if a setting is wrong, and 128 plus its
number if a signal (SIGINT, SIGTERM, SIGHUP) ended it; the members are saved first.
"""

import os
import signal
import time

import gin
from absl import flags, logging

import alf  # noqa: F401  (before TensorFlow)
from alf.bin import config_flags, ray_flags, run_flags
from alf.bin.command import Stopper, make_main, start
from alf.bin.config_flags import GIN_FILE
from alf.bin.ray_flags import RAY_ADDRESS
from alf.bin.run_flags import GIN_PARAM, ROOT_DIR
from alf.bin.signals import list_hangups, on_signal
from alf.config.comparison import parse_settings
from alf.config.parsing import parse_config, take_bindings, wrong_calls_are_config_errors
from alf.config.registry import own_config
from alf.distributed.cluster import connect
from alf.errors import ConfigError, EnvError, import_extra
from alf.population.bindings import make_bindings
from alf.population.lineage import draw_lineage
from alf.population.population import Population
from alf.population.room import find_helpers
from alf.population.study import MEMBERS, Study
from alf.runs.folders import POPULATION_FILE
from alf.runs.run_dir import RunDir

flags.adopt_module_key_flags(config_flags)
flags.adopt_module_key_flags(run_flags)
flags.adopt_module_key_flags(ray_flags)

POPULATION = flags.DEFINE_integer("population", None, "Number of members, at least 2.")
_PICTURE_SECONDS = 30.0  # between two pictures


class _Output:
    """The lines on the terminal, and the picture."""

    def __init__(self, folder, population):
        self._folder, self._population = folder, population
        self._started = self._drawn = time.monotonic()
        self.study = None

    def announce(self, text):
        print(f"{time.monotonic() - self._started:8.1f} s  {text}", flush=True)

    def draw(self, force=False):
        now = time.monotonic()
        if force or now - self._drawn > _PICTURE_SECONDS:
            population = self._population
            draw_lineage(self.study.rows, population.settings, population.objective, self._folder)
            self._drawn = now


def run():
    """Trains a population as the flags say; returns the exit status."""
    stopper = Stopper()
    with on_signal((signal.SIGINT, signal.SIGTERM, *list_hangups()), stopper):
        population, config, helpers = read_config()
        run_dir = RunDir(ROOT_DIR.value, POPULATION_FILE)
        run_dir.lock()
        output = _Output(run_dir.path, population)
        output.study = study = Study(run_dir.path, population, POPULATION.value, parse_settings(config))
        ray = connect(RAY_ADDRESS.value, log_to_driver=False)
        from alf.population.ray_study import run_study  # after `connect`

        try:
            arguments = run_dir.path, output.announce, output.draw, stopper.watch
            errors = run_study(ray, study, population, helpers, config, *arguments)
            if study.rows:
                output.draw(force=True)
        finally:
            ray.shutdown()
        run_dir.close()
    return _conclude(study, population, run_dir.path, stopper, errors)


def read_config():
    """Reads flags and gin; returns the `Population`, the text of its members' configuration, and helpers.

    The helpers are what `find_helpers` returns.
    """
    if not ROOT_DIR.value:
        raise ConfigError("--root_dir is missing: name the directory to write to")
    if POPULATION.value is None or POPULATION.value < 2:
        raise ConfigError(f"--population is {POPULATION.value}: it must be an integer, at least 2")
    import_extra("matplotlib", "tune")
    parse_config(GIN_FILE.value, GIN_PARAM.value)
    _check_policies(parse_settings(gin.config_str()))
    with wrong_calls_are_config_errors():
        population = Population()
    take_bindings("alf.population")
    config = gin.config_str()
    return population, config, _check_settings(config, population)


def _check_policies(bindings):
    """Raises ConfigError if a member would have several policies: members cannot copy these."""
    for name, value in bindings.items():
        if name.endswith("Experiment.policies") and value != "None":
            raise ConfigError(
                f"Experiment.policies is {value}: alf-pbt does not know several policies; for a population "
                "in one process, alf-train takes Experiment.policies = @PolicyPopulation()"
            )


def _check_settings(config, population):
    """Raises ConfigError if a setting is no parameter that gin knows; returns what `find_helpers` does.

    That is with the largest values, in case a setting says how many collectors there are.
    """
    values = {name: setting.largest() for name, setting in population.settings.items()}
    with own_config():
        parse_config([], [config])
        parse_config([], make_bindings(values, population.settings), "Population.settings")
        return find_helpers()


def _conclude(study, population, folder, stopper, errors):
    """Prints the end of the study; returns the exit status."""
    best = study.best()
    if best is not None:
        print(
            f"member {best} is the best, {population.objective} {study.objectives[best]:.6g}: "
            f"alf-play --root_dir={os.path.join(folder, MEMBERS, str(best))}"
        )
    if stopper.signum is not None:
        print(stopper.study.stop_reason)
        return 128 + stopper.signum
    if len(errors) == len(study.orders):
        raise EnvError(f"all members are lost; the first one: {errors[0]}")
    print(stopper.study.stop_reason or "all members have ended")
    return 0


main = make_main(run)


def console_main():
    logging.set_verbosity(logging.WARNING)
    start(main)


if __name__ == "__main__":
    console_main()
