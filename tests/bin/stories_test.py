# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What a user does with a run of each kind, from training to an exported policy, each command as a program.

The commands run in forks of a process that has imported them, which is faster. With the kind "own" alf train,
which imports the user's module, is started as it is installed.
"""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import imageio.v3
import numpy as np
import pytest

import alf
from tests.bin.conftest import write_config
from tests.bin.forks import SECONDS
from tests.programs import ALF, Done, ForkServer, environment

pytestmark = pytest.mark.programs

ROOT = Path(__file__).resolve().parent.parent.parent
# Of the agent's actions for `record_agent.py`: an environment of Gymnasium.
ENV_NAMES = {
    "cartpole": "CartPole-v1",
    "lstm": "Pendulum-v1",
    "mujoco": "HalfCheetah-v5",
    "sac": "Pendulum-v1",
    "dqn": "CartPole-v1",
    "own": "Uneven-v0",
}
# What follows the training. Each kind has what it may do in another way than the others.
STORIES = {
    "own": ("evaluate", "play", "export", "goes on", "again"),
    "dict": ("evaluate", "again"),
    "lstm": ("evaluate", "play", "export"),
    "mujoco": ("evaluate", "play", "export"),
    "sac": ("evaluate", "export", "goes on"),
    "dqn": ("evaluate", "play", "export"),
    "cartpole": ("export", "goes on"),
}
PARAMS = {
    # Continuous actions show each difference of a recurrent state.
    "lstm": ["alf.environments.load.name = 'Pendulum-v1'", "alf.environments.load.max_episode_steps = 20"],
    # The weights stay those of the seed, with which discrete actions differ.
    "cartpole": ["Adam.learning_rate = 1e-6"],
    "dqn": ["Adam.learning_rate = 1e-6"],
}


@pytest.fixture(scope="session")
def forks_without_alf(tmp_path_factory):
    """Runs a function in a fork of a process that has imported TensorFlow alone."""
    env = environment(PYTHONPATH=str(ROOT / "tests" / "evaluation"), TF_CPP_MIN_LOG_LEVEL="2")
    server = ForkServer(tmp_path_factory.mktemp("forks"), env, "tensorflow", "run_exported")
    yield server.run
    server.close()


@pytest.fixture
def programs(tmp_path):
    """Runs a function in a process of its own, as the program that pip makes of an entry point."""

    def run(function, *args, cwd):
        module, name = function.split(":")
        program = tmp_path / "bin" / module
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"import sys\nfrom {module} import {name}\nsys.exit({name}())\n")
        command = [sys.executable, str(program), *map(str, args)]
        env = environment(PYTHONPATH=str(ROOT))
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=SECONDS)
        return Done(done.returncode, done.stdout, done.stderr)

    return run


@pytest.mark.parametrize("kind", STORIES)
def test_story(kind, tmp_path, forks, programs, forks_without_alf):
    run = forks.run
    start = programs if kind == "own" else run
    gin_file, elsewhere = write_config(tmp_path / "user", kind), tmp_path / "elsewhere"
    elsewhere.mkdir()
    root_dir, config = tmp_path / "run", tmp_path / "run" / "operative_config.gin"
    train(start, gin_file, root_dir, params=PARAMS.get(kind, []))
    if "evaluate" in STORIES[kind]:
        evaluate(run, root_dir, elsewhere)
    if "play" in STORIES[kind]:
        play(run, root_dir, elsewhere, kind)
    if "export" in STORIES[kind]:
        folder = elsewhere / "cases" / kind
        export(run, root_dir, folder, elsewhere)
        done = run("tests.bin.record_agent:main", root_dir, folder, ENV_NAMES[kind], cwd=elsewhere)
        assert done.status == 0 and is_quiet(done.err), done.err
        done = forks_without_alf("run_exported:program", folder.parent, *EXPORTED, cwd=elsewhere)
        assert done.status == 0, done.err
        compare_actions(folder)
    if "goes on" in STORIES[kind]:  # with nothing to do: the configuration that it has written is its own
        train(run, config, root_dir, cwd=elsewhere)
    if "again" in STORIES[kind]:
        train(run, config, elsewhere / "again", cwd=elsewhere)
    description = json.loads((root_dir / "run.json").read_text())
    assert str(gin_file.parent) in description["import_paths"]
    assert description["versions"]["alf"] == alf.__version__


EXPORTED = ("saved_model", "serving_default")


def train(run, gin_file, root_dir, params=(), cwd=None):
    params = [f"--{param}" for param in params]
    args = [gin_file, f"--output={root_dir}", *params]
    done = run(ALF, "train", *args, cwd=cwd or gin_file.parent)
    assert done[:2] == (0, "num_iterations=2 reached\n"), done.err
    assert "Traceback" not in done.err and (root_dir / "checkpoints" / "ckpt-2").exists()


def evaluate(run, root_dir, cwd):
    args = [root_dir, "--num_episodes=5", "--parallel_envs=2", "--json"]
    done = run(ALF, "evaluate", *args, cwd=cwd)
    assert done.status == 0 and is_quiet(done.err), done.err
    found = json.loads(done.out)
    assert found["num_episodes"] == 5 and found["checkpoint"] == f"{root_dir}/checkpoints/ckpt-2"
    assert all(np.isfinite(x) for name in ("return", "length") for x in found[name].values())


def play(run, root_dir, cwd, kind):
    name, count = "a.mp4" if kind in ("dqn", "mujoco") else "a.gif", 1 if kind == "mujoco" else 2
    done = run(ALF, "play", root_dir, f"--output={name}", f"--num_episodes={count}", cwd=cwd)
    if kind == "mujoco" and done.status == 2:
        assert "MuJoCo cannot render here" in done.err
        return
    assert done.status == 0 and is_quiet(done.err), done.err
    _, *episodes, last = done.out.splitlines()
    frames = imageio.v3.imread(cwd / name)
    assert len(frames) == count + sum(int(episode.split()[-1]) for episode in episodes) > 2
    assert last.startswith(f"{len(frames)} frames in /") and last.endswith(f"/{name}")
    assert (frames[1:] != frames[:-1]).any(axis=(1, 2, 3)).mean() > 0.5
    assert set(os.listdir(cwd)) - {"MUJOCO_LOG.TXT"} == {name}


def is_quiet(err):
    """Whether a program has logged nothing but what MuJoCo's models and workers on a busy computer cause."""
    return not err or ("deprecated" in err or "worker process" in err) and "Traceback" not in err


def export(run, root_dir, folder, cwd):
    done = run(ALF, "export", root_dir, f"--output={folder / 'export'}", cwd=cwd)
    expected = f"{root_dir}/checkpoints/ckpt-2 is exported to {folder / 'export'}\n"
    assert done == (0, expected, "")


def compare_actions(folder):
    """What the exported policy did without ALF is what the agent did."""
    expected, *found = (
        pickle.loads((folder / f"{name}.pickle").read_bytes()) for name in ("actions", *EXPORTED)
    )
    expected = [np.concatenate(leaf) for leaf in zip(*expected)]
    assert all(len(np.unique(leaf, axis=0)) > 1 for leaf in expected)  # they depend on something
    for actions in found:
        for leaf, other in zip(expected, zip(*actions), strict=True):
            assert leaf.dtype == other[0].dtype
            np.testing.assert_allclose(np.concatenate(other), leaf, rtol=1e-4, atol=1e-5)
