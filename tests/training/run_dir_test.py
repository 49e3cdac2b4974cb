# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A run's directory: what is refused, what is written, and what a checkpoint brings back."""

import functools
import os
import re
import subprocess

import gin
import numpy as np
import pytest
import tensorflow as tf

import alf.learner.optimizers  # noqa: F401  (for gin)
from alf.algorithms import ActorCriticPolicy, ImpalaAlgorithm
from alf.data_structures import Experience
from alf.drivers.metrics import AverageReturn, NumberOfEpisodes
from alf.errors import ConfigError, DivergedError
from alf.nest_utils import to_tensor_spec
from alf.networks import ActorCriticNetwork
from alf.policies.action_distributions import ActionInfo
from alf.testing.toy_environments import MatchObservationEnvironment
from alf.training import run_dir
from alf.training.run_dir import Checkpointer, RunDir, check_dead_bindings, git_revision
from alf.training.stop_criteria import StopCriteria


def test_makes_the_directory_and_leaves_no_probe(tmp_path):
    path = RunDir(str(tmp_path / "a" / "b")).path
    assert os.listdir(path) == []


@pytest.mark.parametrize("path", ["file", "file/below"])
def test_a_path_that_cannot_be_written_to_is_named(tmp_path, path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"root_dir '.*file.*' cannot be written to"):
        RunDir(str(tmp_path / path))
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_directory_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigError, match="cannot be written to"):
        RunDir(str(tmp_path))


def read_config(learning_rate=0.1, num_iterations=3, dead=""):
    """Parses a configuration and uses all of it but `dead`."""
    gin.clear_config()
    gin.parse_config(f"SGD.learning_rate = {learning_rate}\n{dead}")
    gin.parse_config(f"StopCriteria.num_iterations = {num_iterations}")
    alf.learner.optimizers.SGD()
    StopCriteria()


def test_the_same_config_is_accepted_and_another_one_is_shown(tmp_path):
    read_config()
    directory = RunDir(str(tmp_path))
    directory.check_config()
    directory.write_config()
    read_config()
    directory.check_config()
    read_config(num_iterations=5)  # a run may go on for longer
    directory.check_config()
    read_config(learning_rate=0.2)
    with pytest.raises(ConfigError, match="another config.*SGD.learning_rate is 0.2 here, 0.1 there"):
        directory.check_config()


def test_a_setting_that_only_one_of_two_configs_has_is_a_difference(tmp_path):
    directory = RunDir(str(tmp_path))
    read_config()
    directory.write_config()
    read_config()
    alf.learner.optimizers.RMSprop()
    with pytest.raises(ConfigError, match="RMSprop.* here, None there"):
        directory.check_config()


def test_long_values_are_compared_whole(tmp_path):
    # Gin breaks long lines.
    sizes = tuple(range(100, 160))
    directory = RunDir(str(tmp_path))

    def read(last):
        gin.clear_config()
        gin.parse_config(f"ActorCriticNetwork.fc_layer_params = {(*sizes[:3], last)}")
        gin.parse_config(f"A = {list(sizes)}\nSGD.name = %A")
        gin.query_parameter("ActorCriticNetwork.fc_layer_params")
        ActorCriticNetwork(tf.TensorSpec((2,), tf.float32), 2)

    read(7)
    directory.write_config()
    read(7)
    directory.check_config()
    read(8)
    with pytest.raises(ConfigError, match="fc_layer_params"):
        directory.check_config()


def test_written_config_can_be_read_by_gin(tmp_path):
    read_config(learning_rate=0.25)
    directory = RunDir(str(tmp_path))
    directory.write_config()
    gin.clear_config()
    gin.parse_config_file(os.path.join(directory.path, "operative_config.gin"))
    assert float(alf.learner.optimizers.SGD().learning_rate) == 0.25
    assert sorted(os.listdir(tmp_path)) == ["git_revision.txt", "operative_config.gin"]


@pytest.mark.parametrize(
    "binding, name",
    [
        ("RMSprop.rho = 0.5", "alf.optimizers.RMSprop.rho"),
        ("eval/SGD.momentum = 0.5", "eval/alf.optimizers.SGD.momentum"),
    ],
)
def test_dead_bindings_are_named(binding, name):
    read_config()
    check_dead_bindings()
    read_config(dead=binding)
    with pytest.raises(ConfigError, match=f"nothing reads the gin binding {re.escape(name)}$"):
        check_dead_bindings()


def test_a_used_macro_is_no_dead_binding():
    gin.parse_config("RATE = 0.5\nSGD.learning_rate = %RATE")
    alf.learner.optimizers.SGD()
    check_dead_bindings()


def test_git_revision(tmp_path, monkeypatch):
    def git(*args):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *args],
            cwd=tmp_path,
            check=True,
            capture_output=True,
            timeout=60,
        )

    module = tmp_path / "run_dir.py"
    module.write_text("")
    monkeypatch.setattr(run_dir, "__file__", str(module))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_revision() == "unknown"
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    assert re.fullmatch("[0-9a-f]{40}", git_revision())
    module.write_text("# changed")
    assert re.fullmatch("[0-9a-f]{40}-dirty", git_revision())
    monkeypatch.setenv("PATH", "")
    assert git_revision() == "unknown"


SPECS = tuple(
    to_tensor_spec(s)
    for s in (
        MatchObservationEnvironment(1).observation_spec(),
        MatchObservationEnvironment(1).action_spec(),
    )
)


def make_algorithm(seed=0, units=8, learning_rate=0.01):
    network_ctor = lambda spec, size: ActorCriticNetwork(spec, size, (units,), seed=seed)  # noqa: E731
    algorithm = ImpalaAlgorithm(
        *SPECS,
        tf.keras.optimizers.legacy.Adam(learning_rate),
        functools.partial(ActorCriticPolicy, network_ctor=network_ctor),
    )
    algorithm.set_exp_replayer("one_time")
    return algorithm


def train(algorithm, seed=0):
    rng = np.random.default_rng(seed)
    shape = (1, 4, 2)
    floats = lambda *more: tf.constant(rng.normal(size=(*shape, *more)), tf.float32)  # noqa: E731
    experience = Experience(
        step_type=tf.ones(shape, tf.int32),
        reward=floats(),
        discount=tf.ones(shape),
        observation=floats(3),
        prev_action=tf.zeros(shape, tf.int64),
        env_id=tf.zeros(shape, tf.int32),
        action=tf.constant(rng.integers(0, 3, shape)),
        info=ActionInfo(floats(3), tf.constant(rng.integers(0, 3, shape))),
        policy_version=tf.zeros(shape, tf.int64),
    )
    algorithm.observe(experience)
    algorithm.train()


def state(algorithm):
    """Every variable: weights, counters, then Adam's m and v of every weight."""
    optimizer, weights = algorithm.optimizer, algorithm.trainable_variables
    optimizer._create_all_weights(weights)
    slots = [optimizer.get_slot(w, name) for name in ("m", "v") for w in weights]
    variables = [*algorithm.variables, optimizer.iterations, *slots]
    assert len(slots) + 1 == len(optimizer.variables())
    return [v.numpy() for v in variables]


def make_metrics():
    return [NumberOfEpisodes(), AverageReturn(3)]


def test_a_checkpoint_brings_everything_back(tmp_path):
    metrics = make_metrics()
    saved = Checkpointer(str(tmp_path), algorithm := make_algorithm(seed=0), metrics)
    assert saved.restore() is None
    for seed in range(3):
        train(algorithm, seed)
    saved.counters.update(iterations=3, env_steps=77)
    metrics[0].set_state(5)
    metrics[1].set_state([1.0, 2.0, 3.5])
    path = saved.save()
    assert path.endswith("ckpt-3")

    restored_metrics = make_metrics()
    other = make_algorithm(seed=1)
    restored = Checkpointer(str(tmp_path), other, restored_metrics)
    assert restored.counters == {"iterations": 0, "env_steps": 0}
    assert restored.restore() == path
    assert restored.counters == {"iterations": 3, "env_steps": 77}
    assert [m.get_state() for m in restored_metrics] == [5, [1.0, 2.0, 3.5]]
    for a, b in zip(state(algorithm), state(other), strict=True):
        np.testing.assert_array_equal(a, b)
    # Adam's iterations, m and v among them, and not zeros.
    assert other.train_step_counter.numpy() == other.optimizer.iterations.numpy() == 3
    assert all(slot.any() for slot in state(other)[-8:])
    # Both go on in the same way.
    train(algorithm, 9)
    train(other, 9)
    for a, b in zip(state(algorithm), state(other), strict=True):
        np.testing.assert_array_equal(a, b)


def test_restoring_before_the_slots_exist_is_enough(tmp_path):
    saved = Checkpointer(str(tmp_path), algorithm := make_algorithm(0), [])
    train(algorithm)
    saved.save()
    other = make_algorithm(1)
    Checkpointer(str(tmp_path), other, []).restore()
    for x in (algorithm, other):
        train(x, 1)  # makes other's slots inside the graph
    for a, b in zip(state(algorithm), state(other), strict=True):
        np.testing.assert_array_equal(a, b)


def test_keeps_the_newest(tmp_path):
    checkpointer = Checkpointer(str(tmp_path), make_algorithm(), [], max_to_keep=2)
    for iterations in (1, 5, 9, 9):
        checkpointer.counters["iterations"] = iterations
        checkpointer.save()
    names = {name for name in os.listdir(tmp_path) if name.endswith(".index")}
    assert names == {"ckpt-5.index", "ckpt-9.index"}
    assert Checkpointer(str(tmp_path), make_algorithm(), []).restore().endswith("ckpt-9")


def test_a_checkpoint_of_another_network_is_refused(tmp_path):
    Checkpointer(str(tmp_path), make_algorithm(units=8), []).save()
    with pytest.raises(ConfigError, match="ckpt-0 does not fit this algorithm"):
        Checkpointer(str(tmp_path), make_algorithm(units=9), []).restore()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_not_saved(tmp_path, value):
    algorithm = make_algorithm()
    checkpointer = Checkpointer(str(tmp_path), algorithm, [])
    before = checkpointer.save()
    variable = algorithm.trainable_variables[0]
    variable.assign(tf.fill(variable.shape, value))
    checkpointer.counters["iterations"] = 1
    with pytest.raises(DivergedError, match="not finite, so no checkpoint was written"):
        checkpointer.save()
    assert tf.train.latest_checkpoint(str(tmp_path)) == before
