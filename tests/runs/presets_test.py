# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Presets: which files an environment gets, and who wins where several bind a setting."""

import re

import gymnasium as gym
import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from alf.config import registry
from alf.config.parsing import check_dead_bindings, operative_config, parse_config
from alf.config.registry import own_config
from alf.config.values import FlagValue
from alf.errors import ConfigError
from alf.runs import presets
from alf.runs.presets import add_preset, find_bindings, list_preset, make_parts, read_what
from alf.runs.what import find_what
from alf.training import Trainer

registry.import_settings()

SPACES = {
    "number": (gym.spaces.Discrete(5), gym.spaces.Discrete(2)),
    "floats": (gym.spaces.Box(-1, 1, (3,)), gym.spaces.Discrete(2)),
    "continuous": (gym.spaces.Box(-1, 1, (3,)), gym.spaces.Box(-1, 1, (2,))),
    "image": (gym.spaces.Box(0, 255, (40, 40, 1), np.uint8), gym.spaces.Discrete(2)),
    "small": (gym.spaces.Box(0, 1, (4, 10, 10), np.uint8), gym.spaces.Discrete(2)),
    "both": (
        gym.spaces.Dict(
            image=gym.spaces.Box(0, 255, (40, 40, 1), np.uint8), speed=gym.spaces.Box(-1, 1, (2,))
        ),
        gym.spaces.Discrete(2),
    ),
}


class AnyEnv(gym.Env):
    """Samples of the spaces that SPACES has under a name."""

    made = 0

    def __init__(self, kind="floats"):
        type(self).made += 1
        self.observation_space, self.action_space = SPACES[kind]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 1.0, bool(self.np_random.random() < 0.1), False, {}


@pytest.fixture(autouse=True)
def config():
    with own_config():
        yield


def bind(algorithm, kind, *others):
    lines = [
        f"Experiment.algorithm = {algorithm!r}",
        f"alf.environments.load.name = '{__name__}:AnyEnv'",
        f"alf.environments.load.kind = {kind!r}",
        "alf.environments.load.num_workers = 0",
    ]
    parse_config([], [*lines, *others])


def value_of(name):
    return registry.list_bindings()["", name.rpartition(".")[0]][name.rpartition(".")[2]]


def files_of(algorithm, kind, caplog):
    caplog.clear()
    with caplog.at_level(logging.converter.absl_to_standard(logging.INFO), logger="absl"):
        with own_config():
            bind(algorithm, kind)
            add_preset()
    (text,) = [x.getMessage() for x in caplog.records if "alf/presets/" in x.getMessage()]
    return re.findall(r"presets/(\w+)\.gin", text)


def test_files_follow_from_the_spaces(caplog):
    assert files_of("ppo", "number", caplog) == ["ppo", "ppo_integers"]
    assert files_of("PPO", "floats", caplog) == ["ppo", "ppo_floats"]
    assert files_of("ppo", "continuous", caplog) == ["ppo", "ppo_floats", "ppo_continuous"]
    assert files_of("ppo", "image", caplog) == ["ppo", "ppo_images"]
    assert files_of("ppo", "small", caplog) == ["ppo", "ppo_images", "small_images"]
    assert files_of("sac", "small", caplog) == ["sac", "small_images"]
    assert files_of("dqn", "small", caplog) == ["dqn", "dqn_images", "small_images", "dqn_small_images"]
    assert files_of("ppo", "both", caplog) == ["ppo", "ppo_floats", "ppo_images"]
    assert files_of("sac", "continuous", caplog)[0] == "sac"


@pytest.mark.parametrize("algorithm", ["ppo", "impala", "sac", "td3", "dqn", "qr_dqn", "apex", "r2d2"])
@pytest.mark.parametrize("kind", SPACES)
def test_every_binding_of_a_preset_is_read(algorithm, kind, caplog, tmp_path):
    if (kind == "continuous") != (algorithm == "td3") and algorithm not in ("ppo", "impala", "sac"):
        pytest.skip("it has no such actions")
    bind(algorithm, kind, "StopCriteria.num_iterations = 1")
    driver, learner = make_parts()
    trainer = Trainer(tmp_path / "run", driver, learner)
    try:
        check_dead_bindings()
    finally:
        trainer.close()
    assert not [x.getMessage() for x in caplog.records if "nothing reads" in x.getMessage()]


@pytest.mark.parametrize("algorithm", ["ppo", "sac"])
def test_exploration_with_correlated_noise(algorithm, tmp_path):
    lines = ["StopCriteria.num_iterations = 2", "make_action_distribution.noise_correlation = 0.9"]
    lines += ["ReplayLearner.initial_collect_steps = 8"] * (algorithm == "sac")
    bind(algorithm, "continuous", *lines)
    driver, learner = make_parts()
    policy = learner.policy
    # Training would otherwise ask for sequences from the beginnings of unrolls.
    assert not tf.nest.flatten(policy.state_spec.train)
    assert policy.state_spec.noise.shape == SPACES["continuous"][1].shape
    Trainer(tmp_path / "run", driver, learner).train()
    assert policy.progress.updates.numpy() > 0


def test_a_later_file_and_the_user_win():
    bind("ppo", "image", "Adam.learning_rate = 0.5", "Experiment.num_envs = 8")
    add_preset()
    assert value_of("alf.algorithms.PPOAlgorithm.clip_range") == 0.1  # ppo_images.gin; ppo.gin has 0.2
    assert value_of("alf.optimizers.Adam.learning_rate") == 0.5
    assert value_of("alf.training.Experiment.num_envs") == 8
    assert value_of("alf.algorithms.PPOAlgorithm.lambda_") == 0.95


def test_a_size_of_minibatches_replaces_their_number_in_a_preset():
    bind("ppo", "floats", "UnrollLearner.mini_batch_size = 64")
    driver, learner = make_parts()
    driver.stop()
    assert value_of("alf.learner.UnrollLearner.num_minibatches") == 32


@pytest.mark.parametrize(
    ("algorithm", "of_small"), [("ppo", None), ("impala", 1), ("dqn", 1), ("apex", None)]
)
def test_large_images_use_all_cores_for_an_operation(algorithm, of_small):
    """PPO's minibatches of small images are large, too."""
    for kind, threads in (("floats", 1), ("image", None), ("both", None), ("small", of_small)):
        with own_config():
            bind(algorithm, kind)
            add_preset()
            assert value_of("alf.training.Experiment.intra_op_threads") == threads


def test_a_class_brings_nothing():
    parse_config([], ["Experiment.algorithm = @PPOAlgorithm"])
    before = registry.list_names()
    add_preset()
    assert registry.list_names() == before


def test_the_environment_that_shows_the_spaces_leaves_no_trace():
    bind("ppo", "floats")
    AnyEnv.made = 0
    add_preset()
    assert AnyEnv.made == 1
    assert "load." not in operative_config()


def test_without_environments_the_files_show_the_spaces(monkeypatch):
    rows = type("Rows", (), {"observation": presets.make_env, "action": ()})
    monkeypatch.setattr(presets, "find_files", lambda name: [name])
    monkeypatch.setattr(presets, "read_row_spec", lambda path: rows if path == "buffer.npz" else None)
    *spaces, in_python = presets._read_env({"num_envs": 0, "offline_buffer": "buffer.npz"})
    assert spaces == [rows.observation, ()] and not in_python(1)


GROUPS = {  # more bindings -> groups
    (): 1,
    ("Experiment.num_groups = 4",): 4,
    ("Experiment.num_envs = 1024", "alf.environments.load.num_workers = 'auto'"): 2,
    ("alf.environments.load.num_workers = 'thread'",): 1,
    ("alf.environments.load.num_workers = 1",): 2,
    ("DriverSettings.mode = 'overlap'",): 1,
    ("DriverSettings.learn_queue_cap = 2",): 2,
    ("DriverSettings.num_env_threads = 2",): 2,
    ("DriverSettings.num_actor_queues = 2",): 2,
    ("Experiment.num_collectors = 1",): None,  # the default
}


@pytest.mark.parametrize("others, groups", GROUPS.items(), ids=str)
def test_environments_that_compute_in_python_are_one_group(others, groups):
    bind("ppo", "floats", *others)  # a later binding replaces an earlier one
    add_preset()
    assert registry.list_bindings()[presets._EXPERIMENT].get("num_groups") == groups


def test_a_preset_may_choose_its_groups():
    bind("dqn", "floats", "alf.environments.load.num_workers = 1")
    add_preset()
    assert value_of("alf.training.Experiment.num_groups") == 1


def test_names():
    bindings = find_bindings("CartPole-v1", "ppo", 100, {"gamma": 0.9, "lr": 0.1, "Adam.epsilon": 1e-3})
    assert bindings == {
        "alf.environments.load.name": "CartPole-v1",
        "Experiment.algorithm": "ppo",
        "StopCriteria.num_env_steps": 100,
        "PPOAlgorithm.discount": 0.9,
        "Adam.learning_rate": 0.1,
        "Adam.epsilon": 1e-3,
    }
    assert find_bindings(None, "dqn", None, {"gamma": 0.9}) == {
        "Experiment.algorithm": "dqn",
        "DqnAlgorithm.discount": 0.9,
    }
    with pytest.raises(ConfigError, match="qqq: there is no such setting"):
        find_bindings("CartPole-v1", "ppo", 100, {"qqq": 1})


def test_a_value_may_name_what_only_the_gin_file_imports(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "imported_by_a_file.py").write_text("import gin\n@gin.configurable\ndef make_it(): ...\n")
    (tmp_path / "mine.gin").write_text("import imported_by_a_file\n")
    what = find_what(str(tmp_path / "mine.gin"))
    bindings = read_what(what, None, None, {"Experiment.policy": FlagValue("@make_it")})
    assert str(bindings["Experiment.policy"]) == "@make_it"


def test_an_environment_alone_is_trained_by_ppo():
    assert read_what(find_what("CartPole-v1"), None, None, {})["Experiment.algorithm"] == "ppo"
    assert read_what(find_what("CartPole-v1"), "dqn", None, {})["Experiment.algorithm"] == "dqn"
    what = find_what("alf:own_env.gin", "CartPole-v1")
    assert "Experiment.algorithm" not in read_what(what, None, None, {})


def test_the_names_of_an_algorithm_in_a_gin_file_count():
    parse_config([], ["Experiment.algorithm = 'SAC'"])
    assert find_bindings(None, None, None, {"tau": 0.1}) == {"SacAlgorithm.tau": 0.1}
    assert "alf.algorithms.SacAlgorithm.tau" in list_preset("SAC")
