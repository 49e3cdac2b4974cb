# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Data transformers: actor and learner see the same, statistics count every step once and are kept."""

import copy
import functools
import types

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import Algorithm
from alf.core.nest_utils import to_tensor_spec, zeros_from_spec
from alf.data_structures import FIRST, LossInfo
from alf.drivers import AsyncOffPolicyDriver
from alf.errors import ConfigError
from alf.policies.data_transformers import (
    FrameStacker,
    ObservationNormalizer,
    Pipeline,
    RewardClipping,
    RewardNormalizer,
    RewardScaling,
    RewardWeighting,
)
from alf.testing.fakes import FrozenPolicy
from alf.testing.toy_environments import CountingEnvironment
from tests.builders import (
    build_checkpointer,
    build_driver,
    build_learner,
    build_offline_driver,
    collect_and_observe,
)
from tests.policies.data_transformers.rows import (
    IMAGE,
    NESTED,
    REWARD,
    REWARDS,
    VECTOR,
    as_experience,
    make_rows,
    run_steps,
)

STACK_2, STACK_3 = (functools.partial(FrameStacker, num_frames=n) for n in (2, 3))
EACH_KIND = [
    STACK_3,
    ObservationNormalizer,
    functools.partial(RewardScaling, scale=0.1),
    RewardNormalizer,
    RewardClipping,
]
PIPELINES = {
    "frames": (VECTOR, REWARD, [FrameStacker]),
    "frames_of_frames": (VECTOR, REWARD, [STACK_2, STACK_3]),
    "frames_of_images": (IMAGE, REWARD, [STACK_2]),
    "frames_of_one_part": (NESTED, REWARD, [functools.partial(STACK_2, keys=("image",))]),
    "frames_of_all_parts": (NESTED, REWARD, [functools.partial(FrameStacker, channels="first")]),
    "frames_of_images_with_channels_last": (tf.TensorSpec((14, 13, 3), tf.uint8), REWARD, [FrameStacker]),
    "normalized": (NESTED, REWARDS, [ObservationNormalizer, RewardNormalizer]),
    "each_kind": (VECTOR, REWARD, EACH_KIND),
    "each_kind_with_vector_rewards": (VECTOR, REWARDS, EACH_KIND),
}


def cut(rows, start, stop):
    return tf.nest.map_structure(lambda x: x[start:stop], rows)


def assert_saw(learned, seen):
    """The learner has the observations and rewards that the actor saw."""
    for x, y in zip(
        tf.nest.flatten((learned.observation, learned.reward)),
        tf.nest.flatten((seen.observation, seen.reward)),
        strict=True,
    ):
        np.testing.assert_allclose(x, y, rtol=1e-6)


@pytest.mark.parametrize("name", PIPELINES)
def test_the_learner_sees_what_the_actor_saw(name):
    observation_spec, reward_spec, ctors = PIPELINES[name]
    pipeline = Pipeline(observation_spec, reward_spec, ctors)
    rows = make_rows(observation_spec, reward_spec)
    pipeline.observe(as_experience(rows), zeros_from_spec(pipeline.state_spec, 5))
    seen, states = run_steps(pipeline, rows)
    # The learner calls it in a graph, which takes most of the time: here once for each class.
    is_traced = name in ("frames_of_all_parts", "each_kind_with_vector_rewards")
    in_graph = tf.function(pipeline.unroll) if is_traced else pipeline.unroll
    for start, stop, unroll in (
        (0, 5, pipeline.unroll),
        (4, 9, in_graph),
        (3, 4, pipeline.unroll),
        (8, 12, pipeline.unroll),
    ):
        learned = unroll(as_experience(cut(rows, start, stop)), states[start])
        assert_saw(learned, cut(seen, start, stop))
    for x, spec in zip(
        tf.nest.flatten(seen.observation), tf.nest.flatten(pipeline.observation_spec), strict=True
    ):
        assert x.shape[2:] == spec.shape and x.dtype == spec.dtype


@pytest.mark.parametrize("name", ["frames", "frames_of_frames", "each_kind"])
def test_rows_before_a_sequence_replace_the_state(name):
    """As when the learner samples from a replay buffer, which keeps no states."""
    observation_spec, reward_spec, ctors = PIPELINES[name]
    pipeline = Pipeline(observation_spec, reward_spec, ctors)
    length, start = 18, 15
    rows = make_rows(observation_spec, reward_spec, length=length)
    assert not (rows.step_type[10:] == FIRST).numpy().any() and start - pipeline.context >= 10
    seen, _ = run_steps(pipeline, rows)
    before = start - pipeline.context
    no_state = zeros_from_spec(pipeline.state_spec, 5)
    learned = pipeline.unroll(as_experience(cut(rows, before, length)), no_state)
    assert_saw(cut(learned._replace(state=()), pipeline.context, None), cut(seen, start, length))


class ComparesWhatWasSeen(Algorithm):
    """Its loss is 1 if the learner sees what the actor saw (see `FrozenPolicy`), else 0."""

    def train_step(self, experience, prepared):
        seen = experience.info["seen"]
        pairs = (experience.observation, seen.observation), (experience.reward, seen.reward)
        # The last row is not answered yet.
        return tf.cast(tf.reduce_all([tf.reduce_all(tf.equal(x, y)[:-1]) for x, y in pairs]), tf.float32)

    def calc_loss(self, experience, train_info):
        return LossInfo(train_info)

    def update_with_gradient(self, loss_info, gradients, optimizer):
        pass


def make_learner(env, pipeline):
    specs = types.SimpleNamespace(
        observation_spec=lambda: pipeline.observation_spec,
        action_spec=env.action_spec,
        reward_spec=env.reward_spec,
    )
    return build_learner(ComparesWhatWasSeen(FrozenPolicy(specs, data_transformer=pipeline)), optimizer=None)


def test_through_the_driver_the_learner_sees_what_the_actor_saw():
    envs = [CountingEnvironment(batch_size=3, episode_length=5, env_index=i) for i in range(2)]
    observation_spec = to_tensor_spec(envs[0].observation_spec())
    ctors = [FrameStacker, functools.partial(RewardScaling, scale=0.5)]
    learner = make_learner(envs[0], Pipeline(observation_spec, REWARD, ctors))
    driver = build_driver(AsyncOffPolicyDriver, envs, learner, unroll_length=4)
    driver.start()
    try:
        for _ in range(8):
            collect_and_observe(driver)
            assert learner.train()["loss"] == 1.0
    finally:
        driver.stop()


def test_through_the_driver_every_step_is_counted_once():
    envs = [CountingEnvironment(batch_size=3, episode_length=5) for _ in range(2)]
    pipeline = Pipeline(to_tensor_spec(envs[0].observation_spec()), REWARD, [RewardNormalizer])
    learner = make_learner(envs[0], pipeline)
    driver = build_driver(AsyncOffPolicyDriver, envs, learner, unroll_length=4)
    driver.start()
    try:
        steps = sum(collect_and_observe(driver) for _ in range(8))
    finally:
        driver.stop()
    assert int(pipeline._parts[0]._statistics._count) == steps > 0


def test_statistics_are_in_the_checkpoint(tmp_path):
    rows = make_rows(NESTED, REWARD)

    def make():
        pipeline = Pipeline(NESTED, REWARD, [ObservationNormalizer, RewardNormalizer])
        env = CountingEnvironment(batch_size=2, episode_length=3)
        return pipeline, build_checkpointer(tmp_path, build_offline_driver(make_learner(env, pipeline)))

    first, checkpointer = make()
    first.observe(as_experience(rows), zeros_from_spec(first.state_spec, 5))
    checkpointer.save()
    second, checkpointer = make()
    checkpointer.restore()
    for x, y in zip(
        tf.nest.flatten(first.step(rows_at(rows, 3), ((), tf.zeros(5)))),
        tf.nest.flatten(second.step(rows_at(rows, 3), ((), tf.zeros(5)))),
        strict=True,
    ):
        np.testing.assert_array_equal(x, y)


COPIED = {
    "FrameStacker": (VECTOR, REWARD, FrameStacker),
    "ObservationNormalizer": (NESTED, REWARD, ObservationNormalizer),
    "RewardNormalizer": (VECTOR, REWARDS, RewardNormalizer),
    "RewardWeighting": (VECTOR, REWARDS, functools.partial(RewardWeighting, weights=[1.0, -2.0, 0.5])),
}


@pytest.mark.parametrize("name", COPIED)
def test_a_copy_computes_the_same_with_variables_of_its_own(name):
    observation_spec, reward_spec, ctor = COPIED[name]
    pipeline = Pipeline(observation_spec, reward_spec, [ctor])
    rows = make_rows(observation_spec, reward_spec)
    experience, state = as_experience(rows), zeros_from_spec(pipeline.state_spec, 5)
    pipeline.observe(experience, state)
    twin = copy.deepcopy(pipeline)
    assert not {id(v) for v in pipeline.variables} & {id(v) for v in twin.variables}
    assert [v.name for v in pipeline.variables] == [v.name for v in twin.variables]
    assert [v.trainable for v in pipeline.variables] == [v.trainable for v in twin.variables]
    tf.nest.map_structure(np.testing.assert_array_equal, pipeline.variables, twin.variables)
    before = pipeline.unroll(experience, state)
    after = twin.unroll(experience, state)
    tf.nest.map_structure(np.testing.assert_array_equal, before, after)
    for variable in pipeline.variables:
        variable.assign(3 * variable + 1)
    after = twin.unroll(experience, state)
    tf.nest.map_structure(np.testing.assert_array_equal, before, after)


def rows_at(rows, t):
    return tf.nest.map_structure(lambda x: x[t], rows)


WRONG_SETTINGS = [
    (functools.partial(FrameStacker, num_frames=1), "FrameStacker.num_frames is 1"),
    (functools.partial(FrameStacker, keys=("x",)), r"FrameStacker.keys is \('x',\).* none, it is one tensor"),
    (functools.partial(ObservationNormalizer, clip=0), "ObservationNormalizer.clip is 0"),
    (functools.partial(RewardNormalizer, discount=1.5), "RewardNormalizer.discount is 1.5"),
    (functools.partial(RewardNormalizer, clip=-1), "RewardNormalizer.clip is -1"),
    (functools.partial(RewardScaling, scale="x"), "RewardScaling.scale is 'x'"),
    (functools.partial(RewardClipping, minimum=2), "RewardClipping.minimum is 2: it must be below"),
    (functools.partial(RewardWeighting, weights=(1.0,)), r"weights is \(1.0,\): .* shape \(\)"),
    (RewardWeighting, r"weights is None: .* shape \(\)"),
    (functools.partial(RewardWeighting, weights=2.0), "weights is 2.0: it must be a list of numbers"),
    (RewardScaling(VECTOR, REWARD), "without parentheses"),
]


def test_wrong_settings_are_named(subtests):
    for ctor, message in WRONG_SETTINGS:
        with subtests.test(message=message), pytest.raises(ConfigError, match=message):
            Pipeline(VECTOR, REWARD, [ctor])


WRONG_OBSERVATIONS = [
    (FrameStacker, {"x": VECTOR, "mask": REWARD}, "FrameStacker stacks tensors .*: set FrameStacker.keys"),
    (
        functools.partial(FrameStacker, keys="image"),
        NESTED,
        "FrameStacker.keys is 'image': it must be a tuple or list, each a text, or None",
    ),
    (
        functools.partial(FrameStacker, keys=("y",)),
        NESTED,
        r"FrameStacker.keys is \('y',\): .* These are 'image', 'x'",
    ),
    (functools.partial(FrameStacker, keys=("x", "x")), NESTED, r"FrameStacker.keys is \('x', 'x'\)"),
    (ObservationNormalizer, IMAGE, "ObservationNormalizer needs a float observation"),
]


def test_observations_that_do_not_fit_are_refused(subtests):
    for ctor, spec, message in WRONG_OBSERVATIONS:
        with subtests.test(message=message), pytest.raises(ConfigError, match=message):
            Pipeline(spec, REWARD, [ctor])
