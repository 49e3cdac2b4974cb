# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""All settings: what gin can configure, each parameter with its type, its default and its docstring's text.

A process knows the settings of the modules that it has imported, ALF's and the user's own. `alf-train
--list_settings` prints them, and docs/settings.md is made of ALF's.
"""

import functools
import inspect
import re
import sys
import textwrap
from typing import NamedTuple

from alf.config import registry
from alf.config.registry import shorten
from alf.config.settings import settings_of

_WIDTH = 100
_REQUIRED = "no default"


class Parameter(NamedTuple):
    """A setting as people read it.

    Attributes:
        name: of the parameter.
        type: its type and bounds, "int, at least 1"; "" if its annotation does not say one.
        default: its default as gin files write it, "no default", or "" for what stands for many.
        text: what the docstring says of it.
        may_change: whether a run may go on with another value.
    """

    name: str
    type: str
    default: str
    text: str
    may_change: bool


class Configurable(NamedTuple):
    """What gin can configure: the shortest name for gin files, its module, its summary, its parameters."""

    name: str
    module: str
    owner: str  # the module of what is not ALF's own, or ""
    summary: str
    parameters: tuple


def list_settings(name=""):
    """Lists the `Configurable`s whose full name contains a text, in either case.

    A configurable whose name does not contain it is in the list with only those parameters whose full name
    does, "alf.training.Experiment.num_envs" for example. The user's own come first, then ALF's; both are
    sorted by name.
    """
    found = {}
    for selector in registry.find_own():
        settings = settings_of(selector).values()
        found[selector] = [x for x in settings if name.lower() in f"{selector}.{x.name}".lower()]
    names = [x for x in found if found[x] or name.lower() in x.lower()]
    names.sort(key=lambda x: (x.startswith("alf."), x.rpartition(".")[0], x))
    return [_describe(x, found[x]) for x in names]


def _describe(selector, settings):
    function = registry.get(selector)
    summary = " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())
    parameters = tuple(_describe_setting(function, x) for x in settings)
    owner = "" if function.__module__.partition(".")[0] == "alf" else function.__module__
    return Configurable(shorten(selector), selector.rpartition(".")[0], owner, summary, parameters)


def _describe_setting(function, setting):
    text = _find_text(function, setting.name.lstrip("*"))
    return Parameter(setting.name, setting.kind.text, _format_default(setting), text, setting.role.may_change)


def _find_text(function, name):
    """Returns what docstrings say of a parameter, with that of another class in place of "as in `Policy`"."""
    text = _read_texts(function).get(name, "")
    referred = re.match(r"as in `(?:\w+\.)*(\w+)`(.*)", text)
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
    for path, module in list(sys.modules.items()):
        if path.startswith("alf."):
            found = vars(module).get(name)
            if inspect.isclass(found) or inspect.isfunction(found):
                return found
    return None


def _format_default(setting):
    value = setting.default
    if setting.name.startswith("*"):
        return ""
    if not setting.has_default:
        return _REQUIRED
    if isinstance(value, (bool, int, float, str, tuple, list, dict, type(None))):
        return repr(value)
    name = registry.find_gin_name(value)
    return f"@{name}" if name else getattr(value, "__name__", type(value).__name__)


@functools.cache
def _read_texts(function):
    """Returns a dict from parameter to text: of the docstring, else of a base class.

    The fields of a named tuple are its "Attributes:".
    """
    texts = {}
    bases = reversed(inspect.getmro(function)) if inspect.isclass(function) else [function]
    for base in bases:
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


def format_settings(settings):
    """Makes a text for a terminal of a list of `Configurable`s."""
    return "\n\n".join(map(_format_one, settings))


def _format_one(configurable):
    owner = f"  (of {configurable.owner})" * bool(configurable.owner)
    lines = [configurable.name + owner, *_wrap(configurable.summary, 4)]
    for name, kind, default, text, _ in configurable.parameters:
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
        "object: `@Name`, without parentheses. A run may go on with another value of a setting with the mark",
        "†. `make docs-settings` makes this page from annotations and docstrings.",
        "",
        "Modules that a gin file imports have settings of their own: `alf-train --gin_file=FILE",
        "--list_settings` prints them first. Gin files may also use the names of TF-Agents, see its",
        "documentation.",
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
        for name, kind, default, text, may_change in configurable.parameters:
            default = default if default in (_REQUIRED, "") else f"`{default}`"
            lines.append(
                "| "
                + " | ".join([f"`{name}`" + " †" * may_change, *map(_escape, (kind, default, text))])
                + " |"
            )
    return "\n".join(lines) + "\n"


def _escape(text):
    return text.replace("|", "\\|")
