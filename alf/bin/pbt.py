# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Population based training: `alf pbt FILE.gin -o DIR --population=N`.

Trains N members, each in a process of its own, with settings from the ranges of `Population.settings`. At the
end of each interval bad members copy good ones and change the settings a little. If not all have room, they
take turns: each has --run_cores of --max_cores. With --ray_address they run in a Ray cluster. The same
command continues a study. DIR/members/K is the run of member K, DIR/population.csv the table of all
intervals, DIR/lineage.png a picture of it.

The exit status is 0 if the study has ended, 1 after an error, 2 if a setting is wrong, and 128 plus its
number if a signal (SIGINT, SIGTERM, SIGHUP, SIGUSR1) ended it; the members are saved first.
"""

from absl import flags

from alf.bin.arguments import check_says_what
from alf.bin.command import run_many
from alf.bin.flags import make_flags
from alf.studies.resources import Resources
from alf.studies.run_study import check_population, plan_population

FLAGS = make_flags("algorithm", "steps", *Resources._fields, output="Folder of the study.")
flags.DEFINE_integer("population", None, "Number of members, at least 2.", flag_values=FLAGS)


def run(arguments):
    """Trains a population as the flags say; returns the exit status."""
    check_says_what(arguments)
    resources = Resources(*(FLAGS[name].value for name in Resources._fields))
    check_population(FLAGS.output, FLAGS.population, resources)

    def carry_out(stopper):
        plan_population(FLAGS.output, FLAGS.population, resources)(stopper.watch)
        return 0

    return run_many(arguments, FLAGS, carry_out)
