# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Reservation: CPUs and GPUs on the node of this process that Ray must not give to others."""

from alf.distributed.cluster import connect
from alf.distributed.ray_process import first_line
from alf.errors import ConfigError

_SECONDS = 60.0  # in which others must free them, and Ray must start a process


class Reservation:
    """Occupies CPUs and GPUs of this process's node until `close`, or until this process ends.

    Ray knows nothing of what this process computes, and would start others on its cores. An actor that does
    nothing occupies them in Ray's books. With numbers of 0 nothing is reserved.

    Args:
        num_cpus, num_gpus: numbers of at least 0, `learner_num_cpus` and `learner_num_gpus` of
            `CollectorSettings`.

    Raises:
        ConfigError: if a number is wrong, the node has fewer, or they do not become free within 60 s.
    """

    def __init__(self, num_cpus, num_gpus):
        self._actor = None
        if not num_cpus and not num_gpus:
            return
        self._ray = ray = connect()
        # Not soft: the actor fails if this node can never have it, and does not go to another node.
        node = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        options = dict(num_cpus=num_cpus, num_gpus=num_gpus, scheduling_strategy=node)
        self._actor = ray.remote(**options)(_Idle).remote()
        try:
            # An answer means that Ray has counted them as taken.
            ray.get(self._actor.answer.remote(), timeout=_SECONDS)
        except ray.exceptions.RayError as error:
            self.close()
            raise ConfigError(
                f"CollectorSettings.learner_num_cpus is {num_cpus:g}, learner_num_gpus {num_gpus:g}: "
                f"{_explain(error, ray.exceptions)}"
            ) from None

    def close(self):
        """Frees the CPUs and GPUs; may be called again."""
        actor, self._actor = self._actor, None
        if actor is not None:
            self._ray.kill(actor)


class _Idle:
    """An actor that does nothing."""

    def answer(self):
        """Answers as soon as Ray has started the actor."""


def _explain(error, exceptions):
    """Returns the reason why the reservation failed."""
    if isinstance(error, exceptions.ActorUnschedulableError):
        return "Ray knows of fewer on this node"
    if isinstance(error, exceptions.GetTimeoutError):
        return f"so many did not become free on this node within {_SECONDS:g} s"
    return first_line(error)
