# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""train: from an environment to a trained agent in one call."""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import gin

from alf.algorithms import AlgorithmName
from alf.config.kinds import PositiveInt
from alf.config.parsing import parse_config, wrong_calls_are_config_errors
from alf.config.registry import find_gin_name, own_config
from alf.config.settings import checked
from alf.core.annotations import FilePath
from alf.policies.agent import Agent
from alf.runs.presets import find_bindings, make_parts
from alf.runs.run_dir import choose_root_dir
from alf.training.live_curve import LiveCurve, can_show_curves
from alf.training.trainer import Trainer


class Trained(NamedTuple):
    """The result of `train`.

    Attributes:
        agent: `Agent`, the trained policy.
        run: `Trainer` of the run, which has ended; `run.root_dir` is its directory.
    """

    agent: Agent
    run: Trainer


@checked
def train(
    env: str | Callable[..., Any],
    algorithm: AlgorithmName = "ppo",
    steps: PositiveInt = 100_000,
    root_dir: FilePath | None = None,
    **settings: Any,
) -> Trained:
    """Trains an agent with the settings of a preset.

        agent, run = alf.train("CartPole-v1", algorithm="ppo", steps=100_000)
        action, state = agent.predict(observation)

    The run's directory has checkpoints, figures and all settings. `alf-evaluate`, `alf-play` and `alf-export`
    take it; another call with the same arguments and `root_dir` continues the run. A notebook shows the
    average return while training goes on. What the program itself has bound in gin does not count here, and
    is the same afterwards. Several threads may train at the same time.

    Args:
        env: the name of `alf.environments.load`: an id, "module:Class", or a callable that returns one
            environment. A command can only make environments of a callable that it can import.
        algorithm: "ppo", "impala", "sac" or "dqn".
        steps: environment steps after which training ends.
        root_dir: path of the run's directory. None makes a new one in runs/.
        **settings: other settings by short names, such as `learning_rate=1e-3` or `num_envs=64`, or by full
            names: `**{"Adam.epsilon": 1e-5}`.

    Returns:
        `Trained`, a tuple of an `Agent` and the run's `Trainer`.

    Raises:
        ConfigError: if a setting is wrong.
    """
    # Only while the parts are made, which then have their settings: another thread may train meanwhile.
    with own_config(), wrong_calls_are_config_errors():
        parse_config([])
        bindings = find_bindings(_name_env(env), algorithm, steps, settings)
        for name, value in bindings.items():
            _bind(name, value)
        label = env if isinstance(env, str) else getattr(env, "__name__", "env")
        # Before the trainer, which checks that something has read every binding.
        curves = [LiveCurve()] if can_show_curves() else []
        trainer = Trainer(root_dir or choose_root_dir(algorithm, label), *make_parts())
    for curve in curves:
        trainer.add_callback(curve)
    trainer.train()
    return Trained(Agent(trainer.learner.policy), trainer)


def _name_env(env):
    """Returns "module:Class" for a callable that another process can import by this name; else `env`."""
    module, name = getattr(env, "__module__", None), getattr(env, "__qualname__", "")
    found = getattr(sys.modules.get(module), name, None) if module != "__main__" else None
    return f"{module}:{name}" if callable(env) and found is env else env


def _bind(name, value):
    """Binds a value as the text of a gin file if it has one: operative_config.gin holds only such values."""
    gin_name = find_gin_name(value) if callable(value) else None
    if gin_name is not None:
        parse_config([], [f"{name} = @{gin_name}"], name)
    else:
        gin.bind_parameter(name, value)
