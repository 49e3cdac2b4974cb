# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Tests for alf.environments.load."""

import contextlib
import functools
import sys

import gin
import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv, CartPoleVectorEnv
from tf_agents.environments.random_py_environment import RandomPyEnvironment
from tf_agents.specs import BoundedArraySpec

from alf.data_structures import FIRST, LAST, MID
from alf.environments import GymnasiumEnvironment, PythonEnvironment, load
from alf.environments.load import find_env_fn
from alf.errors import ConfigError
from tests.workers.envs import InfoEnv


@pytest.fixture(autouse=True)
def clear_gin():
    yield
    gin.clear_config()


@pytest.fixture
def register():
    """Registers an id for the time of a test."""
    names = []

    def _register(name, **kwargs):
        gymnasium.register(name, **kwargs)
        names.append(name)

    yield _register
    for name in names:
        del gymnasium.registry[name]


def test_takes_the_vector_environment_of_the_id():
    env = load("CartPole-v1", 3)
    assert isinstance(env, GymnasiumEnvironment)
    assert isinstance(env.gymnasium_env, CartPoleVectorEnv)
    assert env.batch_size == 3
    assert env.gymnasium_env.max_episode_steps == 500
    env.close()


def test_steps_one_after_the_other_where_there_is_none():
    env = load("Acrobot-v1", 3)
    assert isinstance(env, PythonEnvironment)
    assert env.batch_size == 3
    env.close()


@pytest.mark.parametrize("entry_point", ["no_such_package.cartpole:Env", "gymnasium.no:Env"])
def test_steps_one_after_the_other_where_the_vector_one_lacks_a_package(register, entry_point):
    register(
        "AlfTest-v0",
        vector_entry_point=entry_point,
        entry_point="gymnasium.envs.classic_control.cartpole:CartPoleEnv",
    )
    env = load("AlfTest-v0", 2)
    assert isinstance(env, PythonEnvironment)
    env.close()


@pytest.mark.parametrize("num_workers", [0, 1])
def test_calls_the_function_by_which_a_package_registers_its_ids(tmp_path, monkeypatch, num_workers):
    """As of the package MinAtar, which registers nothing when it is imported."""
    info = tmp_path / "lights-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lights\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[gymnasium.envs]\nLights = lights:register\nOther = no_such:f\n")
    (tmp_path / "lights.py").write_text(
        "import gymnasium\n"
        "def register():\n"
        "    gymnasium.register('Lights/Count-v0', entry_point='tests.workers.envs:CountEnv')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    env = load("Lights/Count-v0", 2, num_workers=num_workers)
    env.close()
    assert env.batch_size == 2
    del gymnasium.registry["Lights/Count-v0"], sys.modules["lights"]
    with pytest.raises(ConfigError, match="no Gymnasium environment 'Lights/None-v0'"):
        load("Lights/None-v0", 2)
    del gymnasium.registry["Lights/Count-v0"]


def test_takes_a_vector_entry_point_that_is_a_class(register):
    register("AlfTest-v0", vector_entry_point=CartPoleVectorEnv)
    env = load("AlfTest-v0", 2)
    assert isinstance(env.gymnasium_env, CartPoleVectorEnv)
    env.close()


class LimitsItself(CartPoleEnv):
    def __init__(self, max_episode_steps=2):
        super().__init__()
        self.max_episode_steps = max_episode_steps

    def reset(self, **kwargs):
        self.num_steps = 0
        return super().reset(**kwargs)

    def step(self, action):
        self.num_steps += 1
        *step, _, info = super().step(action)
        return *step, self.num_steps == self.max_episode_steps, info


CALLABLES = {
    "class": CartPoleEnv,
    "module:Class": "gymnasium.envs.classic_control.cartpole:CartPoleEnv",
    "a class with a lower limit": LimitsItself,
    "TF-Agents": lambda: RandomPyEnvironment(
        BoundedArraySpec((2,), np.float32), BoundedArraySpec((), np.int64, 0, 1), episode_end_probability=0.0
    ),
}


@pytest.mark.parametrize("render_mode", [None, "rgb_array"])
@pytest.mark.parametrize("name", ["CartPole-v1", "MountainCar-v0", *CALLABLES])
def test_max_episode_steps(name, render_mode):
    name = CALLABLES.get(name, name)
    env = load(name, 2, seed=0, max_episode_steps=3, num_workers=0, render_mode=render_mode)
    steps = [env.reset(), *(env.step(np.zeros([2], np.int64)) for _ in range(3))]
    env.close()
    np.testing.assert_array_equal(
        [step.step_type for step in steps], [[FIRST] * 2, *[[MID] * 2] * 2, [LAST] * 2]
    )
    np.testing.assert_array_equal([step.discount for step in steps], 1)
    found = find_env_fn(name, max_episode_steps=3)()
    found.reset()
    assert [found.step(0)[3] for _ in range(3)] == [False, False, True]
    found.close()


def test_kwargs_reach_the_environment():
    env = load("CartPole-v1", 2, sutton_barto_reward=True)
    env.reset()
    np.testing.assert_array_equal(env.step(np.zeros([2], np.int64)).reward, 0)
    env.close()
    env = load("Pendulum-v1", 2, g=1.5, num_workers=0)
    assert [e.unwrapped.g for e in env._batch._envs] == [1.5, 1.5]
    env.close()


def test_seed_reaches_the_environment():
    one, same, other, none = (
        load("CartPole-v1", 2, seed=seed).reset().observation for seed in (1, 1, 2, None)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert not np.array_equal(one, none)


def test_module_prefix_imports_what_registers_the_id(tmp_path, monkeypatch):
    (tmp_path / "alf_test_registers.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('AlfTestModule-v0', entry_point="
        "'gymnasium.envs.classic_control.cartpole:CartPoleEnv')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        load("alf_test_registers:AlfTestModule-v0", 1).close()
    finally:
        gymnasium.registry.pop("AlfTestModule-v0", None)
        sys.modules.pop("alf_test_registers", None)


@pytest.mark.parametrize("num_workers", ["auto", 0])
def test_info_keys_reach_the_environment(num_workers):
    with contextlib.closing(load("CartPole-v1", 2, num_workers=num_workers, info_keys=("a", "b/c"))) as env:
        env.reset()
        assert env.info_keys == ("a", "b/c")
        assert np.isnan(env.get_info()["b/c"]).all()
    make = functools.partial(InfoEnv, 5)
    with contextlib.closing(load(make, 2, num_workers=num_workers, info_keys=["step"])) as env:
        env.reset()
        env.step(np.zeros(2, np.int64))
        assert env.get_info()["step"].tolist() == [1, 1]


def test_without_info_keys_those_of_the_adapter_count():
    gin.parse_config("PythonEnvironment.info_keys = ('step',)")
    with contextlib.closing(load(functools.partial(InfoEnv, 5), 2)) as env:
        assert env.info_keys == ("step",)
    with contextlib.closing(load(functools.partial(InfoEnv, 5), 2, info_keys=("code",))) as env:
        assert env.info_keys == ("code",)


def test_is_configurable():
    # Plain "load" would be ambiguous: TF-Agents has one too.
    gin.parse_config("""
      alf.environments.load.name = "CartPole-v1"
      environments.load.batch_size = 3
  """)
    assert load().batch_size == 3


def test_a_callable_may_have_arguments_of_any_name():
    made = []

    def make(num_envs, id):  # noqa: A002
        made.append((num_envs, id))
        return gymnasium.make("CartPole-v1")

    load(make, 1, num_workers=0, num_envs=8, id=3).close()
    assert made == [(8, 3)]


class TakesNumEnvs(CartPoleEnv):
    def __init__(self, num_envs, render_mode=None):
        super().__init__(render_mode=render_mode)
        self.num_envs = num_envs


def test_an_id_may_have_an_argument_that_only_vector_environments_get(register):
    register("AlfTest-v0", entry_point=TakesNumEnvs)
    env = load("AlfTest-v0", 1, num_workers=0, num_envs=8)
    assert env._batch._envs[0].unwrapped.num_envs == 8
    env.close()


STEPS_TOGETHER, STEPS_ONE_BY_ONE = "CartPole-v1", "MountainCar-v0"
WRONG = [
    (lambda: load("CartPol-v1", 2), r"load\.name.*'CartPol-v1'.*did you mean.*CartPole-v1"),
    (lambda: load("CartPole-v9", 2), r"load\.name.*'CartPole-v9'.*did you mean.*CartPole-v1"),
    (lambda: load("CartPole", 2), r"load\.name.*'CartPole'.*did you mean.*CartPole-v1"),
    (lambda: load("Nowhere/Nothing-v3", 2), r"load\.name.*'Nowhere/Nothing-v3'"),
    (lambda: load("not an id!", 2), r"load\.name.*'not an id!'"),
    (lambda: load("", 2), r"load\.name.*''"),
    (lambda: load(None, 2), r"load\.name.*None"),
    (lambda: load(STEPS_TOGETHER, 0), r"load\.batch_size is 0"),
    (lambda: load(STEPS_TOGETHER, 2, max_episode_steps=0), r"load\.max_episode_steps is 0"),
    (lambda: load(STEPS_TOGETHER, 2, info_keys="a"), "load.info_keys is 'a': it must be a tuple"),
    (lambda: load(STEPS_TOGETHER, 2, seed=-1), "load.seed is -1: it must be an integer, at least 0, or None"),
    (lambda: load(STEPS_TOGETHER, 2, num_envs=8), "load.num_envs is 8: .*: did you mean .*load.batch_size"),
    (lambda: load(STEPS_ONE_BY_ONE, 2, num_envs=8), "load.num_envs is 8: .*: did you mean .*load.batch_size"),
    (lambda: find_env_fn(STEPS_ONE_BY_ONE, num_envs=8), "load.num_envs is 8: .*load.batch_size"),
    (lambda: load(STEPS_TOGETHER, 2, id="A-v1"), "load.id is 'A-v1': .*load.name"),
    (
        lambda: load(STEPS_TOGETHER, 2, vectorization_mode="sync"),
        "load.vectorization_mode is 'sync': .*load.num_workers",
    ),
    (
        lambda: load(STEPS_TOGETHER, 2, disable_env_checker=False),
        "load.disable_env_checker is False: load has no such setting",
    ),
]


def test_a_wrong_setting_is_named(subtests):
    for call, message in WRONG:
        with subtests.test(message), pytest.raises(ConfigError, match=message):
            call()


def test_errors_of_what_it_calls_pass_through(register):
    register("AlfTest-v0", vector_entry_point="no_such_package.cartpole:Env")
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        load("AlfTest-v0", 2)
    for name in (STEPS_TOGETHER, STEPS_ONE_BY_ONE):
        with pytest.raises(TypeError, match="no_such_argument"):
            load(name, 2, no_such_argument=1)
