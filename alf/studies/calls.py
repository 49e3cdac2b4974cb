# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""sweep and pbt: many runs in one call, as the commands `alf sweep` and `alf pbt` make them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from alf.algorithms import AlgorithmName
from alf.config.kinds import AtLeast, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from alf.config.parsing import wrong_calls_are_config_errors
from alf.config.registry import own_config
from alf.config.settings import checked
from alf.core.annotations import FilePath
from alf.core.files import find_path
from alf.errors import ConfigError, is_notebook
from alf.runs.untold import list_untold
from alf.studies.resources import Resources
from alf.studies.run_study import check_population, check_sweep, plan_population, plan_sweep
from alf.studies.study import Studied
from alf.training.ending import ending_at_signals
from alf.training.train import read_call


@checked
def sweep(
    what: FilePath | Callable[..., Any],
    root_dir: FilePath,
    algorithm: AlgorithmName | Callable[..., Any] | None = None,
    steps: PositiveInt | None = None,
    seeds: Sequence[NonNegativeInt] = (0,),
    grid: Mapping[str, Sequence[Any]] | None = None,
    run_cores: PositiveFloat | None = None,
    max_cores: PositiveInt | None = None,
    run_gpus: NonNegativeFloat = 0,
    run_memory: PositiveFloat | None = None,
    max_memory: PositiveFloat | None = None,
    ray_address: str | None = None,
    **settings: Any,
) -> Studied:
    """Trains with all seeds and all combinations of settings, as `alf sweep` does.

        best, table = alf.sweep("CartPole-v1", "sweep", seeds=[0, 1], grid={"learning_rate": [1e-3, 1e-4]})
        agent = alf.load_agent(best)

    Each run is a process of its own. The same call goes on with a sweep that was stopped, and may ask for
    more seeds or values.

    Args:
        what: as for `alf.train`; an environment must be one that another process can import.
        root_dir: path of the sweep's directory.
        algorithm, steps: as for `alf.train`.
        seeds: ints, values of `Experiment.seed`: a run with the same settings for each.
        grid: dict from the name of a setting to the list of values to try: all combinations are tried.
        run_cores: cores of each run, which it has to itself; below 1: a share of all.
        max_cores: cores for all runs. None: all that there are.
        run_gpus: GPUs of each run, which sees no others; below 1: several runs share each GPU.
        run_memory, max_memory: GB that each run is expected to need, and GB for all runs.
        ray_address: address of a Ray cluster in which the runs are. None: RAY_ADDRESS or this machine.
        **settings: as for `alf.train`; also settings of the search: `**{"Sweep.num_samples": 4}`.

    Returns:
        `Studied`, a tuple of the path of the best run and a list with a dict for each run.

    Raises:
        ConfigError: if a setting is wrong. Then nothing is written.
        KeyboardInterrupt: after Ctrl-C, once all runs are saved. In a notebook its text is printed, and the
            call returns.
    """
    resources = Resources(run_cores, max_cores, run_gpus, run_memory, max_memory, ray_address)
    numbers = check_sweep(root_dir, list(map(str, seeds)), resources)
    with own_config(), wrong_calls_are_config_errors():
        _read(what, algorithm, steps, settings)
        carry_out = plan_sweep(root_dir, numbers, grid or {}, resources)
    return _carry_out(carry_out, root_dir)


@checked
def pbt(
    what: FilePath | Callable[..., Any],
    root_dir: FilePath,
    population: Annotated[int, AtLeast(2)],
    algorithm: AlgorithmName | Callable[..., Any] | None = None,
    steps: PositiveInt | None = None,
    run_cores: PositiveFloat | None = None,
    max_cores: PositiveInt | None = None,
    run_gpus: NonNegativeFloat = 0,
    run_memory: PositiveFloat | None = None,
    max_memory: PositiveFloat | None = None,
    ray_address: str | None = None,
    **settings: Any,
) -> Studied:
    """Trains a population, as `alf pbt` does.

        rates = {"Adam.learning_rate": LogUniform(1e-5, 1e-2)}
        tuned = {"Population.settings": rates, "Population.interval": 20_000}
        best, table = alf.pbt("CartPole-v1", "pbt", population=4, **tuned)

    Each member is a process of its own. The same call goes on with a population that was stopped.

    Args:
        what: as for `alf.train`; an environment must be one that another process can import.
        root_dir: path of the population's directory.
        population: int, the number of members, at least 2.
        algorithm, steps: as for `alf.train`.
        run_cores: cores of each member, which it has to itself; below 1: a share of all. None: 1, or an equal
            share of fewer cores than members.
        max_cores, run_gpus, run_memory, max_memory, ray_address: as for `alf.sweep`.
        **settings: as for `alf.train`, with those of the `Population`.

    Returns:
        `Studied`, a tuple of the path of the best member and a list with a dict for each interval.

    Raises:
        ConfigError: if a setting is wrong. Then nothing is written.
        EnvError: if all members are lost.
        KeyboardInterrupt: as `alf.sweep`.
    """
    resources = Resources(run_cores, max_cores, run_gpus, run_memory, max_memory, ray_address)
    check_population(root_dir, population, resources)
    with own_config(), wrong_calls_are_config_errors():
        _read(what, algorithm, steps, settings)
        carry_out = plan_population(root_dir, population, resources)
    return _carry_out(carry_out, root_dir)


def _read(what, algorithm, steps, settings):
    """Reads into gin's configuration what runs train; ConfigError if a process could not be told."""
    read_call(what, algorithm, steps, settings)
    for name, value in list_untold().items():
        if not name.startswith(("alf.sweep.", "alf.population.")):
            raise ConfigError(
                f"{name} is {value!r}: each run is a process of its own, so name something that it can import"
            )


def _carry_out(carry_out, root_dir):
    """Calls what `plan_sweep` and `plan_population` return, until all runs end, or Ctrl-C makes them save."""
    runners, causes, studied = [], [], None

    def end(cause, signum):
        causes.append(cause)
        for runner in runners:
            runner.stop_reason = cause

    def start(runner):
        # First the runner, then the look, and in `end` the other order: one of the two finds both.
        runners.append(runner)
        if causes:
            runner.stop_reason = causes[0]

    def describe(cause):
        return f"{cause}: its runs are saved in {find_path(root_dir)}. The same call goes on with them"

    try:
        with ending_at_signals(["SIGINT"], end, describe):
            studied = carry_out(start)
    except KeyboardInterrupt as error:
        if not is_notebook() or studied is None:
            raise
        print(error)  # the cell ends as if all runs had ended
    return studied
