# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Carries out `alf pbt`, from its flags to the last line that it prints."""

import gin

from alf.config.comparison import parse_settings
from alf.config.parsing import parse_config, take_bindings, wrong_calls_are_config_errors
from alf.config.registry import own_config
from alf.errors import ConfigError, EnvError, import_extra
from alf.runs.run_dir import POPULATION_FILE
from alf.studies.population_settings import Population
from alf.studies.population_study import PopulationStudy
from alf.studies.resources import check_resources, find_place
from alf.studies.runner import finish_study
from alf.studies.tunables import make_bindings


def run_population(root_dir, num_members, resources, on_start):
    """Trains a population, or goes on with one in the folder; prints the best member.

    Gin's configuration says what the members train.

    Args:
        root_dir: path of the folder.
        num_members: int.
        resources: `Resources`.
        on_start: callable (`Runner`), called before the first member starts.

    Returns:
        the reason why the study has ended, a text.

    Raises:
        ConfigError: if a setting is wrong.
        EnvError: if all members are lost.
    """
    population, config = split_config()
    # Before the folder is made: a wrong setting must leave nothing behind.
    place = find_place(resources, num_members)
    settings, takes_turns = parse_settings(config), place.capacity < num_members

    def make_study(folder, gin_file, announce):
        rest = settings, gin_file, takes_turns, announce
        return PopulationStudy(folder, population, num_members, *rest)

    with finish_study(root_dir, POPULATION_FILE, config, place, make_study, on_start) as (study, stop_reason):
        if study.evolution.rows:
            study.draw()
    best = study.evolution.best()
    if best is not None:
        print(
            f"member {best} is the best, {population.objective} {study.evolution.objectives[best]:.6g}: "
            f"alf play {study.path_of(best)}"
        )
    if len(study.errors) == num_members:
        raise EnvError(f"all members are lost; the first one: {study.errors[0]}")
    return stop_reason or study.stop_reason or "all members have ended"


def check_flags(root_dir, num_members, resources):
    """Checks the flags that need nothing else, without TensorFlow."""
    if not root_dir:
        raise ConfigError("-o is missing: name the folder to write to")
    if num_members is None or num_members < 2:
        raise ConfigError(f"--population is {num_members}: it must be an integer, at least 2")
    import_extra("matplotlib", "plot")
    check_resources(resources)


def split_config():
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
        parse_config([], make_bindings(values, population.settings), "Population.settings")
    return population, config
