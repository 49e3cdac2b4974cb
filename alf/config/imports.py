# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Finds the folders of the user's own modules, so that saved runs can import them again."""

import json
import os
import sys

from alf.core.files import open_regular
from alf.errors import ConfigError, is_installed

RUN_FILE = "run.json"  # the file in a run's directory that holds these folders


def list_own_paths():
    """Returns the folders from which this process imports, without Python's and installed packages."""
    # In the order of `sys.path`, in which a saved run looks for its modules again.
    paths = dict.fromkeys(map(os.path.realpath, sys.path))
    return [path for path in paths if os.path.isdir(path) and not is_installed(path)]


def read_import_paths(root_dir):
    """Reads the folders of a run's modules from `run.json`; [] if there is no run.

    Raises:
        ConfigError: if `run.json` is damaged.
    """
    path = os.path.join(root_dir, RUN_FILE)
    # A gin file need not be in the folder of a run.
    if not os.path.exists(path):
        return []
    try:
        with open_regular(path, encoding="utf-8") as file:
            # Only this entry: specs are for the layers above, which have TensorFlow.
            return list(json.load(file)["import_paths"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"{path} cannot be read: {error!r}") from None
