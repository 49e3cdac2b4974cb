# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Collectors whose unrolls enter the learn queue of a driver, here in threads in place of processes."""

import concurrent.futures
import functools
import queue
import threading
import time
from typing import NamedTuple

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import ImpalaAlgorithm
from alf.drivers import AsyncOffPolicyDriver, EnvSpecs
from alf.drivers.collector import Collector
from alf.drivers.collector_thread import Collectors
from alf.drivers.weights import get_weights, set_weights
from alf.errors import ConfigError
from alf.learner import optimizers
from alf.testing.fakes import (
    FrozenPolicy,
    RecordingLearner,
    RecordingObserver,
    assert_equal_nests,
    make_counting_envs,
)
from alf.testing.toy_environments import CountingEnvironment, MatchObservationEnvironment
from alf.training import Experiment
from tests.builders import build_driver, build_learner, collect_and_observe, driver_of
from tests.drivers.policy_lag_test import Twins

B = 3
ENV_ID, ROW, STEP = range(3)  # of the observation of `CountingEnvironment`


class ThreadCollectors(Collectors):
    """Collectors in threads of this process.

    Attributes:
        most_under_way: list of the most requests of each collector that were not answered at a time.
    """

    def __init__(self, make_collector, specs, num_collectors, num_groups, num_unrolls=None, in_flight=2):
        self.specs = specs
        self.num_collectors = num_collectors
        self.num_groups = num_collectors * num_groups
        self.num_unrolls = num_unrolls or num_groups
        self.max_requests_in_flight = in_flight
        self.broadcast_interval = 1
        self.weights_dtype = "float32"
        self.attributes = {}
        self.most_under_way, self._under_way = [0] * num_collectors, [0] * num_collectors
        self.published = []
        self._make_collector = make_collector
        self._requests = [queue.SimpleQueue() for _ in range(num_collectors)]
        self._answers = queue.SimpleQueue()
        self._results = []
        self._threads = []

    def start(self, unroll_length):
        for index in range(self.num_collectors):
            collector = self._make_collector(index, num_unrolls=self.num_unrolls, unroll_length=unroll_length)
            thread = threading.Thread(target=self._work, args=(index, collector), daemon=True)
            self._threads.append(thread)
            thread.start()

    def publish(self, weights):
        self.published.append(weights)

    def request(self, index):
        self._under_way[index] += 1
        self.most_under_way[index] = max(self.most_under_way[index], self._under_way[index])
        self._requests[index].put(self.published[-1])

    def receive(self, timeout):
        try:
            answer = self._answers.get(timeout=timeout)
        except queue.Empty:
            return None
        index, leaves = answer
        if isinstance(leaves, BaseException):
            raise leaves
        self._under_way[index] -= 1
        return [index], leaves

    def ask(self, method, *args):
        self._results = [concurrent.futures.Future() for _ in self._requests]
        for requests, future in zip(self._requests, self._results, strict=True):
            requests.put((future, method, *args))

    def receive_results(self, timeout):
        if concurrent.futures.wait(self._results, timeout).not_done:
            return None
        return [future.result() for future in self._results]

    def close(self):
        for requests in self._requests:
            requests.put(None)
        for thread in self._threads:
            thread.join(60)

    def _work(self, index, collector):
        for name, value in self.attributes.items():
            collector.set_attr(name, value)
        while (weights := self._requests[index].get()) is not None:
            if isinstance(weights, tuple):
                future, method, *args = weights
                try:
                    future.set_result(getattr(collector, method)(*args))
                except Exception as error:
                    future.set_exception(error)
                continue
            try:
                self._answers.put((index, collector.collect(weights)))
            except Exception as error:
                self._answers.put((index, error))
        collector.close()


def make_counting(first_env, num_groups):
    envs = make_counting_envs(first_env + num_groups, B)[first_env:]
    return envs, FrozenPolicy(envs[0], counts_steps=True)


def make_driver(num_local, num_collectors, num_groups, unroll_length=4, make=make_counting, **kwargs):
    """A driver with `num_local` environments, and collectors of `num_groups` each."""
    driver_kwargs = {
        name: kwargs.pop(name)
        for name in ("learn_queue_cap", "max_waiting_batches", "mode", "observers", "stop_timeout")
        if name in kwargs
    }

    def make_collector(index, **settings):
        first_env = num_local + index * num_groups
        envs, policy = make(first_env, num_groups)
        return Collector(envs, policy, first_env_id=first_env * B, **settings)

    envs, policy = make(0, max(num_local, 1))
    collectors = ThreadCollectors(make_collector, EnvSpecs(envs[:1]), num_collectors, num_groups, **kwargs)
    learner = RecordingLearner(policy)
    driver = build_driver(
        AsyncOffPolicyDriver,
        envs[:num_local],
        learner,
        unroll_length=unroll_length,
        collectors=collectors,
        **driver_kwargs,
    )
    return driver, learner, collectors


def run(driver, learner, done, counts_updates=False):
    """Collects until `done()`; returns the environment steps."""
    steps, deadline = 0, time.monotonic() + 60
    try:
        driver.start()
        while not done():
            steps += collect_and_observe(driver)
            if counts_updates:
                learner.progress.updates.assign_add(1)
            assert time.monotonic() < deadline, "an environment starves"
    finally:
        driver.stop()
    return steps


class Run(NamedTuple):
    """What a driver with collectors did."""

    total: int  # batched environments
    stands_still: bool  # whether environments make nothing between two requests
    steps: int  # the sum of what `collect` returned
    learner: RecordingLearner
    observer: RecordingObserver
    collectors: ThreadCollectors


@pytest.fixture(
    scope="module",
    # num_local, num_collectors, num_groups, num_unrolls, learn_queue_cap
    params=[(0, 1, 2, 2, 2), (1, 2, 3, 2, 4)],
    ids=["one collector alone", "two beside an environment"],
)
def asynchronous(request):
    """Runs each setting once for the tests that read it; the counter of updates moves as if one trained."""
    num_local, num_collectors, num_groups, num_unrolls, learn_queue_cap = request.param
    observer, total = RecordingObserver(), num_local + num_collectors * num_groups
    sizes = dict(num_unrolls=num_unrolls, learn_queue_cap=learn_queue_cap, in_flight=2)
    driver, learner, collectors = make_driver(
        num_local, num_collectors, num_groups, observers=[observer], **sizes
    )

    def done():
        records = map(observer.of_env, range(total))
        return min(map(len, [*learner.unrolls(total), *records])) >= 5

    steps = run(driver, learner, done, counts_updates=True)
    return Run(total, num_unrolls == num_groups, steps, learner, observer, collectors)


def test_every_step_arrives_once_and_in_order(asynchronous):
    transitions = 0
    for env, unrolls in enumerate(asynchronous.learner.unrolls(asynchronous.total)):
        for i, unroll in enumerate(unrolls):
            ids = np.tile(env * B + np.arange(B), (5, 1))
            np.testing.assert_array_equal(unroll.env_id, ids)
            np.testing.assert_array_equal(unroll.observation[..., ENV_ID], ids)
            rows = np.arange(4 * i, 4 * i + 5)[:, np.newaxis].repeat(B, axis=1)
            np.testing.assert_array_equal(unroll.observation[..., ROW], rows)
            transitions += np.count_nonzero(unroll.step_type[1:])
    assert asynchronous.steps == transitions


def test_the_log_gets_what_the_learner_gets(asynchronous):
    for env, unrolls in enumerate(asynchronous.learner.unrolls(asynchronous.total)):
        for unroll, record in zip(unrolls, asynchronous.observer.of_env(env)):
            np.testing.assert_array_equal(record.reward, unroll.reward[:-1])
            np.testing.assert_array_equal(record.env_id, unroll.env_id[0])


def test_a_request_is_answered_with_its_own_weights(asynchronous):
    """What was under way when the weights changed is all that has old ones."""
    for updates, experience in enumerate(asynchronous.learner.observed):
        version = experience.policy_version[:, :-1]
        assert (version <= updates).all()
        if asynchronous.stands_still:
            assert (version == version.min()).all()
            # 2 answers under way, one in the learn queue, and one that waits to enter it.
            assert updates - version.min() <= 4
    assert version.max() > 0


def test_requests_under_way_are_bounded(asynchronous):
    assert set(asynchronous.collectors.most_under_way) == {2}, "max_requests_in_flight is 2"


def make_match(first_env, num_groups):
    envs = [MatchObservationEnvironment(B, episode_length=7, seed=first_env + i) for i in range(num_groups)]
    return envs, FrozenPolicy(envs[0], counts_steps=True)


def without_ids(unrolls):
    """Unrolls without the env ids that the policy was shown: in a collector they count from 0."""
    strip = lambda u: u._replace(info={**u.info, "seen": u.info["seen"]._replace(env_id=())})  # noqa: E731
    return [[strip(u) for u in of_env] for of_env in unrolls]


def run_lockstep(make):
    """Runs 4 environments in lockstep; returns what the learner of the driver observed."""
    driver, learner = make(learn_queue_cap=4, mode="lockstep", unroll_length=5)
    run(driver, learner, lambda: len(learner.observed) == 6, counts_updates=True)
    return learner


@pytest.fixture(scope="module")
def without_collectors():
    def make(**settings):
        envs, policy = make_match(0, 4)
        learner = RecordingLearner(policy)
        return build_driver(AsyncOffPolicyDriver, envs, learner, **settings), learner

    return run_lockstep(make)


# num_local, num_collectors, num_groups
@pytest.fixture(scope="module", params=[(0, 1, 4), (2, 2, 1)], ids=["one collector alone", "two beside two"])
def lockstep(request):
    return run_lockstep(lambda **settings: make_driver(*request.param, make=make_match, **settings)[:2])


def test_lockstep_collects_what_a_driver_without_collectors_does(lockstep, without_collectors):
    for ours, theirs in zip(lockstep.observed, without_collectors.observed, strict=True):
        np.testing.assert_array_equal(ours.env_id, theirs.env_id)
    assert_equal_nests(without_ids(lockstep.unrolls(4)), without_ids(without_collectors.unrolls(4)))


def test_lockstep_has_no_lag(lockstep):
    for updates, experience in enumerate(lockstep.observed):
        assert (experience.policy_version[:, :-1] == updates).all()


def test_lockstep_needs_an_unroll_of_each_environment():
    with pytest.raises(ConfigError, match="num_unrolls of the collectors must be their num_groups then"):
        make_driver(0, 1, 2, num_unrolls=1, learn_queue_cap=2, mode="lockstep")


@pytest.mark.parametrize("num_groups, num_collectors", [(0, 1), (1, 2)])
def test_an_experiment_takes_collectors_of_another_kind(num_groups, num_collectors):
    """They begin to count where its own environments end."""

    def make_collectors(make_collector, specs, number, first_env_index):
        assert callable(make_collector) and (number, first_env_index) == (num_collectors, num_groups)

        def make(index, **settings):
            first_env_id = (first_env_index + index) * B
            return experiment.make_collector(index, 0, 1, first_env_id=first_env_id, **settings)

        return ThreadCollectors(make, specs, number, 1)

    experiment = Experiment(
        env=lambda seed: CountingEnvironment(B),
        algorithm=ImpalaAlgorithm,
        learner=functools.partial(build_learner, optimizer=optimizers.Adam()),
        num_groups=1,
        num_envs=None if num_groups else 0,
        num_collectors=num_collectors,
        collectors=make_collectors,
        unroll_length=4,
    )
    driver, seen, deadline = driver_of(experiment), set(), time.monotonic() + 60
    driver.learner.observe = lambda experience: seen.update(experience.env_id.numpy().ravel())
    try:
        driver.start()
        while len(seen) < (num_groups + num_collectors) * B:
            collect_and_observe(driver)
            assert time.monotonic() < deadline, seen
    finally:
        driver.stop()
    assert seen == set(range((num_groups + num_collectors) * B))


@gin.configurable(module="tests.collectors_test")
def refuse(*_):
    raise AssertionError("made or called in a collector")


@pytest.mark.parametrize(
    "binding", ["observers = [@refuse]", "observers = [@refuse()]", "metrics = [@refuse()]"]
)
def test_observers_and_metrics_of_the_user_are_not_in_a_collector(binding):
    gin.parse_config(f"Monitoring.{binding}")
    collector = Collector(*make_counting(0, 1))
    try:
        collector.collect()  # it would call them before it returns
    finally:
        collector.close()


def test_weights_are_published_once_in_an_interval():
    driver, learner, collectors = make_driver(0, 1, 1)
    collectors.broadcast_interval = 3
    run(driver, learner, lambda: len(learner.observed) == 9, counts_updates=True)
    updates = learner.policy.progress.updates
    (place,) = [i for i, v in enumerate(learner.policy.variables) if v is updates]
    assert [int(weights[place]) for weights in collectors.published] == [0, 3, 6]


def test_each_action_is_chosen_by_weights_of_one_version():
    def make(first_env, num_groups):
        envs = make_counting_envs(first_env + num_groups, B)[first_env:]
        return envs, Twins(envs[0])

    driver, learner, _ = make_driver(0, 2, 2, make=make)
    try:
        driver.start()
        for _ in range(20):
            collect_and_observe(driver)
            learner.policy.update()
    finally:
        driver.stop()
    versions = np.concatenate([e.policy_version.ravel() for e in learner.observed])
    twins = np.concatenate([e.info["twins"].reshape(-1, 2) for e in learner.observed])
    np.testing.assert_array_equal(twins[:, 0], twins[:, 1])
    np.testing.assert_array_equal(versions, twins[:, 0])
    assert len(set(versions)) > 3


def test_what_an_environment_raises_ends_the_run():
    class Broken(CountingEnvironment):
        def _step(self, action):
            raise KeyError("my own bug")

    def make(first_env, num_groups):
        envs = make_counting_envs(num_groups, B, cls=Broken)
        return envs, FrozenPolicy(envs[0], counts_steps=True)

    driver, learner, _ = make_driver(0, 1, 1, make=make)
    with pytest.raises(KeyError, match="my own bug"):
        run(driver, learner, lambda: False)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_weights_travel(dtype):
    class WithWeights(FrozenPolicy):
        def __init__(self, env):
            super().__init__(env)
            self.kernel = tf.Variable([0.1, -1.0, 3000.25])
            self.statistics = tf.Variable([0.1], trainable=False)

    env = CountingEnvironment(B)
    ours, theirs = WithWeights(env), WithWeights(env)
    ours.kernel.assign([0.2, 0.3, -4.0])
    ours.statistics.assign([0.7])
    ours.progress.updates.assign(2**40 + 1)
    weights = get_weights(ours, dtype)
    set_weights(theirs, weights)
    tolerance = {"float32": 0, "float16": 2**-11, "bfloat16": 2**-8}[dtype]
    np.testing.assert_allclose(theirs.kernel, ours.kernel, rtol=tolerance, atol=0)
    assert (theirs.kernel.numpy() == ours.kernel.numpy()).all() == (dtype == "float32")
    np.testing.assert_array_equal(theirs.statistics, ours.statistics)
    assert int(theirs.progress.updates) == 2**40 + 1


def test_weights_of_another_policy_are_refused():
    policy = FrozenPolicy(CountingEnvironment(B))
    with pytest.raises(ConfigError, match="weights are of another policy"):
        set_weights(policy, [*get_weights(policy), np.zeros(3)])
