# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Drivers that are made and stopped leave no memory behind."""

import ctypes
import gc
import sys
import weakref

import pytest
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework.func_graph import FuncGraph
from tensorflow.python.ops import script_ops

from alf.core.tf_runtime import single_threaded, trace
from alf.drivers import AsyncOffPolicyDriver, EnvSpecs, NestFIFOQueue, SyncOffPolicyDriver
from alf.drivers.actor_thread import act
from alf.drivers.stage_clock import StageClock
from alf.drivers.unroller import EnvUnroller
from alf.ops.draws import Stream
from alf.testing.fakes import FakeEnvironment, FrozenPolicy, RecordingLearner, make_counting_envs
from tests.builders import build_driver, collect_and_observe

DRIVERS = [AsyncOffPolicyDriver, SyncOffPolicyDriver]


class _Mallinfo(ctypes.Structure):
    # Of glibc's struct, ten sizes, this test needs two.
    _fields_ = [(name, ctypes.c_size_t) for name in (*"abcd", "mapped", *"fg", "in_use", *"ij")]


def count_allocated_bytes():
    """Bytes that C and C++ have allocated and not freed, from glibc. It is exact; resident memory is not."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _Mallinfo
    info = mallinfo2()
    return info.in_use + info.mapped


def run_driver(driver_class, learner=None):
    envs = make_counting_envs(1, cls=FakeEnvironment)
    learner = learner or RecordingLearner(FrozenPolicy(envs[0]))
    driver = build_driver(driver_class, envs, learner, unroll_length=3)
    driver.start()
    collect_and_observe(driver)
    driver.stop()
    learner.observed.clear()
    learner.policy.rows.clear()


def count_leftovers():
    """What TensorFlow keeps: functions that graphs call, functions of the context, and graphs."""
    gc.collect()
    graphs = sum(isinstance(x, FuncGraph) for x in gc.get_objects())
    return script_ops._py_funcs.size(), len(context.context().list_function_names()), graphs


@pytest.mark.parametrize("same_learner", [True, False])
def test_tensorflow_keeps_no_function_of_a_driver(same_learner):
    learner = RecordingLearner(FrozenPolicy(make_counting_envs(1)[0])) if same_learner else None

    def run_drivers():
        for driver_class in DRIVERS:
            run_driver(driver_class, learner)

    run_drivers()
    *functions, graphs = count_leftovers()
    for _ in range(2):
        run_drivers()
    *functions_now, graphs_now = count_leftovers()
    assert all(now <= before for now, before in zip(functions_now, functions, strict=True))
    assert graphs_now < graphs + 2, "a graph of each driver is left"


def use_unroller():
    """Makes an unroll; returns weak references to the unroller and the environment."""
    envs = make_counting_envs(1, cls=FakeEnvironment)
    policy, specs, stream = FrozenPolicy(envs[0]), EnvSpecs(envs), Stream()

    def ask(env_index, frame):
        time_step = frame.time_step._replace(env_id=specs.env_ids(env_index))
        return act(policy, stream, time_step, frame.state, [(env_index, frame.count)])

    unroller = EnvUnroller(envs, specs, policy, 3, ask, [StageClock()])
    with single_threaded():
        index = tf.TensorSpec((), tf.int32)
        frame = unroller.begin(trace(unroller.first_frame, index, tf.TensorSpec((), tf.int64)), 0)
        unroller.run(trace(unroller.unroll, index, specs.frame_spec(policy)), 0, frame)
    return weakref.ref(unroller), weakref.ref(envs[0])


def test_an_unroller_and_its_environments_go_at_once_when_nobody_needs_them():
    """Its graphs call its functions, but do not hold it. Python's search for cycles may come much later."""
    gc.disable()
    try:
        assert [reference() for reference in use_unroller()] == [None, None]
    finally:
        gc.enable()


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc")
def test_tensorflow_keeps_no_kernel_of_a_queue():
    def use_queue():
        queue = NestFIFOQueue(2, tf.TensorSpec((), tf.int32))
        queue.enqueue(1)
        assert (queue.size(), int(queue.dequeue())) == (1, 1)
        queue.close()

    for _ in range(20):
        use_queue()
    gc.collect()
    before = count_allocated_bytes()
    for _ in range(100):
        use_queue()
    gc.collect()
    # Each one took 36 KB for ever. Now it is less than 1 KB.
    assert count_allocated_bytes() - before < 100 * 5_000


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc")
@pytest.mark.parametrize("driver_class", DRIVERS)
@pytest.mark.parametrize("same_learner", [True, False])
def test_memory_is_flat(driver_class, same_learner):
    """What is allocated; the resident memory goes up and down by 50 MB with what glibc keeps in reserve."""

    def run_drivers(number):
        for _ in range(number):
            run_driver(driver_class, learner)
        gc.collect()
        return count_allocated_bytes(), sys.getallocatedblocks()

    learner = RecordingLearner(FrozenPolicy(make_counting_envs(1)[0])) if same_learner else None
    bytes_before, blocks_before = run_drivers(30)
    bytes_now, blocks_now = run_drivers(100)
    assert bytes_now - bytes_before < 100 * 20_000
    assert blocks_now - blocks_before < 100 * 50  # of Python's own memory: objects below 512 bytes
