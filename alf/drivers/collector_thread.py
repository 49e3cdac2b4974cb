# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""CollectorThread: brings the unrolls of collectors in other processes to the log and to the learner."""

import abc
from typing import Any

from alf.drivers.env_thread import lap_hand_over
from alf.drivers.stage_clock import HAND_OVER, RECEIVE
from alf.drivers.threads import DriverThread

_RECEIVE_SECONDS = 0.5  # after which a thread that waits for unrolls looks whether the driver stops


class Collectors(abc.ABC):
    """Several `Collector`s in other processes, for a driver.

    Attributes:
        num_collectors: int.
        num_envs: int; batched environments of all of them together.
        num_unrolls: N, int; unrolls of an answer of one collector.
        specs: `EnvSpecs` of their environments.
        broadcast_interval: int; updates after which they get new weights.
        max_requests_in_flight: int; requests that a collector has at a time.
        weights_dtype: see `get_weights`.
    """

    num_collectors: int
    num_envs: int
    num_unrolls: int
    specs: Any
    broadcast_interval: int
    max_requests_in_flight: int
    weights_dtype: str

    @abc.abstractmethod
    def start(self, unroll_length):
        """Starts the collectors, which make unrolls of `unroll_length` transitions. After `publish`."""

    @abc.abstractmethod
    def publish(self, weights):
        """Sets the weights of later requests, what `get_weights` returned; from the learner's thread."""

    @abc.abstractmethod
    def request(self, index):
        """Asks collector `index` for one more answer."""

    @abc.abstractmethod
    def receive(self, timeout):
        """Waits for an answer at most `timeout` seconds.

        Returns:
            list of the indices of the collectors that have answered; and what `Collector.collect` returned,
            joined along N if they are several. Or None, perhaps before the time is over.

        Raises:
            EnvError: if collectors are lost more often than the settings allow.
        """

    @abc.abstractmethod
    def close(self):
        """Ends all collectors, also those that do not answer. May be repeated."""


class CollectorThread(DriverThread):
    """Requests unrolls of `Collectors`, and puts them into the queues.

    It asks a collector again when its answer is in the learn queue. So a full queue bounds what is under way.

    Args:
        coord, queues: as in `DriverThread`.
        collectors: `Collectors`.
        hand_over: traced function of what `Collector.collect` returns; it returns float64 seconds [2], see
            `lap_hand_over`.
        clock: `StageClock` of this thread.
        orders: in lockstep a `NestFIFOQueue`: each item asks for one answer of each collector; else None.
    """

    def __init__(self, coord, queues, collectors, hand_over, clock, orders=None):
        super().__init__(coord, queues, "CollectorThread")
        self._clock = clock
        self._collectors = collectors
        self._hand_over = hand_over
        self._orders = orders
        self._is_first = True

    def work(self):
        if self._orders is not None:
            self._orders.dequeue()
            self._clock.lap(HAND_OVER, times=0)
            self._request_all()
            missing = self._collectors.num_collectors
            while missing and not self._coord.should_stop():
                missing -= len(self._take())
            return
        if self._is_first:
            for _ in range(self._collectors.max_requests_in_flight):
                self._request_all()
            self._is_first = False
        for index in self._take():
            self._collectors.request(index)

    def _request_all(self):
        for index in range(self._collectors.num_collectors):
            self._collectors.request(index)

    def _take(self):
        """Hands the next answer over; returns whose it is, an empty list if there is none yet."""
        answer = self._collectors.receive(_RECEIVE_SECONDS)
        self._clock.lap(RECEIVE, times=int(answer is not None))
        if answer is None:
            return []
        indices, leaves = answer
        lap_hand_over(self._clock, self._hand_over(leaves), len(leaves[0]))
        return indices
