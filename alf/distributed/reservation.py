# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Reservation: what Ray gives to nobody on the node of this process, because this process uses it itself."""

from alf.distributed.cluster import connect
from alf.distributed.ray_process import first_line
from alf.errors import ConfigError

_SECONDS = 60.0  # until what others occupy must be free, and Ray has started a process


class Reservation:
    """Occupies CPUs and GPUs of this process's node until `close`, or until this process ends.

    Ray knows nothing of what this process computes, and would start others on its cores. An actor that does
    nothing occupies them in Ray's books. With numbers of 0 there is none.

    Args:
        num_cpus, num_gpus: `RayCollectors.learner_num_cpus` and `learner_num_gpus`, numbers of at least 0.

    Raises:
        ConfigError: if a number is wrong, the node has fewer, or they do not become free within 60 s.
    """

    def __init__(self, num_cpus, num_gpus):
        self._actor = None
        if not num_cpus and not num_gpus:
            return
        self._ray = ray = connect()
        # Hard: the actor fails if this node can never have it.
        node = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        options = dict(num_cpus=num_cpus, num_gpus=num_gpus, scheduling_strategy=node)
        self._actor = ray.remote(**options)(_Idle).remote()
        try:
            ray.get(self._actor.answer.remote(), timeout=_SECONDS)
        except ray.exceptions.RayError as error:
            self.close()
            raise ConfigError(
                f"RayCollectors.learner_num_cpus is {num_cpus:g}, learner_num_gpus {num_gpus:g}: "
                f"{_explain(error, ray.exceptions)}"
            ) from None

    def close(self):
        """Frees what was occupied; may be repeated."""
        actor, self._actor = self._actor, None
        if actor is not None:
            self._ray.kill(actor)


class _Idle:
    """An actor that does nothing."""

    def answer(self):
        """Answers once the actor is there."""


def _explain(error, exceptions):
    """Why there is no reservation."""
    if isinstance(error, exceptions.ActorUnschedulableError):
        return "Ray knows of fewer on this node"
    if isinstance(error, exceptions.GetTimeoutError):
        return f"so many did not become free on this node within {_SECONDS:g} s"
    return first_line(error)
