# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Which code is the user's own, and from which folders it is imported."""

import json
import os
import sys

import alf
from alf.config.gin_files import EXAMPLES, find_examples
from alf.errors import ConfigError

RUN_FILE = "run.json"  # of a run's directory, see `alf.runs.run_description`


def is_installed(path):
    """Whether a path is one of Python's, or of installed packages.

    ALF's examples are not: a gin file imports the modules among them as it imports the user's.
    """
    folders = [os.path.join(os.path.realpath(x), "") for x in (sys.prefix, sys.base_prefix, sys.exec_prefix)]
    return os.path.join(os.path.realpath(path), "").startswith(tuple(folders)) and not _is_example(path)


def is_of_user(path):
    """Whether a file of Python code is the user's: it is neither installed nor part of ALF's package."""
    package = os.path.join(os.path.dirname(os.path.realpath(alf.__file__)), "")
    is_alf = os.path.realpath(path).startswith(package)
    return not path.startswith("<") and not is_installed(path) and (not is_alf or _is_example(path))


def list_own_paths():
    """Returns the folders from which this process imports, without Python's and installed packages."""
    paths = dict.fromkeys(map(os.path.realpath, sys.path))
    return [path for path in paths if os.path.isdir(path) and not is_installed(path)]


def write_import_paths(paths):
    """Returns the folders as `run.json` has them: "alf:" stands for the folder of ALF's examples."""
    return [EXAMPLES if path == find_examples() else path for path in paths]


def resolve_import_paths(paths):
    """Returns the folders that `write_import_paths` has made of them."""
    return [find_examples() if path == EXAMPLES else path for path in paths]


def read_import_paths(root_dir):
    """Returns the folders where the modules of a run may be; an empty list if there is no run.

    Raises ConfigError if `run.json` is damaged.
    """
    path = os.path.join(root_dir, RUN_FILE)
    if not os.path.exists(path):
        return []
    try:
        with open(path, encoding="utf-8") as file:
            return resolve_import_paths(json.load(file)["import_paths"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"root_dir {root_dir!r}: {RUN_FILE} cannot be read: {error!r}") from None


def _is_example(path):
    return os.path.join(os.path.realpath(path), "").startswith(os.path.join(find_examples(), ""))
