# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf benchmark: what it counts, and that nothing is learned while it samples."""

import json
import os
import re
import subprocess
import sys
import time
import types
from pathlib import Path

import gin
import numpy as np
import pytest

import alf
from alf.bin import benchmark
from alf.data_structures import FIRST, count_transitions
from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.learner import update_loop
from alf.testing.fakes import FrozenPolicy, RecordingLearner, make_counting_envs
from alf.tools import throughput
from alf.tools.throughput import cpu_seconds, measure
from alf.training import Experiment
from tests.bin.conftest import KINDS
from tests.bin.forks import SECONDS
from tests.builders import build_driver, collect_and_observe

pytestmark = pytest.mark.programs


@pytest.fixture
def bench(tmp_path, command):
    """A function that measures a gin file, or what flags name; returns status, result and error lines."""

    def run(config=None, settings=(), **values):
        if config is not None:
            path = tmp_path / "mine.gin"
            path.write_text("\n".join(line.strip() for line in config.splitlines()))
            values["what"] = [str(path)]
        values = {"measure_seconds": 0.3, **values}
        status, out, errors = command(benchmark, *settings, **values)
        return status, json.loads(out) if out else None, errors

    return run


@pytest.fixture
def learners(monkeypatch):
    """List of the learners that are made, each with copies of its variables from before."""
    made, make_parts = [], Experiment.make_parts

    def make(self):
        driver, learner = make_parts(self)
        made.append((learner, [x.numpy() for x in learner.variables]))
        return driver, learner

    monkeypatch.setattr(Experiment, "make_parts", make)
    return made


def test_measures_sampling_then_training(bench):
    """For training without a replay buffer see smoke_test.py."""
    status, result, _ = bench(KINDS["dqn"])
    assert status == 0
    for figures in (result["sampling"], result["training"]):
        assert figures["env_steps"] > 0 and figures["seconds"] >= 0.3
        rate = figures["env_steps"] / figures["seconds"]
        assert figures["env_steps_per_second"] == pytest.approx(rate)
        assert 0 < figures["cpu_cores_used"] <= os.cpu_count() + 0.5
        assert figures["bottleneck"] and figures["time_share"]["learner"]
    assert result["sampling"]["updates_per_second"] == 0 < result["training"]["updates_per_second"]
    assert result["num_episodes"] > 0 and result["average_return"] > 0 and result["cores"] == os.cpu_count()
    assert result["what"][0].endswith("mine.gin")


def test_the_time_in_which_xla_compiles_is_not_measured(bench, monkeypatch):
    monkeypatch.setattr(update_loop, "PLAIN_UPDATES", 8)
    left, measure_stages = [], throughput._measure_stages

    def look(driver, learner, *args):
        left.append((int(learner.progress.updates) >= 8, learner.compiles_later))
        return measure_stages(driver, learner, *args)

    monkeypatch.setattr(throughput, "_measure_stages", look)
    settings = ["--num_envs=2", "--unroll_length=4", "--recurrence=2", "--fc_layer_params=(8,)"]
    status, _, _ = bench(settings=settings, what="CartPole-v1", algorithm="impala")
    assert status == 0 and left == [(False, False), (True, False)]  # sampling, training


def test_a_run_that_makes_few_updates_is_measured_before_xla_compiles(bench, monkeypatch):
    monkeypatch.setattr(update_loop, "PLAIN_UPDATES", 10**9)
    monkeypatch.setattr(throughput, "_MOST_UNTIL_COMPILED", 0.2)
    settings = ["--num_envs=2", "--unroll_length=4", "--recurrence=2", "--fc_layer_params=(8,)"]
    status, result, _ = bench(settings=settings, what="CartPole-v1", algorithm="impala")
    assert status == 0 and result["training"]["updates_per_second"] > 0


def test_it_names_what_to_measure_as_alf_train_does(bench):
    settings = ["--num_envs=4", "--num_groups=1", "--unroll_length=4", "--fc_layer_params=(8,)"]
    given = dict(what="CartPole-v1", algorithm="impala", sample_only=True)
    status, result, errors = bench(settings=settings, **given)
    assert (status, errors) == (0, []) and result["sampling"]["env_steps"] > 0
    assert "Experiment.num_envs = 4" in result["settings"]
    status, _, errors = bench(settings=[*settings, "--RMSprop.rho=0.5"], **given)
    assert (status, errors) == (2, ["error: nothing reads the gin binding RMSprop.rho"])


def test_each_step_is_measured_once():
    progress = types.SimpleNamespace(updates=7)
    learner = types.SimpleNamespace(progress=progress)
    calls = []

    def iterate():
        calls.append(1)
        progress.updates += 2
        return 5

    speed = measure(learner, iterate, 0.01)
    assert (speed.env_steps, speed.updates) == (5 * len(calls), 2 * len(calls))
    assert speed.seconds >= 0.01


@pytest.mark.parametrize(
    "kind, driver", [("dqn", "AsyncOffPolicyDriver"), ("cartpole", "SyncOffPolicyDriver")]
)
def test_nothing_is_learned_from_samples(bench, learners, driver, kind):
    config = KINDS[kind] + f"\nExperiment.driver = @{driver}\n"
    config += "Experiment.data_transformers = (@ObservationNormalizer,)\n"
    status, result, _ = bench(config, sample_only=True)
    assert status == 0 and result["training"] is None
    assert result["sampling"]["env_steps"] > 0
    ((learner, before),) = learners
    for a, b in zip(before, learner.variables, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_run_gives_its_configuration_and_its_policy(bench, root_of, learners):
    root_dir = root_of("cartpole")

    def list_files():
        return {str(path): path.stat().st_mtime_ns for path in Path(root_dir).rglob("*")}

    before = list_files()
    status, result, _ = bench(what=root_dir, settings=["--unroll_length=2"], sample_only=True)
    assert status == 0 and result["checkpoint"].endswith("ckpt-2")
    assert result["settings"] == ["Experiment.unroll_length = 2"]
    policy = alf.load_agent(root_dir).policy
    for a, b in zip(policy.variables, learners[0][0].policy.variables, strict=True):
        np.testing.assert_array_equal(a, b)
    assert any((a != b.numpy()).any() for a, b in zip(learners[0][1], learners[0][0].variables, strict=True))
    assert list_files() == before


def test_alf_benchmark_in_python():
    """It returns what the command prints; gin is as it was."""
    gin.clear_config()
    small = dict(num_envs=4, num_groups=1, unroll_length=4, fc_layer_params=(8,), measure_seconds=0.2)
    result = alf.benchmark("CartPole-v1", algorithm="impala", **small)
    assert result["what"] == ["CartPole-v1"] and "Experiment.num_envs = 4" in result["settings"]
    assert result["sampling"]["env_steps"] > 0 and result["training"]["updates_per_second"] > 0
    assert not gin.config._CONFIG
    for given, message in (
        (dict(measure_seconds=0.0), "^benchmark.measure_seconds is 0.0: it must be a number at least 0.1$"),
        (dict(checkpoint="best"), "^checkpoint is 'best': it needs the folder of the run that has it$"),
        (dict(measure_second=1), "did you mean measure_seconds "),
    ):
        with pytest.raises(alf.ConfigError, match=message):
            alf.benchmark("CartPole-v1", **given)


def test_the_result_is_there_though_an_environment_cannot_be_closed(bench, monkeypatch):
    def close(self):
        raise RuntimeError("the end is broken")

    monkeypatch.setattr("gymnasium.envs.classic_control.CartPoleEnv.close", close)
    shown = []
    monkeypatch.setattr(
        "alf.tools.throughput.logging.exception", lambda text: shown.append(sys.exc_info()[1])
    )
    status, result, _ = bench(KINDS["cartpole"], sample_only=True)
    assert status == 0 and result["sampling"]["env_steps"] > 0
    assert "the end is broken" in str(shown[0])


WRONG = [
    ({}, "nothing says what to train"),
    ({"what": "/no/such/run"}, "there is no '/no/such/run'"),
    (
        {"config": KINDS["cartpole"], "measure_seconds": float("nan")},
        "^error: --measure_seconds is nan: it must be a number at least 0.1$",
    ),
    (
        {"config": KINDS["cartpole"], "checkpoint": "best"},
        "^error: --checkpoint is 'best': it needs the folder of the run that has it$",
    ),
    ({"config": KINDS["cartpole"], "settings": ["--Experiment.num_envs=0"]}, "num_envs is 0"),
    ({"config": ""}, 'write alf.environments.load.name = "CartPole-v1"'),
]


def test_wrong_flags_are_one_line(bench, subtests):
    for values, message in WRONG:
        with subtests.test(str(values)[-60:]):
            status, result, (error,) = bench(**values)
            assert status == 2 and result is None
            assert re.search(message, error)


@pytest.mark.parametrize("driver_class", [AsyncOffPolicyDriver, SyncOffPolicyDriver])
def test_samples_are_counted_and_not_observed(driver_class):
    envs = make_counting_envs(2, 3, 4)
    learner = RecordingLearner(FrozenPolicy(envs[0], counts_steps=True))
    driver = build_driver(driver_class, envs, learner, unroll_length=5)
    driver.start()
    try:
        batches = [batch for _ in range(20) for batch in driver.collect()]
        sampled = sum(int(count_transitions(batch.step_type)) for batch in batches)
        collected = collect_and_observe(driver)
        assert len(learner.observed) == 1
    finally:
        driver.stop()
    made = 0  # by 21 unrolls of each environment
    for env in make_counting_envs(2, 3, 4):
        env.reset()
        steps = [env.step(np.zeros(3, np.int64)) for _ in range(21 * 5)]
        made += sum(int(np.count_nonzero(step.step_type != FIRST)) for step in steps)
    if driver_class is SyncOffPolicyDriver:
        assert sampled + collected == made
    else:  # one environment may be ahead of the other
        assert sampled + collected >= 21 * 5 * 3 * 0.75  # at most every fifth row is a reset
        assert sampled + collected <= 21 * 5 * 3


def test_cpu_time_counts_processes_that_were_started():
    program = (
        "import time\nstart = time.process_time()\nwhile time.process_time() < start + 0.5: pass\ninput()"
    )
    before = cpu_seconds()
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as process:
        deadline = time.monotonic() + SECONDS
        own = time.process_time()
        while cpu_seconds() - before - (time.process_time() - own) < 0.5:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.communicate(b"\n")
