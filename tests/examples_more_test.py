# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Every other gin file in examples/ trains for a few iterations, and continues; see examples_test.py."""

import sys

import pytest

from tests.example_runs import build
from tests.examples_test import ALL, QUICK, SHORTER, check_trains_and_continues

pytestmark = pytest.mark.programs


@pytest.mark.parametrize("name", [name for name in ALL if name not in QUICK])
def test_example_trains_and_continues(name, tmp_path, monkeypatch, caplog):
    check_trains_and_continues(ALL[name], tmp_path, monkeypatch, caplog)


@pytest.mark.parametrize("name", ALL)
def test_example_works_with_the_synchronous_driver(name, tmp_path, monkeypatch, caplog):
    """Settings of drivers are shared, so no binding of a gin file is without effect."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = ALL[name]
    changes = [change for word, shorter in SHORTER.items() if word in path.read_text() for change in shorter]
    driver = "Experiment.driver = @SyncOffPolicyDriver"
    trainer = build(path, tmp_path, [*changes, driver, "StopCriteria.num_iterations = 1"])
    assert "nothing reads" not in caplog.text
    assert trainer.train() == (True, "num_iterations=1 reached")
    assert trainer.counters["iterations"] == 1
