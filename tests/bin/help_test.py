# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What each command says of itself: --help, --helpfull, --version, flags that are wrong, --list_settings."""

import re
import subprocess
import sys

import pytest

import alf
from tests.bin.stories_test import ROOT, ForkServer, environment

OWN_FLAGS = {
    "train": "gin_file gin_param list_settings ray_address root_dir",
    "sweep": "cluster gin_file gin_param grid max_cores max_memory ray_address root_dir run_cores run_memory "
    "seeds",
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
    assert run(name, "-?") == run(name, "--helpshort") == done


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
        (["--root_dir=x", "oops", "--help=maybe"], "flag --help=maybe: .*boolean"),
    ],
    ids=["unknown", "no value", "argument", "wrong value"],
)
def test_a_wrong_flag_is_one_line(run, name, args, message):
    done = run(name, *args)
    assert (done.status, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1 and re.match(f"error: {message}", done.err), done.err


def test_list_settings(run):
    everything = run("train", "--list_settings")
    assert everything.status == 0
    for text in ("\nExperiment.num_envs = 2\n", "alf.Learner.optimizer = None", "Adam.learning_rate = 0.001"):
        assert text.strip() in everything.out
    some = run("train", "--list_settings", "stopcrit")
    assert some == run("train", "--list_settings=stopcrit")
    assert some.status == 0 and some.out.startswith("StopCriteria\n") and some.out in everything.out
    assert "Experiment" not in re.findall(r"^\w+", some.out, re.MULTILINE)
    assert run("train", "--list_settings", "--root_dir=x").out == everything.out
    done = run("train", "--list_settings", "nope")
    assert (done.status, done.out) == (2, "")
    assert done.err == "error: --list_settings=nope: there is no such setting; --list_settings prints all\n"
    assert run("train", "--list_settings", "Adam", "oops").status == 2


def test_the_installed_command_in_a_process_of_its_own():
    command = [sys.executable, "-m", "alf.bin.train", "--help"]
    done = subprocess.run(
        command, env=environment(PYTHONPATH=str(ROOT)), capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "  --list_settings[=TEXT]\n" in done.stdout and "verbosity" not in done.stdout


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
    assert (done.status, done.out) == (2, "")
    # Workers of environments write nothing; the log of absl may be above the error.
    (error,) = [x for x in done.err.splitlines() if x.startswith("error: ")]
    assert error == done.err.splitlines()[-1] and error.endswith(line), error
    assert not (tmp_path / "run").exists()
