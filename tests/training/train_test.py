# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf.train: from an environment to an agent in one call."""

import importlib
import os
import re
import sys
import threading

import gin
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import alf
from alf.algorithms import ImpalaAlgorithm
from alf.callback import Callback
from alf.config.registry import own_config, run_in_turn
from alf.errors import ConfigError
from alf.evaluation.evaluator import Evaluator
from alf.learner.optimizers import Adam
from alf.runs.saved_run import SavedRun, load_agent, make_env
from alf.runs.what import _name_callable
from alf.training.trainer import Trainer

SMALL = {"num_envs": 2, "num_groups": 1, "unroll_length": 8, "num_minibatches": 1, "recurrence": 8, "seed": 0}
OWN = """
import gymnasium, numpy as np

class Corridor(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.ones(1, np.float32), float(action), True, False, {}
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / "corridor_of_train_test.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("corridor_of_train_test")
    sys.modules.pop("corridor_of_train_test")


def test_an_agent_and_its_run(tmp_path, capsys):
    gin.bind_parameter("Adam.learning_rate", 0.125)  # of the user's own: untouched, and not read
    try:
        agent, run = alf.train(
            "CartPole-v1", steps=64, root_dir=tmp_path / "run", learning_rate=0.25, **SMALL
        )
        assert gin.query_parameter("Adam.learning_rate") == 0.125
    finally:
        gin.clear_config()
    assert run.counters["env_steps"] >= 64 and run.finished
    begins, ends = capsys.readouterr().out.splitlines()
    assert begins == f"trains in {tmp_path / 'run'}"
    steps = run.counters["env_steps"]
    assert ends.startswith(
        f"{tmp_path / 'run'}: ended after {steps} environment steps, num_env_steps=64 reached"
    )
    config = (tmp_path / "run" / "operative_config.gin").read_text()
    assert "Adam.learning_rate = 0.25" in config and "Experiment.algorithm = 'ppo'" in config
    observation = np.full(4, 0.1, np.float32)
    assert agent.predict(observation)[0] == load_agent(tmp_path / "run").predict(observation)[0]
    _, again = alf.train("CartPole-v1", steps=96, root_dir=tmp_path / "run", learning_rate=0.25, **SMALL)
    assert again.restored and 96 <= again.counters["env_steps"] <= 128
    assert repr(agent) == "<Agent of policy: observations float32 [4], actions int64 []>"
    counts = f"{run.counters['iterations']} iterations, {run.counters['env_steps']} env steps"
    assert repr(run) == f"<Trainer of {tmp_path / 'run'}: {counts}>"


def test_a_class_is_written_down_by_its_name(tmp_path, own_module):
    _, run = alf.train(own_module.Corridor, "impala", 32, tmp_path / "run", num_envs=2, num_groups=1)
    config = " ".join((tmp_path / "run" / "operative_config.gin").read_text().split())
    assert re.search(r"load.name = \\? ?'corridor_of_train_test:Corridor'", config)
    with own_config():
        SavedRun(run.root_dir).read_config()
        env = make_env(seed=0, batch_size=3)
    assert env.batch_size == 3 and env.observation_spec().shape == (1,)
    env.close()


def test_a_class_without_a_name_trains(tmp_path, own_module):
    class Local(own_module.Corridor):
        pass

    assert _name_callable(Local) is Local
    agent, _ = alf.train(Local, "impala", 32, tmp_path / "run", num_envs=2, num_groups=1, num_workers=0)
    assert agent.predict(np.zeros(1, np.float32))[0] in (0, 1)


class OwnAlgorithm(ImpalaAlgorithm):
    """Not registered with gin: a class of a notebook."""


def test_an_algorithm_of_the_users_own(tmp_path):
    settings = {"num_envs": 2, "num_groups": 1, "UnrollLearner.optimizer": Adam(learning_rate=1e-3)}
    _, run = alf.train("CartPole-v1", OwnAlgorithm, 32, tmp_path / "run", **settings)
    assert type(run.learner.algorithm) is OwnAlgorithm
    for call in (alf.train, alf.benchmark):
        with pytest.raises(ConfigError, match="OwnAlgorithm needs an optimizer; .*optimizers.Adam"):
            call("CartPole-v1", algorithm=OwnAlgorithm, num_envs=2)
    with pytest.raises(ConfigError, match="train.algorithm is 5: it must be one of 'ppo', .*, a class or"):
        alf.train("CartPole-v1", 5)
    for call, number in ((alf.sweep, {}), (alf.pbt, {"population": 2})):
        with pytest.raises(ConfigError, match="Experiment.algorithm is .*OwnAlgorithm.*: each run is a proc"):
            call("CartPole-v1", tmp_path / "study", algorithm=OwnAlgorithm, **number)


def test_without_environments_there_must_be_data_or_collectors():
    for algorithm in ("ppo", OwnAlgorithm):
        with pytest.raises(ConfigError, match="num_envs is 0: .*offline_buffer, or .*: set one of"):
            alf.train("CartPole-v1", algorithm, num_envs=0)


def test_without_a_directory_it_makes_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    roots = [alf.train("CartPole-v1", "impala", 32, num_envs=2, num_groups=1)[1].root_dir for _ in range(2)]
    assert [os.path.relpath(x) for x in roots] == ["runs/impala_CartPole-v1", "runs/impala_CartPole-v1_2"]


def test_a_gin_file_then_the_run_itself(tmp_path, own_module, monkeypatch):
    """As `alf train FILE.gin` and `alf train DIR` do; then the run is evaluated by its folder."""
    monkeypatch.chdir(tmp_path)
    gin_file = tmp_path / "mine.gin"
    gin_file.write_text(
        "import corridor_of_train_test\n"
        'alf.environments.load.name = "corridor_of_train_test:Corridor"\n'
        'Experiment.algorithm = "impala"\nAdam.learning_rate = %rate\nrate = 0.1\n'
    )
    _, run = alf.train(gin_file, steps=32, num_envs=2, num_groups=1, rate=0.25)
    assert os.path.relpath(run.root_dir) == "runs/mine"
    assert "\nrate = 0.25\n" in (tmp_path / "runs" / "mine" / "operative_config.gin").read_text()
    _, again = alf.train("runs/mine", steps=64)
    assert again.root_dir == run.root_dir and again.restored
    assert again.counters["env_steps"] >= 64
    episodes = alf.evaluate("runs/mine", num_episodes=3)
    assert len(episodes.returns) == 3 and set(episodes.returns) <= {0.0, 1.0}


def test_a_class_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "file_of_train_test.py").write_text(OWN)
    _, run = alf.train("file_of_train_test.py:Corridor", "impala", 32, num_envs=2, num_groups=1)
    assert os.path.basename(run.root_dir) == "impala_file_of_train_test.py-Corridor"
    assert "'file_of_train_test:Corridor'" in (tmp_path / run.root_dir / "operative_config.gin").read_text()
    sys.modules.pop("file_of_train_test")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"algorithm": "ddpg"}, "train.algorithm is 'ddpg': it must be one of 'ppo', 'impala', 'sac', 'td3'"),
        ({"steps": 0}, "train.steps is 0: it must be an integer, at least 1"),
        ({"lerning_rate": 1}, "lerning_rate: there is no such setting; did you mean learning_rate"),
        ({"learning_rate": "x"}, "Adam.learning_rate is 'x': it must be a number"),
    ],
)
def test_a_wrong_argument_is_one_line(tmp_path, arguments, error):
    with pytest.raises(ConfigError, match=error):
        alf.train("CartPole-v1", root_dir=tmp_path / "run", **arguments)
    assert not (tmp_path / "run").exists()


def read_settings(root_dir):
    """The settings of the test below, as the run has written them down."""
    text = (root_dir / "operative_config.gin").read_text()
    names = "Adam.learning_rate", "Experiment.seed", "PPOAlgorithm.discount"
    return {name: float(re.search(rf"^{name} = (\S+)", text, re.MULTILINE)[1]) for name in names}


class Meet(Callback):
    """Waits at the first train iteration for the other runs; notes the learning rates."""

    def __init__(self, barrier):
        self._barrier, self.rates = barrier, set()

    def __deepcopy__(self, memo):
        return self  # gin hands over copies of what is bound

    def on_train_iter(self, trainer, summary):
        self.rates |= {float(summary["learning_rate"])} if summary else set()
        if trainer.counters["iterations"] == 1:
            self._barrier.wait(300.0)


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_two_trainings_at_once_have_their_own_settings(tmp_path, order):
    asked = {
        "a": dict(learning_rate=1e-3, seed=1, gamma=0.9),
        "b": dict(learning_rate=1e-5, seed=2, gamma=0.8),
    }
    barrier, made = threading.Barrier(2), {name: threading.Event() for name in asked}
    meets = {name: Meet(barrier) for name in asked}

    def train(name):
        def make():
            made[name].set()
            return CartPoleEnv()

        settings = {**SMALL, **asked[name], "num_workers": 0, "Trainer.callbacks": [meets[name]]}
        alf.train(make, steps=64, root_dir=tmp_path / name, **settings)

    threads = {name: threading.Thread(target=train, args=(name,)) for name in order}
    for name, thread in threads.items():
        thread.start()
        assert made[name].wait(300.0)  # the parts of one run are made before those of the other
    for thread in threads.values():
        thread.join(300.0)
    for name, settings in asked.items():
        found = read_settings(tmp_path / name)
        assert list(found.values()) == [settings[x] for x in ("learning_rate", "seed", "gamma")]
        assert list(meets[name].rates) == pytest.approx([settings["learning_rate"]])
    assert not gin.config_str() and not gin.config_is_locked()


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_each_of_two_trainings_at_once_repeats(tmp_path, order):
    weights = {}

    def train(seed, root_dir):
        settings = {**SMALL, "seed": seed, "num_workers": 0, "DriverSettings.mode": "lockstep"}
        _, run = alf.train("CartPole-v1", steps=200, root_dir=root_dir, **settings)
        weights[root_dir.name] = [v.numpy() for v in run.learner.trainable_variables]

    for seed in order:
        train(seed, tmp_path / f"alone{seed}")
    threads = [threading.Thread(target=train, args=(seed, tmp_path / f"beside{seed}")) for seed in order]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300.0)
    for seed in order:
        for alone, beside in zip(weights[f"alone{seed}"], weights[f"beside{seed}"], strict=True):
            np.testing.assert_array_equal(alone, beside)


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_nothing_reads_gin_once_the_parts_are_made(tmp_path, monkeypatch, algorithm):
    """Evaluations, copies of weights, summaries and checkpoints have their settings as values."""
    find, train, late = gin.config._get_bindings, Trainer.train, []

    def note(selector, *args, **kwargs):
        if late:
            late.append(selector)
        return find(selector, *args, **kwargs)

    def train_and_note(trainer):
        assert not gin.config_str(), "gin has the program's own configuration again"
        late.append("begins")
        try:
            return train(trainer)
        finally:
            late.append("ends")

    monkeypatch.setattr(gin.config, "_get_bindings", note)
    monkeypatch.setattr(Trainer, "train", train_and_note)
    settings = {
        "Trainer.evaluator": Evaluator,
        "Evaluator.interval_steps": 16,
        "Evaluator.num_episodes": 1,
        "DriverSettings.parameter_update_period": 1,
        "Summaries.interval": 0.0,
        "Checkpoints.interval": 0.0,
        "num_envs": 2,
        "seed": 0,
    }
    _, run = alf.train("CartPole-v1", algorithm, 128, tmp_path / "run", **settings)
    assert late == ["begins", "ends"] and run.eval_return is not None


def test_the_configurations_of_two_threads_are_there_in_turn():
    seen = []

    def other():
        with own_config():
            seen.append("other")

    def helper():
        with own_config():
            assert not gin.config_str()
            seen.append("helper")

    thread = threading.Thread(target=other)
    with own_config():
        gin.bind_parameter("Adam.learning_rate", 0.5)
        thread.start()
        of_this = threading.Thread(target=run_in_turn(helper))
        of_this.start()
        of_this.join(60.0)
        with own_config():
            seen.append("again")
        assert gin.query_parameter("Adam.learning_rate") == 0.5
        seen.append("end")
    thread.join(60.0)
    assert seen == ["helper", "again", "end", "other"]
    # Later the thread of a part waits like any other.
    with own_config():
        context = run_in_turn(helper)
    with own_config():
        late = threading.Thread(target=context)
        late.start()
        late.join(0.2)
        assert late.is_alive() and seen[-1] == "other"
    late.join(60.0)
    assert seen[-1] == "helper"


def test_an_environment_in_a_thread_may_load_an_agent(tmp_path):
    alf.train("CartPole-v1", steps=32, root_dir=tmp_path / "expert", **SMALL)

    def make():
        alf.load_agent(tmp_path / "expert")
        return CartPoleEnv()

    _, run = alf.train(make, steps=32, root_dir=tmp_path / "run", num_workers="thread", **SMALL)
    assert run.finished


def test_an_environment_that_does_not_close_does_not_keep_a_run_from_its_begin(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("alf.drivers.env_making._CLOSE_SECONDS", 0.1)
    release = threading.Event()

    class Stays(CartPoleEnv):
        def close(self):
            release.wait(600.0)

    try:
        settings = {**SMALL, "num_workers": 0, "Monitoring.stop_timeout": 0.1}
        _, run = alf.train(Stays, steps=32, root_dir=tmp_path / "run", **settings)
    finally:
        release.set()
    assert run.finished
    assert "(PythonEnvironment) is still closing" in caplog.text
