# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The setting that a short name means, for each algorithm."""

import pytest

from alf.config import registry
from alf.config.short_names import find_full_name
from alf.errors import ConfigError
from alf.runs.presets import list_preset

registry.import_settings()

MEANT = {
    ("ppo", "learning_rate"): "Adam.learning_rate",  # SGD and RMSprop have one, too
    ("ppo", "gamma"): "PPOAlgorithm.discount",
    ("sac", "gamma"): "SacAlgorithm.discount",
    ("dqn", "tau"): "DqnAlgorithm.tau",
    ("ppo", "n_steps"): "Experiment.unroll_length",
    ("ppo", "num_steps"): "Experiment.unroll_length",
    ("sac", "autotune"): "SacAlgorithm.train_alpha",
    ("ppo", "n_epochs"): "UnrollLearner.num_epochs",
    ("ppo", "target_kl"): "PPOAlgorithm.target_kl",  # not in the preset, but of its class
    ("impala", "seed"): "Experiment.seed",
    ("impala", "max_episode_steps"): "alf.environments.load.max_episode_steps",
    ("sac", "capacity"): "UniformReplayer.capacity",
    ("dqn", "capacity"): "PrioritizedReplayer.capacity",
    # Arguments of algorithms, learners and peers have these names, too.
    ("ppo", "policy"): "Experiment.policy",
    ("sac", "learner"): "Experiment.learner",
    ("ppo", "driver"): "Experiment.driver",
    ("impala", "strategy"): "Experiment.strategy",
    ("ppo", "rnn"): "ActorCriticNetwork.rnn",
    ("dqn", "rnn"): "QValueNetwork.rnn",
    ("ppo", "interval_of_nothing.x"): "interval_of_nothing.x",  # gin itself says what is wrong with it
}
REFUSED = {
    ("ppo", "batch_size"): "--batch_size is not clear: write --num_envs",
    ("ppo", "tau"): "--tau is not clear: write --DqnAlgorithm.tau or --SacAlgorithm.tau",
    ("sac", "fc_layer_params"): "not clear: write --CriticsNetwork.fc_layer_params or --PolicyNetwork",
    ("sac", "rnn"): "--rnn is not clear: write --CriticsNetwork.rnn or --PolicyNetwork.rnn",
    ("ppo", "network"): "--network is not clear: write --ActorCriticPolicy.network or --SacPolicy.network or",
    ("ppo", "vf_coef"): "vf_coef .*is called PPOAlgorithm.value_loss_weight here .Stable-Baselines3: of half",
    ("ppo", "learning_ratee"): "--learning_ratee: there is no such setting; did you mean learning_rate",
}


@pytest.mark.parametrize(("algorithm", "name"), MEANT)
def test_a_name_means(algorithm, name):
    assert find_full_name(name, list_preset(algorithm)) == MEANT[algorithm, name]


@pytest.mark.parametrize(("algorithm", "name"), REFUSED)
def test_a_name_is_refused(algorithm, name):
    with pytest.raises(ConfigError, match=REFUSED[algorithm, name]):
        find_full_name(name, list_preset(algorithm))
