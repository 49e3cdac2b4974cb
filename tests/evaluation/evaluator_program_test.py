# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Evaluator with the place "process": a process of its own evaluates."""

import os
import signal
import time

import gin
import psutil
import pytest

from alf.config.registry import own_config
from alf.errors import EnvError
from tests.builders import find_evaluator
from tests.evaluation.evaluator_test import check_scope, make_configured


def test_gin_configures_it_in_a_scope_of_its_own(tmp_path, capfd):
    check_scope(tmp_path, "process")
    assert "absl::InitializeLog" not in capfd.readouterr().err


@pytest.mark.parametrize("is_dead_before", [False, True])
def test_a_process_that_dies_ends_the_run(tmp_path, is_dead_before):
    with own_config():
        trainer = make_configured(tmp_path, "process", target=1000.0)
        evaluator = find_evaluator(trainer)
        start = evaluator.start

        def start_and_kill(path, env_steps):
            process = evaluator._session._process
            if is_dead_before:  # it cannot read the path, which remains in the pipe's buffer
                process.kill()
                process.wait()
            start(path, env_steps)
            process.kill()

        evaluator.start = start_and_kill
        with pytest.raises(EnvError, match="the process of the evaluation has ended with status -9"):
            trainer.train()


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
                hung.append(evaluator._session._process.pid)
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
