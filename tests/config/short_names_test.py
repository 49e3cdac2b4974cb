# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The setting that a short name means, for each algorithm."""

import contextlib
import re

import gin
import pytest

from alf.config import registry
from alf.config.parsing import bind, parse_config
from alf.config.registry import own_config
from alf.config.short_names import find_full_name, find_full_names
from alf.config.values import FlagValue
from alf.errors import ConfigError, arguments_are_flags
from alf.runs.presets import list_preset

registry.import_settings()

MEANT = {
    ("ppo", "learning_rate"): "Adam.learning_rate",  # SGD and RMSprop have one, too
    ("ppo", "gamma"): "PPOAlgorithm.discount",
    ("sac", "gamma"): "SacAlgorithm.discount",
    ("dqn", "tau"): "DqnAlgorithm.tau",
    ("r2d2", "gamma"): "DqnAlgorithm.discount",
    ("qr_dqn", "gamma"): "QrDqnAlgorithm.discount",
    ("td3", "gamma"): "Td3Algorithm.discount",
    ("td3", "policy_frequency"): "Td3Algorithm.policy_delay",
    ("apex", "epsilon_exponent"): "alf.EpsilonGreedyPolicy.epsilon_exponent",
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
    ("ppo", "network"): "ActorCriticPolicy.network",
    ("ppo", "action_mask_key"): "ActorCriticPolicy.action_mask_key",
    ("impala", "action_mask_key"): "ActorCriticPolicy.action_mask_key",
    ("sac", "action_mask_key"): "SacPolicy.action_mask_key",
    ("dqn", "action_mask_key"): "alf.EpsilonGreedyPolicy.action_mask_key",
    ("sac", "learner"): "Experiment.learner",
    ("ppo", "driver"): "Experiment.driver",
    ("impala", "strategy"): "Experiment.strategy",
    ("ppo", "rnn"): "ActorCriticNetwork.rnn",
    ("dqn", "rnn"): "QValueNetwork.rnn",
    # Arguments that ALF passes to drivers and to `EpisodeStatistics` have these names, too.
    ("ppo", "metrics"): "Monitoring.metrics",
    ("ppo", "observers"): "Monitoring.observers",
    ("ppo", "info_keys"): "alf.environments.load.info_keys",
    ("ppo", "eval/max_episode_steps"): "eval/alf.environments.load.max_episode_steps",
    ("sac", "actor/Adam.learning_rate"): "actor/Adam.learning_rate",
}
REFUSED = {
    ("ppo", "batch_size"): "batch_size is not clear: write num_envs",
    ("ppo", "tau"): "tau is not clear: write DqnAlgorithm.tau or QrDqnAlgorithm.tau or SacAlgorithm.tau",
    ("sac", "fc_layer_params"): "not clear: write CriticsNetwork.fc_layer_params or PolicyNetwork",
    ("sac", "rnn"): "rnn is not clear: write CriticsNetwork.rnn or PolicyNetwork.rnn",
    ("ppo", "vf_coef"): "vf_coef .*is called PPOAlgorithm.value_loss_weight here .Stable-Baselines3: of half",
    ("ppo", "agents"): "agents: there is no such setting",
    ("ppo", "learning_ratee"): "learning_ratee: there is no such setting; did you mean learning_rate",
    ("ppo", "Qqqqq.x"): "^Qqqqq.x: No configurable matching 'Qqqqq'; `alf settings` lists them$",
    ("ppo", "Adan.epsilon"): "; did you mean Adam.epsilon=VALUE or AdamW.epsilon=VALUE [?]$",
    ("ppo", "Adam.epsilo"): "; did you mean Adam.epsilon=VALUE [?]$",
    (
        "ppo",
        "Experiment.discount",
    ): "; did you mean .*DqnAlgorithm.discount=VALUE [?]$",
    # Names that mean something else elsewhere.
    ("ppo", "decay"): "^decay is not clear: write RMSprop.rho .* or a schedule as learning_rate$",
    ("ppo", "entropy"): "^entropy is not clear: write entropy_weight .* or target_entropy",
    ("ppo", "checkpoint"): "^checkpoint is not clear: write initial_checkpoint",
    ("ppo", "experiment"): "write MlflowTracker.experiment; experiment .Sample Factory.: -o DIR",
    ("ppo", "num_policies"): "write PolicyPopulation.num_policies; num_policies .Sample Factory. is called",
    ("ppo", "policy_kwargs"): "ActorCriticNetwork.fc_layer_params for net_arch",
    ("ppo", "env"): "write the environment itself, as in `alf train CartPole-v1`",
    ("ppo", "root_dir"): "write root_dir=DIR",
}


@pytest.mark.parametrize(("algorithm", "name"), MEANT)
def test_a_name_means(algorithm, name):
    assert find_full_name(name, list_preset(algorithm)) == MEANT[algorithm, name]


@pytest.mark.parametrize(("algorithm", "name"), REFUSED)
def test_a_name_is_refused(algorithm, name):
    with pytest.raises(ConfigError, match=REFUSED[algorithm, name]):
        find_full_name(name, list_preset(algorithm))


# Names that are near to no setting, or to a wrong one: what the answer names.
ANSWERS = {
    "eval_freq": "Evaluator.interval_steps",
    "n_eval_episodes": "Evaluator.num_episodes",
    "save_freq": "Checkpoints.interval_steps",
    "log_interval": "Summaries.interval",
    "use_sde": "no counterpart",
    "num_minibatches_to_accumulate": "DriverSettings.max_waiting_batches",
    "min_traj_buffers_per_worker": "nothing to set",
    "actor_worker_gpus": "WorkerSettings.gpus",
    "reset_timeout_seconds": "WorkerSettings.step_timeout",
    "learner_main_loop_num_cores": "Experiment.intra_op_threads",
    "train_in_background_thread": "always",
    "sampler_only": "alf benchmark --sample_only",
    "pbt_optimize_batch_size": "Population.settings",
    "num_aggregation_workers": "RayCollectors.max_joined_answers",
    "placement_strategy": "CollectorSettings.placement",
    "num_cpus_per_worker": "CollectorSettings.num_cpus",
    "num_gpus_per_worker": "CollectorSettings.num_gpus",
    "num_multi_gpu_tower_stacks": "DriverSettings.prefetch",
    "min_time_s_per_reporting": "Summaries.interval",
    "framework": "nothing to set",
    "after_train_step": "after_update",
    "start_method": "nothing to set",
    "verbose": "--verbosity=-1",
    "env_f": "alf.environments.load.name",
    "is_eval": "eval/",
    "unroll_with_grad": "no counterpart",
    "rollout_state_spec": "state_spec of the policy",
    "predict_state_spec": "state_spec of the policy",
    "empty_cache": "nothing to set",
    "update_counter_every_mini_batch": "nothing to set",
    "pinned": "DriverSettings.prefetch",
    "entropy": "entropy_weight",
    "checkpoint": "initial_checkpoint",
    "decay": "RMSprop.rho",
}


@pytest.mark.parametrize("is_of_command", [False, True])
def test_a_name_of_another_library_is_answered_and_not_taken(is_of_command, subtests):
    for name, answer in ANSWERS.items():
        with subtests.test(name), contextlib.ExitStack() as stack:
            caught = stack.enter_context(pytest.raises(ConfigError))
            if is_of_command:
                stack.enter_context(arguments_are_flags("train", ["steps", "output"]))
            find_full_names({name: 1}, list_preset("ppo"))
        text = str(caught.value)
        assert answer in text and "did you mean" not in text
        assert text.startswith(f"{'--' * is_of_command}{name}")


def test_a_macro_of_the_configuration_or_of_the_same_command_line():
    with own_config():
        parse_config([], ["gamma = 0.9", "PPOAlgorithm.discount = %gamma"])
        values = {"gamma": 0.8, "epsilon": 1e-5, "Adam.epsilon": registry.parse_value("%epsilon")}
        assert find_full_names(values, list_preset("ppo")) == values
        bind(values)
        assert gin.query_parameter("PPOAlgorithm.discount") == registry.parse_value("%gamma")
        assert gin.query_parameter("gamma/macro.value") == 0.8
        assert gin.query_parameter("epsilon/macro.value") == 1e-5


def test_all_names_that_are_wrong_are_in_one_message():
    names = {"nothing": 1, "stepz": 2, "gamma": 0.9, "Adan.x": 3, "batch_size": 4}
    with pytest.raises(ConfigError) as caught, arguments_are_flags("train", ["steps", "output"]):
        find_full_names(names, list_preset("ppo"))
    assert re.findall(r"--([\w.]+)(?:: | is not)", str(caught.value)) == [
        "nothing",
        "stepz",
        "Adan.x",
        "batch_size",
    ]
    assert "--stepz: there is no such flag; did you mean --steps ?" in str(caught.value)


def test_the_values_of_a_command_line_are_read():
    names = {"gamma": FlagValue("0.9"), "Adam.epsilon": FlagValue("1e-5"), "policy": FlagValue("mine")}
    assert find_full_names(names, list_preset("ppo")) == {
        "PPOAlgorithm.discount": 0.9,
        "Adam.epsilon": 1e-5,
        "Experiment.policy": "mine",
    }


def test_two_names_of_one_setting_are_refused():
    for names in (
        {"gamma": 0.9, "discount": 0.8},
        {"gamma": 0.9, "alf.algorithms.PPOAlgorithm.discount": 0.8},
    ):
        with pytest.raises(ConfigError, match="gamma and .*discount are the same setting, .*: write one$"):
            find_full_names(names, list_preset("ppo"))
    names = {"gamma": 0.9, "eval/PPOAlgorithm.discount": 0.8}
    assert len(find_full_names(names, list_preset("ppo"))) == 2


WRONG_VALUES = [
    ({"gamma": FlagValue(None)}, "^--gamma has no value: write --gamma=VALUE$"),
    ({"gamma": FlagValue(None), "gamme": FlagValue("1")}, "^gamme: there is no such setting"),
    ({"policy": FlagValue("@Nothingg")}, "^--policy=@Nothingg: No configurable matching"),
]


@pytest.mark.parametrize(("values", "message"), WRONG_VALUES)
def test_a_value_of_a_command_line_is_refused(values, message):
    with pytest.raises(ConfigError, match=message):
        find_full_names(values, list_preset("ppo"))
