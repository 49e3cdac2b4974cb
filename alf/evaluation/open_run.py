# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""open_run: the trained agent of a run, with an environment of the run in which it acts."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from alf.config.parsing import bind, check_dead_bindings, wrong_calls_are_config_errors
from alf.config.registry import own_config
from alf.core.annotations import Environment, FilePath
from alf.core.files import relative_to_here
from alf.games.players import add_players
from alf.policies.agent import Agent
from alf.runs.presets import find_bindings
from alf.runs.saved_run import SavedRun, make_env


@contextlib.contextmanager
def open_run(
    run: FilePath,
    batch_size: int,
    settings: Mapping[str, Any],
    checkpoint: str | int = "newest",
    policy: str | None = None,
    seed: int | None = None,
    render_mode: str | None = None,
) -> Iterator[tuple[Agent, Environment, str]]:
    """Context that gives the `Agent` of a run, a batched environment, and the checkpoint's path.

    Gin's configuration is the same afterwards.

    Args:
        run: path of a run, or "alf:TASK".
        batch_size, render_mode: arguments of the environment, if `Experiment.env` has them.
        settings: dict from short names of settings to values, in place of the run's.
        checkpoint: as in `SavedRun.restore`.
        policy: text, the players of `add_players`. None: the run's own policies act.
        seed: int of the environment, or None.

    Raises:
        ConfigError: if there is no such run, checkpoint or policy, or a setting is wrong.
    """
    saved = SavedRun(run)
    with contextlib.ExitStack() as stack:
        stack.enter_context(relative_to_here())
        with own_config(), wrong_calls_are_config_errors():
            saved.read_config()
            bindings = find_bindings(None, None, None, settings)
            bind(bindings)
            saved.check_told()
            acting = saved.make_policy()
            path = saved.restore(acting, checkpoint)
            env = make_env(seed, batch_size, render_mode, maps_policies=policy is None)
            stack.callback(env.close)
            if policy is not None:
                acting, env = add_players(saved, acting, env, policy, checkpoint, seed)
            # Only now: a setting may be for the environment, or for another player.
            check_dead_bindings(bindings)
        yield Agent(acting), env, path
