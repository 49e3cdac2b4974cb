# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Copies of the runs in this folder."""

import shutil
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
GIN_FILES = {path.stem: path for path in FOLDER.glob("*.gin")}
_TEXTS = {".json", ".gin", ".csv", ".md", ""}


def copy_older(name, folder):
    """Copies a run, a sweep or a population into a folder; returns the path of the copy, a text."""
    root = Path(folder) / name
    shutil.copytree(FOLDER / name, root)
    for path in root.rglob("*"):
        if path.is_file() and path.suffix in _TEXTS:
            path.write_text(path.read_text().replace("ROOT", str(root)))
    return str(root)
