# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What gin registers: a decorator for functions, and the names for gin files.

Gin has no types, so a checker takes a function that `gin.configurable` decorates for anything. Classes need
no other decorator: a checker knows them whatever their decorators are.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import gin

Function = TypeVar("Function", bound=Callable[..., Any])


def configurable(module: str) -> Callable[[Function], Function]:
    """Returns a decorator for a function that gin files then know by its name in `module`, a text."""
    return gin.configurable(module=module)


def shorten(selector: str) -> str:
    """Returns the name to write in gin files: "Adam" for "alf.optimizers.Adam".

    It is the full name where another configurable, such as one of TF-Agents, has the same last part.
    """
    name = gin.config._REGISTRY.minimal_selector(selector)
    return selector if "." in name else name


def complete(name: str) -> str:
    """Returns a name that gin files bind, with its scope and the full name of its configurable.

    One that names no configurable, or several, stays as it is: its module may not be imported yet.
    """
    scope, slash, parameter = name.rpartition("/")
    selector, dot, parameter = parameter.rpartition(".")
    found: Sequence[str] = gin.config._REGISTRY.matching_selectors(selector) if selector else ()
    return f"{scope}{slash}{found[0]}{dot}{parameter}" if len(found) == 1 else name


def find_gin_name(cls: type) -> str | None:
    """Returns the name of a class for gin files; None if gin does not know the class.

    Gin has no public way to do this; its version is pinned in setup.py.
    """
    known = (selector for selector, x in gin.config._REGISTRY.items() if x.wrapped is cls)
    return next(map(shorten, known), None)
