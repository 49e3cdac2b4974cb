# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The command line: what it prints, its exit status, what is on disk afterwards.

Signals, tracebacks and a terminal need a process of their own; the rest calls `main`.
"""

import contextlib
import fcntl
import itertools
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import textwrap
import threading
import time
from pathlib import Path

import gin
import pytest
import tensorflow as tf
from absl import flags
from absl.testing import flagsaver

from alf.bin import signals, train

ROOT = Path(__file__).resolve().parent.parent.parent
CARTPOLE = str(ROOT / "examples" / "impala_cartpole.gin")
SGD = ["alf.Learner.optimizer = @SGD()", "SGD.learning_rate = 0.1"]
SMALL = [
    "alf.environments.load.batch_size = 8",
    "Experiment.unroll_length = 4",
    "ActorCriticNetwork.fc_layer_params = (8,)",
]

NUMBERS = itertools.count()
# What a user would write; `configure` puts it into a folder of its own, with a gin file beside it.
MY_ENV = """
    import time

    import gin
    import numpy as np
    from alf.testing.toy_environments import MatchObservationEnvironment

    @gin.configurable
    class Mine(MatchObservationEnvironment):
        def __init__(self, batch_size=4, seed=0):
            super().__init__(batch_size, seed=seed)


    @gin.configurable
    class Raises(Mine):
        steps = 0

        def _step(self, action):
            self.steps += 1
            if self.steps == 50:
                print("raising at", time.time(), flush=True)
                raise KeyError("my own bug")
            return super()._step(action)


    @gin.configurable
    class BecomesSlow(Mine):
        steps = 0  # of all instances

        def _step(self, action):
            if not BecomesSlow.steps:
                BecomesSlow.start = time.monotonic()
            BecomesSlow.steps += 1
            # The log has a line after 5 s, and no second one after 10 s.
            if BecomesSlow.steps > 1_000 and time.monotonic() - BecomesSlow.start > 7:
                print("slow now", flush=True)
                time.sleep(4.0)
            return super()._step(action)


    @gin.configurable
    class NotANumber(Mine):
        def _step(self, action):
            time_step = super()._step(action)
            return time_step._replace(reward=time_step.reward * np.nan)


    @gin.configurable
    def differ(seed):
        differ.count = getattr(differ, "count", 0) + 1
        return Mine(batch_size=2 + differ.count % 2)


    @gin.configurable
    class WrongShape(Mine):
        def _observe(self, first):
            return super()._observe(first)[:, :2]
"""


def configure(tmp_path, env):
    """Writes the user's module and a gin file; returns the gin file's path."""
    module = f"my_env_{next(NUMBERS)}"  # gin knows each module but once
    (tmp_path / f"{module}.py").write_text(textwrap.dedent(MY_ENV))
    path = tmp_path / "mine.gin"
    path.write_text(
        f"import {module}\n"
        f"Experiment.env_ctor = @{module}.{env}\n"
        "alf.Learner.optimizer = @Adam()\n"
        "alf.Learner.max_grad_norm = 40.0\n"
        "Adam.learning_rate = 1e-3\n"
    )
    return str(path)


def arguments(root_dir, gin_file=CARTPOLE, params=()):
    return [
        f"--gin_file={gin_file}",
        f"--root_dir={root_dir}",
        *(f"--gin_param={param}" for param in params),
    ]


def command(*args):
    return [sys.executable, "-m", "alf.bin.train", *args]


def environment(*folders):
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *map(str, folders)])}


def run(*args, folders=(), cwd=None):
    return subprocess.run(
        command(*args),
        env=environment(*folders),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def main(capsys, monkeypatch):
    """Runs `main` in this process; returns its status, what it printed, and its error lines."""
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()
    monkeypatch.setattr(sys, "path", list(sys.path))  # parse_config adds to it

    def _main(root_dir, gin_file=CARTPOLE, params=()):
        gin.clear_config()
        files = [gin_file] if isinstance(gin_file, str) else gin_file
        with flagsaver.flagsaver(gin_file=files, gin_param=list(params), root_dir=root_dir):
            status = train.main(["train"])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return status, out, [line for line in err.splitlines() if line.startswith("error: ")]

    return _main


def test_trains_saves_and_continues(tmp_path):
    root_dir = tmp_path / "new" / "run"
    params = [*SMALL, "StopCriteria.num_iterations = 30", "Trainer.summary_interval = 0.0"]
    params.insert(0, "Trainer.save_git_state = False")
    first = run(*arguments(root_dir, params=params))
    assert first.returncode == 0, first.stderr
    assert first.stdout == "num_iterations=30 reached\n"
    assert f"tensorboard --logdir {root_dir}\n" in first.stderr
    log, table = first.stderr.split("where the time went:\n")
    for line in log.splitlines():  # nothing of TensorFlow's, neither when it starts nor when it saves
        assert re.match(r"I\d{4} [\d:.]+ \d+ (trainer|progress_bar)\.py:\d+\] ", line), line
    assert "average return" in table
    for line in table.splitlines():  # what it is and a figure, and nothing else
        assert re.search(r"\S  +\S", line), line
    assert sorted(os.listdir(root_dir)) == [
        "checkpoints",
        "done.json",
        "git_revision.txt",
        "hparams",
        "operative_config.gin",
        "progress.csv",
        "run.json",
        "train",
    ]
    (events,) = os.listdir(root_dir / "train")
    assert (root_dir / "train" / events).stat().st_size > 10_000
    config = (root_dir / "operative_config.gin").read_text()
    for line in ("Experiment.unroll_length = 4", "ImpalaAlgorithm.discount = 0.99"):
        assert line in config.splitlines()
    revision = (root_dir / "git_revision.txt").read_text()
    assert re.fullmatch(r"([0-9a-f]{40}(-dirty)?|unknown)\n", revision)
    steps = counters(first)["env_steps"]
    assert counters(first)["iterations"] == 30 and steps > 500

    params[-2] = "StopCriteria.num_iterations = 33"
    second = run(*arguments(root_dir, params=params))
    assert second.returncode == 0, second.stderr
    assert second.stdout == "num_iterations=33 reached\n"
    assert f"continues from {root_dir}/checkpoints/ckpt-30: " in second.stderr
    assert counters(second)["iterations"] == 33
    assert steps < counters(second)["env_steps"] <= steps + 3 * 32
    assert tf.train.latest_checkpoint(root_dir / "checkpoints").endswith("ckpt-33")


def counters(result):
    """The counters in the last line that is logged."""
    return eval(re.findall(r"after (\{.*\})", result.stderr)[-1])


@contextlib.contextmanager
def started(*args, **kwargs):
    """A process that is killed in any case."""
    process = subprocess.Popen(*args, **kwargs)
    timer = threading.Timer(120, process.kill)
    timer.start()
    try:
        yield process
    finally:
        timer.cancel()
        process.kill()
        process.wait()


def test_ctrl_c_on_a_terminal(tmp_path):
    # stderr is a terminal: a bar. The bytes that are shown go through `reader`.
    reader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 50, 200, 0, 0))
    process_args = command(*arguments(tmp_path / "run", params=SMALL))
    with started(
        process_args,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=terminal,
        text=True,
    ) as process:
        os.close(terminal)
        shown = read_until(
            reader, r"\d steps \[00:\d\d, [\d,]+ steps/s, bottleneck \w+\] return \d+(\.\d+)? lag \d"
        )
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        shown += read_until(reader, None)
        out, _ = process.communicate(timeout=60)
        assert time.monotonic() - start < 10.0
    os.close(reader)
    assert process.returncode == 130, shown
    assert out == "stopped by SIGINT\n"
    assert "Traceback" not in shown
    iterations = int(re.findall(r"'iterations': (\d+)", shown)[-1])
    latest = tf.train.latest_checkpoint(tmp_path / "run" / "checkpoints")
    assert iterations > 0 and latest.endswith(f"ckpt-{iterations}")


def read_until(reader, pattern):
    """Reads from a terminal until it shows `pattern`, or to its end; returns what it showed."""
    shown = ""
    end = time.monotonic() + 90
    while time.monotonic() < end and not (pattern and re.search(pattern, shown)):
        if select.select([reader], [], [], 1.0)[0]:
            try:
                data = os.read(reader, 65536)
            except OSError:  # Linux' way to say that the other end is closed
                return shown
            if not data:
                return shown
            shown += data.decode(errors="replace")
    assert not pattern or re.search(pattern, shown), shown
    return shown


def test_sigterm_while_the_learner_waits_and_a_line_every_few_seconds(tmp_path):
    gin_file = configure(tmp_path, "BecomesSlow")
    with started(
        command(*arguments(tmp_path / "run", gin_file)),
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline().startswith("slow now")
        time.sleep(1.0)  # unrolls take 32 s from now on
        process.send_signal(signal.SIGTERM)
        start = time.monotonic()
        out, err = process.communicate(timeout=60)
        assert time.monotonic() - start < 20.0  # a step, 4 s, and the end of the process
    assert process.returncode == 143, err
    assert out.splitlines()[-1] == "stopped by SIGTERM"
    assert "Traceback" not in err
    iterations = int(re.findall(r"'iterations': (\d+)", err)[-1])
    latest = tf.train.latest_checkpoint(tmp_path / "run" / "checkpoints")
    assert iterations > 10 and latest.endswith(f"ckpt-{iterations}")
    (line,) = re.findall(r"env steps [\d,]+ \|.*", err)
    assert re.fullmatch(
        r"env steps [\d,]+ \| steps/s [\d,]+ / [\d,]+ / [\d,]+ \(10 s / 1 min / 5 min\) "
        r"\| collected/s [\d,]+ \| bottleneck \w+ "
        r"\| return (?:\d(?:\.\d{1,2})?|10) \| episodes [\d,]+ \| lag \d+/\d+\.\d/\d+",
        line,
    )


def test_an_environment_that_raises_shows_its_own_traceback(tmp_path):
    result = run(*arguments(tmp_path / "run", configure(tmp_path, "Raises")), folders=[tmp_path])
    ended = time.time()
    assert result.returncode == 1
    assert ended - float(re.search("raising at (.*)", result.stdout).group(1)) < 20.0
    assert result.stderr.count("Traceback (most recent call last)") == 1, result.stderr
    assert re.search(r'File ".*my_env_\d+\.py", line \d+, in _step', result.stderr)
    assert "KeyError: 'my own bug'" in result.stderr
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_wrong_setting_is_one_line(tmp_path):
    params = ["alf.environments.load.name = 'CartPole-v99'"]
    result = run(*arguments(tmp_path / "run", params=params))
    assert result.returncode == 2
    assert result.stdout == "" and "Traceback" not in result.stderr
    (line,) = [x for x in result.stderr.splitlines() if "CartPole-v99" in x]
    assert line == result.stderr.splitlines()[-1]
    assert line.startswith("error: load.name: no Gymnasium environment 'CartPole-v99'")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "gin_file, params, message",
    [
        (CARTPOLE, ["Nope.x = 1"], "No configurable matching 'Nope'"),
        (CARTPOLE, ["Trainer.nope = 1"], "'Trainer' doesn't have a parameter named 'nope'"),
        (CARTPOLE, ["Learner.jit_compile = True"], "Ambiguous selector 'Learner', matches .*'alf.Learner'"),
        (
            CARTPOLE,
            ["Adam.learning_rat = 1"],
            "Adam has no parameter .learning_rat.; did you mean Adam.learning_rate = 1",
        ),
        (CARTPOLE, ["alf.environments.load.siz = 1"], "load: .*unexpected .*'siz'"),
        (CARTPOLE, ["RMSprop.rho = 0.5"], "nothing reads the gin binding .*RMSprop.rho$"),
        (
            CARTPOLE,
            ["alf.environments.load.name = Nope"],
            "token 'Nope' .*: a text needs quotation",
        ),
        (CARTPOLE, ["Experiment.env_ctor = @nope"], "No configurable matching reference '@nope'"),
        (CARTPOLE, ["Experiment.num_envs"], "Couldn't parse statement"),
        (CARTPOLE, ["Experiment.num_envs = %NOPE"], "nothing defines %NOPE: write NOPE = VALUE$"),
        (CARTPOLE, ["Experiment.num_envs = 0"], "Experiment.num_envs is 0"),
        (CARTPOLE, ["StopCriteria.max_seconds = -1"], "StopCriteria.max_seconds is -1"),
        (CARTPOLE, ["alf.environments.load.name = 'Nope-v0'"], "load.name: .*'Nope-v0'"),
        (CARTPOLE, ["alf.environments.load.name = 'nope:Nope-v0'"], "nope"),
        (CARTPOLE, ["alf.environments.load.batch_size = 0"], "load.batch_size"),
        (
            CARTPOLE,
            ["AsyncOffPolicyDriver.num_actor_queues = 3"],
            r"num_envs is 2, less than num_actor_queues \* actor_queue_cap = 3 \* 1",
        ),
        (
            CARTPOLE,
            ["AsyncOffPolicyDriver.actor_queue_cap = 3"],
            r"num_envs is 2, less than num_actor_queues \* actor_queue_cap = 1 \* 3",
        ),
        (CARTPOLE, ["AsyncOffPolicyDriver.learn_queue_cap = 3"], "learn_queue_cap is 3, more than"),
        (CARTPOLE, ["Experiment.exp_replayer = 'x'"], "exp_replayer is 'x'"),
        (CARTPOLE, ["ImpalaAlgorithm.discount = 2.0"], "ImpalaAlgorithm.discount is 2.0"),
        (CARTPOLE, ["alf.Learner.max_grad_norm = 0"], "max_grad_norm is 0"),
        (CARTPOLE, ["Experiment.unroll_length = 'x'"], "unroll_length is 'x'"),
        (CARTPOLE, ["Experiment.unroll_length = 2.5"], "unroll_length is 2.5, no integer above 0"),
        (CARTPOLE, ["Experiment.num_envs = '2'"], "Experiment.num_envs is '2'"),
        (CARTPOLE, ["Experiment.seed = 1.5"], "Experiment.seed is 1.5"),
        (CARTPOLE, ["StopCriteria.target_return = 'high'"], "StopCriteria.target_return is 'high'"),
        (CARTPOLE, ["ImpalaAlgorithm.discount = '1'"], "ImpalaAlgorithm.discount is '1'"),
        (CARTPOLE, ["alf.Learner.optimizer = @Adam"], r"with parentheses: write .*optimizer = @Adam\(\)$"),
        (CARTPOLE, ["entropy_weight=0.1"], "nothing uses; did you mean ImpalaAlgorithm.entropy_weight = 0.1"),
        (
            CARTPOLE,
            ["alf.Learner.optimizer = None"],
            "Learner.optimizer is None: ImpalaAlgorithm needs an opt",
        ),
        (CARTPOLE, [*SGD, "SGD.momentum = -5.0"], "SGD.momentum is -5.0: it must be a number at least 0"),
        (CARTPOLE, [*SGD, "SGD.momentum = 'bad'"], "SGD.momentum is 'bad': it must be a number"),
        (CARTPOLE, [*SGD, "SGD.nesterov = 'no'"], "SGD.nesterov is 'no': it must be True or"),
        (CARTPOLE, ["alf.Learner.optimizer = {'a': @Adam()}"], r"Learner.optimizer has the keys \['a'\]"),
        (CARTPOLE, ["alf.Learner.training = 1"], "nothing reads the gin binding alf.Learner.training$"),
        (CARTPOLE, ["ActorCriticNetwork.activation = 'nope'"], "activation is 'nope'"),
        (CARTPOLE, ["ActorCriticNetwork.fc_layer_params = 64"], "fc_layer_params is 64"),
        (CARTPOLE, ["ActorCriticNetwork.fc_layer_params = (64, 0)"], "fc_layer_params is"),
        ("no/such/file.gin", [], "--gin_file: there is no file 'no/such/file.gin'"),
        ("syntax", [], r"--gin_file.*syntax\.gin, line 2"),
        ("import", [], "--gin_file.*No module named 'nope_module'"),
        ("include", [], "--gin_file.*nope.gin"),
        ("bracket", [], r"--gin_file=.*bracket\.gin: a bracket or a quotation mark is not closed$"),
        ("itself", [], r"--gin_file=.*itself\.gin: the file includes itself$"),
        ("binary", [], r"--gin_file=.*binary\.gin: 'utf-8' codec can't decode byte"),
        (CARTPOLE, ["Experiment.seed = (1,"], "--gin_param: a bracket or a quotation mark is not closed$"),
        ([], [], r"load: .* 'name' and 'batch_size': write .*load\.name = \"CartPole-v1\" and "),
        (
            [],
            ["alf.environments.load.name = 'CartPole-v1'", "alf.environments.load.batch_size = 2"],
            r"^error: Learner.optimizer is None: .*alf\.Learner\.optimizer = @Adam\(\)$",
        ),
    ],
    ids=lambda value: str(value).replace(CARTPOLE, "")[:40],
)
def test_bad_settings(main, tmp_path, gin_file, params, message):
    root_dir = tmp_path / "run"
    texts = {
        "syntax": "Experiment.seed = 1\nExperiment.num_envs = = 3\n",
        "import": "import nope_module\n",
        "include": "include 'nope.gin'\n",
        "bracket": "Experiment.seed = (1,\n",
        "itself": f"include '{tmp_path}/itself.gin'\n",
        "binary": "\udcff\udcfe\x00\x01",
    }
    if not isinstance(gin_file, list) and gin_file in texts:
        path = tmp_path / f"{gin_file}.gin"
        path.write_text(texts[gin_file], errors="surrogateescape")
        gin_file = str(path)
    status, out, errors = main(str(root_dir), gin_file, params)
    assert status == 2
    assert out == ""
    assert len(errors) == 1 and re.search(message, errors[0]), errors
    assert not root_dir.exists()


@pytest.mark.parametrize("root_dir", [None, ""])
def test_root_dir_is_needed(main, tmp_path, monkeypatch, root_dir):
    monkeypatch.chdir(tmp_path)
    status, _, errors = main(root_dir)
    assert status == 2
    assert errors == ["error: --root_dir is missing: name the directory to write to"]
    assert os.listdir(tmp_path) == []


def test_root_dir_below_a_file(main, tmp_path):
    (tmp_path / "file").write_text("")
    status, _, (error,) = main(str(tmp_path / "file" / "run"))
    assert status == 2
    assert re.search("root_dir '.*file/run' cannot be written to: Not a directory", error)


def test_unexpected_arguments_are_named(capsys):
    assert train.main(["train", "oops"]) == 2
    assert capsys.readouterr().err == "error: unexpected argument 'oops'\n"


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_root_dir_of_another_config(main, tmp_path):
    root_dir = tmp_path / "run"
    short = [*SMALL, "StopCriteria.num_iterations = 2"]
    assert main(str(root_dir), params=short)[0] == 0
    before = contents(root_dir)
    status, out, (error,) = main(str(root_dir), params=[*short, "ImpalaAlgorithm.discount = 0.5"])
    assert (status, out) == (2, "")
    assert "holds a run of another config (ImpalaAlgorithm.discount is 0.5 here, 0.99" in error
    assert contents(root_dir) == before


@pytest.mark.parametrize(
    "env, status, message",
    [
        ("differ", 2, r"envs\[1\] has another batch_size or other specs than envs\[0\]"),
        (
            "WrongShape",
            2,
            r"envs\[\d\] returned an observation .* its observation_spec .*\(4, 2\) instead of",
        ),
        ("NotANumber", 1, r"envs\[\d\] \(NotANumber\) returned nan in reward of sub-environment \d"),
    ],
)
def test_environments_that_do_not_keep_their_word(main, tmp_path, env, status, message):
    root_dir = tmp_path / "run"
    found, out, errors = main(str(root_dir), configure(tmp_path, env))
    assert (found, out) == (status, "")
    assert len(errors) == 1 and re.search(message, errors[0])
    assert not (root_dir / "checkpoints").exists()
    if env == "differ":
        assert not root_dir.exists()


def test_a_learning_rate_that_is_too_large(main, tmp_path):
    params = [*SMALL, "Adam.learning_rate = 1e30"]
    status, _, (error,) = main(str(tmp_path), params=params)
    assert status == 1
    assert "lower the optimizer's learning_rate or set max_grad_norm" in error
    assert not (tmp_path / "checkpoints").exists()


def test_gin_files_and_params_may_be_repeated(main, tmp_path):
    extra = tmp_path / "extra.gin"
    extra.write_text("StopCriteria.num_iterations = 1\nAdam.learning_rate = 0.5\n")
    params = [*SMALL, "Adam.learning_rate = 0.25"]
    status, out, _ = main(str(tmp_path / "run"), [CARTPOLE, str(extra)], params)
    assert (status, out) == (0, "num_iterations=1 reached\n")
    assert "Adam.learning_rate = 0.25" in (tmp_path / "run" / "operative_config.gin").read_text()


def test_a_binary_config_in_the_root_dir_is_one_line(main, tmp_path):
    (tmp_path / "operative_config.gin").write_bytes(b"\xff\xfe\x00binary")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "ckpt-0.complete").touch()
    status, out, (error,) = main(str(tmp_path), params=SMALL)
    assert (status, out) == (2, "")
    assert "operative_config.gin cannot be read: 'utf-8' codec can't decode" in error


def test_a_module_that_ends_the_process_is_an_error(main, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "ends_at_import.py").write_text("raise SystemExit(0)\n")
    (tmp_path / "config.gin").write_text("import ends_at_import\n")
    status, out, (error,) = main(str(tmp_path / "run"), str(tmp_path / "config.gin"))
    assert (status, out) == (1, "")
    assert error == "error: the user's code called sys.exit(0)"


def test_sighup_saves(tmp_path):
    folder = tmp_path / "run"
    line = command(*arguments(folder, params=["StopCriteria.target_return = None"]))
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
    with started(line, stderr=subprocess.PIPE, text=True) as process:
        signal.signal(signal.SIGHUP, before)
        read_log_until(process, "tensorboard --logdir")
        time.sleep(1.0)
        process.send_signal(signal.SIGHUP)
        _, err = process.communicate(timeout=90)
    assert process.returncode == 128 + signal.SIGHUP, err
    assert list((folder / "checkpoints").glob("ckpt-*.complete"))


def test_under_nohup_a_run_goes_on(tmp_path):
    line = command(*arguments(tmp_path / "run", params=["StopCriteria.target_return = None"]))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with started(line, stderr=subprocess.PIPE, text=True) as process:
        signal.signal(signal.SIGHUP, before)
        read_log_until(process, "tensorboard --logdir")
        process.send_signal(signal.SIGHUP)
        time.sleep(2.0)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=90)
    assert process.returncode == 128 + signal.SIGTERM


def test_a_hangup_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        assert signals.list_hangups() == []
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        assert signals.list_hangups() == [signal.SIGHUP]
    finally:
        signal.signal(signal.SIGHUP, before)


def read_log_until(process, text):
    """Reads lines of a process's log until one holds `text`; the process must end some day."""
    for line in process.stderr:
        if text in line:
            return
    raise AssertionError(f"the log ended without {text!r}")


HANGS_IN_ITS_CONSTRUCTOR = """
import logging, sys, time
def make_env(seed):
    print("constructing", file=sys.stderr, flush=True)
    time.sleep(600)
"""


def test_a_signal_ends_a_constructor_that_hangs(tmp_path):
    (tmp_path / "hangs.py").write_text(
        "import gin\n" + HANGS_IN_ITS_CONSTRUCTOR + "gin.external_configurable(make_env)\n"
    )
    (tmp_path / "hangs.gin").write_text("import hangs\nExperiment.env_ctor = @make_env\n")
    line = command(*arguments(tmp_path / "run", str(tmp_path / "hangs.gin")))
    with started(line, stderr=subprocess.PIPE, text=True) as process:
        read_log_until(process, "constructing")
        process.send_signal(signal.SIGTERM)
        start = time.monotonic()
        process.communicate(timeout=60)
        assert time.monotonic() - start < 20.0  # 2 s and the end of the process
    assert process.returncode == 143


LEAVES_A_THREAD = """
import sys, threading, time
from alf.bin import command, train
command._EXIT_SECONDS = 0.5
train.main = lambda argv: threading.Thread(target=time.sleep, args=(600,), name="Simulator").start()
train.console_main()
"""


def test_a_thread_that_does_not_end_does_not_keep_the_process(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", LEAVES_A_THREAD], capture_output=True, text=True, timeout=90, check=False
    )
    assert result.returncode == 0
    assert "error: after 0.5 s these threads still run: MainThread, Simulator" in result.stderr
