# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""All settings: what gin can configure, each parameter with its type, its default and its docstring's text.

A process knows the settings of the modules that it has imported, ALF's and the user's own. `alf-train
--list_settings` prints them, and docs/settings.md is made of ALF's.
"""

import dataclasses
import difflib
import functools
import inspect
import re
import textwrap
from typing import NamedTuple

import gin

from alf.configurable import shorten
from alf.training.setting_types import find_named, find_type

_WIDTH = 100
_REQUIRED = "no default"
_LIBRARIES = {"tf_keras": "Keras", "tensorflow": "TensorFlow"}


class Parameter(NamedTuple):
    """A parameter: its name, its type, its default as gin writes it, and what the docstring says of it."""

    name: str
    type: str  # "" if nothing says it
    default: str
    text: str


class Configurable(NamedTuple):
    """What gin can configure: the shortest name for gin files, its module, its summary, its parameters."""

    name: str
    module: str
    owner: str  # "" for ALF's own; else the library or the module of the user's that it is of
    summary: str
    parameters: tuple


def find_configurables():
    """Returns a dict from full name to what gin registered, for example `.wrapped`; ALF's and all others.

    Gin has no public way to do this; its version is pinned in setup.py.
    """
    return dict(gin.config._REGISTRY.items())


def list_parameters(function):
    """Returns a dict from name to `inspect.Parameter` of what gin can bind of a function or class.

    It is empty for one that Python knows no signature of, such as `dict`.
    """
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        return {}
    return {name: x for name, x in parameters.items() if x.kind is not x.VAR_POSITIONAL}


def find_own_configurables():
    """Returns the dict of `find_configurables` without those of TF-Agents and gin: ALF's and the user's."""
    found = find_configurables()
    return {name: x for name, x in found.items() if not name.startswith(("tf_agents.", "gin."))}


def list_settings(name=""):
    """Lists the `Configurable`s whose full name contains a text, in either case.

    One whose name does not contain it is there with those parameters alone whose full name does,
    "alf.training.Experiment.num_envs" for instance. The user's own come first, then ALF's; both are sorted by
    name.
    """
    found = find_configurables()
    parameters = {x: _find_parameters(x, y.wrapped, name) for x, y in find_own_configurables().items()}
    names = [x for x in parameters if parameters[x] or name.lower() in x.lower()]
    names.sort(key=lambda x: (x.startswith("alf."), x.rpartition(".")[0], x))
    return [_describe(x, found, parameters[x]) for x in names]


def find_similar(name):
    """Returns up to three names of configurables or of parameters that are like one that there is not."""
    names = {}
    for selector, configurable in find_own_configurables().items():
        short, parameters = shorten(selector), list_parameters(configurable.wrapped)
        for x in (short, *parameters, *(f"{short}.{parameter}" for parameter in parameters)):
            names[x.lower()] = x
    return [names[x] for x in difflib.get_close_matches(name.lower(), names, n=3)]


def _find_parameters(selector, function, text):
    """Returns a list of the `inspect.Parameter`s of a configurable whose full name contains a text."""
    parameters = list_parameters(function).values()
    return [x for x in parameters if text.lower() in f"{selector}.{x.name}".lower()]


def _describe(selector, configurables, parameters):
    function = configurables[selector].wrapped
    parameters = tuple(
        Parameter(
            _star(x), _find_type(function, x), _format_default(x, configurables), _find_text(function, x.name)
        )
        for x in parameters
    )
    summary = " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())
    module, owner = selector.rpartition(".")[0], _find_owner(selector, function)
    return Configurable(shorten(selector), module, owner, summary, parameters)


def _find_owner(selector, function):
    library = function.__module__.partition(".")[0]
    if library == "alf":
        return ""
    return _LIBRARIES.get(library, library) if selector.startswith("alf.") else function.__module__


def _find_type(function, parameter):
    is_keywords = parameter.kind is parameter.VAR_KEYWORD
    return "" if is_keywords else find_type(function, parameter, _read_texts)


def _find_text(function, name):
    """Returns what docstrings say of a parameter, with that of another class in place of "as in `Policy`"."""
    text = _read_texts(function).get(name, "")
    referred = re.match(r"as in `(?:\w+\.)*(\w+)`(.*)", text)
    other = referred and find_named(referred[1])
    full = _find_text(other, name) if other not in (None, function) else ""
    if not full:
        return text
    rest = referred[2]
    if rest.startswith(". "):  # more sentences
        return f"{full.rstrip('.')}{rest}"
    return f"{full.rstrip('.')} ({rest.strip(' ,;.')})." if rest.strip(".") else full


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


@functools.cache
def _read_texts(function):
    """Returns a dict from parameter to text: of the docstring, else of a base class, else of a comment.

    The fields of a named tuple are its "Attributes:".
    """
    texts = {}
    bases = reversed(inspect.getmro(function)) if inspect.isclass(function) else [function]
    for base in bases:
        if dataclasses.is_dataclass(base):
            texts.update(_parse_comments(inspect.getsource(base)))
        for part in (base, getattr(base, "__init__", None)) if inspect.isclass(base) else (base,):
            texts.update(parse_args(part.__doc__ or ""))
        if inspect.isclass(base) and issubclass(base, tuple):
            texts.update(parse_args(base.__doc__ or "", "Attributes"))
    return texts


def parse_args(docstring, title="Args"):
    """Returns a dict from parameter to text of the sections "Args:" and "Keyword Args:" of a docstring."""
    texts = {}
    pattern = rf"^ *(?:\w+ )?{title}:\n((?: .*\n?|\n)*)"
    for section in re.findall(pattern, inspect.cleandoc(docstring), re.MULTILINE):
        # An entry begins where the section does; its other lines are indented farther.
        for entry in re.split(r"\n(?=\S)", textwrap.dedent(section).strip("\n")):
            names, colon, text = entry.partition(":")
            if colon:
                texts.update({name.strip(" *`\n"): " ".join(text.split()) for name in names.split(",")})
    return texts


def _parse_comments(source):
    """Returns a dict from field to the comment behind it, in the source of a dataclass."""
    return dict(re.findall(r"^    (\w+): .*?  # (.*)$", source, re.MULTILINE))


def format_settings(settings):
    """Makes a text for a terminal of a list of `Configurable`s."""
    return "\n\n".join(map(_format_one, settings))


def _format_one(configurable):
    owner = f"  (of {configurable.owner})" * bool(configurable.owner)
    lines = [configurable.name + owner, *_wrap(configurable.summary, 4)]
    for name, kind, default, text in configurable.parameters:
        is_set = default not in (_REQUIRED, "")
        value = f" = {default}" if is_set else f"  ({default})" * bool(default)
        lines += [f"  {configurable.name}.{name}{f': {kind}' * bool(kind)}{value}", *_wrap(text, 6)]
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
        "`alf.environments.load.name`. A `float` may be an integer, too, and a `Callable` is what makes an",
        "object: `@Name`, without parentheses. `make docs-settings` makes this page from the docstrings.",
        "",
        "Modules that a gin file imports have settings of their own: `alf-train --gin_file=FILE",
        "--list_settings` prints them first. Gin also knows names of TF-Agents, for users' own code; see the",
        "documentation of TF-Agents.",
    ]
    module = None
    for configurable in settings:
        if configurable.module != module:
            module = configurable.module
            lines += ["", f"## {module}"]
        owner = f" (of {configurable.owner}, whose documentation says more)" * bool(configurable.owner)
        lines += ["", f"### {configurable.name}", "", configurable.summary + owner]
        if configurable.parameters:
            lines += ["", "| parameter | type | default | what it is |", "| --- | --- | --- | --- |"]
        for name, kind, default, text in configurable.parameters:
            default = default if default in (_REQUIRED, "") else f"`{default}`"
            lines.append("| " + " | ".join([f"`{name}`", *map(_escape, (kind, default, text))]) + " |")
    return "\n".join(lines) + "\n"


def _escape(text):
    return text.replace("|", "\\|")
