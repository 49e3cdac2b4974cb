# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A run of an earlier version goes on, is loaded, evaluated and plotted.

tests/older_runs has a run with its replay buffer, a sweep and a population, beside their gin files. Newer
settings are not in their files. ROOT stands there for the folder in which they were.
"""

import numpy as np
import pytest

from alf.config import registry
from alf.config.parsing import parse_config
from alf.config.registry import own_config
from alf.errors import ConfigError
from alf.evaluation.episodes import evaluate
from alf.plots.groups import group_runs
from alf.plots.runs import find_runs, read_run
from alf.runs.saved_run import SavedRun, load_agent, make_env
from alf.training import Experiment
from tests.builders import build_trainer
from tests.older_runs.copies import GIN_FILES, copy_older

registry.import_settings()

# Of its version, for the observations of `test_it_acts_as_before`.
ACTIONS = [1, 0, 1, 1, 1, 0, 1, 1, 0, 1, 0, 1]
# How a run is carried out: it may go on with these.
CHANGES = [
    "StopCriteria.num_iterations = 80",
    "alf.environments.load.num_workers = 1",
    "Experiment.learner_device = 'CPU:0'",
    "Monitoring.stall_timeout = 200.0",
    "alf.Learner.debug_summaries = True",
    "Checkpoints.max_to_keep = 2",
]


@pytest.fixture
def run(tmp_path):
    """The root_dir of a copy of the run, with gin's configuration of it."""
    with own_config():
        parse_config([str(GIN_FILES["run"])], [])
        yield copy_older("run", tmp_path)


def test_a_run_goes_on_with_other_resources(run):
    parse_config([], CHANGES)
    trainer = build_trainer(run, Experiment().make_driver())
    assert trainer.counters == {"iterations": 60, "env_steps": 459}
    assert trainer.learner.replayer.num_steps() >= 180  # of 200 that it holds
    updates = int(trainer.learner.progress.updates)
    finished, _ = trainer.train()
    assert finished and trainer.counters["iterations"] == 80
    assert int(trainer.learner.progress.updates) - updates == pytest.approx(20 * 2 * 4 * 0.25, abs=3)


def test_a_run_does_not_go_on_as_another_experiment(run):
    parse_config([], ["DqnAlgorithm.n_step = 2"])
    with pytest.raises(ConfigError, match="another config .DqnAlgorithm.n_step is 2 here, 3 there"):
        build_trainer(run, Experiment().make_driver())


def test_it_acts_as_before(run):
    observation = np.random.default_rng(0).normal(size=(12, 4)) * [1, 1, 0.2, 1]
    action, _ = load_agent(run).predict(observation.astype(np.float32))
    assert action.tolist() == ACTIONS


def test_it_is_evaluated(run):
    saved = SavedRun(run)
    with own_config():
        saved.read_config()
        env = make_env(seed=0, batch_size=2)
    episodes = evaluate(load_agent(run), env, 4)
    env.close()
    assert len(episodes.returns) == 4 and (episodes.returns > 5).all()


def test_runs_of_a_sweep_are_curves(tmp_path):
    paths, without = find_runs(copy_older("sweep", tmp_path))
    assert len(paths) == 4 and without == []
    groups = group_runs([read_run(path) for path in paths])
    assert [(group.label[:22], group.algorithm, len(group.runs)) for group in groups] == [
        ("Adam.learning_rate=0.0", "PPO", 2)
    ] * 2


def test_an_older_and_a_newer_run_are_one_curve(run, tmp_path):
    parse_config([], [*CHANGES, "Experiment.seed = 4", "StopCriteria.num_iterations = 3"])
    build_trainer(str(tmp_path / "newer"), Experiment().make_driver()).train()
    (group,) = group_runs([read_run(run), read_run(str(tmp_path / "newer"))])
    assert group.label == "DQN" and len(group.runs) == 2
