# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Many runs: `alf-sweep --env=CartPole-v1 --root_dir=DIR --seeds=0,1 --grid='NAME=[VALUE, ...]'`.

It names what to train as alf-train does: FILE.gin, --env, --algorithm, --steps, --NAME=VALUE. Trains each
combination of the grid, of the samples of `Sweep.settings` and of the seeds as a run of its own, as many at a
time as have room: each has --run_cores of --max_cores. With --cluster they run in a Ray cluster. The same
command goes on with a sweep, and may ask for more seeds, values or samples. In DIR, runs/ has the runs,
sweep.md and sweep.csv the table of the objective by settings, runs.csv all runs, and curves.png the picture.

The exit status is 0 if all runs have finished, 1 if one has failed or after another error, 2 if a setting is
wrong, and 128 plus its number if a signal (SIGINT, SIGTERM, SIGHUP) ended it; the runs are saved first.
"""

import signal

from absl import flags

from alf.bin.command import Stopper, make_main, start, start_work
from alf.bin.experiment_flags import NAMES, check_says_what, read_config, split_arguments
from alf.bin.flags import share, show
from alf.bin.signals import list_hangups, on_signal
from alf.studies.run_sweep import Limits, check_flags, replicate_first, run_sweep

ROOT_DIR, RAY_ADDRESS, *_ = share("root_dir", "ray_address", *NAMES)

SEEDS = flags.DEFINE_list("seeds", ["0"], "Values of Experiment.seed, a run with the same settings for each.")
GRID = flags.DEFINE_multi_string(
    "grid",
    [],
    "NAME=[VALUE, ...], values of a gin binding to try; may be repeated: all combinations are tried.",
)
MAX_CORES = flags.DEFINE_integer(
    "max_cores", None, "Cores that all runs share; by default all cores of this process or of the cluster."
)
RUN_CORES = flags.DEFINE_integer("run_cores", 1, "Cores of each run, which it has to itself.")
MAX_MEMORY = flags.DEFINE_float("max_memory", None, "GB that all runs share; needs --run_memory.")
RUN_MEMORY = flags.DEFINE_float("run_memory", None, "GB that each run is expected to need.")
RUN_GPUS = flags.DEFINE_integer("run_gpus", 0, "GPUs of each run, which it has to itself.")
REPLICATE = flags.DEFINE_bool(
    "replicate", False, "Makes the first run again in the end, as alf-replicate does; status 1 if it differs."
)
CLUSTER = flags.DEFINE_bool("cluster", False, "Runs are processes of a Ray cluster (--ray_address).")


def run(arguments):
    """Trains many times as the flags say; returns the exit status."""
    arguments = split_arguments(arguments)
    check_says_what(arguments)
    limits = Limits(
        RUN_CORES.value,
        MAX_CORES.value,
        RUN_MEMORY.value,
        MAX_MEMORY.value,
        RUN_GPUS.value,
        CLUSTER.value,
        RAY_ADDRESS.value,
    )
    seeds = check_flags(ROOT_DIR.value, SEEDS.value, limits)
    stopper = Stopper()
    # Before `on_signal`: nothing has begun yet, so a signal may end the process at once.
    start_work()
    with on_signal((signal.SIGINT, signal.SIGTERM, *list_hangups()), stopper):
        read_config(arguments)
        status = run_sweep(ROOT_DIR.value, seeds, GRID.value, limits, stopper.watch, REPLICATE.value)
        if REPLICATE.value and not status and stopper.signum is None:
            status = replicate_first(ROOT_DIR.value, lambda: stopper.signum is not None)
    if stopper.signum is None:
        return status
    show(f"{stopper.runner.stop_reason}; the same command goes on")
    return 128 + stopper.signum


main = make_main(run, takes_arguments=True)


def console_main():
    start(main, takes_settings=True)


if __name__ == "__main__":
    console_main()
