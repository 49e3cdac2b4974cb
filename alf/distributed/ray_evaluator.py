# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""RayEvaluator: evaluates in a Ray actor, anywhere in a cluster."""

import sys

import cloudpickle
from absl import logging

from alf.config.kinds import NonNegativeInt
from alf.config.settings import Role, Timeout, configurable
from alf.distributed.cluster import connect
from alf.distributed.evaluation_actor import EvaluationActor
from alf.distributed.ray_process import Placement, Resource, Resources, actor_options, first_line, raised
from alf.distributed.reservation import check_room
from alf.errors import EnvError


@configurable("alf.distributed", role=Role.EXECUTION)
class RayEvaluator:
    """Evaluates weights in a process that Ray starts and places, and replaces if it is lost.

    Args:
        num_cpus, num_gpus: numbers, at least 0, that the process occupies in the cluster.
        resources: dict of numbers by the cluster's own names that it occupies; or None.
        placement: "SPREAD" over the nodes of the cluster, or "DEFAULT", which fills one after another.
        max_restarts: how often an evaluation begins again because its process was lost.
        timeout: seconds after which an evaluation without an answer is lost.
        start_timeout: seconds after which a start is lost, in which Ray finds a place and the process imports
            TensorFlow and makes its environments.

    Raises:
        ConfigError: if a setting is wrong, Ray is not installed, no cluster answers, or no node has what
            this asks for.
    """

    def __init__(
        self,
        num_cpus: Resource = 1,
        num_gpus: Resource = 0,
        resources: Resources = None,
        placement: Placement = "SPREAD",
        max_restarts: NonNegativeInt = 3,
        timeout: Timeout = 3600.0,
        start_timeout: Timeout = 300.0,
    ) -> None:
        self._options = actor_options(num_cpus, num_gpus, resources, placement)
        self._max_restarts = max_restarts
        self._timeout = timeout
        self._start_timeout = start_timeout
        self._ray = connect()
        check_room(self._ray, "RayEvaluator", self._options)
        # `_started`, `_answer`: Ray's references of the answers to `start` and to the last `evaluate`
        self._actor = self._started = self._answer = None
        self._is_stopping = False

    def start(self, make_evaluate):
        """Starts the process, without waiting for it.

        Args:
            make_evaluate: callable () -> callable (weights) -> result. It is called in that process, once.
                Ray pickles it.
        """
        self._make_evaluate = cloudpickle.dumps(make_evaluate)
        self._start_actor()

    def begin(self, weights):
        """Begins to evaluate a list of arrays, the weights; after `start`. It does not wait."""
        self._weights = weights
        self._answer = self._actor.evaluate.remote(weights)

    def end(self, note_step):
        """Waits for the evaluation that has begun, and returns the result. It never calls `note_step`.

        Raises:
            Exception: an error that the environments raised.
            EnvError: if the process was lost more than `max_restarts` times, or after `stop`.
        """
        # Of this evaluation only, because a run of weeks may lose a process now and then.
        num_restarts = 0
        while True:
            try:
                # Once it has started, this returns at once.
                self._receive(self._started, self._start_timeout)
                return self._receive(self._answer, self._timeout)
            except _LostError as loss:
                if num_restarts == self._max_restarts:
                    raise EnvError(f"{loss}; RayEvaluator.max_restarts={num_restarts} is reached") from None
                num_restarts += 1
                logging.warning("%s: restart %d of %d", loss, num_restarts, self._max_restarts)
            # It may only be late, and would keep what its successor needs.
            self._ray.kill(self._actor)
            self._start_actor()
            self.begin(self._weights)

    def stop(self):
        """Ends the process, also in the middle of an evaluation; from any thread. May be repeated."""
        # First the mark: the thread in `evaluate` must not take the killed process for a lost one.
        self._is_stopping = True
        if self._actor is not None:
            self._ray.kill(self._actor)

    def close(self):
        """Ends the process."""
        self.stop()

    def _start_actor(self):
        actor_class = self._ray.remote(**self._options)(EvaluationActor)
        self._actor = actor_class.remote(self._make_evaluate, sys.path)
        self._started = self._actor.start.remote()

    def _receive(self, reference, timeout):
        """Waits for an answer and returns it; raises `_LostError` if none comes."""
        ready, _ = self._ray.wait([reference], timeout=timeout)
        # Before anything else: a killed process has "answered", with an error.
        if self._is_stopping:
            raise EnvError("the evaluation was stopped")
        if not ready:
            raise _LostError(f"the process of the evaluation has not answered for {timeout:g} s")
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise raised(error) from error
        except self._ray.exceptions.RayError as error:
            raise _LostError(f"the process of the evaluation has died: {first_line(error)}") from None


class _LostError(Exception):
    """The process of the evaluation has died, or does not answer."""
