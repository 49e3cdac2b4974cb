# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Which values an annotation allows, and the words for them."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Optional

import numpy as np

from alf.config.kinds import (
    Above,
    AtLeast,
    AtMost,
    Below,
    Fraction,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Text,
    WholeNumber,
    find_kind,
    show,
)
from alf.schedules import LinearSchedule, ScheduledFraction


class Part:
    pass


# Of each annotation: the words, the text, values that it allows, values that it does not allow.
KINDS = {
    "int": (int, "an integer", "int", [0, -3, np.int64(2)], [True, 1.0, "1", None, 2**63, np.float32(1)]),
    "positive": (PositiveInt, "an integer, at least 1", "int, at least 1", [1], [0, -1, 1e6]),
    "float": (
        float,
        "a number",
        "float",
        [0, 1.5, np.float32(2)],
        [True, math.nan, math.inf, "1", 2**64, 10**400],
    ),
    "open below": (PositiveFloat, "a number above 0", "float, above 0", [1e-9], [0]),
    "open above": (Annotated[float, Below(1)], "a number below 1", "float, below 1", [0.9], [1]),
    "range": (
        Fraction,
        "a number at least 0 and at most 1",
        "float, at least 0 and at most 1",
        [0, 1],
        [-0.1, 1.1],
    ),
    "whole": (
        WholeNumber | None,
        "a whole number above 0, or None",
        "int, above 0, or None",
        [1e6, 3, None],
        [0, 1.5, "3"],
    ),
    "bool": (bool, "True or False", "bool", [True, False], [0, 1, None, "True"]),
    "str": (str, "a text", "str", ["", "a"], [b"a", 1, None]),
    "text": (Text, "a text that is not empty", "str", ["a"], ["", None]),
    "optional": (Optional[bool], "True or False, or None", "bool, or None", [None, True], [0]),  # noqa: UP045
    "choice": (
        Literal["a", "b", "c"],
        "one of 'a', 'b', 'c'",
        "'a' or 'b' or 'c'",
        ["a", "c"],
        ["d", 1, None, ["a"]],
    ),
    "word or int": (
        NonNegativeInt | Literal["auto"],
        "an integer, at least 0, or 'auto'",
        "int, at least 0, or 'auto'",
        ["auto", 0, 4],
        ["Auto", -1, None],
    ),
    "bool or word": (
        bool | Literal["compressed"],
        "True or False or 'compressed'",
        "bool or 'compressed'",
        [True, "compressed"],
        [1, "x"],
    ),
    "list": (
        Sequence[PositiveInt],
        "a tuple or list, each an integer, at least 1",
        "Sequence[int, at least 1]",
        [(), [1, 2], (3,)],
        [3, "ab", (1, 0), {1: 2}],
    ),
    "dict": (
        dict[str, float] | None,
        "a dict, each a number, or None",
        "dict[str, float], or None",
        [{}, {"a": 1}, None],
        [{"a": "b"}, [1]],
    ),
    "mapping": (Mapping[str, Any], "a dict", "dict[str, Any]", [{"a": "b"}], [[1]]),
    "callable": (Callable[..., Any], "a class or function (@NAME)", "Callable", [len, Part], ["len", 3]),
    "object": (Part | None, "a Part (@NAME()), or None", "Part, or None", [None, Part()], [Part, 3]),
    "anything": (Any, "", "Any", [None, 3, "x"], []),
    "anything else": (int | Any, "", "int or Any", [None, "x"], []),
    "no annotation": (Part.__init__, "", None, [1], []),
}


def test_what_annotations_allow(subtests):
    for name, (annotation, words, text, right, wrong) in KINDS.items():
        kind = find_kind(annotation)
        with subtests.test(name):
            assert kind.words == words
            assert text is None or kind.text == text
            assert [x for x in right if not kind.accepts(x)] == []
            assert [x for x in wrong if kind.accepts(x)] == []


def test_bounds_hold_for_the_values_of_schedules():
    kind = find_kind(ScheduledFraction)
    assert kind.words == "a number at least 0 and at most 1 or a Schedule (@NAME())"
    assert kind.accepts(0.5) and kind.accepts(LinearSchedule(0, 1, 10))
    assert not kind.accepts(LinearSchedule(0, 2, 10)) and not kind.accepts(LinearSchedule)


def test_bounds():
    for bound, holds in ((AtLeast(1), "=>"), (AtMost(1), "=<"), (Above(1), ">"), (Below(1), "<")):
        assert "".join(sign for sign, x in zip("=><", (1, 2, 0), strict=True) if bound.holds(x)) == holds


def test_what_references_settings_take():
    takes = {
        "functions": (Callable[[], int] | None, (True, False)),
        "in a dict": (Callable[[], int] | dict[str, Callable[[], int]], (True, False)),
        "objects": (Part | None, (False, True)),
        "in a list": (Sequence[Part], (False, True)),
        "schedules": (ScheduledFraction, (False, True)),
        "numbers": (int, (False, False)),
    }
    found = {name: find_kind(annotation) for name, (annotation, _) in takes.items()}
    assert {name: (kind.takes_callables, kind.takes_objects) for name, kind in found.items()} == {
        name: flags for name, (_, flags) in takes.items()
    }


def test_values_are_shown_so_that_people_recognize_them():
    assert [show(x) for x in (3, "a", (1,), None, len, Part)] == ["3", "'a'", "(1,)", "None", "len", "Part"]
    assert show(Part()) == "an object of Part"
    assert show(LinearSchedule(0, 2, 10)) == "LinearSchedule with the values 0, 2"
