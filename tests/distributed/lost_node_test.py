# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A node is lost, with its collectors, its aggregator and the answers that were under way."""

import itertools
import time

import numpy as np
import pytest

from alf.drivers import AsyncOffPolicyDriver, EnvSpecs
from alf.drivers.collector import Collector
from alf.testing.fakes import FrozenPolicy, RecordingLearner, make_counting_envs
from alf.testing.toy_environments import CountingEnvironment
from tests.builders import build_collectors, build_driver, collect_and_observe
from tests.distributed.stand_ins import Endless

pytestmark = pytest.mark.programs

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")

B, UNROLL_LENGTH, NUM_COLLECTORS = 1, 4, 4
ROW = 1  # of the observation of `CountingEnvironment`
MIN_UNROLLS = 10  # of each collector before the loss, and after it
SECONDS = 300  # for what takes some 20


@pytest.fixture
def nodes():
    """A cluster: the learner's node has no place for collectors, each of two others has it for all."""
    cluster = cluster_utils.Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    others = [cluster.add_node(num_cpus=NUM_COLLECTORS) for _ in range(2)]
    ray.init(cluster.address, log_to_driver=False, logging_level="error")
    yield cluster, others
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module")
def answers():
    """The first answer of each collector."""
    collectors = [make_collector(index) for index in range(NUM_COLLECTORS)]
    recorded = [collector.collect() for collector in collectors]
    for collector in collectors:
        collector.close()
    return recorded


def make_collector(index):
    envs = make_counting_envs(index + 1, B)[index:]
    return Collector(envs, FrozenPolicy(envs[0]), index * B, unroll_length=UNROLL_LENGTH)


@pytest.mark.parametrize("max_joined_answers", [1, 3])
def test_what_a_lost_node_had_is_collected_elsewhere(nodes, answers, max_joined_answers):
    cluster, others = nodes
    env = CountingEnvironment(B)
    learner = RecordingLearner(FrozenPolicy(env))
    collectors = build_collectors(
        Endless(answers, UNROLL_LENGTH),
        EnvSpecs([env]),
        NUM_COLLECTORS,
        num_groups=1,
        max_joined_answers=max_joined_answers,
    )
    driver = build_driver(
        AsyncOffPolicyDriver, [], learner, unroll_length=UNROLL_LENGTH, collectors=collectors
    )
    deadline = time.monotonic() + SECONDS
    removed_at, num_seen, counts = None, 0, np.zeros(NUM_COLLECTORS, int)
    try:
        driver.start()
        while removed_at is None or min(counts) < removed_at + MIN_UNROLLS:
            collect_and_observe(driver)
            for experience in itertools.islice(learner.observed, num_seen, None):
                np.add.at(counts, experience.env_id[:, 0, 0] // B, 1)
            num_seen = len(learner.observed)
            if removed_at is None and min(counts) >= MIN_UNROLLS:
                removed_at = max(counts)
                cluster.remove_node(others[0], allow_graceful=False)
            assert time.monotonic() < deadline, counts
    finally:
        driver.stop()
    # Those of the lost node alone began again, once.
    begins = []
    for unrolls in learner.unrolls(NUM_COLLECTORS):
        rows = np.array([unroll.observation[:, 0, ROW] for unroll in unrolls])
        starts = np.flatnonzero(rows[:, 0] == 0)
        begins.append(len(starts))
        for start, end in zip(starts, [*starts[1:], len(rows)]):
            expected = np.arange(end - start)[:, np.newaxis] * UNROLL_LENGTH + np.arange(UNROLL_LENGTH + 1)
            np.testing.assert_array_equal(rows[start:end], expected)
    assert sorted(begins) == [1, 1, 2, 2]
    # More than 2 if Ray started one where the lost node had been, before it knew.
    assert driver.num_restarts >= 2
