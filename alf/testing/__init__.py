# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Test tools for ALF and for your own code: toy environments, tests of environments, fakes.

The fakes are in `alf.testing.fakes`. No other package of ALF imports this one, and it does not import pytest.
"""

from alf.testing.environment_contract import EnvironmentContract, rollout, sample_action
from alf.testing.toy_environments import (
    CountingEnvironment,
    MatchObservationEnvironment,
    NullEnvironment,
    RememberEnvironment,
)
from alf.tools.env_check import EnvReport

__all__ = [
    "CountingEnvironment",
    "EnvReport",
    "EnvironmentContract",
    "MatchObservationEnvironment",
    "NullEnvironment",
    "RememberEnvironment",
    "rollout",
    "sample_action",
]
