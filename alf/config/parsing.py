# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Gin configurations: read from files and bindings, kept apart, and checked for bindings without effect."""

import contextlib
import os
import re
import sys
import tokenize
import traceback
from collections.abc import Sequence

import gin

from alf.config import registry
from alf.config.comparison import parse_settings
from alf.config.gin_files import CONFIG_FILE, collect_used_macros, find_gin_file, look_beside_includes
from alf.config.hints import (
    check_bindings,
    explain,
    explain_call,
    explain_unread,
    find_unused_macros,
    find_used_macros,
)
from alf.config.imports import is_installed, is_of_user, read_import_paths
from alf.config.registry import name_binding
from alf.config.renames import renew_text
from alf.errors import ConfigError

_PARSE_ERRORS = ImportError, KeyError, OSError, RecursionError, SyntaxError, ValueError, tokenize.TokenError
_WRONG_CALL = "No values supplied by Gin|[Uu]nexpected keyword"


def parse_config(
    gin_files: Sequence[str], gin_params: Sequence[str] = (), params_name: str = "--gin_param"
) -> None:
    """Reads gin files and bindings into gin's configuration; raises ConfigError if one is wrong.

    Args:
        gin_files: paths; "alf:NAME.gin" is the file of that name among ALF's examples. A gin file may import
            Python modules beside it, and include gin files beside it. That of a run, `operative_config.gin`,
            may also import what the run could import.
        gin_params: texts "NAME = VALUE", which count where a file says something else.
        params_name: says in errors where these come from.
    """
    registry.import_settings()
    found = [find_gin_file(path) for path in gin_files]
    look_beside_includes()
    of_runs = [folder for path in found for folder in read_import_paths(os.path.dirname(path))]
    sys.path += [x for x in dict.fromkeys(of_runs) if x not in sys.path and os.path.isdir(x)]
    sources = [(f"--gin_file={path}", _parse_file, path) for path in found]
    with collect_used_macros() as used_macros:
        used_macros |= find_used_macros()
        for name, parse, source in [*sources, (params_name, gin.parse_config, gin_params)]:
            as_param = params_name if name == "--gin_param" else ""
            try:
                _parse(parse, source)
            except _PARSE_ERRORS as error:
                if not isinstance(error, ConfigError) and _is_of_user(error):
                    raise
                raise ConfigError(f"{name}: {_explain(error, as_param)}") from None
    _drop_macros(used_macros)
    check_bindings()


def _parse_file(path):
    """Reads a gin file; that of a run may be of an older version."""
    if os.path.basename(path) != CONFIG_FILE:
        gin.parse_config_file(path)
        return
    with open(path, encoding="utf-8") as file:
        gin.parse_config(renew_text(file.read()))


def parse_operative_config(text: str) -> None:
    """Reads a configuration that another process has made with `operative_config`."""
    registry.import_settings()
    _parse(gin.parse_config, text)


def _parse(parse, source):
    """Calls one of gin's parsers; once more if a name is unknown that TF-Agents, once imported, registers."""
    try:
        parse(source)
    except ValueError as error:
        if "No configurable matching" not in str(error) or not registry.import_tf_agents():
            raise
        parse(source)


def _explain(error, as_param):
    if isinstance(error, RecursionError):
        return "the file includes itself"
    if isinstance(error, tokenize.TokenError):
        return "a bracket or a quotation mark is not closed"
    return explain(error, as_param)


def _is_of_user(error, skip=0):
    """Whether the user's code has raised an error, which then needs its traceback.

    `skip`: how many of the outermost frames of the traceback do not count.
    """
    frames = list(traceback.walk_tb(error.__traceback__))[skip:]
    files = [frame.f_code.co_filename for frame, _ in frames]
    files += re.findall('File "(.*?)", line', str(_find_cause(error)))  # that of a worker process
    return any(map(is_of_user, files))


def _drop_macros(names):
    """Removes the macros of these names that nothing uses any more: what used them was replaced or taken."""
    while unused := find_unused_macros() & names:  # one macro may use another one
        registry.remove_bindings(*((name, "gin.macro") for name in unused))


def operative_config():
    """The text of gin's operative configuration, which can be read where no module of the user is imported.

    Gin itself names the modules that gin files import; Gymnasium imports that of "module:Name-v0", for
    example.
    """
    used = {registry.get(selector).__module__ for _, selector in registry.list_read_bindings()}
    text = gin.operative_config_str()
    imports = re.findall(r"^(?:from ([\w.]+) )?import ([\w.]+)", text, re.MULTILINE)
    used -= {".".join(filter(None, parts)) for parts in imports}
    return "".join(f"import {name}\n" for name in sorted(filter(_is_own, used))) + text


def _is_own(name):
    """Whether a module is the user's."""
    path = getattr(sys.modules.get(name), "__file__", None)
    return path is not None and not is_installed(path) and name.partition(".")[0] not in ("alf", "__main__")


def take_bindings(module, only_read=False):
    """Removes the bindings of all that a module registers from gin's configuration; returns their names.

    Raises ConfigError if nothing has read one of them; with `only_read` such a one stays. `module` is a name,
    such as "alf.population".
    """
    bound, read = registry.list_bindings(), registry.list_read_bindings()
    keys = [x for x in bound if x[1].startswith(f"{module}.") and (x in read or not only_read)]
    names = [name_binding(*key, parameter) for key in keys for parameter in bound[key]]
    check_dead_bindings([f"{name}=" for name in names])
    used_macros = find_used_macros()
    registry.remove_bindings(*keys)
    _drop_macros(used_macros)
    return set(names)


def check_dead_bindings(bindings=None):
    """Raises ConfigError, once everything is built, that names the bindings that nothing has read.

    `bindings`: list of texts "NAME=VALUE" to check; None checks all of gin's configuration.
    """
    bound = parse_settings(gin.config_str())
    # A name without a dot is a macro's.
    dead = {name for name in bound if "." in name.rpartition("/")[2]}
    for name in parse_settings(gin.operative_config_str()):
        # A call in the scope a/b reads the binding of a/b, else that of a, else the one without a scope.
        *scopes, parameter = name.split("/")
        candidates = ("/".join((*scopes[:i], parameter)) for i in range(len(scopes), -1, -1))
        dead.discard(next((candidate for candidate in candidates if candidate in bound), None))
    if bindings is not None:
        asked = parse_settings("\n".join(bindings))
        # Gin may know a parameter by a longer or a shorter name than the user has given.
        dead = {name for name in dead if any(_may_be_same(name, other) for other in asked)}
    if dead:
        names = sorted(dead)
        raise ConfigError(f"nothing reads the gin binding {', '.join(names)}{explain_unread(names)}")


def _may_be_same(name, other):
    (scope, name), (other_scope, other) = name.rpartition("/")[::2], other.rpartition("/")[::2]
    if scope != other_scope:
        return False
    return f".{name}".endswith(f".{other}") or f".{other}".endswith(f".{name}")


@contextlib.contextmanager
def wrong_calls_are_config_errors():
    """Context of calls that gin configures: raises ConfigError where a binding has made one wrong.

    Then it lacks an argument, has an unknown one, or needs a module that is missing. Any other error is a
    mistake in code, whose traceback is needed; so is an ImportError that the user's code has raised.
    """
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        if not _is_wrong_call(error):
            raise error from _find_cause(error)
        called = re.findall("In call to configurable '(.*?)'", str(error))
        where = "".join(f"{name}: " for name in called[:1])
        raise ConfigError(f"{where}{first_line(error)}{explain_call(error)}") from error


def _is_wrong_call(error):
    if isinstance(error, ImportError):
        return not _is_of_user(error, skip=2)  # the frames of the context and of what it is for
    return isinstance(error, (TypeError, ValueError)) and re.search(_WRONG_CALL, str(error))


def _find_cause(error):
    """Returns the cause of an error, which gin loses: the traceback of a worker process, for example."""
    while error.__cause__ is None and type(error.__context__) in type(error).__bases__:  # gin raises it again
        error = error.__context__
    return error.__cause__


def first_line(error):
    """An error's text without what gin adds: through which calls it came."""
    return " ".join(re.split("\n *(?:In call to|No values supplied)", str(error))[0].split())
