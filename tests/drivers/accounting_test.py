# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Every environment step reaches the learner exactly once and in order, whatever the queues' sizes.

The counting environment shows what is lost, doubled or out of order in its observation; the
policy notes in its info what it was shown, so an answer that went astray shows as well.
"""

import threading
import time
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from alf.data_structures import FIRST, LAST, Experience
from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.testing.fakes import (
    FakeEnvironment,
    FrozenPolicy,
    RecordingLearner,
    RecordingObserver,
    assert_equal_nests,
    in_a_row,
    make_counting_envs,
)
from alf.testing.toy_environments import CountingEnvironment, NullEnvironment
from tests.builders import build_driver, collect_and_observe

B = 3  # so that the sub-environments of CountingEnvironment have three different episode lengths
ENV_ID, ROW, STEP = range(3)  # of the observation
MIN_UNROLLS = 6  # of every environment


class Setting(NamedTuple):
    num_groups: int
    num_actor_queues: int
    actor_queue_cap: int
    learn_queue_cap: int
    unroll_length: int
    episode_length: int
    num_env_threads: int | None = None
    prefetch: bool = False

    def make_driver(self, **kwargs):
        envs = make_counting_envs(self.num_groups, B, self.episode_length)
        learner = RecordingLearner(FrozenPolicy(envs[0], counts_steps=True))
        driver = build_driver(
            AsyncOffPolicyDriver,
            envs,
            learner,
            num_actor_queues=self.num_actor_queues,
            actor_queue_cap=self.actor_queue_cap,
            learn_queue_cap=self.learn_queue_cap,
            unroll_length=self.unroll_length,
            num_env_threads=self.num_env_threads,
            prefetch=self.prefetch,
            **kwargs,
        )
        return driver, learner


SETTINGS = [
    Setting(1, 1, 1, 1, 5, 4),
    Setting(2, 1, 2, 2, 3, 1),  # every second row is the start of an episode
    Setting(3, 2, 1, 3, 1, 4),
    Setting(4, 2, 2, 1, 7, 20),  # episodes longer than unrolls
    Setting(5, 2, 2, 4, 6, 5),
    Setting(4, 2, 1, 3, 6, 5, num_env_threads=2),
    Setting(4, 1, 2, 2, 5, 4, num_env_threads=2),  # an actor answers two threads of two environments
    Setting(3, 0, 1, 2, 4, 5, num_env_threads=1),
    Setting(3, 1, 2, 2, 4, 5, prefetch=True),
    Setting(3, 0, 1, 2, 4, 5),  # without actors
]


class Run(NamedTuple):
    """What a driver did with one setting."""

    setting: Setting
    steps: list  # of each call of `collect_and_observe`
    counters: list  # of updates, when the batch was taken
    learner: RecordingLearner
    unrolls: list  # per environment
    observer: RecordingObserver
    metrics: dict  # results by name, after stop()
    queues: dict  # sizes by name


@pytest.fixture(scope="module", params=SETTINGS, ids=lambda s: "-".join(map(str, s)))
def run(request):
    """Runs each setting once for all tests; the counter of updates moves as if one trained."""
    setting = request.param
    observer = RecordingObserver()
    driver, learner = setting.make_driver(observers=[observer])
    steps, counters = [], []
    deadline = time.monotonic() + 60
    try:
        driver.start()
        unrolls = learner.unrolls(setting.num_groups)
        while min(map(len, unrolls)) < MIN_UNROLLS:
            steps.append(collect_and_observe(driver))
            counters.append(int(learner.progress.updates.assign_add(1)) - 1)
            unrolls = learner.unrolls(setting.num_groups)
            assert time.monotonic() < deadline, "an environment starves"
        # The log has its own queue, which may lag behind.
        assert observer.wait_for(
            lambda: all(len(observer.of_env(i)) >= len(u) for i, u in enumerate(unrolls))
        ), "the log did not catch up"
    finally:
        driver.stop()
    metrics = {metric.name: metric.result() for metric in driver.get_metrics()}
    return Run(setting, steps, counters, learner, unrolls, observer, metrics, driver.queue_sizes())


def test_every_environment_contributes(run):
    num_unrolls = sum(len(u) for u in run.unrolls)
    assert num_unrolls == len(run.steps) * run.setting.learn_queue_cap
    assert all(len(u) >= MIN_UNROLLS for u in run.unrolls)


def test_consecutive_unrolls_overlap_in_one_row_that_is_answered_in_the_later_one(run):
    row = lambda x, t: tf.nest.map_structure(lambda a: a[t], x._replace(state=()))  # noqa: E731
    answer = lambda x: (x.action, x.info, x.policy_version)  # noqa: E731
    for unrolls in run.unrolls:
        for before, after in zip(unrolls, unrolls[1:]):
            assert_equal_nests(row(before, -1)[:6], row(after, 0)[:6])
            assert_equal_nests(answer(row(before, -1)), answer(row(before, -2)))


def test_rows_are_those_of_the_environment_once_each_and_in_order(run):
    for index, unrolls in enumerate(run.unrolls):
        rows = in_a_row(unrolls)
        env = CountingEnvironment(B, run.setting.episode_length, env_index=index)
        expected = [env.reset()]
        for _ in rows.step_type[1:]:
            expected.append(env.step(np.zeros(B, np.int64)))
        for t, row in enumerate(expected):
            np.testing.assert_array_equal(rows.step_type[t], row.step_type)
            np.testing.assert_array_equal(rows.reward[t], row.reward)
            np.testing.assert_array_equal(rows.discount[t], row.discount)
            np.testing.assert_array_equal(rows.observation[t], row.observation)
        counter = np.arange(len(unrolls) * run.setting.unroll_length + 1)
        np.testing.assert_array_equal(rows.observation[..., ROW], np.stack([counter] * B, axis=1))
        assert np.any(rows.step_type == LAST)


def test_steps_returned_are_the_transitions(run):
    for steps, experience in zip(run.steps, run.learner.observed, strict=True):
        transitions = 0
        for q in range(run.setting.learn_queue_cap):
            for t in range(run.setting.unroll_length):
                for b in range(B):
                    transitions += experience.step_type[q, t, b] != LAST
        assert isinstance(steps, int)
        assert steps == transitions
    # Unrolls of an environment neither share transitions nor leave one out.
    total = sum(np.sum(in_a_row(u).step_type[:-1] != LAST) for u in run.unrolls)
    assert sum(run.steps) == total


def test_env_ids_are_those_of_the_observations(run):
    for unrolls in run.unrolls:
        for unroll in unrolls:
            np.testing.assert_array_equal(unroll.env_id, unroll.observation[..., ENV_ID])
    ids = np.concatenate([u[0].env_id[0] for u in run.unrolls])
    np.testing.assert_array_equal(ids, np.arange(run.setting.num_groups * B))


def test_prev_action_is_the_action_before_and_zero_where_an_episode_begins(run):
    seen = set()
    for unrolls in run.unrolls:
        rows = in_a_row(unrolls)
        first = rows.step_type == FIRST
        assert np.all(rows.prev_action[first] == 0)
        after = ~first[1:]
        np.testing.assert_array_equal(rows.prev_action[1:][after], rows.action[:-1][after])
        seen |= set(rows.action.ravel().tolist())
    assert seen == {0, 1}, "the actions must differ for this to mean anything"


def test_the_answer_is_that_of_the_row(run):
    """`info` notes what the policy saw: it must be the row in which it is stored."""
    for unrolls in run.unrolls:
        for unroll in unrolls:
            answered = tf.nest.map_structure(lambda x: x[:-1], unroll._replace(state=()))
            assert_equal_nests(answered.info["seen"], type(answered.info["seen"])(*answered[:6]))
            expected = (np.sum(answered.observation, axis=-1) * 37).astype(np.int64) % 2
            np.testing.assert_array_equal(answered.action, expected)


def test_recurrent_state_counts_the_steps_of_the_episode(run):
    for unrolls in run.unrolls:
        rows = in_a_row(unrolls)
        np.testing.assert_array_equal(rows.info["state"][:-1], rows.observation[:-1, :, STEP])
        before = np.concatenate([np.zeros((1, B)), rows.info["state"] + 1])
        for k, unroll in enumerate(unrolls):
            # What entered row 0, not yet reset where row 0 is FIRST.
            np.testing.assert_array_equal(unroll.state.train, before[k * run.setting.unroll_length])


def test_policy_version_never_falls_and_is_never_ahead(run):
    newest = 0
    for unrolls in run.unrolls:
        rows = in_a_row(unrolls)
        assert np.all(np.diff(rows.policy_version, axis=0) >= 0)
        # The weights may be newer than the version says, never older.
        assert np.all(rows.info["version"] >= rows.policy_version)
        newest = max(newest, rows.policy_version.max())
    for counter, experience in zip(run.counters, run.learner.observed, strict=True):
        assert np.all(experience.policy_version <= counter)
    assert newest > 0, "the actors never saw an update"


def test_actors_answer_whole_batches(run):
    setting = run.setting
    envs_of_a_thread = setting.num_groups // (setting.num_env_threads or setting.num_groups)
    assert set(run.learner.policy.rows) == {setting.actor_queue_cap * envs_of_a_thread * B}


def test_observers_get_every_step_once_and_in_order(run):
    for index, unrolls in enumerate(run.unrolls):
        records = run.observer.of_env(index)
        assert len(records) >= len(unrolls)
        for record, unroll in zip(records, unrolls):
            np.testing.assert_array_equal(record.step_type, unroll.step_type[:-1])
            np.testing.assert_array_equal(record.reward, unroll.reward[:-1])
            np.testing.assert_array_equal(record.discount, unroll.discount[:-1])
            np.testing.assert_array_equal(record.env_id, unroll.env_id[0])
    assert run.observer.threads == {"LogThread"}


def test_metrics_are_those_of_the_records(run):
    """The observer is called after the metrics with the same record: they saw just its records."""
    steps, returns, lengths = 0, [], []
    sums = {}
    for record in run.observer.records:
        for step_type, reward in zip(record.step_type, record.reward):
            for b, env_id in enumerate(record.env_id):
                if step_type[b] == FIRST:
                    sums[env_id] = (0.0, 0)
                else:
                    steps += 1
                    sums[env_id] = (sums[env_id][0] + reward[b], sums[env_id][1] + 1)
                if step_type[b] == LAST:
                    returns.append(sums[env_id][0])
                    lengths.append(sums[env_id][1])
    assert run.metrics["EnvironmentSteps"] == steps
    assert run.metrics["NumberOfEpisodes"] == len(returns)
    for name, values in (("AverageReturn", returns), ("AverageEpisodeLength", lengths)):
        assert len(values) > 0
        if len(values) > 100:  # only the last ones count, and their order within a record is free
            assert min(values) <= run.metrics[name] <= max(values)
        else:
            assert run.metrics[name] == pytest.approx(np.mean(values))


def test_the_synchronous_driver_keeps_the_same_accounts():
    num_groups, unroll_length = 3, 4
    envs = make_counting_envs(num_groups, B)
    learner = RecordingLearner(FrozenPolicy(envs[0], counts_steps=True))
    observer = RecordingObserver()
    driver = build_driver(
        SyncOffPolicyDriver, envs, learner, unroll_length=unroll_length, observers=[observer]
    )
    driver.start()
    steps = sum(collect_and_observe(driver) for _ in range(10))
    driver.stop()
    total = 0
    for index, unrolls in enumerate(learner.unrolls(num_groups)):
        rows = in_a_row(unrolls)
        counter = np.arange(10 * unroll_length + 1)
        np.testing.assert_array_equal(rows.observation[..., ROW], np.stack([counter] * B, axis=1))
        np.testing.assert_array_equal(rows.info["state"][:-1], rows.observation[:-1, :, STEP])
        total += np.sum(rows.step_type[:-1] != LAST)
        logged = np.concatenate([r.step_type for r in observer.of_env(index)])
        np.testing.assert_array_equal(logged, rows.step_type[:-1])
    assert steps == total
    metrics = {metric.name: metric.result() for metric in driver.get_metrics()}
    # The log has the rows but the last one of each environment; the first row is no step.
    logged = np.concatenate([r.step_type.ravel() for r in observer.records])
    assert metrics["EnvironmentSteps"] == np.sum(logged != FIRST)
    assert metrics["NumberOfEpisodes"] == np.sum(logged == LAST)


def test_an_unroll_is_what_the_specs_say(run):
    num_unrolls, length = run.setting.learn_queue_cap, run.setting.unroll_length
    for experience in run.learner.observed:
        assert isinstance(experience, Experience)
        assert experience.observation.shape == (num_unrolls, length + 1, B, 3)
        assert experience.state.train.shape == (num_unrolls, B)
    assert run.queues.keys() == {"actor_queue", "learn_queue", "log_queue"}


def test_many_iterations_trace_nothing_and_start_no_thread():
    envs = [NullEnvironment(4, episode_length=10) for _ in range(2)]
    learner = RecordingLearner(FrozenPolicy(envs[0]))
    driver = build_driver(AsyncOffPolicyDriver, envs, learner, unroll_length=4, learn_queue_cap=2)
    try:
        driver.start()
        for _ in range(3):
            collect_and_observe(driver)
        traces = len(learner.policy.rows), driver._dequeue.num_traces
        threads = threading.active_count()
        functions = len(context.context().list_function_names())
        learner.observed.clear()
        for _ in range(100):
            collect_and_observe(driver)
        assert len(learner.observed) == 100
        assert traces == (
            len(learner.policy.rows),
            driver._dequeue.num_traces,
        )
        assert traces[1] == 1
        assert threading.active_count() == threads
        now = len(context.context().list_function_names())
        assert now == functions, "a function was traced again"
    finally:
        driver.stop()


@pytest.mark.parametrize("num_env_threads", [None, 1])
def test_environments_of_a_thread_step_one_after_another(num_env_threads):
    inside, most = [], []

    class SlowEnvironment(FakeEnvironment):
        def _step(self, action):
            inside.append(self)
            most.append(len(inside))
            time.sleep(0.002)  # without the GIL
            inside.remove(self)
            return super()._step(action)

    envs = make_counting_envs(3, cls=SlowEnvironment)
    driver = build_driver(
        AsyncOffPolicyDriver,
        envs,
        RecordingLearner(FrozenPolicy(envs[0])),
        num_env_threads=num_env_threads,
    )
    try:
        driver.start()
        deadline = time.monotonic() + 60
        # The threads begin one after another, much later beside a busy process.
        while min(env.num_steps for env in envs) <= 3 or (max(most) == 1) != (num_env_threads == 1):
            assert time.monotonic() < deadline
            collect_and_observe(driver)
    finally:
        driver.stop()
    assert (max(most) == 1) == (num_env_threads == 1)
