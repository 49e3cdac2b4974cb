# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Types: what users call has them all. That mypy finds them in an installed package: tests/wheel_test.py."""

import ast
import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest

import alf
from alf.config.registry import find_own, import_settings

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = [
    "alf",
    "alf.adapters",
    "alf.algorithms",
    "alf.data_structures",
    "alf.drivers",
    "alf.environments",
    "alf.errors",
    "alf.learner",
    "alf.networks",
    "alf.ops.losses",
    "alf.ops.returns",
    "alf.ops.td_losses",
    "alf.policies",
    "alf.policies.data_transformers",
    "alf.replay",
    "alf.schedules",
    "alf.testing",
    "alf.testing.fakes",
    "alf.training",
]


def is_public(name):
    return not name.startswith("_") or name in ("__init__", "__call__")


def list_functions(value):
    """Pairs of a name and a function: `value` itself, or all public methods of ALF's that a class has."""
    if not inspect.isclass(value):
        return [(value.__qualname__, value)] if callable(value) else []
    classes = [c for c in value.__mro__ if c.__module__.startswith("alf.")]
    found = {}
    for owner in reversed(classes):
        for name, member in vars(owner).items():
            member = getattr(member, "fget", None) or getattr(member, "__func__", member)
            member = inspect.unwrap(getattr(member, "python_function", member))
            is_made = name != "__init__" or is_public(owner.__name__)  # users do not make private ones
            if (
                is_public(name)
                and is_made
                and inspect.isfunction(member)
                and member.__module__.startswith("alf")
            ):
                found[f"{owner.__name__}.{name}"] = member
    return list(found.items())


def list_untyped(function):
    """The arguments of a function that have no annotation, and "return"."""
    signature = inspect.signature(function)
    untyped = [name for name, p in signature.parameters.items() if p.annotation is p.empty]
    untyped = [name for name in untyped if name not in ("self", "cls")]
    return untyped + (["return"] if signature.return_annotation is signature.empty else [])


@pytest.mark.parametrize("module", PACKAGES)
def test_what_users_call_has_types(module):
    module = importlib.import_module(module)
    own = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__]
    names = getattr(module, "__all__", own)
    functions = [pair for name in names if is_public(name) for pair in list_functions(getattr(module, name))]
    assert functions
    missing = {f"{name}: {untyped}" for name, f in functions if (untyped := list_untyped(f))}
    assert not sorted(missing)


def test_what_gin_configures_has_types():
    import_settings()
    # Examples are written as users write.
    own = [c for name, c in find_own().items() if re.match(r"alf\.(?!examples\.)", name)]
    untyped = {x.__qualname__: list_untyped(x.__init__ if inspect.isclass(x) else x) for x in own}
    assert len(own) > 50
    assert not {name: missing for name, missing in untyped.items() if missing}


def test_the_names_of_alf_are_those_that_a_checker_sees():
    tree = ast.parse(Path(alf.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    seen = [(node.module, node.names[0].name, node.names[0].asname) for node in tree.body]
    # The same name behind "as" makes it public for a checker.
    assert [(alf._MODULES[name], name, name) for name in alf.__all__] == sorted(seen, key=lambda x: x[1])
    assert len(seen) > 45


@pytest.mark.parametrize("name", alf.__all__)
def test_every_name_of_alf_is_there(name):
    value = getattr(alf, name)
    assert name in dir(alf)
    module = importlib.import_module(alf._MODULES[name])
    assert value is (sys.modules[f"alf.{name}"] if module is alf else getattr(module, name))


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="module 'alf' has no attribute 'Trainor'"):
        _ = alf.Trainor
