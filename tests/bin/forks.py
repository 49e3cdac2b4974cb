# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Forks that a test looks at, and sends signals to, while they run."""

import contextlib
import itertools
import json
import os
import signal
import time

from tests.programs import Done, ForkServer

SECONDS = 240.0  # only what hangs takes so long, also beside other busy processes


class Forks(ForkServer):
    """A `ForkServer` whose `start` does not wait for the end."""

    def __init__(self, folder, env, *modules):
        super().__init__(folder, env, *modules)
        self._numbers = itertools.count()

    @contextlib.contextmanager
    def start(self, function, *args, cwd, err=None):
        """Context of a `Fork` that runs a function; it is killed in the end. `err`: path for stderr."""
        number = next(self._numbers)
        out, own_err = (self._folder / f"{name}{number}" for name in ("out", "err"))
        for path in (out, own_err):
            path.write_text("")
        job = [function, list(map(str, args)), str(cwd), str(out), str(err or own_err)]
        fork = Fork(self._ask, self._ask({"start": job}), out, own_err)
        try:
            yield fork
        finally:
            if fork.poll() is None:
                fork.send_signal(signal.SIGKILL)
                fork.finish()

    def _ask(self, request):
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


class Fork:
    """A process. `out` and `err` are the files that it writes."""

    def __init__(self, ask, pid, out, err):
        self.pid, self.out, self.err = pid, out, err
        self._ask, self._status = ask, None

    def poll(self):
        """Returns the exit status, negative after a signal; None while it runs."""
        if self._status is None:
            self._status = self._ask({"poll": self.pid})
        return self._status

    def send_signal(self, signum):
        os.kill(self.pid, signum)

    def wait_until(self, done):
        """Waits until `done()`, while the process runs."""
        deadline = time.monotonic() + SECONDS
        while not done():
            assert self.poll() is None, (self._status, self.out.read_text(), self.err.read_text())
            assert time.monotonic() < deadline, self.err.read_text()
            time.sleep(0.02)

    def finish(self):
        """Waits for the end; returns a `Done`."""
        deadline = time.monotonic() + SECONDS
        while self.poll() is None:
            assert time.monotonic() < deadline, self.err.read_text()
            time.sleep(0.02)
        return Done(self._status, self.out.read_text(), self.err.read_text())
