# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Shows a trained policy, or records it: `alf play DIR [--num_episodes=N] [-o FILE.mp4]`.

`alf play alf:CartPole-v1` plays the agent that ALF brings for one of its tasks.

Plays in one environment, in a window or, with -o, into an .mp4 or .gif. Prints the return and the length of
each episode; in a game of several agents, for each agent. --sample explores as in training; --NAME=VALUE
changes a setting of the environment, such as --sticky_actions=0.25. Ctrl-C ends the last episode, and keeps
the video. The exit status is 0, 1 after an error, 2 if a setting is wrong, and 128 plus its number after a
signal.
"""

import signal
import threading

from absl import flags

from alf.bin.acting import start_acting
from alf.bin.arguments import list_settings
from alf.bin.command import exit_after
from alf.bin.flags import make_flags
from alf.core.signals import on_signal
from alf.evaluation.frames import check_path

FLAGS = make_flags(
    "sample",
    "overwrite",
    "checkpoint",
    "policy",
    "seed",
    output="File to record to, .mp4 or .gif, in place of the screen.",
)
flags.DEFINE_integer("num_episodes", 1, "Episodes.", flag_values=FLAGS, lower_bound=1)


_OF_PLAY = ("num_episodes", "output", "checkpoint", "policy", "seed", "overwrite")
_START_SECONDS = 2.0  # until the process ends after a signal that comes before the first step


def run(arguments):
    """Plays as the flags say; returns the exit status."""
    values = {name: FLAGS[name].value for name in _OF_PLAY}
    if FLAGS.output is not None:  # `play` checks this, too. Here it costs no import of TensorFlow.
        check_path(FLAGS.output, FLAGS.overwrite)
    folder, settings = start_acting(arguments), list_settings(arguments)
    from alf.evaluation.play import play

    signals, begins = [], threading.Event()

    def stop(signum):
        signals.append(signum)
        if not begins.is_set():  # there is no video yet, and an environment's constructor may hang
            exit_after(_START_SECONDS, 128 + signum)

    def should_stop():
        begins.set()
        return bool(signals)  # the frames so far become a whole video

    with on_signal((signal.SIGINT, signal.SIGTERM), stop):
        play(folder, **values, deterministic=not FLAGS.sample, should_stop=should_stop, **settings)
    if signals:
        print(f"stopped by {signal.Signals(signals[0]).name}")
        return 128 + signals[0]
    return 0
