# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Data transformers: actor and learner see the same, statistics count every step once and are kept."""

import copy
import functools
import types

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import Algorithm
from alf.core.nest_utils import to_tensor_spec, zero_where, zeros_from_spec
from alf.data_structures import FIRST, LAST, MID, Experience, LossInfo, TimeStep
from alf.drivers import AsyncOffPolicyDriver, OfflineDriver
from alf.errors import ConfigError
from alf.learner import Learner
from alf.policies.data_transformers import (
    FrameStacker,
    ObservationNormalizer,
    Pipeline,
    RewardClipping,
    RewardNormalizer,
    RewardScaling,
    RewardWeighting,
)
from alf.runs.checkpointer import Checkpointer
from alf.testing.fakes import FrozenPolicy
from alf.testing.toy_environments import CountingEnvironment
from tests.builders import build_driver

VECTOR = tf.TensorSpec((2,), tf.float32)
IMAGE = tf.TensorSpec((1, 3, 3), tf.uint8)
NESTED = {"x": VECTOR, "image": IMAGE}
REWARD = tf.TensorSpec((), tf.float32)
REWARDS = tf.TensorSpec((3,), tf.float32)


def make_rows(observation_spec, reward_spec, length=12, batch_size=5, seed=0):
    """Random time steps [length, B]: FIRST at the start, after LAST, and once where an episode breaks off."""
    rng = np.random.default_rng(seed)
    step_type = np.full((length, batch_size), MID, np.int32)
    step_type[0] = FIRST
    for b in range(batch_size):
        last = 2 + b
        step_type[last, b], step_type[last + 1, b] = LAST, FIRST
    step_type[9, 0] = FIRST
    dims = (length, batch_size)

    def sample(spec):
        x = (
            rng.normal(3.0, 2.0, (*dims, *spec.shape))
            if spec.dtype.is_floating
            else rng.integers(0, 255, (*dims, *spec.shape))
        )
        return tf.constant(x, spec.dtype)

    zeros = tf.zeros(dims)
    reward = tf.constant(rng.normal(1.0, 3.0, (*dims, *reward_spec.shape)), tf.float32)
    observation = tf.nest.map_structure(sample, observation_spec)
    env_id = tf.zeros(dims, tf.int32)
    return TimeStep(tf.constant(step_type), reward, zeros + 1, observation, zeros, env_id)


def run_steps(transformer, rows):
    """What an actor sees: rows one by one, and the state that entered each."""
    state = zeros_from_spec(transformer.state_spec, rows.step_type.shape[1])
    seen, states = [], []
    for t in range(rows.step_type.shape[0]):
        row = tf.nest.map_structure(lambda x, t=t: x[t], rows)
        is_first = row.is_first()
        states.append(state)
        state = tf.nest.map_structure(lambda x, f=is_first: zero_where(f, x), state)
        row, state = transformer.step(row, state)
        seen.append(row)
    return tf.nest.map_structure(lambda *x: tf.stack(x), *seen), states


def as_experience(rows, state=()):
    version = tf.zeros(rows.step_type.shape, tf.int64)
    return Experience(*rows, action=rows.prev_action, info=(), policy_version=version, state=state)


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


def test_a_single_transformer_is_no_list():
    spec = tf.TensorSpec([3], tf.float32)
    with pytest.raises(ConfigError, match=r"it must be a tuple or list; in gin \(@RewardClipping,\)"):
        Pipeline(spec, tf.TensorSpec([], tf.float32), RewardClipping)


def test_frames_of_an_episode_alone_are_stacked():
    rows = make_rows(VECTOR, REWARD)
    seen, _ = run_steps(FrameStacker(VECTOR, REWARD, num_frames=3), rows)
    for b in range(5):
        begun = 0
        for t in range(12):
            begun = t if rows.step_type[t, b] == FIRST else begun
            frames = [rows.observation[max(t - k, begun), b] for k in (2, 1, 0)]
            np.testing.assert_array_equal(seen.observation[t, b], np.concatenate(frames))


def test_the_chosen_parts_alone_are_stacked():
    spec = {"cameras": (IMAGE, IMAGE), "x": VECTOR, "mask": REWARD}
    rows = make_rows(spec, REWARD)
    keys = ("x", "cameras/1")
    stacker = FrameStacker(spec, REWARD, num_frames=3, keys=keys, channels="first")
    shapes = tf.nest.map_structure(lambda s: s.shape.as_list(), stacker.observation_spec)
    assert shapes == {"cameras": ([1, 3, 3], [3, 3, 3]), "x": [6], "mask": []}
    seen, _ = run_steps(stacker, rows)
    np.testing.assert_array_equal(seen.observation["mask"], rows.observation["mask"])
    np.testing.assert_array_equal(seen.observation["cameras"][0], rows.observation["cameras"][0])
    for select in (lambda observation: observation["x"], lambda observation: observation["cameras"][1]):
        plain, stacked = select(rows.observation), select(seen.observation)
        alone, _ = run_steps(
            FrameStacker(select(spec), REWARD, num_frames=3, channels="first"),
            rows._replace(observation=plain),
        )
        np.testing.assert_array_equal(stacked, alone.observation)


@pytest.mark.parametrize(
    "shape, settings, stacked, axis",
    [
        ((3, 36, 40), {}, (6, 36, 40), 0),
        ((36, 40, 3), {}, (36, 40, 6), 2),
        ((4, 5, 4), {"channels": "last"}, (4, 5, 8), 2),
        ((4, 5, 4), {"channels": "first"}, (8, 5, 4), 0),
    ],
    ids=str,
)
def test_frames_are_stacked_along_their_channels(shape, settings, stacked, axis):
    spec = tf.TensorSpec(shape, tf.uint8)
    stacker = FrameStacker(spec, REWARD, num_frames=2, **settings)
    assert stacker.observation_spec == tf.TensorSpec(stacked, tf.uint8)
    rows = make_rows(spec, REWARD)
    seen, _ = run_steps(stacker, rows)
    assert rows.step_type[1, 0] == MID
    two = [rows.observation[t, 0] for t in (0, 1)]
    np.testing.assert_array_equal(seen.observation[1, 0], np.concatenate(two, axis=axis))


def test_a_stack_that_hides_its_channels_is_refused():
    hidden = tf.TensorSpec((10, 10, 3), tf.uint8)
    with pytest.raises(ConfigError, match=r"channels is 'auto': a stack \(10, 10, 12\) .*'last'"):
        FrameStacker(hidden, REWARD)
    gin.parse_config("FrameStacker.channels = 'last'")
    assert FrameStacker(hidden, REWARD).observation_spec.shape == (10, 10, 12)
    with pytest.raises(ConfigError, match="FrameStacker.channels is 3: it must be"):
        FrameStacker(hidden, REWARD, channels=3)


def test_observations_are_normalized_by_all_that_was_observed():
    rows = make_rows(NESTED, REWARD)
    normalizer = ObservationNormalizer(NESTED, REWARD, clip=1.5)
    normalizer.observe(as_experience(rows), ())
    seen = normalizer.transform(rows)
    x = rows.observation["x"].numpy().astype(np.float64)
    used = x[:-1].reshape(-1, 2)
    expected = np.clip((x - used.mean(0)) / used.std(0), -1.5, 1.5)
    np.testing.assert_allclose(seen.observation["x"], expected, rtol=1e-5, atol=1e-6)
    assert np.abs(seen.observation["x"]).max() == 1.5
    np.testing.assert_array_equal(seen.observation["image"], rows.observation["image"])


def test_a_first_step_that_is_repeated_counts_once():
    """As with `sticky` drivers, also where the last row of an unroll begins an episode."""
    rows = make_rows(NESTED, REWARD, length=12, batch_size=2)
    step_type = rows.step_type.numpy()
    step_type[3:7, 0] = FIRST
    step_type[10:, 1] = FIRST
    rows = rows._replace(step_type=tf.constant(step_type))
    normalizer = ObservationNormalizer(NESTED, REWARD)
    normalizer.observe(as_experience(rows), ())
    is_used = np.ones((12, 2), bool)
    is_used[3:6, 0] = is_used[10, 1] = is_used[11] = False
    x = rows.observation["x"].numpy().astype(np.float64)
    used = x[is_used]
    expected = np.clip((x - used.mean(0)) / used.std(0), -10, 10)
    np.testing.assert_allclose(normalizer.transform(rows).observation["x"], expected, rtol=1e-5, atol=1e-6)


def normalize_in_numpy(x, clip=10.0):
    x = x.astype(np.float64)
    return np.clip((x - x.mean(0)) / np.sqrt(x.var(0) + 1e-8), -clip, clip)


def observe_and_normalize(x):
    """Normalises observations [T, B] by their own statistics, in a graph."""
    spec = tf.TensorSpec((), x.dtype)
    normalizer = ObservationNormalizer(spec, REWARD)
    rows = as_experience(make_rows(spec, REWARD, length=len(x) + 1, batch_size=x.shape[1]))
    normalizer.observe(rows._replace(observation=tf.constant(np.concatenate([x, x[:1]]))), ())
    seen = tf.function(normalizer.transform)(rows._replace(observation=tf.constant(x))).observation
    assert seen.dtype == x.dtype
    return seen.numpy()


def test_a_constant_float64_observation_becomes_zero():
    """Its mean in float32 would be 0.01 away, a hundred times the deviation of 1e-4 that constants have."""
    x = np.full((12, 5), 1234567.89)
    # The mean is off by at most one rounding of each addition.
    bound = x.size * np.finfo(np.float64).eps * x[0, 0] / 1e-4
    assert bound < 1e-3
    np.testing.assert_allclose(observe_and_normalize(x), np.zeros_like(x), atol=bound)


def test_a_float64_observation_far_from_zero_keeps_its_digits():
    x = 1000000.03 + 0.01 * np.random.default_rng(0).normal(size=(12, 5))
    bound = x.size * np.finfo(np.float64).eps * 1e6 / 0.005  # as above; the deviation is above 0.005
    assert bound < 1e-5
    expected = normalize_in_numpy(x.reshape(-1)).reshape(x.shape)
    np.testing.assert_allclose(observe_and_normalize(x), expected, atol=bound)


def test_a_float32_observation_may_be_two_neighbouring_numbers():
    """Their mean is no float32 number."""
    x = np.full((12, 5), 1e6, np.float32)
    x[::2] = np.nextafter(x[0, 0], np.float32(np.inf))
    expected = np.where(np.arange(12)[:, np.newaxis] % 2 == 0, 1.0, -1.0)
    np.testing.assert_allclose(observe_and_normalize(x), np.broadcast_to(expected, x.shape), rtol=1e-4)


def test_rewards_far_from_zero_are_divided_as_in_float64():
    rows = make_rows(VECTOR, REWARD)
    rows = rows._replace(reward=1e6 + rows.reward)
    normalizer = RewardNormalizer(VECTOR, REWARD, discount=0.0, clip=None)
    normalizer.observe(as_experience(rows), tf.zeros(5))
    reward = rows.reward.numpy().astype(np.float64)
    expected = reward / np.std(reward[1:][rows.step_type[1:] != FIRST])
    # The epsilon of 1e-8 aside, the deviation and the quotient are rounded once each.
    seen = normalizer.unroll(as_experience(rows), ()).reward
    np.testing.assert_allclose(seen, expected, rtol=2 * np.finfo(np.float32).eps)


@pytest.mark.parametrize("clip", [0.7, None])
def test_rewards_are_divided_by_the_deviation_of_the_sums_so_far(clip):
    rows = make_rows(VECTOR, REWARD)
    normalizer = RewardNormalizer(VECTOR, REWARD, discount=0.9, clip=clip)
    for start, stop in ((0, 7), (6, 12)):  # unrolls overlap in one row
        part = as_experience(tf.nest.map_structure(lambda x, i=start, j=stop: x[i:j], rows))
        normalizer.observe(part, run_steps(normalizer, rows)[1][start])
    sums = []
    for b in range(5):
        total = 0.0
        for t in range(12):
            total = 0.0 if rows.step_type[t, b] == FIRST else 0.9 * total + float(rows.reward[t, b])
            if rows.step_type[t, b] != FIRST:
                sums.append(total)
    expected = rows.reward.numpy() / np.std(sums)
    expected = expected if clip is None else np.clip(expected, -clip, clip)
    np.testing.assert_allclose(normalizer.unroll(as_experience(rows), ()).reward, expected, rtol=1e-5)


def test_rewards_are_scaled_and_clipped():
    rows = make_rows(VECTOR, REWARDS)
    scaled = RewardScaling(VECTOR, REWARDS, scale=0.5).transform(rows).reward
    np.testing.assert_allclose(scaled, rows.reward.numpy() * 0.5)
    clipped = RewardClipping(VECTOR, REWARDS, minimum=-0.5, maximum=2).transform(rows).reward
    np.testing.assert_allclose(clipped, np.clip(rows.reward, -0.5, 2))


def test_vector_rewards_are_weighted_and_weights_may_change():
    rows = make_rows(VECTOR, REWARDS)
    weighting = RewardWeighting(VECTOR, REWARDS, weights=(1, -2.0, 0.5))
    assert weighting.reward_spec.shape == ()
    transform = tf.function(weighting.transform)
    np.testing.assert_allclose(transform(rows).reward, rows.reward.numpy() @ [1, -2, 0.5], rtol=1e-5)
    np.testing.assert_array_equal(weighting.weights, [1, -2, 0.5])
    weighting.set_weights([0.0, 1.0, 0.0])
    np.testing.assert_allclose(transform(rows).reward, rows.reward[..., 1], rtol=1e-6)


def test_without_weights_the_sum_is_plain():
    rows = make_rows(VECTOR, REWARDS)
    seen = RewardWeighting(VECTOR, REWARDS).transform(rows).reward
    np.testing.assert_allclose(seen, np.sum(rows.reward, axis=-1), rtol=1e-5)


class ComparesWhatWasSeen(Algorithm):
    """Its loss is 1 if the learner sees what the actor saw (see `FrozenPolicy`), else 0."""

    def train_step(self, experience, state):
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
    return Learner(ComparesWhatWasSeen(FrozenPolicy(specs, data_transformer=pipeline)), optimizer=None)


def test_through_the_driver_the_learner_sees_what_the_actor_saw():
    envs = [CountingEnvironment(batch_size=3, episode_length=5, env_index=i) for i in range(2)]
    observation_spec = to_tensor_spec(envs[0].observation_spec())
    ctors = [FrameStacker, functools.partial(RewardScaling, scale=0.5)]
    learner = make_learner(envs[0], Pipeline(observation_spec, REWARD, ctors))
    driver = build_driver(AsyncOffPolicyDriver, envs, learner, unroll_length=4)
    driver.start()
    try:
        for _ in range(8):
            driver.collect()
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
        steps = sum(driver.collect() for _ in range(8))
    finally:
        driver.stop()
    assert int(pipeline._parts[0]._statistics._count) == steps > 0


def test_statistics_are_in_the_checkpoint(tmp_path):
    rows = make_rows(NESTED, REWARD)

    def make():
        pipeline = Pipeline(NESTED, REWARD, [ObservationNormalizer, RewardNormalizer])
        env = CountingEnvironment(batch_size=2, episode_length=3)
        return pipeline, Checkpointer(str(tmp_path), OfflineDriver(make_learner(env, pipeline)))

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
    (
        functools.partial(RewardWeighting, weights=("a",)),
        r"RewardWeighting.weights\[0\] is 'a': it must be a number",
    ),
    (RewardWeighting, r"weights is None: .* shape \(\)"),
    (
        functools.partial(RewardWeighting, weights=2.0),
        "RewardWeighting.weights is 2.0: it must be a tuple or list",
    ),
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
