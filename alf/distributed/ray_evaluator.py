# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""RayEvaluator: evaluates in a Ray actor, anywhere in a cluster."""

import sys

import cloudpickle

from alf.config.settings import Role, Timeout, configurable
from alf.core.restart_limit import LostProcessError
from alf.core.running_time import running_time
from alf.distributed.cluster import RayWatch, connect
from alf.distributed.evaluation_actor import EvaluationActor
from alf.distributed.ray_process import Placement, Resource, Resources, actor_options, first_line, raised
from alf.distributed.reservation import check_room
from alf.errors import EnvError

_LOOK_SECONDS = 1.0  # the interval at which a wait looks whether Ray itself has ended


@configurable("alf.distributed", role=Role.EXECUTION)
class RayEvaluator:
    """Evaluates weights in a process that Ray starts and places.

    Args:
        num_cpus, num_gpus: numbers, at least 0, that the process occupies in the cluster.
        resources: dict of numbers by the cluster's own names that it occupies; or None.
        placement: "SPREAD" over the nodes of the cluster, or "DEFAULT", which fills one after another.
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
        timeout: Timeout = 3600.0,
        start_timeout: Timeout = 300.0,
    ) -> None:
        self._options = actor_options(num_cpus, num_gpus, resources, placement)
        self._timeout = timeout
        self._start_timeout = start_timeout
        self._ray = connect()
        check_room(self._ray, "RayEvaluator", self._options)
        self._watch = RayWatch(self._ray)
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
        self._watch.check()
        self._answer = self._actor.evaluate.remote(weights)

    def end(self, note_step):
        """Waits for the evaluation that has begun, and returns the result. It never calls `note_step`.

        Raises:
            Exception: an error that the environments raised.
            LostProcessError: if the process was lost.
            EnvError: after `stop`, or if Ray has ended on this machine.
        """
        # Once it has started, this returns at once.
        self._receive(self._started, self._start_timeout)
        return self._receive(self._answer, self._timeout)

    def restart(self):
        """Replaces the process after it was lost."""
        # It may only be late, and would keep what its successor needs.
        self._ray.kill(self._actor)
        self._start_actor()
        if self._is_stopping:  # since `end` has looked
            self._ray.kill(self._actor)

    def stop(self):
        """Ends the process, also in the middle of an evaluation; from any thread. May be repeated."""
        # First the mark: the thread in `end` must not take the killed process for a lost one.
        self._is_stopping = True
        if self._actor is not None and self._watch.is_alive():  # Else a call of Ray would end this process.
            self._ray.kill(self._actor)

    def close(self):
        """Ends the process."""
        self.stop()
        self._watch.close()

    def _start_actor(self):
        actor_class = self._ray.remote(**self._options)(EvaluationActor)
        self._actor = actor_class.remote(self._make_evaluate, sys.path)
        self._started = self._actor.start.remote()

    def _receive(self, reference, timeout):
        """Waits for an answer and returns it; raises `LostProcessError` if none comes."""
        deadline, ready = running_time() + timeout, []
        while not ready and (rest := deadline - running_time()) > 0:
            self._watch.check()
            ready, _ = self._ray.wait([reference], timeout=min(rest, _LOOK_SECONDS))
            # Before anything else: a killed process has "answered", with an error.
            if self._is_stopping:
                raise EnvError("the evaluation was stopped")
        if not ready:
            raise LostProcessError(f"the process of the evaluation has not answered for {timeout:g} s")
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise raised(error) from error
        except self._ray.exceptions.RayError as error:
            raise LostProcessError(f"the process of the evaluation has died: {first_line(error)}") from None
