# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Makes a run again and compares the weights: `alf replicate RUN [-o DIR]`.

RUN is the directory of a run with `Experiment.deterministic = True`. The new run has its settings and its
seed. It is made in DIR, or in RUN-replica, and ends at the last iteration in RUN's `digests.csv`, or at the
first iteration at which the weights differ.

The exit status is 0 if the weights agree, 1 if they differ or after an error, 2 if a setting is wrong, 130
after Ctrl-C.
"""

from alf.bin.arguments import refuse_settings, take_one
from alf.bin.command import start_work
from alf.bin.flags import make_flags
from alf.bin.show import show

FLAGS = make_flags(output="Folder of the new run, by default RUN-replica.")


def run(arguments):
    """Replicates the run that the arguments name; returns the exit status."""
    refuse_settings(arguments, FLAGS)
    original = take_one(arguments, "the folder of a run").rstrip("/")
    start_work()
    from alf.training.replication import list_other_versions, replicate

    root_dir = FLAGS.output or f"{original}-replica"
    for line in list_other_versions(original):
        show(line)
    agree, differ = replicate(original, root_dir)
    if differ is None:
        show(f"{root_dir} has the weights of {original}, bit for bit, up to iteration {agree}")
        return 0
    before = "" if agree is None else f"; up to iteration {agree} it has the same weights"
    show(f"{root_dir} differs from {original} at iteration {differ}{before}")
    return 1
