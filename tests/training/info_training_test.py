# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The environment's info in a whole run: in summaries, and in replay buffers of algorithms that use it."""

import functools

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import DqnAlgorithm
from alf.config.registry import own_config
from alf.data_structures import FIRST
from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.environments import load
from alf.errors import ConfigError
from alf.learner import ReplayLearner, optimizers
from alf.policies import EpsilonGreedyPolicy
from alf.replay import HybridReplayer
from alf.training import Experiment
from alf.training.stop_criteria import StopCriteria
from tests.builders import build_trainer, driver_of
from tests.training.counting_parts import CountingReplayLearner, WeightDecay
from tests.training.event_files import read_events
from tests.workers.envs import INFO_KEYS, InfoEnv

NUMBER, EPISODE = 1, 2  # of the observation


class InfoDqn(WeightDecay, DqnAlgorithm):
    """Fails in the graph unless the info of each row is that of its observation."""

    uses_env_info = True

    def train_step(self, experience, prepared):
        observation = tf.cast(experience.observation, tf.float32)
        code = 1000 * observation[..., NUMBER] + observation[..., EPISODE]
        code = tf.where(tf.equal(experience.step_type, FIRST), -1.0, code)
        tf.debugging.assert_equal(experience.env_info["code"], code)
        assert set(experience.env_info) == set(INFO_KEYS)
        return super().train_step(experience, prepared)


def make_env(seed, **kwargs):
    return load(functools.partial(InfoEnv, 3), 4, seed, num_workers=0, **{"info_keys": INFO_KEYS, **kwargs})


def make_env_by_gin(seed):
    return load(functools.partial(InfoEnv, 3), 4, seed, num_workers=0)


def make_trainer(
    root_dir,
    algorithm=InfoDqn,
    num_iterations=10,
    env=make_env,
    learner=CountingReplayLearner,
    **kwargs,
):
    """A trainer whose updates are counted alone, but for another `learner`."""
    optimizer = optimizers.Adam(1e-6)
    experiment = Experiment(
        **{
            "env": env,
            "policy": EpsilonGreedyPolicy,
            "algorithm": algorithm,
            "exp_replayer": "uniform",
            "learner": functools.partial(learner, optimizer=optimizer),
            "driver": SyncOffPolicyDriver,
            "unroll_length": 5,
            **kwargs,
        }
    )
    stop_criteria = lambda: StopCriteria(num_iterations=num_iterations)  # noqa: E731
    settings = dict(checkpoint_replay_buffer=True, save_git_state=False)
    return build_trainer(str(root_dir), driver_of(experiment), stop_criteria, **settings)


def buffer_file(root_dir):
    return str(root_dir / "checkpoints" / "replay_buffer.npz")


def test_an_algorithm_that_uses_info_gets_it_after_a_restart(tmp_path):
    make_trainer(tmp_path, driver=AsyncOffPolicyDriver).train()
    trainer = make_trainer(tmp_path, num_iterations=15, driver=AsyncOffPolicyDriver, learner=ReplayLearner)
    held = int(trainer.learner.replayer.num_steps())
    trainer.train()
    assert 0 < held < trainer.learner.replayer.num_steps(), "it learned from what was saved, and from more"
    with np.load(buffer_file(tmp_path)) as file:
        assert file["env_info/deep/even"].shape == file["reward"].shape


def test_an_algorithm_that_uses_info_gets_it_in_mixed_batches(tmp_path):
    make_trainer(tmp_path / "first", exp_replayer="prioritized").train()
    kwargs = dict(offline_buffer=buffer_file(tmp_path / "first"), exp_replayer="prioritized")
    trainer = make_trainer(tmp_path / "mixed", learner=ReplayLearner, **kwargs)
    trainer.train()
    assert isinstance(trainer.learner.replayer, HybridReplayer) and trainer.learner.train_step_counter == 10


def test_an_algorithm_that_uses_info_needs_it_in_an_offline_buffer(tmp_path):
    make_trainer(tmp_path, algorithm=DqnAlgorithm).train()
    with np.load(buffer_file(tmp_path)) as file:
        assert not [name for name in file if name.startswith("env_info")]
    with pytest.raises(ConfigError, match=r"RewardShaping uses `Experience.env_info`: the files have none"):
        make_trainer(tmp_path / "other", num_envs=0, offline_buffer=buffer_file(tmp_path))


def test_summaries_show_the_info(tmp_path):
    make_trainer(tmp_path, algorithm=DqnAlgorithm).train()
    events = read_events(tmp_path / "train")
    last = {tag: points[-1][1] for tag, points in events.items()}
    assert last["metrics/info_last/step"] == 5 and last["metrics/info/step"] == 3
    assert last["metrics/info/deep/even"] == 3
    assert 0 < last["metrics/info_last/is_success"] < 1


def test_a_run_continues_with_other_keys_and_another_window(tmp_path):
    def train(num_iterations, info_keys, window):
        with own_config():
            gin.bind_parameter("alf.environments.load.info_keys", info_keys)
            gin.bind_parameter("EpisodeStatistics.window", window)
            trainer = make_trainer(tmp_path, DqnAlgorithm, num_iterations, make_env_by_gin)
            states = {metric.name: metric.get_state() for metric in trainer.driver.get_metrics()}
            trainer.train()
        return states

    assert train(10, ("step",), window=12)["info/step"] == []
    states = train(12, ("step", "other"), window=10)
    assert states["info/step"] == [3.0] * 10 and states["info/other"] == []
