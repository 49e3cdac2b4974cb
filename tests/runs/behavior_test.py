# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Experiment.behavior: a script or another run's agent collects, and the policy learns from that."""

import functools

import gin
import numpy as np
import pytest
import tensorflow as tf

import alf
from alf.algorithms import DqnAlgorithm, ImpalaAlgorithm
from alf.config.parsing import parse_config
from alf.config.registry import own_config
from alf.data_structures import FIRST
from alf.drivers import AsyncOffPolicyDriver, EnvSpecs, SyncOffPolicyDriver
from alf.environments import BehaviorEnvironment
from alf.errors import ConfigError, EnvError
from alf.evaluation.episodes import evaluate
from alf.learner import optimizers
from alf.policies import ActorCriticPolicy, Agent, EpsilonGreedyPolicy
from alf.runs.saved_run import make_env
from alf.testing.toy_environments import CountingEnvironment, MatchObservationEnvironment
from alf.training import Experiment, load_behavior
from alf.training.collection import check_parts
from tests.builders import build_learner, build_trainer, collect_and_observe, driver_of
from tests.training.counting_parts import WeightDecay

BOTH = pytest.mark.parametrize("driver_class", [SyncOffPolicyDriver, AsyncOffPolicyDriver])


class Script:
    """Takes action 1 in every third step of an episode."""

    def __call__(self, time_step, state):
        return (time_step.observation[:, 2] % 3 == 0).astype(np.int64), state


class CheckingDqn(WeightDecay, DqnAlgorithm):
    """Fails in the graph unless all actions in the experience are those of `Script`."""

    def __init__(self, policy):
        super().__init__(policy)
        self.rows = tf.Variable(0, trainable=False)

    def preprocess(self, experience):
        is_scripted = tf.equal(experience.observation[..., 2] % 3, 0)
        weight = experience.weight[:-1]
        leads_on = tf.not_equal(experience.step_type[1:], FIRST)
        taken = tf.boolean_mask(experience.action[:-1], leads_on)
        scripted = tf.boolean_mask(tf.cast(is_scripted, tf.int64)[:-1], leads_on)
        tf.debugging.assert_equal(taken, scripted)
        self.rows.assign_add(tf.size(weight))
        return super().preprocess(experience)


def make_experiment(make_env, algorithm=DqnAlgorithm, **kwargs):
    optimizer = optimizers.Adam(0.01)
    settings = dict(
        env=make_env,
        policy=EpsilonGreedyPolicy,
        algorithm=algorithm,
        exp_replayer="uniform",
        learner=functools.partial(build_learner, optimizer=optimizer),
        unroll_length=5,
        seed=0,
    )
    return Experiment(**{**settings, **kwargs})


def run(driver, num_iterations):
    driver.start()
    try:
        for _ in range(num_iterations):
            collect_and_observe(driver)
            driver.learner.train()
    finally:
        driver.stop()


@BOTH
def test_the_experience_holds_the_actions_of_a_script(driver_class):
    make_env = lambda seed: CountingEnvironment(2, episode_length=4)  # noqa: E731
    experiment = make_experiment(make_env, CheckingDqn, behavior=Script, driver=driver_class)
    driver = driver_of(experiment)
    run(driver, 5)
    assert int(driver.learner.algorithm.rows) > 500


class Random:
    """Acts at random, whatever it sees."""

    def __init__(self):
        self._rng = np.random.default_rng(8)

    def __call__(self, time_step, state):
        return self._rng.integers(3, size=len(time_step.step_type)), state


def test_dqn_learns_from_a_script():
    """Its own policy, greedy from the first step on, would see the same actions again and again."""

    def make_env(seed):
        return MatchObservationEnvironment(8, episode_length=10, seed=seed)

    dqn = functools.partial(DqnAlgorithm, discount=0.0, target_update_period=10)
    policy = functools.partial(EpsilonGreedyPolicy, epsilon=0.0)
    experiment = make_experiment(make_env, dqn, policy=policy, behavior=Random, driver=SyncOffPolicyDriver)
    driver = driver_of(experiment)
    run(driver, 40)
    collected = {metric.name: metric.result() for metric in driver.get_metrics()}["AverageReturn"]
    assert collected < 5, "a third of the random actions are right"
    env = make_env(seed=5)
    assert evaluate(Agent(driver.learner.policy), env, num_episodes=8).returns.mean() > 9


EXPERT = """
Experiment.seed = 1
Experiment.num_groups = 1
alf.environments.load.name = "CartPole-v1"
Experiment.num_envs = 2
ActorCriticNetwork.fc_layer_params = (8,)
ActorCriticNetwork.rnn = @GRU
GRU.units = 4
UnrollLearner.optimizer = @SGD()
"""


@pytest.fixture(scope="module")
def expert(tmp_path_factory):
    """The directory of a run, with a checkpoint 0 of weights by which actions depend on the steps before."""
    root_dir = tmp_path_factory.mktemp("expert")
    with own_config():
        parse_config([], [EXPERT])
        trainer = build_trainer(str(root_dir), driver_of(Experiment()))
        rng = np.random.default_rng(8)
        for variable in trainer.learner.policy.trainable_variables:
            variable.assign(3 * rng.normal(size=variable.shape).astype(np.float32))
        trainer.interrupt("it is saved, and not trained")
        trainer.train()
    return str(root_dir)


def test_another_runs_agent_acts_and_carries_its_state(expert):
    with own_config():
        parse_config([], [EXPERT])
        parse_config(
            [],
            [
                "Experiment.policy = @alf.EpsilonGreedyPolicy",
                "Experiment.algorithm = @DqnAlgorithm",
                "Experiment.exp_replayer = 'uniform'",
                "ReplayLearner.optimizer = @SGD()",
                "Experiment.behavior = @load_behavior",
                f"load_behavior.root_dir = {expert!r}",
                "Experiment.driver = @SyncOffPolicyDriver",
                "Experiment.unroll_length = 40",
                "alf.environments.load.max_episode_steps = 15",
            ],
        )
        driver = driver_of(Experiment())
        assert "load_behavior.root_dir" in gin.operative_config_str()
        evaluated = make_env(seed=0)
        assert not isinstance(evaluated, BehaviorEnvironment)
        evaluated.close()
    driver.start()
    try:
        unroll = driver.get_training_exps()
    finally:
        driver.stop()
    rows = tf.nest.map_structure(lambda x: x[0].numpy(), unroll._replace(info=(), state=()))
    agent, state, alone = alf.load_agent(expert), None, []
    assert np.any(rows.step_type[1:] == FIRST), "the state begins anew with an episode"
    for t in range(40):
        action, state = agent.predict(rows.observation[t], state, episode_start=rows.step_type[t] == FIRST)
        leads_on = rows.step_type[t + 1] != FIRST
        np.testing.assert_array_equal(rows.action[t][leads_on], action[leads_on])
        alone.append(agent.predict(rows.observation[t], None)[0])
    assert np.sum(rows.action[:40] != alone) > 10, "actions depend on the state"


def fail(time_step, state):
    return np.zeros(7, np.int64), state


WRONG_BEHAVIORS = {
    "an agent of other observations": (
        lambda expert: functools.partial(load_behavior, expert),
        ConfigError,
        r"load_behavior.root_dir is .* other observations: .*\(2, 3\)",
    ),
    "another action": (
        lambda expert: lambda: fail,
        EnvError,
        "the behavior's action does not fit the environment's action_spec",
    ),
    "no run": (
        lambda expert: lambda: load_behavior(f"{expert}/none"),
        ConfigError,
        "holds no run",
    ),
    "a wrong argument": (
        lambda expert: lambda: load_behavior(expert, deterministic=1),
        ConfigError,
        "load_behavior.deterministic is 1",
    ),
}


@pytest.mark.parametrize("make, error, message", WRONG_BEHAVIORS.values(), ids=WRONG_BEHAVIORS)
def test_a_behavior_that_cannot_act(expert, make, error, message):
    make_env = lambda seed: CountingEnvironment(2)  # noqa: E731
    with pytest.raises(error, match=message):
        run(driver_of(make_experiment(make_env, behavior=make(expert))), 2)


def test_an_algorithm_that_needs_the_actions_of_its_own_policy():
    experiment = make_experiment(
        lambda seed: CountingEnvironment(2),
        ImpalaAlgorithm,
        policy=ActorCriticPolicy,
        exp_replayer="one_time",
        behavior=Script,
    )
    with pytest.raises(ConfigError, match="learns only from the actions of its own policy"):
        driver = driver_of(experiment)
        check_parts(driver, driver.learner, 1)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"behavior": "script"}, "Experiment.behavior is 'script': it must be a class or"),
        ({"behavior": Script, "num_envs": 0, "offline_buffer": "x"}, "Experiment.num_envs is 0: .* act"),
    ],
)
def test_bad_settings(kwargs, message):
    with pytest.raises(ConfigError, match=message):
        Experiment(**kwargs)


def test_the_checkpoint_can_be_named(expert):
    assert callable(load_behavior(expert, checkpoint=0))
    with pytest.raises(ConfigError, match="there is no checkpoint 1; "):
        load_behavior(expert, checkpoint=1)


def test_it_acts_in_the_environments_of_collectors():
    make_env = lambda seed: CountingEnvironment(2, episode_length=4)  # noqa: E731
    experiment = make_experiment(make_env, behavior=Script)
    collector = experiment.make_collector(0, 0, num_groups=1, unroll_length=9)
    try:
        leaves = collector.collect()
    finally:
        collector.close()
    specs = EnvSpecs([make_env(0)])
    policy = experiment.make_policy(specs.observation, specs.action, specs.reward)
    experience = tf.nest.pack_sequence_as(specs.unroll_spec(policy, 9), leaves)
    leads_on = experience.step_type[:, 1:] != FIRST
    scripted = experience.observation[:, :-1, :, 2] % 3 == 0
    np.testing.assert_array_equal(experience.action[:, :-1][leads_on], scripted[leads_on])
    assert scripted[leads_on].any() and not scripted[leads_on].all()
