# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Fragments and whole episodes of a policy, without a learner."""

import functools
import itertools
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

import alf
from alf.data_structures import FIRST, LAST
from alf.drivers import AsyncOffPolicyDriver, DriverSettings
from alf.environments import PythonEnvironment
from alf.errors import ConfigError
from alf.policies import ActorCriticPolicy, Agent
from alf.testing.fakes import FakeEnvironment, FrozenPolicy, make_counting_envs
from tests.workers.envs import INFO_KEYS, CountEnv, InfoEnv, act_once, kill_process

ENV_ID, NUMBER, STEP = range(3)  # of the observation of `CountingEnvironment`
B, T = 2, 5


def make_envs(num_groups=2):
    return make_counting_envs(num_groups, B, cls=FakeEnvironment)


ASYNC = functools.partial(AsyncOffPolicyDriver)
WAYS = {
    "one after another": {},
    "lockstep": {"driver": ASYNC, "settings": DriverSettings(mode="lockstep")},
    "async": {"driver": ASYNC, "settings": DriverSettings(learn_queue_cap=2)},
}


@pytest.mark.parametrize("way", WAYS)
def test_fragments_follow_one_another(way):
    envs = make_envs()
    policy = FrozenPolicy(envs[0], counts_steps=True)
    seen = {env_id: [] for env_id in range(2 * B)}
    for fragment in itertools.islice(alf.rollout(envs, policy, T, **WAYS[way]), 6):
        assert isinstance(fragment, alf.Experience)
        assert fragment.observation.shape == (T + 1, 2 * B, 3) and fragment.action.shape == (T + 1, 2 * B)
        assert [x.shape for x in tf.nest.flatten(fragment.state)] == [(2 * B,)]
        np.testing.assert_array_equal(fragment.observation[..., ENV_ID], fragment.env_id)
        np.testing.assert_array_equal(fragment.info["state"][:-1], fragment.observation[:-1, :, STEP])
        for column, env_id in enumerate(fragment.env_id[0].numpy()):
            seen[env_id].append(fragment.observation[:, column, NUMBER].numpy())
    for unrolls in seen.values():
        for i, numbers in enumerate(unrolls):
            np.testing.assert_array_equal(numbers, np.arange(T * i, T * (i + 1) + 1))
    assert [env.num_closes for env in envs] == [1, 1], "the loop has ended"


def test_an_environment_alone_an_agent_and_new_weights_for_the_next_fragment():
    (env,) = make_envs(1)
    specs = alf.EnvSpecs([env])
    policy = ActorCriticPolicy(specs.observation, specs.action)
    versions = []
    for fragment in itertools.islice(alf.rollout(env, Agent(policy), T), 3):
        assert fragment.reward.shape == (T + 1, B)
        versions.append(set(fragment.policy_version[:-1].numpy().ravel().tolist()))
        policy.progress.updates.assign_add(1)
    assert versions == [{0}, {1}, {2}]


class TwoWays(FrozenPolicy):
    """Explores with action 0, acts as well as it can with action 1."""

    def __init__(self, env):
        super().__init__(env, counts_steps=True, change=lambda step: step._replace(action=step.action * 0))

    def predict_step(self, time_step, state):
        step = self.rollout_step(time_step, state)
        # Only if the state is the one of its own step.
        is_right = state.train == tf.cast(time_step.observation[:, STEP], tf.int64)
        return step._replace(action=tf.cast(is_right, step.action.dtype))


@pytest.mark.parametrize("way", WAYS)
def test_deterministic_acts_as_well_as_the_policy_can(way):
    envs = make_envs()
    policy = TwoWays(envs[0])
    for deterministic in (False, True):
        common = dict(**WAYS[way], close_envs=False, deterministic=deterministic)
        for fragment in itertools.islice(alf.rollout(envs, policy, T, **common), 3):
            assert set(fragment.action.numpy().ravel().tolist()) == {int(deterministic)}
            assert (fragment.info == ()) == deterministic


def test_evaluate_keeps_the_same_records():
    env = FakeEnvironment(B)
    specs = alf.EnvSpecs([env])
    policy = ActorCriticPolicy(specs.observation, specs.action)
    (rolled,) = itertools.islice(alf.rollout_episodes(env, policy, 6, n_steps=4, deterministic=True), 1)
    env = FakeEnvironment(B)
    kept = alf.evaluate(Agent(policy), env, 6, keep_steps=True).steps
    for steps in kept:
        same = [x for x in rolled if (x.observation[0] == steps.observation[0]).all()]
        if not same:  # `rollout_episodes` yields what ends first
            continue
        for name in ("step_type", "reward", "discount", "observation", "prev_action", "env_id"):
            np.testing.assert_array_equal(getattr(steps, name), getattr(same[0], name), err_msg=name)
        np.testing.assert_array_equal(steps.action[:-1], same[0].action[:-1])
    assert sum(any((x.observation[0] == y.observation[0]).all() for y in kept) for x in rolled) >= 4


def test_environments_stay_open_for_the_caller():
    envs = make_envs()
    policy = FrozenPolicy(envs[0])
    for _ in range(2):
        fragment, _ = itertools.islice(alf.rollout(envs, policy, T, close_envs=False), 2)
        assert (fragment.env_id[0] == tf.range(2 * B)).numpy().all()
    assert [env.num_closes for env in envs] == [0, 0]
    assert [env.num_resets for env in envs] == [2, 2]
    envs[0].step(np.zeros(B, np.int64))


@pytest.mark.parametrize("n_steps", [1, 3, 32])
def test_episodes_are_whole(n_steps):
    envs = make_envs()
    policy = FrozenPolicy(envs[0], counts_steps=True)
    episodes = []
    for some in itertools.islice(alf.rollout_episodes(envs, policy, 3, n_steps), 8):
        assert len(some) == 3
        episodes += some
    ends = dict.fromkeys(range(2 * B), 0)
    for episode in episodes:
        env_id = int(episode.env_id[0, 0])
        length = 4 + env_id % B  # of `CountingEnvironment`
        assert episode.step_type[:, 0].tolist() == [FIRST, *[1] * (length - 1), LAST]
        np.testing.assert_array_equal(episode.observation[:, 0, STEP], np.arange(length + 1))
        np.testing.assert_array_equal(episode.observation[:, 0, NUMBER], ends[env_id] + np.arange(length + 1))
        # Each row has the answer to itself.
        np.testing.assert_array_equal(episode.info["seen"].observation, episode.observation)
        ends[env_id] += length + 1


def test_an_interrupted_episode_is_left_out(tmp_path):
    kill = functools.partial(act_once, str(tmp_path / "once"), kill_process)
    env = PythonEnvironment([functools.partial(CountEnv, 5, at=8, act=kill)], 0, num_workers=1)
    episodes = alf.rollout_episodes(env, FrozenPolicy(env), n_steps=4)
    shown = [episode.observation[:, 0] for (episode,) in itertools.islice(episodes, 3)]
    episodes.close()
    assert [x[:, 3].tolist() for x in shown] == [list(range(6))] * 3
    assert shown[0][0, 0] != shown[1][0, 0] == shown[2][0, 0], "another process"


def test_info_is_in_the_fragments():
    env = PythonEnvironment([functools.partial(InfoEnv, i) for i in range(2)], 0, 0, info_keys=INFO_KEYS)
    fragment = next(alf.rollout(env, FrozenPolicy(env), T))
    np.testing.assert_array_equal(fragment.env_info["step"][1:5], np.tile(np.arange(1, 5)[:, np.newaxis], 2))


def test_errors_reach_the_loop():
    class Failing(FakeEnvironment):
        def answer(self, number, time_step):
            if number == 7:
                raise KeyError("my own bug")
            return time_step

    env = Failing(B)
    fragments = alf.rollout(env, FrozenPolicy(env), T)
    next(fragments)
    with pytest.raises(KeyError, match="my own bug"):
        next(fragments)
    assert env.num_closes == 1
    with pytest.raises(ConfigError, match=r"n_steps is 0"):
        alf.rollout(env, FrozenPolicy(env), 0)
    with pytest.raises(ConfigError, match=r"n_episodes is 0"):
        alf.rollout_episodes(env, FrozenPolicy(env), 0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("close_envs", [True, False])
def test_threads_end_with_the_loop(way, close_envs):
    before = set(threading.enumerate())
    envs = make_envs()
    for _ in alf.rollout(envs, FrozenPolicy(envs[0]), T, **WAYS[way], close_envs=close_envs):
        break
    deadline = time.monotonic() + 20
    while set(threading.enumerate()) - before:  # the loop's end frees the generator, which stops the driver
        assert time.monotonic() < deadline, set(threading.enumerate()) - before
        time.sleep(0.01)
    assert [env.num_closes for env in envs] == [int(close_envs)] * 2


def test_with_sticky_an_episode_begins_with_a_fragment():
    env = PythonEnvironment([functools.partial(CountEnv, 3)], 0, 0)
    fragments = alf.rollout(env, FrozenPolicy(env), T, DriverSettings(sticky=True))
    for fragment in itertools.islice(fragments, 3):
        # Row 0 is the last of the fragment before.
        types = fragment.step_type[:, 0].numpy()
        assert types[1:].tolist() in ([1, 1, LAST, FIRST, FIRST], [FIRST, 1, 1, LAST, FIRST])
