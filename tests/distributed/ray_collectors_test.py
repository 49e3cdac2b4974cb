# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Collectors as Ray actors: processes that are killed, late, or whose environments raise."""

import os
import signal
import time

import numpy as np
import pytest

from alf.distributed import RayCollectors, ray_collectors
from alf.drivers import AsyncOffPolicyDriver, EnvSpecs
from alf.drivers.collector import Collector
from alf.errors import ConfigError, EnvError
from alf.testing.fakes import FrozenPolicy, RecordingLearner, make_counting_envs
from alf.testing.toy_environments import CountingEnvironment

ray = pytest.importorskip("ray")

B = 2
ROW = 1  # of the observation of `CountingEnvironment`
PID = "pid"


class WithPid(CountingEnvironment):
    """Writes the id of its process into a file when it is made."""

    def __init__(self, batch_size, episode_length, env_index, folder):
        super().__init__(batch_size, episode_length, env_index)
        with open(os.path.join(folder, f"{PID}{env_index}"), "w") as file:
            file.write(str(os.getpid()))


class Broken(CountingEnvironment):
    def _step(self, action):
        raise KeyError("my own bug")


class Hangs(CountingEnvironment):
    """Hangs after some steps."""

    def _step(self, action):
        if self._num_steps_before[0] == 10:
            time.sleep(3600)
        return super()._step(action)


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """One Ray for all tests of this file: to start it takes seconds."""
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield
    ray.shutdown()


class MakeCollector:
    """Makes collectors of counting environments; `classes` by number of restarts, the last one for more."""

    def __init__(self, classes, **kwargs):
        self._classes, self._kwargs = classes, kwargs

    def __call__(self, index, num_restarts, num_envs, first_env_id, **settings):
        cls = self._classes[min(num_restarts, len(self._classes) - 1)]
        first_env = first_env_id // B
        envs = make_counting_envs(first_env + num_envs, B, cls=cls, **self._kwargs)[first_env:]
        return Collector(envs, FrozenPolicy(envs[0]), first_env_id, **settings)


def make_driver(
    classes=(CountingEnvironment,), num_collectors=2, learn_queue_cap=2, env_kwargs=None, **kwargs
):
    make = MakeCollector(classes, **(env_kwargs or {}))
    env = CountingEnvironment(B)
    collectors = RayCollectors(
        make, EnvSpecs([env]), num_collectors=num_collectors, num_envs=1, num_cpus=0, **kwargs
    )
    learner = RecordingLearner(FrozenPolicy(env))
    driver = AsyncOffPolicyDriver(
        [], learner, unroll_length=4, learn_queue_cap=learn_queue_cap, collectors=collectors
    )
    return driver, learner


def run(driver, learner, done, timeout=120):
    deadline = time.monotonic() + timeout
    try:
        driver.start()
        while not done():
            driver.collect()
            assert time.monotonic() < deadline, "a collector starves"
    finally:
        driver.stop()


def is_contiguous(unrolls):
    """Whether each unroll begins with the row that the one before ended with."""
    return [(a.observation[-1, 0, ROW] == b.observation[0, 0, ROW]) for a, b in zip(unrolls, unrolls[1:])]


def test_unrolls_arrive_once_and_in_order():
    driver, learner = make_driver()
    run(driver, learner, lambda: min(map(len, learner.unrolls(2))) >= 5)
    for env, unrolls in enumerate(learner.unrolls(2)):
        assert all(is_contiguous(unrolls))
        assert unrolls[0].observation[0, 0, ROW] == 0
        assert (unrolls[0].env_id == env * B + np.arange(B)).all()


def test_a_collector_that_is_killed_is_replaced(tmp_path):
    driver, learner = make_driver((WithPid,), env_kwargs={"folder": str(tmp_path)})
    kills = []

    def done():
        unrolls = learner.unrolls(2)
        if len(kills) < 2 and len(unrolls[1]) > 3 * (len(kills) + 1):
            kills.append(len(unrolls[1]))
            os.kill(int((tmp_path / f"{PID}1").read_text()), signal.SIGKILL)
        broken = is_contiguous(unrolls[1]).count(False)
        return len(kills) == 2 and broken == 2 and len(unrolls[1]) > kills[-1] + 5

    run(driver, learner, done)
    assert driver.num_restarts == 2
    first, second = learner.unrolls(2)
    assert all(is_contiguous(first))
    # Nothing is learned twice: a new process begins at its row 0, and no row comes again before that.
    starts = [i for i, unroll in enumerate(second) if unroll.observation[0, 0, ROW] == 0]
    assert len(starts) == 3 and starts[0] == 0
    for start, end in zip(starts, [*starts[1:], len(second)]):
        assert all(is_contiguous(second[start:end]))


def test_a_collector_that_does_not_answer_is_replaced():
    driver, learner = make_driver((Hangs, CountingEnvironment), timeout=3.0, learn_queue_cap=1)
    run(driver, learner, lambda: min(map(len, learner.unrolls(2))) >= 2)
    assert driver.num_restarts >= 2


def test_too_many_losses_end_the_run():
    driver, learner = make_driver((Hangs,), num_collectors=1, learn_queue_cap=1, timeout=3.0, max_restarts=1)
    with pytest.raises(
        EnvError, match="collector 0 of 1 has not answered for 3 s; max_restarts=1 is reached"
    ):
        run(driver, learner, lambda: False)


def test_what_an_environment_raises_ends_the_run():
    driver, learner = make_driver((Broken,))
    with pytest.raises(KeyError, match="my own bug"):
        run(driver, learner, lambda: False)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"num_collectors": 0}, "RayCollectors.num_collectors is 0: it must be an integer, at least 1"),
        ({"num_envs": 0}, "RayCollectors.num_envs is 0"),
        ({"num_unrolls": 3}, "RayCollectors.num_unrolls is 3, more than num_envs = 2"),
        ({"max_requests_in_flight": 0}, "RayCollectors.max_requests_in_flight is 0"),
        ({"broadcast_interval": 0}, "RayCollectors.broadcast_interval is 0"),
        ({"weights_dtype": "int8"}, "RayCollectors.weights_dtype is 'int8'"),
        ({"placement": "PACK"}, "RayCollectors.placement is 'PACK'"),
        ({"num_cpus": -1}, "RayCollectors.num_cpus is -1"),
        ({"num_gpus": -1}, "RayCollectors.num_gpus is -1"),
        ({"timeout": 0}, "RayCollectors.timeout is 0"),
        ({"start_timeout": 0}, "RayCollectors.start_timeout is 0"),
        ({"max_restarts": -1}, "RayCollectors.max_restarts is -1"),
        ({"restart_period": 0}, "RayCollectors.restart_period is 0"),
        ({"resources": 3}, "RayCollectors.resources is 3"),
    ],
)
def test_wrong_settings(kwargs, message):
    with pytest.raises(ConfigError, match=message):
        RayCollectors(None, EnvSpecs([CountingEnvironment(B)]), **kwargs)


def test_without_ray_there_is_one_line(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(ConfigError, match=r'^RayCollectors needs Ray: pip install "alf-tf\[ray\]"$'):
        ray_collectors._start_ray(None)
