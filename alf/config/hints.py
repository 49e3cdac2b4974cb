# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Explains common mistakes in gin configurations, with the line to write instead."""

import difflib
import inspect
import re
import tokenize

import gin

from alf.config import registry
from alf.config.registry import name_binding, shorten
from alf.config.settings import check_kind, find_setting, settings_of
from alf.config.translations import find_translations
from alf.errors import TF_AGENTS_COMMAND, ConfigError

_MAX_HINTS = 3
# The words of JSON, YAML and shells for what gin writes as Python does.
_LITERALS = {"true": "True", "false": "False", "none": "None", "null": "None"}

_TF_AGENTS = {"tf_agents", "py_metrics", "tf_metrics"}  # parts of the names of what TF-Agents registers

_EXAMPLES = {"name": '"CartPole-v1"'}  # for settings without a default


def explain(error, statement=""):
    """Returns the text of an error of gin with the line to write instead, as one line.

    Args:
        error: exception that gin raised while it read a configuration.
        statement: text, the line, or the flag "--NAME=VALUE", that raised it; "" if the error names it.
    """
    # Its own text is about "EOF in multi-line statement", at the end of the file.
    if isinstance(error, tokenize.TokenError):
        return "a bracket or a quotation mark is not closed"
    text = " ".join(str(error).split()).rstrip(" .^")
    statement = statement or find_statement(error)
    if re.match(r"No module named 'tf_agents\b", text):
        return f"{text}: {TF_AGENTS_COMMAND}"
    unquoted = re.search(r"malformed node or string.*(Failed to parse token '-?(\w+)'.*)", text)
    if unquoted:
        return f"{unquoted[1]}: {_quote(statement, unquoted[2])}"
    for pattern, explain_name in _WRONG_NAMES.items():
        found = re.search(pattern, text)
        if found:
            end = explain_name(statement, *found.groups())
            return f"{text}{end or '; `alf settings` lists them'}"
    return text if statement in text else f"{text}: {statement}"


def find_statement(error):
    """Returns the line of the configuration that an error of gin names, without its comment."""
    if isinstance(error, SyntaxError):
        line = error.text or ""
    else:  # gin adds the line to the text of the error
        found = re.search(r"\n  In .* line \d+\n    (.*)", str(error))
        line = found[1] if found else ""
    return re.sub(r"\s+#.*", "", line.strip())


def _offer(lines):
    """Returns the end of a message that offers lines, "; did you mean A or B ?", or "" without lines."""
    # Without repetitions, in the order of the callers: the most likely one first.
    lines = list(dict.fromkeys(lines))[:_MAX_HINTS]
    return f"; did you mean {' or '.join(lines)} ?" if lines else ""


def translate(name, near=""):
    """Returns the end of a message: what a name of another library is called here.

    Args:
        name: text, a parameter or a class, or both with a dot.
        near: text. If it names classes of some settings, only these are meant; else, if gin's configuration
            does, only those.

    Returns:
        a text such as "; gamma (RLlib) is called PPOAlgorithm.discount here", or "" if the name is unknown.
    """
    if not (found := find_translations(name)):
        return ""
    for context in (near, gin.config_str()):
        words = set(re.findall(r"\w+", context))
        found = [x for x in found if x.setting and x.setting.split(".")[-2] in words] or found
    settings = dict.fromkeys(x.setting for x in found if x.setting)
    found = [x for x in found if bool(x.setting) == bool(settings)]
    libraries = ", ".join(dict.fromkeys(x.library for x in found))
    if not settings:
        return f"; {name} ({libraries}): {' or '.join(dict.fromkeys(x.text for x in found))}"
    difference = _tell_differences(found) if len(settings) == 1 or len({x.text for x in found}) == 1 else ""
    return f"; {name} ({libraries}) is called {' or '.join(settings)} here{difference}"


def means(name, setting):
    """Returns whether a setting has a name, here or in another library; `setting` is its full name."""
    return setting.endswith(f".{name}") or any(x.setting == setting for x in find_translations(name))


def _tell_differences(found):
    """Returns how the setting of some `Translation`s differs, in brackets; by library if not in all alike."""
    libraries: dict[str, dict[str, None]] = {}
    for x in found:
        libraries.setdefault(x.text, {})[x.library] = None
    if len(libraries) == 1:
        (text,) = libraries
    else:
        text = "; ".join(f"{', '.join(names)}: {text}" for text, names in libraries.items() if text)
    return f" ({text})" if text else ""


def _quote(statement, token):
    """Explains the word `token`, which is not a value, in a statement."""
    if token.lower() in _LITERALS:
        return f"write {_LITERALS[token.lower()]}"

    if re.match(rf"{token}[\w/.]*\s*=", statement):  # a binding where a value is expected
        return "a bracket above this line is not closed"
    name, _, value = (part.strip() for part in statement.partition("="))
    if _find_own(value.removesuffix("()")):
        setting = find_setting(name)
        return f"a class or a function needs an @: write {name} = {_refer(value, setting and setting.kind)}"
    if not value or re.search("[\"'({\\[]", value):  # the text is a part of the value
        return f'a text needs quotation marks: write "{token}"'
    setting = find_setting(name)
    if setting is not None and not setting.kind.accepts(value) and (known := translate(value)):
        return known.removeprefix("; ")
    return f'a text needs quotation marks: write {name} = "{value}"'


def _refer(name, kind):
    """Returns the reference to a class or a function that a setting of a `Kind`, or of none, takes."""
    wants_object = kind is not None and kind.takes_objects and not kind.takes_callables
    return f"@{name.removesuffix('()')}{'()' * wants_object}"


def _find_own(name):
    """Returns the selectors of ALF's and the user's configurables that match a name."""
    own = registry.find_own()
    return [x for x in registry.find_matching(name) if x in own] if re.fullmatch(r"[\w.]+", name) else []


def _explain_configurable(statement, name):
    """Returns what an unknown configurable may mean: one of another library, or similar names."""
    if _TF_AGENTS & {*name.split(".")} and not registry.has_tf_agents():
        return f"; TF-Agents is missing: {TF_AGENTS_COMMAND}"
    bound = re.match(rf"(?:--)?(?:[\w./]*/)?{re.escape(name)}\.(\w+)\s*=", statement)
    parameter = bound[1] if bound else ""
    near = " ".join(x.text for x in find_translations(name))
    known = (
        translate(f"{name}.{parameter}") or ("@" in near and translate(parameter, near)) or translate(name)
    )
    return known or _offer(_replace_configurable(statement, name)) or translate(parameter)


def _replace_configurable(statement, name):
    """Returns the statement with similar configurables in place of `name`, the closest first."""
    names = {}
    for selector in registry.find_own():
        # Several modules may have a class of this name: all of them are offered.
        names.setdefault(selector.rpartition(".")[2].lower(), []).append(shorten(selector))
    # By the class alone, in lower case: whoever mistypes a name may have the module wrong, too.
    close = difflib.get_close_matches(name.rpartition(".")[2].lower(), names, n=_MAX_HINTS)
    pattern = rf"(?<![\w.]){re.escape(name)}\b"
    return [re.sub(pattern, x, statement, count=1) for word in close for x in names[word]]


def _explain_parameter(statement, name, parameter):
    """Returns what an unknown parameter may mean: a similar one, or one of another class."""
    (selector, *_) = registry.find_matching(name)
    known = translate(parameter, near=shorten(selector))
    is_exact = f" {shorten(selector)}." in known  # rather than a similar name
    if close := (_find_short if is_exact else _find_close)(parameter, settings_of(selector)):
        return _offer(re.sub(rf"\b{parameter}(?=\s*=)", x, statement, count=1) for x in close)
    owners = [] if is_exact else [f"{shorten(x)}.{parameter}" for x in _find_owners(parameter)]
    old, equals, value = re.split(r"(\s*=)", statement, maxsplit=1)  # a flag, "--NAME=VALUE", has no space
    return known + _offer(
        f"{'--' * old.startswith('--')}{x}{equals}{value}" for x in owners if x not in known
    )


def _explain_ambiguous(statement, name):
    """Returns the statement with the full names in ALF in place of an ambiguous `name`."""
    own = [x for x in registry.find_matching(name) if x.startswith("alf.")]
    return _offer(re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w(]*\()", x, statement, count=1) for x in own)


def _find_short(name, names):
    """Returns the `names` with the initials `name` ("learning_rate" for "lr")."""
    return [x for x in names if "".join(word[:1] for word in x.split("_")) == name]


def _find_close(name, names):
    """Returns the `names` with the initials `name`, else the similar ones."""
    return _find_short(name, names) or difflib.get_close_matches(name, names, n=_MAX_HINTS)


def _find_owners(parameter):
    """Returns the selectors in ALF that have a parameter: only configured ones, if there are any."""
    # Only owners that the file has bindings of: more likely one of them is meant.
    bound = {selector for _, selector in registry.list_bindings()}
    found = [x for x in registry.find_own() if x.startswith("alf.") and parameter in settings_of(x)]
    return [x for x in found if x in bound] or found


_WRONG_NAMES = {  # from a pattern of gin's text to a function of the statement and the groups
    r"No configurable matching '([\w.]+)'": _explain_configurable,
    r"No configurable matching reference '@(?:\w+/)*([\w.]+)": _explain_configurable,
    r"Configurable '([\w.]+)' doesn't have a parameter named '(\w+)'": _explain_parameter,
    r"Configurable '([\w.]+)' has denylisted kwarg '(\w+)'": _explain_parameter,
    r"Ambiguous selector '([\w.]+)'": _explain_ambiguous,
}


def suggest_settings(name):
    """Returns the end of a message about an unknown setting: what it may mean, or where all are listed."""
    if known := translate(name) or translate(name.rpartition(".")[2]):
        return known
    names = {}
    for selector in registry.find_own():
        short = shorten(selector)
        parameters = settings_of(selector)
        for x in (short, *parameters, *(f"{short}.{parameter}" for parameter in parameters)):
            names[x.lower()] = x
    close = difflib.get_close_matches(name.lower(), names, n=_MAX_HINTS)
    return _offer(names[x] for x in close) or "; `alf settings` lists them"


def find_calls(error):
    """Returns the names of the configurables in whose calls an error was raised, the innermost first.

    Gin adds them to the text of the error.
    """
    return re.findall("In call to configurable '(.*?)'", str(error))


def explain_call(error, called):
    """Explains an error of a call that lacks an argument, or that has an unknown one of a binding.

    Args:
        error: exception.
        called: list from `find_calls`.

    Returns:
        the end of a message with the lines to write. None for all other errors: these are mistakes in code,
        also if a call in it has an unknown argument.
    """
    if not isinstance(error, TypeError):
        return None
    own = [x for x in registry.find_own() if called and x.endswith(f".{called[0]}")]
    missing = re.search(r"missing \d+ required [\w-]+ arguments?: ([^\n]*)", str(error))
    unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    if "No values supplied by Gin" in str(error) and missing:
        names = re.findall(r"'(\w+)'", missing[1])
        lines = [f"{shorten(own[0])}.{x} = {_EXAMPLES.get(x, '...')}" for x in names if own]
        return f": write {' and '.join(lines)}" if lines else ""
    if not unknown:
        return None
    parameter, lines = unknown[1], []
    selectors = {selector for name in called for selector in registry.find_matching(name)}
    # One of a function that was called, or one that a function passes on, because it is none of its own.
    bound = {
        key: values
        for key, values in registry.list_bindings().items()
        if parameter in values and (key[1] in selectors or parameter not in settings_of(key[1]))
    }
    for (scope, selector), values in bound.items():
        # The bound function may have passed **kwargs on to the called one, so look at the parameters of both.
        for owner in dict.fromkeys([*own, selector]):
            if parameter not in (settings := settings_of(owner)):
                close = _find_close(parameter, settings)
                lines += [_write(scope, owner, x, repr(values[parameter])) for x in close]
    return (_offer(lines) or translate(parameter)) if bound else None


def _write(scope, selector, parameter, value):
    return f"{name_binding(scope, selector, parameter)} = {value}"


def check_bindings():
    """Raises ConfigError for values of a wrong kind, wrong parentheses, and undefined or unused macros."""
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
                # A reference has no value yet: the call that uses it checks it.
                if not any(gin.config.iterate_references({"": value})):
                    _check_value(name_binding(scope, selector, parameter), value, setting.kind)
    # After everything else: a wrong line above may be the reason why nothing uses a macro.
    for macro in sorted(find_unused_macros()):
        _raise_unused(macro, bound[macro, "gin.macro"]["value"])


def _check_value(name, value, kind):
    try:
        check_kind(name, value, kind)
    except ConfigError as error:
        raise ConfigError(f"{error}{_explain_text(value, kind) if isinstance(value, str) else ''}") from None


def _explain_text(text, kind):
    """Returns the end of a message about a text that is no value of a setting of a `Kind`."""
    if text.lower() in _LITERALS:
        return f": write {_LITERALS[text.lower()]}"
    takes_references = kind.takes_objects or kind.takes_callables
    if takes_references and _find_own(text.removesuffix("()")):
        return f": write {_refer(text, kind)}"
    return translate(text)


def _check_parentheses(scope, selector, parameter, value, kind):
    """Raises ConfigError if a reference has parentheses and must not have them, or the other way round."""
    for reference in gin.config.iterate_references({"": value}):
        name, text = reference.configurable.selector, f"{reference!r}"
        if reference.evaluate and kind.takes_callables and name.startswith("alf."):
            words, right = "without", text.removesuffix("()")
        elif not reference.evaluate and kind.takes_objects and not kind.takes_callables:
            if not inspect.isclass(registry.get(name)):
                continue
            words, right = "with", f"{text}()"
        else:
            continue
        line = _write(scope, selector, parameter, repr(value))
        # Not where it is only the beginning of a longer name.
        right = re.sub(rf"{re.escape(text)}(?![\w.(])", right, line)
        raise ConfigError(f"{line} must be {words} parentheses: write {right}")


def find_used_macros():
    """Returns the names of the macros that gin's configuration uses, a set."""
    return registry.find_macros(registry.list_bindings())


def find_unused_macros():
    """Returns the names of the macros that gin's configuration defines but does not use, a set."""
    defined = {scope for scope, selector in registry.list_bindings() if selector == "gin.macro"}
    return defined - find_used_macros()


def _raise_unused(macro, value):
    """Raises ConfigError for an unused macro, which most often is a setting without its owner."""
    parameter = macro.rpartition("/")[2]
    # A macro and a setting look alike: `num_envs = 4` without the owner in front defines a macro.
    known = translate(parameter)
    names = {name for selector in registry.find_own() for name in settings_of(selector)}
    close = difflib.get_close_matches(parameter, names, n=1, cutoff=1.0 if known else 0.6)
    names = [name_binding("", x, name) for name in close for x in _find_owners(name)]
    lines = [f"{name} = {value!r}" for name in names if name not in known]
    hint = known + _offer(lines) or "; the name of a setting has a dot: `alf settings` lists them"
    raise ConfigError(f"{macro} = {value!r} is a macro, which nothing uses{hint}")
