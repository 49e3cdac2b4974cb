# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Transfers: fetches the answers of collectors from their nodes to this process."""

import collections
from typing import Any, NamedTuple

from alf.core.running_time import running_time
from alf.distributed import answers
from alf.distributed.aggregator_actor import AggregatorActor
from alf.distributed.ray_process import first_line, is_ready


class Request(NamedTuple):
    """A request to a collector for one answer."""

    index: int  # type: ignore[assignment]  # of the collector
    actor: Any  # Ray's handle of the actor that was asked; its successor has another one
    answer: Any  # Ray's reference of the answer
    node: Any  # Ray's reference of the id of the answer's node, which is ready as soon as the answer is
    since: float  # seconds of `running_time`


class LostError(Exception):
    """Answers are lost.

    Args:
        requests: list of the `Request`s whose answers are lost.
        reason: text that tells what the collector did, such as "has died".
    """

    def __init__(self, requests, reason):
        super().__init__(reason)
        self.requests, self.reason = requests, reason


class _Transfer(NamedTuple):
    """An answer, or a joined one, on its way."""

    reference: Any  # Ray's, of an answer or of a joined one
    requests: list
    since: float


class Transfers:
    """Fetches answers in lanes: one at a time in each lane, in their order.

    Each collector has a lane. With aggregation each node has a lane and an `AggregatorActor` instead, which
    joins the answers of its node that came while an earlier one was on its way. So answers are joined if the
    learner is slower than the collectors, and an answer never waits for others to come.

    Args:
        ray: the module.
        max_joined: how many answers are joined, at most; with 1 there are no aggregators.
        compresses: whether aggregators compress.
        timeout: seconds after which a transfer is lost.
    """

    def __init__(self, ray, max_joined, compresses, timeout):
        self._ray, self._max_joined, self._timeout = ray, max_joined, timeout
        self._compresses = compresses
        self._waiting = collections.defaultdict(collections.deque)  # `Request`s by lane
        self._transfers = {}  # the `_Transfer` on its way in each lane
        self._aggregators = {}  # by lane

    def add(self, request, node):
        """Takes over a request whose answer is ready at a node, given by its id."""
        lane = node if self._max_joined > 1 else request.index
        self._waiting[lane].append(request)
        if lane not in self._transfers:
            self._start(lane)

    def references(self):
        """Returns a dict from Ray's references, each ready when an answer has arrived, to their lanes."""
        return {transfer.reference: lane for lane, transfer in self._transfers.items()}

    def take(self, lane):
        """Takes the answer of a lane that has arrived.

        Returns:
            list of the `Request`s, and the arrays, in which each request has equally many rows.

        Raises:
            LostError: if the answer is lost on its way.
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
        latest = running_time() - self._timeout
        # `_lose` changes the dict, which ends the loop. The next call finds other late transfers.
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
            # References as arguments: the aggregator reads the answers in the shared memory of its node, and
            # only the joined one travels.
            reference = self._aggregator(lane).join.remote(*[request.answer for request in requests])
        self._transfers[lane] = _Transfer(reference, requests, running_time())

    def _end(self, lane):
        """Ends the transfer of a lane, and starts the next one."""
        del self._transfers[lane]
        if self._waiting[lane]:
            self._start(lane)
        else:
            del self._waiting[lane]

    def _lose(self, lane, reason):
        """Ends the transfer of a lane and kills its aggregator, which may hang; returns the LostError."""
        # Its other answers wait in the lane, not in the aggregator: the next transfer makes a new one.
        if lane in self._aggregators:
            self._ray.kill(self._aggregators.pop(lane))
        requests = self._transfers[lane].requests
        self._end(lane)
        return LostError(requests, reason)

    def _aggregator(self, node):
        """Returns the aggregator on a node. If it dies, Ray starts it again and repeats its work."""
        if node not in self._aggregators:
            # Soft, so that it can start elsewhere once the node is lost; without a CPU, so that it has room.
            near = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=True)
            actor_class = self._ray.remote(
                num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy=near
            )(AggregatorActor)
            self._aggregators[node] = actor_class.remote(self._compresses)
        return self._aggregators[node]
