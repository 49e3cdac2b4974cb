# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Reads the values of settings on a command line."""

import ast
import importlib.util
import os
import re
import sys
import tokenize
from typing import Any, NamedTuple

from alf.config import registry
from alf.config.hints import explain
from alf.errors import ConfigError

_ENDS = {"[": "]", "(": ")"}


class FlagValue(NamedTuple):
    """The value of a setting on a command line, which is read once gin files have imported what it may name.

    Attributes:
        text: text, or None if there is none.
    """

    text: str | None


def read_value(text: str) -> Any:
    """Returns the value of a text on a command line, which is read as in gin files.

    A word that is no value there is a text, also in a list: "relu", "[relu, tanh]". "@NAME", "@NAME()" and
    "%NAME" are references of gin; "@MODULE.NAME" imports the module, if gin does not know the name yet.

    Raises:
        ConfigError: if there is nothing of the name of a reference. Errors of a module pass through.
    """
    text = text.strip()
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):  # a word, or something with a reference
        pass
    items = split_list(text)
    if items is not None:
        values = map(read_value, items)
        return list(values) if text[0] == "[" else tuple(values)
    if text[:1] in ("@", "%") or (text[:1] == "{" and ("@" in text or "%" in text)):
        return _parse(text)
    return text


def _parse(text):
    """Returns the value of a text with references."""
    try:
        return registry.parse_value(text)
    except (KeyError, SyntaxError, ValueError, tokenize.TokenError) as error:
        wrong = ConfigError(explain(error, text))
        unknown = re.search(r"No configurable matching reference '@(?:\w+/)*([\w.]+)\.\w+", str(error))
    if unknown is None or not _import(unknown[1]):
        raise wrong
    return _parse(text)


def _import(module):
    """Imports a module, perhaps of the current directory; returns False if it was there or is not found."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        if module in sys.modules or importlib.util.find_spec(module) is None:
            return False
    except ModuleNotFoundError:  # the package around it
        return False
    importlib.import_module(module)
    return True


def split_list(text: str) -> list[str] | None:
    """Returns the texts of the items of a list, "[a, b]" or "(a, b)"; None if the text is none."""
    if len(text) < 2 or text[-1] != _ENDS.get(text[0]):
        return None
    items, depth, quote = [""], 0, ""
    for letter in text[1:-1]:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "," and not depth:
            items.append("")
            continue
        else:
            depth += (letter in "([{") - (letter in ")]}")
        if depth < 0:
            return None
        items[-1] += letter
    # "(a)" is an "a" in brackets, as for Python.
    if quote or depth or (text[0] == "(" and len(items) == 1):
        return None
    items = [item.strip() for item in items]
    return items if items[-1] else items[:-1]  # "[a, ]" and "[]"
