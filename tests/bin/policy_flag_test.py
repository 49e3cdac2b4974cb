# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""--policy: which of a run's policies acts, from which checkpoint."""

import json

import numpy as np
import pytest

import alf
from alf.bin import evaluate, export, play
from alf.errors import ConfigError
from alf.runs.saved_run import SavedRun

pytestmark = pytest.mark.programs


def figures(command, root_dir, **values):
    status, out, errors = command(evaluate, what=root_dir, json=True, seed=1, num_episodes=6, **values)
    assert (status, errors) == (0, [])
    return json.loads(out)


def test_without_it_each_row_has_the_policy_of_its_mapping(root_of, command):
    found = figures(command, root_of("policies"), parallel_envs=3)
    assert [name for name in found if name.startswith("policies/")] == [
        f"policies/{name}/return" for name in "abc"
    ]


@pytest.mark.parametrize("player", ["b@2", "random", "agent=c"])
def test_one_player_acts_everywhere(root_of, command, player):
    found = figures(command, root_of("policies"), policy=player)
    label = player.removeprefix("agent=")
    assert found[f"policies/{label}/return"] == found["return"]


def test_a_run_with_one_policy_calls_it_policy(root_of, command):
    root_dir = root_of("cartpole")
    chosen, plain = figures(command, root_dir, policy="policy"), figures(command, root_dir)
    assert chosen["return"] == plain["return"]
    assert figures(command, root_dir, policy="random")["return"] != plain["return"]


def test_the_agent_of_a_policy_acts_as_it_does(root_of, command):
    root_dir = root_of("policies")
    agents = {name: alf.load_agent(root_dir, name=name) for name in "abc"}
    observations = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    actions = {name: agent.predict(observations)[0] for name, agent in agents.items()}
    saved = SavedRun(root_dir)
    saved.read_config()
    group = saved.make_policy()
    saved.restore(group)
    for name in "abc":
        expected = alf.Agent(group.policies[name]).predict(observations)[0]
        np.testing.assert_array_equal(actions[name], expected)
    assert all((actions[x] != actions[y]).any() for x, y in ("ab", "ac", "bc"))
    with pytest.raises(ConfigError, match="several policies: name one of"):
        alf.load_agent(root_dir)


WRONG = {
    "x": "--policy: the policy is 'x': it must be one of ('a', 'b', 'c'), or 'random'",
    "a@77": "there is no checkpoint '77'",
    "dog=a": "--policy is 'dog=a': it must have an entry for each of the agents ('agent',)",
    "agent=a,agent=b": "--policy is 'agent=a,agent=b'",
}


def test_a_policy_that_is_not_there_is_one_line(root_of, command, subtests):
    for player, message in WRONG.items():
        with subtests.test(player):
            status, _, errors = command(evaluate, what=root_of("policies"), policy=player)
            assert status == 2 and len(errors) == 1 and message in errors[0]


def test_play_and_export_take_it(root_of, command, tmp_path):
    root_dir = root_of("policies")
    status, _, errors = command(export, what=root_dir, output=str(tmp_path / "no"))
    assert status == 2
    assert errors == ["error: --policy: the run has several policies: name one of ('a', 'b', 'c')"]
    status, _, errors = command(export, what=root_dir, output=str(tmp_path / "b"), policy="b")
    assert (status, errors) == (0, [])
    video = str(tmp_path / "b.gif")
    status, out, errors = command(play, what=root_dir, output=video, policy="b", seed=0)
    assert (status, errors) == (0, []) and "episode 1" in out
