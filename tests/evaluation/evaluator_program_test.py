# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Evaluator with the place "process": a process of its own evaluates."""

import contextlib
import os
import signal
import sys
import time

import gin
import psutil
import pytest
import tensorflow as tf

from alf.config.registry import own_config
from alf.core.nest_utils import BoundedTensorSpec
from alf.environments import load
from alf.errors import ConfigError, EnvError
from alf.evaluation.session import EvaluationProcess
from alf.runs.run_description import RunDescription
from alf.training import Evaluator
from tests.builders import find_evaluator
from tests.evaluation.evaluator_test import check_scope, make_configured, wait_until
from tests.programs import run_program
from tests.workers.pool_test import alive

pytestmark = pytest.mark.programs


@pytest.mark.parametrize("num_workers", [1, 2])
def test_gin_configures_it_in_a_scope_of_its_own(tmp_path, capfd, num_workers):
    check_scope(tmp_path, "process", num_workers)
    assert "absl::InitializeLog" not in capfd.readouterr().err


@pytest.mark.parametrize("is_dead_before", [False, True])
def test_a_process_that_dies_is_replaced(tmp_path, is_dead_before, caplog):
    with own_config():
        trainer = make_configured(tmp_path, "process")
        evaluator, killed = find_evaluator(trainer), []
        start = evaluator.start

        def start_and_kill(path, env_steps):
            process = evaluator._session._workers[0]._process
            if is_dead_before and not killed:  # it cannot read the path, which remains in the pipe's buffer
                process.kill()
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            start(path, env_steps)
            if not killed:
                process.kill()
            killed.append(process.pid)

        evaluator.start = start_and_kill
        assert trainer.train() == (True, "target_eval_return=7.0 reached: eval/return_mean 7")
    lines = [line for line in caplog.messages if "the process of the evaluation has ended" in line]
    assert lines == ["the process of the evaluation has ended with status -9: restart 1 of 3"]
    assert not any(map(psutil.pid_exists, killed))


def test_a_process_that_dies_too_often_ends_the_run(tmp_path):
    with own_config():
        gin.parse_config("Evaluator.max_restarts = 0")
        trainer = make_configured(tmp_path, "process", target=1000.0)
        evaluator = find_evaluator(trainer)
        start = evaluator.start

        def start_and_kill(path, env_steps):
            start(path, env_steps)
            evaluator._session._workers[0]._process.kill()

        evaluator.start = start_and_kill
        message = (
            "the process of the evaluation has ended with status -9; Evaluator.max_restarts=0 is reached"
        )
        with pytest.raises(EnvError, match=message):
            trainer.train()


def test_what_a_terminal_or_a_scheduler_sends_to_all_does_not_reach_the_process(hanging):
    """From its start on: its owner decides when it ends. It sees no GPU, which training needs."""
    settings = {"batch_size": 1, "num_episodes": 1, "deterministic": True, "seed": None}
    signals = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    with contextlib.closing(EvaluationProcess(str(hanging[0]), settings)) as evaluation:
        process = evaluation._process
        for signum in signals:
            process.send_signal(signum)
        evaluation.begin("no checkpoint")
        wait_until(lambda: len(os.listdir(hanging[1])) == 2 or process.poll() is not None)
        for signum in signals:
            process.send_signal(signum)
        assert process.poll() is None
        assert psutil.Process(process.pid).environ()["CUDA_VISIBLE_DEVICES"] == ""
        assert os.getpgid(process.pid) == process.pid != os.getpgrp()


def test_a_finished_run_does_not_wait_for_a_process_that_hangs(tmp_path, monkeypatch, caplog):
    """A stopped process does not even end by SIGTERM: it is killed."""
    with own_config():
        gin.parse_config("StopCriteria.num_iterations = 3\nEvaluator.num_episodes = 100_000_000")
        trainer = make_configured(tmp_path, "process")
        evaluator, hung = find_evaluator(trainer), []
        poll = evaluator.poll

        def stop_and_poll(timeout=0.0):
            while evaluator._is_busy and evaluator._stepped_at is None:
                time.sleep(0.01)
            if evaluator._is_busy and not hung:
                hung.append(evaluator._session._workers[0]._process.pid)
                os.kill(hung[0], signal.SIGSTOP)
                hung.append(time.monotonic())
            return poll(timeout)

        evaluator.poll = stop_and_poll
        assert trainer.train() == (True, "num_iterations=3 reached")
    assert time.monotonic() - hung[1] < 30
    assert not psutil.pid_exists(hung[0]) and not caplog.text.count("did not close")


def test_an_error_in_the_process_is_told(tmp_path):
    with own_config():
        trainer = make_configured(tmp_path, "process")
        (tmp_path / "run.json").write_text("{}")
        with pytest.raises(EnvError, match=r"the evaluation failed: ConfigError: .*run\.json cannot be read"):
            trainer.train()


def test_several_processes_give_the_figures_of_a_thread_and_close_in_time(tmp_path, caplog):
    with own_config():
        trainer = make_configured(tmp_path, "process", target=7.0)
        trainer.train()
        (path,) = (tmp_path / "checkpoints" / "best").iterdir()
        path, policy, figures = str(path), trainer.learner.policy, {}
        for place, num_workers in (("thread", 1), ("process", 3)):
            settings = dict(num_episodes=8, batch_size=4, seed=5, place=place, num_workers=num_workers)
            evaluator = Evaluator(interval_steps=1, **settings)
            evaluator.open(policy)
            before = {child.pid for child in psutil.Process().children()}
            evaluator.run(str(tmp_path), 0)
            pids = {child.pid for child in psutil.Process().children()} - before
            assert len(pids) == (0 if place == "thread" else 3)
            for _ in range(2):
                evaluator.start(path, 0)
                figures[place] = evaluator.poll(300.0).figures
            if place == "process":
                # Stopped processes do not end by SIGTERM, so each of them is killed.
                for pid in pids:
                    os.kill(pid, signal.SIGSTOP)
                wait_until(lambda: all(psutil.Process(p).status() == "stopped" for p in pids))  # noqa: B023
            began = time.monotonic()
            evaluator.close()
            assert time.monotonic() - began < 5.0
            assert not any(map(psutil.pid_exists, pids))
    assert figures["process"] == figures["thread"] and figures["thread"]["length"]["max"] == 7
    assert "did not close" not in caplog.text


@gin.configurable
def make_of_one_size(seed):
    return load("CartPole-v1", batch_size=2, seed=seed)


def test_workers_need_environments_that_can_be_divided(tmp_path):
    with own_config():
        trainer = make_configured(tmp_path, "thread")
        with gin.unlock_config():
            gin.parse_config("Experiment.env = @make_of_one_size")
            gin.bind_parameter("Experiment.num_envs", None)
        evaluator = Evaluator(interval_steps=1, place="process", num_workers=2)
        with pytest.raises(ConfigError, match="Experiment.env needs an argument batch_size"):
            evaluator.open(trainer.learner.policy)
        trainer.close()


@pytest.fixture
def hanging(tmp_path):
    """The folder of a run whose environment starts a process and hangs, and an empty folder for their ids."""
    root_dir, pids = tmp_path / "run", tmp_path / "pids"
    root_dir.mkdir()
    pids.mkdir()
    specs = (
        tf.TensorSpec((4,), tf.float32),
        BoundedTensorSpec((), tf.int64, 0, 2),
        tf.TensorSpec((), tf.float32),
    )
    (root_dir / "run.json").write_text(RunDescription(*specs, [], {}).to_json())
    (root_dir / "operative_config.gin").write_text(f"""
        Experiment.algorithm = "ppo"
        alf.environments.load.name = "tests.workers.envs:start_and_hang"
        alf.environments.load.num_workers = 0
        alf.environments.load.folder = "{pids}"
    """)
    return root_dir, pids


def begin_to_hang(root_dir, pids):
    """Starts an `EvaluationProcess`, and waits until its environment hangs."""
    settings = {"batch_size": 1, "num_episodes": 1, "deterministic": True, "seed": None}
    process = EvaluationProcess(str(root_dir), settings)
    process.begin("no checkpoint")
    wait_until(lambda: len(os.listdir(pids)) == 2)
    return process


def wait_for_ends(pids):
    wait_until(lambda: not any(alive(int(pid)) for pid in os.listdir(pids)))


def test_a_process_that_is_stopped_takes_the_processes_of_its_environments_along(hanging):
    process = begin_to_hang(*hanging)
    process.stop()
    wait_for_ends(hanging[1])
    process.close()


def begin_and_die():
    begin_to_hang(*sys.argv[1:])
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_hangs_ends_with_its_run(hanging):
    done = run_program(f"{__name__}:begin_and_die", *hanging)
    assert done.status == -signal.SIGKILL, done.err
    wait_for_ends(hanging[1])
