# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""SavedRun, load_agent: a policy comes back, in this process or another, also while the run goes on."""

import functools
import json
import os
import shutil
import sys
import threading
import time
from typing import Any, NamedTuple

import gin
import numpy as np
import pytest
import tensorflow as tf

import alf
from alf.callback import Callback
from alf.config.registry import own_config
from alf.errors import ConfigError
from alf.learner import optimizers
from alf.policies.agent import Agent
from alf.runs import checkpoint_files as files
from alf.runs.saved_run import SavedRun, load_agent, make_env, restore_policy
from alf.testing.toy_environments import MatchObservationEnvironment
from alf.training import Experiment
from tests.builders import build_trainer, driver_of, write_checkpoint
from tests.training.small_runs import add_to_weights, make_idle_learner

CONFIG = """
import alf.learner.optimizers
Experiment.env = @alf.environments.load
Experiment.num_groups = 1
Experiment.unroll_length = 4
Experiment.seed = 1
Experiment.data_transformers = (@ObservationNormalizer,)
alf.environments.load.name = "CartPole-v1"
Experiment.num_envs = 2
ActorCriticNetwork.fc_layer_params = (8,)
ActorCriticNetwork.rnn = @GRU
GRU.units = 4
Checkpoints.interval = {interval}
StopCriteria.num_iterations = {iterations}
"""


class KeepAndSave(Callback):
    """Saves after train iteration 2; `policies` has copies of what the policy was after each one."""

    def __init__(self):
        self.policies = {}

    def on_train_iter(self, trainer, summary):
        number = trainer.counters["iterations"]
        self.policies[number] = trainer.learner.policy.copy()
        if number == 2:
            trainer.save()


def make_trainer(root_dir, iterations, interval=300.0):
    """A trainer of `CONFIG`, whose weights move without learning; within `own_config`."""
    gin.parse_config(CONFIG.format(iterations=iterations, interval=interval))
    learner = functools.partial(make_idle_learner, move=add_to_weights)
    driver = driver_of(Experiment(learner=learner))
    return build_trainer(str(root_dir), driver)


class Run(NamedTuple):
    """A run with the checkpoints 2 and 5; `policies` are what was saved there."""

    root_dir: Any
    policies: dict

    def copy(self, tmp_path):
        """Returns a copy of the run's directory, to change it."""
        shutil.copytree(self.root_dir, tmp_path / "run")
        return tmp_path / "run"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root_dir, keep = tmp_path_factory.mktemp("run"), KeepAndSave()
    with own_config():
        trainer = make_trainer(root_dir, 5)
        trainer.add_callback(keep)
        trainer.train()
    assert files.list_numbers(str(root_dir / "checkpoints")) == [2, 5]
    return Run(root_dir, keep.policies)


def assert_same(policy, other):
    for x, y in zip(policy.variables, other.variables, strict=True):
        np.testing.assert_array_equal(x, y)


def assert_same_actions(agent, policy):
    """Both act the same over a few steps."""
    other, states = Agent(policy), (None, None)
    rng = np.random.default_rng(0)
    for _ in range(5):
        observation = rng.normal(size=[16, 4]).astype(np.float32)
        (ours, first), (theirs, second) = (
            a.predict(observation, s) for a, s in zip((agent, other), states, strict=True)
        )
        states = first, second
        np.testing.assert_array_equal(ours, theirs)
        tf.nest.map_structure(np.testing.assert_array_equal, first, second)


def snapshot(root_dir):
    """Names, sizes and times of all files."""
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(root_dir) for name in names]
    return {path: (os.stat(path).st_size, os.stat(path).st_mtime_ns) for path in paths}


def test_an_agent_acts_as_the_policy_that_was_saved(run):
    before, config = snapshot(run.root_dir), gin.config_str()
    agent = alf.load_agent(str(run.root_dir))
    assert snapshot(run.root_dir) == before and gin.config_str() == config
    assert_same_actions(agent, run.policies[5])
    assert agent.observation_spec.shape == (4,) and agent.action_spec.maximum == 1
    assert int(agent.policy.progress.updates) == 5


def test_checkpoints_by_name(run, monkeypatch):
    root_dir, folder = run.root_dir, run.root_dir / "checkpoints"
    monkeypatch.setenv("HOME", str(root_dir))
    assert_same(load_agent(root_dir, 2).policy, run.policies[2])
    assert_same(load_agent("~", "5").policy, run.policies[5])
    with own_config():
        saved = SavedRun(root_dir)
        saved.read_config()
        policy = saved.make_policy()
    for checkpoint, number in (
        (str(folder / "ckpt-2"), 2),
        ("newest", 5),
        ("~/checkpoints/ckpt-2", 2),
        (folder / "ckpt-5", 5),
    ):
        assert saved.restore(policy, checkpoint) == str(folder / f"ckpt-{number}")
        assert_same(policy, run.policies[number])
    with pytest.raises(ConfigError, match=r"there is no checkpoint 3; .*checkpoints' has 2, 5"):
        load_agent(root_dir, 3, policy)
    with pytest.raises(ConfigError, match=r"there is no best checkpoint in"):
        load_agent(root_dir, "best", policy)


@pytest.mark.parametrize("checkpoint", [None, 1.5, (), -1, True])
def test_what_names_no_checkpoint(run, checkpoint):
    with pytest.raises(
        ConfigError, match='checkpoint is .*: it must be "newest", "best", a number or a path'
    ):
        SavedRun(str(run.root_dir)).find_checkpoint(checkpoint)


def test_a_damaged_checkpoint_is_skipped_unless_it_is_named(tmp_path, run):
    root_dir, policy = run.copy(tmp_path), run.policies[5].copy()
    path = root_dir / "checkpoints" / "ckpt-5" / "weights.index"
    path.write_bytes(path.read_bytes()[:-9])
    assert_same(load_agent(root_dir, policy=policy).policy, run.policies[2])
    with pytest.raises(ConfigError, match=r"ckpt-5 is damaged: weights: "):
        load_agent(root_dir, 5, policy)


def test_what_is_no_run(tmp_path, run):
    with pytest.raises(ConfigError, match=r"holds no run: there is no run\.json"):
        load_agent(tmp_path)
    root_dir, policy = run.copy(tmp_path), run.policies[5].copy()
    right = json.loads((root_dir / "run.json").read_text())
    (root_dir / "run.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"run\.json cannot be read"):
        load_agent(root_dir)
    for wrong in ({"import_paths": [3]}, {"import_paths": "a"}, {"versions": []}, {"git": "a"}):
        (root_dir / "run.json").write_text(json.dumps({**right, **wrong}))
        with pytest.raises(ConfigError, match=rf"run\.json cannot be read: TypeError.*{min(wrong)} is"):
            load_agent(root_dir)
    (root_dir / "run.json").write_text(json.dumps(right))
    load_agent(root_dir, policy=policy)
    with pytest.raises(ConfigError, match="policy is 3: it must be a Policy or a PolicyGroup"):
        load_agent(root_dir, policy=3)


def test_a_checkpoint_of_another_policy(tmp_path, run):
    path = run.copy(tmp_path) / "operative_config.gin"
    path.write_text(path.read_text().replace("GRU.units = 4", "GRU.units = 5"))
    message = r"ckpt-5 does not fit this policy: learner/policy/.* is float32 \[4\] there, float32 \[5\] here"
    with pytest.raises(ConfigError, match=message):
        load_agent(tmp_path / "run")


def test_a_checkpoint_of_nan_does_not_act(tmp_path, run):
    root_dir, learner = run.copy(tmp_path), tf.Module()
    learner.policy = run.policies[5].copy()
    variable = learner.policy.trainable_variables[0]
    variable.assign(tf.fill(variable.shape, np.nan))
    path = str(root_dir / "checkpoints" / "ckpt-5")
    write_checkpoint(path, learner)
    message = f"^the checkpoint {path} does not fit this policy: learner/policy/[^;]* is not finite there$"
    with pytest.raises(ConfigError, match=message):
        load_agent(root_dir)
    with pytest.raises(ConfigError, match=message):
        SavedRun(root_dir).restore(run.policies[2].copy(), 5)
    with pytest.raises(ConfigError, match=message):  # an evaluation beside training
        restore_policy(run.policies[2].copy(), path)
    assert_same(load_agent(root_dir, 2).policy, run.policies[2])


def test_agents_of_a_run_that_goes_on_can_be_loaded_at_any_moment(tmp_path):
    with own_config():
        trainer = make_trainer(tmp_path, 10**9, interval=0.0)
    thread = threading.Thread(target=trainer.train)
    thread.start()
    try:
        deadline = time.monotonic() + 300
        run, seen = SavedRun(tmp_path), set()
        with own_config():
            run.read_config()
            policy = run.make_policy()
        while not files.list_numbers(str(tmp_path / "checkpoints")) and time.monotonic() < deadline:
            time.sleep(0.01)
        while len(seen) < 5 and time.monotonic() < deadline:
            path = run.restore(policy)
            seen.add(path)
            assert path.endswith(f"-{int(policy.progress.updates)}")
    finally:
        trainer.interrupt("enough")
        thread.join(300)
    assert len(seen) >= 5 and not thread.is_alive()


def test_a_checkpoint_that_is_removed_while_it_is_read(tmp_path, run, monkeypatch, caplog):
    """The run goes on: the newest checkpoint disappears after it was found, and there is a newer one."""
    saved, policy, found = SavedRun(run.copy(tmp_path)), run.policies[2].copy(), []
    folder, read = str(tmp_path / "run" / "checkpoints"), files.read_variables
    newest = str(tmp_path / "kept")
    os.rename(files.path_of(folder, 5), newest)

    def remove_and_read(path, *args):
        found.append(path)
        if len(found) == 1:
            os.rename(newest, files.path_of(folder, 5))
            files.remove(path)
        return read(path, *args)

    monkeypatch.setattr(files, "read_variables", remove_and_read)
    path = saved.restore(policy)
    assert found == [files.path_of(folder, 2), path] and path == files.path_of(folder, 5)
    assert not caplog.records, "it is not damaged"
    assert_same(policy, run.policies[5])


@pytest.mark.parametrize("package", ["", "package_of_two_runs"])
def test_another_module_of_the_same_name_is_refused(tmp_path, monkeypatch, package):
    """Two runs whose modules have one name: the second one's would be made of the first one's code."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = "module_of_two_runs"
    monkeypatch.delitem(sys.modules, name, raising=False)
    for number in (1, 2):
        own = tmp_path / f"own{number}"
        (own / package).mkdir(parents=True)
        (own / package / "__init__.py").write_text("")
        (own / package / f"{name}.py").write_text(f"number = {number}")
        (own / "same.py").write_text("")
        run = {
            "observation_spec": {"dtype": "float32", "shape": [4]},
            "import_paths": [str(own)],
            "versions": {},
            "git": None,
            "devices": None,
        }
        run |= {"action_spec": run["observation_spec"], "reward_spec": run["observation_spec"]}
        (own / "run.json").write_text(json.dumps(run))
        start = f"from {package} import" if package else "import"
        (own / "operative_config.gin").write_text(f"{start} {name}\nimport same\nimport alf.schedules\n")
    with own_config():
        SavedRun(tmp_path / "own1").read_config()
        module = f"{package}.{name}".strip(".")
        with pytest.raises(
            ConfigError, match=rf"the run's module {module} is .*own2.*, but .*own1.* is imported"
        ):
            SavedRun(tmp_path / "own2").read_config()


def test_own_config_brings_everything_back():
    gin.parse_config("Adam.learning_rate = 0.5\nimport alf.schedules")
    optimizers.Adam  # noqa: B018
    kept, operative = gin.config_str(), gin.operative_config_str()
    with pytest.raises(ZeroDivisionError), own_config():
        assert gin.config_str() == ""
        gin.parse_config("Adam.learning_rate = 0.25")
        gin.finalize()
        1 / 0  # noqa: B018
    assert (gin.config_str(), gin.operative_config_str()) == (kept, operative)
    assert not gin.config_is_locked()


def test_make_env_takes_fewer_environments_than_the_run_has_workers():
    asked = []

    def load(seed, batch_size=4, num_workers=3):
        asked.append((batch_size, num_workers))
        return MatchObservationEnvironment(batch_size)

    for batch_size in (1, 3, 8):
        make_env(3, batch_size, env=load)
    make_env(3, 2, env=functools.partial(load, num_workers="auto"))
    assert asked == [(1, 1), (3, 3), (8, 3), (2, "auto")]


def test_make_env_takes_another_batch_size(tmp_path):
    with own_config():
        gin.parse_config(CONFIG.format(iterations=1, interval=1.0))
        env = make_env(3, batch_size=5)
        assert env.batch_size == 5
        env.close()
