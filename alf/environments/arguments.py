# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Kinds of arguments that are shared by several functions that load environments."""

from collections.abc import Sequence
from typing import Annotated, Literal

from alf.config.kinds import NonNegativeInt
from alf.config.settings import Role

NumWorkers = Annotated[NonNegativeInt | Literal["auto", "thread"], Role.EXECUTION]
NumThreads = Annotated[NonNegativeInt, Role.EXECUTION]
RenderMode = Annotated[Literal["rgb_array"] | None, Role.EXECUTION]
InfoKeys = Annotated[Sequence[str], Role.MEASUREMENT]
