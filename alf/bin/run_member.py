# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Trains a member of a population; `alf pbt` calls `python -m alf run_member GIN_FILE DIR`.

The exit status is 0 if the member has ended, 1 after an error, 2 if a setting is wrong, and 128 plus its
number if a signal (SIGINT, SIGTERM, SIGHUP, SIGUSR1) ended it.
"""

import signal

from alf.bin.arguments import refuse_settings
from alf.bin.command import exit_after, start_work
from alf.bin.flags import make_flags
from alf.core.signals import list_endings, on_signal

FLAGS = make_flags()
_BUILD_SECONDS = 2.0  # until the process ends after a signal that comes before training


def run(arguments):
    """Trains the member; returns the exit status."""
    refuse_settings(arguments, FLAGS)
    start_work()
    from alf.studies.member import Member

    # It only reads its order here: there is nothing that a signal could lose yet.
    member, signals = Member(*arguments.names), []

    def stop(signum):
        # In the thread of `on_signal`.
        signals.append(signum)
        member.stop(f"stopped by {signal.Signals(signum).name}", signum)
        # Nothing to save yet, and a constructor of an environment may hang.
        if not member.is_training:
            exit_after(_BUILD_SECONDS, 128 + signum)

    with on_signal(list_endings(), stop):
        has_ended = member.train()
    return 0 if has_ended else 128 + signals[0]
