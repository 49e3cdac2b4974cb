# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""benchmarks.throughput and benchmarks.splits, which runs it: their figures, and what they run."""

import dataclasses
import json
from typing import NamedTuple

import pytest

from alf.drivers import AsyncOffPolicyDriver
from benchmarks.workloads import WORKLOADS
from tests.benchmarks.conftest import fork_python, import_program
from tests.programs import run_module

pytestmark = pytest.mark.programs

throughput = import_program("benchmarks.throughput")
splits = import_program("benchmarks.splits")


class Measured(NamedTuple):
    """What `benchmarks.splits` has measured, and what `benchmarks.throughput` has printed for it."""

    result: dict
    printed: str


@pytest.fixture(scope="module")
def measured():
    """Of six environments in two splits."""
    with pytest.MonkeyPatch.context() as patch:
        outputs = fork_python(patch)
        return Measured(splits.measure("cartpole_python", 6, (2, 2, 1), 1.0), *outputs)


def test_prints_and_writes_one_json_object(measured):
    result, printed = measured
    assert json.loads(printed) == result
    assert (result["workload"], result["batch_size"], result["unroll_length"]) == ("cartpole_python", 3, 16)
    costs = [1 / result[f"{part}_alone_steps_per_second_per_core"] for part in ("env", "forward", "train")]
    assert result["limit_steps_per_second"] == pytest.approx(result["cores"] / sum(costs))
    assert result["fraction_of_limit"] == pytest.approx(
        result["trained_steps_per_second"] / result["limit_steps_per_second"]
    )
    assert 0 < result["trained_steps_per_second"] < result["limit_steps_per_second"]
    assert result["rollout_only_steps_per_second"] > 0
    assert 0 < result["cpu_cores_used"] <= result["cores"] + 0.2
    assert result["peak_memory_mb"] > 100
    assert result["seconds_to_first_train_step"] > 0


def test_two_splits_share_their_workers(measured):
    result, _ = measured
    assert (result["num_envs"], result["batch_size"], result["learn_queue_cap"]) == (2, 3, 2)
    assert result["worker_processes"] == 1 and 5 < result["memory_of_workers_mb"] < 500
    row = splits.format_row("two splits", [result]).split(" | ")
    assert len(row) == 6 and row[0] == "| two splits" and row[4] == "1"


def test_every_kind_has_the_same_number_of_environments():
    for num_envs, num_splits, num_workers in splits.make_kinds(3).values():
        assert 6 % num_envs == 0 and num_envs % num_splits == 0 and num_workers >= 1


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_settings_of_each_workload_fit_together(name):
    workload = dataclasses.replace(WORKLOADS[name], num_envs=1, batch_size=2)
    env = (workload.env_alone or workload.env)(2, 0)
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
