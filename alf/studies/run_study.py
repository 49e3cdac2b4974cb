# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Carries out `alf sweep` and `alf pbt`, from their flags to the last line that they print."""

import glob
import os
import subprocess
import sys
import time

import gin

from alf.config import registry
from alf.config.comparison import parse_settings
from alf.config.hints import explain
from alf.config.parsing import bind, parse_config, take_bindings, wrong_calls_are_config_errors
from alf.config.registry import complete, own_config
from alf.errors import ConfigError, argument, import_extra
from alf.runs.digests import DIGESTS_FILE
from alf.studies.population_study import PopulationStudy
from alf.studies.resources import check_resources, find_place
from alf.studies.settings import Population, Sweep, check_once, name_grid
from alf.studies.sweep_study import SweepStudy
from alf.studies.trials import import_optuna, make_pruner
from alf.studies.tunables import find_limits, make_bindings

_LOOK_SECONDS = 0.2  # the interval at which the wait for another process looks for a signal


def plan_sweep(root_dir, seeds, grid, resources, replicates=False):
    """Plans a sweep, or what the sweep in the folder still lacks. Gin's configuration says what runs train.

    Args:
        root_dir: path of the folder.
        seeds: list of ints, the result of `check_sweep`.
        grid: dict from names of settings to lists of values to try.
        resources: `Resources`.
        replicates: whether the runs must be deterministic, for `replicate_first`.

    Returns:
        a callable (on_start) -> `Studied`, which trains all runs, without gin's configuration. `on_start` is
        a callable (`Runner`), called before the first run starts.

    Raises:
        ConfigError: if a setting is wrong. Then nothing is written.
    """
    sweep, grid, config, settings = split_sweep(grid)
    check_trials(config, grid, sweep.settings)
    is_deterministic = any(
        x.endswith("Experiment.deterministic") and settings[x] != "False" for x in settings
    )
    if replicates and not is_deterministic:
        name = argument("replicate")
        raise ConfigError(f"{name} is set: the runs must have Experiment.deterministic = True")
    place = find_place(resources)  # Before the folder is made: a wrong flag must leave nothing behind.
    arguments = settings, sweep, seeds, grid, make_arguments
    return lambda on_start: SweepStudy.carry_out(root_dir, config, place, on_start, *arguments)


def plan_population(root_dir, num_members, resources):
    """Plans a population, or goes on with one in the folder. Gin's configuration says what members train.

    Args:
        root_dir: path of the folder.
        num_members: int.
        resources: `Resources`.

    Returns:
        a callable (on_start) -> `Studied`, as of `plan_sweep`. It raises EnvError if all members are lost.

    Raises:
        ConfigError: if a setting is wrong. Then nothing is written.
    """
    population, config = split_population()
    # Before the folder is made: a wrong setting must leave nothing behind.
    place = find_place(resources, num_members)
    arguments = parse_settings(config), population, num_members, place.capacity < num_members
    return lambda on_start: PopulationStudy.carry_out(root_dir, config, place, on_start, *arguments)


def check_sweep(root_dir, seeds, resources):
    """Checks the flags that need nothing else, without TensorFlow; returns the seeds, a list of ints."""
    _check_flags(root_dir, resources)
    import_extra("matplotlib", "sweep")
    import_optuna()
    name, listed = argument("seeds"), ",".join(seeds)
    if not seeds or not all(text.strip().isdecimal() for text in seeds):
        raise ConfigError(f"{name} is {listed!r}: it must be integers, at least 0, such as 0,1,2")
    check_once(f"{name} is {listed}", numbers := [int(text) for text in seeds])
    return numbers


def check_population(root_dir, num_members, resources):
    """Checks the flags that need nothing else, without TensorFlow."""
    _check_flags(root_dir, resources)
    if num_members is None or num_members < 2:
        raise ConfigError(f"{argument('population')} is {num_members}: it must be an integer, at least 2")
    import_extra("matplotlib", "plot")


def _check_flags(root_dir, resources):
    if not root_dir:
        raise ConfigError(f"{argument('root_dir')} is missing: name the folder to write to")
    check_resources(resources)


def split_sweep(grid):
    """Reads the grid, and takes the bindings of the sweep out of gin's configuration.

    Returns:
        the `Sweep`; the grid of `name_grid`; the configuration of the runs, a text; and all bindings, also
        of the sweep, a dict of texts by name.
    """
    from alf.runs.presets import list_used  # here: it needs TensorFlow, and flags are checked without it

    grid = name_grid(grid, list_used())
    # Before `take_bindings`: a sweep that goes on must also have the same settings of the search.
    settings = parse_settings(gin.config_str())
    with wrong_calls_are_config_errors():
        sweep = Sweep()
    # Made only to raise its errors now, before anything is written.
    make_pruner(sweep.pruner, sweep.pruner_arguments)
    named = argument("grid")
    if grid and sweep.search == "optuna":
        raise ConfigError(f"{named} is set, but Sweep.search is 'optuna': name a Choice in Sweep.settings")
    take_bindings("alf.sweep")
    # Only the ranges: a PolicyPopulation may be the runs' own.
    take_bindings("alf.population", only_read=True)
    drawn = set(map(complete, sweep.settings))
    for name in (*grid, *sweep.settings):
        if name in grid and complete(name) in drawn:
            raise ConfigError(f"{named} has {name}, and so has Sweep.settings: name it once")
        if f".{name}".endswith(".Experiment.seed"):
            raise ConfigError(f"Experiment.seed is set by {argument('seeds')}, not as a setting to try")
    evaluates = any(name.endswith("Trainer.evaluator") for name in settings)
    if sweep.objective.startswith("eval/") and not evaluates:
        raise ConfigError(f"Sweep.objective is {sweep.objective!r}: set Trainer.evaluator")
    return sweep, grid, gin.config_str(), settings


def split_population():
    """Takes the bindings of the population out of gin's configuration.

    Returns:
        the `Population`, and the text of its members' configuration.
    """
    for name, value in parse_settings(gin.config_str()).items():
        if name.endswith("Experiment.policies") and value != "None":
            raise ConfigError(
                f"Experiment.policies is {value}: alf pbt does not know several policies; for a population "
                "in one process, alf train takes Experiment.policies = @PolicyPopulation()"
            )
        if name.endswith("Experiment.deterministic") and value != "False":
            raise ConfigError(
                "Experiment.deterministic is True: members of alf pbt copy each other whenever they get there"
            )
    with wrong_calls_are_config_errors():
        population = Population()
    # The members know neither `Population` nor ranges: their bindings leave gin's configuration here.
    take_bindings("alf.population")
    config = gin.config_str()
    values = {name: setting.largest() for name, setting in population.settings.items()}
    # Only to raise its errors now, before anything is written.
    with own_config():
        parse_config([], [config])
        bind(make_bindings(values, find_limits(population.settings)), "Population.settings")
    return population, config


def check_trials(config, grid, ranges):
    """Raises ConfigError if gin cannot read a setting or a value that may be tried."""
    # In a configuration of its own: a value that is tried must not stay in the configuration of the runs.
    with own_config():
        parse_config([], [config])
        tried = [(argument("grid"), name, text) for name, texts in grid.items() for text in texts]
        for name, values in ranges.items():
            # Both ends of a range stand for all numbers between them.
            some = getattr(values, "values", None) or values.limits
            tried += [("Sweep.settings", name, repr(x)) for x in some]
        for source, name, text in tried:
            try:
                bind({name: registry.parse_value(text)})
            except ConfigError as error:
                raise ConfigError(f"{source}: {error}") from None
            except (SyntaxError, ValueError) as error:  # a `Choice` of something that no gin file can say
                raise ConfigError(f"{source}: {explain(error, f'{name} = {text}')}") from None


def make_arguments(gin_file, run):
    """Returns the arguments of Python that train a `SweepRun`."""
    settings = {**run.settings, "Experiment.seed": run.seed}
    bindings = [f"--{name}={text}" for name, text in settings.items()]
    return ["-m", "alf", "train", gin_file, f"--output={run.path}", *bindings]


def replicate_first(root_dir, is_stopped):
    """Makes the first run of a sweep again, in a process; returns the exit status of `alf replicate`.

    Args:
        root_dir: path of the sweep. The new run is in its folder `replica`.
        is_stopped: callable () -> whether to end the process.

    """
    pattern = os.path.join(glob.escape(root_dir), "runs", "**", DIGESTS_FILE)
    files = sorted(glob.glob(pattern, recursive=True))
    flag = f"--output={os.path.join(root_dir, 'replica')}"
    command = [sys.executable, "-m", "alf", "replicate", os.path.dirname(files[0]), flag]
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            if is_stopped():
                process.terminate()
            time.sleep(_LOOK_SECONDS)
    return process.returncode
