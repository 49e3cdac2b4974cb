# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What each command says of itself: --help, --helpfull, --version, flags that are wrong; and alf settings."""

import re
import subprocess
import sys

import pytest

import alf
from alf.bin import settings
from alf.bin.main import COMMANDS
from tests.bin.forks import SECONDS
from tests.programs import ALF, ROOT, environment

pytestmark = pytest.mark.programs

OWN_FLAGS = {
    "train": "algorithm output ray_address steps",
    "sweep": "algorithm grid max_cores max_memory output ray_address replicate run_cores run_gpus run_memory "
    "seeds steps",
    "pbt": "algorithm max_cores max_memory output population ray_address run_cores run_gpus run_memory steps",
    "evaluate": "checkpoint json num_episodes parallel_envs policy sample seed",
    "play": "checkpoint num_episodes output overwrite policy sample seed",
    "export": "checkpoint onnx output overwrite policy sample tf_agents tflite",
    "plot": "metric output score_range scores smoothing target title",
    "benchmark": "algorithm checkpoint measure_seconds sample_only steps",
    "check": "max_seconds num_steps start_timeout step_timeout",
    "replicate": "output",
    "settings": "",
}


@pytest.fixture
def run(forks, tmp_path):
    """Runs `alf` with arguments in a fork."""
    return lambda *args: forks.run(ALF, *args, cwd=tmp_path)


def test_alf_lists_its_commands(run):
    done = run()
    assert (done.status, done.err) == (0, "")
    assert re.findall(r"^    (\w+) {2,}\w", done.out, re.MULTILINE) == list(COMMANDS) == list(OWN_FLAGS)
    for arguments in (["--help"], ["-h"], ["-?"], ["--helpshort"], ["help"]):
        assert run(*arguments) == done
    assert run("--version") == (0, f"ALF {alf.__version__}\n", "")


def test_a_command_that_is_not_there_is_one_line(run):
    assert run("trian") == (2, "", "error: alf has no command 'trian'; did you mean alf train ?\n")
    done = run("--env=CartPole-v1", "train")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: alf has no command '--env=CartPole-v1'; it has train, sweep, pbt, ")


def test_help_lists_the_commands_own_flags(run, subtests):
    for name, own in OWN_FLAGS.items():
        with subtests.test(name):
            done = run(name, "--nothing", "--help")
            assert (done.status, done.err) == (0, "")
            flags = re.findall(r"^  (?:-\w, )?--(\w+)", done.out, re.MULTILINE)
            assert flags == [*own.split(), "helpfull"]
            assert f"`alf {name} " in done.out.splitlines()[0]


def test_all_commands_take_the_same_flags_for_help(run):
    done = run("evaluate", "--help")
    assert "alf evaluate DIR" in done.out
    for text in ("--policy=POLICY\n", "--sample\n", "--seed=SEED\n"):  # of a text, none, a number
        assert f"  {text}" in done.out
    assert "  -o, --output=OUTPUT\n" in run("export", "--help").out
    assert run("evaluate", "-?") == run("evaluate", "-h") == run("evaluate", "--helpshort") == done
    done = run("evaluate", "--helpfull")
    assert (done.status, done.err) == (0, "")
    assert "--verbosity" in done.out and "--policy" in done.out


WITHOUT_SETTINGS = ("plot", "replicate", "settings")
WHAT = {"sweep": ["CartPole-v1", "-o", "x"], "pbt": ["CartPole-v1", "-o", "x", "--population=2"]}
WHAT |= {"export": ["alf:CartPole-v1", "-o", "x"]}
WHAT |= {name: ["alf:CartPole-v1"] for name in ("evaluate", "play")}


def test_all_unknown_flags_are_one_line_of_each_command(run, subtests):
    for name in OWN_FLAGS:
        with subtests.test(name):
            done = run(
                name, *WHAT.get(name, ["CartPole-v1"]), "--nope", "--Nopes.x", "3", "--verbosity=1", "--no=3"
            )
            assert (done.status, done.out) == (2, "")
            (line,) = done.err.splitlines()[-1:]
            kind = "flag" if name in WITHOUT_SETTINGS else "setting"
            assert line.startswith(f"error: --nope: there is no such {kind}")
            assert re.findall(r"--([\w.]+): ", line) == ["nope", "Nopes.x", "no"]


WRONG_FLAGS = {
    ("train", "--output"): "Missing value for flag --output",
    ("evaluate", "oops", "more"): "unexpected argument 'more': name one",
    ("evaluate",): "name the folder of a run, or alf:TASK",
    ("evaluate", "alf:oops"): "ALF has no gin file 'alf:oops'",
    ("train", "oops.gin"): "there is no file 'oops.gin'",
    ("train",): "nothing says what to train: name an environment (alf train CartPole-v1)",
    ("sweep", "-o", "x"): "nothing says what to train: name an environment (alf train CartPole-v1)",
    ("sweep", "CartPole-v1"): "-o is missing: name the folder to write to",
    ("pbt", "-o", "x", "--population=2"): "nothing says what to train: name an environment",
    ("train", "CartPole-v1", "--step=9"): "--step: there is no such flag; did you mean --steps ?",
    (
        "sweep",
        "CartPole-v1",
        "-o",
        "x",
        "--max_core",
        "2",
    ): "--max_core: there is no such flag; did you mean --max",
    (
        "benchmark",
        "CartPole-v1",
        "--samples_only",
    ): "--samples_only: there is no such flag; did you",
    ("plot", "x", "--outputs=x.png"): "--outputs: there is no such flag; did you mean --output ?",
    ("train", "CartPole-v1", "--num_envs"): "--num_envs has no value: write --num_envs=VALUE",
    ("train", "CartPole-v1", "--driver=@Nothing"): "--driver=@Nothing: No configurable matching reference",
    ("train", "--verbosity=a: b"): "flag --verbosity=a: b: it must be an integer",
    ("play", "--overwrite=maybe"): "flag --overwrite=maybe: write --overwrite or --nooverwrite",
    ("check", "--num_steps=1e30"): "flag --num_steps=1e30: it must be an integer",
    ("check", "--max_seconds=soon"): "flag --max_seconds=soon: it must be a number",
    ("evaluate", "--num_episodes=0"): "flag --num_episodes=0: 0 is not a positive",
    ("evaluate", "--seed=-1"): "flag --seed=-1: ",
    ("plot", "--scores=mean"): "flag --scores=mean: value should be one of <last|best>",
    ("settings", "Adam", "oops"): "unexpected argument 'oops': name one",
}


def test_a_wrong_flag_is_one_line(run, subtests):
    for (name, *args), message in WRONG_FLAGS.items():
        with subtests.test(" ".join(args), command=name):
            done = run(name, *args)
            assert (done.status, done.out) == (2, "")
            (line,) = done.err.splitlines()
            assert line.startswith(f"error: {message}")


def test_settings(run):
    everything = run("settings")
    assert everything.status == 0
    for name, value in {
        "Experiment.num_groups": 2,
        "UnrollLearner.optimizer": None,
        "Adam.learning_rate": 0.001,
    }.items():
        assert re.search(rf"^  {name}: .* = {value}$", everything.out, re.MULTILINE), name
    some = run("settings", "stopcrit")
    assert some.status == 0 and some.out.startswith("StopCriteria\n") and some.out in everything.out
    assert "Experiment" not in re.findall(r"^\w+", some.out, re.MULTILINE)


def test_settings_by_name(command):
    status, out, (error,) = command(settings, "nope")
    assert (status, out) == (2, "")
    assert error == "error: there is no setting 'nope'; `alf settings` lists them"
    status, out, (error,) = command(settings, "entropy_wieght")
    assert (status, out) == (2, "") and "did you mean entropy_weight" in error
    status, out, _ = command(settings, "Experiment.num_groups")
    assert status == 0 and out.splitlines()[0] == "Experiment"
    assert re.findall("^  Experiment.*", out, re.MULTILINE) == [
        "  Experiment.num_groups: int, at least 1 = 2"
    ]


def test_the_settings_of_one_object(command):
    for name in ("Adam", "alf.optimizers.Adam"):
        status, out, _ = command(settings, name)
        assert status == 0 and re.findall(r"^\w.*", out, re.MULTILINE) == ["Adam"]  # and not AdamW
        assert "  Adam.beta_1: " in out
    assert re.findall(r"^\w.*", command(settings, "adam")[1], re.MULTILINE)[:2] == ["Adam", "AdamW"]


OWN = """
import gin

@gin.configurable
class Mine:
    def __init__(self, limit: int = 3, other=None):
        pass

@gin.configurable
def careful(x):
    '''Takes care.'''
"""


@pytest.fixture
def own_file(tmp_path):
    """A function that writes a gin file beside a module of the user's; returns its path."""

    def write(text):
        (tmp_path / "own_settings.py").write_text(OWN)
        (tmp_path / "mine.gin").write_text(text)
        return str(tmp_path / "mine.gin")

    return write


def test_the_users_own_settings_come_first(run, own_file):
    everything = run("settings")
    done = run("settings", own_file("import own_settings"))
    own = (
        "Mine  (of own_settings)\n  Mine.limit: int = 3\n  Mine.other = None\n\n"
        "careful  (of own_settings)\n    Takes care.\n  careful.x  (no default)\n\n"
    )
    assert done == everything._replace(out=own + everything.out)
    assert run("settings", "own_sett", own_file("import own_settings")).out == own[:-1]


def test_a_wrong_file_does_not_hide_the_settings(run, own_file):
    gin_file = own_file("import own_settings\nMine.limitt = 4\n")
    done = run("settings", "own_settings", gin_file)
    assert done.status == 2 and done.out.startswith("Mine  (of own_settings)\n")
    (line,) = done.err.splitlines()
    assert line.startswith(f"error: {gin_file}: ") and line.endswith("; did you mean Mine.limit = 4 ?")
    done = run("settings", "StopCrit", own_file("import no_such_module"))
    assert done.status == 2 and done.out.startswith("StopCriteria\n") and "no_such_module" in done.err


HEAVY = ("tensorflow", "tf_agents", "tensorflow_probability", "gym", "tf_keras", "ray", "matplotlib")


def import_times(*arguments):
    """What `python -m alf` imports, in a process of its own, and what it prints.

    Python lists what it imports on stderr: "import time: 12 | 34 | module".
    """
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "alf", *arguments],
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}, done.stdout


@pytest.mark.parametrize("name", OWN_FLAGS)
def test_help_imports_nothing_heavy(name):
    imported, out = import_times(name, "--help")
    assert "  --helpfull\n" in out and "verbosity" not in out
    assert {"absl", "alf.bin.flags"} < imported and not imported & {*HEAVY}


@pytest.mark.parametrize("arguments", [(), ("--help",), ("--version",)])
def test_alf_itself_imports_next_to_nothing(arguments):
    """So that it answers at once."""
    imported, _ = import_times(*arguments)
    assert "alf.bin.main" in imported and not imported & {*HEAVY, "absl", "gin", "numpy"}
    assert {x for x in imported if x.startswith("alf.")} <= {
        *("alf.bin", "alf.bin.main", "alf.bin.show", "alf.core.signals", "alf.core", "alf.core.startup"),
        *("alf.errors", "alf.version"),
    }


def test_a_reader_may_want_only_a_part(forks, tmp_path):
    for arguments in (["--help"], ["--version"], ["train", "--help"], ["settings"]):
        closed = "tests.bin.fork_jobs:closed_pipe", "1"
        assert forks.run(*closed, *arguments, cwd=tmp_path) == (0, "", "")
