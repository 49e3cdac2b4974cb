# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Many runs: `alf sweep CartPole-v1 -o DIR --seeds=0,1 --grid='NAME=[VALUE, ...]'`.

It names what to train as alf train does. Trains each combination of the grid, of the samples of
`Sweep.settings` and of the seeds as a run of its own, as many at a time as have room: each has --run_cores of
--max_cores. With --ray_address they run in a Ray cluster. The same command goes on with a sweep, and may ask
for more seeds, values or samples. In DIR, runs/ has the runs, sweep.md and sweep.csv the table of the
objective by settings, runs.csv all runs, and curves.png the picture.

The exit status is 0 if all runs have finished, 1 if one has failed or after another error, 2 if a setting is
wrong, and 128 plus its number if a signal (SIGINT, SIGTERM, SIGHUP) ended it; the runs are saved first.
"""

import signal

from absl import flags

from alf.bin.arguments import check_says_what, find_what, read_what
from alf.bin.command import Stopper, start_work
from alf.bin.flags import make_flags
from alf.bin.show import show
from alf.bin.signals import list_hangups, on_signal
from alf.studies.resources import Resources
from alf.studies.run_sweep import check_flags, replicate_first, run_sweep

FLAGS = make_flags("algorithm", "steps", *Resources._fields, output="Folder of the sweep.")
flags.DEFINE_list(
    "seeds", ["0"], "Values of Experiment.seed, a run with the same settings for each.", flag_values=FLAGS
)
flags.DEFINE_multi_string(
    "grid",
    [],
    "NAME=[VALUE, ...], values of a setting to try, written as in --NAME=VALUE; may be repeated: all "
    "combinations are tried.",
    flag_values=FLAGS,
)
flags.DEFINE_bool(
    "replicate",
    False,
    "Makes the first run again in the end, as alf replicate does; status 1 if it differs.",
    flag_values=FLAGS,
)


def run(arguments):
    """Trains many times as the flags say; returns the exit status."""
    check_says_what(arguments)
    what = find_what(arguments)
    resources = Resources(*(FLAGS[name].value for name in Resources._fields))
    seeds = check_flags(FLAGS.output, FLAGS.seeds, resources)
    stopper = Stopper()
    # Before `on_signal`: nothing has begun yet, so a signal may end the process at once.
    start_work()
    with on_signal((signal.SIGINT, signal.SIGTERM, *list_hangups()), stopper):
        read_what(what, arguments, FLAGS)
        status = run_sweep(FLAGS.output, seeds, FLAGS.grid, resources, stopper.watch, FLAGS.replicate)
        if FLAGS.replicate and not status and stopper.signum is None:
            status = replicate_first(FLAGS.output, lambda: stopper.signum is not None)
    if stopper.signum is None:
        return status
    show(f"{stopper.runner.stop_reason}; the same command goes on")
    return 128 + stopper.signum
