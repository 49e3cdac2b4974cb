# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""CollectorThread: receives the unrolls of collectors in other processes and puts them into the queues."""

import abc
from typing import Any

import tensorflow as tf

from alf.drivers.env_thread import lap_hand_over, wake
from alf.drivers.stage_clock import HAND_OVER, RECEIVE
from alf.drivers.threads import DriverThread
from alf.errors import ConfigError, InterruptedDriverError

# Queues that close do not wake a thread that waits for Ray, so it must look by itself.
_RECEIVE_SECONDS = 0.5  # the longest wait for unrolls until the thread looks whether the driver stops


class Collectors(abc.ABC):
    """Several `Collector`s in other processes, for a driver.

    Attributes:
        num_collectors: int.
        num_groups: int, batched environments of all collectors together.
        num_unrolls: int, N, unrolls in one answer of one collector.
        specs: `EnvSpecs` of the environments.
        broadcast_interval: int, updates after which the collectors get new weights.
        max_requests_in_flight: int, requests that a collector has at a time.
        weights_dtype: text, the dtype in which `get_weights` returns trainable weights.
        attributes: dict by name of the attributes of environments that collectors get when they start.
    """

    num_collectors: int
    num_groups: int
    num_unrolls: int
    specs: Any
    broadcast_interval: int
    max_requests_in_flight: int
    weights_dtype: str
    attributes: dict[str, Any]

    def check_all_answer(self, mode):
        """Raises ConfigError unless one answer of each collector makes one unroll of each environment."""
        if self.num_unrolls * self.num_collectors != self.num_groups:
            raise ConfigError(
                f"DriverSettings.mode is {mode!r}: num_unrolls of the collectors must be their num_groups "
                f"then, not {self.num_unrolls}"
            )

    @abc.abstractmethod
    def start(self, unroll_length):
        """Starts the collectors, which make unrolls of `unroll_length` transitions. Call `publish` first."""

    @abc.abstractmethod
    def publish(self, weights):
        """Sets the weights for later requests, a list of arrays from `get_weights`.

        The learner's thread calls it, while the thread of the collectors calls `request` and `receive`.
        """

    @abc.abstractmethod
    def request(self, index):
        """Asks collector `index` for one more answer; does nothing if the run goes on without it."""

    @abc.abstractmethod
    def receive(self, timeout):
        """Waits for an answer at most `timeout` seconds.

        It repeats the requests of a collector that it replaces.

        Returns:
            list of the indices of the collectors that have answered; and their unrolls, as
            `Collector.collect` returns them, joined along N. None if there is no answer, perhaps before the
            time is over.

        Raises:
            EnvError: if collectors are lost more often than the settings allow.
        """

    @abc.abstractmethod
    def ask(self, method, *args):
        """Asks each collector to call its method "call_envs" or "set_attr", between two answers."""

    @abc.abstractmethod
    def receive_results(self, timeout):
        """Waits at most `timeout` seconds for the results of `ask`.

        Returns a list with the result of each collector with which the run goes on; None if some are missing.
        The method's error is raised, or an EnvError as by `receive`.
        """

    @abc.abstractmethod
    def close(self):
        """Ends all collectors, also collectors that do not answer. May be repeated."""


class CollectorThread(DriverThread):
    """Requests unrolls from `Collectors`, and puts them into the log queue and the learn queue.

    It asks a collector again only when its answer is in the learn queue. So a full learn queue stops the
    collectors, and memory is bounded.

    Args:
        coord, queues: as in `DriverThread`.
        collectors: `Collectors`.
        hand_over: traced function (list of arrays from `Collector.collect`) -> float64 seconds [2] for which
            the log queue and the learn queue were full.
        clock: `StageClock` of this thread.
        orders: `NestFIFOQueue` in lockstep and overlap: each True orders one answer of each collector, each
            False an `answer` of this thread. Else None.
    """

    def __init__(self, coord, queues, collectors, hand_over, clock, orders=None):
        super().__init__(coord, queues, "CollectorThread")
        self._clock = clock
        self._collectors = collectors
        self._hand_over = hand_over
        self._orders = orders
        self._is_first = True

    def ask(self, function):
        future = super().ask(function)
        wake(self._orders)
        return future

    def ask_collectors(self, method, *args):
        """Calls a method of each collector; returns the results, a list. In this thread, by `answer`."""
        self._collectors.ask(method, *args)
        while not self._coord.should_stop():
            results = self._collectors.receive_results(_RECEIVE_SECONDS)
            if results is not None:
                return results
        raise InterruptedDriverError("the driver was interrupted")

    def work(self):
        self.answer()
        if self._orders is not None:
            # `collect` publishes new weights before it orders, so the answers come from these weights.
            is_unroll = self._orders.dequeue()
            self._clock.lap(HAND_OVER, times=0)
            if not is_unroll:
                return
            self._request_all()
            # Exactly one answer of each for an order: the learner's batch holds one unroll of each
            # environment.
            # A wait that ended without an answer counts for nothing, and `receive` asks the successor of a
            # lost collector itself.
            missing = self._collectors.num_collectors
            while missing and not self._coord.should_stop():
                missing -= len(self._take())
            return
        if self._is_first:
            # Here and not in the constructor: all requests and answers pass through this thread, so
            # `Collectors` needs no lock for them. Only `publish` comes from another one.
            for _ in range(self._collectors.max_requests_in_flight):
                self._request_all()
            self._is_first = False
        # Each answer is in the learn queue by now; only then its collector may make more.
        for index in self._take():
            self._collectors.request(index)

    def _request_all(self):
        for index in range(self._collectors.num_collectors):
            self._collectors.request(index)

    def _take(self):
        """Receives an answer and puts it into the queues; returns its collectors, or an empty list."""
        answer = self._collectors.receive(_RECEIVE_SECONDS)
        self._clock.lap(RECEIVE, times=int(answer is not None))
        if answer is None:
            return []
        indices, leaves = answer
        lap_hand_over(self._clock, self._hand_over(leaves), len(leaves[0]))
        return indices


def hand_over_all(hand_over, spec, leaves):
    """Puts N unrolls that collectors sent into the queues, one after another, in the graph.

    Args:
        hand_over: callable (unroll) -> float64 [2], the seconds for which it waited at two queues.
        spec: `Experience` of specs of [N, T+1, B, ...].
        leaves: list of tensors, its leaves.

    Returns:
        float64 [2], the sums of these seconds.
    """
    unrolls = tf.nest.pack_sequence_as(spec, leaves)

    def hand_over_one(index, waits):
        unroll = tf.nest.map_structure(lambda x: x[index], unrolls)
        return index + 1, waits + hand_over(unroll)

    # One iteration at a time: the unrolls of an environment must enter the queues in the order of time.
    num_unrolls, start = tf.shape(leaves[0])[0], (0, tf.zeros(2, tf.float64))
    return tf.while_loop(lambda i, _: i < num_unrolls, hand_over_one, start, parallel_iterations=1)[1]
