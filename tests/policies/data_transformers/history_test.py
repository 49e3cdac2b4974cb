# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What happened before, as a part of the observation: for actor and learner, replay, agents and gin."""

import copy
import functools

import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import Algorithm
from alf.config.parsing import parse_config
from alf.config.registry import own_config
from alf.core.nest_utils import BoundedTensorSpec, zeros_from_spec
from alf.data_structures import FIRST, LAST, MID, Experience, LossInfo, PolicyStep, TimeStep
from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.errors import ConfigError
from alf.policies import Agent, EpisodeStep, Policy, PreviousAction, PreviousReward
from alf.policies.data_transformers import FrameStacker, Pipeline, RewardScaling
from alf.testing.toy_environments import CountingEnvironment
from alf.training import Experiment
from tests.builders import collect_and_observe, driver_of

VECTOR, REWARD = tf.TensorSpec((2,), tf.float32), tf.TensorSpec((), tf.float32)
ACTIONS = {
    "choice": BoundedTensorSpec((), tf.int64, 2, 4),
    "choices": BoundedTensorSpec((2,), tf.int32, [0, -1], [1, 1]),
    "turn": BoundedTensorSpec((2, 1), tf.float64, -1.0, 1.0),
}
LIMIT = 6
ALL = (PreviousAction, PreviousReward, functools.partial(EpisodeStep, limit=LIMIT))


def make_rows(length=14, batch_size=4, seed=0):
    """Random rows: FIRST at the start, after LAST, and once where an episode breaks off."""
    rng = np.random.default_rng(seed)
    step_type = np.full((length, batch_size), MID, np.int32)
    step_type[0] = FIRST
    for b in range(batch_size - 1):
        step_type[2 + b, b], step_type[3 + b, b] = LAST, FIRST
    step_type[9, 0] = FIRST
    dims = (length, batch_size)

    def sample(spec):
        if spec.dtype.is_integer:
            x = rng.integers(spec.minimum, np.asarray(spec.maximum) + 1, (*dims, *spec.shape))
        else:
            x = rng.normal(size=(*dims, *spec.shape))
        return tf.constant(x, spec.dtype)

    action = tf.nest.map_structure(sample, ACTIONS)
    observation = tf.constant(rng.normal(size=(*dims, 2)), tf.float32)
    reward = tf.constant(rng.normal(size=dims), tf.float32)
    return TimeStep(
        tf.constant(step_type), reward, tf.ones(dims), observation, action, tf.zeros(dims, tf.int32)
    )


def select(rows, part):
    return tf.nest.map_structure(lambda x: x[part], rows)


def as_experience(rows):
    version = tf.zeros(rows.step_type.shape, tf.int64)
    return Experience(*rows, action=rows.prev_action, info=(), policy_version=version, state=())


def run_steps(transformer, rows):
    """What an actor sees: rows one by one, and the state that entered each."""
    state = zeros_from_spec(transformer.state_spec, rows.step_type.shape[1])
    seen, states = [], []
    for t in range(rows.step_type.shape[0]):
        states.append(state)
        row, state = transformer.step(select(rows, t), state)
        seen.append(row.observation)
    return tf.nest.map_structure(lambda *x: tf.stack(x).numpy(), *seen), states


def count_steps(step_type):
    """The number of each row in its episode."""
    count = np.zeros(step_type.shape, int)
    for t in range(1, len(step_type)):
        count[t] = np.where(step_type[t] == FIRST, 0, count[t - 1] + 1)
    return count


def assert_same(a, b):
    tf.nest.map_structure(np.testing.assert_array_equal, a, b)


def test_the_entries():
    pipeline, rows = Pipeline(VECTOR, REWARD, ALL, ACTIONS), make_rows()
    seen, _ = run_steps(pipeline, rows)
    step_type, action = rows.step_type.numpy(), select(rows.prev_action, slice(None))
    is_first = step_type == FIRST
    np.testing.assert_array_equal(seen["observation"], rows.observation)
    expected = np.minimum(count_steps(step_type), LIMIT) / LIMIT
    np.testing.assert_allclose(seen["episode_step"], expected, rtol=1e-6)
    assert np.max(expected) == 1
    np.testing.assert_array_equal(seen["prev_reward"], np.where(is_first, 0, rows.reward))
    choice, choices, turn = (seen["prev_action"][name] for name in ("choice", "choices", "turn"))
    one_hot = np.eye(3)[action["choice"].numpy() - 2] * ~is_first[..., np.newaxis]
    np.testing.assert_array_equal(choice, one_hot)
    pair = action["choices"].numpy()
    parts = np.concatenate([np.eye(2)[pair[..., 0]], np.eye(3)[pair[..., 1] + 1]], axis=-1)
    np.testing.assert_array_equal(choices, parts * ~is_first[..., np.newaxis])
    np.testing.assert_array_equal(turn, np.where(is_first[..., np.newaxis, np.newaxis], 0, action["turn"]))
    specs = tf.nest.map_structure(lambda s: (s.dtype.as_numpy_dtype, *s.shape), pipeline.observation_spec)
    assert specs == {
        "observation": (np.float32, 2),
        "prev_action": {"choice": (np.float32, 3), "choices": (np.float32, 5), "turn": (np.float64, 2, 1)},
        "prev_reward": (np.float32,),
        "episode_step": (np.float32,),
    }
    tf.nest.map_structure(lambda x, s: x.dtype == s.dtype, seen, pipeline.observation_spec)


@pytest.mark.parametrize("ctors", [ALL, (*ALL, functools.partial(FrameStacker, keys=("observation",)))])
def test_the_learner_sees_what_the_actor_saw(ctors):
    pipeline, rows = Pipeline(VECTOR, REWARD, ctors, ACTIONS), make_rows()
    seen, states = run_steps(pipeline, rows)
    unroll = tf.function(pipeline.unroll, autograph=False)
    for start, stop in ((0, 6), (4, 9), (7, 8), (9, 14)):
        part = slice(start, stop)
        learned = unroll(as_experience(select(rows, part)), states[start])
        assert_same(learned.observation, select(seen, part))


def test_a_replayed_sequence_needs_the_rows_before_it_and_no_state():
    pipeline, rows = Pipeline(VECTOR, REWARD, ALL, ACTIONS), make_rows()
    seen, _ = run_steps(pipeline, rows)
    assert pipeline.context == LIMIT
    zeros = zeros_from_spec(pipeline.state_spec, 4)
    for start in range(LIMIT, 13):
        part = as_experience(select(rows, slice(start - LIMIT, 14)))
        learned = select(pipeline.unroll(part, zeros).observation, slice(LIMIT, None))
        assert_same(learned, select(seen, slice(start, 14)))


def test_a_dict_gets_entries_and_a_reward_is_that_of_the_transformers_before():
    spec, rows = {"camera": VECTOR}, make_rows()
    ctors = [functools.partial(RewardScaling, scale=2.0), PreviousReward]
    pipeline = Pipeline(spec, REWARD, ctors)
    seen = pipeline.unroll(as_experience(rows._replace(observation={"camera": rows.observation})), ((), ()))
    assert set(seen.observation) == {"camera", "prev_reward"}
    np.testing.assert_array_equal(seen.observation["prev_reward"][1:2], 2 * rows.reward[1:2])


def test_they_are_copied_and_in_checkpoints(tmp_path):
    pipeline, rows = Pipeline(VECTOR, REWARD, ALL, ACTIONS), as_experience(make_rows())
    zeros = zeros_from_spec(pipeline.state_spec, 4)
    path = tf.train.Checkpoint(pipeline=pipeline).save(str(tmp_path / "checkpoint"))
    tf.train.Checkpoint(pipeline=pipeline).restore(path).assert_consumed()
    seen = (twin.unroll(rows, zeros).observation for twin in (pipeline, copy.deepcopy(pipeline)))
    assert_same(*seen)


def test_vector_rewards():
    spec, rows = tf.TensorSpec((3,), tf.float32), make_rows()
    rows = rows._replace(reward=tf.stack([rows.reward] * 3, axis=-1))
    seen = PreviousReward(VECTOR, spec).transform(rows).observation["prev_reward"]
    is_first = (rows.step_type.numpy() == FIRST)[..., np.newaxis]
    np.testing.assert_array_equal(seen, np.where(is_first, 0, rows.reward))


@pytest.mark.parametrize(
    "ctor, action_spec, message",
    [
        (functools.partial(EpisodeStep, limit=0), (), "EpisodeStep.limit is 0"),
        (PreviousAction, None, "PreviousAction needs the action_spec: give it to the Pipeline"),
        (PreviousAction, tf.TensorSpec((), tf.int64), "PreviousAction needs integers with bounds, not"),
        (PreviousAction, BoundedTensorSpec((), tf.int64, 0, 2**40), "PreviousAction needs integers with"),
    ],
)
def test_bad_settings(ctor, action_spec, message):
    with pytest.raises(ConfigError, match=message):
        Pipeline(VECTOR, REWARD, [ctor], action_spec)


@pytest.mark.parametrize(
    "ctor, name", [(ALL[0], "prev_action"), (ALL[1], "prev_reward"), (ALL[2], "episode_step")]
)
def test_an_entry_that_is_there_already(ctor, name):
    with pytest.raises(ConfigError, match=f"the observation already has an entry '{name}'"):
        Pipeline({name: VECTOR}, REWARD, [ctor], ACTIONS)


# --- In whole runs.


class Showing(Policy):
    """Its action is 1 where the step number is odd; `info` is what it was shown."""

    def __init__(self, observation_spec, action_spec, data_transformer):
        info_spec = observation_spec
        super().__init__(
            observation_spec, action_spec, info_spec=info_spec, data_transformer=data_transformer
        )

    def rollout_step(self, time_step, state):
        step = tf.cast(time_step.observation["observation"][:, 2], tf.int64)
        return PolicyStep(step % 2, state, time_step.observation)


class Checking(Algorithm):
    """Fails unless the learner sees what the actor saw, and what the counting environment did."""

    def __init__(self, policy):
        super().__init__(policy)
        self.rows = tf.Variable(0, trainable=False)

    def train_step(self, experience, prepared):
        observation = experience.observation
        # But row T, which no actor has seen yet.
        before_last = lambda x: tf.nest.map_structure(lambda leaf: leaf[:-1], x)  # noqa: E731
        tf.nest.map_structure(
            tf.debugging.assert_equal, before_last(observation), before_last(experience.info)
        )
        step = observation["observation"][..., 2]
        tf.debugging.assert_near(observation["episode_step"], tf.minimum(step, LIMIT) / LIMIT)
        tf.debugging.assert_equal(observation["prev_reward"], step)
        before = tf.where(step > 0, tf.cast(step - 1, tf.int32) % 2, -1)
        tf.debugging.assert_equal(observation["prev_action"], tf.one_hot(before, 2))
        self.rows.assign_add(tf.size(step))
        return ()

    def calc_loss(self, experience, train_info):
        return LossInfo(tf.zeros(()))

    def update_with_gradient(self, loss_info, gradients, optimizer):
        pass


@pytest.mark.parametrize(
    "driver_class, exp_replayer", [(SyncOffPolicyDriver, "uniform"), (AsyncOffPolicyDriver, "one_time")]
)
def test_actor_and_learner_in_a_run(driver_class, exp_replayer):
    with own_config():
        parse_config([], ["ReplayLearner.mini_batch_size = 20", "ReplayLearner.mini_batch_length = 3"])
        driver = driver_of(make_experiment(driver_class, exp_replayer))
    driver.start()
    try:
        for _ in range(12):
            collect_and_observe(driver)
            driver.learner.train()
    finally:
        driver.stop()
    assert int(driver.learner.algorithm.rows) > 150


def make_experiment(driver_class, exp_replayer):
    return Experiment(
        env=lambda seed: CountingEnvironment(3, episode_length=9),
        data_transformers=ALL,
        policy=Showing,
        algorithm=Checking,
        exp_replayer=exp_replayer,
        driver=driver_class,
        unroll_length=4,
    )


def test_gin_reaches_all_of_them():
    bindings = [
        "Experiment.data_transformers = (@PreviousAction, @PreviousReward, @EpisodeStep)",
        "EpisodeStep.limit = 7",
    ]
    with own_config():
        parse_config([], bindings)
        policy = Experiment().make_policy(VECTOR, ACTIONS["choice"], REWARD)
    assert set(policy.observation_spec) == {"observation", "prev_action", "prev_reward", "episode_step"}
    assert policy.data_transformer.context == 7


class Echo(Policy):
    """Its action is what it was shown, and the choice after the previous one."""

    def __init__(self):
        action_spec = {"choice": BoundedTensorSpec((), tf.int64, 0, 9), "shown": REWARD, "step": REWARD}
        pipeline = Pipeline(VECTOR, REWARD, ALL, action_spec)
        super().__init__(pipeline.observation_spec, action_spec, data_transformer=pipeline)

    def rollout_step(self, time_step, state):
        shown = time_step.observation
        previous = shown["prev_action"]["choice"]
        choice = tf.argmax(previous, axis=-1) + tf.cast(tf.reduce_sum(previous, axis=-1), tf.int64)
        action = {"choice": choice, "shown": shown["prev_reward"], "step": shown["episode_step"]}
        return PolicyStep(action, state)


def test_an_agent_carries_the_previous_action_and_the_step():
    agent, state = Agent(Echo()), None
    choices, steps = [], []
    for starts in (None, False, False, True, False):
        action, state = agent.predict([1.0, 2.0], state, episode_start=starts)
        choices.append(int(action["choice"]))
        steps.append(float(action["step"]))
        assert action["shown"] == 0  # `predict` is not told the reward
    assert choices == [0, 1, 2, 0, 1]
    np.testing.assert_allclose(steps, np.array([0, 1, 2, 0, 1]) / LIMIT, rtol=1e-6)
    ones = np.ones([1], np.float32)
    action, _ = agent.act(np.ones([1], np.int32), 5 * ones, ones, np.ones([1, 2], np.float32), state)
    assert action["shown"] == 5
