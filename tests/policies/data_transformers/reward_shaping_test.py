# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Rewards that change with progress and with the environment's info: against the formulas, and in runs."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import ImpalaAlgorithm
from alf.data_structures import FIRST, LAST, MID, Experience
from alf.drivers import EnvSpecs, SyncOffPolicyDriver
from alf.environments import load
from alf.errors import ConfigError
from alf.learner import optimizers
from alf.networks import ActorCriticNetwork
from alf.policies import ActorCriticPolicy
from alf.policies.data_transformers import (
    Pipeline,
    PreviousReward,
    RewardNormalizer,
    RewardScaling,
    RewardShaping,
    RewardWeighting,
)
from alf.schedules import LinearSchedule, Progress
from alf.training import Experiment
from tests.builders import build_learner, collect_and_observe, driver_of
from tests.workers.envs import InfoEnv

VECTOR, REWARD = tf.TensorSpec((2,), tf.float32), tf.TensorSpec((), tf.float32)
NAN = float("nan")
FALLING = LinearSchedule(start=1.0, end=0.0, over=100)


def make_experience(reward, step_type, **env_info):
    """An `Experience` of [T+1, B] with what reward shaping reads."""
    reward, step_type = tf.constant(reward, tf.float32), tf.constant(step_type, tf.int32)
    fields = dict.fromkeys(Experience._fields, ())
    env_info = {name: tf.constant(x, tf.float32) for name, x in env_info.items()}
    return Experience(**{**fields, "reward": reward, "step_type": step_type, "env_info": env_info})


def make_progress():
    return Progress(*(tf.Variable(0, dtype=tf.int64) for _ in Progress._fields))


def test_a_scale_follows_the_progress():
    part, progress = RewardScaling(VECTOR, REWARD, scale=FALLING), make_progress()
    data = make_experience([[2.0, -4.0]], [[MID, LAST]])
    np.testing.assert_array_equal(part.transform(data).reward, [[2.0, -4.0]])  # the beginning
    part.use_progress(progress)
    transform = tf.function(lambda: part.transform(data).reward, autograph=False)  # traced once
    for env_steps, scale in [(0, 1.0), (25, 0.75), (100, 0.0), (500, 0.0)]:
        progress.env_steps.assign(env_steps)
        np.testing.assert_allclose(transform(), [[2.0 * scale, -4.0 * scale]])


STEP_TYPE = [[FIRST, MID], [MID, LAST], [LAST, FIRST], [FIRST, MID]]
OWN = np.arange(8.0).reshape(4, 2)
A = np.array([[5.0, 1.0], [2.0, NAN], [-3.0, 7.0], [NAN, 4.0]])
B = np.array([[NAN, NAN], [0.5, 0.25], [NAN, 1.0], [9.0, -1.0]])


def test_shaping_is_a_weighted_sum():
    experience, progress = make_experience(OWN, STEP_TYPE, a=A, b=B, c=A), make_progress()
    part = RewardShaping(VECTOR, REWARD, weights={"a": 2.0, "b": FALLING})
    part.use_progress(progress)
    assert part.info_keys == ("a", "b")
    unroll = tf.function(lambda: part.unroll(experience, ()).reward, autograph=False)
    for env_steps, weight in [(0, 1.0), (30, 0.7)]:
        progress.env_steps.assign(env_steps)
        expected = OWN.copy()
        for t in range(4):
            for b in range(2):
                for info, w in ((A, 2.0), (B, weight)):
                    if STEP_TYPE[t][b] != FIRST and not np.isnan(info[t, b]):
                        expected[t, b] += w * info[t, b]
        np.testing.assert_allclose(unroll(), expected, rtol=1e-6)
    assert part.step("a time step", ()) == ("a time step", ())


def test_shaping_in_a_pipeline():
    ctors = [functools.partial(RewardShaping, weights={"a": 1.0}), functools.partial(RewardScaling, scale=10)]
    pipeline = Pipeline(VECTOR, REWARD, ctors)
    assert pipeline.info_keys == ("a",)
    reward = pipeline.unroll(make_experience([[1.0]], [[MID]], a=[[2.0]]), ((), ())).reward
    np.testing.assert_array_equal(reward, [[30.0]])
    assert Pipeline(VECTOR, REWARD).info_keys == ()


def test_the_progress_is_that_of_the_policy_and_a_copy_has_its_own():
    pipeline = Pipeline(VECTOR, REWARD, [functools.partial(RewardScaling, scale=FALLING)])
    action_spec = tf.TensorSpec((1,), tf.float32)
    policy = ActorCriticPolicy(VECTOR, action_spec, data_transformer=pipeline)
    copy = policy.copy()
    data = make_experience([[8.0]], [[MID]])

    def scale(policy):
        return float(policy.data_transformer.unroll(data, ((),)).reward[0, 0]) / 8

    policy.progress.env_steps.assign(50)
    assert (scale(policy), scale(copy)) == (0.5, 1.0)
    copy.assign(policy)
    assert scale(copy) == 0.5


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: RewardScaling(VECTOR, REWARD, scale="1"),
            "RewardScaling.scale is '1': it must be a number or a Schedule",
        ),
        (
            lambda: RewardShaping(VECTOR, REWARD, weights={}),
            "RewardShaping.weights is {}: .* keys of the info",
        ),
        (lambda: RewardShaping(VECTOR, REWARD, weights=[1.0]), "RewardShaping.weights is .1.0.: .* a dict"),
        (
            lambda: RewardShaping(VECTOR, REWARD, weights={"a": "b"}),
            r"RewardShaping.weights\['a'\] is 'b': it must be a number",
        ),
        (lambda: RewardShaping(VECTOR, VECTOR, weights={"a": 1.0}), "RewardWeighting must come before"),
        (
            lambda: Pipeline(
                VECTOR, REWARD, [functools.partial(RewardShaping, weights={"a": 1}), RewardNormalizer]
            ),
            "RewardNormalizer must come before RewardShaping",
        ),
        (
            lambda: Pipeline(
                VECTOR, REWARD, [functools.partial(RewardShaping, weights={"a": 1}), PreviousReward]
            ),
            "PreviousReward must come before RewardShaping",
        ),
        (
            lambda: RewardShaping(VECTOR, REWARD, weights={"a": 1}).unroll(
                make_experience([[1.0]], [[MID]]), ()
            ),
            "weights names 'a', .* `Experience.env_info` has nothing",
        ),
    ],
)
def test_wrong_settings(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_shaping_after_all_that_show_rewards_and_the_weighting_is_right():
    ctors = [
        functools.partial(RewardWeighting, weights=[1.0, 2.0]),
        RewardNormalizer,
        PreviousReward,
        functools.partial(RewardShaping, weights={"a": 1.0}),
    ]
    assert Pipeline(VECTOR, VECTOR, ctors).info_keys == ("a",)


class Recording(ImpalaAlgorithm):
    """Keeps what it learns from."""

    def after_train_iter(self, experience):
        self.seen = getattr(self, "seen", []) + [experience]

    def preprocess(self, experience):
        tf.numpy_function(self._note, [experience.reward, experience.env_info["step"]], [])
        return super().preprocess(experience)

    def _note(self, reward, step):
        self.rewards = getattr(self, "rewards", []) + [(reward, step)]


def make_experiment(weights=None, info_keys=("code", "step")):
    optimizer = optimizers.Adam(1e-6)
    return Experiment(
        env=functools.partial(load, functools.partial(InfoEnv, 3), 2, num_workers=0, info_keys=info_keys),
        data_transformers=[
            functools.partial(RewardShaping, weights=weights or {"step": LinearSchedule(100.0, 0.0, over=40)})
        ],
        policy=functools.partial(
            ActorCriticPolicy, network=functools.partial(ActorCriticNetwork, fc_layer_params=(4,))
        ),
        algorithm=Recording,
        learner=functools.partial(build_learner, optimizer=optimizer),
        driver=SyncOffPolicyDriver,
        unroll_length=5,
        num_groups=1,
        seed=0,
    )


def test_a_run_learns_from_shaped_rewards_and_shows_those_of_the_environment():
    driver = driver_of(make_experiment())
    learner = driver.learner
    assert learner.uses_env_info
    driver.start()
    try:
        weights = []
        for _ in range(6):
            collect_and_observe(driver)
            weights.append(100.0 * max(0.0, 1.0 - int(learner.progress.env_steps) / 40))
            learner.train()
    finally:
        driver.stop()
    assert weights[0] == 100.0 > weights[1] > weights[-1] == 0.0
    for weight, (reward, step) in zip(weights, learner.algorithm.rewards, strict=True):
        # `InfoEnv` rewards half the step within the episode, and says the step in its info; -1 at a reset.
        expected = np.where(step > 0, (0.5 + weight) * step, 0.0)
        np.testing.assert_allclose(reward, expected, rtol=1e-5)
    metrics = {metric.name: metric.result() for metric in driver.get_metrics()}
    assert metrics["AverageReturn"] == 0.5 * (1 + 2 + 3 + 4 + 5)
    for experience in learner.algorithm.seen:  # what queues and buffers hold is the environment's
        step = experience.env_info["step"]
        np.testing.assert_allclose(experience.reward, np.where(step > 0, 0.5 * step, 0.0))


def test_keys_that_the_environment_does_not_give_are_named():
    for info_keys in ((), ("code",)):
        with pytest.raises(
            ConfigError, match=r"RewardShaping.weights names 'step': load.info_keys must name it"
        ):
            driver_of(make_experiment(info_keys=info_keys))


def test_specs_of_unrolls_have_the_info():
    driver = driver_of(make_experiment())
    driver.stop()
    specs = EnvSpecs(driver._envs)
    assert set(specs.unroll_spec(driver.learner.policy, 5, with_env_info=True).env_info) == {"code", "step"}
