# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Transfers: the way of collectors' answers from their nodes to this process."""

import collections
import time
from typing import Any, NamedTuple

from alf.distributed import answers
from alf.distributed.aggregator_actor import AggregatorActor
from alf.distributed.ray_process import first_line, is_ready


class Request(NamedTuple):
    """One answer that a collector was asked for."""

    index: int  # type: ignore[assignment]  # of the collector
    actor: Any  # Ray's handle of the actor that was asked; its successor has another one
    answer: Any  # Ray's reference of the answer
    node: (
        Any  # Ray's reference of the id of the node where the answer is, which is here as soon as it is there
    )
    since: float  # seconds of `time.monotonic`


class LostError(Exception):
    """Answers are lost.

    Args:
        requests: list of the `Request`s that they answered.
        reason: what the collectors did, a text such as "has died".
    """

    def __init__(self, requests, reason):
        super().__init__(reason)
        self.requests, self.reason = requests, reason


class _Transfer(NamedTuple):
    """What is on its way."""

    reference: Any  # Ray's, of an answer or of a joined one
    requests: list
    since: float


class Transfers:
    """Fetches answers in lanes: one at a time in each lane, in their order.

    Each collector has a lane. With aggregation each node has a lane and an `AggregatorActor` instead. It
    joins the answers of its node that came while the one before was on its way. So answers are joined if the
    learner is slower than the collectors, and no answer ever waits for others.

    Args:
        ray: the module.
        max_joined: answers that are joined, at most; with 1 there are no aggregators.
        compresses: whether aggregators compress.
        timeout: seconds after which a transfer is lost.
    """

    def __init__(self, ray, max_joined, compresses, timeout):
        self._ray, self._max_joined, self._timeout = ray, max_joined, timeout
        self._compresses = compresses
        self._waiting = collections.defaultdict(collections.deque)  # `Request`s by lane
        self._transfers = {}  # by lane
        self._aggregators = {}  # by lane

    def add(self, request, node):
        """Takes over a request whose answer is at a node, which its id names."""
        lane = node if self._max_joined > 1 else request.index
        self._waiting[lane].append(request)
        if lane not in self._transfers:
            self._start(lane)

    def references(self):
        """Those of Ray that will be ready when an answer has arrived, a dict from them to lanes."""
        return {transfer.reference: lane for lane, transfer in self._transfers.items()}

    def take(self, lane):
        """Takes the answer of a lane that has arrived.

        Returns:
            list of the `Request`s, and the arrays, which have as many rows of each.

        Raises:
            LostError: if it has not arrived.
        """
        transfer = self._transfers[lane]
        try:
            arrays = self._ray.get(transfer.reference, timeout=self._timeout)
        except self._ray.exceptions.RayError as error:
            raise self._lose(lane, f"has lost an answer: {first_line(error)}") from None
        self._end(lane)
        return transfer.requests, answers.decompress(arrays)

    def check(self):
        """Raises LostError if a transfer takes longer than the time-out."""
        latest = time.monotonic() - self._timeout
        for lane, transfer in self._transfers.items():
            if transfer.since < latest and not is_ready(self._ray, transfer.reference):
                raise self._lose(lane, f"has sent nothing for {self._timeout:g} s")

    def close(self):
        """Ends the aggregators."""
        for aggregator in self._aggregators.values():
            self._ray.kill(aggregator)
        self._aggregators.clear()

    def _start(self, lane):
        """Starts the next transfer of a lane, of one request or of several."""
        waiting = self._waiting[lane]
        requests = [waiting.popleft() for _ in range(min(len(waiting), self._max_joined))]
        reference = requests[0].answer
        if self._max_joined > 1:
            reference = self._aggregator(lane).join.remote(*[request.answer for request in requests])
        self._transfers[lane] = _Transfer(reference, requests, time.monotonic())

    def _end(self, lane):
        """Ends the transfer of a lane, and starts the next one."""
        del self._transfers[lane]
        if self._waiting[lane]:
            self._start(lane)
        else:
            del self._waiting[lane]

    def _lose(self, lane, reason):
        """Ends the transfer of a lane, and its aggregator; returns the LostError."""
        if lane in self._aggregators:
            self._ray.kill(self._aggregators.pop(lane))
        requests = self._transfers[lane].requests
        self._end(lane)
        return LostError(requests, reason)

    def _aggregator(self, node):
        """The aggregator on a node. Ray starts it again if it dies, and repeats what it did."""
        if node not in self._aggregators:
            near = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=True)
            actor_class = self._ray.remote(
                num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy=near
            )(AggregatorActor)
            self._aggregators[node] = actor_class.remote(self._compresses)
        return self._aggregators[node]
