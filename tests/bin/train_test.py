# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""alf train: what it prints, its exit status, what is on disk afterwards, and how signals end it.

One run is a program of its own, which starts TensorFlow; the others are forks. For wrong settings see
smoke_test.py.
"""

import fcntl
import itertools
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import textwrap
import time

import pytest

from alf.bin import train
from alf.core import signals
from alf.runs.checkpoint_files import list_numbers
from tests.bin.forks import SECONDS
from tests.example_runs import EXAMPLES
from tests.programs import ALF, ROOT, environment

pytestmark = pytest.mark.programs
CARTPOLE = EXAMPLES / "impala_cartpole.gin"
SMALL = [
    "Experiment.num_envs = 16",
    "Experiment.unroll_length = 4",
    "ActorCriticNetwork.fc_layer_params = (8,)",
]
FOREVER = [*SMALL, "StopCriteria.target_return = None"]

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
            BecomesSlow.steps += 1
            if BecomesSlow.steps > 1_000:
                print("slow now", flush=True)
                time.sleep(4.0)
            return super()._step(action)


    @gin.configurable
    class NotANumber(Mine):
        def _step(self, action):
            time_step = super()._step(action)
            return time_step._replace(reward=time_step.reward * np.nan)


    @gin.configurable
    class WrongShape(Mine):
        def _observe(self, first):
            return super()._observe(first)[:, :2]


    @gin.configurable
    def hangs(seed):
        print("constructing", flush=True)
        time.sleep(600)
"""


def configure(tmp_path, env):
    """Writes the user's module and a gin file; returns the gin file's path."""
    module = f"my_env_{next(NUMBERS)}"  # gin knows each module but once
    (tmp_path / f"{module}.py").write_text(textwrap.dedent(MY_ENV))
    path = tmp_path / "mine.gin"
    path.write_text(
        f"import {module}\n"
        f"Experiment.env = @{module}.{env}\n"
        "UnrollLearner.optimizer = @Adam()\n"
        "LearnerSettings.max_grad_norm = 40.0\n"
        "Adam.learning_rate = 1e-3\n"
    )
    return str(path)


def arguments(root_dir, gin_file=CARTPOLE, params=()):
    return [
        "train",
        str(gin_file),
        f"--output={root_dir}",
        *(f"--{param}" for param in params),
    ]


def test_trains_saves_and_continues(tmp_path, forks):
    """In a process of its own: TensorFlow starts in it. Gin files and parameters may be repeated."""
    root_dir, extra = tmp_path / "new" / "run", tmp_path / "extra.gin"
    extra.write_text("StopCriteria.num_iterations = 10\nAdam.learning_rate = 0.5\n")
    params = [*SMALL, "Trainer.save_git_state = False", "Summaries.interval = 0.0"]
    args = [*arguments(root_dir, params=[*params, "Adam.learning_rate = 0.25"]), str(extra)]
    first = subprocess.run(
        [sys.executable, "-m", "alf", *args, "--StopCriteria.num_iterations = 30"],
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert first.returncode == 0, first.stderr
    assert first.stdout == "num_iterations=30 reached\n"
    assert f"tensorboard --logdir {root_dir}\n" in first.stderr
    log, table = first.stderr.split("where the time went:\n")
    for line in log.splitlines():  # nothing of TensorFlow's, neither when it starts nor when it saves
        files = "trainer|progress|progress_bar|async_off_policy_driver"
        assert re.match(rf"I\d{{4}} [\d:.]+ \d+ ({files})\.py:\d+\] ", line), line
    assert "BalancedReturn" in table
    for line in table.splitlines():  # what it is and a figure, and nothing else
        assert re.search(r"\S  +\S", line), line
    assert sorted(os.listdir(root_dir)) == [
        "checkpoints",
        "done.json",
        "git_revision.txt",
        "operative_config.gin",
        "progress.csv",
        "run.json",
        "train",
    ]
    (events,) = os.listdir(root_dir / "train")
    assert (root_dir / "train" / events).stat().st_size > 10_000
    config = (root_dir / "operative_config.gin").read_text().splitlines()
    for line in (
        "Experiment.unroll_length = 4",
        "ImpalaAlgorithm.discount = 0.99",
        "Adam.learning_rate = 0.25",
    ):
        assert line in config
    revision = (root_dir / "git_revision.txt").read_text()
    assert re.fullmatch(r"([0-9a-f]{40}(-dirty)?|unknown)\n", revision)
    counted = counters(first.stderr)
    assert counted["iterations"] == 30 and counted["env_steps"] > 500

    second = forks.run(ALF, *args, "--StopCriteria.num_iterations = 33", cwd=tmp_path)
    assert second.status == 0, second.err
    assert second.out == "num_iterations=33 reached\n"
    assert f"continues from {root_dir}/checkpoints/ckpt-30: " in second.err
    found, steps = counters(second.err), counted["env_steps"]
    assert found["iterations"] == 33 and steps < found["env_steps"] <= steps + 3 * 32
    assert newest(root_dir) == 33


def test_a_run_goes_on_where_nobody_reads_its_output(tmp_path, forks):
    """As after `2>&1 | tee log` and a Ctrl-C, which ends both."""
    root_dir = tmp_path / "run"
    args = arguments(root_dir, params=[*SMALL, "StopCriteria.num_iterations = 2"])
    done = forks.run("tests.bin.fork_jobs:closed_pipe", "12", *args, cwd=tmp_path)
    assert done.status == 0
    assert (root_dir / "checkpoints" / "ckpt-2").exists()


def counters(log):
    """The counters in the last line that is logged."""
    return eval(re.findall(r"after (\{.*\})", log)[-1])


def check_saved(root_dir, log):
    """Checks that the newest checkpoint is that of the last iteration, and that there was one."""
    iterations = counters(log)["iterations"]
    assert iterations > 0 and newest(root_dir) == iterations


def newest(root_dir):
    """The number of the newest checkpoint."""
    return list_numbers(str(root_dir / "checkpoints"))[-1]


def test_ctrl_c_on_a_terminal(tmp_path, forks):
    # stderr is a terminal: a bar. The bytes that are shown go through `reader`.
    reader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 50, 200, 0, 0))
    root_dir = tmp_path / "run"
    args = arguments(root_dir, params=FOREVER)
    with forks.start(ALF, *args, cwd=tmp_path, err=os.ttyname(terminal)) as fork:
        shown = read_until(
            reader, r"Return \d+(\.\d+)? [\d,]+ steps \[00:\d\d, [\d,]+ steps/s, bottleneck \w+\] lag \d"
        )
        os.close(terminal)
        fork.send_signal(signal.SIGINT)
        shown += read_until(reader, None)
        done = fork.finish()
    os.close(reader)
    assert (done.status, done.out) == (130, "stopped by SIGINT\n"), shown
    assert "Traceback" not in shown
    check_saved(root_dir, shown)


def read_until(reader, pattern):
    """Reads from a terminal until it shows `pattern`, or to its end; returns what it showed."""
    shown = ""
    end = time.monotonic() + SECONDS
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


def test_sigterm_while_the_learner_waits(tmp_path, forks):
    root_dir, params = tmp_path / "run", ["Experiment.unroll_length = 100"]
    args = arguments(root_dir, configure(tmp_path, "BecomesSlow"), params)
    with forks.start(ALF, *args, cwd=tmp_path) as fork:
        # Each of the two environments has begun a step that takes 4 s, and an unroll that takes 400 s.
        fork.wait_until(lambda: fork.out.read_text().count("slow now") >= 2)
        fork.send_signal(signal.SIGTERM)
        done = fork.finish()  # in less than that
    assert done.status == 143, done.err
    assert done.out.splitlines()[-1] == "stopped by SIGTERM"
    assert "Traceback" not in done.err
    check_saved(root_dir, done.err)


LINE = (
    r"(?:Average|Balanced)Return (?:-|\d+(?:\.\d{1,2})?) \| episodes [\d,]+ \| env steps [\d,]+ "
    r"\| steps/s [\d,]+ / [\d,]+ / [\d,]+ \(10 s / 1 min / 5 min\) \| collected/s [\d,]+ "
    r"\| bottleneck \w+ \| lag \d+/\d+\.\d/\d+$"
)


def count_lines(fork):
    """The number of the lines of the progress in the log of alf train."""
    return len(re.findall(LINE, fork.err.read_text(), re.MULTILINE))


def test_sighup_saves(tmp_path, forks):
    root_dir = tmp_path / "run"
    with forks.start(
        "tests.bin.fork_jobs:logs_often", *arguments(root_dir, params=FOREVER), cwd=tmp_path
    ) as fork:
        fork.wait_until(lambda: count_lines(fork) > 3)
        fork.send_signal(signal.SIGHUP)
        done = fork.finish()
    assert (done.status, done.out) == (128 + signal.SIGHUP, "stopped by SIGHUP\n"), done.err
    check_saved(root_dir, done.err)


def test_under_nohup_a_run_goes_on(tmp_path, forks):
    args = arguments(tmp_path / "run", params=FOREVER)
    with forks.start("tests.bin.fork_jobs:under_nohup", *args, cwd=tmp_path) as fork:
        fork.wait_until(lambda: count_lines(fork) > 3)
        fork.send_signal(signal.SIGHUP)
        before = count_lines(fork)
        fork.wait_until(lambda: count_lines(fork) > before + 20)  # a run that ends makes one iteration more
        fork.send_signal(signal.SIGTERM)
        assert fork.finish().status == 128 + signal.SIGTERM


def test_a_hangup_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        assert signal.SIGHUP not in signals.list_endings()
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        assert signal.SIGHUP in signals.list_endings()
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_constructor_that_hangs(tmp_path, forks, signum):
    """It would take 600 s. The new folder of the run goes."""
    with forks.start(ALF, "train", configure(tmp_path, "hangs"), cwd=tmp_path) as fork:
        fork.wait_until(lambda: "constructing" in fork.out.read_text())
        assert os.listdir(tmp_path / "runs") == ["mine"]
        fork.send_signal(signum)
        assert fork.finish().status == 128 + signum
    assert os.listdir(tmp_path / "runs") == []


@pytest.mark.parametrize("end, status", [("returns", 0), ("raises", 1)])
def test_a_thread_that_does_not_end_does_not_keep_the_process(tmp_path, forks, end, status):
    """Neither after an error that keeps its traceback."""
    done = forks.run("tests.bin.fork_jobs:leaves_a_thread", "train", end, cwd=tmp_path)
    assert done.status == status
    assert "error: after 0.5 s these threads still run: MainThread, Simulator" in done.err


def test_an_environment_that_raises_shows_its_own_traceback(tmp_path, forks):
    args = arguments(tmp_path / "run", configure(tmp_path, "Raises"))
    done = forks.run(ALF, *args, cwd=tmp_path)
    assert done.status == 1
    assert done.err.count("Traceback (most recent call last)") == 1, done.err
    assert re.search(r'File ".*my_env_\d+\.py", line \d+, in _step', done.err)
    assert "KeyError: 'my own bug'" in done.err


def test_a_wrong_setting_is_one_line(tmp_path, forks):
    params = ["alf.environments.load.name = 'CartPole-v99'"]
    done = forks.run(ALF, *arguments(tmp_path / "run", params=params), cwd=tmp_path)
    assert (done.status, done.out) == (2, "") and "Traceback" not in done.err
    (line,) = [x for x in done.err.splitlines() if "CartPole-v99" in x]
    assert line == done.err.splitlines()[-1]
    assert line.startswith("error: load.name: no Gymnasium environment 'CartPole-v99'")
    assert os.listdir(tmp_path) == []


SHORT = ["--unroll_length=8", "--num_envs=4", "--num_groups=1", "--num_minibatches=1", "--recurrence=8"]


def test_without_a_file(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = [*SHORT, "--gamma=0.5", "--Adam.learning_rate=0.25", "--activation=relu"]
    status, out, errors = command(train, *arguments, what="CartPole-v1", algorithm="PPO", steps=64)
    assert (status, errors) == (0, []) and "num_env_steps=64 reached" in out
    root_dir = tmp_path / "runs" / "PPO_CartPole-v1"
    config = (root_dir / "operative_config.gin").read_text()
    for line in ("PPOAlgorithm.discount = 0.5", "Adam.learning_rate = 0.25", "Experiment.num_envs = 4"):
        assert f"\n{line}\n" in config
    assert "\nActorCriticNetwork.activation = 'relu'\n" in config
    # The same command begins anew; its directory alone is enough to go on.
    assert command(train, *arguments, what="CartPole-v1", algorithm="PPO", steps=64)[0] == 0
    assert sorted(os.listdir(tmp_path / "runs")) == ["PPO_CartPole-v1", "PPO_CartPole-v1_2"]
    for steps, flags in (
        (128, dict(steps=128)),
        (192, dict(settings=["StopCriteria.num_env_steps = 192"])),
    ):
        status, out, errors = command(train, str(root_dir), **flags)
        assert (status, errors) == (0, []) and f"num_env_steps={steps} reached" in out


def test_a_file_without_a_flag(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gin_file = tmp_path / "mine.gin"
    gin_file.write_text('Experiment.algorithm = "impala"\nalf.environments.load.name = "CartPole-v1"\n')
    arguments = [str(gin_file), "--unroll_length=8", "--num_envs=2", "--num_iterations=1"]
    arguments += [
        "--driver=@SyncOffPolicyDriver",
        "--rnn=@GRU",
        "--data_transformers=[@ObservationNormalizer]",
    ]
    assert command(train, *arguments)[::2] == (0, [])
    assert os.listdir(tmp_path / "runs") == ["mine"]
    config = (tmp_path / "runs" / "mine" / "operative_config.gin").read_text()
    for line in (
        "Experiment.driver = @SyncOffPolicyDriver",
        "ActorCriticNetwork.rnn = @GRU",
        "Experiment.data_transformers = [@ObservationNormalizer]",
    ):
        assert f"\n{line}\n" in config
    (error,) = command(train, *arguments, "--learning_rate=x")[2]
    assert error.startswith("error: Adam.learning_rate is 'x': it must be a number at least 0")


def test_there_is_nothing_to_train(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for what, begin in (
        ((), "nothing says what to train: name an environment (alf train CartPole-v1)"),
        ("empty", "the folder 'empty' has no run: there is no operative_config.gin"),
        ("./x", "there is no './x': name an environment"),
        ("x.gin", "there is no file 'x.gin'"),
        ("x.py:Env", "there is no file 'x.py'"),
        (("CartPole-v1", "Acrobot-v1"), "unexpected argument 'Acrobot-v1': name one environment"),
    ):
        status, _, (error,) = command(train, what=what)
        assert status == 2 and error.startswith(f"error: {begin}"), error
    assert os.listdir(tmp_path) == ["empty"]


def test_a_run_in_the_home_directory_goes_on(command, root_of, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    shutil.copytree(root_of("cartpole"), tmp_path / "run")
    assert command(train, what="~/run") == (0, "num_iterations=2 reached\n", [])
    config = str(tmp_path / "run" / "operative_config.gin")
    assert command(train, what=config, output="~/run") == (0, "num_iterations=2 reached\n", [])
    status, _, (error,) = command(train, what="~/run", output="~/other")
    assert status == 2 and error.startswith(f"error: {tmp_path}/run is a run, which goes on where it is")


def test_the_root_dir_of_another_config_is_left_as_it_is(command, root_of, tmp_path):
    root_dir = shutil.copytree(root_of("cartpole"), tmp_path / "run")
    read = lambda: {path: path.read_bytes() for path in root_dir.rglob("*") if path.is_file()}  # noqa: E731
    before = read()
    flags = dict(output=str(root_dir), what=[str(root_dir / "operative_config.gin")])
    status, out, (error,) = command(train, **flags, settings=["ImpalaAlgorithm.discount = 0.5"])
    assert (status, out) == (2, "")
    assert "holds a run of another config (ImpalaAlgorithm.discount is 0.5 here, 0.99" in error
    assert read() == before


@pytest.mark.parametrize(
    "env, status, message",
    [
        (
            "WrongShape",
            2,
            r"envs\[\d\] returned an observation .* its observation_spec .*\(4, 2\) instead of",
        ),
        ("NotANumber", 1, r"envs\[\d\] \(NotANumber\) returned nan in reward of sub-environment \d"),
    ],
)
def test_an_environment_that_does_not_keep_its_word(command, tmp_path, env, status, message):
    root_dir = tmp_path / "run"
    found, out, errors = command(train, output=str(root_dir), what=[configure(tmp_path, env)])
    assert (found, out) == (status, "")
    assert len(errors) == 1 and re.search(message, errors[0])
    assert not (root_dir / "checkpoints").exists()


def test_a_module_that_ends_the_process_is_an_error(command, tmp_path):
    (tmp_path / "ends_at_import.py").write_text("raise SystemExit(0)\n")
    (tmp_path / "config.gin").write_text("import ends_at_import\n")
    flags = dict(output=str(tmp_path / "run"), what=[str(tmp_path / "config.gin")])
    assert command(train, **flags) == (1, "", ["error: the user's code called sys.exit(0)"])
