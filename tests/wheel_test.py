# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The source package and the wheel, as users get them: what is in them, and that all works from them alone.

The wheel is built from the source package, and that from what the Dockerfile copies. It is installed
into an environment of its own, which finds all other packages where this one finds them.
"""

import concurrent.futures
import json
import os
import re
import shutil
import site
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.programs

ROOT = Path(__file__).resolve().parent.parent
BUILD = "from setuptools import build_meta; build_meta.build_sdist('dist')"
SHORT = ["--StopCriteria.num_iterations = 2", "--Experiment.num_envs = 8"]

# What a user writes; `WRONG` has one line each that must be an error.
PROGRAM = """
import alf


class Stop(alf.Callback):
    def on_train_iter(self, trainer: alf.Trainer, summary: dict[str, object]) -> None:
        if trainer.counters["env_steps"] > 1000:
            trainer.stop("enough")


class Mine(alf.ImpalaAlgorithm):
    def calc_loss(self, experience: alf.Experience, train_info: object) -> alf.LossInfo:
        return super().calc_loss(experience, train_info)


def train(root_dir: str) -> tuple[bool, str]:
    envs = [alf.environments.load("CartPole-v1", batch_size=8, seed=seed) for seed in range(2)]
    specs = alf.EnvSpecs(envs)
    algorithm = Mine(alf.ActorCriticPolicy(specs.observation, specs.action), discount=1)
    learner = alf.UnrollLearner(algorithm, num_epochs=2, settings=alf.LearnerSettings(max_grad_norm=40))
    driver = alf.AsyncOffPolicyDriver(envs, learner.policy, unroll_length=16)
    return alf.Trainer(root_dir, driver, learner, callbacks=[Stop()]).train()


agent = alf.load_agent("runs/mine", checkpoint=3)
parts = alf.Experiment(num_groups=4).make_parts()
batches: list[alf.Experience] = parts[0].collect()
"""
WRONG = {
    "alf.Experiment(num_env=2)": 'Unexpected keyword argument "num_env"',
    "alf.environments.load(3, batch_size=2)": 'Argument 1 to "load" has incompatible type "int"',
    'alf.load_agent("runs", checkpoint=1.5)': '"checkpoint" to "load_agent" has incompatible type "float"',
    "alf.ReplayLearner(alf.Callback())": 'Argument 1 to "ReplayLearner" has incompatible type "Callback"',
    'alf.LearnerSettings(debug_summaries="2")': 'has incompatible type "str"; expected "bool"',
    "alf.parse_config()": 'Missing positional argument "gin_files"',
    "alf.Trainor": 'Module has no attribute "Trainor"',
    "agent.predikt(0)": '"Agent" has no attribute "predikt"',
}


def run(*command, cwd, status=0, **variables):
    env = {key: os.environ[key] for key in ("PATH", "LANG", "TMPDIR") if key in os.environ}
    env |= {"HOME": str(cwd), "TF_NUM_INTRAOP_THREADS": "1", **variables}
    command = list(map(str, command))
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == status, (command, done.stdout[-3000:], done.stderr[-3000:])
    return done


def list_copied():
    """What the Dockerfile copies into the stage that builds the wheel."""
    lines = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    return [name for line in lines for name in line.split()]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """The folder of the source package, unpacked."""
    tree = tmp_path_factory.mktemp("tree")
    for name in list_copied():
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tree / name, **({"ignore": no_caches} if copy is shutil.copytree else {}))
    run(sys.executable, "-c", BUILD, cwd=tree)
    (archive,) = (tree / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(tree / "unpacked", filter="data")
    (folder,) = (tree / "unpacked").iterdir()
    return folder


def no_caches(folder, names):
    return [name for name in names if name == "__pycache__"]


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory):
    """The path of the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    run(*pip, f"--wheel-dir={folder}", sdist, cwd=folder)
    (path,) = folder.glob("*.whl")
    return path


def install(wheel, folder):
    """Makes an environment in which the wheel is installed. Returns the folder of its commands."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", f"--python={python}", "install", "--quiet", "--no-deps", "--no-index"]
    run(*pip, wheel, cwd=folder)
    # A .pth file adds the other packages, but not what their own .pth files add: no editable installation.
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text("\n".join(site.getsitepackages()))
    return folder / "bin"


@pytest.fixture(scope="module")
def bin_dir(wheel, tmp_path_factory):
    """The folder of the commands of an environment in which the wheel is installed."""
    return install(wheel, tmp_path_factory.mktemp("venv"))


def expected_files():
    """What is part of ALF: its modules, and the data beside them."""
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "alf").rglob("*.py")} | {
        "alf/__init__.pyi",
        "alf/py.typed",
        "alf/tf_agents.txt",
        "alf/config/translations.json",
    }
    data = [*(ROOT / "alf" / "presets").glob("*.gin"), *(ROOT / "alf" / "agents").rglob("*")]
    data += (path for path in (ROOT / "alf" / "examples").rglob("*") if "__pycache__" not in path.parts)
    return files | {str(path.relative_to(ROOT)) for path in data if path.is_file()}


def test_the_files_of_the_wheel(wheel):
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        assert len(names) == len(set(names))
        info = {name for name in names if ".dist-info/" in name}
        assert {name.split("/", 1)[1] for name in info} >= {"METADATA", "RECORD", "entry_points.txt"}
        assert any(name.endswith("LICENSE") for name in info)
        assert set(names) - info == expected_files()


def test_the_files_of_the_source_package(sdist):
    (archive,) = (sdist.parent.parent / "dist").glob(
        "*.tar.gz"
    )  # the folder holds what building has left, too
    with tarfile.open(archive) as file:
        names = [member.name.split("/", 1)[1] for member in file.getmembers() if member.isfile()]
    assert len(names) == len(set(names))
    names = {name for name in names if not name.startswith("alf_tf.egg-info/")}
    made = {"PKG-INFO", "setup.cfg"}
    assert names - made == expected_files() | {name for name in list_copied() if (ROOT / name).is_file()}


def test_the_metadata(wheel):
    with zipfile.ZipFile(wheel) as file:
        (name,) = [name for name in file.namelist() if name.endswith("/METADATA")]
        head, text = file.read(name).decode().split("\n\n", 1)
    assert "Description-Content-Type: text/markdown" in head
    (versions,) = re.findall("^Requires-Python: (.*)$", head, re.MULTILINE)
    assert set(versions.split(",")) == {">=3.10", "<3.14"}
    assert "License: Apache-2.0" in head or "License-Expression: Apache-2.0" in head
    assert "Classifier: Typing :: Typed" in head
    # Links would be relative to a page of the package.
    assert "examples/impala_cartpole.gin" in text
    assert not re.findall(r"\]\((?!https?:)[^)]*\)", text)


@pytest.fixture(scope="module")
def cartpole(bin_dir, tmp_path_factory):
    """An empty folder in which a run has been trained, as "run"."""
    folder = tmp_path_factory.mktemp("user")
    args = ["train", "alf:impala_cartpole.gin", "--output=run", *SHORT]
    assert "num_iterations=2 reached" in run(bin_dir / "alf", *args, cwd=folder).stdout
    return folder


def test_what_was_trained_is_used(bin_dir, cartpole):
    calls = [
        ("evaluate", "run", "--num_episodes=2", "--json"),
        ("play", "run", "--num_episodes=1", "--output=episode.gif"),
        ("play", "alf:CartPole-v1", "--seed=0", "--output=agent.gif"),
        ("export", "run", "--output=exported"),
        ("plot", "run", "--output=curve.png"),
    ]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:  # each takes seconds to import TensorFlow
        done = list(pool.map(lambda call: run(bin_dir / "alf", *call, cwd=cartpole), calls))
    assert json.loads(done[0].stdout)
    assert "agents/CartPole-v1/checkpoints/" in done[2].stdout
    for path in ("episode.gif", "agent.gif", "exported/saved_model.pb", "curve.png"):
        assert (cartpole / path).stat().st_size > 1000


def test_an_example_with_a_module_beside_it(bin_dir, tmp_path):
    args = ["train", "alf:own_env.gin", "--output=run", *SHORT]
    run(bin_dir / "alf", *args, cwd=tmp_path)
    # The module has a name that holds wherever ALF is installed.
    paths = json.loads((tmp_path / "run" / "run.json").read_text())["import_paths"]
    assert not [path for path in paths if path.endswith("examples")]
    assert "import alf.examples.own_env" in (tmp_path / "run" / "operative_config.gin").read_text()
    run(bin_dir / "alf", "evaluate", "run", "--num_episodes=2", cwd=tmp_path)


def test_an_example_that_is_not_there(bin_dir, tmp_path):
    done = run(bin_dir / "alf", "train", "alf:nothing.gin", "-o", "run", cwd=tmp_path, status=2)
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ALF has no gin file 'alf:nothing.gin'; it has appo_acrobot.gin, ")
    assert "impala_cartpole.gin" in line and not (tmp_path / "run").exists()


def test_no_command_finds_the_sources(bin_dir, tmp_path):
    code = (
        "import alf, importlib.metadata as m; print(alf.__file__, m.version('alf-tf'), m.files('alf-tf')[0])"
    )
    path, version, _ = run(bin_dir / "python", "-c", code, cwd=tmp_path).stdout.split()
    assert Path(path).is_relative_to(bin_dir.parent) and version
    assert [path.name for path in bin_dir.glob("alf*")] == ["alf"]
    assert "    train " in run(bin_dir / "alf", cwd=tmp_path).stdout


def test_a_clone_beside_a_script_does_not_hide_the_package(bin_dir, sdist, tmp_path):
    # The folder of a clone is often named alf, too. For Python it is a package without __init__.py, which
    # counts only if no other is found in `sys.path`.
    clone = shutil.copytree(sdist, tmp_path / "alf")
    run(sys.executable, "-c", BUILD.replace("sdist", "editable"), cwd=clone)
    (editable,) = (clone / "dist").glob("*.whl")
    editable_bin = install(editable, tmp_path / "venv")
    for folder, package in ((bin_dir, bin_dir.parent), (editable_bin, clone)):
        done = run(folder / "python", "-c", "import alf; print(alf.__file__)", cwd=tmp_path)
        assert Path(done.stdout.strip()).is_relative_to(package)


def check_types(bin_dir, folder, text):
    """What mypy says of a user's program; it has the settings that it has without any."""
    pytest.importorskip("mypy")
    (folder / "program.py").write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", f"--python-executable={bin_dir / 'python'}"]
    done = subprocess.run(
        [*command, "--cache-dir", str(folder.parent / "mypy_cache"), "program.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
    )
    return done.stdout + done.stderr


def test_a_checker_knows_the_types_of_the_installed_package(bin_dir, tmp_path):
    assert check_types(bin_dir, tmp_path, PROGRAM).startswith("Success: no issues found")
    found = check_types(bin_dir, tmp_path, "\n".join([PROGRAM, *WRONG]))
    first = len(PROGRAM.splitlines()) + 2
    for number, (line, message) in enumerate(WRONG.items(), start=first):
        (error,) = re.findall(rf"^program.py:{number}: error: (.*)$", found, re.MULTILINE)
        assert message in error, (line, error)
