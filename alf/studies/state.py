# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Reads and writes the state and the tables of a sweep or a population. Without TensorFlow."""

import csv
import glob
import io
import json
import os

from alf.core.files import write_file
from alf.errors import FolderError
from alf.runs.run_dir import has_checkpoints
from alf.studies.outcome import FINISHED, read_status


def read_state(path, runs, keys):
    """Reads the state of a study; returns None if the study begins.

    A study without any checkpoint of its runs has nothing to lose: it begins anew.

    Args:
        path: path of the JSON file with the state.
        runs: pattern of the paths of the runs in the folder of the file, such as "members/*".
        keys: set of names that the state must have.

    Raises:
        ConfigError: if the file cannot be read, or is missing though there are runs.
    """
    state = None
    try:
        with open(path, encoding="utf-8") as file:
            state = json.load(file)
    except FileNotFoundError:
        pass
    # json raises a RecursionError where brackets are nested too deeply.
    except (OSError, RecursionError, ValueError) as error:
        raise damaged(path, getattr(error, "strerror", None) or error) from None
    else:
        lacking = keys - state.keys() if isinstance(state, dict) else keys
        if lacking:
            raise damaged(path, f"it has no {', '.join(sorted(lacking))}")
    # The runs' folders decide whether there is something to lose, not the state file, which is written before
    # the first run starts. `rows`, a population's table, counts even if its runs were removed.
    folders = glob.glob(os.path.join(glob.escape(os.path.dirname(path)), runs))
    has_trained = any(has_checkpoints(run) or read_status(run) == FINISHED for run in folders)
    if not has_trained and not (state and state.get("rows")):
        return None
    if state is None:
        raise damaged(path, "it is missing, but there are runs")
    return state


def read_json(path):
    """Reads a file that is only replaced as a whole; returns None if it does not exist."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def write_json(path, value):
    """Writes a JSON file. If that fails, the old file stays and SaveError is raised."""
    write_file(path, json.dumps(value, indent=1) + "\n")


def write_csv(path, lines):
    """Writes lists of cells as a CSV file. If that fails, the old file stays and SaveError is raised."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    write_file(path, text.getvalue())


def damaged(path, reason):
    """Returns the FolderError for a damaged file that a study needs to go on."""
    folder, name = os.path.split(path)
    remedy = "put a good copy of it there, or choose another root_dir"
    return FolderError(folder, f"is damaged: {name} cannot be read: {reason}; {remedy}")
