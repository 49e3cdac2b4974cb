# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""`gin.configurable` for functions: gin has no types, so a checker takes what it decorates for anything.

Classes need no more than `gin.configurable`: a checker knows them whatever their decorators are.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import gin

Function = TypeVar("Function", bound=Callable[..., Any])


def configurable(module: str) -> Callable[[Function], Function]:
    """Returns a decorator for a function that gin files then know by its name in `module`, a text."""
    return gin.configurable(module=module)
