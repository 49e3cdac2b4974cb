# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""RayCollectors: collectors as Ray actors, anywhere in a cluster."""

import collections
import functools
import sys
import time
from typing import Any, NamedTuple

import cloudpickle
import gin

from alf.distributed.cluster import connect
from alf.distributed.collector_actor import CollectorActor
from alf.distributed.ray_process import actor_options, first_line
from alf.distributed.reservation import Reservation
from alf.drivers.collector_thread import Collectors
from alf.errors import ConfigError, EnvError, check_int, check_number
from alf.restart_limit import RestartLimit


class _Request(NamedTuple):
    """What waits for an answer."""

    reference: Any  # Ray's, of the answer
    index: int  # of the collector
    actor: Any  # Ray's handle of the actor that was asked; its successor has another one
    since: float  # seconds of `time.monotonic`


@gin.configurable(module="alf.distributed")
class RayCollectors(Collectors):
    """Collectors in processes that Ray starts and places; the extra `ray` installs it, `connect` starts it.

    Args:
        make_collector: callable (index, num_restarts, num_envs, **kwargs of `Collector`) -> `Collector`,
            which is called in the collector's process. Ray pickles it.
        specs: `EnvSpecs` of the environments.
        num_collectors: processes.
        first_env_index: how many batched environments the learner's process has.
        num_envs: batched environments of each.
        num_unrolls: N, unrolls of an answer, at most `num_envs`; None: `num_envs`.
        max_requests_in_flight: requests that a collector has at a time. 2 let it collect while an answer
            travels; each bounds the memory by one answer.
        broadcast_interval: updates after which collectors get new weights, with their next request.
        weights_dtype: "float32", "float16" or "bfloat16", in which weights travel.
        num_cpus, num_gpus, resources, placement: what a collector occupies in the cluster and where Ray
            starts it, see `actor_options`.
        learner_num_cpus, learner_num_gpus: what no collector gets of this process's node, see `Reservation`.
        max_restarts, restart_period: a collector that dies is replaced. The run ends once there were more
            than `max_restarts` of these within `restart_period` seconds.
        timeout: seconds after which a collector that does not answer is replaced, too.
        start_timeout: the same for its first answer, until which Ray starts the process, TensorFlow is
            imported and the environments are made.

    Raises:
        ConfigError: if a setting is wrong, or see `connect`.
    """

    def __init__(
        self,
        make_collector,
        specs,
        num_collectors,
        first_env_index=0,
        num_envs=2,
        num_unrolls=None,
        max_requests_in_flight=2,
        broadcast_interval=1,
        weights_dtype="float32",
        num_cpus=1,
        num_gpus=0,
        resources=None,
        placement="SPREAD",
        learner_num_cpus=0,
        learner_num_gpus=0,
        max_restarts=10,
        restart_period=600.0,
        timeout=300.0,
        start_timeout=300.0,
    ):
        check_int("num_collectors", num_collectors)
        check_int("RayCollectors.num_envs", num_envs)
        check_int("RayCollectors.max_requests_in_flight", max_requests_in_flight)
        check_int("RayCollectors.broadcast_interval", broadcast_interval)
        self.num_unrolls = check_int("RayCollectors.num_unrolls", num_unrolls, optional=True) or num_envs
        if self.num_unrolls > num_envs:
            raise ConfigError(
                f"RayCollectors.num_unrolls is {num_unrolls}, more than num_envs = {num_envs}: a collector "
                "would wait for several unrolls of the same environment"
            )
        if weights_dtype not in ("float32", "float16", "bfloat16"):
            raise ConfigError(
                f"RayCollectors.weights_dtype is {weights_dtype!r}: it must be 'float32', 'float16' or "
                "'bfloat16'"
            )
        self._options = actor_options("RayCollectors", num_cpus, num_gpus, resources, placement)
        check_int("RayCollectors.max_restarts", max_restarts, at_least=0)
        check_number("RayCollectors.restart_period", restart_period, above=0)
        self._timeout = check_number("RayCollectors.timeout", timeout, above=0)
        self._start_timeout = check_number("RayCollectors.start_timeout", start_timeout, above=0)
        self.specs = specs
        self.num_collectors = num_collectors
        self.num_envs = num_collectors * num_envs
        self.max_requests_in_flight = max_requests_in_flight
        self.broadcast_interval = broadcast_interval
        self.weights_dtype = weights_dtype
        self._make_collector = make_collector
        self._first_env_index = first_env_index
        self._envs_of_each = num_envs
        self._restarts = RestartLimit(max_restarts, restart_period)
        self._ray = connect()
        self._reservation = Reservation(learner_num_cpus, learner_num_gpus)
        self._weights = None  # a list of one reference
        self._actors = []
        self._counts = [0] * num_collectors  # restarts of each
        self._has_answered = [False] * num_collectors  # since its last start
        # Of each collector the requests that wait, the oldest first: Ray answers them in this order.
        self._requests = [collections.deque() for _ in range(num_collectors)]

    @property
    def num_restarts(self):
        """How many collectors were replaced, an int."""
        return self._restarts.count

    def publish(self, weights):
        # In a list, so that Ray does not fetch them for a collector that has them already.
        self._weights = [self._ray.put(weights)]

    def start(self, unroll_length, max_waiting_batches):
        self._settings = dict(
            unroll_length=unroll_length,
            num_unrolls=self.num_unrolls,
            max_waiting_batches=max_waiting_batches,
        )
        self._actors = [self._start_actor(index) for index in range(self.num_collectors)]

    def request(self, index):
        actor = self._actors[index]
        reference = actor.collect.remote(self._weights)
        self._requests[index].append(_Request(reference, index, actor, time.monotonic()))

    def receive(self, timeout):
        self._replace_late()
        oldest = {requests[0].reference: requests for requests in self._requests if requests}
        ready, _ = self._ray.wait(list(oldest), num_returns=1, timeout=timeout)
        if not ready:
            return None
        request = oldest[ready[0]].popleft()
        try:
            leaves = self._ray.get(request.reference)
        except self._ray.exceptions.RayTaskError as error:
            raise error.as_instanceof_cause() from None
        except self._ray.exceptions.RayError as error:
            self._replace(request, f"{self._name(request.index)} has died: {first_line(error)}")
            return None
        self._has_answered[request.index] = True
        return request.index, leaves

    def close(self):
        actors, self._actors = self._actors, []
        for actor in actors:
            self._ray.kill(actor)
        self._reservation.close()

    def _start_actor(self, index):
        first_env = self._first_env_index + index * self._envs_of_each
        kwargs = dict(self._settings, first_env_id=first_env * self.specs.batch_size)
        arguments = index, self._counts[index], self._envs_of_each
        make = functools.partial(self._make_collector, *arguments, **kwargs)
        actor_class = self._ray.remote(**self._options)(CollectorActor)
        return actor_class.remote(cloudpickle.dumps(make), sys.path)

    def _replace_late(self):
        """Replaces collectors that have not answered within the time-out."""
        now = time.monotonic()
        for index, requests in enumerate(self._requests):
            timeout = self._timeout if self._has_answered[index] else self._start_timeout
            if requests and requests[0].since < now - timeout:
                request = requests.popleft()
                self._ray.kill(request.actor)
                self._replace(request, f"{self._name(index)} has not answered for {timeout:g} s")

    def _replace(self, request, loss):
        """Replaces the collector that a lost request asked, and asks the new one as often as it."""
        index = request.index
        self._restarts.count_restart(loss, EnvError)
        self._counts[index] += 1
        self._has_answered[index] = False
        self._actors[index] = self._start_actor(index)
        lost = [request, *self._requests[index]]
        self._requests[index].clear()
        for _ in lost:
            self.request(index)

    def _name(self, index):
        return f"collector {index} of {self.num_collectors}"
