# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""RunDescription: the file `run.json`, from which a run's policy is made, with its gin configuration.

The file is JSON, with these entries:

    observation_spec, action_spec, reward_spec: the specs of the environments, in the form of
        `alf.core.spec_json`.
    import_paths: the folders where the run's own modules were found.
    versions: the versions of packages, by name.
    git: the repository of the user's own code: its `root`, its `commit`, and `dirty`, whether tracked files
        were changed since. null without a repository, or without `Trainer.save_git_state`.
    devices: the names of the devices of the "learner" and the "actors", such as "GPU:0".
    untold: the names of settings that no file can say (`alf.runs.untold`).
"""

import contextlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Sequence
from typing import Any, NamedTuple

from absl import logging

from alf.config.imports import RUN_FILE, list_own_paths
from alf.core.files import open_regular
from alf.core.nest_utils import list_leaves
from alf.core.spec_json import nest_from_json, nest_to_json
from alf.errors import ConfigError, FolderError
from alf.runs.untold import list_untold
from alf.version import __version__

_PACKAGES = (
    "tensorflow",
    "keras",
    "tf-agents",
    "tensorflow-probability",
    "gymnasium",
    "numpy",
    "gin-config",
)


class RunDescription(NamedTuple):
    """The content of `run.json`, as the module describes it. Specs are nests of unbatched tensor specs."""

    observation_spec: Any
    action_spec: Any
    reward_spec: Any
    import_paths: list
    versions: dict
    git: dict | None = None
    devices: dict | None = None
    untold: Sequence[str] = ()

    def to_json(self):
        """Returns the text of the file."""
        values = self._asdict()
        values |= {k: nest_to_json(v) for k, v in values.items() if k.endswith("_spec")}
        # A line for each entry: with an indent, each number of a bound would have its own.
        lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in values.items()]
        return "{\n" + ",\n".join(lines) + "\n}\n"


def describe_run(policy, git_state=None, devices=None):
    """Describes this process and the environments that a `Policy` is made for.

    Args:
        policy: `Policy`.
        git_state: `GitState` of the user's own code, or None.
        devices: as in the file, or None.
    """
    spec, versions = policy.time_step_spec, list_versions()
    git = git_state and {"root": git_state.root, "commit": git_state.commit, "dirty": bool(git_state.diff)}
    specs = spec.observation, policy.action_spec, spec.reward
    return RunDescription(*specs, list_own_paths(), versions, git, devices, sorted(list_untold()))


def list_versions():
    """Returns the versions of ALF, Python and packages in this process, a dict of texts by name."""
    versions = {"alf": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def read_description(root_dir):
    """Reads the `RunDescription` of a run; raises ConfigError if the file is missing or damaged."""
    path = os.path.join(root_dir, RUN_FILE)
    try:
        with open_regular(path, encoding="utf-8") as file:
            values = json.load(file)
        _check_types(values)
        specs = {k: nest_from_json(v) for k, v in values.items() if k.endswith("_spec")}
        return RunDescription(**{**values, **specs})
    except FileNotFoundError:
        raise ConfigError(f"{os.fspath(root_dir)!r} holds no run: there is no {RUN_FILE}") from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(f"{os.path.join(root_dir, RUN_FILE)} cannot be read: {error!r}") from None


def check_environments(root_dir, policy):
    """Raises ConfigError if the run in `root_dir` has other environments than a `Policy` is made for."""
    try:
        theirs = read_description(root_dir)
    except ConfigError as error:
        # The file says how the run was made. Without it the run can go on: variables of other shapes are
        # still refused when the checkpoint is restored.
        logging.warning("%s: the environments are not compared with those of the run", error)
        return
    spec = policy.time_step_spec
    specs = {
        "observation_spec": spec.observation,
        "action_spec": policy.action_spec,
        "reward_spec": spec.reward,
    }
    for name, ours in specs.items():
        before, now = (dict(list_leaves({name: x})) for x in (getattr(theirs, name), ours))
        for path in {**before, **now}:
            was, is_now = (nest_to_json(leaves.get(path, ())) for leaves in (before, now))
            if was != is_now:
                what = f"holds a run with other environments: {path} was {was}, it is {is_now} now"
                raise FolderError(root_dir, f"{what}: choose another root_dir")


def _check_types(values):
    """Raises TypeError if the file has other types than `RunDescription.to_json` writes."""
    git = {} if values["git"] is None else values["git"]
    versions = values["versions"]
    for name in ("import_paths", "untold"):
        texts = values.get(name, [])
        if not isinstance(texts, list) or not all(isinstance(x, str) for x in texts):
            raise TypeError(f"{name} is {texts!r}: it must be a list of texts")
    devices = {} if values["devices"] is None else values["devices"]
    for name, value in {"versions": versions, "git": git, "devices": devices}.items():
        if not isinstance(value, dict):
            raise TypeError(f"{name} is {value!r}: it must be a dict")
