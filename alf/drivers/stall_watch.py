# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""StallWatch: finds out that a driver waits for something that does not come."""

import faulthandler
import threading
import time

from absl import logging

from alf.drivers.env_specs import name_env
from alf.errors import StallError

_STDERR = 2  # the file descriptor: `sys.stderr` may have none
_DUMP_SECONDS = 5.0  # that the environments have to print the stacks of their worker processes


class StallWatch(threading.Thread):
    """Looks from time to time whether an environment or `collect` has waited for too long.

    Then it logs an error, and prints the stacks of all threads and of the environments' worker processes.

    Args:
        coord: the driver's `tf.train.Coordinator`. The watch ends when it stops.
        envs: the driver's batched environments.
        calls: `EnvUnroller.calls`.
        get_waiting_since: callable () -> since when `collect` waits, in seconds of `time.monotonic`, or None.
        get_queue_sizes: callable () -> dict.
        timeout: seconds after which a wait is a stall.
        on_error: callable of a `StallError`, which ends the driver. None: the watch warns again after another
            `timeout`.
    """

    def __init__(self, coord, envs, calls, get_waiting_since, get_queue_sizes, timeout, on_error):
        super().__init__(name="StallWatch", daemon=True)
        self._coord = coord
        self._envs = envs
        self._calls = calls
        self._get_waiting_since = get_waiting_since
        self._get_queue_sizes = get_queue_sizes
        self._timeout = timeout
        self._on_error = on_error

    def run(self):
        warned_at = float("-inf")
        while not self._coord.wait_for_stop(min(1.0, self._timeout / 5)):
            now = time.monotonic()
            stall = self._find(now, warned_at)
            if stall is None:
                continue
            warned_at = now
            logging.error("%s", stall)
            self._print_stacks()
            if self._on_error is not None:
                self._on_error(StallError(stall))

    def _find(self, now, warned_at):
        """Describes a wait that is too long; None if there is none, or the last warning is not old enough."""
        latest = now - self._timeout
        calls = [(call, i) for i, call in enumerate(self._calls) if call is not None]
        calls.sort(key=lambda call: call[0][1])
        descriptions = [
            f"{name_env(i, self._envs[i])} in {stage} for {now - since:.1f} s" for (stage, since), i in calls
        ]
        waiting_since = self._get_waiting_since()
        if warned_at > latest:
            return None
        is_waiting = waiting_since is not None and waiting_since < latest
        # `collect` may have begun to wait a moment before the environment that it waits for was called.
        if calls and calls[0][0][1] < (latest + self._timeout / 2 if is_waiting else latest):
            what, others = descriptions[0], descriptions[1:]
        elif is_waiting:
            what, others = f"collect waits for {now - waiting_since:.1f} s", descriptions
        else:
            return None
        return (
            f"{what}, longer than stall_timeout={self._timeout:g}; also in a call: "
            f"{', '.join(others) or 'no environment'}; queues: {self._get_queue_sizes()}"
        )

    def _print_stacks(self):
        faulthandler.dump_traceback(_STDERR, all_threads=True)
        # In a thread, since also this may hang.
        thread = threading.Thread(target=self._dump_environments, name="StackDump", daemon=True)
        thread.start()
        thread.join(_DUMP_SECONDS)

    def _dump_environments(self):
        for index, env in enumerate(self._envs):
            try:
                getattr(env, "dump_stacks", lambda: None)()
            except Exception as error:
                logging.warning("%s: dump_stacks() failed: %r", name_env(index, env), error)
