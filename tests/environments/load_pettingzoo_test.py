# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""load_pettingzoo: names, settings, what gin binds, and what is wrong."""

import contextlib
import functools
import re
import threading

import numpy as np
import pytest

from alf.config.parsing import bind, check_dead_bindings, parse_config
from alf.environments import MultiAgentEnvironment, load, load_pettingzoo
from alf.errors import ConfigError
from alf.runs.saved_run import make_env
from alf.testing.environment_contract import sample_action
from alf.workers import EnvBatch, WorkerPool
from tests.workers import configurable_envs  # noqa: F401  (gin knows what is there)
from tests.workers.counting_games import STEP, ParallelGame, TurnGame, make_list

GAMES = "tests.workers.counting_games"


@pytest.mark.parametrize(
    "name, agents",
    [
        ("pettingzoo.classic.connect_four_v3:env", ("player_0", "player_1")),
        ("pettingzoo.classic.connect_four_v3:raw_env", ("player_0", "player_1")),
        ("pettingzoo.classic.connect_four_v3", ("player_0", "player_1")),
        ("mpe2.simple_spread_v3", ("agent_0", "agent_1", "agent_2")),
        (f"{GAMES}:TurnGame", ("first", "second", "third")),
    ],
)
def test_names(name, agents):
    for env in (load(f"pettingzoo:{name}", 2, num_workers=0), load_pettingzoo(name, 2, num_workers=0)):
        with contextlib.closing(env):
            assert isinstance(env, MultiAgentEnvironment)
            assert env.agents == agents and env.batch_size == 2 * len(agents)


def test_a_module_with_both_interfaces_is_taken_by_the_parallel_one():
    for name, has_mask in (("", False), (":parallel_env", False), (":env", True)):
        with contextlib.closing(load_pettingzoo(f"mpe2.simple_spread_v3{name}", 1, num_workers=0)) as env:
            assert isinstance(env.observation_spec(), dict) == has_mask


def test_arguments_reach_the_game():
    with contextlib.closing(load("pettingzoo:mpe2.simple_spread_v3", 2, num_workers=0, N=4)) as env:
        assert len(env.agents) == 4 and env.batch_size == 8


SETTINGS = [
    ({"max_episode_steps": 3}, lambda env: steps_of(env)[3] == 3 and steps_of(env)[4] == 0),
    ({"seed": 4}, lambda env: env.reset().observation[1, 1] > 0),
    ({"num_workers": 1}, lambda env: isinstance(env._env._batch, WorkerPool)),
    ({"num_workers": 0}, lambda env: isinstance(env._env._batch, EnvBatch)),
    ({"info_keys": ("code",)}, lambda env: env.info_keys == ("code",)),
    ({"max_random_steps": 40}, lambda env: len(set(env.reset().observation[1::4, STEP])) > 3),
    ({"render_mode": "rgb_array"}, lambda env: env.reset() and env.render() is not None),
]


def steps_of(env):
    """The steps of the game that the agent "long" observes in 6 time steps of the environment."""
    rng, seen = np.random.RandomState(0), [env.reset()]
    seen += [env.step(sample_action(env, rng)) for _ in range(5)]
    return [x.observation[1, STEP] for x in seen]


@pytest.mark.parametrize(
    "settings, is_right", SETTINGS, ids=lambda x: str(x)[:30] if isinstance(x, dict) else ""
)
@pytest.mark.parametrize("way", ["load", "gin of load", "load_pettingzoo"])
def test_every_setting_counts(settings, is_right, way):
    settings = {"batch_size": 20, "num_workers": 0, "same": True, **settings}
    name = f"{GAMES}:ParallelGame"
    if way == "gin of load":
        given = {"name": f"pettingzoo:{name}", **settings}
        bind({f"alf.environments.load.{key}": value for key, value in given.items()})
        settings = {}
    make = load_pettingzoo if way == "load_pettingzoo" else load
    prefix = "pettingzoo:" if way == "load" else ""
    names = {} if way == "gin of load" else {"name": prefix + name}
    with contextlib.closing(make(**names, **settings)) as env:
        assert is_right(env)
        check_dead_bindings()


@pytest.mark.parametrize("num_workers", [0, 1])
def test_bindings_reach_the_game(num_workers):
    parse_config(
        [],
        [
            f"""
        load_pettingzoo.name = @make_parallel_game
        load_pettingzoo.num_workers = {num_workers}
        load_pettingzoo.batch_size = 2
        make_parallel_game.same = True
        make_parallel_game.inner = @Inner()
        Inner.items = (1, 2, 3)
        eval/make_parallel_game.same = False
    """
        ],
    )
    with contextlib.closing(load_pettingzoo()) as env:
        assert env.space_names is None and env.render_fps == 3
    with contextlib.closing(make_env(0, env=load_pettingzoo)) as env:
        assert env.space_names == ("short", "long", "short", "twin")
    check_dead_bindings()


def test_what_cannot_be_sent_to_a_worker_steps_here():
    lock = threading.Lock()
    with contextlib.closing(load_pettingzoo(lambda: lock and ParallelGame(), 2)) as env:
        assert isinstance(env._env._batch, EnvBatch)


WRONG = [
    (
        "no_such_module:env",
        {},
        "name is 'no_such_module:env': 'no_such_module' cannot be imported: No mod",
    ),
    ("pettingzoo.classic.connect_for_v3", {}, "'pettingzoo.classic.connect_for_v3' cannot be imported"),
    ("", {}, "name is '': '' cannot be imported"),
    (None, {}, "load_pettingzoo.name is None: it must be a text or a class or function"),
    (
        "pettingzoo.classic.connect_four_v3:parallel_env",
        {},
        "connect_four_v3 has no function parallel_env$",
    ),
    ("pettingzoo.classic", {}, "pettingzoo.classic has no function parallel_env or env"),
    (make_list, {}, "name makes a list of 2: it must make a ParallelEnv or an AECEnv of PettingZoo"),
    (make_list, {"num_workers": 1}, "name makes a list of 2: it must make a ParallelEnv or an AECEnv"),
    (ParallelGame, {"batch_size": 0}, "load_pettingzoo.batch_size is 0"),
    (ParallelGame, {"max_episode_steps": 0}, "load_pettingzoo.max_episode_steps is 0"),
    (ParallelGame, {"max_random_steps": -1}, "load_pettingzoo.max_random_steps is -1"),
    (ParallelGame, {"info_keys": "code"}, "load_pettingzoo.info_keys is 'code': it must be a tuple"),
    (ParallelGame, {"num_workers": 3}, "num_workers is 3, more than batch_size = 2"),
]


def test_what_is_wrong_is_one_line(subtests):
    for name, settings, message in WRONG:
        with subtests.test(message, settings=settings):
            with pytest.raises(ConfigError) as error:
                load_pettingzoo(name, **{"batch_size": 2, **settings})
            text = str(error.value)
            assert re.search(message, text) and "\n" not in text


def test_a_game_of_pettingzoo_in_load_is_told_where_to_go():
    for num_workers in (0, 1):
        with pytest.raises(
            ConfigError, match="neither a gymnasium.Env nor .*; load_pettingzoo takes games of"
        ):
            load(functools.partial(TurnGame), 1, num_workers=num_workers)
