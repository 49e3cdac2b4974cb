# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Sets TensorFlow up for all tests, before any of them starts it."""

import gin
import pytest

import alf  # noqa: F401  (before TensorFlow)
from alf.drivers import reserve_threads

reserve_threads(128)


@pytest.fixture(autouse=True)
def _fresh_gin():
    """Gives every test a gin without bindings."""
    yield
    gin.clear_config()  # unlocks it, too
