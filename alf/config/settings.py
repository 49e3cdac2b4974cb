# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""The registry of settings, the arguments that gin can bind.

Everything about a setting is declared at the argument: its annotation has the type, the bounds and the
`Role`, its default is the default, and the docstring explains it. `configurable` registers a class or a
function and checks the values of its arguments. To add a setting, add an argument.
"""

import contextlib
import enum
import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple, TypeVar

from alf.config import registry
from alf.config.kinds import Above, AtLeast, Kind, find_kind, show
from alf.errors import ConfigError, argument, arguments_of_call

Target = TypeVar("Target", bound=Callable[..., Any])


class Role(enum.Enum):
    """The meaning of another value of a setting, for a run and for comparisons of runs.

    `Annotated[int, Role.EXECUTION]` gives one setting its role, `configurable(..., role=)` all settings of a
    class. The default is CONDITION.
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
        """Whether runs with different values are different experiments, such as two curves in a plot."""
        return self in (Role.CONDITION, Role.ADJUSTABLE)


# Of an argument that only ALF passes, such as the replayer of a learner: gin cannot bind it, and no list of
# settings has it. So it is with other parts of ALF that have no default.
PASSED = object()
Seed = Annotated[int | None, AtLeast(0), Role.SEED]
Timeout = Annotated[float, Above(0), Role.EXECUTION]  # seconds


class Setting(NamedTuple):
    """An argument that gin can bind.

    Attributes:
        owner: full name of its class or function, such as "alf.training.Experiment".
        name: its name, such as "num_envs", or "**kwargs".
        kind: `Kind` of its values.
        default: its default, or `inspect.Parameter.empty`.
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

    @property
    def default_text(self) -> str | None:
        """The default as gin files write it, or None if there is none."""
        if not self.has_default:
            return None
        gin_name = registry.find_gin_name(self.default) if callable(self.default) else None
        return f"@{gin_name}" if gin_name else show(self.default)


_roles: dict[Any, Role] = {}  # from a class or function to the role of all its settings


def configurable(
    module: str,
    name: str | None = None,
    role: Role = Role.CONDITION,
    checks: bool = True,
    claims_name: bool = False,
) -> Callable[[Target], Target]:
    """Returns a decorator for classes and functions whose arguments gin files can bind.

    A call with a value that an annotation does not allow raises ConfigError: "Experiment.num_groups is -1: it
    must be an integer, at least 0".

    Args:
        module: the first part of the name in gin files, such as "alf.training".
        name: the last part of it; None means the name of the class or function.
        role: `Role` of the settings whose annotations have none.
        checks: whether calls check values; False if the class calls `check_arguments` itself.
        claims_name: whether the last part is always enough in gin files, also if TF-Agents registers it.
    """

    def register(target: Target) -> Target:
        # The check is inside of gin's wrapper, so that it sees the values that gin has added to the call.
        passed = [x.name for x in inspect.signature(target).parameters.values() if _is_passed(x)]
        target = checked(target, name) if checks else target
        made = registry.register(target, name or target.__name__, module, passed)
        if claims_name:
            registry.claim_name(made.__name__, f"{module}.{made.__name__}")
        # By the object, so that it holds for this class alone. An attribute, like `Callback.settings_role`,
        # would hold for the classes of users that are derived from it, too.
        _roles[inspect.unwrap(made)] = role
        return made

    return register


def checked(target: Target, name: str | None = None) -> Target:
    """Makes calls of a class or function raise ConfigError for values that its annotations do not allow.

    A function is wrapped; a class stays the same object with another `__init__` or `__new__`. `name` is its
    name in errors, by default its own.
    """
    owner = name or target.__name__
    if not inspect.isclass(target):
        return typing.cast(Target, _check_calls(target, owner))
    # A NamedTuple takes its arguments in `__new__`; it has no `__init__` of its own.
    maker = "__new__" if issubclass(target, tuple) else "__init__"
    setattr(target, maker, _check_calls(getattr(target, maker), owner))
    return target


def _check_calls(function, owner):
    # Computed once, at import: a call only compares values.
    signature = inspect.signature(function)
    kinds = _find_kinds(signature)
    names = [x.name for x in signature.parameters.values() if x.kind is not x.VAR_KEYWORD]
    takes_settings = len(names) < len(signature.parameters)

    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            # Without the defaults, which are right by definition.
            given = signature.bind_partial(*args, **kwargs).arguments
        except TypeError:  # the call below raises a better error
            _explain_unknown(owner, kwargs.keys() - signature.parameters.keys())
            given = {}
        _check_all(owner, given, kinds)
        if names[:1] in (["what"], ["run"]):
            _check_first(owner, names[0], given, kwargs)
        with arguments_of_call(names) if takes_settings else contextlib.nullcontext():
            return function(*args, **kwargs)

    call.__signature__ = signature  # gin does not look through `functools.wraps`
    return call


def _explain_unknown(owner, names):
    """Raises ConfigError if one of the names, which no argument has, is one of another library."""
    from alf.config.hints import translate  # here: it imports this module

    for name in sorted(names):
        if known := translate(name, near=owner):
            raise ConfigError(f"{owner} has no argument {name!r}{known}")


def _check_first(owner, name, given, kwargs):
    """Raises ConfigError if a call says not what to train or to play; in `kwargs` another name may say it."""
    from alf.config.hints import means  # here: it imports this module

    if name not in given:
        wrong = next((x for x in kwargs if means(x, "alf.environments.load.name")), None)
        hint = "" if wrong is None else f", in place of {wrong}={kwargs[wrong]!r}"
        what = "a run" if name == "run" else "an environment, a gin file or a run"
        raise ConfigError(f"{owner} lacks its first argument, {name}: name {what}{hint}")


def check_arguments(function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Raises ConfigError if an annotation does not allow the value of its argument.

    Args:
        function: class or function.
        given: dict from the names of arguments to values; other names are ignored.
    """
    _check_all(function.__name__, given, _find_kinds(inspect.signature(function)))


def _find_kinds(signature):
    """Returns a dict from the names of the arguments that are checked to their `Kind`s."""
    named = [x for x in signature.parameters.values() if x.kind not in (x.VAR_POSITIONAL, x.VAR_KEYWORD)]
    # `*args` and `**kwargs` are someone else's arguments, who checks them.
    kinds = {x.name: find_kind(x.annotation) for x in named if not _is_part(x)}
    return {name: kind for name, kind in kinds.items() if kind.words}


def _check_all(owner, given, kinds):
    for name, value in given.items():
        if name in kinds:
            check_kind(argument(name, owner=owner), value, kinds[name])


def _is_part(parameter):
    """Returns whether an argument is another part of ALF, for example the `policy` of an algorithm.

    It has no default and does not come from gin. The class that takes it checks it.
    """
    types = typing.get_args(parameter.annotation) or (parameter.annotation,)
    # `Any` is a class only since Python 3.11.
    is_object = all(x is Any or inspect.isclass(x) and x not in (bool, int, float, str) for x in types)
    return parameter.default is parameter.empty and is_object


def _is_passed(parameter):
    """Returns whether only ALF passes an argument, so that it is no setting."""
    is_named = parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return is_named and (_is_part(parameter) or PASSED in getattr(parameter.annotation, "__metadata__", ()))


def check_value(name: str, value: Any, annotation: Any) -> None:
    """Raises ConfigError unless an annotation allows the value of the setting `name`."""
    check_kind(name, value, find_kind(annotation))


def check_kind(name: str, value: Any, kind: Kind) -> None:
    """Raises ConfigError unless a `Kind` allows the value of the setting `name`."""
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
    """Returns a dict from name to `Setting` of a class or function with the full name `owner`.

    It is empty for classes without a signature, such as `dict`.
    """
    function = registry.get(owner)
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return {}
    passed = registry.list_passed(owner)
    usual: Any = _roles.get(inspect.unwrap(function)) or getattr(function, "settings_role", Role.CONDITION)
    settings = {}
    for x in parameters:
        if x.kind is not x.VAR_POSITIONAL and x.name not in passed:
            name = "**" * (x.kind is x.VAR_KEYWORD) + x.name
            # An argument with the name "seed" is a seed also in the user's classes, which know no roles.
            role = _find_marker(x.annotation) or (Role.SEED if x.name == "seed" else usual)
            settings[x.name] = Setting(owner, name, find_kind(x.annotation), x.default, role)
    return settings


def find_setting(name: str) -> Setting | None:
    """Returns the `Setting` of a binding, None if it is unknown or its module is not imported.

    Args:
        name: of the binding, with or without scopes and module, such as "eval/Evaluator.num_episodes".
    """
    owner, _, parameter = name.rpartition("/")[2].rpartition(".")
    selector = registry.find(owner)
    return None if selector is None else settings_of(selector).get(parameter)


def find_role(name: str) -> Role:
    """Returns the `Role` of a binding by its name in gin files.

    Bindings with the scope "eval" are for evaluation. Unknown settings, for example of the user's own
    modules, are conditions of the experiment.
    """
    if name.startswith("eval/"):
        return Role.MEASUREMENT
    setting = find_setting(name)
    return Role.CONDITION if setting is None else setting.role


def _find_marker(annotation: Any) -> Role | None:
    """Returns the `Role` in an annotation or in a part of a union, or None."""
    if typing.get_origin(annotation) is Annotated:
        return next((x for x in annotation.__metadata__ if isinstance(x, Role)), None)
    return next(filter(None, map(_find_marker, typing.get_args(annotation))), None)
