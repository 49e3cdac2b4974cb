# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Access to gin's registry and configuration, as far as gin has no public functions for it.

Only this module uses gin's private names; setup.py pins gin's version. A selector is the full name of a class
or function that gin can configure, such as "alf.training.Trainer". Gin identifies a binding by a pair (scope,
selector) and the name of the parameter.
"""

import contextlib
import contextvars
import copy
import functools
import importlib
import inspect
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import gin

from alf.errors import SAY_ALL, ConfigError

Target = TypeVar("Target", bound=Callable[..., Any])

# From (scope, selector) to a dict from parameter to value.
Bindings = dict[tuple[str, str], dict[str, Any]]


def _name_call(error, message, append=gin.config.utils.augment_exception_message_and_reraise):
    """Raises an error as it is if its message says all, else as gin does, with the names of the calls."""
    if isinstance(error, SAY_ALL) and message.lstrip().startswith("In call to configurable"):
        raise error
    append(error, message)


# In Python, too, where nothing takes these names off again, a user reads one line.
gin.config.utils.augment_exception_message_and_reraise = _name_call


def import_settings() -> None:
    """Imports all modules of ALF whose settings gin files may bind.

    A configuration holds the settings of the trainer even if only the policy is loaded from it. The modules
    are imported by name, because they are in layers above this one.
    """
    names = "policy_population", "settings"
    studies = [f"alf.studies.{name}" for name in names]
    for module in ("alf.training", *studies):
        importlib.import_module(module)


def import_tf_agents() -> bool:
    """Imports TF-Agents, whose names gin files may use, too; returns whether gin has new names after it."""
    count = len(gin.config._REGISTRY)
    with contextlib.suppress(ConfigError):  # it is not installed
        importlib.import_module("alf.adapters").import_adapter("TFAgentsMetric", "gin")
    return len(gin.config._REGISTRY) > count


def has_tf_agents() -> bool:
    """Returns whether `import_tf_agents` has imported TF-Agents."""
    return "alf.adapters.tf_agents_metric" in sys.modules


def register(target: Target, name: str, module: str, passed: Sequence[str] = ()) -> Target:
    """Makes a class or function configurable, also if the program has locked its configuration before.

    Bindings of the arguments `passed` are errors.
    """
    with unlocked():
        made: Target = gin.configurable(name, module=module, denylist=list(passed) or None)(target)
    return made


@contextlib.contextmanager
def unlocked() -> Iterator[None]:
    """Context manager in which gin takes bindings and names; unlike gin's own, it locks after errors, too."""
    is_locked = gin.config_is_locked()
    gin.config._set_config_is_locked(False)
    try:
        yield
    finally:
        gin.config._set_config_is_locked(is_locked)


def find_all() -> dict[str, Callable[..., Any]]:
    """Returns a dict from selector to the class or function of everything that gin can configure."""
    return {entry.selector: entry.wrapped for _, entry in gin.config._REGISTRY.items()}


def find_own() -> dict[str, Callable[..., Any]]:
    """Returns the part of `find_all` that ALF and the user registered, without TF-Agents' and gin's."""
    return {name: x for name, x in find_all().items() if not name.startswith(("tf_agents.", "gin."))}


def get(selector: str) -> Callable[..., Any]:
    """Returns the class or function of a selector."""
    function: Callable[..., Any] = gin.config._REGISTRY[selector].wrapped
    return function


def list_passed(selector: str) -> Sequence[str]:
    """Returns the names of the arguments of a selector that gin must not bind."""
    return gin.config._REGISTRY[selector].denylist or ()


def find_matching(name: str) -> list[str]:
    """Returns the selectors that match a short name, for example ["alf.training.Trainer"]."""
    return [entry.selector for entry in gin.config._REGISTRY.get_all_matches(name)] if name else []


def claim_name(name: str, selector: str) -> None:
    """Lets a name mean what a selector means, whichever other selectors end with the name."""
    # Gin takes a name that matches as a whole before all names that only end with it.
    gin.config._REGISTRY[name] = gin.config._REGISTRY[selector]


def find(name: str) -> str | None:
    """Returns the selector that matches a short name, None if there is none or several."""
    found = find_matching(name)
    return found[0] if len(found) == 1 else None


def shorten(selector: str) -> str:
    """Returns the shortest name for gin files, such as "Adam" for "alf.optimizers.Adam".

    It is the full name if another configurable has the same last part, or if the name was claimed.
    """
    name: str = gin.config._REGISTRY.minimal_selector(selector)
    return selector if "." in name else name


def name_binding(scope: str, selector: str, parameter: str) -> str:
    """Returns the name of a binding in gin files, such as "eval/Evaluator.num_episodes"."""
    return f"{scope}{'/' * bool(scope)}{shorten(selector)}.{parameter}"


def complete(name: str) -> str:
    """Returns the name of a binding with its scope and its full selector.

    A name stays as it is if no configurable, or several, match it: its module may not be imported yet.
    """
    scope, slash, parameter = name.rpartition("/")
    owner, dot, parameter = parameter.rpartition(".")
    return f"{scope}{slash}{find(owner) or owner}{dot}{parameter}"


def find_gin_name(target: Callable[..., Any]) -> str | None:
    """Returns the name of a class or function in gin files, None if gin does not know it."""
    # Either may be at hand: code holds the wrapper, defaults of signatures may hold what was wrapped.
    entries = gin.config._REGISTRY.items()
    return next((shorten(x.selector) for _, x in entries if target is x.wrapped or target is x.wrapper), None)


def list_bindings() -> Bindings:
    """Returns all bindings of gin's configuration. References are objects of gin."""
    return dict(gin.config._CONFIG)


def list_read_bindings() -> Bindings:
    """Returns the bindings that calls have read so far, with the defaults of these calls."""
    return dict(gin.config._OPERATIVE_CONFIG)


def list_names() -> set[str]:
    """Returns the names of all bindings, without macros, with their scopes and full selectors."""
    bound = [key for key in list_bindings().items() if key[0][1] != "gin.macro"]
    return {f"{scope}{'/' * bool(scope)}{x}.{name}" for (scope, x), values in bound for name in values}


def read_names(text: str) -> set[str]:
    """Returns the names of the bindings in the text of a gin file, without the files that it includes."""
    values = types.SimpleNamespace(configurable_reference=lambda *_: None, macro=lambda _: None)
    bindings = [x for x in gin.config.config_parser.ConfigParser(text, values) if hasattr(x, "arg_name")]
    return {complete("/".join(filter(None, (x.scope, f"{x.selector}.{x.arg_name}")))) for x in bindings}


def parse_value(text: str) -> Any:
    """Returns the value that a text has in a gin file; gin raises SyntaxError, ValueError or KeyError."""
    (statement,) = gin.config.config_parser.ConfigParser(f"value = {text}", gin.config.ParserDelegate())
    return statement.value


def check_name(name: str) -> None:
    """Lets gin raise ValueError or KeyError if nothing can be bound by a name such as "eval/Adam.epsilon"."""
    gin.config.ParsedBindingKey.parse(name)


def bind(name: str, value: Any) -> None:
    """Binds the setting, or the macro, of a name; gin raises ValueError or KeyError if there is none."""
    gin.bind_parameter(name if "." in name else (name, "gin.macro", "value"), value)


def check_copy(value: Any) -> None:
    """Raises what a call would raise that gets this value from gin, which copies it."""
    if not any(gin.config.iterate_references({"": value})):  # a copy of a reference is a call
        copy.deepcopy(value)


def remove_bindings(*keys: tuple[str, str]) -> None:
    """Removes all bindings of some pairs of scope and selector."""
    for key in keys:
        del gin.config._CONFIG[key]


def bind_unbound(bind: Callable[[], None]) -> None:
    """Calls a function that binds; every binding from before keeps its value."""
    kept = {key: dict(values) for key, values in gin.config._CONFIG.items()}
    bind()
    for key, values in kept.items():
        gin.config._CONFIG[key].update(values)


@contextlib.contextmanager
def unrecorded() -> Iterator[None]:
    """Context manager of calls whose bindings do not count as read, and are not in operative_config.gin."""
    kept = {key: dict(values) for key, values in gin.config._OPERATIVE_CONFIG.items()}
    try:
        yield
    finally:
        gin.config._OPERATIVE_CONFIG.clear()
        gin.config._OPERATIVE_CONFIG.update(kept)


def list_bound(selector: str, parameter: str) -> list[Any]:
    """Returns what a binding names, item by item if it is a list: of "@NAME()" the class, else the value."""
    value = gin.config._CONFIG.get(("", selector), {}).get(parameter, ())
    items = value if isinstance(value, (list, tuple)) else [value]
    return [x.configurable.wrapped if isinstance(x, gin.config.ConfigurableReference) else x for x in items]


def find_macros(values: Any) -> set[str]:
    """Returns the names of the macros in the values of bindings."""
    references = gin.config.iterate_references(values, to=gin.get_configurable("gin.macro"))
    return {"/".join(reference.scopes) for reference in references}


def read_files_with(opener: Callable[[str], Any], can_open: Callable[[str], bool]) -> None:
    """Makes gin open files with `opener`, if `can_open` allows it. Repeated calls change nothing.

    Gin's public `register_file_reader` would add it behind gin's own reader, which takes the file first.
    """
    reader = (opener, can_open)
    if reader not in gin.config._FILE_READERS:
        gin.config._FILE_READERS.insert(0, reader)


class _Turn:
    """The time in which one thread, with those that it starts by `run_in_turn`, has gin for itself."""

    is_over = False


_turns = threading.Lock()
_turn: contextvars.ContextVar[_Turn | None] = contextvars.ContextVar("turn", default=None)


@contextlib.contextmanager
def own_config() -> Iterator[None]:
    """Context manager that gives gin an empty configuration, and restores the previous one at the end.

    In it there are no scope, no hooks and no readers of files of the program's. Another thread that wants the
    same waits until the end, so make here only what reads gin, and use it afterwards. A thread that reads
    gin's configuration without an `own_config` must not do so meanwhile.
    """
    around = _turn.get()
    if around is not None and not around.is_over:
        with _empty_config():
            yield
        return
    with _turns:
        turn = _Turn()
        token = _turn.set(turn)
        try:
            with _empty_config():
                yield
        finally:
            turn.is_over = True
            _turn.reset(token)


def run_in_turn(function: Callable[[], None]) -> Callable[[], None]:
    """Returns a function for another thread, which may enter `own_config` while this thread is in it.

    Without it a thread that makes environments, one of which loads an agent, would wait for the thread that
    waits for the environments.
    """
    return functools.partial(contextvars.copy_context().run, function)


@contextlib.contextmanager
def _empty_config():
    config = gin.config
    # The same objects must stay, because gin's modules refer to them: only their content is swapped.
    stores = [config._CONFIG, config._OPERATIVE_CONFIG, config._SINGLETONS]
    kept, imports, is_locked = [dict(store) for store in stores], set(config._IMPORTS), gin.config_is_locked()
    lists = [config._FILE_READERS, config._FINALIZE_HOOKS]
    kept_lists = [list(x) for x in lists]
    gin.clear_config()
    config._FINALIZE_HOOKS.clear()
    try:
        with gin.config_scope(None):
            yield
    finally:
        gin.clear_config()
        for store, content in zip(stores, kept, strict=True):
            store.update(content)
        for target, items in zip(lists, kept_lists, strict=True):
            target[:] = items
        config._IMPORTS.update(imports)
        # To clear the configuration unlocks it.
        config._set_config_is_locked(is_locked)


def bind_arguments(make: functools.partial) -> functools.partial:
    """Adds the arguments to a call that gin would add in the current scope. They then count as read.

    A worker process, which has no configuration, can then make the call, and so can this process when gin has
    another one. `@Other()` becomes the object that it makes here and now, and `@Other` a partial of `Other`
    with its own arguments.

    Args:
        make: `functools.partial` of any callable.

    Returns:
        a `functools.partial`; `make` itself if gin does not know its callable.
    """
    from alf.core.pickling import can_pickle  # here: the --help of a command does not need cloudpickle

    entry, scope = _find_entry(make.func)
    if entry is None:
        return make
    # Gin's own wrapper finds the values: here it wraps a function that returns its arguments.
    is_class, function = inspect.isclass(entry.wrapped), entry.wrapped
    if is_class:
        function = inspect.unwrap(gin.config._find_class_construction_fn(function))
    described = function, entry.name, entry.selector, entry.allowlist, entry.denylist
    find_arguments = gin.config._make_gin_wrapper(lambda *args, **kwargs: (args, kwargs), *described)
    instance = [None] * is_class  # the first argument of a constructor
    with gin.config_scope(scope):
        args, kwargs = find_arguments(*instance, *make.args, **make.keywords)
    # The wrapper if it can be imported by its name; a class may have been made configurable elsewhere.
    constructor = entry.wrapper if can_pickle(entry.wrapper) else entry.wrapped
    args, kwargs = _bind_callables(args[len(instance) :]), _bind_callables(kwargs)
    return functools.partial(constructor, *args, **kwargs)


def _bind_callables(value):
    """Gives the callables in an argument that gin configures the arguments that gin would add now."""
    if type(value) in (list, tuple):
        return type(value)(map(_bind_callables, value))
    if type(value) is dict:
        return {key: _bind_callables(x) for key, x in value.items()}
    entry, scope = _find_entry(value)
    if entry is None:
        return value
    with gin.config_scope(scope):
        is_bound = bool(gin.get_bindings(entry.wrapped, resolve_references=False))
    return bind_arguments(functools.partial(value)) if is_bound else value


def find_argument(make: Callable[..., Any], name: str) -> Any:
    """Returns the argument that a call of `make` in the current scope would have: of gin, or its default.

    It is None if there is no such argument, or if it has no value yet.
    """
    if isinstance(make, functools.partial):
        return make.keywords[name] if name in make.keywords else find_argument(make.func, name)
    entry, scope = _find_entry(make)
    if entry is not None:
        make = entry.wrapped
        with gin.config_scope(scope):
            bound = gin.get_bindings(make, resolve_references=False)
            if name in bound:
                # A deep copy is how gin evaluates macros and `@Other()`.
                return copy.deepcopy(bound[name])
    parameter = inspect.signature(make).parameters.get(name)
    return None if parameter is None or parameter.default is parameter.empty else parameter.default


def find_binding(make: Callable[..., Any], name: str) -> str | None:
    """Returns the name of gin's binding that gives an argument to a call of `make`; None if there is none."""
    if isinstance(make, functools.partial):
        return None if name in make.keywords else find_binding(make.func, name)
    entry, scope = _find_entry(make)
    if entry is None:
        return None
    scopes = ["/".join(scope[:i]) for i in range(len(scope), -1, -1)]
    bound = list_bindings()
    found = [x for x in scopes if name in bound.get((x, entry.selector), {})]
    return name_binding(found[0], entry.selector, name) if found else None


def _find_entry(make):
    """Returns the entry of gin's registry that a call reads, or None, and the scope of the call."""
    if not (inspect.isclass(make) or inspect.isroutine(make)):
        return None, None
    # Gin makes of "@scope/Mine" a function, or a class whose metaclass has one, that enters the scope and
    # calls `Mine`.
    call = type(make).__call__ if inspect.isclass(make) else make
    # Asked by name: a variable of the user's function may have no value yet.
    if inspect.isfunction(call) and "scope_components" in call.__code__.co_freevars:
        entered = inspect.getclosurevars(call).nonlocals
        inner = make.__base__ if inspect.isclass(make) else entered["fn_or_cls"]
        return _find_entry(inner)[0], entered["scope_components"]
    entry = gin.config._inverse_lookup(make)
    if entry is None and inspect.isclass(make):  # the wrapper of `gin.register` is a subclass
        entry = gin.config._inverse_lookup(make.__base__)
        entry = entry if entry is not None and entry.wrapper is make else None
    return entry, gin.current_scope()
