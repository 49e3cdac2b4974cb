# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Marks of tests that need an extra which `make install` leaves out."""

import importlib.util

import pytest

NEEDS_ENVPOOL = pytest.mark.skipif(
    importlib.util.find_spec("envpool") is None, reason="EnvPool is not installed: make install-all"
)
NEEDS_WANDB = pytest.mark.skipif(
    importlib.util.find_spec("wandb") is None, reason="wandb is not installed: make install-all"
)
NEEDS_MLFLOW = pytest.mark.skipif(
    importlib.util.find_spec("mlflow") is None, reason="mlflow is not installed: make install-all"
)
NEEDS_MINARI = pytest.mark.skipif(
    importlib.util.find_spec("minari") is None, reason="minari is not installed: make install-all"
)
