# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The type of a parameter that gin can bind, as a text: "int", "float or None", "Callable".

It is what the annotation says. Without one it is the first of these that says something: the beginning of
the parameter's text ("int or None; ..."), the check of the parameter in a constructor (`check_int` and so
on), the parameter of the same name that the text refers to ("as in `Policy`"), and the type of the default.
`Any` is what the text, the check or that parameter says; else it stays.
"""

import ast
import functools
import inspect
import re
import sys
import textwrap
from typing import Any

_CHECKS = {
    "check_int": ("int",),
    "check_number": ("float",),
    "check_bool": ("bool",),
    "as_schedule": ("float", "Schedule"),
}
_WORDS = {
    "int": "int",
    "number": "float",
    "bool": "bool",
    "whether": "bool",
    "text": "str",
    "path": "str",
    "dict": "dict",
    "list": "list",
    "tuple": "tuple",
    "callable": "Callable",
    "nest": "nest",
    "tensor spec": "TensorSpec",
    "None": "None",
}
_WORD = rf"({'|'.join(_WORDS)})s?\b(?!(?<=number) of|(?<=numbers) of)"
_CLASS = r"`(?:\w+\.)*([A-Z]\w*)`s?"
_ONE = re.compile(rf"(?:an? |unbatched )*(?:{_WORD}|{_CLASS}|\"[^\"]*\")")
_OR = re.compile(r",? or |, ")
_REFERENCE = re.compile(r"\b(?:as in|see) `(?:\w+\.)*(\w+)`")


def find_type(function, parameter, read_texts):
    """Returns the type of a parameter of a function or class, "" if nothing says it.

    Args:
        function: the function or class.
        parameter: its `inspect.Parameter`.
        read_texts: callable (function) -> dict from parameter to text.
    """
    if parameter.annotation not in (parameter.empty, Any):
        return _format_annotation(parameter.annotation)
    kinds = _find_kinds(function, parameter.name, read_texts)
    if not kinds and parameter.annotation is Any:
        return "Any"
    kinds = kinds or _kinds_of_default(parameter.default)
    if kinds and parameter.default is None:
        kinds = (*kinds, "None")
    return " or ".join(sorted(dict.fromkeys(kinds), key=lambda kind: kind == "None"))


def _format_annotation(annotation):
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=\w)", "", text).replace(" | ", " or ")


def _find_kinds(function, name, read_texts):
    """Returns the kinds that text, checks or the function that the text refers to say; () if none does."""
    text = read_texts(function).get(name, "")
    kinds = read_kinds(text) or _find_checks(function).get(name, ())
    for other in () if kinds else _REFERENCE.findall(text):
        named = find_named(other)
        if named not in (None, function):
            kinds = kinds or _find_kinds(named, name, read_texts)
            kinds = kinds or _kinds_of_default(_default_of(named, name))
    return kinds


def read_kinds(text):
    """Returns the types that a parameter's text begins with: ("int", "None") of "int or None; a seed."."""
    kinds, found = [], _ONE.match(text)
    while found:
        word, name = found.groups()
        kinds.append(_WORDS.get(word) or name or "str")
        separator = _OR.match(text, found.end())
        found = separator and _ONE.match(text, separator.end())
    return tuple(kinds)


@functools.cache
def _find_checks(function):
    """Returns a dict from parameter to kinds, of the calls of `check_int` and so on in ALF's constructors."""
    found = {}
    for source in _list_sources(function):
        for call in ast.walk(ast.parse(textwrap.dedent(source))):
            name = getattr(getattr(call, "func", None), "id", None)
            if name in _CHECKS and len(call.args) > 1:
                checked = getattr(call.args[1], "id", None) or getattr(call.args[1], "attr", None)
                optional = any(x.arg == "optional" and x.value.value for x in call.keywords)
                found[checked] = _CHECKS[name] + ("None",) * optional
    return found


def _list_sources(function):
    """Returns the sources of a function, or of the constructors of a class and its bases; ALF's alone."""
    parts = [function]
    if inspect.isclass(function):
        bases = reversed(inspect.getmro(function))
        parts = [vars(base).get(name) for base in bases for name in ("__init__", "__post_init__")]
    own = [x for x in parts if inspect.isfunction(x) and x.__module__.startswith("alf.")]
    return [inspect.getsource(x) for x in own if not x.__qualname__.startswith("__create_fn__")]


def find_named(name):
    """Returns the function or class of ALF with a name, None if there is none."""
    for path, module in list(sys.modules.items()):
        if path.startswith("alf."):
            found = vars(module).get(name)
            if inspect.isclass(found) or inspect.isfunction(found):
                return found
    return None


def _default_of(function, name):
    parameter = inspect.signature(function).parameters.get(name)
    return inspect.Parameter.empty if parameter is None else parameter.default


def _kinds_of_default(value):
    if value is None or value is inspect.Parameter.empty:
        return ()
    return ("Callable",) if callable(value) else (type(value).__name__,)
