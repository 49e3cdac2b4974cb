# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""SavedRun: reads a run's directory, to use its trained policy. It writes nothing there."""

import contextlib
import filecmp
import inspect
import numbers
import os
import re
import sys
from collections.abc import Callable

import gin
import tensorflow as tf

from alf.adapters import as_environment
from alf.config import registry
from alf.config.gin_files import CONFIG_FILE, find_agent
from alf.config.parsing import parse_config
from alf.config.registry import find_argument, own_config
from alf.config.settings import configurable
from alf.core.annotations import FilePath, Nest
from alf.core.devices import HOST
from alf.core.files import find_path, open_regular
from alf.core.nest_utils import add_leading_dims, find_mismatch
from alf.errors import ConfigError, argument
from alf.games.players import select_policy
from alf.policies.agent import Agent
from alf.policies.policy import Policy
from alf.runs import checkpoint_files as files
from alf.runs.checkpoint_variables import assign_values
from alf.runs.experiment import Experiment
from alf.runs.run_description import read_description
from alf.runs.run_dir import checkpoints_of
from alf.runs.untold import check_acting

_MAX_TRIES = 10  # to read a checkpoint of a run that goes on and removes its old ones


class SavedRun:
    """The directory of a run, which may go on meanwhile. ConfigError is raised if it holds no run.

    Args:
        root_dir: path, or "alf:TASK" for the agent that ALF brings for one of its tasks.

    Attributes:
        root_dir: path, absolute.
        description: `RunDescription`.
    """

    def __init__(self, root_dir):
        self.root_dir = find_path(find_agent(root_dir))
        self.description = read_description(self.root_dir)

    def read_config(self):
        """Adds the run's configuration to gin's; may raise ConfigError."""
        parse_config([os.path.join(self.root_dir, CONFIG_FILE)])
        self.check_modules()

    def check_modules(self):
        """Raises ConfigError if gin has read the run's configuration with modules that are not the run's."""
        with open_regular(os.path.join(self.root_dir, CONFIG_FILE), encoding="utf-8") as file:
            found = re.findall(r"^(?:import|from) ([\w.]+)(?: import (\w+))?", file.read(), re.MULTILINE)
        # Python does not import a name twice: if another file of this name was imported before, gin has read
        # the run's bindings with that one, without an error.
        for names in found:
            self._check_module(".".join(filter(None, names)))

    def _check_module(self, name):
        """Raises ConfigError if this process has imported another file as this module than the run has."""
        start = os.path.join(*name.split("."))
        ours = getattr(sys.modules.get(name), "__file__", None)
        ends = [f"{start}.py", os.path.join(start, "__init__.py")]
        paths = [os.path.join(folder, file) for folder in self.description.import_paths for file in ends]
        theirs = next(filter(os.path.isfile, paths), None)
        if ours and theirs and not filecmp.cmp(ours, theirs, shallow=False):
            raise ConfigError(
                f"the run's module {name} is {theirs}, but {ours} is imported already: use another process"
            )

    def make_policy(self):
        """Makes the run's `Policy` with new weights on the host, after `read_config`.

        Raises:
            ConfigError: if no file can say how it was made.
        """
        self.check_told(makes_env=False)
        with tf.device(HOST):
            return Experiment().make_policy(*self.description[:3])

    def check_told(self, makes_env=True):
        """Raises ConfigError unless gin's configuration says how to make the policy, and environments."""
        if ("", "alf.training.Experiment") not in registry.list_bindings():
            raise ConfigError(
                f"the run {self.root_dir!r} was built in Python, and no file says how: "
                "alf.load_agent(root_dir, policy=...) takes a policy that the same code makes"
            )
        check_acting(self.description.untold, makes_env)

    def restore(self, policy, checkpoint="newest"):
        """Gives a `Policy` the weights of a checkpoint; returns the checkpoint's path.

        Args:
            policy: `Policy` that gets the weights and the statistics of its data transformers.
            checkpoint: "newest", "best" (of the highest mean return in an evaluation), a train iteration, or
                a checkpoint's path.

        Raises:
            ConfigError: if the checkpoint is missing, damaged, or does not fit the policy.
        """
        path, values = self.read(lambda path: read_policy(policy, path), checkpoint)
        assign_values(values)
        return path

    def read(self, read, checkpoint="newest"):
        """Calls `read` with the path of the checkpoint that `restore` names.

        Args:
            read: callable that takes a path, and raises `DamagedError` if it cannot be read. Then it is
                called with the checkpoint before, if `checkpoint` is "newest" or "best".
            checkpoint: as in `restore`.

        Returns:
            (path, what `read` returned).

        Raises:
            ConfigError: if the checkpoint is missing or damaged.
        """

        # A run that goes on removes old checkpoints, perhaps between the search and the read: then the search
        # finds a newer one. A checkpoint that is there and cannot be read is a damaged one.
        def read_present(path):
            try:
                return read(path)
            except files.DamagedError:
                if os.path.isdir(path):
                    raise
                raise FileNotFoundError from None

        for _ in range(_MAX_TRIES):
            paths = self._list_paths(checkpoint)
            with contextlib.suppress(FileNotFoundError):
                return files.read_first(paths, read_present)
        raise ConfigError(f"the checkpoint {paths[0]} was removed while it was read")

    def find_checkpoint(self, checkpoint="newest"):
        """Returns the path of the checkpoint that `restore` names; it may be damaged."""
        return self._list_paths(checkpoint)[0]

    def _list_paths(self, checkpoint):
        """Lists the paths of the checkpoints that `checkpoint` means: the first one that is not damaged."""
        is_int = isinstance(checkpoint, numbers.Integral) and not isinstance(checkpoint, bool)
        if not (isinstance(checkpoint, (str, os.PathLike)) or (is_int and checkpoint >= 0)):
            raise ConfigError(
                f'{argument("checkpoint")} is {checkpoint!r}: it must be "newest", "best", a number or a path'
            )
        folder = checkpoints_of(self.root_dir)
        if checkpoint == "best":
            folder = os.path.join(folder, "best")
            paths = [path for _, path in files.list_best(folder)]
        else:
            paths = [files.path_of(folder, number) for number in reversed(files.list_numbers(folder))]
        if checkpoint in ("newest", "best"):
            if not paths:
                raise ConfigError(f"there is no {checkpoint} checkpoint in {folder!r}")
            return paths
        is_number = str(checkpoint).isdecimal()
        path = files.path_of(folder, checkpoint) if is_number else find_path(checkpoint)
        if not os.path.isdir(path):
            known = ", ".join(map(str, files.list_numbers(folder)))
            raise ConfigError(f"there is no checkpoint {checkpoint!r}; {folder!r} has {known or 'none'}")
        return [path]


def make_env(seed, batch_size=None, render_mode=None, env=None, maps_policies=True):
    """Makes one batched environment, in which a trained policy acts, in gin's scope "eval".

    So the binding `eval/alf.environments.load.max_episode_steps = 500` is only for such environments.

    Args:
        seed: int or None.
        batch_size, render_mode: arguments of `env`, if it has them; None leaves its defaults.
        env: callable (seed=) -> batched environment; None: `Experiment.env`.
        maps_policies: whether the run's `Policies`, if it has several, decide which acts in which row.
    """
    experiment = Experiment() if env is None else None
    make = env or experiment.make_env
    # No random steps: the policy would be judged by episodes that it did not begin.
    settings = {"batch_size": batch_size, "render_mode": render_mode, "max_random_steps": 0}
    known = inspect.signature(make).parameters
    with gin.config_scope("eval"):
        workers = find_argument(make, "num_workers")
        # The run's workers may be more than these environments.
        if isinstance(workers, int) and batch_size is not None and workers > batch_size:
            settings["num_workers"] = batch_size
        env = make(seed=seed, **{k: v for k, v in settings.items() if v is not None and k in known})
    # Outside of the scope: who acts in which row is a setting of the run, not of an evaluation.
    return experiment.wrap_env(env, seed) if experiment is not None and maps_policies else as_environment(env)


def restore_policy(policy, path):
    """Gives a `Policy` the weights of a checkpoint, and the statistics of its data transformers.

    Raises:
        ConfigError: if the checkpoint is of another policy, or damaged.
    """
    assign_values(read_policy(policy, path))


def read_policy(policy, path):
    """Reads what `restore_policy` assigns, a list of pairs (variable, value)."""
    # In a checkpoint the policy is an attribute of the learner.
    learner = tf.Module()
    learner.policy = policy
    return files.read_variables(path, tf.train.Checkpoint(learner=learner), "policy")


def load_agent(
    root_dir: FilePath,
    checkpoint: str | int = "newest",
    policy: Policy | None = None,
    name: str | None = None,
) -> Agent:
    """Loads the trained policy of a run as an `Agent`, without environments and without writing anything.

    The run may go on meanwhile. Gin's configuration is the same afterwards; other threads must not use gin
    during the call.

    Args:
        root_dir: path, the run's directory; or "alf:TASK", such as "alf:CartPole-v1", for the agent that ALF
            brings for one of its tasks.
        checkpoint: "newest", "best" (of the highest mean return in an evaluation), a train iteration, or a
            checkpoint's path.
        policy: `Policy` that gets the weights. None: one is made from the run's gin configuration; a run that
            was built in Python has none, so it needs a policy here.
        name: text, the name of the policy, for runs with several.

    Raises:
        ConfigError: if there is no such run, checkpoint or policy, it is damaged, or the run's modules are
            missing.
    """
    run = SavedRun(root_dir)
    if policy is None:
        # Gin's configuration is one for the whole process, and may be a run's that trains here.
        with own_config():
            run.read_config()
            policy = run.make_policy()
    selected = select_policy(policy, name)
    run.restore(policy, checkpoint)
    return Agent(selected)


@configurable("alf.training")
def load_behavior(
    root_dir: FilePath, checkpoint: str | int = "newest", deterministic: bool = True
) -> Callable[..., tuple[Nest, Nest]]:
    """Loads the trained policy of another run, to act in the environments of this run.

    In gin: `Experiment.behavior = @load_behavior` and `load_behavior.root_dir = "runs/expert"`. To
    load or play this run afterwards, the other run is not needed.

    Args:
        root_dir, checkpoint: the other run's directory and checkpoint, like the arguments of `load_agent`.
        deterministic: whether the agent takes the mode of its distribution of actions, or samples.

    Returns:
        a behavior for `BehaviorEnvironment`.

    Raises:
        ConfigError: for the reasons that `load_agent` gives.
    """
    # Loaded once. The threads of several environments may call it at the same time, because an agent keeps no
    # state between calls: each environment hands over its own.
    agent = load_agent(root_dir, checkpoint)
    spec = add_leading_dims(agent.observation_spec, None)

    def act(time_step, state):
        # Only where an environment begins: the specs do not change, and a check at each step costs time.
        mismatch = find_mismatch(time_step.observation, spec) if state is None else None
        if mismatch:
            raise ConfigError(
                f"load_behavior.root_dir is {root_dir!r}: its agent needs other observations: {mismatch}"
            )
        return agent.act(*time_step, state, deterministic)

    return act
