# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""CallWatch: watches the calls of users' code that the training thread makes, and its updates."""

import contextlib
import os
import signal
import sys
import threading

from absl import logging

from alf.core.user_calls import find_user_call, format_stack
from alf.drivers.stage_clock import TRAIN, Spent
from alf.drivers.watch import Watch, print_stacks
from alf.errors import describe_error, is_notebook

_SAVE_SECONDS = 60.0  # for the last checkpoint; what writes it may hang, too


class CallWatch(Watch):
    """Names a call that does not return, with its stack; after a signal such a call ends the process.

    The process ends with 128 plus the signal's number, after a checkpoint of the last finished iteration.
    Between two updates nobody else changes what a checkpoint holds, so another thread may write it. In the
    middle of an update the weights may be changed half: then nothing is saved, and the newest checkpoint is
    named. The process of a notebook does not end at Ctrl-C: such a call is interrupted again.

    Args:
        trainer: the `Trainer`; the present thread is its training thread.
        write_done: callable (reason, counters) that writes `done.json`.
    """

    def __init__(self, trainer, write_done):
        self._trainer, self._write_done = trainer, write_done
        self._stall_timeout = trainer.driver.monitoring.stall_timeout or float("inf")
        self._signal_timeout = trainer.driver.monitoring.signal_timeout or float("inf")
        self._thread = threading.get_ident()
        self._warned_at, self._is_saved = float("-inf"), False
        super().__init__("CallWatch", min(self._stall_timeout, self._signal_timeout))

    def look(self, now):
        call = find_user_call(self._thread)
        if call is None:
            return
        since, signalled = max(call.since, self._resumed_at), self._trainer.signalled
        if signalled is not None:
            signum, came_at = signalled
            limit = self._find_limit(call)
            if now - max(since, came_at) > limit:
                self._end(call, signum, limit)
        elif now - max(since, self._warned_at) > self._stall_timeout:
            self._warned_at = now
            seconds, limit = now - since, self._stall_timeout
            self._log(
                call, f"{call.name} has not returned for {seconds:.1f} s, longer than stall_timeout={limit:g}"
            )

    def _find_limit(self, call):
        """Returns the seconds that a call has after a signal: for an update, twice the time of the others."""
        if not call.is_update:
            return self._signal_timeout
        seconds, times = self._trainer.driver.clocks.learner.read().get(TRAIN, Spent())
        return max(self._signal_timeout, 2 * seconds / max(times, 1))

    def _log(self, call, text):
        logging.error("%s\n%s", text, format_stack(self._thread))
        if call.is_update:  # TensorFlow may be calling the user's code in a thread of its own
            print_stacks()

    def _end(self, call, signum, limit):
        """Saves what can be saved, and ends the process."""
        if self._is_saved:  # in a notebook
            os.kill(os.getpid(), signum)
            return
        text = f"stopped by {signal.Signals(signum).name}: {call.name} has not returned for {limit:g} s"
        self._log(call, text)
        path = None if call.is_update else self._save()
        newest = self._trainer.checkpoints.checkpointer.newest
        saved = f"saved in {path}" if path else f"not saved, the newest checkpoint is {newest}"
        if is_notebook() and signum == signal.SIGINT:
            # Its process has more than this run. From now on each look is another Ctrl-C, which ends the call
            # if it is in Python.
            logging.error("%s; %s", text, saved)
            self._is_saved = True
            return
        self._write_done(f"{text}; {saved}", self._trainer.counters)
        print(f"error: {text}; {saved}", file=sys.stderr, flush=True)
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        os._exit(128 + signum)  # the end of Python would wait for the thread that hangs

    def _save(self):
        """Saves in another thread, which may hang, too; returns the path, or None if nothing is saved."""
        paths = []

        def save():
            try:
                paths.append(self._trainer.checkpoints.save_beside(self._trainer))
                self._trainer.checkpoints.checkpointer.wait_for_replay_buffer()
            except Exception as error:
                logging.error("%s", describe_error(error))

        thread = threading.Thread(target=save, name="LastSave", daemon=True)
        thread.start()
        thread.join(_SAVE_SECONDS)
        return paths[0] if paths else None


def watching_calls(trainer, write_done):
    """Returns a context in which a `CallWatch` watches the present thread, if `Monitoring` has limits."""
    limits = trainer.driver.monitoring.stall_timeout, trainer.driver.monitoring.signal_timeout
    return contextlib.nullcontext() if limits == (None, None) else CallWatch(trainer, write_done)
