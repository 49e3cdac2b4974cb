# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""docs/metrics.md has the names that runs write, and no others."""

import functools
import re
from pathlib import Path

import gin
import numpy as np
from tf_agents.metrics import py_metrics

from alf.algorithms import DqnAlgorithm, ImpalaAlgorithm, PPOAlgorithm, SacAlgorithm
from alf.drivers import AsyncOffPolicyDriver, SyncOffPolicyDriver
from alf.environments import ArraySpec
from alf.learner import optimizers
from alf.networks import ActorCriticNetwork, CriticsNetwork, PolicyNetwork, QValueNetwork
from alf.policies import ActorCriticPolicy, EpsilonGreedyPolicy, SacPolicy
from alf.studies.policy_population import PolicyPopulation
from alf.studies.ranges import Uniform
from alf.testing.toy_environments import MatchObservationEnvironment
from alf.training import Evaluator, Experiment, League
from alf.training.stop_criteria import StopCriteria
from tests.builders import build_driver, build_learner, build_trainer, driver_of
from tests.games.league_test import Duel
from tests.training.counting_parts import WeightDecay
from tests.training.event_files import read_kinds

ROOT = Path(__file__).resolve().parent.parent.parent
GROUPS = (
    "metrics|train|throughput|time|time_share|memory|cpu|queues|replay|environments|eval|config|Overview|debug"
    "|rollout|variables|gradients"
)
# What a word in capital letters stands for.
WORDS = {
    "N": r"\d+",
    "FIGURE": "(?:mean|median|std|min|max|low|high)",
    "SETTING": r"[\w.]+",
    "PATH": ".+",
    **dict.fromkeys(("KEY", "NAME", "GROUP", "THREADS", "STAGE"), r"\w+"),
}
Adam = functools.partial(optimizers.Adam, 1e-3)
SMALL = dict(fc_layer_params=(8,))


class RichEnvironment(MatchObservationEnvironment):
    """Has whatever there may be: dicts as observation and action, a vector reward, info, frames."""

    info_keys = ("speed",)

    def __init__(self, batch_size=4, seed=0, render_mode=None):
        super().__init__(batch_size, episode_length=3, seed=seed)
        self._observation_spec = {"target": self._observation_spec}
        self._reward_spec = ArraySpec((2,), np.float32)

    def action_spec(self):
        return {"guess": self._action_spec}

    def get_info(self):
        return {"speed": np.ones(self._batch_size, np.float32)}

    def _reset(self):
        return self._enrich(super()._reset())

    def _step(self, action):
        return self._enrich(super()._step(action["guess"]))

    def _enrich(self, time_step):
        reward = np.stack([time_step.reward, -time_step.reward], axis=1).astype(np.float32)
        return time_step._replace(observation={"target": time_step.observation}, reward=reward)

    def _render(self):
        return np.zeros((8, 12, 3), np.uint8)


class RichDuel(Duel):
    """A game of two agents with info."""

    info_keys = ("speed",)

    def get_info(self):
        return {"speed": np.where(self._is_first, np.nan, np.ones(self._batch_size)).astype(np.float32)}

    def __init__(self, seed=None):
        self._is_first = True
        super().__init__(seed, num_games=4)


gin.external_configurable(RichDuel, "RichDuel", module="tests")


def make_match(seed, batch_size=4, continuous=False):
    return MatchObservationEnvironment(batch_size, episode_length=3, seed=seed, continuous=continuous)


class DecayingImpala(WeightDecay, ImpalaAlgorithm):
    pass


class DecayingPPO(WeightDecay, PPOAlgorithm):
    pass


def run_impala(root_dir):
    """With all that is shown on demand."""
    gin.bind_parameter("DriverSettings.parameter_update_period", 1)
    gin.bind_parameter("EpisodeStatistics.window", 1)
    shown = dict(debug_summaries=True, rollout_summaries=True, summarize_grads_and_vars=True)
    learner = dict(optimizer=Adam(), max_policy_lag=100, **shown)
    train(
        root_dir,
        env=RichEnvironment,
        policy=make_policy(ActorCriticPolicy, ActorCriticNetwork),
        algorithm=ImpalaAlgorithm,
        learner=functools.partial(build_learner, **learner),
        driver=AsyncOffPolicyDriver,
        evaluator=functools.partial(
            Evaluator, interval_steps=1, num_episodes=4, video_interval=1, env=RichEnvironment
        ),
    )


def run_ppo(root_dir):
    network = functools.partial(ActorCriticNetwork, share_layers=False)
    optimizer = {"policy": Adam(), "value": Adam()}
    metrics = [py_metrics.AverageReturnMetric(buffer_size=10)]
    train(
        root_dir,
        policy=make_policy(ActorCriticPolicy, network),
        algorithm=PPOAlgorithm,
        exp_replayer="cyclic_one_time",
        learner=functools.partial(build_learner, optimizer=optimizer, rollout_summaries=True),
        driver=functools.partial(build_driver, SyncOffPolicyDriver, metrics=metrics),
    )


def run_dqn(root_dir):
    train(
        root_dir,
        policy=make_policy(EpsilonGreedyPolicy, QValueNetwork),
        algorithm=DqnAlgorithm,
        exp_replayer="uniform",
        learner=functools.partial(
            build_learner, optimizer=Adam(), debug_summaries=True, rollout_summaries=True
        ),
        driver=SyncOffPolicyDriver,
    )


def run_sac(root_dir):
    critics = functools.partial(CriticsNetwork, **SMALL)
    train(
        root_dir,
        env=functools.partial(make_match, continuous=True),
        policy=make_policy(SacPolicy, PolicyNetwork),
        algorithm=functools.partial(SacAlgorithm, critic=critics),
        exp_replayer="uniform",
        learner=functools.partial(build_learner, optimizer=Adam()),
        driver=SyncOffPolicyDriver,
    )


def run_league(root_dir):
    # The evaluator makes its environments by gin.
    gin.parse_config("Experiment.env = @RichDuel\nExperiment.policies = @League()")
    gin.parse_config("League.num_opponents = 1\nLeague.snapshot_interval = 1")
    learner = dict(
        optimizer=Adam(), debug_summaries=True, rollout_summaries=True, summarize_grads_and_vars=True
    )
    train(
        root_dir,
        env=RichDuel,
        policy=make_policy(ActorCriticPolicy, ActorCriticNetwork),
        algorithm=DecayingImpala,
        learner=functools.partial(build_learner, **learner),
        policies=League(),
        evaluator=functools.partial(Evaluator, interval_steps=1, num_episodes=8),
    )


def run_population(root_dir):
    population = PolicyPopulation(
        settings={"PPOAlgorithm.entropy_weight": Uniform(0.0, 0.1)}, num_policies=2, interval=20
    )
    train(
        root_dir,
        policy=make_policy(ActorCriticPolicy, ActorCriticNetwork),
        algorithm=DecayingPPO,
        exp_replayer="cyclic_one_time",
        learner=lambda algorithm, **kwargs: build_learner(algorithm, Adam(), **kwargs),  # one for each
        policies=population,
    )


# What algorithms show is the same where several policies learn: the last two need none.
RUNS = [run_impala, run_ppo, run_dqn, run_sac, run_league, run_population]


def make_policy(policy, network):
    return functools.partial(policy, network=functools.partial(network, **SMALL))


def train(root_dir, num_iterations=8, evaluator=None, **kwargs):
    """Trains a little, of some environment and algorithm."""
    parts = dict(env=make_match, num_groups=1, unroll_length=4, seed=0)
    experiment = Experiment(**{**parts, **kwargs})
    stop = functools.partial(StopCriteria, num_iterations=num_iterations)
    driver = driver_of(experiment)
    build_trainer(str(root_dir), driver, stop, evaluator=evaluator).train()


def read_table():
    """The names in the table of docs/metrics.md, in order."""
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows = text.partition("| name | what it is |\n")[2].partition("\n\n")[0].splitlines()[1:]
    names = [name for row in rows for name in re.findall("`([^`]+)`", row.split("|")[1])]
    assert len(set(names)) == len(names) > 80
    assert all(re.match(f"({GROUPS})/", name) for name in names)
    return names


def make_pattern(name, names):
    """The regular expression of a name in the table."""
    group, several, _ = name.partition("/NAME/...")
    if several:
        others = [x for x in names if x.startswith(f"{group}/") and "..." not in x]
        inner = [make_pattern(x.partition("/")[2], names) for x in others if x != "train/iterations"]
        return rf"{group}/\w+/(?:{'|'.join(inner)})"
    words = "|".join(WORDS)
    return re.sub(f"(?<![A-Za-z])({words})(?![A-Za-z])", lambda match: WORDS[match[1]], name)


def read_names(root_dir):
    """The names that a run has written."""
    return {name for name in read_kinds(root_dir / "train") if not name.startswith("_hparams_/")}


def test_a_pattern_is_that_of_its_name():
    names = ["train/loss", "train/iterations", "train/learning_rate_GROUP"]
    pattern = make_pattern("train/NAME/...", names)
    assert re.fullmatch(pattern, "train/main/loss") and re.fullmatch(pattern, "train/main/learning_rate_a")
    assert not re.fullmatch(pattern, "train/loss") and not re.fullmatch(pattern, "train/main/iterations")
    pattern = make_pattern("eval/return_N_FIGURE", names)
    assert re.fullmatch(pattern, "eval/return_12_low") and not re.fullmatch(pattern, "eval/return_low")


def test_the_table_has_the_names_that_runs_write_and_no_others(tmp_path):
    table = read_table()
    patterns = {name: re.compile(make_pattern(name, table)) for name in table}
    written = {}  # the runs, by name
    for run in RUNS:
        run(tmp_path / run.__name__)
        gin.clear_config()
        for name in read_names(tmp_path / run.__name__):
            written.setdefault(name, []).append(run.__name__)
    lacking = {
        name: runs for name, runs in written.items() if not any(p.fullmatch(name) for p in patterns.values())
    }
    assert not lacking
    patterns.pop("memory/gpu_N_mb")  # there may be no GPU
    assert not [name for name, pattern in patterns.items() if not any(map(pattern.fullmatch, written))]
