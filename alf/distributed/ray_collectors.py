# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""RayCollectors: collectors as Ray actors, anywhere in a cluster."""

import collections
import contextlib
import functools
import itertools
import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal

import cloudpickle
import numpy as np
from absl import logging

from alf.config.kinds import PositiveInt
from alf.config.settings import PASSED, Role, configurable
from alf.core.restart_limit import RestartLimit
from alf.core.running_time import running_time
from alf.distributed import answers
from alf.distributed.cluster import RayWatch, connect
from alf.distributed.collector_actor import CollectorActor
from alf.distributed.collector_settings import CollectorSettings
from alf.distributed.ray_process import actor_options, first_line, is_ready, raised
from alf.distributed.reservation import Group, Reservation, check_room
from alf.distributed.transfers import LostError, Request, Transfers
from alf.drivers.collector import Collector
from alf.drivers.collector_thread import Collectors
from alf.drivers.env_specs import EnvSpecs
from alf.errors import ConfigError, EnvError

_MAX_FAILED_STARTS = 3  # of one collector in a row, before the run ends


@configurable("alf.distributed")
class RayCollectors(Collectors):
    """Collectors in processes that Ray starts and places. The extra `ray` installs Ray, `connect` starts it.

    Args:
        make_collector: callable (index, num_restarts, num_groups, **kwargs of `Collector`) -> `Collector`,
            which is called in the collector's process. Ray pickles it.
        specs: `EnvSpecs` of the environments.
        num_collectors: number of processes.
        first_env_index: number of batched environments in the learner's process.
        num_envs: number of environments in each collector, a multiple of `num_groups`. None: its groups are
            as large as those beside the learner. It must be set if there are none.
        num_groups: number of groups in each collector; a group is one batched environment.
        num_unrolls: N, the unrolls in an answer. None: one of each environment, begun with the weights of the
            request. A number below `num_groups`: the first N that are ready; the environments collect ahead.
        max_requests_in_flight: requests that a collector has at a time. With 2 it collects while an answer
            travels. Each request may take the memory of one answer.
        broadcast_interval: updates after which collectors get new weights, with their next request.
        weights_dtype: "float32", "float16" or "bfloat16", in which weights travel.
        max_joined_answers: how many answers of the collectors on one node an aggregation actor there joins,
            at most. Answers that come while one is on its way to the learner travel together after it. 1:
            each answer travels by itself.
        compress: whether integers and bools, such as images, travel compressed by level 1 of zlib.
        settings: `CollectorSettings`; None takes the defaults.

    Raises:
        ConfigError: if a setting is wrong, Ray is not installed, or no cluster answers, or it has no room.
    """

    def __init__(
        self,
        make_collector: Callable[..., Collector],
        specs: EnvSpecs,
        num_collectors: PositiveInt,
        first_env_index: Annotated[int, PASSED] = 0,
        num_envs: PositiveInt | None = None,
        num_groups: PositiveInt = 2,
        num_unrolls: PositiveInt | None = None,
        max_requests_in_flight: PositiveInt = 2,
        broadcast_interval: PositiveInt = 1,
        weights_dtype: Annotated[Literal["float32", "float16", "bfloat16"], Role.ADJUSTABLE] = "float32",
        max_joined_answers: Annotated[PositiveInt, Role.EXECUTION] = 1,
        compress: Annotated[bool, Role.EXECUTION] = False,
        settings: Annotated[CollectorSettings | None, Role.EXECUTION] = None,
    ) -> None:
        # A game has a row for each of its agents.
        size = specs.batch_size // max(1, len(specs.agents))
        if num_envs not in (None, num_groups * size):
            raise ConfigError(
                f"RayCollectors.num_envs is {num_envs}: it must be {num_groups * size}, num_groups = "
                f"{num_groups} groups of {size}, as large as all groups of the run"
            )
        self.num_unrolls = num_unrolls or num_groups
        if self.num_unrolls > num_groups:
            raise ConfigError(
                f"RayCollectors.num_unrolls is {num_unrolls}, more than num_groups = {num_groups}: a "
                "collector would wait for several unrolls of the same environment"
            )
        self._settings = settings = settings or CollectorSettings()
        if settings.min_collectors is not None and settings.min_collectors > num_collectors:
            raise ConfigError(
                f"CollectorSettings.min_collectors is {settings.min_collectors}: there are {num_collectors} "
                "collectors (Experiment.num_collectors)"
            )
        self.specs = specs
        self.num_collectors = num_collectors
        self.num_groups = num_collectors * num_groups
        self.max_requests_in_flight = max_requests_in_flight
        self.broadcast_interval = broadcast_interval
        self.weights_dtype = weights_dtype
        self._make_collector = make_collector
        self._first_env_index = first_env_index
        self._envs_of_each = num_groups
        self._restarts = RestartLimit(settings.max_restarts, settings.restart_period)
        self._ray = connect()
        self._options = actor_options(
            settings.num_cpus, settings.num_gpus, settings.resources, settings.placement
        )
        check_room(self._ray, "CollectorSettings", self._options)
        with contextlib.ExitStack() as reserved:
            # Before a collector starts, so that Ray starts none on what is reserved.
            learner = Reservation(settings.learner_num_cpus, settings.learner_num_gpus)
            reserved.callback(learner.close)
            self._options_of = lambda index: self._options
            if settings.all_or_nothing:
                group = Group(self._ray, self._options, num_collectors, settings.start_timeout)
                reserved.callback(group.close)
                self._options_of = group.options_of
            self._reserved = reserved.pop_all()  # `close` frees it, or an error above does
        self._watch = RayWatch(self._ray)
        self._transfers = Transfers(self._ray, max_joined_answers, compress, settings.timeout)
        # Aggregators compress after they have joined, so collectors do not.
        self._collectors_compress = compress and max_joined_answers == 1
        self._weights = None  # a list with Ray's reference of the newest weights
        self._actors = []  # None: the run goes on without it
        self._counts = [0] * num_collectors  # restarts of each collector
        self._failed_starts = [0] * num_collectors  # of each collector, in a row
        self.attributes: Any = {}
        # The method that was asked with its arguments; by collector Ray's reference of its result, and the
        # time in seconds of `running_time`.
        self._asked: Any = ()
        self._results: Any = {}
        self._last_answers = [None] * num_collectors  # seconds of `running_time`; None since its last start
        # For each collector its requests without an answer, the oldest first: it answers in this order.
        self._requests = [collections.deque() for _ in range(num_collectors)]

    @property
    def num_restarts(self):
        """Number of collectors that were replaced, an int."""
        return self._restarts.count

    def publish(self, weights):
        self._watch.check()
        # Ray fetches an argument before it calls, but not a reference inside a list: a collector that has
        # these weights already never fetches them again. A new list, because the collectors' thread may send
        # the last one at this moment. Ray frees weights once no list, here or in a collector, refers to them.
        self._weights = [self._ray.put(weights)]

    def start(self, unroll_length):
        self._unrolls = dict(unroll_length=unroll_length, num_unrolls=self.num_unrolls)
        self._actors = [self._start_actor(index) for index in range(self.num_collectors)]

    def check_all_answer(self, mode):
        super().check_all_answer(mode)
        if self._settings.min_collectors not in (None, self.num_collectors):
            raise ConfigError(
                f"DriverSettings.mode is {mode!r}: a batch has unrolls of all collectors, so "
                "CollectorSettings.min_collectors must be None"
            )

    def request(self, index):
        actor = self._actors[index]
        if actor is None:
            return
        answer, node = actor.collect.options(num_returns=2).remote(self._weights)
        self._requests[index].append(Request(index, actor, answer, node, running_time()))

    def receive(self, timeout):
        self._watch.check()
        try:
            self._check_late()
            return self._receive(timeout)
        except LostError as error:
            for request in error.requests:
                # Each actor is replaced once: the loss of an earlier answer may have replaced it already.
                if request.actor is self._actors[request.index]:
                    self._replace(request.index, error.reason)
                # `_replace` repeats only the requests that wait; this one was taken out of them.
                self.request(request.index)
            return None

    def ask(self, method, *args):
        self._watch.check()
        self._asked = method, *args
        self._results = {i: self._ask_actor(i) for i, actor in enumerate(self._actors) if actor is not None}

    def _ask_actor(self, index):
        return self._actors[index].ask.remote(*self._asked), running_time()

    def receive_results(self, timeout):
        self._watch.check()
        references = [reference for reference, _ in self._results.values()]
        ready, _ = self._ray.wait(references, num_returns=len(references), timeout=timeout)
        now, results = running_time(), []
        for index, (reference, since) in list(self._results.items()):
            limit = self._settings.timeout if self._last_answers[index] else self._settings.start_timeout
            if reference in ready:
                try:
                    results.append(self._ray.get(reference))
                    continue
                except self._ray.exceptions.RayTaskError as error:
                    raise raised(error) from error
                except self._ray.exceptions.RayError as error:
                    loss = f"has died: {first_line(error)}"
            elif since < now - limit:
                loss = self._count_late(index, limit)
            else:
                continue
            self._replace(index, loss)
            if self._actors[index] is None:
                del self._results[index]
            else:
                self._results[index] = self._ask_actor(index)
        if len(results) < len(self._results):
            return None
        if self._asked[0] == "set_attr":  # only now: successors would fail at an attribute that is unknown
            self.attributes[self._asked[1]] = self._asked[2]
        return results

    def _receive(self, timeout):
        """Waits until a collector has answered, or an answer has arrived; returns what `receive` does."""
        # Only the oldest request of each, as no later one is answered before it. And the node instead of the
        # answer: Ray copies what is waited for to this machine, and `Transfers` says when that may happen.
        oldest = {requests[0].node: requests for requests in self._requests if requests}
        arrivals = self._transfers.references()
        waited_for = [*oldest, *arrivals]
        # All that are ready now, so that many answers cost one call; only if there are none, the first to
        # come.
        ready, _ = self._ray.wait(waited_for, num_returns=len(waited_for), timeout=0)
        if not ready:
            ready, _ = self._ray.wait(waited_for, num_returns=1, timeout=timeout)
        for reference in ready:
            if reference in oldest:
                self._take_notice(oldest[reference].popleft())
        lanes = [arrivals[reference] for reference in ready if reference in arrivals]
        # One at a time, so that it is in the queues, and its collector works again, before the next is taken.
        return self._drop_stale(*self._transfers.take(lanes[0])) if lanes else None

    def _drop_stale(self, requests, arrays):
        """Drops the answers of collectors that were replaced, and requests others.

        The successor has the same environment ids and begins their episodes anew. A late unroll of the old
        collector between its unrolls would look like a part of its episodes.
        """
        is_current = [request.actor is self._actors[request.index] for request in requests]
        for request in itertools.compress(requests, np.logical_not(is_current)):
            self.request(request.index)
        indices = [request.index for request in itertools.compress(requests, is_current)]
        return (indices, answers.select(arrays, is_current)) if indices else None

    def _take_notice(self, request):
        """Starts the transfer of an answer that is ready; raises what the collector raised."""
        try:
            node = self._ray.get(request.node)
        except self._ray.exceptions.RayTaskError as error:
            raise raised(error) from error
        except self._ray.exceptions.RayError as error:
            raise LostError([request], f"has died: {first_line(error)}") from None
        self._last_answers[request.index] = running_time()
        self._failed_starts[request.index] = 0
        self._transfers.add(request, node)

    def close(self):
        actors, self._actors = self._actors, []
        if self._watch.is_alive():  # Otherwise a call of Ray would end this process.
            # Killed and not called: an actor that hangs would never come to the call.
            for actor in filter(None, actors):
                self._ray.kill(actor)
            self._transfers.close()
            self._reserved.close()
        self._watch.close()

    def _start_actor(self, index):
        first_env = self._first_env_index + index * self._envs_of_each
        batch_size, num_groups = self.specs.batch_size, self._first_env_index + self.num_groups
        kwargs = dict(self._unrolls, first_env_id=first_env * batch_size, num_envs=num_groups * batch_size)
        arguments = index, self._counts[index], self._envs_of_each
        make = functools.partial(self._make_collector, *arguments, **kwargs)
        actor_class = self._ray.remote(**self._options_of(index))(CollectorActor)
        # As bytes, because Ray would unpickle it, and so import TensorFlow, before the actor has hidden GPUs.
        return actor_class.remote(
            cloudpickle.dumps(make), sys.path, self._collectors_compress, self.attributes
        )

    def _check_late(self):
        """Raises LostError if a collector or a transfer has not answered within the time-out."""
        now = running_time()
        for index, (requests, last_answer) in enumerate(zip(self._requests, self._last_answers, strict=True)):
            timeout = self._settings.start_timeout if last_answer is None else self._settings.timeout
            # The time counts from the last answer: a slow learner asks late for an answer that came in time.
            is_late = requests and max(requests[0].since, last_answer or 0.0) < now - timeout
            if is_late and not is_ready(self._ray, requests[0].node):
                raise LostError([requests.popleft()], self._count_late(index, timeout))
        self._transfers.check()

    def _count_late(self, index, timeout):
        """Counts starts without an answer; returns what is wrong."""
        # `restart_period` may be too short to see these: each one takes `start_timeout`.
        self._failed_starts[index] += self._last_answers[index] is None
        return f"has not answered for {timeout:g} s"

    def _replace(self, index, reason):
        """Replaces a collector, and gives its successor as many requests as it had.

        Raises EnvError if it was replaced too often, or goes on without it (`_give_up`).
        """
        loss = f"{self._name(index)} {reason}"
        try:
            if self._failed_starts[index] == _MAX_FAILED_STARTS:
                times = f"it was started {_MAX_FAILED_STARTS} times in a row and never answered"
                raise EnvError(f"{loss}; {times}")
            self._restarts.count_restart(loss, EnvError)
        except EnvError as error:
            self._give_up(index, error)
            return
        # It may only be late: it must not send unrolls of the same environments beside its successor.
        self._ray.kill(self._actors[index])
        self._counts[index] += 1
        self._last_answers[index] = None
        self._actors[index] = self._start_actor(index)
        num_lost = len(self._requests[index])
        self._requests[index].clear()
        for _ in range(num_lost):
            self.request(index)

    def _give_up(self, index, error):
        """Goes on without a collector, or raises the error if too few are left."""
        num_left = sum(actor is not None for actor in self._actors) - 1
        if num_left < (self._settings.min_collectors or self.num_collectors):
            raise error
        logging.warning("%s; the run goes on with %d of %d collectors", error, num_left, self.num_collectors)
        self._ray.kill(self._actors[index])
        self._actors[index] = None
        self._requests[index].clear()

    def _name(self, index):
        return f"collector {index} of {self.num_collectors}"
