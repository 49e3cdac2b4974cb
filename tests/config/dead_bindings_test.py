# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A binding of a file that nothing reads is a warning; one of a flag or an argument is an error."""

import re

import gin
import pytest

from alf.config import registry
from alf.config.parsing import bind, check_dead_bindings, parse_config
from alf.config.registry import own_config
from alf.errors import ConfigError
from tests.example_runs import build

registry.import_settings()
BASE = "Adam.epsilon = 0.1\nRMSprop:\n  rho = 0.5\n  momentum = 0.5\nsmall = 1\na/SGD.momentum = %small\n"
UNREAD = "Adam.epsilon, RMSprop.momentum, RMSprop.rho, a/SGD.momentum"


@pytest.fixture(autouse=True)
def fresh_config():
    with own_config():
        yield


@pytest.fixture
def read(tmp_path):
    """A function that reads `top`, the text of the user's file beside base.gin, and bindings."""

    def read_top(top, params=(), name="top.gin"):
        (tmp_path / "base.gin").write_text(BASE)
        (tmp_path / "middle.gin").write_text("include 'base.gin'\n")
        (tmp_path / name).write_text(top)
        parse_config([str(tmp_path / name)], params)

    return read_top


def find_errors():
    """The names in the error of `check_dead_bindings`, a text; "" without an error."""
    try:
        check_dead_bindings()
    except ConfigError as error:
        return str(error).removeprefix("nothing reads the gin binding ")
    return ""


@pytest.mark.parametrize(
    "top, params, errors",
    [
        (BASE, [], ""),
        ("include 'base.gin'", [], ""),
        ("include 'middle.gin'", [], ""),
        ("include 'base.gin'", ["a/alf.optimizers.SGD.momentum = 0.5"], "a/SGD.momentum"),
        (BASE, ["Adam.epsilon = 0.1", "b/Adam.epsilon = 0.1"], "Adam.epsilon, b/Adam.epsilon"),
    ],
)
def test_what_a_file_has_is_a_warning(read, top, params, errors, caplog):
    read(top, params)
    assert find_errors() == errors
    warned = [x for x in UNREAD.split(", ") if x not in errors.split(", ")]
    assert re.findall("nothing reads (.*): other", caplog.text) == [", ".join(warned)]
    assert "macro" not in caplog.text and "given_bindings" not in caplog.text


def test_what_is_bound_later_must_be_read(read):
    read(BASE)
    parse_config([], ["RMSprop.rho = 0.5"])
    bind({"SGD.momentum": 0.5})
    assert find_errors() == "RMSprop.rho, SGD.momentum"


def test_the_file_of_a_study_says_which_bindings_are_of_flags(read):
    """Its text is what another process reads."""
    read(BASE, ["SGD.momentum = 0.5"])
    text = gin.config_str()
    for params, errors in ([], "SGD.momentum"), (["Adam.epsilon = 0.3"], "Adam.epsilon, SGD.momentum"):
        with own_config():
            read(text, params, name="config.gin")
            assert find_errors() == errors


SOON = "ReplayLearner.initial_collect_steps = 1"
SYNC = "Experiment.driver = @SyncOffPolicyDriver"
OFFLINE = ["Experiment.num_envs = 0", "Experiment.offline_buffer = {buffer!r}"]
NO_ENV = "environments.load.name"
UNIFORM, PRIORITIZED = 'Experiment.exp_replayer = "uniform"', 'Experiment.exp_replayer = "prioritized"'
OF_PRIORITIZED = "PrioritizedReplayer.alpha, PrioritizedReplayer.beta, PrioritizedReplayer.capacity"
# An example, a binding, and the names in the warning.
CHANGED = {
    "driver": ("appo_cartpole", [SYNC], ""),
    "replayer and training": (
        "appo_cartpole",
        [UNIFORM, "ReplayLearner.optimizer = @Adam()"],
        "UnrollLearner.num_epochs, UnrollLearner.num_minibatches, UnrollLearner.optimizer",
    ),
    "algorithm": (
        "appo_cartpole",
        ["Experiment.algorithm = @ImpalaAlgorithm"],
        ", ".join(f"PPOAlgorithm.{x}" for x in ("clip_range", "discount", "entropy_weight", "lambda_")),
    ),
    "prioritized": ("sac_pendulum", [PRIORITIZED, SOON], "UniformReplayer.capacity"),
    "uniform": ("dqn_cartpole", [UNIFORM, SOON], OF_PRIORITIZED),
    "offline": ("dqn_cartpole", [*OFFLINE, SOON], f"{OF_PRIORITIZED}, {NO_ENV}"),
}


@pytest.fixture(scope="module")
def buffer(tmp_path_factory):
    """The path of the replay buffer of a short run of dqn_cartpole.gin."""
    root_dir = tmp_path_factory.mktemp("collected")
    with own_config():
        params = ["Checkpoints.replay_buffer = True", SOON, "StopCriteria.num_iterations = 3"]
        build("alf:dqn_cartpole.gin", root_dir, params).train()
    return str(root_dir / "checkpoints" / "replay_buffer.npz")


@pytest.mark.parametrize("case", CHANGED)
def test_an_example_trains_with_other_parts(case, buffer, tmp_path, caplog):
    name, params, warned = CHANGED[case]
    params = [x.format(buffer=buffer) for x in params]
    trainer = build(f"alf:{name}.gin", tmp_path, [*params, "StopCriteria.num_iterations = 2"])
    assert trainer.train() == (True, "num_iterations=2 reached")
    assert int(trainer.learner.progress.updates) > 0
    assert re.findall("nothing reads (.*): other", caplog.text) == [warned] * bool(warned)


def test_what_the_user_adds_to_an_example_must_be_read(tmp_path):
    params = [UNIFORM, "PrioritizedReplayer.alpha = 0.6"]
    with pytest.raises(ConfigError, match="^nothing reads the gin binding PrioritizedReplayer.alpha\\b"):
        build("alf:dqn_cartpole.gin", tmp_path, params)
