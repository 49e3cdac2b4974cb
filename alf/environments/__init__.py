# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Batched environments: `load(name, batch_size)`, and the adapter behind it."""

from alf.environments.gymnasium_env import GymnasiumEnvironment
from alf.environments.load import load

__all__ = ["GymnasiumEnvironment", "load"]
