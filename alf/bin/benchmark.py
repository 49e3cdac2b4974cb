# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Measures the speed of a run: `alf benchmark CartPole-v1 [--measure_seconds=N] [--sample_only]`.

It names what to train as alf train does. First only the environments and actors run, and nothing is learned;
then the learner runs, too. Prints one JSON object: environment steps per second and used CPU cores of both,
and updates per second. --sample_only leaves out the learner. `alf benchmark DIR` takes the configuration of
the run in DIR, and the policy of its --checkpoint.
Nothing is written. The exit status is 0, 1 after an error, 2 if a setting is wrong, 130 after Ctrl-C.
"""

import json

from absl import flags

from alf.bin.arguments import check_says_what, find_what, list_settings
from alf.bin.command import start_work
from alf.bin.flags import make_flags

FLAGS = make_flags("checkpoint", "algorithm", "steps")
flags.DEFINE_float("measure_seconds", 20.0, "Seconds of each of the two measurements.", flag_values=FLAGS)
flags.DEFINE_bool("sample_only", False, "Measures only without the learner.", flag_values=FLAGS)


def run(arguments):
    """Measures as the flags say; returns the exit status."""
    values = {name: FLAGS[name].value for name in ("algorithm", "steps", "measure_seconds", "sample_only")}
    checkpoint = FLAGS.checkpoint if FLAGS["checkpoint"].present else None
    # What can be wrong without TensorFlow, whose import takes seconds.
    check_says_what(arguments)
    find_what(arguments)
    start_work()
    from alf.tools.throughput import benchmark

    result = benchmark(*arguments.names, checkpoint=checkpoint, **values, **list_settings(arguments))
    print(json.dumps(result, indent=2), flush=True)
    return 0
