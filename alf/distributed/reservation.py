# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What a cluster has, and what is reserved there: for the learner on its node, and for all collectors."""

import time

from absl import logging

from alf.distributed.cluster import connect
from alf.distributed.ray_process import count_fits, first_line, list_needs, list_nodes
from alf.errors import ConfigError

_SECONDS = 60.0  # in which others must free them, and Ray must start a process


def check_room(ray, owner, options):
    """Raises ConfigError if an actor can never start, because no node has what it asks for.

    Where this process is alone on the first node, others are expected to join: there a warning says for what
    Ray waits.

    Args:
        ray: the module, connected.
        owner: text, the class whose settings ask for it.
        options: the result of `actor_options`.
    """
    needs, nodes = list_needs(options), list_nodes(ray)
    if any(count_fits(node, needs) for node in nodes):
        return
    # Without Ray's own names of single nodes, of which large clusters have many.
    names = sorted({name for node in nodes for name in node if not name.startswith("node:")})
    most = {name: max(node.get(name, 0) for node in nodes) for name in names}
    lacking = {name: x for name, x in needs.items() if x > most.get(name, 0)} or needs
    message = f"{owner} asks for {_show(lacking)}, but a node of the cluster has at most {_show(most)}"
    if len(nodes) > 1 or is_closed(ray):
        raise ConfigError(f"{message}: ask for less, or start a node that has it first")
    logging.warning("%s: Ray waits for a node that has it", message)


def is_closed(ray):
    """Returns whether no other machine can join the cluster, such as Ray that `connect` starts."""
    return all(node["NodeManagerAddress"].startswith("127.") for node in ray.nodes())


class Group:
    """Reserves the resources of several actors of one kind, of which it gets all or none, until `close`.

    Ray calls it a placement group. It ends with this process. If a node is lost, Ray moves the shares of its
    actors to nodes that have room.

    Args:
        ray: the module, connected.
        options: the result of `actor_options`, of each actor.
        count: int, the number of actors.
        timeout: seconds in which others must free the resources.

    Raises:
        ConfigError: if the cluster has less, or they do not become free in time.
    """

    def __init__(self, ray, options, count, timeout):
        self._ray, self._options, needs = ray, options, list_needs(options)
        text = f"CollectorSettings.all_or_nothing: there is no room for {count} collectors of {_show(needs)}"
        if is_closed(ray) and sum(count_fits(node, needs) for node in list_nodes(ray)) < count:
            raise ConfigError(f"{text} in this cluster: lower Experiment.num_collectors, or ask for less")
        strategy = "SPREAD" if options["scheduling_strategy"] == "SPREAD" else "PACK"
        # Ray refuses empty shares: who asks for nothing always has room.
        self._group = ray.util.placement_group([needs] * count, strategy) if needs else None
        deadline = time.monotonic() + timeout
        try:
            # In short waits, because Python handles no signal within one.
            while self._group is not None and not self._group.wait(1):
                if time.monotonic() > deadline:
                    raise ConfigError(f"{text} after {timeout:g} s: others occupy it, or a node is missing")
        except BaseException:
            self.close()
            raise

    def options_of(self, index):
        """Returns the options with which actor `index` takes its share."""
        if self._group is None:
            return self._options
        strategy = self._ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(self._group, index)
        return {**self._options, "scheduling_strategy": strategy}

    def close(self):
        """Frees the resources; may be called again."""
        group, self._group = self._group, None
        if group is not None:
            self._ray.util.remove_placement_group(group)


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


def _show(resources):
    """Returns resources as text, such as "CPU: 2, GPU: 1"."""
    return ", ".join(f"{name}: {number:g}" for name, number in resources.items()) or "nothing"


def _explain(error, exceptions):
    """Returns the reason why the reservation failed."""
    if isinstance(error, exceptions.ActorUnschedulableError):
        return "Ray knows of fewer on this node"
    if isinstance(error, exceptions.GetTimeoutError):
        return f"so many did not become free on this node within {_SECONDS:g} s"
    return first_line(error)
