# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""CollectorActor: a `Collector` as a Ray actor. Without TensorFlow, which the `Collector` itself imports."""

from alf.distributed import answers
from alf.distributed.ray_process import make_here


class CollectorActor:
    """Makes its `Collector` at the first request, so that the learner gets an error as an answer.

    Args:
        make_collector, import_paths: arguments of `make_here`.
        compresses: whether to compress its answers.
        attributes: dict by name of the attributes of its environments.
    """

    def __init__(self, make_collector, import_paths, compresses=False, attributes=None):
        self._make_collector, self._import_paths = make_collector, import_paths
        self._compresses, self._attributes = compresses, attributes or {}
        self._collector = None
        self._weights = None  # the list with Ray's reference of the weights that the collector has

    def collect(self, weights):
        """Collects by `Collector.collect`.

        Args:
            weights: list with Ray's reference of the weights, which are fetched if they are new.

        Returns:
            the answer, and the id of the node where it is, a string. They are two objects of Ray. The second
            is so small that Ray sends it at once: so the learner knows of the answer before it fetches it.
        """
        import ray  # here, because ALF works without it

        collector = self._get_collector()
        # Lists of references are equal if they refer to the same object.
        is_new, self._weights = weights != self._weights, weights
        answer = collector.collect(ray.get(weights[0]) if is_new else None)
        answer = answers.compress(answer) if self._compresses else answer
        return answer, ray.get_runtime_context().get_node_id()

    def ask(self, method, *args):
        """Returns the result of a method of the `Collector`, which Ray calls between two answers."""
        return getattr(self._get_collector(), method)(*args)

    def _get_collector(self):
        if self._collector is None:
            self._collector = make_here(self._make_collector, self._import_paths)
            for name, value in self._attributes.items():
                self._collector.set_attr(name, value)
        return self._collector
