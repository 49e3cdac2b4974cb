# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Every other gin file in examples/ trains for a few iterations, and continues; see examples_test.py."""

import pytest

from tests.examples_test import ALL, QUICK, check_trains_and_continues


@pytest.mark.parametrize("name", [name for name in ALL if name not in QUICK])
def test_example_trains_and_continues(name, tmp_path, monkeypatch):
    check_trains_and_continues(ALL[name], tmp_path, monkeypatch)
