# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Queues of nests: what goes in comes out, and whoever waits is woken when they close."""

import collections
import contextlib
import gc
import threading
import time
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from alf.drivers.queues import NestFIFOQueue, NestFIFOQueues

INT = tf.TensorSpec((), tf.int32)
VECTOR = tf.TensorSpec((2,), tf.float32)


class Pair(NamedTuple):
    left: object
    right: object


# A spec, and a function that makes item i of it.
NESTS = {
    "tensor": (VECTOR, lambda i: tf.constant([i, i + 0.5], tf.float32)),
    "scalar": (INT, tf.constant),
    "dict": (
        {"b": INT, "a": VECTOR},
        lambda i: {"a": tf.fill((2,), float(i)), "b": tf.constant(i)},
    ),
    "nested": (
        (Pair(INT, {"x": (VECTOR,)}), [INT]),
        lambda i: (Pair(tf.constant(i), {"x": (tf.fill((2,), i / 4),)}), [tf.constant(-i)]),
    ),
    "with an empty part": (Pair(INT, ()), lambda i: Pair(tf.constant(i), ())),
    "bool, string, uint8": (
        (tf.TensorSpec((), tf.bool), tf.TensorSpec((), tf.string), tf.TensorSpec((1, 2), tf.uint8)),
        lambda i: (tf.constant(i > 1), tf.constant(str(i)), tf.fill((1, 2), tf.cast(i, tf.uint8))),
    ),
}


@pytest.fixture(params=[False, True], ids=["eager", "graph"])
def in_graph(request):
    """Runs a function as it is, or as a tf.function."""
    return tf.function if request.param else lambda function: function


def assert_same(a, b):
    tf.nest.assert_same_structure(a, b)
    for x, y in zip(tf.nest.flatten(a), tf.nest.flatten(b), strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_array_equal(x.numpy(), y.numpy())


def putting(queue):
    """A function that enqueues, and returns nothing: an operation cannot leave a tf.function."""

    def put(item):
        queue.enqueue(item)

    return put


def run_in_thread(function):
    """Starts `function` in a thread; returns it, and the list of what it returned or raised."""
    outcome = []

    def call():
        try:
            outcome.append(function())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread, outcome


def ends_with(thread, outcome, error):
    thread.join(60)
    assert not thread.is_alive(), "it waits although the queue is closed"
    assert isinstance(outcome[0], error), outcome


# --- Items.


@pytest.mark.parametrize("spec, make", NESTS.values(), ids=NESTS.keys())
def test_items_come_out_as_they_went_in(spec, make):
    queue = NestFIFOQueue(3, spec)
    assert queue.spec is spec
    enqueue, dequeue = tf.function(putting(queue)), tf.function(queue.dequeue)
    for i in range(3):
        enqueue(make(i))
    assert queue.size() == 3
    for i in range(3):
        assert_same(dequeue(), make(i))
    assert queue.size() == 0


@pytest.mark.parametrize("spec, make", NESTS.values(), ids=NESTS.keys())
def test_dequeue_many_stacks(spec, make):
    queue = NestFIFOQueue(5, spec)
    for i in range(5):
        queue.enqueue(make(i))
    stacked = queue.dequeue_many(3)
    expected = tf.nest.map_structure(lambda *x: tf.stack(x), *[make(i) for i in range(3)])
    assert_same(stacked, expected)
    assert_same(queue.dequeue(), make(3))
    assert queue.size() == 1


def test_an_empty_nest_is_an_item(in_graph):
    queue = NestFIFOQueue(3, ())
    for _ in range(3):
        in_graph(putting(queue))(())
    assert queue.size() == 3
    assert in_graph(queue.dequeue)() == ()
    assert in_graph(lambda: queue.dequeue_many(2))() == ()
    assert queue.size() == 0


def test_arrays_and_numbers_are_converted():
    queue = NestFIFOQueue(1, {"a": VECTOR, "b": INT})
    queue.enqueue({"a": np.float32([1, 2]), "b": 3})
    assert_same(queue.dequeue(), {"a": tf.constant([1.0, 2.0]), "b": tf.constant(3)})


@pytest.mark.parametrize("building", [contextlib.nullcontext, lambda: tf.Graph().as_default()])
def test_python_may_free_a_queue_while_a_graph_is_built(building):
    queue = NestFIFOQueue(1, tf.TensorSpec((), tf.int32))
    handle = queue.handle
    with building():
        del queue  # an error here would be a warning, which pytest makes an error
        gc.collect()
    with pytest.raises(tf.errors.NotFoundError):
        tf.raw_ops.QueueSizeV2(handle=handle)


def test_shapes_are_static_in_the_graph():
    queue = NestFIFOQueue(3, {"a": VECTOR})
    for _ in range(3):
        queue.enqueue({"a": tf.zeros(2)})

    @tf.function
    def take():
        assert queue.dequeue()["a"].shape == (2,)
        assert queue.dequeue_many(2)["a"].shape == (2, 2)
        return True

    assert take()


def test_the_index_may_be_a_tensor():
    queues = NestFIFOQueues(3, 6, {"x": INT}, "some_queue")
    assert len(queues) == 3

    @tf.function
    def scatter_and_gather():
        for i in tf.range(6):
            queues[i % 3].enqueue({"x": i})
        taken = tf.TensorArray(tf.int32, 3)
        for i in tf.range(3):
            taken = taken.write(i, queues[2 - i].dequeue_many(2)["x"])
        return taken.stack()

    np.testing.assert_array_equal(scatter_and_gather(), [[2, 5], [1, 4], [0, 3]])
    assert [queue.size() for queue in queues] == [0, 0, 0]
    queues[1].enqueue({"x": tf.constant(7)})
    assert [queue.size() for queue in queues] == [0, 1, 0]
    assert queues[tf.constant(1)].dequeue()["x"] == 7


# --- What does not fit.


@pytest.mark.parametrize(
    "item, text",
    [
        ({"a": tf.zeros(2), "c": tf.constant(1)}, "structure"),
        ({"a": tf.zeros(2)}, "structure"),
        (tf.zeros(2), "structure"),
        ((), "structure"),
        ((tf.zeros(2), tf.constant(1)), "structure"),
        ({"a": tf.zeros(2, tf.float64), "b": tf.constant(1)}, "float64 .* instead of float32"),
        ({"a": tf.zeros(2), "b": 1.5}, "float32 .* instead of int32"),
        ({"a": tf.zeros(3), "b": tf.constant(1)}, r"float32 \(3,\) instead of float32 \(2,\)"),
        ({"a": tf.zeros((1, 2)), "b": tf.constant(1)}, r"float32 \(1, 2\) instead of"),
    ],
)
def test_an_item_that_does_not_fit_is_refused(item, text):
    queue = NestFIFOQueue(2, {"a": VECTOR, "b": INT}, name="some_queue")
    with pytest.raises(ValueError, match=f"(?s)some_queue: .*{text}"):
        queue.enqueue(item)
    assert queue.size() == 0


def test_an_item_for_a_queue_of_empty_nests():
    queue = NestFIFOQueue(2, (), name="some_queue")
    with pytest.raises(ValueError, match="some_queue.*structure"):
        queue.enqueue((tf.constant(1),))


# --- Waiting and closing.


def test_enqueue_waits_while_full():
    queue = NestFIFOQueue(1, INT)
    queue.enqueue(1)
    thread, outcome = run_in_thread(lambda: queue.enqueue(2))
    thread.join(0.05)
    assert thread.is_alive() and queue.size() == 1
    assert queue.dequeue() == 1
    thread.join(60)
    assert not thread.is_alive() and not isinstance(outcome[0], Exception)
    assert queue.dequeue() == 2


def test_dequeue_many_waits_until_there_are_enough():
    queue = NestFIFOQueue(3, INT)
    queue.enqueue(0)
    thread, outcome = run_in_thread(lambda: queue.dequeue_many(2))
    thread.join(0.05)
    assert thread.is_alive()
    queue.enqueue(1)
    thread.join(60)
    np.testing.assert_array_equal(outcome[0], [0, 1])


def test_closing_wakes_an_enqueue(in_graph):
    queue = NestFIFOQueue(1, INT)
    queue.enqueue(1)
    thread, outcome = run_in_thread(lambda: in_graph(putting(queue))(tf.constant(2)))
    thread.join(0.05)
    assert thread.is_alive()
    queue.close()
    ends_with(thread, outcome, tf.errors.CancelledError)


@pytest.mark.parametrize("take", [lambda q: q.dequeue(), lambda q: q.dequeue_many(2)])
def test_closing_wakes_a_dequeue(take, in_graph):
    queue = NestFIFOQueue(2, INT)
    thread, outcome = run_in_thread(in_graph(lambda: take(queue)))
    thread.join(0.05)
    assert thread.is_alive()
    queue.close()
    ends_with(thread, outcome, tf.errors.OutOfRangeError)


def test_closing_wakes_everyone_at_every_queue():
    queues = NestFIFOQueues(3, 1, INT, "some_queue")
    take = tf.function(lambda index: queues[index].dequeue())
    take.get_concrete_function(tf.TensorSpec((), tf.int32))
    waiting = [run_in_thread(lambda i=i: take(tf.constant(i % 3))) for i in range(9)]
    time.sleep(0.05)
    queues.close()
    for thread, outcome in waiting:
        ends_with(thread, outcome, tf.errors.OutOfRangeError)


def test_a_closed_queue_takes_nothing_and_gives_what_it_has():
    queue = NestFIFOQueue(3, INT)
    queue.enqueue(1)
    queue.enqueue(2)
    queue.close()
    queue.close()  # may be repeated
    with pytest.raises(tf.errors.CancelledError):
        queue.enqueue(3)
    assert queue.dequeue() == 1
    with pytest.raises(tf.errors.OutOfRangeError):
        queue.dequeue_many(2)
    assert queue.dequeue() == 2
    with pytest.raises(tf.errors.OutOfRangeError):
        queue.dequeue()


@pytest.mark.parametrize("capacity, take", [(1, 1), (4, 3)])
def test_items_are_conserved_among_many_producers_and_consumers(capacity, take):
    queue = NestFIFOQueue(capacity, {"producer": INT, "number": INT})
    num_producers, num_consumers, each = 4, 3, 30
    produced = num_producers * each

    @tf.function
    def produce(producer):
        for number in tf.range(each):
            queue.enqueue({"producer": producer, "number": number})

    @tf.function
    def consume():
        return queue.dequeue_many(take)

    def consume_until_closed():
        taken = []
        try:
            while True:
                item = consume()
                taken.extend(zip(item["producer"].numpy(), item["number"].numpy()))
        except tf.errors.OutOfRangeError:
            return taken

    produce.get_concrete_function(tf.TensorSpec((), tf.int32))
    consume.get_concrete_function()
    producers = [run_in_thread(lambda p=p: produce(tf.constant(p))) for p in range(num_producers)]
    consumers = [run_in_thread(consume_until_closed) for _ in range(num_consumers)]
    for thread, outcome in producers:
        thread.join(60)
        assert outcome == [None]
    queue.close()  # What is in it can still be taken.
    for thread, _ in consumers:
        thread.join(60)
        assert not thread.is_alive()

    taken = [item for _, outcome in consumers for item in outcome[0]]
    expected = [(p, i) for p in range(num_producers) for i in range(each)]
    assert produced % take == 0
    assert collections.Counter(taken) == collections.Counter(expected)
    for _, outcome in consumers:  # Each consumer sees each producer's items in order.
        for p in range(num_producers):
            numbers = [number for producer, number in outcome[0] if producer == p]
            assert numbers == sorted(numbers)
