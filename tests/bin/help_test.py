# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What each command says of itself: --help, --helpfull, --version, flags that are wrong, --list_settings."""

import re
import subprocess
import sys

import pytest

import alf
from tests.programs import ROOT, ForkServer, environment

OWN_FLAGS = {
    "train": "gin_file gin_param list_settings ray_address root_dir",
    "sweep": "cluster gin_file gin_param grid max_cores max_memory ray_address root_dir run_cores run_gpus "
    "run_memory seeds",
    "pbt": "gin_file gin_param population ray_address root_dir",
    "play": "checkpoint gin_param num_episodes overwrite policy root_dir sample seed video",
    "evaluate": "checkpoint gin_param json num_episodes parallel_envs policy root_dir sample seed",
    "export": "checkpoint gin_param onnx output overwrite policy root_dir sample tflite",
    "benchmark": "checkpoint gin_file gin_param measure_seconds root_dir sample_only",
    "check_env": "gin_file gin_param max_seconds name num_steps start_timeout step_timeout",
}
COMMANDS = sorted(OWN_FLAGS)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs a command with arguments in a fork of a process that has imported all of them."""
    folder = tmp_path_factory.mktemp("forks")
    modules = [f"alf.bin.{name}" for name in COMMANDS]
    server = ForkServer(folder, environment(PYTHONPATH=str(ROOT)), *modules)
    yield lambda name, *args: server.run(f"alf.bin.{name}:console_main", *args, cwd=folder)
    server.close()


@pytest.mark.parametrize("name", COMMANDS)
def test_help_lists_the_commands_own_flags(run, name):
    done = run(name, "--help")
    assert (done.status, done.err) == (0, "")
    flags = re.findall(r"^  --(\w+)", done.out, re.MULTILINE)
    assert flags == sorted([*OWN_FLAGS[name].split(), "help", "helpfull", "version"])
    assert (
        f"alf.bin.{name}" in done.out.splitlines()[0]
        or f"alf-{name.replace('_', '-')}" in done.out.splitlines()[0]
    )
    assert run(name, "-?") == run(name, "-h") == run(name, "--helpshort") == done


@pytest.mark.parametrize("name", COMMANDS)
def test_helpfull_lists_those_of_absl_too(run, name):
    done = run(name, "--helpfull")
    assert (done.status, done.err) == (0, "")
    assert "--verbosity" in done.out and "--root_dir" in done.out


@pytest.mark.parametrize("name", COMMANDS)
def test_version(run, name):
    done = run(name, "--version")
    assert (done.status, done.out, done.err) == (0, f"ALF {alf.__version__}\n", "")


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    "args, message",
    [
        (["--nope"], "Unknown command line flag 'nope'"),
        (["--root_dir"], "Missing value for flag --root_dir"),
        (["oops"], "unexpected argument 'oops'"),
        (["--root_dir=x", "oops", "--help=maybe"], "flag --help=maybe: write --help or --nohelp$"),
        (["--verbosity=a: b"], "flag --verbosity=a: b: it must be an integer$"),
    ],
    ids=["unknown", "no value", "argument", "no boolean", "no integer"],
)
def test_a_wrong_flag_is_one_line(run, name, args, message):
    done = run(name, *args)
    assert (done.status, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1 and re.match(f"error: {message}", done.err), done.err


def test_a_value_of_the_wrong_kind_is_one_line(run):
    for name, flag, words in (
        ("play", "--overwrite=maybe", "write --overwrite or --nooverwrite"),
        ("check_env", "--num_steps=1e30", "it must be an integer"),
        ("check_env", "--max_seconds=soon", "it must be a number"),
    ):
        assert run(name, flag) == (2, "", f"error: flag {flag}: {words}\n")


def test_list_settings(run):
    everything = run("train", "--list_settings")
    assert everything.status == 0
    for name, value in {
        "Experiment.num_envs": 2,
        "alf.Learner.optimizer": None,
        "Adam.learning_rate": 0.001,
    }.items():
        assert re.search(rf"^  {name}: .* = {value}$", everything.out, re.MULTILINE), name
    some = run("train", "--list_settings", "stopcrit")
    assert some == run("train", "--list_settings=stopcrit")
    assert some.status == 0 and some.out.startswith("StopCriteria\n") and some.out in everything.out
    assert "Experiment" not in re.findall(r"^\w+", some.out, re.MULTILINE)
    assert run("train", "--list_settings", "--root_dir=x").out == everything.out
    done = run("train", "--list_settings", "nope")
    assert (done.status, done.out) == (2, "")
    assert done.err == "error: --list_settings=nope: there is no such setting; --list_settings prints all\n"
    done = run("train", "--list_settings=entropy_wieght")
    assert (done.status, done.out) == (2, "") and "did you mean entropy_weight" in done.err
    done = run("train", "--list_settings=Experiment.num_envs")
    assert done.status == 0 and done.out.splitlines()[0] == "Experiment"
    assert [x for x in done.out.splitlines() if x.startswith("  Experiment.")] == [
        "  Experiment.num_envs: int = 2"
    ]
    assert run("train", "--list_settings", "Adam", "oops").status == 2


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


def test_the_installed_command_in_a_process_of_its_own():
    command = [sys.executable, "-m", "alf.bin.train", "--help"]
    done = subprocess.run(
        command, env=environment(PYTHONPATH=str(ROOT)), capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "  --list_settings[=TEXT]\n" in done.stdout and "verbosity" not in done.stdout


EXAMPLE = f"include '{ROOT / 'examples' / 'impala_cartpole.gin'}'\n"
LOAD = 'alf.environments.load.name = "CartPole-v1"'
# What stands in a gin file, and the end of the error.
WRONG = {
    "name": ("Trainr.max_to_keep = 3", "; did you mean Trainer.max_to_keep = 3 ?"),
    "parameter": ("Trainer.max_to_kep = 3", "; did you mean Trainer.max_to_keep = 3 ?"),
    "macro": ("entropy_weight = 0.1", "; did you mean ImpalaAlgorithm.entropy_weight = 0.1 ?"),
    "lr": ("Adam.lr = 0.1", "; did you mean Adam.learning_rate = 0.1 ?"),
    "no quotation marks": (
        "alf.environments.load.name = CartPole-v1",
        f"a text needs quotation marks: write {LOAD}",
    ),
    "object": ("alf.environments.load.name = @Adam()", "write alf.environments.load.name = @Adam"),
    "class": ("alf.Learner.optimizer = @Adam", "write alf.Learner.optimizer = @Adam()"),
    "twice": (
        "Experiment.seed = 1\nTrainer:\n  max_to_keep = 3\nExperiment.seed = 2",
        "says in line 2 Experiment.seed = 1, and in line 5 Experiment.seed = 2: write one of the two",
    ),
    "syntax": ("Experiment.seed = = 1", "line 2): Experiment.seed = = 1"),
    "bracket": (
        "Experiment.seed = 1\nPolicies.names = ('a',\n",
        "mine.gin: a bracket or a quotation mark is not closed, which is opened after line 2",
    ),
    "bracket above": (
        "Policies.names = ('a',\nExperiment.num_envs = 2\n",
        "(mine.gin, line 3): a bracket above this line is not closed",
    ),
    "quotation mark": (f"{LOAD[:-1]}\nExperiment.seed = 1", f"line 2): {LOAD[:-1]}"),
    "included file": ("include 'nope.gin'", "line 2 include 'nope.gin'"),
    "itself": ("include 'mine.gin'", "mine.gin: the file includes itself"),
}
READERS = {
    "train": ["--root_dir=run"],
    "pbt": ["--root_dir=study", "--population=2"],
    "benchmark": [],
    "check_env": [],
}


def error_of(done):
    """The one line of an error; the log of absl may be above it. Workers of environments write nothing."""
    assert (done.status, done.out) == (2, ""), done
    (error,) = [x for x in done.err.splitlines() if x.startswith("error: ")]
    assert error == done.err.splitlines()[-1]
    return error


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", READERS)
def test_a_wrong_file_is_one_line_with_the_line_to_write(run, own_file, name, wrong, tmp_path):
    text, end = WRONG[wrong]
    error = error_of(run(name, f"--gin_file={own_file(EXAMPLE + text)}", *READERS[name]))
    assert error.startswith("error: ") and error.endswith(end), error


@pytest.mark.parametrize("name", READERS)
def test_a_file_that_is_not_there(run, name):
    assert error_of(run(name, "--gin_file=nope.gin", *READERS[name])) == (
        "error: --gin_file: there is no file 'nope.gin'"
    )


@pytest.mark.parametrize(
    "text, end",
    [
        ("", f": write {LOAD} and alf.environments.load.batch_size = 32"),
        ("alf.environments.load.batch_size = 4", f": write {LOAD}"),
        (EXAMPLE + "alf.Learner.optimizer = None", "alf.Learner.optimizer = @Adam()"),
    ],
    ids=["empty file", "no name", "no optimizer"],
)
@pytest.mark.parametrize("name", ["train", "benchmark"])
def test_what_is_missing_is_the_line_to_write(run, own_file, name, text, end):
    error = error_of(run(name, f"--gin_file={own_file(text)}", *READERS[name]))
    assert error.endswith(end), error


@pytest.mark.parametrize("name", ["play", "evaluate", "export", "benchmark"])
def test_a_wrong_binding_for_a_run_that_is_there(run, root_of, name, tmp_path):
    output = [f"--output={tmp_path / 'out'}"] if name == "export" else []
    for param, end in {
        "alf.environments.load.nam = 'x'": "; did you mean alf.environments.load.name = 'x' ?",
        "alf.environments.load.name = CartPole-v1": f"write --gin_param='{LOAD}'",
        "max_episode_steps = 3": "; did you mean alf.environments.load.max_episode_steps = 3 ?",
    }.items():
        args = [f"--root_dir={root_of('cartpole')}", f"--gin_param={param}", *output]
        error = error_of(run(name, *args))
        assert error.startswith("error: ") and end in error, error


@pytest.mark.parametrize(
    "params, line",
    [
        (["Trainr.max_to_keep = 3"], "Trainer.max_to_keep = 3 ?"),
        (["Adam.lr = 0.1"], "Adam.learning_rate = 0.1 ?"),
        (["entropy_weight = 0.1"], "ImpalaAlgorithm.entropy_weight = 0.1 ?"),
        (["alf.environments.load.name = ALE/Pong-v5"], """='alf.environments.load.name = "ALE/Pong-v5"'"""),
        (["alf.environments.load.name = @Adam()"], "alf.environments.load.name = @Adam"),
        (["alf.Learner.optimizer = @Adam"], "alf.Learner.optimizer = @Adam()"),
        (["alf.Learner.optimizer = None"], "alf.Learner.optimizer = @Adam()"),
        (None, 'alf.environments.load.name = "CartPole-v1" and alf.environments.load.batch_size = 32'),
    ],
    ids=lambda x: str(x)[:50] if not isinstance(x, str) else "",
)
def test_a_wrong_setting_is_one_line_with_the_line_to_write(run, tmp_path, params, line):
    gin_file = [] if params is None else [f"--gin_file={ROOT / 'examples' / 'impala_cartpole.gin'}"]
    args = [*gin_file, *(f"--gin_param={param}" for param in params or ())]
    done = run("train", f"--root_dir={tmp_path / 'run'}", *args)
    error = error_of(done)
    assert error.endswith(line), error
    assert not (tmp_path / "run").exists()
