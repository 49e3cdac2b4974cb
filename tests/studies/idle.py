# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Learners that learn nothing: what most of a short run takes is the tracing of its updates."""

import tensorflow as tf

from alf.data_structures import count_transitions
from alf.learner import ReplayLearner, UnrollLearner

# What a trainer shows of the updates.
SHOWN = ("loss", "policy_lag_min", "policy_lag_mean", "policy_lag_max")


def learn_nothing(monkeypatch, note=lambda learner, experience: None):
    """Lets all learners take experience and count steps and updates as always, but change no weight.

    Args:
        monkeypatch: `pytest.MonkeyPatch` that ends it.
        note: callable (learner, experience) for each `Experience` that is handed out for training in unrolls.
    """

    def make_due_updates(learner):
        batches = [learner.replayer.replay_all()]
        while learner.replayer.has_more:
            batches.append(learner.replayer.replay_all())
        for experience, num_fresh in batches:
            note(learner, experience)
            learner.progress.updates.assign_add(1)
            learner._update.count_env_steps(count_transitions(experience.step_type[:num_fresh]))
        return dict.fromkeys(SHOWN, tf.zeros(())), batches[0][0]

    def train_on_part(learner, replayer, num_updates):
        learner.progress.updates.assign_add(num_updates)
        return dict.fromkeys(SHOWN, tf.zeros(())) if num_updates else {}

    monkeypatch.setattr(UnrollLearner, "_make_due_updates", make_due_updates)
    monkeypatch.setattr(ReplayLearner, "_train_on_part", train_on_part)
