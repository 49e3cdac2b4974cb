# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf check: its exit status, and that it checks what gin binds to `load`."""

import inspect
import sys

import gin
import gymnasium
import pytest

import alf
from alf.bin import check as command_of_check
from alf.tools import env_check

pytestmark = pytest.mark.programs

DEFAULTS = dict(num_steps=8)
BROKEN = """
import gin, gymnasium, time


@gin.configurable
class Broken(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, wait=0):
        self.wait = wait

    def reset(self, *, seed=None, options=None):
        return [0, 0], {}

    def step(self, action):
        time.sleep(self.wait)
        return [0, 2], 0.5, True, False, {}


gymnasium.register("Broken-v0", Broken)
"""
GIN = 'import broken_env_module\nalf.environments.load.name = "Broken-v0"\n'


@pytest.fixture
def check(command, tmp_path):
    """A function that runs the command; `config` is the text of a gin file."""

    def run(config=None, **values):
        if config is not None:
            (tmp_path / "broken_env_module.py").write_text(BROKEN)
            (tmp_path / "mine.gin").write_text(config)
            values["what"] = [str(tmp_path / "mine.gin"), *filter(None, [values.get("what")])]
        return command(command_of_check, **{**DEFAULTS, **values})

    return run


OF_LOAD = "alf.environments.load."
BROKEN_CLASS = "import broken_env_module\nalf.environments.load.name = @Broken\n"
REPORTS = {
    "a name": (
        dict(what="MountainCar-v0", settings=["Experiment.num_envs = 14", f"{OF_LOAD}max_episode_steps = 4"]),
        0,
        ["8 random steps, 2 episodes ended\nproblems: none\n", "7 steps take"],
    ),
    # The constructor knows none of these.
    "settings of the batch": (
        dict(
            what="MountainCar-v0",
            settings=[
                f"{OF_LOAD}{setting}"
                for setting in (
                    "seed = None",
                    "num_workers = 3",
                    "render_mode = 'rgb_array'",
                    "max_random_steps = 2",
                )
            ],
        ),
        0,
        ["problems: none", "32 steps take"],
    ),
    "a problem": (
        dict(config=GIN),
        1,
        ["\nproblems:\n  step 1: the observation has values from 0 to 2, beyond"],
    ),
    # Another problem: that it cannot render is none.
    "no rendering": (
        dict(config=BROKEN_CLASS, settings=[f"{OF_LOAD}render_mode = 'rgb_array'"]),
        1,
        ["the observation has values"],
    ),
}


@pytest.mark.parametrize("values, expected, texts", REPORTS.values(), ids=REPORTS)
def test_the_report(check, values, expected, texts):
    status, out, errors = check(**values)
    assert (status, errors) == (expected, [])
    assert [text for text in texts if text not in out] == []


@pytest.mark.parametrize("config", [GIN, "import broken_env_module\nExperiment.env = @Adam"])
def test_the_name_counts_more_than_the_gin_file(check, config):
    status, out, errors = check(config, what="MountainCar-v0")
    assert (status, errors) == (0, []) and "problems: none" in out


def test_a_class_of_a_module_in_the_current_directory(check, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    (tmp_path / "env_here.py").write_text(BROKEN.replace("Broken", "Here"))
    status, out, errors = check(what="env_here:Here")
    assert (status, errors) == (1, []) and "the observation has values from 0 to 2" in out


def test_the_defaults_are_those_of_the_function():
    parameters = inspect.signature(env_check.check).parameters
    for name in ("num_steps", "max_seconds", "step_timeout", "start_timeout"):
        assert command_of_check.FLAGS[name].default == parameters[name].default, name


def test_alf_check_in_python(tmp_path, monkeypatch):
    """It takes what the command takes, and an environment of the caller's; gin is as it was."""
    gin.clear_config()
    monkeypatch.setattr("sys.path", list(sys.path))
    report = alf.check("MountainCar-v0", num_steps=8, max_episode_steps=4, num_envs=14)
    assert (report.problems, report.num_steps, report.num_episodes) == ([], 8, 2)
    assert "7 steps take" in report.num_workers_reason
    report = alf.check(gymnasium.make("MountainCar-v0"), num_steps=8)
    assert (report.problems, report.num_steps) == ([], 8)
    (tmp_path / "broken_env_module.py").write_text(BROKEN)
    (tmp_path / "mine.gin").write_text(GIN)
    report = alf.check(tmp_path / "mine.gin", num_steps=8)
    assert "the observation has values from 0 to 2" in report.problems[0]
    assert not gin.config._CONFIG
    for given, message in (
        (dict(num_steps=0), "^check.num_steps is 0"),
        (dict(num_step=9), "did you mean num_steps"),
        ({"Summaries.interval": 3}, "nothing reads the gin"),
    ):
        with pytest.raises(alf.ConfigError, match=message):
            alf.check("CartPole-v1", **given)


def test_one_that_hangs_is_one_line(check):
    config = GIN + "alf.environments.load.wait = 1000\n"
    status, out, errors = check(config, step_timeout=0.3)
    assert (status, errors) == (1, [])
    [line] = [line for line in out.splitlines() if "step_timeout" in line]
    assert line.startswith("  step 1: the worker process") and line.endswith("within step_timeout=0.3 s")


WRONG = [
    (dict(), "name the environment (alf check CartPole-v1), or FILE.gin"),
    (
        dict(config=""),
        'alf.environments.load.name is missing: write alf.environments.load.name = "CartPole-v1"',
    ),
    (dict(what="NoSuch-v0"), "load.name: no Gymnasium environment 'NoSuch-v0'"),
    (
        dict(what="CartPole-v1", settings=["Summaries.interval = 3"]),
        "nothing reads the gin",
    ),
    (dict(config="import broken_env_module\nExperiment.env = @Adam"), "Experiment.env is not"),
    (dict(what="CartPole-v1", num_steps=0), "--num_steps is 0"),
    (dict(what="CartPole-v1", step_timeout=0.0), "--step_timeout is 0.0"),
    (dict(what="CartPole-v1", start_timeout=0.0), "--start_timeout is 0.0"),
    (dict(what="CartPole-v1", num_steps=10**30), "--num_steps is 1000"),
    (dict(what="CartPole-v1", step_timeout=1e30), "--step_timeout is 1e+30: it must be a number above 0"),
    (dict(what="CartPole-v1", start_timeout=1e30), "--start_timeout is 1e+30"),
    (dict(what="CartPole-v1", max_seconds=float("nan")), "--max_seconds is nan"),
    (
        dict(what="CartPole-v1", settings=["alf.environments.load.max_episode_steps = 0"]),
        "alf.environments.load.max_episode_steps is 0",
    ),
    (dict(what="CartPole-v1", max_seconds=0.0), "--max_seconds is 0.0"),
]


def test_a_wrong_setting_is_status_2(check, subtests):
    for values, text in WRONG:
        with subtests.test(text[:40]):
            status, out, errors = check(**values)
            assert (status, out) == (2, "")
            assert len(errors) == 1 and errors[0].startswith(f"error: {text}"), errors


@pytest.mark.parametrize("name, hint", [("other", ""), ("wait_long", "; did you mean Broken.wait = 2 ?")])
def test_an_argument_that_no_setting_of_load_is_meant_by(check, name, hint):
    config = "import broken_env_module\nalf.environments.load.name = @Broken\n"
    status, out, errors = check(config, settings=[f"alf.environments.load.{name} = 2"])
    assert (status, out) == (2, "")
    assert errors == [f"error: Broken: Broken.__init__() got an unexpected keyword argument {name!r}{hint}"]


def test_an_argument_that_the_constructor_does_not_know_is_a_wrong_setting(check):
    status, out, errors = check(what="CartPole-v1", settings=["alf.environments.load.num_worker = 2"])
    assert (status, out, len(errors)) == (2, "", 1)
    assert "unexpected keyword argument 'num_worker'" in errors[0]
    assert errors[0].endswith("; did you mean alf.environments.load.num_workers = 2 ?")
