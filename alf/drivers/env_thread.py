# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""EnvThread: steps batched environments and fills the learn queue. `EnvUnroller.unroll` is its loop."""

import contextlib

from alf.drivers.stage_clock import HAND_OVER, LOG, REST
from alf.drivers.threads import QUEUE_CLOSED, DriverThread


class EnvThread(DriverThread):
    """Resets the environments of a loop, then makes unrolls of them until the driver stops.

    Args:
        coord, queues: as in `DriverThread`.
        env_index: int, the index of the loop's first environment; most threads have one.
        unroller: `EnvUnroller`.
        first_frame: traced function `EnvUnroller.first_frame`.
        unroll: traced function (env_index, frame) that makes an unroll of each environment and puts them into
            the queues. It returns the first `Frame` of the next unroll, and float64 seconds [2] for which the
            log queue and the learn queue were full.
        clock: `StageClock` of this thread.
        orders: `NestFIFOQueue` in lockstep and overlap: each True orders one unroll of each, each False an
            `answer`. Else None.
        start_delay: seconds before the environments are reset for the first time.
    """

    def __init__(
        self, coord, queues, env_index, unroller, first_frame, unroll, clock, orders=None, start_delay=0.0
    ):
        super().__init__(coord, queues, f"EnvThread-{env_index}")
        self._env_index = env_index
        self._unroller = unroller
        self._first_frame = first_frame
        self._unroll = unroll
        self._clock = clock
        self._orders = orders
        self._start_delay = start_delay
        self._frame = None

    def ask(self, function):
        future = super().ask(function)
        wake(self._orders)
        return future

    def work(self):
        self.answer()
        if self._unroller.begins[self._env_index]:
            # The wait ends early when the driver stops. The reset is a piece of work by itself: `run` looks
            # for a stop again before the first unroll.
            if not self._coord.wait_for_stop(self._start_delay):
                self._start_delay = 0.0
                self._clock.lap(REST)
                self._frame = self._unroller.begin(self._first_frame, self._env_index)
            return
        if self._orders is not None:
            # `times=0`: the wait belongs to the hand-over of the unroll before, which is counted already.
            is_unroll = self._orders.dequeue()
            self._clock.lap(HAND_OVER, times=0)
            if not is_unroll:
                return
        # The last frame stays with this thread. It is row 0 of the next unroll, so unrolls overlap in a row.
        self._frame, waits = self._unroller.run(self._unroll, self._env_index, self._frame)
        lap_hand_over(self._clock, waits, len(self._unroller.members(self._env_index)))


def wake(orders):
    """Makes a thread that waits for orders look whether it was asked something; `orders` may be None."""
    if orders is not None:
        # Whoever waits for the answer sees that the driver stops.
        with contextlib.suppress(*QUEUE_CLOSED):
            orders.enqueue(False)


def lap_hand_over(clock, waits, times=1):
    """Counts the time since the last lap, after a thread has put unrolls into the queues.

    Args:
        clock: `StageClock` of the thread.
        waits: float64 seconds [2] for which the log queue and the learn queue were full.
        times: int, the number of unrolls.
    """
    log, learner = waits.numpy().tolist()
    clock.lap(REST, [(LOG, log, times), (HAND_OVER, learner, times)], times)
