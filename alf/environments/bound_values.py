# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Gives constructors of environments what gin binds to them: a worker process has no gin configuration."""

import functools
import inspect
import sys

import gin

from alf.workers import can_pickle


def bind_values(make):
    """Adds the arguments that gin would add to a call, in the scope that is active.

    The values count as read, as after a call. `@Other()` becomes the object that it makes here and now.

    Args:
        make: a `functools.partial` of any callable.

    Returns:
        a `functools.partial` that may be pickled if its arguments may; `make` itself if gin does not know
        its callable.
    """
    entry, scope = _find_configurable(make.func)
    if entry is None:
        return make
    # Gin's own wrapper finds the values, around a function that returns them. Gin has no public way to do
    # this that counts them as read; its version is pinned in setup.py.
    is_class, function = inspect.isclass(entry.wrapped), entry.wrapped
    if is_class:
        function = inspect.unwrap(gin.config._find_class_construction_fn(function))
    described = function, entry.name, entry.selector, entry.allowlist, entry.denylist
    find_arguments = gin.config._make_gin_wrapper(lambda *args, **kwargs: (args, kwargs), *described)
    instance = [None] * is_class  # the first argument of a constructor
    with gin.config_scope(scope):
        args, kwargs = find_arguments(*instance, *make.args, **make.keywords)
    # A function's wrapper is what its module has; a class that was made configurable elsewhere has another.
    constructor = entry.wrapper if can_pickle(entry.wrapper) else entry.wrapped
    return functools.partial(constructor, *args[len(instance) :], **kwargs)


def find_lost(make):
    """Returns a text that names a binding that would not reach `make` in a worker, or None.

    There `@Other`, without brackets, is called without what gin binds to `Other`.
    """
    entry, scope = _find_configurable(make.func)
    if entry is None:
        return None
    with gin.config_scope(scope):
        bound = gin.get_bindings(entry.wrapped, resolve_references=False)
        for parameter in bound.keys() - make.keywords.keys():
            for reference in gin.config.iterate_references(bound[parameter]):
                if not reference.evaluate and gin.get_bindings(reference.scoped_selector, False):
                    return f"{entry.name}.{parameter} = {reference!r}"
    return None


def find_imported(entry_point):
    """Returns the constructor that an entry point of Gymnasium names, or None if it is not imported yet."""
    if callable(entry_point):
        return entry_point
    module, _, name = str(entry_point).partition(":")
    return getattr(sys.modules.get(module), name, None)


def _find_configurable(make):
    """Returns the entry of gin's registry that a call reads, or None, and the scope in which it does so."""
    if not (inspect.isclass(make) or inspect.isroutine(make)):
        return None, None
    # "@scope/Mine" is a function, or a class whose class has one, that enters the scope and calls `Mine`.
    call = type(make).__call__ if inspect.isclass(make) else make
    entered = inspect.getclosurevars(call).nonlocals if inspect.isfunction(call) else {}
    if "scope_components" in entered:
        inner = make.__base__ if inspect.isclass(make) else entered["fn_or_cls"]
        return _find_configurable(inner)[0], entered["scope_components"]
    entry = gin.config._inverse_lookup(make)
    if entry is None and inspect.isclass(make):  # the wrapper of `gin.register` is a subclass
        entry = gin.config._inverse_lookup(make.__base__)
        entry = entry if entry is not None and entry.wrapper is make else None
    return entry, gin.current_scope()
