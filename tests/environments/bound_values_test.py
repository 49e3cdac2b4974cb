# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What gin binds to an environment's constructor arrives in workers, too, and counts as read."""

import contextlib
import functools

import gin
import gymnasium
import numpy as np
import pytest

from alf.config.parsing import check_dead_bindings, parse_config
from alf.config.registry import bind_arguments
from alf.environments import load
from alf.errors import ConfigError
from alf.runs.saved_run import make_env
from tests.workers import configurable_envs  # noqa: F401  (gin knows them)


@pytest.fixture(autouse=True)
def clear_gin():
    gin.clear_config()
    yield
    gin.clear_config()


@pytest.fixture
def register():
    """Registers an entry point under an id for the time of a test; returns the id."""
    yield lambda *args, **kwargs: gymnasium.register("AlfBound-v0", *args, **kwargs) or "AlfBound-v0"
    gymnasium.registry.pop("AlfBound-v0", None)


def observe(num_workers, **settings):
    """Makes two environments; returns what they observe: [limit, length of inner, whether a worker, id]."""
    with contextlib.closing(load(batch_size=2, num_workers=num_workers, **settings)) as env:
        return env.reset().observation.tolist()


CASES = [
    ("load.name = @Bound\nBound.limit = 7", [7, 0]),
    ("load.name = @Bound\nBound.limit = %LIMIT\nLIMIT = 8", [8, 0]),
    ("load.name = @Bound\nBound.limit = 7\nBound.inner = @Inner()\nInner.items = (1, 2)", [7, 2]),
    ("load.name = @Bound\nBound.inner = {'a': [@Inner()]}\nInner.items = (1, 2)", [1, 1]),
    ("load.name = @Bound\nBound.inner = @Inner", [1, 0]),
    ("load.name = @make_bound\nmake_bound.limit = 5", [5, 0]),
    ("load.name = @RegisteredBound\nRegisteredBound.limit = 6", [6, 0]),
    ("load.name = @hard/Bound\nhard/Bound.limit = 9", [9, 0]),
    ("load.name = @hard/make_bound\nhard/make_bound.limit = 9", [9, 0]),
    ("load.name = @hard/RegisteredBound\nRegisteredBound.limit = 9", [9, 0]),
]


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("config, expected", CASES)
def test_bindings_reach_the_environment(config, expected, num_workers):
    parse_config([], ["alf.environments." + config])
    rows = observe(num_workers)
    assert [row[:3] for row in rows] == [[*expected, bool(num_workers)]] * 2
    check_dead_bindings()
    # So a saved run has them.
    config = gin.operative_config_str()
    gin.clear_config()
    gin.parse_config(config)
    assert observe(0)[0][:2] == expected


@pytest.mark.parametrize("is_text, num_workers", [(False, 1), (True, 1), (True, 0)])
def test_bindings_reach_the_constructor_that_an_id_names(register, is_text, num_workers):
    entry_point = "tests.workers.configurable_envs:Bound" if is_text else configurable_envs.Bound
    name = register(entry_point, kwargs={"inner": (1, 2, 3)})
    parse_config([], ["Bound.limit = 7"])
    assert [row[:3] for row in observe(num_workers, name=name)] == [[7, 3, bool(num_workers)]] * 2
    check_dead_bindings()


def test_what_is_registered_with_an_id_and_what_load_gets_count_more(register):
    name = register(configurable_envs.Bound, kwargs={"inner": (1, 2, 3)})
    parse_config([], ["Bound.limit = 7"])
    assert observe(0, name=name, limit=4)[0][:2] == [4, 3]
    parse_config([], ["Bound.inner = ()"])
    assert observe(0, name=name)[0][:2] == [7, 3]


UNKNOWN = "the constructor of 'AlfBound-v0' got an unexpected keyword argument 'row'"


@pytest.mark.parametrize(
    "entry_point, error, message",
    [
        (configurable_envs.Bound, TypeError, UNKNOWN),
        ("tests.workers.no_such_module:Bound", ModuleNotFoundError, "no_such_module"),
    ],
)
def test_a_constructor_that_cannot_take_the_arguments(register, entry_point, error, message):
    name = register(entry_point)
    with pytest.raises(error, match=message):
        load(name, 1, row=3, max_episode_steps=7, num_workers=0)


def test_arguments_of_load_and_of_partial_count_more():
    parse_config([], ["Bound.limit = 7"])
    assert observe(1, name=configurable_envs.Bound, limit=3)[0][0] == 3
    with pytest.raises(ConfigError, match=r"nothing reads the gin binding Bound\.limit"):
        check_dead_bindings()
    make = bind_arguments(functools.partial(configurable_envs.Bound, 4))
    assert make.args == (4,) and make().limit == 4


@pytest.mark.parametrize("num_workers", [0, 1])
def test_the_scope_counts(num_workers):
    parse_config(
        [],
        [
            f"""
        alf.environments.load.name = @Bound
        alf.environments.load.num_workers = {num_workers}
        Bound.limit = 7
        eval/Bound.limit = 8
    """
        ],
    )
    with contextlib.closing(load(batch_size=1)) as env:
        assert env.reset().observation[0, 0] == 7
    with pytest.raises(ConfigError, match=r"nothing reads the gin binding eval/Bound\.limit"):
        check_dead_bindings()
    with contextlib.closing(make_env(0, 1, env=load)) as env:
        assert env.reset().observation[0, 0] == 8
    check_dead_bindings()


def test_each_environment_has_an_inner_object_of_its_own():
    parse_config([], ["Bound.inner = @Inner()"])
    for num_workers in (0, 1):  # two in one worker
        ids = [row[3] for row in observe(num_workers, name=configurable_envs.Bound)]
        assert len(set(ids)) == 2


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("config", ["Calls.make = @Inner", "Calls.make = {'a': (1, [@a/Inner])}"])
def test_a_callable_keeps_its_bindings_wherever_and_whenever_it_is_called(config, num_workers):
    """The environment calls it at its reset: gin may have another configuration by then."""
    parse_config([], [f"{config}\nInner.items = (1, 2)\nalf.environments.load.name = @Calls"])
    with contextlib.closing(load(batch_size=2, num_workers=num_workers)) as env:
        check_dead_bindings()
        gin.clear_config()
        assert env.reset().observation.tolist() == [[2.0]] * 2


def test_a_callable_that_another_argument_replaces_is_no_hindrance():
    parse_config([], ["Bound.inner = @Inner\nalf.environments.load.name = @Bound"])
    assert observe(1, inner=(1, 2, 3))[0][1:3] == [3, True]


class Unsendable(tuple):
    def __reduce__(self):
        raise TypeError("it cannot be pickled")


@pytest.mark.parametrize("name", ["Bound", "make_bound", "hard/Bound"])
def test_frames_come_from_a_worker(name):
    parse_config([], [f"alf.environments.load.name = @{name}\nBound.limit = 7\nmake_bound.limit = 7"])
    with contextlib.closing(load(batch_size=1, num_workers=0, render_mode="rgb_array")) as env:
        assert env.reset().observation[0, :3].tolist() == [7, 0, 1]
        np.testing.assert_array_equal(env.render(), np.full((2, 2, 3), 7))


def test_frames_of_what_cannot_be_sent_come_from_here():
    parse_config([], ["Bound.limit = 7"])
    with contextlib.closing(
        load(configurable_envs.Bound, 1, inner=Unsendable(), render_mode="rgb_array")
    ) as env:
        assert env.reset().observation[0, :3].tolist() == [7, 0, 0]


def test_missing_values_are_named():
    parse_config([], ["alf.environments.load.name = @needs_limit"])
    with pytest.raises(RuntimeError, match=r"Required bindings for `needs_limit` .*'limit'"):
        observe(1)
