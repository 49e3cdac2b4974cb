# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Semaphore: permits are conserved, who holds them excludes others, and whoever waits is woken."""

import contextlib
import threading

import numpy as np
import pytest
import tensorflow as tf

from alf.core.tf_runtime import single_threaded
from alf.drivers.queues import Semaphore


@pytest.fixture(params=[single_threaded, contextlib.nullcontext], ids=["one thread", "thread pool"])
def executor(request):
    """The executor of the drivers' threads; and TensorFlow's own, which runs all that is ready at once."""
    return request.param


def run_in_thread(function, executor=single_threaded):
    """Starts `function` in a thread; returns it, and the list of what it returned or raised."""
    outcome = []

    def call():
        try:
            with executor():
                outcome.append(function())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread, outcome


def trace(function, executor=single_threaded):
    """Traces a `tf.function` without arguments now, for an executor."""
    with executor():
        function = tf.function(function, input_signature=(), autograph=False)
        function.get_concrete_function()
    return function


def count_free(semaphore):
    return semaphore._queue.size()


class Inside:
    """Python that a graph calls while it holds permits; notes how many permits are held at each time.

    Attributes:
        most: the most permits that were held at the same time.
        calls: how often it was called.
        entered: event, set while a call is inside.
        leave: event that a call waits for.
    """

    def __init__(self, waits=False):
        self.most = self.calls = self._held = 0
        self._lock = threading.Lock()
        self.entered, self.leave = threading.Event(), threading.Event()
        if not waits:
            self.leave.set()

    def __call__(self, num_permits):
        with self._lock:
            self.calls += 1
            self._held += num_permits
            self.most = max(self.most, self._held)
        self.entered.set()
        assert self.leave.wait(60), "the test did not let it leave"
        with self._lock:
            self._held -= num_permits
        return np.int64(num_permits)


def make_holder(semaphore, inside, num_permits, times=1, executor=single_threaded):
    """A traced function that holds permits `times` times in a graph loop."""

    def body(i):
        call = lambda: tf.numpy_function(inside, [num_permits], tf.int64)  # noqa: E731
        held = semaphore.hold(num_permits, [i], call)
        with tf.control_dependencies([held]):
            return i + 1

    loop = lambda: tf.while_loop(lambda i: i < times, body, [tf.constant(0)], parallel_iterations=1)  # noqa: E731
    return trace(loop, executor)


@pytest.mark.parametrize("num_permits", [1, 3])
def test_permits_are_conserved_among_many_holders(num_permits):
    """Holders of one permit each, and one who takes all of them, as the writer of the weights does."""
    semaphore, inside, times = Semaphore(num_permits, "permits"), Inside(), 20
    holders = [make_holder(semaphore, inside, 1, times) for _ in range(5)]
    holders.append(make_holder(semaphore, inside, num_permits, times))
    running = [run_in_thread(holder) for holder in holders]
    for thread, outcome in running:
        thread.join(60)
        assert not thread.is_alive() and not isinstance(outcome[0], Exception), outcome
    assert inside.calls == 6 * times
    assert inside.most <= num_permits
    assert count_free(semaphore) == num_permits


def test_hold_excludes(executor):
    """While all permits are held, nobody else gets in; when they are given back, the next one does."""
    semaphore = Semaphore(2, "permits")
    first, second = Inside(waits=True), Inside()
    all_of_them = make_holder(semaphore, first, 2, executor=executor)
    one = make_holder(semaphore, second, 1, executor=executor)
    running, _ = run_in_thread(all_of_them, executor)
    assert first.entered.wait(60)
    waiting, outcome = run_in_thread(one, executor)
    waiting.join(0.1)
    assert waiting.is_alive() and second.calls == 0
    assert count_free(semaphore) == 0
    first.leave.set()
    waiting.join(60)
    running.join(60)
    assert not isinstance(outcome[0], Exception) and second.calls == 1
    assert count_free(semaphore) == 2


def test_several_hold_one_permit_each_at_the_same_time():
    semaphore = Semaphore(2, "permits")
    insides = [Inside(waits=True), Inside(waits=True)]
    running = [run_in_thread(make_holder(semaphore, inside, 1)) for inside in insides]
    assert all(inside.entered.wait(60) for inside in insides)
    assert count_free(semaphore) == 0
    for inside in insides:
        inside.leave.set()
    for thread, _ in running:
        thread.join(60)
    assert count_free(semaphore) == 2


def test_permits_are_taken_before_the_call_and_given_back_after_it(executor):
    """In a graph whose operations are run in any order that their dependencies allow."""
    semaphore = Semaphore(2, "permits")
    free = []

    def note(x):
        free.append(count_free(semaphore))
        return x

    @tf.function(autograph=False)
    def graph(x):
        x = tf.numpy_function(note, [x], tf.int32)  # the input
        # Nothing but `hold` says that the call depends on the permits or on the input.
        call = lambda: {"a": tf.numpy_function(note, [7], tf.int32), "b": (tf.constant(2.0), ())}  # noqa: E731
        outputs = semaphore.hold(2, {"x": x}, call)
        with tf.control_dependencies([outputs["a"]]):
            after = tf.numpy_function(note, [9], tf.int32)
        return outputs, after

    for _ in range(3):
        free.clear()
        with executor():
            outputs, after = graph(tf.constant(1))
        assert free == [2, 0, 2]
        assert (outputs["a"], outputs["b"][0], outputs["b"][1], after) == (7, 2.0, (), 9)


def test_a_permit_is_not_taken_before_the_inputs_are_there(executor):
    """Otherwise an actor would hold a permit for as long as it waits for a request."""
    semaphore, late = Semaphore(1, "permits"), Inside(waits=True)

    def graph():
        x = tf.numpy_function(late, [1], tf.int64)
        return semaphore.hold(1, x, lambda: x + 1)

    thread, outcome = run_in_thread(trace(graph, executor), executor)
    assert late.entered.wait(60)
    thread.join(0.05)
    assert count_free(semaphore) == 1
    late.leave.set()
    thread.join(60)
    assert outcome[0] == 2 and count_free(semaphore) == 1


@pytest.mark.parametrize("num_waiting", [1, 4])
def test_closing_wakes_whoever_waits(num_waiting):
    semaphore, inside, never = Semaphore(1, "permits"), Inside(waits=True), Inside()
    holder, holder_outcome = run_in_thread(make_holder(semaphore, inside, 1))
    assert inside.entered.wait(60)
    one = make_holder(semaphore, never, 1)
    waiting = [run_in_thread(one) for _ in range(num_waiting)]
    waiting[0][0].join(0.1)
    assert all(thread.is_alive() for thread, _ in waiting)
    semaphore.close()
    semaphore.close()  # may be repeated
    for thread, outcome in waiting:
        thread.join(60)
        assert not thread.is_alive(), "it waits although the semaphore is closed"
        assert isinstance(outcome[0], tf.errors.OutOfRangeError), outcome
    assert never.calls == 0
    # Who is inside ends its call, and fails when it gives its permit back.
    inside.leave.set()
    holder.join(60)
    assert isinstance(holder_outcome[0], tf.errors.CancelledError), holder_outcome


def test_an_error_while_it_is_held_keeps_the_permit():
    """The driver closes everything then: nobody may use what a failed call has left half done."""
    semaphore = Semaphore(1, "permits")

    def fail(num_permits):
        raise OSError("broken")

    with pytest.raises(tf.errors.OpError, match="broken"), single_threaded():
        make_holder(semaphore, fail, 1)()
    assert count_free(semaphore) == 0
    waiting, outcome = run_in_thread(make_holder(semaphore, Inside(), 1))
    waiting.join(0.1)
    assert waiting.is_alive()
    semaphore.close()
    waiting.join(60)
    assert isinstance(outcome[0], tf.errors.OutOfRangeError)
