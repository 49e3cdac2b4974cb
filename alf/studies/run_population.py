# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Carries out `alf pbt`, from its flags to the last line that it prints."""

import os

import gin

from alf.config.comparison import parse_settings
from alf.config.parsing import parse_config, take_bindings, wrong_calls_are_config_errors
from alf.config.registry import own_config
from alf.distributed.cluster import connect
from alf.errors import ConfigError, EnvError, import_extra
from alf.runs.run_dir import POPULATION_FILE
from alf.studies.member_room import find_helpers, request_resources
from alf.studies.placement import Cluster, Machine, find_gpus
from alf.studies.population_settings import Population
from alf.studies.population_study import PopulationStudy
from alf.studies.runner import finish_study
from alf.studies.tunables import make_bindings


def run_population(root_dir, num_members, ray_address, on_start):
    """Trains a population, or goes on with one in the folder; prints the best member.

    Gin's configuration says what the members train.

    Args:
        root_dir: path of the folder.
        num_members: int.
        ray_address: address of a Ray cluster in which members train; None: `find_place` chooses.
        on_start: callable (`Runner`), called before the first member starts.

    Returns:
        the reason why the study has ended, a text.

    Raises:
        ConfigError: if a setting is wrong.
        EnvError: if all members are lost.
    """
    population, config, helpers = split_config()
    # Before the folder is made: a wrong setting must leave nothing behind.
    place = find_place(population, num_members, helpers, ray_address)
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


def check_flags(root_dir, num_members):
    """Checks the flags that need nothing else, without TensorFlow."""
    if not root_dir:
        raise ConfigError("-o is missing: name the folder to write to")
    if num_members is None or num_members < 2:
        raise ConfigError(f"--population is {num_members}: it must be an integer, at least 2")
    import_extra("matplotlib", "plot")


def split_config():
    """Takes the bindings of the population out of gin's configuration.

    Returns:
        the `Population`; the text of its members' configuration; and the resources of their collectors and
        evaluations (`find_helpers`) at the largest values of all settings.
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
    # The largest values of all settings, because members that grow must still have room.
    with own_config():
        parse_config([], [config])
        parse_config([], make_bindings(values, population.settings), "Population.settings")
        return population, config, find_helpers()


def find_place(population, num_members, helpers, ray_address=None):
    """Returns the place where members have room, a `Machine` or a `Cluster`.

    It is a `Cluster` if the flag or the environment variable RAY_ADDRESS names one. It is also a `Cluster` if
    members have collectors or evaluations in Ray, which then starts on this machine. Otherwise it is this
    machine.
    """
    if ray_address or os.environ.get("RAY_ADDRESS") or helpers:
        ray = connect(ray_address, log_to_driver=False)
        try:
            needs, _ = request_resources(ray.cluster_resources(), population, num_members, helpers)
            place = Cluster(ray, needs)
            if not place.capacity:
                raise ConfigError(
                    f"Population.num_cpus, num_gpus, resources: no node of the cluster has {needs}"
                )
            return place
        # Nobody else would leave the cluster: there is no place yet that `finish_study` could close.
        except ConfigError:
            ray.shutdown()
            raise
    gpus = find_gpus() if population.num_gpus else []
    total = {"CPU": len(os.sched_getaffinity(0)), "GPU": len(gpus)}
    _, capacity = request_resources(total, population, num_members, helpers)
    per_gpu = int(1 / population.num_gpus) if 0 < population.num_gpus < 1 else 1  # members that share a GPU
    run_gpus = -int(-population.num_gpus // 1)  # Rounded up: a share of a GPU is a place on a whole one.
    # Without cores of their own: members share all cores, and `Population.num_cpus` only limits their number.
    # A GPU that several members share is in the list several times.
    return Machine([], 0, capacity, gpus * per_gpu, run_gpus)
