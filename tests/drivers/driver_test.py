# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What all drivers have in common, so that a training loop need not know which one it has."""

import functools
import json
import threading
import time

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.config.parsing import bind
from alf.core.randomness import spawn_seeds
from alf.drivers import AsyncOffPolicyDriver, Driver, EnvSpecs, OfflineDriver, SyncOffPolicyDriver
from alf.drivers.episode_statistics import EpisodeStatistics
from alf.drivers.metrics import Metric
from alf.errors import ConfigError, InterruptedDriverError
from alf.ops.draws import Stream
from alf.policies.random_policy import RandomPolicy
from alf.replay import make_replayer
from alf.testing.fakes import (
    FakeEnvironment,
    FrozenPolicy,
    RecordingLearner,
    in_a_row,
    make_counting_envs,
)
from alf.testing.toy_environments import CountingEnvironment, MatchObservationEnvironment
from alf.training.collection import check_parts
from tests.builders import build_driver, build_offline_driver, collect_and_observe

DRIVERS = [AsyncOffPolicyDriver, SyncOffPolicyDriver, OfflineDriver]
METRICS = [
    *("EnvironmentSteps", "NumberOfEpisodes", "AverageReturn", "AverageDiscountedReturn", "AverageReward"),
    *("AverageStepDiscountedReturn", "AverageEpisodeLength", "MinReturn", "MaxReturn", "BalancedReturn"),
    *("MinEpisodeLength", "MaxEpisodeLength"),
]


def make_driver(driver_class, num_groups=1, episode_length=4, **kwargs):
    """A driver of counting environments, or of none, whose learner has a replay buffer."""
    envs = make_counting_envs(num_groups, episode_length=episode_length, cls=FakeEnvironment)
    policy, specs = FrozenPolicy(envs[0]), EnvSpecs(envs)
    learner = RecordingLearner(policy, make_replayer("uniform", specs.unroll_spec(policy, 1), num_groups))
    if driver_class is OfflineDriver:
        return build_offline_driver(learner)
    return build_driver(driver_class, envs, learner, **kwargs)


@pytest.mark.parametrize("driver_class", DRIVERS)
def test_the_life_of_a_driver(driver_class):
    driver = make_driver(driver_class)
    assert isinstance(driver, Driver)
    driver.start()
    try:
        steps = [collect_and_observe(driver) for _ in range(3)]
        assert all(isinstance(n, int) for n in steps)
        assert len(driver.learner.observed) == (0 if driver_class is OfflineDriver else 3)
        assert (sum(steps) > 0) == (driver_class is not OfflineDriver)
        assert driver.num_restarts == 0
        assert all(isinstance(n, int) for n in driver.queue_sizes().values())
        assert [metric.name for metric in driver.get_metrics()] == METRICS
        assert driver.get_step_metrics() == driver.get_metrics()[:2]
    finally:
        driver.interrupt()
        driver.stop()
        driver.stop()
    state = json.loads(json.dumps(driver.get_state()))
    other = make_driver(driver_class)
    other.set_state(state)
    assert other.get_state() == state
    other.stop()


class NamedMetric(Metric):
    """A number with a name."""

    def __init__(self, name, number):
        self.name, self._number = name, number

    def __call__(self, record):
        pass

    def result(self):
        return self._number

    get_state = result

    def set_state(self, state):
        self._number = state


def test_metrics_that_come_or_go_between_two_runs():
    state = make_driver(AsyncOffPolicyDriver, metrics=[NamedMetric("mine", 5)]).get_state()
    driver = make_driver(AsyncOffPolicyDriver, metrics=[NamedMetric("other", 1), NamedMetric("mine", 2)])
    driver.set_state(json.loads(json.dumps(state)))
    assert [metric.result() for metric in driver.get_metrics()[-2:]] == [1, 5]
    make_driver(AsyncOffPolicyDriver).set_state(state)


@pytest.mark.parametrize("name", ["metrics", "observers"])
@pytest.mark.parametrize("value", [NamedMetric("mine", 5), "text"], ids=["one", "text"])
def test_metrics_and_observers_are_lists(name, value):
    with pytest.raises(ConfigError, match=rf"^Monitoring\.{name} is .*: it must be a tuple or list"):
        make_driver(SyncOffPolicyDriver, **{name: value})


class TakesTwo(NamedMetric):
    def __call__(self, record, more):
        pass


@pytest.mark.parametrize("kind", ["metrics", "observers"])
def test_what_cannot_take_a_record_is_told_before_anything_is_collected(kind):
    for wrong in (TakesTwo("mine", 5), TakesTwo("mine", 5).__call__):
        if kind == "observers" or isinstance(wrong, TakesTwo):
            with pytest.raises(ConfigError, match=rf"^Monitoring\.{kind}: .*'more'\): .* a LogRecord$"):
                make_driver(SyncOffPolicyDriver, **{kind: [wrong]})
    with pytest.raises(ConfigError, match="lambda.*too many positional arguments"):
        make_driver(SyncOffPolicyDriver, observers=[lambda: None])
    make_driver(SyncOffPolicyDriver, observers=[[].append, lambda *args, more=1: None, print])


made_observers = []


@gin.configurable(module="tests.driver_test")
def make_observer():
    made_observers.append(lambda record: None)
    return made_observers[-1]


@pytest.mark.parametrize("driver_class", DRIVERS[:2])
def test_a_driver_makes_observers_once(driver_class):
    gin.parse_config("Monitoring.observers = [@make_observer()]")
    made_observers.clear()
    env = FakeEnvironment(2)
    driver_class([env], FrozenPolicy(env)).stop()
    assert len(made_observers) == 1


@pytest.mark.parametrize("driver_class", DRIVERS[:2])
def test_statistics_makes_the_metrics(driver_class):
    driver = make_driver(driver_class, statistics=functools.partial(EpisodeStatistics, window=3))
    average = driver.get_metrics()[2]
    average.set_state([1.0, 2.0, 3.0, 4.0])
    assert average.get_state() == [2.0, 3.0, 4.0], "the window is not that of the setting"


@pytest.mark.parametrize("name", ["reward_shape", "info_keys", "agents", "policies"])
def test_what_environments_say_is_no_setting_of_the_statistics(name):
    with pytest.raises(ConfigError, match=f"'EpisodeStatistics' has denylisted kwarg '{name}'"):
        bind({f"EpisodeStatistics.{name}": (2,) if name == "reward_shape" else ("mine",)})


@pytest.mark.parametrize("driver_class", DRIVERS)
def test_interrupt_comes_at_any_time(driver_class):
    driver = make_driver(driver_class)
    driver.interrupt()
    driver.stop()
    driver.interrupt()


def collect_times(driver, calls, states=None):
    """Starts a driver and calls `collect`; returns how many unrolls each call took, and stops the driver.

    After each call it appends the driver's state to `states`, as a checkpoint has it.
    """
    taken = []
    driver.start()
    try:
        for _ in range(calls):
            observed = len(driver.learner.observed)
            steps = collect_and_observe(driver)
            taken.append(len(driver.learner.observed) - observed)
            assert steps == 2 * taken[-1], "unrolls of one step of two sub-environments"
            if states is not None:
                states.append(json.dumps(driver.get_state()))
    finally:
        driver.stop()
    return taken


@pytest.mark.parametrize(
    "driver_class, unroll_length, breaks",
    [
        (AsyncOffPolicyDriver, 2.5, (1, 5)),
        (SyncOffPolicyDriver, 0.3, (2, 5)),
        (SyncOffPolicyDriver, 0.4, (1, 2)),
    ],
)
def test_the_fraction_of_a_collection_survives_a_checkpoint(driver_class, unroll_length, breaks):
    """A run that is broken off after any call collects at the same calls as one that is not."""
    make = lambda: make_driver(driver_class, episode_length=100, unroll_length=unroll_length)  # noqa: E731
    states = []
    whole = collect_times(make(), 10, states)
    assert sum(whole) == round(10 * unroll_length)
    for calls in breaks:
        after = make()
        after.set_state(json.loads(states[calls - 1]))
        assert collect_times(after, 10 - calls) == whole[calls:]


LOCKSTEP = functools.partial(build_driver, AsyncOffPolicyDriver, mode="lockstep")


@pytest.mark.parametrize("driver_class", [LOCKSTEP, SyncOffPolicyDriver])
def test_an_unroll_length_of_two_and_a_half_takes_two_and_three_in_turn(driver_class):
    kwargs = {"learn_queue_cap": 2} if driver_class is LOCKSTEP else {}
    driver = make_driver(driver_class, 2, episode_length=100, unroll_length=2.5, **kwargs)
    driver.start()
    try:
        steps = [collect_and_observe(driver) // 4 for _ in range(8)]
    finally:
        driver.stop()
    assert steps == [2, 3, 2, 3, 2, 3, 2, 3]
    for unrolls in driver.learner.unrolls(2):
        number = in_a_row(unrolls).observation[..., 1]
        np.testing.assert_array_equal(number, np.stack([np.arange(21)] * 2, axis=1))


def test_an_integer_may_be_a_float():
    driver = make_driver(SyncOffPolicyDriver, unroll_length=3.0)
    driver.start()
    collect_and_observe(driver)
    driver.stop()
    assert driver.learner.observed[0].step_type.shape == (1, 4, 2)


def collect_what_waits(**kwargs):
    """Collects twice when 6 batches of one unroll wait; returns how many it took, and takes nothing more."""
    driver = make_driver(
        AsyncOffPolicyDriver, 2, unroll_length=1, mode="poll", max_waiting_batches=6, **kwargs
    )
    driver.start()
    taken = []
    try:
        for _ in range(2):
            deadline = time.monotonic() + 60
            while driver.queue_sizes()["learn_queue"] < 6:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            before = len(driver.learner.observed)
            collect_and_observe(driver)
            taken.append(len(driver.learner.observed) - before)
    finally:
        driver.stop()
    return taken


@pytest.mark.parametrize("max_unroll_length, expected", [(None, 6), (2, 4), (5, 6)])
def test_max_unroll_length(max_unroll_length, expected):
    """Two environments: so many steps of each are twice as many unrolls."""
    assert collect_what_waits(max_unroll_length=max_unroll_length) == [expected] * 2


@pytest.mark.parametrize("mode", ["async", "lockstep"])
def test_max_unroll_length_needs_the_mode_poll(mode):
    with pytest.raises(ConfigError, match="max_unroll_length is 3: mode must be 'poll' then"):
        make_driver(AsyncOffPolicyDriver, max_unroll_length=3, mode=mode)
    with pytest.raises(ConfigError, match="max_unroll_length is 0: it must be an integer"):
        make_driver(AsyncOffPolicyDriver, max_unroll_length=0, mode="poll")


def test_max_unroll_length_holds_a_batch():
    sizes = dict(num_groups=3, unroll_length=2, learn_queue_cap=3, mode="poll")
    make_driver(AsyncOffPolicyDriver, max_unroll_length=2, **sizes).stop()


@pytest.mark.parametrize("driver_class", [AsyncOffPolicyDriver, SyncOffPolicyDriver])
@pytest.mark.parametrize("unroll_length", [0, 0.5, 1.5])
def test_a_fraction_needs_a_replay_buffer(driver_class, unroll_length):
    envs = make_counting_envs(1)
    with pytest.raises(ConfigError, match=f"unroll_length is {unroll_length}"):
        driver = build_driver(
            driver_class, envs, RecordingLearner(FrozenPolicy(envs[0])), unroll_length=unroll_length
        )
        check_parts(driver, driver.learner, 1)


def with_env_info(driver):
    driver.learner.uses_env_info = True
    return driver.learner


UNFIT = {
    "polling": (
        {"mode": "poll"},
        lambda x: RecordingLearner(x.policy),
        "mode is 'poll': exp_replayer must be one to sample",
    ),
    "policy": (
        {},
        lambda x: make_driver(SyncOffPolicyDriver).learner,
        "another policy than the learner: give it learner.policy",
    ),
    "info": (
        {},
        with_env_info,
        "the algorithm uses `Experience.env_info`, .* set load.info_keys",
    ),
}


@pytest.mark.parametrize("settings, find_learner, message", UNFIT.values(), ids=UNFIT)
def test_a_learner_that_cannot_learn_from_a_driver(settings, find_learner, message):
    driver = make_driver(AsyncOffPolicyDriver, **settings)
    with pytest.raises(ConfigError, match=message):
        check_parts(driver, find_learner(driver), 1)


WRONG = [
    (dict(observers=[print, -1]), r"Monitoring\.observers\[1\] is -1: it must be a class"),
    (dict(metrics=[NamedMetric("MinReturn", 5)]), "metrics: two of them have the name 'MinReturn'"),
    (
        dict(max_unroll_length=1, num_groups=3, unroll_length=2, learn_queue_cap=3, mode="poll"),
        "max_unroll_length is 1: the steps of 3 groups .* a batch, .* = 6",
    ),
]


@pytest.mark.parametrize("settings, message", WRONG)
def test_what_a_driver_refuses(settings, message):
    with pytest.raises(ConfigError, match=message):
        make_driver(AsyncOffPolicyDriver, **settings)


@pytest.mark.parametrize("policy", [3, None, RecordingLearner])
def test_who_acts_is_a_policy(policy):
    with pytest.raises(ConfigError, match="policy is .*: it must be a Policy or a PolicyGroup"):
        AsyncOffPolicyDriver(make_counting_envs(1), policy)


def test_env_specs():
    envs = make_counting_envs(3, batch_size=2)
    policy, specs = FrozenPolicy(envs[0]), EnvSpecs(envs)
    assert (specs.num_groups, specs.batch_size) == (3, 2)
    unroll = specs.unroll_spec(policy, 5)
    assert unroll.step_type.shape == (6, 2)
    assert unroll.action.shape == (6, 2) and unroll.action.maximum == envs[0].action_spec().maximum
    assert not hasattr(specs.unroll_spec(policy, 5, keep_bounds=False).action, "maximum")
    assert unroll.info["seen"].observation.shape == (6, *CountingEnvironment(2).reset().observation.shape)


class SeededEnvironment(FakeEnvironment):
    """Notes its seeds, or raises NotImplementedError as TF-Agents' environments do."""

    def __init__(self, *args, has_seed=True, **kwargs):
        super().__init__(*args, **kwargs)
        self.seeds = []
        self._has_seed = has_seed

    def seed(self, seed):
        if not self._has_seed:
            raise NotImplementedError
        self.seeds.append(seed)


@pytest.mark.parametrize("driver_class", [AsyncOffPolicyDriver, SyncOffPolicyDriver])
def test_reseed_before_the_start(driver_class):
    envs = [SeededEnvironment(2, has_seed=i != 1) for i in range(3)]
    driver = build_driver(driver_class, envs, RecordingLearner(FrozenPolicy(envs[0])), unroll_length=3)
    driver.stream = Stream(7)
    calls = (7, 0), (7, 1), (7, 0)
    assert [driver.reseed(iterations) for _, iterations in calls] == [False] * 3
    assert [env.seeds for env in envs] == [
        [spawn_seeds(call, 3)[i] for call in calls] if i != 1 else [] for i in range(3)
    ]
    assert len({*envs[0].seeds, *envs[2].seeds}) == 4
    driver.start()
    if driver_class is AsyncOffPolicyDriver:
        with pytest.raises(RuntimeError, match=r"before start\(\), or in the modes 'lockstep' and 'overlap'"):
            driver.reseed(0)
    driver.stop()


ORDERED = [
    (AsyncOffPolicyDriver, {"mode": "lockstep"}),
    (AsyncOffPolicyDriver, {"mode": "overlap"}),
    (AsyncOffPolicyDriver, {"mode": "overlap", "actor_queue_cap": 3}),
    (AsyncOffPolicyDriver, {"mode": "overlap", "num_actor_queues": 0}),
    (AsyncOffPolicyDriver, {"mode": "overlap", "num_env_threads": 1}),
    (SyncOffPolicyDriver, {}),
]


@pytest.mark.parametrize("driver_class, kwargs", ORDERED)
def test_after_reseed_a_driver_goes_on_like_one_that_starts(driver_class, kwargs):
    def make():
        envs = [MatchObservationEnvironment(2, episode_length=4, seed=i) for i in range(3)]
        specs = EnvSpecs(envs)
        policy = RandomPolicy(specs.observation, specs.action)
        driver = build_driver(driver_class, envs, RecordingLearner(policy), unroll_length=3, **kwargs)
        driver.stream = Stream(7)
        return driver

    def collect(driver, num_batches):
        driver.learner.observed.clear()
        for _ in range(num_batches):
            collect_and_observe(driver)
        state = driver.get_state()["metrics"]
        return [*driver.learner.observed], state["EnvironmentSteps"], state["AverageReturn"]

    running, started = make(), make()
    started.reseed(5)
    running.start()
    started.start()
    try:
        _, steps, returns = collect(running, 5)
        assert running.reseed(5)
        ours, our_steps, our_returns = collect(running, 4)
        theirs, their_steps, their_returns = collect(started, 4)
    finally:
        running.stop()
        started.stop()
    tf.nest.map_structure(np.testing.assert_array_equal, ours, theirs)
    # What was dropped does not count.
    assert our_steps - steps == their_steps
    assert our_returns == returns + their_returns


def test_reseed_can_be_interrupted():
    class Hangs(MatchObservationEnvironment):
        def _step(self, action):
            hung.set()
            released.wait(60)
            return super()._step(action)

    hung, released = threading.Event(), threading.Event()
    envs = [Hangs(2)]
    policy = RandomPolicy(EnvSpecs(envs).observation, EnvSpecs(envs).action)
    driver = build_driver(
        AsyncOffPolicyDriver, envs, RecordingLearner(policy), unroll_length=3, mode="overlap"
    )
    driver.start()
    try:
        assert hung.wait(60)
        threading.Timer(0.2, driver.interrupt).start()
        with pytest.raises(InterruptedDriverError):
            driver.reseed(1)
    finally:
        released.set()
        driver.stop()


def test_reseed_without_environments():
    driver = make_driver(OfflineDriver)
    driver.reseed(0)
    driver.stop()
