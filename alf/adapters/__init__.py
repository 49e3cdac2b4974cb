# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Objects of ALF for TF-Agents, and of TF-Agents for ALF. TF-Agents is imported when one of them is used.

ALF's drivers take environments, metrics and observers of TF-Agents as they are.
"""

import importlib
import inspect
import sys
from typing import TYPE_CHECKING, Any

import gin

from alf.callback import check_takes
from alf.config.kinds import show
from alf.errors import TF_AGENTS_COMMAND, ConfigError

if TYPE_CHECKING:  # the names of `_MODULES`, for type checkers and editors
    from alf.adapters.tf_agents_environment import TFAgentsEnvironment
    from alf.adapters.tf_agents_metric import TFAgentsMetric, TrajectoryObserver
    from alf.adapters.tf_agents_policy import TFAgentsPolicy, make_saver

_MODULES = {
    "TFAgentsEnvironment": "tf_agents_environment",
    "TFAgentsMetric": "tf_agents_metric",
    "TFAgentsPolicy": "tf_agents_policy",
    "TrajectoryObserver": "tf_agents_metric",
    "make_saver": "tf_agents_policy",
}

__all__ = [
    "TFAgentsEnvironment",
    "TFAgentsMetric",
    "TFAgentsPolicy",
    "TrajectoryObserver",
    "as_metric",
    "make_saver",
]


def as_environment(env: Any) -> Any:
    """Returns an environment as a batched environment of ALF, if TF-Agents made it; else as it is.

    A `TFPyEnvironment` is unwrapped; another `TFEnvironment` becomes a `GraphEnvironment`.
    """
    if not _is_of(env, "environments.tf_environment", "TFEnvironment"):
        return env
    if hasattr(type(env), "pyenv"):  # not of the object: TF-Agents' wrappers have all attributes inside them
        return env.pyenv
    from alf.adapters.graph_environment import GraphEnvironment

    return GraphEnvironment(env)


def as_metric(metric: Any, num_rows: int) -> Any:
    """Returns a user's metric for a driver of `num_rows` sub-environments; ConfigError if it is not a metric.

    A metric of TF-Agents becomes a `TFAgentsMetric`.
    """
    # The maker of such a metric has imported its module: this need not import TF-Agents to find out.
    kinds = ("py_metric", "PyStepMetric"), ("tf_metric", "TFStepMetric")
    if any(_is_of(metric, f"metrics.{module}", name) for module, name in kinds):
        from alf.adapters.tf_agents_metric import TFAgentsMetric

        return TFAgentsMetric(metric, num_rows)
    names = "name", "result", "get_state", "set_state"
    if inspect.isclass(metric) or not all(hasattr(metric, name) for name in names):
        raise ConfigError(
            f"metrics: {metric!r} is neither an object of alf.drivers.metrics.Metric nor a PyStepMetric or "
            "TFStepMetric of TF-Agents"
        )
    _check_takes_record("metrics", metric)
    return metric


def as_observer(observer: Any, num_rows: int) -> Any:
    """Returns a user's observer for a driver of `num_rows` sub-environments.

    A method of a replay buffer of TF-Agents becomes a `TrajectoryObserver`; any other observer stays.
    Raises ConfigError if it cannot be called with a record.
    """
    if not _is_of(getattr(observer, "__self__", None), "replay_buffers.replay_buffer", "ReplayBuffer"):
        _check_takes_record("observers", observer)
        return observer
    from alf.adapters.tf_agents_metric import TrajectoryObserver

    return TrajectoryObserver(observer, num_rows)


def import_adapter(name: str, user: str) -> Any:
    """Imports and returns an object of this package, and with it TF-Agents.

    Args:
        name: text, such as "TFAgentsPolicy".
        user: text, what needs it.

    Raises:
        ConfigError: if TF-Agents, or a package that it needs, is not installed.
    """
    try:
        # TF-Agents registers its classes with gin, which is locked once a configuration is read.
        with gin.unlock_config():
            module = importlib.import_module(f"alf.adapters.{_MODULES[name]}")
    except ImportError as error:
        raise ConfigError(f"{user} needs TF-Agents ({error}): {TF_AGENTS_COMMAND}") from error
    return getattr(module, name)


def _check_takes_record(setting, called):
    check_takes(
        f"Monitoring.{setting}: {show(called)}", called, 1, "a driver calls it with one argument, a LogRecord"
    )


def _is_of(value, module, name):
    """Returns whether a value has a class of TF-Agents, without an import of TF-Agents."""
    module = sys.modules.get(f"tf_agents.{module}")
    return module is not None and isinstance(value, getattr(module, name))


if not TYPE_CHECKING:  # With `__getattr__` a type checker would accept every name.

    def __getattr__(name):
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return import_adapter(name, name)
