# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""A run's directory: what is refused and what is written.

A lock that another process holds is in run_dir_program_test.py.
"""

import errno
import gc
import importlib
import json
import os
import re
import subprocess
import sys
import types

import gin
import pytest
import tensorflow as tf

import alf
from alf.config.parsing import check_dead_bindings, operative_config, parse_config
from alf.data_structures import TimeStep
from alf.errors import ConfigError
from alf.learner import optimizers
from alf.networks import ActorCriticNetwork
from alf.runs import run_dir
from alf.runs.git_state import read_git_state
from alf.runs.run_description import read_description
from alf.runs.run_dir import RunDir, git_revision
from alf.training.stop_criteria import StopCriteria

SPEC = tf.TensorSpec((2,), tf.float32)
# What a `RunDir` needs of a policy.
POLICY = types.SimpleNamespace(time_step_spec=TimeStep(*[SPEC] * 6), action_spec=SPEC)


def test_makes_the_directory_and_leaves_no_probe(tmp_path):
    path = RunDir(str(tmp_path / "a" / "b")).path
    assert os.listdir(path) == []


KINDS = {"operative_config.gin": "a run", "sweep.json": "a sweep", "population.json": "a population"}


@pytest.mark.parametrize("own_file", [None, "sweep.json", "population.json"])
@pytest.mark.parametrize("name", KINDS)
def test_another_kind_of_work_is_refused(tmp_path, monkeypatch, own_file, name):
    own = {} if own_file is None else {"own_file": own_file}
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / name).touch()
    for path in ("~", str(tmp_path)):
        if name == (own_file or "operative_config.gin"):
            assert RunDir(path, **own).path == str(tmp_path)
            continue
        with pytest.raises(
            ConfigError, match=f"^root_dir '{tmp_path}' holds {KINDS[name]}: choose another root_dir$"
        ):
            RunDir(path, **own)


@pytest.mark.parametrize("path", ["file", "file/below"])
def test_a_path_that_cannot_be_written_to_is_named(tmp_path, path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"root_dir '.*file.*' cannot be written to"):
        RunDir(str(tmp_path / path))
    assert os.listdir(tmp_path) == ["file"]


def test_a_read_only_directory_is_named(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)  # root would write there all the same
    with pytest.raises(ConfigError, match="cannot be written to"):
        RunDir(str(tmp_path))


def read_config(learning_rate=0.1, num_iterations=3, dead=""):
    """Parses a configuration and uses all of it but `dead`."""
    gin.clear_config()
    gin.parse_config(f"SGD.learning_rate = {learning_rate}")
    parse_config([], [dead])
    gin.parse_config(f"StopCriteria.num_iterations = {num_iterations}")
    optimizers.SGD()
    StopCriteria()


def make_trained(path):
    """A `RunDir` with a checkpoint."""
    checkpoints = path / "checkpoints"
    checkpoints.mkdir()
    (checkpoints / "ckpt-0").mkdir()
    return RunDir(str(path))


def test_what_has_no_checkpoint_is_replaced(tmp_path):
    """A first attempt that failed does not stand in the way of the next one."""
    read_config()
    RunDir(str(tmp_path)).write_config(operative_config(), POLICY)
    read_config(learning_rate=0.2)
    RunDir(str(tmp_path)).check_config(operative_config())
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    RunDir(str(tmp_path)).check_config(operative_config())
    # A kill during the first save has left these.
    (checkpoints / ".ckpt-3.abc_1234" / "new").mkdir(parents=True)
    (checkpoints / "replay_buffer.npz.tmp").touch()
    RunDir(str(tmp_path)).check_config(operative_config())
    for name in ("ckpt-3", "ckpt-3.diverged", "best", "replay_buffer.npz"):
        (checkpoints / name).touch()
        with pytest.raises(ConfigError, match="another config"):
            RunDir(str(tmp_path)).check_config(operative_config())
        (checkpoints / name).unlink()


def test_the_same_config_is_accepted_and_another_one_is_shown(tmp_path):
    read_config()
    directory = make_trained(tmp_path)
    directory.check_config(operative_config())
    directory.write_config(operative_config(), POLICY)
    read_config()
    directory.check_config(operative_config())
    read_config(num_iterations=5)  # a run may go on for longer
    directory.check_config(operative_config())
    read_config(learning_rate=0.2)
    with pytest.raises(ConfigError, match="another config.*SGD.learning_rate is 0.2 here, 0.1 there"):
        directory.check_config(operative_config())


def test_where_a_run_computes_is_no_difference(tmp_path):
    names = (
        "RayEvaluator.num_cpus",
        "CollectorSettings.num_gpus",
        "CollectorSettings.learner_num_cpus",
        "RayCollectors.max_joined_answers",
        "RayCollectors.compress",
        "Evaluator.place",
    )
    directory, path = make_trained(tmp_path), tmp_path / "operative_config.gin"
    path.write_text("".join(f"{name} = 1\n" for name in names))
    directory.check_config(operative_config())
    path.write_text("RayCollectors.num_groups = 1\n")
    with pytest.raises(ConfigError, match="RayCollectors.num_groups is 2 here, 1 there"):
        directory.check_config(operative_config())


def test_a_setting_that_only_one_of_two_configs_has_has_its_default_in_the_other(tmp_path):
    directory = make_trained(tmp_path)
    read_config()
    directory.write_config(operative_config(), POLICY)
    read_config()
    optimizers.RMSprop()
    directory.check_config(operative_config())
    read_config(dead="RMSprop.rho = 0.5")
    optimizers.RMSprop()
    with pytest.raises(ConfigError, match=r"config \(RMSprop.rho is 0.5 here, 0.99 there\)"):
        directory.check_config(operative_config())


def test_long_values_are_compared_whole(tmp_path):
    # Gin breaks long lines.
    sizes = tuple(range(100, 160))
    directory = make_trained(tmp_path)

    def read(last):
        gin.clear_config()
        gin.parse_config(f"ActorCriticNetwork.fc_layer_params = {(*sizes[:3], last)}")
        gin.parse_config(f"A = {list(sizes)}\nSGD.momentum = %A")
        gin.query_parameter("ActorCriticNetwork.fc_layer_params")
        ActorCriticNetwork(tf.TensorSpec((2,), tf.float32), 2)

    read(7)
    directory.write_config(operative_config(), POLICY)
    read(7)
    directory.check_config(operative_config())
    read(8)
    with pytest.raises(ConfigError, match="fc_layer_params"):
        directory.check_config(operative_config())


def test_every_line_of_a_long_value_is_compared(tmp_path):
    directory = make_trained(tmp_path)

    def read(last):
        gin.clear_config()
        gin.parse_config(f"ActorCriticNetwork.fc_layer_params = {(4,) * 40 + (last,)}")
        ActorCriticNetwork(tf.TensorSpec((2,), tf.float32), 2)

    read(7)
    assert "fc_layer_params = \\\n" in gin.operative_config_str()
    directory.write_config(operative_config(), POLICY)
    read(7)
    directory.check_config(operative_config())
    read(8)
    with pytest.raises(ConfigError, match=r"fc_layer_params is \(4, 4, .*, 8\) here, \(4, .*, 7\) there"):
        directory.check_config(operative_config())


def test_written_config_can_be_read_by_gin(tmp_path):
    read_config(learning_rate=0.25)
    directory = RunDir(str(tmp_path))
    directory.write_config(operative_config(), POLICY, save_git_state=False)
    gin.clear_config()
    gin.parse_config_file(os.path.join(directory.path, "operative_config.gin"))
    assert float(optimizers.SGD().learning_rate()) == 0.25
    assert sorted(os.listdir(tmp_path)) == ["git_revision.txt", "operative_config.gin", "run.json"]


def test_written_config_names_the_modules_that_gin_did_not_import(tmp_path, monkeypatch):
    """As Gymnasium imports the module of "module:Name-v0"."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "known_to_gymnasium.py").write_text(
        "import gin\n@gin.configurable\ndef late(value=1):\n    return value\n"
    )
    read_config()
    importlib.import_module("known_to_gymnasium").late()
    RunDir(str(tmp_path / "run")).write_config(operative_config(), POLICY)
    imports = re.findall("^import .*", (tmp_path / "run" / "operative_config.gin").read_text(), re.MULTILINE)
    assert imports == ["import known_to_gymnasium"]


@pytest.mark.parametrize(
    "binding, name",
    [
        ("RMSprop.rho = 0.5", "RMSprop.rho"),
        ("eval/SGD.momentum = 0.5", "eval/SGD.momentum"),
    ],
)
def test_dead_bindings_are_named(binding, name):
    read_config()
    check_dead_bindings()
    read_config(dead=binding)
    with pytest.raises(ConfigError, match=f"nothing reads the gin binding {re.escape(name)}$"):
        check_dead_bindings()


@gin.configurable
def use(anything=None, more=None):
    """Stands for any class that reads its arguments."""
    return anything


LONG = "a long text with a dot. and = a sign, " * 5


@pytest.mark.parametrize(
    "config, dead",
    [
        ("RATE = 0.5\nUNUSED = 1\nuse.anything = %RATE", None),
        ("eval/RATE = 0.5\nuse.anything = 1", None),
        ("use.anything = @SGD()\nSGD.learning_rate = 0.5", None),
        ("use.anything = @SGD\nSGD.learning_rate = 0.5", "SGD.learning_rate"),
        ("use.anything = @eval/SGD()\neval/SGD.momentum = 0.5", None),
        ("use.anything = @eval/SGD()\ntrain/SGD.momentum = 0.5", "train/SGD.momentum"),
        # What a call in a scope does not find there it reads without the scope.
        ("use.anything = @eval/SGD()\nSGD.momentum = 0.5", None),
        ("use.anything = @a/b/SGD()\na/SGD.momentum = 0.5", None),
        ("use.anything = @a/b/SGD()\na/SGD.momentum = 0.5\nSGD.momentum = 1.0", "SGD.momentum"),
        ("use.anything = @a/b/SGD()\nb/SGD.momentum = 0.5", "b/SGD.momentum"),
        ("use.anything = @ab/SGD()\na/SGD.momentum = 0.5", "a/SGD.momentum"),
        ("use.anything = (@SGD(), @RMSprop())\nRMSprop.rho = 0.5", None),
        ('use.anything = {"a": @a/Adam(), "b": @b/Adam()}\nAdam.epsilon = 1e-5\na/Adam.beta_1 = 0.5', None),
        ('use.anything = {"a": @a/Adam()}\nb/Adam.epsilon = 1e-5', "b/Adam.epsilon"),
        (
            f"use.anything = {(1,) * 60}\nuse.more = {dict.fromkeys('abcdefghijklmnopqrstuvwxyz', '@SGD')}",
            None,
        ),
        (f"use.anything = {LONG!r}\nuse.more = ('x', {LONG!r})", None),
        (f"use.anything = 1\nRMSprop.rho = {(1,) * 60}", "RMSprop.rho"),
        ("use.anything = 1\nuse.more = None", None),
    ],
)
def test_which_bindings_are_dead(config, dead, caplog):
    gin.parse_config(config)
    use()
    check_dead_bindings()
    assert re.findall("nothing reads (.*): other", caplog.text) == [dead] * bool(dead)


def test_a_binding_of_a_scope_is_not_the_one_without_a_scope():
    parse_config([], ["use.anything = 1\neval/use.anything = 2"])
    with gin.config_scope("eval"):
        use()
    check_dead_bindings(["eval/use.anything"])
    assert error_of_dead("use.anything") == "nothing reads the gin binding use.anything"


def error_of_dead(*names):
    with pytest.raises(ConfigError) as caught:
        check_dead_bindings(names or None)
    return str(caught.value)


@pytest.mark.parametrize(
    "config, given, dead",
    [
        ("use.anything = 1", {"anything": 2}, "use.anything"),  # the caller overrides it
        ("RMSprop.rho = 0.5\nLinearSchedule.start = 1", {}, "LinearSchedule.start, RMSprop.rho"),
    ],
)
def test_dead_bindings_of_the_caller_are_an_error(config, given, dead):
    parse_config([], [config])
    use(**given)
    assert error_of_dead() == f"nothing reads the gin binding {dead}"


@pytest.fixture
def git(tmp_path, monkeypatch):
    """Calls git in `tmp_path`, which is in no repository at first."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    def _git(*args):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *args],
            cwd=tmp_path,
            check=True,
            capture_output=True,
            timeout=300,
        )

    return _git


@pytest.fixture
def own_code(tmp_path, monkeypatch):
    """The folder of a user's own code, from which modules are imported."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "own.gin").write_text("one\n")
    (folder / "picture.bin").write_bytes(bytes(100))
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir("/")
    return folder


def write_config(tmp_path, **settings):
    """Writes a run's configuration; returns what `run.json` says of git, and the diff or None."""
    directory = RunDir(str(tmp_path / "run"))
    directory.write_config(operative_config(), POLICY, **settings)
    patch = tmp_path / "run" / "git_diff.patch"
    return read_description(directory.path).git, patch.read_text() if patch.exists() else None


def test_the_state_of_the_users_repository_is_saved(tmp_path, own_code, git):
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    state, patch = write_config(tmp_path)
    assert re.fullmatch("[0-9a-f]{40}", state["commit"]) and patch is None
    assert state == {"root": str(tmp_path), "commit": state["commit"], "dirty": False}
    (own_code / "own.gin").write_text("two\n")
    (own_code / "picture.bin").write_bytes(bytes([0, 1]) * 50)
    (own_code / "new.gin").write_text("git does not track it")
    changed, patch = write_config(tmp_path)
    assert changed == {**state, "dirty": True}
    assert "\n-one\n+two\n" in patch and "Binary files" in patch and "new.gin" not in patch
    # What a run wrote when it began is replaced when it is continued.
    git("checkout", "-q", ".")
    assert write_config(tmp_path) == (state, None)
    (own_code / "own.gin").write_text("three\n")
    assert write_config(tmp_path)[1] is not None
    assert write_config(tmp_path, save_git_state=False) == (None, None)


def test_the_first_folder_in_a_repository_counts(tmp_path, own_code, git, monkeypatch):
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    assert read_git_state(["/no/such/folder", "/", str(own_code)]).root == str(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path.startswith(sys.prefix)])
    assert write_config(tmp_path)[0] is None
    monkeypatch.chdir(own_code)
    assert write_config(tmp_path)[0] is None


def test_no_monitor_or_diff_program_runs(tmp_path, own_code, git):
    """Each would write a file into `hits`."""
    hits = tmp_path / "hits"
    hits.mkdir()
    (own_code / ".gitattributes").write_text("*.gin diff=shown\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    for name in ("core.fsmonitor", "diff.external", "diff.shown.textconv"):
        git("config", name, f"touch '{hits}/{name}'; cat")
    (own_code / "own.gin").write_text("two\n")
    assert b"+two" in read_git_state([str(own_code)]).diff
    assert os.listdir(hits) == []
    subprocess.run(["git", "-C", str(own_code), "diff"], capture_output=True, timeout=300)  # without care
    assert os.listdir(hits)


def test_a_long_diff_is_cut(own_code, git, monkeypatch):
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    (own_code / "own.gin").write_text("x" * 5000)
    monkeypatch.setattr("alf.runs.git_state._MAX_BYTES", 1000)
    diff = read_git_state([str(own_code)]).diff
    assert diff.endswith(b"x\n[cut: the diff has more than 1,000 bytes]\n") and len(diff) < 1100


def test_without_git_or_a_commit_nothing_is_said(tmp_path, own_code, git, monkeypatch, capfd):
    folders = [str(own_code)]
    assert read_git_state(folders) is None
    git("init", "-q")
    assert read_git_state(folders) is None
    git("add", ".")
    git("commit", "-q", "-m", "one")
    assert read_git_state(folders) is not None
    monkeypatch.setenv("PATH", "")
    assert read_git_state(folders) is None
    assert capfd.readouterr() == ("", "")


def test_a_git_that_hangs_is_ended(tmp_path, monkeypatch):
    slow = tmp_path / "git"
    slow.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'import time; time.sleep(600)'\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("alf.runs.git_state._GIT_SECONDS", 0.2)
    assert read_git_state([str(tmp_path)]) is None


def test_the_end_of_a_run_is_one_file(tmp_path, monkeypatch):
    directory = RunDir(str(tmp_path))
    directory.write_done("FAILURE", "ValueError: a\n  b", {"iterations": 3})
    (name,) = os.listdir(tmp_path)
    content = json.loads((tmp_path / name).read_text())
    assert name == "done.json"
    assert content == {"status": "FAILURE", "reason": "ValueError: a b", "iterations": 3}
    directory.write_done("FAILURE", "ValueError: " + "x\n" * 500_000, {})
    reason = json.loads((tmp_path / name).read_text())["reason"]
    assert reason.startswith("ValueError: x x x") and reason.endswith("...") and len(reason) < 1010
    directory.remove_done()
    directory.remove_done()
    assert os.listdir(tmp_path) == []
    (tmp_path / "done.json.tmp").mkdir()  # cannot be written
    directory.write_done("SUCCESS", "", {})
    assert os.listdir(tmp_path) == ["done.json.tmp"]


def test_git_revision(tmp_path, monkeypatch, git):
    module = tmp_path / "run_dir.py"
    module.write_text("")
    monkeypatch.setattr(run_dir, "__file__", str(module))
    assert git_revision() == "unknown"
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    assert re.fullmatch("[0-9a-f]{40}", git_revision())
    module.write_text("# changed")
    assert re.fullmatch("[0-9a-f]{40}-dirty", git_revision())
    with monkeypatch.context() as patch:  # among packages: the repository around them is the user's
        patch.setattr(run_dir, "is_installed", lambda path: path == os.path.dirname(alf.__file__))
        assert git_revision() == "unknown"
    monkeypatch.setenv("PATH", "")
    assert git_revision() == "unknown"


def test_one_run_at_a_time_may_write(tmp_path):
    first, second = RunDir(str(tmp_path)), RunDir(str(tmp_path))
    first.lock()
    for _ in range(2):
        with pytest.raises(ConfigError, match="root_dir '.*' is in use: another run writes there now"):
            second.lock()
    first.close()
    second.lock()
    first.close()  # again, which must not close another file
    with pytest.raises(ConfigError, match="is in use"):
        first.lock()
    del second  # a run that nobody uses any more
    gc.collect()
    first.lock()
    assert os.listdir(tmp_path) == []


def test_a_file_system_without_locks_is_a_warning(tmp_path, monkeypatch, caplog):
    def fail(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(run_dir.fcntl, "flock", fail)
    RunDir(str(tmp_path)).lock()
    assert "cannot be locked against a second run: [Errno 37] No locks available" in caplog.text


@pytest.mark.parametrize("content", [b"\xff\xfe\x00binary", None], ids=["binary", "directory"])
def test_a_config_that_cannot_be_read_is_named(tmp_path, content):
    path = tmp_path / "operative_config.gin"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(ConfigError, match="operative_config.gin cannot be read: "):
        make_trained(tmp_path).check_config(operative_config())


def test_a_config_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    def fail(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ConfigError, match="root_dir '.*' cannot be written to: No space left on device"):
        RunDir(str(tmp_path)).write_config(operative_config(), POLICY)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "setting, may_change",
    [
        ("Checkpoints.interval", True),
        ("Trainer.callbacks", True),
        ("Evaluator.num_episodes", True),
        ("eval/environments.load.max_episode_steps", True),
        ("main/LearnerSettings.summarize_grads_and_vars", True),
        ("Trainer.initial_checkpoint", False),
        ("Experiment.unroll_length", False),
        ("Experiment.seed", False),
        ("StopCriteria_.num_iterations", False),
    ],
)
def test_what_may_change_in_a_run_that_continues(tmp_path, monkeypatch, setting, may_change):
    directory = make_trained(tmp_path)
    for value in (1, 2):
        monkeypatch.setattr(gin, "operative_config_str", lambda value=value: f"{setting} = {value}")
        if value == 1:
            directory.write_config(operative_config(), POLICY)
    if may_change:
        directory.check_config(operative_config())
    else:
        with pytest.raises(ConfigError, match=f"{setting} is 2 here, 1 there"):
            directory.check_config(operative_config())
