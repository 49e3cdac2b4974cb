# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""CollectorActor in this process, with a stand-in for Ray: which weights its collector gets, and when."""

import functools
import sys
import types

import cloudpickle
import numpy as np
import pytest

from alf.distributed import answers
from alf.distributed.collector_actor import CollectorActor

NO_WEIGHTS = -1


class Telling:
    """Stands in for a `Collector`: its answer has its number, and the weights that it was given."""

    def __init__(self, number):
        self._number = number

    def collect(self, weights=None):
        return [np.array([self._number, NO_WEIGHTS if weights is None else weights])]


@pytest.fixture
def fetched(monkeypatch):
    """Makes references of Ray numbers, whose objects are ten times these; returns those that were fetched."""
    numbers = []

    def get(reference):
        numbers.append(reference)
        return 10 * reference

    context = types.SimpleNamespace(get_accelerator_ids=lambda: {"GPU": []}, get_node_id=lambda: "node 7")
    ray = types.SimpleNamespace(get=get, get_runtime_context=lambda: context)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # the actor sets it
    return numbers


def make_actor(**settings):
    return CollectorActor(cloudpickle.dumps(functools.partial(Telling, 3)), [], **settings)


def test_a_collector_gets_every_new_weights_once(fetched):
    actor, given = make_actor(), []
    for reference in (1, 1, 2, 2, 2, 3, 1):
        # A list of its own for each request, as Ray unpickles one.
        (answer,), node = actor.collect([reference])
        number, weights = answer
        assert number == 3 and node == "node 7"
        given.append(weights)
    assert given == [10, NO_WEIGHTS, 20, NO_WEIGHTS, NO_WEIGHTS, 30, 10]
    assert fetched == [1, 2, 3, 1], "those that it has are not fetched again"


def test_an_answer_is_compressed_if_it_should_be(fetched):
    answer, _ = make_actor(compresses=True).collect([1])
    assert isinstance(answer[0], answers.Compressed)
    np.testing.assert_array_equal(answers.decompress(answer), [[3, 10]])
