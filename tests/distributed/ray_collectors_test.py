# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Collectors as Ray actors: processes that are killed, late, or whose environments raise."""

import os
import signal
import subprocess
import time

import numpy as np
import pytest
import tensorflow as tf

from alf.distributed import answers, ray_collectors
from alf.distributed.ray_evaluator import RayEvaluator
from alf.drivers import AsyncOffPolicyDriver, EnvSpecs
from alf.drivers.collector import Collector
from alf.errors import ConfigError, EnvError
from alf.testing.fakes import FrozenPolicy, RecordingLearner, make_counting_envs
from alf.testing.toy_environments import CountingEnvironment
from tests.builders import build_collectors, build_driver, collect_and_observe
from tests.distributed.stand_ins import OneAnswer, Recorded, make_obedient

pytestmark = pytest.mark.programs

ray = pytest.importorskip("ray")

B, UNROLL_LENGTH = 2, 4
ROW = 1  # of the observation of `CountingEnvironment`
NUM_ANSWERS = 20


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """One Ray for all tests of this file: to start it takes seconds."""
    settings = dict(include_dashboard=False, log_to_driver=False, logging_level="error")
    ray.init("local", num_cpus=4, resources={"rare": 1}, **settings)
    yield
    ray.shutdown()


@pytest.fixture
def rare_is_occupied():
    """Somebody else has the resource "rare"."""
    actor = ray.remote(num_cpus=0, resources={"rare": 1})(Occupant).remote()
    ray.get(actor.answer.remote())
    yield
    ray.kill(actor)


class PlacedPolicy(FrozenPolicy):
    """Says which environment it believes to act in, and of how many."""

    def __init__(self, env):
        number = tf.TensorSpec((), tf.int32)
        super().__init__(env, info_spec={"place": number, "num_envs": number})

    def rollout_step(self, time_step, state):
        step, ids = super().rollout_step(time_step, state), time_step.env_id
        place = {"place": self.first_env + ids, "num_envs": tf.fill(tf.shape(ids), self.num_envs)}
        return step._replace(info={**step.info, **place})


class Occupant:
    def answer(self):
        return True


@pytest.fixture(scope="module")
def recorded():
    """What a collector of one environment sends, for two of them."""
    answers_of = []
    for index in range(2):
        collector = make_collector(index, 0, 1, index * B, unroll_length=UNROLL_LENGTH)
        answers_of.append([collector.collect() for _ in range(NUM_ANSWERS)])
        collector.close()
    return answers_of


def make_collector(index, num_restarts, num_groups, first_env_id, **settings):
    envs = make_counting_envs(index + 1, B)[index:]
    return Collector(envs, FrozenPolicy(envs[0]), first_env_id, **settings)


def make_placed(index, num_restarts, num_groups, first_env_id, **settings):
    envs = make_counting_envs(index + 1, B)[index:]
    return Collector(envs, PlacedPolicy(envs[0]), first_env_id, **settings)


def make_driver(
    make, num_collectors=2, learn_queue_cap=1, num_local=0, mode="async", policy=FrozenPolicy, **kwargs
):
    env = CountingEnvironment(B)
    settings = dict(
        num_collectors=num_collectors, num_groups=1, num_cpus=0, first_env_index=num_local, **kwargs
    )
    learner = RecordingLearner(policy(env))
    driver = build_driver(
        AsyncOffPolicyDriver,
        make_counting_envs(num_local, B),
        learner,
        unroll_length=UNROLL_LENGTH,
        learn_queue_cap=learn_queue_cap,
        mode=mode,
        collectors=build_collectors(make, EnvSpecs([env]), **settings),
    )
    return driver, learner


def run(driver, learner, done, timeout=300):
    deadline = time.monotonic() + timeout
    try:
        driver.start()
        while not done():
            collect_and_observe(driver)
            assert time.monotonic() < deadline, "a collector starves"
    finally:
        driver.stop()


def is_contiguous(unrolls):
    """Whether each unroll begins with the row that the one before ended with."""
    return [(a.observation[-1, 0, ROW] == b.observation[0, 0, ROW]) for a, b in zip(unrolls, unrolls[1:])]


def test_unrolls_arrive_once_and_in_order_and_environments_count_from_an_index_on():
    """With real collectors, where TensorFlow starts; stand-ins do for the other tests."""
    driver, learner = make_driver(make_collector, learn_queue_cap=2, num_local=3)
    run(driver, learner, lambda: min(map(len, learner.unrolls(5))) >= 5)
    for env, unrolls in enumerate(learner.unrolls(5)):
        assert all(is_contiguous(unrolls))
        assert unrolls[0].observation[0, 0, ROW] == 0
        assert all((unroll.env_id == env * B + np.arange(B)).all() for unroll in unrolls)


@pytest.mark.parametrize(
    "settings", [{}, {"compress": True}, {"max_joined_answers": 3, "compress": True}], ids=str
)
def test_answers_are_compressed_if_that_is_asked_for_and_arrive_once_and_in_order(
    recorded, settings, monkeypatch
):
    compressed = []

    def decompress(leaves):
        compressed.append(any(isinstance(x, answers.Compressed) for x in leaves))
        return wire_decompress(leaves)

    wire_decompress = answers.decompress
    monkeypatch.setattr(answers, "decompress", decompress)
    driver, learner = make_driver(Recorded(recorded), learn_queue_cap=2, **settings)
    run(driver, learner, lambda: min(map(len, learner.unrolls(2))) >= 5)
    for env, unrolls in enumerate(learner.unrolls(2)):
        assert all(is_contiguous(unrolls))
        assert unrolls[0].observation[0, 0, ROW] == 0
        assert (unrolls[0].env_id == env * B + np.arange(B)).all()
    assert set(compressed) == {bool(settings.get("compress"))}


def test_answers_are_joined_while_the_learner_is_busy(recorded, tmp_path):
    """Answers gather while one is on its way. An aggregator that is killed does its work again."""
    driver, learner = make_driver(Recorded(recorded, str(tmp_path)), max_joined_answers=3)
    receive, sizes, killed = driver._collectors.receive, [], []

    def count(timeout):
        received = receive(timeout)
        if received is not None:
            sizes.append(len(received[0]))
        return received

    def done():
        time.sleep(0.1)
        if len(sizes) == 5 and not killed:
            killed.append(find_process("ray::AggregatorActor"))
            os.kill(killed[0], signal.SIGKILL)
        return min(map(len, learner.unrolls(2))) >= 10

    driver._collectors.receive = count
    run(driver, learner, done)
    assert killed and driver.num_restarts == 0
    assert 2 <= max(sizes) <= 3
    for unrolls in learner.unrolls(2):
        assert all(is_contiguous(unrolls))
        assert unrolls[0].observation[0, 0, ROW] == 0


def test_a_busy_learner_does_not_make_collectors_late(recorded):
    driver, learner = make_driver(Recorded(recorded), timeout=4.0)
    pauses = []

    def done():
        if len(learner.observed) == 4:
            pauses.append(time.sleep(6.0))
        return len(learner.observed) == 12

    run(driver, learner, done)
    assert pauses and driver.num_restarts == 0


def test_a_request_that_waits_behind_another_is_not_late(monkeypatch):
    """A collector has the time-out for each answer: it begins the next one after the last one."""
    clock = 1000.0
    monkeypatch.setattr(ray_collectors, "running_time", lambda: clock)
    settings = dict(num_collectors=1, num_groups=1, num_cpus=0, timeout=30.0)
    collectors = build_collectors(OneAnswer(), EnvSpecs([CountingEnvironment(B)]), **settings)
    try:
        collectors.publish([])
        collectors.start(UNROLL_LENGTH)
        collectors.request(0)
        collectors.request(0)
        clock += 20
        deadline = time.monotonic() + 300
        while collectors.receive(1.0) is None:
            assert time.monotonic() < deadline, "no answer"
        clock += 20
        assert collectors.receive(0.0) is None and collectors.num_restarts == 0
        clock += 20
        assert collectors.receive(0.0) is None and collectors.num_restarts == 1
    finally:
        collectors.close()


@pytest.mark.parametrize("number", [1, 3])
def test_so_many_requests_of_each_collector_are_under_way(number):
    driver, _ = make_driver(Recorded([[], []]), max_requests_in_flight=number)
    request, asked = driver._collectors.request, []

    def count(index):
        asked.append(index)
        request(index)

    driver._collectors.request = count
    deadline = time.monotonic() + 300
    try:
        driver.start()
        while len(asked) < 2 * number:
            assert time.monotonic() < deadline, asked
            time.sleep(0.05)
        time.sleep(0.5)
    finally:
        driver.stop()
    assert sorted(asked) == [0] * number + [1] * number


@pytest.mark.parametrize("dtype, interval", [("float16", 3), ("bfloat16", 1)])
def test_weights_are_sent_in_a_dtype_and_once_in_an_interval(recorded, dtype, interval):
    kwargs = dict(weights_dtype=dtype, broadcast_interval=interval)
    driver, learner = make_driver(Recorded(recorded), **kwargs)
    learner.policy.kernel = tf.Variable([0.1])
    publish, published = driver._collectors.publish, []

    def note(weights):
        published.append((len(learner.observed), [str(x.dtype) for x in weights]))
        publish(weights)

    def done():
        learner.progress.updates.assign_add(1)
        return len(learner.observed) == 7

    driver._collectors.publish = note
    run(driver, learner, done)
    assert all(dtype in dtypes and "float32" not in dtypes for _, dtypes in published)
    # Once at the start, before the first update; then with every `interval`-th.
    numbers = [number for number, _ in published]
    assert numbers == [0, *range(interval - 1, 7, interval)]


@pytest.mark.parametrize("place", ["collectors", "evaluator"])
def test_what_ray_is_asked_for(place, monkeypatch):
    asked, remote = [], ray.remote
    monkeypatch.setattr(ray, "remote", lambda **options: (asked.append(options), remote(**options))[1])
    settings = dict(num_cpus=0.5, num_gpus=0.25, resources={"mine": 2}, placement="DEFAULT")
    if place == "collectors":
        process = build_collectors(make_collector, EnvSpecs([CountingEnvironment(B)]), 1, **settings)
        process.start(UNROLL_LENGTH)
        process.close()
    else:
        process = RayEvaluator(**settings)
        process.start(make_obedient)
        process.stop()
    settings["scheduling_strategy"] = settings.pop("placement")
    assert [{name: options[name] for name in settings} for options in asked] == [settings]


def find_process(name):
    """The id of the process that Ray named so."""
    found = subprocess.run(["pgrep", "-f", f"^{name}"], capture_output=True, text=True, check=True)
    return int(found.stdout.split()[0])


def test_a_collector_that_is_killed_is_replaced(recorded, tmp_path):
    driver, learner = make_driver(Recorded(recorded, str(tmp_path)))
    kills = []

    def done():
        unrolls = learner.unrolls(2)
        num_starts = sum(unroll.observation[0, 0, ROW] == 0 for unroll in unrolls[1])
        if len(unrolls[1]) < 5 * num_starts:
            return False
        if num_starts == len(kills) + 1 < 3:
            kills.append(len(unrolls[1]))
            os.kill(int((tmp_path / "pid1").read_text()), signal.SIGKILL)
        return num_starts == 3

    run(driver, learner, done)
    assert driver.num_restarts == 2
    first, second = learner.unrolls(2)
    assert all(is_contiguous(first))
    # Nothing is learned twice: a new process begins at its row 0, and no row comes again before that.
    starts = [i for i, unroll in enumerate(second) if unroll.observation[0, 0, ROW] == 0]
    assert len(starts) == 3 and starts[0] == 0
    for start, end in zip(starts, [*starts[1:], len(second)]):
        assert all(is_contiguous(second[start:end]))


def test_a_collector_that_does_not_answer_is_replaced(recorded):
    make = Recorded(recorded, fault="hang", faulty_starts=1)
    driver, learner = make_driver(make, timeout=2.0)
    run(driver, learner, lambda: min(map(len, learner.unrolls(2))) >= 5)
    assert driver.num_restarts >= 2


@pytest.mark.parametrize("max_joined_answers", [1, 3])
def test_an_answer_that_comes_after_a_replacement_is_dropped(max_joined_answers):
    collectors = build_collectors(
        OneAnswer(),
        EnvSpecs([CountingEnvironment(B)]),
        num_collectors=1,
        num_groups=1,
        num_cpus=0,
        timeout=2.0,
        max_joined_answers=max_joined_answers,
    )
    collectors.publish([])
    collectors.start(UNROLL_LENGTH)
    deadline = time.monotonic() + 300
    received = []
    try:
        for _ in range(2):
            collectors.request(0)
        # It takes notice of the answer, which is now on its way, and waits there until the second is late.
        while not any(collectors._transfers.references()):
            assert collectors.receive(0.1) is None and time.monotonic() < deadline
        time.sleep(2.5)
        while len(received) < 2:
            arrived = collectors.receive(0.1)
            received += [arrived] if arrived else []
            assert time.monotonic() < deadline, "a request is lost"
    finally:
        collectors.close()
    assert collectors.num_restarts == 1
    assert [(indices, arrays[0].tolist()) for indices, arrays in received] == [([0], [1])] * 2


def test_too_many_losses_end_the_run(recorded):
    driver, learner = make_driver(
        Recorded(recorded, fault="hang"), num_collectors=1, timeout=2.0, max_restarts=1
    )
    message = "collector 0 of 1 has not answered for 2 s; max_restarts=1 is reached"
    with pytest.raises(EnvError, match=message):
        run(driver, learner, lambda: False)


def test_a_collector_that_does_not_start_is_named(recorded, rare_is_occupied):
    driver, learner = make_driver(
        Recorded(recorded), num_collectors=1, resources={"rare": 1}, start_timeout=2.0, max_restarts=0
    )
    with pytest.raises(EnvError, match="collector 0 of 1 has not answered for 2 s"):
        run(driver, learner, lambda: False)


def test_a_collector_that_never_starts_ends_the_run(recorded, rare_is_occupied):
    # Fewer losses than the limit allows, and never so many within the period.
    driver, learner = make_driver(
        Recorded(recorded),
        num_collectors=1,
        resources={"rare": 1},
        start_timeout=1.0,
        restart_period=0.5,
    )
    message = "collector 0 of 1 has not answered for 1 s; it was started 3 times in a row and never answered"
    with pytest.raises(EnvError, match=message):
        run(driver, learner, lambda: False)


def test_a_collector_that_never_starts_ends_a_call_of_environments(recorded, rare_is_occupied):
    collectors = build_collectors(
        Recorded(recorded),
        EnvSpecs([CountingEnvironment(B)]),
        num_collectors=1,
        num_groups=1,
        num_cpus=0,
        resources={"rare": 1},
        start_timeout=0.3,
        restart_period=0.1,
    )
    collectors.publish([])
    collectors.start(UNROLL_LENGTH)
    deadline = time.monotonic() + 60
    message = (
        "collector 0 of 1 has not answered for 0.3 s; it was started 3 times in a row and never answered"
    )
    try:
        collectors.ask("call_envs", "where")
        with pytest.raises(EnvError, match=message):
            while time.monotonic() < deadline:
                assert collectors.receive_results(0.1) is None
    finally:
        collectors.close()
    assert collectors.num_restarts == 2


def test_what_an_environment_raises_ends_the_run(recorded):
    driver, learner = make_driver(Recorded(recorded, fault="raise"))
    with pytest.raises(KeyError, match="my own bug"):
        run(driver, learner, lambda: False)


WRONG = [
    ({"num_collectors": 0}, "num_collectors is 0: it must be an integer, at least 1"),
    ({"num_groups": 0}, "RayCollectors.num_groups is 0"),
    ({"num_envs": 5}, f"RayCollectors.num_envs is 5: it must be {2 * B}, num_groups = 2 groups of {B}"),
    ({"num_unrolls": 3}, "RayCollectors.num_unrolls is 3, more than num_groups = 2"),
    ({"max_requests_in_flight": 0}, "RayCollectors.max_requests_in_flight is 0"),
    ({"broadcast_interval": 0}, "RayCollectors.broadcast_interval is 0"),
    ({"weights_dtype": "int8"}, "RayCollectors.weights_dtype is 'int8'"),
    ({"max_joined_answers": 0}, "RayCollectors.max_joined_answers is 0"),
    ({"compress": 1}, "RayCollectors.compress is 1"),
    ({"placement": "PACK"}, "CollectorSettings.placement is 'PACK'"),
    ({"num_cpus": -1}, "CollectorSettings.num_cpus is -1"),
    ({"num_gpus": -1}, "CollectorSettings.num_gpus is -1"),
    ({"timeout": 0}, "CollectorSettings.timeout is 0"),
    ({"start_timeout": 0}, "CollectorSettings.start_timeout is 0"),
    ({"max_restarts": -1}, "CollectorSettings.max_restarts is -1"),
    ({"restart_period": 0}, "CollectorSettings.restart_period is 0"),
    ({"min_collectors": 0}, "CollectorSettings.min_collectors is 0"),
    ({"min_collectors": 2}, "CollectorSettings.min_collectors is 2: there are 1 collectors"),
    ({"resources": 3}, "CollectorSettings.resources is 3"),
]


def test_wrong_settings(subtests):
    for kwargs, message in WRONG:
        with subtests.test(message), pytest.raises(ConfigError, match=message):
            build_collectors(print, EnvSpecs([CountingEnvironment(B)]), **{"num_collectors": 1, **kwargs})


def test_policies_know_their_place_among_all_environments():
    driver, learner = make_driver(make_placed, num_local=2, learn_queue_cap=4, policy=PlacedPolicy)
    run(driver, learner, lambda: min(map(len, learner.unrolls(4))) >= 1)
    for experience in learner.observed:
        np.testing.assert_array_equal(experience.info["place"], experience.env_id)
        np.testing.assert_array_equal(experience.info["num_envs"], 4 * B)


class Shown(CountingEnvironment):
    """Shows `level` in the place of its env id."""

    level = 0

    def _observe(self, first):
        observation = super()._observe(first)
        observation[:, 0] = self.level
        return observation

    def find_process(self):
        return os.getpid()

    def raise_error(self):
        raise KeyError("my own bug")


def make_shown(index, num_restarts, num_groups, first_env_id, **settings):
    env = Shown(B, env_index=index)
    return Collector([env], FrozenPolicy(env), first_env_id, **settings)


def test_environments_of_collectors_are_called_and_their_successors_get_the_attributes():
    driver, learner = make_driver(make_shown)
    driver.set_attr("level", 3)
    driver.start()
    try:
        collect_and_observe(driver)
        pids = driver.call_envs("find_process")
        assert len({*pids, os.getpid()}) == 3
        with pytest.raises(KeyError, match="my own bug"):
            driver.call_envs("raise_error")
        with pytest.raises(AttributeError, match="levle"):
            driver.set_attr("levle", 1)
        driver.set_attr("level", 5)
        os.kill(pids[0], signal.SIGKILL)
        # The call meets the loss, or comes after it.
        others = driver.call_envs("find_process")
        assert others[1] == pids[1] and others[0] != pids[0]
        assert driver.num_restarts == 1
        learner.observed.clear()
        deadline = time.monotonic() + 120
        while not all(any((u.observation[1:, :, 0] == 5).all() for u in x) for x in learner.unrolls(2)):
            collect_and_observe(driver)
            assert time.monotonic() < deadline
    finally:
        driver.stop()
    assert all((u.observation[..., 0] != 0).all() for x in learner.unrolls(2) for u in x)


def test_a_run_goes_on_while_so_many_collectors_are_left(caplog):
    driver, learner = make_driver(make_shown, max_restarts=0, min_collectors=1)
    driver.start()
    deadline = time.monotonic() + 300
    try:
        collect_and_observe(driver)
        pids = driver.call_envs("find_process")
        os.kill(pids[0], signal.SIGKILL)
        # The call meets the loss, or comes after it.
        assert driver.call_envs("find_process") == [pids[1]]
        learner.observed.clear()
        while len(learner.unrolls(2)[1]) < 5:
            collect_and_observe(driver)
            assert time.monotonic() < deadline
        assert all(is_contiguous(learner.unrolls(2)[1]))
        (line,) = [line for line in caplog.messages if "the run goes on with 1 of 2 collectors" in line]
        assert line.startswith("collector 0 of 2 has died: ") and driver.num_restarts == 0
        os.kill(pids[1], signal.SIGKILL)
        with pytest.raises(EnvError, match="collector 1 of 2 has died: .*max_restarts=0 is reached within"):
            while time.monotonic() < deadline:
                collect_and_observe(driver)
    finally:
        driver.stop()


def test_a_run_goes_on_without_a_collector_that_has_no_room(recorded, rare_is_occupied, caplog):
    settings = dict(resources={"rare": 1}, start_timeout=1.0, restart_period=0.5, min_collectors=1)
    driver, _ = make_driver(Recorded(recorded), **settings)
    with pytest.raises(EnvError, match="and never answered"):  # no other one has room, either
        run(driver, _, lambda: False)
    assert caplog.text.count("times in a row and never answered; the run goes on with 1 of 2 collectors") == 1


def test_a_batch_of_all_collectors_needs_all_of_them():
    message = "DriverSettings.mode is 'lockstep': a batch has .*CollectorSettings.min_collectors must be None"
    with pytest.raises(ConfigError, match=message):
        make_driver(make_shown, mode="lockstep", min_collectors=1)
