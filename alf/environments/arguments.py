# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Kinds of arguments that are shared by several functions that load environments."""

from collections.abc import Sequence
from typing import Annotated, Literal

from alf.config.kinds import Above, AtMost, NonNegativeInt
from alf.config.settings import Role
from alf.workers.worker import MAX_SECONDS

NumWorkers = Annotated[NonNegativeInt | Literal["auto"], Role.EXECUTION]
NumThreads = Annotated[NonNegativeInt, Role.EXECUTION]
RenderMode = Annotated[Literal["rgb_array"] | None, Role.EXECUTION]
InfoKeys = Annotated[Sequence[str], Role.MEASUREMENT]
WorkerTimeout = Annotated[float, Above(0), AtMost(MAX_SECONDS), Role.EXECUTION]  # seconds
