# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Kinds of values: the values that an annotation allows, and their descriptions.

`Annotated[int, AtLeast(1)] | None` allows integers from 1 on and None. Errors call it "an integer, at least
1, or None", and lists of settings "int, at least 1, or None".
"""

import dataclasses
import functools
import inspect
import math
import numbers
import operator
import re
import types
import typing
from collections import abc
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

# The largest int64 of TensorFlow.
_GREATEST_INT = 2**63 - 1


_RULES = {"at least": operator.ge, "at most": operator.le, "above": operator.gt, "below": operator.lt}


@dataclasses.dataclass(frozen=True)
class Bound:
    """A bound of a number, such as `AtLeast(0)`, with the text "at least 0"."""

    rule: str  # a key of _RULES
    bound: float

    def holds(self, value: Any) -> bool:
        return bool(_RULES[self.rule](value, self.bound))

    def __str__(self) -> str:
        return f"{self.rule} {self.bound}"


AtLeast = functools.partial(Bound, "at least")
AtMost = functools.partial(Bound, "at most")
Above = functools.partial(Bound, "above")
Below = functools.partial(Bound, "below")


@dataclasses.dataclass(frozen=True)
class Whole:
    """Marks a float that must be a whole number, such as 1e6."""


@dataclasses.dataclass(frozen=True)
class Matches:
    """A rule for a text: a regular expression for the whole of it, and what errors call such a text."""

    pattern: str
    words: str


PositiveInt = Annotated[int, AtLeast(1)]
NonNegativeInt = Annotated[int, AtLeast(0)]
PositiveFloat = Annotated[float, Above(0)]
NonNegativeFloat = Annotated[float, AtLeast(0)]
Fraction = Annotated[float, AtLeast(0), AtMost(1)]
Text = Annotated[str, Matches(r"(?s).+", "a text that is not empty")]
WholeNumber = Annotated[float, Whole(), Above(0)]  # a number of steps, which people write as 1e6


class Kind(NamedTuple):
    """The values that an annotation allows.

    Attributes:
        accepts: callable (value) -> bool.
        words: for errors, "an integer, at least 1, or None".
        text: for lists of settings, "int, at least 1, or None".
        takes_callables: whether it allows classes and functions, also in a list or dict.
        takes_objects: whether it allows objects of a class, also in a list or dict.
        takes_schedules: whether it allows a `Schedule` in place of a number.
        item: `Kind` of the items if it allows lists or dicts, else None.
    """

    accepts: Callable[[Any], bool]
    words: str
    text: str
    takes_callables: bool = False
    takes_objects: bool = False
    takes_schedules: bool = False
    item: Any = None


def find_kind(annotation: Any, metadata: tuple[Any, ...] = ()) -> Kind:
    """Returns the `Kind` of an annotation. Annotations that cannot be checked at run time allow everything.

    Args:
        annotation: type, or something from `typing`.
        metadata: from an `Annotated` around it: bounds of numbers, or the name of a class for errors.
    """
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return find_kind(annotation.__origin__, annotation.__metadata__)
    if origin in (typing.Union, types.UnionType):
        # Bounds around a union hold for each of its parts: `Annotated[int | None, AtLeast(1)]`.
        return _join([find_kind(x, metadata) for x in typing.get_args(annotation)])
    # Metadata may also be a `Role`, a mark such as `Whole`, or the name of a class for errors.
    bounds = [x for x in metadata if isinstance(x, Bound)]
    if annotation in (int, float):
        return _find_number(annotation, bounds, any(isinstance(x, Whole) for x in metadata))
    if annotation is Any:
        return Kind(lambda value: True, "", "Any")
    if annotation in (None, type(None)):
        return Kind(lambda value: value is None, "None", "None")
    if annotation is bool:
        return Kind(lambda value: isinstance(value, bool), "True or False", "bool")
    if annotation is str:
        rule = next((x for x in metadata if isinstance(x, Matches)), Matches(r"(?s).*", "a text"))
        pattern = re.compile(rule.pattern)
        return Kind(lambda x: isinstance(x, str) and bool(pattern.fullmatch(x)), rule.words, "str")
    if origin is typing.Literal:
        return _find_choice(typing.get_args(annotation))
    if origin in (abc.Sequence, dict, abc.Mapping):
        return _find_container(origin, typing.get_args(annotation), metadata)
    if origin is abc.Callable:
        return Kind(callable, "a class or function (@NAME)", "Callable", takes_callables=True)
    # For Python 3.10, `list[int]` is a class, but `isinstance` refuses it.
    if inspect.isclass(annotation) and not origin and annotation is not inspect.Parameter.empty:
        name = next((x for x in metadata if isinstance(x, str)), annotation.__name__)
        return _find_object(annotation, name, bounds)
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = "" if annotation is inspect.Parameter.empty else re.sub(r"\b(?:[a-z_]\w*\.)+(?=\w)", "", text)
    return Kind(lambda value: True, "", text)


def show(value: Any) -> str:
    """Returns the text of a value for errors."""
    # That text would be an address, which says nothing and is another one in each run.
    if type(value).__repr__ is object.__repr__:
        return f"an object of {type(value).__name__}"
    return getattr(value, "__name__", repr(value))


def _find_number(kind, bounds, is_whole):
    # The abstract types also accept NumPy's numbers.
    number = numbers.Integral if kind is int else numbers.Real

    def accepts(value):
        # bool is a subclass of int, but True is hardly meant as the number 1.
        if not isinstance(value, number) or isinstance(value, bool):
            return False
        is_finite = (
            abs(value) <= _GREATEST_INT if isinstance(value, numbers.Integral) else math.isfinite(value)
        )
        if not is_finite or (is_whole and value != int(value)):
            return False
        return all(bound.holds(value) for bound in bounds)

    rules = " and ".join(map(str, bounds))
    comma = "," * bool(rules)
    noun = f"an integer{comma}" if kind is int else "a whole number" if is_whole else "a number"
    # A whole number is shown as int, although 1e6 is one: a fraction is refused.
    text = "int" if is_whole else kind.__name__
    return Kind(accepts, f"{noun} {rules}".strip(), f"{text}{comma} {rules}".strip())


def _find_object(cls, name, bounds):
    """Returns the `Kind` of objects of a class. Schedules check the bounds of their numbers themselves."""

    def accepts(value):
        return isinstance(value, cls) and (not bounds or value.is_within(bounds))

    article = "an" if name[0] in "AEIOU" else "a"
    return Kind(accepts, f"{article} {name} (@NAME())", name, False, True, hasattr(cls, "is_within"))


def _find_choice(choices):
    def accepts(value):
        # The types are compared, too, because 1 == True and 1 == 1.0.
        return any(type(value) is type(x) and value == x for x in choices)

    text = ", ".join(map(repr, choices))
    return Kind(accepts, f"one of {text}" if len(choices) > 1 else text, " or ".join(map(repr, choices)))


def _find_container(origin, parts, metadata):
    """Returns the `Kind` of Sequence[X], which allows lists and tuples, dict[str, X] or Mapping[str, X]."""
    item = find_kind(parts[-1], metadata)
    is_list = origin is abc.Sequence

    def accepts(value):
        if is_list:
            # A text is a sequence for Python, but hardly meant as a list of its letters.
            return isinstance(value, (list, tuple)) and all(map(item.accepts, value))
        return isinstance(value, abc.Mapping) and all(map(item.accepts, value.values()))

    words = "a tuple or list" if is_list else "a dict"
    text = "Sequence" if is_list else "dict"
    words += f", each {item.words}" * bool(item.words)
    text = f"{text}[{item.text}]" if is_list else f"{text}[str, {item.text}]"
    # No `takes_schedules`: a schedule may be an item, but cannot take the place of the whole list or dict, as
    # a `Tunable` would in gin.
    return item._replace(accepts=accepts, words=words, text=text, takes_schedules=False, item=item)


def _join(kinds):
    """Returns the `Kind` of a union. If one kind allows everything, so does the union."""
    kinds.sort(key=lambda kind: kind.text == "None")
    is_open = any(not kind.words for kind in kinds)

    def accepts(value):
        return any(kind.accepts(value) for kind in kinds)

    words, text = ([getattr(kind, name) for kind in kinds] for name in ("words", "text"))
    # The fields `takes_callables`, `takes_objects` and `takes_schedules`.
    takes = map(any, zip(*(kind[3:6] for kind in kinds), strict=True))
    item = next((kind.item for kind in kinds if kind.item is not None), None)
    return Kind(accepts, "" if is_open else _list(words), _list(text), *takes, item)


def _list(words):
    *first, last = words
    comma = "," * any("," in word or last == "None" for word in first)
    return f"{', '.join(first)}{comma} or {last}"
