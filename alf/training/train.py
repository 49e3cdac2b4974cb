# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""train: from an environment, or a gin file, to a trained agent in one call."""

from collections.abc import Callable
from typing import Any, NamedTuple

from alf.algorithms import AlgorithmName
from alf.config.kinds import PositiveInt
from alf.config.parsing import wrong_calls_are_config_errors
from alf.config.registry import own_config
from alf.config.settings import checked
from alf.core.annotations import FilePath
from alf.errors import is_notebook, rendered_shortly
from alf.policies.agent import Agent
from alf.runs.presets import make_parts, read_what
from alf.runs.run_dir import choose_root_dir
from alf.runs.what import find_what
from alf.training.live_curve import LiveCurve, can_show_curves
from alf.training.trainer import Trainer

_STEPS = 100_000  # of a run on an environment, where nothing says how many


class Trained(NamedTuple):
    """The result of `train`.

    Attributes:
        agent: `Agent`, the trained policy.
        run: `Trainer` of the run, which has ended; `run.root_dir` is its directory.
    """

    agent: Agent
    run: Trainer


@checked
@rendered_shortly()
def train(
    what: FilePath | Callable[..., Any],
    algorithm: AlgorithmName | Callable[..., Any] | None = None,
    steps: PositiveInt | None = None,
    root_dir: FilePath | None = None,
    **settings: Any,
) -> Trained:
    """Trains an agent, as `alf train` does.

        agent, run = alf.train("CartPole-v1", algorithm="ppo", steps=100_000)
        action, state = agent.predict(observation)

    The run's directory has checkpoints, figures and all settings. `alf evaluate`, `alf play` and `alf export`
    take it; another call with the same arguments and `root_dir` continues the run. A notebook shows the
    average return while training goes on. Two lines say where the run is and how it ended. What the program
    itself has bound in gin does not count here, and is the same afterwards. Several threads may train at the
    same time.

    Args:
        what: an environment: an id, "module:Class", "FILE.py:Class", or a callable that returns one
            environment. A command can only make environments of a callable that it can import. Or
            "FILE.gin"; a task, "alf:CartPole-v1"; or the directory of a run, which goes on.
        algorithm: "ppo", "impala", "sac", "td3", "dqn", "qr_dqn", "apex" or "r2d2", with the settings of its
            preset; or a class, an `Algorithm` of your own, without a preset: you must name an optimizer,
            `**{"UnrollLearner.optimizer": Adam()}`. None: "ppo" for an environment; else that of the file.
        steps: environment steps after which training ends. None: 100,000 for an environment; else the
            stop criteria of the file.
        root_dir: path of the run's directory. None makes a new one in runs/.
        **settings: other settings by short names, such as `learning_rate=1e-3` or `num_envs=64`, or by full
            names: `**{"Adam.epsilon": 1e-5}`.

    Returns:
        `Trained`, a tuple of an `Agent` and the run's `Trainer`.

    Raises:
        ConfigError: if a setting is wrong.
        KeyboardInterrupt: after Ctrl-C, once the run is saved. The text says where it is, and how it goes on.
            In a notebook it is printed, and the call returns.
    """
    # Only while the parts are made, which then have their settings: another thread may train meanwhile.
    with own_config(), wrong_calls_are_config_errors():
        named, bindings = read_call(what, algorithm, steps, settings)
        names = [x for x in (bindings.get("Experiment.algorithm"), named.label) if x and isinstance(x, str)]
        # Before the trainer, which checks that something has read every binding.
        curves = [LiveCurve()] if can_show_curves() else []
        with choose_root_dir(root_dir or named.run, *names) as folder:
            trainer = Trainer(folder, *make_parts())
    for curve in curves:
        trainer.add_callback(curve)
    print(f"trains in {trainer.root_dir}", flush=True)
    try:
        _, reason = trainer.train()
        steps = trainer.counters["env_steps"]
        print(f"{trainer.root_dir}: ended after {steps:,} environment steps, {reason}", flush=True)
    except KeyboardInterrupt as error:
        if not is_notebook():
            raise
        print(error)  # The cell ends as if the run had reached its end, with what it has learned.
    except Exception as error:
        steps = trainer.counters["env_steps"]
        print(
            f"{trainer.root_dir}: ended after {steps:,} environment steps, {type(error).__name__}", flush=True
        )
        raise
    return Trained(Agent(trainer.learner.policy), trainer)


def read_call(what, algorithm, steps, settings):
    """Reads the arguments of a call such as `train`; returns the `What`, and the dict of `read_what`."""
    named = find_what(what)
    steps = steps or (None if named.gin_files else _STEPS)
    return named, read_what(named, algorithm, steps, settings)
