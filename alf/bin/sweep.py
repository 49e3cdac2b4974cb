# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Many runs: `alf sweep CartPole-v1 -o DIR --seeds=0,1 --grid='NAME=[VALUE, ...]'`.

It names what to train as alf train does. Trains each combination of the grid, of the samples of
`Sweep.settings` and of the seeds as a run of its own, as many at a time as have room: each has --run_cores of
--max_cores. With --ray_address they run in a Ray cluster. The same command goes on with a sweep, and may ask
for more seeds, values or samples. In DIR, runs/ has the runs, sweep.md and sweep.csv the table of the
objective by settings, runs.csv all runs, and curves.png the picture.

The exit status is 0 if all runs have finished, 1 if one has failed or after another error, 2 if a setting is
wrong, and 128 plus its number if a signal (SIGINT, SIGTERM, SIGHUP, SIGUSR1) ended it; the runs are saved
first.
"""

from absl import flags

from alf.bin.arguments import check_says_what
from alf.bin.command import run_many
from alf.bin.flags import make_flags
from alf.studies.outcome import FAILED
from alf.studies.resources import Resources
from alf.studies.run_study import check_sweep, plan_sweep, replicate_first
from alf.studies.settings import parse_grid

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
    resources = Resources(*(FLAGS[name].value for name in Resources._fields))
    seeds = check_sweep(FLAGS.output, FLAGS.seeds, resources)

    def carry_out(stopper):
        # After the gin files, which may import what the values of a grid name.
        plan = plan_sweep(FLAGS.output, seeds, parse_grid(FLAGS.grid), resources, FLAGS.replicate)
        done = plan(stopper.watch)
        has_failed = any(run["status"] == FAILED for run in done.table)
        if FLAGS.replicate and not has_failed and stopper.signum is None:
            return replicate_first(FLAGS.output, lambda: stopper.signum is not None)
        return int(has_failed)

    return run_many(arguments, FLAGS, carry_out)
