# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Workers that hang, found without a wait: on a busy machine a short time-out would end healthy ones, too."""

import functools
import time

from alf.workers.worker import Channel
from tests.workers import envs

_SECONDS = 0.05  # that a worker has to reply once it hangs
_PATIENCE = 120.0  # seconds; longer than any worker takes that does not hang


class Hangs:
    """Ends the time of workers as soon as they hang; the time-outs of all others stay as long as they are.

    Args:
        monkeypatch: of the test.
        folder: an empty folder, in which processes say that they hang.
    """

    def __init__(self, monkeypatch, folder):
        self._folder, self._num_acts = folder, 0
        original = Channel.receive_reply

        def receive_reply(channel, *args):
            deadline = time.monotonic() + _PATIENCE
            while not channel.has_reply():
                if (folder / str(channel.worker.process.pid)).exists():
                    channel.limit_replies(_SECONDS)
                    break
                assert time.monotonic() < deadline, f"{channel.worker.name} neither replies nor hangs"
                time.sleep(0.002)
            return original(channel, *args)

        monkeypatch.setattr(Channel, "receive_reply", receive_reply)

    def make_act(self, how=envs.sleep_for_long):
        """Makes an `act` of a `CountEnv` that hangs once, in the first process that calls it."""
        self._num_acts += 1
        once = self._folder / f"act {self._num_acts}"
        return functools.partial(envs.act_once, once, functools.partial(envs.hang, self._folder, how))

    def note(self, pid):
        """Says that a worker hangs from now on."""
        (self._folder / str(pid)).touch()
