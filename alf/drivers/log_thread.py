# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""LogThread: takes records of environment steps from the log queue."""

from alf.drivers.threads import DriverThread


class LogThread(DriverThread):
    """Hands every `LogRecord` of the log queue to `log`, a callable.

    Args:
        coord, queues: as in `DriverThread`.
        log: callable of one `LogRecord`, a dict of tensors by field.
    """

    def __init__(self, coord, queues, log):
        super().__init__(coord, queues, "LogThread")
        self._log = log

    def work(self):
        self._log(self._queues.log_queue.dequeue())
