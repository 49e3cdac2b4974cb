# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Reads and writes the state and the tables of a sweep or a population. Without TensorFlow."""

import csv
import glob
import io
import json
import os

from alf.core.files import write_file
from alf.errors import ConfigError
from alf.runs.run_dir import has_checkpoints
from alf.studies.outcome import FINISHED, read_status


class StateFile:
    """The state of a study as a JSON file, which is replaced as a whole when the state changes.

    A study without any checkpoint of its runs has nothing to lose: it begins anew.

    Args:
        folder: path of the study.
        name: name of the file in the folder.
        runs: pattern of the paths of the runs in the folder, such as "members/*".
        keys: list of names that the content must have.
    """

    def __init__(self, folder, name, runs, keys):
        self.path = os.path.join(folder, name)
        self._runs = os.path.join(glob.escape(folder), runs)
        self._keys = {*keys}

    def read(self):
        """Returns the state, a dict, or None if the study begins.

        Raises:
            ConfigError: if the file cannot be read, or is missing though there are runs.
        """
        try:
            with open(self.path, encoding="utf-8") as file:
                state = json.load(file)
        except FileNotFoundError:
            state = None
        except (OSError, RecursionError, ValueError) as error:
            raise damaged(self.path, getattr(error, "strerror", None) or error) from None
        else:
            lacking = self._keys - state.keys() if isinstance(state, dict) else self._keys
            if lacking:
                raise damaged(self.path, f"it has no {', '.join(sorted(lacking))}")
        runs = glob.glob(self._runs)
        has_trained = any(has_checkpoints(path) or read_status(path) == FINISHED for path in runs)
        if not has_trained and not (state and state.get("rows")):
            return None
        if state is None:
            raise damaged(self.path, "it is missing, but there are runs")
        return state

    def write(self, state):
        """Writes the state. If that fails, the old file stays and SaveError is raised."""
        write_file(self.path, json.dumps(state, indent=1) + "\n")


def write_csv(path, lines):
    """Writes lists of cells as a CSV file. If that fails, the old file stays and SaveError is raised."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    write_file(path, text.getvalue())


def damaged(path, reason):
    """Returns the ConfigError for a damaged file that a study needs to go on."""
    return ConfigError(
        f"{path} cannot be read: {reason}; put a good copy of it there, or choose another root_dir"
    )
