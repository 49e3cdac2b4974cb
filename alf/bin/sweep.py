# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Many runs: `alf-sweep --gin_file=FILE --root_dir=DIR --seeds=0,1 --grid='Adam.learning_rate=[0.1, 0.01]'`.

Trains each combination of the grid, of the samples of `Sweep.settings` and of the seeds as a run of its own,
as many at a time as have room: each has --run_cores of --max_cores, in a Ray cluster with --cluster. The same
command goes on with a sweep, and may ask for more seeds, values or samples. In DIR, runs/ has the runs,
sweep.md and sweep.csv the table of the objective by settings, runs.csv all runs, curves.png the picture.

The exit status is 0 if all runs have finished, 1 if one has failed or after another error, 2 if a setting is
wrong, and 128 plus its number if a signal (SIGINT, SIGTERM, SIGHUP) ended it; the runs are saved first.
"""

import functools
import os
import signal
import time

import gin
import tensorflow as tf
from absl import flags, logging

import alf  # noqa: F401  (before TensorFlow)
from alf.bin import config_flags, ray_flags, run_flags
from alf.bin.command import Stopper, make_main, start
from alf.bin.config_flags import GIN_FILE
from alf.bin.ray_flags import RAY_ADDRESS
from alf.bin.run_flags import GIN_PARAM, ROOT_DIR
from alf.bin.signals import list_hangups, on_signal
from alf.config.comparison import parse_settings
from alf.config.imports import list_own_paths
from alf.config.kinds import NonNegativeInt, PositiveFloat, PositiveInt
from alf.config.parsing import parse_config, take_bindings, wrong_calls_are_config_errors
from alf.config.registry import complete, own_config
from alf.config.settings import check_value
from alf.core.files import write_file
from alf.distributed.cluster import connect
from alf.errors import ConfigError, import_extra
from alf.plots.runs import read_run
from alf.runs.folders import SWEEP_FILE
from alf.runs.run_dir import RunDir
from alf.sweep.outcome import FAILED, FINISHED
from alf.sweep.processes import Machine
from alf.sweep.runner import Runner
from alf.sweep.searches import check_once, make_search, parse_grid
from alf.sweep.study import SweepStudy
from alf.sweep.sweep import Sweep
from alf.sweep.table import PICTURE_FILE, draw_curves, make_rows, write_tables

flags.adopt_module_key_flags(config_flags)
flags.adopt_module_key_flags(run_flags)
flags.adopt_module_key_flags(ray_flags)

SEEDS = flags.DEFINE_list("seeds", ["0"], "Experiment.seed of each run of the same settings.")
GRID = flags.DEFINE_multi_string(
    "grid",
    [],
    "NAME=[VALUE, ...], values of a gin binding to try; may be repeated: all combinations are tried.",
)
MAX_CORES = flags.DEFINE_integer(
    "max_cores", None, "Cores that all runs share; by default all that this process, or the cluster, may use."
)
RUN_CORES = flags.DEFINE_integer("run_cores", 1, "Cores of each run, which it has to itself.")
MAX_MEMORY = flags.DEFINE_float("max_memory", None, "GB that all runs share; needs --run_memory.")
RUN_MEMORY = flags.DEFINE_float("run_memory", None, "GB that each run is expected to need.")
RUN_GPUS = flags.DEFINE_integer("run_gpus", 0, "GPUs of each run, which it has to itself.")
CLUSTER = flags.DEFINE_bool("cluster", False, "Runs are processes of a Ray cluster, see --ray_address.")

_GIN_FILE = "config.gin"  # what the gin files say to all runs


def run():
    """Trains many times as the flags say; returns the exit status."""
    stopper = Stopper()
    with on_signal((signal.SIGINT, signal.SIGTERM, *list_hangups()), stopper):
        seeds = _check_flags()
        sweep, grid, config, settings = read_config()
        search = make_search(sweep, grid)
        check_trials(config, grid, sweep.settings)
        place, disconnect = _find_place()
        try:
            run_dir = _open_folder()
            study = SweepStudy(run_dir.path, settings, seeds, search, sweep.objective, sweep.value)
            gin_file = _write_config(run_dir.path, config)
            study.open()
            runner = _make_runner(run_dir.path, study, place, gin_file)
            stopper.watch(runner)
            if stopper.signum is not None:
                return 128 + stopper.signum
            runner.run()
        finally:
            disconnect()
        status = _conclude(run_dir.path, study)
        run_dir.close()
    if stopper.signum is None:
        return status
    print(f"{stopper.study.stop_reason}; the same command goes on")
    return 128 + stopper.signum


def _check_flags():
    """Checks the flags that need nothing else; returns the seeds, a list of ints."""
    if not ROOT_DIR.value:
        raise ConfigError("--root_dir is missing: name the directory to write to")
    if RAY_ADDRESS.value is not None and not CLUSTER.value:
        raise ConfigError(f"--ray_address is {RAY_ADDRESS.value}: it needs --cluster")
    import_extra("matplotlib", "sweep")
    check_value("--run_cores", RUN_CORES.value, PositiveInt)
    check_value("--max_cores", MAX_CORES.value, PositiveInt | None)
    check_value("--run_gpus", RUN_GPUS.value, NonNegativeInt)
    check_value("--run_memory", RUN_MEMORY.value, PositiveFloat | None)
    check_value("--max_memory", MAX_MEMORY.value, PositiveFloat | None)
    if MAX_MEMORY.value is not None and RUN_MEMORY.value is None:
        raise ConfigError(f"--max_memory is {MAX_MEMORY.value:g}: set --run_memory, what each run needs")
    if RUN_MEMORY.value is not None and MAX_MEMORY.value is None and not CLUSTER.value:
        raise ConfigError(f"--run_memory is {RUN_MEMORY.value:g}: set --max_memory, what all runs may use")
    for name, one, all_ in (("cores", RUN_CORES, MAX_CORES), ("memory", RUN_MEMORY, MAX_MEMORY)):
        if None not in (one.value, all_.value) and all_.value < one.value:
            raise ConfigError(f"--max_{name} is {all_.value:g}: one run needs --run_{name}={one.value:g}")
    return _parse_seeds(SEEDS.value)


def _parse_seeds(texts):
    if not texts or not all(text.strip().isdecimal() for text in texts):
        raise ConfigError(f"--seeds is {','.join(texts)!r}: it must be integers, at least 0, such as 0,1,2")
    seeds = [int(text) for text in texts]
    check_once(f"--seeds is {','.join(texts)}", seeds)
    return seeds


def read_config():
    """Reads gin and the grid.

    Returns:
        the `Sweep`; the grid, see `parse_grid`; the configuration of the runs as a text; and all bindings,
        also those of the sweep, as a dict of texts by name.
    """
    parse_config(GIN_FILE.value, GIN_PARAM.value)
    grid = parse_grid(GRID.value)  # it may name what a gin file imports
    settings = parse_settings(gin.config_str())
    with wrong_calls_are_config_errors():
        sweep = Sweep()
    take_bindings("alf.sweep")
    take_bindings("alf.population", only_read=True)  # the ranges; a PolicyPopulation is the runs' own
    drawn = set(map(complete, sweep.settings))
    for name in (*grid, *sweep.settings):
        if name in grid and complete(name) in drawn:
            raise ConfigError(f"--grid has {name}, and so has Sweep.settings: name it once")
        if f".{name}".endswith(".Experiment.seed"):
            raise ConfigError("Experiment.seed is set by --seeds, not as a setting to try")
    config = gin.config_str()
    evaluates = any(name.endswith("Trainer.evaluator_ctor") for name in settings)
    if sweep.objective.startswith("eval/") and not evaluates:
        raise ConfigError(f"Sweep.objective is {sweep.objective!r}: set Trainer.evaluator_ctor")
    return sweep, grid, config, settings


def check_trials(config, grid, ranges):
    """Raises ConfigError if a setting, or a value that may be tried, is nothing that gin can read."""
    with own_config():
        parse_config([], [config])
        for name, texts in grid.items():
            for text in texts:
                _check_binding("--grid", f"{name} = {text}")
        for name, values in ranges.items():
            for value in values.limits or values.values:
                _check_binding("Sweep.settings", f"{name} = {value!r}")


def _check_binding(source, binding):
    try:
        parse_config([], [binding], source)
    except ConfigError as error:
        raise ConfigError(f"{source}: {str(error).removeprefix(f'{source}: ')}") from None


def _find_place():
    """Returns where runs have room, a `Machine` or a `Cluster`, and what ends the use of it."""
    if CLUSTER.value:
        ray = connect(RAY_ADDRESS.value, log_to_driver=False)
        from alf.sweep.cluster import Cluster  # after `connect`

        limits = RUN_CORES.value, RUN_MEMORY.value, MAX_CORES.value, MAX_MEMORY.value
        try:
            return Cluster(ray, *limits, RUN_GPUS.value), ray.shutdown
        except ConfigError:
            ray.shutdown()
            raise
    cores = sorted(os.sched_getaffinity(0))
    for name, flag in (("max_cores", MAX_CORES), ("run_cores", RUN_CORES)):
        if flag.value is not None and flag.value > len(cores):
            raise ConfigError(f"--{name} is {flag.value}: this process may use {len(cores)} cores")
    max_at_a_time = None if MAX_MEMORY.value is None else int(MAX_MEMORY.value // RUN_MEMORY.value)
    gpus = _find_gpus() if RUN_GPUS.value else []
    if RUN_GPUS.value > len(gpus):
        raise ConfigError(
            f"--run_gpus is {RUN_GPUS.value}: TensorFlow sees {len(gpus)} GPUs in this process, see "
            "CUDA_VISIBLE_DEVICES"
        )
    machine = Machine(cores[: MAX_CORES.value], RUN_CORES.value, max_at_a_time, gpus, RUN_GPUS.value)
    return machine, lambda: None


def _find_gpus():
    """Returns the GPUs that this process may use, a list of texts as CUDA_VISIBLE_DEVICES names them."""
    count = len(tf.config.list_physical_devices("GPU"))
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = map(str, range(count)) if named is None else named.split(",")
    return [name.strip() for name in names][:count]  # CUDA sees none behind a name that it does not know


def _open_folder():
    """Makes and locks the sweep's `RunDir`."""
    run_dir = RunDir(ROOT_DIR.value, SWEEP_FILE)
    run_dir.lock()
    return run_dir


def _write_config(folder, config):
    """Writes the gin file of all runs; returns its path."""
    path = os.path.join(folder, _GIN_FILE)
    write_file(path, config)
    return path


def make_arguments(gin_file, run):
    """The arguments of Python that train a `Run`."""
    bindings = [f"{name} = {text}" for name, text in run.settings.items()]
    bindings.append(f"Experiment.seed = {run.seed}")
    params = [f"--gin_param={binding}" for binding in bindings]
    return ["-m", "alf.bin.train", f"--gin_file={gin_file}", f"--root_dir={run.path}", *params]


def _make_runner(folder, study, place, gin_file):
    started = time.monotonic()

    def announce(text):
        print(f"{time.monotonic() - started:8.1f} s  {text}", flush=True)

    return Runner(
        study,
        place,
        functools.partial(make_arguments, gin_file),
        list_own_paths(),
        announce,
        lambda: write_tables(folder, study),
    )


def _conclude(folder, study):
    """Writes and prints the table and the picture of a sweep that ends; returns the exit status."""
    print(write_tables(folder, study))
    if draw_curves(folder, study):
        print(os.path.join(folder, PICTURE_FILE))
    _check_objective(study)
    best = next((row.best for row in make_rows(study) if row.best is not None), None)
    if best is not None:
        print(f"the best is {best.describe()}: alf-play --root_dir={best.path}")
    failed = sum(outcome.status == FAILED for outcome in study.outcomes.values())
    if failed:
        print(f"{failed} of {study.count} runs have failed; the same command tries them again")
    return int(bool(failed))


def _check_objective(study):
    """Raises ConfigError, which lists the columns, if runs have finished, and none has the objective."""
    finished = [path for path, outcome in study.outcomes.items() if outcome.status == FINISHED]
    if finished and all(study.outcomes[path].objective is None for path in finished):
        columns = sorted({name for path in finished for name in read_run(path).columns})
        raise ConfigError(
            f"Sweep.objective is {study.objective!r}: no run has it; there are {', '.join(columns)}"
        )


main = make_main(run)


def console_main():
    logging.set_verbosity(logging.WARNING)
    start(main)


if __name__ == "__main__":
    console_main()
