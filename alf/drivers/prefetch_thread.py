# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""PrefetchThread: takes the next batch for the learner while it trains on the present one."""

from alf.drivers.threads import DriverThread


class PrefetchThread(DriverThread):
    """Loads a batch, waits until the learner has taken it, and loads the next one: it holds one at most.

    Args:
        coord, queues: as in `DriverThread`.
        load: traced function () -> a batch, as `AsyncOffPolicyDriver.get_training_exps` returns it.
    """

    def __init__(self, coord, queues, load):
        super().__init__(coord, queues, "PrefetchThread")
        self._load = load
        self._batch = None

    def work(self):
        # The batch itself passes in Python: a queue would copy it back into main memory. The queues say whose
        # turn it is. They close with all others, so both waits end with the driver.
        self._batch = self._load()
        self._queues.batch_ready.enqueue(True)
        self._queues.batch_taken.dequeue()

    def take(self):
        """Waits for the batch and returns it; for the learner's thread.

        Raises OutOfRangeError or CancelledError if the queues are closed.
        """
        self._queues.batch_ready.dequeue()
        # The reference goes, too, or the memory of this batch would be held until the next one is there.
        batch, self._batch = self._batch, None
        self._queues.batch_taken.enqueue(True)
        return batch
