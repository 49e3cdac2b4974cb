# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""An experiment that cannot be built: one line names the setting, and what is wrong with it or missing."""

import pytest

import alf
from alf.config import registry
from alf.config.parsing import parse_config, wrong_calls_are_config_errors
from alf.config.registry import own_config
from alf.config.settings import configurable
from alf.errors import ConfigError
from alf.training import Experiment
from alf.training.collection import check_parts
from tests.builders import driver_of

registry.import_settings()

SMALL = (
    "Experiment.num_groups = 1",
    "Experiment.num_envs = 4",
    "alf.environments.load.num_workers = 0",
)
OTHER_PARTS = {
    # Of an algorithm and its policy.
    ("impala_cartpole", "Experiment.algorithm = @SacAlgorithm"): (
        "SacAlgorithm needs the policy SacPolicy, not ActorCriticPolicy: write @SacPolicy in "
        "Experiment.policy"
    ),
    ("impala_cartpole", "Experiment.algorithm = @DqnAlgorithm"): (
        "DqnAlgorithm needs the policy EpsilonGreedyPolicy, not ActorCriticPolicy: write "
        "@alf.EpsilonGreedyPolicy in Experiment.policy"
    ),
    ("impala_cartpole", "Experiment.policy = @SacPolicy"): (
        "ImpalaAlgorithm needs the policy ActorCriticPolicy, not SacPolicy: write @ActorCriticPolicy in"
    ),
    ("appo_cartpole", "Experiment.policy = @alf.EpsilonGreedyPolicy"): (
        "PPOAlgorithm needs the policy ActorCriticPolicy, not EpsilonGreedyPolicy"
    ),
    (
        "sac_pendulum",
        "Experiment.policy = @ActorCriticPolicy",
    ): "SacAlgorithm needs the policy SacPolicy",
    ("mixed_pendulum", 'Experiment.policy = {"ppo": @ActorCriticPolicy, "sac": @ActorCriticPolicy}'): (
        "SacAlgorithm needs the policy SacPolicy, not ActorCriticPolicy"
    ),
    # Of a policy and its network.
    ("impala_cartpole", "ActorCriticPolicy.network = @PolicyNetwork"): (
        "ActorCriticPolicy.network makes an object of PolicyNetwork: it must make one like ActorCriticNetwork"
    ),
    ("dqn_cartpole", "alf.EpsilonGreedyPolicy.network = @alf.networks.ActorCriticNetwork"): (
        "EpsilonGreedyPolicy.network makes an object of ActorCriticNetwork: it must make one like "
        "QValueNetwork"
    ),
    ("sac_pendulum", "SacPolicy.network = @alf.networks.ActorCriticNetwork"): (
        "SacPolicy.network makes an object of ActorCriticNetwork"
    ),
    ("sac_pendulum", "SacAlgorithm.critic = @parts_test.make_nothing"): (
        "SacAlgorithm.critic makes an object of NoneType: it must make one like CriticsNetwork"
    ),
    ("sac_pendulum", "SacPolicy.recurrent_critic = @parts_test.make_nothing"): (
        "SacPolicy.recurrent_critic makes an object of NoneType"
    ),
    (
        "impala_cartpole",
        "ActorCriticNetwork.encoder = @parts_test.make_nothing",
    ): "ActorCriticNetwork.encoder makes None: it must make a layer or model of Keras",
    (
        "impala_cartpole",
        "ActorCriticNetwork.rnn = @parts_test.make_nothing",
    ): "the result of ActorCriticNetwork.rnn",
    # Of an experiment and its parts.
    ("impala_cartpole", "Experiment.data_transformers = (@Adam,)"): (
        "data_transformers holds Adam: it must be a DataTransformer"
    ),
    ("impala_cartpole", "Experiment.data_transformers = (@parts_test.make_transformer,)"): (
        "in data_transformers is an object of NoneType: it must be one of DataTransformer"
    ),
    ("impala_cartpole", "Experiment.policy = @parts_test.make_nothing"): (
        "what Experiment.policy makes is an object of NoneType: it must be one of Policy"
    ),
    ("impala_cartpole", "Experiment.algorithm = @parts_test.make_nothing"): (
        "what Experiment.algorithm makes is an object of NoneType: it must be one of Algorithm"
    ),
    ("impala_cartpole", "Experiment.learner = @parts_test.make_nothing"): (
        "what Experiment.learner makes is an object of NoneType: it must be one of Learner"
    ),
    ("impala_cartpole", "Experiment.driver = @parts_test.make_nothing"): (
        "what Experiment.driver makes is an object of NoneType: it must be one of Driver"
    ),
    ("impala_cartpole", "Experiment.env = @parts_test.make_nothing"): (
        "envs[0] (NoneType) is not a batched environment"
    ),
    ("dqn_cartpole", "Experiment.behavior = @parts_test.make_nothing"): "the behavior is None",
    ("dqn_cartpole", "DriverSettings.prefetch = True"): (
        "DriverSettings.prefetch is True: exp_replayer must be 'one_time', 'mix_in' or 'multi_pass'"
    ),
    ("mixed_pendulum", "DriverSettings.prefetch = True"): "then, and Experiment.policies None",
    ("impala_cartpole", "AsyncOffPolicyDriver.collectors = 3"): (
        "AsyncOffPolicyDriver.collectors is 3: it must be a Collectors"
    ),
}


@configurable(module="parts_test")
def make_nothing(*args, **kwargs):
    return None


@configurable(module="parts_test")
def make_transformer(observation_spec, reward_spec):
    return None


def build_error(example, *bindings):
    """The line of the error of an example with some bindings, at the latest once its trainer is made."""
    with own_config(), pytest.raises(ConfigError) as caught, wrong_calls_are_config_errors():
        parse_config([f"alf:{example}.gin"], [*SMALL, *bindings])
        driver = driver_of(Experiment())
        driver.stop()
        check_parts(driver, driver.learner, 1)
    return str(caught.value)


def test_a_part_that_does_not_fit(subtests):
    for (example, binding), message in OTHER_PARTS.items():
        with subtests.test(binding, example=example):
            assert message in build_error(example, binding)


LOAD = "alf.environments.load"
SGD = ("UnrollLearner.optimizer = @SGD()", "SGD.learning_rate = 0.1")
WRONG_VALUES = {
    ("Experiment.num_envs = 0",): "Experiment.num_envs is 0",
    ("Experiment.num_groups = '2'",): "Experiment.num_groups is '2'",
    ("Experiment.seed = 1.5",): "Experiment.seed is 1.5",
    ("Experiment.unroll_length = 'x'",): "unroll_length is 'x'",
    ("Experiment.unroll_length = 2.5",): "unroll_length is 2.5, not an integer above 0",
    ("Experiment.exp_replayer = 'x'",): "exp_replayer is 'x'",
    ("DriverSettings.prefetch = True", "Experiment.exp_replayer = 'cyclic_one_time'"): "exp_replayer must be",
    ("DriverSettings.learn_queue_cap = 3",): "learn_queue_cap is 3, more than",
    (f"{LOAD}.siz = 1",): "load: the constructor of 'CartPole-v1' got an unexpected keyword argument 'siz'",
    (f"{LOAD}.name = 'Nope-v0'",): "load.name: no Gymnasium environment 'Nope-v0'",
    (f"{LOAD}.name = 'nope:Nope-v0'",): "load.name is 'nope:Nope-v0': there is no module 'nope'",
    (f"{LOAD}.batch_size = 8",): "load.batch_size is 8: set Experiment.num_envs = 8 in its place",
    ("ImpalaAlgorithm.discount = 2.0",): "ImpalaAlgorithm.discount is 2.0",
    ("ImpalaAlgorithm.discount = '1'",): "ImpalaAlgorithm.discount is '1'",
    ("LearnerSettings.max_grad_norm = 0",): "max_grad_norm is 0",
    (
        "UnrollLearner.optimizer = None",
    ): "UnrollLearner.optimizer is None: ImpalaAlgorithm needs an optimizer",
    ("UnrollLearner.optimizer = {'a': @Adam()}",): "UnrollLearner.optimizer has the keys ['a']",
    (*SGD, "SGD.momentum = -5.0"): "SGD.momentum is -5.0: it must be a number at least 0",
    (*SGD, "SGD.momentum = 'bad'"): "SGD.momentum is 'bad': it must be a number",
    (*SGD, "SGD.nesterov = 'no'"): "SGD.nesterov is 'no': it must be True or",
    ("ActorCriticNetwork.activation = 'nope'",): "activation is 'nope'",
    ("ActorCriticNetwork.fc_layer_params = 64",): "fc_layer_params is 64",
    (
        "ActorCriticNetwork.fc_layer_params = (64, 0)",
    ): "fc_layer_params[1] is 0: it must be an integer, at least 1",
}


def test_a_value_that_is_wrong(subtests):
    for bindings, message in WRONG_VALUES.items():
        with subtests.test(bindings[-1]):
            assert message in build_error("impala_cartpole", *bindings)


def test_parts_of_a_program_that_do_not_fit():
    with pytest.raises(ConfigError, match="ImpalaAlgorithm needs the policy ActorCriticPolicy, not int"):
        alf.ImpalaAlgorithm(3)
    with pytest.raises(
        ConfigError, match="UnrollLearner.algorithm is an object of int: it must be one of Algorithm"
    ):
        alf.UnrollLearner(3)
