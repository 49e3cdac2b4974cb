# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Lists all settings with type, default and the text of the docstring.

The list has the settings of all modules that this process has imported, ALF's and the user's own. `alf
settings` prints it, and docs/settings.md is made from ALF's part.
"""

import functools
import inspect
import os
import re
import sys
import textwrap
from typing import NamedTuple

from alf.config import registry
from alf.config.gin_files import EXAMPLES
from alf.config.hints import suggest_settings
from alf.config.parsing import parse_config
from alf.config.registry import shorten
from alf.config.settings import settings_of
from alf.core.annotations import FilePath
from alf.errors import ConfigError

_WIDTH = 100
_REQUIRED = "no default"


class Parameter(NamedTuple):
    """A setting as texts.

    Attributes:
        name: of the parameter.
        type: its type and bounds, "int, at least 1"; "" without an annotation.
        default: its default as gin files write it, "no default", or "" for **kwargs.
        text: its text in the docstring.
        may_change: bool, whether a run may go on with another value.
    """

    name: str
    type: str
    default: str
    text: str
    may_change: bool


class Configurable(NamedTuple):
    """A class or function that gin can configure, as texts."""

    name: str  # the shortest name in gin files
    module: str
    owner: str  # the Python module if it is not ALF's own, or ""
    summary: str  # the first paragraph of the docstring
    parameters: tuple


class Settings(NamedTuple):
    """The settings that `settings` has found. `str(found)` is a text for people.

    Attributes:
        configurables: list of `Configurable`.
        problem: ConfigError of a gin file that could not be read, or None.
    """

    configurables: list[Configurable]
    problem: ConfigError | None

    def __str__(self):
        return format_settings(self.configurables)


def settings(*names: FilePath) -> Settings:
    """Lists settings with types, defaults and meanings, as `alf settings` does.

        print(alf.settings("num_envs"))

    Args:
        *names: at most one word: the settings whose names have it, or those of a class or function of this
            name. And gin files, "FILE.gin" or "alf:TASK": the settings of what they import are listed, too.

    Returns:
        `Settings`. A wrong gin file does not keep the settings back: the user may need them to mend it.

    Raises:
        ConfigError: if there is no such setting, or there are several words.
    """
    texts = [os.fspath(name) for name in names]
    gin_files = [text for text in texts if text.endswith(".gin") or text.startswith(EXAMPLES)]
    words = [text for text in texts if text not in gin_files]
    if len(words) > 1:
        raise ConfigError(f"unexpected argument {words[1]!r}: name one")
    problem = None
    with registry.own_config():
        try:
            parse_config(gin_files)
        except ConfigError as error:
            problem = error
        found = list_settings(*words)
    if not found:
        raise problem or ConfigError(f"there is no setting {words[0]!r}{suggest_settings(words[0])}")
    return Settings(found, problem)


def list_settings(name=""):
    """Lists `Configurable`s: those with the name, such as "Adam", or else all that have it in their names.

    Of the latter, those parameters are listed whose full name, such as "alf.training.Trainer.root_dir",
    contains `name` in upper or lower case. The user's own come first, then ALF's; both are sorted.
    """
    found = {}
    own = registry.find_own()
    exact = [x for x in own if name in (x, x.rpartition(".")[2])]
    for selector in exact or own:
        settings = settings_of(selector).values()
        if exact:
            found[selector] = list(settings)
            continue
        # By the full name, so that a text such as "alf.training" finds all settings of a module.
        found[selector] = [x for x in settings if name.lower() in f"{selector}.{x.name}".lower()]
    names = [x for x in found if found[x] or name.lower() in x.lower()]
    names.sort(key=lambda x: (x.startswith("alf."), x.rpartition(".")[0], x))
    return [_describe(x, found[x]) for x in names]


def _describe(selector, settings):
    function = registry.get(selector)
    summary = " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())
    parameters = []
    for x in settings:
        default = "" if x.name.startswith("*") else x.default_text or _REQUIRED
        text = _find_text(function, x.name.lstrip("*"))
        parameters.append(Parameter(x.name, x.kind.text, default, text, x.role.may_change))
    owner = "" if function.__module__.partition(".")[0] == "alf" else function.__module__
    return Configurable(shorten(selector), selector.rpartition(".")[0], owner, summary, tuple(parameters))


def _find_text(function, name):
    """Returns the docstring's text of a parameter. "passed to `Policy`" is replaced by the text there."""
    # A reference to the same function would never end; it is left as text.
    text = _read_texts(function).get(name, "")
    referred = re.match(r"(?:as in|passed to) `(?:\w+\.)*(\w+)`(.*)", text)
    other = referred and _find_named(referred[1])
    full = _find_text(other, name) if other not in (None, function) else ""
    if not full:
        return text
    rest = referred[2]
    if rest.startswith(". "):  # more sentences
        return f"{full.rstrip('.')}{rest}"
    return f"{full.rstrip('.')} ({rest.strip(' ,;.')})." if rest.strip(".") else full


def _find_named(name):
    """Returns the function or class of ALF with a name, None if there is none."""
    # A copy, because other threads may import meanwhile.
    for path, module in list(sys.modules.items()):
        if path.startswith("alf."):
            found = vars(module).get(name)
            if inspect.isclass(found) or inspect.isfunction(found):
                return found
    return None


@functools.cache
def _read_texts(function):
    """Returns a dict from parameter to its text in the docstrings of a function, a class and its bases."""
    texts = {}
    bases = reversed(inspect.getmro(function)) if inspect.isclass(function) else [function]
    # From the base to the class: a class replaces the text of its base for an argument of the same name.
    for base in bases:
        for part in (base, getattr(base, "__init__", None)) if inspect.isclass(base) else (base,):
            texts.update(parse_args(part.__doc__ or ""))
    return texts


def parse_args(docstring):
    """Returns a dict from parameter to text of the sections "Args:" and "Keyword Args:" of a docstring."""
    texts = {}
    pattern = r"^ *(?:\w+ )?Args:\n((?: .*\n?|\n)*)"
    for section in re.findall(pattern, inspect.cleandoc(docstring), re.MULTILINE):
        # An entry begins at the indent of the section; its other lines are indented farther.
        for entry in re.split(r"\n(?=\S)", textwrap.dedent(section).strip("\n")):
            names, colon, text = entry.partition(":")
            if colon:
                texts.update({name.strip(" *`\n"): " ".join(text.split()) for name in names.split(",")})
    return texts


def format_settings(settings):
    """Formats a list of `Configurable`s for a terminal."""
    texts = []
    for configurable in settings:
        owner = f"  (of {configurable.owner})" * bool(configurable.owner)
        lines = [configurable.name + owner, *_wrap(configurable.summary, 4)]
        for name, kind, default, text, _ in configurable.parameters:
            is_set = default not in (_REQUIRED, "")
            value = f" = {default}" if is_set else f"  ({default})" * bool(default)
            lines += [f"  {configurable.name}.{name}{f': {kind}' * bool(kind)}{value}", *_wrap(text, 6)]
        texts.append("\n".join(lines))
    return "\n\n".join(texts)


def _wrap(text, indent):
    space = " " * indent
    return textwrap.wrap(text, _WIDTH, initial_indent=space, subsequent_indent=space)


def format_page(settings):
    """Formats a list of `Configurable`s as the Markdown of docs/settings.md."""
    lines = [
        "# Settings",
        "",
        "This page lists all settings of gin files and of `--NAME=VALUE`. `alf settings WORD` prints",
        "a part of it. A setting without a default must be set (`alf.environments.load.name`). A `float` may",
        "also be an integer. A `Callable` is a class or a function: `@Name`, without parentheses. A run may",
        "go on with another value of a setting that is marked with †. `make docs-settings` makes this page",
        "from annotations and docstrings.",
        "",
        "Modules that a gin file imports have settings of their own: `alf settings FILE.gin` prints them",
        "first. Gin files may also use names of TF-Agents, which are in its own documentation.",
    ]
    module = None
    for configurable in settings:
        if configurable.module != module:
            module = configurable.module
            lines += ["", f"## {module}"]
        owner = f" (from {configurable.owner})" * bool(configurable.owner)
        lines += ["", f"### {configurable.name}", "", configurable.summary + owner]
        if configurable.parameters:
            lines += ["", "| parameter | type | default | meaning |", "| --- | --- | --- | --- |"]
        for name, kind, default, text, may_change in configurable.parameters:
            default = default if default in (_REQUIRED, "") else f"`{default}`"
            cells = [f"`{name}`" + " †" * may_change]
            cells += [cell.replace("|", "\\|") for cell in (kind, default, text)]  # a bar would end the cell
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
