# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""StallWatch: finds environments, and waits for experience, that take too long."""

import threading

from absl import logging

from alf.drivers.env_specs import name_env
from alf.drivers.watch import Watch, print_stacks
from alf.errors import StallError

_DUMP_SECONDS = 5.0  # the time for the environments to print the stacks of their worker processes


class StallWatch(Watch):
    """Looks from time to time whether a call of an environment, or a wait of `collect`, takes too long.

    If so, it logs an error and prints the stacks of all threads and of the environments' worker processes.
    A call or wait counts anew after this process was stopped, by Ctrl-Z for example.

    Args:
        coord: the driver's `tf.train.Coordinator`; the watch ends when it stops.
        envs: the driver's batched environments.
        calls: `EnvUnroller.calls`.
        get_waiting_since: callable () -> start of the present wait of `collect`, in seconds of
            `time.monotonic`, or None.
        get_queue_sizes: callable () -> dict of ints by name.
        timeout: seconds after which a wait is a stall.
        on_error: callable (`StallError`) that ends the driver. None: the driver goes on, and the watch warns
            again after another `timeout`.
    """

    def __init__(self, coord, envs, calls, get_waiting_since, get_queue_sizes, timeout, on_error):
        super().__init__("StallWatch", timeout, coord.wait_for_stop)
        self._envs = envs
        self._calls = calls
        self._get_waiting_since = get_waiting_since
        self._get_queue_sizes = get_queue_sizes
        self._timeout = timeout
        self._on_error = on_error
        self._warned_at = float("-inf")

    def look(self, now):
        stall = self._find(now, self._warned_at)
        if stall is None:
            return
        self._warned_at = now
        logging.error("%s", stall)
        print_stacks()
        # In a thread of its own, because an environment that hangs may hang in this call, too.
        thread = threading.Thread(target=self._dump_environments, name="StackDump", daemon=True)
        thread.start()
        thread.join(_DUMP_SECONDS)
        if self._on_error is not None:
            self._on_error(StallError(stall))

    def _find(self, now, warned_at):
        """Describes a call or wait that is too long; None without one, or soon after the last warning."""
        latest, resumed_at = now - self._timeout, self._resumed_at
        # Each entry is read once: its thread may set it to None between a look and a second one.
        found = [(*call, i) for i, call in enumerate(self._calls) if call is not None]
        calls = [(stage, max(since, resumed_at), i) for stage, since, i in found]
        calls.sort(key=lambda call: call[1])
        descriptions = [
            f"{name_env(i, self._envs[i])} in {stage} for {now - since:.1f} s" for stage, since, i in calls
        ]
        waiting_since = self._get_waiting_since()
        if warned_at > latest:
            return None
        is_waiting = waiting_since is not None and max(waiting_since, resumed_at) < latest
        # `collect` may have begun to wait a moment before the environment that it waits for was called. Half
        # of the timeout is then enough to name the environment, which tells people more than the wait.
        if calls and calls[0][1] < (latest + self._timeout / 2 if is_waiting else latest):
            what, others = descriptions[0], descriptions[1:]
        elif is_waiting:
            what, others = f"collect waits for {now - waiting_since:.1f} s", descriptions
        else:
            return None
        return (
            f"{what}, longer than stall_timeout={self._timeout:g}; also in a call: "
            f"{', '.join(others) or 'no environment'}; queues: {self._get_queue_sizes()}"
        )

    def _dump_environments(self):
        for index, env in enumerate(self._envs):
            try:
                getattr(env, "dump_stacks", lambda: None)()
            except Exception as error:
                logging.warning("%s: dump_stacks() failed: %r", name_env(index, env), error)
