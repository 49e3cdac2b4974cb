# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Parts of an experiment that do not fit each other: one line names the setting and what it needs."""

import pytest

import alf
import alf.bin.train  # noqa: F401  (it imports all that gin files may name)
from alf.configurable import configurable
from alf.drivers import AsyncOffPolicyDriver
from alf.errors import ConfigError
from alf.training import Experiment
from alf.training.config import first_line, own_config, parse_config, wrong_calls_are_config_errors

SMALL = (
    "Experiment.num_envs = 1",
    "alf.environments.load.batch_size = 4",
    "alf.environments.load.num_workers = 0",
)
OTHER_PARTS = {
    # Of an algorithm and its policy.
    ("impala_cartpole", "Experiment.algorithm_ctor = @SacAlgorithm"): (
        "SacAlgorithm needs the policy SacPolicy, not ActorCriticPolicy: write @SacPolicy in "
        "Experiment.policy_ctor"
    ),
    ("impala_cartpole", "Experiment.algorithm_ctor = @DqnAlgorithm"): (
        "DqnAlgorithm needs the policy EpsilonGreedyPolicy, not ActorCriticPolicy: write "
        "@alf.EpsilonGreedyPolicy in Experiment.policy_ctor"
    ),
    ("impala_cartpole", "Experiment.policy_ctor = @SacPolicy"): (
        "ImpalaAlgorithm needs the policy ActorCriticPolicy, not SacPolicy: write @ActorCriticPolicy in"
    ),
    ("appo_cartpole", "Experiment.policy_ctor = @alf.EpsilonGreedyPolicy"): (
        "PPOAlgorithm needs the policy ActorCriticPolicy, not EpsilonGreedyPolicy"
    ),
    (
        "sac_pendulum",
        "Experiment.policy_ctor = @ActorCriticPolicy",
    ): "SacAlgorithm needs the policy SacPolicy",
    ("mixed_pendulum", 'Experiment.policy_ctor = {"ppo": @ActorCriticPolicy, "sac": @ActorCriticPolicy}'): (
        "SacAlgorithm needs the policy SacPolicy, not ActorCriticPolicy"
    ),
    # Of a policy and its network.
    ("impala_cartpole", "ActorCriticPolicy.network_ctor = @PolicyNetwork"): (
        "ActorCriticPolicy.network_ctor makes an object of PolicyNetwork: it must make one like "
        "ActorCriticNetwork"
    ),
    ("dqn_cartpole", "alf.EpsilonGreedyPolicy.network_ctor = @alf.networks.ActorCriticNetwork"): (
        "EpsilonGreedyPolicy.network_ctor makes an object of ActorCriticNetwork: it must make one like "
        "QValueNetwork"
    ),
    ("sac_pendulum", "SacPolicy.network_ctor = @alf.networks.ActorCriticNetwork"): (
        "SacPolicy.network_ctor makes an object of ActorCriticNetwork"
    ),
    ("sac_pendulum", "SacAlgorithm.critic_ctor = @parts_test.make_nothing"): (
        "SacAlgorithm.critic_ctor makes an object of NoneType: it must make one like CriticsNetwork"
    ),
    ("sac_pendulum", "SacPolicy.recurrent_critic_ctor = @parts_test.make_nothing"): (
        "SacPolicy.recurrent_critic_ctor makes an object of NoneType"
    ),
    (
        "impala_cartpole",
        "ActorCriticNetwork.encoder_ctor = @parts_test.make_nothing",
    ): "ActorCriticNetwork.encoder_ctor makes an",
    (
        "impala_cartpole",
        "ActorCriticNetwork.rnn_ctor = @parts_test.make_nothing",
    ): "ActorCriticNetwork.rnn_ctor makes",
    # Of an experiment and its parts.
    ("impala_cartpole", "Experiment.data_transformers = (@Adam,)"): (
        "data_transformers holds Adam, which is no DataTransformer"
    ),
    ("impala_cartpole", "Experiment.data_transformers = (@parts_test.make_transformer,)"): (
        "of data_transformers makes is an object of NoneType: it must be one of DataTransformer"
    ),
    ("impala_cartpole", "Experiment.policy_ctor = @parts_test.make_nothing"): (
        "what Experiment.policy_ctor makes is an object of NoneType: it must be one of Policy"
    ),
    ("impala_cartpole", "Experiment.algorithm_ctor = @parts_test.make_nothing"): (
        "what Experiment.algorithm_ctor makes is an object of NoneType: it must be one of Algorithm"
    ),
    ("impala_cartpole", "Experiment.learner_ctor = @parts_test.make_nothing"): (
        "what Experiment.learner_ctor makes is an object of NoneType: it must be one of Learner"
    ),
    ("impala_cartpole", "Experiment.driver_ctor = @parts_test.make_nothing"): (
        "what Experiment.driver_ctor makes is an object of NoneType: it must be one of Driver"
    ),
    ("impala_cartpole", "Experiment.env_ctor = @parts_test.make_no_envs"): (
        "Experiment.env_ctor makes an empty list"
    ),
    ("dqn_cartpole", "Experiment.behavior_ctor = @parts_test.make_nothing"): "the behavior is None",
    ("impala_cartpole", "AsyncOffPolicyDriver.collectors = 3"): (
        "collectors is an object of int: it must be one of Collectors"
    ),
}


@configurable(module="parts_test")
def make_nothing(*args, **kwargs):
    return None


@configurable(module="parts_test")
def make_transformer(observation_spec, reward_spec):
    return None


@configurable(module="parts_test")
def make_no_envs(seed):
    return []


@pytest.mark.parametrize(("example", "binding"), OTHER_PARTS)
def test_a_part_that_does_not_fit(example, binding):
    with own_config():
        parse_config([f"alf:{example}.gin"], [*SMALL, binding])
        with pytest.raises(ConfigError) as caught, wrong_calls_are_config_errors():
            Experiment().make_driver()
    assert OTHER_PARTS[example, binding] in first_line(caught.value)


def test_parts_of_a_program_that_do_not_fit():
    with pytest.raises(ConfigError, match="ImpalaAlgorithm needs the policy ActorCriticPolicy, not int"):
        alf.ImpalaAlgorithm(3)
    with pytest.raises(
        ConfigError, match="Learner.algorithm is an object of int: it must be one of Algorithm"
    ):
        alf.Learner(3, optimizer=None)
    with pytest.raises(ConfigError, match="learner is 3: it must be a Learner or a LearnerGroup"):
        AsyncOffPolicyDriver([], 3)
