# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Several policies of one run: they train, the frozen ones do not change, and a run continues with all.

That they learn is in policies_learning_test.py.
"""

import functools
import glob

import gin
import numpy as np
import pytest
import tensorflow as tf

from alf.algorithms import Algorithm, DqnAlgorithm, ImpalaAlgorithm, PPOAlgorithm
from alf.callback import Callback
from alf.core.randomness import bootstrap_interval
from alf.data_structures import OBSERVATION, OWNER, PolicyStep
from alf.errors import ConfigError
from alf.evaluation.evaluator import Evaluator
from alf.games import MappedEnvironment
from alf.games.policies import Policies
from alf.learner import optimizers
from alf.networks import GRU, ActorCriticNetwork, QValueNetwork
from alf.ops import draws
from alf.policies import ActorCriticPolicy, EpsilonGreedyPolicy, Policy
from alf.testing.toy_environments import MatchObservationEnvironment, RememberEnvironment
from alf.training import Experiment
from alf.training.stop_criteria import StopCriteria
from tests.builders import build_learner, build_trainer, driver_of
from tests.games.players_test import Chase
from tests.training.event_files import read_events
from tests.training.small_runs import make_idle_learner

FEW_SAMPLES = functools.partial(bootstrap_interval, num_resamples=10)  # of the interval of a mean

BATCH_SIZE, EPISODE_LENGTH = 12, 5
ENV = functools.partial(MatchObservationEnvironment, BATCH_SIZE, episode_length=EPISODE_LENGTH)


class Adam:
    """Makes a learner with an optimizer of its own."""

    def __init__(self, learning_rate=0.01):
        self._learning_rate = learning_rate

    def __call__(self, algorithm, replayer):
        optimizer = optimizers.Adam(self._learning_rate)
        return build_learner(algorithm, optimizer=optimizer, replayer=replayer)


def make_experiment(policies, env=ENV, **kwargs):
    network = functools.partial(ActorCriticNetwork, fc_layer_params=(16,))
    parts = {
        "env": env,
        "policy": functools.partial(ActorCriticPolicy, network=network),
        "learner": Adam(),
        "unroll_length": 5,
        "seed": 0,
        **kwargs,
    }
    return Experiment(policies=policies, **parts)


def train(root_dir, experiment, num_iterations, **kwargs):
    driver = driver_of(experiment)
    stop = functools.partial(StopCriteria, num_iterations=num_iterations)
    trainer = build_trainer(str(root_dir), driver, stop_criteria=stop, **kwargs)
    trainer.train()
    return trainer


def make_idle_learner_with_adam(algorithm, replayer):
    return make_idle_learner(algorithm, replayer, optimizer=optimizers.Adam(0.01))


def values(policy):
    return [v.numpy() for v in policy.variables]


def map_in_turn(episode):
    """Another policy in each episode: sequences hold several."""
    return [("a", "b")[(episode.game + episode.number) % 2] for _ in episode.agents]


def make_chase():
    """Agents with different spaces; the reward of each is its action."""
    spaces = {"hunter": "cat", "prey": "mouse"}
    policies = Policies(("hunter", "prey"), {"cat": "hunter", "mouse": "prey"}, spaces=spaces)
    return make_experiment(policies, env=lambda seed: Chase())


def draw_from(parts):
    """Three numbers of the stream of each learner or driver."""
    found = []
    for part in parts:
        with part.stream.at([(0, 0)]):
            found.append(tuple(draws.normal((3,)).numpy()))
    return found


def test_each_policy_has_weights_and_draws_of_its_own():
    def make(names, frozen=(), seed=0):
        return driver_of(make_experiment(Policies(names, frozen=frozen), seed=seed))

    first, other = make(("a", "b")), make(("a", "b"), seed=1)
    drivers = first, other, make(("a", "b"), seed=None), make(("a", "b"), seed=None)
    drawn = [draw_from([driver, *driver.learner.learners.values()]) for driver in drivers]
    assert len({x for numbers in drawn for x in numbers}) == 12
    # A policy has the same stream whoever else learns.
    again, alone = make(("a", "b")), make(("a", "b"), frozen=("a",))
    assert draw_from([again, *again.learner.learners.values()]) == drawn[0]
    assert draw_from([alone.learner.learners["b"]]) == drawn[0][2:]
    a, b = (values(policy) for policy in first.learner.policy.policies.values())
    assert all((x != y).all() for x, y in zip(a, b, strict=True) if x.ndim == 2)
    for driver in (*drivers, again, alone):
        driver.stop()


def test_each_collector_has_draws_of_its_own():
    def draw(*index_and_restarts):
        collector = make_experiment(None).make_collector(*index_and_restarts, num_groups=1)
        drawn = draw_from([collector._driver])
        collector.close()
        return drawn[0]

    drawn = [draw(*x) for x in ((0, 0), (1, 0), (0, 1), (0, 0))]
    assert drawn[0] == drawn[3] and len({*drawn}) == 3


def test_policies_of_agents_with_different_spaces_train(tmp_path):
    trainer = train(tmp_path, make_chase(), 8)
    assert all(int(learner.progress.updates) > 0 for learner in trainer.learner.learners.values())


def test_the_run_ends_when_each_policy_has_its_steps(tmp_path):
    """Two of three rows are a policy's that has its steps long before the other one."""
    experiment = make_experiment(Policies(("a", "b"), ("a", "a", "b")))
    stop = functools.partial(StopCriteria, num_env_steps_of_each=100)
    trainer = build_trainer(str(tmp_path), driver_of(experiment), stop_criteria=stop)
    assert trainer.train() == (True, "num_env_steps_of_each=100 reached")
    steps = {name: int(learner.progress.env_steps) for name, learner in trainer.learner.learners.items()}
    assert 100 <= steps["b"] < 140 < steps["a"]
    events = read_events(tmp_path / "train")
    for name, count in steps.items():
        assert events[f"train/{name}/env_steps"][-1][1] == count
        for kind in ("", "collected_"):
            assert events[f"throughput/{name}/{kind}steps_per_second_5min"][-1][1] > 0
        assert events[f"metrics/policies/{name}/EnvironmentSteps"]
        assert events[f"metrics/policies/{name}/MaxReturn"]
    collected = {name: trainer.metrics[f"policies/{name}/EnvironmentSteps"].result() for name in steps}
    assert sum(collected.values()) == trainer.metrics["EnvironmentSteps"].result()


def make_two_algorithms(mapping):
    """One of two policies learns from replay."""
    networks = {
        "a": functools.partial(ActorCriticNetwork, fc_layer_params=(16,)),
        "b": functools.partial(QValueNetwork, fc_layer_params=(16,)),
    }
    return make_experiment(
        Policies(("a", "b"), mapping),
        policy={
            "a": functools.partial(ActorCriticPolicy, network=networks["a"]),
            "b": functools.partial(EpsilonGreedyPolicy, network=networks["b"], epsilon=0.1),
        },
        algorithm={"a": PPOAlgorithm, "b": DqnAlgorithm},
        exp_replayer={"a": "one_time", "b": "uniform"},
    )


def check_counts(trainer, min_updates):
    """The counts show that no learner has learned from the steps of another."""
    learners = trainer.learner.learners.values()
    assert all(int(learner.progress.updates) > min_updates for learner in learners)
    total = sum(int(learner.progress.env_steps) for learner in learners)
    assert total == int(trainer.learner.progress.env_steps) == trainer.counters["env_steps"]


def test_policies_of_two_algorithms_train_side_by_side(tmp_path):
    check_counts(train(tmp_path, make_two_algorithms(map_in_turn), 40), 5)


@pytest.fixture(scope="module")
def frozen_run(tmp_path_factory):
    """The directory of a run of three policies, what each was at first, and the trainer in the end."""
    root_dir = tmp_path_factory.mktemp("run")
    driver = driver_of(make_experiment(Policies(("a", "b", "frozen"), frozen=("frozen",))))
    before = {name: values(policy) for name, policy in driver.learner.policy.policies.items()}
    trainer = build_trainer(str(root_dir), driver, lambda: StopCriteria(num_iterations=10))
    trainer.train()
    return root_dir, before, trainer


def test_frozen_policies_do_not_change_by_a_bit(frozen_run):
    _, before, trainer = frozen_run
    assert set(trainer.learner.learners) == {"a", "b"}
    for name, policy in trainer.learner.policy.policies.items():
        is_same = all(np.array_equal(x, y) for x, y in zip(before[name], values(policy), strict=True))
        assert is_same == (name == "frozen")


def test_a_run_continues_with_all_of_its_policies(frozen_run):
    root_dir, _, first = frozen_run
    policies = Policies(("a", "b", "frozen"), frozen=("frozen",))
    again = driver_of(make_experiment(policies, seed=5, learner=make_idle_learner_with_adam))
    trainer = build_trainer(str(root_dir), again, lambda: StopCriteria(num_iterations=13))
    restored = again.learner.policy
    for name, policy in first.learner.policy.policies.items():
        for x, y in zip(values(policy), values(restored.policies[name]), strict=True):
            np.testing.assert_array_equal(x, y)
    assert trainer.counters == first.counters
    for name in ("a", "b"):
        ours, theirs = (t.learner.learners[name].list_learned() for t in (trainer, first))
        assert len(ours) > 12, "Adam's, too"
        for x, y in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(x.numpy(), y.numpy())
    trainer.train()
    assert trainer.counters["iterations"] == 13


def test_recurrent_and_other_policies_share_environments(tmp_path):
    """What the states are is counted in tests of the driver; here both kinds train."""
    networks = {
        "a": functools.partial(
            ActorCriticNetwork, fc_layer_params=(16,), rnn=functools.partial(GRU, units=16)
        ),
        "b": functools.partial(ActorCriticNetwork, fc_layer_params=(16,)),
    }
    experiment = make_experiment(
        Policies(("a", "b"), map_in_turn),
        env=lambda seed: RememberEnvironment(BATCH_SIZE, delay=3, seed=seed),
        policy={name: functools.partial(ActorCriticPolicy, network=n) for name, n in networks.items()},
        algorithm=ImpalaAlgorithm,
    )
    trainer = train(tmp_path, experiment, 12)
    specs = [policy.state_spec.train for policy in trainer.learner.policy.policies.values()]
    assert specs == [tf.TensorSpec((16,), tf.float32), ()]
    assert all(int(learner.progress.updates) > 1 for learner in trainer.learner.learners.values())


def test_settings_come_from_the_scope_of_the_policy(tmp_path):
    gin.parse_config(
        """
        a/PPOAlgorithm.clip_range = 0.3
        b/PPOAlgorithm.clip_range = 0.1
        a/LearnerSettings.max_policy_lag = 3
        """
    )
    experiment = make_experiment(Policies(("a", "b")), algorithm=PPOAlgorithm)
    learners = driver_of(experiment).learner.learners
    lags = {name: learner.settings.max_policy_lag for name, learner in learners.items()}
    assert lags == {"a": 3, "b": None}


def test_a_group_needs_a_mapped_environment():
    experiment = make_experiment(Policies(("a", "b")))
    driver = driver_of(experiment)
    try:
        env = driver._envs[0]
        assert isinstance(env, MappedEnvironment)
        assert set(env.observation_spec()) == {OBSERVATION, OWNER}
        assert driver.learner.shapes["a"].num_sequences == BATCH_SIZE // 2
    finally:
        driver.stop()


WRONG_SETTINGS = [
    ({"names": ()}, "Policies.names is \\(\\)"),
    ({"names": "main"}, "Policies.names is 'main'"),
    ({"names": ("a", "a")}, "twice"),
    ({"names": ("a/b",)}, "letters, digits"),
    ({"names": ("a",), "frozen": ("x",)}, "Policies.frozen is \\('x',\\)"),
    ({"names": ("a",), "frozen": ("a",)}, "one policy must learn"),
    ({"names": ("a",), "spaces": {"b": "x"}}, "Policies.spaces is"),
    ({"names": ("a",), "spaces": {"a": "x"}}, "all agents of the environment have the same"),
    ({"names": ("a",), "num_sequences": 0}, "Policies.num_sequences is 0"),
    ({"names": ("a",), "num_sequences": {"b": 3}}, "an entry for each"),
    ({"names": ("a",), "mapping": "b"}, "Policies.mapping is 'b'"),
    (
        {"names": ("a", "b"), "mapping": "a"},
        "Policies.mapping is 'a': none of the 12 rows .* has the policy 'b', which would learn nothing",
    ),
    ({"names": [f"p{i}" for i in range(13)]}, "Policies.mapping is .* has the policy 'p12'"),
]


def test_a_wrong_setting_is_one_line(subtests):
    for settings, message in WRONG_SETTINGS:
        with subtests.test(msg=str(settings)):
            with pytest.raises(ConfigError, match=message) as caught:
                driver_of(make_experiment(Policies(**settings)))
            assert "\n" not in str(caught.value)


NOT_TOGETHER = [
    ({"policies": "a"}, "Experiment.policies is 'a'"),
    ({"algorithm": {"a": PPOAlgorithm}}, "Experiment.algorithm is .* no entry for 'b'"),
    (
        {"data_transformers": {"a": (), "b": (), "x": ()}},
        "data_transformers is .* an entry for 'x'; the policies are",
    ),
    (
        {"exp_replayer": {"a": "uniform"}, "policies": None},
        "exp_replayer is .* where Experiment.policies is",
    ),
    ({"offline_buffer": "x.npz"}, "Experiment.offline_buffer is set"),
    ({"behavior": print}, "Experiment.behavior is set"),
]


def test_settings_that_do_not_go_together(subtests):
    for settings, message in NOT_TOGETHER:
        with subtests.test(msg=str(settings)), pytest.raises(ConfigError, match=message):
            driver_of(make_experiment(**{"policies": Policies(("a", "b")), **settings}))


def test_settings_of_learning_need_no_entry_for_frozen_policies():
    settings = {"algorithm": {"a": ImpalaAlgorithm}, "exp_replayer": {"a": "one_time", "b": "uniform"}}
    driver = driver_of(make_experiment(Policies(("a", "b"), frozen=("b",)), **settings))
    assert type(driver.learner.learners["a"].algorithm) is ImpalaAlgorithm


def test_a_frozen_policy_may_have_no_row(tmp_path):
    """It may be there for an evaluation, or because the run has had it before."""
    policies = Policies(("a", "b"), "a", frozen=("b",))
    trainer = train(tmp_path, make_experiment(policies, learner=make_idle_learner), 2)
    assert int(trainer.learner.learners["a"].progress.updates) > 0


class Matching(Policy):
    """Does the best in a `MatchObservationEnvironment`, or, not `matches`, always the same."""

    def __init__(self, observation_spec, action_spec, data_transformer=None, matches=True):
        super().__init__(observation_spec, action_spec, data_transformer=data_transformer)
        self._matches = matches
        self.weight = tf.Variable(0.0)

    def rollout_step(self, time_step, state):
        return PolicyStep(tf.argmax(time_step.observation, axis=1) * int(self._matches))


class NoAlgorithm(Algorithm):
    def train_step(self, experience, prepared):
        raise NotImplementedError

    calc_loss = train_step


def test_an_evaluation_shows_each_policy(tmp_path, monkeypatch):
    """The return of the one that does not match anything is chance."""
    monkeypatch.setattr("alf.evaluation.episodes.bootstrap_interval", FEW_SAMPLES)
    policies = Policies(("a", "b"), frozen=("b",))
    evaluator = functools.partial(
        Evaluator,
        interval_steps=1,
        num_episodes=24,
        batch_size=12,
        env=lambda seed: policies.wrap(ENV(seed=seed), seed),
    )
    evaluations = []

    class Keep(Callback):
        def on_evaluation(self, trainer, figures):
            evaluations.append(figures)

    experiment = make_experiment(
        policies,
        policy={"a": Matching, "b": functools.partial(Matching, matches=False)},
        algorithm=NoAlgorithm,
        learner=make_idle_learner,
    )
    train(tmp_path, experiment, 4, evaluator=evaluator, callbacks=[Keep()])
    assert evaluations[-1]["eval/policies/a/return_min"] == EPISODE_LENGTH
    assert evaluations[-1]["eval/policies/b/return_mean"] < 0.7 * EPISODE_LENGTH, "a third"


def make_replay_policies(**kwargs):
    """Two policies of DQN, each with a replay buffer."""
    network = functools.partial(QValueNetwork, fc_layer_params=(16,))
    return make_experiment(
        Policies(("a", "b")),
        policy=functools.partial(EpsilonGreedyPolicy, network=network, epsilon=0.1),
        algorithm=DqnAlgorithm,
        exp_replayer="uniform",
        **kwargs,
    )


def test_replay_buffers_of_several_policies_are_saved(tmp_path):
    before = train(tmp_path, make_replay_policies(), 6, checkpoint_replay_buffer=True)
    files = {path.name for path in (tmp_path / "checkpoints").glob("*.npz")}
    assert files == {"replay_buffer_a.npz", "replay_buffer_b.npz"}
    after = build_trainer(str(tmp_path), driver_of(make_replay_policies()), checkpoint_replay_buffer=True)
    for name, learner in before.learner.learners.items():
        restored = after.learner.learners[name].replayer
        assert int(restored.num_steps()) == int(learner.replayer.num_steps()) > 0
    after.close()


def test_several_policies_go_on_after_collection(tmp_path):
    trainer = train(tmp_path, make_replay_policies(), 12, collect_until_env_steps=200)
    env_steps = [int(learner.progress.env_steps) for learner in trainer.learner.learners.values()]
    updates = [int(learner.progress.updates) for learner in trainer.learner.learners.values()]
    assert 200 <= sum(env_steps) < 200 + 2 * 5 * BATCH_SIZE
    assert min(updates) > max(env_steps) // (5 * BATCH_SIZE // 2)  # more than one for each batch


def test_several_policies_need_replay_to_go_on_after_collection(tmp_path):
    with pytest.raises(ConfigError, match="Trainer.collect_until_env_steps is set: exp_replayer must be"):
        train(tmp_path / "run", make_experiment(Policies(("a", "b"))), 5, collect_until_env_steps=100)
    assert not (tmp_path / "run" / "run.json").exists()


def test_several_policies_start_with_the_weights_of_another_run(tmp_path):
    """Each has those of the policy of its name, or all have those of the only policy."""
    several = train(tmp_path / "several", make_experiment(Policies(("a", "b"))), 6)
    single = train(tmp_path / "single", make_experiment(None), 3)
    for folder, source in (("several", several), ("single", single)):
        driver = driver_of(make_experiment(Policies(("a", "b"))))
        path = str(tmp_path / folder)
        trainer = build_trainer(str(tmp_path / f"from {folder}"), driver, initial_checkpoint=path)
        for name, learner in trainer.learner.learners.items():
            theirs = source.learner.learners.get(name, source.learner).policy
            tf.nest.map_structure(np.testing.assert_array_equal, values_of(learner.policy), values_of(theirs))
        trainer.close()


def values_of(policy):
    return [v.numpy() for v in policy.trainable_variables]


def test_a_run_of_several_policies_copies_another_one(tmp_path):
    parent = train(tmp_path / "parent", make_experiment(Policies(("a", "b"))), 6)
    (path,) = glob.glob(str(tmp_path / "parent" / "checkpoints" / "ckpt-6"))

    class CopyOnce(Callback):
        def on_train_iter(self, trainer, summary):
            counts = trainer.counters["iterations"]
            if counts == 3:
                trainer.copy_from(path)
                self.copied = [values_of(one.policy) for one in trainer.learner.learners.values()]
                self.versions = [int(one.progress.updates) for one in trainer.learner.learners.values()]
            if counts > 3 and summary:
                assert float(summary["policy_lag_max"]) <= int(trainer.learner.progress.updates)

    callback = CopyOnce()
    trainer = train(tmp_path / "child", make_experiment(Policies(("a", "b"))), 12, callbacks=[callback])
    theirs = [values_of(learner.policy) for learner in parent.learner.learners.values()]
    tf.nest.map_structure(np.testing.assert_array_equal, callback.copied, theirs)
    updates = [int(learner.progress.updates) for learner in trainer.learner.learners.values()]
    assert all(now > before for now, before in zip(updates, callback.versions, strict=True))


def test_an_optimizer_belongs_to_one_learner():
    optimizer = optimizers.Adam(0.01)
    shared = functools.partial(build_learner, optimizer=optimizer)
    with pytest.raises(ConfigError, match="the optimizer of another learner"):
        driver_of(make_experiment(Policies(("a", "b")), learner=shared))
