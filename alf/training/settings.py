# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""All settings: what gin can configure in ALF, each parameter with its default and what its docstring says.

A process knows the settings of the modules that it has imported. `alf-train --list_settings` prints them, and
docs/settings.md is made of them.
"""

import dataclasses
import inspect
import re
import textwrap
from typing import NamedTuple

import gin

_WIDTH = 100
_REQUIRED = "no default"


class Parameter(NamedTuple):
    """A parameter: its name, its default as gin writes it, and what the docstring says of it."""

    name: str
    default: str
    text: str


class Configurable(NamedTuple):
    """What gin can configure: the shortest name for gin files, its module, its summary, its parameters."""

    name: str
    module: str
    summary: str
    parameters: tuple


def find_configurables():
    """Returns a dict from full name to what gin registered, for example `.wrapped`; ALF's and all others.

    Gin has no public way to do this; its version is pinned in setup.py.
    """
    return dict(gin.config._REGISTRY.items())


def shorten(selector):
    """Returns the name to write in gin files: "Adam" for "alf.optimizers.Adam".

    It is the full name where another configurable, such as one of TF-Agents, has the same last part.
    """
    name = gin.config._REGISTRY.minimal_selector(selector)
    return selector if "." in name else name


def list_parameters(function):
    """Returns a dict from name to `inspect.Parameter` of what gin can bind of a function or class.

    It is empty for one that Python knows no signature of, such as `dict`.
    """
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        return {}
    return {name: x for name, x in parameters.items() if x.kind is not x.VAR_POSITIONAL}


def list_settings(name=""):
    """Lists the `Configurable`s of ALF whose full name contains a text, in either case; sorted by name."""
    found = find_configurables()
    own = [x for x in found if x.startswith("alf.") and name.lower() in x.lower()]
    return [_describe(x, found) for x in sorted(own, key=lambda x: (x.rpartition(".")[0], x))]


def _describe(selector, configurables):
    function = configurables[selector].wrapped
    texts = _read_texts(function)
    parameters = tuple(
        Parameter(_star(x), _format_default(x, configurables), texts.get(x.name, ""))
        for x in list_parameters(function).values()
    )
    summary = " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())
    return Configurable(shorten(selector), selector.rpartition(".")[0], summary, parameters)


def _star(parameter):
    return f"**{parameter.name}" if parameter.kind is parameter.VAR_KEYWORD else parameter.name


def _format_default(parameter, configurables):
    value = parameter.default
    if parameter.kind is parameter.VAR_KEYWORD:
        return ""
    if value is parameter.empty:
        return _REQUIRED
    if isinstance(value, (bool, int, float, str, tuple, list, dict, type(None))):
        return repr(value)
    for selector, configurable in configurables.items():
        if value is configurable.wrapped or value is configurable.wrapper:
            return f"@{shorten(selector)}"
    return getattr(value, "__name__", type(value).__name__)  # not its `repr`, which may hold an address


def _read_texts(function):
    """Returns a dict from parameter to text: of the docstring, else of a base class, else of a comment."""
    texts = {}
    bases = reversed(inspect.getmro(function)) if inspect.isclass(function) else [function]
    for base in bases:
        if dataclasses.is_dataclass(base):
            texts.update(_parse_comments(inspect.getsource(base)))
        for part in (base, getattr(base, "__init__", None)) if inspect.isclass(base) else (base,):
            texts.update(parse_args(part.__doc__ or ""))
    return texts


def parse_args(docstring):
    """Returns a dict from parameter to text of the sections "Args:" and "Keyword Args:" of a docstring."""
    texts = {}
    for section in re.findall(
        r"^ *(?:\w+ )?Args:\n((?: .*\n?|\n)*)", inspect.cleandoc(docstring), re.MULTILINE
    ):
        # An entry begins where the section does; its other lines are indented farther.
        for entry in re.split(r"\n(?=\S)", textwrap.dedent(section).strip("\n")):
            names, colon, text = entry.partition(":")
            if colon:
                texts.update({name.strip(" *`"): " ".join(text.split()) for name in names.split(",")})
    return texts


def _parse_comments(source):
    """Returns a dict from field to the comment behind it, in the source of a dataclass."""
    return dict(re.findall(r"^    (\w+): .*?  # (.*)$", source, re.MULTILINE))


def format_settings(settings):
    """Makes a text for a terminal of a list of `Configurable`s."""
    return "\n\n".join(map(_format_one, settings))


def _format_one(configurable):
    lines = [configurable.name, *_wrap(configurable.summary, 4)]
    for parameter in configurable.parameters:
        is_set = parameter.default not in (_REQUIRED, "")
        default = (
            f" = {parameter.default}" if is_set else f"  ({parameter.default})" * bool(parameter.default)
        )
        lines += [f"  {configurable.name}.{parameter.name}{default}", *_wrap(parameter.text, 6)]
    return "\n".join(lines)


def _wrap(text, indent):
    space = " " * indent
    return textwrap.wrap(text, _WIDTH, initial_indent=space, subsequent_indent=space)


def format_page(settings):
    """Makes the Markdown of docs/settings.md of a list of `Configurable`s."""
    lines = [
        "# Settings",
        "",
        "All that a gin file or `--gin_param` can set; `alf-train --list_settings NAME` prints a part of it.",
        "What has no default is given by ALF, such as `alf.Learner.algorithm`, or must be set, such as",
        "`alf.environments.load.name`. `make docs-settings` makes this page from the docstrings.",
    ]
    module = None
    for configurable in settings:
        if configurable.module != module:
            module = configurable.module
            lines += ["", f"## {module}"]
        lines += ["", f"### {configurable.name}", "", configurable.summary]
        if configurable.parameters:
            lines += ["", "| parameter | default | what it is |", "| --- | --- | --- |"]
        for name, default, text in configurable.parameters:
            default = default if default in (_REQUIRED, "") else f"`{default}`"
            lines.append(f"| `{name}` | {_escape(default)} | {_escape(text)} |")
    return "\n".join(lines) + "\n"


def _escape(text):
    return text.replace("|", "\\|")
