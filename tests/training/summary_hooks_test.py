# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Scalars of an algorithm's own, of rollouts and updates, in TensorBoard and in callbacks."""

import functools

import pytest
import tensorflow as tf

from alf.algorithms import DqnAlgorithm
from alf.callback import Callback
from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.learner import optimizers
from alf.policies import EpsilonGreedyPolicy
from alf.testing.toy_environments import CountingEnvironment
from alf.training import Experiment
from alf.training.stop_criteria import StopCriteria
from tests.builders import build_learner, build_trainer, driver_of
from tests.training.counting_parts import WeightDecay
from tests.training.event_files import read_events


class Summarizing(WeightDecay, DqnAlgorithm):
    def train_step(self, experience, prepared):
        return experience.weight

    def summarize_rollout(self, experience):
        return {"oldest_step": tf.reduce_max(experience.observation[..., 1])}

    def summarize_train(self, experience, train_info, loss_info):
        return {"transition_weight": tf.reduce_mean(train_info)}


class Keep(Callback):
    def __init__(self):
        self.summaries = []

    def on_train_iter(self, trainer, summary):
        self.summaries.append({name: float(value) for name, value in summary.items()})


@pytest.mark.parametrize("driver_class", [SyncOffPolicyDriver, AsyncOffPolicyDriver])
def test_scalars_of_hooks_reach_tensorboard_and_callbacks(tmp_path, driver_class):
    experiment = Experiment(
        env=lambda seed: CountingEnvironment(2),
        num_groups=1,
        policy=EpsilonGreedyPolicy,
        algorithm=Summarizing,
        exp_replayer="uniform",
        learner=functools.partial(build_learner, optimizer=optimizers.Adam(1e-6)),
        driver=driver_class,
        unroll_length=5,
    )
    callback, stop_criteria = Keep(), lambda: StopCriteria(num_iterations=4)
    driver = driver_of(experiment)
    build_trainer(str(tmp_path), driver, stop_criteria, callbacks=[callback], summary_interval=0.0).train()
    # An unroll adds 5 steps to each environment. One that waits in the queue is not observed yet.
    assert [summary["oldest_step"] for summary in callback.summaries] == [5, 10, 15, 20]
    assert all(0 < summary["transition_weight"] <= 1 for summary in callback.summaries)
    events = read_events(tmp_path / "train")
    assert [value for _, value in events["train/oldest_step"]][-1] == 20
    assert "train/transition_weight" in events
