# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What each command says of itself: --help, --helpfull, --version, flags that are wrong, --list_settings."""

import re
import subprocess
import sys

import pytest

import alf
from alf.bin import train
from tests.bin.forks import SECONDS
from tests.programs import ROOT, environment

pytestmark = pytest.mark.programs

OWN_FLAGS = {
    "train": "algorithm env gin_file gin_param list_settings ray_address root_dir steps",
    "sweep": "algorithm cluster env gin_file gin_param grid max_cores max_memory ray_address replicate "
    "root_dir run_cores run_gpus run_memory seeds steps",
    "pbt": "algorithm env gin_file gin_param population ray_address root_dir steps",
    "play": "checkpoint gin_param num_episodes overwrite policy root_dir sample seed video",
    "evaluate": "checkpoint gin_param json num_episodes parallel_envs policy root_dir sample seed",
    "export": "checkpoint gin_param onnx output overwrite policy root_dir sample tf_agents tflite",
    "benchmark": "algorithm checkpoint env gin_file gin_param measure_seconds root_dir sample_only steps",
    "plot": "metric output score_range scores smoothing target title",
    "replicate": "root_dir",
    "check_env": "env gin_file gin_param max_seconds num_steps start_timeout step_timeout",
}


@pytest.fixture
def run(forks, tmp_path):
    """Runs a command with arguments in a fork."""
    return lambda name, *args: forks.run(f"alf.bin.{name}:console_main", *args, cwd=tmp_path)


def test_help_lists_the_commands_own_flags(run, subtests):
    for name, own in OWN_FLAGS.items():
        with subtests.test(name):
            done = run(name, "--help")
            assert (done.status, done.err) == (0, "")
            flags = re.findall(r"^  --(\w+)", done.out, re.MULTILINE)
            assert flags == sorted([*own.split(), "help", "helpfull", "version"])
            title = done.out.splitlines()[0]
            assert f"alf.bin.{name}" in title or f"alf-{name.replace('_', '-')}" in title


def test_all_commands_take_the_same_flags_for_help(run):
    done = run("evaluate", "--help")
    assert "alf-evaluate --root_dir=DIR" in done.out
    for text in ("--root_dir=ROOT_DIR\n", "--sample\n", "--seed=SEED\n"):  # of a text, none, a number
        assert f"  {text}" in done.out
    assert run("evaluate", "-?") == run("evaluate", "-h") == run("evaluate", "--helpshort") == done
    done = run("evaluate", "--helpfull")
    assert (done.status, done.err) == (0, "")
    assert "--verbosity" in done.out and "--root_dir" in done.out
    assert run("evaluate", "--version") == (0, f"ALF {alf.__version__}\n", "")


def test_an_unknown_flag_is_one_line_of_each_command(run, subtests):
    for name in OWN_FLAGS:
        with subtests.test(name):
            done = run(name, "--nope")
            assert (done.status, done.out) == (2, "")
            assert re.fullmatch("error: Unknown command line flag 'nope'.*\n", done.err), done.err


WRONG_FLAGS = {
    ("train", "--gin_fil=config.gin"): "Unknown command line flag 'gin_fil'; did you mean --gin_file ?",
    ("train", "--root_dir"): "Missing value for flag --root_dir",
    ("evaluate", "oops", "more"): "unexpected argument 'more': name one run",
    ("evaluate", "--root_dir=x", "oops"): "unexpected argument 'oops': name one run",
    ("evaluate", "alf:oops"): "ALF has no gin file 'alf:oops'",
    ("check_env", "oops"): "unexpected argument 'oops'",
    ("train", "oops"): "--gin_file: there is no file 'oops'",
    ("train",): "nothing says what to train: write --env=CartPole-v1 --algorithm=ppo",
    ("sweep", "--root_dir=x"): "nothing says what to train: write --env=CartPole-v1 --algorithm=ppo",
    ("pbt", "--root_dir=x", "--population=2"): "nothing says what to train: write --env=CartPole-v1",
    ("train", "--step=9", "--env=CartPole-v1"): "Unknown command line flag 'step'; did you mean --steps ?",
    ("sweep", "--max_core=2"): "Unknown command line flag 'max_core'; did you mean --max_cores ?",
    ("pbt", "--populations=2"): "Unknown command line flag 'populations'; did you mean --population ?",
    (
        "benchmark",
        "--samples_only",
        "oops",
    ): "Unknown command line flag 'samples_only'; did you mean --sample",
    ("train", "--root_dir=x", "oops", "--help=maybe"): "flag --help=maybe: write --help or --nohelp",
    ("train", "--verbosity=a: b"): "flag --verbosity=a: b: it must be an integer",
    ("play", "--overwrite=maybe"): "flag --overwrite=maybe: write --overwrite or --nooverwrite",
    ("check_env", "--num_steps=1e30"): "flag --num_steps=1e30: it must be an integer",
    ("check_env", "--max_seconds=soon"): "flag --max_seconds=soon: it must be a number",
    ("evaluate", "--num_episodes=0"): "flag --num_episodes=0: 0 is not a positive",
    ("evaluate", "--seed=-1"): "flag --seed=-1: ",
    ("plot", "--scores=mean"): "flag --scores=mean: value should be one of <last|best>",
}


def test_a_wrong_flag_is_one_line(run, subtests):
    for (name, *args), message in WRONG_FLAGS.items():
        with subtests.test(" ".join(args), command=name):
            done = run(name, *args)
            assert (done.status, done.out) == (2, "")
            (line,) = done.err.splitlines()
            assert line.startswith(f"error: {message}")


def test_list_settings(run):
    everything = run("train", "--list_settings", "--root_dir=x")
    assert everything.status == 0
    for name, value in {
        "Experiment.num_groups": 2,
        "UnrollLearner.optimizer": None,
        "Adam.learning_rate": 0.001,
    }.items():
        assert re.search(rf"^  {name}: .* = {value}$", everything.out, re.MULTILINE), name
    some = run("train", "--list_settings", "stopcrit")
    assert some == run("train", "--list_settings=stopcrit")
    assert some.status == 0 and some.out.startswith("StopCriteria\n") and some.out in everything.out
    assert "Experiment" not in re.findall(r"^\w+", some.out, re.MULTILINE)
    assert run("train", "--list_settings", "Adam", "oops").status == 2


def test_list_settings_by_name(command):
    status, out, (error,) = command(train, list_settings="nope")
    assert (status, out) == (2, "")
    assert error == "error: --list_settings=nope: there is no such setting; --list_settings prints all"
    status, out, (error,) = command(train, list_settings="entropy_wieght")
    assert (status, out) == (2, "") and "did you mean entropy_weight" in error
    status, out, _ = command(train, list_settings="Experiment.num_groups")
    assert status == 0 and out.splitlines()[0] == "Experiment"
    for setting, message in (("num_env=4", "--num_env: "), ("num_envs=x", "Experiment.num_envs is 'x': ")):
        status, same, (error,) = command(train, f"--{setting}", list_settings="Experiment.num_groups")
        assert (status, same) == (2, out) and error.startswith(f"error: {message}")
    assert re.findall("^  Experiment.*", out, re.MULTILINE) == [
        "  Experiment.num_groups: int, at least 0 = 2"
    ]


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
    everything = run("train", "--list_settings")
    done = run("train", "--list_settings", f"--gin_file={own_file('import own_settings')}")
    own = (
        "Mine  (of own_settings)\n  Mine.limit: int = 3\n  Mine.other = None\n\n"
        "careful  (of own_settings)\n    Takes care.\n  careful.x  (no default)\n\n"
    )
    assert done == everything._replace(out=own + everything.out)
    assert (
        run("train", "--list_settings=own_sett", f"--gin_file={own_file('import own_settings')}").out
        == (own[:-1])
    )


def test_a_wrong_file_does_not_hide_the_settings(run, own_file):
    gin_file = own_file("import own_settings\nMine.limitt = 4\n")
    done = run("train", "--list_settings=own_settings", f"--gin_file={gin_file}")
    assert done.status == 2 and done.out.startswith("Mine  (of own_settings)\n")
    (line,) = done.err.splitlines()
    assert line.startswith("error: --gin_file=") and line.endswith("; did you mean Mine.limit = 4 ?")
    done = run("train", "--list_settings=StopCrit", f"--gin_file={own_file('import no_such_module')}")
    assert done.status == 2 and done.out.startswith("StopCriteria\n") and "no_such_module" in done.err


HEAVY = ("tensorflow", "tf_agents", "tensorflow_probability", "gym", "tf_keras", "ray", "matplotlib")


@pytest.mark.parametrize("name", OWN_FLAGS)
def test_help_imports_nothing_heavy(name):
    """In a process of its own. Python lists what it imports on stderr: "import time: 12 | 34 | module"."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", f"alf.bin.{name}", "--help"],
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0
    assert "  --helpfull\n" in done.stdout and "verbosity" not in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert {"absl", "alf.bin.flags"} < imported and not imported & {*HEAVY}


def test_a_reader_may_want_only_a_part(forks, tmp_path):
    for flag in ("--help", "--version", "--list_settings"):
        assert forks.run("tests.bin.fork_jobs:closed_pipe", "1", flag, cwd=tmp_path) == (0, "", "")
