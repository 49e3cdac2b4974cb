# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Mistakes in gin's configuration that are common, with the line to write instead."""

import difflib
import inspect
import re

import gin
from gin import config_parser

from alf.config import registry
from alf.config.registry import name_binding, shorten
from alf.config.settings import check_kind, find_setting, settings_of
from alf.errors import ConfigError

_MAX_HINTS = 3
_LITERALS = {"true": "True", "false": "False", "none": "None", "null": "None"}
_INFINITE = {"inf", "nan", "np", "numpy", "math", "float"}  # np.inf, float("inf")
_EXAMPLES = {"batch_size": "32", "name": '"CartPole-v1"'}  # values of settings that have no default


def explain(error, as_param=""):
    """Returns the text of an error that gin raises as it reads a configuration, and what to write instead.

    It is one line. `as_param` is the flag that the bindings come from, "--gin_param", or "" for a file.
    """
    text = " ".join(str(error).split()).rstrip(" .^")
    statement = _find_statement(error)
    unquoted = re.search(r"malformed node or string.*(Failed to parse token '-?(\w+)'.*)", text)
    if unquoted:
        return f"{unquoted[1]}: {_quote(statement, unquoted[2], as_param)}"
    for pattern, make_lines in _WRONG_NAMES.items():
        found = re.search(pattern, text)
        if found:
            lines = make_lines(statement, *found.groups())
            return f"{text}{_offer(lines) or '; alf-train --list_settings prints all settings'}"
    return text if statement in text else f"{text}: {statement}"


def _find_statement(error):
    """Returns the line that an error of gin names, without its comment."""
    location = error.args[1] if isinstance(error, SyntaxError) and len(error.args) > 1 else ()
    line = location[3] if len(location) > 3 else (str(error).splitlines() + [""] * 3)[2]
    return re.sub(r"\s+#.*", "", (line or "").strip())


def _offer(lines):
    """Returns the end of a message: the lines of which one may be meant."""
    lines = list(dict.fromkeys(lines))[:_MAX_HINTS]
    return f"; did you mean {' or '.join(lines)} ?" if lines else ""


def _quote(statement, token, as_param):
    """Returns what is wrong with a word that is not a value, and what to write."""
    if token.lower() in _LITERALS:
        return f"write {_LITERALS[token.lower()]}"
    if token in _INFINITE:
        return "gin has no infinite numbers: write a finite number, or None where that means no limit"
    if re.match(rf"{token}[\w/.]*\s*=", statement):  # a binding where a value is expected
        return "a bracket above this line is not closed"
    name, _, value = (part.strip() for part in statement.partition("="))
    if _find_own(value.removesuffix("()")):
        setting = find_setting(name)
        wants_object = setting is not None and setting.kind.takes_objects and not setting.kind.takes_callables
        line = f"{name} = @{value.removesuffix('()')}{'()' * wants_object}"
        return f"a class or a function needs an @: write {f'{as_param}={line!r}' if as_param else line}"
    if not value or re.search("[\"'({\\[]", value):  # the text is a part of the value
        return f'a text needs quotation marks: write "{token}"'
    line = f'{name} = "{value}"'
    if not as_param:
        return f"a text needs quotation marks: write {line}"
    return f"a text needs quotation marks, and the shell removes the outer ones: write {as_param}='{line}'"


def _find_own(name):
    """Returns the selectors of ALF's and the user's configurables that a name means."""
    own = registry.find_own()
    return [x for x in registry.find_matching(name) if x in own] if re.fullmatch(r"[\w.]+", name) else []


def _replace_configurable(statement, name):
    """Lines with the names of configurables that are like a name, the closest first."""
    names = {}
    for selector in registry.find_own():
        names.setdefault(selector.rpartition(".")[2].lower(), []).append(shorten(selector))
    close = difflib.get_close_matches(name.rpartition(".")[2].lower(), names, n=_MAX_HINTS)
    pattern = rf"(?<![\w.]){re.escape(name)}\b"
    return [re.sub(pattern, x, statement, count=1) for word in close for x in names[word]]


def _replace_parameter(statement, name, parameter):
    """Lines with parameters of a configurable that are like a name, or of others that have the parameter."""
    (selector, *_) = registry.find_matching(name)
    close = _find_close(parameter, settings_of(selector))
    if close:
        return [re.sub(rf"\b{parameter}(?=\s*=)", x, statement, count=1) for x in close]
    return [f"{shorten(x)}.{parameter} ={statement.partition('=')[2]}" for x in _find_owners(parameter)]


def _replace_ambiguous(statement, name):
    """Lines with the full names in ALF of a name that means several things."""
    own = [x for x in registry.find_matching(name) if x.startswith("alf.")]
    return [re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w(]*\()", x, statement, count=1) for x in own]


def _find_close(name, names):
    """Returns names that are like a name, or have its letters as initials: "learning_rate" for "lr"."""
    short = [x for x in names if "".join(word[:1] for word in x.split("_")) == name]
    return short or difflib.get_close_matches(name, names, n=_MAX_HINTS)


def _find_owners(parameter):
    """Returns the selectors in ALF that have a parameter, those that are configured first."""
    bound = {selector for _, selector in registry.list_bindings()}
    found = [x for x in registry.find_own() if x.startswith("alf.") and parameter in settings_of(x)]
    return [x for x in found if x in bound] or found


_WRONG_NAMES = {  # from a part of the error's text to a function of the line and the groups
    r"No configurable matching '([\w.]+)'": _replace_configurable,
    r"No configurable matching reference '@(?:\w+/)*([\w.]+)": _replace_configurable,
    r"Configurable '([\w.]+)' doesn't have a parameter named '(\w+)'": _replace_parameter,
    r"Ambiguous selector '([\w.]+)'": _replace_ambiguous,
}


def suggest_settings(name):
    """Returns the end of a message for a name that no setting has: those that may be meant."""
    names = {}
    for selector in registry.find_own():
        short = shorten(selector)
        parameters = settings_of(selector)
        for x in (short, *parameters, *(f"{short}.{parameter}" for parameter in parameters)):
            names[x.lower()] = x
    close = difflib.get_close_matches(name.lower(), names, n=_MAX_HINTS)
    return _offer(names[x] for x in close) or "; --list_settings prints all"


def explain_call(error):
    """Returns the end of a message for a TypeError of a call that gin configures: the lines to write."""
    called = re.search("In call to configurable '(.*?)'", str(error))
    own = [x for x in registry.find_own() if called and x.endswith(f".{called[1]}")]
    missing = re.search(r"missing \d+ required [\w-]+ arguments?: ([^\n]*)", str(error))
    unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    if missing and own:
        lines = [
            f"{shorten(own[0])}.{x} = {_EXAMPLES.get(x, '...')}" for x in re.findall(r"'(\w+)'", missing[1])
        ]
        return f": write {' and '.join(lines)}"
    if not unknown:
        return ""
    bound = registry.list_bindings()
    return _offer(
        line
        for (scope, selector), values in bound.items()  # a function with **kwargs may have passed it on
        if unknown[1] in values
        for line in _find_close_bindings(scope, selector, unknown[1], values[unknown[1]], [*own, selector])
    )


def explain_unread(names):
    """Returns the end of a message for bindings that nothing has read: lines that would have been read.

    `names` are as `gin.config_str` writes them.
    """
    return _offer(line for name in names for line in _explain_unread(name))


def _explain_unread(name):
    scope, _, target = name.rpartition("/")
    target, _, parameter = target.rpartition(".")
    (selector, *_) = registry.find_matching(target)
    value = registry.list_bindings()[scope, selector][parameter]
    if parameter not in settings_of(selector):  # it takes **kwargs
        return _find_close_bindings(scope, selector, parameter, value, [selector])
    module = selector.rpartition(".")[0]
    read = registry.list_read_bindings()
    used = [key for key in read if parameter in read[key] and key[1].rpartition(".")[0] == module]
    used.sort(key=lambda key: (key[1] != selector, key[0].count("/"), key))
    return [_write(*key, parameter, repr(value)) for key in used]


def _find_close_bindings(scope, selector, parameter, value, owners):
    """Lines that bind a value to parameters of `owners` that are like a name that these do not have."""
    return [
        _write(scope, owner, close, repr(value))
        for owner in dict.fromkeys(owners)
        if parameter not in settings_of(owner)
        for close in _find_close(parameter, settings_of(owner))
    ]


def _write(scope, selector, parameter, value):
    return f"{name_binding(scope, selector, parameter)} = {value}"


class _Text(str):
    __repr__ = str.__str__


class _Texts(config_parser.ParserDelegate):
    """Parses references and macros as texts, also those of modules that are not imported yet."""

    def configurable_reference(self, scoped_configurable_name, evaluate):
        return _Text(f"@{scoped_configurable_name}{'()' * evaluate}")

    def macro(self, macro_name):
        return _Text(f"%{macro_name}")


def check_file(path):
    """Raises ConfigError if a gin file, without those that it includes, sets a setting twice to other values.

    One setting may have a short and a long name.
    """
    lines = {}
    with open(path, encoding="utf-8-sig") as file:
        for x in config_parser.ConfigParser(file, _Texts()):
            if not isinstance(x, config_parser.BindingStatement):
                continue
            name = f"{x.scope}{'/' * bool(x.scope)}{x.selector}{'.' * bool(x.arg_name)}{x.arg_name or ''}"
            line = f"{name} = {x.value!r}"
            number, other, value = lines.setdefault(
                registry.complete(name), (x.location.line_num, line, repr(x.value))
            )
            if value != repr(x.value):
                raise ConfigError(
                    f"{path} says in line {number} {other}, and in line {x.location.line_num} {line}: "
                    "write one of the two"
                )


def check_bindings():
    """Raises ConfigError for values of another kind, and for macros and parentheses that cannot be meant."""
    bound = registry.list_bindings()
    defined = {scope for scope, selector in bound if selector == "gin.macro"}
    for (scope, selector), values in bound.items():
        for parameter, value in values.items():
            for macro in sorted(registry.find_macros({"": value}) - defined):
                line = _write(scope, selector, parameter, repr(value))
                raise ConfigError(f"{line}: nothing defines %{macro}: write {macro} = VALUE")
            setting = settings_of(selector).get(parameter) if selector.startswith("alf.") else None
            if setting is not None:
                _check_parentheses(scope, selector, parameter, value, setting.kind)
                if not any(gin.config.iterate_references({"": value})):
                    check_kind(name_binding(scope, selector, parameter), value, setting.kind)
    for macro in sorted(find_unused_macros()):
        _raise_unused(macro, bound[macro, "gin.macro"]["value"])


def _check_parentheses(scope, selector, parameter, value, kind):
    """Raises ConfigError if a reference has parentheses and must have none, or the other way round."""
    for reference in gin.config.iterate_references({"": value}):
        name, text = reference.configurable.selector, f"{reference!r}"
        if reference.evaluate and kind.takes_callables and _makes_object(name):
            words, right = "without", text.removesuffix("()")
        elif not reference.evaluate and kind.takes_objects and _is_class(name) and not kind.takes_callables:
            words, right = "with", f"{text}()"
        else:
            continue
        line = _write(scope, selector, parameter, repr(value))
        right = re.sub(rf"{re.escape(text)}(?![\w.(])", right, line)
        raise ConfigError(f"{line} must be {words} parentheses: write {right}")


def _makes_object(selector):
    """Whether a call that gin would make at once cannot return something that is called later."""
    return selector.startswith("alf.") or _lacks_arguments(selector)


def _is_class(selector):
    return inspect.isclass(registry.get(selector))


def _lacks_arguments(selector):
    """Whether gin has no values for some parameters that a call needs."""
    bound = {x for key, values in registry.list_bindings().items() if key[1] == selector for x in values}
    needed = [x.name for x in settings_of(selector).values() if not x.has_default and x.name[0] != "*"]
    return any(name not in bound for name in needed)


def find_used_macros():
    """Returns the set of names of macros that bindings in gin's configuration refer to."""
    return registry.find_macros(registry.list_bindings())


def find_unused_macros():
    """Returns the set of names of macros in gin's configuration that no binding refers to."""
    defined = {scope for scope, selector in registry.list_bindings() if selector == "gin.macro"}
    return defined - find_used_macros()


def _raise_unused(macro, value):
    """Raises ConfigError for a macro that nothing uses, most often a setting without its owner."""
    parameter = macro.rpartition("/")[2]
    names = {name for selector in registry.find_own() for name in settings_of(selector)}
    close = difflib.get_close_matches(parameter, names, n=1)
    lines = [_write("", x, name, repr(value)) for name in close for x in _find_owners(name)]
    hint = _offer(lines) or "; the name of a setting has a dot, see alf-train --list_settings"
    raise ConfigError(f"{macro} = {value!r} is a macro, which nothing uses{hint}")
