# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""benchmarks.throughput: its figures, and what it runs."""

import dataclasses
import json
from typing import NamedTuple

import pytest

from alf.drivers import AsyncOffPolicyDriver
from benchmarks.workloads import WORKLOADS
from tests.benchmarks.conftest import import_program
from tests.programs import run_module

pytestmark = pytest.mark.programs

throughput = import_program("benchmarks.throughput")


class Measured(NamedTuple):
    """What `benchmarks.throughput` has written, and what it has printed."""

    result: dict
    printed: str


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Of six environments in two batches, each with a worker."""
    path = tmp_path_factory.mktemp("throughput") / "result.json"
    settings = dict(num_groups=2, batch_size=3, num_workers=1, learn_queue_cap=2, seconds=1.0)
    arguments = [f"--{name}={value}" for name, value in settings.items()]
    done = run_module("benchmarks.throughput", "--workload=cartpole_python", f"--result={path}", *arguments)
    assert done.status == 0, done.err
    return Measured(json.loads(path.read_text()), done.out)


def test_prints_and_writes_one_json_object(measured):
    result, printed = measured
    assert json.loads(printed) == result
    assert (result["workload"], result["batch_size"], result["unroll_length"]) == ("cartpole_python", 3, 16)
    assert result["trained_steps_per_second"] > 0
    assert result["rollout_only_steps_per_second"] > 0
    assert 0 < result["cpu_cores_used"] <= result["cores"] + 0.2
    assert result["peak_memory_mb"] > 100
    assert result["seconds_to_first_train_step"] > 0


def test_flags_override_the_workload(measured):
    result, _ = measured
    assert (result["num_groups"], result["batch_size"], result["learn_queue_cap"]) == (2, 3, 2)
    assert result["worker_processes"] == 2 and 10 < result["memory_of_workers_mb"] < 1000


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_settings_of_each_workload_fit_together(name):
    workload = dataclasses.replace(WORKLOADS[name], num_groups=1, batch_size=2)
    env = workload.env(2, 0)
    learner = workload.make_learner([env])
    driver = AsyncOffPolicyDriver([env], learner.policy, workload.unroll_length, workload.driver_settings())
    learner.check_batch(*driver.batch_shape)
    driver.stop()


def test_growth_of_memory_is_not_a_batch_in_flight():
    steady = [100.0 + 60.0 * (i % 5 == 0) for i in range(1000)]
    assert throughput._growth(steady) == 0
    assert throughput._growth([x + 0.02 * i for i, x in enumerate(steady)]) == pytest.approx(18, abs=1)


def test_refuses_an_unknown_workload():
    done = run_module("benchmarks.throughput", "--workload=chess")
    assert done.status != 0
    assert "workload" in done.err and "cartpole_vector" in done.err
