# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""RunDescription: what re-creates a run's policy, besides its gin configuration, as the file `run.json`.

The file is JSON: `observation_spec`, `action_spec` and `reward_spec` of the environments, see
`alf.spec_json`; `import_paths`, the folders where the run's own modules were found, where "alf:" stands for
that of ALF's examples, wherever ALF is installed; `versions` of packages;
`git`, the repository of the user's own code: its `root`, its `commit`, and whether it is `dirty`, that is,
files that it tracks were changed since. It is null without a repository, or without `Trainer.save_git_state`.
"""

import importlib.metadata
import json
import os
import platform
import sys
from typing import Any, NamedTuple

import alf
from alf.errors import ConfigError
from alf.spec_json import nest_from_json, nest_to_json
from alf.training.gin_files import EXAMPLES, find_examples
from alf.version import __version__

RUN_FILE = "run.json"
_PACKAGES = (
    "tensorflow",
    "tf_keras",
    "tf-agents",
    "tensorflow-probability",
    "gymnasium",
    "numpy",
    "gin-config",
)


class RunDescription(NamedTuple):
    """See the module. Specs are nests of unbatched tensor specs."""

    observation_spec: Any
    action_spec: Any
    reward_spec: Any
    import_paths: list
    versions: dict
    git: dict | None = None

    def to_json(self):
        """Returns the text of the file."""
        values = self._asdict()
        values |= {k: nest_to_json(v) for k, v in values.items() if k.endswith("_spec")}
        values["import_paths"] = [EXAMPLES if x == find_examples() else x for x in self.import_paths]
        return json.dumps(values, indent=1) + "\n"


def describe_run(policy, git_state=None):
    """Describes this process and the environments that a `Policy` is made for.

    `git_state` is the `GitState` of `list_own_paths`, or None.
    """
    spec = policy.time_step_spec
    versions = {"alf": __version__, "python": platform.python_version()}
    versions |= {name: importlib.metadata.version(name) for name in _PACKAGES}
    git = git_state and {"root": git_state.root, "commit": git_state.commit, "dirty": bool(git_state.diff)}
    return RunDescription(spec.observation, policy.action_spec, spec.reward, list_own_paths(), versions, git)


def read_description(root_dir):
    """Reads the `RunDescription` of a run; raises ConfigError if there is none, or it is damaged."""
    path = os.path.join(root_dir, RUN_FILE)
    try:
        with open(path, encoding="utf-8") as file:
            values = json.load(file)
        _check_types(values)
        specs = {k: nest_from_json(v) for k, v in values.items() if k.endswith("_spec")}
        paths = [find_examples() if x == EXAMPLES else x for x in values["import_paths"]]
        return RunDescription(**{**values, **specs, "import_paths": paths})
    except FileNotFoundError:
        raise ConfigError(f"root_dir {root_dir!r} holds no run: there is no {RUN_FILE}") from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(f"root_dir {root_dir!r}: {RUN_FILE} cannot be read: {error!r}") from None


def _check_types(values):
    """Raises TypeError if the content of the file is not what `RunDescription.to_json` writes."""
    git = {} if values.get("git") is None else values["git"]
    paths, versions = values["import_paths"], values["versions"]
    if not isinstance(paths, list) or not all(isinstance(x, str) for x in paths):
        raise TypeError(f"import_paths is {paths!r}: it must be a list of texts")
    for name, value in {"versions": versions, "git": git}.items():
        if not isinstance(value, dict):
            raise TypeError(f"{name} is {value!r}: it must be a dict")


def find_import_paths(root_dir):
    """The folders where the modules of a run may be; an empty list if there is no run in the folder."""
    if not os.path.exists(os.path.join(root_dir, RUN_FILE)):
        return []
    return [path for path in read_description(root_dir).import_paths if os.path.isdir(path)]


def is_installed(path):
    """Whether a path is one of Python's, or of installed packages.

    ALF's examples are not: a gin file imports the modules among them as it imports the user's.
    """
    folders = [os.path.join(os.path.realpath(x), "") for x in (sys.prefix, sys.base_prefix, sys.exec_prefix)]
    return os.path.join(os.path.realpath(path), "").startswith(tuple(folders)) and not _is_example(path)


def _is_example(path):
    return os.path.join(os.path.realpath(path), "").startswith(os.path.join(find_examples(), ""))


def is_of_user(path):
    """Whether a file of Python code is the user's: no installed one, none of ALF's package."""
    package = os.path.join(os.path.dirname(os.path.realpath(alf.__file__)), "")
    is_alf = os.path.realpath(path).startswith(package)
    return not path.startswith("<") and not is_installed(path) and (not is_alf or _is_example(path))


def list_own_paths():
    """The folders from which this process imports, without those of Python and of installed packages."""
    paths = dict.fromkeys(map(os.path.realpath, sys.path))
    return [path for path in paths if os.path.isdir(path) and not is_installed(path)]
