# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""An environment that is returned twice is refused in one line: each would step the other's episode."""

import contextlib
import gc

import gymnasium
import pytest

import alf
from alf.drivers import EnvSpecs
from alf.environments import (
    BatchedEnvironment,
    GymnasiumEnvironment,
    PythonEnvironment,
    load,
    load_pettingzoo,
)
from alf.environments.batched_environment import EnvironmentWrapper
from alf.errors import ConfigError
from alf.testing.fakes import FakeEnvironment
from alf.workers import EnvBatch, WorkerPool
from tests.workers.envs import CountEnv

MESSAGE = r"^environment \d is an object that is another environment already, \w+: return a new one at each"


def wrapped(env):
    return gymnasium.wrappers.TimeLimit(env, 7)


def make_batch(env_fns):
    return EnvBatch(env_fns, range(len(env_fns)))


@pytest.mark.parametrize("wrap", [lambda env: env, wrapped])
def test_within_a_batch(wrap):
    env = CountEnv()
    with pytest.raises(ConfigError, match=MESSAGE):
        make_batch([CountEnv, lambda: wrap(env), CountEnv, lambda: wrap(env)])
    make_batch([CountEnv, lambda: wrap(env)]).close()  # the failed one holds none of them


def test_within_a_worker():
    env = CountEnv()
    with pytest.raises(ConfigError, match=MESSAGE):
        WorkerPool([lambda: env] * 2, [0, 1], 1)


def test_across_batches_until_one_is_closed_or_gone():
    env = CountEnv()
    first = make_batch([lambda: env])
    with pytest.raises(ConfigError, match=MESSAGE):
        make_batch([lambda: env])
    first.close()
    second = make_batch([lambda: env])
    del second
    gc.collect()
    make_batch([lambda: env]).close()


def test_an_environment_of_tf_agents():
    tf_agents = pytest.importorskip("tf_agents.environments.random_py_environment")
    from tf_agents.specs import BoundedArraySpec

    spec = BoundedArraySpec((), "int32", 0, 1)
    env = tf_agents.RandomPyEnvironment(spec, spec)
    with pytest.raises(ConfigError, match=MESSAGE):
        make_batch([lambda: env] * 2)


def test_games():
    mpe = pytest.importorskip("mpe2.simple_spread_v3")
    game = mpe.parallel_env()
    with pytest.raises(ConfigError, match=MESSAGE):
        load_pettingzoo(lambda: game, 2, num_workers=0)
    with contextlib.closing(load_pettingzoo(lambda: game, 1, num_workers=0)):
        with pytest.raises(ConfigError, match=MESSAGE):
            load_pettingzoo(lambda: game, 1, num_workers=0)


def test_a_vector_environment():
    env = CountEnv()
    mode = {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}
    with pytest.raises(ConfigError, match="is an object that is another environment already"):
        GymnasiumEnvironment(gymnasium.vector.SyncVectorEnv([lambda: env] * 2, **mode))
    vector = gymnasium.vector.SyncVectorEnv([CountEnv], **mode)
    with contextlib.closing(GymnasiumEnvironment(vector)):
        with pytest.raises(ConfigError, match="is an object that is another environment already"):
            GymnasiumEnvironment(vector)
        with pytest.raises(ConfigError, match=MESSAGE):
            PythonEnvironment([lambda: vector.envs[0]], 0, 0)


def test_one_batched_environment_in_several_groups():
    env = FakeEnvironment(2)
    for second in (env, EnvironmentWrapper(env)):
        with pytest.raises(ConfigError, match=r"^envs\[1\] \(.*\) is another one of envs, too"):
            EnvSpecs([EnvironmentWrapper(env), second])
    assert isinstance(env, BatchedEnvironment)
    EnvSpecs([FakeEnvironment(2), FakeEnvironment(2)])


@pytest.mark.parametrize("sizes", [dict(num_envs=4, num_groups=1), dict(num_envs=2, num_groups=2)])
def test_a_run_is_refused_in_one_line(tmp_path, sizes):
    env = CountEnv()
    with pytest.raises(ConfigError, match=f"{MESSAGE} call$"):
        alf.train(lambda: env, steps=64, root_dir=tmp_path / "run", num_workers=0, **sizes)
    with contextlib.closing(load(lambda: env, 1, num_workers=0)):
        pass
