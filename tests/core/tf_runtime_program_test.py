# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What belongs to the process of TensorFlow: its threads, and whether its operations are deterministic."""

import os

import pytest

from tests.programs import ROOT, ForkServer, environment

pytestmark = pytest.mark.programs


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A function that runs one of the program, in a fork in which TensorFlow has not started."""
    modules = ("alf", "alf.algorithms", "tests.tf_runtime_program")
    server = ForkServer(tmp_path_factory.mktemp("forks"), environment(PYTHONPATH=str(ROOT)), *modules)

    def run(function, number):
        done = server.run(f"tests.tf_runtime_program:{function}", number, cwd=ROOT)
        assert done.status == 0, done.err
        return [int(x) for x in done.out.split()]

    yield run
    server.close()


def test_the_intra_op_pool_has_as_many_threads_as_set(run):
    (few, few_in_all), (many, many_in_all) = (run("count_threads", number) for number in (1, 7))
    assert (few, many) == (1, 7)
    assert many_in_all - few_in_all == 6


def test_on_one_core_each_operation_has_one_thread(run):
    assert run("reserve_on_cores", 1) == [1, 0]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core")
def test_on_several_cores_it_is_for_tensorflow_to_choose(run):
    assert run("reserve_on_cores", 2) == [0, 1]


@pytest.mark.parametrize("started_with, threads", [(0, 64), (1, 1), (2, 2), (8, 8)])
def test_functions_in_functions_do_not_wait_for_each_other(run, started_with, threads):
    """On any number of cores, also where a user's program has started TensorFlow before."""
    assert run("nest_functions", started_with) == [4, threads]


@pytest.mark.parametrize("is_deterministic", [0, 1])
def test_graphs_stamp_the_time_also_where_tensorflow_refuses_to(run, is_deterministic):
    """Between the two clocks is one call of a traced function."""
    (seconds,) = run("stamp_time", is_deterministic)
    assert 0 <= seconds < 60
