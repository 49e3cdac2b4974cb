# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Reads gin configurations from files and bindings, and finds bindings that nothing reads."""

import contextlib
import errno
import os
import re
import resource
import sys
import tokenize
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import gin
from absl import logging

from alf.config import registry
from alf.config.comparison import parse_settings
from alf.config.gin_files import (
    collect_used_macros,
    find_gin_file,
    look_beside_includes,
)
from alf.config.hints import (
    check_bindings,
    explain,
    explain_call,
    find_calls,
    find_statement,
    find_unused_macros,
    find_used_macros,
)
from alf.config.imports import read_import_paths
from alf.config.kinds import show
from alf.config.registry import complete, name_binding
from alf.config.settings import Role, configurable
from alf.errors import ConfigError, is_installed

_PARSE_ERRORS = ImportError, KeyError, OSError, SyntaxError, ValueError, tokenize.TokenError
_GIVEN_KEY = "", "gin.given_bindings"
_GIVEN = "gin.given_bindings.names"


@configurable("gin", role=Role.EXECUTION)
def given_bindings(names: Sequence[str] = ()) -> None:
    """Holds the full names of the bindings that flags or arguments have set: something must read these.

    It is never called. The names are in gin's configuration so that they are also in the file of a study,
    which other processes read.
    """


def parse_config(gin_files: Sequence[str], bindings: Sequence[str] = (), source: str = "bindings") -> None:
    """Reads gin files and bindings into gin's configuration.

    Args:
        gin_files: paths; "alf:NAME.gin" is a file among ALF's examples. A gin file may import Python modules
            and include gin files that are beside it. The `operative_config.gin` of a run may also import the
            modules of the run.
        bindings: texts "NAME = VALUE", which override the files. Something must read each of them.
        source: text for errors, where the bindings come from.

    Raises:
        ConfigError: if a file or a binding is wrong. Errors of modules that a file imports pass through.
    """
    registry.import_settings()
    # All files must exist before the first one changes gin's configuration.
    found = [find_gin_file(path) for path in gin_files]
    look_beside_includes()
    of_runs = [folder for path in found for folder in read_import_paths(os.path.dirname(path))]
    # At the end: the folders come from a file of the run, and must not hide modules that this process has
    # anyway.
    sys.path += [x for x in dict.fromkeys(of_runs) if x not in sys.path and os.path.isdir(x)]
    # Bindings come last, because they override files.
    text = "\n".join(bindings)
    files = [(path, gin.parse_config_file, path) for path in found]
    with _replacing_bindings():
        for name, parse, content in [*files, (source, gin.parse_config, text)]:
            try:
                _parse(parse, content)
            except _PARSE_ERRORS as error:
                if _is_of_module(error):
                    raise
                raise ConfigError(f"{name}: {explain(error)}") from None
        _remember(registry.read_names(text))


def bind(bindings: Mapping[str, Any], source: str = "") -> None:
    """Binds settings to values in gin's configuration.

    Args:
        bindings: dict from the names of bindings, such as "eval/Adam.learning_rate", or of macros, to values.
            A class or a function that gin knows is bound by its name, as "@NAME" binds it.
        source: text for errors, where the bindings come from.

    Raises:
        ConfigError: if a name or a value is wrong.
    """
    registry.import_settings()
    with _replacing_bindings():
        for name, value in bindings.items():
            gin_name = registry.find_gin_name(value) if callable(value) else None
            value = value if gin_name is None else registry.parse_value(f"@{gin_name}")
            try:
                registry.check_copy(value)
            except Exception as error:  # the value may be an object of the user's
                raise ConfigError(
                    f"{name} is {show(value)}: each part of a run gets a copy, and this cannot be copied "
                    f"({error}): pass a function that makes it"
                ) from error
            try:
                _parse(lambda value: registry.bind(name, value), value)  # noqa: B023
            except (KeyError, ValueError) as error:
                beginning = f"{source}: " if source else ""
                raise ConfigError(f"{beginning}{explain(error, f'{name} = {show(value)}')}") from None
            _remember({complete(name)})


@contextlib.contextmanager
def _replacing_bindings():
    """Context in which bindings may take the place of earlier ones; in the end all bindings are checked."""
    with collect_used_macros() as used_macros:
        # Also those that an earlier call has read: this one may replace the bindings that used them.
        used_macros |= find_used_macros()
        yield
    # A later binding may have taken the place of the one that used a macro. That is no mistake, so these go
    # before `check_bindings` looks for macros that nothing uses.
    _drop_macros(used_macros)
    check_bindings()


def add_defaults(text: str) -> None:
    """Reads the text of a gin file; what is bound already keeps its value."""
    registry.bind_unbound(lambda: _parse(gin.parse_config, text))


def _remember(names):
    """Adds a set of full names, without those of macros, to `given_bindings`."""
    given = _list_given()
    new = {name for name in names if "." in name} - {_GIVEN} - given
    if new:
        gin.bind_parameter(_GIVEN, tuple(sorted(new | given)))


def _forget(names):
    """Removes a set of full names from `given_bindings`, which goes, too, with its last name."""
    given = _list_given()
    if left := given - names:
        gin.bind_parameter(_GIVEN, tuple(sorted(left)))
    elif given:
        registry.remove_bindings(_GIVEN_KEY)


def _list_given():
    return set(registry.list_bindings().get(_GIVEN_KEY, {}).get("names", ()))


def parse_operative_config(text: str) -> None:
    """Reads gin's configuration of another process."""
    registry.import_settings()
    # Not checked again: the other process has done that.
    _parse(gin.parse_config, text)


def _parse(parse, source):
    """Calls one of gin's parsers; once more if a name is unknown that TF-Agents, once imported, registers."""
    try:
        parse(source)
    except ValueError as error:
        # Only then, because the import takes seconds. The second try reads everything anew, which sets the
        # bindings before the error once more to the same values.
        if "No configurable matching" not in str(error) or not registry.import_tf_agents():
            raise
        parse(source)


def _is_of_module(error):
    """Returns whether a module of the user's raised an error when a gin file imported it.

    Its traceback is needed then. A missing module, and a syntax error, say in their text where they are.
    """
    says_where = isinstance(error, (ConfigError, ModuleNotFoundError, SyntaxError))
    return not says_where and find_statement(error).startswith(("import ", "from "))


def _drop_macros(names):
    """Removes macros that nothing uses any more, because the bindings that used them are gone."""
    while unused := find_unused_macros() & names:  # again, because one macro may use another
        registry.remove_bindings(*((name, "gin.macro") for name in unused))


def operative_config():
    """Returns gin's operative configuration as a text that another process can read.

    It imports all modules of the user whose bindings it has. Gin itself only writes the imports of gin files;
    other modules are imported by code, for example by Gymnasium for "module:Name-v0".
    """
    used = {registry.get(selector).__module__ for _, selector in registry.list_read_bindings()}
    text = gin.operative_config_str()
    imports = re.findall(r"^(?:from ([\w.]+) )?import ([\w.]+)", text, re.MULTILINE)
    used -= {".".join(filter(None, parts)) for parts in imports}
    return "".join(f"import {name}\n" for name in sorted(filter(_is_own, used))) + text


def _is_own(name):
    """Returns whether a module is the user's, or one of ALF's examples: nothing else imports it."""
    if name.startswith("alf.examples."):
        return True
    path = getattr(sys.modules.get(name), "__file__", None)
    # Another process has a `__main__` of its own.
    return path is not None and not is_installed(path) and name.partition(".")[0] not in ("alf", "__main__")


def take_bindings(module, only_read=False):
    """Removes the bindings of a module's classes and functions from gin's configuration.

    Args:
        module: text, such as "alf.population".
        only_read: bool; True leaves bindings that nothing has read.

    Returns:
        the names of the removed bindings, a set.

    Raises:
        ConfigError: if nothing has read a binding of a flag or an argument and `only_read` is False.
    """
    bound, read = registry.list_bindings(), registry.list_read_bindings()
    keys = [x for x in bound if x[1].startswith(f"{module}.") and (x in read or not only_read)]
    names = {name_binding(*key, parameter) for key in keys for parameter in bound[key]}
    # Before they are removed: afterwards nobody could tell that nothing had read them.
    check_dead_bindings(names)
    # Macros that only these bindings used would count as unused later, so they go, too.
    used_macros = find_used_macros()
    registry.remove_bindings(*keys)
    _forget(set(map(complete, names)))
    _drop_macros(used_macros)
    return names


def check_dead_bindings(names: Collection[str] | None = None) -> None:
    """Raises ConfigError if nothing has read a binding of a flag or an argument; call it once all is built.

    Bindings of files only cause a warning: other bindings may have replaced the parts that read them.

    Args:
        names: names of the bindings to check; None checks gin's whole configuration.
    """
    # Compares gin's own texts, which both have the same short names.
    bound = parse_settings(gin.config_str())
    # Names without a dot are macros.
    dead = {x for x in bound if "." in x.rpartition("/")[2] and complete(x) != _GIVEN}
    for name in parse_settings(gin.operative_config_str()):
        # A call in the scope a/b reads the binding of a/b, else of a, else without a scope.
        *scopes, parameter = name.split("/")
        candidates = ("/".join((*scopes[:i], parameter)) for i in range(len(scopes), -1, -1))
        dead.discard(next((candidate for candidate in candidates if candidate in bound), None))
    if names is not None:
        # Gin may write a longer or a shorter name than the user did.
        dead = {name for name in dead if any(_may_be_same(name, other) for other in names)}
    given = _list_given()
    wrong = {name for name in dead if complete(name) in given}
    if of_files := dead - wrong:
        logging.warning("nothing reads %s: other parts are chosen", ", ".join(sorted(of_files)))
    if wrong:
        raise ConfigError(f"nothing reads the gin binding {', '.join(sorted(wrong))}")


def _may_be_same(name, other):
    (scope, name), (other_scope, other) = name.rpartition("/")[::2], other.rpartition("/")[::2]
    if scope != other_scope:
        return False
    return f".{name}".endswith(f".{other}") or f".{other}".endswith(f".{name}")


@contextlib.contextmanager
def wrong_calls_are_config_errors():
    """Context manager for calls that gin configures. It raises ConfigError if a binding made one wrong.

    That is so if a call lacks an argument, has an unknown one that a binding gives it, or needs a module that
    is missing. Other errors are mistakes in code, and pass through with their traceback.
    """
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and _find_original(error).errno == errno.EMFILE:
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            raise ConfigError(
                f"too many open files: the limit of this process is {limit}: raise it, such as by `ulimit -n "
                f"{4 * limit}`, or make fewer environments or workers (num_envs, num_groups, num_workers)"
            ) from error
        called = find_calls(error)
        explanation = "" if isinstance(error, ModuleNotFoundError) else explain_call(error, called)
        if explanation is None:
            raise error from _find_original(error).__cause__
        where = "".join(f"{name}: " for name in called[:1])
        raise ConfigError(f"{where}{first_line(error)}{explanation}") from error


def _find_original(error):
    """Returns the error that gin has raised again, with its cause, such as the traceback of a worker process.

    Gin's are objects of a subclass without the cause; the original is their context.
    """
    while error.__cause__ is None and type(error.__context__) in type(error).__bases__:
        error = error.__context__
    return error


def first_line(error):
    """Returns an error's text as one line, without the calls that gin adds."""
    return " ".join(re.split("\n *(?:In call to|No values supplied)", str(error))[0].split())
