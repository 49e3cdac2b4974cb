# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Environments that start slowly, and that do not close before there is a driver."""

import threading

import pytest

from alf.core.user_calls import user_call
from alf.drivers import env_making, watch
from alf.drivers.env_making import StartWatch, close_all
from alf.testing.fakes import FakeEnvironment
from tests.training.counting_parts import logged


@pytest.fixture
def release():
    event = threading.Event()
    yield event
    event.set()


def test_environments_close_within_a_time(monkeypatch, caplog, release):
    monkeypatch.setattr(env_making, "_CLOSE_SECONDS", 0.1)
    closed = []

    def fail():
        raise SystemExit("no")

    envs = [FakeEnvironment(1) for _ in range(3)]
    for env, close in zip(envs, (lambda: release.wait(600.0), fail, lambda: closed.append(1)), strict=True):
        env.close = close
    close_all(envs)
    assert closed == [1]
    assert "envs[0] (FakeEnvironment) is still closing" in caplog.text
    assert "envs[1] (FakeEnvironment) raised SystemExit('no') in close()" in caplog.text
    assert "envs[2]" not in caplog.text


def test_a_slow_start_is_told(monkeypatch):
    """How many are made, what is called now, and after long its stack."""
    monkeypatch.setattr(env_making, "_TELL_SECONDS", 0.01)
    monkeypatch.setattr(env_making, "_HANG_SECONDS", 0.05)

    def wait_for(text):
        for _ in range(6_000):
            if any(text in line for line in lines):
                return
            threading.Event().wait(0.01)
        raise AssertionError(lines)

    with logged() as lines, StartWatch(envs := [], 2):
        wait_for("0 of 2 batches of environments are made after 0 s")
        envs.append("environment")
        with user_call("the constructor of environment 7"):
            wait_for("1 of 2 batches of environments are made after 0 s; in the constructor of environment 7")
            wait_for("the constructor of environment 7 has not returned:\n")
        assert sum("in wait_for" in line for line in lines) == 1
    assert not [thread for thread in threading.enumerate() if isinstance(thread, watch.Watch)]
