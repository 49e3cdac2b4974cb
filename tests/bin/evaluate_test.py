# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf evaluate: its figures are those of a plain loop, and those of the environment's info."""

import json
import sys

import gin
import gymnasium
import numpy as np
import pytest

import alf
from alf.bin import evaluate
from alf.config.registry import own_config
from alf.core.randomness import spawn_seeds
from alf.training import Experiment
from tests.bin.conftest import COMMON, IN_PROCESS
from tests.builders import build_trainer, driver_of

pytestmark = pytest.mark.programs


def play_plainly(agent, env, seed, num_episodes):
    """Returns the returns and lengths of the first episodes after a reset with a seed."""
    episodes = []
    for i in range(num_episodes):
        observation, _ = env.reset(seed=seed if i == 0 else None)
        state, rewards, done = None, [], False
        while not done:
            action, state = agent.predict(observation, state)
            observation, reward, terminated, truncated, _ = env.step(action)
            rewards.append(reward)
            done = terminated or truncated
        episodes.append((sum(rewards), len(rewards)))
    env.close()
    return episodes


def compare_with_plain_loop(command, root_dir, make_env, num_episodes, num_envs):
    """Runs alf evaluate and the plain loop on the same seeds; returns the lengths of the episodes."""
    values = dict(what=root_dir, num_episodes=num_episodes, parallel_envs=num_envs, seed=3, json=True)
    status, out, errors = command(evaluate, **values)
    assert (status, errors) == (0, [])
    found = json.loads(out)
    agent, episodes = alf.load_agent(root_dir), []
    for i, seed in enumerate(spawn_seeds(3, num_envs)):
        share = len(range(i, num_episodes, num_envs))
        episodes += play_plainly(agent, make_env(), seed, share)
    returns, lengths = np.array(episodes).T
    assert found["num_episodes"] == len(returns) == num_episodes
    for name, values in (("return", returns), ("length", lengths)):
        figures = found[name]
        assert figures["mean"] == pytest.approx(values.mean(), rel=1e-5)
        assert figures["median"] == pytest.approx(np.median(values), rel=1e-5)
        assert figures["std"] == pytest.approx(values.std(ddof=1), rel=1e-4, abs=1e-6)
        assert (figures["min"], figures["max"]) == pytest.approx((values.min(), values.max()), rel=1e-5)
        assert figures["low"] <= figures["mean"] <= figures["high"]
    return lengths


def test_figures_are_those_of_a_plain_loop(root_of, command):
    compare_with_plain_loop(command, root_of("lstm"), lambda: gymnasium.make("CartPole-v1"), 5, 2)


def test_episodes_of_very_different_lengths(root_of, command):
    root_dir = root_of("own")
    lengths = compare_with_plain_loop(command, root_dir, sys.modules["uneven_env"].Uneven, 13, 4)
    assert lengths.min() < 5 and lengths.max() > 50


def test_fewer_episodes_than_environments(root_of, command):
    root_dir = root_of("cartpole")
    status, out, _ = command(evaluate, what=root_dir, num_episodes=1, seed=3, json=True)
    found = json.loads(out)
    assert status == 0 and found["num_episodes"] == 1 and found["return"]["std"] == 0
    env, (seed,) = gymnasium.make("CartPole-v1"), spawn_seeds(3, 1)
    ((expected, _),) = play_plainly(alf.load_agent(root_dir), env, seed, 1)
    assert found["return"]["mean"] == expected


def test_the_table(root_of, command):
    status, out, _ = command(evaluate, what=root_of("cartpole"), num_episodes=2)
    title, header, returns, lengths = out.splitlines()
    assert status == 0 and title.endswith("ckpt-2, 2 episodes")
    assert header.split() == ["mean", "low", "high", "median", "std", "min", "max"]
    # CartPole pays 1 a step.
    assert returns.split()[0] == "return" and lengths.split() == ["length", *returns.split()[1:]]


def test_the_table_is_there_though_the_environment_cannot_be_closed(root_of, command, monkeypatch, capsys):
    root_dir = root_of("own")

    def close(self):
        raise RuntimeError("the end is broken")

    monkeypatch.setattr(sys.modules["uneven_env"].Uneven, "close", close)
    with pytest.raises(RuntimeError, match="the end is broken"):
        command(evaluate, what=root_dir, num_episodes=2)
    assert capsys.readouterr().out.splitlines()[2].startswith("return ")


def test_a_setting_of_the_environment(root_of, command):
    for scope in ("", "eval/"):
        params = [f"{scope}alf.environments.load.max_episode_steps = 4"]
        values = dict(what=root_of("cartpole"), num_episodes=3, json=True, settings=params)
        _, out, errors = command(evaluate, **values)
        assert not errors and json.loads(out)["length"]["max"] == 4


def test_sampled_actions_are_others(root_of, command):
    def returns(**values):
        values = dict(what=root_of("sac"), num_episodes=2, parallel_envs=1, seed=1, json=True, **values)
        return json.loads(command(evaluate, **values)[1])["return"]["mean"]

    assert returns() == returns() != returns(sample=True)


INFO_MODULE = """
import gymnasium
gymnasium.register("Info-v0", "tests.workers.envs:InfoEnv", kwargs={"number": 3})
"""
INFO = """
alf.environments.load.name = "registers_info_env:Info-v0"
alf.environments.load.info_keys = ("step", "deep/even", "never")
"""


def test_figures_of_the_environments_info(command, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "registers_info_env.py").write_text(INFO_MODULE)
    with own_config():
        gin.parse_config(COMMON + IN_PROCESS + INFO)
        build_trainer(str(tmp_path / "run"), driver_of(Experiment())).train()
    flags = dict(what=str(tmp_path / "run"), num_episodes=4, json=True)
    status, out, errors = command(evaluate, **flags)
    assert (status, errors) == (0, [])
    found = json.loads(out)
    assert found["info/step"]["mean"] == 3 and found["info_last/step"]["mean"] == 5
    assert found["info/deep/even"]["max"] == 3
    assert "info_last/deep/even" not in found and "info/never" not in found
