# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""All environments of an experiment are split into groups, and only their number can be set."""

import functools

import gin
import pytest

from alf.config.parsing import operative_config, parse_config
from alf.distributed.ray_collectors import RayCollectors
from alf.environments import load, load_pettingzoo
from alf.errors import ConfigError
from alf.runs.groups import split_in_groups
from alf.training import Experiment


@gin.configurable(module="groups_test")
def make_eights(seed, batch_size=8):
    """A constructor of batched environments with a size of its own."""


def make_alone(seed):
    """A constructor of batched environments whose size nobody can choose."""


PARTIAL = functools.partial(load, "CartPole-v1", batch_size=3)
GROUPS = [  # env, num_groups, num_envs, result
    (load, 2, 16, (2, {"batch_size": 8})),
    (load, 2, 1, (1, {"batch_size": 1})),
    (load, 2, 0, (0, {})),
    (load, 3, None, (3, {"batch_size": 1})),
    (make_eights, 3, None, (3, {"batch_size": 8})),
    (make_eights, 3, 12, (3, {"batch_size": 4})),
    (PARTIAL, 2, None, (2, {"batch_size": 3})),
    (make_alone, 2, None, (2, {})),
    (make_alone, 2, 0, (0, {})),
]
REFUSED = [
    (make_alone, 2, 4, "Experiment.num_envs is 4: Experiment.env has no argument `batch_size`; set .*"),
    (load, 2, 7, "Experiment.num_envs is 7: it must be a multiple of Experiment.num_groups = 2"),
    (load_pettingzoo, 2, None, "Experiment.num_envs is None: set it, as Experiment.env needs a `batch_size`"),
]
BOUND = [  # binding, other bindings, message
    ("alf.environments.load.batch_size = 32", [], "set Experiment.num_envs = 64 in its place"),
    ("alf.environments.load.batch_size = 32", ["Experiment.num_envs = 8"], "set Experiment.num_envs = 64"),
    ("alf.environments.load.batch_size = %n", ["n = 3"], "batch_size is 3: set Experiment.num_envs = 6"),
    ("load_pettingzoo.batch_size = 4", ["Experiment.env = @load_pettingzoo"], "set Experiment.num_envs = 8"),
    ("make_eights.batch_size = 4", ["Experiment.env = @make_eights"], "set Experiment.num_envs = 8"),
    ("make_eights.batch_size = 4", ["Experiment.env = @a/make_eights"], "make_eights.batch_size is 4"),
    ("a/make_eights.batch_size = 4", ["Experiment.env = @a/make_eights"], "a/make_eights.batch_size is 4"),
    (
        "alf.environments.load.batch_size = 4",
        ["Experiment.num_envs = 0", "Experiment.num_collectors = 1"],
        "set RayCollectors.num_envs = 8 in its place",
    ),
]


@pytest.mark.parametrize("env, num_groups, num_envs, result", GROUPS)
def test_all_environments_are_split(env, num_groups, num_envs, result):
    assert split_in_groups(env, num_groups, num_envs) == result


@pytest.mark.parametrize("env, num_groups, num_envs, message", REFUSED)
def test_groups_that_do_not_fit_are_one_line(env, num_groups, num_envs, message):
    with pytest.raises(ConfigError, match=f"^{message}$"):
        split_in_groups(env, num_groups, num_envs)


@pytest.mark.parametrize("binding, others, message", BOUND)
def test_the_size_of_a_group_is_not_bound(binding, others, message):
    parse_config([], [binding, *others])
    with pytest.raises(ConfigError, match=message):
        Experiment()


@pytest.mark.parametrize(
    "others",
    [
        ["eval/alf.environments.load.batch_size = 4"],
        ["alf.environments.load.batch_size = 4", "Experiment.env = @make_eights"],
    ],
)
def test_bindings_for_other_environments_stay(others):
    parse_config([], others)
    Experiment()


def test_collectors_alone_have_the_size_of_their_environments():
    collectors = functools.partial(RayCollectors, num_envs=12, num_groups=3)
    assert split_in_groups(load, 2, 0, collectors) == (0, {"batch_size": 4})
    assert split_in_groups(load, 2, 16, collectors) == (2, {"batch_size": 8})
    assert split_in_groups(make_alone, 2, 0, RayCollectors) == (0, {})
    with pytest.raises(ConfigError, match="num_envs is 0: set RayCollectors.num_envs, the environments of"):
        split_in_groups(load, 2, 0, RayCollectors)
    with pytest.raises(ConfigError, match="RayCollectors.num_envs is 13: .* multiple of .*num_groups = 3"):
        split_in_groups(load, 2, 0, functools.partial(collectors, num_envs=13))


@pytest.mark.parametrize("bindings", [["Experiment.num_envs = 4"], []])
def test_a_run_does_not_save_the_size(bindings):
    parse_config([], ["alf.environments.load.name = 'CartPole-v1'", *bindings])
    experiment, envs = Experiment(), []
    experiment._make_envs([1], envs)
    [env] = envs
    env.close()
    assert env.batch_size == (2 if bindings else 1)
    assert "load.name" in operative_config() and "batch_size" not in operative_config()
