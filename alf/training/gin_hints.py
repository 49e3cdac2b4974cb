# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What is wrong in gin's configuration, with the line to write in its place."""

import cmath
import difflib
import inspect
import re
import tokenize
import types
import typing
from collections import abc

import gin
from gin import config_parser

from alf.configurable import complete, shorten
from alf.errors import ConfigError
from alf.training.settings import (
    find_configurables,
    find_own_configurables,
    find_similar,
    list_parameters,
)

_MAX_HINTS = 3
_LITERALS = {"true": "True", "false": "False", "none": "None", "null": "None"}
_INFINITE = {"inf", "nan", "np", "numpy", "math", "float"}  # such as np.inf, float("inf")
_NEEDED = {  # values to show for settings that have no default
    "alf.environments.load.name": '"CartPole-v1"',
    "alf.environments.load.batch_size": "32",
}
# Keras takes the first for the second, but only `learning_rate` may be a schedule.
_ALIASES = {"lr": "learning_rate"}
_KERAS_ARGUMENTS = {"clipnorm", "clipvalue", "global_clipnorm", "decay"}  # of optimizers, in `**kwargs`
_OBJECT_PARAMETERS = {"optimizer", "callbacks", "metrics", "observers", "policies", "strategy"}
_OBJECTS = (  # configurables of ALF that settings take as objects, unless the setting is a `_ctor`
    "alf.optimizers.",
    "alf.population.",
    "alf.LinearSchedule",
    "alf.PiecewiseSchedule",
    "alf.Tunable",
    "alf.training.Policies",
    "alf.training.League",
    "alf.learner.MirroredStrategy",
)


def explain(error, as_param=""):
    """Returns the text of an error that gin raises as it reads a configuration, and what to write instead.

    It is one line. `as_param` is the flag that the bindings come from, "--gin_param", or "" for a file.
    """
    text = " ".join(str(error).split())
    statement = _find_statement(error)
    unquoted = re.search(r"malformed node or string.*(Failed to parse token '-?(\w+)'.*)", text)
    if unquoted:
        return f"{unquoted[1]}: {_quote(statement, unquoted[2], as_param)}"
    for pattern, make_hint in _HINTS.items():
        found = re.search(pattern, text)
        if found:
            hints = make_hint(statement, *found.groups())
            return f"{text.rstrip(' .^')}{_offer(hints) or '; alf-train --list_settings prints all settings'}"
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
    """Returns what is wrong with a word that is no value, and what to write."""
    if token.lower() in _LITERALS:
        return f"write {_LITERALS[token.lower()]}"
    if re.match(rf"{token}[\w/.]*\s*=", statement):  # a binding where a value is expected
        return "a bracket above this line is not closed"
    name, _, value = (part.strip() for part in statement.partition("="))
    if token in _INFINITE:
        return "gin has no infinite numbers: write a finite number, or None where that means no limit"
    if _find_named(value.removesuffix("()")):
        line = f"{name} = {_refer(name.rpartition('.')[2], value.removesuffix('()'))}"
        return f"a class or a function needs an @: write {f'{as_param}={line!r}' if as_param else line}"
    text = "a text needs quotation marks"
    if not value or re.search("[\"'({\\[]", value):  # the text is a part of the value
        return f'{text}: write "{token}"'
    line = f'{name} = "{value}"'
    if not as_param:
        return f"{text}: write {line}"
    return f"{text}; a shell removes those that are not in others: write {as_param}='{line}'"


def _find_named(name):
    """Returns the full names of ALF's and the user's configurables that a name may mean, a list."""
    matching = gin.config._REGISTRY.matching_selectors(name) if re.fullmatch(r"[\w.]+", name) else ()
    return [x for x in matching if x in find_own_configurables()]


def _refer(parameter, name):
    """Returns the reference to a configurable of a name that a parameter takes: "@NAME" or "@NAME()"."""
    (selector, *_) = _find_named(name)
    return f"@{shorten(selector)}{'()' * _wants_object('', parameter, selector)}"


def _find_close(name):
    """Returns the full names of configurables whose last part is like that of a name, the closest first."""
    names = {}
    for selector in find_own_configurables():
        names.setdefault(selector.rpartition(".")[2].lower(), []).append(selector)
    close = difflib.get_close_matches(name.rpartition(".")[2].lower(), names, n=_MAX_HINTS)
    return [selector for word in close for selector in names[word]]


def _for_configurable(statement, name):
    """Lines for a configurable that there is not."""
    parameter = _parameter_of(statement)
    close = _find_close(name)
    fitting = [x for x in close if parameter in list_parameters(find_configurables()[x].wrapped)]
    return [statement.replace(name, shorten(x), 1) for x in fitting or close]


def _for_reference(statement, name):
    """Lines for a reference, without its scope, to a configurable that there is not."""
    pattern = rf"(@(?:\w+/)*){re.escape(name)}\b"
    return [re.sub(pattern, rf"\g<1>{shorten(x)}", statement, count=1) for x in _find_close(name)]


def _for_parameter(statement, name, parameter):
    """Lines for a parameter that a configurable has not."""
    configurable = find_configurables()[gin.config._REGISTRY.matching_selectors(name)[0]]
    close = _close_parameters(configurable.wrapped, parameter)
    if close:
        return [re.sub(rf"\b{parameter}(?=\s*=)", x, statement, count=1) for x in close]
    value = statement.partition("=")[2]
    return [f"{shorten(x)}.{parameter} ={value}" for x in _having(parameter)]


def _for_ambiguous(statement, name):
    """Lines for a name that configurables of ALF and of others have."""
    own = [x for x in gin.config._REGISTRY.matching_selectors(name) if x.startswith("alf.")]
    return [re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w(]*\()", x, statement, count=1) for x in own]


def _close_parameters(function, parameter):
    names = list_parameters(function)
    if _ALIASES.get(parameter) in names:
        return [_ALIASES[parameter]]
    return difflib.get_close_matches(parameter, names, n=_MAX_HINTS)


def _having(parameter):
    """Returns the full names of ALF's configurables with a parameter, those that are configured first."""
    bound = {selector for _, selector in gin.config._CONFIG}
    own = {x: y for x, y in find_configurables().items() if x.startswith("alf.")}
    found = [x for x, y in own.items() if parameter in list_parameters(y.wrapped)]
    return [x for x in found if x in bound] or found


def _parameter_of(statement):
    return statement.partition("=")[0].rpartition(".")[2].strip()


_HINTS = {  # from a part of the error's text to a function of the line and the groups
    r"No configurable matching '([\w.]+)'": _for_configurable,
    r"No configurable matching reference '@([\w.]+)": _for_reference,
    r"Configurable '([\w.]+)' doesn't have a parameter named '(\w+)'": _for_parameter,
    r"Ambiguous selector '([\w.]+)'": _for_ambiguous,
}


def suggest_settings(name):
    """Returns the end of a message for a name that no setting has: those that may be meant."""
    return _offer(find_similar(name)) or "; --list_settings prints all"


def explain_call(error):
    """Returns the end of a message for a TypeError of a call that gin configures: the lines to write."""
    called = re.search("In call to configurable '(.*?)'", str(error))
    own = [x for x in find_configurables() if x.startswith("alf.") and called and x.endswith(f".{called[1]}")]
    missing = re.search(r"missing \d+ required [\w-]+ arguments?: ([^\n]*)", str(error))
    unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    if missing and own:
        names = [f"{shorten(own[0])}.{x}" for x in re.findall(r"'(\w+)'", missing[1])]
        lines = [f"{x} = {_NEEDED.get(x, '...')}" for x in names]
        return f": write {' and '.join(lines)}"
    return "" if unknown is None else _offer(_for_unknown(own, unknown[1]))


def _for_unknown(called, parameter):
    """Lines for an argument that a call does not know; a function with **kwargs may have passed it on."""
    return [
        line
        for (scope, selector), values in gin.config._CONFIG.items()
        if parameter in values
        for x in dict.fromkeys([*called, selector])
        for line in _for_close(scope, x, parameter, values[parameter])
    ]


def explain_unread(names):
    """Returns the end of a message for bindings that nothing has read: lines that would have been read.

    `names` are as `gin.config_str` writes them.
    """
    return _offer(line for name in names for line in _for_unread(name))


def _for_unread(name):
    """Lines for a binding that nothing has read: another parameter, or another object that is in use."""
    scope, _, target = name.rpartition("/")
    target, _, parameter = target.rpartition(".")
    selector = gin.config._REGISTRY.matching_selectors(target)[0]
    value = gin.config._CONFIG[scope, selector][parameter]
    if parameter not in list_parameters(find_configurables()[selector].wrapped):  # it takes **kwargs
        return _for_close(scope, selector, parameter, value)
    module = selector.rpartition(".")[0]
    used = [
        key
        for key, values in gin.config._OPERATIVE_CONFIG.items()
        if parameter in values and key[1].rpartition(".")[0] == module
    ]
    used.sort(key=lambda key: (key[1] != selector, key[0].count("/"), key))
    return [_write(*key, parameter, repr(value)) for key in used]


def _for_close(scope, selector, parameter, value):
    """Lines that bind a value to parameters of a configurable: those like a name that it does not have."""
    function = find_configurables()[selector].wrapped
    close = [] if parameter in list_parameters(function) else _close_parameters(function, parameter)
    return [_write(scope, selector, x, repr(value)) for x in close]


class _Texts(config_parser.ParserDelegate):
    """Parses references and macros as texts, also those of modules that are not imported yet."""

    def configurable_reference(self, scoped_configurable_name, evaluate):
        return _Text(f"@{scoped_configurable_name}{'()' * evaluate}")

    def macro(self, macro_name):
        return _Text(f"%{macro_name}")


class _Text(str):
    __repr__ = str.__str__


def check_file(path):
    """Raises ConfigError if a gin file, without those that it includes, sets a setting twice to other values.

    One setting may have a short and a long name. What the file has yet to import is compared by its name.
    """
    lines = {}
    for scope, selector, parameter, value, location in _read_bindings(path):
        name = f"{scope}{'/' * bool(scope)}{selector}{'.' * bool(parameter)}{parameter or ''}"
        number, other, before = lines.setdefault(complete(name), (location.line_num, name, repr(value)))
        if before != repr(value):
            raise ConfigError(
                f"{path} says in line {number} {other} = {before}, and in line {location.line_num} "
                f"{name} = {value!r}: write one of the two"
            )


def _read_bindings(path):
    """Yields each `BindingStatement` of a gin file, without those of files that it includes."""
    number = 0
    with open(path, encoding="utf-8-sig") as file:
        try:
            for statement in config_parser.ConfigParser(file, _Texts()):
                number = statement.location.line_num
                if isinstance(statement, config_parser.BindingStatement):
                    yield statement
        except tokenize.TokenError:
            where = f", which is opened after line {number}" if number else ""
            raise ConfigError(f"{path}: a bracket or a quotation mark is not closed{where}") from None


def check_bindings():
    """Raises ConfigError if a binding or a macro of gin's configuration is one that cannot be meant."""
    for (scope, selector), values in gin.config._CONFIG.items():
        for parameter, value in values.items():
            _check_finite(scope, selector, parameter, value)
            if selector.startswith("alf."):
                _check_alias(scope, selector, parameter, value)
                _check_text(scope, selector, parameter, value)
                _check_callable(scope, selector, parameter, value)
                _check_macros(scope, selector, parameter, value)
                _check_parentheses(scope, selector, parameter, value)
    _check_circles()
    for macro in sorted(find_unused_macros()):
        _raise_unused(macro)


def _write(scope, selector, parameter, value):
    return f"{scope}{'/' * bool(scope)}{shorten(selector)}.{parameter} = {value}"


def _check_alias(scope, selector, parameter, value):
    """Raises ConfigError if an optimizer of Keras has no such argument."""
    if not selector.startswith("alf.optimizers.") or parameter in _KERAS_ARGUMENTS:
        return
    if parameter not in list_parameters(find_configurables()[selector].wrapped):
        lines = _for_close(scope, selector, parameter, value)
        raise ConfigError(f"{shorten(selector)} has no parameter {parameter!r}{_offer(lines)}")


def _check_text(scope, selector, parameter, value):
    """Raises ConfigError if a text names what a reference should."""
    if (parameter.endswith("_ctor") or parameter == "optimizer") and isinstance(value, str):
        wrong = _write(scope, selector, parameter, repr(value))
        line = _write(scope, selector, parameter, _refer(parameter, value)) if _find_named(value) else ""
        raise ConfigError(f"{wrong} is a text, and no class or function{line and f': write {line}'}")


def _check_callable(scope, selector, parameter, value):
    """Raises ConfigError if a setting that takes only classes and functions has another value."""
    known = list_parameters(find_configurables()[selector].wrapped).get(parameter)
    annotation = None if known is None else known.annotation
    kinds = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    is_taken = any(typing.get_origin(kind) is abc.Callable for kind in kinds)
    if is_taken and not any(_may_be(value, kind) for kind in kinds):
        wrong = _write(scope, selector, parameter, repr(value))
        rest = ", or None" if type(None) in kinds else ""
        raise ConfigError(f"{wrong} is no class or function: it must be @NAME{rest}")


def _may_be(value, kind):
    """Whether a value may be of a type. Types that hold neither callables nor None are not looked at."""
    if callable(value) or isinstance(value, gin.config.ConfigurableReference):
        return True
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is abc.Mapping:
        return isinstance(value, dict) and all(_may_be(x, parts[1]) for x in value.values())
    return value is None if kind is type(None) else origin is not abc.Callable


def _check_finite(scope, selector, parameter, value):
    """Raises ConfigError if a value holds an infinite number: `operative_config.gin` could not hold it."""
    if _is_infinite(value):
        is_macro = selector == "gin.macro"
        line = f"{scope} = {value!r}" if is_macro else _write(scope, selector, parameter, value)
        raise ConfigError(f"{line}: it must be a finite number, or None where that means no limit")


def _is_infinite(value):
    if isinstance(value, dict):
        return any(map(_is_infinite, [*value, *value.values()]))
    if isinstance(value, (list, tuple, set)):
        return any(map(_is_infinite, value))
    return isinstance(value, (float, complex)) and not cmath.isfinite(value)


def _check_circles():
    """Raises ConfigError if the value of a macro depends on the macro itself."""
    used_by = {
        macro: _macros_in(values)
        for (macro, selector), values in gin.config._CONFIG.items()
        if selector == "gin.macro"
    }
    for macro in used_by:
        reached, waiting = set(), [macro]
        while waiting:
            new = used_by.get(waiting.pop(), set()) - reached
            reached |= new
            waiting += new
        if macro in reached:
            value = gin.config._CONFIG[macro, "gin.macro"]["value"]
            raise ConfigError(f"{macro} = {value!r}: the value of {macro} depends on {macro} itself")


def _macros_in(values):
    """Returns the set of names of the macros that values of gin's configuration refer to."""
    references = gin.config.iterate_references(values, to=gin.get_configurable("gin.macro"))
    return {"/".join(reference.scopes) for reference in references}


def _check_macros(scope, selector, parameter, value):
    """Raises ConfigError if a binding uses a macro that nothing defines."""
    defined = {scope for scope, name in gin.config._CONFIG if name == "gin.macro"}
    for name in sorted(_macros_in({"": value}) - defined):
        line = _write(scope, selector, parameter, repr(value))
        raise ConfigError(f"{line}: nothing defines %{name}: write {name} = VALUE")


def _check_parentheses(scope, selector, parameter, value):
    """Raises ConfigError if a reference has parentheses and must have none, or the other way round."""
    for reference in gin.config.iterate_references({"": value}):
        name, function = reference.configurable.selector, reference.configurable.wrapped
        if reference.evaluate and _wants_callable(selector, parameter) and _makes_none(name, function):
            wrong, right, words = f"{reference!r}", f"{reference!r}"[:-2], "without parentheses"
        elif (
            not reference.evaluate and _wants_object(selector, parameter, name) and inspect.isclass(function)
        ):
            wrong, right, words = f"{reference!r}", f"{reference!r}()", "with parentheses"
        else:
            continue
        end = r"(?![\w.(])" if words == "with parentheses" else ""
        line = _write(scope, selector, parameter, re.sub(re.escape(wrong) + end, right, repr(value)))
        raise ConfigError(f"{_write(scope, selector, parameter, value)} must be {words}: write {line}")


def _wants_callable(selector, parameter):
    """Whether a setting takes what is called later, and not what a call returns."""
    is_name = (selector, parameter) == ("alf.environments.load", "name")
    return parameter.endswith("_ctor") or parameter in ("data_transformers", "custom_summary") or is_name


def _makes_none(name, function):
    """Whether a call of a configurable, which gin would make, does not return something callable."""
    if name.startswith("gin."):
        return False
    if _lacks_arguments(name, function):
        return True
    if inspect.isclass(function):
        return name.startswith("alf.") or not any("__call__" in vars(x) for x in inspect.getmro(function))
    return name.startswith("alf.")


def _lacks_arguments(name, function):
    """Whether gin has no values for some parameters that a call needs."""
    bound = {x for (_, selector), values in gin.config._CONFIG.items() if selector == name for x in values}
    needed = [x for x in list_parameters(function).values() if x.default is x.empty]
    return any(x.name not in bound for x in needed if x.kind is not x.VAR_KEYWORD)


def _wants_object(selector, parameter, name):
    if _wants_callable(selector, parameter):
        return False
    return parameter in _OBJECT_PARAMETERS or name.startswith(_OBJECTS)


def find_used_macros():
    """Returns the set of names of macros that bindings in gin's configuration refer to."""
    return _macros_in(gin.config._CONFIG)


def find_unused_macros():
    """Returns the set of names of macros in gin's configuration that no binding refers to."""
    defined = {scope for scope, selector in gin.config._CONFIG if selector == "gin.macro"}
    return defined - find_used_macros()


def _raise_unused(macro):
    value = gin.config._CONFIG[macro, "gin.macro"]["value"]
    parameter = macro.rpartition("/")[2]
    lines = [_write("", x, parameter, repr(value)) for x in _having(parameter)]
    if not lines:
        names = {name for x in find_own_configurables().values() for name in list_parameters(x.wrapped)}
        close = difflib.get_close_matches(parameter, names, n=1)
        lines = [_write("", x, name, repr(value)) for name in close for x in _having(name)]
    hint = _offer(lines) or "; the name of a setting has a dot, see alf-train --list_settings"
    raise ConfigError(f"{macro} = {value!r} is a macro, which nothing uses{hint}")
