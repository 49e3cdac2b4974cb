# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""StageMeter with a clock of the test's own, the rules of the bottleneck, and real runs with a slow stage."""

import functools
import itertools
import re
import time
from pathlib import Path

import pytest
import tensorflow as tf

from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.drivers.stage_clock import (
    ASK,
    HAND_OVER,
    INFERENCE,
    LOG,
    RECEIVE,
    REST,
    STEP,
    STORE,
    TRAIN,
    WAIT,
    StageClock,
    StageClocks,
)
from alf.networks import ActorCriticNetwork
from alf.policies import ActorCriticPolicy
from alf.training.stages import StageMeter, find_bottleneck
from tests.builders import build_driver
from tests.training.counting_parts import CountingLearner
from tests.training.event_files import read_events
from tests.training.trainer_test import make_trainer

SLOW = 0.04  # seconds


class Time:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def make_clocks(now, num_environments=1, num_actors=1):
    environments = [StageClock(now) for _ in range(num_environments)]
    actors = [StageClock(now) for _ in range(num_actors)]
    return StageClocks(environments, actors, learner=StageClock(now))


def lap(clock, *spent):
    """Lets a clock have spent (stage, seconds, times)."""
    clock._get_time.now += sum(seconds for _, seconds, _ in spent)
    clock.lap(REST, spent, times=0)


def test_shares_and_means_are_those_since_the_last_measurement():
    now, updates = Time(), [5]
    clocks = make_clocks(now, num_environments=2)
    first, second = clocks.environments
    (actor,), learner = clocks.actors, clocks.learner
    lap(first, (STEP, 1000.0, 1))  # before the meter begins
    for clock in (second, actor, learner):
        clock.lap(REST)
    meter = StageMeter(clocks, lambda: updates[0])
    assert meter.bottleneck == ""
    lap(first, (STEP, 6.0, 3), (ASK, 2.0, 4))
    lap(second, (STEP, 2.0, 1), (HAND_OVER, 2.0, 2))
    lap(actor, (INFERENCE, 3.0, 10))
    lap(learner, (WAIT, 1.0, 2), (TRAIN, 3.0, 1))
    updates[0] += 6
    second.lap(REST)
    values = meter.measure()
    assert {name: values[name] for name in values if name.startswith("time/")} == {
        "time/environments/step": 8.0 / 4,
        "time/environments/waiting_for_actor": 2.0 / 4,
        "time/environments/waiting_for_learner": 2.0 / 2,
        "time/actors/inference": 0.3,
        "time/learner/waiting_for_experience": 0.5,
        "time/learner/update": 3.0 / 6,
        "time/bottleneck": meter.bottleneck,
    }


def test_a_share_is_the_mean_over_threads_of_parts_of_the_time_that_each_has_counted():
    now = Time()
    clocks = make_clocks(now, num_environments=2)
    meter = StageMeter(clocks, lambda: 0)
    first, second = clocks.environments
    lap(first, (STEP, 6.0, 3), (ASK, 2.0, 4))
    second._lapped = now.now
    lap(second, (STEP, 1.0, 1), (HAND_OVER, 3.0, 2))
    clocks.learner.lap(TRAIN)
    values = meter.measure()
    assert values["time_share/environments/step"] == pytest.approx((6 / 8 + 1 / 4) / 2)
    assert values["time_share/environments/waiting_for_actor"] == pytest.approx((2 / 8 + 0) / 2)
    assert values["time_share/environments/waiting_for_learner"] == pytest.approx((0 + 3 / 4) / 2)
    assert not [name for name in values if "actors" in name], "the actor has counted nothing yet"


def test_figures_of_a_thread_that_has_counted_nothing_stay():
    now = Time()
    clocks = make_clocks(now)
    meter = StageMeter(clocks, lambda: 0)
    lap(clocks.environments[0], (STEP, 6.0, 2), (ASK, 2.0, 2))
    clocks.learner.lap(TRAIN)
    before = meter.measure()
    now.now += 5.0
    clocks.learner.lap(TRAIN)
    assert meter.measure() == before
    lap(clocks.environments[0], (STEP, 8.0, 1))
    after = meter.measure()
    assert after["time/environments/step"] > 3.0 == before["time/environments/step"]
    # It was in no such stage: the share is 0, the duration of one is that of the last ones.
    assert after["time_share/environments/waiting_for_actor"] == 0.0
    assert after["time/environments/waiting_for_actor"] == before["time/environments/waiting_for_actor"]


def test_a_stage_of_a_thread_that_has_counted_nothing_since_is_zero():
    now = Time()
    clocks = make_clocks(now, num_environments=2)
    first, second = clocks.environments
    meter = StageMeter(clocks, lambda: 0)
    lap(first, (STEP, 6.0, 2), (HAND_OVER, 2.0, 1))
    lap(second, (STEP, 1.0, 1))
    clocks.learner.lap(TRAIN)
    before = meter.measure()
    lap(second, (STEP, 1.0, 1))
    clocks.learner.lap(TRAIN)
    after = meter.measure()
    assert after.keys() == before.keys()
    assert after["time_share/environments/step"] == 1.0
    assert after["time_share/environments/waiting_for_learner"] == 0.0


def test_a_call_that_comes_too_early_repeats_the_figures_and_its_time_counts_later():
    now = Time()
    clocks = make_clocks(now)
    (environment,), learner = clocks.environments, clocks.learner
    meter = StageMeter(clocks, lambda: 0, min_seconds=1.0)
    lap(environment, (STEP, 0.5, 1))
    learner.lap(WAIT)
    first = meter.measure()  # of however short a time: there is nothing to repeat
    assert first["time_share/environments/step"] == 1.0
    lap(environment, (ASK, 0.5, 1))
    learner.lap(TRAIN)
    assert meter.measure() == first and meter.bottleneck == "environments"
    lap(environment, (STEP, 0.5, 1), (HAND_OVER, 1.0, 1))
    learner.lap(TRAIN)
    later = meter.measure()
    assert later["time_share/environments/waiting_for_actor"] == 0.25
    assert later["time_share/learner/training"] == 1.0 and meter.bottleneck == "learner"
    learner.lap(WAIT)
    assert meter.measure(collects=False) != later, "what a run does has changed"


def test_a_restart_leaves_out_what_was_before_but_of_threads_that_end_nothing_afterwards():
    now = Time()
    clocks = make_clocks(now)
    meter = StageMeter(clocks, lambda: 0, min_seconds=1.0)
    lap(clocks.environments[0], (STEP, 30.0, 1))
    clocks.learner.lap(TRAIN)
    meter.restart()
    now.now += 0.5
    clocks.learner.lap(WAIT)
    values = meter.measure()
    assert values["time_share/learner/waiting_for_experience"] == 1.0
    assert values["time_share/learner/training"] == 0.0
    assert values["time_share/environments/step"] == 1.0


def test_the_learner_is_all_there_is_while_nothing_collects():
    now = Time()
    clocks = make_clocks(now)
    meter = StageMeter(clocks, lambda: 0)
    lap(clocks.environments[0], (STEP, 6.0, 2))
    clocks.learner.lap(TRAIN)
    assert "time/environments/step" in meter.measure()
    now.now += 1.0
    clocks.learner.lap(TRAIN)
    values = meter.measure(collects=False)
    assert values == {"time_share/learner/training": 1.0, "time/bottleneck": "learner"}


def shares(
    wait=0.0, train=0.0, store=0.0, learner_rest=0.0, hand_over=0.0, step=0.0, ask=0.0, log=0.0, **more
):
    learner = {WAIT: wait, TRAIN: train, STORE: store, REST: learner_rest}
    environments = {STEP: step, ASK: ask, HAND_OVER: hand_over, LOG: log}
    result = {"learner": learner, "environments": environments}
    if "inference" in more:
        result["actors"] = {INFERENCE: more["inference"]}
    if "collectors" in more:
        result["collectors"] = {HAND_OVER: more["collectors"], RECEIVE: 1 - more["collectors"]}
    return result


RULES = {
    "neither waits": (shares(wait=0.04, train=0.9, hand_over=0.04, step=0.9), "balanced"),
    "one of them waits": (shares(wait=0.0, train=0.9, hand_over=0.06, step=0.9), "learner"),
    "the learner waits a little less": (shares(wait=0.3, train=0.5, hand_over=0.31, step=0.6), "learner"),
    "both wait as long": (shares(wait=0.5, train=0.5, hand_over=0.5, step=0.5), "learner"),
    "storing": (shares(wait=0.1, train=0.4, store=0.5, hand_over=0.6), "storing"),
    "the rest of the learner": (shares(wait=0.1, train=0.4, learner_rest=0.5, hand_over=0.6), "trainer"),
    "steps": (shares(wait=0.8, train=0.2, step=0.5, ask=0.5, inference=0.4), "environments"),
    "inference": (shares(wait=0.8, train=0.2, step=0.4, ask=0.6, inference=0.5), "actors"),
    "inference of a synchronous driver": (
        {"learner": {WAIT: 0.8, TRAIN: 0.2}, "environments": {STEP: 0.3, INFERENCE: 0.5, HAND_OVER: 0.2}},
        "actors",
    ),
    "metrics": (shares(wait=0.8, train=0.2, step=0.2, ask=0.3, inference=0.2, log=0.5), "metrics"),
    "waiting for an actor that rests": (
        shares(wait=0.8, train=0.2, step=0.2, ask=0.8, inference=0.3),
        "hand-overs",
    ),
    "none of them": (shares(wait=0.8, train=0.2, step=0.2, ask=0.3, inference=0.2), "driver"),
    "none of them, without actors": (
        {"learner": {WAIT: 0.8, TRAIN: 0.2}, "environments": {STEP: 0.2, INFERENCE: 0.2, REST: 0.6}},
        "driver",
    ),
    "waiting for the learner is no work": (
        shares(wait=0.8, train=0.2, hand_over=0.6, step=0.2, ask=0.2, inference=0.1),
        "environments",
    ),
    "collectors alone": (
        {"learner": {WAIT: 0.8, TRAIN: 0.2}, "collectors": {RECEIVE: 1.0}},
        "collectors",
    ),
    "collectors wait": (
        {"learner": {WAIT: 0.1, TRAIN: 0.9}, "collectors": {RECEIVE: 0.2, HAND_OVER: 0.8}},
        "learner",
    ),
    "collectors and environments": (shares(wait=0.5, train=0.5, step=0.9, collectors=0.0), "environments"),
    "collectors wait on average more": (
        shares(wait=0.3, train=0.7, step=0.9, hand_over=0.1, collectors=0.7),
        "learner",
    ),
    "nothing collects": ({"learner": {TRAIN: 0.9, REST: 0.1}}, "learner"),
}


@pytest.mark.parametrize("name", RULES)
def test_the_rules_of_the_bottleneck(name):
    given, word = RULES[name]
    assert find_bottleneck(given) == word


def test_the_page_has_each_word_and_each_name(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    for _, word in RULES.values():
        assert f"| `{word}` |" in page
    make_trainer(tmp_path, stop={"num_iterations": 3}, learner=CountingLearner).train()
    for tag in read_events(tmp_path / "train"):
        if tag.startswith(("time/", "throughput/", "memory/", "cpu/")):
            assert re.sub(r"_(1min|5min)$", "_10s", tag) in page, tag
        elif tag.startswith("time_share/"):
            assert f"{tag.rpartition('/')[2]}`" in page, tag


def sleep_in_graph(x):
    """Sleeps in the graph, then returns a tensor."""

    def sleep():
        time.sleep(SLOW)
        return False

    with tf.control_dependencies([tf.numpy_function(sleep, [], tf.bool)]):
        return tf.identity(x)


class SlowPolicy(ActorCriticPolicy):
    def rollout_step(self, time_step, state):
        step = super().rollout_step(time_step, state)
        return step._replace(action=sleep_in_graph(step.action))


class SlowLearner(CountingLearner):
    def train(self):
        time.sleep(8 * SLOW)
        return super().train()


def sleep_and_return(x):
    time.sleep(SLOW)
    return x


@pytest.mark.parametrize("driver", [AsyncOffPolicyDriver, SyncOffPolicyDriver])
def test_the_longest_step_is_shown_once(tmp_path, driver):
    """One step of two environments takes long: the mean hides it. A summary comes after each iteration."""
    slow = [SLOW]

    def sleep_once(reward):
        time.sleep(slow.pop() if slow else 0.0)
        return reward

    env = {"special": sleep_once, "special_step": 30}
    experiment = {"num_groups": 2, "driver": driver}
    stop, learner = {"num_iterations": 30}, CountingLearner
    make_trainer(
        tmp_path, env=env, stop=stop, summary_interval=0.0, experiment=experiment, learner=learner
    ).train()
    points = [value for _, value in read_events(tmp_path / "train")["time/environments/longest_step"]]
    # Other programs may delay another step as long, but not equally long. Two summaries that come at once
    # show the same measurement.
    shown = [value for value, _ in itertools.groupby(points)]
    assert len(points) == 30 and SLOW <= max(points) < 10
    assert shown.count(max(points)) == 1 and shown[-1] < max(points)


network = functools.partial(ActorCriticNetwork, fc_layer_params=(8,))
SLOW_PARTS = {
    "environments": {"env": {"special": sleep_and_return, "special_step": 0}},
    "actors": {"experiment": {"policy": functools.partial(SlowPolicy, network=network)}},
    "learner": {"learner": SlowLearner},
    "metrics": {"experiment": {"observer": True}},
}
# Of the asynchronous driver, so that each run takes a second or two; the log queue has room for some records.
NUM_ITERATIONS = {"environments": 14, "actors": 14, "learner": 7, "metrics": 40}


@pytest.mark.parametrize("driver", [AsyncOffPolicyDriver, SyncOffPolicyDriver])
@pytest.mark.parametrize("word", SLOW_PARTS)
def test_a_run_with_a_slow_part_names_it(tmp_path, monkeypatch, caplog, driver, word):
    caplog.set_level("INFO", "absl")
    monkeypatch.setattr("alf.training.progress_bar._LOG_SECONDS", 0.0)
    parts = {"learner": CountingLearner, **SLOW_PARTS[word]}
    experiment = {"num_groups": 2, **parts.pop("experiment", {})}
    stop = {"num_iterations": NUM_ITERATIONS[word] if driver is AsyncOffPolicyDriver else 8}
    experiment["driver"] = driver
    if experiment.pop("observer", False):
        observers = [lambda record: time.sleep(2 * SLOW)]
        experiment["driver"] = functools.partial(build_driver, driver, observers=observers)
    make_trainer(tmp_path, stop=stop, summary_interval=0.6, experiment=experiment, **parts).train()
    words = [text for _, text in read_events(tmp_path / "train")["time/bottleneck"]]
    if word == "metrics" and driver is SyncOffPolicyDriver:
        word = "storing"  # its learner's thread calls the observers
    assert words[-1] == word
    log = "\n".join(record.getMessage() for record in caplog.records)
    assert re.search(rf"\| bottleneck {word} \|", log)
    assert re.search(rf"^bottleneck +{word}$", log, re.MULTILINE)
