# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The type that is shown of a setting is one that the code takes."""

import functools
import inspect
import numbers
import re
import sys
import types
from typing import Any, Optional

import gin
import pytest

import alf.bin.train  # noqa: F401  (it imports all that gin files may name)
from alf.errors import ConfigError, check_bool, check_int, check_number
from alf.schedules import as_schedule
from alf.training.config import own_config, parse_config
from alf.training.setting_types import find_type, read_kinds
from alf.training.settings import find_configurables, list_parameters, list_settings, parse_args
from tests.example_runs import EXAMPLES

KINDS = {
    "int": lambda x: isinstance(x, numbers.Integral) and not isinstance(x, bool),
    "float": lambda x: isinstance(x, numbers.Real) and not isinstance(x, bool),
    "bool": lambda x: isinstance(x, bool),
    "str": lambda x: isinstance(x, str),
    "list": lambda x: isinstance(x, list),
    "tuple": lambda x: isinstance(x, tuple),
    "Sequence": lambda x: isinstance(x, (list, tuple)),
    "Iterable": lambda x: isinstance(x, (list, tuple)),
    "dict": lambda x: isinstance(x, dict),
    "Mapping": lambda x: isinstance(x, dict),
    "Callable": callable,
    "None": lambda x: x is None,
    **dict.fromkeys(("Any", "Optional", "Union", "Literal"), lambda x: True),
}


def is_of(value, kind):
    """Whether a value is of a type as the list of settings writes it."""
    while "[" in kind:  # of "Sequence[int] or None" what counts is "Sequence or None"
        kind = re.sub(r"\[[^][]*\]", "", kind)
    heads = kind.split(" or ")
    known = [
        KINDS.get(head, lambda x, head=head: head in (y.__name__ for y in type(x).__mro__)) for head in heads
    ]
    return any(check(value) for check in known)


@functools.cache
def list_types():
    """A dict from the full name of each parameter of ALF to its type."""
    own = [x for x in list_settings() if f"{x.module}.".startswith("alf.")]
    return {f"{x.module}.{x.name.rpartition('.')[2]}.{y.name}": y.type for x in own for y in x.parameters}


def test_each_default_is_of_its_type():
    types, wrong, count = list_types(), [], 0
    for name, configurable in find_configurables().items():
        if not name.startswith("alf."):
            continue
        for parameter in list_parameters(configurable.wrapped).values():
            kind = types[f"{name}.{parameter.name}"] if parameter.kind is not parameter.VAR_KEYWORD else ""
            if kind and parameter.default is not parameter.empty:
                count += 1
                wrong += [(name, parameter)] * (not is_of(parameter.default, kind))
    assert wrong == [] and count > 350


def test_what_examples_bind_is_of_its_type(subtests):
    types, count = list_types(), 0
    for path in sorted(EXAMPLES.glob("**/*.gin")):
        with subtests.test(str(path.relative_to(EXAMPLES))), own_config():
            parse_config([str(path)], [])
            for (_, selector), values in gin.config._CONFIG.items():
                for parameter, value in values.items():
                    kind = types.get(f"{selector}.{parameter}")
                    if kind and not isinstance(value, gin.config.ConfigurableReference):
                        count += 1
                        assert is_of(value, kind), (selector, parameter, value, kind)
                    elif kind and not value.evaluate:
                        assert is_of(len, kind), (selector, parameter, value, kind)
    assert count > 300


# What is needed beside the numbers.
NUMERIC = {
    "StopCriteria": {},
    "Mutation": {},
    "Replacement": {},
    "UnrollTraining": {},
    "Evaluator": {"interval_steps": 1},
    "LinearSchedule": {"start": 0, "end": 1, "over": 10},
    "PiecewiseSchedule": {"boundaries": [0, 1], "values": [0, 1]},
    "Uniform": {"low": 0, "high": 1},
    "LogUniform": {"low": 1, "high": 2},
    "Discount": {"low": 0.1, "high": 0.2},
    "Integers": {"low": 0, "high": 1},
    "RewardClipping": {"observation_spec": None, "reward_spec": None},
    "EpisodeStep": {"observation_spec": None, "reward_spec": None},
}


def test_a_text_is_refused_where_a_number_is_shown(subtests):
    """So "int" is not what the code takes as anything."""
    for name, given in NUMERIC.items():
        (found,) = [x for x in list_settings(name) if x.name == name]
        kinds = {x.name: set(x.type.split(" or ")) for x in found.parameters if x.type}
        numeric = [x for x, kind in kinds.items() if kind <= {"int", "float", "bool", "None"}]
        assert numeric, name
        for parameter in numeric:
            with subtests.test(f"{name}.{parameter}"), pytest.raises(ConfigError, match=parameter):
                gin.get_configurable(name)(**{**given, parameter: "text"})


class Base:
    """Has a check and a text of its own.

    Args:
        far: dict from names to values.
    """

    def __init__(self, far, near=2.5, checked=0):
        check_number("Base.checked", checked, optional=True)


class Derived(Base):
    """Refers to `Base`.

    Args:
        far, near: as in `Base`.
        own: see `Derived`.
    """

    def __init__(
        self,
        far=None,
        near=None,
        number=1,
        count=None,
        flag=None,
        rate=0.5,
        limit=1.0,
        own=None,
        checked=0,
        **kwargs,
    ):
        super().__init__(far, **kwargs)
        check_int("Derived.count", count, optional=True)
        check_int("Derived.checked", checked, optional=False)
        check_number(f"{type(self).__name__}.number", number)
        self._flag = check_bool("Derived.flag", flag)
        self._rate, self.limit = as_schedule("Derived.rate", rate), limit
        check_number("Derived.limit", self.limit, optional=True)


def sample(
    annotated: int | None = None,
    quoted: "alf.policies.Policy | None" = None,
    optional: Optional[dict[str, int]] = None,  # noqa: UP007, UP045
    whole: Any = 3,
    told: Any = None,
    words=None,
    default=(1, 2),
    ctor=Base,
    refers=None,
    checked=1,
    none_first=1,
    nothing=None,
):
    """Has a parameter for each source.

    Args:
        annotated: text, which the annotation knows better.
        told: a tuple or list of ints.
        words: int, "auto" or None; how many.
        default: how many.
        refers, checked: what is taken, see `Base`.
        none_first: None, or int; how many.
        nothing: how many.
    """


def type_of(function, name):
    def read_texts(x):
        return parse_args(x.__doc__)

    return find_type(function, inspect.signature(function).parameters[name], read_texts)


@pytest.fixture(autouse=True)
def in_alf(monkeypatch):
    """The classes here are found as those of ALF are."""
    monkeypatch.setitem(sys.modules, "alf.stand_in", types.SimpleNamespace(Base=Base, Derived=Derived))
    for each in (Base, Derived):
        monkeypatch.setattr(each.__init__, "__module__", "alf.stand_in")


def test_each_source_of_a_type():
    expected = {
        "annotated": "int or None",
        "quoted": "Policy or None",
        "optional": "Optional[dict[str, int]]",
        "whole": "Any",
        "told": "tuple or list or None",
        "words": "int or str or None",
        "default": "tuple",
        "ctor": "Callable",
        "checked": "float or None",  # the check of what the text refers to, before the default
        "none_first": "int or None",
        "nothing": "",
    }
    assert {name: type_of(sample, name) for name in expected} == expected


def test_checks_and_references():
    expected = {
        "far": "dict or None",  # the text of `Base`
        "near": "float or None",  # its default
        "number": "float",  # the check, before the default
        "count": "int or None",
        "flag": "bool or None",
        "rate": "float or Schedule",
        "limit": "float or None",
        "own": "",
        "checked": "int",  # its own check, not that of `Base`
    }
    assert {name: type_of(Derived, name) for name in expected} == expected


class Outside:
    """Is no class of ALF: its checks are not read."""

    def __init__(self, bare, rate=0.5):
        check_int("Outside.rate", rate)


def test_what_nothing_says_and_what_is_not_of_alf():
    assert type_of(Outside, "bare") == ""
    assert type_of(Outside, "rate") == "float"


def test_the_beginning_of_a_text():
    expected = {
        "int; rows.": ("int",),
        "an int, or a dict by name": ("int", "dict"),
        "number or `Schedule`, in [0, 1]": ("float", "Schedule"),
        "number of rows": (),
        "numbers of rows": (),
        "path of a folder": ("str",),
        "text, or None.": ("str", "None"),
        "bool or callable": ("bool", "Callable"),
        "numbers.": ("float",),
        "`tf.distribute.Strategy` or None.": ("Strategy", "None"),
        '"first" or "last"': ("str", "str"),
        "whether it is": ("bool",),
        "unbatched tensor spec of one": ("TensorSpec",),
        "nest of unbatched tensor specs": ("nest",),
        "tuple, list or dict of callables": ("tuple", "list", "dict"),
        "texture of the ground": (),
        "": (),
    }
    assert {text: read_kinds(text) for text in expected} == expected
