# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The registry of settings: what ALF knows about each argument that gin can bind.

All of it stands at the argument: its annotation has the type, the bounds and the `Role`, its default is the
default, and the docstring says what it is. `configurable` registers a class or a function and checks the
values of its arguments. To add a setting is to add an argument.
"""

import enum
import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple, TypeVar

import gin

from alf.config import registry
from alf.config.kinds import Above, AtLeast, Kind, find_kind, show
from alf.errors import ConfigError

Target = TypeVar("Target", bound=Callable[..., Any])


class Role(enum.Enum):
    """What another value of a setting means for a run and for comparisons of runs.

    `Annotated[int, Role.EXECUTION]` gives a setting its role, `configurable(..., role=)` those of all
    settings of a class. A setting without one is CONDITION.
    """

    CONDITION = "makes another experiment; a run keeps the value with which it began"
    ADJUSTABLE = "makes another experiment, but a run may go on with another value"
    SEED = "repeats the experiment; a run keeps the value with which it began"
    MEASUREMENT = "says when runs end and how they are measured; a run may go on with another value"
    EXECUTION = "only says how a run is carried out; a run may go on with another value"

    @property
    def may_change(self) -> bool:
        """Whether a run may go on with another value."""
        return self not in (Role.CONDITION, Role.SEED)

    @property
    def tells_apart(self) -> bool:
        """Whether runs with other values are other experiments, such as two curves in a plot."""
        return self in (Role.CONDITION, Role.ADJUSTABLE)


Seed = Annotated[int | None, AtLeast(0), Role.SEED]
Timeout = Annotated[float, Above(0), Role.EXECUTION]  # seconds


class Setting(NamedTuple):
    """An argument that gin can bind.

    Attributes:
        owner: full name of what has the argument, "alf.training.Experiment".
        name: of the argument, "num_envs"; with two stars in front if it stands for all others.
        kind: `Kind` of its values.
        default: its default; `inspect.Parameter.empty` if there is none.
        role: its `Role`.
    """

    owner: str
    name: str
    kind: Kind
    default: Any
    role: Role

    @property
    def has_default(self) -> bool:
        return self.default is not inspect.Parameter.empty


_roles: dict[Any, Role] = {}  # of classes and functions as a whole


def configurable(
    module: str,
    name: str | None = None,
    role: Role = Role.CONDITION,
    checks: bool = True,
    claims_name: bool = False,
) -> Callable[[Target], Target]:
    """Returns a decorator for classes and functions whose arguments gin files can bind.

    A call with a value that an annotation does not allow raises ConfigError: "Experiment.num_envs is -1: it
    must be an integer, at least 0".

    Args:
        module: first part of the name in gin files, "alf.training".
        name: last part of it; None: the name of the class or function.
        role: `Role` of those settings whose annotations have none.
        checks: whether calls check values; if not, the class calls `check_arguments` itself.
        claims_name: whether the last part alone is always enough in gin files. TF-Agents registers some of
            the same names, which would be ambiguous in a program that imports it.
    """

    def register(target: Target) -> Target:
        made: Target = gin.configurable(name or target.__name__, module=module)(
            checked(target, name) if checks else target
        )
        if claims_name:
            registry.claim_name(made.__name__, f"{module}.{made.__name__}")
        _roles[inspect.unwrap(made)] = role
        return made

    return register


def checked(target: Target, name: str | None = None) -> Target:
    """Makes calls of a class or function raise ConfigError for values that its annotations do not allow.

    A class stays the same object, whose `__init__` or `__new__` is replaced. Errors call it `name`; None: its
    own name.
    """
    owner = name or target.__name__
    if not inspect.isclass(target):
        return typing.cast(Target, _check_calls(target, owner))
    maker = "__new__" if issubclass(target, tuple) else "__init__"
    setattr(target, maker, _check_calls(getattr(target, maker), owner))
    return target


def _check_calls(function, owner):
    signature = inspect.signature(function)
    kinds = _find_kinds(signature)

    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            given = signature.bind_partial(*args, **kwargs).arguments
        except TypeError:  # the call itself says what is wrong
            given = {}
        _check_all(owner, given, kinds)
        return function(*args, **kwargs)

    call.__signature__ = signature  # gin does not unwrap
    return call


def check_arguments(function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Raises ConfigError if a value is of another kind than the annotation of the argument allows.

    Args:
        function: class or function.
        given: dict from the names of arguments to values; other names do not matter.
    """
    _check_all(function.__name__, given, _find_kinds(inspect.signature(function)))


def _find_kinds(signature):
    """Returns a dict from name to `Kind` of the arguments that are checked."""
    named = [x for x in signature.parameters.values() if x.kind not in (x.VAR_POSITIONAL, x.VAR_KEYWORD)]
    kinds = {x.name: find_kind(x.annotation) for x in named if not _is_part(x)}
    return {name: kind for name, kind in kinds.items() if kind.words}


def _check_all(owner, given, kinds):
    for name, value in given.items():
        if name in kinds:
            check_kind(f"{owner}.{name}", value, kinds[name])


def _is_part(parameter):
    """Whether an argument is another part of ALF, the `policy` of an algorithm for example.

    It has no default, and gin does not make it. Who takes it says what is wrong with it.
    """
    types = typing.get_args(parameter.annotation) or (parameter.annotation,)
    is_object = all(inspect.isclass(x) and x not in (bool, int, float, str) for x in types)
    return parameter.default is parameter.empty and is_object


def check_value(name: str, value: Any, annotation: Any) -> None:
    """Raises ConfigError unless an annotation allows a value; `name` is that of the setting."""
    check_kind(name, value, find_kind(annotation))


def check_kind(name: str, value: Any, kind: Kind) -> None:
    """Does the same for the `Kind` of an annotation."""
    if kind.accepts(value):
        return
    if kind.item is not None and isinstance(value, (list, tuple, Mapping)):  # name the item that is wrong
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            check_kind(f"{name}[{key!r}]", item, kind.item)
    is_plain = isinstance(value, (bool, int, float, str))
    hint = f": write ({value!r},)" if is_plain and kind.accepts((value,)) else ""
    raise ConfigError(f"{name} is {show(value)}: it must be {kind.words}{hint}")


@functools.cache
def settings_of(owner: str) -> dict[str, Setting]:
    """Returns the settings of a class or function by their names; `owner` is its full name.

    It is empty for one that Python knows no signature of, such as `dict`.
    """
    function = registry.get(owner)
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return {}
    usual: Any = _roles.get(inspect.unwrap(function)) or getattr(function, "settings_role", Role.CONDITION)
    return {
        x.name: Setting(owner, _star(x), find_kind(x.annotation), x.default, _find_role(x) or usual)
        for x in parameters
        if x.kind is not x.VAR_POSITIONAL
    }


def find_setting(name: str) -> Setting | None:
    """Returns the `Setting` that a binding sets; None if it is unknown, or of a module that is not imported.

    Args:
        name: as gin files bind it, with or without scopes and module: "eval/Evaluator.num_episodes".
    """
    owner, _, parameter = name.rpartition("/")[2].rpartition(".")
    selector = registry.find(owner)
    return None if selector is None else settings_of(selector).get(parameter)


def find_role(name: str) -> Role:
    """Returns the `Role` of a binding by its name in gin files.

    What has the scope "eval" is for evaluation. An unknown setting, such as one of the user's own modules,
    is a condition of the experiment.
    """
    if name.startswith("eval/"):
        return Role.MEASUREMENT
    setting = find_setting(name)
    return Role.CONDITION if setting is None else setting.role


def _find_role(parameter: inspect.Parameter) -> Role | None:
    """Returns the `Role` of a parameter by its annotation, else by its name; None if neither says one."""
    return _find_marker(parameter.annotation) or (Role.SEED if parameter.name == "seed" else None)


def _find_marker(annotation: Any) -> Role | None:
    """Returns the `Role` in an annotation, also in one part of a union, or None."""
    if typing.get_origin(annotation) is Annotated:
        return next((x for x in annotation.__metadata__ if isinstance(x, Role)), None)
    return next(filter(None, map(_find_marker, typing.get_args(annotation))), None)


def _star(parameter):
    return f"**{parameter.name}" if parameter.kind is parameter.VAR_KEYWORD else parameter.name
