# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""How a driver closes its environments: each one by itself, and all of them before a deadline."""

import threading
import time


class EnvCloser(threading.Thread):
    """Closes an environment once `thread`, which steps it, has ended; at once if `thread` is None.

    Args:
        name: what errors call the environment.
        env: the environment.
        thread: the thread that steps it now, or None.

    Attributes:
        error: what `env.close` raised, or None.
    """

    def __init__(self, name, env, thread):
        # A daemon: an environment that never returns must not keep the process alive.
        super().__init__(name=name, daemon=True)
        self._env = env
        self._thread = thread
        self.error = None

    def run(self):
        if self._thread is not None:
            self._thread.join()
        self._thread = None
        try:
            self._env.close()
        except BaseException as error:
            self.error = error

    def complain(self, stage):
        """Says what is wrong with the environment, in which `stage` of a call it is; None if it is closed."""
        if self.error is not None:
            return f"{self.name} raised {self.error!r} in close()"
        if not self.is_alive():
            return None
        return f"{self.name} is still closing" if self._thread is None else f"{self.name} still {stage}s"


def join_all(threads, timeout):
    """Waits until all threads have ended, but not longer than `timeout` seconds."""
    deadline = time.monotonic() + timeout
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
