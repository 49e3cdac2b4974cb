# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Reads and writes files of a sweep or a population. Without TensorFlow."""

import csv
import io
import json
import os

from alf.core.files import open_regular, write_file
from alf.errors import FolderError


def read_json(path):
    """Reads a file that is only replaced as a whole; returns None if it does not exist."""
    try:
        with open_regular(path, encoding="utf-8") as file:
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
